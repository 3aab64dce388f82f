"""What comes of the answers of sources: the roster's changes, and what the operator is told of a source that fails."""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import attrs
import pytest
from tests.shared import PATIENCE

from smg_core.discovery.base import Missed, PresentWorker, SourceAnswer, Wanted, WorkersSeen
from smg_core.discovery.running import Discovery
from smg_core.discovery.settings import DiscoveryConfig
from smg_core.fleet_moments import SourceAnswered, SourceChanged, SourceSampled
from smg_core.observability.faults import FaultLog
from smg_core.testing import FakeClock, MemoryObserver
from smg_core.workers.worker import WorkerSpec

pytestmark = pytest.mark.anyio

DRAIN_S = 30.0
A, B = WorkerSpec("grpc://a:1", name="a"), WorkerSpec("grpc://b:1", name="b")
HEAVIER = attrs.evolve(A, weight=2.0)


class Told:
    """A source that says what a test tells it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.says: asyncio.Queue[SourceAnswer | Exception] = asyncio.Queue()

    async def answers(self) -> AsyncIterator[SourceAnswer]:
        while True:
            said = await self.says.get()
            if isinstance(said, Exception):
                raise said
            yield said


@attrs.define
class Register:
    """Workers by name, and a list of all that was asked for."""

    workers: dict[str, PresentWorker] = attrs.field(factory=dict)
    asked: asyncio.Queue[tuple[str, str]] = attrs.field(factory=asyncio.Queue)
    refuses: str = ""

    def present(self) -> Iterator[PresentWorker]:
        return iter(list(self.workers.values()))

    async def add(self, spec: WorkerSpec, source: str) -> None:
        if self.refuses:
            self.asked.put_nowait(("refused", spec.label))
            raise ValueError(self.refuses)
        self.workers[spec.label] = PresentWorker(spec, source)
        self.asked.put_nowait(("add", spec.label))

    async def update(self, spec: WorkerSpec) -> None:
        self.workers[spec.label] = attrs.evolve(self.workers[spec.label], spec=spec)
        self.asked.put_nowait(("update", spec.label))

    async def retire(self, name: str, within_s: float) -> None:
        assert within_s == DRAIN_S
        self.workers[name] = attrs.evolve(self.workers[name], leaving=True)
        self.asked.put_nowait(("retire", name))

    async def resume(self, spec: WorkerSpec) -> None:
        self.workers[spec.label] = attrs.evolve(self.workers[spec.label], spec=spec, leaving=False)
        self.asked.put_nowait(("resume", spec.label))


@attrs.define
class Site:
    source: Told
    other: Told
    roster: Register
    clock: FakeClock
    observer: MemoryObserver
    discovery: Discovery

    async def asked(self) -> tuple[str, str]:
        return await asyncio.wait_for(self.roster.asked.get(), PATIENCE)

    async def passed(self, seconds: int) -> None:
        """Let time pass, in steps of a look."""
        for _ in range(seconds):
            self.clock.advance(1.0)
            for _ in range(20):
                await asyncio.sleep(0)

    async def after(self, seconds: int) -> tuple[str, str]:
        """What is asked for when so much time has passed."""
        await self.passed(seconds)
        return await self.asked()


@asynccontextmanager
async def running(**settings: object) -> AsyncIterator[Site]:
    source, other, roster, clock, observer = Told("one"), Told("two"), Register(), FakeClock(), MemoryObserver()
    discovery = Discovery(
        [source, other],
        roster,
        observer,
        DiscoveryConfig(drain_s=DRAIN_S, **settings),
        clock=clock,
        faults=FaultLog("smg.discovery", clock),
        call_later=lambda seconds, call: clock.call_at(clock.monotonic() + seconds, call),
    )
    task = asyncio.create_task(discovery.run())
    try:
        yield Site(source, other, roster, clock, observer, discovery)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def seen(*specs: WorkerSpec) -> WorkersSeen:
    return WorkersSeen(tuple(Wanted(each) for each in specs))


async def test_workers_come_and_leave_as_their_source_says() -> None:
    async with running() as site:
        site.source.says.put_nowait(seen(A, B))
        assert [await site.asked(), await site.asked()] == [("add", "a"), ("add", "b")]
        site.source.says.put_nowait(seen(B))
        assert await site.asked() == ("retire", "a")
        site.source.says.put_nowait(seen(HEAVIER, B))
        assert await site.asked() == ("resume", "a")
        assert site.roster.workers["a"].spec == HEAVIER
        assert [each.change for each in site.observer.of(SourceChanged)] == ["add", "add", "drain", "resume"]


async def test_a_worker_that_was_leaving_before_the_process_that_asks_was_started_is_used_again_when_it_is_named() -> (
    None
):
    async with running() as site:
        site.roster.workers["a"] = PresentWorker(A, "one", leaving=True)
        site.source.says.put_nowait(seen(A))
        assert await site.asked() == ("resume", "a")


async def test_a_source_never_touches_the_workers_of_another(caplog: pytest.LogCaptureFixture) -> None:
    async with running() as site:
        site.source.says.put_nowait(seen(A))
        await site.asked()
        site.other.says.put_nowait(seen(A, B))
        assert await site.asked() == ("add", "b")
        site.other.says.put_nowait(seen())
        assert await site.asked() == ("retire", "b")
        assert site.roster.workers["a"].source == "one"
        assert "two names workers that are there already, from elsewhere" in caplog.text


async def test_a_name_is_taken_over_when_the_other_source_lets_it_go() -> None:
    async with running() as site:
        site.source.says.put_nowait(seen(A))
        await site.asked()
        site.other.says.put_nowait(seen(A, B))
        await site.asked()
        site.source.says.put_nowait(seen())
        assert await site.asked() == ("retire", "a")
        del site.roster.workers["a"]
        assert await site.after(1) == ("add", "a")
        assert site.roster.workers["a"].source == "two"


async def test_a_source_that_fails_keeps_its_workers_and_says_so_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "smg.discovery")
    async with running() as site:
        site.source.says.put_nowait(seen(A))
        await site.asked()
        site.clock.advance(7.0)
        for _ in range(3):
            site.source.says.put_nowait(Missed("no answer"))
        site.source.says.put_nowait(seen(A, B))
        assert await site.asked() == ("add", "b")
        said = [each.message for each in caplog.records if "one gives no" in each.message]
        assert said == ["one gives no answer that can be used: no answer; its 1 workers of 7 s ago are kept"]
        assert "one answers again" in caplog.text
        answers = [each.outcome for each in site.observer.of(SourceAnswered)]
        assert answers == ["ok", "failed", "failed", "failed", "ok"]


async def test_the_age_of_a_sources_last_answer_is_told() -> None:
    async with running() as site:
        site.source.says.put_nowait(seen(A))
        await site.asked()
        site.source.says.put_nowait(Missed("no answer"))
        await site.passed(5)
        standing = site.discovery.standings["one"]
        assert (standing.state, standing.reason, standing.age(site.clock.monotonic())) == ("stale", "no answer", 5.0)
        assert site.discovery.standings["two"].state == "unknown"
        last = [each for each in site.observer.of(SourceSampled) if each.source == "one"][-1]
        assert (last.age, last.workers) == (5.0, 1)


async def test_a_worker_that_is_refused_is_tried_again_and_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    async with running() as site:
        site.roster.refuses = "the registry is full"
        site.source.says.put_nowait(seen(A))
        assert await site.asked() == ("refused", "a")
        assert await site.after(1) == ("refused", "a")
        site.roster.refuses = ""
        assert await site.after(1) == ("add", "a")
        assert caplog.text.count("the registry is full") == 1


async def test_a_source_with_a_defect_is_logged_and_asked_again(caplog: pytest.LogCaptureFixture) -> None:
    async with running() as site:
        site.source.says.put_nowait(RuntimeError("defect"))
        site.source.says.put_nowait(seen(A))
        while not caplog.records:
            await asyncio.sleep(0)
        assert await site.after(1) == ("add", "a")
        assert "a source of workers, which is asked again, failed, one" in caplog.text
