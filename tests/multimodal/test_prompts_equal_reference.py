"""What stands for a picture in the prompt is what transformers' processors write, token for token.

The reference's own method makes the text, on a stand-in for the processor that has the tokens it reads; the text is
tokenised and compared with the rule's ids.
"""

import gzip
import importlib
import inspect
import json
import math
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from pictures import EVERY_FORMAT, encoded, pictures
from PIL import Image
from reference_families import FAMILIES, Family, opened, reference_processor
from vocabulary import SPECIAL, TestVocabulary

from smg_multimodal.configs.files import ModelFiles
from smg_multimodal.decoding.decode import decode_image
from smg_multimodal.families.registry import family_of
from smg_multimodal.prompts.prompts import PromptRule, timed_video_rule
from smg_multimodal.records.errors import UnsupportedModel
from smg_multimodal.records.types import ItemFeatures, Modality, Size

WORDS = TestVocabulary()
REFERENCES = Path(__file__).with_name("references.json.gz")
CHOSEN = [each for each in pictures() if each.pixels <= 900_000 and max(each.size) < 40 * min(each.size)][::29]

PROCESSORS = {
    "qwen2-vl": ("qwen2_vl", "Qwen2VLProcessor", {"image_token": "<|image_pad|>"}),
    "qwen3-vl": ("qwen3_vl", "Qwen3VLProcessor", {"image_token": "<|image_pad|>"}),
    "glm-4.5v": ("glm4v", "Glm4vProcessor", {"image_token": "<|image|>"}),
    "glm-ocr": ("glm46v", "Glm46VProcessor", {"image_token": "<|image|>"}),
    "paddleocr-vl": ("paddleocr_vl", "PaddleOCRVLProcessor", {"image_token": "<|IMAGE_PLACEHOLDER|>"}),
    "ernie-4.5-vl": ("ernie4_5_vl_moe", "Ernie4_5_VLMoeProcessor", {"image_token": "<|IMAGE_PLACEHOLDER|>"}),
    "hunyuan-vl": (
        "hunyuan_vl",
        "HunYuanVLProcessor",
        {"image_token": "<｜hy_place▁holder▁no▁102｜>", "cat_extra_token": True},
    ),
    "deepseek-ocr-2": (
        "deepseek_ocr2",
        "DeepseekOcr2Processor",
        {"image_token": "<image>", "patch_size": 16, "downsample_ratio": 4},
    ),
    "ovis-2": ("ovis2", "Ovis2Processor", {"image_token": "<image>", "image_seq_length": 256}),
    "llava-1.5": (
        "llava",
        "LlavaProcessor",
        {
            "image_token": "<image>",
            "patch_size": 14,
            "num_additional_image_tokens": 1,
            "vision_feature_select_strategy": "default",
        },
    ),
    "llava-next": (
        "llava_next",
        "LlavaNextProcessor",
        {
            "image_token": "<image>",
            "patch_size": 14,
            "num_additional_image_tokens": 1,
            "vision_feature_select_strategy": "default",
        },
    ),
    "llava-onevision": (
        "llava_onevision",
        "LlavaOnevisionProcessor",
        {
            "image_token": "<image>",
            "num_image_tokens": 729,
            "vision_feature_select_strategy": "full",
            "vision_aspect_ratio": "anyres_max_9",
        },
    ),
    "pixtral": (
        "pixtral",
        "PixtralProcessor",
        {
            "patch_size": 16,
            "spatial_merge_size": 1,
            "image_token": "[IMG]",
            "image_break_token": "[IMG_BREAK]",
            "image_end_token": "[IMG_END]",
        },
    ),
    "mistral-3": (
        "pixtral",
        "PixtralProcessor",
        {
            "patch_size": 14,
            "spatial_merge_size": 2,
            "image_token": "[IMG]",
            "image_break_token": "[IMG_BREAK]",
            "image_end_token": "[IMG_END]",
        },
    ),
    "gemma-3-pan": (
        "gemma3",
        "Gemma3Processor",
        {"full_image_sequence": "\n\n<start_of_image>" + "<image_soft_token>" * 256 + "<end_of_image>\n\n"},
    ),
    "internvl-3": (
        "internvl",
        "InternVLProcessor",
        {
            "start_image_token": "<img>",
            "end_image_token": "</img>",
            "image_token": "<IMG_CONTEXT>",
            "image_seq_length": 256,
        },
    ),
    "qwen2.5-omni": ("qwen2_5_omni", "Qwen2_5OmniProcessor", {"image_token": "<|IMAGE|>"}),
    "qwen3-omni": ("qwen3_omni_moe", "Qwen3OmniMoeProcessor", {"image_token": "<|image_pad|>"}),
    "hyperclovax-vision-2": (
        "hyperclovax_vision_v2",
        "HyperCLOVAXVisionV2Processor",
        {"image_token": "<|image_pad|>"},
    ),
    "dots-note": ("dots3_note", "Dots3NoteProcessor", {"image_token": "<|imgpad|>"}),
    "llava-siglip": (
        "llava",
        "LlavaProcessor",
        {
            "image_token": "<image>",
            "patch_size": 14,
            "num_additional_image_tokens": 0,
            "vision_feature_select_strategy": "full",
        },
    ),
    "llava-next-video": (
        "llava_next_video",
        "LlavaNextVideoProcessor",
        {
            "image_token": "<image>",
            "patch_size": 14,
            "num_additional_image_tokens": 1,
            "vision_feature_select_strategy": "default",
        },
    ),
    "granite-4-vision": (
        "granite4_vision",
        "Granite4VisionProcessor",
        {
            "image_token": "<image>",
            "patch_size": 16,
            "num_additional_image_tokens": 0,
            "vision_feature_select_strategy": "full",
            "downsample_rate": "4/8",
        },
    ),
    "paligemma-2": ("paligemma", "PaliGemmaProcessor", {"image_token": "<image>", "image_seq_length": 1024}),
    "gemma-3n": (
        "gemma3n",
        "Gemma3nProcessor",
        {"full_image_sequence": "\n\n<start_of_image>" + "<image_soft_token>" * 256 + "<end_of_image>\n\n"},
    ),
    "aya-vision": (
        "aya_vision",
        "AyaVisionProcessor",
        {
            "img_size": 364,
            "patch_size": 28,
            "start_of_img_token": "<|START_OF_IMG|>",
            "end_of_img_token": "<|END_OF_IMG|>",
            "img_patch_token": "<|IMG_PATCH|>",
            "tile_token": "TILE",
            "tile_global_token": "TILE_GLOBAL",
        },
    ),
    "qianfan-ocr": (
        "qianfan_ocr",
        "QianfanOCRProcessor",
        {
            "start_image_token": "<img>",
            "end_image_token": "</img>",
            "image_token": "<IMG_CONTEXT>",
            "image_seq_length": 256,
        },
    ),
    "lighton-ocr": ("lighton_ocr", "LightOnOcrProcessor", {"image_token": "<|image_pad|>", "effective_patch_size": 28}),
    "gemma-4": (
        "gemma4",
        "Gemma4Processor",
        {"boi_token": "<|image>", "image_token": "<|image|>", "eoi_token": "<image|>"},
    ),
    "idefics-3": (
        "idefics3",
        "Idefics3Processor",
        {
            "fake_image_token": "<fake_token_around_image>",
            "image_token": "<image>",
            "global_image_tag": "<global-img>",
            "image_seq_len": 169,
        },
    ),
    "smolvlm": (
        "smolvlm",
        "SmolVLMProcessor",
        {
            "fake_image_token": "<fake_token_around_image>",
            "image_token": "<image>",
            "global_image_token": "<global-img>",
            "image_seq_len": 64,
        },
    ),
    "mllama": ("mllama", "MllamaProcessor", {"image_token": "<|image|>"}),
    "dots-ocr": ("qwen2_vl", "Qwen2VLProcessor", {"image_token": "<|imgpad|>"}),
    "intern-s1": (
        "internvl",
        "InternVLProcessor",
        {
            "start_image_token": "<img>",
            "end_image_token": "</img>",
            "image_token": "<IMG_CONTEXT>",
            "image_seq_length": 256,
        },
    ),
    "glm-5.3": ("glm5_next", "Glm5NextProcessor", {"image_token": "<|image|>"}),
    "cohere-compass": ("cohere_compass", "CohereCompassProcessor", {"image_token": "<|IMAGE_PAD|>"}),
    "cosmos-3-edge": ("cosmos3_edge", "Cosmos3EdgeProcessor", {"image_token": "<|image_pad|>"}),
    "hy4-vl": ("hy_v4_vl", "HYV4VLProcessor", {"image_token": "<|image_pad|>"}),
    "aria": ("aria", "AriaProcessor", {"image_token": "<|img|>", "size_conversion": {980: 256}}),
    "deepseek-vl": (
        "deepseek_vl",
        "DeepseekVLProcessor",
        {"image_token": "<image_placeholder>", "num_image_tokens": 576},
    ),
    "deepseek-vl-hybrid": (
        "deepseek_vl_hybrid",
        "DeepseekVLHybridProcessor",
        {"image_token": "<image_placeholder>", "num_image_tokens": 576},
    ),
    "minicpm-v-4.6": (
        "minicpmv4_6",
        "MiniCPMV4_6Processor",
        {
            "slice_mode": True,
            "image_token": "<|image_pad|>",
            "image_start_token": "<image>",
            "image_end_token": "</image>",
            "slice_start_token": "<slice>",
            "slice_end_token": "</slice>",
            "image_id_start_token": "<image_id>",
            "image_id_end_token": "</image_id>",
        },
    ),
}


OF_TORCH = {
    "minimax-m3": (
        "minimax_m3_vl",
        "MiniMaxM3VLProcessor",
        {"IMAGE_TOKEN": "]<]image[>["}
        | {"VISION_START_TOKEN": "]<]start of image[>[", "VISION_END_TOKEN": "]<]end of image[>["},
    ),
    "muse-glimmer": (
        "muse_glimmer",
        "MuseGlimmerProcessor",
        {"image_token": "<|patch|>", "image_start_token": "<|image_start|>", "image_end_token": "<|image_end|>"},
    ),
    "muse-spark": (
        "muse_spark",
        "MuseSparkProcessor",
        {"image_token": "<|patch|>", "image_start_token": "<|image_start|>", "image_end_token": "<|image_end|>"},
    ),
    "command-a-vision": (
        "cohere2_vision",
        "Cohere2VisionProcessor",
        {"patch_size": 16, "boi_token": "<|START_OF_IMG|>", "eoi_token": "<|END_OF_IMG|>"}
        | {"image_token": "<|IMG_PATCH|>", "img_line_break_token": "<|IMG_LINE_BREAK|>"},
    ),
    "gemma-4-unified": (
        "gemma4_unified",
        "Gemma4UnifiedProcessor",
        {"boi_token": "<|image>", "image_token": "<|image|>", "eoi_token": "<image|>"},
    ),
    "lfm2-vl": (
        "lfm2_vl",
        "Lfm2VlProcessor",
        {"image_token": "<image>", "image_start_token": "<|image_start|>", "image_end_token": "<|image_end|>"}
        | {"image_thumbnail_token": "<|img_thumbnail|>"},
    ),
    "step-3.7": (
        "step3p7",
        "Step3p7Processor",
        {"patch_feature_placeholder": "<im_patch>" * 81, "image_feature_placeholder": "<im_patch>" * 169},
    ),
    "unlimited-ocr": (
        "unlimited_ocr",
        "UnlimitedOcrProcessor",
        {"image_token": "<image>", "patch_size": 16, "downsample_ratio": 4},
    ),
    "minicpm-ocr": (
        "minicpm_ocr",
        "MiniCPMOcrProcessor",
        {"slice_mode": True, "image_token": "<|image_pad|>", "image_start_token": "<image>"}
        | {"image_end_token": "</image>", "slice_start_token": "<slice>", "slice_end_token": "</slice>"}
        | {"image_id_start_token": "<image_id>", "image_id_end_token": "</image_id>"},
    ),
    "nemotron-omni": (
        "nemotron_h_omni",
        "NemotronH_Omni_Reasoning_V3Processor",
        {"image_token": "<image>", "image_start_token": "<img>", "image_end_token": "</img>"},
    ),
    "inkling": ("inkling", "InklingProcessor", {"image_token": "<|unused_200054|>"}),
    "inkling-2": ("inkling2", "Inkling2Processor", {"image_token": "<|unused_200054|>"}),
}
"""Families whose processor of pictures needs torch: what the text is written from are our tensors, which are compared
elsewhere."""


def as_written_from(item: ItemFeatures, ours: Any) -> dict[str, Any]:
    """What the reference's methods read of a processed picture."""
    made: dict[str, Any] = {name: array.tolist() for name, array in item.tensors.items() if array.size < 1000}
    made |= {"num_soft_tokens_per_image": [item.tokens]}
    if "image_grid_thw" in made:
        made["image_grid_thw"] = item.tensors["image_grid_thw"]
    if "image_grid_hw" in made:
        made["image_grid_hw"] = item.tensors["image_grid_hw"]
    if "target_sizes" in made:
        made |= {"grids": [item.grid], "num_patches_per_image": [len(made["target_sizes"])]}
        made["target_sizes"] = item.tensors["target_sizes"]
    if "patch_newline_masks" in made:
        made["patch_newline_masks"] = [made["patch_newline_masks"]]
    if hasattr(ours, "whole"):
        made |= {"image_rows": [item.grid[0]], "image_cols": [item.grid[1]], "image_sizes": [ours.whole(item.size)]}
    return made


@pytest.mark.sampled(keep=2)
@pytest.mark.parametrize("name", OF_TORCH)
def test_the_tokens_of_a_picture_are_those_a_reference_with_torch_writes(name: str) -> None:
    family = FAMILIES[name]
    module, kind, facts = OF_TORCH[name]
    reference = getattr(importlib.import_module(f"transformers.models.{module}.processing_{module}"), kind)
    sizes = {
        "downsample_ratio": 0.5,
        "merge_size": 2,
        "tile_size": 512,
        "downsample_factor": 2,
        "encoder_patch_size": 16,
        "use_thumbnail": True,
        **family.preprocessor,
    }
    processor, rule = SimpleNamespace(**facts, image_processor=SimpleNamespace(**sizes)), rule_of(family)
    for method in dir(reference):
        if method.startswith(("replace_", "_get_", "_build_", "_compute_")) and callable(getattr(reference, method)):
            setattr(processor, method, getattr(reference, method).__get__(processor))
    ours = family_of(ModelFiles(family.model)).image(ModelFiles(family.model, family.preprocessor))
    asked: dict[str, Any] = {"lfm2-vl": {"use_image_special_tokens": True}, "minicpm-ocr": {"image_token_divisor": 4}}
    asked = asked.get(name, {})
    large = [Image.new("RGB", size) for size in ((1500, 900), (400, 2000), (3000, 100))]
    for picture in [*large, *(decode_image(encoded(each), EVERY_FORMAT) for each in CHOSEN)]:
        item = ours.item(picture)
        text = processor.replace_image_token(as_written_from(item, ours), 0, **asked)
        if name == "minicpm-ocr":
            (text,) = reference._prepend_local_ids(processor, ["<|image_pad|>"], [text], "<|image_pad|>")
        made = rule.replace(item, 0)
        assert list(made.ids) == list(WORDS.encode(text)), picture.size
        assert made.tokens == item.tokens == text.count(token_text(rule)), picture.size


def test_lfm2_writes_no_marks_where_its_configuration_says_so() -> None:
    files = ModelFiles({"model_type": "lfm2_vl"}, {}, {"use_image_special_tokens": False})
    item = family_of(files).image(files).item(Image.new("RGB", (1500, 900)))
    made = family_of(files).prompt(files, WORDS).replace(item, 0)
    assert set(made.ids) == {WORDS.token_id("<image>")}
    assert made.tokens == item.tokens


def rule_of(family: Family) -> PromptRule:
    files = ModelFiles(family.model, family.preprocessor, family.processor)
    return family_of(files).prompt(files, WORDS)


def bound(module: str, name: str, facts: dict[str, Any], family: Family) -> Any:
    """An object with the reference's methods and only the attributes they read."""
    if module == "pixtral":
        # The processor's module imports a size rule from the torch backend's; the PIL backend's module has the same rule.
        pil = importlib.import_module("transformers.models.pixtral.image_processing_pil_pixtral")
        sys.modules.setdefault("transformers.models.pixtral.image_processing_pixtral", pil)
    kind = getattr(importlib.import_module(f"transformers.models.{module}.processing_{module}"), name)
    processor = SimpleNamespace(**facts, image_processor=reference_processor(family))
    for method in dir(kind):
        if method.startswith(("replace_", "_get_", "_num_", "_prepend", "_calculate")) and callable(
            getattr(kind, method)
        ):
            found = getattr(kind, method)
            static = isinstance(inspect.getattr_static(kind, method), staticmethod)
            setattr(processor, method, found if static else found.__get__(processor))
    return processor


@pytest.mark.full
@pytest.mark.parametrize("name", PROCESSORS)
def test_the_tokens_of_a_picture_are_those_the_reference_writes(name: str) -> None:
    family = FAMILIES[name]
    module, kind, facts = PROCESSORS[name]
    processor, rule = bound(module, kind, facts, family), rule_of(family)
    files = ModelFiles(family.model, family.preprocessor, family.processor)
    ours = family_of(files).image(files)
    for picture in CHOSEN:
        data = encoded(picture)
        asked = {"return_row_col_info": True} if family.unbatched else {}
        inputs = processor.image_processor(images=[opened(data)], return_tensors="np", **family.call, **asked)
        more = {"image_token_divisor": 16} if name == "minicpm-v-4.6" else {}
        text = processor.replace_image_token(inputs, 0, **more)
        if name == "minicpm-v-4.6":
            (text,) = processor._prepend_local_ids(["<|image_pad|>"], [text], "<|image_pad|>")
        item = ours.item(decode_image(data, EVERY_FORMAT))
        made = rule.replace(item, 0)
        assert list(made.ids) == list(WORDS.encode(text)), picture.name
        assert made.tokens == item.tokens == text.count(token_text(rule)), picture.name
        assert [made.ids[i] for span in made.features for i in range(span.offset, span.stop)] == [
            rule.feature
        ] * made.tokens


@pytest.mark.parametrize("name", ["minicpm-v-2.6", "minicpm-v-4.5"])
def test_the_tokens_of_a_picture_are_those_the_published_code_writes(name: str) -> None:
    family = FAMILIES[name]
    processor, rule = reference_processor(family), rule_of(family)
    files = ModelFiles(family.model, family.preprocessor)
    ours = family_of(files).image(files)
    for picture in CHOSEN:
        item = ours.item(decode_image(encoded(picture), EVERY_FORMAT))
        text = processor.placeholder(item.size.width, item.size.height, 3)
        made = rule.replace(item, 3)
        assert list(made.ids) == list(WORDS.encode(text)), picture.name
        assert made.tokens == item.tokens == text.count("<unk>"), picture.name


def token_text(rule: PromptRule) -> str:
    return SPECIAL[rule.feature - 1000]


@pytest.mark.parametrize("shape", [(1, 1), (1, 3), (4, 2), (4, 4)])
def test_llama_4_tiles_are_written_as_the_reference_writes_them(shape: tuple[int, int]) -> None:
    module = importlib.import_module("transformers.models.llama4.processing_llama4")
    text = module.Llama4Processor._prompt_split_image(SimpleNamespace(), shape, 144)
    tiles = shape[0] * shape[1]
    item = ItemFeatures({}, Size(1, 1), (tiles + (tiles > 1)) * 144, shape)
    assert list(rule_of(FAMILIES["llama-4"]).replace(item, 0).ids) == list(WORDS.encode(text))


@pytest.mark.parametrize("name", ["kimi-k2.5", "kimi-vl", "phi-3", "phi-4", "qwen-vl", "deepseek-ocr"])
def test_families_of_one_run_repeat_their_token(name: str) -> None:
    rule = rule_of(FAMILIES[name])
    made = rule.replace(ItemFeatures({}, Size(1, 1), 5, (1, 1)), 0)
    assert [each for each in made.ids if each == rule.feature] == [rule.feature] * 5
    assert made.tokens == 5


@pytest.mark.parametrize("frames", [4, 6, 7])
def test_clips_of_qwen3_vl_carry_the_times_the_reference_writes(frames: int) -> None:
    module = importlib.import_module("transformers.models.qwen3_vl.processing_qwen3_vl")
    kind = module.Qwen3VLProcessor
    processor = SimpleNamespace(
        video_processor=SimpleNamespace(merge_size=2, temporal_patch_size=2),
        vision_start_token="<|vision_start|>",
        vision_end_token="<|vision_end|>",
        video_token="<|video_pad|>",
    )
    processor._calculate_timestamps = kind._calculate_timestamps.__get__(processor)
    indices, pairs = list(range(0, frames * 13, 13)), math.ceil(frames / 2)
    metadata = SimpleNamespace(fps=24.0, frames_indices=list(indices))
    inputs = {"video_grid_thw": np.array([[pairs, 4, 6]]), "video_metadata": [metadata]}
    text = kind.replace_video_token(processor, inputs, 0)
    padded = indices + indices[-1:] * (frames % 2)
    seconds = tuple((padded[i] / 24.0 + padded[i + 1] / 24.0) / 2 for i in range(0, len(padded), 2))
    item = ItemFeatures({}, Size(1, 1), pairs * 6, (pairs, 4, 6), Modality.VIDEO, {"seconds": seconds})
    assert list(timed_video_rule(WORDS, {}).replace(item, 0).ids) == list(WORDS.encode(text))


def test_ernies_own_template_writes_a_mark_of_its_own_for_a_picture() -> None:
    rules = [
        family_of(ModelFiles({"model_type": kind})).prompt(ModelFiles({"model_type": kind}), WORDS)
        for kind in ("ernie4_5_vl_moe", "ernie4_5_moe_vl")
    ]
    assert [WORDS.token_id(rule.text) for rule in rules] == [rule.anchor for rule in rules]
    assert [rule.text for rule in rules] == ["<|IMAGE_PLACEHOLDER|>", "<|image@placeholder|>"]
    assert {rule.feature for rule in rules} == {WORDS.token_id("<|IMAGE_PLACEHOLDER|>")}


def test_hunyuans_two_tokens_at_the_edges_are_left_out_where_its_configuration_says_so() -> None:
    counts = []
    for extra in (True, False):
        files = ModelFiles({"model_type": "hunyuan_vl"}, {}, {"cat_extra_token": extra})
        counts.append(family_of(files).image(files).measure(Size(512, 512))[0])
    assert counts == [16 * 17 + 2, 16 * 17]


@pytest.mark.full
def test_step3s_windows_are_written_as_the_reference_writes_them() -> None:
    family = FAMILIES["step3-vl"]
    files = ModelFiles(family.model)
    ours, rule = family_of(files).image(files), rule_of(family)
    rows = json.loads(gzip.decompress(REFERENCES.read_bytes()))["families"]["step3-vl"]
    wholes = {"whole": "<im_patch>" * 169, "window": "<im_patch>" * 81}
    texts = set()
    for picture in pictures()[::9]:
        row = rows[picture.name]
        if "text" not in row or picture.pixels > 300_000:
            continue
        width, height = opened(encoded(picture)).size
        tokens, grid = ours.measure(Size(height, width))
        made = rule.replace(ItemFeatures({}, Size(height, width), tokens, grid), 0)
        assert list(made.ids) == list(WORDS.encode(row["text"].format(**wholes))), picture.name
        texts.add(row["text"])
    assert len(texts) > 4


@pytest.mark.sampled(keep=5)
@pytest.mark.parametrize("columns", [True, False])
@pytest.mark.parametrize("low_columns", [None, True, False])
@pytest.mark.parametrize("own_start", [True, False])
def test_molmos_rows_are_written_as_the_reference_writes_them(
    columns: bool, low_columns: bool | None, own_start: bool
) -> None:
    kind = importlib.import_module("transformers.models.molmo2.processing_molmo2").Molmo2Processor
    facts = {
        "image_use_col_tokens": columns,
        "use_single_crop_col_tokens": low_columns,
        "use_single_crop_start_token": own_start,
    }
    ids = {
        "image_patch_id": "<im_patch>",
        "image_col_id": "<im_col>",
        "image_start_token_id": "<im_start>",
        "low_res_image_start_token_id": "<low_res_im_start>",
        "image_end_token_id": "<im_end>",
    }
    model = {"model_type": "molmo2", **{key: WORDS.token_id(text) for key, text in ids.items()}}
    files = ModelFiles(model, {}, facts)
    item = family_of(files).image(files).item(Image.new("RGB", (500, 330)))
    rule = family_of(files).prompt(files, WORDS)
    text = kind.replace_image_token(SimpleNamespace(**facts), {"image_grids": item.tensors["image_grids"]}, 0)
    made = rule.replace(item, 0)
    assert list(made.ids) == list(WORDS.encode(text)) == item.tensors["image_tokens"].tolist()
    assert made.tokens == item.tokens == text.count("<im_patch>")


@pytest.mark.parametrize("placeholder", ["<|kimi_image_placeholder|>", "<|media_pad|>"])
def test_kimi_k3_writes_the_size_that_a_picture_had_before_its_tokens(placeholder: str) -> None:
    """As vLLM's and SGLang's own code for the model does; the template writes one of two tokens for a picture."""

    class Words(TestVocabulary):
        def token_id(self, token: str) -> int | None:
            return None if token == "<|kimi_image_placeholder|>" != placeholder else super().token_id(token)

    files = ModelFiles({"model_type": "kimi_k3"}, {"media_proc_cfg": {"in_patch_limit": 64}, "auto_map": {"any": "x"}})
    row = family_of(files)
    assert row.image is not None
    assert row.prompt is not None
    item, rule = row.image(files).item(Image.new("RGB", (640, 333))), row.prompt(files, Words())
    assert (item.grid, item.tokens) == ((1, 6, 12), 18)
    text = f"<|media_begin|>image 640x333<|media_content|>{'<|media_pad|>' * 18}<|media_end|>"
    made = rule.replace(item, 0)
    assert (rule.text, rule.anchor) == (placeholder, WORDS.token_id(placeholder))
    assert list(made.ids) == list(WORDS.encode(text))
    assert made.tokens == 18
    with pytest.raises(UnsupportedModel, match="fixed_output_tokens"):
        row.image(ModelFiles(files.model, {"media_proc_cfg": {"fixed_output_tokens": 64}}))
