"""What carries a session over a call: what a client can make it hold is bounded, and events that nobody knows do it no harm."""

import asyncio
import json
from typing import Any

import pytest

from smg_core.apis.realtime.carrier import CallCarrier
from smg_core.errors import Overloaded

pytestmark = pytest.mark.anyio

MOST, WAITING = 2000, 1000
CLEAR = json.dumps({"type": "output_audio_buffer.clear"})


async def unread(text: str) -> bool:
    """A channel whose client reads nothing."""
    await asyncio.Event().wait()
    return False


@pytest.mark.parametrize("message", ["", b"", "{}", CLEAR, "x" * (MOST + 1)])
async def test_a_client_that_sends_more_than_is_read_or_reads_no_answer_is_left(message: str | bytes) -> None:
    carrier = CallCarrier("rtc_1", unread, MOST, WAITING)
    for _ in range(100):
        carrier.from_client(message)
    with pytest.raises(Overloaded):
        carrier.check_joins()


async def test_a_client_whose_messages_are_read_is_not_left() -> None:
    carrier = CallCarrier("rtc_1", unread, MOST, WAITING)
    assert (await carrier.receive())["type"] == "websocket.connect"
    for _ in range(1000):
        carrier.from_client("")
        assert (await carrier.receive())["type"] == "websocket.receive"
    carrier.check_joins()


@pytest.mark.parametrize(
    "odd",
    [
        {"type": "session.updated"},
        {"type": "session.updated", "session": None},
        {"type": "response.created", "response": "no"},
        {"type": "response.created", "response": {"audio": {"output": {"format": {"type": "audio/pcmu"}}}, "id": []}},
        {"type": "response.done"},
        {"type": "response.done", "response": {"id": ["a"]}},
        {"type": "error", "error": "no"},
        {"type": "error"},
        {"type": "response.output_audio.delta", "delta": 5},
        {"type": "response.output_audio.delta", "delta": "no base64"},
    ],
)
async def test_an_event_of_another_server_that_nobody_knows_does_a_call_no_harm(odd: dict[str, Any]) -> None:
    told: list[str] = []

    async def send(text: str) -> bool:
        told.append(json.loads(text)["type"])
        return True

    carrier = CallCarrier("rtc_1", send, MOST, WAITING)
    await carrier.send({"type": "websocket.send", "text": json.dumps(odd)})
    await carrier.send({"type": "websocket.send", "text": json.dumps({"type": "session.updated", "session": {}})})
    await carrier.all_sent()
    assert told[-1] == "session.updated"
