"""Which policy chooses for whom, and who is told what."""

import asyncio
from collections.abc import Callable, Sequence

import attrs
import pytest
from tests.core.routing.candidates import Seen, asking, fleet

from smg_core import Gateway
from smg_core.engines.kv_events import KvCacheCleared, KvEvent
from smg_core.routing import (
    Candidate,
    LeastRequests,
    Observing,
    Pick,
    Policies,
    Policy,
    RequestEnded,
    RoundRobin,
    RoutingContext,
    UnknownPolicy,
)
from smg_core.routing.base import KvKnown

pytestmark = pytest.mark.anyio


class First:
    """The first candidate, always."""

    name = "first"

    def pick(self, candidates: Sequence[Candidate], context: RoutingContext) -> Pick:
        return Pick(candidates[0])


class Told(First, Observing):
    """Keeps all it is told, in order."""

    def __init__(self) -> None:
        self.news: list[tuple[object, ...]] = []

    def worker_left(self, worker: str) -> None:
        self.news.append(("left", worker))

    def cache_lost(self, worker: str) -> None:
        self.news.append(("lost", worker))

    def request_ended(self, ended: RequestEnded) -> None:
        self.news.append(("ended", ended))

    def kv_changed(self, worker: str, rank: int, events: Sequence[KvEvent], now: float) -> None:
        self.news.append(("changed", worker, rank, events, now))

    def kv_known(self, worker: str, rank: int, known: KvKnown, *, salted: bool = True) -> None:
        self.news.append(("known", worker, rank, known, salted))


class Listening(Told):
    """One that wants to know of KV caches."""

    listens = True


def told(policies: Policies, model: str, role: str = "regular") -> Told:
    found = policies.of(model, role)
    assert isinstance(found, Told)
    return found


# ------------------------------------------------------------------------------------------------------------- one for each


def test_there_is_one_policy_for_each_model_and_role() -> None:
    policies = Policies(First)

    kept = policies.of("m", "regular")
    assert policies.of("m", "regular") is kept
    assert len({id(policies.of(model, role)) for model in "mn" for role in ("regular", "prefill", "decode")}) == 6


def test_a_model_that_is_gone_takes_its_policies_along_and_no_others() -> None:
    policies = Policies(First)
    before = {(model, role): policies.of(model, role) for model in "mn" for role in ("prefill", "decode")}
    policies.forget("m")

    assert policies.of("n", "decode") is before["n", "decode"]
    assert policies.of("m", "decode") is not before["m", "decode"]
    assert policies.of("m", "prefill") is not before["m", "prefill"]


def test_a_policy_is_tried_before_the_first_request() -> None:
    made: list[First] = []

    def make() -> Policy:
        made.append(First())
        return made[-1]

    Policies(make).check()

    assert len(made) == 1


# ---------------------------------------------------------------------------------------------------------------- who is told


ENDED = RequestEnded("w", failed=True, seconds=1.0)
NEWS: list[tuple[Callable[[Policies, tuple[str, ...]], None], tuple[object, ...]]] = [
    (lambda policies, models: policies.worker_left("w", models), ("left", "w")),
    (lambda policies, models: policies.cache_lost("w", models), ("lost", "w")),
    (lambda policies, models: policies.request_ended(ENDED, models), ("ended", ENDED)),
]


@pytest.mark.parametrize(("tell", "heard"), NEWS, ids=[str(heard[0]) for _, heard in NEWS])
def test_the_policies_of_the_models_concerned_are_told_in_every_role_and_no_others(
    tell: Callable[[Policies, tuple[str, ...]], None], heard: tuple[object, ...]
) -> None:
    policies = Policies(Told)
    concerned = [told(policies, model, role) for model in ("m", "alias") for role in ("prefill", "decode")]
    other = told(policies, "other")
    tell(policies, ("m", "alias", "never asked for"))

    assert [policy.news for policy in concerned] == [[heard]] * 4
    assert other.news == []


@pytest.mark.parametrize("tell", [tell for tell, _ in NEWS])
def test_one_object_that_serves_all_models_is_told_once(tell: Callable[[Policies, tuple[str, ...]], None]) -> None:
    only = Told()
    policies = Policies(lambda: only)
    policies.of("m", "regular")
    policies.of("alias", "regular")
    tell(policies, ("m", "alias"))

    assert len(only.news) == 1


@pytest.mark.parametrize("tell", [tell for tell, _ in NEWS])
def test_a_policy_that_observes_nothing_is_left_alone(tell: Callable[[Policies, tuple[str, ...]], None]) -> None:
    policies = Policies(First)
    policies.of("m", "regular")

    tell(policies, ("m",))


def test_an_observing_policy_need_not_hear_everything() -> None:
    class Deaf(First, Observing):
        pass

    policies = Policies(Deaf)
    policies.of("m", "regular")
    for tell, _ in NEWS:
        tell(policies, ("m",))


# ------------------------------------------------------------------------------------------------------- what a gateway takes


@pytest.mark.parametrize(("given", "made"), [("least_requests", LeastRequests), (None, RoundRobin), (First, First)])
def test_a_gateway_takes_a_name_or_a_factory_and_makes_a_policy_for_each_model(
    given: str | Callable[[], Policy] | None, made: type
) -> None:
    policies = Gateway(policy=given).services.policies

    assert isinstance(policies.of("m", "regular"), made)
    assert policies.of("m", "regular") is not policies.of("n", "regular")


def test_a_gateway_takes_an_object_that_then_serves_all_models() -> None:
    only = First()

    assert Gateway(policy=only).services.policies.of("m", "regular") is only
    assert Gateway(policy=only).services.policies.of("n", "decode") is only


async def test_a_name_that_is_none_stops_the_start() -> None:
    with pytest.raises(UnknownPolicy, match="fastest"):
        await Gateway(policy="fastest").start()


def test_the_policy_of_a_model_and_role_is_told_of_kv_caches_if_it_listens_and_no_other_is() -> None:
    policies = Policies(Told, {("m", "*"): Listening})
    heard, others = told(policies, "m"), [told(policies, "m", "decode"), told(policies, "other")]
    events = (KvCacheCleared(),)
    for model in ("m", "other", "never asked for"):
        policies.kv_known(model, "regular", "w", 1, "all", salted=False)
        policies.kv_changed(model, "regular", "w", 1, events, 5.0)

    assert heard.news == [("known", "w", 1, "all", False), ("changed", "w", 1, events, 5.0)]
    assert [other.news for other in others] == [[], []]
    assert (policies.listens("m", "regular"), policies.listens("other", "regular")) == (True, False)


def test_a_star_is_any_model_and_role_that_has_no_row_of_its_own() -> None:
    policies = Policies(Told, {("*", "*"): First, ("*", "decode"): Listening})

    assert isinstance(policies.of("m", "regular"), First)
    assert isinstance(policies.of("m", "decode"), Listening)


# ------------------------------------------------------------------------------------------------------------ users' code


class Failing(First, Observing):
    """Raises whatever is asked of it."""

    name = "failing"
    listens = True

    def __getattribute__(self, name: str) -> object:
        found = object.__getattribute__(self, name)
        if not callable(found):
            return found

        def fails(*args: object, **named: object) -> None:
            raise LookupError(name)

        return fails


CALLS: dict[str, Callable[[Policies], object]] = {
    "pick": lambda policies: policies.choose("m", "regular", [Seen("a")], asking()),
    "worker_left": lambda policies: policies.worker_left("a", ["m"]),
    "cache_lost": lambda policies: policies.cache_lost("a", ["m"]),
    "request_ended": lambda policies: policies.request_ended(ENDED, ["m"]),
    "kv_changed": lambda policies: policies.kv_changed("m", "regular", "a", 0, [KvCacheCleared()], 0.0),
    "kv_known": lambda policies: policies.kv_known("m", "regular", "a", 0, "all"),
}


def test_no_method_of_a_policy_that_raises_reaches_who_called_it_and_each_is_told() -> None:
    faults: list[tuple[str, str, str]] = []
    policies = Policies(Failing)
    policies.on_fault = lambda name, call, error: faults.append((name, call, type(error).__name__))
    policies.of("m", "regular")
    for call in CALLS.values():
        call(policies)

    assert set(CALLS) == {"pick", *(name for name in vars(Observing) if not name.startswith("_"))} - {"listens"}
    assert faults == [("failing", name, "LookupError") for name in CALLS]


def test_a_policy_that_cannot_be_made_for_a_model_chooses_by_the_fewest_requests() -> None:
    def make() -> Policy:
        raise OSError("its file is gone")

    choice = Policies(make).choose("m", "regular", [Seen("a", in_flight=2), Seen("b")], asking())

    assert (choice.at, choice.policy) == (1, "m/regular")
    assert choice.pick.why == "the policy m/regular failed (OSError): the fewest requests"


# ------------------------------------------------------------------------------------------------- what ends a process elsewhere


class Odd(BaseException):
    """What no `except Exception` catches, and what cannot be shown."""

    def __str__(self) -> str:
        raise RuntimeError("no text")


class Raises(First, Observing):
    """Raises an error wherever it is asked."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def pick(self, candidates: Sequence[Candidate], context: RoutingContext) -> Pick:
        raise self.error

    def worker_left(self, worker: str) -> None:
        raise self.error


ERRORS = [SystemExit(3), GeneratorExit(), asyncio.CancelledError(), StopIteration(), Odd(), ValueError()]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_whatever_a_policy_raises_harms_no_request(error: BaseException) -> None:
    policies, faults = Policies(lambda: Raises(error)), list[tuple[str, str]]()
    policies.on_fault = lambda name, call, found: faults.append((call, type(found).__name__))
    chosen = policies.choose("m", "regular", fleet(3), asking())
    policies.worker_left("w", ("m",))

    assert chosen.at in range(3)
    assert type(error).__name__ in chosen.pick.why
    assert faults == [(call, type(error).__name__) for call in ("pick", "worker_left")]


def test_an_operator_that_interrupts_the_process_is_heard() -> None:
    with pytest.raises(KeyboardInterrupt):
        Policies(lambda: Raises(KeyboardInterrupt())).choose("m", "regular", fleet(3), asking())


@pytest.mark.parametrize(
    ("ranks", "rank", "good"), [(1, 0, True), (1, 1, False), (1, 99, False), (4, 3, True), (4, 4, False)]
)
def test_a_rank_is_one_of_those_of_its_worker(ranks: int, rank: int, good: bool) -> None:
    (worker,) = fleet(1)
    assert bool(Pick(attrs.evolve(worker, rank_count=ranks), rank=rank).fault(1)) != good
