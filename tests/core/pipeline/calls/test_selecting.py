"""Which worker: ready, able to do what is asked, not tried before, and the policy's pick among those."""

from collections.abc import Callable, Sequence
from copy import copy
from itertools import combinations, product
from math import inf
from typing import Any, get_args

import attrs
import pytest
from tests.core.pipeline.prompt.test_prepare import asking, model, prompted

from smg_core.engines.base import EngineFacts
from smg_core.errors import ModelNotFound, NoWorker, Overloaded, PromptTooLong, UnsupportedParameter, WorkerGone
from smg_core.hooks import WorkerPicked
from smg_core.pipeline.answer.trace import Trace
from smg_core.pipeline.calls.routing_context import routing_context
from smg_core.pipeline.calls.selecting import Selecting
from smg_core.pipeline.flow.steps import Select
from smg_core.pipeline.prompt.prompted import Prompted
from smg_core.pipeline.prompt.served import ServedModel
from smg_core.pipeline.settings import DisaggregationConfig
from smg_core.request import Caller, Sampling
from smg_core.routing import Candidate, Pick, Policies, RoutingContext
from smg_core.testing import FakeClock, MemoryObserver
from smg_core.workers.handovers import HandoverEnd
from smg_core.workers.registry import Registry
from smg_core.workers.settings import BreakerConfig, WorkersConfig
from smg_core.workers.worker import LocalBoard, Worker, WorkerRole, WorkerSpec

ABLE = EngineFacts("vllm", ranks=4)
ONE_AT_A_TIME = EngineFacts("vllm", n=False, ranks=4)
SHORT = EngineFacts("vllm", context_length=5, ranks=4)


class Watching:
    """A policy that takes the last one, and keeps what it was shown."""

    name = "watching"

    def __init__(self) -> None:
        self.shown: list[list[str]] = []
        self.contexts: list[RoutingContext] = []
        self.answer: Any = None
        self.raises: Exception | None = None

    def pick(self, candidates: Sequence[Candidate], context: RoutingContext) -> Pick:
        self.shown.append([candidate.name for candidate in candidates])
        self.contexts.append(context)
        if self.raises is not None:
            raise self.raises
        return self.answer if self.answer is not None else Pick(candidates[-1], rank=3)


@attrs.define
class Office:
    """A registry of workers without engines, and the policies that choose among them."""

    registry: Registry = attrs.field(factory=Registry)
    models: dict[str, ServedModel] = attrs.field(factory=dict)
    made: list[Watching] = attrs.field(factory=list)
    observer: MemoryObserver = attrs.field(factory=MemoryObserver)
    disaggregation: DisaggregationConfig = attrs.field(factory=DisaggregationConfig)
    policies: Policies = attrs.field(init=False)
    selecting: Selecting = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        def make() -> Watching:
            self.made.append(Watching())
            return self.made[-1]

        self.policies = Policies(make)
        self.selecting = Selecting(
            registry=self.registry,
            models=self.models,
            policies=self.policies,
            clock=FakeClock(now=7.0),
            disaggregation=self.disaggregation,
        )

    def add(self, name: str, facts: EngineFacts = ABLE, role: WorkerRole = "regular", host: str = "") -> Worker:
        worker = self.registry.add(WorkerSpec(f"grpc://{host or name}", name=name, role=role))
        worker.facts = facts
        self.registry.serve(worker, ("m",))
        self.registry.signal(worker, "joined")
        return worker

    def choose(self, prompt: Prompted | None = None, **fields: Any) -> Any:
        step = Select(prompt or made(), **fields)
        return self.selecting.choose(step, Trace(0.0, self.observer))


def made(**fields: Any) -> Prompted:
    return prompted(asking(**fields), model())


def test_the_policy_chooses_among_the_ready_ones_and_says_the_rank() -> None:
    office = Office()
    workers = [office.add(name) for name in "abc"]
    office.registry.signal(workers[1], "failing")
    placement = office.choose(attempt=2)

    assert office.made[0].shown == [["a", "c"]]
    assert (placement.last.worker, placement.last.rank, placement.last.role) == (workers[2], 3, "regular")
    assert office.observer.of(WorkerPicked) == [
        WorkerPicked("r", "c", "watching", 2, 7.0, rank=3, model="m", transport="grpc")
    ]


def test_a_long_routing_key_is_told_by_its_hash_and_equal_ones_are_equal() -> None:
    def key(**fields: Any) -> str:
        found = routing_context(made(**fields), "regular", 0.0, 100).cache_key
        assert found is not None
        return found

    long = "k" * 100_000
    keys = [
        key(cache_key=long),
        key(headers={"x-smg-routing-key": long}),
        key(session_key=long),
        key(cache_key=long + "l"),
    ]
    assert all(len(each) <= 512 for each in keys)
    assert len(set(keys)) == 2
    assert key(cache_key="k" * 512) == "k" * 512


def test_those_who_were_tried_are_not_asked_again() -> None:
    office = Office()
    for name in "abc":
        office.add(name)
    office.choose(exclude=frozenset({"c", "a"}))

    assert office.made[0].shown == [["b"]]
    with pytest.raises(NoWorker):
        office.choose(exclude=frozenset({"a", "b", "c"}))


def test_a_model_that_nobody_has_ready_is_told_from_one_that_nobody_has() -> None:
    office = Office()
    office.registry.signal(office.add("a"), "failing")
    with pytest.raises(NoWorker):
        office.choose()
    with pytest.raises(ModelNotFound):
        office.choose(made(model="other"))


def test_only_workers_whose_engines_can_do_what_is_asked_are_candidates() -> None:
    office = Office()
    for name, facts in (("a", ONE_AT_A_TIME), ("b", ABLE), ("c", SHORT), ("d", ABLE)):
        office.add(name, facts)
    office.choose(made(sampling=Sampling(n=2)))
    office.choose(made(messages=(), prompt=[1, 2]))

    assert office.made[0].shown == [["b", "d"], ["a", "b", "c", "d"]]


@pytest.mark.parametrize("uniform", [True, False])
def test_what_no_engine_can_do_is_refused_in_the_words_of_the_first(uniform: bool) -> None:
    office = Office()
    office.add("a", ONE_AT_A_TIME)
    office.add("b", ONE_AT_A_TIME if uniform else attrs.evolve(SHORT, n=False))
    with pytest.raises(UnsupportedParameter) as caught:
        office.choose(made(sampling=Sampling(n=2)))

    assert caught.value.param == "sampling.n"
    assert not office.made


def test_a_prompt_that_is_too_long_for_all_is_refused_and_goes_to_the_one_that_holds_it() -> None:
    office = Office()
    office.add("short", SHORT)
    with pytest.raises(PromptTooLong):
        office.choose(made(messages=(), prompt=[1] * 9))
    office.add("long")

    assert office.choose(made(messages=(), prompt=[1] * 9)).names == {"long"}


def test_a_refusal_by_those_who_are_left_is_one_even_where_others_could() -> None:
    office = Office()
    office.add("able")
    office.add("unable", ONE_AT_A_TIME)
    with pytest.raises(UnsupportedParameter):
        office.choose(made(sampling=Sampling(n=2)), exclude=frozenset({"able"}))


def test_each_role_has_its_own_worker_and_its_own_policy() -> None:
    office = Office()
    roles: tuple[WorkerRole, ...] = get_args(WorkerRole)
    for role in roles:
        office.add(role, role=role)
    placement = office.choose(roles=("prefill", "decode"))

    assert [(each.worker.name, each.role) for each in placement.chosen] == [
        ("prefill", "prefill"),
        ("decode", "decode"),
    ]
    assert placement.last.worker.name == "decode"
    assert placement.names == {"prefill", "decode"}
    assert len(office.made) == 2
    with pytest.raises(NoWorker):
        office.choose(roles=("regular",), exclude=frozenset({"regular"}))


def pairs(cost: float) -> tuple[Office, list[str]]:
    """Two hosts: one has workers of both kinds, the other one of each that has no fellow on its host."""
    office = Office(disaggregation=DisaggregationConfig(transfer_cost=cost))
    for name, role, host in (("p1", "prefill", "one"), ("p2", "prefill", "two"), ("d1", "decode", "one")):
        office.add(name, role=role, host=host)  # type: ignore[arg-type]
    office.add("d3", role="decode", host="three")
    placement = office.choose(roles=("prefill", "decode"))
    return office, [each.worker.name for each in placement.chosen]


def test_policies_are_told_what_handing_the_cache_over_costs_from_and_to_each_worker() -> None:
    office, chosen = pairs(0.5)
    prefill, decode = (policy.contexts[0] for policy in office.made)

    assert chosen == ["p2", "d3"]
    assert prefill.hand_over == {"p2": prefill.tokens / 2}
    assert decode.hand_over == {"d1": decode.tokens / 2, "d3": decode.tokens / 2}


def test_handing_over_costs_nothing_where_nothing_was_said_and_for_whole_turns() -> None:
    office, _ = pairs(0.0)
    assert [dict(policy.contexts[0].hand_over) for policy in office.made] == [{}, {}]

    whole = Office(disaggregation=DisaggregationConfig(transfer_cost=1.0))
    whole.add("a")
    whole.choose()
    assert dict(whole.made[0].contexts[0].hand_over) == {}


def test_a_policy_is_shown_the_prompt_and_what_keeps_it_apart() -> None:
    office = Office()
    office.add("a")
    prompt = made(caller=Caller(tenant="t"), cache_salt="s", cache_key="k", headers={"x-user": "ada"})
    office.choose(prompt)
    (context,) = office.made[0].contexts

    assert context.input_ids is prompt.ids
    assert (context.request_id, context.model) == ("r", "m")
    assert context.cache_salt == "t\0s"
    assert context.headers == {"x-user": "ada"}
    assert context.media_keys is None


def test_a_routing_key_leads_to_the_workers_of_its_own_tenant_only() -> None:
    office = Office()
    office.add("a")
    for tenant, key in (("", "k"), ("", None), ("a", "bk"), ("ab", "k"), ("a", None)):
        office.choose(made(caller=Caller(tenant=tenant), cache_key=key))
    keys = [context.cache_key for context in office.made[0].contexts]

    assert keys[:2] == ["k", None]
    assert len(set(keys)) == 4
    assert keys[4] is None


@pytest.mark.parametrize(
    "answer",
    [
        lambda worker: "a",
        lambda worker: object(),
        lambda worker: Pick(Worker(WorkerSpec("grpc://x", name="a"), 0, LocalBoard())),
        lambda worker: Pick(worker, rank=4),
        lambda worker: Pick(worker, rank=-1),
        lambda worker: Pick(worker, rank="0"),
        lambda worker: Pick(worker, cached="many"),
        lambda worker: Pick(worker, cached=-1),
        lambda worker: Pick(worker, why=None),
        lambda worker: Pick(worker, basis="guessed"),
        lambda worker: Pick(worker, scores=None),
        lambda worker: Pick(worker, scores=(1.0, 2.0)),
        lambda worker: Pick(worker, matched=(1, 2)),
        lambda worker: Pick(worker, bases=("exact", "exact")),
        lambda worker: Pick(worker, stale=(0.1, 0.2)),
    ],
)
def test_a_policy_that_picks_what_cannot_be_harms_no_request(answer: Callable[[Any], Any]) -> None:
    office = Office()
    office.add("a", EngineFacts("vllm", ranks=4))
    office.choose()
    office.made[0].answer = answer(office.registry.candidates("m")[0].record)
    chosen = office.choose().last
    picked = office.observer.of(WorkerPicked)[-1]

    assert chosen.worker.name == picked.worker == "a"
    assert (picked.policy, picked.rank) == ("watching", None)
    assert picked.why == "the policy watching failed (WrongPick): the fewest requests"


@pytest.mark.parametrize(
    "error", [ValueError("a part of a prompt"), KeyError("session"), RecursionError(), ZeroDivisionError()]
)
def test_a_policy_that_raises_harms_no_request_and_the_decision_names_it_and_what_it_raised(error: Exception) -> None:
    faults: list[tuple[str, str, Exception]] = []
    office = Office()
    office.policies.on_fault = lambda *told: faults.append(told)
    for name in ("a", "b"):
        office.add(name)
    office.choose()
    office.made[0].raises = error
    taken = [office.choose().last.worker.name for _ in range(4)]
    why = office.observer.of(WorkerPicked)[-1].why

    assert sorted(taken) == ["a", "a", "b", "b"]
    assert faults == [("watching", "pick", error)] * 4
    assert type(error).__name__ in why
    assert "watching" in why
    assert not error.args or str(error.args[0]) not in why


def test_a_policy_may_refuse_a_request_with_an_error_of_the_package() -> None:
    office = Office()
    office.add("a")
    office.choose()
    office.made[0].raises = Overloaded("Not now.", retry_after=3.0)
    with pytest.raises(Overloaded, match="Not now"):
        office.choose()


def test_ids_of_a_tokenizer_that_the_model_has_no_longer_go_to_no_engine() -> None:
    office, prompt = Office(), made()
    office.add("a")
    office.models["m"] = model()
    assert office.models["m"].tokenizer is prompt.model.tokenizer
    assert office.choose(prompt).last.worker.name == "a"

    office.models["m"] = attrs.evolve(model(), tokenizer=copy(prompt.model.tokenizer))
    with pytest.raises(NoWorker, match="replaced") as refusal:
        office.choose(prompt)
    assert refusal.value.retry_after


def test_how_much_room_there_is_elsewhere_is_known_without_choosing() -> None:
    office = Office(registry=Registry(settings=WorkersConfig(most_in_flight=4)))
    for name in "abc":
        office.add(name)
    assert office.selecting.room(Select(made(), frozenset({"a"}))) == (8, inf)
    assert office.selecting.room(Select(made(), frozenset({"a", "b", "c"}))) == (0, 0)
    assert office.selecting.room(Select(made(model="other"))) == (0, 0)
    assert not office.made
    assert not office.observer.moments


def test_the_room_for_a_pair_is_that_of_the_role_which_has_less() -> None:
    office = Office(registry=Registry(settings=WorkersConfig(most_in_flight=4)))
    for name, role in (("p0", "prefill"), ("p1", "prefill"), ("d0", "decode")):
        office.add(name, ABLE, role)  # type: ignore[arg-type]
    assert office.selecting.room(Select(made())) == (4, inf)
    assert office.selecting.room(Select(made(), frozenset({"p0", "p1"}))) == (0, 0)


@pytest.mark.parametrize("left_alone", ["d", "p"])
def test_where_one_of_a_pair_cannot_be_spared_the_other_has_its_probes_left(left_alone: str) -> None:
    office = Office(registry=Registry(breaker=BreakerConfig(failures=1, open_s=5.0, probes=2)))
    workers = {"p": office.add("p", ABLE, "prefill"), "d": office.add("d", ABLE, "decode")}
    for name in workers:
        office.registry.breakers.ended(name, WorkerGone("gone"), 7.0 if name == left_alone else 1.0)
    del workers[left_alone]
    (half_open,) = workers.values()
    for _ in range(5):
        with pytest.raises(NoWorker):
            office.choose(spare=True)

    assert office.registry.breakers.admitted((half_open,), 7.0, at_least_one=False) == (half_open,)
    chosen = office.choose()
    assert {each.worker.name for each in chosen.parts if each.probe is not None} == {half_open.name}


POOLS: dict[str, WorkerRole] = {"p0": "prefill", "p1": "prefill", "d0": "decode", "d1": "decode"}


@pytest.mark.parametrize("left_alone", [None, *POOLS])
def test_a_suspect_is_asked_before_one_that_is_left_alone(left_alone: str | None) -> None:
    office = Office(registry=Registry(breaker=BreakerConfig(failures=1, open_s=5.0)))
    for name, role in POOLS.items():
        office.add(name, ABLE, role)
    if left_alone is not None:
        office.registry.breakers.ended(left_alone, WorkerGone("gone"), 7.0)
    chosen = office.choose(suspects=frozenset({("p0", "d0")}))

    expected = {"p1": {"p0", "d1"}, "d1": {"p1", "d0"}}
    assert chosen.names == expected.get(left_alone or "", {"p1", "d1"})
    assert len(office.observer.of(WorkerPicked)) == 2


@pytest.mark.parametrize("doubts", [(), ("p0", "d0"), ("p0", "d1"), ("p1", "d0"), ("p1", "d1")])
@pytest.mark.parametrize("left_alone", [None, *POOLS])
def test_two_of_whom_one_has_failed_the_other_are_not_asked_together_where_others_can_be(
    doubts: tuple[str, ...], left_alone: str | None
) -> None:
    office = Office(registry=Registry(breaker=BreakerConfig(failures=1, open_s=5.0)))
    workers = {name: office.add(name, ABLE, role) for name, role in POOLS.items()}
    if left_alone is not None:
        office.registry.breakers.ended(left_alone, WorkerGone("gone"), 7.0)
    if doubts:
        start, end = (HandoverEnd(workers[name]) for name in doubts)
        office.registry.handovers.failed(start, end, WorkerGone("gone"), 6.0, 7.0)

    chosen = office.choose().names
    assert chosen != set(doubts)
    assert left_alone not in chosen


@pytest.mark.parametrize("whole", [False, True])
def test_there_is_room_exactly_where_somebody_would_be_chosen(whole: bool) -> None:
    office = Office(registry=Registry(settings=WorkersConfig(most_in_flight=4)))
    for name, role in (*POOLS.items(), *([("r", "regular")] if whole else [])):
        office.add(name, ABLE, role)  # type: ignore[arg-type]
    parts = [frozenset(each) for count in range(3) for each in combinations(POOLS, count)]
    pairs = [*product(("p0", "p1"), ("d0", "d1"))]
    failed = [frozenset(each) for count in range(5) for each in combinations(pairs, count)]
    walked = [*product(parts, failed)]
    found = set()
    for exclude, suspects in walked:
        step = Select(made(), exclude, suspects=suspects)
        try:
            chosen: Any = office.selecting.choose(step, Trace(0.0, office.observer))
        except NoWorker:
            chosen = None
        assert (min(office.selecting.room(step)) > 0) == (chosen is not None), (exclude, suspects)
        if chosen is not None and chosen.prefill is not None:
            assert (chosen.prefill.worker.name, chosen.last.worker.name) not in suspects
        elif not whole:  # while two are left that have not failed together, they are asked
            assert all(pair in suspects or set(pair) & exclude for pair in pairs)
        found.add(chosen is not None)
    assert found == ({True} if whole else {True, False})
