"""Calls by WebRTC at a gateway of several processes: each belongs to one, and the others ask that one; with real processes."""

import asyncio
import json
from typing import Any

import pytest
from tests.gateway.calls import CALLS, PORTS, Phone, call
from tests.gateway.conftest import House, MemoryObserver
from tests.gateway.realtime import in_order, receive, send, talk, until
from tests.gateway.test_serve import Served, serving
from tests.shared import PATIENCE
from websockets.exceptions import ConnectionClosed, InvalidStatus

from smg_simulator.engine.engine import SimulatorConfig

pytestmark = [pytest.mark.anyio, pytest.mark.full]  # starts processes

LISTENERS = 8
ASKED = 6  # connections, of which the kernel gives some to either process


def house_of(served: Served) -> Any:
    return House(None, served.http, MemoryObserver(), str(served.http.base_url).rstrip("/"))  # type: ignore[arg-type]


async def test_a_call_is_listened_in_to_and_hung_up_through_whatever_process_is_asked() -> None:
    async with serving(SimulatorConfig(seed=1), "--processes", "2", "--realtime-udp-ports", PORTS) as served:
        house = house_of(served)
        for _ in range(2):
            async with call(house, sound=False) as phone:
                await phone.until("conversation.created")
                await listened_in(house, phone)
                async with asyncio.timeout(PATIENCE):
                    await phone.closed.wait()
        for _ in range(ASKED):
            assert await fresh(house, f"{CALLS}/rtc_none/hangup") == 404
        refused = []
        for _ in range(ASKED):
            with pytest.raises(InvalidStatus) as refusal:
                async with talk(house, "/v1/realtime?call_id=rtc_none"):
                    pass
            refused.append(refusal.value.response.status_code)
    assert refused == [404] * ASKED


async def all_of(socket: Any) -> None:
    """Receive until the connection is closed."""
    while True:
        await receive(socket)


async def fresh(house: House, path: str) -> int:
    """The status of a POST over a connection of its own, which any process may have."""
    import httpx

    async with httpx.AsyncClient(base_url=house.url, timeout=PATIENCE, trust_env=False) as http:
        return (await http.post(path)).status_code


async def listened_in(house: House, phone: Phone) -> None:
    """Many listen in, through both processes, and hear the same response, which one of them asks for."""
    path = f"/v1/realtime?call_id={phone.id}"
    sockets = [await talk(house, path) for _ in range(ASKED)]
    assert [(await receive(each))["type"] for each in sockets] == ["session.created"] * ASKED
    content = [{"type": "input_text", "text": "Hello"}]
    await send(sockets[0], "conversation.item.create", item={"type": "message", "role": "user", "content": content})
    for each in sockets:
        await until(each, "conversation.item.done")
    await send(sockets[-1], "response.create", response={"max_output_tokens": 3})
    heard = [in_order(await until(each, "response.done")) for each in sockets]
    assert all(events == heard[0] for events in heard)
    await sockets[1].send(b"\0")
    assert (await until(sockets[2], "error"))[-1]["error"]["message"] == "A frame is text."
    more = [await talk(house, path) for _ in range(LISTENERS - ASKED)]
    for each in more:
        await receive(each)
    with pytest.raises(InvalidStatus) as refused:
        async with talk(house, path):
            pass
    assert json.loads(refused.value.response.body)["error"]["code"] == "too_many_connections"
    await sockets[3].close()
    for each in (*sockets[4:], *more):
        await each.close()
    assert await fresh(house, f"{phone.location}/hangup") == 200
    with pytest.raises(ConnectionClosed):
        await all_of(sockets[0])
