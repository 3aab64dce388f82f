"""How busy the workers of each model and role are together, as autoscalers are told it."""

from smg_core.engines.loads import Loads, RankLoad
from smg_core.pool_sample import PoolSampled
from smg_core.workers.pools import EVERY_S, KEPT, PoolHistory
from smg_core.workers.registry import Registry
from smg_core.workers.worker import Worker, WorkerPlace, WorkerRole, WorkerSpec


def joined(registry: Registry, name: str, *models: str, role: WorkerRole = "regular", waiting: int = 0) -> Worker:
    worker = registry.add(WorkerSpec(f"grpc://{name}", name=name, role=role))
    registry.serve(worker, models)
    registry.signal(worker, "joined")
    worker.load = Loads((RankLoad(0, 3, waiting, token_usage=0.5),))
    return worker


def test_a_pool_is_the_sum_of_its_workers_and_its_wait_is_by_how_fast_calls_end() -> None:
    registry, history = Registry(), PoolHistory()
    one, two = joined(registry, "a", "m", "alias", waiting=6), joined(registry, "b", "m", waiting=2)
    joined(registry, "c", "n", role="decode")
    registry.signal(two, "failing")
    places = [WorkerPlace(one, 10) for _ in range(5)]
    first = history.sampled(registry, 100.0)
    for each in places[:4]:
        each.leave()
    later = history.sampled(registry, 110.0)

    assert [(each.model, each.role) for each in first] == [("m", "regular"), ("n", "decode")]
    assert first[0] == PoolSampled("m", "regular", 2, 1, 5, 8, 6, 50, 0.5, None, None)
    assert (later[0].in_flight, later[0].waiting_tokens, later[0].ended_a_second, later[0].wait_s) == (1, 10, 0.4, 20.0)
    assert (later[1].ended_a_second, later[1].wait_s) == (0.0, 0.0)


def test_what_is_remembered_is_bounded_and_goes_over_the_last_looks() -> None:
    registry, history = Registry(), PoolHistory(processes=2)
    worker = joined(registry, "a", "m", waiting=1)
    for number in range(10 * KEPT):
        worker.ended += 5
        (pool,) = history.sampled(registry, number * EVERY_S)

    assert len(history._looks) == KEPT
    assert pool.ended_a_second == 2.0
    assert pool.wait_s == 0.5


def test_a_rate_is_not_told_before_enough_time_has_passed_and_looks_between_add_nothing() -> None:
    registry, history = Registry(), PoolHistory()
    worker = joined(registry, "a", "m", waiting=1)
    rates = []
    for now in (0.0, 1.0, 2.0, EVERY_S):
        worker.ended += 1
        rates.append(history.sampled(registry, now)[0].ended_a_second)

    assert rates == [None, None, None, 0.6]
    assert len(history._looks) == 2
