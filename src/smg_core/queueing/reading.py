"""The workers that read a prompt, so that a person's first token comes soon.

A prompt waits for those that its engine reads already, and shares its steps with them. So a person's prompt goes to a worker with
the least to read, and while people come, the last worker that reads nothing, or reads least, is left to them as long as others
are not behind with theirs and have not many more requests than it. The policy chooses among those. Pure. Above: `waiting`, the
fleet simulator. Below: nothing.
"""

from collections.abc import Sequence
from typing import Protocol, TypeVar

__all__ = ["PEOPLE_S", "read_aside", "read_first"]

PEOPLE_S = 60.0
"""For how long after a person's request others leave a worker free."""
_SHORT = 128
"""Tokens of a prompt that is read so soon that nobody waits for it, where its worker has the rest in its cache."""
_BEHIND = 2048
"""Tokens that wait at a worker which is behind: about a step of an engine. What would be left free is needed then."""
_AHEAD, _AHEAD_PART = 4, 8
"""By how many requests another worker may be ahead of the one that has fewest, or by which part of those: one that is kept free
for long would have too little to do."""


class _Reader(Protocol):
    @property
    def prefill_tokens(self) -> int: ...

    @property
    def in_flight(self) -> int: ...

    @property
    def others(self) -> int: ...


R = TypeVar("R", bound=_Reader)


def read_first(workers: tuple[R, ...], reads: Sequence[int]) -> tuple[R, ...]:
    """The workers that a person's prompt may go to, of which each would have to read so many tokens of it: those that are done
    with it soonest."""
    until = [worker.prefill_tokens + own for worker, own in zip(workers, reads, strict=True)]
    least = min(until)
    return tuple([worker for worker, tokens in zip(workers, until, strict=True) if tokens <= least])


def read_aside(workers: tuple[R, ...], reads: Sequence[int]) -> tuple[R, ...]:
    """The workers that the prompt of another request may go to while people come: all, where two or more read nothing or the one
    with the least to read has most of it in its cache; else all but that one."""
    waiting = [each.prefill_tokens for each in workers]
    kept = min(range(len(workers)), key=waiting.__getitem__)
    if waiting.count(0) > 1 or len(workers) < 3 or reads[kept] <= _SHORT < max(reads):
        return workers
    requests = [each.in_flight + each.others for each in workers]
    fewest = min(requests)
    most = fewest + max(_AHEAD, fewest // _AHEAD_PART)
    others = [
        worker
        for at, (worker, tokens, own, busy) in enumerate(zip(workers, waiting, reads, requests, strict=True))
        if at != kept and tokens + own <= _BEHIND and busy <= most
    ]
    return tuple(others) or workers
