"""MiniCPM-V 4.6: an overview of the picture and, where it is large, slices on a grid nearest its shape.

Above: `registry`. Below: `transforms`, `resample`. Follows transformers' image_processing_pil_minicpmv4_6: patches of all
views lie side by side in one (1, 3, patch, patches * patch) strip.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from PIL import Image

from smg_multimodal.collate import joined
from smg_multimodal.keys import ProcessorClass, settled
from smg_multimodal.resample import BICUBIC, Filter, resample_of, resize
from smg_multimodal.transforms import HALF, Normalizer, normalizer_of, write_columns
from smg_multimodal.types import Array, ItemFeatures, Size

__all__ = ["MiniCpmProcessor", "minicpm_image", "views_apart"]

_CLASS = ProcessorClass(frozenset({"MiniCPMV4_6ImageProcessor"}), {"do_resize": True}, {"do_resize": (True,)})


def _multiple(length: float, divisor: int) -> int:
    return max(round(length / divisor) * divisor, divisor)


@dataclass(frozen=True, slots=True)
class MiniCpmProcessor:
    """Pictures to (1, 3, patch, patches * patch) floats and (views, 2) int32 rows of (rows, columns) of patches.

    `block` patches a side are merged into one token (2 or 4). `most` bounds the slices; 1 turns slicing off.
    """

    normalizer: Normalizer
    most: int = 9
    resolution: int = 448
    patch: int = 14
    block: int = 4
    resample: Filter = BICUBIC

    def slices(self, size: Size) -> tuple[int, int]:
        """(rows, columns) of slices; (0, 0) for a picture that is not sliced."""
        wanted = min(math.ceil(size.width * size.height / self.resolution**2), self.most)
        if wanted <= 1:
            return 0, 0
        shape = math.log(size.width / size.height)
        best, least = (1, 1), math.inf
        for count in (wanted - 1, wanted, wanted + 1):
            if count == 1 or count > self.most:
                continue
            for rows in range(1, count + 1):
                if count % rows == 0:
                    error = abs(shape - math.log((count // rows) / rows))
                    if error < least or (error == least and rows > best[0]):
                        best, least = (rows, count // rows), error
        return best

    def _fit(self, height: float, width: float, *, enlarge: bool) -> Size:
        if height * width > self.resolution**2 or enlarge:
            aspect = width / height
            height = int(self.resolution / math.sqrt(aspect))
            width = int(height * aspect)
        side = self.patch * self.block
        return Size(_multiple(height, side), _multiple(width, side))

    def views(self, size: Size) -> tuple[Size, Size, tuple[int, int]]:
        """Size of the overview, size of one slice (0, 0 if none), and (rows, columns) of slices."""
        grid = self.slices(size)
        overview = self._fit(*size, enlarge=grid == (0, 0))
        if grid == (0, 0):
            return overview, Size(0, 0), grid
        cell = (_multiple(size.height, grid[0]) / grid[0], _multiple(size.width, grid[1]) / grid[1])
        return overview, self._fit(*cell, enlarge=True), grid

    def _patches(self, size: Size) -> int:
        return (size.height // self.patch) * (size.width // self.patch)

    def measure(self, size: Size) -> tuple[int, tuple[int, ...]]:
        """Tokens that receive embeddings, and (rows, columns) of slices."""
        overview, piece, grid = self.views(size)
        area = self.block**2
        return self._patches(overview) // area + grid[0] * grid[1] * (self._patches(piece) // area), grid

    def item(self, image: Image.Image) -> ItemFeatures:
        """The tensors of one RGB picture; `facts["tokens"]` has the token count of every view."""
        size = Size(image.height, image.width)
        overview, piece, grid = self.views(size)
        count = grid[0] * grid[1]
        out = np.empty(
            (1, 3, self.patch, (self._patches(overview) + count * self._patches(piece)) * self.patch), np.float32
        )
        edge = self._patches(overview) * self.patch
        write_columns(out[0, :, :, :edge], resize(image, overview, self.resample), self.normalizer, patch=self.patch)
        if count:
            whole = resize(image, Size(piece.height * grid[0], piece.width * grid[1]), self.resample)
            for index in range(count):
                row, column = divmod(index, grid[1])
                part = whole[
                    row * piece.height : (row + 1) * piece.height, column * piece.width : (column + 1) * piece.width
                ]
                start, edge = edge, edge + self._patches(piece) * self.patch
                write_columns(out[0, :, :, start:edge], part, self.normalizer, patch=self.patch)
        shapes = [overview] + [piece] * count
        rows = np.array([(view.height // self.patch, view.width // self.patch) for view in shapes], np.int32)
        per_view = tuple(self._patches(view) // self.block**2 for view in shapes)
        return ItemFeatures(
            {"pixel_values": out, "target_sizes": rows}, size, sum(per_view), grid, facts={"tokens": per_view}
        )

    def collate(self, items: Sequence[ItemFeatures]) -> dict[str, Array]:
        """All views' patches side by side; their sizes one after the other."""
        return {
            "pixel_values": joined([item.tensors["pixel_values"] for item in items], axis=-1),
            "target_sizes": joined([item.tensors["target_sizes"] for item in items]),
        }


def views_apart(features: ItemFeatures) -> dict[str, Array]:
    """The same picture view by view, as vLLM's class takes it: (1, views, 3, patch, longest) floats, each view's patches side by
    side with zeros after them, and (1, views, 2) rows of (rows, columns) of patches."""
    strip, sizes = features.tensors["pixel_values"], features.tensors["target_sizes"]
    lengths = [int(rows * columns) * strip.shape[2] for rows, columns in sizes]
    out = np.zeros((1, len(lengths), *strip.shape[1:3], max(lengths)), np.float32)
    start = 0
    for view, length in enumerate(lengths):
        out[0, view, :, :, :length] = strip[0, :, :, start : start + length]
        start += length
    return {"pixel_values": out, "target_sizes": sizes[None]}


def minicpm_image(config: Mapping[str, Any]) -> MiniCpmProcessor:
    """From preprocessor_config.json."""
    config = settled(config, _CLASS)
    return MiniCpmProcessor(
        normalizer=normalizer_of(config, HALF, HALF),
        most=1 if config.get("slice_mode") is False else int(config.get("max_slice_nums") or 9),
        resolution=int(config.get("scale_resolution") or 448),
        patch=int(config.get("patch_size") or 14),
        block=2 if config.get("downsample_mode") == "4x" else 4,
        resample=resample_of(config, BICUBIC),
    )
