"""Whisper and Voxtral Realtime: recordings that lie beside the prompt, and are written down.

Above: `rows_of_2026`. Below: `recordings.audio` for Whisper's features, `prompts.dictation`, `modalities`. Whisper's encoder
reads half a minute; Voxtral Realtime hears a token's worth of sound with each token that it reads or writes, so that the
recording is as long as prompt and answer together. Follows transformers' feature_extraction_whisper,
feature_extraction_voxtral_realtime and processing_voxtral_realtime, and the padding of mistral-common.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from smg_multimodal.configs.key_kinds import refused
from smg_multimodal.configs.keys import RECORDING_CLASS, ProcessorClass, positive_number, settled
from smg_multimodal.families.modalities import Modal, of_recordings
from smg_multimodal.prompts.dictation import streaming_rule, whisper_rule
from smg_multimodal.prompts.prompts import PromptRule, PromptTokenizer, token
from smg_multimodal.recordings.audio import WhisperProcessor, check_samples, whisper
from smg_multimodal.records.types import Array, Batched, Float32, ItemFeatures, Modality, Size

__all__ = ["VOXTRAL_REALTIME_AUDIO", "WHISPER_AUDIO", "RealtimeProcessor", "WrittenDownProcessor"]

_REALTIME = ProcessorClass(
    frozenset({"VoxtralRealtimeFeatureExtractor"}),
    {
        "feature_size": 128,
        "sampling_rate": 16000,
        "hop_length": 160,
        "n_fft": 400,
        "win_length": 400,
        "padding_value": 0.0,
        "padding_side": "right",
        "global_log_mel_max": 1.5,
    },
)
_STREAMING: Mapping[str, int] = {"audio_length_per_tok": 8, "default_num_delay_tokens": 6}
"""Of config.json: frames of a token, and how many tokens later a word is written than it is heard."""
_SILENT = 32
"""Tokens of silence before a recording; tekken.json, which engines do not hand over, says that of all published models."""
_LONGEST_WORD = 10
"""Tokens of silence after a recording, for the word that it ends with, beside those for the delay and for the beginning."""
_MOST_DELAY = 256
_LOOSE = 1.0
"""Seconds within which a recording may be cut, so that no word is: of half a minute at most."""


@dataclass(frozen=True, slots=True)
class WrittenDownProcessor:
    """Recordings to (1, mels, frames) floats, with silence up to what the encoder reads, which becomes `positions` embeddings.

    What is longer than `longest` seconds is cut off, as transformers does; a `Preparer` refuses it, or makes a `part` of it."""

    mel: WhisperProcessor
    positions: int
    longest: float = 30.0

    @property
    def rate(self) -> int:
        """Samples a second."""
        return self.mel.rate

    @property
    def _loose(self) -> float:
        """Seconds within which a recording is cut where it is quietest."""
        return min(_LOOSE, self.longest / 4)

    def parts(self, seconds: float) -> int:
        """In how many parts a recording of so many seconds is sent."""
        return 1 if seconds <= self.longest else math.ceil(seconds / (self.longest - self._loose))

    def part(self, samples: Float32, number: int, parts: int) -> Float32:
        """The samples of one part, from 0: all are about as long, and are cut where the recording is quietest nearby."""
        start = self._cut(samples, number, parts) if number else 0
        return samples[start : self._cut(samples, number + 1, parts) if number + 1 < parts else len(samples)]

    def _cut(self, samples: Float32, number: int, parts: int) -> int:
        """Where part `number` begins: in the middle of the quietest twentieth of what may be cut."""
        middle, around = len(samples) * number // parts, int(self._loose * self.rate * 0.45)
        begin = max(0, middle - around)
        loud = np.square(samples[begin : middle + around], dtype=np.float64)
        step = max(1, len(loud) // 20)
        steps = np.add.reduceat(loud, range(0, len(loud) - step + 1, step))
        return begin + int(steps.argmin()) * step + step // 2

    def item(self, samples: Float32) -> ItemFeatures:
        """The tensors of one mono recording at `rate`."""
        made = self.mel.item(samples)
        tensors: dict[str, Array] = {"input_features": made.tensors["input_features"]}
        return ItemFeatures(tensors, made.size, self.positions, made.grid, Modality.AUDIO)


def _whisper(model: Mapping[str, Any], config: Mapping[str, Any]) -> WrittenDownProcessor:
    """From config.json, which says how many mels and frames the encoder reads, and preprocessor_config.json."""
    mel = whisper(config, {"feature_size": model.get("num_mel_bins") or 80})
    seconds = mel.seconds or 30
    frames = seconds * mel.rate // mel.hop
    stated = {"num_mel_bins": mel.mels, "max_source_positions": -(-frames // 2)}
    stated |= {key: model[key] for key in stated if model.get(key) is not None}
    bins, positions = (positive_number(stated, key) for key in stated)
    for key, wanted, found in (("feature_size", bins, mel.mels), ("chunk_length", positions, frames / 2)):
        if wanted != found and (key == "feature_size" or model.get("max_source_positions") is not None):
            raise refused(key, config.get(key), f"it makes {found:g}, and the model's encoder reads {wanted}")
    return WrittenDownProcessor(mel, positions, float(seconds))


WHISPER_AUDIO = Modal(of_recordings(_whisper), whisper_rule, {"input_features": Batched()}, "input_features")


@dataclass(frozen=True, slots=True)
class RealtimeProcessor:
    """Recordings with silence around them to (1, mels, frames) floats, and to the samples that these are of.

    vLLM takes the samples, (1, count), and makes the features itself. `per_token` frames are one token.
    """

    mel: WhisperProcessor
    per_token: int = 8
    delay: int = 6

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
        step = self.per_token * self.mel.hop
        tokens = _SILENT - (-len(samples) // step) + self.delay + 1 + _LONGEST_WORD
        heard = np.zeros(tokens * step, np.float32)
        heard[_SILENT * step : _SILENT * step + len(samples)] = samples
        tensors: dict[str, Array] = {
            "input_features": self.mel.log_mel(heard)[None],
            "num_delay_tokens": np.array([self.delay], np.int64),
            "audio_arrays": heard[None],
        }
        return ItemFeatures(tensors, Size(1, len(samples)), tokens, (tokens,), Modality.AUDIO)


def _streaming(model: Mapping[str, Any]) -> tuple[int, int]:
    """Frames of a token, and tokens of delay."""
    stated = {**_STREAMING, **{key: model[key] for key in _STREAMING if model.get(key) is not None}}
    return positive_number(stated, "audio_length_per_tok"), positive_number(
        stated, "default_num_delay_tokens", _MOST_DELAY
    )


def _realtime(model: Mapping[str, Any], config: Mapping[str, Any]) -> RealtimeProcessor:
    """From config.json and preprocessor_config.json. Its window is as long as the transform, whatever `win_length` says."""
    own = "global_log_mel_max" in config and config["global_log_mel_max"] is None
    config = settled(config, _REALTIME, kind=RECORDING_CLASS)
    mel = WhisperProcessor(
        mels=positive_number(config, "feature_size"),
        rate=positive_number(config, "sampling_rate"),
        fft=positive_number(config, "n_fft"),
        hop=positive_number(config, "hop_length"),
        seconds=None,
        highest=None if own else float(config["global_log_mel_max"]),
    )
    return RealtimeProcessor(mel, *_streaming(model))


def _realtime_prompt(model: Mapping[str, Any], vocabulary: PromptTokenizer) -> PromptRule:
    words = model.get("text_config") or {}
    begin = token(vocabulary, "<s>", words.get("bos_token_id", model.get("bos_token_id")))
    return streaming_rule(begin, token(vocabulary, "[STREAMING_PAD]"), _SILENT + _streaming(model)[1])


VOXTRAL_REALTIME_AUDIO = Modal(
    of_recordings(_realtime),
    _realtime_prompt,
    {"audio_arrays": Batched(), "input_features": Batched(), "num_delay_tokens": Batched()},
    "audio_arrays",
)
