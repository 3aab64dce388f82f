"""Workers by model, and the two ways of having none."""

import pytest

from smg_core.engines.base import EngineFacts
from smg_core.errors import ModelNotFound, NoWorker, WorkerGone
from smg_core.workers.registry import Registry
from smg_core.workers.settings import WorkersConfig
from smg_core.workers.worker import Worker, WorkerRole, WorkerSpec

PLAIN, OTHER, THIRD = EngineFacts("vllm"), EngineFacts("neutral"), EngineFacts("third")


def ready(
    registry: Registry, name: str, *models: str, role: WorkerRole = "regular", facts: EngineFacts | None = None
) -> Worker:
    worker = registry.add(WorkerSpec(f"grpc://{name}", name=name, role=role))
    worker.facts = facts or PLAIN
    registry.serve(worker, models)
    registry.signal(worker, "joined")
    return worker


def test_candidates_are_the_ready_workers_of_the_model_in_the_order_they_were_added() -> None:
    registry = Registry()
    ready(registry, "b", "llama")
    ready(registry, "a", "llama", "chat")
    ready(registry, "c", "qwen")

    assert [worker.name for worker in registry.candidates("llama")] == ["b", "a"]
    assert registry.models == ("chat", "llama", "qwen")


def test_workers_that_were_tried_are_left_out() -> None:
    registry = Registry()
    ready(registry, "a", "m")
    ready(registry, "b", "m")

    assert [worker.name for worker in registry.candidates("m", frozenset({"a"}))] == ["b"]
    with pytest.raises(NoWorker):
        registry.candidates("m", frozenset({"a", "b"}))


def test_an_unreachable_worker_takes_nothing_until_it_is_healthy_again() -> None:
    registry = Registry()
    worker = ready(registry, "a", "m")
    registry.signal(worker, "failing", "no answer")

    with pytest.raises(NoWorker) as caught:
        registry.candidates("m")
    registry.signal(worker, "healthy")

    assert caught.value.retry_after is not None
    assert registry.candidates("m") == (worker,)


def test_a_model_nobody_serves_is_told_from_a_model_nobody_is_ready_for() -> None:
    registry = Registry()
    ready(registry, "a", "m")

    with pytest.raises(ModelNotFound):
        registry.candidates("other")


def test_while_a_worker_is_joining_an_unknown_model_may_still_come() -> None:
    registry = Registry()
    registry.add(WorkerSpec("grpc://a"))

    with pytest.raises(NoWorker):
        registry.candidates("m")


def test_beside_ready_workers_one_that_has_not_joined_is_awaited_for_a_while() -> None:
    now = 0.0
    registry = Registry(settings=WorkersConfig(joining_s=5.0), monotonic=lambda: now)
    ready(registry, "a", "m")
    late = registry.add(WorkerSpec("grpc://late", name="late"))

    with pytest.raises(NoWorker, match="No worker that serves 'other' is ready; 1 worker has not joined yet"):
        registry.refuse("other")
    now = 5.0
    with pytest.raises(ModelNotFound):
        registry.refuse("other")
    registry.change(late, WorkerSpec("grpc://late", name="late", weight=2.0))
    with pytest.raises(ModelNotFound):
        registry.refuse("other")
    registry.change(late, WorkerSpec("grpc://elsewhere", name="late"))
    with pytest.raises(NoWorker):
        registry.refuse("other")


@pytest.mark.parametrize(
    "awaited", [WorkerSpec("grpc://late", model="named"), WorkerSpec("grpc://late", role="encode")]
)
def test_beside_ready_workers_one_that_cannot_serve_a_model_is_not_awaited_for_it(awaited: WorkerSpec) -> None:
    registry = Registry()
    registry.add(awaited)
    with pytest.raises(NoWorker):
        registry.refuse("other")
    ready(registry, "a", "m")
    with pytest.raises(ModelNotFound):
        registry.refuse("other")


def test_a_name_that_is_hidden_is_answered_as_one_that_no_setting_names() -> None:
    registry = Registry()
    ready(registry, "a", "m")
    registry.add(WorkerSpec("grpc://late", model="named"))

    with pytest.raises(NoWorker):
        registry.refuse("named")
    with pytest.raises(ModelNotFound):
        registry.refuse("named", hidden=True)
    registry.add(WorkerSpec("grpc://later"))
    with pytest.raises(NoWorker, match="1 worker has"):
        registry.refuse("named", hidden=True)


def test_a_removed_worker_is_gone_from_the_index() -> None:
    registry = Registry()
    worker = ready(registry, "a", "m")
    registry.signal(worker, "removed")

    assert list(registry) == []
    assert not registry.any_ready


def test_a_name_can_be_taken_once_and_the_registry_is_bounded() -> None:
    registry = Registry(settings=WorkersConfig(most=1))
    registry.add(WorkerSpec("grpc://a"))

    with pytest.raises(ValueError, match="already"):
        registry.add(WorkerSpec("grpc://a"))
    with pytest.raises(ValueError, match="at most 1"):
        registry.add(WorkerSpec("grpc://b"))


def test_each_worker_has_a_row_of_its_own_on_the_board() -> None:
    registry = Registry()
    one, two = ready(registry, "a", "m"), ready(registry, "b", "m")
    one.board.add(one.row, 2)

    assert (one.in_flight, two.in_flight) == (2, 0)


def test_the_row_of_a_worker_that_is_gone_is_used_again_once_its_requests_have_ended() -> None:
    registry = Registry()
    first = registry.add(WorkerSpec("grpc://a:1", name="a"))
    first.board.add(first.row, 1)
    registry.signal(first, "removed")
    second = registry.add(WorkerSpec("grpc://b:1", name="b"))
    first.board.add(first.row, -1)
    third = registry.add(WorkerSpec("grpc://c:1", name="c"))

    assert (first.row, second.row, third.row) == (0, 1, 0)
    assert third.in_flight == 0


def test_of_the_rows_that_are_free_the_first_is_used() -> None:
    registry = Registry()
    gone = [registry.add(WorkerSpec(f"grpc://{name}:1", name=name)) for name in "abcdef"]
    for worker in reversed(gone):
        registry.signal(worker, "removed")

    assert [registry.add(WorkerSpec(f"grpc://{name}:1", name=name)).row for name in "uvwxyz"] == [*range(6)]


def test_what_failed_before_a_worker_was_away_counts_no_more_when_it_is_back() -> None:
    registry = Registry()
    worker = ready(registry, "a", "m")
    for _ in range(100):
        registry.breakers.ended("a", WorkerGone("gone"), 0.0)
    before = registry.breakers.state("a")
    registry.signal(worker, "failing", "no answer")
    registry.signal(worker, "healthy")

    assert (before, registry.breakers.state("a")) == ("open", "closed")


def test_two_losses_of_a_worker_that_stays_ready_are_an_interval_of_health_checks_apart() -> None:
    registry = Registry(settings=WorkersConfig(health_interval_s=5.0))
    worker = ready(registry, "a", "m")

    assert registry.lost_with(worker, 9.0, 10.0)
    assert not registry.lost_with(worker, 10.5, 14.9)
    assert registry.lost_with(worker, 10.5, 15.0)


# ------------------------------------------------------------------------------------------------------- roles and kinds


def test_a_worker_is_a_candidate_for_its_own_role_only() -> None:
    registry = Registry()
    whole = ready(registry, "a", "m")
    prefill = ready(registry, "b", "m", role="prefill")
    decode = ready(registry, "c", "m", role="decode")

    assert registry.candidates("m") == (whole,)
    assert registry.candidates("m", role="prefill") == (prefill,)
    assert registry.candidates("m", role="decode") == (decode,)
    assert [worker.role for worker in registry] == ["regular", "prefill", "decode"]


def test_a_model_without_a_worker_in_a_role_is_served_but_not_ready_in_that_role() -> None:
    registry = Registry()
    ready(registry, "a", "m", role="prefill")

    with pytest.raises(NoWorker):
        registry.candidates("m")
    assert registry.models == ("m",)


def test_workers_of_one_kind_are_uniform_though_each_has_facts_of_its_own() -> None:
    registry = Registry()
    ready(registry, "a", "m", facts=EngineFacts("vllm", constraints=frozenset({"regex"})))
    ready(registry, "b", "m", facts=EngineFacts("vllm", constraints=frozenset({"regex"})))

    assert registry.uniform("m")
    assert len(registry.kinds("m")) == 1


def test_kinds_are_those_of_the_workers_that_are_ready_whatever_their_role() -> None:
    registry = Registry()
    ready(registry, "a", "m")
    away = ready(registry, "b", "m", facts=OTHER)
    ready(registry, "c", "m", role="decode", facts=THIRD)

    assert registry.kinds("m") == {PLAIN, OTHER, THIRD}
    assert not registry.uniform("m")
    registry.signal(away, "failing")
    assert registry.kinds("m") == {PLAIN, THIRD}
    assert registry.uniform("m")


def test_nobody_is_neither_uniform_nor_of_any_kind() -> None:
    registry = Registry()

    assert registry.kinds("m") == frozenset()
    assert not registry.uniform("m")
    assert registry.of("m") == ()


def test_the_workers_of_a_model_are_told_whatever_their_state() -> None:
    registry = Registry()
    here, away = ready(registry, "a", "m"), ready(registry, "b", "m")
    registry.signal(away, "failing")
    ready(registry, "c", "other")

    assert registry.of("m") == (here, away)


def test_a_worker_that_serves_another_model_now_is_no_candidate_for_the_one_before() -> None:
    registry = Registry()
    worker = ready(registry, "a", "before")
    registry.serve(worker, ("after",))

    with pytest.raises(ModelNotFound):
        registry.candidates("before")
    assert registry.candidates("after") == (worker,)


def test_a_drained_worker_is_no_candidate_and_its_model_is_not_forgotten() -> None:
    registry = Registry()
    worker = ready(registry, "a", "m")
    registry.signal(worker, "drain")

    with pytest.raises(NoWorker):
        registry.candidates("m")
    assert registry.of("m") == (worker,)


def test_whether_a_worker_takes_requests_is_known_with_and_without_workers() -> None:
    registry = Registry()
    assert not registry.any_chat

    worker = registry.add(WorkerSpec("http://127.0.0.1:1", name="chat"))
    assert not registry.any_chat
    worker.facts = EngineFacts("openai", takes_ids=False, transport="http")
    registry.serve(worker, ("m",))
    assert registry.any_chat
