"""What stands for a clip in the prompt is what transformers' processors write, token for token; and how long it is.

The reference's own method makes the text, on a stand-in for the processor that has the tokens it reads; the text is tokenised and
compared with the rule's ids.
"""

import importlib
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from sound_files import clip
from transformers.video_utils import VideoMetadata
from vocabulary import TestVocabulary

from smg_multimodal.configs.files import ModelFiles
from smg_multimodal.families.modalities import ClipProcessor, NumberedClips
from smg_multimodal.families.registry import family_of
from smg_multimodal.prompts.clip_prompts import in_words
from smg_multimodal.prompts.expand import ReadyItem, expand
from smg_multimodal.records.errors import BadClip, UnsupportedModel
from smg_multimodal.records.types import ItemFeatures, Modality, Size

WORDS = TestVocabulary()
FRAMES, RATE = 90, 1.3
_TOKENS = {"image_token": "<|image|>", "video_token": "<|video|>"}
_VIDEO = {
    "patch_size": 16,
    "downsample_ratio": 0.5,
    "merge_size": 2,
    "temporal_patch_size": 2,
    "frame_timestamp_format": "Time: {timestamp:.1f}s",
}
_MUSE = {
    **_TOKENS,
    "video_start_token": "<|vid_start|>",
    "video_end_token": "<|vid_end|>",
    "video_sep_token": "<|vid_frame_separator|>",
}
_MINICPM = {
    "image_start_token": "<image>",
    "image_end_token": "</image>",
    "slice_start_token": "<slice>",
    "slice_end_token": "</slice>",
    "image_id_start_token": "<image_id>",
    "image_id_end_token": "</image_id>",
    "video_token": "<|video_pad|>",
    "video_slice_mode": True,
}
_SLICED = {"scale_resolution": 56, "patch_size": 7, "max_num_frames": 5}
PROCESSORS: dict[str, tuple[str, str, dict[str, Any], dict[str, Any]]] = {
    "glm4v": ("glm4v", "Glm4vProcessor", _TOKENS, {}),
    "glm46v": ("glm46v", "Glm46VProcessor", _TOKENS, {}),
    "internvl": (
        "internvl",
        "InternVLProcessor",
        {
            "start_image_token": "<img>",
            "image_token": "<IMG_CONTEXT>",
            "end_image_token": "</img>",
            "image_seq_length": 256,
        },
        {"num_frames": 5},
    ),
    "gemma4": (
        "gemma4",
        "Gemma4Processor",
        {"boi_token": "<|image>", "eoi_token": "<image|>", "video_token": "<|video|>"},
        {"num_frames": 7},
    ),
    "gemma4_unified": (
        "gemma4_unified",
        "Gemma4UnifiedProcessor",
        {"boi_token": "<|image>", "eoi_token": "<image|>", "video_token": "<|video|>"},
        {"num_frames": 7},
    ),
    "glm5_next": ("glm5_next", "Glm5NextProcessor", _TOKENS, {}),
    "minimax_m3_vl": (
        "minimax_m3_vl",
        "MiniMaxM3VLProcessor",
        {
            "VIDEO_TOKEN": "]<]video[>[",
            "VISION_START_TOKEN": "]<]start of image[>[",
            "VISION_END_TOKEN": "]<]end of image[>[",
        },
        {"fps": 3},
    ),
    "kimi_k25": (
        "kimi_k25",
        "Kimi_K25Processor",
        {"video_token": "<|kimi_k25_video_placeholder|>"},
        {"fps": 5, "temporal_patch_size": 2},
    ),
    "hy_v4_vl": ("hy_v4_vl", "HYV4VLProcessor", {"video_token": "<|video_pad|>"}, {}),
    "minicpmv4_6": ("minicpmv4_6", "MiniCPMV4_6Processor", _MINICPM, _SLICED),
    "minicpmv4_7": ("minicpmv4_7", "MiniCPMV4_7Processor", _MINICPM, {"max_num_frames": 3}),
    "minicpm_ocr": ("minicpm_ocr", "MiniCPMOcrProcessor", _MINICPM, _SLICED),
    "molmo2": (
        "molmo2",
        "Molmo2Processor",
        {"use_frame_special_tokens": True, "video_use_col_tokens": False},
        {"num_frames": 5},
    ),
    "nemotron_h_omni": (
        "nemotron_h_omni",
        "NemotronH_Omni_Reasoning_V3Processor",
        {
            "image_start_token": "<img>",
            "image_token": "<image>",
            "image_end_token": "</img>",
            "video_temporal_patch_dim": 2,
        },
        {"num_frames": 5, "norm_mean": [0.5] * 3, "norm_std": [0.5] * 3},
    ),
    "muse_glimmer": ("muse_glimmer", "MuseGlimmerProcessor", _MUSE, {}),
    "muse_spark": ("muse_spark", "MuseSparkProcessor", _MUSE, {"num_frames": 5}),
    "smolvlm": (
        "smolvlm",
        "SmolVLMProcessor",
        {
            "image_token": "<image>",
            "fake_image_token": "<fake_token_around_image>",
            "global_image_token": "<global-img>",
            "image_seq_len": 169,
        },
        {"num_frames": 21},
    ),
    "llava_next_video": (
        "llava_next_video",
        "LlavaNextVideoProcessor",
        {"video_token": "<video>", "patch_size": 14},
        {"num_frames": 4, "size": {"shortest_edge": 336}, "crop_size": {"height": 336, "width": 336}},
    ),
    "llava_onevision": (
        "llava_onevision",
        "LlavaOnevisionProcessor",
        {"video_token": "<video>", "num_image_tokens": 729},
        {"num_frames": 3},
    ),
}


def made(name: str, config: dict[str, Any], frames: int = FRAMES) -> tuple[ModelFiles, list[int], ItemFeatures]:
    files = ModelFiles({"model_type": name, "image_token_id": None}, {}, {}, config)
    processor = family_of(files).others[Modality.VIDEO].process(files)
    assert isinstance(processor, ClipProcessor)
    places = processor.sample(frames, RATE)
    pictures = clip(60, 44, frames)
    chosen = (pictures[place] for place in places)
    if isinstance(processor, NumberedClips):
        return files, places, processor.numbered(chosen, places, RATE)
    return files, places, processor.item(chosen, [place / RATE for place in places], len(places) / frames * RATE)


def text_of(reference: Any, processor: Any, inputs: dict[str, Any], item: ItemFeatures) -> str:
    """What the reference writes for a clip; MiniCPM's are told how many views a frame has, and numbered afterwards."""
    if "target_sizes_videos" not in item.tensors:
        return str(reference.replace_video_token(processor, inputs, 0))
    frames, *grid = item.grid
    divisor = 4 if "Ocr" in reference.__name__ else 16
    inputs |= {
        "grids_videos": np.array([grid] * frames),
        "target_sizes_videos": item.tensors["target_sizes_videos"],
        "num_frames_per_video": item.tensors["num_frames_per_video"],
    }
    text = reference.replace_video_token(processor, inputs, 0, video_token_divisor=divisor)
    (text,) = reference._prepend_local_ids(processor, ["<|video_pad|>"], [text], "<|video_pad|>")
    return str(text)


@pytest.mark.sampled(keep=6)
@pytest.mark.parametrize("name", PROCESSORS)
def test_the_tokens_of_a_clip_are_those_the_reference_writes(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module_name, kind, facts, config = PROCESSORS[name]
    module = importlib.import_module(f"transformers.models.{module_name}.processing_{module_name}")
    monkeypatch.setattr(module, "num2words", in_words, raising=False)
    files, places, item = made(name, config)
    reference = getattr(module, kind)
    stand_in = SimpleNamespace(**facts, video_processor=SimpleNamespace(**_VIDEO))
    if hasattr(reference, "get_video_string"):
        stand_in.get_video_string = lambda *args: reference.get_video_string(stand_in, *args)
    if hasattr(reference, "replace_frame_token_id"):
        stand_in.replace_frame_token_id = lambda *args, **more: reference.replace_frame_token_id(
            stand_in, *args, **more
        )
    if hasattr(reference, "_num_frame_tokens"):
        stand_in._num_frame_tokens = reference._num_frame_tokens
    told = VideoMetadata(FRAMES, RATE, duration=FRAMES / RATE, frames_indices=places)
    tensors = {key: value if value.ndim == 5 else value[None] for key, value in item.tensors.items()}
    inputs = {
        **tensors,
        "num_frames": item.tensors.get("num_frames"),
        "video_grids": item.tensors.get("video_grids"),
        "video_grid_thw": item.tensors.get("video_grid_thw"),
        "num_chunks_per_video": item.tensors.get("num_chunks_per_video"),
        "video_metadata": [told],
        "num_soft_tokens_per_video": [item.tokens // len(places)],
    }
    text = text_of(reference, stand_in, inputs, item)
    rule = family_of(files).others[Modality.VIDEO].prompt(files.model, WORDS)
    written = rule.replace(item, 0)
    assert list(written.ids) == list(WORDS.encode(text))
    assert written.tokens == item.tokens
    expanded = expand([1, rule.anchor, 2], [rule], [ReadyItem(item, bytes(32))])
    assert list(expanded.ids) == [1, *written.ids, 2]


@pytest.mark.parametrize("name", PROCESSORS)
def test_clips_without_frames_or_of_mixed_sizes_are_refused(name: str) -> None:
    files = ModelFiles({"model_type": name}, {}, {}, PROCESSORS[name][3])
    processor = family_of(files).others[Modality.VIDEO].process(files)
    assert isinstance(processor, ClipProcessor)
    small, other = clip(40, 40, 2)[0], clip(30, 40, 2)[0]
    for frames, seconds in (([], []), ([small, other], [0.0, 1.0]), ([small], [0.0, 1.0]), ([small] * 3, [0.0, 1.0])):
        with pytest.raises(BadClip):
            processor.item(frames, seconds)
    for total, rate in ((0, 1.0), (5, 0.0)):
        with pytest.raises(BadClip):
            processor.sample(total, rate)


@pytest.mark.parametrize("name", PROCESSORS)
def test_a_clip_of_one_frame_is_taken(name: str) -> None:
    _, places, item = made(name, PROCESSORS[name][3], 1)
    assert set(places) == {0}
    assert item.tokens > 0


@pytest.mark.parametrize(
    ("number", "words"),
    [
        *((0, "zero"), (13, "thirteen"), (20, "twenty"), (64, "sixty-four"), (100, "one hundred")),
        *((101, "one hundred and one"), (999, "nine hundred and ninety-nine")),
    ],
)
def test_numbers_are_spelled_as_english_has_them(number: int, words: str) -> None:
    assert in_words(number) == words


def test_more_frames_than_can_be_spelled_are_refused_at_load() -> None:
    with pytest.raises(UnsupportedModel, match="num_frames"):
        made("smolvlm", {"num_frames": 1000})


def test_the_first_files_of_smolvlm_say_how_clips_are_sampled() -> None:
    sampled = {"video_sampling": {"max_frames": 3, "fps": 2, "video_size": {"longest_edge": 128}}}
    _, places, item = made("smolvlm", {**sampled, "max_image_size": {"longest_edge": 56}})
    assert len(places) == 3
    assert item.tensors["pixel_values"].shape == (1, 3, 3, 56, 56)


@pytest.mark.full
def test_frames_are_as_large_whatever_the_size_of_the_clip() -> None:
    for name, (_, _, _, config) in PROCESSORS.items():
        files = ModelFiles({"model_type": name}, {}, {}, config)
        processor = family_of(files).others[Modality.VIDEO].process(files)
        assert isinstance(processor, ClipProcessor)
        for size in (Size(44, 60), Size(90, 31)):
            frames = clip(size.width, size.height, 4)
            item = processor.item(frames, [0.0, 0.5, 1.0, 1.5], 2.0)
            assert item.nbytes <= processor.nbytes(size, 4) <= item.nbytes + 4096
            assert np.isfinite(next(iter(item.tensors.values()))).all()
