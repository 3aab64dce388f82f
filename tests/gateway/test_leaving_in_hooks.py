"""Clients that leave, and gateways that end, while a plugin or an identity is asked about their request."""

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import pytest
import yaml
from tests.gateway.conftest import CHAT, House, body, eventually, in_process, over_http, settled
from tests.gateway.test_disconnect import leave
from tests.shared import PATIENCE

from smg_core import Config
from smg_core.hooks import ExchangeEnded, RequestFinished
from smg_core.http.settings import ServerConfig
from smg_core.middleware.base import (
    CONTINUE,
    About,
    AnswerPiece,
    Continue,
    Failure,
    HeadVerdict,
    PieceVerdict,
    Reject,
    RequestBody,
    RequestHead,
    RequestVerdict,
    ResponseHead,
    TextVerdict,
)
from smg_core.middleware.python import PythonPlugin
from smg_core.middleware.settings import MiddlewareConfig
from smg_core.request import Caller, GenerationRequest
from smg_simulator.engine.clockwork import Timing
from smg_simulator.engine.engine import SimulatorConfig

pytestmark = pytest.mark.anyio

PACED = SimulatorConfig(reply_tokens=20, timing=Timing(decode_rate=200))


class Waits(PythonPlugin):
    """Waits for ever in the hook that a request names."""

    reached: ClassVar[asyncio.Event]
    ended: ClassVar[list[str]]

    def __init__(self, about: About, shared: Any) -> None:
        super().__init__(about, shared)
        self.at = ""

    async def _wait(self, hook: str) -> None:
        if self.at != hook:
            return
        Waits.reached.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            Waits.ended.append(hook)
            raise

    async def on_request_head(self, head: RequestHead) -> HeadVerdict:
        self.at = dict(head.headers).get("x-at", "")
        await self._wait("request_head")
        return CONTINUE

    async def on_request_body(self, body: RequestBody) -> TextVerdict:
        await self._wait("request_body")
        return CONTINUE

    async def on_request(self, request: GenerationRequest) -> RequestVerdict:
        await self._wait("request")
        return CONTINUE

    async def on_response_head(self, head: ResponseHead) -> HeadVerdict:
        await self._wait("response_head")
        return CONTINUE

    async def on_piece(self, piece: AnswerPiece) -> PieceVerdict:
        await self._wait("piece")
        return CONTINUE

    async def on_error(self, failure: Failure) -> Continue | Reject:
        await self._wait("error")
        return CONTINUE


def waiting(folder: Path, when: str = "after_identity", **settings: Any) -> Config:
    """A gateway with that plugin."""
    Waits.reached, Waits.ended = asyncio.Event(), []
    file = folder / "plugins.yaml"
    entry = {"source": f"{__name__}:Waits", "deadline_ms": 300_000, "when": when}
    file.write_text(yaml.safe_dump([entry]))
    return Config(middleware=MiddlewareConfig(file=str(file)), **settings)


async def reached() -> None:
    async with asyncio.timeout(PATIENCE):
        await Waits.reached.wait()


def asked(house: House, at: str, *, stream: bool) -> "asyncio.Task[Any]":
    """A request that waits in this hook."""
    request = body("Hi", stream=stream, **({"max_tokens": -1} if at == "error" else {}))
    return asyncio.create_task(house.http.post(CHAT, json=request, headers={"x-at": at}))


async def seen_to_have_left(house: House) -> None:
    await settled(house)
    await eventually(lambda: house.observer.of(ExchangeEnded))
    (ended,) = house.observer.of(ExchangeEnded)
    assert ended.outcome == "client_gone"
    assert all(each.outcome == "client_gone" for each in house.observer.of(RequestFinished))
    assert house.gateway.services.plugins.standing == 0


@pytest.mark.full
@pytest.mark.sampled(per=("at",))
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("at", ["request_head", "request_body", "request", "response_head", "piece"])
@pytest.mark.parametrize("served", [over_http, in_process])
async def test_a_client_that_leaves_while_a_plugin_waits_ends_the_hook(
    tmp_path: Path, served: Callable[..., Any], at: str, stream: bool, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    async with served(PACED, config=waiting(tmp_path)) as house:
        asking = asked(house, at, stream=stream)
        await reached()
        await leave(asking)
        await eventually(lambda: Waits.ended == [at])
        await seen_to_have_left(house)

    assert caplog.records == []


async def test_a_client_that_leaves_while_a_plugin_looks_at_an_error_ends_the_hook(tmp_path: Path) -> None:
    async with over_http(PACED, config=waiting(tmp_path)) as house:
        asking = asked(house, "error", stream=False)
        await reached()
        await leave(asking)
        await eventually(lambda: Waits.ended == ["error"])
        await settled(house)
        await eventually(lambda: house.observer.of(ExchangeEnded))
        assert len(house.observer.of(RequestFinished)) == 1


async def test_a_client_that_leaves_before_it_is_known_whose_it_is_ends_the_hook(tmp_path: Path) -> None:
    async with over_http(PACED, config=waiting(tmp_path, "before_identity")) as house:
        asking = asked(house, "request_head", stream=False)
        await reached()
        await leave(asking)
        await eventually(lambda: Waits.ended == ["request_head"])
        await seen_to_have_left(house)


async def test_a_client_that_leaves_a_list_of_models_ends_the_hook(tmp_path: Path) -> None:
    """An answer that no handler of a generating API makes."""
    async with over_http(PACED, config=waiting(tmp_path)) as house:
        asking = asyncio.create_task(house.http.get("/v1/models", headers={"x-at": "response_head"}))
        await reached()
        await leave(asking)
        await eventually(lambda: Waits.ended == ["response_head"])
        await seen_to_have_left(house)


async def test_a_client_that_leaves_while_an_identity_is_asked_ends_that() -> None:
    begun, ended = asyncio.Event(), list[bool]()

    async def identify(head: object) -> Caller:
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            ended.append(True)
            raise
        raise AssertionError

    async with over_http(PACED, identity=identify) as house:
        asking = asked(house, "", stream=False)
        async with asyncio.timeout(PATIENCE):
            await begun.wait()
        await leave(asking)
        await eventually(lambda: ended == [True])
        await seen_to_have_left(house)


@pytest.mark.full
@pytest.mark.parametrize("at", ["request_head", "request_body", "request"])
async def test_a_request_that_a_plugin_holds_when_the_gateway_ends_is_told_so_without_a_traceback(
    tmp_path: Path, at: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    config = waiting(tmp_path, server=ServerConfig(drain_s=0.2))
    async with over_http(PACED, config=config) as house:
        asking = asked(house, at, stream=False)
        await reached()
        assert house.server is not None
        house.server._asked_to_leave()
        answer = await asking
        ended = house.observer.of(ExchangeEnded)

    assert answer.status_code == 503
    assert "shutting down" in answer.text
    assert [each.outcome for each in ended] == ["Draining"]
    assert Waits.ended == [at]
    assert not [each for each in caplog.records if each.exc_info or "Traceback" in each.getMessage()]
