"""Every family's tensors are those of transformers, bit for bit: same pixels, same grid, same number of tokens.

Families with a PIL processor are compared with transformers itself, run here, and those with a published one with its steps in
publishers.py. The others are compared with
references.json.gz, which make_references.py writes; a reference that is missing fails. The unmarked tests take small pictures:
each family one of every kind, and of the others a sixth, each family its own; `make test-slow` takes all of them.
"""

from typing import Any

import numpy as np
import pytest
from pictures import COUNT, EVERY_FORMAT, KINDS, Picture, encoded, fingerprint, pictures
from reference_families import FAMILIES, Family, opened, reference, reference_processor
from written import assert_tensors, written_references

from smg_multimodal.configs.files import ModelFiles
from smg_multimodal.decoding.decode import decode_image
from smg_multimodal.families.registry import family_of
from smg_multimodal.records.errors import BadMedia
from smg_multimodal.records.types import ImageProcessor, ItemFeatures

PIL_FAMILIES = [family for family in FAMILIES.values() if family.reference or family.published]
TORCH_FAMILIES = [family for family in FAMILIES.values() if family.torch or family.vllm]
QUICK = [
    picture for picture in pictures() if picture.pixels <= 160_000 and (picture.index < 48 or picture.index % 9 == 0)
]
OF_EVERY_KIND, OTHERS = QUICK[:20], QUICK[20:]
PARTS = 6


def quick(family: Family, families: list[Family]) -> list[Picture]:
    """The pictures that the unmarked tests compare `family` on, one of `families`. A family whose code another one is compared
    with takes a sixth of all."""
    return QUICK[::6] if family.kin else [*OF_EVERY_KIND, *OTHERS[families.index(family) % 6 :: 6]]


def rest(family: Family, families: list[Family]) -> list[Picture]:
    """The other pictures: the slow tests take them."""
    taken = quick(family, families)
    return [picture for picture in pictures() if picture not in taken]


def processor_of(family: Family) -> ImageProcessor:
    files = ModelFiles(family.model, family.preprocessor, family.processor)
    return family_of(files).image(files)


def assert_equal_to_transformers(family: Family, chosen: list[Picture]) -> None:
    ours, theirs = processor_of(family), reference_processor(family)
    compared = 0
    for picture in chosen:
        data = encoded(picture)
        try:
            expected = reference(family, theirs, [opened(data)])
        except (ValueError, MemoryError):
            with pytest.raises(BadMedia):
                ours.item(decode_image(data, EVERY_FORMAT))
            continue
        item = ours.item(decode_image(data, EVERY_FORMAT))
        tensors = ours.collate([item])
        for name, value in expected.items():
            assert tensors[name].dtype == value.dtype, (picture.name, name)
            assert tensors[name].shape == value.shape, (picture.name, name)
            assert np.array_equal(tensors[name], value), (picture.name, name, np.abs(tensors[name] - value).max())
        assert ours.measure(item.size) == (item.tokens, item.grid)
        compared += 1
    assert compared >= len(chosen) * 0.9


def assert_equal_to_written(family: Family, chosen: list[Picture]) -> None:
    ours, rows = processor_of(family), written_references()["families"][family.name]
    for picture in chosen:
        expected, data = rows[picture.name], encoded(picture)
        if "refused" in expected:
            with pytest.raises(BadMedia):
                ours.item(decode_image(data, EVERY_FORMAT))
            continue
        assert_row(expected, ours, ours.item(decode_image(data, EVERY_FORMAT)), picture.name)


def assert_row(expected: dict[str, Any], ours: ImageProcessor, item: ItemFeatures, label: str) -> None:
    expected = {name: row for name, row in expected.items() if name != "text"}
    assert expected.pop("tokens", [item.tokens]) == [item.tokens], label
    assert_tensors(expected, ours.collate([item]), label)
    assert ours.measure(item.size) == (item.tokens, item.grid)
    if "num_img_tokens" in expected:
        assert expected["num_img_tokens"]["values"] == [item.tokens]


@pytest.mark.full
def test_the_written_references_are_of_these_pictures() -> None:
    """The files this Pillow encodes are those the references were made from, and all are there."""
    written = written_references()
    assert written["pictures"] == fingerprint()
    assert set(written["families"]) == {family.name for family in TORCH_FAMILIES}
    for rows in written["families"].values():
        assert set(rows) == {picture.name for picture in pictures()}


def test_the_corpus_has_more_than_three_hundred_pictures_of_every_kind() -> None:
    made = pictures()
    assert len(made) == COUNT >= 300
    assert max(picture.size for picture in made) == (4096, 4096)
    assert min(picture.size for picture in made) == (1, 1)
    assert len({picture.kind for picture in made}) == 20


def test_every_family_with_code_of_its_own_is_compared_on_every_kind_and_every_small_picture_on_some_family() -> None:
    for families in (PIL_FAMILIES, TORCH_FAMILIES):
        own = [family for family in families if not family.kin]
        assert all({picture.kind for picture in quick(family, families)} == set(KINDS) for family in own)
        assert {picture for family in own for picture in quick(family, families)} == set(QUICK)


@pytest.mark.full
@pytest.mark.sampled(keep=4)
@pytest.mark.parametrize("family", PIL_FAMILIES, ids=lambda family: family.name)
def test_tensors_are_those_of_the_pil_backend(family: Family) -> None:
    assert_equal_to_transformers(family, quick(family, PIL_FAMILIES))


@pytest.mark.full
@pytest.mark.parametrize("family", TORCH_FAMILIES, ids=lambda family: family.name)
def test_tensors_are_those_written_down(family: Family) -> None:
    assert_equal_to_written(family, quick(family, TORCH_FAMILIES))


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("family", PIL_FAMILIES, ids=lambda family: family.name)
def test_all_tensors_are_those_of_the_pil_backend(family: Family, part: int) -> None:
    assert_equal_to_transformers(family, rest(family, PIL_FAMILIES)[part::PARTS])


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("family", TORCH_FAMILIES, ids=lambda family: family.name)
def test_all_tensors_are_those_written_down(family: Family, part: int) -> None:
    assert_equal_to_written(family, rest(family, TORCH_FAMILIES)[part::PARTS])


@pytest.mark.full
@pytest.mark.sampled(keep=12)
@pytest.mark.parametrize("family", PIL_FAMILIES, ids=lambda family: family.name)
def test_several_pictures_collate_as_in_one_call_of_the_reference(family: Family) -> None:
    chosen = [p for p in pictures() if 3000 < p.pixels < 90_000 and max(p.size) < 5 * min(p.size)][:4]
    ours = processor_of(family)
    expected = reference(family, reference_processor(family), [opened(encoded(picture)) for picture in chosen])
    tensors = ours.collate([ours.item(decode_image(encoded(picture), EVERY_FORMAT)) for picture in chosen])
    for name, value in expected.items():
        assert np.array_equal(tensors[name], value), name
