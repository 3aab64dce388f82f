"""MOSS-Transcribe-Diarize: recordings in pieces of half a minute, and a prompt that says every other second where it is.

Above: `rows_of_2026`. Below: `recordings.audio` for Whisper's features, `modalities`. Follows transformers'
feature_extraction_moss_transcribe_diarize and processing_moss_transcribe_diarize.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from smg_multimodal.configs.files import ModelFiles
from smg_multimodal.configs.key_kinds import check_kinds, refused
from smg_multimodal.configs.keys import ProcessorClass, positive_number
from smg_multimodal.families.modalities import Modal
from smg_multimodal.prompts.prompts import PromptRule, PromptTokenizer, ReplacementWriter, token
from smg_multimodal.recordings.audio import WHISPER_ONLY, WhisperProcessor, check_samples, whisper
from smg_multimodal.records.types import Array, Batched, Flat, Float32, ItemFeatures, Modality, Replacement, Size

__all__ = ["MOSS_AUDIO", "MossProcessor"]

_MOSS = ProcessorClass(
    frozenset({"MossTranscribeDiarizeFeatureExtractor"}),
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
_LONGEST = 90 * 60.0
"""Seconds: as many as vLLM's class takes."""


@dataclass(frozen=True, slots=True)
class MossProcessor:
    """Recordings to (pieces, mels, frames) floats and a mask of real frames: pieces as long as Whisper's recordings are.

    The encoder halves the frames of a piece; `merged` of those that it leaves are one token. After every `per_mark` tokens the
    prompt has the second, which is `every` seconds later than the last; with no `per_mark` there are none.
    """

    mel: WhisperProcessor
    merged: int = 4
    every: int = 2
    per_mark: int = 25
    per_second: float = 12.5
    longest: float = _LONGEST

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
        halved = (mask.sum(axis=1, dtype=np.int64) + 1) // 2
        lengths = -(-halved // self.merged)
        tensors: dict[str, Array] = {
            "input_features": np.concatenate([each["input_features"] for each in made]),
            "input_features_mask": mask,
            "audio_feature_lengths": lengths,
            "num_pieces": np.array([len(made)], np.int64),
        }
        tokens = int(lengths.sum())
        facts = {"runs": self.runs(tokens)}
        return ItemFeatures(tensors, Size(1, len(samples)), tokens, (len(made),), Modality.AUDIO, facts)

    def runs(self, tokens: int) -> tuple[tuple[int, int | None], ...]:
        """How many tokens stand before each second that the prompt says, and that second; None after the last."""
        made: list[tuple[int, int | None]] = []
        taken = 0
        if self.per_mark:
            for second in range(self.every, int(tokens / self.per_second) + 1, self.every):
                upto = second // self.every * self.per_mark
                made.append((max(0, upto - taken), second))
                taken = max(taken, upto)
        return (*made, (max(0, tokens - taken), None))


def _moss_recordings(files: ModelFiles) -> MossProcessor:
    """From preprocessor_config.json, and from processor_config.json what the prompt has."""
    stated: dict[str, Any] = {"audio_tokens_per_second": 12.5, "time_marker_every_seconds": 2, "audio_merge_size": 4}
    stated |= {key: files.processor[key] for key in stated if files.processor.get(key) is not None}
    check_kinds(stated)
    every, second = stated["time_marker_every_seconds"], float(stated["audio_tokens_per_second"])
    if not isinstance(every, int) or isinstance(every, bool) or not 0 <= every <= _LONGEST:
        raise refused("time_marker_every_seconds", every, "a number of whole seconds is needed")
    mel = replace(whisper(files.recordings, {"feature_size": 80}, _MOSS), longest=_LONGEST)
    return MossProcessor(mel, positive_number(stated, "audio_merge_size"), every, int(second * every), second)


def _moss_prompt(model: Mapping[str, Any], vocabulary: PromptTokenizer) -> PromptRule:
    """The template writes the token of a recording between its marks; the seconds are plain text."""
    feature = token(vocabulary, "<|audio_pad|>", model.get("audio_token_id"))

    def expand(item: ItemFeatures, index: int) -> Replacement:
        del index
        writer = ReplacementWriter()
        for count, second in item.facts["runs"]:
            writer.run(feature, count).put(*(() if second is None else vocabulary.encode(str(second))))
        return writer.done()

    return PromptRule(Modality.AUDIO, "<|audio_pad|>", feature, feature, expand)


MOSS_AUDIO = Modal(
    _moss_recordings,
    _moss_prompt,
    {
        "input_features": Flat("num_pieces"),
        "input_features_mask": Flat("num_pieces"),
        "audio_feature_lengths": Flat("num_pieces"),
        "num_pieces": Batched(),
    },
    "input_features",
    frozenset({"num_pieces"}),
)
