"""Realtime sessions that another server has, passed through: the other server is a gateway, or a socket that says what a test says."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.gateway.conftest import House, eventually, over_http, settled
from tests.gateway.realtime import SIMULATOR, in_order, receive, respond, say, send, talk, until

from smg_core import Config
from smg_core.workers.worker import WorkerSpec

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def passing_to(url: str, **arguments: Any) -> AsyncIterator[House]:
    """A gateway whose model `live` is the model `sim` of the server at `url`."""
    spec = WorkerSpec(url, name="there", dialect="openai-realtime", model="live", vendor_model="sim")
    async with over_http(SIMULATOR, workers=(spec,), **arguments) as house:
        yield house


@pytest.fixture(scope="module")
async def there() -> AsyncIterator[House]:
    async with over_http(SIMULATOR) as house:
        yield house


async def test_a_session_of_another_server_is_passed_through(there: House) -> None:
    async with passing_to(there.url) as house, talk(house, "/v1/realtime?model=live") as socket:
        session = (await until(socket, "conversation.created"))[0]["session"]
        assert session["model"] == "live"
        await say(socket, "Hello")
        events = in_order(await respond(socket, max_output_tokens=5))
        assert events[-1]["response"]["status"] == "incomplete"
