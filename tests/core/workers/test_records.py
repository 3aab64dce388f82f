"""What is kept of a pool's records is always what the workers are."""

import random
import sys
from collections.abc import Iterable
from types import FrameType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg_core.engines.base import EngineFacts
from smg_core.engines.loads import Loads, RankLoad
from smg_core.routing import Decisions, Policies, RoutingContext, policy
from smg_core.tokens import TokenIds
from smg_core.workers.records import LEAST, MOST
from smg_core.workers.registry import Registry
from smg_core.workers.worker import Worker, WorkerPlace, WorkerSpec, records_of

COUNT = LEAST + 3
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["call", "read", "leave", "load", "told", "weight", "lose", "back", "add"]),
        st.integers(0, COUNT - 1),
    ),
    max_size=30,
)


def joined(registry: Registry, count: int, *models: str) -> list[Worker]:
    """So many workers more."""
    found = [registry.add(WorkerSpec(f"grpc://{len(registry)}", name=f"w{len(registry)}")) for _ in range(count)]
    for worker in found:
        worker.facts, worker.models, worker.state = EngineFacts("vllm"), models, "ready"
    registry.hold(found[-1], {}, ())  # the index is made once
    return found


def change(registry: Registry, workers: list[Worker], places: list[WorkerPlace], what: str, at: int) -> None:
    worker = workers[at]
    if what == "call":
        places.append(WorkerPlace(worker, at))
    elif what in ("read", "leave") and places:
        place = places[at % len(places)] if what == "read" else places.pop(at % len(places))
        place.prompt_read() if what == "read" else place.leave()
    elif what == "load":
        worker.take_load(Loads((RankLoad(0, at, at),)))
    elif what == "told":
        worker.note_elsewhere(at, doubted=bool(at % 2))
    elif what == "weight":
        registry.change(worker, WorkerSpec(worker.spec.url, worker.spec.name, weight=at + 1.0))
    elif what in ("lose", "back"):
        registry.signal(worker, "failing" if what == "lose" else "healthy")
    elif what == "add":
        workers += joined(registry, 1, "m", "n")


def shown(registry: Registry, models: Iterable[str]) -> None:
    for model in models:
        ready = registry.ready_of(model, "regular")
        if ready:
            found = registry.records(ready, model, "regular")
            assert found == records_of(ready)
            assert [each.in_flight for each in found] == [each.in_flight for each in ready]
            assert [each.name for each in found] == [each.name for each in ready]


@given(STEPS)
def test_records_are_those_of_the_workers_whatever_happens_to_them(steps: list[tuple[str, int]]) -> None:
    registry = Registry()
    workers = joined(registry, COUNT, "m", "n")
    places: list[WorkerPlace] = []
    for what, at in steps:
        shown(registry, ("m", "n") if at % 3 else ("m",))  # one pool may be asked for far more often than the other
        change(registry, workers, places, what, at)
        shown(registry, ("m",))
    shown(registry, ("m", "n"))


def test_a_pool_that_has_not_changed_is_one_object() -> None:
    registry = Registry()
    joined(registry, COUNT, "m")
    ready = registry.ready_of("m", "regular")

    assert registry.records(ready, "m", "regular") is registry.records(ready, "m", "regular")


def test_the_workers_that_are_left_when_some_are_not_asked_again_are_read_as_they_are() -> None:
    registry = Registry()
    joined(registry, COUNT, "m")
    registry.records(registry.ready_of("m", "regular"), "m", "regular")
    left = registry.candidates("m", frozenset({"w0"}))
    WorkerPlace(left[0], 5)

    assert registry.records(left, "m", "regular")[0].in_flight == 1


def test_no_more_than_so_many_pools_are_kept() -> None:
    registry = Registry()
    names = [f"m{at}" for at in range(MOST + 5)]
    joined(registry, LEAST, *names)
    for name in names:
        registry.records(registry.ready_of(name, "regular"), name, "regular")

    assert registry.pools_kept <= MOST


def calls_of_a_choice(count: int, name: str) -> float:
    """How many Python functions are called for one request to choose a worker, as the Select step does it, and to leave it."""
    registry = Registry()
    joined(registry, count, "m")
    policies, decisions = Policies(lambda: policy(name, rng=random.Random(3))), Decisions(1000, 1 << 24)
    context = RoutingContext("r", "m", TokenIds(range(100)), now=1.0)
    called = 0

    def choose() -> None:
        candidates = registry.admitted(registry.candidates("m"), 1.0)
        seen = registry.records(candidates, "m", "regular")
        choice = policies.choose("m", "regular", seen, context)
        decisions.note(seen, context, choice.pick, choice.policy, 1, 0.0)
        WorkerPlace(candidates[choice.at], 100).leave()

    def counted(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal called
        called += event == "call"

    for _ in range(2 * count):
        choose()  # every worker has had a request
    before = sys.getprofile()
    sys.setprofile(counted)
    try:
        for _ in range(20):
            choose()
    finally:
        sys.setprofile(before)
    return called / 20


@pytest.mark.parametrize("name", ["round_robin", "least_requests", "power_of_two", "least_load", "cache_aware"])
def test_a_choice_among_256_workers_takes_as_many_calls_as_one_among_sixteen(name: str) -> None:
    few, many = calls_of_a_choice(16, name), calls_of_a_choice(256, name)

    assert many <= few
