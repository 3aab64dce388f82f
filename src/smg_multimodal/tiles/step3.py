"""Step3-VL: the whole picture on one square, and windows of it where it is large or long.

Above: `families.registry`. Below: `pixels.floats`, `pixels.resample`. The rules are those of the processor in vLLM, since
transformers has none. Squares are made by interpolating normalised floats, as torch does: they are its to about a millionth,
not to the bit.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from PIL import Image

from smg_multimodal.pixels.collate import joined
from smg_multimodal.pixels.floats import FloatNormalizer, float_bands
from smg_multimodal.pixels.resample import BILINEAR, resize
from smg_multimodal.pixels.transforms import CLIP_MEAN, CLIP_STD
from smg_multimodal.records.errors import BadMedia
from smg_multimodal.records.types import Array, Bytes8, Float32, ItemFeatures, Size

__all__ = ["Step3Processor", "floats_at", "step3_image"]

_LONGEST = 3024
_THIN = 32
_MAX_AREA = 64 * 1024 * 1024
_ROWS = 16
"""Rows that are interpolated at a time."""
_NORMALIZER = FloatNormalizer(np.array(CLIP_MEAN, np.float32), np.array(CLIP_STD, np.float32), 1 / 255)


def floats_at(pixels: Bytes8, side: int) -> Float32:
    """(3, `side`, `side`) floats of a picture's bytes: CLIP's normalisation, then linear interpolation over what each pixel
    covers. Both are linear, so the interpolation comes first here, of which there is less."""
    out = np.empty((3, side, side), np.float32)
    for top, band in float_bands(pixels, Size(side, side), BILINEAR, _ROWS):
        out[:, top : top + _ROWS] = _NORMALIZER(band).transpose(2, 0, 1)
    return out


@dataclass(frozen=True, slots=True)
class Step3Processor:
    """Pictures to (1, 3, side, side) floats of the whole and (windows, 3, window, window) of its windows, row by row.

    `per_whole` and `per_window` tokens stand for each. `windowed` is off for models that see the whole alone.
    """

    side: int = 728
    window: int = 504
    per_whole: int = 169
    per_window: int = 81
    windowed: bool = True

    def _squared(self, size: Size) -> Size:
        """The size with which the rules begin: a thin line lies in the corner of a black square."""
        if min(size) >= _THIN or max(size) <= 4 * min(size):
            return size
        if max(size) ** 2 > _MAX_AREA:
            raise BadMedia(
                f"the image is {size.width}x{size.height}, and would have to be padded to a square of its width"
            )
        return Size(max(size), max(size))

    def _fitted(self, size: Size) -> Size:
        """Within the longest side that is looked at."""
        if max(size) <= _LONGEST:
            return size
        scale = _LONGEST / max(size)
        return Size(int(size.height * scale), int(size.width * scale))

    def _span(self, fitted: Size) -> int:
        """The side of a window before it is resized; 0 for a picture without."""
        long, short = max(fitted), min(fitted)
        if not self.windowed:
            return 0
        if long < self.side:
            return short if long / short > 1.5 else 0
        return min(short, self.window) if long / short > 4 else self.window

    def plan(self, size: Size) -> tuple[Size, Size, int, tuple[int, int]]:
        """The size a picture is looked at in, that which windows are cut from, their side, and (rows, columns) of them.

        Raises `BadMedia` for a picture of which nothing is left."""
        fitted = self._fitted(self._squared(size))
        if not min(fitted):
            raise BadMedia(f"the image is {size.width}x{size.height}: nothing is left of it at {max(fitted)} pixels")
        span = self._span(fitted)
        if not span:
            return fitted, fitted, 0, (0, 0)
        canvas = Size(*(self._rounded(side, span) for side in fitted))
        rows, columns = (1 if side <= span else math.ceil((side - span) / span + 1) for side in canvas)
        return fitted, canvas, span, (rows, columns)

    @staticmethod
    def _rounded(side: int, span: int) -> int:
        """A whole number of windows: one more only where more than a fifth of it is used."""
        ratio = side / span
        if ratio < 1:
            return side
        return span * (int(ratio) + (ratio - side // span > 0.2))

    def measure(self, size: Size) -> tuple[int, tuple[int, ...]]:
        """Tokens that receive embeddings, and (rows, columns) of windows."""
        _, _, _, (rows, columns) = self.plan(size)
        return rows * columns * self.per_window + self.per_whole, (rows, columns)

    def nbytes(self, size: Size) -> int:
        """Bytes of the tensors of a picture of `size`; those of a few numbers are not counted."""
        _, _, _, (rows, columns) = self.plan(size)
        return 12 * (self.side**2 + rows * columns * self.window**2)

    def _windows(self, image: Image.Image, span: int, grid: tuple[int, int]) -> Float32:
        out = np.empty((grid[0] * grid[1], 3, self.window, self.window), np.float32)
        for index in range(len(out)):
            row, column = divmod(index, grid[1])
            box = (column * span, row * span, (column + 1) * span, (row + 1) * span)
            out[index] = floats_at(np.asarray(image.crop(box)), self.window)
        return out

    def item(self, image: Image.Image) -> ItemFeatures:
        """The tensors of one RGB picture; the mask says after which windows a row ends that is not the last."""
        size = Size(image.height, image.width)
        fitted, canvas, span, (rows, columns) = self.plan(size)
        squared = self._squared(size)
        if squared != size:
            image = image.crop((0, 0, squared.width, squared.height))
        if fitted != squared:
            image = Image.fromarray(np.ascontiguousarray(resize(image, fitted, BILINEAR)))
        whole = floats_at(np.asarray(image), self.side)[None]
        if canvas != fitted:
            image = Image.fromarray(np.ascontiguousarray(resize(image, canvas, BILINEAR)))
        count = rows * columns
        ends = np.array([(index + 1) % columns == 0 and index + 1 < count for index in range(count)], np.bool_)
        tensors: dict[str, Array] = {
            "pixel_values": whole,
            "patch_pixel_values": self._windows(image, span, (rows, columns)),
            "num_patches": np.array([count], np.int64),
            "patch_newline_mask": ends,
        }
        return ItemFeatures(tensors, size, *self.measure(size))

    def collate(self, items: Sequence[ItemFeatures]) -> dict[str, Array]:
        """All wholes, and all windows one after the other."""
        return {name: joined([item.tensors[name] for item in items]) for name in items[0].tensors}


def step3_image(model: Mapping[str, Any]) -> Step3Processor:
    """From config.json: vLLM reads no other file."""
    return Step3Processor(windowed=(model.get("vision_config") or {}).get("enable_patch") is not False)
