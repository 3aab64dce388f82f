"""Recordings to log-mel features: Whisper and Qwen2-Audio, and Phi-4 multimodal.

Above: `families.registry`, applications. Below: numpy. Decides framing, filters and logarithm as transformers' feature
extractors do (feature_extraction_whisper, feature_extraction_phi4_multimodal), and how many tokens a recording is. Works on
mono samples in [-1, 1]; `wave_recording` makes those of WAV files, `decoding.sounds.recording` of everything.
"""

import math
import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from io import BytesIO
from typing import Any

import numpy as np
from numpy.typing import NDArray

from smg_multimodal.configs.key_kinds import refused
from smg_multimodal.configs.keys import RECORDING_CLASS, ProcessorClass, positive_number, settled
from smg_multimodal.recordings.mel_bands import MelBands
from smg_multimodal.records.errors import BadRecording, MediaTooLarge
from smg_multimodal.records.types import Array, Float32, Float64, ItemFeatures, Modality, Size
from smg_multimodal.records.walks import MOST_STEPS, StepCount

__all__ = [
    "WHISPER_ONLY",
    "Phi4AudioProcessor",
    "WhisperProcessor",
    "check_samples",
    "halved_twice",
    "mel_filters",
    "phi4_recordings",
    "read_wave",
    "resampled",
    "wave_length",
    "wave_of_pcm16",
    "wave_recording",
    "whisper",
    "windowed",
]


_BLOCK = 4096
"""Frames or samples worked on at once: what is in between takes memory for these alone, however long the recording is."""
_FRAMES = 512
"""Frames whose spectra are made at once: they stay in a core's second-level cache."""
_WEIGHTS = 256 * 1024
"""Weights of the resampler's filter that are in memory at once, two megabytes of them: rates without a common divisor have
millions."""
_UNKNOWN_LENGTH = 0xFFFFFFFF
"""What a WAV file has in place of a length that was not known when its head was written. Zero is written for that too."""
_COPIED_AT_ONCE = 1024 * 1024
"""Bytes that are copied without letting another thread run."""


def _slaney(hertz: Float64) -> Float64:
    """Linear to 1000 Hz, logarithmic above."""
    above = 15.0 + np.log(np.maximum(hertz, 1000.0) / 1000.0) * (27.0 / np.log(6.4))
    return np.where(hertz >= 1000.0, above, 3.0 * hertz / 200.0)


def _from_slaney(mels: Float64) -> Float64:
    above = 1000.0 * np.exp((np.log(6.4) / 27.0) * (np.maximum(mels, 15.0) - 15.0))
    return np.where(mels >= 15.0, above, 200.0 * mels / 3.0)


def _kaldi(hertz: Float64) -> Float64:
    return np.asarray(1127.0 * np.log(1.0 + hertz / 700.0))


def _triangles(places: Float64, corners: Float64) -> Float64:
    gaps = np.diff(corners)
    slopes = corners[None] - places[:, None]
    return np.asarray(np.maximum(0.0, np.minimum(-slopes[:, :-2] / gaps[:-1], slopes[:, 2:] / gaps[1:])))


def mel_filters(bins: int, mels: int, low: float, high: float, rate: int, *, kaldi: bool = False) -> Float64:
    """(bins, mels) triangular filters: Slaney's scale and area normalisation, or Kaldi's scale with triangles in mels."""
    if kaldi:
        ends = _kaldi(np.array([low, high]))
        corners = np.linspace(float(ends[0]), float(ends[1]), mels + 2)
        return _triangles(_kaldi(np.arange(bins, dtype=np.float64) * (rate / ((bins - 1) * 2))), corners)
    edges = _slaney(np.array([low, high]))
    corners = _from_slaney(np.linspace(float(edges[0]), float(edges[1]), mels + 2))
    filters = _triangles(np.linspace(0, rate // 2, bins), corners)
    return filters * (2.0 / (corners[2:] - corners[:-2]))[None]


def check_samples(samples: Float32, most: float, rate: int) -> None:
    """Refuse what is no mono recording of finite samples, or one of more than `most` seconds."""
    if samples.ndim != 1 or not len(samples) or not np.isfinite(samples).all():
        raise BadRecording("the recording must be mono, not empty, and finite")
    _check_length(len(samples), most, rate)


def _check_length(count: int, most: float, rate: int) -> None:
    if count > most * rate:
        raise MediaTooLarge(f"the recording is {count / rate:.1f} s long; at most {most:g} s are taken")


def halved_twice(frames: int) -> int:
    """Tokens of Qwen2-Audio and Qwen2.5-Omni: a convolution and a pooling, each of two frames."""
    return max((((frames - 1) // 2 + 1) - 2) // 2 + 1, 0)


def windowed(frames: int, window: int = 50) -> int:
    """Tokens of Qwen3-Omni: 13 of every two windows of frames, and of the rest what three convolutions leave."""
    whole, rest = divmod(frames, 2 * window)
    for _ in range(3):
        rest = (rest - 1) // 2 + 1
    return whole * 13 + rest


def _power(spectrum: NDArray[np.complex64]) -> Float64:
    """The squares of absolute values, in double precision."""
    parts = spectrum.view(np.float32).astype(np.float64)
    parts *= parts
    return np.asarray(parts[:, 0::2] + parts[:, 1::2])


@dataclass(frozen=True, slots=True)
class WhisperProcessor:
    """Recordings to (1, mels, frames) floats and a (1, frames) mask of real frames.

    `seconds` is the length every recording is padded or cut to; None keeps its own. With `trimmed` the frames of padding are
    left out afterwards. `count` makes tokens of frames. `highest` is the level that the floor lies eight below, where it is not
    the recording's own highest.
    """

    mels: int = 128
    rate: int = 16000
    fft: int = 400
    hop: int = 160
    seconds: int | None = 30
    longest: float = 600.0
    trimmed: bool = False
    count: Callable[[int], int] = halved_twice
    highest: float | None = None

    def log_mel(self, samples: Float32) -> Float32:
        """(mels, samples // hop) floats: log10 power, floored eight below its highest, scaled to about [-1, 1]."""
        padded = np.pad(samples, self.fft // 2, mode="reflect")
        bands = MelBands.of(mel_filters(self.fft // 2 + 1, self.mels, 0.0, 8000.0, self.rate))
        window = np.hanning(self.fft + 1)[:-1]
        frames = np.lib.stride_tricks.sliding_window_view(padded, self.fft)[:: self.hop][:-1]
        loud = np.empty((self.mels, len(frames)), np.float32)
        for start in range(0, len(frames), _FRAMES):
            spectrum = np.fft.rfft(frames[start : start + _FRAMES] * window).astype(np.complex64)
            loud[:, start : start + _FRAMES] = np.log10(np.maximum(1e-10, bands(_power(spectrum)))).T
        highest = loud.max() if self.highest is None else np.float32(self.highest)
        return np.asarray((np.maximum(loud, highest - np.float32(8.0)) + np.float32(4.0)) / np.float32(4.0), np.float32)

    def _padded(self, samples: Float32) -> tuple[Float32, int]:
        """The samples that features are made of, and how many frames of these are real."""
        if self.seconds is None:
            return samples, len(samples) // self.hop
        wanted = self.seconds * self.rate
        real = min(len(samples), wanted)
        kept = np.zeros(min(wanted, real + 2 * self.fft) if self.trimmed else max(wanted, self.fft), np.float32)
        kept[:real] = samples[:real]
        return kept, -(-real // self.hop)

    def item(self, samples: Float32) -> ItemFeatures:
        """The tensors of one mono recording at `rate`."""
        check_samples(samples, self.longest, self.rate)
        kept, frames = self._padded(samples)
        if len(kept) <= self.fft // 2:
            raise BadRecording(f"the recording has fewer than {self.fft // 2 + 1} samples")
        features = self.log_mel(kept)
        if self.trimmed:
            features = features[:, :frames]
        mask = (np.arange(features.shape[1]) < frames).astype(np.int32)
        tensors: dict[str, Array] = {"input_features": features[None], "feature_attention_mask": mask[None]}
        return ItemFeatures(tensors, Size(1, len(samples)), self.count(frames), (frames,), Modality.AUDIO)


WHISPER_ONLY = {"dither": (0, 0.0), "padding_value": (0, 0.0), "padding_side": ("right",)}
"""Of the keys that add something to a recording, the values that are done: no noise, and silence after it."""
_WHISPER = ProcessorClass(
    frozenset({"WhisperFeatureExtractor"}),
    {
        "feature_size": 80,
        "sampling_rate": 16000,
        "hop_length": 160,
        "chunk_length": 30,
        "n_fft": 400,
        "dither": 0.0,
        "padding_value": 0.0,
        "padding_side": "right",
    },
    WHISPER_ONLY,
)


def whisper(config: Mapping[str, Any], usual: Mapping[str, Any], *also: ProcessorClass) -> WhisperProcessor:
    """The processor of a feature extractor's configuration; the families that have Whisper's features call it at load.

    `usual` has the keys that a model of the family is published with: they are meant where its files name no class. `also` are
    the classes of other names that the family takes. Raises `UnsupportedModel` by the key's name for what is not done here.
    """
    given = config if config.get(RECORDING_CLASS) else {**usual, **config}
    settings = settled(given, _WHISPER, *also, kind=RECORDING_CLASS)
    return WhisperProcessor(
        mels=positive_number(settings, "feature_size"),
        rate=positive_number(settings, "sampling_rate"),
        fft=positive_number(settings, "n_fft"),
        hop=positive_number(settings, "hop_length"),
        seconds=positive_number(settings, "chunk_length"),
    )


@dataclass(frozen=True, slots=True)
class Phi4AudioProcessor:
    """Recordings to (1, frames, mels) floats: pre-emphasis, Hamming window, natural logarithm of at least one.

    `stride` frames are counted for each; `compression` of them, and then `down`, are one token.
    """

    mels: int = 80
    rate: int = 16000
    fft: int = 512
    window: int = 400
    hop: int = 160
    emphasis: float = 0.97
    lowest: float = 0.0
    highest: float = 7690.0
    compression: int = 8
    down: int = 1
    stride: int = 1
    longest: float = 600.0

    def _log_mel(self, frames: Float32, filters: Float32) -> Float32:
        before = np.roll(frames, 1, axis=1)
        before[:, 0] = before[:, 1]
        sharp = (frames - np.float32(self.emphasis) * before) * np.float32(32768)
        spectrum = np.fft.rfft(np.hamming(self.window) * sharp.astype(np.float64), self.fft).astype(np.complex64)
        return np.asarray(np.log(np.maximum(np.abs(spectrum) ** 2 @ filters, np.float32(1.0))))

    def item(self, samples: Float32) -> ItemFeatures:
        """The tensors of one mono recording at `rate`."""
        check_samples(samples, self.longest, self.rate)
        if len(samples) < self.window:
            raise BadRecording(f"the recording has fewer than {self.window} samples")
        frames = np.lib.stride_tricks.sliding_window_view(samples.astype(np.float32), self.window)[:: self.hop]
        band = (self.lowest, self.highest)
        filters = mel_filters(self.fft // 2 + 1, self.mels, *band, self.rate, kaldi=True).astype(np.float32)
        features = np.empty((len(frames), self.mels), np.float32)
        for start in range(0, len(frames), _BLOCK):
            features[start : start + _BLOCK] = self._log_mel(frames[start : start + _BLOCK], filters)
        tokens = -(-(len(features) * self.stride) // self.compression)
        tokens = -(-tokens // self.down)
        tensors: dict[str, Array] = {
            "audio_input_features": features[None],
            "audio_embed_sizes": np.array([tokens], np.int64),
        }
        return ItemFeatures(tensors, Size(1, len(samples)), tokens, (len(features),), Modality.AUDIO)


_PHI4 = ProcessorClass(
    frozenset({"Phi4MultimodalFeatureExtractor", "Phi4MMAudioFeatureExtractor"}),
    {
        "feature_size": 80,
        "sampling_rate": 16000,
        "hop_length": 160,
        "n_fft": 512,
        "win_length": 400,
        "preemphasis": 0.97,
        "audio_compression_rate": 8,
        "audio_downsample_rate": 1,
        "audio_feat_stride": 1,
        "mel_min_frequency": 0,
        "mel_max_frequency": 7690,
    },
)


def phi4_recordings(model: Mapping[str, Any], config: Mapping[str, Any]) -> Phi4AudioProcessor:
    """From preprocessor_config.json of Phi-4 multimodal. Nothing is padded: recordings are processed one by one."""
    del model
    config = settled(config, _PHI4, kind=RECORDING_CLASS)
    window, fft = positive_number(config, "win_length"), positive_number(config, "n_fft")
    if window > fft:
        raise refused("win_length", window, f"a window longer than the transform, n_fft {fft}, is not done here")
    return Phi4AudioProcessor(
        mels=positive_number(config, "feature_size"),
        rate=positive_number(config, "sampling_rate"),
        fft=fft,
        window=window,
        hop=positive_number(config, "hop_length"),
        emphasis=float(config["preemphasis"]),
        lowest=float(config["mel_min_frequency"]),
        highest=float(config["mel_max_frequency"]),
        compression=positive_number(config, "audio_compression_rate"),
        down=positive_number(config, "audio_downsample_rate"),
        stride=positive_number(config, "audio_feat_stride"),
    )


def _chunks(data: bytes, walk: StepCount) -> dict[bytes, memoryview]:
    """The chunks by name, the first of each. Samples whose length is not told go on to the end of the file: a program that
    writes a WAV file into a pipe cannot go back to its head."""
    found: dict[bytes, memoryview] = {}
    view = memoryview(data)
    place = 12
    whole = int.from_bytes(data[4:8], "little")
    length_known = whole != _UNKNOWN_LENGTH and whole + 8 >= len(data)
    while place + 8 <= len(data):
        walk.step()
        kind, length = data[place : place + 4], int.from_bytes(data[place + 4 : place + 8], "little")
        if kind == b"data" and not length and not length_known:
            length = _UNKNOWN_LENGTH
        found.setdefault(kind, view[place + 8 : place + 8 + length])
        place += 8 + length + length % 2
    return found


def wave_recording(data: bytes, rate: int, longest: float, *, max_bytes: int = 64 * 1024 * 1024) -> Float32:
    """The mono samples in [-1, 1] of a WAV file, at `rate` Hz. One of more than `longest` seconds is refused unread."""
    own, own_rate = read_wave(data, max_bytes=max_bytes)
    _check_length(len(own), longest, own_rate)
    return resampled(own, own_rate, rate)


def wave_of_pcm16(data: bytes, rate: int = 24000) -> bytes:
    """Bare 16-bit little-endian mono samples as a WAV file. Public APIs that name this format mean 24000 Hz."""
    head = struct.pack(
        "<4sI8sIHHIIHH4sI", b"RIFF", 36 + len(data), b"WAVEfmt ", 16, 1, 1, rate, rate * 2, 2, 16, b"data", len(data)
    )
    made = BytesIO()
    made.write(head)
    for start in range(0, len(data), _COPIED_AT_ONCE):
        made.write(memoryview(data)[start : start + _COPIED_AT_ONCE])
    return made.getvalue()


def read_wave(data: bytes, *, max_bytes: int = 64 * 1024 * 1024) -> tuple[Float32, int]:
    """The mono samples in [-1, 1] of a WAV file (integers of 8 to 32 bits, or floats), and its rate in Hz."""
    wave = _wave(data, max_bytes)
    samples = _decoded(bytes(wave.body), wave.kind, wave.bits)
    whole = samples[: len(samples) // wave.channels * wave.channels].reshape(-1, wave.channels)
    return whole.mean(axis=1, dtype=np.float32), wave.rate


def wave_length(data: bytes, *, max_bytes: int = 64 * 1024 * 1024, max_steps: int = MOST_STEPS) -> tuple[float, int]:
    """How many seconds a WAV file has, and its rate in Hz; no sample is read. Raises LongWalk after `max_steps` chunks."""
    wave = _wave(data, max_bytes, max_steps)
    return len(wave.body) / max(1, wave.bits // 8 * wave.channels) / wave.rate, wave.rate


@dataclass(frozen=True, slots=True)
class _Wave:
    """A WAV file: the code of its samples' format and their bits, channels, Hz, and the samples."""

    kind: int
    bits: int
    channels: int
    rate: int
    body: memoryview


def _wave(data: bytes, max_bytes: int, max_steps: int = MOST_STEPS) -> _Wave:
    if len(data) > max_bytes:
        raise MediaTooLarge(f"the recording has more than {max_bytes} bytes")
    if len(data) < 12 or data[:4] != b"RIFF" or data[8:12] != b"WAVE":
        raise BadRecording("the recording is not a WAV file")
    chunks = _chunks(data, StepCount("recording", max_steps))
    head = chunks.get(b"fmt ", memoryview(b""))
    if len(head) < 16 or b"data" not in chunks:
        raise BadRecording("the WAV file has no format or no samples")
    kind, channels, rate, _, _, bits = struct.unpack_from("<HHIIHH", head)
    if kind == 0xFFFE and len(head) >= 26:
        (kind,) = struct.unpack_from("<H", head, 24)
    if not 1 <= channels <= 16 or not 1000 <= rate <= 384_000:
        raise BadRecording(f"the WAV file has {channels} channels at {rate} Hz")
    return _Wave(kind, bits, channels, rate, chunks[b"data"])


def _decoded(raw: bytes, kind: int, bits: int) -> Float32:
    width = bits // 8
    raw = raw[: len(raw) // max(1, width) * width]
    if (kind, bits) in {(3, 32), (3, 64)}:
        return np.frombuffer(raw, f"<f{width}").astype(np.float32)
    if (kind, bits) == (1, 8):
        return (np.frombuffer(raw, np.uint8).astype(np.float32) - np.float32(128)) / np.float32(128)
    if kind == 1 and bits in {16, 32}:
        return np.frombuffer(raw, f"<i{width}").astype(np.float32) / np.float32(2 ** (bits - 1))
    if (kind, bits) == (1, 24):
        words = np.zeros((len(raw) // 3, 4), np.uint8)
        words[:, 1:] = np.frombuffer(raw, np.uint8).reshape(-1, 3)
        return words.view("<i4")[:, 0].astype(np.float32) / np.float32(2**31)
    raise BadRecording(f"samples of format {kind} with {bits} bits are not read")


def resampled(samples: Float32, rate: int, wanted: int, *, zeros: int = 6, rolloff: float = 0.99) -> Float32:
    """`samples` at `wanted` Hz through a Hann-windowed sinc with `zeros` zero crossings on each side.

    One kernel for each place between two samples that a sample of the result can have; each has only the samples that the
    window reaches. At most `_WEIGHTS` weights of them are in memory at once, so that rates without a common divisor take no more
    memory than others.
    """
    if rate == wanted:
        return samples
    divisor = math.gcd(rate, wanted)
    filters = _Kernels(rate // divisor, wanted // divisor, zeros, rolloff)
    old, new = filters.old, filters.new
    windows = np.lib.stride_tricks.sliding_window_view(
        np.pad(samples, (filters.reach, filters.reach + 2)), filters.width
    )
    out = np.empty(math.ceil(new * len(samples) / old), np.float32)
    at_once = max(1, min(_BLOCK, _WEIGHTS // filters.width))
    phases = min(new, max(1, _WEIGHTS // filters.width))
    for first in range(0, min(new, len(out)), phases):
        kernels = filters.between(first, min(first + phases, new))
        for places in _places(first, len(kernels), new, len(out), at_once):
            out[places] = np.einsum("ij,ij->i", windows[places * old // new], kernels[places % new - first])
    return out


@dataclass(frozen=True, slots=True)
class _Kernels:
    """The resampler's filter from `old` to `new` Hz, which have no common divisor: a row of weights for each of `new` phases."""

    old: int
    new: int
    zeros: int
    rolloff: float

    @property
    def base(self) -> float:
        return min(self.old, self.new) * self.rolloff

    @property
    def reach(self) -> int:
        return math.ceil(self.zeros * self.old / self.base)

    @property
    def width(self) -> int:
        return 2 * self.reach + 2

    def between(self, first: int, end: int) -> Float64:
        """The rows of the phases from `first` to before `end`."""
        phases = np.arange(first, end, dtype=np.int64) * self.old % self.new / self.new
        offsets = np.arange(-self.reach, self.reach + 2)[None] - phases[:, None]
        scale = self.base / self.old
        times = np.clip(offsets * scale, -self.zeros, self.zeros)
        return np.asarray(np.sinc(times) * np.cos(times * np.pi / self.zeros / 2) ** 2 * scale)


def _places(first: int, phases: int, every: int, end: int, at_once: int) -> Iterator[NDArray[np.int64]]:
    """The places below `end` whose remainder by `every` is one of `phases` from `first` on, at most `at_once` at a time."""
    if phases == every:
        for start in range(0, end, at_once):
            yield np.arange(start, min(start + at_once, end), dtype=np.int64)
        return
    for start in range(first, end, every):
        for begin in range(start, min(start + phases, end), at_once):
            yield np.arange(begin, min(begin + at_once, start + phases, end), dtype=np.int64)
