"""The moment at which a short request goes to a second worker too, and how often that may be.

For each model: the times that its latest short answers took, of which a percentile says when an answer is late, and a budget
that each such request pays a share of a hedge into, so that a model that is slow as a whole is not asked twice. Pure. Above:
pipeline.calls.hedging. Below: retry_budget, settings.
"""

from bisect import bisect_left, insort
from collections import deque
from math import ceil

from smg_core.routing.retry_budget import RetryBudget
from smg_core.routing.settings import RoutingConfig

__all__ = ["Hedges", "ModelHedges"]

LEAST_KNOWN = 20
"""Answers of a model that must be known before a percentile of their times says anything."""


class ModelHedges:
    """The hedges of one model, by `settings`."""

    __slots__ = ("_budget", "_in_order", "_latest", "settings")

    def __init__(self, settings: RoutingConfig) -> None:
        self.settings = settings
        self._budget = RetryBudget(settings.hedge_share, settings.hedge_reserve)
        self._latest: deque[float] = deque()
        self._in_order: list[float] = []

    def delay(self) -> float | None:
        """Seconds after which an answer is late; None while that is not known."""
        settings, known = self.settings, self._in_order
        if not settings.hedge_percentile:
            return settings.hedge_after_s or None
        if len(known) < LEAST_KNOWN:
            return None
        return max(settings.hedge_after_s, known[ceil(settings.hedge_percentile / 100 * len(known)) - 1])

    def took(self, seconds: float) -> None:
        """Called with the time of each short answer, from its engine's first call on."""
        if len(self._latest) >= self.settings.hedge_recent:
            del self._in_order[bisect_left(self._in_order, self._latest.popleft())]
        self._latest.append(seconds)
        insort(self._in_order, seconds)

    def pay(self) -> None:
        """Called once for each call that may be hedged."""
        self._budget.pay()

    def take(self) -> bool:
        """Whether there is a hedge left; it is then taken."""
        return self._budget.take()

    def give_back(self) -> None:
        """The hedge that was taken could not be made."""
        self._budget.give_back()


class Hedges:
    """The hedges of all models that are served, by name."""

    def __init__(self) -> None:
        self._models: dict[str, ModelHedges] = {}

    def of(self, model: str, settings: RoutingConfig) -> ModelHedges:
        """The hedges of a model that is served, by the settings as they are now. What was known under others is forgotten."""
        found = self._models.get(model)
        if found is None or (found.settings is not settings and _terms(found.settings) != _terms(settings)):
            found = self._models[model] = ModelHedges(settings)
        return found


def _terms(settings: RoutingConfig) -> tuple[float, ...]:
    """The settings that a model's hedges are made with."""
    return (
        settings.hedge_after_s,
        settings.hedge_percentile,
        settings.hedge_share,
        settings.hedge_reserve,
        settings.hedge_recent,
    )
