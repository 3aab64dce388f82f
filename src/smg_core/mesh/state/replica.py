"""Holds what all members of a mesh have said, and merges what comes: in any order, twice, or late, with one result.

Pure: the time is an argument. Own entries are numbered as they change. Of every other writer it is known up to which version all
has come, so that what is missing can be asked for. A later start of a member replaces all that an earlier one has said, except
counters, which count to the end of their window. What has no room is not kept, and counted.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from hashlib import blake2b
from itertools import islice
from operator import itemgetter

import attrs
from msgspec.structs import replace

from smg_core.mesh.state.entries import (
    LASTING,
    OLDER_KEPT,
    EntryPlace,
    MeshBounds,
    MeshChange,
    MeshDelta,
    MeshEntry,
    WireEntry,
    Writer,
)

__all__ = ["Known", "Merged", "Replica"]

_ENTRY_BYTES = 96  # an entry's size beside its key and value, about
_WIRE_BYTES = 24  # the same in a message, at most
_HEAD_BYTES = 200  # of a message without its entries, at most
_LOG_SPARE = 64  # what may be noted beyond twice the entries before all is noted anew
_ROUNDED_S = 2  # by which the ends of an entry may differ that is told with whole seconds
_OF_ONE = 4  # one writer has at most this part of the room


@attrs.define(eq=False)
class Known:
    """What is known of one writer: its entries, where it has said something with which version (`log`, in order and with what is
    not so any more, as long as it is `ordered`; else it is empty until somebody asks), and up to which version all has come."""

    version: int = 0
    entries: dict[EntryPlace, MeshEntry] = attrs.field(factory=dict)
    size: int = 0
    log: list[tuple[int, EntryPlace]] = attrs.field(factory=list)
    ordered: bool = True

    def note(self, version: int, place: EntryPlace) -> None:
        """Something was said there with this version."""
        log = self.log
        if (log and version <= log[-1][0]) or len(log) > 2 * len(self.entries) + _LOG_SPARE:
            self.ordered = False
            log.clear()
        if self.ordered:
            log.append((version, place))

    def since(self, version: int) -> Iterator[tuple[EntryPlace, MeshEntry]]:
        """What is so of what was said after that version, in order."""
        if not self.ordered:
            self.log = sorted((entry.version, place) for place, entry in self.entries.items())
            self.ordered = True
        for number in range(bisect_right(self.log, version, key=itemgetter(0)), len(self.log)):
            at, place = self.log[number]
            entry = self.entries.get(place)
            if entry is not None and entry.version == at:
                yield place, entry


@attrs.frozen
class Merged:
    """What came of a delta: what has changed here, whether something before it is missing, whether it is of an earlier start,
    and, where others know of words of this member that it has not said, under which start of it."""

    changes: tuple[MeshChange, ...] = ()
    gap: bool = False
    stale: bool = False
    about_us: Writer | None = None


def _cost(place: EntryPlace, value: bytes) -> int:
    return _ENTRY_BYTES + len(place.key) + len(value)


class Replica:
    """The entries of all writers as one member knows them. `own` is that member."""

    def __init__(self, own: Writer, bounds: MeshBounds | None = None) -> None:
        self.own = own
        self.bounds = bounds or MeshBounds()
        self._known: dict[Writer, Known] = {own: Known()}
        self._latest: dict[str, Writer] = {own.name: own}
        self._due: dict[int, dict[tuple[Writer, EntryPlace], None]] = {}
        self._swept = 0
        self.entries = self.size = 0
        self.refused = 0

    # ------------------------------------------------------------------------------------------------------ own entries

    def put(self, place: EntryPlace, value: bytes, lasts_s: float, now: float) -> bool:
        """Say something of one's own. False where there is no room for it."""
        known = self._known[self.own]
        known.version += 1
        return self._set(self.own, known, place, MeshEntry(known.version, value, now + lasts_s))

    def rise_above(self, epoch: int) -> None:
        """Go on as the start after `epoch`: others know of words that this member has not said, or has said before it lost its
        memory. All that it says now is said anew, with versions above those that anybody here waits for."""
        before, known = self.own, self._known.pop(self.own)
        self.own = Writer(before.name, epoch + 1)
        again = self._known[self.own] = Known(known.version)
        self._latest[self.own.name] = self.own
        for place, entry in list(known.since(0)):
            self._drop(known, place)
            again.version += 1
            self._set(self.own, again, place, replace(entry, version=again.version))

    # ------------------------------------------------------------------------------------------------------------- reading

    @property
    def version(self) -> int:
        """The version of the last thing that this member has said."""
        return self._known[self.own].version

    def version_of(self, writer: Writer) -> int:
        """Up to which version all that a writer has said is known; 0 where nothing is."""
        known = self._known.get(writer)
        return known.version if known is not None else 0

    def latest(self, name: str) -> Writer | None:
        """The last start of the member of that name that is known."""
        return self._latest.get(name)

    def value(self, writer: Writer, place: EntryPlace) -> bytes:
        """What a writer says there; empty where it says nothing."""
        known = self._known.get(writer)
        entry = known.entries.get(place) if known is not None else None
        return entry.value if entry is not None else b""

    def values(self, place: EntryPlace) -> Iterator[tuple[Writer, bytes]]:
        """What each writer says there."""
        for writer, known in self._known.items():
            entry = known.entries.get(place)
            if entry is not None and entry.value:
                yield writer, entry.value

    def in_space(self, space: int) -> Iterator[tuple[Writer, bytes, bytes]]:
        """All that is said in a space: the writer, the key and the value."""
        for writer, known in self._known.items():
            for place, entry in known.entries.items():
                if place.space == space and entry.value:
                    yield writer, place.key, entry.value

    def content(self) -> dict[Writer, dict[EntryPlace, tuple[int, bytes]]]:
        """All entries by writer, without the times when they end: what two replicas agree on."""
        return {
            writer: {place: (entry.version, entry.value) for place, entry in sorted(known.entries.items())}
            for writer, known in sorted(self._known.items())
            if known.entries
        }

    def digest(self) -> dict[str, tuple[int, int]]:
        """The last start of every member that is known, and up to which version all of it has come."""
        return {name: (writer.epoch, self._known[writer].version) for name, writer in self._latest.items()}

    def sums(self) -> dict[str, int]:
        """A sum over the lasting entries of each member: where two members that know the same versions have different ones,
        something is wrong."""
        found = {}
        for name, writer in self._latest.items():
            total = 0
            for place, entry in self._known[writer].entries.items():
                if place.space in LASTING:
                    text = b"%d %d %s %s" % (place.space, entry.version, place.key, entry.value)
                    total ^= int.from_bytes(blake2b(text, digest_size=8).digest(), "big")
            found[name] = total
        return found

    def delta(self, writer: Writer, after: int, room: int, now: float) -> MeshDelta:
        """What a writer has said since version `after`, the oldest first, in at most `room` bytes but at least one entry."""
        known = self._known.get(writer)
        if known is None or known.version <= after:
            return MeshDelta(writer, after, after, ())
        room -= _HEAD_BYTES
        entries: list[WireEntry] = []
        for place, entry in known.since(after):
            if entry.version > known.version:
                break
            room -= _WIRE_BYTES + len(place.key) + len(entry.value)
            if room < 0 and entries:
                return MeshDelta(writer, after, entries[-1].version, tuple(entries))
            entries.append(WireEntry(*place, entry.version, entry.value, max(1, round(entry.until - now))))
        return MeshDelta(writer, after, known.version, tuple(entries))

    def kept_of(self, name: str, room: int, now: float) -> Iterator[MeshDelta]:
        """What earlier starts of a member have said that outlives them, in at most `room` bytes."""
        for writer, known in self._known.items():
            if writer.name != name or not any(place.space in OLDER_KEPT for place in known.entries):
                continue
            entries = []
            for place, entry in known.since(0):
                room -= _WIRE_BYTES + len(place.key) + len(entry.value)
                if place.space in OLDER_KEPT and room > 0:
                    entries.append(WireEntry(*place, entry.version, entry.value, max(1, round(entry.until - now))))
            if entries:
                yield MeshDelta(writer, 0, entries[-1].version, tuple(entries))

    # ------------------------------------------------------------------------------------------------------------- merging

    def take(self, delta: MeshDelta, now: float) -> Merged:
        """Merge what a writer has said."""
        writer = delta.writer
        if writer.name == self.own.name:
            if writer.epoch < self.own.epoch:  # what this member has admitted before it started again still counts
                kept = [each for each in delta.entries if each.space in OLDER_KEPT]
                return Merged(tuple(self._merged(writer, self._known.setdefault(writer, Known()), kept, now)))
            outrun = writer.epoch > self.own.epoch or (writer == self.own and delta.last > self.version)
            return Merged(about_us=writer) if outrun else Merged()
        latest = self._latest.get(writer.name)
        if latest is not None and writer.epoch < latest.epoch:
            return Merged(stale=True)
        if latest is None and len(self._latest) >= self.bounds.writers:
            self.refused += 1
            return Merged()
        changes = list(self._begin(writer, latest)) if latest != writer else []
        known = self._known[writer]
        changes += self._merged(writer, known, delta.entries, now)
        gap = delta.first > known.version
        if not gap:
            known.version = max(known.version, delta.last)
        return Merged(tuple(changes), gap)

    def _begin(self, writer: Writer, before: Writer | None) -> Iterator[MeshChange]:
        """A member has begun anew: what its earlier start has said is over, but for its counters."""
        self._latest[writer.name] = writer
        self._known.setdefault(writer, Known())
        if before is not None:
            yield from self._over(before)

    def _merged(self, writer: Writer, known: Known, entries: Iterable[WireEntry], now: float) -> Iterator[MeshChange]:
        bounds, kept = self.bounds, known.entries
        for entry in entries:
            key, version, value = (entry.space, entry.key), entry.version, entry.value
            before = kept.get(key)  # type: ignore[call-overload]
            until = now + min(max(entry.lasts_s, 1), bounds.lasts_s)
            if before is not None:
                if before.version >= version:
                    continue
                lasts = before.until
                if len(value) == len(before.value) and lasts - until < _ROUNDED_S:  # most: its size and its end stay
                    kept[key] = MeshEntry(version, value, max(until, lasts))  # type: ignore[index]
                    if known.ordered:
                        known.note(version, EntryPlace(*key))
                    if before.value != value:
                        yield MeshChange(writer, *key, value)
                    continue
            if len(value) > bounds.value_bytes or len(entry.key) > bounds.key_bytes:
                self.refused += 1
                continue
            if before is not None and 0 < before.until - until < _ROUNDED_S:
                until = before.until
            taken = self._set(writer, known, EntryPlace(*key), MeshEntry(version, value, until))
            if taken and (before is None or before.value != value):
                yield MeshChange(writer, *key, value)

    def _set(self, writer: Writer, known: Known, place: EntryPlace, entry: MeshEntry) -> bool:
        before = known.entries.get(place)
        more = len(entry.value) - len(before.value) if before is not None else _cost(place, entry.value)
        if more > 0 and not self._has_room(known, more, new=before is None):
            self.refused += 1
            return False
        known.entries[place] = entry
        known.note(entry.version, place)
        known.size += more
        self.size += more
        self.entries += before is None
        due = int(entry.until) + 1
        if before is None or due <= int(before.until):  # else it waits at the earlier time, and is looked at again then
            self._due.setdefault(due, {})[writer, place] = None
        return True

    def _has_room(self, known: Known, more: int, *, new: bool) -> bool:
        bounds = self.bounds
        if new and (len(known.entries) * _OF_ONE >= bounds.entries or self.entries >= bounds.entries):
            return False
        return (known.size + more) * _OF_ONE <= bounds.kept_bytes and self.size + more <= bounds.kept_bytes

    def _drop(self, known: Known, place: EntryPlace) -> MeshEntry | None:
        entry = known.entries.pop(place, None)
        if entry is not None:
            cost = _cost(place, entry.value)
            known.size -= cost
            self.size -= cost
            self.entries -= 1
        return entry

    # ----------------------------------------------------------------------------------------------------------- forgetting

    def gone(self, name: str) -> tuple[MeshChange, ...]:
        """A member is there no more: what it has said goes, but for its counters, which count to the end of their window. It is
        known nothing of it then, so that all is told again should it come back."""
        writer = self._latest.get(name)
        if writer is None or writer == self.own:
            return ()
        del self._latest[name]
        return tuple(self._over(writer))

    def _over(self, writer: Writer) -> Iterator[MeshChange]:
        known = self._known[writer]
        known.version = 0
        for place in list(known.entries):
            if place.space not in OLDER_KEPT:
                entry = self._drop(known, place)
                if entry is not None and entry.value:
                    yield MeshChange(writer, place.space, place.key, b"")
        self._forget_empty(writer)

    def _forget_empty(self, writer: Writer) -> None:
        known = self._known.get(writer)
        if known is not None and not known.entries and self._latest.get(writer.name) != writer:
            del self._known[writer]

    def expire(self, now: float, most: int = 2048) -> list[MeshChange]:
        """Forget what is over by now, at most so many entries in one go."""
        found: list[MeshChange] = []
        later: dict[int, list[tuple[Writer, EntryPlace]]] = {}
        for second in sorted(each for each in self._due if each <= now):
            places = self._due[second]
            for writer, place in list(islice(places, most)):
                most -= 1
                del places[writer, place]
                known = self._known.get(writer)
                entry = known.entries.get(place) if known is not None else None
                if known is None or entry is None:
                    continue  # it is gone
                due = int(entry.until) + 1
                if due > now:
                    later.setdefault(due, []).append((writer, place))
                    continue  # it has been said again since
                self._drop(known, place)
                if entry.value:
                    found.append(MeshChange(writer, place.space, place.key, b""))
                self._forget_empty(writer)
            if places:
                break
            del self._due[second]
        for second, waiting in later.items():
            self._due.setdefault(second, {}).update(dict.fromkeys(waiting))
        return found

    @property
    def members(self) -> Mapping[str, Writer]:
        """The last start of each member that has said something."""
        return self._latest
