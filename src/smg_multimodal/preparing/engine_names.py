"""The names of a family's tensors in an engine's own model code, where transformers' differ.

Above: `packaging`. Below: `records.types`. A model class of vLLM or SGLang takes its tensors out of a mapping by name, and
takes no other names, so a tensor has the name of the engine it goes to. The tables hold what differs (vLLM 0.33, SGLang
0.5.23); a family that is in none of them keeps transformers' names. The neutral contract and TokenSpeed take transformers'
names.
"""

from collections.abc import Mapping

from smg_multimodal.records.types import Modality

__all__ = ["SGLANG", "VLLM", "TensorNames", "named_for_engine"]

TensorNames = Mapping[tuple[str, Modality], Mapping[str, str | None]]
"""By family and modality: the engine's name for each of transformers' names, None for a tensor that it is not sent."""

_IMAGE, _VIDEO, _AUDIO = Modality.IMAGE, Modality.VIDEO, Modality.AUDIO

VLLM: TensorNames = {
    ("gemma-3n", _AUDIO): {"input_features": "input_features_padded"},
    ("gemma-4", _IMAGE): {"image_position_ids": "pixel_position_ids"},
    ("gemma-4", _VIDEO): {
        "video_position_ids": "pixel_position_ids_videos",
        "num_frames_per_video": "video_frame_counts",
    },
    ("gemma-4", _AUDIO): {"input_features": "input_features_padded"},
    ("lighton-ocr", _IMAGE): {"image_sizes": None},
    ("qianfan-ocr", _IMAGE): {"pixel_values": "pixel_values_flat", "num_patches": "image_num_patches"},
    ("deepseek-ocr-2", _IMAGE): {"pixel_values_local": "images_crop"},
    ("molmo-2", _IMAGE): {"image_grids": None},
    ("molmo-2", _VIDEO): {"video_grids": None},
    ("ovis-2", _IMAGE): {"grids": None},
    ("qwen3-asr", _AUDIO): {"input_features": "input_audio_features", "input_features_mask": "feature_attention_mask"},
    ("voxtral", _AUDIO): {"input_features": None, "num_pieces": None},
    ("voxtral-realtime", _AUDIO): {"input_features": None, "num_delay_tokens": None},
    ("kimi-k2.5", _IMAGE): {"image_grid_thw": "grid_thws"},
    ("kimi-k3", _IMAGE): {"image_grid_thw": "grid_thws"},
    ("gemma-3", _IMAGE): {"num_crops": None},
    ("internvl", _IMAGE): {"num_patches": "image_num_patches"},
    ("internvl-chat", _IMAGE): {"pixel_values": "pixel_values_flat", "num_patches": "image_num_patches"},
    ("minicpm-v", _IMAGE): {"target_sizes": "tgt_sizes"},
    ("minicpm-ocr", _IMAGE): {"target_sizes": "tgt_sizes"},
    **{
        (name, _VIDEO): {"pixel_values_videos": "video_pixel_values", "target_sizes_videos": "video_tgt_sizes"}
        for name in ("minicpm-v", "minicpm-ocr")
    },
    ("inkling", _AUDIO): {"audio_input_ids": "input_audio_features"},
    ("audio-flamingo-3", _AUDIO): {"input_features_mask": "feature_attention_mask", "num_pieces": "chunk_counts"},
    ("phi-3", _IMAGE): {"num_img_tokens": None},
    ("phi-4", _IMAGE): {"image_pixel_values": "input_image_embeds"},
    ("phi-4", _AUDIO): {"audio_input_features": "input_audio_embeds", "audio_embed_sizes": None},
    ("pixtral", _IMAGE): {"image_sizes": None},
    ("gemma-4-unified", _VIDEO): {
        "video_position_ids": "pixel_position_ids_videos",
        "num_frames_per_video": "video_frame_counts",
    },
    ("gemma-4-unified", _AUDIO): {"input_features": "input_features_padded"},
    ("moss-transcribe-diarize", _AUDIO): {"input_features_mask": None, "num_pieces": "audio_chunk_counts"},
    ("granite-speech", _AUDIO): {"input_features_mask": None},
    ("glm-asr", _AUDIO): {"input_features_mask": "feature_attention_mask", "num_pieces": "chunk_counts"},
    ("gemma-4-unified", _IMAGE): {"image_position_ids": "pixel_position_ids"},
    ("lfm2-vl", _IMAGE): {"pixel_attention_mask": None},
    ("unlimited-ocr", _IMAGE): {"pixel_values_local": "images_crop", "patches_grid": "images_spatial_crop"},
    ("nemotron-nano-vl", _IMAGE): {"pixel_values": "pixel_values_flat", "num_patches": "image_num_patches"},
    ("nemotron-omni", _VIDEO): {"pixel_values_videos": "pixel_values_flat_video", "num_frames": "video_num_patches"},
    ("step-3.7", _IMAGE): {
        "pixel_values_local": "patch_pixel_values",
        "num_local_patches": "num_patches",
        "patch_newline_masks": "patch_newline_mask",
    },
}
SGLANG: TensorNames = {
    ("aya-vision", _IMAGE): {"num_patches": None},
    ("idefics-3", _IMAGE): {"num_patches": None},
    ("smolvlm", _IMAGE): {"num_patches": None},
    ("minicpm-v-2.6", _IMAGE): {"tgt_sizes": "tgt_size", "num_slices": None},
    ("qianfan-ocr", _IMAGE): {"num_patches": None},
    ("deepseek-ocr-2", _IMAGE): {"pixel_values_local": "images_crop", "num_local_patches": None},
    ("molmo-2", _IMAGE): {"image_tokens": None, "image_num_patches": None},
    ("step3-vl", _IMAGE): {"patch_newline_mask": None},
    ("gemma-3", _IMAGE): {"num_crops": None, "num_patches": None},
    ("internvl", _IMAGE): {"num_patches": None},
    ("internvl-chat", _IMAGE): {"num_patches": None},
    ("minicpm-v", _IMAGE): {"target_sizes": "tgt_size"},
    ("minicpm-ocr", _IMAGE): {"target_sizes": "tgt_size"},
    ("phi-3", _IMAGE): {"num_img_tokens": None},
    ("phi-4", _IMAGE): {"image_pixel_values": "pixel_values", "num_img_tokens": None},
    ("command-a-vision", _IMAGE): {"num_patches": None},
    ("lfm2-vl", _IMAGE): {"num_patches": None},
    ("nemotron-nano-vl", _IMAGE): {"num_patches": None},
    ("unlimited-ocr", _IMAGE): {
        "pixel_values_local": "images_crop",
        "patches_grid": "images_spatial_crop",
        "num_local_patches": None,
    },
    ("step-3.7", _IMAGE): {
        "pixel_values_local": "patch_pixel_values",
        "num_local_patches": "num_patches",
        "patch_newline_masks": None,
    },
}


def named_for_engine(names: TensorNames, family: str, modality: Modality, tensor: str) -> str | None:
    """What the engine calls `tensor`; None where it is not sent."""
    return names.get((family, modality), {}).get(tensor, tensor)
