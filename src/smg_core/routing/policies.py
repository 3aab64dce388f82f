"""The policies in use: one for each model and role, made on first use and dropped when no worker serves the model any more.

Two models must not share a policy, since it keeps state about its workers. What happens to a worker is passed on to those
policies of its models that are `Observing`. Pure. Above: the pipeline's Select step asks for policies; server.runtime and
server.onboarding report. Below: base.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from smg_core.routing.base import Observing, Policy, RequestEnded

__all__ = ["Policies"]


class Policies:
    """All policies by model and role. `make` returns a new policy on each call; `others` do for one model and role each, where
    "*" stands for any model or role."""

    def __init__(
        self, make: Callable[[], Policy], others: Mapping[tuple[str, str], Callable[[], Policy]] | None = None
    ) -> None:
        self._make = make
        self._others = others or {}
        self._policies: dict[tuple[str, str], Policy] = {}
        self._observers: dict[tuple[str, str], Observing] = {}  # those of `_policies` that are `Observing`

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
        return policy

    def _maker(self, model: str, role: str) -> Callable[[], Policy]:
        for place in ((model, role), (model, "*"), ("*", role)):
            if place in self._others:
                return self._others[place]
        return self._make

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

    def blocks_stored(
        self, worker: str, rank: int, hashes: Sequence[int], parent: int | None, models: Iterable[str]
    ) -> None:
        """The engine of a worker that serves `models` has stored KV blocks (`Observing.blocks_stored`)."""
        for policy in self._observers_of(models):
            policy.blocks_stored(worker, rank, hashes, parent)

    def blocks_removed(self, worker: str, rank: int, hashes: Sequence[int] | None, models: Iterable[str]) -> None:
        """The engine of a worker that serves `models` has dropped KV blocks (`Observing.blocks_removed`)."""
        for policy in self._observers_of(models):
            policy.blocks_removed(worker, rank, hashes)

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
