"""Rows of the table of families: those of Gemma 3n and 4, and those that came in 2026.

Above: `registry`, whose table these are part of. Below: the family modules.
"""

from collections.abc import Callable

from smg_multimodal.configs.files import ModelFiles
from smg_multimodal.configs.keys import positive_number
from smg_multimodal.families.binned_sounds import INKLING_AUDIO
from smg_multimodal.families.dictated_sounds import VOXTRAL_REALTIME_AUDIO, WHISPER_AUDIO
from smg_multimodal.families.filmed import COMPASS_VIDEO, GEMMA4_VIDEO
from smg_multimodal.families.granite import GRANITE_SPEECH_AUDIO
from smg_multimodal.families.hy4_clips import HY4_VIDEO
from smg_multimodal.families.media_family import GRID, PATCHES, TILES, MediaFamily, token_rule
from smg_multimodal.families.minicpm_clips import MINICPM_VIDEO
from smg_multimodal.families.modalities import AUDIO_FLAMINGO_AUDIO, GLM_ASR_AUDIO, MUSIC_FLAMINGO_AUDIO
from smg_multimodal.families.moss_sounds import MOSS_AUDIO
from smg_multimodal.families.nemotron import NEMOTRON_AUDIO, NEMOTRON_VIDEO, nemotron_image_rule
from smg_multimodal.families.newer_clips import COSMOS_VIDEO, GLM5_VIDEO, MINIMAX_VIDEO, MUSE_VIDEO
from smg_multimodal.families.pipelines import Pictures
from smg_multimodal.families.raw_sounds import GEMMA4_UNIFIED_AUDIO, MUSE_SPARK_AUDIO
from smg_multimodal.families.usm import GEMMA3N_AUDIO, GEMMA4_AUDIO
from smg_multimodal.patches import lfm2
from smg_multimodal.prompts.prompts import (
    GEMMA_3N,
    GEMMA_4,
    ItemMarkers,
    PromptRule,
    PromptTokenizer,
    enclosed_rule,
    marked_rule,
    minicpm_rule,
    step3_rule,
    token,
)
from smg_multimodal.prompts.tile_prompts import cohere2_rule, kimi3_rule, lfm2_rule
from smg_multimodal.records.types import Batched, Flat, Modality
from smg_multimodal.tiles import cohere, step37

__all__ = ["ROWS_OF_2026"]

_MOST_QUERIES = 4096
"""Tokens of a picture of BLIP-2, which its files say; published ones say 32."""

MakeRule = Callable[[ModelFiles, PromptTokenizer], PromptRule]


def _gemma3n_tokens(files: ModelFiles) -> int:
    return int(files.processor.get("image_seq_length") or files.model.get("vision_soft_tokens_per_image") or 256)


def _blip2_tokens(files: ModelFiles) -> int:
    stated = {"num_query_tokens": 32}
    for file in (files.model, files.processor):
        stated |= {key: file[key] for key in stated if file.get(key) is not None}
    return positive_number(stated, "num_query_tokens", _MOST_QUERIES)


def _enclosed(spelling: ItemMarkers) -> Callable[[ModelFiles, PromptTokenizer], PromptRule]:
    return lambda files, vocabulary: enclosed_rule(vocabulary, files.model, Modality.IMAGE, spelling)


def _marked(start: str, feature: str, end: str) -> MakeRule:
    """A rule of repeated tokens between two others. The template writes the repeated one, once."""

    def make(files: ModelFiles, vocabulary: PromptTokenizer) -> PromptRule:
        found = token(vocabulary, feature, files.model.get("image_token_id"))
        return marked_rule(token(vocabulary, start), found, token(vocabulary, end), feature)

    return make


def _cohere2(files: ModelFiles, vocabulary: PromptTokenizer) -> PromptRule:
    return cohere2_rule(vocabulary, cohere.cohere2_image(files.image).per_tile, files.model)


def _lfm2(files: ModelFiles, vocabulary: PromptTokenizer) -> PromptRule:
    return lfm2_rule(vocabulary, lfm2.lfm2_image(files.image).per_tile, files.model, files.processor)


ROWS_OF_2026: tuple[MediaFamily, ...] = (
    MediaFamily(
        "gemma-3n",
        frozenset({"gemma3n"}),
        Pictures(("SiglipImageProcessor",), _gemma3n_tokens),
        _enclosed(GEMMA_3N),
        {"pixel_values": Batched()},
        others={Modality.AUDIO: GEMMA3N_AUDIO},
    ),
    MediaFamily(
        "gemma-4",
        frozenset({"gemma4", "diffusion_gemma"}),
        Pictures(("Gemma4ImageProcessor",)),
        _enclosed(GEMMA_4),
        {"pixel_values": Batched(), "image_position_ids": Batched()},
        others={Modality.VIDEO: GEMMA4_VIDEO, Modality.AUDIO: GEMMA4_AUDIO},
    ),
    MediaFamily(
        "glm-5.3",
        frozenset({"glm5_next"}),
        Pictures(("Glm5NextImageProcessor",)),
        token_rule("<|image|>", "image_token_id"),
        PATCHES,
        on_host=GRID,
        others={Modality.VIDEO: GLM5_VIDEO},
    ),
    MediaFamily(
        "cohere-compass",
        frozenset({"cohere_compass"}),
        Pictures(("CohereCompassImageProcessor",)),
        token_rule("<|IMAGE_PAD|>", "image_token_id"),
        PATCHES,
        on_host=GRID,
        others={Modality.VIDEO: COMPASS_VIDEO},
    ),
    MediaFamily(
        "dots-ocr",
        frozenset({"dots_ocr"}),
        Pictures(("Qwen2VLImageProcessor",)),
        token_rule("<|imgpad|>", "image_token_id"),
        PATCHES,
        on_host=GRID,
    ),
    MediaFamily(
        "cosmos-3-edge",
        frozenset({"cosmos3_edge"}),
        Pictures(("Cosmos3EdgeImageProcessor",)),
        token_rule("<|image_pad|>", "image_token_id"),
        PATCHES,
        on_host=GRID,
        others={Modality.VIDEO: COSMOS_VIDEO},
    ),
    MediaFamily(
        "hy4-vl",
        frozenset({"hy_v4_vl"}),
        Pictures(("HYV4VLImageProcessor",)),
        token_rule("<|image_pad|>", "image_token_id"),
        PATCHES,
        on_host=GRID,
        others={Modality.VIDEO: HY4_VIDEO},
    ),
    MediaFamily(
        "minimax-m3",
        frozenset({"minimax_m3_vl"}),
        Pictures(("MiniMaxM3VLImageProcessor",)),
        _marked("]<]start of image[>[", "]<]image[>[", "]<]end of image[>["),
        PATCHES,
        on_host=GRID,
        others={Modality.VIDEO: MINIMAX_VIDEO},
    ),
    MediaFamily(
        "muse-glimmer",
        frozenset({"muse_glimmer"}),
        Pictures(("MuseGlimmerImageProcessor",)),
        _marked("<|image_start|>", "<|patch|>", "<|image_end|>"),
        PATCHES,
        on_host=GRID,
        others={Modality.VIDEO: MUSE_VIDEO},
    ),
    MediaFamily(
        "muse-spark",
        frozenset({"muse_spark"}),
        Pictures(("MuseGlimmerImageProcessor",)),
        _marked("<|image_start|>", "<|patch|>", "<|image_end|>"),
        PATCHES,
        on_host=GRID,
        others={Modality.VIDEO: MUSE_VIDEO, Modality.AUDIO: MUSE_SPARK_AUDIO},
    ),
    MediaFamily(
        "granite-speech",
        frozenset({"granite_speech", "granite_speech_plus"}),
        None,
        None,
        {},
        others={Modality.AUDIO: GRANITE_SPEECH_AUDIO},
    ),
    MediaFamily("whisper", frozenset({"whisper"}), None, None, {}, limit=1, others={Modality.AUDIO: WHISPER_AUDIO}),
    MediaFamily(
        "voxtral-realtime",
        frozenset({"voxtral_realtime"}),
        None,
        None,
        {},
        limit=1,
        others={Modality.AUDIO: VOXTRAL_REALTIME_AUDIO},
    ),
    MediaFamily("glm-asr", frozenset({"glmasr"}), None, None, {}, others={Modality.AUDIO: GLM_ASR_AUDIO}),
    MediaFamily(
        "command-a-vision",
        frozenset({"cohere2_vision"}),
        Pictures(("Cohere2VisionImageProcessor",)),
        _cohere2,
        TILES,
        on_host=frozenset({"num_patches"}),
    ),
    MediaFamily(
        "gemma-4-unified",
        frozenset({"gemma4_unified"}),
        Pictures(("Gemma4UnifiedImageProcessor",)),
        _enclosed(GEMMA_4),
        {"pixel_values": Batched(), "image_position_ids": Batched()},
        others={Modality.VIDEO: GEMMA4_VIDEO, Modality.AUDIO: GEMMA4_UNIFIED_AUDIO},
    ),
    MediaFamily(
        "lfm2-vl",
        frozenset({"lfm2_vl"}),
        Pictures(("Lfm2VlImageProcessor",)),
        _lfm2,
        {
            "pixel_values": Flat("num_patches"),
            "pixel_attention_mask": Flat("num_patches"),
            "spatial_shapes": Flat("num_patches"),
            "num_patches": Batched(),
        },
        on_host=frozenset({"spatial_shapes", "num_patches"}),
    ),
    MediaFamily(
        "step-3.7",
        frozenset({"step3p7"}),
        Pictures(("Step3p7ImageProcessor",)),
        lambda files, vocabulary: step3_rule(vocabulary, step37.step37_image(files.image).per_window),
        {
            "pixel_values": Batched(),
            "pixel_values_local": Flat("num_local_patches"),
            "patch_newline_masks": Flat("num_local_patches"),
            "num_local_patches": Batched(),
        },
        on_host=frozenset({"num_local_patches", "patch_newline_masks"}),
    ),
    MediaFamily(
        "deepseek-vl",
        frozenset({"deepseek_vl"}),
        Pictures(("DeepseekVLImageProcessor",)),
        token_rule("<image_placeholder>", "image_token_id"),
        {"pixel_values": Batched()},
    ),
    MediaFamily(
        "deepseek-vl2",
        frozenset({"deepseek_vl_v2"}),
        Pictures(("DeepseekVLV2ImageProcessor",)),
        token_rule("<image>", "image_token_id"),
        {**TILES, "images_spatial_crop": Batched()},
        on_host=frozenset({"num_patches", "images_spatial_crop"}),
        limit=2,
    ),
    MediaFamily(
        "deepseek-vl-hybrid",
        frozenset({"deepseek_vl_hybrid"}),
        Pictures(("DeepseekVLHybridImageProcessor",)),
        token_rule("<image_placeholder>", "image_token_id"),
        {"pixel_values": Batched(), "high_res_pixel_values": Batched()},
    ),
    MediaFamily(
        "unlimited-ocr",
        frozenset({"unlimited_ocr"}),
        Pictures(("UnlimitedOcrImageProcessor",)),
        token_rule("<image>", "image_token_id"),
        {
            "pixel_values": Batched(),
            "pixel_values_local": Flat("num_local_patches"),
            "num_local_patches": Batched(),
            "patches_grid": Batched(),
        },
        on_host=frozenset({"patches_grid"}),
    ),
    MediaFamily(
        "kimi-k3",
        frozenset({"kimi_k3"}),
        Pictures(("Kimi_K25ImageProcessor",), called={"KimiK3VisionProcessor": "Kimi_K25ImageProcessor"}),
        lambda files, vocabulary: kimi3_rule(vocabulary, files.model),
        PATCHES,
        on_host=GRID,
    ),
    MediaFamily(
        "minicpm-ocr",
        frozenset({"minicpm_ocr"}),
        Pictures(("MiniCPMOcrImageProcessor",)),
        lambda files, vocabulary: minicpm_rule(
            vocabulary,
            files.model.get("image_token_id"),
            numbered=bool(files.image.get("use_image_id", True)),
            text="<|image_pad|>",
        ),
        {"pixel_values": Batched(), "target_sizes": Flat("num_patches_per_image")},
        others={Modality.VIDEO: MINICPM_VIDEO},
    ),
    MediaFamily(
        "nemotron-nano-vl",
        frozenset({"NemotronH_Nano_VL_V2"}),
        Pictures(("NemotronNanoVLV2ImageProcessor",)),
        nemotron_image_rule,
        TILES,
        on_host=frozenset({"num_patches"}),
    ),
    MediaFamily(
        "nemotron-omni",
        frozenset({"nemotron_h_omni"}),
        Pictures(("NemotronH_Omni_Reasoning_V3ImageProcessor",)),
        nemotron_image_rule,
        {"pixel_values": Flat("patches_per_image"), "image_grid_hw": Batched()},
        on_host=frozenset({"image_grid_hw"}),
        others={Modality.VIDEO: NEMOTRON_VIDEO, Modality.AUDIO: NEMOTRON_AUDIO},
    ),
    MediaFamily(
        "inkling",
        frozenset({"inkling_mm_model"}),
        Pictures(("InklingImageProcessor",)),
        token_rule("<|unused_200054|>", "image_token_id"),
        {"pixel_values": Flat("num_patches"), "num_patches": Batched()},
        on_host=frozenset({"num_patches"}),
        others={Modality.AUDIO: INKLING_AUDIO},
    ),
    MediaFamily(
        "inkling-2",
        frozenset({"inkling2", "inkling2_loop"}),
        Pictures(("Inkling2ImageProcessor",)),
        token_rule("<|unused_200054|>", "image_token_id"),
        PATCHES,
        on_host=GRID,
    ),
    MediaFamily(
        "aria",
        frozenset({"aria"}),
        Pictures(("AriaImageProcessor",)),
        token_rule("<|img|>", "image_token_index", "image_token_id"),
        {"pixel_values": Batched(), "pixel_mask": Batched()},
    ),
    MediaFamily(
        "audio-flamingo-3",
        frozenset({"audioflamingo3"}),
        None,
        None,
        {},
        others={Modality.AUDIO: AUDIO_FLAMINGO_AUDIO},
    ),
    MediaFamily(
        "music-flamingo",
        frozenset({"musicflamingo"}),
        None,
        None,
        {},
        others={Modality.AUDIO: MUSIC_FLAMINGO_AUDIO},
    ),
    MediaFamily(
        "moss-transcribe-diarize",
        frozenset({"moss_transcribe_diarize"}),
        None,
        None,
        {},
        limit=1,
        others={Modality.AUDIO: MOSS_AUDIO},
    ),
    MediaFamily(
        "blip-2",
        frozenset({"blip-2"}),
        Pictures(("BlipImageProcessor",), _blip2_tokens),
        token_rule("<image>", "image_token_index", "image_token_id"),
        {"pixel_values": Batched()},
        limit=1,
    ),
)
"""Looked up by `model_type`, as all rows are."""
