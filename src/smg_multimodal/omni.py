"""Clips and recordings of Qwen2.5-Omni and Qwen3-Omni.

Above: `registry` puts these into rows. Below: `modalities`, `video`, `audio`. Clips are processed as Qwen2-VL's, within bounds
that are the models' own whatever their files say; recordings as Whisper's, without the frames of padding that engines drop.
The sound of a clip is not listened to.
"""

from collections.abc import Callable, Mapping
from typing import Any

from smg_multimodal import audio, video
from smg_multimodal.modalities import QWEN_VIDEO, ClipProcessor, Modal, RecordingProcessor
from smg_multimodal.prompts import PromptRule, PromptTokenizer, repeat_rule, token
from smg_multimodal.types import Batched, Modality

__all__ = ["omni_audio", "omni_video"]


def _token_of(model: Mapping[str, Any], kind: str) -> Any:
    """The id that config.json states for `kind`; an omni model's own part of it comes first."""
    places = (model.get("thinker_config") or {}, model)
    names = (f"{kind}_token_id", f"{kind}_token_index")
    return next((place[name] for place in places for name in names if name in place), None)


def _repeated(text: str, kind: str, modality: Modality) -> Callable[[Mapping[str, Any], PromptTokenizer], PromptRule]:
    return lambda model, vocabulary: repeat_rule(text, token(vocabulary, text, _token_of(model, kind)), modality)


def omni_video(text: str, cell: int) -> Modal:
    """Clips whose frames have 128 to 768 cells of `cell` pixels a side; `text` stands for one in the prompt."""

    def make(model: Mapping[str, Any], config: Mapping[str, Any]) -> ClipProcessor:
        del model
        bounds = {"shortest_edge": 128 * cell * cell, "longest_edge": 768 * cell * cell}
        rest = {key: value for key, value in config.items() if key not in {"min_pixels", "max_pixels"}}
        return video.qwen2_video({**rest, "size": bounds})

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

    def make(model: Mapping[str, Any], config: Mapping[str, Any]) -> RecordingProcessor:
        del model
        return audio.WhisperProcessor(
            mels=int(config.get("feature_size") or 128),
            rate=int(config.get("sampling_rate") or 16000),
            fft=int(config.get("n_fft") or 400),
            hop=int(config.get("hop_length") or 160),
            seconds=None if windows else int(config.get("chunk_length") or 300),
            trimmed=not windows,
            count=audio.windowed if windows else audio.halved_twice,
        )

    return Modal(
        make,
        _repeated(text, "audio", Modality.AUDIO),
        {"input_features": Batched(), "feature_attention_mask": Batched()},
        "input_features",
    )
