"""Inkling: recordings as the numbers of the steps that a mel spectrogram's values are nearest to.

Above: `rows_of_2026`. Below: `recordings.audio`, `modalities`. Follows transformers' feature_extraction_inkling and the part of
processing_inkling that makes steps of values. torch's spectra are in single precision: a value half-way between two steps may
fall to the other one here.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from smg_multimodal.configs.key_kinds import refused
from smg_multimodal.configs.keys import RECORDING_CLASS, ProcessorClass, positive_number, settled
from smg_multimodal.families.modalities import Modal, of_recordings
from smg_multimodal.prompts.prompts import audio_rule
from smg_multimodal.recordings.audio import check_samples, mel_filters
from smg_multimodal.records.errors import UnsupportedModel
from smg_multimodal.records.types import Array, Batched, Float32, ItemFeatures, Modality, Size

__all__ = ["INKLING_AUDIO", "BinnedProcessor", "steps_in_a_row"]

_CLASS = ProcessorClass(
    frozenset({"InklingFeatureExtractor"}),
    {
        "feature_size": 80,
        "sampling_rate": 16000,
        "padding_value": 0.0,
        "padding_side": "right",
        "audio_token_duration_s": 0.05,
        "window_size_multiplier": 2.0,
        "num_dmel_bins": 16,
        "dmel_min_value": -7.0,
        "dmel_max_value": 2.0,
    },
    {"padding_side": ("right",)},
)
_MOST_BINS = 4096
_BLOCK = 2048
"""Frames whose spectra are in memory at a time."""


@dataclass(frozen=True, slots=True)
class BinnedProcessor:
    """Recordings to (1, tokens, mels) whole numbers of steps, and a mask of as many tokens: one for each `hop` samples.

    `steps` are the values that numbers stand for, from the lowest.
    """

    steps: Float32
    rate: int = 16000
    mels: int = 80
    hop: int = 800
    window: int = 1600
    fft: int = 1600
    longest: float = 600.0

    def log_mel(self, samples: Float32) -> Float32:
        """(frames, mels) floats: log10 of the amount of each mel, of frames that end where a token's samples do."""
        frames = -(-len(samples) // self.hop)
        padded = np.zeros(max(self.fft - self.hop, 0) + frames * self.hop, np.float32)
        begin = max(self.fft - self.hop, 0)
        padded[begin : begin + len(samples)] = samples
        weights = np.zeros(self.fft)
        before = (self.fft - self.window) // 2
        weights[before : before + self.window] = np.hanning(self.window + 1)[:-1]
        taken = np.lib.stride_tricks.sliding_window_view(padded, self.fft)[:: self.hop]
        filters = mel_filters(self.fft // 2 + 1, self.mels, 0.0, self.rate / 2, self.rate)
        loud = np.empty((len(taken), self.mels), np.float32)
        for start in range(0, len(taken), _BLOCK):
            spectrum = np.fft.rfft(taken[start : start + _BLOCK] * weights)
            amount = np.sqrt(np.maximum(np.abs(spectrum) ** 2, 1e-10))
            loud[start : start + _BLOCK] = np.log10(np.maximum(amount @ filters, 1e-10))
        return loud

    def item(self, samples: Float32) -> ItemFeatures:
        """The tensors of one mono recording at `rate`."""
        check_samples(samples, self.longest, self.rate)
        loud = np.clip(self.log_mel(samples.astype(np.float32)), self.steps[0], self.steps[-1])
        middles = (self.steps[1:].astype(np.float64) + self.steps[:-1]) / 2
        nearest = np.searchsorted(middles, loud, side="left").astype(np.int32)
        tokens = len(nearest)
        tensors: dict[str, Array] = {
            "audio_input_ids": nearest[None],
            "audio_input_ids_mask": np.ones((1, tokens), np.bool_),
        }
        return ItemFeatures(tensors, Size(1, len(samples)), tokens, (tokens,), Modality.AUDIO)


def steps_in_a_row(features: ItemFeatures) -> dict[str, Array]:
    """The tensors of a recording as vLLM's class takes them, token after token."""
    return {"audio_input_ids": features.tensors["audio_input_ids"][0]}


def _whole(config: Mapping[str, Any], key: str, samples: float) -> int:
    """A number of samples that must be whole."""
    if not math.isfinite(samples) or round(samples) < 1 or abs(samples - round(samples)) > 1e-6:
        raise refused(key, config.get(key), f"{samples:g} samples are no whole number of them")
    return round(samples)


def _number(config: Mapping[str, Any], key: str) -> float:
    value = config[key]
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise refused(key, value, "a number is needed")
    return float(value)


def _recordings(model: Mapping[str, Any], config: Mapping[str, Any]) -> BinnedProcessor:
    """From the feature extractor's configuration and the processor's."""
    del model
    config = settled(config, _CLASS, kind=RECORDING_CLASS)
    rate, spanned = positive_number(config, "sampling_rate"), _number(config, "audio_token_duration_s")
    hop = _whole(config, "audio_token_duration_s", spanned * rate)
    window = _whole(config, "window_size_multiplier", spanned * _number(config, "window_size_multiplier") * rate)
    fft = positive_number(config, "n_fft") if config.get("n_fft") else window
    lowest, highest = _number(config, "dmel_min_value"), _number(config, "dmel_max_value")
    if window > fft:
        raise refused("n_fft", fft, f"the window has {window} samples")
    if lowest >= highest:
        raise refused("dmel_min_value", lowest, f"it is not below dmel_max_value, {highest}")
    bins = positive_number(config, "num_dmel_bins", _MOST_BINS)
    if bins < 2:
        raise UnsupportedModel("num_dmel_bins 1: at least two are needed")
    steps = np.linspace(lowest, highest, bins).astype(np.float32)
    return BinnedProcessor(steps, rate, positive_number(config, "feature_size"), hop, window, fft)


INKLING_AUDIO = Modal(
    of_recordings(_recordings),
    lambda model, vocabulary: audio_rule(vocabulary, "<|unused_200053|>", model.get("audio_token_id")),
    {"audio_input_ids": Batched(), "audio_input_ids_mask": Batched()},
    "audio_input_ids",
)
