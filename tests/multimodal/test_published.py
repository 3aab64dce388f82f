"""Models load as they are published, make what transformers makes, and count the tokens that the model counts."""

import importlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from published import PUBLISHED, Published, differences
from variations import small_pictures

from smg_multimodal.configs.files import ModelFiles
from smg_multimodal.families.registry import family_of
from smg_multimodal.records.errors import UnsupportedModel
from smg_multimodal.records.types import Size

COMPARED = [each for each in PUBLISHED if each.reference]


def files(published: Published) -> ModelFiles:
    return ModelFiles(published.model, published.preprocessor, published.processor)


def reference(published: Published) -> Any:
    """transformers' PIL class as its own loader would make it: of the keys that are not null."""
    name = published.reference
    module = importlib.import_module(f"transformers.models.{name}.image_processing_pil_{name}")
    (kind,) = (
        value
        for each, value in vars(module).items()
        if each.endswith("Pil") and isinstance(value, type) and value.__module__ == module.__name__
    )
    given = {key: value for key, value in published.preprocessor.items() if value is not None}
    return kind(**{key: value for key, value in given.items() if key not in ("image_seq_length", "return_tensors")})


@pytest.mark.parametrize("published", PUBLISHED, ids=lambda each: each.name)
def test_a_published_model_loads_and_counts_its_tokens(published: Published) -> None:
    loaded = family_of(files(published))
    made = loaded.image(files(published))
    assert published.counts
    for (width, height), tokens in published.counts.items():
        assert made.measure(Size(height, width))[0] == tokens, (width, height)


@pytest.mark.sampled(keep=9)
@pytest.mark.parametrize("published", COMPARED, ids=lambda each: each.name)
def test_a_published_model_makes_the_tensors_of_transformers(published: Published) -> None:
    theirs, ours = reference(published), family_of(files(published)).image(files(published))
    for picture in small_pictures():
        expected = theirs(images=[picture], return_tensors="np", **published.call)
        tensors = ours.collate([ours.item(picture)])
        for name, value in tensors.items():
            assert np.array_equal(value, np.asarray(expected[name])), name


def test_files_of_a_model_are_compared_with_its_row_key_by_key(tmp_path: Path) -> None:
    (row,) = (each for each in PUBLISHED if each.name.startswith("meta-llama"))
    assert list(differences(row, tmp_path)) == ["preprocessor_config.json is not there", "config.json is not there"]
    (tmp_path / "preprocessor_config.json").write_text(json.dumps({**row.preprocessor, "unknown": 1}))
    (tmp_path / "config.json").write_text(json.dumps(row.model))
    assert list(differences(row, tmp_path)) == []
    changed = {**row.preprocessor, "max_patches": 12, "size": {"height": 336, "width": 448}}
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(changed))
    assert list(differences(row, tmp_path)) == [
        "preprocessor_config.json: max_patches is 12, and 16 in the row",
        "preprocessor_config.json: size: width is 448, and 336 in the row",
    ]


def test_the_page_has_what_each_published_configuration_was_compared_with() -> None:
    page = (Path(__file__).parents[2] / "docs/multimodal/families.md").read_text()
    for each in PUBLISHED:
        assert f"| {each.name} | {each.compared or 'nothing'} |\n" in page


def test_a_class_that_a_family_is_not_made_by_is_refused_by_name() -> None:
    strange = ModelFiles({"model_type": "llava"}, {"image_processor_type": "ViltImageProcessor"})
    with pytest.raises(UnsupportedModel, match="image_processor_type 'ViltImageProcessor'"):
        family_of(strange).image(strange)


@pytest.mark.parametrize(
    ("told", "tokens"),
    [
        ({"max_pixels": 28 * 28 * 16}, 16),
        ({"images_kwargs": {"max_pixels": 28 * 28 * 9}}, 9),
        ({"size": {"shortest_edge": 784, "longest_edge": 28 * 28 * 4}}, 4),
        ({"videos_kwargs": {"max_pixels": 784}}, 100),
    ],
)
def test_what_engines_were_told_stands_before_the_files(told: dict[str, Any], tokens: int) -> None:
    qwen = files(PUBLISHED[0]).with_kwargs(told)
    assert family_of(qwen).image(qwen).measure(Size(280, 280))[0] == tokens
