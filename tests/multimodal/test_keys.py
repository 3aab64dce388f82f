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
from families import FAMILIES, Family, reference, reference_processor
from PIL import Image
from variations import Change, label, variations

from smg_multimodal.errors import BadMedia, UnsupportedModel
from smg_multimodal.registry import ModelFiles, family_of

PIL_FAMILIES = [family for family in FAMILIES.values() if family.reference]
SIZES = ((150, 64), (31, 90))

Made = list[dict[str, np.ndarray[Any, Any]]]


def pictures() -> list[Image.Image]:
    rng = np.random.default_rng(7)
    return [
        Image.fromarray(rng.integers(0, 256, (h // 3 + 1, w // 3 + 1, 3), np.uint8)).resize((w, h), 2) for w, h in SIZES
    ]


def theirs(family: Family, change: Change) -> Made | None:
    """What transformers makes of each picture; None where it refuses the configuration or a picture."""
    try:
        processor = reference_processor(family, **change)
        return [reference(family, processor, [picture]) for picture in pictures()]
    except (ValueError, TypeError, AttributeError, ZeroDivisionError):
        return None


def ours(family: Family, change: Change) -> Made | UnsupportedModel | BadMedia:
    """What is made here of each picture, or why nothing is: the model was refused, or a picture."""
    files = ModelFiles(family.model, {**family.preprocessor, **change}, family.processor)
    made = []
    try:
        processor = family_of(files).image(files)
        for picture in pictures():
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


@pytest.mark.parametrize("family", PIL_FAMILIES, ids=lambda family: family.name)
def test_every_key_of_a_class_is_honoured_or_refused_by_name(family: Family) -> None:
    usual = theirs(family, {})
    for key, change in variations(family):
        expected, found, what = theirs(family, change), ours(family, change), label(key, change)
        if isinstance(found, UnsupportedModel):
            assert any(re.search(rf"\b{name}\b", str(found)) for name in change), (what, str(found))
            assert not alike(expected, usual), f"{what} changes nothing, but is refused"
        elif isinstance(found, BadMedia):
            assert expected is None, what
        elif expected is not None:
            assert alike(expected, found), what
