"""Every family's configuration, written by hand from the files published with a model of it, and its reference.

`preprocessor` is the content of preprocessor_config.json, `model` the part of config.json that is read. `reference` names
transformers' PIL class; families whose processor exists for torchvision alone have `torch` instead, and those that are in vLLM
alone `vllm`: both are compared with what make_references.py wrote down; of `published` the processor is in publishers.py. With
`floats` the reference interpolates floats, which is compared with a tolerance.
"""

import importlib
import io
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from PIL import Image, ImageOps
from publishers import PUBLISHED
from vocabulary import TestVocabulary

WORDS = TestVocabulary()
CLIP = {"image_mean": [0.48145466, 0.4578275, 0.40821073], "image_std": [0.26862954, 0.26130258, 0.27577711]}
HALF = {"image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5]}
IMAGENET = {"image_mean": [0.485, 0.456, 0.406], "image_std": [0.229, 0.224, 0.225]}
IN_COLOUR = {"do_convert_rgb": True}
"""How classes are called that leave it to the caller to make pictures RGB, as engines do."""
SIDES = (384, 768, 1152, 1536, 1920, 2304)


@dataclass(frozen=True)
class Family:
    """One row: our configuration, and transformers' module and class."""

    name: str
    preprocessor: Mapping[str, Any]
    model: Mapping[str, Any]
    reference: str | None = None
    published: str | None = None
    torch: str | None = None
    vllm: str | None = None
    tensors: tuple[str, ...] = ("pixel_values",)
    floats: bool = False
    processor: Mapping[str, Any] = field(default_factory=dict)
    call: Mapping[str, Any] = field(default_factory=dict)
    unbatched: bool = False
    """Whether the reference lays all pictures of a prompt in one row, which is left out here."""
    on_white: bool = False
    """Whether the reference is given transparent pictures on white: it would put them on a chessboard."""
    kin: bool = False
    """Whether another row has the same pipeline, so that few pictures are enough where time is short."""

    @property
    def by_pillow(self) -> bool:
        """Whether torch does not resize its pictures: with its own code, or with Lanczos' filter, which torch has not."""
        return self.published is not None or self.preprocessor.get("resample") == 1


FAMILIES = {
    family.name: family
    for family in (
        Family(
            "qwen2-vl",
            {
                "min_pixels": 3136,
                "max_pixels": 12845056,
                "patch_size": 14,
                "temporal_patch_size": 2,
                "merge_size": 2,
                **CLIP,
            },
            {"model_type": "qwen2_vl"},
            "qwen2_vl",
            tensors=("pixel_values", "image_grid_thw"),
        ),
        Family(
            "qwen-vl",
            {},
            {"model_type": "qwen", "visual": {"image_size": 448, "n_queries": 256, "image_start_id": 151857}},
            "clip",
            call={"size": {"height": 448, "width": 448}, "do_center_crop": False},
        ),
        Family(
            "qwen2.5-vl",
            {
                "min_pixels": 3136,
                "max_pixels": 1003520,
                "patch_size": 14,
                "temporal_patch_size": 2,
                "merge_size": 2,
                **CLIP,
            },
            {"model_type": "qwen2_5_vl"},
            "qwen2_vl",
            tensors=("pixel_values", "image_grid_thw"),
        ),
        Family(
            "qwen3-vl",
            {"size": {"shortest_edge": 65536, "longest_edge": 16777216}, "patch_size": 16, "merge_size": 2, **HALF},
            {"model_type": "qwen3_vl"},
            "qwen2_vl",
            tensors=("pixel_values", "image_grid_thw"),
        ),
        Family(
            "glm-4.5v",
            {"size": {"shortest_edge": 12544, "longest_edge": 9633792}, "patch_size": 14, "merge_size": 2, **CLIP},
            {"model_type": "glm4v_moe"},
            "glm4v",
            tensors=("pixel_values", "image_grid_thw"),
        ),
        Family(
            "glm-ocr",
            {"size": {"shortest_edge": 12544, "longest_edge": 9633792}, "patch_size": 14, "merge_size": 2, **CLIP},
            {"model_type": "glm_ocr"},
            "glm46v",
            tensors=("pixel_values", "image_grid_thw"),
        ),
        Family(
            "paddleocr-vl",
            {
                "min_pixels": 147384,
                "max_pixels": 2822400,
                "patch_size": 14,
                "merge_size": 2,
                "temporal_patch_size": 1,
                "resample": 3,
                **HALF,
            },
            {"model_type": "paddleocr_vl"},
            "paddleocr_vl",
            tensors=("pixel_values", "image_grid_thw"),
        ),
        Family(
            "ernie-4.5-vl",
            {"size": {"shortest_edge": 3136, "longest_edge": 4816896}, "patch_size": 14, "merge_size": 2, **CLIP},
            {"model_type": "ernie4_5_vl_moe"},
            "ernie4_5_vl_moe",
            tensors=("pixel_values", "image_grid_thw"),
        ),
        Family(
            "hunyuan-vl",
            {"min_pixels": 262144, "max_pixels": 4194304, "patch_size": 16, "resample": 1, **CLIP},
            {"model_type": "hunyuan_vl"},
            "hunyuan_vl",
            tensors=("pixel_values", "image_grid_thw"),
            processor={"cat_extra_token": True},
        ),
        Family(
            "deepseek-ocr",
            HALF,
            {"model_type": "deepseek_vl_v2", "architectures": ["DeepseekOCRForCausalLM"]},
            vllm="deepseek_ocr",
            tensors=("pixel_values", "images_crop", "images_spatial_crop"),
            processor={"patch_size": 16, "downsample_ratio": 4, "normalize": True, **HALF},
        ),
        Family(
            "deepseek-vl2",
            {},
            {"model_type": "deepseek_vl_v2", "architectures": ["DeepseekVLV2ForCausalLM"]},
            vllm="deepseek_vl2",
            tensors=("pixel_values", "images_spatial_crop"),
            processor={
                "candidate_resolutions": [[384, 384], [384, 768], [768, 384], [384, 1152], [1152, 384], [768, 768]],
                "patch_size": 14,
                "downsample_ratio": 2,
                "normalize": True,
                **HALF,
            },
        ),
        Family(
            "deepseek-ocr-2",
            {
                "size": {"height": 1024, "width": 1024},
                "tile_size": 768,
                "background_color": [127, 127, 127],
                "min_patches": 2,
                "max_patches": 6,
                **HALF,
            },
            {"model_type": "deepseek_ocr2"},
            "deepseek_ocr2",
            tensors=("pixel_values", "num_local_patches", "pixel_values_local"),
            processor={"patch_size": 16, "downsample_ratio": 4},
        ),
        Family(
            "ovis-2",
            {"size": {"height": 448, "width": 448}, "crop_to_patches": True, "max_patches": 9, "resample": 3, **CLIP},
            {"model_type": "ovis2"},
            "ovis2",
            tensors=("pixel_values", "grids"),
            processor={"image_seq_length": 256},
        ),
        Family(
            "ovis-2-nearest",
            {"size": {"height": 384, "width": 384}, "crop_to_patches": True, "use_covering_area_grid": False, **CLIP},
            {"model_type": "ovis2"},
            "ovis2",
            tensors=("pixel_values", "grids"),
        ),
        Family(
            "step3-vl",
            {},
            {"model_type": "step3_vl", "vision_config": {"enable_patch": True}},
            vllm="step3_vl",
            tensors=("pixel_values", "patch_pixel_values", "num_patches", "patch_newline_mask"),
            floats=True,
        ),
        Family(
            "molmo-2",
            {"size": {"height": 378, "width": 378}, "max_crops": 8, "overlap_margins": [4, 4], **HALF},
            {"model_type": "molmo2"},
            torch="molmo2",
            tensors=("pixel_values", "image_token_pooling", "image_grids", "image_num_crops"),
        ),
        Family(
            "llava-1.5",
            {"size": {"shortest_edge": 336}, "crop_size": {"height": 336, "width": 336}, "resample": 3, **CLIP},
            {"model_type": "llava", "vision_config": {"patch_size": 14}, "vision_feature_select_strategy": "default"},
            "llava",
        ),
        Family(
            "llava-1.5-pad",
            {"size": {"shortest_edge": 336}, "crop_size": {"height": 336, "width": 336}, "do_pad": True, **CLIP},
            {"model_type": "llava", "vision_config": {"patch_size": 14}},
            "llava",
        ),
        Family(
            "llava-next",
            {
                "size": {"shortest_edge": 336},
                "crop_size": {"height": 336, "width": 336},
                "image_grid_pinpoints": [[336, 672], [672, 336], [672, 672], [1008, 336], [336, 1008]],
                **CLIP,
            },
            {"model_type": "llava_next", "vision_config": {"patch_size": 14}},
            "llava_next",
            tensors=("pixel_values", "image_sizes"),
        ),
        Family(
            "llava-onevision",
            {
                "size": {"height": 384, "width": 384},
                "image_grid_pinpoints": [[a, b] for a in SIDES for b in SIDES],
                **HALF,
            },
            {
                "model_type": "llava_onevision",
                "vision_config": {"patch_size": 14},
                "vision_feature_select_strategy": "full",
                "vision_aspect_ratio": "anyres_max_9",
            },
            "llava_onevision",
            tensors=("pixel_values", "image_sizes"),
        ),
        Family(
            "pixtral",
            {"size": {"longest_edge": 1024}, "patch_size": {"height": 16, "width": 16}, "resample": 3, **CLIP},
            {"model_type": "llava", "vision_config": {"model_type": "pixtral", "patch_size": 16}},
            "pixtral",
            tensors=("pixel_values", "image_sizes"),
            processor={"processor_class": "PixtralProcessor", "patch_size": 16},
            call={"patch_size": 16},
        ),
        Family(
            "mistral-3",
            {"size": {"longest_edge": 1540}, "patch_size": 14, "resample": 3, **CLIP},
            {
                "model_type": "mistral3",
                "spatial_merge_size": 2,
                "vision_config": {"model_type": "pixtral", "patch_size": 14},
            },
            "pixtral",
            tensors=("pixel_values", "image_sizes"),
            processor={"processor_class": "PixtralProcessor", "patch_size": 14, "spatial_merge_size": 2},
            call={"patch_size": 28},
        ),
        Family(
            "gemma-3",
            {"size": {"height": 896, "width": 896}, "resample": 2, "image_seq_length": 256, **HALF},
            {"model_type": "gemma3", "mm_tokens_per_image": 256},
            "gemma3",
            tensors=("pixel_values", "num_crops"),
        ),
        Family(
            "gemma-3-pan",
            {
                "size": {"height": 896, "width": 896},
                "resample": 2,
                "do_pan_and_scan": True,
                "pan_and_scan_min_crop_size": 256,
                "pan_and_scan_max_num_crops": 4,
                "pan_and_scan_min_ratio_to_activate": 1.2,
                **HALF,
            },
            {"model_type": "gemma3", "mm_tokens_per_image": 256},
            "gemma3",
            tensors=("pixel_values", "num_crops"),
        ),
        Family(
            "internvl-3",
            {
                "size": {"height": 448, "width": 448},
                "crop_to_patches": True,
                "min_patches": 1,
                "max_patches": 12,
                "resample": 3,
                **IMAGENET,
            },
            {"model_type": "internvl", "downsample_ratio": 0.5, "vision_config": {"patch_size": [14, 14]}},
            "got_ocr2",
            tensors=("pixel_values", "num_patches"),
            call={"crop_to_patches": True},
        ),
        Family(
            "internvl-chat",
            {"size": 448, "crop_size": 448, "do_center_crop": True, "do_resize": True, "resample": 3, **IMAGENET},
            {
                "model_type": "internvl_chat",
                "force_image_size": 448,
                "min_dynamic_patch": 1,
                "max_dynamic_patch": 12,
                "dynamic_image_size": True,
                "use_thumbnail": True,
                "downsample_ratio": 0.5,
                "vision_config": {"patch_size": 14, "image_size": 448},
            },
            published="internvl_chat",
            tensors=("pixel_values", "num_patches"),
            call={"image_size": 448, "min_dynamic_patch": 1, "max_dynamic_patch": 12, "use_thumbnail": True},
        ),
        Family(
            "internvl-chat-even",
            {"size": 448, "crop_size": 448, "do_center_crop": True, "do_resize": True, "resample": 3, **IMAGENET},
            {
                "model_type": "internvl_chat",
                "min_dynamic_patch": 4,
                "max_dynamic_patch": 8,
                "dynamic_image_size": True,
                "use_thumbnail": False,
                "downsample_ratio": 0.5,
                "vision_config": {"patch_size": 14, "image_size": 336},
            },
            published="internvl_chat",
            tensors=("pixel_values", "num_patches"),
            call={"image_size": 336, "min_dynamic_patch": 4, "max_dynamic_patch": 8, "use_thumbnail": False},
            kin=True,
        ),
        Family(
            "minicpm-v-4.6",
            {"max_slice_nums": 9, "scale_resolution": 448, "patch_size": 14, "downsample_mode": "16x", **HALF},
            {"model_type": "minicpmv4_6"},
            "minicpmv4_6",
            tensors=("pixel_values", "target_sizes"),
        ),
        Family(
            "llama-4",
            {"size": {"height": 336, "width": 336}, "max_patches": 16, "resample": 2, **HALF},
            {
                "model_type": "llama4",
                "vision_config": {"patch_size": 14, "image_size": 336, "pixel_shuffle_ratio": 0.5},
            },
            torch="llama4",
            tensors=("pixel_values", "aspect_ratios"),
        ),
        Family(
            "kimi-k2.5",
            {
                "max_patches": 16384,
                "size": {"max_height": 512, "max_width": 512},
                "patch_size": 14,
                "merge_size": 2,
                **HALF,
            },
            {"model_type": "kimi_k25", "media_placeholder_token_id": 163605},
            torch="kimi_k25",
            tensors=("pixel_values", "image_grid_thw"),
        ),
        Family(
            "phi-4",
            {"size": {"height": 448, "width": 448}, "patch_size": 14, "dynamic_hd": 36, **HALF},
            {"model_type": "phi4_multimodal"},
            torch="phi4_multimodal",
            tensors=("image_pixel_values", "image_sizes", "image_attention_mask", "num_img_tokens"),
        ),
        Family(
            "phi-3",
            {"num_crops": 16, "num_img_tokens": 144, **CLIP},
            {"model_type": "phi3_v"},
            torch="phi3_v",
            tensors=("pixel_values", "image_sizes", "num_img_tokens"),
        ),
        Family(
            "qwen2.5-omni",
            {
                "image_processor_type": "Qwen2VLImageProcessor",
                "min_pixels": 3136,
                "max_pixels": 12845056,
                "patch_size": 14,
                "temporal_patch_size": 2,
                "merge_size": 2,
                "feature_size": 128,
                "chunk_length": 300,
                **CLIP,
            },
            {
                "model_type": "qwen2_5_omni",
                "thinker_config": {
                    "image_token_index": WORDS.token_id("<|IMAGE|>"),
                    "video_token_index": WORDS.token_id("<|VIDEO|>"),
                    "audio_token_index": WORDS.token_id("<|AUDIO|>"),
                },
            },
            "qwen2_vl",
            tensors=("pixel_values", "image_grid_thw"),
            kin=True,
        ),
        Family(
            "qwen3-omni",
            {
                "image_processor_type": "Qwen2VLImageProcessor",
                "min_pixels": 3136,
                "max_pixels": 12845056,
                "patch_size": 16,
                "temporal_patch_size": 2,
                "merge_size": 2,
                "feature_size": 128,
                **HALF,
            },
            {"model_type": "qwen3_omni_moe", "thinker_config": {"model_type": "qwen3_omni_moe_thinker"}},
            "qwen2_vl",
            tensors=("pixel_values", "image_grid_thw"),
            kin=True,
        ),
        Family(
            "hyperclovax-vision-2",
            {"min_pixels": 3136, "max_pixels": 2073600, "patch_size": 14, "merge_size": 2, **CLIP},
            {"model_type": "hyperclovax_vision_v2"},
            "qwen2_vl",
            tensors=("pixel_values", "image_grid_thw"),
            kin=True,
        ),
        Family(
            "dots-note",
            {"min_pixels": 3136, "max_pixels": 11289600, "patch_size": 14, "merge_size": 2, **CLIP},
            {"model_type": "dots3_note"},
            "qwen2_vl",
            tensors=("pixel_values", "image_grid_thw"),
            kin=True,
        ),
        Family(
            "llava-siglip",
            {
                "image_processor_type": "SiglipImageProcessor",
                "size": {"height": 384, "width": 384},
                "resample": 3,
                **HALF,
            },
            {
                "model_type": "llava",
                "vision_config": {"model_type": "siglip_vision_model", "patch_size": 14},
                "vision_feature_select_strategy": "full",
            },
            "siglip",
            processor={"num_additional_image_tokens": 0, "vision_feature_select_strategy": "full"},
        ),
        Family(
            "llava-next-video",
            {
                "image_processor_type": "LlavaNextImageProcessor",
                "size": {"shortest_edge": 336},
                "crop_size": {"height": 336, "width": 336},
                "image_grid_pinpoints": [[336, 672], [672, 336], [672, 672], [1008, 336], [336, 1008]],
                **CLIP,
            },
            {"model_type": "llava_next_video", "vision_config": {"patch_size": 14}},
            "llava_next",
            tensors=("pixel_values", "image_sizes"),
            processor={"num_additional_image_tokens": 1, "patch_size": 14},
            kin=True,
        ),
        Family(
            "granite-4-vision",
            {
                "image_processor_type": "LlavaNextImageProcessor",
                "size": {"height": 384, "width": 384},
                "crop_size": {"height": 384, "width": 384},
                "image_grid_pinpoints": [[384, 384], [384, 768], [768, 384], [768, 768], [1152, 384], [384, 1152]],
                "resample": 3,
                **HALF,
            },
            {
                "model_type": "granite4_vision",
                "vision_config": {"model_type": "siglip_vision_model", "patch_size": 16},
                "vision_feature_select_strategy": "full",
                "downsample_rate": "4/8",
            },
            "llava_next",
            tensors=("pixel_values", "image_sizes"),
            processor={"patch_size": 16, "downsample_rate": "4/8", "vision_feature_select_strategy": "full"},
            kin=True,
        ),
        Family(
            "paligemma-2",
            {
                "image_processor_type": "SiglipImageProcessor",
                "size": {"height": 448, "width": 448},
                "image_seq_length": 1024,
                "resample": 3,
                **HALF,
            },
            {"model_type": "paligemma", "vision_config": {"patch_size": 14, "image_size": 448}},
            "siglip",
            kin=True,
        ),
        Family(
            "blip-2",
            {
                "image_processor_type": "BlipImageProcessor",
                "size": {"height": 224, "width": 224},
                "resample": 3,
                **CLIP,
            },
            {"model_type": "blip-2", "num_query_tokens": 32, "image_token_index": 1008},
            "blip",
            kin=True,
        ),
        Family(
            "gemma-3n",
            {
                "image_processor_type": "SiglipImageProcessorFast",
                "size": {"height": 768, "width": 768},
                "resample": 2,
                "do_normalize": False,
            },
            {"model_type": "gemma3n", "vision_soft_tokens_per_image": 256},
            "siglip",
            processor={"image_seq_length": 256, "audio_seq_length": 188},
            kin=True,
        ),
        Family(
            "aya-vision",
            {
                "image_processor_type": "GotOcr2ImageProcessor",
                "size": {"height": 364, "width": 364},
                "crop_to_patches": True,
                "min_patches": 1,
                "max_patches": 12,
                "resample": 3,
                **HALF,
            },
            {"model_type": "aya_vision"},
            "got_ocr2",
            tensors=("pixel_values", "num_patches"),
            processor={"img_size": 364, "patch_size": 14, "downsample_factor": 2},
            call={"crop_to_patches": True},
            kin=True,
        ),
        Family(
            "qianfan-ocr",
            {
                "size": {"height": 448, "width": 448},
                "crop_to_patches": True,
                "min_patches": 1,
                "max_patches": 12,
                "resample": 3,
                **IMAGENET,
            },
            {"model_type": "qianfan_ocr"},
            "got_ocr2",
            tensors=("pixel_values", "num_patches"),
            processor={"image_seq_length": 256},
            call={"crop_to_patches": True},
            kin=True,
        ),
        Family(
            "lighton-ocr",
            {
                "image_processor_type": "PixtralImageProcessorFast",
                "size": {"longest_edge": 1540},
                "patch_size": 28,
                "resample": 3,
                **CLIP,
            },
            {"model_type": "lighton_ocr", "vision_config": {"model_type": "pixtral", "patch_size": 14}},
            "pixtral",
            tensors=("pixel_values", "image_sizes"),
            processor={"patch_size": 14, "spatial_merge_size": 2},
            call={"patch_size": 28},
            kin=True,
        ),
        Family(
            "gemma-4",
            {"patch_size": 16, "max_soft_tokens": 280, "pooling_kernel_size": 3, "resample": 3, "do_normalize": False},
            {"model_type": "gemma4"},
            "gemma4",
            tensors=("pixel_values", "image_position_ids"),
        ),
        Family(
            "gemma-4-large",
            {
                "patch_size": 14,
                "max_soft_tokens": 1120,
                "pooling_kernel_size": 2,
                "resample": 2,
                "do_normalize": True,
                **HALF,
            },
            {"model_type": "gemma4"},
            "gemma4",
            tensors=("pixel_values", "image_position_ids"),
            kin=True,
        ),
        Family(
            "idefics-3-small",
            {"size": {"longest_edge": 300}, "max_image_size": {"longest_edge": 112}, "resample": 3, **CLIP},
            {"model_type": "idefics3", "scale_factor": 2, "vision_config": {"image_size": 112, "patch_size": 14}},
            "idefics3",
            tensors=("pixel_values", "pixel_attention_mask"),
            unbatched=True,
            kin=True,
        ),
        Family(
            "idefics-3",
            {"size": {"longest_edge": 1456}, "max_image_size": {"longest_edge": 364}, "resample": 1, **HALF},
            {"model_type": "idefics3", "scale_factor": 2, "vision_config": {"image_size": 364, "patch_size": 14}},
            "idefics3",
            tensors=("pixel_values", "pixel_attention_mask"),
            unbatched=True,
        ),
        Family(
            "smolvlm-whole",
            {
                "size": {"longest_edge": 600},
                "max_image_size": {"longest_edge": 256},
                "do_image_splitting": False,
                "resample": 1,
                **HALF,
            },
            {"model_type": "smolvlm", "scale_factor": 4, "vision_config": {"image_size": 512, "patch_size": 16}},
            "smolvlm",
            tensors=("pixel_values", "pixel_attention_mask"),
            processor={"image_seq_len": 64},
            unbatched=True,
            kin=True,
        ),
        Family(
            "smolvlm",
            {"size": {"longest_edge": 2048}, "max_image_size": {"longest_edge": 512}, "resample": 1, **HALF},
            {"model_type": "smolvlm", "scale_factor": 4, "vision_config": {"image_size": 512, "patch_size": 16}},
            "smolvlm",
            tensors=("pixel_values", "pixel_attention_mask"),
            processor={"image_seq_len": 64},
            unbatched=True,
            kin=True,
        ),
        Family(
            "mllama",
            {"size": {"height": 560, "width": 560}, "max_image_tiles": 4, "resample": 2, **CLIP},
            {"model_type": "mllama"},
            "mllama",
            tensors=("pixel_values", "aspect_ratio_ids", "aspect_ratio_mask"),
        ),
        Family(
            "kimi-vl",
            {"in_token_limit": 4096, "patch_size": 14, "pad_input": True, "merge_kernel_size": [2, 2], **HALF},
            {"model_type": "kimi_vl", "media_placeholder_token_id": 163605},
            published="kimi_vl",
            tensors=("pixel_values", "image_grid_hws"),
        ),
        Family(
            "minicpm-v-2.6",
            {
                "image_processor_type": "MiniCPMVImageProcessor",
                "max_slice_nums": 9,
                "scale_resolution": 448,
                "patch_size": 14,
                "image_feature_size": 64,
                "use_image_id": True,
                "norm_mean": [0.5, 0.5, 0.5],
                "norm_std": [0.5, 0.5, 0.5],
            },
            {"model_type": "minicpmv", "version": 2.6},
            published="minicpmv",
            tensors=("pixel_values", "tgt_sizes"),
        ),
        Family(
            "minicpm-v-4.5",
            {
                "image_processor_type": "MiniCPMVImageProcessor",
                "max_slice_nums": 4,
                "scale_resolution": 392,
                "patch_size": 14,
                "image_feature_size": 32,
                "use_image_id": False,
                "norm_mean": [0.48, 0.46, 0.41],
                "norm_std": [0.27, 0.26, 0.28],
            },
            {"model_type": "minicpmv", "version": "4.5"},
            published="minicpmv",
            tensors=("pixel_values", "tgt_sizes"),
            kin=True,
        ),
        Family(
            "glm-5.3",
            {"patch_size": 14, "merge_size": 2, "min_image_tokens": 16, "max_image_tokens": 1600, **CLIP},
            {"model_type": "glm5_next"},
            "glm5_next",
            tensors=("pixel_values", "image_grid_thw"),
        ),
        Family(
            "cohere-compass",
            {"size": {"shortest_edge": 3136, "longest_edge": 1003520}, "patch_size": 14, "merge_size": 2, **CLIP},
            {"model_type": "cohere_compass"},
            "cohere_compass",
            tensors=("pixel_values", "image_grid_thw"),
            kin=True,
        ),
        Family(
            "dots-ocr",
            {"min_pixels": 3136, "max_pixels": 11289600, "patch_size": 14, "merge_size": 2, **CLIP},
            {"model_type": "dots_ocr"},
            "qwen2_vl",
            tensors=("pixel_values", "image_grid_thw"),
            kin=True,
        ),
        Family(
            "intern-s1",
            {"size": {"height": 448, "width": 448}, "max_patches": 12, "crop_to_patches": True, **IMAGENET},
            {"model_type": "interns1", "downsample_ratio": 0.5, "vision_config": {"patch_size": [14, 14]}},
            "got_ocr2",
            tensors=("pixel_values", "num_patches"),
            call={"crop_to_patches": True},
            kin=True,
        ),
        Family(
            "cosmos-3-edge",
            {"size": {"shortest_edge": 65536, "longest_edge": 2097152}, "patch_size": 16, "merge_size": 2, **HALF},
            {"model_type": "cosmos3_edge"},
            "cosmos3_edge",
            tensors=("pixel_values", "image_grid_thw"),
        ),
        Family(
            "hy4-vl",
            {"size": {"shortest_edge": 262144, "longest_edge": 4194304}, "patch_size": 16, **CLIP},
            {"model_type": "hy_v4_vl"},
            "hy_v4_vl",
            tensors=("pixel_values", "image_grid_thw"),
            kin=True,
        ),
        Family(
            "minimax-m3",
            {"size": {"shortest_edge": 3136, "longest_edge": 451584}, "patch_size": 14, "merge_size": 2, **CLIP},
            {"model_type": "minimax_m3_vl"},
            torch="minimax_m3_vl",
            tensors=("pixel_values", "image_grid_thw"),
        ),
        Family(
            "muse-glimmer",
            {"patch_size": 14, "merge_size": 2, "temporal_patch_size": 2, "max_image_tokens": 1024, **HALF},
            {"model_type": "muse_glimmer"},
            torch="muse_glimmer",
            tensors=("pixel_values", "image_grid_thw"),
        ),
        Family(
            "muse-spark",
            {"patch_size": 14, "merge_size": 2, "temporal_patch_size": 2, "max_image_tokens": 300, **HALF},
            {"model_type": "muse_spark"},
            torch="muse_glimmer",
            tensors=("pixel_values", "image_grid_thw"),
            kin=True,
        ),
        Family(
            "command-a-vision",
            {"size": {"height": 512, "width": 512}, "max_patches": 12, "crop_to_patches": True, **HALF},
            {"model_type": "cohere2_vision"},
            torch="cohere2_vision",
            tensors=("pixel_values", "num_patches"),
        ),
        Family(
            "gemma-4-unified",
            {"patch_size": 16, "max_soft_tokens": 280, "pooling_kernel_size": 3, "resample": 3, "do_normalize": False},
            {"model_type": "gemma4_unified"},
            torch="gemma4_unified",
            tensors=("pixel_values", "image_position_ids"),
        ),
        Family(
            "lfm2-vl",
            {"tile_size": 512, "encoder_patch_size": 16, "min_tiles": 2, "max_tiles": 10, "resample": 2, **HALF},
            {"model_type": "lfm2_vl"},
            torch="lfm2_vl",
            tensors=("pixel_values", "pixel_attention_mask", "spatial_shapes"),
            call=IN_COLOUR,
        ),
        Family(
            "step-3.7",
            {"size": {"height": 728, "width": 728}, "patch_size": 504, "resample": 2, **CLIP},
            {"model_type": "step3p7"},
            torch="step3p7",
            tensors=("pixel_values", "pixel_values_local", "num_local_patches"),
        ),
        Family(
            "deepseek-vl",
            {"size": {"height": 384, "width": 384}, "min_size": 14, "resample": 3, **HALF},
            {"model_type": "deepseek_vl"},
            "deepseek_vl",
            processor={"num_image_tokens": 576},
            call=IN_COLOUR,
        ),
        Family(
            "deepseek-vl-hybrid",
            {"size": {"height": 384, "width": 384}, "high_res_size": {"height": 1024, "width": 1024}, **CLIP},
            {"model_type": "deepseek_vl_hybrid"},
            "deepseek_vl_hybrid",
            tensors=("pixel_values", "high_res_pixel_values"),
            processor={"num_image_tokens": 576},
            call=IN_COLOUR,
        ),
        Family(
            "unlimited-ocr",
            {"size": {"height": 640, "width": 640}, "tile_size": 320, "max_patches": 9, **HALF},
            {"model_type": "unlimited_ocr"},
            torch="unlimited_ocr",
            tensors=("pixel_values", "pixel_values_local", "num_local_patches", "patches_grid"),
        ),
        Family(
            "minicpm-ocr",
            {"max_slice_nums": 9, "scale_resolution": 448, "patch_size": 14, "downsample_mode": "4x", **HALF},
            {"model_type": "minicpm_ocr"},
            torch="minicpm_ocr",
            tensors=("pixel_values", "target_sizes"),
        ),
        Family(
            "kimi-k3",
            {"max_patches": 900, "patch_size": 14, "merge_size": 2, **HALF},
            {"model_type": "kimi_k3"},
            torch="kimi_k25",
            tensors=("pixel_values", "image_grid_thw"),
            kin=True,
        ),
        Family(
            "nemotron-nano-vl",
            {},
            {
                "model_type": "NemotronH_Nano_VL_V2",
                "force_image_size": 128,
                "patch_size": 16,
                "downsample_ratio": 0.5,
                "use_thumbnail": True,
                "norm_mean": [0.48, 0.46, 0.41],
                "norm_std": [0.27, 0.26, 0.28],
            },
            vllm="nano_nemotron_vl",
            tensors=("pixel_values", "num_patches"),
            floats=True,
        ),
        Family(
            "nemotron-omni",
            {"patch_size": 16, "downsample_ratio": 0.5, "min_num_patches": 256, "max_num_patches": 3328, **CLIP},
            {"model_type": "nemotron_h_omni"},
            torch="nemotron_h_omni",
            tensors=("pixel_values", "image_grid_hw"),
            floats=True,
        ),
        Family(
            "aria",
            {"max_image_size": 980, "min_image_size": 336, "split_image": True, **HALF},
            {"model_type": "aria"},
            "aria",
            tensors=("pixel_values", "pixel_mask"),
            call={"max_image_size": 980, "split_image": False},
        ),
        Family(
            "inkling",
            {"size": {"height": 40, "width": 40}, **CLIP},
            {"model_type": "inkling_mm_model"},
            torch="inkling",
            tensors=("pixel_values", "num_patches"),
        ),
        Family(
            "inkling-2",
            {"size": {"height": 40, "width": 40}, **HALF},
            {"model_type": "inkling2"},
            torch="inkling2",
            tensors=("pixel_values", "image_grid_thw"),
            on_white=True,
        ),
    )
}


SOMETIMES = {"pixel_values_local"}
"""Tensors that a reference leaves out where a picture has none."""
NOT_ITS = {"image_seq_length", "image_processor_type", "feature_size", "chunk_length"}
"""Keys of the file that are for other classes."""
_NOT_OF_INTERNVL_CHAT = {"size", "crop_size", "do_center_crop", "do_resize"}
"""Keys that the authors' code does not read; config.json has the sizes."""


def own_class(module: Any, suffix: str) -> Any:
    """The class of a module whose name ends so; one of another name that is derived from it does not count."""
    kinds = [
        value
        for each, value in vars(module).items()
        if each.endswith(suffix) and isinstance(value, type) and value.__module__ == module.__name__
    ]
    (kind,) = (each for each in kinds if not set(each.__bases__) & set(kinds))
    return kind


def reference_class(family: Family) -> Any:
    """transformers' class of the family: the PIL one, or where there is none the torchvision one; or the
    published one."""
    if family.published:
        return PUBLISHED[family.published]
    name, suffix = (family.reference, "Pil") if family.reference else (family.torch, "ImageProcessor")
    stem = "image_processing_pil" if family.reference else "image_processing"
    return own_class(importlib.import_module(f"transformers.models.{name}.{stem}_{name}"), suffix)


def reference_processor(family: Family, **changes: Any) -> Any:
    """transformers' PIL processor of the family, configured alike but for `changes`."""
    config = {key: value for key, value in family.preprocessor.items() if key not in NOT_ITS}
    if family.published == "internvl_chat":
        config = {key: value for key, value in config.items() if key not in _NOT_OF_INTERNVL_CHAT}
    return reference_class(family)(**deepcopy({**config, **changes}))  # some classes change a size that they are given


def opened(data: bytes) -> Image.Image:
    """A file as transformers' processors are given it: opened and turned upright, in its own mode. Grey of 16 bits is scaled to
    8, since Pillow's conversion, which they call, cuts it off."""
    image = ImageOps.exif_transpose(Image.open(io.BytesIO(data)))
    return Image.fromarray((np.asarray(image) >> 8).astype(np.uint8)) if image.mode == "I;16" else image


def reference(family: Family, processor: Any, images: list[Image.Image]) -> dict[str, np.ndarray[Any, Any]]:
    """The tensors of one call of the reference."""
    out = processor(images=images, return_tensors="np", **family.call)
    made = {name: np.asarray(out[name]) for name in family.tensors if name in out or name not in SOMETIMES}
    return {name: array[0] for name, array in made.items()} if family.unbatched else made
