"""Gemma 4 without an encoder and Muse Spark: recordings as the samples that they are, so many to a token.

Above: `rows_of_2026`. Below: `recordings.audio` for what may be a recording, `modalities`. Follows transformers'
feature_extraction_gemma4_unified and feature_extraction_muse_spark.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from smg_multimodal.configs.keys import RECORDING_CLASS, ProcessorClass, positive_number, settled
from smg_multimodal.families.modalities import Modal, of_recordings
from smg_multimodal.prompts.prompts import GEMMA_4, PromptRule, PromptTokenizer, enclosed_rule, marked_rule, token
from smg_multimodal.recordings.audio import check_samples
from smg_multimodal.records.types import Array, Batched, Float32, ItemFeatures, Modality, Size

__all__ = ["GEMMA4_UNIFIED_AUDIO", "MUSE_SPARK_AUDIO", "SampleProcessor"]

_GEMMA = ProcessorClass(
    frozenset({"Gemma4UnifiedAudioFeatureExtractor"}),
    {"sampling_rate": 16000, "audio_samples_per_token": 640},
)
_MUSE = ProcessorClass(
    frozenset({"MuseSparkFeatureExtractor"}),
    {"sampling_rate": 24000, "samples_per_token": 1920, "padding_value": 0.0, "padding_side": "right"},
    {"padding_side": ("right",)},
)


@dataclass(frozen=True, slots=True)
class SampleProcessor:
    """Recordings to samples, with `silence` up to a whole token of `per_token` samples.

    With `rows` they lie as (1, tokens, per_token) floats under a mask of tokens, else as (1, samples) under a mask of samples.
    """

    rate: int
    per_token: int
    rows: bool
    silence: float = 0.0
    longest: float = 600.0

    def item(self, samples: Float32) -> ItemFeatures:
        """The tensors of one mono recording at `rate`."""
        check_samples(samples, self.longest, self.rate)
        tokens = -(-len(samples) // self.per_token)
        whole = np.full(tokens * self.per_token, self.silence, np.float32)
        whole[: len(samples)] = samples
        tensors: dict[str, Array]
        if self.rows:
            rows = whole.reshape(1, tokens, self.per_token)
            tensors = {"input_features": rows, "input_features_mask": np.ones((1, tokens), np.bool_)}
        else:
            mask = (np.arange(len(whole)) < len(samples)).astype(np.int32)
            tensors = {"input_values": whole[None], "input_values_mask": mask[None]}
        return ItemFeatures(tensors, Size(1, len(samples)), tokens, (tokens,), Modality.AUDIO)


def _gemma_recordings(model: Mapping[str, Any], config: Mapping[str, Any]) -> SampleProcessor:
    """From the feature extractor's configuration."""
    del model
    config = settled(config, _GEMMA, kind=RECORDING_CLASS)
    per_token = positive_number(config, "audio_samples_per_token")
    return SampleProcessor(positive_number(config, "sampling_rate"), per_token, rows=True)


def _muse_recordings(model: Mapping[str, Any], config: Mapping[str, Any]) -> SampleProcessor:
    """From the feature extractor's configuration."""
    del model
    config = settled(config, _MUSE, kind=RECORDING_CLASS)
    return SampleProcessor(
        positive_number(config, "sampling_rate"),
        positive_number(config, "samples_per_token"),
        rows=False,
        silence=float(config["padding_value"]),
    )


def _muse_prompt(model: Mapping[str, Any], vocabulary: PromptTokenizer) -> PromptRule:
    start, end = token(vocabulary, "<|soft_audio_start|>"), token(vocabulary, "<|soft_audio_end|>")
    feature = token(vocabulary, "<|audio|>", model.get("audio_token_id"))
    return marked_rule(start, feature, end, "<|audio|>", Modality.AUDIO)


GEMMA4_UNIFIED_AUDIO = Modal(
    of_recordings(_gemma_recordings),
    lambda model, vocabulary: enclosed_rule(vocabulary, model, Modality.AUDIO, GEMMA_4),
    {"input_features": Batched(), "input_features_mask": Batched()},
    "input_features",
)
MUSE_SPARK_AUDIO = Modal(
    of_recordings(_muse_recordings),
    _muse_prompt,
    {"input_values": Batched(), "input_values_mask": Batched()},
    "input_values",
)
