"""Refuses tensors that vLLM's model class would not take, by name.

Pure. Above: engine.engine. Written after vLLM 0.33 and independently of smg_multimodal.preparing.engine_names, so that a
mistake in one shows in the other. A model class takes its tensors out of a mapping by name: it does not see one with another
name, and fails or answers as if there were no picture. Tensors that only hold the sizes of others are always allowed.
"""

from collections.abc import Iterable, Mapping

from smg_simulator.engine.media import SeenMedia
from smg_simulator.engine.refusal import Refused

__all__ = ["TAKEN", "check_names"]

RequiredAndOptional = tuple[frozenset[str], frozenset[str]]
"""Required names, and optional ones."""


def _names(*needed: str, may: Iterable[str] = ()) -> RequiredAndOptional:
    return frozenset(needed), frozenset(may)


_QWEN = {
    "image": _names("pixel_values", "image_grid_thw"),
    "video": _names("pixel_values", "video_grid_thw", may=("second_per_grid_ts", "timestamps")),
}
_PIXELS = {"image": _names("pixel_values")}
_SIZED = {"image": _names("pixel_values", "image_sizes")}
_OMNI = {**_QWEN, "audio": _names("input_audio_features", "feature_attention_mask", "audio_feature_lengths")}
_SOUND = _names("input_features_padded", "input_features_mask")
_TILED = _names("pixel_values", "pixel_attention_mask", "num_patches")
_PHI4 = {
    "image": _names("input_image_embeds", "image_sizes", "image_attention_mask", may=("num_img_tokens",)),
    "audio": _names("input_audio_embeds"),
}

TAKEN: Mapping[str, Mapping[str, RequiredAndOptional]] = {
    **dict.fromkeys(
        ("qwen2_vl", "qwen2_5_vl", "qwen3_vl", "qwen3_vl_moe", "qwen3_vl_text", "qwen3_5", "qwen3_5_moe"), _QWEN
    ),
    **dict.fromkeys(
        (
            "interns1_pro",
            "intern_s2_preview",
            "interns2_mobius",
            "qwen4_exp",
            "exaone4_5",
            "lfm3_vl",
            "hyperclovax_vision_v2",
            "hy_v4_vl",
            "cosmos3_omni",
        ),
        _QWEN,
    ),
    **dict.fromkeys(("qwen2_5_omni", "qwen2_5_omni_thinker", "qwen3_omni_moe", "qwen3_omni_moe_thinker"), _OMNI),
    **dict.fromkeys(("glm4v", "glm4v_moe", "glm46v", "glm_ocr"), _QWEN),
    **dict.fromkeys(
        ("qwen", "llava", "vipllava", "pixtral", "mistral3", "mistral_large4", "lighton_ocr", "paligemma", "blip-2"),
        _PIXELS,
    ),
    **dict.fromkeys(("llava_next", "granite4_vision", "phi3_v"), _SIZED),
    **{key: {**_SIZED, "video": _names("pixel_values")} for key in ("llava_next_video", "llava_onevision")},
    **{
        key: {"image": _names("pixel_values", "image_grid_thw")}
        for key in ("paddleocr_vl", "ernie4_5_vl_moe", "ernie4_5_moe_vl", "hunyuan_vl")
    },
    **{
        key: {"image": _names("pixel_values", "images_crop", "images_spatial_crop")}
        for key in ("deepseek_ocr", "deepseek_ocr2", "unlimited_ocr")
    },
    **{
        key: {"image": _names("pixel_values", "image_grid_thw")}
        for key in ("dots_ocr", "dots3_note", "inkling2", "inkling2_loop")
    },
    "cohere2_vision": {"image": _names("pixel_values", "num_patches")},
    "inkling_mm_model": {
        "image": _names("pixel_values", "num_patches"),
        "audio": _names("input_audio_features", "num_audio_tokens"),
    },
    **{
        key: {"audio": _names("input_features", "audio_embed_sizes")}
        for key in ("granite_speech", "granite_speech_plus")
    },
    "deepseek_vl_v2": {"image": _names("pixel_values", "images_spatial_crop", may=("images_crop",))},
    **{
        key: {"audio": _names("input_features", "feature_attention_mask", "chunk_counts")}
        for key in ("glmasr", "audioflamingo3")
    },
    "moss_transcribe_diarize": {"audio": _names("input_features", "audio_feature_lengths", "audio_chunk_counts")},
    "musicflamingo": {"audio": _names("input_features", "input_features_mask", "num_pieces")},
    "lfm2_vl": {"image": _names("pixel_values", "spatial_shapes", "num_patches")},
    "step3p7": {"image": _names("pixel_values", "patch_pixel_values", "num_patches", may=("patch_newline_mask",))},
    "deepseek_vl": _PIXELS,
    "aria": {"image": _names("pixel_values", "pixel_mask")},
    "muse_spark": {},
    "nemotron_h_omni": {
        "video": _names("pixel_values_flat_video", "video_num_patches", "frames_indices", "frame_duration_ms")
    },
    "deepseek_vl_hybrid": {"image": _names("pixel_values", "high_res_pixel_values")},
    "ovis2": _PIXELS,
    "step3_vl": {"image": _names("pixel_values", "patch_pixel_values", "num_patches", may=("patch_newline_mask",))},
    "molmo2": {
        "image": _names(
            *("pixel_values", "image_token_pooling", "image_num_pooled_patches", "image_num_patches"),
            *("image_tokens", "num_image_tokens"),
            may=("image_num_crops",),
        ),
        "video": _names(
            *("pixel_values", "video_token_pooling", "video_num_pooled_patches", "video_num_patches"),
            *("video_tokens", "num_video_tokens"),
            may=("video_num_crops",),
        ),
    },
    **dict.fromkeys(("phi4mm", "phi4_multimodal"), _PHI4),
    "llama4": {"image": _names("pixel_values", "patches_per_image", "aspect_ratios")},
    **{key: {"image": _names("pixel_values", "grid_thws")} for key in ("kimi_k25", "kimi_k3")},
    **{key: {"image": _names("pixel_values", "num_patches")} for key in ("gemma3", "t5gemma2")},
    "gemma3n": {**_PIXELS, "audio": _SOUND},
    **{
        key: {
            "image": _names("pixel_values", "pixel_position_ids"),
            "video": _names("pixel_values", "pixel_position_ids_videos", "video_frame_counts"),
            "audio": _SOUND,
        }
        for key in ("gemma4", "gemma4_unified", "diffusion_gemma")
    },
    **{key: {"image": _TILED} for key in ("idefics3", "smolvlm")},
    "kimi_vl": {"image": _names("pixel_values", "image_grid_hws")},
    "aya_vision": {"image": _names("pixel_values", "num_patches")},
    **{
        key: {"image": _names("pixel_values_flat", "image_num_patches")}
        for key in ("qianfan_ocr", "NemotronH_Nano_VL_V2")
    },
    "mllama": {"image": _names("pixel_values", "aspect_ratio_ids", "aspect_ratio_mask")},
    **{key: {"image": _names("pixel_values", "tgt_sizes")} for key in ("minicpmv", "minicpmo")},
    **{
        key: {
            "image": _names("pixel_values", "image_num_patches"),
            "video": _names("pixel_values", "video_num_patches"),
        }
        for key in ("internvl", "interns1")
    },
    **dict.fromkeys(("cohere_compass", "cosmos3_edge", "glm5_next", "minimax_m3_vl", "muse_glimmer"), _QWEN),
    "internvl_chat": {"image": _names("pixel_values_flat", "image_num_patches")},
    **{
        key: {
            "image": _names("pixel_values", "tgt_sizes"),
            "video": _names("video_pixel_values", "video_tgt_sizes"),
        }
        for key in ("minicpmv4_6", "minicpmv4_7", "minicpm_ocr")
    },
    "voxtral": {"audio": _names("audio_arrays")},
    "voxtral_realtime": {"audio": _names("audio_arrays")},
    "whisper": {"audio": _names("input_features")},
    "ultravox": {"audio": _names("audio_features", "audio_lens", "audio_token_len", "audio_num_chunks")},
    "qwen3_asr": {"audio": _names("input_audio_features", "audio_feature_lengths", "feature_attention_mask")},
    "qwen2_audio": {"audio": _names("input_features", "feature_attention_mask")},
}
"""By `model_type` and modality. Pixels of clips are called `pixel_values` too; the servicer renames them."""


def check_names(seen: Iterable[SeenMedia], model_type: str) -> None:
    """Raise Refused for a tensor that the model's class does not take, and for one that is missing. Models outside of
    `TAKEN` are not checked."""
    for media in seen:
        names = TAKEN.get(model_type, {}).get(media.modality)
        if names is None or media.dialect != "vllm":
            continue
        needed, may = names
        came = media.tensors.keys() - set(media.flat.values())
        if other := sorted(came - needed - may):
            raise Refused(f"{model_type} takes no tensor {', '.join(other)}")
        if missing := sorted(needed - media.tensors.keys()):
            raise Refused(f"{model_type} misses the tensor {', '.join(missing)}")
