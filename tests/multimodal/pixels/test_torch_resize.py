"""With `resize` "torch" pictures are resized by torch's kernel for bytes, bit for bit, and normalised as torchvision does it.

torch itself is asked by make_references.py, which wrote down what transformers' torchvision classes make; the arithmetic alone is
held against `byte_resize`, which was compared with torch on the whole corpus (docs/multimodal/torchvision.md).
"""

import numpy as np
import pytest
from byte_resize import resized
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from reference_families import FAMILIES, Family
from tests.tiers import examples
from variations import small_pictures
from written import assert_tensors, written_references

from smg_multimodal.configs.files import ModelFiles
from smg_multimodal.families.registry import family_of
from smg_multimodal.pixels import kernel, resample
from smg_multimodal.pixels.filters import TorchFilter
from smg_multimodal.pixels.resample import BICUBIC, BILINEAR, LANCZOS, resize
from smg_multimodal.records.types import Bytes8, Size

FILTERS = {"bilinear": TorchFilter(BILINEAR), "bicubic": TorchFilter(BICUBIC), "lanczos": TorchFilter(LANCZOS)}
SIDES = st.integers(1, 300)
BY_PILLOW = frozenset(
    {
        "phi-3",
        "molmo-2",
        "nemotron-omni",
        "inkling-2",
        *(family.name for family in FAMILIES.values() if family.published or family.vllm),
    }
)
"""Models whose own code, which engines run, resizes by Pillow, or floats alone, or nothing: `resize` changes nothing for them."""
BOTH = [family for family in FAMILIES.values() if family.name not in BY_PILLOW and not family.by_pillow]
SMALLER = {
    "kimi-k2.5": {"max_patches": 60},
    "kimi-k3": {"max_patches": 60},
    "inkling": {"rescale_image_frac": 0.7},
    "lfm2-vl": {"max_image_tokens": 20, "min_image_tokens": 9},
}
"""What has a picture resized by a class that resizes nothing that is small, or so that no byte differs."""
PIXELS = ("pixel_values", "image_pixel_values")


def noise(width: int, height: int, seed: int) -> Bytes8:
    """Half of the pictures are of nothing but black and white, where sums overshoot most."""
    rng = np.random.default_rng(seed)
    if seed % 2:
        return rng.integers(0, 2, (height, width, 3), np.uint8) * np.uint8(255)
    return rng.integers(0, 256, (height, width, 3), np.uint8)


@settings(max_examples=examples(60), deadline=None)
@given(SIDES, SIDES, SIDES, SIDES, st.integers(0, 1000), st.sampled_from(sorted(FILTERS)))
def test_bytes_are_those_of_torchs_arithmetic(
    width: int, height: int, wide: int, tall: int, seed: int, kind: str
) -> None:
    pixels = noise(width, height, seed)
    made = resize(Image.fromarray(pixels), Size(tall, wide), FILTERS[kind])
    assert np.array_equal(made, resized(pixels, (tall, wide), kind, torch=True))


@pytest.mark.parametrize("kind", FILTERS)
@pytest.mark.parametrize("size", [(40, 300), (300, 40), (1, 70), (70, 1), (3, 3), (40, 70)])
def test_a_side_that_stays_and_one_that_shrinks_to_nothing(kind: str, size: tuple[int, int]) -> None:
    """Weights of one, and of as many bits after the point as there are."""
    for pixels in (noise(70, 40, 1), noise(299, 297, 1), np.full((40, 70, 3), 255, np.uint8)):
        made = resize(Image.fromarray(pixels), Size(*size), FILTERS[kind])
        assert np.array_equal(made, resized(pixels, size, kind, torch=True))


@pytest.mark.parametrize("kind", FILTERS)
def test_without_the_kernel_the_bytes_are_the_same(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with_kernel = [resize(picture, Size(77, 201), FILTERS[kind]) for picture in small_pictures()]
    monkeypatch.setattr(resample, "pass_order", lambda: None)
    without = [resize(picture, Size(77, 201), FILTERS[kind]) for picture in small_pictures()]
    assert kernel.compiled_module() is not None
    assert all(np.array_equal(one, other) for one, other in zip(with_kernel, without, strict=True))


@pytest.mark.sampled(keep=12)
@pytest.mark.parametrize("family", BOTH, ids=lambda family: family.name)
def test_a_family_made_by_torch_equals_the_torchvision_backend(family: Family) -> None:
    files = ModelFiles(family.model, family.preprocessor, family.processor).resized_by("torch")
    ours = family_of(files).image(files)
    rows = zip(written_references()["by_torch"][family.name], small_pictures(), strict=True)
    taken = [(row, picture) for row, picture in rows if "refused" not in row]
    assert taken or family.name == "gemma-3-pan"  # whose torchvision class cannot stack a picture with its crops
    for row, picture in taken:
        assert_tensors(row, ours.collate([ours.item(picture)]), family.name)


@pytest.mark.full
@pytest.mark.sampled(keep=15)
@pytest.mark.parametrize("family", FAMILIES.values(), ids=lambda family: family.name)
def test_the_setting_reaches_every_family_but_those_whose_code_uses_pillow(family: Family) -> None:
    smaller = SMALLER.get(family.name, {})
    files = ModelFiles(family.model, {**family.preprocessor, **smaller}, family.processor)
    makers = [family_of(each).image(each) for each in (files.resized_by("pil"), files.resized_by("torch"))]
    made = [[maker.item(picture).tensors for picture in small_pictures()] for maker in makers]
    name = next(each for each in PIXELS if each in made[0][0])
    same = [np.array_equal(a[name], b[name]) for a, b in zip(*made, strict=True)]
    assert all(same) == (family.name in BY_PILLOW)
