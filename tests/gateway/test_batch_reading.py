"""What batches read of files and bodies is read off the event loop, within bounds, and given up when its client leaves."""

import asyncio
import threading
from typing import Any

import pytest
from tests.gateway.conftest import House, eventually, over_http, settled
from tests.gateway.test_batches import BRISK, QUICK, names

from smg_core import Config
from smg_core.errors import ClientGone
from smg_core.server import message_batches
from smg_core.server.spooling import Spool

pytestmark = pytest.mark.anyio

PARAMS = b'{"custom_id":"a","params":%s}'


@pytest.mark.parametrize(
    ("request_", "status", "word"),
    [
        (PARAMS % (b'{"x":[' + b"{}," * 300_000 + b"{}]}"), 400, "values"),
        (PARAMS % (b'{"x":' + b"[" * 100 + b"]" * 100 + b"}"), 400, "deep"),
        (PARAMS % (b'{"x":"' + b"x" * 17_000_000 + b'"}'), 413, "limit"),
    ],
    ids=["values", "levels", "bytes"],
)
async def test_a_request_of_a_message_batch_over_a_bound_of_messages_is_refused_at_once(
    house: House, request_: bytes, status: int, word: str
) -> None:
    before = await names(house)
    answer = await house.http.post("/v1/messages/batches", content=b'{"requests":[%s]}' % request_)
    assert answer.status_code == status, answer.text
    assert word in answer.json()["error"]["message"]
    assert await names(house) == before


@pytest.fixture(scope="module")
async def house() -> Any:
    async with over_http(QUICK, config=Config(batches=BRISK)) as house:
        yield house


async def leave(posting: "asyncio.Task[Any]") -> None:
    posting.cancel()
    await asyncio.wait([posting])


async def test_a_client_that_leaves_while_its_message_batch_is_read_gives_that_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reading, over = threading.Event(), threading.Event()
    raised: list[BaseException] = []
    write_lines, spaces = message_batches.write_lines, iter(range(1_000_000))

    def read(spool: Spool, size: int) -> bytes:
        reading.set()
        return b" " * size if next(spaces, None) is not None else b""

    def noted(*given: Any, **more: Any) -> int:
        try:
            return write_lines(*given, **more)
        except BaseException as error:
            raised.append(error)
            raise
        finally:
            over.set()

    monkeypatch.setattr(Spool, "read", read)
    monkeypatch.setattr(message_batches, "write_lines", noted)
    async with over_http(QUICK, config=Config(batches=BRISK)) as house:
        posting = asyncio.create_task(house.http.post("/v1/messages/batches", content=b"{}"))
        await eventually(reading.is_set)
        await leave(posting)
        await eventually(over.is_set)
        await settled(house)
        assert [type(each) for each in raised] == [ClientGone]
        assert await names(house) == []
        assert (await house.http.post("/v1/messages/batches/x/cancel")).status_code == 404
