"""The supervisor's relay of the processes' messages: numbers them, keeps the last of each key, gives each to all.

A process ("member") that joins is told all that is kept. What waits for a member that does not read is bounded: beyond, it is
dropped, and once the member reads again it is told all that is kept. So it lacks events then, and no state.

Members are of generations: those of a new one are not told what was kept, of some kinds, before their generation began, and those
of the earlier ones still are, for as long as there is one. Pure. Above: relaying, which has the sockets. Below: base, frames.
"""

from collections import deque
from collections.abc import Collection, Mapping

import attrs

from smg_core.channel.base import Kept, Notice
from smg_core.channel.frames import (
    Began,
    Caught,
    Declined,
    Delivered,
    Frame,
    Publish,
    Settled,
    Took,
    Word,
    encoded,
)
from smg_core.channel.settings import ChannelConfig

__all__ = ["Relay"]


@attrs.define(eq=False)
class _Member:
    """A process. `waiting` are pieces that it has not been sent; the first `sent` bytes of the first are out. `behind`: pieces
    were dropped, and it has to be told all that is kept. `took` is the last message that it has taken (None: it has not begun to
    read), `token` its own last one that was given a number. `since` has, by kind, the number from which on messages are for its
    generation."""

    waiting: deque[bytes] = attrs.field(factory=deque)
    size: int = 0
    sent: int = 0
    most: int = 0
    behind: bool = False
    took: int | None = None
    token: int = 0
    since: Mapping[str, int] = attrs.field(factory=dict)


class Relay:
    """The supervisor's side of the channel. Members are named by numbers that the caller chooses."""

    def __init__(self, settings: ChannelConfig) -> None:
        self._settings = settings
        self._kept = Kept(settings)
        self._members: dict[int, _Member] = {}
        self._number = 0
        self._settled = 0
        self._generations: dict[
            int, Mapping[str, int]
        ] = {}  # by generation, from which number on messages of a kind are for it

    def began(self, generation: int, anew: Collection[str], oldest: int) -> None:
        """From now on there may be members of a generation that are not told what was kept before of the kinds `anew`. Of the
        generations before `oldest` none will join any more."""
        for each in [each for each in self._generations if each < oldest]:
            del self._generations[each]
        self._generations[generation] = dict.fromkeys(anew, self._number + 1)

    def joined(self, name: int, generation: int = 0) -> None:
        """A process has started: it is told all that is kept for its generation."""
        member = self._members[name] = _Member(since=self._generations.get(generation, {}))
        self._tell_all(member)

    def left(self, name: int) -> None:
        """A process is gone."""
        if self._members.pop(name, None) is not None:
            self._settle()

    def received(self, name: int, frame: Frame) -> str | None:
        """Called with a frame of a member; the word that it has said to the supervisor, if it is one."""
        member = self._members[name]
        if isinstance(frame, Publish):
            self._publish(member, frame)
        elif isinstance(frame, Took):
            member.took = max(member.took or 0, frame.number)
            self._settle()
        elif isinstance(frame, Word):
            return frame.word
        return None

    def tell(self, name: int, word: str) -> None:
        """Say a word to a member, if it is there."""
        if (member := self._members.get(name)) is not None:
            self._put(member, encoded(Word(word)), urgent=True)

    def _publish(self, sender: _Member, frame: Publish) -> None:
        if not self._kept.fits(frame.kind, frame.key, frame.body):
            self._put(sender, encoded(Declined(frame.token)), urgent=True)
            return
        self._number += 1
        sender.token = frame.token
        self._kept.note(Notice(frame.kind, frame.key, frame.body, self._number))
        for_others = encoded(Delivered(frame.kind, frame.key, frame.body, self._number))
        for_sender = encoded(Delivered(frame.kind, frame.key, frame.body, self._number, frame.token))
        for member in self._members.values():
            self._put(member, for_sender if member is sender else for_others)

    def _settle(self) -> None:
        """Tell all if the last message that every process has taken is another now. One that has not begun to read is told the
        state of then, so it does not count."""
        settled = min((member.took for member in self._members.values() if member.took is not None), default=0)
        if settled > self._settled:
            self._settled = settled
            answer = encoded(Settled(settled))
            for member in self._members.values():
                self._put(member, answer)

    # ------------------------------------------------------------------------------------------------------ what waits

    def _put(self, member: _Member, data: bytes, *, urgent: bool = False) -> None:
        """Let `data` wait for a member. One that has too much waiting loses all of it but the first piece, which may be partly
        out, and is behind from then on; what is `urgent` is not lost."""
        if member.behind and not urgent:
            return
        if member.waiting and member.size + len(data) > member.most and not urgent:
            first = member.waiting[0]
            member.waiting = deque([first])
            member.size = len(first) - member.sent
            member.behind = True
            return
        member.waiting.append(data)
        member.size += len(data)

    def _tell_all(self, member: _Member) -> None:
        """Tell a member all that is kept; further messages may wait behind it."""
        pieces = [encoded(Began())]
        pieces += [
            encoded(Delivered(each.kind, each.key, each.body, each.number))
            for each in self._kept
            if each.number >= member.since.get(each.kind, 0)
        ]
        pieces += [encoded(Caught(self._number, member.token)), encoded(Settled(self._settled))]
        member.behind = False
        member.waiting.extend(pieces)
        member.size += sum(map(len, pieces))
        member.most = member.size + self._settings.pending_bytes

    def waiting(self, name: int) -> memoryview | None:
        """The next bytes for a member; None if there are none, or it is gone."""
        member = self._members.get(name)
        if member is None:
            return None
        if not member.waiting:
            return None
        return memoryview(member.waiting[0])[member.sent :]

    def wrote(self, name: int, count: int) -> None:
        """So many of these bytes are out."""
        member = self._members[name]
        member.sent += count
        member.size -= count
        if member.sent == len(member.waiting[0]):
            member.waiting.popleft()
            member.sent = 0
        if not member.waiting:
            member.most = self._settings.pending_bytes
            if member.behind:
                self._tell_all(member)
