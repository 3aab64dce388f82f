"""Policies that send what belongs together to one worker, the same one in every process."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.core.routing.candidates import Seen, asking, fleet

from smg_core.routing import Policy, RoutingContext
from smg_core.routing.affinity import ConsistentHashing, PrefixHash
from smg_core.routing.settings import RoutingConfig

KEYS = [f"session {number}" for number in range(200)]
SMALL = RoutingConfig(hashed_tokens=16, block_tokens=4, block_characters=16)  # 16 tokens, or 64 characters


def by_key(key: str) -> RoutingContext:
    return asking(name="r", cache_key=key)


def by_id(key: str) -> RoutingContext:
    return asking(name=key)


def by_beginning(key: str) -> RoutingContext:
    return asking(list(key.encode()))


KINDS: dict[str, tuple[Callable[[], Policy], Callable[[str], RoutingContext]]] = {
    "routing key": (ConsistentHashing, by_key),
    "request id": (ConsistentHashing, by_id),
    "beginning": (lambda: PrefixHash(SMALL), by_beginning),
}
each_kind = pytest.mark.parametrize(("made", "asked"), KINDS.values(), ids=KINDS)


def places(policy: Policy, workers: list[Seen], asked: Callable[[str], RoutingContext]) -> dict[str, str]:
    """The worker of each key."""
    return {key: policy.pick(workers, asked(key)).worker.name for key in KEYS}


@pytest.mark.full
@each_kind
@given(order=st.permutations(range(6)))
@settings(max_examples=10)
def test_every_gateway_finds_the_same_worker_in_whatever_order_it_learned_of_them(
    made: Callable[[], Policy], asked: Callable[[str], RoutingContext], order: list[int]
) -> None:
    workers = fleet(6)
    assert places(made(), [workers[at] for at in order], asked) == places(made(), workers, asked)


@each_kind
def test_a_key_stays_with_its_worker_and_keys_are_spread(
    made: Callable[[], Policy], asked: Callable[[str], RoutingContext]
) -> None:
    policy, workers = made(), fleet(4)
    first = places(policy, workers, asked)

    assert places(policy, workers, asked) == first
    counts = Counter(first.values())
    assert len(counts) == 4
    assert min(counts.values()) >= 30


@each_kind
def test_when_a_worker_leaves_its_own_keys_move_and_no_other(
    made: Callable[[], Policy], asked: Callable[[str], RoutingContext]
) -> None:
    policy, workers = made(), fleet(5)
    before, after = places(policy, workers, asked), places(policy, workers[:2] + workers[3:], asked)

    assert {key: name for key, name in after.items() if name != before[key]} == {
        key: after[key] for key, name in before.items() if name == "w2"
    }
    assert len({after[key] for key, name in before.items() if name == "w2"}) == 4


@each_kind
def test_a_worker_of_three_times_the_weight_has_three_times_the_keys(
    made: Callable[[], Policy], asked: Callable[[str], RoutingContext]
) -> None:
    workers = [Seen("one"), Seen("big", weight=3.0)]
    counts = Counter(places(made(), workers, asked).values())

    assert 2 <= counts["big"] / counts["one"] <= 4.5


@each_kind
def test_the_pick_has_the_least_score_and_says_why(
    made: Callable[[], Policy], asked: Callable[[str], RoutingContext]
) -> None:
    workers = fleet(5)
    for key in KEYS[:20]:
        pick = made().pick(workers, asked(key))

        assert workers.index(pick.worker) == min(range(5), key=pick.scores.__getitem__)  # type: ignore[arg-type]
        assert pick.why.startswith("no routing key" if asked is by_id else "the worker of this")


def test_a_routing_key_goes_before_the_requests_id() -> None:
    policy, workers = ConsistentHashing(), fleet(8)
    names = {policy.pick(workers, asking(name=key, cache_key="one")).worker.name for key in KEYS}

    assert len(names) == 1


def test_a_busy_worker_keeps_its_routing_keys() -> None:
    policy, workers = ConsistentHashing(), fleet(4)
    busy = [attrs.evolve(each, in_flight=1000 * at, queued=1000 * at) for at, each in enumerate(workers)]

    assert places(policy, busy, by_key) == places(policy, workers, by_key)


def test_sets_of_workers_that_were_forgotten_are_learned_anew() -> None:
    policy, workers = ConsistentHashing(most=6), fleet(4)
    first = places(policy, workers, by_key)
    for count in range(1, 4):
        places(policy, workers[:count], by_key)

    assert places(policy, workers, by_key) == first


LONG = list(range(100, 116))


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (asking(LONG), asking([*LONG, 1, 2, 3]), True),
        (asking([*LONG, 7]), asking([*LONG, 8]), True),
        (asking(LONG), asking([*LONG[:15], 1]), False),
        (asking(LONG), asking([1, *LONG[1:]]), False),
        (asking([], text="x" * 64), asking([], text="x" * 64 + "y"), True),
        (asking([], text="x" * 64), asking([], text="x" * 63 + "y"), False),
        (asking(LONG), asking(LONG, cache_salt="tenant"), False),
        (asking(LONG), asking(LONG, lora="adapter"), False),
        (asking(LONG, cache_salt="ab"), asking(LONG, cache_salt="a", lora="b"), False),
        (asking(LONG), asking(LONG, cache_key="session"), True),
        (asking(LONG, media_keys=[2**63] * 16), asking(LONG, media_keys=[2**63 + 1] * 16), False),
        (asking(LONG, media_keys=[2**63] * 16), asking([*LONG, 5], media_keys=[*[2**63] * 16, 5]), True),
    ],
)
def test_prompts_belong_together_as_far_as_an_engine_could_use_one_cache(
    one: RoutingContext, other: RoutingContext, same: bool
) -> None:
    workers = fleet(512)  # that two keys have one worker by chance is one in so many
    picks: list[Any] = [PrefixHash(SMALL).pick(workers, each).worker for each in (one, other)]

    assert (picks[0] is picks[1]) == same


def test_a_beginning_goes_to_another_worker_while_its_own_has_too_many_requests_and_then_comes_back() -> None:
    policy, workers = PrefixHash(SMALL), fleet(4)
    own = policy.pick(workers, asking(LONG))
    at = workers.index(own.worker)  # type: ignore[arg-type]

    busy = [attrs.evolve(each, in_flight=10 * (at == number)) for number, each in enumerate(workers)]
    instead = [policy.pick(busy, asking(LONG)) for _ in range(5)]
    second = sorted(range(4), key=own.scores.__getitem__)[1]
    assert {each.worker.name for each in instead} == {workers[second].name}
    assert instead[0].why == "the worker of this beginning has too many requests"
    assert policy.pick(workers, asking(LONG)).worker is own.worker


@pytest.mark.parametrize(("requests", "stays"), [(0, True), (1, True), (3, True), (4, False), (9, False)])
@pytest.mark.parametrize("queued", [False, True])
def test_too_many_requests_are_more_than_the_factor_times_the_mean(requests: int, stays: bool, queued: bool) -> None:
    """Of two workers, the other with one request: `stays` while requests < (requests + 1 + 1) / 2 * 1.25."""
    policy, prompt = PrefixHash(SMALL), asking(LONG)
    own = policy.pick(fleet(2), prompt).worker.name
    loads = {"queued": requests} if queued else {"in_flight": requests}
    workers = [attrs.evolve(each, **(loads if each.name == own else {"in_flight": 1})) for each in fleet(2)]

    assert (policy.pick(workers, prompt).worker.name == own) == stays


def test_a_worker_of_more_weight_has_too_many_requests_later() -> None:
    policy = PrefixHash(SMALL)
    workers = [Seen("big", in_flight=8, weight=8.0), Seen("small", in_flight=4)]
    names = {policy.pick(workers, by_beginning(key)).worker.name for key in KEYS}

    assert names == {"big"}
