"""A clip's sound between its frames: in which turns the tokens of both come. One function for each rule of transformers.

Above: `families.omni`. Below: nothing. Frames come in groups, each shown at a moment that is counted in tokens of sound; moments
ascend. Pure.
"""

import math
from collections.abc import Iterator, Sequence

__all__ = ["WovenRun", "in_chunks", "in_order"]

WovenRun = tuple[bool, int]
"""Whether it is sound, and how many tokens of it."""


def in_order(moments: Sequence[float], per_group: int, sound: int) -> tuple[WovenRun, ...]:
    """Each group of frames before the sound of its moment and behind all before (Qwen3-Omni)."""
    runs, heard = [], 0
    for moment in moments:
        before = min(sound, math.ceil(moment))
        runs += [(True, before - heard), (False, per_group)]
        heard = before
    return _joined([*runs, (True, sound - heard)])


def in_chunks(moments: Sequence[float], per_group: int, sound: int, chunk: int) -> tuple[WovenRun, ...]:
    """In turns a chunk of frames and one of sound, each of what `chunk` tokens of sound last (Qwen2.5-Omni)."""
    frames = list(_chunks(moments, per_group, chunk))
    heard = list(_chunks(range(sound), 1, chunk))
    runs = []
    for turn in range(max(len(frames), len(heard))):
        runs += [(False, frames[turn])] if turn < len(frames) else []
        runs += [(True, heard[turn])] if turn < len(heard) else []
    return _joined(runs)


def _chunks(moments: Sequence[float], per_group: int, chunk: int) -> Iterator[int]:
    """How many tokens each chunk has. One that begins later than the next ends leaves that next one a single token, as
    transformers has it: it goes on by one chunk at most with each token."""
    start, ends = 0, chunk
    for step, moment in enumerate(moments):
        place = step * per_group
        while moment >= ends and place < (step + 1) * per_group:
            yield place - start
            start, ends, place = place, ends + chunk, place + 1
    yield len(moments) * per_group - start


def _joined(runs: Sequence[WovenRun]) -> tuple[WovenRun, ...]:
    """The runs that have tokens, neighbours of one kind as one."""
    made: list[WovenRun] = []
    for heard, count in runs:
        if count and made and made[-1][0] is heard:
            made[-1] = heard, made[-1][1] + count
        elif count:
            made.append((heard, count))
    return tuple(made)
