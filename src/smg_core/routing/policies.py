"""The policies in use: one for each model and role, made when it is first needed, gone when its model is.

A policy keeps state about the workers it chooses among, so two models must not share one. News about workers (`Observing`)
goes to the policies that they concern. Pure. Above: the pipeline's Select step asks, onboarding and the monitor tell. Below:
base.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence

from smg_core.routing.base import Observing, Policy, RequestEnded

__all__ = ["Policies"]


class Policies:
    """`make` gives a new policy each time it is called."""

    def __init__(self, make: Callable[[], Policy]) -> None:
        self._make = make
        self._policies: dict[tuple[str, str], Policy] = {}
        self._told: dict[tuple[str, str], Observing] = {}  # those of them that want to be told of workers

    def check(self) -> None:
        """Raise UnknownPolicy now, rather than with the first request."""
        self._make()

    @property
    def observing(self) -> bool:
        """Whether any of them wants to be told of workers."""
        return bool(self._told)

    def of(self, model: str, role: str) -> Policy:
        """The policy that chooses among the workers of `model` in `role`."""
        policy = self._policies.get((model, role))
        if policy is None:
            policy = self._policies[model, role] = self._make()
            if isinstance(policy, Observing):
                self._told[model, role] = policy
        return policy

    def forget(self, model: str) -> None:
        """Nobody serves `model` any more."""
        for key in [key for key in self._policies if key[0] == model]:
            del self._policies[key]
            self._told.pop(key, None)

    def worker_left(self, worker: str, models: Iterable[str]) -> None:
        """`worker` was removed, or serves `models` no longer."""
        for policy in self._observing(models):
            policy.worker_left(worker)

    def request_ended(self, ended: RequestEnded, models: Iterable[str]) -> None:
        """A call of a worker that serves `models` is over."""
        for policy in self._observing(models):
            policy.request_ended(ended)

    def blocks_stored(
        self, worker: str, rank: int, hashes: Sequence[int], parent: int | None, models: Iterable[str]
    ) -> None:
        """The engine of a worker that serves `models` has stored KV blocks (`Observing.blocks_stored`)."""
        for policy in self._observing(models):
            policy.blocks_stored(worker, rank, hashes, parent)

    def blocks_removed(self, worker: str, rank: int, hashes: Sequence[int] | None, models: Iterable[str]) -> None:
        """The engine of a worker that serves `models` has dropped KV blocks (`Observing.blocks_removed`)."""
        for policy in self._observing(models):
            policy.blocks_removed(worker, rank, hashes)

    def _observing(self, models: Iterable[str]) -> Iterator[Observing]:
        """The policies of `models` that want to be told, each once."""
        if not self._told:
            return
        wanted = set(models)
        seen: set[int] = set()
        for (model, _), policy in self._told.items():
            if model in wanted and id(policy) not in seen:
                seen.add(id(policy))
                yield policy
