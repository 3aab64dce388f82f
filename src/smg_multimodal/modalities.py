"""Clips and recordings beside pictures: per family, how their bytes become features and what stands for them in the prompt.

Above: `registry` puts these into rows. Below: `video`, `audio`, `decode`, `prompts`. A clip's bytes are an animated GIF, WebP or
PNG, a recording's a WAV file; for other containers an application decodes and calls the processors itself.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from smg_multimodal import audio, video
from smg_multimodal.decode import ImageLimits, decode_frames
from smg_multimodal.prompts import PromptRule, Vocabulary, audio_rule, repeat_rule, timed_video_rule, token
from smg_multimodal.types import Batched, Flat, ItemFeatures, Layout, Modality

__all__ = ["PHI4_AUDIO", "QWEN2_AUDIO", "QWEN_VIDEO", "Modal"]

Process = Callable[[bytes, ImageLimits], ItemFeatures]


@dataclass(frozen=True, slots=True)
class Modal:
    """One modality of a family besides pictures.

    `process` makes, of config.json and the modality's own configuration, a function from bytes to features. `prompt` makes
    the rule of the model and its vocabulary. The rest is as in a family's row.
    """

    process: Callable[[Mapping[str, Any], Mapping[str, Any]], Process]
    prompt: Callable[[Mapping[str, Any], Vocabulary], PromptRule]
    layouts: Mapping[str, Layout]
    primary: str
    on_host: frozenset[str] = frozenset()


def _timed(model: Mapping[str, Any]) -> bool:
    return str(model.get("model_type")).startswith("qwen3")


def _qwen_clips(model: Mapping[str, Any], config: Mapping[str, Any]) -> Process:
    processor = (video.qwen3_video if _timed(model) else video.qwen2_video)(config)

    def process(data: bytes, limits: ImageLimits) -> ItemFeatures:
        frames, seconds = decode_frames(data, limits)
        rate = (len(frames) - 1) / seconds[-1] if len(frames) > 1 and seconds[-1] > 0 else processor.fps
        taken = processor.sample(len(frames), rate)
        return processor.item([frames[index] for index in taken], [seconds[index] for index in taken])

    return process


def _qwen_clip_prompt(model: Mapping[str, Any], vocabulary: Vocabulary) -> PromptRule:
    if _timed(model):
        return timed_video_rule(vocabulary, model)
    feature = token(vocabulary, "<|video_pad|>", model.get("video_token_id"))
    return repeat_rule("<|video_pad|>", feature, Modality.VIDEO)


def _recordings(processor: audio.WhisperProcessor | audio.Phi4AudioProcessor) -> Process:
    def process(data: bytes, limits: ImageLimits) -> ItemFeatures:
        return processor.item(audio.recording(data, processor.rate, processor.longest, max_bytes=limits.max_bytes))

    return process


def _qwen2_recordings(model: Mapping[str, Any], config: Mapping[str, Any]) -> Process:
    del model
    return _recordings(
        audio.WhisperProcessor(
            mels=int(config.get("feature_size") or 128),
            rate=int(config.get("sampling_rate") or 16000),
            fft=int(config.get("n_fft") or 400),
            hop=int(config.get("hop_length") or 160),
            seconds=int(config.get("chunk_length") or 30),
        )
    )


QWEN_VIDEO = Modal(
    _qwen_clips,
    _qwen_clip_prompt,
    {"pixel_values_videos": Flat("patches_per_video"), "video_grid_thw": Batched()},
    "pixel_values_videos",
    frozenset({"video_grid_thw"}),
)
QWEN2_AUDIO = Modal(
    _qwen2_recordings,
    lambda model, vocabulary: audio_rule(vocabulary, "<|AUDIO|>", model.get("audio_token_index")),
    {"input_features": Batched(), "feature_attention_mask": Batched()},
    "input_features",
)
PHI4_AUDIO = Modal(
    lambda _model, _config: _recordings(audio.Phi4AudioProcessor()),
    lambda _model, vocabulary: audio_rule(vocabulary, "<|endoftext11|>"),
    {"audio_input_features": Batched(), "audio_embed_sizes": Batched()},
    "audio_input_features",
)
