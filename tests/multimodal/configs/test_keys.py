"""Every key of a processor's configuration is honoured bit for bit, or the model is refused by the key's name.

The law is walked over every family of `families.FAMILIES` and every key that transformers' own class of that family takes, with
other values than the defaults (`variations`): what transformers makes of some pictures is what is made here, or the key is
refused at load, and then it is one that changes what transformers makes. A new family joins by its row in `families.FAMILIES`
(`reference` for a class of the PIL backend, `torch` for one that make_references.py runs), values for keys that no other class
has in `variations.VALUES`, and `settled(config, ITS_CLASS)` at the head of its maker.
"""

import re
from typing import Any

import numpy as np
import pytest
from reference_families import FAMILIES, Family, reference, reference_processor
from variations import Change, small_pictures, variations
from written import assert_tensors, written_references

from smg_multimodal.configs.files import ModelFiles
from smg_multimodal.families.registry import family_of
from smg_multimodal.records.errors import BadMedia, UnsupportedModel

PIL_FAMILIES = [family for family in FAMILIES.values() if family.reference]
OF_EACH_CLASS = list({family.reference: family for family in reversed(PIL_FAMILIES)}.values())  # its first family
OTHERS = [family for family in PIL_FAMILIES if family not in OF_EACH_CLASS]
TORCH_FAMILIES = [family for family in FAMILIES.values() if family.torch]
Made = list[dict[str, np.ndarray[Any, Any]]]


def theirs(family: Family, change: Change) -> Made | None:
    """What transformers makes of each picture; None where it refuses the configuration or a picture."""
    try:
        processor = reference_processor(family, **change)
        return [reference(family, processor, [picture]) for picture in small_pictures()]
    except (ValueError, TypeError, AttributeError, ZeroDivisionError, KeyError):
        return None


def ours(family: Family, change: Change) -> Made | UnsupportedModel | BadMedia:
    """What is made here of each picture, or why nothing is: the model was refused, or a picture."""
    files = ModelFiles(family.model, {**family.preprocessor, **change}, family.processor)
    made = []
    try:
        processor = family_of(files).image(files)
        for picture in small_pictures():
            item = processor.item(picture)
            assert processor.measure(item.size) == (item.tokens, item.grid)
            made.append(processor.collate([item]))
    except (UnsupportedModel, BadMedia) as error:
        return error
    return made


def alike(one: Made | None, other: Made | None) -> bool:
    if one is None or other is None:
        return one is other
    return all(np.array_equal(a[name], b[name]) for a, b in zip(one, other, strict=True) for name in a)


def assert_named(refusal: UnsupportedModel, change: Change) -> None:
    assert any(re.search(rf"\b{name}\b", str(refusal)) for name in change), (change, str(refusal))


@pytest.mark.full
@pytest.mark.parametrize("family", OF_EACH_CLASS, ids=lambda family: family.name)
def test_every_key_of_a_class_is_honoured_or_refused_by_name(family: Family) -> None:
    assert_honoured_or_refused(family)


@pytest.mark.slow
@pytest.mark.parametrize("family", OTHERS, ids=lambda family: family.name)
def test_every_key_of_another_family_of_a_class_is_honoured_or_refused_by_name(family: Family) -> None:
    assert_honoured_or_refused(family)


def assert_honoured_or_refused(family: Family) -> None:
    usual = theirs(family, {})
    for _, change in variations(family):
        expected, found, what = theirs(family, change), ours(family, change), str(change)
        if isinstance(found, UnsupportedModel):
            assert_named(found, change)
            assert not alike(expected, usual), f"{what} changes nothing, but is refused"
        elif isinstance(found, BadMedia):
            assert expected is None, what
        elif expected is not None:
            assert alike(expected, found), what


@pytest.mark.sampled(keep=1)
@pytest.mark.parametrize("family", TORCH_FAMILIES, ids=lambda family: family.name)
def test_every_key_of_a_class_for_torch_is_honoured_or_refused_by_name(family: Family) -> None:
    """The same against what make_references.py wrote down, since these classes cannot be loaded without torch."""
    usual, *varied = written_references()["keys"][family.name]
    assert varied
    for each in varied:
        found, what, expected = ours(family, each["change"]), str(each["change"]), each["rows"]
        refuses = any("refused" in row for row in expected)
        if isinstance(found, UnsupportedModel):
            assert_named(found, each["change"])
            assert expected != usual["rows"], f"{what} changes nothing, but is refused"
        elif isinstance(found, BadMedia):
            assert refuses, what
        elif not refuses:
            for row, tensors in zip(expected, found, strict=True):
                assert_tensors(row, tensors, what)
