"""Several items' tensors made one, as Hugging Face's processors return them for one call.

Above: the family modules. Below: numpy. Knows only two ways, end to end and padded side by side; a single item is never
copied.
"""

from collections.abc import Sequence

import numpy as np

from smg_multimodal.records.types import BFLOAT16, Array

__all__ = ["joined", "padded"]


def joined(arrays: Sequence[Array], axis: int = 0) -> Array:
    """`arrays` end to end along `axis`; a single array as it is."""
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays, axis=axis)


def padded(arrays: Sequence[Array], fill: float = 0.0) -> Array:
    """Arrays of shape (1, ...) end to end, every other axis padded at its end with `fill` to the largest."""
    shape = tuple(max(sizes) for sizes in zip(*(array.shape[1:] for array in arrays), strict=True))
    if all(array.shape[1:] == shape for array in arrays):
        return joined(arrays)
    dtype = arrays[0].dtype
    filled = int(np.float32(fill).view(np.uint32)) >> 16 if dtype == BFLOAT16 else fill
    out = np.full((sum(len(array) for array in arrays), *shape), filled, dtype)
    row = 0
    for array in arrays:
        where = (slice(row, row + len(array)), *(slice(0, extent) for extent in array.shape[1:]))
        out[where] = array
        row += len(array)
    return out
