"""Granite Speech: recordings as pairs of frames of a mel spectrogram, and a fixed number of tokens for each window of them.

Above: `rows_of_2026`. Below: `recordings.audio`, `modalities`. Filters are triangles in hertz between corners even on the scale
of HTK. Follows transformers' feature_extraction_granite_speech, whose spectra torchaudio makes in single precision.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from smg_multimodal.configs.key_kinds import refused
from smg_multimodal.configs.keys import RECORDING_CLASS, ProcessorClass, positive_number, settled
from smg_multimodal.families.modalities import Modal, of_recordings
from smg_multimodal.prompts.prompts import audio_rule
from smg_multimodal.recordings.audio import check_samples
from smg_multimodal.records.errors import BadRecording
from smg_multimodal.records.types import Array, Batched, Float32, Float64, ItemFeatures, Modality, Size

__all__ = ["GRANITE_SPEECH_AUDIO", "GraniteSpeechProcessor"]

_CLASS = ProcessorClass(
    frozenset({"GraniteSpeechFeatureExtractor"}),
    {
        "sampling_rate": 16000,
        "n_fft": 512,
        "win_length": 400,
        "hop_length": 160,
        "n_mels": 80,
        "projector_window_size": 15,
        "projector_downsample_rate": 5,
    },
)
_BLOCK = 2048
"""Frames whose spectra are in memory at a time."""


@cache
def _filters(bins: int, mels: int, rate: int) -> Float64:
    """(bins, mels) triangles from nothing to half the rate."""
    top = 2595.0 * math.log10(1.0 + rate / 2 / 700.0)
    corners = 700.0 * (10.0 ** (np.linspace(0.0, top, mels + 2) / 2595.0) - 1.0)
    gaps, slopes = np.diff(corners), corners[None] - np.linspace(0, rate // 2, bins)[:, None]
    return np.asarray(np.maximum(0.0, np.minimum(-slopes[:, :-2] / gaps[:-1], slopes[:, 2:] / gaps[1:])))


@dataclass(frozen=True, slots=True)
class GraniteSpeechProcessor:
    """Recordings to (1, frames / 2, 2 * mels) floats, the number of their tokens, and a mask of so many.

    Each `window` pairs of frames are `per_window` tokens.
    """

    rate: int = 16000
    fft: int = 512
    frame: int = 400
    hop: int = 160
    mels: int = 80
    window: int = 15
    per_window: int = 3
    longest: float = 600.0

    def tokens(self, count: int) -> int:
        """How many tokens `count` samples are."""
        return math.ceil((count // self.hop + 1) // 2 / self.window) * self.per_window

    def log_mel(self, samples: Float32) -> Float32:
        """(frames, mels) floats: log10 of power, at most eight below its highest, a quarter of it and one."""
        padded = np.pad(samples, self.fft // 2, mode="reflect")
        before = (self.fft - self.frame) // 2
        weights = np.zeros(self.fft)
        weights[before : before + self.frame] = np.hanning(self.frame + 1)[:-1]
        frames = np.lib.stride_tricks.sliding_window_view(padded, self.fft)[:: self.hop]
        filters = _filters(self.fft // 2 + 1, self.mels, self.rate)
        loud = np.empty((len(frames), self.mels), np.float32)
        for start in range(0, len(frames), _BLOCK):
            spectrum = np.fft.rfft(frames[start : start + _BLOCK] * weights)
            loud[start : start + _BLOCK] = np.log10(np.maximum(np.abs(spectrum) ** 2 @ filters, 1e-10))
        return np.asarray(np.maximum(loud, loud.max() - np.float32(8)) / np.float32(4) + np.float32(1), np.float32)

    def item(self, samples: Float32) -> ItemFeatures:
        """The tensors of one mono recording at `rate`."""
        check_samples(samples, self.longest, self.rate)
        if len(samples) <= self.fft // 2:
            raise BadRecording(f"the recording has fewer than {self.fft // 2 + 1} samples")
        loud, tokens = self.log_mel(samples.astype(np.float32)), self.tokens(len(samples))
        pairs = loud[: len(loud) // 2 * 2].reshape(1, -1, 2 * self.mels)
        tensors: dict[str, Array] = {
            "input_features": pairs,
            "audio_embed_sizes": np.array([tokens], np.int64),
            "input_features_mask": np.ones((1, tokens), np.bool_),
        }
        return ItemFeatures(tensors, Size(1, len(samples)), tokens, (pairs.shape[1],), Modality.AUDIO)


def _recordings(model: Mapping[str, Any], config: Mapping[str, Any]) -> GraniteSpeechProcessor:
    """From the feature extractor's configuration."""
    del model
    config = settled(config, _CLASS, kind=RECORDING_CLASS)
    window, share = (positive_number(config, f"projector_{key}") for key in ("window_size", "downsample_rate"))
    fft, frame = positive_number(config, "n_fft"), positive_number(config, "win_length")
    if frame > fft:
        raise refused("win_length", frame, f"it is above n_fft, {fft}")
    if share > window:
        raise refused("projector_downsample_rate", share, f"it is above projector_window_size, {window}")
    return GraniteSpeechProcessor(
        rate=positive_number(config, "sampling_rate"),
        fft=fft,
        frame=frame,
        hop=positive_number(config, "hop_length"),
        mels=positive_number(config, "n_mels"),
        window=window,
        per_window=window // share,
    )


GRANITE_SPEECH_AUDIO = Modal(
    of_recordings(_recordings),
    lambda model, vocabulary: audio_rule(
        vocabulary, "<|audio|>", model.get("audio_token_id") or model.get("audio_token_index")
    ),
    {"input_features": Batched(), "audio_embed_sizes": Batched(), "input_features_mask": Batched()},
    "input_features",
    frozenset({"audio_embed_sizes"}),
)
