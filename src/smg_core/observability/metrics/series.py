"""The numbers of metrics: memory that all processes of a gateway share.

Each process has a column of its own and writes nothing else, so nothing is locked and a recording is one addition. A column
belongs to a place among the processes and not to a process: one that replaces another goes on with its counts, so none is lost
and none is left behind. What is kept of a process that died are its counters and histograms; its gauges are cleared.

A column has a head (how many entries and cells are in use, how many recordings found no room, how often the series changed),
entries (which series there are) and cells (their numbers). A series is a metric with the values of its labels. A counter or
gauge has one cell; a histogram has one for each bucket and one for the sum, then, if it keeps exemplars, four for each bucket:
the trace's id in two halves, the value and the time. A reader may see a number that is a moment old, never half of one: a cell
is eight aligned bytes.

A counter or a histogram that one process gives up, as that of a worker that is gone, is not read before all have given it up:
what the others have of it would be a number that went down. Values of labels that an entry has no room for are shortened, with
a hash at their end, so that two long ones stay two.

Pure: the memory is an argument. Above: `recording` writes, `exposition` reads. Below: `metric`.
"""

import struct
from collections.abc import Iterator, Sequence
from hashlib import blake2b

import attrs
from msgspec import Struct

from smg_core.observability.metrics.metric import Labels, Metric

__all__ = ["Exemplar", "Sampled", "SeriesTable", "label_forms"]

_HEAD = 64  # bytes
_ENTRY = 256
_KEY = 240  # bytes of an entry for the values of the labels
_FIELDS = struct.Struct(
    "=iiii"
)  # the metric's number from 1 (0: free, negative: given up), first cell, cells, bytes of the key
_HASH = 8  # bytes of the hash at the end of a shortened value, in hexadecimal digits twice as many
_CELLS_EACH = 32  # cells for each entry that a column has room for: about what all series need on average
_EXEMPLAR = 4  # cells of one exemplar
_USED, _CELLS, _DROPPED, _CHANGES = range(4)  # places in the head, of eight bytes each
_SEPARATOR = "\x1f"
_HALF = (1 << 64) - 1


@attrs.frozen
class Exemplar:
    """A request that fell into a bucket: its trace's id (32 hexadecimal digits), its value, and when (seconds since the
    epoch)."""

    trace_id: str
    value: float
    at: float


class Sampled(Struct, frozen=True):
    """The numbers of one series, of all processes together. A histogram's `numbers` are its buckets, each for itself, and the
    sum; `exemplars` has one for each bucket, or is empty where none is kept."""

    labels: Labels
    numbers: tuple[float, ...]
    exemplars: tuple[Exemplar | None, ...] = ()


class _Column:
    """The parts of one column. `values` and `words` are the same cells as numbers and as integers."""

    def __init__(self, memory: memoryview, start: int, series: int) -> None:
        entries = start + _HEAD
        cells = entries + series * _ENTRY
        self.head = memory[start:entries].cast("q")
        self.entries = memory[entries:cells]
        self.values = memory[cells : cells + series * _CELLS_EACH * 8].cast("d")
        self.words = memory[cells : cells + series * _CELLS_EACH * 8].cast("Q")

    def used(self) -> Iterator[tuple[int, int, bytes, bool]]:
        """The metric's number, the first cell and the key of each entry that is in use, and whether it was given up."""
        entries = bytes(self.entries[: self.head[_USED] * _ENTRY])
        for at in range(_FIELDS.size, len(entries), _ENTRY):
            number, first, _, size = _FIELDS.unpack_from(entries, at - _FIELDS.size)
            if number:
                yield abs(number) - 1, first, entries[at : at + size], number < 0


class SeriesTable:
    """The series of `metrics` in `memory` for `columns` processes, of which this one writes column `own`; at most `series` in
    each."""

    def __init__(
        self, metrics: Sequence[Metric], memory: memoryview, *, series: int, columns: int = 1, own: int = 0
    ) -> None:
        self.metrics = metrics
        size = self.size(series, 1)
        self._columns = [_Column(memory, column * size, series) for column in range(columns)]
        self._mine = self._columns[own]
        self._series = series
        self._widths = [_width(metric) for metric in metrics]
        self._found: dict[tuple[int, Labels], tuple[int, int]] = {}  # to place and first cell
        self._given_up: dict[tuple[int, Labels], tuple[int, int]] = {}  # as `_found`: those that others still have
        self._free: dict[int, list[tuple[int, int]]] = {}  # by width, places and first cells to be used again
        self._changes: list[int] = []
        self._parts: list[tuple[int, Labels, list[tuple[_Column, int]]]] = []
        self.values = self._mine.values
        self._adopt()

    @staticmethod
    def size(series: int, columns: int) -> int:
        """The bytes of memory for so many series and processes."""
        return columns * (_HEAD + series * (_ENTRY + 8 * _CELLS_EACH))

    def _adopt(self) -> None:
        """Take over the series that a process before this one has left in the column: its counts, not its gauges."""
        for place in range(self._mine.head[_USED]):
            at = place * _ENTRY
            number, first, cells, size = _FIELDS.unpack_from(self._mine.entries, at)
            metric = self.metrics[abs(number) - 1]
            if not number or metric.kind == "gauge":
                self._give_back(place, first, cells)
            else:
                key = bytes(self._mine.entries[at + _FIELDS.size : at + _FIELDS.size + size])
                found = self._found if number > 0 else self._given_up
                found[abs(number) - 1, _labels(metric, key)] = place, first

    @property
    def most(self) -> int:
        """How many series a process can have."""
        return self._series

    @property
    def dropped(self) -> int:
        """How often a recording of any process found no room."""
        return sum(column.head[_DROPPED] for column in self._columns)

    @property
    def used(self) -> int:
        """How many series the fullest process has, or had at once before some were given up."""
        return max(column.head[_USED] for column in self._columns)

    def cell(self, number: int, labels: Labels, recordings: int = 1) -> int:
        """The first cell of a series of this process, made if there is none; -1 where there is no room for it, and so many
        recordings are dropped."""
        found = self._found.get((number, labels))
        return self._made(number, labels, recordings) if found is None else found[1]

    def _made(self, number: int, labels: Labels, recordings: int) -> int:
        labels = _fitted(labels)
        if (number, labels) in self._found:
            return self._found[number, labels][1]
        if (number, labels) in self._given_up:
            return self._take_back(number, labels)
        key = _key(labels)
        place, first = self._room(self._widths[number])
        if place < 0:
            self._mine.head[_DROPPED] += recordings
            return -1
        at = place * _ENTRY + _FIELDS.size
        self._mine.entries[at : at + len(key)] = key
        _FIELDS.pack_into(self._mine.entries, place * _ENTRY, 0, first, self._widths[number], len(key))
        struct.pack_into("=i", self._mine.entries, place * _ENTRY, number + 1)  # last: it is there from now on
        self._mine.head[_CHANGES] += 1
        self._found[number, labels] = place, first
        return first

    def _room(self, width: int) -> tuple[int, int]:
        """A place for an entry and its first cell; -1 where there is none."""
        free = self._free.get(width)
        if free:
            return free.pop()
        head = self._mine.head
        place, first = head[_USED], head[_CELLS]
        if place >= self._series or first + width > len(self.values):
            return -1, -1
        head[_CELLS] = first + width
        _FIELDS.pack_into(self._mine.entries, place * _ENTRY, 0, first, width, 0)
        head[_USED] = place + 1
        return place, first

    def keep_exemplar(self, number: int, first: int, bucket: int, trace_id: str, value: float, at: float) -> None:
        """Keep an exemplar for one bucket of the series at `first`."""
        cell = first + len(self.metrics[number].bounds) + 2 + bucket * _EXEMPLAR
        whole = int(trace_id, 16)
        self._mine.words[cell], self._mine.words[cell + 1] = whole >> 64, whole & _HALF
        self.values[cell + 2], self.values[cell + 3] = value, at

    def forget(self, number: int, labels: Labels) -> None:
        """Give up a series whose worker is gone. Its room is given back once no other process has it."""
        labels = _fitted(labels)
        found = self._found.pop((number, labels), None)
        if found is None:
            return
        if self.metrics[number].kind == "gauge":
            self._give_back(*found, self._widths[number])
            return
        self._given_up[number, labels] = found
        self._mark(found[0], -number - 1)

    def settle(self) -> None:
        """Give back the room of series that were given up and that no other process has any more. Called now and then."""
        if not self._given_up:
            return
        others = {
            (number, key)
            for column in self._columns
            if column is not self._mine
            for number, _, key, given_up in column.used()
            if not given_up
        }
        for (number, labels), found in list(self._given_up.items()):
            if (number, _key(labels)) not in others:
                del self._given_up[number, labels]
                self._give_back(*found, self._widths[number])

    def _take_back(self, number: int, labels: Labels) -> int:
        """Go on with a series that was given up, from what it had; returns its first cell."""
        place, first = self._found[number, labels] = self._given_up.pop((number, labels))
        self._mark(place, number + 1)
        return first

    def _mark(self, place: int, number: int) -> None:
        struct.pack_into("=i", self._mine.entries, place * _ENTRY, number)
        self._mine.head[_CHANGES] += 1

    def _give_back(self, place: int, first: int, width: int) -> None:
        struct.pack_into("=i", self._mine.entries, place * _ENTRY, 0)
        self._mine.head[_CHANGES] += 1
        for cell in range(first, first + width):
            self._mine.values[cell] = 0.0
        self._free.setdefault(width, []).append((place, first))

    def known(self) -> list[tuple[int, Labels]]:
        """The series of this process: metrics' numbers and values of labels."""
        return list(self._found)

    def everywhere(self) -> Iterator[tuple[int, Labels]]:
        """The series of all processes that are read."""
        return ((number, labels) for number, labels, _ in self._known_parts())

    def read(self, *, exemplars: bool = True) -> Iterator[tuple[int, Sampled]]:
        """Every series with the number of its metric, by that number, merged over all processes."""
        for number, labels, parts in self._known_parts():
            metric = self.metrics[number]
            width = len(metric.bounds) + 2 if metric.bounds else 1
            rows = [column.values[first : first + width].tolist() for column, first in parts]
            numbers = rows[0] if len(rows) == 1 else [_merged(metric, each) for each in zip(*rows, strict=True)]
            kept = tuple(_exemplars(metric, parts)) if exemplars and metric.exemplars else ()
            yield number, Sampled(labels, tuple(numbers), kept)

    def _known_parts(self) -> "list[tuple[int, Labels, list[tuple[_Column, int]]]]":
        """Every series with where its numbers are in each column; kept until a process has other series."""
        changes = [column.head[_CHANGES] for column in self._columns]
        if changes == self._changes:
            return self._parts
        merged: list[dict[bytes, list[tuple[_Column, int]]]] = [{} for _ in self.metrics]
        hidden = set[tuple[int, bytes]]()
        for column in self._columns:
            for number, first, key, given_up in column.used():
                merged[number].setdefault(key, []).append((column, first))
                if given_up:
                    hidden.add((number, key))
        for number, key in hidden:
            del merged[number][key]
        self._changes = changes
        self._parts = [
            (number, _labels(self.metrics[number], key), parts)
            for number, found in enumerate(merged)
            for key, parts in found.items()
        ]
        return self._parts


def _merged(metric: Metric, values: tuple[float, ...]) -> float:
    """One number of several processes' numbers."""
    if metric.merge == "sum":
        return sum(values)
    return max(values) if metric.merge == "max" else min(values)


def _width(metric: Metric) -> int:
    if metric.kind != "histogram":
        return 1
    buckets = len(metric.bounds) + 1
    return buckets + 1 + (buckets * _EXEMPLAR if metric.exemplars else 0)


def _exemplars(metric: Metric, parts: list[tuple[_Column, int]]) -> Iterator[Exemplar | None]:
    """The newest exemplar of each bucket."""
    start, buckets = len(metric.bounds) + 2, len(metric.bounds) + 1
    parts = [
        (column, first)
        for column, first in parts
        if any(column.words[first + start : first + start + _EXEMPLAR * buckets].tolist())
    ]
    if not parts:
        return
    for bucket in range(buckets):
        newest: Exemplar | None = None
        for column, first in parts:
            cell = first + len(metric.bounds) + 2 + bucket * _EXEMPLAR
            whole = column.words[cell] << 64 | column.words[cell + 1]
            value, at = column.values[cell + 2], column.values[cell + 3]
            if whole and (newest is None or at > newest.at):
                newest = Exemplar(f"{whole:032x}", value, at)
        yield newest


def _key(labels: Labels) -> bytes:
    return _SEPARATOR.join([each.replace(_SEPARATOR, "") for each in labels]).encode("utf-8", "replace")


def _fitted(labels: Labels) -> Labels:
    """The values of labels as an entry has them: those that are too long for it together are shortened."""
    if len(_key(labels)) <= _KEY:
        return labels
    most = _share(len(labels))
    return tuple([_shortened(each, most) for each in labels])


def _share(labels: int) -> int:
    """The bytes that each value of so many labels may have, where they are too long together."""
    return (_KEY - labels + 1) // labels


def _shortened(value: str, most: int) -> str:
    """A value of at most so many bytes: a longer one with a hash of the whole in place of its end."""
    data = value.encode("utf-8", "replace")
    if len(data) <= most:
        return value
    end = f"~{blake2b(data, digest_size=_HASH).hexdigest()}"
    return data[: most - len(end)].decode("utf-8", "ignore") + end


def label_forms(value: str, most_labels: int) -> frozenset[str]:
    """The forms in which a value may stand in series with at most so many labels: whole, and shortened."""
    if len(value) * 4 <= _share(most_labels):
        return frozenset((value,))
    return frozenset([value, *(_shortened(value, _share(labels)) for labels in range(1, most_labels + 1))])


def _labels(metric: Metric, key: bytes) -> Labels:
    return tuple(key.decode().split(_SEPARATOR)) if metric.labels else ()
