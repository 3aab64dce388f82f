"""ASGI middleware around a gateway that is served by our own HTTP protocol: nothing of a response passes it by."""

from collections.abc import MutableMapping
from typing import Any

import attrs
import httpx
import pytest
from tests.gateway.conftest import CHAT, body, eventually, over_http, settled

from smg_core.hooks import ExchangeEnded
from smg_core.http.scope import DirectSend, direct_of
from smg_simulator.engine.clockwork import Timing
from smg_simulator.engine.engine import SimulatorConfig

pytestmark = pytest.mark.anyio

TOKENS = 40
PACED = SimulatorConfig(reply_tokens=TOKENS, timing=Timing(decode_rate=200))
ENDLESS = SimulatorConfig(reply_tokens=4000, timing=Timing(decode_rate=100))


@attrs.define
class CountingBytes:
    """Middleware that wraps `send` and copies the scope, as many do."""

    app: Any = None
    said: list[bytes] = attrs.field(factory=list)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        async def counted(message: MutableMapping[str, Any]) -> None:
            self.said.append(message.get("body", b""))
            await send(message)

        await self.app({**scope, "seen": True}, receive, counted if scope["type"] == "http" else send)

    def around(self, app: Any) -> Any:
        self.app = app
        return self


@attrs.define
class Onlooker:
    """Passes on the server's own `send`, and looks at what goes its fast way."""

    app: Any = None
    at_once: list[bytes] = attrs.field(factory=list)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        direct = direct_of(send)
        if direct is None:
            await self.app(scope, receive, send)
            return
        fast = direct.write_now

        def write_now(data: bytes) -> bool:
            done = fast(data)
            if done:
                self.at_once.append(data)
            return done

        await self.app(scope, receive, DirectSend(send, write_now))

    def around(self, app: Any) -> Any:
        self.app = app
        return self


class Posing:
    """A `send` that claims to be whatever it wraps."""

    def __init__(self, wrapped: Any) -> None:
        self._wrapped = wrapped

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        return type(self._wrapped)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._wrapped, name)

    def send(self, message: Any) -> Any:
        return self._wrapped(message)


async def streamed(http: httpx.AsyncClient) -> bytes:
    answer = await http.post(CHAT, json=body("Hi", stream=True))
    assert answer.status_code == 200
    return answer.content


@pytest.mark.full
async def test_what_wraps_send_sees_every_byte_of_a_stream() -> None:
    middleware = CountingBytes()
    async with over_http(PACED, wrap=middleware.around) as house:
        said = await streamed(house.http)

    assert said.endswith(b"data: [DONE]\n\n")
    assert b"".join(middleware.said) == said


@pytest.mark.full
async def test_without_it_tokens_are_written_as_they_come() -> None:
    onlooker = Onlooker()
    async with over_http(PACED, wrap=onlooker.around) as house:
        said = await streamed(house.http)

    assert len(onlooker.at_once) > TOKENS / 2
    assert b"".join(onlooker.at_once) in said


@pytest.mark.full
@pytest.mark.parametrize(
    "middleware", [None, CountingBytes(), Onlooker()], ids=["none", "wraps send", "keeps its fast way"]
)
async def test_the_bytes_of_a_stream_are_counted_whatever_is_around_the_app(
    middleware: CountingBytes | Onlooker | None,
) -> None:
    async with over_http(PACED, wrap=None if middleware is None else middleware.around) as house:
        said = await streamed(house.http)
        await eventually(lambda: len(house.observer.of(ExchangeEnded)) == 1)
        (told,) = house.observer.of(ExchangeEnded)

    assert told.sent == len(said)


async def test_a_client_that_leaves_is_noticed_behind_middleware_too() -> None:
    middleware = CountingBytes()
    async with over_http(ENDLESS, wrap=middleware.around) as house:
        async with house.http.stream("POST", CHAT, json=body("Hi", stream=True)) as answer:
            async for _ in answer.aiter_bytes():
                break
        await settled(house)


async def test_only_the_servers_own_send_has_a_fast_way() -> None:
    async def send(message: MutableMapping[str, Any]) -> None:
        pass

    direct = DirectSend(send, lambda data: True)
    posing = Posing(direct)

    assert isinstance(posing, DirectSend)
    assert direct_of(direct) is direct
    assert [direct_of(other) for other in (send, posing, posing.send)] == [None] * 3  # type: ignore[list-item]
