"""Clips and recordings of Qwen2.5-Omni and Qwen3-Omni.

Above: `registry` puts these into rows. Below: `modalities`, `clips.video`, `recordings.audio`. Clips are processed as
Qwen2-VL's, within bounds that are the models' own whatever their files say; recordings as Whisper's, without the frames of
padding that engines drop. The sound of a clip is not listened to.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from smg_multimodal.clips import video
from smg_multimodal.configs.files import ModelFiles
from smg_multimodal.configs.keys import NAMED_KEYS
from smg_multimodal.families.modalities import QWEN_VIDEO, ClipProcessor, Modal, RecordingProcessor
from smg_multimodal.prompts.prompts import PromptRule, PromptTokenizer, repeat_rule, token
from smg_multimodal.recordings import audio
from smg_multimodal.records.types import Batched, Modality

__all__ = ["omni_audio", "omni_video"]


def _token_of(model: Mapping[str, Any], kind: str) -> Any:
    """The id that config.json states for `kind`; an omni model's own part of it comes first."""
    places = (model.get("thinker_config") or {}, model)
    names = (f"{kind}_token_id", f"{kind}_token_index")
    return next((place[name] for place in places for name in names if name in place), None)


def _repeated(text: str, kind: str, modality: Modality) -> Callable[[Mapping[str, Any], PromptTokenizer], PromptRule]:
    return lambda model, vocabulary: repeat_rule(text, token(vocabulary, text, _token_of(model, kind)), modality)


def omni_video(text: str, cell: int) -> Modal:
    """Clips whose frames have 128 to 768 cells of `cell` pixels a side, unless the engine was told otherwise; `text` stands for
    one in the prompt."""

    def make(files: ModelFiles) -> ClipProcessor:
        names = set(files.clips.get(NAMED_KEYS) or ())
        bounds = {"min_pixels": 128 * cell * cell, "max_pixels": 768 * cell * cell}
        own = {} if "size" in names else {key: value for key, value in bounds.items() if key not in names}
        return video.qwen2_video({**files.clips, **own})

    return Modal(
        make,
        _repeated(text, "video", Modality.VIDEO),
        {**QWEN_VIDEO.layouts, "second_per_grid_ts": Batched()},
        QWEN_VIDEO.primary,
        QWEN_VIDEO.on_host | {"second_per_grid_ts"},
    )


def omni_audio(text: str, *, windows: bool) -> Modal:
    """Recordings; `text` stands for one in the prompt. With `windows` (Qwen3-Omni) a recording keeps its length, else
    it is cut to the configured one."""

    def make(files: ModelFiles) -> RecordingProcessor:
        made = audio.whisper(files.recordings, {"feature_size": 128, "chunk_length": 300})
        seconds, count = (None, audio.windowed) if windows else (made.seconds, audio.halved_twice)
        return replace(made, seconds=seconds, trimmed=not windows, count=count)

    return Modal(
        make,
        _repeated(text, "audio", Modality.AUDIO),
        {"input_features": Batched(), "feature_attention_mask": Batched()},
        "input_features",
    )
