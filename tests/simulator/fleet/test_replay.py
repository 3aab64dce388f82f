"""A fleet's run: schedules computed by hand, a formula of queues, and laws that hold whatever happens."""

import random
from array import array
from collections.abc import Sequence
from math import isnan

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from smg_core.engines.kv_events import KvBlocksRemoved, KvBlocksStored, KvEvent
from smg_core.routing import POLICIES, Observing, Pick, RoundRobin, RoutingContext, policy
from smg_core.routing.base import Candidate
from smg_simulator.fleet.engine import EngineSpeed, FleetEngine
from smg_simulator.fleet.figures import figures, percentile
from smg_simulator.fleet.generated import GENERATORS, Load, generated
from smg_simulator.fleet.oracles import Greedy, hits_of_one_cache
from smg_simulator.fleet.pools import EVENTS, FleetSettings, Outage
from smg_simulator.fleet.replay import FleetRun, MakeChooser, replay
from smg_simulator.fleet.trace import FleetRequest, FleetTrace
from smg_simulator.fleet.view import PolicyChooser

PLAIN = EngineSpeed(step_s=1.0, request_s=0.0, prompt_token_s=0.0, step_tokens=100, running=8, cache_tokens=1600)


def trace(*requests: FleetRequest, block: int = 16) -> FleetTrace:
    return FleetTrace("by hand", block, requests)


def by(name: str) -> MakeChooser:
    return lambda engines, rng: PolicyChooser(engines, policy(name))


def run(given: FleetTrace, speed: EngineSpeed = PLAIN, engines: int = 1, **more: object) -> FleetRun:
    return replay(given, FleetSettings(engines=engines, speed=speed, **more), by("round_robin"))  # type: ignore[arg-type]


def test_gateways_that_tell_each_other_of_their_requests_have_sooner_first_tokens() -> None:
    made = generated("unshared", Load(400, 24.0, block=64, seed=1))
    alone, meshed = (
        replay(made, FleetSettings(engines=8, replicas=4, words_s=words_s), by("least_load")) for words_s in (0.0, 0.2)
    )
    assert sum(meshed.first) < sum(alone.first)


# ------------------------------------------------------------------------------------------------------- by hand


def test_a_prompt_is_computed_in_chunks_and_then_comes_a_token_a_step() -> None:
    found = run(trace(FleetRequest(0.0, 250, 4)))

    assert found.first[0] == 3.0  # 100, 100 and 50 tokens
    assert found.done[0] == 6.0


def test_a_request_that_decodes_takes_a_token_of_every_step_from_the_prompts() -> None:
    found = run(trace(FleetRequest(0.0, 100, 5), FleetRequest(0.5, 198, 1)))

    assert [found.first[0], found.done[0]] == [1.0, 5.0]
    assert found.first[1] == 2.5  # 99 tokens in each of two steps, from 1.0 to 3.0


def test_a_request_that_comes_in_a_long_run_of_steps_is_begun_when_the_step_under_way_ends() -> None:
    found = run(trace(FleetRequest(0.0, 10, 50), FleetRequest(7.3, 10, 1)))

    assert found.done[0] == 50.0
    assert found.first[1] == pytest.approx(8.0 + 1.0 - 7.3)


def test_what_waits_for_room_in_the_batch_or_in_the_cache_begins_in_order() -> None:
    small = EngineSpeed(1.0, 0.0, 0.0, step_tokens=100, running=2, cache_tokens=64)
    found = run(trace(*[FleetRequest(0.0, 30, 2) for _ in range(3)], FleetRequest(0.0, 65, 1)), small)

    assert list(found.done[:3]) == [2.0, 3.0, 4.0]
    assert isnan(found.done[3])
    assert found.refused == 1


def test_a_prefix_that_another_request_has_computed_is_not_computed_again() -> None:
    names = [1, 2, 3, 4, 5, 6]
    found = run(trace(FleetRequest(0.0, 96, 33, names, [7, 8]), FleetRequest(100.0, 140, 1, [*names, 7, 8])))

    assert list(found.hit) == [0, 128]
    assert found.first[1] == 1.0


def test_a_whole_prompt_that_is_there_is_computed_from_its_last_token() -> None:
    found = run(trace(*[FleetRequest(at, 32, 1, [1, 2]) for at in (0.0, 50.0)]))

    assert list(found.hit) == [0, 31]


def test_a_faster_engine_takes_shorter_steps() -> None:
    found = run(trace(FleetRequest(0.0, 10, 3), FleetRequest(0.0, 10, 3)), engines=2, factors=(1.0, 4.0))

    assert list(found.done) == [3.0, 0.75]


def test_a_prefill_engine_computes_the_prompt_and_the_other_all_tokens_but_the_first() -> None:
    found = run(trace(FleetRequest(0.0, 100, 3), FleetRequest(0.0, 100, 1)), prefill=1, transfer_token_s=0.01)

    assert list(found.first) == [1.0, 2.0]
    assert [found.done[0], found.done[1]] == [1.0 + 1.0 + 2.0, 2.0]


def test_a_decode_engine_reads_what_is_short_or_cached_itself() -> None:
    short, long = FleetRequest(0.0, 20, 3), FleetRequest(50.0, 200, 3, [*range(12)])
    again = FleetRequest(400.0, 200, 3, [*range(12)])
    settings = FleetSettings(engines=1, prefill=1, speed=PLAIN, transfer_token_s=1.0, local_tokens=32)
    found = replay(trace(short, long, again), settings, by("cache_aware"))

    assert [round(each) for each in found.done] == [3, 2 + 200 + 2, 3]
    assert list(found.hit) == [0, 0, 192]


# ---------------------------------------------------------------------------------------------------- what goes wrong


def test_a_request_on_an_engine_that_dies_is_begun_anew_elsewhere() -> None:
    found = run(trace(FleetRequest(0.0, 10, 10)), engines=2, outages=(Outage(0, 4.5, 100.0),))

    assert [found.retries, found.first[0], found.done[0]] == [1, 1.0, 14.5]  # its first token had come


def test_where_nothing_is_alive_requests_wait_until_a_probe_finds_an_engine() -> None:
    found = run(trace(FleetRequest(0.0, 10, 2), FleetRequest(3.0, 10, 2)), outages=(Outage(0, 0.5, 10.0),), probe_s=1.0)

    assert list(found.done) == [13.0, 11.0]
    assert found.down == [9.5]


class Recording(RoundRobin, Observing):
    """Takes every engine in turn and keeps what it is told of their caches."""

    listens = True

    def __init__(self) -> None:
        super().__init__()
        self.blocks: dict[str, set[int]] = {}
        self.order: list[str] = []

    def kv_changed(self, worker: str, rank: int, events: Sequence[KvEvent], now: float) -> None:
        held = self.blocks.setdefault(worker, set())
        for event in events:
            if isinstance(event, KvBlocksStored):
                assert event.parent is None or event.parent in held
                held.update(event.hashes)
                self.order.append(worker)
            elif isinstance(event, KvBlocksRemoved):
                held -= set(event.hashes)

    def worker_left(self, worker: str) -> None:
        self.blocks.pop(worker, None)


@pytest.mark.full
def test_kv_events_that_come_on_time_say_what_the_engines_hold() -> None:
    made, engines = Recording(), list[FleetEngine]()

    def chooser(fleet: Sequence[FleetEngine], _: random.Random) -> PolicyChooser:
        engines.extend(fleet)
        return PolicyChooser(fleet, made)

    given = generated("agents", Load(requests=300, rate=20.0))
    replay(given, FleetSettings(engines=3, speed=EngineSpeed(cache_tokens=60_000)), chooser)

    names = {name for each in given.requests for name in [*each.blocks, *each.answer_blocks]}
    for engine in engines:
        assert made.blocks[engine.name] == {name for name in names if name in engine.cache}


@pytest.mark.parametrize("events", EVENTS)
def test_kv_events_come_as_the_settings_say(events: str) -> None:
    told = [Recording(), Recording()]
    waiting = iter(told)
    wanted = FleetSettings(engines=2, replicas=2, events=events, events_lost=0.5, events_late_s=1e6)
    given = FleetTrace("apart", 16, [FleetRequest(float(at), 32, 1, [2 * at, 2 * at + 1]) for at in range(60)])
    replay(given, wanted, lambda engines, _: PolicyChooser(engines, next(waiting)))

    counts = [len(each.order) for each in told]
    least, most = {"on_time": (60, 60), "late": (0, 0), "lost": (40, 60), "none": (0, 0)}[events]
    assert all(least <= count <= most for count in counts), counts


def test_kv_events_that_were_lost_come_in_order_with_the_next_that_is_not() -> None:
    """`Recording` checks that no event names a block before the one that it follows."""
    told: list[Recording] = []

    def chooser(engines: Sequence[FleetEngine], _: random.Random) -> PolicyChooser:
        told.append(Recording())
        return PolicyChooser(engines, told[-1])

    given = generated("chat", Load(requests=300, rate=20.0))
    for events in ("on_time", "lost"):
        replay(given, FleetSettings(engines=2, events=events, events_lost=0.5), chooser)

    whole, gapped = told
    missing = {engine: whole.blocks[engine] - gapped.blocks[engine] for engine in whole.blocks}
    assert all(len(missing[engine]) < len(whole.blocks[engine]) / 20 for engine in missing)


# ----------------------------------------------------------------------------------------------------------- laws


FLEETS = st.builds(
    FleetSettings,
    engines=st.integers(1, 4),
    prefill=st.integers(0, 2),
    speed=st.builds(
        EngineSpeed,
        step_tokens=st.sampled_from([64, 2048]),
        running=st.sampled_from([2, 256]),
        cache_tokens=st.sampled_from([20_000, 524_288]),
    ),
    factors=st.sampled_from([(1.0,), (1.0, 2.5)]),
    replicas=st.integers(1, 3),
    events=st.sampled_from(EVENTS),
    outages=st.sampled_from([(), (Outage(0, 1.0, 3.0),), (Outage(0, 0.5, 2.0), Outage(0, 2.5, 4.0))]),
    seed=st.integers(0, 3),
)


@pytest.mark.full
@settings(max_examples=25, deadline=None)
@given(st.sampled_from(sorted(GENERATORS)), FLEETS, st.sampled_from(["round_robin", "least_requests", "greedy"]))
def test_every_request_ends_once_and_nothing_stays_behind(kind: str, fleet: FleetSettings, name: str) -> None:
    given, engines = generated(kind, Load(requests=60, rate=30.0, scale=0.5)), list[FleetEngine]()

    def chooser(made: Sequence[FleetEngine], _: random.Random) -> Greedy | PolicyChooser:
        engines[:] = made
        return Greedy(made) if name == "greedy" else PolicyChooser(made, policy(name))

    found = replay(given, fleet, chooser)

    ended = [at for at, done in enumerate(found.done) if not isnan(done)]
    assert len(ended) + found.refused == len(given.requests)
    for at in ended:
        request = given.requests[at]
        assert 0 < found.first[at] <= found.done[at]
        assert 0 <= found.hit[at] < request.prompt_tokens
    assert all(not engine.tasks() and not engine.cache.busy and not engine.pending for engine in engines)
    if not found.retries:
        assert sum(found.hit) <= hits_of_one_cache(given, None)


@pytest.mark.full
@pytest.mark.sampled(keep=4)
@pytest.mark.parametrize("name", sorted(POLICIES))
def test_the_same_trace_settings_and_seed_make_the_same_run(name: str) -> None:
    def chooser(engines: Sequence[FleetEngine], rng: random.Random) -> PolicyChooser:
        return PolicyChooser(engines, policy(name, rng=rng))

    def once() -> tuple["array[float]", "array[float]", "array[int]"]:
        given = generated("chat", Load(requests=200, rate=40.0, seed=5))
        found = replay(
            given, FleetSettings(engines=3, replicas=2, events="lost", outages=(Outage(1, 2.0, 4.0),)), chooser
        )
        return found.first, found.done, found.hit

    assert once() == once()


@pytest.mark.full
def test_one_engine_that_takes_one_request_at_a_time_waits_as_the_formula_of_queues_says() -> None:
    service, rate = 0.01, 70.0
    rng, at, requests = random.Random(1), 0.0, list[FleetRequest]()
    for _ in range(40_000):
        at += rng.expovariate(rate)
        requests.append(FleetRequest(at, 10, 1))
    speed = EngineSpeed(step_s=service, request_s=0.0, prompt_token_s=0.0, running=1)
    found = run(FleetTrace("queue", 16, requests), speed)

    busy = rate * service
    expected = service + busy * service / (2 * (1 - busy))  # Pollaczek and Khinchine: constant service, random arrivals
    assert figures(found).first_mean == pytest.approx(expected, rel=0.05)


# -------------------------------------------------------------------------------------------------------- figures


def test_work_is_the_time_of_steps_without_their_fixed_part() -> None:
    speed = EngineSpeed(step_s=1.0, request_s=0.5, prompt_token_s=0.01, step_tokens=100)
    found = run(trace(FleetRequest(0.0, 100, 3)), speed)

    assert found.work == [pytest.approx(100 * 0.01 + 2 * 0.5)]
    assert figures(found).balance == 1.0


@given(st.lists(st.floats(0, 100), min_size=1), st.sampled_from([0.01, 0.5, 0.9, 0.99, 1.0]))
def test_a_percentile_is_the_least_value_that_so_many_do_not_exceed(values: list[float], share: float) -> None:
    ordered = sorted(values)
    found = percentile(ordered, share)

    assert sum(each <= found for each in ordered) >= share * len(ordered) - 1e-9
    assert sum(each < found for each in ordered) < share * len(ordered) + 1e-9


def test_one_cache_of_all_memory_keeps_what_was_used_last() -> None:
    given = trace(*[FleetRequest(float(at), 32, 1, names) for at, names in enumerate([[1, 2], [3, 4], [1, 2], [3, 4]])])

    assert hits_of_one_cache(given, None) == 62
    assert hits_of_one_cache(given, 64) == 62
    assert hits_of_one_cache(given, 32) == 0


def test_a_policy_gets_the_same_keys_for_what_two_prompts_share() -> None:
    seen: list[RoutingContext] = []

    class Looking(RoundRobin):
        def pick(self, candidates: Sequence[Candidate], context: RoutingContext) -> Pick:
            seen.append(context)
            return super().pick(candidates, context)

    given = trace(
        FleetRequest(0.0, 40, 1, [1, 2]), FleetRequest(0.0, 55, 1, [1, 2, 3]), FleetRequest(0.0, 40, 1, [9, 2])
    )
    replay(given, FleetSettings(engines=1), lambda engines, _: PolicyChooser(engines, Looking()))

    one, two, three = (list(each.prefix_keys) for each in seen)
    assert [len(one), len(two), len(three)] == [40, 55, 40]
    assert one[:32] == two[:32]
    assert not set(one[32:]) & {*two, *three}
    assert three[16:32] == one[16:32]
    assert three[:16] != one[:16]


def test_a_policy_sees_what_waits_for_its_first_token_and_what_engines_report() -> None:
    seen: list[tuple[int, int, int, float]] = []

    class Looking(RoundRobin):
        def pick(self, candidates: Sequence[Candidate], context: RoutingContext) -> Pick:
            (each,) = candidates
            seen.append((each.in_flight, each.prefill_tokens, each.running, each.kv_usage))
            return super().pick(candidates, context)

    given = trace(*[FleetRequest(at, 160, 10) for at in (0.0, 0.5, 2.5, 11.9)])
    replay(
        given, FleetSettings(engines=1, speed=PLAIN, loads_s=0.25), lambda engines, _: PolicyChooser(engines, Looking())
    )

    assert [each[:2] for each in seen] == [(0, 0), (1, 160), (2, 160), (2, 0)]
    assert [each[2] for each in seen] == [0, 1, 2, 2]
    assert seen[1][3] == pytest.approx(11 / 100)
