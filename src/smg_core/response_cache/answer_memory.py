"""Answers that a process keeps in its memory: bounded by bytes and age, the least recently used goes first.

Pure: the time is an argument. Above: `caching`. Below: nothing.
"""

from collections import OrderedDict

import attrs

__all__ = ["AnswerMemory"]

_BESIDE = 256
"""Bytes that an answer takes beside its own."""


@attrs.frozen
class _Kept:
    data: bytes
    until: float


class AnswerMemory:
    """The answers of one process, of `most` bytes together; `size` is how many there are."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.size = 0
        self._kept: OrderedDict[bytes, _Kept] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def find(self, key: bytes, now: float) -> bytes | None:
        """The answer of a key, None where there is none that is young enough."""
        kept = self._kept.get(key)
        if kept is None:
            return None
        if kept.until <= now:
            self._drop(key)
            return None
        self._kept.move_to_end(key)
        return kept.data

    def keep(self, key: bytes, data: bytes, until: float) -> None:
        """Keep an answer until that time. One that is larger than all that may be kept is not."""
        self._drop(key)
        if len(data) + _BESIDE > self.most:
            return
        self._kept[key] = _Kept(data, until)
        self.size += len(data) + _BESIDE
        self.shrink()

    def shrink(self) -> None:
        """Let go of what is over the bound."""
        while self.size > self.most:
            self._drop(next(iter(self._kept)))

    def _drop(self, key: bytes) -> None:
        kept = self._kept.pop(key, None)
        if kept is not None:
            self.size -= len(kept.data) + _BESIDE
