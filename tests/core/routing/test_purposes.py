"""What each policy is for, as a test that a policy which chooses at random fails."""

import random
import re
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path

import pytest
from tests.core.routing.candidates import Seen, asking, fleet

from smg_core.routing import POLICIES, Pick, Policy, RoutingContext, policy

ROOT = Path(__file__).parents[3]
ROUNDS = 64


class AtRandom:
    """A policy that does nothing of what it is called for."""

    name = "planted"

    def __init__(self) -> None:
        self._rng = random.Random(5)

    def pick(self, candidates: Sequence[Seen], context: RoutingContext) -> Pick:
        worker = self._rng.choice(candidates)
        return Pick(worker, self._rng.randrange(worker.rank_count) if worker.rank_count > 1 else None)


class First:
    """A policy that always takes the first worker."""

    name = "planted"

    def pick(self, candidates: Sequence[Seen], context: RoutingContext) -> Pick:
        return Pick(candidates[0])


def chosen(one: Policy, workers: Sequence[Seen], request: RoutingContext) -> str:
    return one.pick(workers, request).worker.name


def takes_turns(one: Policy) -> bool:
    return [chosen(one, fleet(4), asking()) for _ in range(ROUNDS)] == ["w0", "w1", "w2", "w3"] * (ROUNDS // 4)


def gives_all_about_the_same_and_no_order(one: Policy) -> bool:
    found = [chosen(one, fleet(4), asking()) for _ in range(40 * ROUNDS)]
    pairs = Counter(pairwise(found))
    return len(pairs) == 16 and max(pairs.values()) < 2 * min(pairs.values())


def takes_the_fewest_requests_by_weight(one: Policy) -> bool:
    workers = [
        Seen("a", in_flight=4),
        Seen("b", in_flight=1, queued=4),
        Seen("c", in_flight=6, weight=2.0),
        Seen("d", in_flight=7),
    ]
    return {chosen(one, workers, asking()) for _ in range(ROUNDS)} == {"c"}


def never_takes_the_busiest(one: Policy) -> bool:
    found = Counter(chosen(one, [Seen(f"w{at}", in_flight=at) for at in range(4)], asking()) for _ in range(ROUNDS * 4))
    return found["w3"] == 0 and found["w0"] > found["w1"] > found["w2"] > 0


def takes_the_least_work(one: Policy) -> bool:
    workers = [
        Seen("a", prefill_tokens=9000),
        Seen("b", in_flight=40),
        Seen("c", kv_usage=0.97),
        Seen("d", in_flight=3),
    ]
    return {chosen(one, workers, asking()) for _ in range(ROUNDS)} == {"d"}


def goes_where_the_prompt_is_unless_too_much_waits_there(one: Policy) -> bool:
    prompts = [[number] * 640 for number in range(8)]
    has = {number: chosen(one, fleet(8), asking(prompt, now=number)) for number, prompt in enumerate(prompts)}
    stays = all(
        chosen(one, fleet(8), asking([*prompts[number % 8], 99], now=10.0 + number)) == has[number % 8]
        for number in range(ROUNDS)
    )
    busy = [Seen(each.name, prefill_tokens=50_000 * (each.name == has[0])) for each in fleet(8)]
    return stays and len(set(has.values())) == 8 and chosen(one, busy, asking(prompts[0], now=100.0)) != has[0]


def keeps_a_key_on_its_worker_and_moves_only_those_of_one_that_leaves(one: Policy) -> bool:
    keys = [f"key-{number}" for number in range(ROUNDS)]
    before = {key: chosen(one, fleet(5), asking([1], cache_key=key)) for key in keys}
    again = {key: chosen(one, fleet(5), asking([2], name="other", cache_key=key)) for key in keys}
    after = {key: chosen(one, fleet(5)[:4], asking([3], cache_key=key)) for key in keys}
    moved = {key for key in keys if after[key] != before[key]}
    return (
        before == again
        and set(before.values()) == {each.name for each in fleet(5)}
        and moved == {key for key in keys if before[key] == "w4"}
    )


def goes_by_the_beginning_until_its_worker_has_too_much(one: Policy) -> bool:
    own = {number: chosen(one, fleet(8), asking([number] * 256)) for number in range(ROUNDS)}
    same = all(chosen(one, fleet(8), asking([number] * 256 + [77] * 50, "x")) == own[number] for number in own)
    crowded = [Seen(each.name, in_flight=1 + 9 * (each.name == own[0])) for each in fleet(8)]
    return same and len(set(own.values())) == 8 and chosen(one, crowded, asking([0] * 256)) != own[0]


def begins_a_session_where_the_least_work_is_and_leaves_it_there(one: Policy) -> bool:
    workers = [Seen(f"w{at}", in_flight=10 * (at != 2)) for at in range(4)]
    first = {chosen(one, workers, asking(cache_key=f"s{number}")) for number in range(ROUNDS)}
    turned = [Seen(f"w{at}", in_flight=10 * (at == 2)) for at in range(4)]
    later = {chosen(one, turned, asking(cache_key=f"s{number}")) for number in range(ROUNDS)}
    return first == later == {"w2"} and chosen(one, turned, asking(cache_key="new")) != "w2"


def parts_prompts_by_length(one: Policy) -> bool:
    lengths = random.Random(1).choices((50, 200, 1000, 6000), (40, 20, 6, 1), k=400)
    found = [(length, int(chosen(one, fleet(4), asking([1] * length))[1:])) for length in lengths][200:]
    means = [[at for length, at in found if length == each] for each in (50, 200, 1000, 6000)]
    return [sum(each) / len(each) for each in means] == sorted({sum(each) / len(each) for each in means}) and max(
        means[0]
    ) < min(means[-1])


def takes_the_first(one: Policy) -> bool:
    return {chosen(one, fleet(4), asking()) for _ in range(ROUNDS)} == {"w0"}


def gives_every_rank_the_same_number_of_tokens(one: Policy) -> bool:
    sent = Counter[tuple[str, int | None]]()
    for number in range(ROUNDS):
        pick = one.pick(fleet(2, rank_count=4), asking([1] * (10 + number % 7)))
        sent[pick.worker.name, pick.rank] += 10 + number % 7
    return len(sent) == 8 and max(sent.values()) - min(sent.values()) <= 17


PURPOSES: dict[str, Callable[[Policy], bool]] = {
    "round_robin": takes_turns,
    "random": gives_all_about_the_same_and_no_order,
    "least_requests": takes_the_fewest_requests_by_weight,
    "power_of_two": never_takes_the_busiest,
    "least_load": takes_the_least_work,
    "cache_aware": goes_where_the_prompt_is_unless_too_much_waits_there,
    "consistent_hashing": keeps_a_key_on_its_worker_and_moves_only_those_of_one_that_leaves,
    "prefix_hash": goes_by_the_beginning_until_its_worker_has_too_much,
    "manual": begins_a_session_where_the_least_work_is_and_leaves_it_there,
    "bucket": parts_prompts_by_length,
    "passthrough": takes_the_first,
    "dp_min_token": gives_every_rank_the_same_number_of_tokens,
}


def test_every_policy_has_a_purpose_that_is_tested() -> None:
    assert set(PURPOSES) == set(POLICIES)


@pytest.mark.parametrize("name", POLICIES)
def test_the_policy_does_what_it_is_for(name: str) -> None:
    assert PURPOSES[name](policy(name, rng=random.Random(11)))


@pytest.mark.parametrize("name", sorted(set(POLICIES) - {"random"}))
def test_a_choice_at_random_does_not(name: str) -> None:
    assert not PURPOSES[name](AtRandom())


def test_what_is_not_at_random_is_not_taken_for_it() -> None:
    assert not any(PURPOSES["random"](one) for one in (First(), policy("round_robin"), policy("least_requests")))


def test_the_page_says_of_every_policy_when_to_take_it_and_has_its_row_of_the_grid() -> None:
    page, grid = (ROOT / "docs/routing.md").read_text(), (ROOT / "bench/fleet.md").read_text()
    rows = dict(
        re.findall(r"^\| `(\w+)` \| (.*) \|$", grid.partition("## Policies")[2].partition("\n## ")[0], re.MULTILINE)
    )
    told = re.findall(r"^\*\*`(\w+)`\.\*\* Take it .*\n\n\| chat .*\n\|---.*\n\| (.*) \|$", page, re.MULTILINE)

    assert [name for name, _ in told] == [*POLICIES]
    assert dict(told) == rows
