"""Says what one member sends to whom and when, and takes what comes: deltas, digests, and what is asked for.

Pure: time and chance are arguments, and what is to be sent is returned. A member tells all others what has changed of its own
words; once in a while one other is told what is known here, and answers with what is missing. A gap is asked for. What one
member sends has a bound of bytes in a second. Words of a member are taken from itself, and from others only while the membership
knows it. Above: the edge that runs it, and the simulation. Below: the replica, the format.
"""

from collections import Counter as Tally
from collections.abc import Iterable, Iterator
from random import Random
from typing import NamedTuple

import attrs
import msgspec

from smg_core.mesh.state.entries import EntryPlace, MeshBounds, MeshChange, MeshDelta, Space, Writer
from smg_core.mesh.state.format import (
    FORMATS,
    Formats,
    KnownLine,
    MeshFault,
    MeshMessage,
    MessageKind,
    common_format,
    delta_in,
    read_mesh_message,
    seen_in,
    sums_in,
    written_delta,
    written_digest,
    written_want,
)
from smg_core.mesh.state.replica import Merged, Replica

__all__ = ["MeshSend", "Node", "NodeTerms", "Peer", "SideStanding"]

_ACKS = EntryPlace(Space.ACKS, b"")
_LINES = 256  # of one digest, and of what is asked for at once
_MOST_EPOCH_AHEAD = 400 * 86_400_000
"""Milliseconds by which the start of a member may lie in the future; what says more is no clock that was wrong."""
_RISES_BY = 1 << 20
_acks = msgspec.msgpack.Decoder(tuple[KnownLine, ...]).decode


@attrs.frozen
class NodeTerms:
    """How often and how much is told: seconds between two looks at what has changed, the same after a while in which nothing has,
    between two words while nothing has (after a while as many as between two digests), between two digests, between two questions
    to one member, and between two sums; bytes in a second, of one message, and of one answer; for how long a member that is gone
    without a word still counts as one of the whole."""

    period_s: float = 0.1
    idle_s: float = 0.4
    beat_s: float = 1.0
    sync_s: float = 5.0
    ask_s: float = 1.0
    sums_s: float = 60.0
    bytes_s: int = 1 << 20
    message_bytes: int = 8 << 10
    turn_bytes: int = 60 << 10
    remember_s: float = 3600.0
    bounds: MeshBounds = attrs.field(factory=MeshBounds)

    @property
    def deaf_s(self) -> float:
        """After so long without a word of what it has heard, nobody waits for a member: it hangs, or speaks another format."""
        return 2 * self.sync_s + self.beat_s

    @property
    def acks_last_s(self) -> float:
        """For how long what a member has heard of others is kept."""
        return 60 * self.beat_s


class MeshSend(NamedTuple):
    """A message to one member, or to all (None)."""

    to: str | None
    data: bytes


class SideStanding(NamedTuple):
    """How many members this side has, this one included, and how many the whole has."""

    here: int
    whole: int

    @property
    def majority(self) -> bool:
        """Whether more than half are on this side."""
        return self.here * 2 > self.whole


@attrs.define(eq=False)
class Peer:
    """Another member: the formats that it speaks, when it was heard last, when it last said what it knows, when it was last asked
    or told, and up to which of our words it knows all."""

    name: str
    formats: Formats
    heard_at: float
    heard_of_at: float
    asked_at: float = float("-inf")
    corrected_at: float = float("-inf")
    acked: int = 0


class Node:
    """One member. `own` is its name and this start of it."""

    def __init__(self, own: Writer, terms: NodeTerms, rng: Random, now: float) -> None:
        self.terms = terms
        self.replica = Replica(own, terms.bounds)
        self.peers: dict[str, Peer] = {}
        self.tally: Tally[str] = Tally()
        self._rng = rng
        self._lost: dict[str, float] = {}
        self._changes: list[MeshChange] = []
        self._sent = self._spoken = 0
        self._beat_s, self._now = terms.beat_s, now
        self._beat_at, self._sync_at, self._sums_at = now, now + terms.sync_s * rng.random(), now + terms.sums_s
        self._budget, self._budget_at = float(terms.bytes_s), now

    @property
    def own(self) -> Writer:
        """This member."""
        return self.replica.own

    # ---------------------------------------------------------------------------------------------------------- membership

    def joined(self, name: str, formats: Formats, now: float) -> list[MeshSend]:
        """A member has come, or has come back: it is told all from the beginning."""
        if name == self.own.name:
            return []
        self._lost.pop(name, None)
        self.peers[name] = Peer(name, formats, now, now)
        known = self.replica.latest(name)
        lines = [
            KnownLine(name, known.epoch if known is not None else 0, self.replica.version_of(known) if known else 0)
        ]
        kept = self.replica.kept_of(name, self.terms.message_bytes, now)
        return [
            self._send(name, written_want(self.own, lines)),
            *self._news_of(name, self.own, 0, now),
            *(self._send(name, written_delta(self.own, each)) for each in kept),
        ]

    def lost(self, name: str, now: float) -> None:
        """A member answers no more: what it said goes, and for a while it still counts as one of the whole."""
        if self.peers.pop(name, None) is not None:
            self._lost[name] = now
            self._changes += self.replica.gone(name)

    def left(self, name: str) -> None:
        """A member has said that it goes."""
        self.peers.pop(name, None)
        self._lost.pop(name, None)
        self._changes += self.replica.gone(name)

    def standing(self, now: float) -> SideStanding:
        """How many are on this side, and how many there are."""
        for name in [name for name, at in self._lost.items() if now - at > self.terms.remember_s]:
            del self._lost[name]
        here = len(self.peers) + 1
        return SideStanding(here, here + len(self._lost))

    @property
    def format(self) -> int | None:
        """The format that is used: the highest that all members speak."""
        return common_format((peer.formats for peer in self.peers.values()), FORMATS)

    # ---------------------------------------------------------------------------------------------------------- own words

    def put(self, space: Space, key: bytes, value: bytes, lasts_s: float, now: float) -> bool:
        """Say something, which all are told at the next look. What is so already is said again only to be kept for longer."""
        taken = self.replica.put(EntryPlace(space, key), value, lasts_s, now)
        self._spoken = self.replica.version
        return taken

    @property
    def unheard(self) -> bool:
        """Whether somebody that is there does not know yet all that this member has said."""
        return self.all_know < self._spoken

    @property
    def all_know(self) -> int:
        """Up to which version all others that are there, and that say what they know, know what this member has said."""
        since = self._now - self.terms.deaf_s
        return min(
            (peer.acked for peer in self.peers.values() if peer.heard_of_at >= since), default=self.replica.version
        )

    def answer_soon(self) -> None:
        """Say at the next look how much is known here of what others say: somebody waits for it."""
        self._beat_at = float("-inf")

    def take_changes(self) -> list[MeshChange]:
        """What has changed since the last call."""
        found, self._changes = self._changes, []
        return found

    def tick(self, now: float) -> list[MeshSend]:
        """Tell what has changed. Called each period."""
        self._now = now
        self._changes += self.replica.expire(now)
        self._budget = min(self.terms.bytes_s, self._budget + (now - self._budget_at) * self.terms.bytes_s)
        self._budget_at = now
        sends: list[MeshSend] = []
        if self.replica.version > self._sent or now >= self._beat_at:
            news = self.replica.version > self._sent or self._beat_at < 0
            self._beat_s = (
                self.terms.beat_s if news else min(2 * self._beat_s, max(self.terms.beat_s, self.terms.sync_s))
            )
            self._beat_at = now + self._beat_s
            self._acknowledge(now)
            sends += self._news(now)
        if now >= self._sync_at:
            self._sync_at = now + self.terms.sync_s
            if self.peers:
                sends.append(self._digest_to(self._rng.choice(sorted(self.peers)), now))
        return sends

    def _acknowledge(self, now: float) -> None:
        heard = []
        for name in list(self.peers)[:_LINES]:
            writer = self.replica.latest(name)
            if writer is not None:
                heard.append(KnownLine(name, writer.epoch, self.replica.version_of(writer)))
        self.replica.put(_ACKS, msgspec.msgpack.encode(heard), self.terms.acks_last_s, now)

    def _news(self, now: float) -> Iterator[MeshSend]:
        """What has changed since all were told last, as far as the bytes of this second go."""
        while self.replica.version > self._sent and self._budget > 0:
            delta = self.replica.delta(self.own, self._sent, self.terms.message_bytes, now)
            self._sent = delta.last
            if self.peers:
                yield self._send(None, written_delta(self.own, delta))

    def _send(self, to: str | None, data: bytes) -> MeshSend:
        self._budget -= len(data) * (len(self.peers) if to is None else 1)
        self.tally["sent"] += 1
        self.tally["sent_bytes"] += len(data)
        return MeshSend(to, data)

    def _digest_to(self, name: str, now: float) -> MeshSend:
        lines = [KnownLine(each, *known) for each, known in list(self.replica.digest().items())[:_LINES]]
        sums = None
        if now >= self._sums_at:
            self._sums_at, sums = now + self.terms.sums_s, self.replica.sums()
        return self._send(name, written_digest(self.own, lines, sums))

    def _news_of(self, to: str, writer: Writer, after: int, now: float) -> Iterator[MeshSend]:
        """What a writer has said since a version, for one member, in one turn."""
        room = self.terms.turn_bytes
        while room > 0 and self._budget > 0 and self.replica.version_of(writer) > after:
            delta = self.replica.delta(writer, after, min(room, self.terms.message_bytes), now)
            send = self._send(to, written_delta(self.own, delta))
            after, room = delta.last, room - len(send.data)
            yield send

    # ---------------------------------------------------------------------------------------------------------- what comes

    def received(self, sender: str, data: bytes, now: float) -> list[MeshSend]:
        """Take a message that the carrier says is of `sender`; what is to be sent for it."""
        self.tally["received"] += 1
        self.tally["received_bytes"] += len(data)
        peer = self.peers.get(sender)
        if peer is None:
            self.tally["unknown"] += 1
            return []
        try:
            message = read_mesh_message(data)
            if message.member != sender:
                self.tally["forged"] += 1
                return []
            peer.heard_at = now
            return list(self._answers(peer, message, now))
        except MeshFault:
            self.tally["malformed"] += 1
            return []

    def _answers(self, peer: Peer, message: MeshMessage, now: float) -> Iterable[MeshSend]:
        if message.kind == MessageKind.DELTA:
            if message.about is not None:
                raise MeshFault("a delta of somebody else")
            return self._delta(peer, delta_in(message), now)
        if message.kind == MessageKind.STATE:
            delta = delta_in(message)
            if delta.writer.name not in self.peers and delta.writer.name != self.own.name:
                self.tally["unknown"] += 1
                return []
            return self._delta(peer, delta, now)
        if message.kind == MessageKind.WANT:
            return self._wanted(peer, seen_in(message), now)
        if message.kind == MessageKind.DIGEST:
            return self._compared(peer, seen_in(message), sums_in(message), now)
        self.tally["other_kinds"] += 1
        return []

    def _delta(self, peer: Peer, delta: MeshDelta, now: float) -> Iterator[MeshSend]:
        taken = self.replica.take(delta, now)
        self._changes += taken.changes
        if any(change.space != Space.ACKS for change in taken.changes):  # somebody waits until all know it
            self._beat_at = min(self._beat_at, now + self.terms.beat_s)
        self._note_acks(taken)
        if taken.about_us is not None:
            self._rise(taken.about_us.epoch)
        elif taken.stale and now - peer.corrected_at >= self.terms.ask_s:
            peer.corrected_at = now
            yield self._digest_to(peer.name, now)
        elif taken.gap and now - peer.asked_at >= self.terms.ask_s:
            peer.asked_at = now
            lines = [KnownLine(*delta.writer, self.replica.version_of(delta.writer))]
            yield self._send(peer.name, written_want(self.own, lines))

    def _note_acks(self, taken: Merged) -> None:
        for change in taken.changes:
            if change.space != Space.ACKS or not change.value or (peer := self.peers.get(change.writer.name)) is None:
                continue
            try:
                lines = _acks(change.value)
            except (msgspec.MsgspecError, ValueError):
                self.tally["malformed"] += 1
                continue
            peer.heard_of_at = self._now
            for line in lines:
                if line.name == self.own.name and line.epoch == self.own.epoch and line.version <= self.replica.version:
                    peer.acked = max(peer.acked, line.version)

    def _rise(self, epoch: int) -> None:
        """Others know of words under this name that are not ours, or not any more: ours go above them."""
        if epoch > self.own.epoch + _MOST_EPOCH_AHEAD:
            self.tally["malformed"] += 1
            return
        self.tally["rose"] += 1
        # Two starts may rise above the same third one: chance keeps them from being taken for one.
        self.replica.rise_above(epoch + self._rng.randrange(_RISES_BY))
        self._sent = 0
        for peer in self.peers.values():
            peer.acked = 0

    def _wanted(self, peer: Peer, lines: Iterable[KnownLine], now: float) -> Iterator[MeshSend]:
        for line in list(lines)[:_LINES]:
            writer = self.replica.latest(line.name)
            if writer is not None:
                yield from self._news_of(peer.name, writer, line.version if line.epoch == writer.epoch else 0, now)

    def _compared(self, peer: Peer, lines: Iterable[KnownLine], sums: dict[str, int], now: float) -> Iterator[MeshSend]:
        """Tell a member what it lacks of what is known here, and ask it for what it knows more of."""
        theirs = {line.name: line for line in list(lines)[:_LINES]}
        asked = []
        ours = self.replica.digest()
        for name, line in theirs.items():
            epoch, version = ours.get(name, (0, 0))
            if (line.epoch, line.version) <= (epoch, version):
                continue
            if name == self.own.name:
                self._rise(line.epoch)
            elif name in self.peers:
                asked.append(KnownLine(name, epoch, version))
        if sums:
            asked += self._differing(theirs, sums)
        if asked:
            yield self._send(peer.name, written_want(self.own, asked))
        for name, (epoch, version) in ours.items():
            if name == peer.name:
                continue
            known = theirs.get(name)
            after = known.version if known is not None and known.epoch == epoch else 0
            if known is None or (known.epoch, known.version) < (epoch, version):
                yield from self._news_of(peer.name, Writer(name, epoch), after, now)

    def _differing(self, theirs: dict[str, KnownLine], sums: dict[str, int]) -> Iterator[KnownLine]:
        """Members of which two know the same versions and not the same words: all is asked for anew."""
        ours, digest = self.replica.sums(), self.replica.digest()
        for name, total in sums.items():
            line = theirs.get(name)
            if line is None or name == self.own.name or digest.get(name) != (line.epoch, line.version):
                continue
            if ours.get(name) != total:
                self.tally["diverged"] += 1
                self._changes += self.replica.gone(name)
                yield KnownLine(name, 0, 0)
