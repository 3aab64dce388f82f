"""What batches read of files and bodies is read off the event loop, within bounds, and given up when its client leaves."""

import asyncio
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from tests.gateway.conftest import House, eventually, in_process, over_http, settled
from tests.gateway.test_batches import (
    BRISK,
    ENDLESS,
    QUICK,
    anthropic_of,
    asked,
    batch_of,
    ended,
    houses,
    line,
    names,
    openai_of,
    over,
    results,
)

from smg_core import Config
from smg_core.batches import messages, run
from smg_core.batches.types import LineCheck
from smg_core.errors import ClientGone
from smg_core.files.spool import Spool
from smg_core.pipeline.calls.executor import INLINE
from smg_core.wire.json_lines import Line, LineSplitter
from smg_core.wire.settings import LimitsConfig

pytestmark = pytest.mark.anyio

LONG = [{"role": "user", "content": "word " * 40_000}]


class Work:
    """The work on what batches hold: its name, the bytes that it went through, and whether that was on the event loop."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.done: list[tuple[str, int, bool]] = []
        self._loop = threading.get_ident()
        feed, end, add = LineSplitter.feed, LineSplitter.end, LineCheck.add

        def noted_feed(splitter: LineSplitter, piece: bytes) -> list[Line]:
            self._note("feed", splitter.held + len(piece))
            return feed(splitter, piece)

        def noted_end(splitter: LineSplitter) -> list[Line]:
            self._note("end", splitter.held)
            return end(splitter)

        def noted_add(check: LineCheck, lines: list[Line]) -> None:
            self._note("add", sum(len(each) for _, each in lines if each is not None))
            add(check, lines)

        patch.setattr(LineSplitter, "feed", noted_feed)
        patch.setattr(LineSplitter, "end", noted_end)
        patch.setattr(LineCheck, "add", noted_add)
        for name in ("read_request", "_read_id", "refusal", "named_model"):
            patch.setattr(run, name, self._noted(name, getattr(run, name)))
        patch.setattr(messages, "write_lines", self._noted("write_lines", messages.write_lines))

    def _noted(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def noted(first: Any, *others: Any, **more: Any) -> Any:
            self._note(name, len(first) if isinstance(first, bytes) else INLINE + 1)
            return call(first, *others, **more)

        return noted

    def _note(self, name: str, size: int) -> None:
        self.done.append((name, size, threading.get_ident() == self._loop))

    def check(self, *long: str) -> None:
        """None of the long work was on the event loop, and there was long work of these names."""
        assert [each for each in self.done if each[1] > INLINE and each[2]] == []
        assert {name for name, size, _ in self.done if size > INLINE} >= set(long)


async def test_no_long_line_of_a_batch_is_cut_checked_or_read_on_the_event_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with houses() as (_, client):
        work = Work(monkeypatch)
        content = (
            line("a", messages=LONG) + b"\n" * 300_000 + line("b", stream=[{}] * 20_000) + line("nobody", model="x")
        )
        last = line("c", messages=LONG).rstrip()
        done = await over(client, (await batch_of(client, content + line("good") + last)).id)
        found = await results(client, done.output_file_id)
        refused = await results(client, done.error_file_id)
        work.check("feed", "end", "add", "read_request", "refusal")
    assert set(found) | set(refused) == {"a", "b", "c", "nobody", "good"}
    assert refused["b"]["response"]["body"]["error"]["param"] == "stream"


async def test_no_long_request_of_a_message_batch_is_cut_checked_or_read_on_the_event_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with in_process(QUICK, config=Config(batches=BRISK)) as house, anthropic_of(house) as client:
        work = Work(monkeypatch)
        made = await client.messages.batches.create(requests=[asked("a", messages=LONG), asked("b")])
        assert (await ended(client, made.id)).request_counts.processing == 0
        work.check("write_lines", "feed", "read_request", "refusal")


@pytest.mark.full
@pytest.mark.parametrize("messages", [False, True])
async def test_no_request_without_an_answer_is_read_on_the_event_loop_with_many_others(
    monkeypatch: pytest.MonkeyPatch, messages: bool
) -> None:
    async with houses(ENDLESS, in_flight=1, window_s=1.0) as (house, client):
        work = Work(monkeypatch)
        if messages:
            async with anthropic_of(house) as anthropic:
                made = await anthropic.messages.batches.create(requests=[asked(f"r{n}") for n in range(1000)])
                counts = (await ended(anthropic, made.id)).request_counts
                assert counts.expired > 900
        else:
            content = b"".join(line(f"r{n}") for n in range(1000))
            done = await over(client, (await batch_of(client, content)).id)
            assert done.status == "expired"
        read = [on_loop for name, _, on_loop in work.done if name == "_read_id"]
        assert len(read) > 900
        assert not any(read)


async def test_faults_behind_blank_lines_are_told_with_their_places() -> None:
    async with houses() as (_, client):
        content = b" \r\n" * 200_000 + line("a") + b"\n" * 100_000 + b"x\n\n\ny"
        done = await over(client, (await batch_of(client, content)).id)
    assert [fault.line for fault in done.errors.data] == [300_002, 300_005]


async def test_a_batch_of_blank_lines_between_requests_is_a_batch_of_these() -> None:
    async with houses() as (_, client):
        content = b"\n" * 100_000 + line("a") + b"\r\n \n\t\n" + line("b") + b"\n" * 100_000
        done = await over(client, (await batch_of(client, content)).id)
        assert (done.status, done.request_counts.total) == ("completed", 2)
        assert set(await results(client, done.output_file_id)) == {"a", "b"}


async def test_a_line_of_too_many_values_fails_its_batch_before_anything_is_run() -> None:
    async with houses() as (house, client):
        content = line("a") + line("b", stream=[{}] * 300_000)
        done = await over(client, (await batch_of(client, content)).id)
        assert [(fault.code, fault.line) for fault in done.errors.data] == [("too_many_values", 2)]
        assert house.engine.counters["finished"] == 0


@pytest.mark.full
@pytest.mark.sampled(keep=2)
@pytest.mark.parametrize("messages", [False, True])
@pytest.mark.parametrize(("room", "most"), [(9_000, 1), (21_000, 3)])
async def test_no_more_requests_of_a_batch_are_held_at_once_than_the_memory_for_bodies_has_room_for(
    monkeypatch: pytest.MonkeyPatch, messages: bool, room: int, most: int
) -> None:
    one, under_way = run.BatchRun._one, Counter[str]()

    async def noted(run: run.BatchRun, place: int, line: bytes) -> None:
        under_way["now"] += 1
        under_way["most"] = max(under_way["most"], under_way["now"])
        await one(run, place, line)
        under_way["now"] -= 1

    monkeypatch.setattr(run.BatchRun, "_one", noted)
    long = [{"role": "user", "content": "x" * 3_000}]
    config = Config(batches=BRISK, limits=LimitsConfig(pending_body_bytes=room))
    async with in_process(QUICK, config=config) as house, openai_of(house) as client, anthropic_of(house) as other:
        if messages:
            made = await other.messages.batches.create(requests=[asked(f"r{n}", messages=long) for n in range(9)])
            assert (await ended(other, made.id)).request_counts.succeeded == 9
        else:
            content = b"".join(line(f"r{n}", messages=long) for n in range(9))
            assert (await over(client, (await batch_of(client, content)).id)).request_counts.completed == 9
    assert under_way["most"] == most


PARAMS = b'{"custom_id":"a","params":%s}'


@pytest.mark.full
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


@pytest.mark.full
async def test_a_client_that_leaves_while_its_message_batch_is_read_gives_that_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reading, over = threading.Event(), threading.Event()
    raised: list[BaseException] = []
    write_lines, spaces = messages.write_lines, iter(range(1_000_000))

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
    monkeypatch.setattr(messages, "write_lines", noted)
    async with over_http(QUICK, config=Config(batches=BRISK)) as house:
        posting = asyncio.create_task(house.http.post("/v1/messages/batches", content=b"{}"))
        await eventually(reading.is_set)
        await leave(posting)
        await eventually(over.is_set)
        await settled(house)
        assert [type(each) for each in raised] == [ClientGone]
        assert await names(house) == []
        assert (await house.http.post("/v1/messages/batches/x/cancel")).status_code == 404
