"""The share of a worker that has become ready a short while ago.

An engine that has just begun has an empty cache, and compiles kernels with its first requests. Its share rises in a straight
line for `workers.slow_start_s` seconds, from `workers.slow_start_least` to all of it. That is done here for every policy, by
leaving the worker out of some of the choices. Workers that all became ready together share as usual. Pure: time and chance are
arguments. Above: registry. Below: settings.
"""

from collections.abc import Callable
from typing import Protocol, TypeVar

from smg_core.workers.settings import WorkersConfig

__all__ = ["SlowStart", "share"]


class _Named(Protocol):
    """A worker, as far as its slow start knows it."""

    @property
    def name(self) -> str: ...


W = TypeVar("W", bound=_Named)


def share(seconds: float, settings: WorkersConfig) -> float:
    """The share, 0 to 1, of a worker that has been ready for so many seconds."""
    if seconds >= settings.slow_start_s:
        return 1.0
    return max(settings.slow_start_least, seconds / settings.slow_start_s)


class SlowStart:
    """The workers that became ready a short while ago. `draw` returns a random number from 0 up to 1."""

    def __init__(self, settings: WorkersConfig, draw: Callable[[], float]) -> None:
        self.settings = settings
        self._draw = draw
        self.since: dict[str, float] = {}

    def ready(self, name: str, now: float) -> None:
        """Called when a worker has become ready."""
        if self.settings.slow_start_s:
            self.since[name] = now

    def forget(self, name: str) -> None:
        """Called when a worker is no longer ready."""
        self.since.pop(name, None)

    def share_of(self, name: str, now: float) -> float:
        """The share of a worker now."""
        since = self.since.get(name)
        return 1.0 if since is None else share(now - since, self.settings)

    def admitted(self, workers: tuple[W, ...], now: float, *, alone: bool = False) -> tuple[W, ...]:
        """Those of `workers` that may be chosen this time: all but some that became ready later than others. `alone`: each goes
        by its own share, so that there may be none."""
        if not self.since:
            return workers
        shares = {each.name: self.share_of(each.name, now) for each in workers if each.name in self.since}
        for name, found in shares.items():
            if found >= 1.0:
                self.forget(name)
        most = 1.0 if alone else max((shares.get(each.name, 1.0) for each in workers), default=1.0)
        return tuple(each for each in workers if self._takes(shares.get(each.name, 1.0) / most))

    def _takes(self, chance: float) -> bool:
        return chance >= 1.0 or self._draw() < chance
