"""Configurations as they are published, file by file, several for each family: what differs from the defaults of the classes.

Written down without the files at hand: what is remembered of preprocessor_config.json, of the part of config.json that
matters, and of processor_config.json where there is one. `compared` says what of a row copies of the file in other public
repositories have too; the others were not compared with anything. `counts` has (width, height) of pictures and how many tokens
they have by the model's own arithmetic: patches over merged patches, tiles times tokens of a tile, and so on.

Whoever has the files of a model compares them with its row, key by key:

    python tests/multimodal/published.py FOLDER [NAME]
"""

import argparse
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

CLIP = {"image_mean": [0.48145466, 0.4578275, 0.40821073], "image_std": [0.26862954, 0.26130258, 0.27577711]}
HALF = {"image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5]}
IMAGENET = {"image_mean": [0.485, 0.456, 0.406], "image_std": [0.229, 0.224, 0.225]}
USUAL = {"do_normalize": True, "do_rescale": True, "do_resize": True, "rescale_factor": 0.00392156862745098}


@dataclass(frozen=True)
class Published:
    """One model's files, and transformers' module whose PIL class they configure (None: the model's own code)."""

    name: str
    preprocessor: Mapping[str, Any]
    model: Mapping[str, Any]
    processor: Mapping[str, Any] = field(default_factory=dict)
    reference: str | None = None
    call: Mapping[str, Any] = field(default_factory=dict)
    counts: Mapping[tuple[int, int], int] = field(default_factory=dict)
    compared: str = ""


_QWEN2 = {"temporal_patch_size": 2, "patch_size": 14, "merge_size": 2, **CLIP}
_CLIP_336 = {
    "crop_size": {"height": 336, "width": 336},
    "do_center_crop": True,
    "do_convert_rgb": True,
    "resample": 3,
    "size": {"shortest_edge": 336},
    **USUAL,
    **CLIP,
}
_LLAVA_TOWER = {"model_type": "clip_vision_model", "image_size": 336, "patch_size": 14}
_GRANITE_PINPOINTS = [[384, 384 * n] for n in range(1, 11)] + [[384 * n, 384] for n in range(2, 11)]

PUBLISHED = (
    Published(
        "Qwen/Qwen2-VL-7B-Instruct",
        {
            "min_pixels": 3136,
            "max_pixels": 12845056,
            "image_processor_type": "Qwen2VLImageProcessor",
            "processor_class": "Qwen2VLProcessor",
            **_QWEN2,
        },
        {"model_type": "qwen2_vl"},
        reference="qwen2_vl",
        compared="sizes, limits and means",
        counts={(280, 140): 50},
    ),
    Published(
        "Qwen/Qwen2-VL-7B-Instruct, with the sizes in `size` too",
        {
            "do_convert_rgb": True,
            "min_pixels": 3136,
            "max_pixels": 12845056,
            "size": {"max_pixels": 12845056, "min_pixels": 3136},
            "resample": 3,
            "image_processor_type": "Qwen2VLImageProcessor",
            **USUAL,
            **_QWEN2,
        },
        {"model_type": "qwen2_vl"},
        reference="qwen2_vl",
        counts={(280, 140): 50},
    ),
    Published(
        "Qwen/Qwen3-VL-8B-Instruct",
        {
            "size": {"longest_edge": 16777216, "shortest_edge": 65536},
            "patch_size": 16,
            "temporal_patch_size": 2,
            "merge_size": 2,
            "processor_class": "Qwen3VLProcessor",
            "image_processor_type": "Qwen2VLImageProcessorFast",
            **HALF,
        },
        {"model_type": "qwen3_vl"},
        reference="qwen2_vl",
        compared="sizes, limits and means",
        counts={(320, 320): 100},
    ),
    Published(
        "zai-org/GLM-4.1V-9B-Thinking",
        {
            "size": {"shortest_edge": 12544, "longest_edge": 9633792},
            "do_rescale": True,
            "patch_size": 14,
            "temporal_patch_size": 2,
            "merge_size": 2,
            "image_processor_type": "Glm4vImageProcessor",
            "processor_class": "Glm4vProcessor",
            **CLIP,
        },
        {"model_type": "glm4v"},
        reference="glm4v",
        compared="sizes, limits and means",
        counts={(280, 140): 50},
    ),
    Published(
        "llava-hf/llava-1.5-7b-hf",
        {"image_processor_type": "CLIPImageProcessor", "processor_class": "LlavaProcessor", **_CLIP_336},
        {"model_type": "llava", "vision_config": _LLAVA_TOWER, "vision_feature_select_strategy": "default"},
        {"num_additional_image_tokens": 1, "patch_size": 14, "vision_feature_select_strategy": "default"},
        reference="clip",
        compared="every key of preprocessor_config.json, as a converter writes it for such models",
        counts={(400, 300): 576},
    ),
    Published(
        "llava-hf/llava-1.5-7b-hf, as it was before it had a processor_config.json",
        {"feature_extractor_type": "CLIPFeatureExtractor", **_CLIP_336, "crop_size": 336, "size": 336},
        {"model_type": "llava", "vision_config": _LLAVA_TOWER, "vision_feature_select_strategy": "default"},
        reference="clip",
        counts={(400, 300): 576},
    ),
    Published(
        "llava-hf/llava-interleave-qwen-7b-hf (a tower of SigLIP)",
        {
            "image_processor_type": "SiglipImageProcessor",
            "processor_class": "LlavaProcessor",
            "resample": 3,
            "size": {"height": 384, "width": 384},
            **USUAL,
            **HALF,
        },
        {
            "model_type": "llava",
            "vision_config": {"model_type": "siglip_vision_model", "image_size": 384, "patch_size": 14},
            "vision_feature_select_strategy": "full",
        },
        {"num_additional_image_tokens": 0, "patch_size": 14, "vision_feature_select_strategy": "full"},
        reference="siglip",
        compared="every key of preprocessor_config.json",
        counts={(400, 300): 729},
    ),
    Published(
        "the same without processor_config.json, which engines do not hand over",
        {
            "image_processor_type": "SiglipImageProcessor",
            "resample": 3,
            "size": {"height": 384, "width": 384},
            **USUAL,
            **HALF,
        },
        {
            "model_type": "llava",
            "vision_config": {"model_type": "siglip_vision_model", "image_size": 384, "patch_size": 14},
            "vision_feature_select_strategy": "full",
        },
        reference="siglip",
        counts={(400, 300): 729},
    ),
    Published(
        "llava-hf/llava-v1.6-mistral-7b-hf",
        {
            "aspect_ratio_setting": "anyres",
            "image_grid_pinpoints": [[336, 672], [672, 336], [672, 672], [1008, 336], [336, 1008]],
            "image_processor_type": "LlavaNextImageProcessor",
            "do_pad": True,
            **_CLIP_336,
        },
        {"model_type": "llava_next", "vision_config": _LLAVA_TOWER, "vision_feature_select_strategy": "default"},
        {"num_additional_image_tokens": 1, "patch_size": 14, "vision_feature_select_strategy": "default"},
        reference="llava_next",
        compared="every key of preprocessor_config.json and processor_config.json",
        counts={(336, 672): 24 * 24 + 48 * 24 + 48},
    ),
    Published(
        "ibm-granite/granite-vision-3.2-2b (a tower of SigLIP)",
        {
            "crop_size": {"height": 384, "width": 384},
            "do_center_crop": True,
            "do_convert_rgb": True,
            "do_pad": True,
            "image_grid_pinpoints": _GRANITE_PINPOINTS,
            "image_processor_type": "LlavaNextImageProcessor",
            "resample": 3,
            "size": {"height": 384, "width": 384},
            **USUAL,
            **HALF,
        },
        {
            "model_type": "llava_next",
            "image_grid_pinpoints": _GRANITE_PINPOINTS,
            "vision_config": {"model_type": "siglip_vision_model", "image_size": 384, "patch_size": 14},
            "vision_feature_select_strategy": "full",
            "vision_feature_layer": [-24, -20, -12, -1],
        },
        {"patch_size": 14, "vision_feature_select_strategy": "full"},
        reference="llava_next",
        counts={(384, 384): 27 * 27 + 27 * 27 + 27},
    ),
    Published(
        "llava-hf/llava-onevision-qwen2-7b-ov-hf",
        {
            "do_convert_rgb": True,
            "do_pad": True,
            "image_grid_pinpoints": [
                [a, b] for a in (384, 768, 1152, 1536, 1920, 2304) for b in (384, 768, 1152, 1536, 1920, 2304)
            ],
            "image_processor_type": "LlavaOnevisionImageProcessor",
            "resample": 3,
            "size": {"height": 384, "width": 384},
            **USUAL,
            **HALF,
        },
        {
            "model_type": "llava_onevision",
            "vision_aspect_ratio": "anyres_max_9",
            "vision_config": {"model_type": "siglip_vision_model", "image_size": 384, "patch_size": 14},
            "vision_feature_select_strategy": "full",
        },
        {"num_image_tokens": 729, "vision_feature_select_strategy": "full"},
        reference="llava_onevision",
        compared="every key but image_grid_pinpoints, as a converter writes it for such models",
        counts={(384, 384): 27 * 27 + 27 * 27 + 27},
    ),
    Published(
        "mistral-community/pixtral-12b",
        {
            "do_convert_rgb": True,
            "image_processor_type": "PixtralImageProcessor",
            "patch_size": {"height": 16, "width": 16},
            "processor_class": "PixtralProcessor",
            "resample": 3,
            "size": {"longest_edge": 1024},
            **USUAL,
            **CLIP,
        },
        {"model_type": "llava", "vision_config": {"model_type": "pixtral", "patch_size": 16}},
        {"patch_size": 16},
        reference="pixtral",
        call={"patch_size": 16},
        counts={(320, 160): 200},
    ),
    Published(
        "mistralai/Mistral-Small-3.1-24B-Instruct-2503",
        {
            "crop_size": None,
            "data_format": "channels_first",
            "default_to_square": True,
            "device": None,
            "do_center_crop": None,
            "do_convert_rgb": True,
            "image_processor_type": "PixtralImageProcessorFast",
            "input_data_format": None,
            "patch_size": 14,
            "resample": 3,
            "return_tensors": None,
            "size": {"longest_edge": 1540},
            **USUAL,
            **CLIP,
        },
        {
            "model_type": "mistral3",
            "spatial_merge_size": 2,
            "vision_config": {"model_type": "pixtral", "patch_size": 14},
        },
        {"patch_size": 14, "spatial_merge_size": 2},
        reference="pixtral",
        call={"patch_size": 28},
        compared="sizes, limits and means",
        counts={(280, 140): 50},
    ),
    Published(
        "google/gemma-3-4b-it",
        {
            "do_convert_rgb": None,
            "do_pan_and_scan": None,
            "image_processor_type": "Gemma3ImageProcessor",
            "image_seq_length": 256,
            "pan_and_scan_max_num_crops": None,
            "pan_and_scan_min_crop_size": None,
            "pan_and_scan_min_ratio_to_activate": None,
            "processor_class": "Gemma3Processor",
            "resample": 2,
            "size": {"height": 896, "width": 896},
            **USUAL,
            **HALF,
        },
        {"model_type": "gemma3", "mm_tokens_per_image": 256},
        {"image_seq_length": 256},
        reference="gemma3",
        compared="sizes, limits and means",
        counts={(400, 300): 256},
    ),
    Published(
        "OpenGVLab/InternVL3-8B-hf",
        {
            "crop_size": None,
            "crop_to_patches": False,
            "data_format": "channels_first",
            "default_to_square": True,
            "do_center_crop": None,
            "do_convert_rgb": True,
            "image_processor_type": "GotOcr2ImageProcessorFast",
            "max_patches": 12,
            "min_patches": 1,
            "processor_class": "InternVLProcessor",
            "resample": 3,
            "size": {"height": 448, "width": 448},
            **USUAL,
            **IMAGENET,
        },
        {
            "model_type": "internvl",
            "downsample_ratio": 0.5,
            "image_seq_length": 256,
            "vision_config": {"patch_size": [14, 14], "image_size": [448, 448]},
        },
        {"image_seq_length": 256},
        reference="got_ocr2",
        call={"crop_to_patches": True},
        compared="crop_to_patches, min_patches and max_patches",
        counts={(448, 448): 256, (896, 448): 3 * 256},
    ),
    Published(
        "OpenGVLab/InternVL2_5-8B",
        {
            "crop_size": 448,
            "do_center_crop": True,
            "do_normalize": True,
            "do_resize": True,
            "feature_extractor_type": "CLIPFeatureExtractor",
            "resample": 3,
            "size": 448,
            **IMAGENET,
        },
        {
            "model_type": "internvl_chat",
            "downsample_ratio": 0.5,
            "dynamic_image_size": True,
            "force_image_size": 448,
            "max_dynamic_patch": 12,
            "min_dynamic_patch": 1,
            "use_thumbnail": True,
            "vision_config": {"image_size": 448, "patch_size": 14},
        },
        compared="every key of config.json, of the model of 1B",
        counts={(448, 448): 256, (896, 448): 3 * 256, (5376, 448): 13 * 256},
    ),
    Published(
        "OpenGVLab/InternVL2-1B, with six tiles at most and no thumbnail",
        {"crop_size": 448, "feature_extractor_type": "CLIPFeatureExtractor", "resample": 3, "size": 448, **IMAGENET},
        {
            "model_type": "internvl_chat",
            "dynamic_image_size": True,
            "force_image_size": 224,
            "max_dynamic_patch": 6,
            "use_thumbnail": False,
            "vision_config": {"image_size": 448, "patch_size": 14},
        },
        counts={(224, 224): 64, (5376, 448): 6 * 64},
    ),
    Published(
        "meta-llama/Llama-4-Scout-17B-16E-Instruct",
        {
            "do_convert_rgb": True,
            "image_processor_type": "Llama4ImageProcessorFast",
            "max_patches": 16,
            "processor_class": "Llama4Processor",
            "resample": 2,
            "resize_to_max_canvas": False,
            "size": {"height": 336, "width": 336},
            **USUAL,
            **HALF,
        },
        {"model_type": "llama4", "vision_config": {"image_size": 336, "patch_size": 14, "pixel_shuffle_ratio": 0.5}},
        compared="max_patches, resize_to_max_canvas, size and config.json",
        counts={(336, 336): 144, (672, 336): 3 * 144},
    ),
    Published(
        "moonshotai/Kimi-K2.5, by its own code",
        {
            "auto_map": {"AutoImageProcessor": "kimi_k25_vision_processing.KimiK25VisionProcessor"},
            "image_processor_type": "KimiK25VisionProcessor",
            "media_proc_cfg": {
                "in_patch_limit": 16384,
                "patch_size": 14,
                "merge_kernel_size": 2,
                "patch_limit_on_one_side": 512,
                **HALF,
            },
        },
        {"model_type": "kimi_k25", "media_placeholder_token_id": 163605},
        compared="in_patch_limit",
        counts={(280, 140): 50, (290, 141): 66},
    ),
    Published(
        "microsoft/Phi-4-multimodal-instruct",
        {
            "auto_map": {"AutoImageProcessor": "processing_phi4mm.Phi4MMImageProcessor"},
            "dynamic_hd": 36,
            "image_processor_type": "Phi4MMImageProcessor",
            "processor_class": "Phi4MMProcessor",
        },
        {"model_type": "phi4mm"},
        compared="every key but auto_map",
        counts={(448, 448): 256 + 1 + 256 + 16 + 16},
    ),
    Published(
        "microsoft/Phi-3.5-vision-instruct",
        {
            "auto_map": {"AutoImageProcessor": "processing_phi3_v.Phi3VImageProcessor"},
            "do_convert_rgb": True,
            "image_processor_type": "Phi3VImageProcessor",
            "num_crops": 4,
            "num_img_tokens": 144,
            **CLIP,
        },
        {"model_type": "phi3_v"},
        compared="num_img_tokens",
        counts={(336, 336): (2 * 2 + 1) * 144 + 1 + 3 * 12},
    ),
)


def differences(published: Published, folder: Path) -> Iterator[str]:
    """What the files in a model's folder say otherwise than its row, key by key. Keys that the row has not are left out."""
    parts = (
        ("preprocessor_config.json", published.preprocessor),
        ("config.json", published.model),
        ("processor_config.json", published.processor),
    )
    for name, written in parts:
        if not (path := folder / name).exists():
            if written:
                yield f"{name} is not there"
            continue
        yield from _apart(name, written, json.loads(path.read_bytes()))


def _apart(place: str, written: Mapping[str, Any], found: Mapping[str, Any]) -> Iterator[str]:
    for key, value in written.items():
        other = found.get(key)
        if isinstance(value, Mapping) and isinstance(other, Mapping):
            yield from _apart(f"{place}: {key}", value, other)
        elif value != other:
            yield f"{place}: {key} is {other!r}, and {value!r} in the row"


def main() -> None:
    """Compare a folder with the row of its model, or with each of them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("name", nargs="?", default="")
    options = parser.parse_args()
    for published in PUBLISHED:
        if options.name in published.name:
            found = list(differences(published, options.folder))
            print("\n  ".join([f"{published.name}: {len(found)} differences", *found]))


if __name__ == "__main__":
    main()
