"""Which models are taken is transformers' own mapping: every one whose processor is here has a row, and every row its class."""

import pkgutil
from importlib import import_module

import pytest
from reference_families import FAMILIES
from transformers.models.auto.image_processing_auto import IMAGE_PROCESSOR_MAPPING_NAMES
from transformers.models.auto.processing_auto import PROCESSOR_MAPPING_NAMES

import smg_multimodal
from smg_multimodal.configs.files import ModelFiles
from smg_multimodal.configs.keys import ProcessorClass
from smg_multimodal.decoding.costs import TensorBound
from smg_multimodal.families.media_family import MediaFamily
from smg_multimodal.families.modalities import ClipProcessor
from smg_multimodal.families.pipelines import PIPELINES, class_of
from smg_multimodal.families.registry import FAMILIES as ROWS
from smg_multimodal.families.registry import family_of
from smg_multimodal.records.errors import BadMedia, UnsupportedModel
from smg_multimodal.records.types import Modality, Size
from smg_multimodal.tiles.llava import SquareProcessor

NO_CHAT = {
    "aimv2": "an encoder",
    "altclip": "embeddings",
    "blip": "captions and embeddings",
    "clip": "embeddings",
    "colpali": "retrieval",
    "colqwen2": "retrieval",
    "embedding_gemma2": "embeddings",
    "florence2": "tasks by name, and no chat template; neither vLLM nor SGLang has it",
    "git": "captions",
    "got_ocr2": "writes the whole prompt itself; neither vLLM nor SGLang has it",
    "groupvit": "embeddings",
    "instructblip": "its own encoder reads the prompt too; neither vLLM nor SGLang has it",
    "kosmos-2": "boxes in its prompt; neither vLLM nor SGLang has it",
    "metaclip_2": "embeddings",
    "shieldgemma2": "judges pictures",
    "siglip": "embeddings",
    "t5gemma2_encoder": "an encoder",
    "xclip": "embeddings",
}
"""Models that have a processor of a class that is here, and are not talked to."""

NOT_IN_TRANSFORMERS = {"phi3_v", "phi4mm", "qwen", "internvl_chat", "pixtral", "dots_ocr", "interns1"}
"""Model types of rows that come with code of their own; Pixtral's is that of its tower."""


def class_in_transformers(model_type: str) -> str | None:
    named = IMAGE_PROCESSOR_MAPPING_NAMES.get(model_type)
    if not named or model_type not in PROCESSOR_MAPPING_NAMES:
        return None
    return next(name for name in (named.get("torchvision"), named.get("pil")) if name).removesuffix("Pil")


def test_every_model_of_transformers_whose_processor_is_here_is_taken() -> None:
    taken = {kind for row in ROWS for kind in row.model_types}
    mapped = {kind for kind in IMAGE_PROCESSOR_MAPPING_NAMES if class_in_transformers(kind) in PIPELINES}
    assert len(mapped) > 25
    assert mapped - taken == set(NO_CHAT) & mapped
    assert not taken & set(NO_CHAT)


@pytest.mark.parametrize("row", [row for row in ROWS if row.image], ids=lambda row: row.name)
def test_a_row_has_the_class_that_transformers_has(row: object) -> None:
    for kind in row.model_types - NOT_IN_TRANSFORMERS:  # type: ignore[attr-defined]
        known = class_in_transformers(kind)
        if known is not None:
            assert known in row.image.classes, kind  # type: ignore[attr-defined]


def test_every_class_is_some_rows() -> None:
    assert {name for row in ROWS if row.image for name in row.image.classes} == set(PIPELINES)


@pytest.mark.parametrize("suffix", ["", "Fast", "Pil"])
def test_the_class_that_the_files_name_makes_the_pictures(suffix: str) -> None:
    """SigLIP's stretches a picture over its square, CLIP's crops it."""
    for name, kind, scaled in (("llava-siglip", "Siglip", Size(384, 384)), ("llava-1.5", "CLIP", 336)):
        row = FAMILIES[name]
        files = ModelFiles(row.model, {**row.preprocessor, "image_processor_type": f"{kind}ImageProcessor{suffix}"})
        made = family_of(files).image(files)  # type: ignore[misc]
        assert isinstance(made, SquareProcessor)
        assert made.scaled == scaled


@pytest.mark.parametrize("named", ["Gemma3ImageProcessor", "NobodysImageProcessor"])
def test_a_class_that_the_family_has_not_is_refused_by_name(named: str) -> None:
    row = FAMILIES["qwen2-vl"]
    files = ModelFiles(row.model, {**row.preprocessor, "image_processor_type": named})
    with pytest.raises(UnsupportedModel, match=f"image_processor_type '{named}'"):
        family_of(files).image(files)  # type: ignore[misc]


def test_every_name_of_a_class_is_known_to_the_table() -> None:
    """A class's own record of its names and the table of pipelines agree, so that none is refused by one of them."""
    found = pkgutil.walk_packages(smg_multimodal.__path__, "smg_multimodal.")
    modules = [import_module(each.name) for each in found]
    classes = [each for module in modules for each in vars(module).values() if isinstance(each, ProcessorClass)]
    pictures = {name for each in classes for name in each.names if name.endswith("ImageProcessor")}
    assert len(pictures) > 15
    for name in pictures:
        assert class_of(ModelFiles({}, {"image_processor_type": name})) in PIPELINES, name


@pytest.mark.full
@pytest.mark.sampled(per=("name",))
@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("size", [Size(1, 1), Size(1, 67_000_000), Size(67_000_000, 1), Size(1, 5000), Size(5000, 1)])
def test_extreme_shapes_are_refused_by_their_size_or_cost_little(name: str, size: Size) -> None:
    """Before anything is decoded. MiniCPM's views of a column become as long as the column is, and Inkling resizes nothing; what
    they cost is told, and it is the budget of tensors that refuses them."""
    row = FAMILIES[name]
    files = ModelFiles(row.model, row.preprocessor, row.processor)
    processor = family_of(files).image(files)  # type: ignore[misc]
    try:
        tokens, _ = processor.measure(size)
        bound = TensorBound(processor)(size)
    except BadMedia:
        return
    assert tokens > 0
    assert bound < 1 << 30 or name.startswith(("minicpm", "inkling"))


@pytest.mark.parametrize("told", ["32", -3, 10**9, [1], 1.5])
def test_tokens_of_a_picture_of_blip_2_that_cannot_be_are_refused_by_name(told: object) -> None:
    files = ModelFiles({"model_type": "blip-2", "num_query_tokens": told})
    with pytest.raises(UnsupportedModel, match="num_query_tokens"):
        family_of(files).image(files)  # type: ignore[misc]


FILMED = [(row, kind) for row in ROWS if Modality.VIDEO in row.others for kind in sorted(row.model_types)]


@pytest.mark.sampled(keep=9)
@pytest.mark.parametrize(("row", "kind"), FILMED, ids=[kind for _, kind in FILMED])
def test_frames_of_a_clip_at_the_edges_of_sampling_are_its_own_in_their_order(row: MediaFamily, kind: str) -> None:
    """One frame to ten minutes of 60 a second, at half a frame a second to 1000; what is too short is refused in words."""
    sizes = {"size": {"shortest_edge": 336}, "crop_size": 336} if kind.startswith("llava_next") else {}
    clips = row.others[Modality.VIDEO].process(ModelFiles({"model_type": kind}, sizes))
    assert isinstance(clips, ClipProcessor)
    taken = 0
    for total in (1, 2, 3, 7, 30, 1000, 36_000):
        for rate in (0.5, 1, 3, 23.976, 29.97, 60, 120, 1000):
            try:
                places = clips.sample(total, rate)
            except BadMedia:
                assert total == 1 or total / rate < 2, (total, rate)
                continue
            taken += 1
            assert places, (total, rate)
            assert places == sorted(places), (total, rate)
            assert 0 <= places[0] <= places[-1] < total, (total, rate)
    assert taken > 30
