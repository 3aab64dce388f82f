"""The answers of an engine to one process, shared with all processes in memory.

An engine is asked for its health and its load by one process, the row's holder; the others read what it learned. Who finds
that the holder is late takes its place, so nothing is lost when a process ends, is replaced or stands still. A process that
suspects a worker may ask by itself, and all read that too. Pure: memory, lock and time are arguments. Above: monitor,
server.processes. Below: the record of loads.
"""

from contextlib import AbstractContextManager
from hashlib import blake2b
from struct import Struct as Layout

import attrs
from msgspec import Struct, msgpack

from smg_core.engines.loads import Loads, RankLoad

__all__ = ["Learned", "PollTable", "Polls", "loads_of", "packed_loads"]

_ROW = Layout("<qqqdq")
"""Sign of the worker, holder, number of the answer, when the holder asked last, length of the answer."""
_SIGN_BYTES = 7
HEALTH_BYTES = 24
"""Most bytes of the outcome of a health check: its name."""
LOADS_BYTES = 256
"""Most bytes of a load, enough for some ten ranks; engines with more are asked by each process."""


class Learned(Struct, frozen=True):
    """What was learned last; another `number` for each answer. `answer` is empty where there is none yet."""

    number: int
    answer: bytes


class PollTable:
    """A row for each row of the board, in `memory`, all zero at first. `column` is the number of this process; `lock` keeps all
    others out. `most` is how long an answer may be."""

    def __init__(self, memory: memoryview, lock: AbstractContextManager[object], column: int, most: int) -> None:
        self._memory = memory.cast("B")
        self._lock = lock
        self._own = column + 1
        self._most = most
        self._size = _ROW.size + most

    @staticmethod
    def size(rows: int, most: int) -> int:
        """The bytes of a table of so many rows."""
        return rows * (_ROW.size + most)

    def turn(self, row: int, url: str, now: float, patience: float) -> Learned | None:
        """None: it is for this process to ask the engine at `url` now. Else what another process has learned, which asks it and
        did so within the last `patience` seconds."""
        sign = _sign(url)
        with self._lock:
            of, holder, number, at, length = self._read(row)
            if of == sign and holder not in (0, self._own) and now - at <= patience:
                start = row * self._size + _ROW.size
                return Learned(number, bytes(self._memory[start : start + length]))
            kept = (number, length) if of == sign else (0, 0)
            _ROW.pack_into(self._memory, row * self._size, sign, self._own, kept[0], now, kept[1])
        return None

    def known(self, row: int, url: str) -> Learned | None:
        """What was learned of the engine at `url`, by whichever process; None where nothing was. It stays whose turn it is."""
        with self._lock:
            of, _, number, _, length = self._read(row)
            if of != _sign(url) or not length:
                return None
            start = row * self._size + _ROW.size
            return Learned(number, bytes(self._memory[start : start + length]))

    def learned(self, row: int, url: str, now: float, answer: bytes) -> tuple[int, bool]:
        """Tell what this process has learned of the engine at `url`. The number of this answer, and whether it is another one
        than the last. One that is too long is told as none."""
        sign, answer = _sign(url), answer if len(answer) <= self._most else b""
        start = row * self._size
        with self._lock:
            of, holder, number, at, length = self._read(row)
            before = bytes(self._memory[start + _ROW.size : start + _ROW.size + length]) if of == sign else b""
            if of != sign or holder in (0, self._own):
                holder, at = self._own, now
            _ROW.pack_into(self._memory, start, sign, holder, number + 1, at, len(answer))
            self._memory[start + _ROW.size : start + _ROW.size + len(answer)] = answer
        return number + 1, answer != before

    def _read(self, row: int) -> tuple[int, int, int, float, int]:
        found: tuple[int, int, int, float, int] = _ROW.unpack_from(self._memory, row * self._size)
        return found


@attrs.frozen(eq=False)
class Polls:
    """What processes ask engines for one another."""

    health: PollTable
    loads: PollTable

    @classmethod
    def of(cls, memory: memoryview, rows: int, lock: AbstractContextManager[object], column: int) -> "Polls":
        """The tables in `memory`, of which a process in `column` is told."""
        end = PollTable.size(rows, HEALTH_BYTES)
        whole = memory.cast("B")
        return cls(
            PollTable(whole[:end], lock, column, HEALTH_BYTES),
            PollTable(whole[end : Polls.size(rows)], lock, column, LOADS_BYTES),
        )

    @staticmethod
    def size(rows: int) -> int:
        """The bytes of the tables for so many rows of the board."""
        return PollTable.size(rows, HEALTH_BYTES) + PollTable.size(rows, LOADS_BYTES)


def packed_loads(loads: Loads | None) -> bytes:
    """A load as it is told; that of an engine which does not report one is of no rank."""
    return msgpack.encode([] if loads is None else [loads.others, *(attrs.astuple(rank) for rank in loads.ranks)])


def loads_of(answer: bytes) -> Loads | None:
    """The load that was told."""
    if not (loads := msgpack.decode(answer)):
        return None
    others, *rows = loads
    return Loads(tuple([RankLoad(*row) for row in rows]), others)


def _sign(url: str) -> int:
    """A number for the engine at an address, by which a row is known to be about it."""
    return int.from_bytes(blake2b(url.encode(), digest_size=_SIGN_BYTES).digest())
