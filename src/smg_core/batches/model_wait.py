"""The time that requests of a batch wait for a model without workers.

An absence is counted for each model, from the first request that finds nobody until one is answered: of many requests for a
model that never comes, the first ones wait and the rest do not, and a model that was there in between is waited for again. Pure.
Above: `batch_run`, which says when. Knows no batch.
"""

__all__ = ["Absences"]


class Absences:
    """The absences of a run's models. A model that is gone is waited for `seconds`."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._since: dict[str, float] = {}

    def __bool__(self) -> bool:
        """Whether any model is absent."""
        return bool(self._since)

    def found_nobody(self, model: str, first: float, now: float) -> bool:
        """Nobody serves `model` at `now`, for a request that found so at `first` already. Returns whether it is tried again."""
        began = self._since.setdefault(model, now)
        return now - min(began, first) < self._seconds

    def answered(self, model: str) -> None:
        """A request for `model` was answered."""
        self._since.pop(model, None)
