"""Clips and recordings beside pictures: per family, how what was decoded becomes features and what stands for them in the prompt.

Above: `registry` puts these into rows, `preparing.prepare` decodes for them. Below: `clips.video`, `recordings.audio`,
`prompts.prompts`. A row's processor is a `ClipProcessor` or a `RecordingProcessor`; it gets frames or samples, never a file.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, runtime_checkable

from PIL import Image

from smg_multimodal.clips import video
from smg_multimodal.configs.files import ModelFiles
from smg_multimodal.prompts.prompts import (
    PromptRule,
    PromptTokenizer,
    audio_rule,
    begun_audio_rule,
    marked_rule,
    repeat_rule,
    timed_video_rule,
    token,
    ultravox_rule,
)
from smg_multimodal.recordings import audio, speech
from smg_multimodal.records.types import Batched, Flat, Float32, ItemFeatures, Layout, Modality, Size

__all__ = [
    "AUDIO_FLAMINGO_AUDIO",
    "GLM_ASR_AUDIO",
    "MUSIC_FLAMINGO_AUDIO",
    "PHI4_AUDIO",
    "QWEN2_AUDIO",
    "QWEN3_ASR_AUDIO",
    "QWEN_VIDEO",
    "ULTRAVOX_AUDIO",
    "VOXTRAL_AUDIO",
    "ClipProcessor",
    "Modal",
    "NumberedClips",
    "RecordingProcessor",
    "WovenClips",
    "of_recordings",
]


@runtime_checkable
class ClipProcessor(Protocol):
    """What a family does with a clip. Pure: the same frames always give the same tensors."""

    def sample(self, total: int, rate: float) -> list[int]:
        """The numbers of the frames that are taken of `total` at `rate` per second, ascending."""
        ...

    def measure(self, size: Size, frames: int) -> tuple[int, tuple[int, ...]]:
        """Tokens, and the grid, of that many taken frames of `size`. Raises BadMedia if they cannot be taken."""
        ...

    def nbytes(self, size: Size, frames: int) -> int:
        """Bytes of the tensors of that many taken frames of `size`."""
        ...

    def item(self, frames: Iterable[Image.Image], seconds: Sequence[float], rate: float | None = None) -> ItemFeatures:
        """The tensors of taken RGB frames, which come one after the other, shown at `seconds`. `rate` is how many a second were
        taken; without it, as many as the processor wants."""
        ...


@runtime_checkable
class NumberedClips(Protocol):
    """What a `ClipProcessor` does besides whose prompt says a frame's time by its number."""

    def numbered(self, frames: Iterable[Image.Image], places: Sequence[int], rate: float) -> ItemFeatures:
        """The tensors of the taken RGB frames, at `places` of a clip of `rate` frames a second."""
        ...


class RecordingProcessor(Protocol):
    """What a family does with a recording: mono samples in [-1, 1] at `rate` Hz, at most `longest` seconds of them."""

    @property
    def rate(self) -> int:
        """Hz."""
        ...

    @property
    def longest(self) -> float:
        """Seconds."""
        ...

    def item(self, samples: Float32) -> ItemFeatures:
        """The tensors of one recording."""
        ...


@runtime_checkable
class WovenClips(Protocol):
    """What a `ClipProcessor` does besides that listens to the sound of clips, and weaves it into them."""

    @property
    def recordings(self) -> RecordingProcessor:
        """What makes features of the sound."""
        ...

    def woven(self, clip: ItemFeatures, samples: Float32) -> ItemFeatures:
        """A clip with the tensors and tokens of its sound."""
        ...


@runtime_checkable
class PartedRecordings(RecordingProcessor, Protocol):
    """One of a model whose encoder reads `longest` seconds, to which a longer recording is sent part by part."""

    def parts(self, seconds: float) -> int:
        """In how many parts a recording of so many seconds is sent."""
        ...

    def part(self, samples: Float32, number: int, parts: int) -> Float32:
        """The samples of one of so many parts, from 0."""
        ...


@dataclass(frozen=True, slots=True)
class Modal:
    """One modality of a family besides pictures.

    `process` makes the processor of a model's files: a `ClipProcessor` for clips, a `RecordingProcessor` for recordings.
    `prompt` makes the rule of config.json and the vocabulary. The rest is as in a family's row.
    """

    process: Callable[[ModelFiles], ClipProcessor | RecordingProcessor]
    prompt: Callable[[Mapping[str, Any], PromptTokenizer], PromptRule]
    layouts: Mapping[str, Layout]
    primary: str
    on_host: frozenset[str] = frozenset()


def of_recordings(
    make: Callable[[Mapping[str, Any], Mapping[str, Any]], RecordingProcessor],
) -> Callable[[ModelFiles], RecordingProcessor]:
    """What makes a processor of a model's files, where `make` needs config.json and the feature extractor's configuration."""
    return lambda files: make(files.model, files.recordings)


def _timed(model: Mapping[str, Any]) -> bool:
    return str(model.get("model_type")).startswith(("qwen3", "qwen4", "lfm3", "intern", "cosmos3"))


def _qwen_clips(files: ModelFiles) -> ClipProcessor:
    return (video.qwen3_video if _timed(files.model) else video.qwen2_video)(files.clips)


def _qwen_clip_prompt(model: Mapping[str, Any], vocabulary: PromptTokenizer) -> PromptRule:
    if _timed(model):
        return timed_video_rule(vocabulary, model)
    feature = token(vocabulary, "<|video_pad|>", model.get("video_token_id"))
    return repeat_rule("<|video_pad|>", feature, Modality.VIDEO)


def _qwen2_recordings(model: Mapping[str, Any], config: Mapping[str, Any]) -> RecordingProcessor:
    del model
    return audio.whisper(config, {"feature_size": 128})


QWEN_VIDEO = Modal(
    _qwen_clips,
    _qwen_clip_prompt,
    {"pixel_values_videos": Flat("patches_per_video"), "video_grid_thw": Batched()},
    "pixel_values_videos",
    frozenset({"video_grid_thw"}),
)
QWEN2_AUDIO = Modal(
    of_recordings(_qwen2_recordings),
    lambda model, vocabulary: audio_rule(vocabulary, "<|AUDIO|>", model.get("audio_token_index")),
    {"input_features": Batched(), "feature_attention_mask": Batched()},
    "input_features",
)
PHI4_AUDIO = Modal(
    of_recordings(audio.phi4_recordings),
    lambda _model, vocabulary: audio_rule(vocabulary, "<|endoftext11|>"),
    {"audio_input_features": Batched(), "audio_embed_sizes": Batched()},
    "audio_input_features",
)
VOXTRAL_AUDIO = Modal(
    of_recordings(speech.voxtral_recordings),
    begun_audio_rule,
    {"audio_arrays": Batched(), "input_features": Flat("num_pieces")},
    "audio_arrays",
)
ULTRAVOX_AUDIO = Modal(
    of_recordings(speech.ultravox_recordings),
    ultravox_rule,
    {
        "audio_features": Flat("audio_num_chunks"),
        "audio_lens": Flat("audio_num_chunks"),
        "audio_token_len": Flat("audio_num_chunks"),
        "audio_num_chunks": Batched(),
    },
    "audio_features",
    frozenset({"audio_lens", "audio_num_chunks"}),
)
GLM_ASR_AUDIO = Modal(
    of_recordings(speech.glm_asr_recordings),
    lambda model, vocabulary: audio_rule(vocabulary, "<|pad|>", model.get("audio_token_id")),
    {
        "input_features": Flat("num_pieces"),
        "input_features_mask": Flat("num_pieces"),
        "num_pieces": Batched(),
    },
    "input_features",
    frozenset({"num_pieces"}),
)
AUDIO_FLAMINGO_AUDIO = replace(
    GLM_ASR_AUDIO,
    process=of_recordings(speech.flamingo_recordings),
    prompt=lambda model, vocabulary: audio_rule(vocabulary, "<sound>", model.get("audio_token_id")),
)


def _music_prompt(model: Mapping[str, Any], vocabulary: PromptTokenizer) -> PromptRule:
    start = token(vocabulary, "<|sound_bos|>", model.get("audio_bos_token_id"))
    end = token(vocabulary, "<|sound_eos|>", model.get("audio_eos_token_id"))
    feature = token(vocabulary, "<sound>", model.get("audio_token_id"))
    return marked_rule(start, feature, end, "<sound>", Modality.AUDIO)


MUSIC_FLAMINGO_AUDIO = replace(AUDIO_FLAMINGO_AUDIO, prompt=_music_prompt)
QWEN3_ASR_AUDIO = Modal(
    of_recordings(speech.qwen3_asr_recordings),
    lambda model, vocabulary: audio_rule(
        vocabulary, "<|audio_pad|>", {**(model.get("thinker_config") or {}), **model}.get("audio_token_id")
    ),
    {"input_features": Batched(), "input_features_mask": Batched(), "audio_feature_lengths": Batched()},
    "input_features",
    frozenset({"input_features_mask", "audio_feature_lengths"}),
)
