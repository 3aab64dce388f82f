"""Every family's tensors go by the names that the engine's own model code takes; the embedded engine refuses any other."""

import io
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from PIL import Image
from reference_families import FAMILIES, Family
from sound_files import clip, recording
from vocabulary import TestVocabulary

from smg_core.engines.codecs.vllm.media import vllm_media
from smg_engine_contract.engines import vllm_engine_pb2 as pb
from smg_multimodal.configs.files import ModelFiles
from smg_multimodal.families.media_family import MediaFamily
from smg_multimodal.families.registry import FAMILIES as ROWS
from smg_multimodal.preparing.engine_names import SGLANG, VLLM, TensorNames
from smg_multimodal.preparing.packaging import _NOT_FOR_SGLANG, _NOT_FOR_VLLM, for_sglang, for_vllm
from smg_multimodal.preparing.prepare import Media, Prepared, Preparer
from smg_multimodal.recordings.audio import wave_of_pcm16
from smg_multimodal.records.errors import UnsupportedModel
from smg_multimodal.records.types import Modality
from smg_simulator.engine.media import SeenMedia, check_media, read_media
from smg_simulator.engine.refusal import Refused
from smg_simulator.engine.tensor_names import TAKEN, check_names

WORDS = TestVocabulary()
ON_VLLM = [
    family
    for family in FAMILIES.values()
    if family.published != "minicpmv" and family.name not in ("muse-spark", "nemotron-omni")
]
"""Of the MiniCPM before 4.6, of Muse Spark and of Nemotron Omni vLLM's servicer cannot pass on the pictures."""
ON_SGLANG = [family for family in FAMILIES.values() if family.name not in _NOT_FOR_SGLANG]
SGLANG_NAMES = {
    **{key: {"image_grid_thw"} for key in ("paddleocr-vl", "ernie-4.5-vl", "hunyuan-vl")},
    "deepseek-ocr": {"images_crop", "images_spatial_crop"},
    "unlimited-ocr": {"images_crop", "images_spatial_crop"},
    "deepseek-vl2": {"images_spatial_crop"},
    "deepseek-ocr-2": {"images_crop", "images_spatial_crop"},
    "step3-vl": {"patch_pixel_values"},
    "molmo-2": {"image_token_pooling", "image_grids"},
    "ovis-2": {"grids"},
    "qwen2-vl": {"image_grid_thw"},
    "glm-4v": {"image_grid_thw"},
    "kimi-k2.5": {"image_grid_thw"},
    "kimi-k3": {"image_grid_thw"},
    "llava-next": {"image_sizes"},
    "llava-next-video": {"image_sizes"},
    "llava-onevision": {"image_sizes"},
    "pixtral": {"image_sizes"},
    "llama-4": {"aspect_ratios"},
    "phi-3": {"image_sizes"},
    "phi-4": {"image_sizes", "image_attention_mask"},
    "minicpm-v": {"tgt_size"},
    "minicpm-ocr": {"tgt_size"},
    "minicpm-v-2.6": {"tgt_size"},
    **{key: {"image_grid_thw"} for key in ("qwen2.5-omni", "qwen3-omni", "hyperclovax-vision-2", "dots-note")},
    "lighton-ocr": {"image_sizes"},
    "gemma-4": {"image_position_ids"},
    "idefics-3": {"pixel_attention_mask"},
    "smolvlm": {"pixel_attention_mask"},
    **{
        key: {"image_grid_thw"}
        for key in ("glm-5.3", "dots-ocr", "cohere-compass", "cosmos-3-edge", "hy4-vl", "minimax-m3", "inkling-2")
    },
    **{key: {"image_grid_thw"} for key in ("muse-glimmer", "muse-spark")},
    "gemma-4-unified": {"image_position_ids"},
    "lfm2-vl": {"pixel_attention_mask", "spatial_shapes"},
    "step-3.7": {"patch_pixel_values", "num_patches"},
    "aria": {"pixel_mask"},
    "deepseek-vl-hybrid": {"high_res_pixel_values"},
    "mllama": {"aspect_ratio_ids", "aspect_ratio_mask"},
    "kimi-vl": {"image_grid_hws"},
}
"""Beside the pixels, what SGLang's items are asked for by name; what only says how pixels are split may come besides."""


def picture() -> bytes:
    out = io.BytesIO()
    Image.fromarray(np.random.default_rng(1).integers(0, 256, (60, 90, 3), np.uint8)).save(out, "PNG")
    return out.getvalue()


def prepared(files: ModelFiles, data: bytes, modality: Modality = Modality.IMAGE) -> Prepared:
    made = Preparer(files, WORDS)
    rule = next(rule for rule in made.rules if rule.modality is modality)
    return made.prepare([1, rule.anchor, 2], [Media(data, modality)])


def of(family: Family) -> Prepared:
    return prepared(ModelFiles(family.model, family.preprocessor, family.processor), picture())


def seen(made: Prepared) -> tuple[SeenMedia, ...]:
    (batch,) = for_vllm(made)
    message = pb.MultimodalInputs.FromString(b"".join(vllm_media(batch).pieces))
    return read_media(pb.GenerateRequest(mm_inputs=message))


def assert_taken(made: Prepared, kind: str, merge: int = 2) -> None:
    """By the embedded engine: the names of the tensors, their rows, and how many tokens they have in the prompt."""
    media = seen(made)
    check_names(media, kind)
    check_media(media, made.expanded.ids, merge, None, kind)


def test_the_embedded_engine_knows_the_names_of_every_row() -> None:
    """But of those that vLLM has no class for, or none any more."""
    for row in ROWS:
        others = {modality.value for modality in row.others if (row.name, modality) not in _NOT_FOR_VLLM}
        seen = row.image and (row.name, Modality.IMAGE) not in _NOT_FOR_VLLM
        wanted = {*(["image"] if seen else []), *others}
        for kind in row.model_types:
            assert wanted <= set(TAKEN[kind]), kind


@pytest.mark.sampled(keep=8)
@pytest.mark.parametrize("family", ON_VLLM, ids=lambda family: family.name)
def test_pictures_are_called_what_the_model_class_takes(family: Family) -> None:
    made = of(family)
    assert_taken(made, str(family.model["model_type"]), int(family.preprocessor.get("merge_size", 2)))


def film() -> bytes:
    out = io.BytesIO()
    first, *others = clip(80, 60, 6)
    first.save(out, "GIF", save_all=True, append_images=others, duration=500)
    return out.getvalue()


FILMED = [row for row in ROWS if Modality.VIDEO in row.others and (row.name, Modality.VIDEO) not in _NOT_FOR_VLLM]


@pytest.mark.full
@pytest.mark.sampled(keep=3)
@pytest.mark.parametrize("row", FILMED, ids=lambda row: row.name)
def test_clips_are_called_what_the_model_class_takes(row: MediaFamily) -> None:
    for kind in row.model_types:
        sizes = {"size": {"shortest_edge": 336}, "crop_size": 336} if kind.startswith("llava_next") else {}
        assert_taken(prepared(ModelFiles({"model_type": kind}, sizes), film(), Modality.VIDEO), kind)


@pytest.mark.full
def test_a_clip_for_a_model_that_takes_none_on_vllm_is_refused_by_name() -> None:
    made = prepared(ModelFiles({"model_type": "smolvlm"}), film(), Modality.VIDEO)
    with pytest.raises(UnsupportedModel, match="smolvlm takes no video on vLLM"):
        for_vllm(made)


@pytest.mark.parametrize(
    "kind",
    [
        *("qwen2_audio", "phi4mm", "gemma3n", "gemma4", "voxtral", "ultravox", "qwen3_asr", "glmasr", "granite_speech"),
        *(
            "inkling_mm_model",
            "audioflamingo3",
            "musicflamingo",
            "moss_transcribe_diarize",
            "whisper",
            "voxtral_realtime",
        ),
    ],
)
def test_recordings_are_called_what_the_model_class_takes(kind: str) -> None:
    pcm = (recording(1.0, seed=3) * 20000).astype("<i2").tobytes()
    assert_taken(prepared(ModelFiles({"model_type": kind}), wave_of_pcm16(pcm, 16000), Modality.AUDIO), kind)


@pytest.mark.full
@pytest.mark.sampled(keep=8)
@pytest.mark.parametrize("family", ON_VLLM, ids=lambda family: family.name)
def test_the_embedded_engine_refuses_any_other_name(family: Family) -> None:
    (media,) = seen(of(family))
    kind = str(family.model["model_type"])
    for name in media.tensors.keys() - set(media.flat.values()):
        for changed in (renamed(media.tensors, name, "by_another_name"), renamed(media.tensors, name, None)):
            if name in TAKEN[kind]["image"][1] and "by_another_name" not in changed:
                continue
            with pytest.raises(Refused):
                check_names([with_tensors(media, changed)], kind)


def renamed(tensors: Mapping[str, Any], old: str, new: str | None) -> dict[str, Any]:
    rest = {name: tensor for name, tensor in tensors.items() if name != old}
    return rest if new is None else {**rest, new: tensors[old]}


def with_tensors(media: SeenMedia, tensors: Mapping[str, Any]) -> SeenMedia:
    return SeenMedia(
        modality=media.modality,
        tensors=tensors,
        token_id=media.token_id,
        placeholders=media.placeholders,
        hashes=media.hashes,
        batched=frozenset(),
        flat={},
    )


@pytest.mark.sampled(keep=8)
@pytest.mark.parametrize("family", ON_SGLANG, ids=lambda family: family.name)
def test_sglang_is_sent_the_names_that_its_items_are_asked_for(family: Family) -> None:
    made = of(family)
    sizes = {layout.sizes for layout in made.family.layouts.values() if hasattr(layout, "sizes")}
    assert set(for_sglang(made).tensors) - sizes == SGLANG_NAMES.get(made.family.name, set())


@pytest.mark.parametrize("name", _NOT_FOR_SGLANG)
def test_pictures_that_sglangs_model_takes_otherwise_are_refused_by_name(name: str) -> None:
    with pytest.raises(UnsupportedModel, match=f"{name} takes no image on SGLang"):
        for_sglang(of(FAMILIES[name]))


@pytest.mark.parametrize("names", [VLLM, SGLANG])
def test_the_tables_rename_only_tensors_that_there_are(names: TensorNames) -> None:
    for (name, modality), changes in names.items():
        (row,) = (row for row in ROWS if row.name == name)
        _, layouts, _ = row.layout(modality)
        sizes = {layout.sizes for layout in layouts.values() if hasattr(layout, "sizes")}
        assert set(changes) <= set(layouts) | sizes, name
