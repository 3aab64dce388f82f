"""Recordings of any length for speech models: Voxtral, Ultravox and Qwen3-ASR, each on Whisper's log-mel features.

Above: `families.modalities`. Below: `audio`. Decides how a recording is padded, how its frames are cut into what an encoder
takes at once, and how many tokens it is. Follows transformers' processing_voxtral and feature_extraction_qwen3_asr, and for
Ultravox the processing that is published with the models, which vLLM runs.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from smg_multimodal.configs.keys import ProcessorClass
from smg_multimodal.recordings.audio import WHISPER_ONLY, WhisperProcessor, check_samples, whisper
from smg_multimodal.records.errors import BadRecording
from smg_multimodal.records.types import Array, Float32, ItemFeatures, Modality, Size

__all__ = [
    "GlmAsrProcessor",
    "Qwen3AsrProcessor",
    "UltravoxProcessor",
    "VoxtralProcessor",
    "flamingo_recordings",
    "glm_asr_recordings",
    "qwen3_asr_recordings",
    "ultravox_recordings",
    "voxtral_recordings",
]


def _silence_after(samples: Float32, count: int) -> Float32:
    """`samples` with silence up to `count` of them."""
    if len(samples) >= count:
        return samples
    out = np.zeros(count, np.float32)
    out[: len(samples)] = samples
    return out


def _in_pieces(features: Float32, length: int) -> Float32:
    """(mels, frames) as (pieces, mels, `length`), zeros after the last frame."""
    mels, frames = features.shape
    pieces = -(-frames // length)
    out = np.zeros((pieces, mels, length), np.float32)
    for index in range(pieces):
        part = features[:, index * length : (index + 1) * length]
        out[index, :, : part.shape[1]] = part
    return out


@dataclass(frozen=True, slots=True)
class VoxtralProcessor:
    """Recordings to (pieces, mels, `frames`) floats, with silence up to a whole piece, and to the samples that those are of.

    vLLM and SGLang take the samples, (1, count), and make the features themselves. `per_piece` tokens stand for each piece.
    """

    mel: WhisperProcessor = field(default_factory=WhisperProcessor)
    frames: int = 3000
    per_piece: int = 375

    @property
    def rate(self) -> int:
        """Samples a second."""
        return self.mel.rate

    @property
    def longest(self) -> float:
        """Seconds that are taken at most."""
        return self.mel.longest

    def item(self, samples: Float32) -> ItemFeatures:
        """The tensors of one mono recording at `rate`."""
        check_samples(samples, self.longest, self.rate)
        piece = self.frames * self.mel.hop
        count = -(-len(samples) // piece)
        kept = _silence_after(samples.astype(np.float32), count * piece)
        tensors: dict[str, Array] = {
            "input_features": _in_pieces(self.mel.log_mel(kept), self.frames),
            "audio_arrays": kept[None],
        }
        return ItemFeatures(tensors, Size(1, len(samples)), count * self.per_piece, (count,), Modality.AUDIO)


@dataclass(frozen=True, slots=True)
class UltravoxProcessor:
    """Recordings to (pieces, mels, frames) floats: one piece as long as it is, or several of `frames` frames.

    `audio_lens` has the frames of each piece that are of the recording, `audio_token_len` its tokens: one for every `stack`
    frames that come out of an encoder which halves them.
    """

    mel: WhisperProcessor = field(default_factory=WhisperProcessor)
    frames: int = 3000
    stack: int = 8

    @property
    def rate(self) -> int:
        """Samples a second."""
        return self.mel.rate

    @property
    def longest(self) -> float:
        """Seconds that are taken at most."""
        return self.mel.longest

    def item(self, samples: Float32) -> ItemFeatures:
        """The tensors of one mono recording at `rate`."""
        check_samples(samples, self.longest, self.rate)
        hops = max(2, -(-len(samples) // self.mel.hop))
        features = self.mel.log_mel(_silence_after(samples.astype(np.float32), hops * self.mel.hop))
        pieces = _in_pieces(features, min(self.frames, hops))
        lengths = np.array([min(self.frames, hops - start) for start in range(0, hops, self.frames)], np.int64)
        tokens = -(-lengths // (2 * self.stack))
        tensors: dict[str, Array] = {
            "audio_features": pieces,
            "audio_lens": lengths,
            "audio_token_len": tokens,
            "audio_num_chunks": np.array([len(pieces)], np.int64),
        }
        return ItemFeatures(tensors, Size(1, len(samples)), int(tokens.sum()), (hops,), Modality.AUDIO)


@dataclass(frozen=True, slots=True)
class Qwen3AsrProcessor:
    """Recordings to (1, mels, frames) floats and a (1, frames) mask of real frames, zeros up to a whole piece of the encoder.

    A recording of less than `least` samples is continued with silence, which counts as real. Each `piece` frames, and what is
    left after them, is halved three times.
    """

    mel: WhisperProcessor = field(default_factory=WhisperProcessor)
    least: int = 8000
    piece: int = 100

    @property
    def rate(self) -> int:
        """Samples a second."""
        return self.mel.rate

    @property
    def longest(self) -> float:
        """Seconds that are taken at most."""
        return self.mel.longest

    def tokens(self, frames: int) -> int:
        """How many tokens `frames` frames are."""
        whole, rest = divmod(frames, self.piece)
        for _ in range(3):
            rest = -(-rest // 2)
        return whole * 13 + rest

    def item(self, samples: Float32) -> ItemFeatures:
        """The tensors of one mono recording at `rate`."""
        check_samples(samples, self.longest, self.rate)
        shortest = max(self.least, self.mel.fft)
        features = self.mel.log_mel(_silence_after(samples.astype(np.float32), shortest))
        frames = features.shape[1]
        padded = np.zeros((1, len(features), -(-frames // self.piece) * self.piece), np.float32)
        padded[0, :, :frames] = features
        mask = (np.arange(padded.shape[2]) < frames).astype(np.int32)
        tensors: dict[str, Array] = {
            "input_features": padded,
            "input_features_mask": mask[None],
            "audio_feature_lengths": np.array([frames], np.int64),
        }
        return ItemFeatures(tensors, Size(1, len(samples)), self.tokens(frames), (frames,), Modality.AUDIO)


@dataclass(frozen=True, slots=True)
class GlmAsrProcessor:
    """Recordings to (pieces, mels, frames) floats and a mask of real frames: pieces as long as Whisper's recordings are.

    The encoder halves the frames; `pooled` of those that it leaves are one token. Audio Flamingo and Music Flamingo too.
    """

    mel: WhisperProcessor
    longest: float = 630.0
    pooled: int = 4

    @property
    def rate(self) -> int:
        """Samples a second."""
        return self.mel.rate

    def item(self, samples: Float32) -> ItemFeatures:
        """The tensors of one mono recording at `rate`."""
        check_samples(samples, self.longest, self.rate)
        length = self.rate * (self.mel.seconds or 30)
        made = [self.mel.item(samples[start : start + length]).tensors for start in range(0, len(samples), length)]
        mask = np.concatenate([each["feature_attention_mask"] for each in made])
        halved = (int(mask.sum()) - 1) // 2 + 1
        tensors: dict[str, Array] = {
            "input_features": np.concatenate([each["input_features"] for each in made]),
            "input_features_mask": mask,
            "num_pieces": np.array([len(made)], np.int64),
        }
        tokens = (halved - self.pooled) // self.pooled + 1
        if tokens < 1:
            raise BadRecording("the recording is too short to have a token")
        return ItemFeatures(tensors, Size(1, len(samples)), tokens, (len(made),), Modality.AUDIO)


def glm_asr_recordings(model: Mapping[str, Any], config: Mapping[str, Any]) -> GlmAsrProcessor:
    """From preprocessor_config.json and processor_config.json, whose `max_audio_len` is in seconds; of it whole pieces are
    taken."""
    del model
    return _in_whole_pieces(config, 655, pooled=4)


def flamingo_recordings(model: Mapping[str, Any], config: Mapping[str, Any]) -> GlmAsrProcessor:
    """Of Audio Flamingo 3 and Music Flamingo: as GLM-ASR's, with twice as many tokens."""
    usual = 1200 if model.get("model_type") == "musicflamingo" else 600
    return _in_whole_pieces(config, usual, pooled=2)


def _in_whole_pieces(config: Mapping[str, Any], usual: float, pooled: int) -> GlmAsrProcessor:
    mel = whisper(config, {"feature_size": 128})
    piece = mel.seconds or 30
    longest = float(config.get("max_audio_len") or usual) // piece * piece
    return GlmAsrProcessor(replace(mel, longest=longest), longest, pooled)


def _whole(config: Mapping[str, Any], mels: int, *also: ProcessorClass) -> WhisperProcessor:
    """Whisper's features of recordings that keep their length."""
    return replace(whisper(config, {"feature_size": mels}, *also), seconds=None)


def voxtral_recordings(model: Mapping[str, Any], config: Mapping[str, Any]) -> VoxtralProcessor:
    """From config.json and preprocessor_config.json. The encoder halves the frames, the adapter joins a few more."""
    encoder = model.get("audio_config") or {}
    positions = int(encoder.get("max_source_positions") or 1500)
    joined = int(encoder.get("intermediate_size") or 5120) // int(encoder.get("hidden_size") or 1280)
    return VoxtralProcessor(_whole(config, 128), 2 * positions, math.ceil(positions / joined))


_MANY_MELS = ("large-v3",)
"""What stands in the names of Whisper's encoders of 128 mels; the others have 80."""


def ultravox_recordings(model: Mapping[str, Any], config: Mapping[str, Any]) -> UltravoxProcessor:
    """From config.json, which names the encoder, and preprocessor_config.json where there is one."""
    name = str(model.get("audio_model_id") or "")
    by_name = 128 if any(part in name for part in _MANY_MELS) else 80
    mels = int((model.get("audio_config") or {}).get("num_mel_bins") or by_name)
    return UltravoxProcessor(
        _whole(config, mels), int(config.get("audio_context_size") or 3000), int(model.get("stack_factor") or 8)
    )


_QWEN3_ASR = ProcessorClass(
    frozenset({"Qwen3ASRFeatureExtractor"}),
    {
        "feature_size": 128,
        "sampling_rate": 16000,
        "hop_length": 160,
        "chunk_length": 30,
        "n_fft": 400,
        "dither": 0.0,
        "padding_value": 0.0,
        "padding_side": "right",
        "n_window": 50,
    },
    {**WHISPER_ONLY, "n_window": (50,)},
)


def qwen3_asr_recordings(model: Mapping[str, Any], config: Mapping[str, Any]) -> Qwen3AsrProcessor:
    """From preprocessor_config.json."""
    del model
    least = config.get("min_length")
    return Qwen3AsrProcessor(_whole(config, 128, _QWEN3_ASR), least=8000 if least is None else int(least))
