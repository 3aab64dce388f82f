"""The policies in use: one for each model and role, made on first use and dropped when no worker serves the model any more.

Two models must not share a policy, since it keeps state about its workers. What happens to a worker is passed on to those
policies of its models that are `Observing`. Policies are also written by users: one that raises, or that picks what cannot be,
harms no request, which then goes to the worker with the fewest requests. Pure. Above: the pipeline's Select step asks for
choices; gateway.assembly and models.onboarding report. Below: base, simple.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import compress, count, repeat
from operator import is_
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from smg_core.engines.kv_events import KvEvent
from smg_core.errors import SmgError
from smg_core.routing.base import Candidate, KvKnown, Observing, Pick, Policy, RequestEnded, RoutingContext
from smg_core.routing.simple import LeastRequests

__all__ = ["OnFault", "Policies", "PolicyChoice", "WrongPick"]

T = TypeVar("T")
OnFault = Callable[[str, str, BaseException], None]
"""Called with a policy's name, its method, and what that raised."""


class WrongPick(ValueError):
    """A policy's answer is no `Pick` of one of the candidates, or has numbers that cannot be."""


class PolicyChoice(Struct, frozen=True):
    """The `pick` of the policy called `policy`, or of the fall-back in its place; `at` is the number of the candidate."""

    policy: str
    pick: Pick
    at: int


class Policies:
    """All policies by model and role. `make` returns a new policy on each call; `others` do for one model and role each, where
    "*" stands for any model or role. `observers` are those in use that are `Observing`. `on_made` is called with model, role and
    policy when one is made, `on_fault` when one has failed."""

    def __init__(
        self, make: Callable[[], Policy], others: Mapping[tuple[str, str], Callable[[], Policy]] | None = None
    ) -> None:
        self._make = make
        self._others = others or {}
        self._policies: dict[tuple[str, str], Policy] = {}
        self.observers: dict[tuple[str, str], Observing] = {}
        self._fall_back = LeastRequests()
        self.on_made: Callable[[str, str, Policy], None] | None = None
        self.on_fault: OnFault | None = None

    def adopt(self, other: "Policies") -> None:
        """Make policies as `other` does from now on; what those in use knew of their workers is forgotten."""
        self._make, self._others = other._make, other._others
        self._policies.clear()
        self.observers.clear()

    def check(self) -> None:
        """Make one policy of each kind as a trial, at the start of the gateway. Raises UnknownPolicy."""
        for make in (self._make, *self._others.values()):
            make()

    def of(self, model: str, role: str) -> Policy:
        """The policy that chooses among the workers of `model` in `role`."""
        policy = self._policies.get((model, role))
        if policy is None:
            policy = self._policies[model, role] = self._maker(model, role)()
            if isinstance(policy, Observing):
                self.observers[model, role] = policy
            if self.on_made is not None:
                self.on_made(model, role, policy)
        return policy

    def choose(self, model: str, role: str, candidates: Sequence[Candidate], context: RoutingContext) -> PolicyChoice:
        """The choice of the policy of `model` in `role` among `candidates`; where it fails, that of the fewest requests, whose
        reason names the policy and what it raised. Raises the errors of this package alone, with which a policy refuses."""
        policy = None
        try:
            policy = self._policies.get((model, role)) or self.of(model, role)
            pick = policy.pick(candidates, context)
            return PolicyChoice(policy.name, pick, _place(candidates, pick))
        except (SmgError, KeyboardInterrupt):
            raise
        except BaseException as error:  # noqa: BLE001  # users' code, which may raise anything, also what ends a process
            name = _name(policy) or f"{model}/{role}"
            self._failed(name, "pick", error)
            instead = self._fall_back.pick(candidates, context)
            why = f"the policy {name} failed ({type(error).__name__}): the fewest requests"
            return PolicyChoice(name, replace(instead, why=why), _place(candidates, instead))

    def expects(self, model: str, role: str, candidates: Sequence[Candidate], context: RoutingContext) -> Sequence[int]:
        """The number of prompt tokens that each candidate's cache is expected to have: none where its policy does not know."""
        policy = self._policies.get((model, role)) or self.of(model, role)
        nothing = [0] * len(candidates)
        tell = getattr(policy, "expects", None)
        return nothing if tell is None else self.guarded(policy, "expects", partial(tell, candidates, context), nothing)

    def spreads(self, model: str, role: str) -> bool:
        """Whether the policy chooses by load, or by chance, so that it may be left fewer candidates."""
        return bool(getattr(self.of(model, role), "spreads", False))

    def guarded(self, policy: object, call: str, tell: Callable[[], T], otherwise: T) -> T:
        """The result of `tell`, which calls the method `call` of `policy`; `otherwise` where that raises, which is told to
        `on_fault`."""
        try:
            return tell()
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001  # users' code, which may raise anything, also what ends a process
            self._failed(_name(policy), call, error)
            return otherwise

    def _failed(self, name: str, call: str, error: BaseException) -> None:
        if self.on_fault is not None:
            self.on_fault(name, call, error)

    def _maker(self, model: str, role: str) -> Callable[[], Policy]:
        for place in ((model, role), (model, "*"), ("*", role), ("*", "*")):
            if place in self._others:
                return self._others[place]
        return self._make

    def in_use(self) -> list[tuple[str, str, Policy]]:
        """Model, role and policy of all that were made, sorted."""
        return [(*place, self._policies[place]) for place in sorted(self._policies)]

    def forget(self, model: str) -> None:
        """Drop the policies of `model`, which no worker serves any more."""
        for key in [key for key in self._policies if key[0] == model]:
            del self._policies[key]
            self.observers.pop(key, None)

    def worker_left(self, worker: str, models: Iterable[str]) -> None:
        """`worker` was removed, or no longer serves `models`."""
        for policy in self._observers_of(models):
            self.guarded(policy, "worker_left", partial(policy.worker_left, worker), None)

    def cache_lost(self, worker: str, models: Iterable[str]) -> None:
        """The engine of `worker`, which serves `models`, has nothing in its caches any more."""
        for policy in self._observers_of(models):
            self.guarded(policy, "cache_lost", partial(policy.cache_lost, worker), None)

    def request_ended(self, ended: RequestEnded, models: Iterable[str]) -> None:
        """A call of a worker that serves `models` is over."""
        for policy in self._observers_of(models):
            self.guarded(policy, "request_ended", partial(policy.request_ended, ended), None)

    def listens(self, model: str, role: str) -> bool:
        """Whether the policy of `model` in `role` wants the KV events of its engines."""
        policy = self.of(model, role)
        return isinstance(policy, Observing) and policy.listens

    def kv_changed(self, model: str, role: str, worker: str, rank: int, events: Sequence[KvEvent], now: float) -> None:
        """The KV cache of a worker of `model` in `role` has changed (`Observing.kv_changed`)."""
        policy = self.observers.get((model, role))
        if policy is not None and policy.listens:
            self.guarded(policy, "kv_changed", partial(policy.kv_changed, worker, rank, events, now), None)

    def kv_known(self, model: str, role: str, worker: str, rank: int, known: KvKnown, *, salted: bool = True) -> None:
        """The known part of the cache of a worker of `model` in `role` (`Observing.kv_known`)."""
        policy = self.observers.get((model, role))
        if policy is not None and policy.listens:
            self.guarded(policy, "kv_known", partial(policy.kv_known, worker, rank, known, salted=salted), None)

    def _observers_of(self, models: Iterable[str]) -> Iterator[Observing]:
        """The `Observing` policies of `models`, each once."""
        if not self.observers:
            return
        wanted = set(models)
        seen: set[int] = set()
        for (model, _), policy in self.observers.items():
            if model in wanted and id(policy) not in seen:
                seen.add(id(policy))
                yield policy


def _place(candidates: Sequence[Candidate], pick: object) -> int:
    """The number of the one of `candidates` that was picked. Raises WrongPick for an answer that is no pick of one of them, or
    one with numbers that cannot be, before anything is done with it."""
    if isinstance(pick, Pick):
        # without a loop in Python: there may be a thousand
        at = next(compress(count(), map(is_, candidates, repeat(pick.worker))), None)
        if at is not None:
            if fault := pick.fault(len(candidates)):
                raise WrongPick(f"its answer {fault}")
            return at
    raise WrongPick("its answer is no Pick of one of the candidates")


def _name(policy: object) -> str:
    """What a policy is called, whatever it is; "" for None."""
    if policy is None:
        return ""
    name = getattr(policy, "name", None)
    return name if isinstance(name, str) else type(policy).__name__
