"""Decides which inputs of a pooled request are computed next, and what follows when a call fails.

    an input is    waiting --take--> under way --done--> done
                      ^                  |
                      +-----failed-------+   asked for again elsewhere; or the request ends with the error

Inputs begin in order; what failed begins again before others do, so that one input does not come last again and again. At most
`calls` calls and `tokens` tokens are under way, but one call always may be. Pure. Above: pooling, which makes the calls.
"""

from collections import deque
from collections.abc import Sequence

from smg_core.errors import SmgError
from smg_core.routing.retry_budget import RetryBudget

__all__ = ["Spread"]


class Spread:
    """The inputs of one request, each with its number of tokens in `sizes`. An input may fail `retries` times; `budget` bounds
    the retries of all requests."""

    __slots__ = (
        *("_budget", "_calls", "_left", "_owed", "_retries", "_sizes", "_tokens", "_tried", "_waiting"),
        *("calls", "tokens"),
    )

    def __init__(
        self, sizes: Sequence[int], *, calls: int, tokens: int, retries: int, budget: RetryBudget | None = None
    ) -> None:
        self._sizes = sizes
        self._calls, self._tokens = calls, tokens
        self._retries, self._budget = retries, budget
        self._waiting = deque(range(len(sizes)))
        self._left = len(sizes)
        self._tried: dict[int, frozenset[str]] = {}
        self._owed: dict[int, tuple[int, ...]] = {}  # of retries that were taken from the budget and are not made yet
        self.calls = self.tokens = 0

    @property
    def over(self) -> bool:
        """Whether every input is done."""
        return not self._left

    @property
    def next(self) -> int | None:
        """The input that may begin now; None where none may."""
        if not self._waiting or self.calls >= self._calls:
            return None
        first = self._waiting[0]
        return first if not self.calls or self.tokens + self._sizes[first] <= self._tokens else None

    def tried(self, place: int) -> frozenset[str]:
        """The workers at which an input has failed."""
        return self._tried.get(place, frozenset())

    def take(self, most: int = 1) -> tuple[int, ...]:
        """Begin one call: of the input that is next, and of those after it that go with it, at most `most`. Those that have
        failed elsewhere begin alone, since where they may go differs."""
        group = [self._waiting.popleft()]
        self.tokens += self._sizes[group[0]]
        while (
            len(group) < most
            and group[0] not in self._tried
            and self._waiting
            and self._waiting[0] not in self._tried
            and self.tokens + self._sizes[self._waiting[0]] <= self._tokens
        ):
            group.append(self._waiting.popleft())
            self.tokens += self._sizes[group[-1]]
        self.calls += 1
        for each in self._owed.get(group[0], ()):
            self._owed.pop(each, None)
        return tuple(group)

    def done(self, group: Sequence[int]) -> None:
        """A call has ended well."""
        self._ended(group)
        self._left -= len(group)

    def may_fail(self, group: Sequence[int]) -> bool:
        """Whether these inputs may be asked for again elsewhere if their call fails."""
        return max(len(self.tried(place)) for place in group) < self._retries

    def failed(self, group: Sequence[int], worker: str, error: SmgError, *, lost: bool = False) -> bool:
        """A call at `worker` has failed. True if its inputs are asked for again elsewhere; else the request ends with the
        error. `lost`: the worker was lost with all its calls, which takes no retry from the budget."""
        self._ended(group)
        tried = {place: self.tried(place) for place in group}
        if not error.another_worker_may_do or not self.may_fail(group):
            return False
        if self._budget is not None and not lost:
            if not self._budget.take():
                return False
            self._owed.update(dict.fromkeys(group, tuple(group)))
        for place in group:
            self._tried[place] = tried[place] | {worker}
        self._waiting.extendleft(reversed(group))
        return True

    def give_back(self) -> None:
        """Called when the request is over. The retries that were taken from the budget and not made go back."""
        for _ in set(self._owed.values()):
            if self._budget is not None:
                self._budget.give_back()
        self._owed.clear()

    def _ended(self, group: Sequence[int]) -> None:
        self.calls -= 1
        self.tokens -= sum(self._sizes[place] for place in group)
