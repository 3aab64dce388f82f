"""The sound that a session has heard and not yet taken: the buffer of its sound, and where in it speech begins and ends.

Where turns are detected, what came before speech is thrown away but for the padding. Pure. Above: the session. Below: the VAD.
"""

import base64
import struct
from collections.abc import Callable, Sequence

import attrs

from smg_core.apis.realtime.wire.vad import FRAME_BYTES, FRAME_MS, Detector, EnergyVad
from smg_core.errors import InvalidRequest
from smg_core.json_types import Json, JsonObject

__all__ = ["Heard", "Hearing", "wav_base64", "wav_of"]

_BYTES_A_MS = FRAME_BYTES // FRAME_MS
_RATE = 24_000
_LEAST = 100 * _BYTES_A_MS  # of sound that is a turn
_EAGERNESS = {"low": 1000, "medium": 500, "auto": 500, "high": 300}
"""Milliseconds of silence that end a turn, for a detector that understands no words."""


@attrs.frozen
class Heard:
    """Speech has begun (`sound` None), or ended, `at_ms` after the session has begun; `sound` is what was said."""

    at_ms: int
    sound: bytes | None = None


def wav_base64(sound: bytes) -> str:
    """A file of this sound, as base64."""
    return base64.b64encode(wav_of(sound)).decode()


def wav_of(sound: bytes) -> bytes:
    """A file of this sound."""
    head = struct.pack(
        "<4sI4s4sIHHIIHH4sI",
        b"RIFF",
        36 + len(sound),
        b"WAVE",
        b"fmt ",
        16,
        1,
        1,
        _RATE,
        2 * _RATE,
        2,
        16,
        b"data",
        len(sound),
    )
    return head + sound


class Hearing:
    """The sound of one session. `detector` makes what finds speech in it, given a threshold and the milliseconds of silence that
    end a turn."""

    def __init__(self, detector: Callable[[float, int], Detector] = EnergyVad) -> None:
        self._detector = detector
        self._sound = bytearray()
        self._begins = 0  # byte of the stream at which the buffer begins
        self._judged = 0  # byte of the stream up to which levels were taken
        self._speech: int | None = None  # byte of the stream at which the speech under way begins, with its padding
        self._vad: Detector | None = None
        self._origin = 0  # byte of the stream at which the detector began to hear
        self._detection: JsonObject | None = None

    @property
    def size(self) -> int:
        """Bytes that are held."""
        return len(self._sound)

    def configure(self, detection: Json) -> None:
        """Detect turns by these settings from now on."""
        wanted = detection if isinstance(detection, dict) else None
        if wanted == self._detection and (wanted is None) == (self._vad is None):
            return
        self._detection, self._speech, self._vad = wanted, None, None
        if wanted is not None:
            silence = wanted.get("silence_duration_ms")
            if not isinstance(silence, int):
                silence = _EAGERNESS[str(wanted.get("eagerness") or "auto")]
            threshold = wanted.get("threshold")
            self._vad = self._detector(float(threshold) if isinstance(threshold, int | float) else 0.5, silence)
            self._origin = self._judged = self._begins + len(self._sound)

    def unjudged(self, sound: bytes) -> bytes:
        """The sound whose levels `hear` wants with `sound`: whole frames, with what is left of the one before."""
        if self._vad is None:
            return b""
        rest = bytes(self._sound[self._judged - self._begins :]) + sound
        return rest[: len(rest) // self._vad.frame_bytes * self._vad.frame_bytes]

    @property
    def inline_bytes(self) -> int:
        """How much sound is judged at once on the event loop."""
        return EnergyVad.inline_bytes if self._vad is None else self._vad.inline_bytes

    def levels(self, sound: bytes) -> list[float]:
        """The levels of the whole frames of this sound."""
        return [] if self._vad is None else self._vad.levels(sound)

    def hear(self, sound: bytes, levels: Sequence[float] | None = None) -> list[Heard]:
        """Take more sound, of which `levels` are the levels (None: they are taken here); returns what has begun and ended.
        Raises InvalidRequest for half a sample."""
        if len(sound) % 2:
            raise InvalidRequest("Invalid 'audio': pcm16 has two bytes a sample.", param="audio", code="invalid_value")
        if levels is None:
            levels = self.levels(self.unjudged(sound))
        self._sound += sound
        if self._vad is None:
            return []
        heard: list[Heard] = []
        for turn in self._vad.hear(levels):
            at = self._origin + turn.frame * self._vad.frame_bytes
            if turn.begins:
                begins = max(at - self._padding, self._begins)
                self._speech = begins
                heard.append(Heard(begins // _BYTES_A_MS))
            elif self._speech is not None:
                heard.append(Heard(at // _BYTES_A_MS, self._taken(at)))
        self._judged += len(levels) * self._vad.frame_bytes
        if self._speech is None:
            self._forget_to(self._judged - self._padding - 4 * self._frame_bytes)  # speech is noticed late
        return heard

    @property
    def _padding(self) -> int:
        """Bytes of sound before speech that belong to it."""
        before = (self._detection or {}).get("prefix_padding_ms")
        return (before if isinstance(before, int) else 300) * _BYTES_A_MS

    @property
    def _frame_bytes(self) -> int:
        return FRAME_BYTES if self._vad is None else self._vad.frame_bytes

    def _taken(self, end: int) -> bytes:
        """The speech up to this byte of the stream, which leaves the buffer."""
        speech = self._speech if self._speech is not None else self._begins
        sound = bytes(self._sound[speech - self._begins : end - self._begins])
        self._speech = None
        self._forget_to(end)
        return sound

    def _forget_to(self, byte: int) -> None:
        gone = min(max(byte - self._begins, 0), len(self._sound))
        del self._sound[:gone]
        self._begins += gone

    def commit(self) -> bytes:
        """Take all that is in the buffer. Raises InvalidRequest where nothing is."""
        if len(self._sound) < _LEAST:
            held = len(self._sound) / _BYTES_A_MS
            raise InvalidRequest(
                "Error committing input audio buffer: buffer too small. Expected at least 100ms of audio, but buffer only has "
                f"{held:.2f}ms of audio.",
                code="input_audio_buffer_commit_empty",
            )
        sound = bytes(self._sound)
        self.clear()
        return sound

    def clear(self) -> None:
        """Forget what is in the buffer."""
        self._begins += len(self._sound)
        self._sound.clear()
        detection, self._detection = self._detection, None
        self.configure(detection)
