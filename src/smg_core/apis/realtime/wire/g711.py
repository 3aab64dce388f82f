"""Sound of telephones (G.711, 8 kHz) as the sound that sessions work with (pcm16 at 24 kHz), and back.

Each byte is a sample by one of two laws, u-law and A-law (ITU-T G.711). Between two samples a straight line is drawn; on the way
back what 8 kHz cannot have is filtered out first. Pure. Above: the sessions. Below: nothing.
"""

from typing import Literal

import numpy as np
from numpy.typing import NDArray

__all__ = ["LAWS", "FromPhone", "Law", "ToPhone"]

Law = Literal["audio/pcmu", "audio/pcma"]
LAWS: tuple[Law, ...] = ("audio/pcmu", "audio/pcma")
"""The formats, by the names that the API has for them."""
_UP = 3  # samples at 24 kHz for each at 8 kHz
_TAPS = 47
_CUTOFF = 3400 / 24_000
_SLICE = 64 * 1024
"""Bytes that are worked on at once: as numbers they take thirty times as much."""

_Samples = NDArray[np.int16]


def _u_law() -> _Samples:
    """The sample of each byte by the u-law."""
    code = ~np.arange(256) & 0xFF
    size = (((code & 0x0F) << 3) + 0x84) << ((code & 0x70) >> 4)
    return np.where(code & 0x80, 0x84 - size, size - 0x84).astype(np.int16)


def _a_law() -> _Samples:
    """The sample of each byte by the A-law."""
    code = np.arange(256) ^ 0x55
    segment = (code & 0x70) >> 4
    step = (code & 0x0F) << 4
    size = np.where(segment == 0, step + 8, (step + 0x108) << np.maximum(segment - 1, 0))
    return np.where(code & 0x80, size, -size).astype(np.int16)


_SAMPLES: dict[Law, _Samples] = {"audio/pcmu": _u_law(), "audio/pcma": _a_law()}


def _nearest(law: Law) -> NDArray[np.uint8]:
    """The byte whose sample is nearest to each value that 16 bits can have, from the lowest on."""
    samples = _SAMPLES[law].astype(np.int32)
    order = np.argsort(samples, kind="stable")
    known = samples[order]
    wanted = np.arange(-32768, 32768)
    above = np.clip(np.searchsorted(known, wanted), 1, 255)
    lower = wanted - known[above - 1] <= known[above] - wanted
    return order[np.where(lower, above - 1, above)].astype(np.uint8)


def _filter() -> NDArray[np.float64]:
    """A low-pass filter for what 8 kHz can have."""
    at = np.arange(_TAPS) - (_TAPS - 1) / 2
    taps = 2 * _CUTOFF * np.sinc(2 * _CUTOFF * at) * np.hamming(_TAPS)
    return np.asarray(taps / taps.sum(), dtype=np.float64)


class FromPhone:
    """One stream of a telephone's sound, as it is heard."""

    def __init__(self, law: Law) -> None:
        self.law = law
        self._last: int | None = None

    def pcm(self, sound: bytes) -> bytes:
        """More of it, as pcm16 at 24 kHz: three samples for each byte."""
        return b"".join([self._piece(sound[at : at + _SLICE]) for at in range(0, len(sound), _SLICE)])

    def _piece(self, sound: bytes) -> bytes:
        samples = _SAMPLES[self.law][np.frombuffer(sound, dtype=np.uint8)].astype(np.float32)
        before = np.empty_like(samples)
        before[1:] = samples[:-1]
        before[0] = samples[0] if self._last is None else self._last
        self._last = int(samples[-1])
        steps = np.arange(1, _UP + 1, dtype=np.float32) / _UP
        line = before[:, None] + (samples - before)[:, None] * steps
        return np.rint(line).astype("<i2").tobytes()


class ToPhone:
    """One stream of sound, as a telephone gets it."""

    def __init__(self, law: Law) -> None:
        self._codes = _nearest(law)
        self._taps = _filter()
        self._before = np.zeros(_TAPS - 1)
        self._phase = 0  # samples until the next one that is kept

    def encoded(self, pcm: bytes) -> bytes:
        """More of it, of pcm16 at 24 kHz: a byte for each three samples."""
        new = np.frombuffer(pcm, dtype="<i2").astype(np.float64)
        whole = np.concatenate([self._before, new])
        self._before = whole[len(whole) - (_TAPS - 1) :]
        if not len(new):
            return b""
        kept = np.convolve(whole, self._taps, "valid")[self._phase :: _UP]
        self._phase = (self._phase - len(new)) % _UP
        levels = np.clip(np.rint(kept), -32768, 32767).astype(np.int32)
        return self._codes[levels + 32768].tobytes()
