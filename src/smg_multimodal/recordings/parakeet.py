"""Parakeet's features of recordings: log-mels, each mel with a mean of nothing and a deviation of one over the recording.

Above: `families.nemotron`. Below: `audio` for the filters. Follows transformers' feature_extraction_parakeet, whose spectra torch
makes in single precision.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from smg_multimodal.configs.key_kinds import refused
from smg_multimodal.configs.keys import RECORDING_CLASS, ProcessorClass, positive_number, settled
from smg_multimodal.recordings.audio import check_samples, mel_filters
from smg_multimodal.records.errors import BadRecording
from smg_multimodal.records.types import Array, Float32, ItemFeatures, Modality, Size

__all__ = ["ParakeetProcessor", "parakeet_recordings"]

_CLASS = ProcessorClass(
    frozenset({"ParakeetFeatureExtractor"}),
    {
        "feature_size": 80,
        "sampling_rate": 16000,
        "hop_length": 160,
        "n_fft": 512,
        "win_length": 400,
        "audio_subsampling_factor": 8,
        "audio_hop_length": 160,
    },
)
_PREEMPHASIS = 0.97
_QUIETEST = 2.0**-24
_NARROWEST = 1e-5
_BLOCK = 2048
"""Frames whose spectra are in memory at a time."""


@dataclass(frozen=True, slots=True)
class ParakeetProcessor:
    """Recordings to (1, frames, mels) floats and a (1, frames) mask of real frames: all but the last.

    `halvings` is how often the encoder halves the frames, `counted` the samples of a frame by which tokens are counted.
    """

    mels: int = 80
    rate: int = 16000
    fft: int = 512
    frame: int = 400
    hop: int = 160
    emphasis: float | None = _PREEMPHASIS
    halvings: int = 3
    counted: int = 160
    longest: float = 600.0

    def tokens(self, count: int) -> int:
        """How many tokens `count` samples are."""
        frames = 1 + count // self.counted
        for _ in range(self.halvings):
            frames = (frames - 1) // 2 + 1
        return max(1, frames)

    def log_mel(self, samples: Float32) -> Float32:
        """(frames, mels) floats: the natural logarithm of power."""
        if self.emphasis is not None:
            samples = np.concatenate([samples[:1], samples[1:] - np.float32(self.emphasis) * samples[:-1]])
        padded = np.pad(samples, self.fft // 2)
        before = (self.fft - self.frame) // 2
        weights = np.zeros(self.fft)
        weights[before : before + self.frame] = np.hanning(self.frame) if self.frame > 1 else 1.0
        filters = mel_filters(self.fft // 2 + 1, self.mels, 0.0, self.rate / 2, self.rate)
        frames = np.lib.stride_tricks.sliding_window_view(padded, self.fft)[:: self.hop]
        loud = np.empty((len(frames), self.mels), np.float32)
        for start in range(0, len(frames), _BLOCK):
            power = np.abs(np.fft.rfft(frames[start : start + _BLOCK] * weights)) ** 2
            loud[start : start + _BLOCK] = np.log(power @ filters + _QUIETEST)
        return loud

    def item(self, samples: Float32) -> ItemFeatures:
        """The tensors of one mono recording at `rate`."""
        check_samples(samples, self.longest, self.rate)
        real = (len(samples) + self.fft // 2 * 2 - self.fft) // self.hop
        if real < 2:
            raise BadRecording(f"the recording has fewer than {2 * self.hop} samples")
        loud = self.log_mel(samples.astype(np.float32))
        mask = np.arange(len(loud)) < real
        spread = loud[:real].std(axis=0, ddof=1, dtype=np.float64) + _NARROWEST
        even = (loud - loud[:real].mean(axis=0, dtype=np.float64)) / spread * mask[:, None]
        tensors: dict[str, Array] = {
            "input_features": even.astype(np.float32)[None],
            "input_features_mask": mask[None],
        }
        return ItemFeatures(tensors, Size(1, len(samples)), self.tokens(len(samples)), (real,), Modality.AUDIO)


def parakeet_recordings(model: Mapping[str, Any], config: Mapping[str, Any]) -> ParakeetProcessor:
    """From the feature extractor's configuration, and what processor_config.json says of tokens."""
    del model
    emphasis = config.get("preemphasis", _PREEMPHASIS)
    config = settled(config, _CLASS, kind=RECORDING_CLASS)
    fft, frame = positive_number(config, "n_fft"), positive_number(config, "win_length")
    if frame > fft:
        raise refused("win_length", frame, f"it is above n_fft, {fft}")
    if emphasis is not None and (isinstance(emphasis, bool) or not isinstance(emphasis, int | float)):
        raise refused("preemphasis", emphasis, "a number is needed")
    return ParakeetProcessor(
        mels=positive_number(config, "feature_size"),
        rate=positive_number(config, "sampling_rate"),
        fft=fft,
        frame=frame,
        hop=positive_number(config, "hop_length"),
        emphasis=emphasis,
        halvings=int(math.log2(positive_number(config, "audio_subsampling_factor"))),
        counted=positive_number(config, "audio_hop_length"),
    )
