"""Resizing eight-bit pictures, with Pillow's filters and Pillow's rounding, or torch's.

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

from smg_multimodal.configs.keys import RESIZE
from smg_multimodal.pixels.filters import PRECISION_BITS, TORCH_FILTERS, Filter, Taps, TorchFilter, taps
from smg_multimodal.pixels.kernel import Kernel, attempted
from smg_multimodal.pixels.passes import Colour, pixels_are_lent, resize_in_bands
from smg_multimodal.records.errors import BadMedia, UnsupportedModel
from smg_multimodal.records.types import Bytes8, Size

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


def resample_of(config: Mapping[str, Any], default: Image.Resampling) -> Filter:
    """The filter a preprocessor configuration names (Pillow's code under `resample`), or `default`; torch's where it says so
    under `RESIZE`.

    Every family asks this once, before any picture: so the kernel is compared with Pillow by then.
    """
    pass_order()
    code = config.get("resample")
    if code is None:
        found = default
    elif code in list(Image.Resampling):
        found = Image.Resampling(int(code))
    else:
        raise UnsupportedModel(f"resample {code!r} in the processor's configuration: this is no filter of Pillow's")
    return TorchFilter(found) if config.get(RESIZE) == "torch" and found in TORCH_FILTERS else found


class PassOrder(Enum):
    """Which pass comes first where Pillow resizes both ways. It decides how pixels are rounded in between."""

    ALWAYS_ACROSS = "across"
    DOWN_WHERE_SHORTER = "down where height shrinks more than twice as much as width (Pillow 13)"

    def down_first(self, before: tuple[int, int], after: Size) -> bool:
        """Whether the vertical pass comes first from (width, height) `before` to `after`."""
        width, height = before
        shorter = height - after.height
        return self is PassOrder.DOWN_WHERE_SHORTER and shorter > 0 and shorter > 2 * (width - after.width)


_BAND = 64
"""Rows or columns that are worked on at a time without the kernel."""

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


def resize(image: Image.Image, size: Size, resample: Filter, fill: Colour | None = None) -> Bytes8:
    """`image` (RGB) at `size`, as (height, width, 3) bytes of any strides. May be read-only: Pillow's own memory, lent.

    With `fill` the picture is first laid in the middle of a square of its longer side, filled with that colour.
    """
    if not (size.height > 0 and size.width > 0 and size.height * size.width <= _MAX_AREA):
        raise BadMedia(f"the image would have to be resized to {size.width}x{size.height}")
    order = pass_order()
    if order is not None and image.mode == "RGB":
        before = image.size if fill is None else (max(image.size),) * 2
        first = not isinstance(resample, TorchFilter) and order.down_first(before, size)
        pixels = attempted(lambda kernel: resize_in_bands(kernel, image, size, resample, fill=fill, down_first=first))
        if pixels is not None:
            return pixels
    if fill is not None:
        image = _on_square(image, fill)
    if image.size == (size.width, size.height):
        return np.asarray(image)
    if isinstance(resample, TorchFilter):
        return _by_taps(np.asarray(image), size, resample)
    return np.asarray(image.resize((size.width, size.height), resample))


def _by_taps(pixels: Bytes8, size: Size, resample: Filter) -> Bytes8:
    """Along the rows, then down the columns, in numpy: where Pillow does not do it and there is no kernel."""
    height, width, _ = pixels.shape
    if width != size.width:
        across = taps(width, size.width, resample)
        out = np.empty((height, size.width, 3), np.uint8)
        for top in range(0, height, _BAND):
            _weighed(pixels[top : top + _BAND].transpose(1, 0, 2), across, out[top : top + _BAND].transpose(1, 0, 2))
        pixels = out
    if height != size.height:
        down = taps(height, size.height, resample)
        out = np.empty((size.height, size.width, 3), np.uint8)
        for left in range(0, size.width, _BAND):
            _weighed(pixels[:, left : left + _BAND], down, out[:, left : left + _BAND])
        pixels = out
    return pixels


def _weighed(pixels: Bytes8, made: Taps, out: Bytes8) -> None:
    """Write what becomes of `pixels` along axis 0. Sums of weighted bytes fit 32 bits, as they do in Pillow and torch."""
    total = np.full(out.shape, 1 << (PRECISION_BITS - 1), np.int32)
    for tap in range(made.weights.shape[1]):
        places = np.minimum(made.first + tap, len(pixels) - 1)
        total += pixels[places].astype(np.int32) * made.weights[:, tap, None, None]
    np.copyto(out, np.clip(total >> PRECISION_BITS, 0, 255), casting="unsafe")


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
