"""A key whose value is of no kind that it takes is refused by its name, in every class; a flag that is null is false."""

from typing import Any

import numpy as np
import pytest
from reference_families import FAMILIES, Family, reference, reference_processor
from tests.multimodal.configs.test_keys import OF_EACH_CLASS
from variations import keys_of, small_pictures

from smg_multimodal.configs.files import ModelFiles
from smg_multimodal.configs.key_kinds import _KINDS, FLAGS, MOST_TILES
from smg_multimodal.configs.keys import ProcessorClass, settled
from smg_multimodal.families.registry import family_of
from smg_multimodal.records.errors import BadMedia, UnsupportedModel

STRANGE: tuple[Any, ...] = ("112", "x", True, 0, -5, float("nan"), float("inf"), {"height": 0}, ["a"], [[1]])
SIZES = ("size", "crop_size")
_NUMBERS = {"image_mean": (0, -5), "image_std": (-5,)}
"""What is as good as any other value to some keys."""


def loaded(family: Family, **change: Any) -> Any:
    files = ModelFiles(family.model, {**family.preprocessor, **change}, family.processor)
    return family_of(files).image(files)


@pytest.mark.sampled(keep=16)
@pytest.mark.parametrize("family", OF_EACH_CLASS, ids=lambda family: family.name)
def test_a_value_of_another_kind_is_refused_by_its_keys_name(family: Family) -> None:
    for key in keys_of(family):
        for value in STRANGE if key in _KINDS or key in SIZES else ():
            if value in _NUMBERS.get(key, ()):
                continue
            with pytest.raises(UnsupportedModel, match=rf"\b{key}\b"):
                loaded(family, **{key: value})
        for value in ("true", 1, 0, [], {}) if key in FLAGS else ():
            with pytest.raises(UnsupportedModel, match=rf"\b{key}\b"):
                loaded(family, **{key: value})


@pytest.mark.full
@pytest.mark.sampled(keep=6)
@pytest.mark.parametrize("family", OF_EACH_CLASS, ids=lambda family: family.name)
def test_a_flag_that_is_null_does_what_it_does_in_transformers(family: Family) -> None:
    picture = small_pictures()[1]
    for key in FLAGS & set(keys_of(family)):
        try:
            expected = reference(family, reference_processor(family, **{key: None}), [picture])
        except (ValueError, TypeError, AttributeError, KeyError):
            continue  # transformers makes nothing of it
        try:
            made = loaded(family, **{key: None})
        except UnsupportedModel as error:
            assert key in str(error)  # noqa: PT017 - being made is as good
            continue
        except BadMedia:
            continue
        tensors = made.collate([made.item(picture)])
        assert all(np.array_equal(expected[name], tensors[name]) for name in expected), key


@pytest.mark.parametrize(
    ("name", "files"),
    [
        ("internvl-3", {"preprocessor": {"max_patches": MOST_TILES + 1}}),
        ("internvl-chat", {"model": {"max_dynamic_patch": 10**12}}),
        ("ovis-2", {"preprocessor": {"max_patches": 10**12}}),
        ("deepseek-ocr-2", {"preprocessor": {"max_patches": 10**12}}),
        ("llama-4", {"preprocessor": {"max_patches": 10**12}}),
        ("mllama", {"preprocessor": {"max_image_tiles": 10**12}}),
        ("llava-1.5", {"preprocessor": {"size": {"height": 100_000, "width": 100_000}}}),
    ],
)
def test_what_no_picture_is_made_of_is_refused_before_it_is_gone_through(
    name: str, files: dict[str, dict[str, Any]]
) -> None:
    family = FAMILIES[name]
    (key,) = next(iter(files.values()))
    model = {**family.model, **files.get("model", {})}
    changed = ModelFiles(model, {**family.preprocessor, **files.get("preprocessor", {})}, family.processor)
    with pytest.raises(UnsupportedModel, match=key):
        family_of(changed).image(changed)


@pytest.mark.parametrize("file", ["model", "processor"])
@pytest.mark.parametrize("key", ["vision_config", "thinker_config", "image_processor", "video_processor"])
def test_a_part_of_a_models_files_without_keys_is_refused_by_its_name(file: str, key: str) -> None:
    given: dict[str, Any] = {"model": {"model_type": "qwen2_vl"}}
    given[file] = {**given.get(file, {}), key: "x"}
    with pytest.raises(UnsupportedModel, match=key):
        family_of(ModelFiles(**given))


def test_a_size_may_have_no_sides_that_are_true() -> None:
    with pytest.raises(UnsupportedModel, match="crop_size"):
        settled({"crop_size": {"height": True, "width": 1}}, ProcessorClass(frozenset({"Some"})))
