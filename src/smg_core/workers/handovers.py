"""The one of two workers to blame for a failed hand-over of a cache, if their engines do not say.

The engine that answers says no more than that it failed, or nothing, while it waits for the cache that another one has made:
either may be broken. Such a failure is in doubt until one of the two has handed over well with a third worker, which acquits it:
then the other one is to blame for all that failed between them. While a pair is in doubt, each of the two is asked together with
others, so that this is soon known. Where a call had to be made of a pair in doubt all the same, nothing can tell them apart: it
counts for both. A doubt that has lasted as long as a call counts is forgotten. Each process knows its own. Pure: the time is an
argument. Above: the registry has the handovers, pipeline.calls.selecting asks who is in doubt, the monitor tells how a
handover ended and hears whose fault it was.
"""

from collections import Counter
from collections.abc import Container

import attrs

from smg_core.errors import SmgError
from smg_core.workers.worker import Worker

__all__ = ["Blame", "HandoverEnd", "Handovers"]


@attrs.frozen
class HandoverEnd:
    """A worker that hands a cache over or takes it, with the data-parallel rank of its engine (None: the engine's choice)."""

    worker: Worker
    rank: int | None = None

    @classmethod
    def of(cls, worker: Worker, rank: int | None) -> "HandoverEnd":
        """The end of a call at a rank; a worker that is one rank of its engine is one by itself."""
        return cls(worker, rank if worker.spec.rank is None else None)

    @property
    def key(self) -> tuple[str, int | None]:
        """Of two ends with the same key the one is the other."""
        return self.worker.name, self.rank


@attrs.frozen
class Blame:
    """`count` calls failed with `error` by the fault of `end`."""

    end: HandoverEnd
    error: SmgError
    count: int


@attrs.define
class _Doubt:
    """What has failed between two workers since `since`, in monotonic seconds: `count` calls, the last one with `error`."""

    start: HandoverEnd
    end: HandoverEnd
    since: float
    error: SmgError
    count: int = 1

    def blame(self, end: HandoverEnd) -> Blame:
        return Blame(end, self.error, self.count)


_Key = tuple[tuple[str, int | None], tuple[str, int | None]]


class Handovers:
    """The pairs of workers that are in doubt, each for `lasts` seconds at most. Asking costs the same however many there are."""

    def __init__(self, lasts: float) -> None:
        self.lasts = lasts
        self._doubts: dict[_Key, _Doubt] = {}  # the oldest is the first
        self._ends: dict[
            str, Counter[str]
        ] = {}  # by the name of the first worker: the others, with how many doubts there are

    def failed(
        self, start: HandoverEnd, end: HandoverEnd, error: SmgError, began: float, now: float
    ) -> tuple[Blame, ...]:
        """Called when `end` did not get the cache of `start`, in a call that began at `began`. Who is to blame, as far as that is
        known now."""
        self._forget_old(now)
        key = start.key, end.key
        doubt = self._doubts.get(key)
        if doubt is None:
            self._doubts[key] = _Doubt(start, end, now, error)
            self._ends.setdefault(start.worker.name, Counter())[end.worker.name] += 1
            return ()
        doubt.error, doubt.count = error, doubt.count + 1
        if began < doubt.since:
            return ()
        self._forget(key)  # nobody else could be asked
        return doubt.blame(start), doubt.blame(end)

    def went_well(self, start: HandoverEnd, end: HandoverEnd, now: float) -> tuple[Blame, ...]:
        """Called when `end` got the cache of `start`. Who is to blame for what had failed before, now that these two are not."""
        if not self._doubts:
            return ()
        self._forget_old(now)
        blamed = []
        for key, doubt in list(self._doubts.items()):
            starts, ends = key[0] == start.key, key[1] == end.key
            if starts != ends:
                self._forget(key)
                blamed.append(doubt.blame(doubt.end if starts else doubt.start))
        return tuple(blamed)

    @property
    def any_in_doubt(self) -> bool:
        """Whether there is a pair in doubt: `doubted_with` says which."""
        return bool(self._doubts)

    def doubted_with(self, start: str, now: float) -> Container[str]:
        """The names of those that are in doubt with the worker of the name `start`: one of the two is to blame for something, and
        it is not known which."""
        self._forget_old(now)
        return self._ends.get(start, ())

    def forget(self, name: str) -> None:
        """Forget what is in doubt of a worker that has left, or is not ready any more."""
        for key in [each for each in self._doubts if name in (each[0][0], each[1][0])]:
            self._forget(key)

    def _forget_old(self, now: float) -> None:
        while self._doubts:
            key, oldest = next(iter(self._doubts.items()))
            if now - oldest.since < self.lasts:
                return
            self._forget(key)

    def _forget(self, key: _Key) -> None:
        del self._doubts[key]
        (start, _), (end, _) = key
        ends = self._ends[start]
        ends[end] -= 1
        if not ends[end]:
            del ends[end]
        if not ends:
            del self._ends[start]
