"""Says where speech begins and ends in a stream of sound, by its energy.

The level of each frame is compared with that of the quietest frame of the last seconds, which is what there is without speech:
people pause between syllables, noise does not. So steady noise of any level is no speech once it has lasted that long, and at the
beginning of a stream only where it is loud. Pure. Above: the hearing of a session. Below: nothing.
"""

import math
import sys
from array import array
from collections import deque
from collections.abc import Iterator, Sequence
from operator import mul
from typing import Protocol

import attrs

__all__ = ["FRAME_BYTES", "FRAME_MS", "Detector", "EnergyVad", "TurnMark", "levels_of"]

FRAME_MS = 20
FRAME_BYTES = 960
"""Bytes of a frame of pcm16 at 24 kHz."""
_SILENCE = -100.0  # dBFS of a frame of zeros
_WINDOW = 150  # frames: longer than anybody speaks without a pause
_QUIET = -40.0  # dBFS: what is louder is taken for noise only once the window is full
_OF_FOUR = 3  # of four frames that follow each other so many are loud where speech begins: a click is one
_FULL_SCALE = 32768.0 * 32768.0


def levels_of(sound: bytes) -> list[float]:
    """The levels of the whole frames of `sound` in dBFS, without what is constant in them."""
    levels = []
    for at in range(0, len(sound) - FRAME_BYTES + 1, FRAME_BYTES):
        samples = array("h", sound[at : at + FRAME_BYTES])
        if sys.byteorder == "big":
            samples.byteswap()
        count = len(samples)
        mean = sum(samples) / count
        power = sum(map(mul, samples, samples)) / count - mean * mean
        levels.append(10 * math.log10(power / _FULL_SCALE) if power >= 0.01 else _SILENCE)
    return levels


@attrs.frozen
class TurnMark:
    """Speech `begins`, or has ended, at this number of frames since the stream began."""

    frame: int
    begins: bool


class Detector(Protocol):
    """Finds speech in one stream of pcm16 at 24 kHz. A frame has `frame_bytes`; up to `inline_bytes` at once are judged in less
    than a millisecond."""

    @property
    def frame_bytes(self) -> int: ...
    @property
    def inline_bytes(self) -> int: ...

    def levels(self, sound: bytes) -> list[float]:
        """What `hear` goes by, for each whole frame of `sound`."""
        ...

    def hear(self, levels: Sequence[float]) -> Iterator[TurnMark]:
        """The beginnings and ends of speech in the next frames."""
        ...


class EnergyVad:
    """Hears one stream. `threshold` (0 to 1) is how much louder than the quietest speech is: 24 dB at 1. It has ended after so
    many milliseconds without a loud frame."""

    frame_bytes = FRAME_BYTES
    inline_bytes = 32 * 1024

    def __init__(self, threshold: float, silence_ms: int) -> None:
        self._margin = 24.0 * threshold
        self._least = -60.0 + 20.0 * threshold
        self._silence = max(1, silence_ms // FRAME_MS)
        self._window: deque[float] = deque(maxlen=_WINDOW)
        self._loud: deque[bool] = deque(maxlen=4)
        self._frame = 0
        self._last = 0  # loud frame
        self.speaking = False

    def levels(self, sound: bytes) -> list[float]:
        """The level of each whole frame of `sound`."""
        return levels_of(sound)

    def hear(self, levels: Sequence[float]) -> Iterator[TurnMark]:
        """The beginnings and ends of speech in the next frames, which have these levels."""
        for level in levels:
            loud = self._is_loud(level)
            self._loud.append(loud)
            self._frame += 1
            if loud:
                self._last = self._frame
            if not self.speaking and sum(self._loud) >= _OF_FOUR:
                self.speaking = True
                yield TurnMark(self._frame - len(self._loud) + self._loud.index(True), begins=True)
            elif self.speaking and self._frame - self._last >= self._silence:
                self.speaking = False
                self._loud.clear()
                yield TurnMark(self._frame, begins=False)

    def _is_loud(self, level: float) -> bool:
        self._window.append(level)
        floor = min(self._window)
        if len(self._window) < _WINDOW:
            floor = min(floor, _QUIET)
        return level > max(floor + self._margin, self._least)
