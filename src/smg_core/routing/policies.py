"""The policies in use: one for each model and role, made on first use and dropped when no worker serves the model any more.

Two models must not share a policy, since it keeps state about its workers. What happens to a worker is passed on to those
policies of its models that are `Observing`. Pure. Above: the pipeline's Select step asks for policies; server.runtime and
server.onboarding report. Below: base.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from smg_core.engines.kv_events import KvEvent
from smg_core.routing.base import KvKnown, Observing, Policy, RequestEnded

__all__ = ["Policies"]


class Policies:
    """All policies by model and role. `make` returns a new policy on each call; `others` do for one model and role each, where
    "*" stands for any model or role. `on_made` is called with model, role and policy when one is made."""

    def __init__(
        self, make: Callable[[], Policy], others: Mapping[tuple[str, str], Callable[[], Policy]] | None = None
    ) -> None:
        self._make = make
        self._others = others or {}
        self._policies: dict[tuple[str, str], Policy] = {}
        self._observers: dict[tuple[str, str], Observing] = {}  # those of `_policies` that are `Observing`
        self.on_made: Callable[[str, str, Policy], None] | None = None

    def adopt(self, other: "Policies") -> None:
        """Make policies as `other` does from now on; what those in use knew of their workers is forgotten."""
        self._make, self._others = other._make, other._others
        self._policies.clear()
        self._observers.clear()

    def check(self) -> None:
        """Make one policy of each kind as a trial, at the start of the gateway. Raises UnknownPolicy."""
        for make in (self._make, *self._others.values()):
            make()

    @property
    def observing(self) -> bool:
        """Whether any policy is `Observing`."""
        return bool(self._observers)

    def of(self, model: str, role: str) -> Policy:
        """The policy that chooses among the workers of `model` in `role`."""
        policy = self._policies.get((model, role))
        if policy is None:
            policy = self._policies[model, role] = self._maker(model, role)()
            if isinstance(policy, Observing):
                self._observers[model, role] = policy
            if self.on_made is not None:
                self.on_made(model, role, policy)
        return policy

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
            self._observers.pop(key, None)

    def worker_left(self, worker: str, models: Iterable[str]) -> None:
        """`worker` was removed, or no longer serves `models`."""
        for policy in self._observers_of(models):
            policy.worker_left(worker)

    def request_ended(self, ended: RequestEnded, models: Iterable[str]) -> None:
        """A call of a worker that serves `models` is over."""
        for policy in self._observers_of(models):
            policy.request_ended(ended)

    def listens(self, model: str, role: str) -> bool:
        """Whether the policy of `model` in `role` wants the KV events of its engines."""
        policy = self.of(model, role)
        return isinstance(policy, Observing) and policy.listens

    def kv_changed(self, model: str, role: str, worker: str, rank: int, events: Sequence[KvEvent], now: float) -> None:
        """The KV cache of a worker of `model` in `role` has changed (`Observing.kv_changed`)."""
        policy = self._observers.get((model, role))
        if policy is not None and policy.listens:
            policy.kv_changed(worker, rank, events, now)

    def kv_known(self, model: str, role: str, worker: str, rank: int, known: KvKnown, *, salted: bool = True) -> None:
        """How much of the cache of a worker of `model` in `role` is known (`Observing.kv_known`)."""
        policy = self._observers.get((model, role))
        if policy is not None and policy.listens:
            policy.kv_known(worker, rank, known, salted=salted)

    def _observers_of(self, models: Iterable[str]) -> Iterator[Observing]:
        """The `Observing` policies of `models`, each once."""
        if not self._observers:
            return
        wanted = set(models)
        seen: set[int] = set()
        for (model, _), policy in self._observers.items():
            if model in wanted and id(policy) not in seen:
                seen.add(id(policy))
                yield policy
