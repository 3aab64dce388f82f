"""Decisions that are kept, shown and asked again."""

import random
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.routing.candidates import Seen, asking, fleet

from smg_core.engines.loads import RankLoad
from smg_core.routing import POLICIES, Candidate, Pick, RoutingContext, policy
from smg_core.routing.decisions import LONGEST_WHY, Decisions, RoutingDecision, replay_decisions
from smg_core.routing.settings import RoutingConfig


def decided(name: str, count: int, kept: Decisions, seed: int = 3) -> list[str]:
    """So many decisions of a policy over workers of different load; the names of those that it chose."""
    draw, chosen, names = random.Random(1), policy(name, rng=random.Random(seed)), []
    for number in range(count):
        workers = [Seen(f"w{at}", in_flight=draw.randrange(4), prefill_tokens=draw.randrange(900)) for at in range(4)]
        prompt = [draw.randrange(3)] * 64 + [draw.randrange(1000) for _ in range(80)]
        context = asking(
            prompt, f"r{number}", headers={"authorization": "secret"}, cache_key=f"k{number % 5}", now=number
        )
        pick = chosen.pick(workers, context)
        kept.note(workers, context, pick, name, 1, 1000.0 + number)
        names.append(pick.worker.name)
    return names


@pytest.mark.parametrize("name", sorted(POLICIES))
def test_the_policy_that_decided_would_decide_the_same_again(name: str) -> None:
    kept = Decisions(1000, 1 << 30)
    names = decided(name, 40, kept)

    again = replay_decisions(kept, policy(name, rng=random.Random(3)))
    assert [each.worker for each in again] == names == [each.was for each in again]


def test_another_policy_is_shown_what_the_first_one_saw() -> None:
    kept = Decisions(1000, 1 << 30)
    decided("passthrough", 40, kept)

    assert {each.was for each in replay_decisions(kept, policy("least_requests"))} == {"w0"}
    for (decision, _), other in zip(kept, replay_decisions(kept, policy("least_requests")), strict=True):
        busy = {each.name: each.in_flight for each in decision.candidates}
        assert busy[other.worker] == min(busy.values())


def test_a_record_has_the_candidates_the_scores_and_the_reason_and_nothing_of_the_prompt() -> None:
    kept = Decisions(10, 1 << 20)
    decided("cache_aware", 1, kept)
    (decision,) = kept.of("r0")
    ranked = [Seen("w", rank_count=2, ranks=(RankLoad(0, 1, 2, used_tokens=7), RankLoad(1, 0, 0)))]
    pick = policy("dp_min_token").pick(ranked, asking(name="ranked"))
    kept.note(ranked, asking(name="ranked"), pick, "dp_min_token", 2, 5.0)

    assert [each.name for each in decision.candidates] == ["w0", "w1", "w2", "w3"]
    assert len(decision.scores) == len(decision.matched) == 4
    assert (
        decision.scores[[each.name for each in decision.candidates].index(decision.worker)]
        <= min(decision.scores) + 256
    )
    assert (decision.why, decision.basis, decision.prompt_tokens, decision.at) == (
        "least to do",
        "approximate",
        144,
        1000.0,
    )
    told = msgspec.json.encode([decision, *kept.of("ranked")])
    assert b"secret" not in told
    assert b'"used_tokens":7' in told
    assert all(not context.headers for _, context in kept)


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 50)), max_size=40), st.integers(0, 6), st.integers(0, 9000))
def test_no_more_is_kept_than_was_said_and_the_oldest_goes_first(
    requests: list[tuple[int, int]], most: int, most_bytes: int
) -> None:
    kept, noted = Decisions(most, most_bytes), list[str]()
    workers = fleet(2)
    for number, tokens in requests:
        context = asking([1] * tokens, f"r{number}")
        kept.note(workers, context, policy("passthrough").pick(workers, context), "passthrough", 1, 0.0)
        noted.append(context.request_id)
        held = [decision.request_id for decision, _ in kept]

        assert len(held) <= most
        assert len(held) * 1680 <= most_bytes
        assert held == noted[len(noted) - len(held) :]
        assert {name: len(kept.of(name)) for name in set(noted)} == {name: held.count(name) for name in set(noted)}


@pytest.mark.parametrize("field", ["cache_key", "cache_salt", "text"])
def test_what_a_client_names_counts_as_what_is_kept(field: str) -> None:
    kept, workers = Decisions(1000, 1 << 20), fleet(2)
    for number in range(100):
        context = asking(name=f"r{number}", **{field: "k" * 100_000})
        kept.note(workers, context, policy("passthrough").pick(workers, context), "passthrough", 1, 0.0)

    assert sum(len(getattr(context, field)) for _, context in kept) <= 1 << 20


def test_a_request_has_a_record_for_every_try() -> None:
    kept, workers = Decisions(10, 1 << 20), fleet(2)
    for attempt in (1, 2):
        kept.note(workers, asking(), policy("passthrough").pick(workers, asking()), "passthrough", attempt, 0.0)
    found: list[RoutingDecision] = kept.of("r")

    assert [each.attempt for each in found] == [1, 2]
    assert kept.of("never seen") == []


def test_a_notebook_shows_a_decision_as_a_table_with_the_best_candidate_first_and_nothing_it_could_run() -> None:
    kept = Decisions(10, 1 << 20)
    workers = [Seen("<b>", in_flight=9, prefill_tokens=5000), Seen("w1", kv_usage=0.25)]
    chosen = policy("cache_aware", rng=random.Random(1))
    for name in ("first", "again"):
        context = asking(list(range(200)), name)
        kept.note(workers, context, chosen.pick(workers, context), "cache_aware", 1, 0.0)
    shown = kept.of("again")[0]._repr_html_()

    assert "cache_aware: w1 (has the prefix); 200 prompt tokens, of which 192 expected in its cache" in shown
    assert shown.index("w1</td>") < shown.index("&lt;b&gt;")
    assert "<b>" not in shown.replace("<b>cache_aware", "")
    assert all(f">{cell}</td>" in shown for cell in ("chosen", "192", "9", "5,000", "25%"))


@pytest.mark.parametrize("name", sorted(POLICIES))
def test_every_policy_has_a_card(name: str) -> None:
    kept = Decisions(10, 1 << 20)
    decided(name, 2, kept)

    assert all(f"{each.name}</td>" in kept.of("r1")[0]._repr_html_() for each in kept.of("r1")[0].candidates)


class Strange:
    """A user's policy that says why in numbers of numpy's, some of which are none, and in more words than anybody reads."""

    name = "strange <b>"

    def pick(self, candidates: Sequence[Candidate], context: RoutingContext) -> Pick:
        scores = np.array([np.nan, np.inf, *range(len(candidates) - 2)], dtype=np.float32)
        matched = np.arange(len(candidates))
        return Pick(
            candidates[1], why="<script>" * 1000, scores=scores, matched=matched, stale=np.ones(len(candidates))
        )


def test_a_users_policy_with_strange_numbers_is_kept_shown_told_and_asked_again() -> None:
    kept, workers = Decisions(10, 1 << 20), fleet(4)
    mine = policy(f"{__name__}:Strange")
    pick = mine.pick(workers, asking())
    assert not pick.fault(4)
    kept.note(workers, asking(), pick, mine.name, 1, 0.0)
    (decision,) = kept.of("r")
    shown, told = decision._repr_html_(), msgspec.json.decode(msgspec.json.encode(decision))

    assert len(decision.why) == LONGEST_WHY
    assert "<script>" not in shown
    assert told["scores"] == [None, None, 0.0, 1.0]
    assert told["matched"] == [0, 1, 2, 3]
    assert [each.worker for each in replay_decisions(kept, policy(f"{__name__}:Strange"))] == ["w1"]
    assert [each.worker for each in replay_decisions(kept, policy("passthrough"))] == ["w0"]


@pytest.mark.parametrize(
    "fields",
    [
        {"scores": ("low", "high")},
        {"scores": (None, 1.0)},
        {"matched": (0.5, 1)},
        {"matched": ("1", "2")},
        {"stale": ("old", None)},
        {"bases": ("exact", "guessed")},
        {"bases": (["exact"], "exact")},
    ],
    ids=str,
)
def test_rows_that_are_no_numbers_are_no_pick(fields: dict[str, Any]) -> None:
    assert Pick(fleet(2)[0], **fields).fault(2)


@given(
    st.lists(
        st.tuples(st.integers(0, 9), st.integers(0, 5), st.integers(0, 900), st.sampled_from([0.5, 1.0, 2.0])),
        min_size=2,
        max_size=5,
    ),
    st.integers(1, 3),
    st.sampled_from(["regular", "decode"]),
)
def test_the_parts_that_are_told_of_a_score_add_up_to_it(
    rows: list[tuple[int, int, int, float]], ranks: int, role: str
) -> None:
    workers = [
        Seen(
            f"w{at}",
            flying,
            running=others,
            others=others,
            prefill_tokens=waits,
            weight=weight,
            rank_count=ranks,
            kv_usage=0.3,
        )
        for at, (flying, others, waits, weight) in enumerate(rows)
    ]
    one = policy("cache_aware", RoutingConfig(block_tokens=2, balance_s=1.0), random.Random(1))
    kept = Decisions(100, 10**6)
    for second in range(12):
        request = asking([second % 2] * 40, f"r{second}", role=role, now=float(second), hand_over={"w1": 7.0})
        pick = one.pick(workers, request)
        kept.note(workers, request, pick, "cache_aware", 1, 0.0)
        by_name = dict(zip([each.name for each in workers], pick.scores, strict=True))

        assert pick.worker.name in pick.parts
        for name, parts in pick.parts.items():
            assert sum(parts.values()) == pytest.approx(by_name[name], abs=1e-6) or ranks > 1
        sentence = kept.of(f"r{second}")[0].sentence
        assert sentence.startswith(pick.worker.name)
        assert "was chosen" in sentence


def test_a_policy_that_tells_no_parts_has_no_sentence() -> None:
    kept = Decisions(10, 10**6)
    request = asking()
    kept.note([Seen("a")], request, policy("round_robin").pick([Seen("a")], request), "round_robin", 1, 0.0)

    assert kept.of("r")[0].sentence == ""


@pytest.mark.parametrize("parts", [{"a": 1}, {"a": {"reading": "much"}}, {1: {}}, [], {"a": {2: 1.0}}])
def test_parts_that_are_no_numbers_by_name_are_a_fault_of_the_policy(parts: object) -> None:
    assert "parts" in Pick(Seen("a"), parts=parts).fault(1)  # type: ignore[arg-type]
