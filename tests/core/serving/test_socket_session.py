"""A WebSocket's session, apart from the messages that go over it: here those of a toy API that repeats what it is told."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import attrs
import pytest

from smg_core import Gateway
from smg_core.errors import InvalidRequest, SmgError
from smg_core.http.websocket import WebSocket
from smg_core.serving.services import Services
from smg_core.serving.socket_session import SocketSession
from smg_simulator.engine.engine import SimulatorConfig

pytestmark = pytest.mark.anyio

SCOPE: dict[str, Any] = {"type": "websocket", "path": "/echo", "query_string": b"", "headers": [], "client": None}


@attrs.define
class Wire:
    """Both ends of a connection as ASGI has them: what the client sends, and what it got."""

    inbox: "asyncio.Queue[dict[str, Any]]" = attrs.field(factory=asyncio.Queue)
    sent: list[dict[str, Any]] = attrs.field(factory=list)

    def say(self, text: str) -> None:
        self.inbox.put_nowait({"type": "websocket.receive", "text": text})

    def leave(self) -> None:
        self.inbox.put_nowait({"type": "websocket.disconnect", "code": 1000, "reason": ""})

    async def send(self, message: Any) -> None:
        self.sent.append(message)
        if message["type"] == "websocket.close":
            self.leave()

    @property
    def texts(self) -> list[str]:
        return [each["text"] for each in self.sent if each["type"] == "websocket.send"]


class Echo:
    """Answers a frame with itself, "wait" once it is `let_go`, "bad" with an error, and fails at "fault"."""

    def __init__(self, socket: WebSocket) -> None:
        self._socket = socket
        self.session: SocketSession[str]
        self.let_go = asyncio.Event()
        self.gone = False

    def read(self, data: bytes | bytearray) -> str:
        return data.decode()

    async def take(self, frame: str) -> None:
        if frame == "bad":
            raise InvalidRequest("This is bad.")
        self.session.begin(self._answer(frame), frame, lambda: None)

    async def _answer(self, frame: str) -> None:
        if frame == "wait":
            await self.let_go.wait()
        if frame == "fault":
            raise RuntimeError("nobody has foreseen this")
        await self._socket.send(frame)

    def error(self, error: SmgError, id: str, about: str | None) -> str:
        return f"{error.status} about {about}"

    def expired(self) -> SmgError:
        return InvalidRequest("Its time is over.")

    def left(self) -> None:
        self.gone = True
        self.let_go.set()


@pytest.fixture
async def services() -> AsyncIterator[Services]:
    async with Gateway.simulated(SimulatorConfig(seed=1)) as gateway:
        yield gateway.services


def connection(services: Services, lifetime_s: float = 60.0) -> tuple[Wire, Echo, "asyncio.Task[None]"]:
    wire = Wire()
    socket = WebSocket(dict(SCOPE), wire.inbox.get, wire.send)
    echo = Echo(socket)
    session = echo.session = SocketSession[str](services, socket, lifetime_s=lifetime_s, most=20)
    return wire, echo, asyncio.create_task(session.run(echo))


async def test_frames_are_answered_beside_one_another_and_errors_are_told_of_their_frame(services: Services) -> None:
    wire, echo, running = connection(services)
    for text in ("wait", "a", "bad"):
        wire.say(text)
    while len(wire.texts) < 2:
        await asyncio.sleep(0)
    echo.let_go.set()
    while len(wire.texts) < 3:
        await asyncio.sleep(0)
    wire.leave()
    await running

    assert sorted(wire.texts[:2]) == ["400 about bad", "a"]
    assert wire.texts[2] == "wait"


async def test_a_frame_over_the_bound_closes_the_connection(services: Services) -> None:
    wire, _, running = connection(services)
    wire.say("x" * 21)
    await running

    assert wire.texts == ["413 about None"]
    assert wire.sent[-1] == {"type": "websocket.close", "code": 1009}


async def test_a_client_that_leaves_gives_up_what_is_under_way(services: Services) -> None:
    wire, echo, running = connection(services)
    wire.say("wait")
    wire.leave()
    await running

    assert echo.gone
    assert wire.texts == []


async def test_a_lifetime_that_is_over_waits_for_what_is_under_way(services: Services) -> None:
    wire, echo, running = connection(services, lifetime_s=0.0)
    wire.say("wait")
    while not echo.session.expired:
        await asyncio.sleep(0)
    before = list(wire.texts)
    echo.let_go.set()
    await running

    assert before == []
    assert wire.texts == ["wait", "400 about wait"]
    assert wire.sent[-1] == {"type": "websocket.close", "code": 1001}


async def test_what_nobody_has_foreseen_closes_the_connection(services: Services) -> None:
    wire, _, running = connection(services)
    wire.say("fault")
    await running

    assert wire.texts == ["500 about fault"]
    assert wire.sent[-1]["code"] == 1001
