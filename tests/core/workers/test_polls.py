"""One process asks an engine for all: who, what the others learn, and who does it when that one is late."""

import asyncio
from contextlib import nullcontext

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.workers.test_monitor import GONE, Site, idle
from tests.core.workers.test_monitor import SETTINGS as MONITORED

from smg_core.engines.loads import Loads, RankLoad
from smg_core.testing import FakeClock
from smg_core.workers.polls import LOADS_BYTES, Learned, Polls, loads_of, packed_loads
from smg_core.workers.registry import Registry
from smg_core.workers.settings import WorkersConfig
from smg_core.workers.worker import LocalBoard

URL, OTHER = "grpc://gpu-0:50051", "grpc://gpu-1:50051"


def processes(count: int = 3, rows: int = 4) -> list[Polls]:
    memory = memoryview(bytearray(Polls.size(rows)))
    return [Polls.of(memory, rows, nullcontext(), column) for column in range(count)]


def test_the_first_process_that_looks_asks_and_the_others_learn_what_it_found() -> None:
    one, other, _ = (each.health for each in processes())

    assert one.turn(0, URL, 0.0, 10.0) is None
    waiting = other.turn(0, URL, 0.1, 10.0)
    assert waiting is not None
    assert waiting.answer == b""
    assert one.learned(0, URL, 0.2, b"ok") == (1, True)
    found = other.turn(0, URL, 5.0, 10.0)
    assert found is not None
    assert found.answer == b"ok"
    assert one.learned(0, URL, 5.2, b"ok") == (2, False)  # nothing new
    again = other.turn(0, URL, 5.3, 10.0)
    assert again is not None
    assert again.number == found.number + 1
    assert one.turn(0, URL, 6.0, 10.0) is None


def test_a_process_that_is_late_is_taken_over_by_one_and_goes_on_as_one_of_the_others() -> None:
    one, two, three = (each.health for each in processes())
    assert one.turn(0, URL, 0.0, 10.0) is None
    one.learned(0, URL, 0.1, b"ok")

    assert two.turn(0, URL, 10.2, 10.0) is None
    assert three.turn(0, URL, 10.3, 10.0) is not None
    assert one.turn(0, URL, 10.4, 10.0) is not None


def test_what_a_process_finds_that_suspects_an_engine_is_known_and_it_does_not_become_the_one_that_asks() -> None:
    one, two, _ = (each.health for each in processes())
    assert one.turn(0, URL, 0.0, 10.0) is None
    one.learned(0, URL, 0.1, b"ok")

    assert two.learned(0, URL, 1.0, b"refused") == (2, True)
    assert one.turn(0, URL, 5.0, 10.0) is None
    found = two.turn(0, URL, 5.1, 10.0)
    assert found is not None
    assert found.answer == b"refused"


def test_a_row_that_was_about_another_engine_says_nothing() -> None:
    one, two, _ = (each.health for each in processes())
    assert one.turn(0, URL, 0.0, 10.0) is None
    one.learned(0, URL, 0.1, b"refused")

    assert two.turn(0, OTHER, 0.2, 10.0) is None
    assert two.known(0, URL) is None
    assert two.learned(0, OTHER, 0.3, b"ok") == (1, True)
    assert (one.known(0, URL), one.known(0, OTHER)) == (None, Learned(1, b"ok"))


@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 1), st.floats(0, 30), st.booleans()), min_size=1, max_size=60)
)
def test_within_the_patience_an_engine_is_asked_by_one_process_alone(
    steps: list[tuple[int, int, float, bool]],
) -> None:
    tables, now = [each.health for each in processes(rows=2)], 0.0
    last: dict[int, tuple[int, float]] = {}
    for process, row, passed, answers in steps:
        now += passed
        asks = tables[process].turn(row, URL, now, 10.0) is None
        holder, at = last.get(row, (process, now))
        assert asks == (process == holder or now - at > 10.0)
        if asks:
            last[row] = process, now
            if answers:
                tables[process].learned(row, URL, now, b"ok")


RANKS = st.builds(
    RankLoad,
    st.integers(0, 100),
    st.integers(0, 10_000),
    st.integers(0, 10_000),
    st.integers(0, 1 << 40),
    st.integers(0, 1 << 40),
    st.floats(0, 1),
    st.floats(0, 1e6),
    st.floats(0, 1),
    st.integers(0, 10_000),
)


@given(st.lists(RANKS, max_size=20), st.integers(0, 100_000))
def test_a_load_is_told_as_it_was_or_asked_for_by_each(ranks: list[RankLoad], others: int) -> None:
    one, two, _ = (each.loads for each in processes())
    loads = Loads(tuple(ranks), others) if ranks else None
    assert one.turn(0, URL, 0.0, 10.0) is None
    one.learned(0, URL, 0.1, packed_loads(loads))
    found = two.turn(0, URL, 0.2, 10.0)
    assert found is not None

    if len(packed_loads(loads)) > LOADS_BYTES:
        assert found.answer == b""
    else:
        assert loads_of(found.answer) == loads


def sharing(clock: FakeClock, settings: WorkersConfig = MONITORED) -> tuple[Site, Site]:
    """Two processes of a gateway."""
    found = []
    for polls in processes(2):
        board = LocalBoard()
        board.polls = polls
        found.append(Site(registry=Registry(board), clock=clock, settings=settings))
    return found[0], found[1]


@pytest.mark.anyio
async def test_two_processes_send_an_engine_one_stream_of_probes_and_the_second_takes_over() -> None:
    one, two = sharing(FakeClock())
    first, second = one.add(), two.add()
    await one.passes(30.0)

    assert (first.state, second.state) == ("ready", "ready")
    assert (one.peer.probes, two.peer.probes) == (6, 0)
    await one.monitor.close()
    await two.passes(30.0)
    assert 3 <= two.peer.probes <= 6
    assert second.state == "ready"
    await two.monitor.close()


@pytest.mark.anyio
async def test_what_one_process_finds_out_all_act_on_when_they_hear_of_it() -> None:
    one, two = sharing(FakeClock())
    told: list[str] = []

    async def tell(name: str) -> None:
        told.append(name)
        two.monitor.heard(name)

    one.monitor._tell_others = tell
    first, second = one.add(), two.add()
    await one.passes(6.0)
    one.peer.health_says = GONE
    one.monitor.wake(first)
    await idle()

    assert told == ["w", "w"]  # well at first, and then lost
    assert (first.state, second.state) == ("unreachable", "unreachable")
    assert two.peer.probes == 0
    one.peer.health_says = True
    await one.passes(2.0)
    assert (first.state, second.state) == ("ready", "ready")
    await one.monitor.close()
    await two.monitor.close()


@pytest.mark.anyio
async def test_a_process_that_suspects_a_worker_asks_by_itself() -> None:
    one, two = sharing(FakeClock())
    first, second = one.add(), two.add()
    await one.passes(6.0)
    two.monitor.outcome(second, GONE, 0.0)
    await idle()

    assert two.peer.probes == 1
    assert first.state == second.state == "ready"
    await one.monitor.close()
    await two.monitor.close()


@pytest.mark.anyio
@pytest.mark.parametrize("finds", [0, 1], ids=["who asks for all", "another"])
async def test_a_probe_that_failed_counts_once_in_every_process_also_where_it_was_made(finds: int) -> None:
    """Whoever made it hears of it too: all processes are told by the same message."""
    sites = sharing(FakeClock(), attrs.evolve(MONITORED, probe_failures=2))

    async def tell(name: str) -> None:
        for each in sites:
            each.monitor.heard(name)

    for each in sites:
        each.monitor._tell_others = tell
    workers = [each.add() for each in sites]
    await sites[0].passes(6.0)
    before = [each.peer.probes for each in sites]
    sites[finds].peer.health_says = False
    sites[finds].monitor.wake(workers[finds])
    await idle()
    probes = [each.peer.probes - was for each, was in zip(sites, before, strict=True)]
    once = [each.state for each in workers]
    sites[finds].monitor.wake(workers[finds])
    await idle()

    assert probes == [1 - finds, finds]
    assert once == ["ready", "ready"]
    assert workers[finds].state == "unreachable"
    for each in sites:
        await each.monitor.close()


@pytest.mark.anyio
async def test_what_follows_from_a_probe_does_not_wait_until_all_processes_are_told() -> None:
    one, two = sharing(FakeClock())
    never = asyncio.Event()

    async def tell(name: str) -> None:
        await never.wait()

    one.monitor._tell_others = tell
    first = one.add()
    await one.passes(6.0)
    one.peer.health_says = GONE
    one.monitor.wake(first)
    await idle()

    assert first.state == "unreachable"
    await one.monitor.close()
    await two.monitor.close()


@pytest.mark.anyio
async def test_a_worker_that_is_watched_no_more_makes_nobody_suspect_another_of_its_name() -> None:
    one, two = sharing(FakeClock())
    first, second = one.add(), two.add()
    await one.passes(6.0)
    two.registry.signal(second, "removed")
    await two.monitor.unwatch(second)
    two.monitor.outcome(second, GONE, 0.0)
    third = two.add()
    await one.passes(6.0)

    assert two.peer.probes == 0
    assert (first.state, third.state) == ("ready", "ready")
    await one.monitor.close()
    await two.monitor.close()


@pytest.mark.anyio
async def test_a_load_is_asked_for_by_one_process_and_known_to_both() -> None:
    one, two = sharing(FakeClock())
    workers = [site.add(name) for site in (one, two) for name in ("w", "v")]
    await one.passes(5.0)

    assert [each.running for each in workers] == [1, 1, 1, 1]
    assert sum(peer.asked_loads for peer in one.peers) > 0
    assert sum(peer.asked_loads for peer in two.peers) == 0
    await one.monitor.close()
    await two.monitor.close()
