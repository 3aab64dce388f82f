"""The sound of answers on its way to a caller: what waits to be played, what of each item was, and what is thrown away.

A call plays in its own time, whatever the time in which sound is made. Pure. Above: the carrier of a call. Below: nothing.
"""

from collections import deque

import attrs

__all__ = ["FRAME_SOUND_BYTES", "CutSound", "Playing"]

FRAME_SOUND_BYTES = 960
"""Bytes of 20 ms of pcm16 at 24 kHz, which is what a call plays at once."""
_BYTES_A_MS = 48
_MUTED = 64  # responses of which no more is played: as many as one session has at once


@attrs.frozen
class CutSound:
    """An item of a response whose sound was thrown away, and for how many milliseconds it was played before."""

    response: str
    item: str
    content_index: int
    played_ms: int


@attrs.define(eq=False)
class _Segment:
    """Sound of one part of an item: what waits, and how many bytes were played."""

    response: str
    item: str
    content_index: int
    waiting: bytearray = attrs.field(factory=bytearray)
    played: int = 0


class Playing:
    """What waits to be played in one call. At most `most` bytes wait; of sound beyond that nothing is heard."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._segments: deque[_Segment] = deque()
        self._ended: set[str] = set()
        self._muted: deque[str] = deque(maxlen=_MUTED)
        self._size = 0

    def __bool__(self) -> bool:
        """Whether a response is being played, or may have more to play."""
        return bool(self._segments)

    def put(self, response: str, item: str, content_index: int, sound: bytes) -> bool:
        """More sound of a response; returns whether it is the first of it that is played. None is of one that was cut."""
        if response in self._muted or self._size + len(sound) > self._most:
            return False
        known = {each.response for each in self._segments}
        last = self._segments[-1] if self._segments else None
        if last is None or (last.response, last.item, last.content_index) != (response, item, content_index):
            last = _Segment(response, item, content_index)
            self._segments.append(last)
        last.waiting += sound
        self._size += len(sound)
        return response not in known

    def end(self, response: str) -> list[str]:
        """A response has no more sound; returns it where all of that is played."""
        if response in self._muted:
            self._muted.remove(response)
        if any(each.response == response for each in self._segments):
            self._ended.add(response)
        return self._over()

    def take(self) -> tuple[bytes, list[str]]:
        """What is played next, with silence where there is not enough, and the responses that are all played with it."""
        frame = bytearray()
        for segment in self._segments:
            piece = segment.waiting[: FRAME_SOUND_BYTES - len(frame)]
            del segment.waiting[: len(piece)]
            segment.played += len(piece)
            self._size -= len(piece)
            frame += piece
            if len(frame) == FRAME_SOUND_BYTES:
                break
        return bytes(frame.ljust(FRAME_SOUND_BYTES, b"\0")), self._over()

    def cut(self) -> list[CutSound]:
        """Play no more of what waits, nor of what still comes of it: the items whose sound this was."""
        cut = [
            CutSound(each.response, each.item, each.content_index, each.played // _BYTES_A_MS)
            for each in self._segments
        ]
        self._muted.extend({each.response for each in self._segments} - self._ended)
        self._segments.clear()
        self._ended.clear()
        self._size = 0
        return cut

    def _over(self) -> list[str]:
        """Forget what is played, and return the responses of which that is all."""
        over: list[str] = []
        while self._segments and not self._segments[0].waiting:
            first = self._segments[0]
            alone = not any(each.response == first.response for each in list(self._segments)[1:])
            if alone and first.response not in self._ended:
                break  # more may come of it, and is to be counted with what was played
            self._segments.popleft()
            if alone:
                self._ended.discard(first.response)
                over.append(first.response)
        return over
