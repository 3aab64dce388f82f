"""Clips of LLaVA-NeXT-Video, LLaVA-OneVision, InternVL, SmolVLM, Gemma 4, GLM and dots: from a model's files to a processor.

Above: `registry` puts these into rows. Below: `clips.frames` and `clips.video`, the families' picture modules,
`prompts.clip_prompts`. Follows transformers' video_processing_llava_next_video, _llava_onevision, _internvl, _smolvlm, _gemma4,
_glm4v and _glm46v, whose arithmetic is that of the torchvision backend.
"""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from smg_multimodal.clips import video
from smg_multimodal.clips.frames import FrameProcessor, counted
from smg_multimodal.clips.sampling import FromTheMiddle, Shifted, Uniform, count_or_rate
from smg_multimodal.configs.files import ModelFiles
from smg_multimodal.configs.key_kinds import refused
from smg_multimodal.configs.keys import VIDEO_CLASS, ProcessorClass, fixed_size, positive_number, settled
from smg_multimodal.families.modalities import ClipProcessor, Modal
from smg_multimodal.patches.gemma4 import Gemma4Processor
from smg_multimodal.pixels.resample import BICUBIC, LANCZOS, resample_of
from smg_multimodal.pixels.transforms import CLIP_MEAN, CLIP_STD, HALF, Normalizer, fused_normalizer, normalizer_of
from smg_multimodal.prompts import clip_prompts
from smg_multimodal.prompts.prompts import PromptRule, PromptTokenizer, repeat_rule, timed_video_rule, token
from smg_multimodal.records.types import Batched, Flat, Modality, Size
from smg_multimodal.tiles.idefics import Idefics3Processor
from smg_multimodal.tiles.llava import SquareProcessor

__all__ = [
    "COMPASS_VIDEO",
    "DOTS_VIDEO",
    "GEMMA4_VIDEO",
    "GLM_VIDEO",
    "INTERNVL_VIDEO",
    "LLAVA_NEXT_VIDEO",
    "ONEVISION_VIDEO",
    "SMOLVLM_VIDEO",
]

_USUAL_FRAMES = 32
"""Frames that are taken where neither the files nor the class say how many: as many as vLLM's loader takes."""

_NEXT_VIDEO = ProcessorClass(
    frozenset({"LlavaNextVideoVideoProcessor", "LlavaNextVideoProcessor"}),
    {
        "do_resize": True,
        "size": {"shortest_edge": 224},
        "crop_size": {"height": 224, "width": 224},
        "do_center_crop": True,
    },
    squares=False,
)
_ONEVISION = ProcessorClass(
    frozenset({"LlavaOnevisionVideoProcessor"}),
    {"do_resize": True, "size": {"height": 384, "width": 384}},
    squares=False,
)
_INTERNVL = ProcessorClass(
    frozenset({"InternVLVideoProcessor"}),
    {"do_resize": True, "size": {"height": 384, "width": 384}, "initial_shift": True},
)
_SMOLVLM = ProcessorClass(
    frozenset({"SmolVLMVideoProcessor"}),
    {
        "do_resize": True,
        "do_pad": True,
        "size": {"longest_edge": 4 * 364},
        "max_image_size": {"longest_edge": 364},
        "fps": 1,
        "num_frames": 64,
    },
    {"do_resize": (True,), "do_pad": (True,)},
)
_GEMMA4 = ProcessorClass(
    frozenset({"Gemma4VideoProcessor"}),
    {"do_resize": True, "patch_size": 16, "max_soft_tokens": 70, "pooling_kernel_size": 3},
    {"do_resize": (True,), "max_soft_tokens": (70, 140, 280, 560, 1120)},
)
_GEMMA4_UNIFIED = replace(_GEMMA4, names=frozenset({"Gemma4UnifiedVideoProcessor"}))


def _normalizer(config: Mapping[str, Any]) -> Normalizer:
    return normalizer_of(config, CLIP_MEAN, CLIP_STD, fused_normalizer)


def _stretched_or_cropped(config: Mapping[str, Any]) -> SquareProcessor:
    """What becomes of each frame where they are resized, and perhaps cropped, to one size."""
    scaled: Size | int | None = None
    if config["do_resize"]:
        sides = config["size"]
        scaled = int(sides["shortest_edge"]) if set(sides) == {"shortest_edge"} else fixed_size(config)
    if config.get("do_center_crop"):
        if config.get("crop_size") is None:
            raise refused("do_center_crop", True, "there is no crop_size")
        crop = fixed_size(config, "crop_size")
    elif isinstance(scaled, Size):
        crop = scaled
    else:
        key = "do_resize" if scaled is None else "size" if config.get("do_center_crop") is None else "do_center_crop"
        raise refused(key, config.get(key), "all frames must have one size in the end")
    return SquareProcessor(scaled, crop, 0, _normalizer(config), resample_of(config, BICUBIC))


def _uniform(config: Mapping[str, Any]) -> Uniform:
    count, fps = count_or_rate(config)
    return Uniform(_USUAL_FRAMES if count is None and fps is None else count, fps)


_PIXELS = {"pixel_values": "pixel_values_videos"}


def _llava_next_clips(files: ModelFiles) -> ClipProcessor:
    config = settled(files.clips, _NEXT_VIDEO, kind=VIDEO_CLASS)
    image = _stretched_or_cropped(config)
    vision = files.model.get("vision_config") or {}
    patch = int(files.processor.get("patch_size") or vision.get("patch_size") or 14)
    pooled = (image.crop.height // patch) * (image.crop.width // patch) // 4
    return FrameProcessor.of(image, _uniform(config), _PIXELS, lambda frames, _per_frame: frames * pooled)


def _onevision_clips(files: ModelFiles) -> ClipProcessor:
    config = settled(files.clips, _ONEVISION, kind=VIDEO_CLASS)
    image = _stretched_or_cropped(config)
    vision = files.model.get("vision_config") or {}
    patch = int(vision.get("patch_size") or 14)
    tokens = int(files.processor.get("num_image_tokens") or (image.crop.height // patch) * (image.crop.width // patch))
    pooled = math.ceil(math.isqrt(tokens) / 2) ** 2
    return FrameProcessor.of(image, _uniform(config), _PIXELS, lambda frames, _per_frame: frames * pooled + 1)


def _internvl_clips(files: ModelFiles) -> ClipProcessor:
    config = settled(files.clips, _INTERNVL, kind=VIDEO_CLASS)
    image = _stretched_or_cropped(config)
    count, fps = count_or_rate(config)
    shift = config["initial_shift"]
    sampling = Shifted(
        _USUAL_FRAMES if count is None and fps is None else count, fps, None if shift is True else float(shift)
    )
    length = files.processor.get("image_seq_length") or files.model.get("image_seq_length") or 256
    return FrameProcessor.of(
        image, sampling, _PIXELS, lambda frames, _per_frame: frames * int(length), lead=False, count="video_num_patches"
    )


def _smolvlm_clips(files: ModelFiles) -> ClipProcessor:
    """The first published files say under `video_sampling` what the class has keys of its own for by now."""
    given = dict(files.clips)
    for key, own in (("max_frames", "num_frames"), ("fps", "fps"), ("video_size", "size")):
        if (value := (given.get("video_sampling") or {}).get(key)) is not None:
            given[own] = given.get(own) if own == "size" and VIDEO_CLASS in given else value
    config = settled(given, _SMOLVLM, kind=VIDEO_CLASS)
    longest, tile = (config[key].get("longest_edge") for key in ("size", "max_image_size"))
    for key, side in (("size", longest), ("max_image_size", tile)):
        if not side:
            raise refused(key, dict(config[key]), "a longest_edge is needed")
    fps = count_or_rate({**config, "num_frames": None})[1] or 1.0
    if positive_number(config, "num_frames") > clip_prompts.MOST_IN_WORDS:
        raise refused("num_frames", config["num_frames"], f"at most {clip_prompts.MOST_IN_WORDS} are spelled out")
    vision = files.model.get("vision_config") or {}
    side = int(vision.get("image_size") or tile) // int(vision.get("patch_size") or 14)
    scale = int(files.model.get("scale_factor") or 2)
    image = Idefics3Processor(
        longest=min(4096, int(longest)),
        tile=int(tile),
        per_tile=int(files.processor.get("image_seq_len") or side**2 // scale**2),
        normalizer=normalizer_of(config, HALF, HALF, fused_normalizer),
        split=False,
        resample=resample_of(config, LANCZOS),
    )
    names = {name: name for name in ("pixel_values", "pixel_attention_mask")}
    return FrameProcessor.of(image, FromTheMiddle(fps, positive_number(config, "num_frames")), names)


def _gemma4_clips(files: ModelFiles) -> ClipProcessor:
    """Without an encoder (unified) a whole token is one patch."""
    config = settled(files.clips, _GEMMA4, _GEMMA4_UNIFIED, kind=VIDEO_CLASS)
    count, fps = count_or_rate(config)
    patch, pool = positive_number(config, "patch_size"), positive_number(config, "pooling_kernel_size")
    if files.model.get("model_type") == "gemma4_unified":
        patch, pool = patch * pool, 1
    image = Gemma4Processor(
        normalizer=normalizer_of(config, (0.0, 0.0, 0.0), (1.0, 1.0, 1.0), fused_normalizer),
        most=positive_number(config, "max_soft_tokens"),
        patch=patch,
        pool=pool,
        resample=resample_of(config, BICUBIC),
    )
    names = {"pixel_values": "pixel_values_videos", "image_position_ids": "video_position_ids"}
    usual = _USUAL_FRAMES if fps is None else None
    return FrameProcessor.of(
        image, Uniform(count or usual, fps), names, counted, lead=False, count="num_frames_per_video"
    )


def _glm_clips(files: ModelFiles) -> ClipProcessor:
    """By the class that the files name; where they name none, GLM-4.6V and GLM-OCR have one and the others the other."""
    named = files.clips.get(VIDEO_CLASS)
    newer = files.model.get("model_type") in ("glm46v", "glm_ocr") if named is None else named == "Glm46VVideoProcessor"
    return (video.glm46_video if newer else video.glm41_video)(files.clips)


def _repeated(model: Mapping[str, Any], vocabulary: PromptTokenizer) -> PromptRule:
    configured = model.get("video_token_index") or model.get("video_token_id")
    return repeat_rule("<video>", token(vocabulary, "<video>", configured), Modality.VIDEO)


def _dots_prompt(model: Mapping[str, Any], vocabulary: PromptTokenizer) -> PromptRule:
    return repeat_rule("<|video_pad|>", token(vocabulary, "<|video_pad|>", model.get("video_token_id")), Modality.VIDEO)


DOTS_VIDEO = Modal(
    lambda files: video.qwen3_video(files.clips),
    _dots_prompt,
    {"pixel_values_videos": Flat("patches_per_video"), "video_grid_thw": Batched()},
    "pixel_values_videos",
    frozenset({"video_grid_thw"}),
)
COMPASS_VIDEO = Modal(
    lambda files: video.qwen3_video(files.clips),
    lambda model, vocabulary: timed_video_rule(
        vocabulary, model, ("<|VISION_START|>", "<|VIDEO_PAD|>", "<|VISION_END|>")
    ),
    DOTS_VIDEO.layouts,
    DOTS_VIDEO.primary,
    DOTS_VIDEO.on_host,
)
LLAVA_NEXT_VIDEO = Modal(_llava_next_clips, _repeated, {"pixel_values_videos": Batched()}, "pixel_values_videos")
ONEVISION_VIDEO = Modal(_onevision_clips, _repeated, {"pixel_values_videos": Batched()}, "pixel_values_videos")
INTERNVL_VIDEO = Modal(
    _internvl_clips,
    clip_prompts.internvl_clip_rule,
    {"pixel_values_videos": Flat("video_num_patches"), "video_num_patches": Batched()},
    "pixel_values_videos",
    frozenset({"video_num_patches"}),
)
SMOLVLM_VIDEO = Modal(
    _smolvlm_clips,
    clip_prompts.smolvlm_clip_rule,
    {"pixel_values": Batched(), "pixel_attention_mask": Batched()},
    "pixel_values",
)
GEMMA4_VIDEO = Modal(
    _gemma4_clips,
    clip_prompts.gemma4_clip_rule,
    {
        "pixel_values_videos": Flat("num_frames_per_video"),
        "video_position_ids": Flat("num_frames_per_video"),
        "num_frames_per_video": Batched(),
    },
    "pixel_values_videos",
    frozenset({"num_frames_per_video"}),
)
GLM_VIDEO = Modal(
    _glm_clips,
    clip_prompts.glm_clip_rule,
    {"pixel_values_videos": Flat("patches_per_video"), "video_grid_thw": Batched()},
    "pixel_values_videos",
    frozenset({"video_grid_thw"}),
)
