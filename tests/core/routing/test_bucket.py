"""The policy that parts requests by the length of their prompts."""

import random
from collections import Counter
from itertools import pairwise

import attrs
import pytest
from tests.core.routing.candidates import Seen, asking, fleet

from smg_core.routing.bucket import Bucket
from smg_core.routing.settings import RoutingConfig

SETTINGS = RoutingConfig()


def asked(policy: Bucket, workers: list[Seen], lengths: list[int]) -> list[tuple[int, int]]:
    """The length of each prompt, and the place of the worker that it went to."""
    return [(each, workers.index(policy.pick(workers, asking(range(each))).worker)) for each in lengths]  # type: ignore[arg-type]


def mixed(count: int) -> list[int]:
    """Lengths between 8 and 8192, every doubling as often as the others, shuffled."""
    lengths = [8 << at % 10 for at in range(count)]
    random.Random(1).shuffle(lengths)
    return lengths


def test_short_prompts_go_to_the_first_worker_and_long_ones_to_the_last() -> None:
    policy, workers = Bucket(SETTINGS), fleet(3)
    asked(policy, workers, mixed(1000))
    late = asked(policy, workers, mixed(300))

    assert {place for length, place in late if length <= 512} == {0}
    assert {place for length, place in late if length == 8192} <= {1, 2}
    assert {place for _, place in late} == {0, 1, 2}


def test_the_longer_a_prompt_the_later_its_worker() -> None:
    policy, workers = Bucket(SETTINGS), fleet(4)
    asked(policy, workers, mixed(1000))
    late = asked(policy, workers, mixed(400))
    places = [[place for each, place in late if each == length] for length in sorted(set(mixed(20)))]

    for shorter, longer in pairwise(places):  # the bounds move while they are asked
        assert max(shorter) <= min(longer) + 1
        assert sum(shorter) / len(shorter) <= sum(longer) / len(longer)


@pytest.mark.full
@pytest.mark.parametrize("weights", [(1.0, 1.0, 1.0), (1.0, 3.0), (2.0, 1.0, 1.0)])
def test_each_worker_gets_tokens_by_its_weight(weights: tuple[float, ...]) -> None:
    policy, workers = Bucket(SETTINGS), [Seen(f"w{at}", weight=weight) for at, weight in enumerate(weights)]
    asked(policy, workers, mixed(1000))
    tokens: Counter[int] = Counter()
    for length, place in asked(policy, workers, mixed(2000)):
        tokens[place] += length

    for at, weight in enumerate(weights):
        assert tokens[at] / tokens.total() == pytest.approx(weight / sum(weights), rel=0.15)


def test_prompts_of_one_length_are_spread_over_all_workers() -> None:
    counts = Counter(place for _, place in asked(Bucket(SETTINGS), fleet(4), [100] * 400))

    assert counts.keys() == {0, 1, 2, 3}
    assert max(counts.values()) - min(counts.values()) <= 4


@pytest.mark.sampled(keep=6)
@pytest.mark.parametrize("short", [1024, 1200, 1366, 1500, 1800, 1900, 2040, 2730])
def test_lengths_a_third_of_a_doubling_apart_are_told_apart(short: int) -> None:
    policy, workers, long = Bucket(SETTINGS), fleet(2), short * 3 // 2
    asked(policy, workers, [short, long] * 200)
    late = asked(policy, workers, [short, short, short, long, long] * 20)

    assert {place for length, place in late if length == short} == {0}
    assert Counter(place for length, place in late if length == long)[1] >= 30


def test_the_bounds_follow_what_is_asked_of_late() -> None:
    policy, workers = Bucket(SETTINGS), fleet(2)
    asked(policy, workers, [4000] * 500)
    asked(policy, workers, [4, 16] * 2000)
    late = asked(policy, workers, [4, 16] * 100)

    assert {place for length, place in late if length == 4} == {0}
    assert Counter(place for length, place in late if length == 16)[1] > 50


@pytest.mark.parametrize(
    ("waiting", "goes_on"),
    [(0, False), (1000, False), (3000, True), (100_000, True)],
)
def test_a_worker_with_too_much_work_hands_on_to_the_one_with_the_least(waiting: int, goes_on: bool) -> None:
    policy, workers = Bucket(SETTINGS), fleet(3)
    asked(policy, workers, [10, 1000] * 300)
    busy = [attrs.evolve(workers[0], prefill_tokens=waiting), attrs.evolve(workers[1], prefill_tokens=50), workers[2]]
    pick = policy.pick(busy, asking(range(1000 if waiting == 1000 else 10)))

    if goes_on:
        assert (pick.worker.name, pick.why) == ("w2", "the worker of this length has too much work")
    else:
        assert pick.why == "the worker of this length"


def test_the_scores_are_the_work_by_weight() -> None:
    workers = [Seen("a", prefill_tokens=600, weight=2.0), Seen("b", prefill_tokens=300), Seen("c", prefill_tokens=290)]
    pick = Bucket(SETTINGS).pick(workers, asking(range(10)))

    assert list(pick.scores) == [300.0, 300.0, 290.0]
