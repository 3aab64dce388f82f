"""What holds of every policy there is, whatever it looks at."""

import random
from collections import Counter

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.core.routing.candidates import Seen, asking, fleet

from smg_core.engines.kv_events import KvBlocksStored
from smg_core.engines.loads import RankLoad
from smg_core.routing import POLICIES, Observing, Pick, Policy, Remembering, RequestEnded, RoutingContext, policy
from smg_core.routing.settings import RoutingConfig
from smg_core.workers.candidate import LEAST_WEIGHT, MOST_WEIGHT

NAMES = sorted(POLICIES)
SPREADING = sorted(set(POLICIES) - {"passthrough"})  # its whole purpose is to take the first
DRAWING = sorted(
    set(SPREADING) - {"round_robin", "least_requests", "bucket", "dp_min_token"}
)  # those go by the list's order
SMALL = RoutingConfig(index_bytes=20_000, sessions=4, remembered_workers=4, block_tokens=2, block_characters=2)

RANKS = st.lists(st.integers(0, 1000), max_size=3).map(
    lambda used: tuple(RankLoad(rank, 0, 0, used_tokens=tokens) for rank, tokens in enumerate(used))
)
WORKERS = st.lists(
    st.builds(
        Seen,
        name=st.sampled_from("abcdefgh"),
        in_flight=st.integers(0, 9),
        queued=st.integers(0, 9),
        weight=st.sampled_from([0.5, 1.0, 3.0]),
        running=st.integers(0, 9),
        others=st.integers(0, 9),
        prefill_tokens=st.integers(0, 10_000),
        kv_usage=st.floats(0, 2),
        kv_tokens=st.integers(0, 100),
        rank_count=st.integers(1, 3),
        ranks=RANKS,
    ),
    min_size=1,
    max_size=6,
    unique_by=lambda seen: seen.name,
)
REQUESTS = st.builds(
    lambda prompt, **fields: asking(prompt, **fields),
    st.lists(st.integers(0, 3), max_size=12),
    name=st.sampled_from(["r1", "r2", "r3"]),
    cache_key=st.sampled_from([None, "one", "two", "three"]),
    cache_salt=st.sampled_from([None, "tenant"]),
    lora=st.sampled_from([None, "adapter"]),
    text=st.text("ab", max_size=9),
    role=st.sampled_from(["regular", "prefill", "decode"]),
    now=st.floats(0, 100_000),
)
ROUNDS = st.lists(st.tuples(WORKERS, REQUESTS), min_size=1, max_size=12)


def told(answer: Pick) -> tuple[object, ...]:
    return answer.worker.name, answer.rank, answer.why, list(answer.scores), list(answer.matched), answer.cached


@pytest.mark.full
@pytest.mark.sampled(keep=2)
@pytest.mark.parametrize("name", NAMES)
@given(rounds=ROUNDS, seed=st.integers(0, 9))
@settings(max_examples=15)
def test_a_policy_takes_a_candidate_and_no_other_and_with_the_same_chance_the_same_one(
    name: str, rounds: list[tuple[list[Seen], RoutingContext]], seed: int
) -> None:
    one, other = (policy(name, SMALL, random.Random(seed)) for _ in range(2))
    for workers, request in rounds:
        answer = one.pick(workers, request)

        assert any(answer.worker is each for each in workers)
        assert answer.rank is None or 0 <= answer.rank < answer.worker.rank_count
        assert len(answer.scores) in (0, len(workers))
        assert len(answer.matched) in (0, len(workers))
        assert len(answer.bases) in (0, len(workers))
        assert len(answer.stale) in (0, len(workers))
        assert 0 <= answer.cached <= max(request.tokens, 0)
        assert told(answer) == told(other.pick(workers, request))
        _happened(one, workers[0].name)
        _happened(other, workers[0].name)


def _happened(policy: Policy, worker: str) -> None:
    """A call has ended, and its worker leaves: state about workers that are gone does no harm."""
    if isinstance(policy, Observing):
        policy.request_ended(RequestEnded(worker, failed=False, seconds=1.0))
        policy.worker_left(worker)
        policy.worker_left("never there")
        policy.cache_lost(worker)
        policy.cache_lost("never there")


@pytest.mark.parametrize("name", NAMES)
def test_a_policy_is_found_by_its_name_and_copes_with_one_worker(name: str) -> None:
    only = Seen("only", in_flight=3)

    assert policy(name).name == name
    assert policy(name).pick([only], asking()).worker is only


@pytest.mark.sampled(keep=9)
@pytest.mark.parametrize("name", SPREADING)
@pytest.mark.parametrize("length", [3, 400])
def test_equal_workers_get_equal_parts_of_unlike_requests_that_come_before_any_load_is_seen(
    name: str, length: int
) -> None:
    workers, chosen = fleet(8), policy(name, rng=random.Random(1))
    draw = random.Random(2)
    names = [
        chosen.pick(workers, asking([draw.randrange(1000) for _ in range(length)], f"r{at}", cache_key=f"k{at}"))
        for at in range(400)
    ]

    counts = Counter(each.worker.name for each in names)
    assert len(counts) == 8
    assert max(counts.values()) <= 2 * 400 / 8


@pytest.mark.parametrize("name", DRAWING)
def test_several_gateways_that_do_not_see_each_other_do_not_all_begin_with_the_same_worker(name: str) -> None:
    workers = fleet(8)
    first = [
        policy(name, rng=random.Random(seed)).pick(workers, asking([seed] * (seed * 30 + 1), f"r{seed}"))
        for seed in range(40)
    ]
    taken = Counter(each.worker.name for each in first)

    assert len(taken) >= 4
    assert max(taken.values()) <= 20


@pytest.mark.sampled(keep=4)
@pytest.mark.parametrize("name", NAMES)
def test_a_policy_copes_with_thousands_of_workers_and_ranks(name: str) -> None:
    workers = [attrs.evolve(each, rank_count=2) for each in fleet(2000)]
    chosen = policy(name, rng=random.Random(1))

    picks = [chosen.pick(workers, asking([at] * 200, f"r{at}", cache_key=f"k{at}")) for at in range(3)]
    assert all(each.worker in workers for each in picks)


@pytest.mark.parametrize("name", NAMES)
def test_a_policy_does_not_change_what_it_is_shown(name: str) -> None:
    workers = fleet(3)
    shown = list(workers)
    for at in range(5):
        policy(name).pick(workers, asking([at]))

    assert workers == shown


@pytest.mark.parametrize("name", ["cache_aware", "least_load"])
@pytest.mark.parametrize("role", ["prefill", "decode"])
def test_a_worker_that_the_cache_must_be_carried_far_to_or_from_is_taken_where_it_has_that_much_less_to_do(
    name: str, role: str
) -> None:
    def chosen(waiting: int) -> str:
        workers = [Seen("near", prefill_tokens=waiting), Seen("far")]
        return policy(name).pick(workers, asking(role=role, hand_over={"far": 1000.0})).worker.name

    assert (chosen(0), chosen(500), chosen(2000)) == ("near", "near", "far")


@pytest.mark.parametrize("name", NAMES)
def test_every_policy_picks_by_any_weight_that_a_worker_may_have_and_any_load(name: str) -> None:
    chosen = policy(name, rng=random.Random(1))
    loads = (0, 1, 1 << 40)
    workers = [
        Seen(f"{weight} {load}", load, load, weight, load, load, kv_usage=1.0, kv_tokens=load)
        for weight in (LEAST_WEIGHT, 1.0, MOST_WEIGHT)
        for load in loads
    ]
    for number, some in enumerate([workers, workers[::-1], workers[2:3], workers[:1]]):
        pick = chosen.pick(some, asking(range(200), cache_key="k", now=float(number)))

        assert pick.worker in some
        assert not pick.fault(len(some))


PROMPT = list(range(300))
SENT = {
    "ids": asking(PROMPT),
    "ids of a tenant": asking(PROMPT, cache_salt="tenant", engine_salt="tenant"),
    "ids for an adapter": asking(PROMPT, lora="adapter"),
    "ids with a picture": asking(
        PROMPT, media_keys=[*range(100), *[2**63 + 5] * 100, *range(100)], media=((100, "ab"),)
    ),
    "text": asking([], text="All of this was said before. " * 99),
    "ids of a session": asking(PROMPT, cache_key="session"),
}
"""Every kind of prompt that a policy may remember."""


@pytest.mark.parametrize("sent", SENT.values(), ids=SENT)
@pytest.mark.parametrize("name", NAMES)
def test_a_policy_expects_nothing_in_a_cache_that_was_lost_and_all_in_that_of_another_worker(
    name: str, sent: RoutingContext
) -> None:
    chosen = policy(name, rng=random.Random(1))
    if isinstance(chosen, Remembering):
        chosen.remember(7)
    if isinstance(chosen, Observing):  # "w1" tells of its cache, "w0" does not
        tokens = KvBlocksStored([*range(4)], PROMPT[:256], 64, salt=sent.engine_salt or "", lora=sent.lora or "")
        chosen.kv_known("w1", 0, "all", salted=True)
        chosen.kv_changed("w1", 0, [tokens], 0.0)
    one, other = fleet(2)
    for each in (one, other):
        chosen.pick([each], sent)
    before = chosen.pick([one, other], sent)
    if isinstance(chosen, Observing):
        chosen.cache_lost("w0")
    middle = chosen.pick([other], sent), list(chosen.pick([one, other], sent).matched)
    if isinstance(chosen, Observing):
        chosen.cache_lost("w0")
        chosen.cache_lost("w1")
    after = chosen.pick([one, other], sent)

    if name == "cache_aware":  # the only one that expects anything
        assert all(matched > 200 for matched in before.matched)
        assert middle[0].cached > 200
        assert middle[1][0] == 0
    assert (after.cached, sum(after.matched)) == (0, 0)


def test_what_is_known_of_a_worker_of_several_ranks_is_told_once_for_each_worker() -> None:
    chosen = policy("cache_aware", rng=random.Random(1))
    assert isinstance(chosen, Observing)
    workers = [Seen("tells", rank_count=2), Seen("does not", rank_count=3)]
    for rank in range(2):
        chosen.kv_known("tells", rank, "all", salted=True)
        chosen.kv_changed("tells", rank, [KvBlocksStored([*range(4)], PROMPT[:256], 64)], 1.0)
    pick = chosen.pick(workers, asking(PROMPT, now=3.0))

    assert (pick.worker.name, pick.cached, pick.basis) == ("tells", 256, "exact")
    assert list(pick.matched) == [256, 0]
    assert list(pick.bases) == ["exact", "approximate"]
    assert [each is None for each in pick.stale] == [False, True]
    assert len(pick.scores) == 2


def test_what_was_sent_to_a_worker_is_not_kept_over_a_restart_of_the_gateway_once_its_cache_was_lost() -> None:
    chosen = policy("cache_aware", rng=random.Random(1))
    assert isinstance(chosen, Remembering)
    assert isinstance(chosen, Observing)
    chosen.remember(7)
    for each in fleet(2):
        chosen.pick([each], asking(PROMPT))
    chosen.cache_lost("w0")
    chosen.pick([Seen("w0")], asking(PROMPT[:100]))

    assert [(worker, len(keys)) for worker, _, keys in chosen.take_sent()] == [
        ("w0", 4),
        ("w1", 4),
        ("w0", 0),
        ("w0", 1),
    ]


def test_a_rank_that_is_left_alone_is_not_picked_by_the_policy_of_ranks() -> None:
    workers = [attrs.evolve(each, rank_count=3, ranks_out=(0, 2)) for each in fleet(2)]
    chosen = policy("dp_min_token")

    assert {(pick.worker.name, pick.rank) for pick in (chosen.pick(workers, asking()) for _ in range(6))} == {
        ("w0", 1),
        ("w1", 1),
    }


@pytest.mark.parametrize("name", ["cache_aware", "dp_min_token"])
def test_a_rank_that_is_left_alone_is_not_chosen_and_nothing_is_expected_of_it(name: str) -> None:
    chosen, prompt = policy(name, rng=random.Random(1)), range(4096)
    worker = Seen("w", rank_count=2)
    first = chosen.pick([worker], asking(prompt, now=1.0))
    assert first.rank is not None
    other = 1 - first.rank

    out = attrs.evolve(worker, ranks_out=(first.rank,))
    picks = [chosen.pick([out], asking(prompt, f"r{number}", now=2.0 + number)) for number in range(2)]
    assert [pick.rank for pick in picks] == [other, other]
    assert picks[0].cached == 0
