"""Tensors as they go over the wire, and items that are kept in that form."""

import io
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from tests.multimodal.reference_families import FAMILIES
from tests.multimodal.vocabulary import TestVocabulary

from smg_multimodal.configs.files import ModelFiles
from smg_multimodal.pixels.collate import padded
from smg_multimodal.preparing.packaging import for_items, for_tokenspeed, for_vllm
from smg_multimodal.preparing.prepare import Media, Prepared, Preparer
from smg_multimodal.preparing.wire_forms import WireForm, WireTensor, wire_tensor
from smg_multimodal.records.errors import UnsupportedModel
from smg_multimodal.records.types import BFLOAT16, Array, Float32

WORDS = TestVocabulary()


def test_tensors_are_lent_not_copied_where_they_can_be() -> None:
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    lent = wire_tensor(array)
    array[0, 0] = 9
    assert np.frombuffer(lent.data, np.float32)[0] == 9
    assert wire_tensor(array, "float16").nbytes == 12
    assert wire_tensor(np.array([[1, 2]], np.int32)).dtype == "int64"
    assert wire_tensor(np.zeros((0, 3), np.float32)).nbytes == 0
    with pytest.raises(UnsupportedModel):
        wire_tensor(array, "complex64")


@given(st.lists(st.floats(width=32, allow_nan=False, min_value=-(2.0**100), max_value=2.0**100), min_size=1))
def test_bfloat16_is_the_nearest_there_is_and_of_two_the_even_one(values: list[float]) -> None:
    array = np.array(values, np.float32)
    sent = np.frombuffer(wire_tensor(array, "bfloat16").data, "<u2").astype(np.uint32)
    for bits, value in zip(sent.tolist(), values, strict=True):
        around = np.array([bits - 1 & 0xFFFF, bits, bits + 1 & 0xFFFF], np.uint32) << 16
        below, got, above = around.view(np.float32).astype(np.float64).tolist()
        others = [each for each in (below, above) if np.isfinite(each)]
        assert all(abs(got - value) <= abs(each - value) for each in others)
        assert bits % 2 == 0 or all(abs(got - value) < abs(each - value) for each in others)


def test_a_long_tensor_is_rounded_as_its_parts_are() -> None:
    array = np.random.default_rng(1).normal(size=(3, 50_000)).astype(np.float32)
    whole = wire_tensor(array, "bfloat16")
    parts = [bytes(wire_tensor(row, "bfloat16").data) for row in array]
    assert (whole.shape, bytes(whole.data)) == ((3, 50_000), b"".join(parts))


def picture(width: int, height: int) -> bytes:
    out = io.BytesIO()
    pixels = np.random.default_rng(width).integers(0, 256, (height, width, 3), np.uint8)
    Image.fromarray(pixels).save(out, "PNG")
    return out.getvalue()


def content(packed: Any) -> Any:
    """Everything that an engine is sent but the names of contents."""
    if isinstance(packed, WireTensor):
        return bytes(packed.data), packed.shape, packed.dtype
    if isinstance(packed, dict):
        return {key: content(value) for key, value in packed.items()}
    if isinstance(packed, tuple | list) and packed and hasattr(packed[0], "__dataclass_fields__"):
        return [content(each) for each in packed]
    if hasattr(packed, "__dataclass_fields__"):
        names = [name for name in packed.__dataclass_fields__ if name not in ("hashes", "content_hash")]
        return {name: content(getattr(packed, name)) for name in names}
    return packed


def prepared(preparer: Preparer, pictures: list[bytes]) -> Prepared:
    anchor = preparer.rules[0].anchor
    return preparer.prepare([1, *(each for _ in pictures for each in (anchor, 2))], [Media(each) for each in pictures])


def sent(made: Prepared, dtype: str, *, raw: bool = False) -> Any:
    """What each engine that takes such floats is sent, or why it cannot be."""
    found: list[Any] = [content(for_tokenspeed(made, dtype)), content(for_items(made, dtype))]
    try:
        found.append(content(for_vllm(made, dtype, raw=raw)))
    except UnsupportedModel as error:
        found.append(str(error))
    return found


@pytest.mark.full
@pytest.mark.sampled(keep=20)
@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("count", [1, 2])
def test_items_kept_in_an_engines_form_are_sent_as_those_that_are_put_into_it_later(name: str, count: int) -> None:
    family = FAMILIES[name]
    files = ModelFiles(family.model, family.preprocessor, family.processor)
    plain = Preparer(files, WORDS)
    pictures = [picture(60, 40), picture(90, 200)][: min(count, plain.family.limit)]
    for dtype in ("bfloat16", "float16"):
        kept, later = prepared(plain.sent_as(dtype), pictures), prepared(plain, pictures)  # type: ignore[arg-type]
        assert sent(kept, dtype) == sent(later, dtype)
        assert kept.expanded.ids == later.expanded.ids
        floats = [each for item in kept.items for each in item.features.tensors.values()]
        assert not any(array.dtype == np.float32 for array in floats)


@pytest.mark.parametrize("name", ["qwen2-vl", "glm-4.5v", "kimi-k2.5", "mistral-3"])
def test_pixels_that_the_engine_normalises_are_kept_as_bytes(name: str) -> None:
    family = FAMILIES[name]
    files = ModelFiles(family.model, family.preprocessor, family.processor).unnormalised()
    plain, pictures = Preparer(files, WORDS), [picture(112, 84)]
    kept = prepared(plain.sent_as("bfloat16", raw=True), pictures)
    assert sent(kept, "bfloat16", raw=True) == sent(prepared(plain, pictures), "bfloat16", raw=True)
    assert kept.items[0].features.nbytes < prepared(plain, pictures).items[0].features.nbytes / 3


def test_items_in_two_forms_are_two_items_and_the_usual_form_is_the_preparers_own() -> None:
    family = FAMILIES["qwen2-vl"]
    plain = Preparer(ModelFiles(family.model, family.preprocessor), WORDS)
    media = Media(picture(28, 28))
    others = [plain.sent_as("bfloat16"), plain.sent_as("float16"), plain.sent_as("bfloat16", raw=True)]
    assert len({each.key(media) for each in (plain, *others)}) == 4
    assert plain.sent_as("float32") is plain


def _in_halves(array: Float32) -> Array:
    return np.frombuffer(wire_tensor(array, "bfloat16").data, BFLOAT16).reshape(array.shape)


def test_rows_that_are_padded_with_a_value_have_it_in_every_form() -> None:
    one, two = np.full((1, 2, 3), 5, np.float32), np.full((1, 4, 1), 7, np.float32)
    for fill in (0.0, 1.0):
        whole = padded([one, two], fill)
        rounded = padded([_in_halves(each) for each in (one, two)], fill)
        assert bytes(wire_tensor(rounded, "bfloat16").data) == bytes(wire_tensor(whole, "bfloat16").data)


def test_what_is_in_one_form_is_sent_in_another_with_the_values_that_it_has() -> None:
    values = np.array([[1.5, -2.0, 0.0]], np.float32)
    for kept in (_in_halves(values), values.astype(np.float16)):
        assert np.array_equal(np.frombuffer(wire_tensor(kept).data, np.float32), values[0])
    whole = np.array([[0, 255]], np.uint8)
    assert np.array_equal(np.frombuffer(wire_tensor(whole, "float32").data, np.float32), [0, 255])
    assert wire_tensor(whole, "uint8").nbytes == 2
    assert WireForm() == WireForm("float32", raw=False)
