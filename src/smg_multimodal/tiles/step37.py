"""Step 3.7: the whole picture, and windows of it where it is large or long.

Above: `families.document_pipelines`. Below: `step3`, whose windows these are nearly, `pixels.transforms`. transformers resizes
bytes here, where Step3-VL's own code resizes floats. Follows transformers' image_processing_step3p7, which is there for
torchvision alone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from PIL import Image

from smg_multimodal.configs.keys import ProcessorClass, fixed_size, positive_number, settled
from smg_multimodal.pixels.collate import joined
from smg_multimodal.pixels.filters import Filter
from smg_multimodal.pixels.resample import BILINEAR, resample_of, resize
from smg_multimodal.pixels.transforms import (
    CLIP_MEAN,
    CLIP_STD,
    Normalizer,
    fused_normalizer,
    normalizer_of,
    write_tiles,
)
from smg_multimodal.records.errors import BadMedia
from smg_multimodal.records.types import Array, Bytes8, ItemFeatures, Size

__all__ = ["Step37Processor", "step37_image"]

_CLASS = ProcessorClass(
    frozenset({"Step3p7ImageProcessor"}),
    {"size": {"height": 728, "width": 728}, "patch_size": 504, "longest": 3024},
)
_THIN = 32
"""Pixels of a side below which a picture that is over four times as long is laid on a black square."""
_TOKEN = 56
"""Pixels of a token, each way."""
_MAX_AREA = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Step37Processor:
    """Pictures to (1, 3, side, side) floats of the whole and (windows, 3, window, window) of its windows, row by row."""

    normalizer: Normalizer
    side: int = 728
    window: int = 504
    longest: int = 3024
    resample: Filter = BILINEAR

    @property
    def per_whole(self) -> int:
        """Tokens of the whole picture."""
        return (self.side // _TOKEN) ** 2

    @property
    def per_window(self) -> int:
        """Tokens of a window."""
        return (self.window // _TOKEN) ** 2

    @staticmethod
    def _squared(size: Size) -> Size:
        """The size with which the rules begin: a thin line lies in the corner of a black square."""
        if min(size) >= _THIN or max(size) <= 4 * min(size):
            return size
        if max(size) ** 2 > _MAX_AREA:
            raise BadMedia(
                f"the image is {size.width}x{size.height}, and would have to be padded to a square of its width"
            )
        return Size(max(size), max(size))

    def _fitted(self, size: Size) -> Size:
        """Within the longest side that is looked at. Raises `BadMedia` where nothing is left."""
        if max(size) <= self.longest:
            return size
        scale = self.longest / max(size)
        fitted = Size(int(size.height * scale), int(size.width * scale))
        if not min(fitted):
            raise BadMedia(f"the image is {size.width}x{size.height}: nothing is left of it at {self.longest} pixels")
        return fitted

    def _span(self, fitted: Size) -> int:
        """The side of a window before it is resized; 0 for a picture without."""
        long, short = max(fitted), min(fitted)
        if long <= self.side:
            return short if long / short > 1.5 else 0
        return min(short, self.window) if long / short > 4 else self.window

    def plan(self, size: Size) -> tuple[Size, Size, int, tuple[int, int]]:
        """The size a picture is looked at in, that which windows are cut from, their side, and (rows, columns) of them."""
        fitted = self._fitted(self._squared(size))
        span = self._span(fitted)
        if not span:
            return fitted, fitted, 0, (0, 0)
        canvas = Size(*(self._rounded(side, span) for side in fitted))
        return fitted, canvas, span, (max(1, canvas.height // span), max(1, canvas.width // span))

    @staticmethod
    def _rounded(side: int, span: int) -> int:
        """A whole number of windows: one more only where more than a fifth of it is used."""
        return side if side < span else span * (side // span + (side % span > 0.2 * span))

    def measure(self, size: Size) -> tuple[int, tuple[int, ...]]:
        """Tokens that receive embeddings, and (rows, columns) of windows."""
        _, _, _, (rows, columns) = self.plan(size)
        return rows * columns * self.per_window + self.per_whole, (rows, columns)

    def nbytes(self, size: Size) -> int:
        """Bytes of the tensors of a picture of `size`; those of a few numbers are not counted."""
        _, _, _, (rows, columns) = self.plan(size)
        return 12 * (self.side**2 + rows * columns * self.window**2)

    def _resized(self, image: Image.Image, size: Size) -> Image.Image:
        if (image.height, image.width) == size:
            return image
        return Image.fromarray(np.ascontiguousarray(resize(image, size, self.resample)))

    def _tile(self, image: Image.Image, side: int) -> Array:
        out = np.empty((1, 3, side, side), np.float32)
        write_tiles(out, self._pixels(image, side), self.normalizer)
        return out

    def _pixels(self, image: Image.Image, side: int) -> Bytes8:
        if image.size == (side, side):
            return np.asarray(image)
        return resize(image, Size(side, side), self.resample)

    def item(self, image: Image.Image) -> ItemFeatures:
        """The tensors of one RGB picture; the mask says after which windows a row ends that is not the last."""
        size = Size(image.height, image.width)
        fitted, canvas, span, (rows, columns) = self.plan(size)
        squared = self._squared(size)
        if squared != size:
            image = image.crop((0, 0, squared.width, squared.height))
        windows = self._resized(image, canvas)
        count = rows * columns
        local = np.empty((count, 3, self.window, self.window), np.float32)
        for index in range(count):
            row, column = divmod(index, columns)
            box = (column * span, row * span, (column + 1) * span, (row + 1) * span)
            box = (*box[:2], min(box[2], canvas.width), min(box[3], canvas.height))
            local[index] = self._tile(windows.crop(box), self.window)[0]
        ends = np.array([(index + 1) % columns == 0 and index + 1 < count for index in range(count)], np.bool_)
        tensors: dict[str, Array] = {
            "pixel_values": self._tile(self._resized(image, fitted), self.side),
            "pixel_values_local": local,
            "num_local_patches": np.array([count], np.int64),
            "patch_newline_masks": ends,
        }
        return ItemFeatures(tensors, size, *self.measure(size))

    def collate(self, items: Sequence[ItemFeatures]) -> dict[str, Array]:
        """All wholes, and all windows one after the other."""
        return {name: joined([item.tensors[name] for item in items]) for name in items[0].tensors}


def step37_image(config: Mapping[str, Any]) -> Step37Processor:
    """From preprocessor_config.json. Its `max_image_size` is one number, the longest side that is looked at."""
    named = config.get("max_image_size")
    config = settled({**config, "max_image_size": None, **({} if named is None else {"longest": named})}, _CLASS)
    return Step37Processor(
        normalizer=normalizer_of(config, CLIP_MEAN, CLIP_STD, fused_normalizer),
        side=fixed_size(config).height,
        window=positive_number(config, "patch_size"),
        longest=positive_number(config, "longest"),
        resample=resample_of(config, BILINEAR),
    )
