"""dots.note: recordings in pieces of a minute, as Whisper's log-mel features, each as long as its tokens are.

Above: `registry`. Below: `recordings.audio`, `modalities`. Follows transformers' feature_extraction_dots3_note and
processing_dots3_note.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from smg_multimodal.configs.keys import ProcessorClass
from smg_multimodal.families.modalities import Modal, of_recordings
from smg_multimodal.prompts.prompts import audio_rule
from smg_multimodal.recordings.audio import WHISPER_ONLY, WhisperProcessor, check_samples, whisper
from smg_multimodal.records.types import Array, Batched, Flat, Float32, ItemFeatures, Modality, Size

__all__ = ["DOTS_AUDIO", "DotsAudioProcessor"]

_CLASS = ProcessorClass(
    frozenset({"Dots3NoteFeatureExtractor"}),
    {
        "feature_size": 128,
        "sampling_rate": 16000,
        "hop_length": 160,
        "chunk_length": 60,
        "n_fft": 400,
        "dither": 0.0,
        "padding_value": 0.0,
        "padding_side": "right",
    },
    WHISPER_ONLY,
)
_FRAMES = 8
"""Frames of a token: three convolutions halve them."""


@dataclass(frozen=True, slots=True)
class DotsAudioProcessor:
    """Recordings to (pieces, mels, frames) floats, and the samples of each piece; frames are as many as the longest piece has."""

    mel: WhisperProcessor
    longest: float = 600.0

    @property
    def rate(self) -> int:
        """Samples a second."""
        return self.mel.rate

    def tokens(self, samples: int) -> int:
        """How many tokens a piece of so many samples is."""
        return -(-samples // (self.mel.hop * _FRAMES))

    def item(self, samples: Float32) -> ItemFeatures:
        """The tensors of one mono recording at `rate`."""
        check_samples(samples, self.longest, self.rate)
        length = self.rate * (self.mel.seconds or 60)
        pieces = [samples[start : start + length].astype(np.float32) for start in range(0, len(samples), length)]
        counts = [self.tokens(len(piece)) for piece in pieces]
        frames = max(counts) * _FRAMES
        features = np.stack([self._features(piece, frames, length) for piece in pieces])
        tensors: dict[str, Array] = {
            "input_features": features,
            "chunk_sample_lengths": np.array([len(piece) for piece in pieces], np.int64),
            "num_pieces": np.array([len(pieces)], np.int64),
        }
        return ItemFeatures(tensors, Size(1, len(samples)), sum(counts), (len(pieces),), Modality.AUDIO)

    def _features(self, piece: Float32, frames: int, length: int) -> Float32:
        """(mels, frames) floats, or as many frames as a piece of `length` samples has; no frame that is left out is made."""
        kept = np.zeros(min(length, frames * self.mel.hop + 2 * self.mel.fft), np.float32)
        kept[: len(piece)] = piece
        return self.mel.log_mel(kept)[:, :frames]


def _recordings(model: Mapping[str, Any], config: Mapping[str, Any]) -> DotsAudioProcessor:
    """From the feature extractor's configuration; `chunk_seconds` stands before `chunk_length`."""
    del model
    seconds = config.get("chunk_seconds")
    given = config if seconds is None else {**config, "chunk_length": seconds}
    mel = whisper(given, _CLASS.defaults, _CLASS)
    return DotsAudioProcessor(mel)


DOTS_AUDIO = Modal(
    of_recordings(_recordings),
    lambda model, vocabulary: audio_rule(vocabulary, "<|audio_comp_pad|>", model.get("audio_token_id")),
    {"input_features": Flat("num_pieces"), "chunk_sample_lengths": Flat("num_pieces"), "num_pieces": Batched()},
    "input_features",
    frozenset({"num_pieces"}),
)
