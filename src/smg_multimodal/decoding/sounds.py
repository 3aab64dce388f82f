"""Recordings, and the sound of clips, to mono samples at the rate that a model takes.

Above: `reader`, `processes.worker_process`. Below: `recordings.audio` for WAV files, `av_input` for all else. Channels are
averaged, as soundfile's users do, and what is longer than it may be is refused while it is decoded, whatever the file says of
its length.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from smg_multimodal.decoding.av_input import ended_early, opened, prepared
from smg_multimodal.decoding.decode import ImageLimits
from smg_multimodal.recordings import audio
from smg_multimodal.records.errors import BadRecording, MediaTooLarge
from smg_multimodal.records.types import Float32, Modality

if TYPE_CHECKING:
    from av.audio.frame import AudioFrame
    from av.audio.stream import AudioStream
    from av.container import InputContainer

__all__ = ["RecordingFacts", "is_wave", "recording", "recording_facts"]

_OVERHEAD = 16 * 1024 * 1024
"""Memory that decoding takes beside the samples."""
_COPIES = 3
"""Times that samples at their own rate are in memory: as they come, joined, and between silence for the resampler."""
_WAVE_COPIES = 6
"""The same for a WAV file: its bytes, its chunks, integers as floats, channels, and silence around them."""
_SECOND_SECONDS = 0.01
"""Time that a second of a WAV file takes, to be read and resampled, on a slow core."""
_SHORT_SECONDS = 0.6
_OVER = 1.1
"""Times the length that a file states, and a second, that its sound may have: packets are rounded, and some come before the
start."""


@dataclass(frozen=True, slots=True)
class RecordingFacts:
    """What is known of a recording before it is decoded. `seconds` is its length, `rate` its own in Hz, `memory` the bytes that
    decoding takes at most. `isolated`: decode it in a process."""

    seconds: float
    rate: int
    memory: int
    isolated: bool = True

    @property
    def most_seconds(self) -> float:
        """What may be decoded of it: beyond that, the file is not what it states."""
        return self.seconds * _OVER + 1.0


def is_wave(data: bytes) -> bool:
    """Whether it is a WAV file, which is read without PyAV."""
    return data[:4] == b"RIFF" and data[8:12] == b"WAVE"


def recording_facts(data: bytes, limits: ImageLimits, rate: int) -> RecordingFacts:
    """Of a recording, or the sound of a clip, that will be decoded to `rate` Hz. Nothing is decoded.

    Raises BadRecording for what is no recording, MediaTooLarge for what is longer than `limits` have it or takes more memory.
    """
    if is_wave(data):
        seconds, own = audio.wave_length(data, max_bytes=limits.max_bytes, max_steps=limits.max_steps)
        _check_length(seconds, limits.max_seconds)
        memory = _WAVE_COPIES * max(len(data), int(4 * seconds * own)) + int(4 * seconds * rate)
        return RecordingFacts(seconds, own, _OVERHEAD + memory, seconds * _SECOND_SECONDS > _SHORT_SECONDS)
    with opened(data, Modality.AUDIO, limits.max_pixels) as file:
        stream = _sound(file, limits)
        seconds = _length(file, stream, limits.max_seconds)
        own = int(stream.rate or 0)
    memory = _OVERHEAD + int(4 * (_COPIES * own + 2 * rate) * seconds) + 2 * len(data)
    if limits.max_memory and memory > limits.max_memory:
        raise MediaTooLarge(
            f"the recording has {seconds:.1f} s at {own} Hz, which take {memory} bytes of memory to decode; "
            f"at most {limits.max_memory} are taken"
        )
    return RecordingFacts(seconds, own, memory)


def _sound(file: "InputContainer", limits: ImageLimits) -> "AudioStream":
    found = prepared(file, Modality.AUDIO, limits.max_pixels)
    return file.streams.audio[[each.index for each in file.streams.audio].index(found.index)]


def _length(file: "InputContainer", stream: "AudioStream", most: float) -> float:
    """Seconds of sound, as the packets have it."""
    base = Fraction(stream.time_base or 1)
    lasting, first, last = 0, None, 0
    for packet in file.demux(stream):
        if not packet.size:
            continue
        if packet.is_corrupt:
            raise ended_early(Modality.AUDIO)
        lasting += packet.duration or 0
        if packet.pts is not None:
            first = packet.pts if first is None else min(first, packet.pts)
            last = max(last, packet.pts + (packet.duration or 0))
        _check_length(float(lasting * base), most)
    seconds = float(max(lasting, last - (first or 0)) * base)
    _check_length(seconds, most)
    return seconds


def _check_length(seconds: float, most: float) -> None:
    if seconds > most:
        raise MediaTooLarge(f"the recording is {seconds:.1f} s long; at most {most:g} s are taken")


def recording(data: bytes, limits: ImageLimits, rate: int, longest: float) -> Float32:
    """The mono samples in [-1, 1], at `rate` Hz, of a recording or of the sound of a clip. What is longer than `longest`
    seconds is refused. Raises as `recording_facts` does, and BadRecording for what does not decode."""
    if is_wave(data):
        return audio.wave_recording(data, rate, longest, max_bytes=limits.max_bytes)
    with opened(data, Modality.AUDIO, limits.max_pixels) as file:
        stream = _sound(file, limits)
        parts: list[Float32] = []
        count, own = 0, 0
        for frame in _frames(file, stream):
            own = frame.sample_rate
            parts.append(frame.to_ndarray().mean(axis=0, dtype=np.float32))
            count += len(parts[-1])
            if count > longest * own:
                raise MediaTooLarge(f"the recording is more than {longest:g} s long")
    if not count:
        raise BadRecording("the recording has no sound")
    samples = np.concatenate(parts)
    parts.clear()
    return audio.resampled(samples, own, rate)


def _frames(file: "InputContainer", stream: "AudioStream") -> Iterator["AudioFrame"]:
    """What is decoded, as floats, one row a channel."""
    import av

    floats = av.AudioResampler(format="fltp")
    for frame in file.decode(stream):
        try:
            yield from floats.resample(frame)
        except ValueError as error:
            raise BadRecording("the recording changes its rate or channels while it plays") from error
    yield from floats.resample(None)
