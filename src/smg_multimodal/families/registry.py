"""The family of a model: a table, one row each.

Above: `preparing.prepare` and applications. Below: the family modules and `prompts.prompts`. A row says how a model is
recognised, how its files become a processor and a prompt rule, and how its tensors lie when several items are joined.
Recognition goes by `model_type` of config.json, which the model's publisher sets, and never by the name a deployment gives the
model. Adding a family is adding a module and a row.
"""

from collections.abc import Callable, Mapping

from smg_multimodal.configs.files import ModelFiles
from smg_multimodal.configs.key_kinds import check_sections
from smg_multimodal.families.document_pipelines import DOCUMENT_RULES
from smg_multimodal.families.dots_sounds import DOTS_AUDIO
from smg_multimodal.families.filmed import (
    DOTS_VIDEO,
    GLM_VIDEO,
    INTERNVL_VIDEO,
    LLAVA_NEXT_VIDEO,
    ONEVISION_VIDEO,
    SMOLVLM_VIDEO,
)
from smg_multimodal.families.kimi_clips import KIMI_VIDEO
from smg_multimodal.families.media_family import GRID, MASKED, PATCHES, SIZED, TILES, MediaFamily, token_rule
from smg_multimodal.families.minicpm_clips import MINICPM_VIDEO
from smg_multimodal.families.modalities import (
    PHI4_AUDIO,
    QWEN2_AUDIO,
    QWEN3_ASR_AUDIO,
    QWEN_VIDEO,
    ULTRAVOX_AUDIO,
    VOXTRAL_AUDIO,
)
from smg_multimodal.families.molmo_clips import MOLMO2_VIDEO
from smg_multimodal.families.omni import WEAVE_BY_MOMENT, WEAVE_IN_CHUNKS, omni_audio, omni_video
from smg_multimodal.families.pipelines import Pictures
from smg_multimodal.families.rows_of_2026 import ROWS_OF_2026
from smg_multimodal.prompts import prompts
from smg_multimodal.prompts.prompts import PromptRule, PromptTokenizer, token
from smg_multimodal.records.errors import UnknownFamily, UnsupportedModel
from smg_multimodal.records.types import Batched, Flat, Layout, Modality
from smg_multimodal.tiles import gemma, idefics, llama4, llava

__all__ = ["FAMILIES", "family_of"]


_CROPPED: Mapping[str, Layout] = {
    "pixel_values": Batched(),
    "images_crop": Flat("patches_per_image"),
    "images_spatial_crop": Batched(),
}


def _llama4_prompt(files: ModelFiles, vocabulary: PromptTokenizer) -> PromptRule:
    per_tile = llama4.llama4_image(files.image, files.model).per_tile
    return prompts.llama4_rule(vocabulary, per_tile, files.model.get("image_token_index"))


def _gemma_prompt(files: ModelFiles, vocabulary: PromptTokenizer) -> PromptRule:
    return prompts.gemma_rule(
        vocabulary, gemma.gemma3_image(files.image, files.model, files.processor).per_view, files.model
    )


def _pixtral_prompt(files: ModelFiles, vocabulary: PromptTokenizer) -> PromptRule:
    image = token(vocabulary, "[IMG]", files.model.get("image_token_index") or files.model.get("image_token_id"))
    return prompts.pixtral_rule(image, token(vocabulary, "[IMG_BREAK]"), token(vocabulary, "[IMG_END]"))


def _llava_tokens(files: ModelFiles) -> int:
    return llava.llava_image(files.image, files.model, files.processor).tokens


def _aya_tokens(files: ModelFiles) -> int:
    """A tile's, which processor_config.json says in three numbers."""
    side = int(files.processor.get("img_size") or 364)
    patch = int(files.processor.get("patch_size") or 28) * int(files.processor.get("downsample_factor") or 1)
    return (side // patch) ** 2


def _paligemma_tokens(files: ModelFiles) -> int:
    configured = files.image.get("image_seq_length")
    vision = files.model.get("vision_config") or {}
    side = int(vision.get("image_size") or 224) // int(vision.get("patch_size") or 14)
    return int(configured or side * side)


def _idefics_prompt(files: ModelFiles, vocabulary: PromptTokenizer) -> PromptRule:
    per_tile = idefics.idefics3_image(files.image, files.model, files.processor).per_tile
    return prompts.idefics_rule(vocabulary, per_tile, files.model.get("image_token_id"))


def _qianfan_tokens(files: ModelFiles) -> int:
    return int(files.processor.get("image_seq_length") or files.model.get("image_seq_length") or 256)


def _aya_prompt(files: ModelFiles, vocabulary: PromptTokenizer) -> PromptRule:
    return prompts.aya_rule(vocabulary, _aya_tokens(files), files.model.get("image_token_index"))


def _minicpm_prompt(text: str, *, default: bool) -> Callable[[ModelFiles, PromptTokenizer], PromptRule]:
    return lambda files, vocabulary: prompts.minicpm_rule(
        vocabulary,
        files.model.get("image_token_id"),
        numbered=bool(files.image.get("use_image_id", default)),
        text=text,
    )


def _internvl_prompt(text: str) -> Callable[[ModelFiles, PromptTokenizer], PromptRule]:
    return lambda files, vocabulary: prompts.internvl_rule(vocabulary, files.model.get("image_token_id"), text)


def _qwen_vl_prompt(files: ModelFiles, vocabulary: PromptTokenizer) -> PromptRule:
    start = token(vocabulary, "<img>", (files.model.get("visual") or {}).get("image_start_id"))
    return prompts.marked_rule(
        start, token(vocabulary, "<imgpad>", start + 2), token(vocabulary, "</img>", start + 1), "<imgpad>"
    )


FAMILIES: tuple[MediaFamily, ...] = (
    MediaFamily(
        "qwen2-vl",
        frozenset(
            {
                "qwen2_vl",
                "qwen2_5_vl",
                "qwen3_vl",
                "qwen3_vl_moe",
                "qwen3_5",
                "qwen3_5_moe",
                "qwen3_vl_text",
                "qwen4_exp",
                "cosmos3_omni",
                "exaone4_5",
                "lfm3_vl",
                "interns1_pro",
                "intern_s2_preview",
                "interns2_mobius",
            }
        ),
        Pictures(("Qwen2VLImageProcessor",)),
        token_rule("<|image_pad|>", "image_token_id"),
        PATCHES,
        on_host=GRID,
        others={Modality.VIDEO: QWEN_VIDEO},
    ),
    MediaFamily(
        "qwen2-audio",
        frozenset({"qwen2_audio"}),
        None,
        None,
        {},
        others={Modality.AUDIO: QWEN2_AUDIO},
    ),
    MediaFamily("voxtral", frozenset({"voxtral"}), None, None, {}, limit=5, others={Modality.AUDIO: VOXTRAL_AUDIO}),
    MediaFamily("ultravox", frozenset({"ultravox"}), None, None, {}, others={Modality.AUDIO: ULTRAVOX_AUDIO}),
    MediaFamily("qwen3-asr", frozenset({"qwen3_asr"}), None, None, {}, others={Modality.AUDIO: QWEN3_ASR_AUDIO}),
    MediaFamily(
        "qwen-vl",
        frozenset({"qwen"}),
        Pictures(("QwenVLImageProcessor",), called={"CLIPImageProcessor": "QwenVLImageProcessor"}),
        _qwen_vl_prompt,
        {"pixel_values": Batched()},
    ),
    MediaFamily(
        "glm-4v",
        frozenset({"glm4v", "glm4v_moe", "glm46v", "glm_ocr"}),
        Pictures(("Glm4vImageProcessor", "Glm46VImageProcessor")),
        token_rule("<|image|>", "image_token_id"),
        PATCHES,
        on_host=GRID,
        others={Modality.VIDEO: GLM_VIDEO},
    ),
    MediaFamily(
        "paddleocr-vl",
        frozenset({"paddleocr_vl"}),
        Pictures(("PaddleOCRVLImageProcessor",), called={"SiglipImageProcessor": "PaddleOCRVLImageProcessor"}),
        token_rule("<|IMAGE_PLACEHOLDER|>", "image_token_id"),
        PATCHES,
        on_host=GRID,
    ),
    MediaFamily(
        "ernie-4.5-vl",
        frozenset({"ernie4_5_vl_moe", "ernie4_5_moe_vl"}),
        Pictures(("Ernie4_5_VLMoeImageProcessor",)),
        DOCUMENT_RULES["ernie-4.5-vl"],
        PATCHES,
        on_host=GRID,
    ),
    MediaFamily(
        "hunyuan-vl",
        frozenset({"hunyuan_vl"}),
        Pictures(("HunYuanVLImageProcessor",)),
        token_rule("<｜hy_place▁holder▁no▁102｜>", "image_token_id"),
        PATCHES,
        on_host=GRID,
    ),
    MediaFamily(
        "deepseek-ocr",
        frozenset({"deepseek_ocr"}),
        Pictures(("DeepseekOCRImageProcessor",)),
        token_rule("<image>", "image_token_id"),
        _CROPPED,
        on_host=frozenset({"images_spatial_crop"}),
    ),
    MediaFamily(
        "deepseek-ocr-2",
        frozenset({"deepseek_ocr2"}),
        Pictures(("DeepseekOcr2ImageProcessor",)),
        token_rule("<image>", "image_token_id"),
        {
            "pixel_values": Batched(),
            "pixel_values_local": Flat("num_local_patches"),
            "num_local_patches": Batched(),
            "images_spatial_crop": Batched(),
        },
        on_host=frozenset({"images_spatial_crop"}),
    ),
    MediaFamily(
        "ovis-2",
        frozenset({"ovis2"}),
        Pictures(("Ovis2ImageProcessor",)),
        DOCUMENT_RULES["ovis-2"],
        {"pixel_values": Flat("num_views"), "grids": Batched()},
    ),
    MediaFamily(
        "step3-vl",
        frozenset({"step3_vl"}),
        Pictures(("Step3VLImageProcessor",)),
        DOCUMENT_RULES["step3-vl"],
        {
            "pixel_values": Batched(),
            "patch_pixel_values": Flat("num_patches"),
            "patch_newline_mask": Flat("num_patches"),
            "num_patches": Batched(),
        },
        on_host=frozenset({"num_patches", "patch_newline_mask"}),
    ),
    MediaFamily(
        "molmo-2",
        frozenset({"molmo2"}),
        Pictures(("Molmo2ImageProcessor",)),
        DOCUMENT_RULES["molmo-2"],
        {
            "pixel_values": Flat("image_num_crops"),
            "image_token_pooling": Flat("image_num_pooled_patches"),
            "image_tokens": Flat("num_image_tokens"),
            "image_grids": Batched(),
            "image_num_crops": Batched(),
            "image_num_pooled_patches": Batched(),
            "image_num_patches": Batched(),
            "num_image_tokens": Batched(),
        },
        on_host=frozenset({"image_num_crops", "image_num_pooled_patches", "image_num_patches", "num_image_tokens"}),
        others={Modality.VIDEO: MOLMO2_VIDEO},
    ),
    MediaFamily(
        "llava",
        frozenset({"llava", "vipllava"}),
        Pictures(("LlavaImageProcessor", "CLIPImageProcessor", "SiglipImageProcessor"), _llava_tokens),
        token_rule("<image>", "image_token_index", "image_token_id"),
        {"pixel_values": Batched()},
    ),
    MediaFamily(
        "llava-next",
        frozenset({"llava_next", "granite4_vision"}),
        Pictures(("LlavaNextImageProcessor",)),
        token_rule("<image>", "image_token_index", "image_token_id"),
        SIZED,
    ),
    MediaFamily(
        "llava-next-video",
        frozenset({"llava_next_video"}),
        Pictures(("LlavaNextImageProcessor",)),
        token_rule("<image>", "image_token_index", "image_token_id"),
        SIZED,
        others={Modality.VIDEO: LLAVA_NEXT_VIDEO},
    ),
    MediaFamily(
        "llava-onevision",
        frozenset({"llava_onevision"}),
        Pictures(("LlavaOnevisionImageProcessor",)),
        token_rule("<image>", "image_token_index", "image_token_id"),
        SIZED,
        others={Modality.VIDEO: ONEVISION_VIDEO},
        several=llava.AnyResolutionProcessor.whole,
    ),
    MediaFamily(
        "pixtral",
        frozenset({"pixtral", "mistral3", "mistral_large4"}),
        Pictures(("PixtralImageProcessor",)),
        _pixtral_prompt,
        SIZED,
    ),
    MediaFamily(
        "llama-4",
        frozenset({"llama4"}),
        Pictures(("Llama4ImageProcessor",)),
        _llama4_prompt,
        {
            "pixel_values": Flat("patches_per_image"),
            "aspect_ratios": Batched(),
            "patches_per_image": Batched(),
        },
        on_host=frozenset({"aspect_ratios", "patches_per_image"}),
        limit=8,
    ),
    MediaFamily(
        "kimi-k2.5",
        frozenset({"kimi_k25"}),
        Pictures(("Kimi_K25ImageProcessor",)),
        token_rule("<|media_pad|>", "media_placeholder_token_id", "image_token_id"),
        PATCHES,
        on_host=GRID,
        others={Modality.VIDEO: KIMI_VIDEO},
    ),
    MediaFamily(
        "phi-3",
        frozenset({"phi3_v"}),
        Pictures(("Phi3VImageProcessor",)),
        token_rule("<|image|>"),
        {"pixel_values": Batched(), "image_sizes": Batched(), "num_img_tokens": Batched()},
    ),
    MediaFamily(
        "phi-4",
        frozenset({"phi4mm", "phi4_multimodal"}),
        Pictures(("Phi4MultimodalImageProcessor",)),
        token_rule("<|endoftext10|>"),
        {
            "image_pixel_values": Batched(),
            "image_sizes": Batched(),
            "image_attention_mask": Batched(),
            "num_img_tokens": Batched(),
        },
        primary="image_pixel_values",
        others={Modality.AUDIO: PHI4_AUDIO},
    ),
    MediaFamily(
        "gemma-3",
        frozenset({"gemma3", "t5gemma2"}),
        Pictures(("Gemma3ImageProcessor",)),
        _gemma_prompt,
        {"pixel_values": Flat("num_patches"), "num_crops": Batched()},
    ),
    MediaFamily(
        "internvl",
        frozenset({"internvl", "interns1"}),
        Pictures(("GotOcr2ImageProcessor",)),
        _internvl_prompt("<IMG_CONTEXT>"),
        TILES,
        on_host=frozenset({"num_patches"}),
        others={Modality.VIDEO: INTERNVL_VIDEO},
    ),
    MediaFamily(
        "internvl-chat",
        frozenset({"internvl_chat"}),
        Pictures(("InternVLChatImageProcessor",), called={"CLIPImageProcessor": "InternVLChatImageProcessor"}),
        _internvl_prompt("<IMG_CONTEXT>"),
        TILES,
        on_host=frozenset({"num_patches"}),
    ),
    MediaFamily(
        "minicpm-v",
        frozenset({"minicpmv4_6", "minicpmv4_7"}),
        Pictures(("MiniCPMV4_6ImageProcessor",)),
        _minicpm_prompt("<|image_pad|>", default=True),
        {"pixel_values": Batched(), "target_sizes": Flat("num_patches_per_image")},
        others={Modality.VIDEO: MINICPM_VIDEO},
    ),
    MediaFamily(
        "qwen2.5-omni",
        frozenset({"qwen2_5_omni", "qwen2_5_omni_thinker"}),
        Pictures(("Qwen2VLImageProcessor",)),
        token_rule("<|IMAGE|>", "image_token_index", "image_token_id"),
        PATCHES,
        on_host=GRID,
        others={
            Modality.VIDEO: omni_video("<|VIDEO|>", 28, WEAVE_IN_CHUNKS),
            Modality.AUDIO: omni_audio("<|AUDIO|>", windows=False),
        },
    ),
    MediaFamily(
        "qwen3-omni",
        frozenset({"qwen3_omni_moe", "qwen3_omni_moe_thinker"}),
        Pictures(("Qwen2VLImageProcessor",)),
        token_rule("<|image_pad|>", "image_token_id"),
        PATCHES,
        on_host=GRID,
        others={
            Modality.VIDEO: omni_video("<|video_pad|>", 32, WEAVE_BY_MOMENT),
            Modality.AUDIO: omni_audio("<|audio_pad|>", windows=True),
        },
    ),
    MediaFamily(
        "hyperclovax-vision-2",
        frozenset({"hyperclovax_vision_v2"}),
        Pictures(("Qwen2VLImageProcessor",)),
        token_rule("<|image_pad|>", "image_token_id"),
        PATCHES,
        on_host=GRID,
    ),
    MediaFamily(
        "dots-note",
        frozenset({"dots3_note"}),
        Pictures(("Qwen2VLImageProcessor",)),
        token_rule("<|imgpad|>", "image_token_id"),
        PATCHES,
        on_host=GRID,
        others={Modality.VIDEO: DOTS_VIDEO, Modality.AUDIO: DOTS_AUDIO},
    ),
    MediaFamily(
        "paligemma",
        frozenset({"paligemma"}),
        Pictures(("SiglipImageProcessor",), _paligemma_tokens),
        token_rule("<image>", "image_token_index", "image_token_id"),
        {"pixel_values": Batched()},
    ),
    MediaFamily(
        "aya-vision",
        frozenset({"aya_vision"}),
        Pictures(("GotOcr2ImageProcessor",), _aya_tokens),
        _aya_prompt,
        TILES,
        on_host=frozenset({"num_patches"}),
    ),
    MediaFamily(
        "qianfan-ocr",
        frozenset({"qianfan_ocr"}),
        Pictures(("GotOcr2ImageProcessor",), _qianfan_tokens),
        _internvl_prompt("<image>"),
        TILES,
        on_host=frozenset({"num_patches"}),
    ),
    MediaFamily(
        "lighton-ocr",
        frozenset({"lighton_ocr"}),
        Pictures(("PixtralImageProcessor",)),
        token_rule("<|image_pad|>", "image_token_id", "image_token_index"),
        SIZED,
    ),
    MediaFamily(
        "idefics-3",
        frozenset({"idefics3"}),
        Pictures(("Idefics3ImageProcessor", "SmolVLMImageProcessor")),
        _idefics_prompt,
        MASKED,
        on_host=frozenset({"num_patches"}),
    ),
    MediaFamily(
        "smolvlm",
        frozenset({"smolvlm"}),
        Pictures(("SmolVLMImageProcessor", "Idefics3ImageProcessor")),
        _idefics_prompt,
        MASKED,
        on_host=frozenset({"num_patches"}),
        others={Modality.VIDEO: SMOLVLM_VIDEO},
    ),
    MediaFamily(
        "mllama",
        frozenset({"mllama"}),
        Pictures(("MllamaImageProcessor",)),
        token_rule("<|image|>", "image_token_index", "image_token_id"),
        {"pixel_values": Batched(), "aspect_ratio_ids": Batched(), "aspect_ratio_mask": Batched()},
    ),
    MediaFamily(
        "kimi-vl",
        frozenset({"kimi_vl"}),
        Pictures(("KimiVLImageProcessor",)),
        token_rule("<|media_pad|>", "media_placeholder_token_id", "image_token_id"),
        {"pixel_values": Flat("patches_per_image"), "image_grid_hws": Batched()},
        on_host=frozenset({"image_grid_hws"}),
    ),
    MediaFamily(
        "minicpm-v-2.6",
        frozenset({"minicpmv", "minicpmo"}),
        Pictures(("MiniCPMVImageProcessor",)),
        _minicpm_prompt("<unk>", default=False),
        {"pixel_values": Flat("num_slices"), "tgt_sizes": Flat("num_slices"), "num_slices": Batched()},
    ),
    *ROWS_OF_2026,
)
"""Every family, looked up by `model_type`."""


_OCR_ARCHITECTURES = {"DeepseekOCRForCausalLM": "deepseek_ocr", "DeepseekOCR2ForCausalLM": "deepseek_ocr2"}


def _type_of(files: ModelFiles) -> str:
    kind = str(files.model.get("model_type") or "")
    vision = files.model.get("vision_config") or {}
    if kind == "llava" and vision.get("model_type") == "pixtral":
        return "pixtral"
    if kind == "deepseek_vl_v2":  # DeepSeek-OCR's files say the type of the model before it
        architectures = files.model.get("architectures") or ()
        return next((name for each, name in _OCR_ARCHITECTURES.items() if each in architectures), kind)
    return kind


_OF_OTHER_CODE: Mapping[str, frozenset[str]] = {
    "llava": frozenset(
        {
            *("LlavaLlamaForCausalLM", "LlavaMistralForCausalLM", "LlavaQwenForCausalLM", "LlavaVidForCausalLM"),
            *("MantisForConditionalGeneration", "TarsierForConditionalGeneration"),
        }
    ),
}
"""By the type: architectures of models whose files say that type too, and whose pictures are made by code that is not here."""


_ELSEWHERE: Mapping[str, str] = {
    "cohere_asr": "whose features and prompt are not made here: a server over HTTP takes recordings, for transcriptions",
    "ovis2_5": "whose published vocabulary has no tokens for pictures: a server over HTTP takes them",
    "mimo_v2_omni": "whose pictures, clips and sound are not made here: a server over HTTP takes them",
}
"""By the type: why no row can take models of it, and what does."""


def _architectures(files: ModelFiles) -> frozenset[str]:
    named = files.model.get("architectures")
    return (
        frozenset(each for each in named if isinstance(each, str)) if isinstance(named, list | tuple) else frozenset()
    )


def _named(files: ModelFiles, kind: str) -> str:
    """A model's type, and its architectures where its files name some."""
    named = ", ".join(sorted(_architectures(files)))
    return f"{kind!r} ({named})" if named else repr(kind)


def family_of(files: ModelFiles, families: tuple[MediaFamily, ...] = FAMILIES) -> MediaFamily:
    """The row of a model. Raises `UnknownFamily` when its `model_type` is in none, and `UnsupportedModel` for models of that type
    that other code is for, and where a part of the files that should have keys of its own has none."""
    check_sections(files.model, files.preprocessor, files.processor, files.video)
    kind = _type_of(files)
    if _OF_OTHER_CODE.get(kind, frozenset()) & _architectures(files):
        families_of_type = [family.name for family in families if kind in family.model_types]
        raise UnsupportedModel(
            f"models of type {_named(files, kind)} are processed by other code than {', '.join(families_of_type)} here"
        )
    for family in families:
        if kind in family.model_types:
            return family
    why = f", {_ELSEWHERE[kind]}" if kind in _ELSEWHERE else ""
    raise UnknownFamily(
        f"no family here takes models of type {_named(files, kind)}{why}", [family.name for family in families]
    )
