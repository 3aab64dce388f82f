"""Tensors in the form in which they go over the wire: dtypes by name, little-endian bytes.

Above: `prepare`, which keeps items in an engine's form, and `packaging`. Below: `records.types`. An item that was put into an
engine's form once is sent again without another pass over its values. numpy has no bfloat16: an array of it is one of uint16,
the upper halves of the words, which no family's tensors are of otherwise. Pure.
"""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from smg_multimodal.records.errors import UnsupportedModel
from smg_multimodal.records.types import BFLOAT16, Array, ItemFeatures, Modality

__all__ = ["FloatType", "WireForm", "WireTensor", "wire_tensor"]

FloatType = Literal["float32", "bfloat16", "float16"]
"""The floats that engines take."""

_DTYPES = {
    "float32": np.float32,
    "float16": np.float16,
    "uint8": np.uint8,
    "int64": np.int64,
    "uint32": np.uint32,
    "int32": np.int32,
}
_ROUNDED = 64 * 1024
"""Floats that are rounded at a time: they stay in a core's cache from one step to the next."""


@dataclass(frozen=True, slots=True, eq=False)
class WireTensor:
    """Little-endian bytes in C order, with shape and dtype by name. `data` borrows the array's memory where it can."""

    data: memoryview
    shape: tuple[int, ...]
    dtype: str

    @property
    def nbytes(self) -> int:
        """How many bytes go over the wire."""
        return self.data.nbytes


@dataclass(frozen=True, slots=True)
class WireForm:
    """How an engine takes floats: as `floats`, and with `raw` the pixels that were left as they are as bytes."""

    floats: FloatType = "float32"
    raw: bool = False

    def of(self, features: ItemFeatures, primary: str) -> ItemFeatures:
        """The same item with its tensors in this form, of which `primary` is the encoder's."""
        pixels = "uint8" if self.raw and features.modality is not Modality.AUDIO else self.floats
        made = {
            name: _in_form(array, pixels if name == primary else self.floats)
            for name, array in features.tensors.items()
        }
        return replace(features, tensors=made)


def _in_form(array: Array, dtype: str) -> Array:
    """`array` in the dtype where it has floats; else as it is."""
    if not np.issubdtype(array.dtype, np.floating):
        return array
    return _bfloat16(array) if dtype == "bfloat16" else _converted(array, dtype)


def _converted(array: Array, dtype: str) -> Array:
    return np.ascontiguousarray(array, np.dtype(_DTYPES[dtype]).newbyteorder("<"))


def _bfloat16(array: Array) -> Array:
    """Round to nearest even, keeping the upper halves of the words."""
    bits = np.ascontiguousarray(array, np.float32).view(np.uint32).reshape(-1)
    made = np.empty(array.shape, "<u2")
    flat, odd = made.reshape(-1), np.empty(min(_ROUNDED, bits.size), np.uint32)
    for start in range(0, bits.size, _ROUNDED):
        block = bits[start : start + _ROUNDED]
        rounded = odd[: block.size]
        np.right_shift(block, 16, out=rounded)
        np.bitwise_and(rounded, 1, out=rounded)
        np.add(rounded, 0x7FFF, out=rounded)
        np.add(rounded, block, out=rounded)
        np.right_shift(rounded, 16, out=flat[start : start + _ROUNDED], casting="unsafe")
    return made


def _widened(array: Array) -> Array:
    """Values of bfloat16 as floats."""
    return (array.astype(np.uint32) << np.uint32(16)).view(np.float32)


def wire_tensor(array: Array, dtype: str | None = None) -> WireTensor:
    """`array` as it goes over the wire; floats become `dtype`, integers int64.

    `dtype` is float32, float16, bfloat16, or uint8 for pixels that were not normalised and so are whole. What is in that form
    already is not gone through again.
    """
    wanted = dtype or "float32"
    if wanted != "bfloat16" and wanted not in _DTYPES:
        raise UnsupportedModel(f"tensors cannot be sent as {dtype!r}")
    if array.dtype == BFLOAT16:
        out = np.ascontiguousarray(array) if wanted == "bfloat16" else _converted(_widened(array), wanted)
    elif array.dtype == np.uint8:
        out = np.ascontiguousarray(array) if wanted == "uint8" else _in_form(array.astype(np.float32), wanted)
    elif np.issubdtype(array.dtype, np.floating):
        out = _in_form(array, wanted)
    else:
        wanted, out = "int64", _converted(array, "int64")
    return WireTensor(out.reshape(-1).view(np.uint8).data, tuple(array.shape), wanted)
