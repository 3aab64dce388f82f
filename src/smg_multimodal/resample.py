"""Resizing eight-bit pictures, with Pillow's filters and Pillow's rounding.

Above: the family modules. Below: Pillow, and `passes`, which does the same several times as fast where wasmtime is installed.
The only place where a picture changes size; everything else in the package moves or normalises pixels that exist. Codes of the
filters are Pillow's, as preprocessor_config.json states them. Before the fast way is used in a process its bytes are compared
with Pillow's; a single difference, and Pillow resizes everything.
"""

from collections.abc import Mapping
from enum import Enum
from functools import cache
from typing import Any

import numpy as np
from PIL import Image

from smg_multimodal.errors import BadMedia
from smg_multimodal.kernel import Kernel, attempted
from smg_multimodal.passes import Colour, pixels_are_lent, resize_in_bands
from smg_multimodal.types import Bytes8, Size

__all__ = [
    "BICUBIC",
    "BILINEAR",
    "LANCZOS",
    "PassOrder",
    "centre_crop",
    "on_canvas",
    "pass_order",
    "resample_of",
    "resize",
]

BILINEAR = Image.Resampling.BILINEAR
BICUBIC = Image.Resampling.BICUBIC
LANCZOS = Image.Resampling.LANCZOS

_MAX_AREA = 64 * 1024 * 1024


def resample_of(config: Mapping[str, Any], default: Image.Resampling) -> Image.Resampling:
    """The filter a preprocessor configuration names (Pillow's code under `resample`), or `default`.

    Every family asks this once, before any picture: so the kernel is compared with Pillow by then.
    """
    pass_order()
    code = config.get("resample")
    return default if code is None else Image.Resampling(int(code))


class PassOrder(Enum):
    """Which pass comes first where Pillow resizes both ways. It decides how pixels are rounded in between."""

    ALWAYS_ACROSS = "across"
    DOWN_WHERE_SHORTER = "down where height shrinks more than twice as much as width (Pillow 13)"

    def down_first(self, before: tuple[int, int], after: Size) -> bool:
        """Whether the vertical pass comes first from (width, height) `before` to `after`."""
        width, height = before
        shorter = height - after.height
        return self is PassOrder.DOWN_WHERE_SHORTER and shorter > 0 and shorter > 2 * (width - after.width)


_PROBES: dict[Image.Resampling, tuple[tuple[tuple[int, int], Size], ...]] = {
    BICUBIC: (
        ((31, 23), Size(60, 47)),
        ((60, 47), Size(13, 21)),
        ((25, 50), Size(60, 30)),
        ((30, 64), Size(14, 27)),
        ((33, 20), Size(20, 50)),
        ((20, 33), Size(50, 20)),
    ),
    BILINEAR: (((31, 23), Size(60, 47)), ((60, 47), Size(13, 21))),
    LANCZOS: (((40, 30), Size(17, 24)),),
    Image.Resampling.BOX: (((40, 30), Size(17, 24)),),
}
"""(width, height) and size: larger, smaller, across each other, much shorter than narrower, one direction only."""


def _agrees(kernel: Kernel, order: PassOrder) -> bool:
    """Whether every probe has Pillow's bytes when passes come in `order`."""
    noise = (np.arange(60 * 64 * 3, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15) >> np.uint64(56)).astype(np.uint8)
    for resample, probes in _PROBES.items():
        for before, after in probes:
            image = Image.fromarray(noise[: before[0] * before[1] * 3].reshape(before[1], before[0], 3))
            first = order.down_first(before, after)
            found = resize_in_bands(kernel, image, after, resample, down_first=first)
            if found is None or not np.array_equal(found, np.asarray(image.resize(after[::-1], resample))):
                return False
    return True


@cache
def pass_order() -> PassOrder | None:
    """The order in which this Pillow works, found by comparing; None if the kernel is not there or does not agree."""
    if not pixels_are_lent():
        return None
    return attempted(lambda kernel: next((order for order in reversed(PassOrder) if _agrees(kernel, order)), None))


def _on_square(image: Image.Image, fill: Colour) -> Image.Image:
    if image.width == image.height:
        return image
    side = max(image.size)
    square = Image.new("RGB", (side, side), fill)
    square.paste(image, ((side - image.width) // 2, (side - image.height) // 2))
    return square


def resize(image: Image.Image, size: Size, resample: Image.Resampling, fill: Colour | None = None) -> Bytes8:
    """`image` (RGB) at `size`, as (height, width, 3) bytes of any strides. May be read-only: Pillow's own memory, lent.

    With `fill` the picture is first laid in the middle of a square of its longer side, filled with that colour.
    """
    if not (size.height > 0 and size.width > 0 and size.height * size.width <= _MAX_AREA):
        raise BadMedia(f"the image would have to be resized to {size.width}x{size.height}")
    order = pass_order()
    if order is not None and image.mode == "RGB":
        first = order.down_first(image.size if fill is None else (max(image.size),) * 2, size)
        pixels = attempted(lambda kernel: resize_in_bands(kernel, image, size, resample, fill=fill, down_first=first))
        if pixels is not None:
            return pixels
    if fill is not None:
        image = _on_square(image, fill)
    if image.size != (size.width, size.height):
        image = image.resize((size.width, size.height), resample)
    return np.asarray(image)


def on_canvas(pixels: Bytes8, size: Size, top: int, left: int, fill: Colour = (0, 0, 0)) -> Bytes8:
    """`pixels` laid at (`top`, `left`) on a canvas of `size` filled with `fill`; the same array when it fills it."""
    height, width, _ = pixels.shape
    if (height, width) == size:
        return pixels
    canvas = np.empty((size.height, 3, size.width), np.uint8).transpose(
        0, 2, 1
    )  # rows of planes, as resized pixels lie
    canvas[:top] = fill
    canvas[top + height :] = fill
    canvas[top : top + height, :left] = fill
    canvas[top : top + height, left + width :] = fill
    canvas[top : top + height, left : left + width] = pixels
    return canvas


def centre_crop(pixels: Bytes8, size: Size) -> Bytes8:
    """The middle `size` of `pixels`; where the picture is smaller, black fills the rest."""
    height, width, _ = pixels.shape
    top, left = (height - size.height) // 2, (width - size.width) // 2
    if top >= 0 and left >= 0:
        return pixels[top : top + size.height, left : left + size.width]
    tall, wide = max(size.height, height), max(size.width, width)
    above, before = -((height - tall) // 2), -((width - wide) // 2)
    padded = on_canvas(pixels, Size(tall, wide), above, before)
    top, left = top + above, left + before
    return padded[max(0, top) : min(tall, top + size.height), max(0, left) : min(wide, left + size.width)]
