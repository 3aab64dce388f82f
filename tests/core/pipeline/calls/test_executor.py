"""Long work in threads: lanes by size, turns by caller, and nothing done for who has left."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from tests.shared import PATIENCE

from smg_core.pipeline.calls.executor import FairExecutor
from smg_core.tokenizer.base import GivenUp

pytestmark = pytest.mark.anyio

LARGE, SMALL = 1000, 10


@asynccontextmanager
async def executor(threads: int = 2) -> AsyncIterator[FairExecutor]:
    made = FairExecutor(threads, large=100)
    try:
        yield made
    finally:
        made.close()


class Gate:
    """Work that waits until it is let go, and says that it has begun."""

    def __init__(self) -> None:
        self.begun, self.free = threading.Event(), threading.Event()

    def __call__(self, _: GivenUp) -> str:
        self.begun.set()
        assert self.free.wait(PATIENCE)
        return "done"


def noting(log: list[str], name: str) -> Callable[[GivenUp], None]:
    return lambda _: log.append(name)


async def begun(gate: Gate) -> None:
    assert await asyncio.to_thread(gate.begun.wait, PATIENCE)


async def test_what_work_returns_and_raises_is_handed_on() -> None:
    async with executor() as here:
        assert await here.run(lambda _: 1 + 1, size=SMALL) == 2
        with pytest.raises(ZeroDivisionError):
            await here.run(lambda _: 1 // 0, size=LARGE)


async def test_small_work_does_not_wait_behind_large_work() -> None:
    async with executor() as here:
        first, second = Gate(), Gate()
        large = [asyncio.create_task(here.run(gate, size=LARGE)) for gate in (first, second)]
        await begun(first)
        assert await here.run(lambda _: "small", size=SMALL) == "small"
        assert not second.begun.is_set()
        first.free.set(), second.free.set()
        assert await asyncio.gather(*large) == ["done", "done"]


async def test_large_work_gets_its_turn_among_much_small_work() -> None:
    async with executor() as here:
        gates = [Gate(), Gate()]
        busy = [asyncio.create_task(here.run(gate, size=SMALL)) for gate in gates]
        for gate in gates:
            await begun(gate)
        log: list[str] = []
        queued = [asyncio.create_task(here.run(noting(log, f"small{n}"), size=SMALL)) for n in range(5)]
        queued.append(asyncio.create_task(here.run(noting(log, "large"), size=LARGE)))
        await asyncio.sleep(0)
        gates[0].free.set()
        await asyncio.gather(*queued)
        gates[1].free.set()
        await asyncio.gather(*busy)

        assert log[0] == "large"


async def test_callers_take_turns_whatever_each_has_waiting() -> None:
    async with executor() as here:
        gates = [Gate(), Gate()]
        busy = [asyncio.create_task(here.run(gate, size=SMALL)) for gate in gates]
        for gate in gates:
            await begun(gate)
        log: list[str] = []
        work = [asyncio.create_task(here.run(noting(log, "many"), size=SMALL, caller="many")) for _ in range(9)]
        work.append(asyncio.create_task(here.run(noting(log, "few"), size=SMALL, caller="few")))
        await asyncio.sleep(0)
        gates[0].free.set()
        await asyncio.gather(*work)
        gates[1].free.set()
        await asyncio.gather(*busy)

        assert log.index("few") <= 1


async def test_work_whose_caller_has_left_is_not_begun_and_work_under_way_is_told() -> None:
    async with executor() as here:
        told, begun_at, log = threading.Event(), threading.Event(), list[str]()

        def long(given_up: GivenUp) -> None:
            begun_at.set()
            while not given_up():
                told.wait(0.001)
            log.append("told")
            told.set()

        under_way = asyncio.create_task(here.run(long, size=LARGE))
        assert await asyncio.to_thread(begun_at.wait, PATIENCE)
        waiting = asyncio.create_task(here.run(noting(log, "begun"), size=LARGE))
        await asyncio.sleep(0)
        assert here.waiting == 1
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        assert here.waiting == 0
        under_way.cancel()
        await asyncio.gather(under_way, return_exceptions=True)
        assert await asyncio.to_thread(told.wait, PATIENCE)
        await here.run(lambda _: None, size=LARGE)

        assert log == ["told"]
