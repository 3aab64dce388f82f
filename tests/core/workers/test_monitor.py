"""The watch over workers, in time that moves only when a test says so."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import attrs
import pytest
from tests.shared import PATIENCE

from smg_core.engines.base import Engine, EngineFacts, ModelInfo, ProcessFacts
from smg_core.engines.loads import Loads, RankLoad
from smg_core.errors import EngineFailed, EngineTimeout, InternalError, ReadingFailed, SmgError, WorkerBusy, WorkerGone
from smg_core.hooks import WorkerStateChanged
from smg_core.observability.faults import FaultLog
from smg_core.testing import FakeClock, MemoryObserver
from smg_core.workers.monitor import Monitor
from smg_core.workers.registry import Registry
from smg_core.workers.settings import WorkersConfig
from smg_core.workers.worker import Worker, WorkerPlace, WorkerSpec

pytestmark = pytest.mark.anyio

GONE = WorkerGone("The engine is not available.")
SETTINGS = WorkersConfig(health_interval_s=5.0, loads_interval_s=1.0, join_interval_s=0.5, probe_failures=3)
FACTS = EngineFacts(dialect="test")


class Peer:
    """An engine as the monitor sees it. `health_says` and `loads_say` are answered; an exception is raised."""

    def __init__(self) -> None:
        self.health_says: bool | BaseException = True
        self.loads_say: Loads | BaseException | None = Loads((RankLoad(0, 1, 2),))
        self.info: ModelInfo | BaseException = ModelInfo("m")
        self.process = ProcessFacts()
        self.connections: int | None = None
        self.described = 0
        self.silent = False
        self.probes = 0
        self.asked_loads = 0
        self.closed = 0

    async def describe(self) -> tuple[ModelInfo, EngineFacts]:
        self.described += 1
        if self.silent:
            await asyncio.Event().wait()
        if isinstance(self.info, BaseException):
            raise self.info
        return self.info, attrs.evolve(FACTS, process=self.process)

    async def health(self, timeout: float | None = None) -> bool:
        self.probes += 1
        if isinstance(self.health_says, BaseException):
            raise self.health_says
        return self.health_says

    async def loads(self) -> Loads | None:
        self.asked_loads += 1
        if isinstance(self.loads_say, BaseException):
            raise self.loads_say
        return self.loads_say

    async def abort(self, request_id: str) -> None: ...

    async def tokenizer(self) -> tuple[bytes, str] | None:
        return None

    async def close(self) -> None:
        self.closed += 1


@attrs.define
class Site:
    """A monitor and all that it touches. What `connects` and `joins` say is raised where it is an exception."""

    registry: Registry = attrs.field(factory=Registry)
    clock: FakeClock = attrs.field(factory=FakeClock)
    observer: MemoryObserver = attrs.field(factory=MemoryObserver)
    peers: list[Peer] = attrs.field(factory=list)
    connect_says: BaseException | None = None
    join_says: BaseException | None = None
    models: tuple[str, ...] = ("m",)
    process: ProcessFacts = attrs.field(factory=ProcessFacts)
    lost: list[str] = attrs.field(factory=list)
    failing: list[str] = attrs.field(factory=list)
    joins: int = 0
    settings: WorkersConfig = SETTINGS
    monitor: Monitor = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        def call_later(seconds: float, callback: Callable[[], None]) -> object:
            return self.clock.call_at(self.clock.monotonic() + seconds, callback)

        self.monitor = Monitor(
            self.registry,
            self.connect,
            self.join,
            self.observer,
            self.settings,
            call_later=call_later,  # type: ignore[arg-type]
            on_fault=FaultLog("smg.workers", self.clock).note,
            on_lost=lambda worker: self.failing.append(worker.name),
            on_cache_lost=lambda worker: self.lost.append(worker.name),
            clock=self.clock,
        )

    async def connect(self, worker: Worker) -> Engine:
        if self.connect_says is not None:
            raise self.connect_says
        self.peers.append(Peer())
        return self.peers[-1]

    async def join(self, worker: Worker, engine: Engine) -> tuple[str, ...]:
        self.joins += 1
        if self.join_says is not None:
            raise self.join_says
        worker.info, worker.facts = ModelInfo("m"), FACTS
        worker.stated_facts = attrs.evolve(FACTS, process=self.process)
        return self.models

    @property
    def peer(self) -> Peer:
        return self.peers[-1]

    def add(self, name: str = "w", rank: int | None = None) -> Worker:
        worker = self.registry.add(WorkerSpec(f"grpc://{name}", name=name, rank=rank))
        self.monitor.watch(worker)
        return worker

    async def passes(self, seconds: float, step: float = 0.5) -> None:
        """Let time pass, and let everyone do what is due."""
        await idle()
        for _ in range(round(seconds / step)):
            self.clock.advance(step)
            await idle()

    @property
    def changes(self) -> list[tuple[str, str]]:
        return [(each.before, each.after) for each in self.observer.of(WorkerStateChanged)]


async def idle() -> None:
    """Let every task run until it waits for something."""
    for _ in range(30):
        await asyncio.sleep(0)


@asynccontextmanager
async def site() -> AsyncIterator[Site]:
    found = Site()
    try:
        yield found
    finally:
        await found.monitor.close()


# ------------------------------------------------------------------------------------------------------------- joining


async def test_the_log_says_in_which_dialect_a_worker_that_has_joined_is_spoken_to(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level("INFO", "smg.workers"):
        async with site() as here:
            worker = here.add()
            await asyncio.wait_for(here.monitor.ready(), PATIENCE)

    assert f"worker {worker.name} is spoken to in the dialect {worker.facts.dialect}" in caplog.messages


async def test_a_worker_that_answers_joins_at_once_and_serves_its_models() -> None:
    async with site() as here:
        worker = here.add()
        await asyncio.wait_for(here.monitor.ready(), PATIENCE)

        assert (worker.state, here.registry.models) == ("ready", ("m",))
        assert here.changes == [("joining", "ready")]


@pytest.mark.parametrize(
    "error", [GONE, InternalError("no tokenizer"), ValueError("bad"), LookupError("x"), OSError("x")]
)
async def test_what_keeps_a_worker_out_is_said_once_and_tried_again_with_a_client_that_was_made_anew(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    async with site() as here:
        here.join_says = error
        with caplog.at_level(logging.WARNING, "smg.workers"):
            worker = here.add()
            await here.passes(2.0)
        tries, stated_facts = here.joins, [record.getMessage() for record in caplog.records]
        here.join_says = None
        await here.passes(0.5)

        assert (tries, len(stated_facts)) == (5, 1)
        assert str(error) in stated_facts[0]
        assert worker.state == "ready"
        assert [peer.closed for peer in here.peers] == [1] * tries + [0]


async def test_another_reason_is_said_too(caplog: pytest.LogCaptureFixture) -> None:
    async with site() as here:
        here.connect_says = GONE
        with caplog.at_level(logging.WARNING, "smg.workers"):
            here.add()
            await here.passes(1.0)
            here.connect_says = ValueError("no such file")
            await here.passes(1.0)

    assert [record.getMessage().split(": ", 1)[1] for record in caplog.records] == [str(GONE), "no such file"]


# -------------------------------------------------------------------------------------------------------------- health


async def test_a_worker_is_probed_once_in_every_interval() -> None:
    async with site() as here:
        here.add()
        await here.passes(5.0)
        before = here.peer.probes
        await here.passes(15.0)

        assert (before, here.peer.probes) == (1, 4)


@pytest.mark.parametrize(("connections", "asked"), [(None, 25), (1, 3)])
async def test_an_engine_is_asked_what_it_serves_after_every_probe_where_nobody_counts_its_connections_else_rarely(
    connections: int | None, asked: int
) -> None:
    async with site() as here:
        here.add()
        await idle()
        here.peer.connections = connections
        await here.passes(25 * 5.0)

        assert (here.peer.probes, here.peer.described) == (25, asked)


async def test_an_engine_that_was_replaced_by_another_model_is_noticed_over_its_new_connection() -> None:
    async with site() as here:
        worker = here.add()
        await idle()
        here.peer.connections = 1
        await here.passes(10.0)
        here.peer.info, here.peer.connections, here.models = ModelInfo("other"), 2, ("other",)
        here.clock.advance(5.0)
        await idle()

        assert here.registry.models == ("other",)
        assert here.joins == 2
        assert here.changes[1:] == [("ready", "unreachable"), ("unreachable", "ready")]
        assert worker.state == "ready"


async def test_an_engine_that_answers_as_another_model_over_the_same_connection_is_noticed_in_time() -> None:
    async with site() as here:
        here.add()
        await idle()
        here.peer.connections = 1
        await here.passes(10.0)
        here.peer.info = ModelInfo("other")
        await here.passes(50.0)
        before = here.joins
        await here.passes(5.0)

        assert (before, here.joins) == (1, 2)


@pytest.mark.parametrize("fails", ["probe", "description"])
async def test_after_a_probe_or_a_description_that_failed_an_engine_is_asked_what_it_serves_again(fails: str) -> None:
    async with site() as here:
        here.add()
        await idle()
        here.peer.connections = 1
        if fails == "probe":
            await here.passes(5.0)
            here.peer.health_says = False
        else:
            here.peer.info = EngineTimeout("late")
        await here.passes(5.0)
        here.peer.health_says, here.peer.info = True, ModelInfo("m")
        before = here.peer.described
        await here.passes(10.0)

        assert (before, here.peer.described) == (1, 2)


async def test_an_engine_that_freezes_while_it_is_asked_what_it_serves_is_probed_all_the_same() -> None:
    async with site() as here:
        worker = here.add()
        await idle()
        here.peer.silent = True
        await here.passes(5.0)
        before = worker.state
        here.peer.health_says = EngineTimeout("late")
        await here.passes(15.0)

        assert (before, worker.state) == ("ready", "unreachable")


async def test_what_is_done_after_a_probe_ends_with_the_monitor_and_holds_up_no_probe() -> None:
    ended: list[str] = []

    async def asks(worker: Worker, engine: Engine) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(worker.name)

    async with site() as here:
        here.monitor._on_probed = asks
        here.add()
        await here.passes(15.0)
        assert here.peer.probes == 3
        before = len(ended)
        await here.passes(5.0)
    await idle()

    assert before >= 2
    assert len(ended) == 4


async def test_a_refused_connection_is_certain_and_makes_a_worker_unreachable_at_once() -> None:
    async with site() as here:
        worker = here.add()
        await idle()
        here.peer.health_says = GONE
        await here.passes(5.0)

        assert worker.state == "unreachable"


@pytest.mark.parametrize("answer", [False, EngineTimeout("late"), EngineFailed("hm")])
async def test_a_slow_or_unwell_engine_is_given_three_probes(answer: bool | SmgError) -> None:
    async with site() as here:
        worker = here.add()
        await idle()
        here.peer.health_says = answer
        await here.passes(10.0)
        before = worker.state
        await here.passes(5.0)

        assert (before, worker.state) == ("ready", "unreachable")


async def test_an_answer_to_a_probe_that_the_gateway_fails_to_read_is_none_against_the_engine(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with site() as here:
        worker = here.add()
        await idle()
        here.peer.health_says = ReadingFailed.of(KeyError("words of an engine"))
        await here.passes(30.0)

        assert worker.state == "ready"
    told = [each.getMessage() for each in caplog.records if each.levelno >= logging.WARNING]
    assert told
    assert all("KeyError" in each and "words" not in each for each in told)


@pytest.mark.parametrize("drains", [False, True])
async def test_each_health_check_that_fails_is_told_whether_the_worker_is_ready_or_drains(drains: bool) -> None:
    async with site() as here:
        worker = here.add()
        await idle()
        if drains:
            here.monitor.signal(worker, "drain", "asked to")
        here.peer.health_says = GONE
        await here.passes(11.0)
        told = len(here.failing)
        here.peer.health_says = True
        await here.passes(6.0)

    assert told >= 2
    assert here.failing == ["w"] * told
    assert not worker.failing


@pytest.mark.parametrize("answers_others", [True, False])
async def test_an_engine_that_answers_others_is_well_and_one_that_says_itself_that_it_is_full_is_not(
    answers_others: bool,
) -> None:
    async with site() as here:
        worker = here.add()
        await idle()
        here.peer.health_says = WorkerBusy("no stream became free")
        here.peer.health_says.answers_others = answers_others
        await here.passes(60.0)

    assert (worker.state == "ready") is answers_others
    assert here.peer.probes >= 3


async def test_one_good_answer_between_failures_begins_the_count_anew() -> None:
    async with site() as here:
        worker = here.add()
        await idle()
        for answer in (False, False, True, False, False):
            here.peer.health_says = answer
            await here.passes(5.0)

        assert worker.state == "ready"


async def test_a_worker_that_answers_again_joins_anew_over_the_client_it_has() -> None:
    async with site() as here:
        worker = here.add()
        await idle()
        here.peer.health_says = GONE
        await here.passes(5.0)
        here.peer.health_says, here.models = True, ("other",)
        await here.passes(0.5)

        assert worker.state == "ready"
        assert here.registry.models == ("other",)
        assert (here.joins, len(here.peers), here.peer.closed) == (2, 1, 0)
        assert here.changes == [("joining", "ready"), ("ready", "unreachable"), ("unreachable", "ready")]


async def test_a_worker_that_is_back_but_may_not_join_stays_out_with_one_line_and_is_reached_anew(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with site() as here:
        worker = here.add()
        await idle()
        here.peer.health_says = GONE
        await here.passes(5.0)
        here.peer.health_says, here.join_says = True, WorkerGone("The name is taken.")
        with caplog.at_level(logging.WARNING, "smg.workers"):
            await here.passes(5.0)
        out = worker.state
        here.join_says = None
        await here.passes(0.5)

        assert len(caplog.records) == 1
        assert (out, worker.state) == ("unreachable", "ready")
        assert here.peers[0].closed == 1
        assert worker.reached is here.peer


# ------------------------------------------------------------------------------------------------------------- outcomes


async def test_a_call_that_lost_its_worker_has_it_probed_at_once() -> None:
    async with site() as here:
        worker = here.add()
        await idle()
        here.peer.health_says = GONE
        here.monitor.outcome(worker, GONE, 0.0)
        await idle()

        assert worker.state == "unreachable"
        assert here.peer.probes == 1


@pytest.mark.parametrize("error", [None, EngineFailed("hm"), WorkerBusy("full")])
async def test_no_other_outcome_has_a_worker_probed(error: SmgError | None) -> None:
    async with site() as here:
        worker = here.add()
        await idle()
        here.monitor.outcome(worker, error, 0.0)
        await idle()

        assert here.peer.probes == 0


async def test_a_worker_whose_engine_still_answers_stays_however_many_calls_were_lost() -> None:
    async with site() as here:
        worker = here.add()
        await idle()
        for _ in range(5):
            here.monitor.outcome(worker, GONE, 0.0)
            await idle()

        assert worker.state == "ready"


async def test_the_outcome_of_a_worker_that_is_watched_no_more_is_no_error() -> None:
    async with site() as here:
        worker = here.add()
        await idle()
        await here.monitor.unwatch(worker)

        here.monitor.outcome(worker, GONE, 0.0)


# ------------------------------------------------------------------------------------------------------------ the watch


@pytest.mark.parametrize("where", ["join", "health", "loads"])
async def test_a_watch_that_falls_over_is_said_and_begun_again(where: str, caplog: pytest.LogCaptureFixture) -> None:
    async with site() as here:
        fault = TypeError("a fault of ours")
        if where == "join":
            here.join_says = fault
        worker = here.add()
        here.add("another")
        with caplog.at_level(logging.ERROR, "smg.workers"):
            await idle()
            if where == "health":
                here.peers[0].health_says = fault
            if where == "loads":
                here.peers[0].loads_say = fault
            for _ in range(120):  # six seconds, or until it was asked
                if worker.state == "ready":
                    await here.passes(0.05, 0.05)
        failed = worker.state
        here.join_says = None
        for peer in here.peers:
            peer.health_says, peer.loads_say = True, None
        await here.passes(1.5)

        assert any(
            "the watch over a worker" in record.getMessage() and "worker w" in record.getMessage()
            for record in caplog.records
        )
        assert failed == {"join": "joining", "health": "unreachable", "loads": "unreachable"}[where]
        assert worker.state == "ready"


async def test_a_change_of_a_worker_that_fails_in_a_way_that_nobody_foresaw_is_said_and_made_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with site() as here:
        worker = here.add()
        await idle()
        here.join_says = TypeError("an odd answer")
        with caplog.at_level(logging.ERROR, "smg.workers"):
            here.registry.change(worker, WorkerSpec("grpc://other", name="w"))
            here.monitor.renew(worker)
            await here.passes(0.4, 0.1)
        stated_facts, pending, served = (
            [record.getMessage() for record in caplog.records],
            worker.pending,
            worker.reached,
        )
        here.join_says = None
        await here.passes(1.0)

        assert len(stated_facts) == 1
        assert "the change of a worker" in stated_facts[0]
        assert "worker w" in stated_facts[0]
        assert pending
        assert served is here.peers[0]  # which goes on serving
        assert (worker.pending, worker.state) == ("", "ready")
        assert worker.reached is here.peers[-1]


async def test_a_change_that_failed_is_not_made_again_for_a_worker_that_has_left() -> None:
    async with site() as here:
        worker = here.add()
        await idle()
        here.join_says = TypeError("an odd answer")
        here.monitor.renew(worker)
        await idle()
        here.monitor.unwatch(worker)
        joins = here.joins
        await here.passes(2.0)

        assert here.joins == joins


async def test_a_worker_that_is_watched_no_more_is_not_asked_again_and_its_client_is_closed() -> None:
    async with site() as here:
        worker = here.add()
        await idle()
        await here.monitor.unwatch(worker)
        await here.passes(20.0)

        assert (here.peer.probes, here.peer.closed) == (0, 1)
        assert here.clock.next_alarm is None


async def test_a_watch_ends_while_its_worker_is_joining_too() -> None:
    async with site() as here:
        here.join_says = GONE
        worker = here.add()
        await here.passes(1.0)
        await here.monitor.unwatch(worker)
        tries = here.joins
        await here.passes(5.0)

        assert here.joins == tries
        assert all(peer.closed for peer in here.peers)


async def test_closing_closes_the_clients_of_workers_that_have_left_the_registry_too() -> None:
    async with site() as here:
        worker = here.add()
        await idle()
        here.registry.signal(worker, "removed")
        await here.monitor.close()

        assert here.peer.closed == 1


# -------------------------------------------------------------------------------------------------------------- the load


async def test_the_load_is_asked_for_while_there_is_somebody_to_compare_with() -> None:
    async with site() as here:
        worker = here.add()
        await here.passes(3.0)
        alone = here.peer.asked_loads
        here.add("another")
        await here.passes(2.0)

        assert alone == 0
        assert here.peers[0].asked_loads == 2
        assert worker.queued == 2


async def test_an_engine_that_cannot_say_its_load_is_asked_once() -> None:
    async with site() as here:
        worker = here.add()
        here.add("another")
        await idle()
        here.peers[0].loads_say = None
        await here.passes(5.0)

        assert here.peers[0].asked_loads == 1
        assert worker.queued == 0


async def test_a_load_that_is_not_known_any_more_counts_nothing_and_is_asked_again() -> None:
    async with site() as here:
        worker = here.add()
        here.add("another")
        await here.passes(1.0)
        here.peers[0].loads_say = EngineTimeout("late")
        await here.passes(1.0)
        without = worker.queued
        here.peers[0].loads_say = Loads((RankLoad(0, 0, 7),))
        await here.passes(1.0)

        assert (without, worker.queued) == (0, 7)


async def test_requests_that_an_engine_reports_beyond_our_own_are_those_of_others() -> None:
    async with site() as here:
        worker = here.add()
        here.add("another")
        worker.board.add(worker.row, 2)
        await idle()
        here.peers[0].loads_say = Loads((RankLoad(0, 3, 2),))
        await here.passes(1.0)
        some = worker.record.others
        worker.board.add(worker.row, 1)
        still = worker.record.others
        worker.board.add(worker.row, 4)
        await here.passes(1.0)

        assert (some, still, worker.record.others) == (3, 3, 0)


async def test_of_an_engine_with_ranks_a_worker_that_is_one_of_them_has_the_load_of_that_rank() -> None:
    async with site() as here:
        worker = here.add(rank=1)
        here.add("another")
        await idle()
        here.peers[0].loads_say = Loads((RankLoad(0, 9, 9), RankLoad(1, 2, 1)))
        await here.passes(1.0)

        assert (worker.running, worker.queued, worker.others) == (2, 1, 3)


async def test_a_worker_that_is_away_is_not_asked_for_its_load() -> None:
    async with site() as here:
        here.add()
        here.add("another")
        await idle()
        here.peers[0].health_says = GONE
        await here.passes(5.0)
        before = here.peers[0].asked_loads
        await here.passes(4.0)

        assert here.peers[0].asked_loads == before


# ------------------------------------------------------------------------------------------- drained, changed, back again


async def test_a_drained_worker_that_is_wanted_back_is_probed_before_it_gets_requests() -> None:
    async with site() as here:
        worker = here.add()
        await here.passes(0)
        here.monitor.signal(worker, "drain", "asked to drain")
        here.peer.health_says = GONE
        here.monitor.signal(worker, "undrain", "asked to come back")
        here.monitor.wake(worker)
        await here.passes(0)
        asked = worker.state
        here.peer.health_says = True
        await here.passes(1)

    assert asked == "joining"
    assert here.changes == [("joining", "ready"), ("ready", "draining"), ("draining", "joining"), ("joining", "ready")]


async def test_a_worker_that_was_lost_is_in_use_within_three_seconds_of_its_return() -> None:
    async with site() as here:
        worker = here.add()
        await here.passes(0)
        here.peer.health_says = GONE
        await here.passes(20)
        lost = worker.state
        here.peer.health_says = True
        await here.passes(3)

    assert (lost, worker.state) == ("unreachable", "ready")


async def test_a_changed_worker_serves_by_its_old_client_until_the_new_one_has_joined() -> None:
    async with site() as here:
        worker = here.add()
        await here.passes(0)
        first = here.peer
        here.connect_says = GONE
        here.monitor.renew(worker)
        await here.passes(2)
        meanwhile = worker.state, worker.reached is first, worker.pending
        here.connect_says = None
        await here.passes(1)

    assert meanwhile == ("ready", True, str(GONE))
    assert (worker.state, worker.pending) == ("ready", "")
    assert first.closed == 1
    assert len(here.peers) == 2
    assert here.changes == [("joining", "ready")]


async def test_an_old_client_is_closed_when_its_last_call_has_ended() -> None:
    async with site() as here:
        worker = here.add()
        await here.passes(0)
        first, place = here.peer, WorkerPlace(worker, 0)
        here.monitor.renew(worker)
        await here.passes(1)
        second = WorkerPlace(worker, 0)
        closed_during = first.closed
        place.leave()
        await here.passes(0)
        closed_after = first.closed
        second.leave()

    assert (closed_during, closed_after) == (0, 1)
    assert worker.in_flight == 0


async def test_a_worker_that_is_gone_leaves_its_name_to_another_at_once() -> None:
    async with site() as here:
        before = here.add()
        await here.passes(0)
        here.monitor.signal(before, "removed", "asked to leave")
        leaving = here.monitor.unwatch(before)
        after = here.add()
        await leaving
        await here.passes(1)

    assert (before.state, after.state) == ("gone", "ready")


# -------------------------------------------------------------------------------------------- the memory of an engine


@attrs.frozen
class Absence:
    """How an engine was away, what it says of its process when it is back, and whether its memory is taken for lost."""

    while_away: bool | SmgError
    back: ProcessFacts
    lost: bool


ABSENCES = {
    "killed, and it has a new id": Absence(GONE, ProcessFacts("two"), lost=True),
    "killed, and it runs for a second": Absence(GONE, ProcessFacts(uptime_s=1.0), lost=True),
    "killed, and it does not say": Absence(GONE, ProcessFacts(), lost=True),
    "not reached, and it has its id": Absence(GONE, ProcessFacts("one"), lost=False),
    "not reached, and it has run all the time": Absence(GONE, ProcessFacts(uptime_s=130.0), lost=False),
    "slow, and it has its id": Absence(EngineTimeout("late"), ProcessFacts("one"), lost=False),
    "slow, and it has run all the time": Absence(EngineTimeout("late"), ProcessFacts(uptime_s=130.0), lost=False),
    "slow, and it does not say": Absence(EngineTimeout("late"), ProcessFacts(), lost=False),
    "unwell, and it does not say": Absence(False, ProcessFacts(), lost=False),
    "hung, and was started again": Absence(EngineTimeout("late"), ProcessFacts("two"), lost=True),
}


@pytest.mark.parametrize("absence", ABSENCES.values(), ids=ABSENCES)
async def test_an_engine_that_was_away_has_lost_its_memory_if_it_is_another_process_or_was_gone_and_does_not_say(
    absence: Absence,
) -> None:
    async with site() as here:
        here.process = ProcessFacts("one", 100.0)
        worker = here.add()
        await idle()
        here.registry.sleep([worker], asleep=True)
        here.peer.health_says = absence.while_away
        await here.passes(20.0)
        away, lost = worker.state, list(here.lost)
        here.peer.health_says, here.process = True, absence.back
        await here.passes(5.0)

        assert (away, worker.state, lost) == ("unreachable", "ready", [])
        assert here.lost == (["w"] if absence.lost else [])
        assert worker.asleep is not absence.lost  # another process is awake
        await here.passes(20.0)
        assert len(here.lost) == absence.lost


@pytest.mark.parametrize(
    ("before", "after", "lost"),
    [
        (ProcessFacts("one"), ProcessFacts("two"), True),
        (ProcessFacts(uptime_s=100.0), ProcessFacts(uptime_s=2.0), True),
        (ProcessFacts("one"), ProcessFacts("one"), False),
        (ProcessFacts(uptime_s=100.0), ProcessFacts(uptime_s=110.0), False),
        (ProcessFacts(), ProcessFacts(), False),
    ],
)
async def test_an_engine_that_came_back_between_two_probes_is_known_by_its_process(
    before: ProcessFacts, after: ProcessFacts, lost: bool
) -> None:
    async with site() as here:
        here.process = before
        here.add()
        await idle()
        here.peer.process, here.peer.connections = before, 1
        here.clock.advance(5.0)
        await idle()
        here.peer.process, here.peer.connections = after, 2
        here.clock.advance(5.0)
        await idle()

        assert here.lost == (["w"] if lost else [])
        assert here.changes == [("joining", "ready")]


async def test_a_worker_that_fails_its_probes_and_was_never_seen_before_has_nothing_to_lose() -> None:
    async with site() as here:
        here.join_says = GONE
        here.add()
        await here.passes(3.0)
        here.join_says = None
        await here.passes(1.0)

        assert (here.changes, here.lost) == ([("joining", "ready")], [])
