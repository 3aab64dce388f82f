"""What workers stand at: what waits, the crowd, and the lead of those that have had more for a while."""

import pytest
from tests.core.routing.candidates import Seen

from smg_core.routing.settings import RoutingConfig
from smg_core.routing.standing import Standing

NONE = RoutingConfig(crowd_tokens=0, balance_factor=0.0, kv_pressure_tokens=0)


def test_tokens_that_wait_count_as_they_are_and_by_weight() -> None:
    workers = [Seen("a", prefill_tokens=300), Seen("b", prefill_tokens=300, weight=2.0), Seen("c")]

    assert Standing(NONE).of(workers, 0.0) == [300.0, 150.0, 0.0]


def test_requests_that_only_the_engine_knows_of_wait_with_a_mean_prompt_each() -> None:
    standing = Standing(NONE)
    standing.note(500)

    assert standing.of([Seen("a", queued=3, others=3, prefill_tokens=100), Seen("b")], 0.0) == [1600.0, 0.0]
    assert standing.of([Seen("a", queued=2, running=2, others=2), Seen("b")], 0.0) == [500.0, 0.0]  # half are ours


def test_requests_of_others_have_as_much_waiting_as_ours_have_on_the_average() -> None:
    standing = Standing(NONE)
    for second in range(20):
        standing.of([Seen("a", in_flight=4, prefill_tokens=600), Seen("b", in_flight=2)], float(second))

    assert standing.of([Seen("a", others=3, running=3), Seen("b")], 19.0) == [pytest.approx(300), 0.0]


def test_what_was_sent_since_the_report_adds_to_what_others_had_then() -> None:
    standing = Standing(RoutingConfig(crowd_tokens=32, balance_factor=0.0))
    standing.note(500)
    crowd = [standing.of([Seen("a", in_flight=sent, running=8, others=6), Seen("b")], 0.0)[0] for sent in (2, 3, 4)]

    assert crowd == sorted(set(crowd))


def test_a_few_requests_more_weigh_little_and_a_flock_weighs_much() -> None:
    standing = Standing(RoutingConfig(crowd_tokens=32, balance_factor=0.0))

    def excess(requests: int) -> float:
        return standing.of([Seen("a", in_flight=requests), *[Seen(name, in_flight=10) for name in "bcdefgh"]], 0.0)[0]

    few, flock = excess(12), excess(60)
    assert 0 < few < 32
    assert flock > 1000 * few / 12


def test_only_a_lasting_lead_counts_and_a_worker_that_comes_has_none() -> None:
    standing = Standing(RoutingConfig(crowd_tokens=0, balance_factor=1.0, balance_s=10.0))
    standing.note(1000)
    even = [Seen("a", in_flight=10), Seen("b", in_flight=10)]
    standing.of(even, 0.0)
    ahead = [Seen("a", in_flight=20), Seen("b", in_flight=10)]
    at_once = standing.of(ahead, 0.2)[0]
    for second in range(1, 60):
        later = standing.of(ahead, float(second))
    newcomer = standing.of([*ahead, Seen("c")], 60.0)

    assert at_once < 20
    assert later == [pytest.approx(333, abs=5), 0.0]
    assert newcomer[1:] == [0.0, 0.0]


def test_reading_weighs_more_where_prompts_wait_and_as_much_as_waiting_where_none_do() -> None:
    standing = Standing(RoutingConfig(read_factor=20.0, balance_s=1.0))
    standing.note(1000)
    for second in range(20):
        standing.of([Seen("a"), Seen("b")], float(second))
    quiet = standing.read_weight
    for second in range(20, 60):
        standing.of([Seen("a", prefill_tokens=2000), Seen("b")], float(second))

    assert quiet == 1.0
    assert standing.read_weight == pytest.approx(1.0 + 20.0 * 0.25)


def test_a_worker_that_left_is_forgotten() -> None:
    standing = Standing(RoutingConfig(crowd_tokens=0, balance_factor=1.0, balance_s=1.0))
    standing.note(1000)
    for second in range(20):
        standing.of([Seen("a", in_flight=20), Seen("b")], float(second))
    standing.forget("a")

    assert standing.of([Seen("a", in_flight=20), Seen("b")], 19.0) == [0.0, 0.0]
