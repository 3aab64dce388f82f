"""Molmo 2: the whole picture on one square, and overlapping squares of it on a canvas that fits their grid.

Above: `families.registry`. Below: `pixels.transforms`. Follows transformers' image_processing_molmo2. That resizes in single
precision without looking at more than the four nearest pixels, as torch does, and rounds to bytes: the order of its operations
is kept here.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from smg_multimodal.configs.key_kinds import refused
from smg_multimodal.configs.keys import ProcessorClass, fixed_size, settled
from smg_multimodal.pixels.collate import joined
from smg_multimodal.pixels.transforms import HALF, Normalizer, fused_normalizer, normalizer_of
from smg_multimodal.records.types import Array, Bytes8, Float32, ItemFeatures, Size

__all__ = ["Molmo2Processor", "Molmo2Tokens", "molmo2_image", "nearest_four"]

_MOLMO2 = ProcessorClass(
    frozenset({"Molmo2ImageProcessor"}), {"resample": 2, "size": {"height": 378, "width": 378}}, {"resample": (2,)}
)

Positions = NDArray[np.int64]


def _sources(length: int, wanted: int) -> tuple[tuple[Positions, Positions], tuple[Float32, Float32]]:
    """Which two of `length` values each of `wanted` lies between, and the weights of both."""
    scale = np.float32(length) / np.float32(wanted)
    place = (np.float64(scale) * (np.arange(wanted) + 0.5) - 0.5).astype(np.float32)
    place = np.maximum(place, np.float32(0))
    first = np.minimum(place.astype(np.int64), length - 1)
    late = np.clip(place - first.astype(np.float32), np.float32(0), np.float32(1))
    return (first, np.minimum(first + 1, length - 1)), (np.float32(1) - late, late)


def nearest_four(pixels: Bytes8, size: Size) -> Bytes8:
    """A picture (height, width, 3) at `size`, each pixel from the four nearest, rounded half to even.

    One product, then three of which each is added before rounding to single precision (as processors with fused operations do):
    upper right, upper left, lower left, lower right."""
    height, width, _ = pixels.shape
    rows, down = _sources(height, size.height)
    columns, across = _sources(width, size.width)
    out = np.empty((size.height, size.width, 3), np.uint8)
    step = max(1, 262144 // size.width)
    for start in range(0, size.height, step):
        part = slice(start, start + step)
        made = np.zeros((1, 1, 3), np.float32)
        for below, right in ((0, 1), (0, 0), (1, 0), (1, 1)):
            weights = down[below][part, None, None] * across[right][None, :, None]
            product = pixels[rows[below][part]][:, columns[right]] * weights.astype(np.float64)
            made = (product + made).astype(np.float32)
        out[part] = np.clip(np.rint(made), 0, 255)
    return out


@dataclass(frozen=True, slots=True)
class Molmo2Tokens:
    """The ids that stand for a picture, and where they stand: with `columns` one after each row of patches (of the whole
    picture too with `low_columns`); with `low_start` the whole begins with an id of its own."""

    patch: int = 151938
    column: int = 151939
    start: int = 151936
    low_start: int = 151940
    end: int = 151937
    columns: bool = True
    low_columns: bool = True
    own_start: bool = True

    def written(self, grid: tuple[int, ...]) -> list[int]:
        """The ids for (rows, columns) of the whole and (rows, columns) of the squares together."""
        low_rows, low_wide, rows, wide = grid
        low = [self.patch] * low_wide + [self.column] * self.low_columns
        high = [self.patch] * wide + [self.column] * self.columns
        first = self.low_start if self.own_start else self.start
        return [first, *low * low_rows, self.end, self.start, *high * rows, self.end]


@dataclass(frozen=True, slots=True)
class Molmo2Processor:
    """Pictures to (squares, patches, patch * patch * 3) floats, the whole first, and to rows of patches, each pooled to a token.

    `most` bounds the squares beside the whole; neighbours share `margins` patches before and after. `pool` is (height, width).
    """

    normalizer: Normalizer
    tokens: Molmo2Tokens = field(default_factory=Molmo2Tokens)
    side: int = 378
    patch: int = 14
    most: int = 8
    margins: tuple[int, int] = (4, 4)
    pool: tuple[int, int] = (2, 2)

    @property
    def _window(self) -> int:
        """Pixels between the beginnings of neighbouring squares."""
        return (self.side // self.patch - sum(self.margins)) * self.patch

    def tiling(self, size: Size) -> tuple[int, int]:
        """(rows, columns) of squares: the least that need no shrinking, else those that need the least of it."""
        most, margin = self.most, sum(self.margins) * self.patch
        shapes = sorted(
            ((down, across) for down in range(1, most + 1) for across in range(1, most // down + 1)),
            key=lambda shape: (shape[0] * shape[1], shape[0]),
        )
        inner = np.array([size.height - margin, size.width - margin], np.float32)
        with np.errstate(divide="ignore"):
            scales = ((np.array(shapes, np.float32) * np.float32(self._window)) / inner).min(axis=1)
        if (scales < 1).all():
            return shapes[int(scales.argmax())]
        return shapes[int(np.where(scales < 1, np.float32(10e9), scales).argmin())]

    def _pooled(self, length: int, axis: int) -> int:
        return -(-length // self.pool[axis])

    @property
    def whole_grid(self) -> tuple[int, int]:
        """(rows, columns) of tokens of the whole picture."""
        count = self.side // self.patch
        return self._pooled(count, 0), self._pooled(count, 1)

    def measure(self, size: Size) -> tuple[int, tuple[int, ...]]:
        """Tokens that receive embeddings, and (rows, columns) of them for the whole and for the squares together."""
        squares = [self._canvas(count) // self.patch for count in self.tiling(size)]
        grid = (*self.whole_grid, *(self._pooled(squares[axis], axis) for axis in (0, 1)))
        return grid[0] * grid[1] + grid[2] * grid[3], grid

    def _canvas(self, count: int) -> int:
        return count * self._window + sum(self.margins) * self.patch

    def nbytes(self, size: Size) -> int:
        """Bytes of the tensors of a picture of `size`, but for a few numbers."""
        rows, columns = self.tiling(size)
        tokens, grid = self.measure(size)
        floats = (1 + rows * columns) * (self.side // self.patch) ** 2 * self.patch**2 * 3
        return 4 * (floats + tokens * self.pool[0] * self.pool[1]) + 8 * len(self.tokens.written(grid))

    def patches(self, square: Bytes8) -> Float32:
        """(patches, patch * patch * 3) floats of one square."""
        count, patch = self.side // self.patch, self.patch
        cells = square.reshape(count, patch, count, patch, 3).transpose(0, 2, 1, 3, 4).reshape(count**2, patch**2, 3)
        out = np.empty(cells.shape, np.float32)
        for channel in range(3):
            self.normalizer.apply(cells[:, :, channel], channel, out[:, :, channel])
        return out.reshape(count**2, patch**2 * 3)

    def pools(self, places: Array) -> Array:
        """(tokens, patches pooled) indices; -1 where a window reaches over the edge."""
        (tall, wide), (high, broad) = self.pool, places.shape
        beyond = (self._pooled(high, 0) * tall - high, self._pooled(broad, 1) * wide - broad)
        padded = np.pad(places, [(each // 2, (each + 1) // 2) for each in beyond], constant_values=-1)
        cells = padded.reshape(padded.shape[0] // tall, tall, padded.shape[1] // wide, wide).transpose(0, 2, 1, 3)
        return cells.reshape(-1, tall * wide)

    def _places(self, rows: int, columns: int) -> Array:
        """The index of the patch that each cell of the canvas is seen by: of patches that are seen twice, the inner one."""
        count, (before, after) = self.side // self.patch, self.margins
        seen = np.arange(rows * columns * count**2, dtype=np.int32).reshape(rows, columns, count, count)
        kept = np.ones(seen.shape, np.bool_)
        kept[1:, :, :before], kept[:, 1:, :, :before] = False, False
        kept[:-1, :, count - after :], kept[:, :-1, :, count - after :] = False, False
        flat = seen.transpose(0, 2, 1, 3)[kept.transpose(0, 2, 1, 3)]
        return flat.reshape(self._canvas(rows) // self.patch, self._canvas(columns) // self.patch)

    def item(self, image: Image.Image) -> ItemFeatures:
        """The tensors of one RGB picture, and what vLLM asks for beside transformers': counts, and the ids of the prompt."""
        size, pixels = Size(image.height, image.width), np.asarray(image)
        rows, columns = self.tiling(size)
        tokens, grid = self.measure(size)
        count = (self.side // self.patch) ** 2
        out = np.empty((1 + rows * columns, count, self.patch**2 * 3), np.float32)
        out[0] = self.patches(nearest_four(pixels, Size(self.side, self.side)))
        canvas = nearest_four(pixels, Size(self._canvas(rows), self._canvas(columns)))
        for index in range(rows * columns):
            top, left = (self._window * each for each in divmod(index, columns))
            out[1 + index] = self.patches(canvas[top : top + self.side, left : left + self.side])
        whole = np.arange(count, dtype=np.int32).reshape(self.side // self.patch, -1)
        squares = self.pools(self._places(rows, columns))
        pools = np.concatenate([self.pools(whole), np.where(squares >= 0, squares + np.int32(count), np.int32(-1))])
        written = np.array(self.tokens.written(grid), np.int64)
        tensors: dict[str, Array] = {
            "pixel_values": out,
            "image_token_pooling": pools.astype(np.int32),
            "image_grids": np.array([grid], np.int64),
            "image_num_crops": np.array([len(out)], np.int64),
            "image_num_pooled_patches": np.array([tokens], np.int64),
            "image_num_patches": np.array([len(out) * count], np.int64),
            "image_tokens": written,
            "num_image_tokens": np.array([len(written)], np.int64),
        }
        return ItemFeatures(tensors, size, tokens, grid)

    def collate(self, items: Sequence[ItemFeatures]) -> dict[str, Array]:
        """All of each; pooled patches are counted through all pictures."""
        made = {name: joined([item.tensors[name] for item in items]) for name in items[0].tensors}
        before = np.cumsum([0, *(int(item.tensors["image_num_patches"][0]) for item in items)])
        pools = [item.tensors["image_token_pooling"] for item in items]
        moved = [
            np.where(each >= 0, each + np.int32(count), each) for each, count in zip(pools, before[:-1], strict=True)
        ]
        return {**made, "image_token_pooling": joined(moved)}


def _tokens(model: Mapping[str, Any], processor: Mapping[str, Any]) -> Molmo2Tokens:
    columns = processor.get("image_use_col_tokens") is not False
    low = processor.get("use_single_crop_col_tokens")
    usual = Molmo2Tokens()
    return Molmo2Tokens(
        patch=int(model.get("image_patch_id") or usual.patch),
        column=int(model.get("image_col_id") or usual.column),
        start=int(model.get("image_start_token_id") or usual.start),
        low_start=int(model.get("low_res_image_start_token_id") or usual.low_start),
        end=int(model.get("image_end_token_id") or usual.end),
        columns=columns,
        low_columns=columns if low is None else bool(low),
        own_start=processor.get("use_single_crop_start_token") is not False,
    )


def molmo2_image(config: Mapping[str, Any], model: Mapping[str, Any], processor: Mapping[str, Any]) -> Molmo2Processor:
    """From preprocessor_config.json, config.json and processor_config.json."""
    config = settled(config, _MOLMO2)
    size = fixed_size(config)
    if size.height != size.width:
        raise refused("size", dict(config["size"]), "a square is needed")
    patch = int(config.get("patch_size") or 14)
    if size.height % patch:
        raise refused("patch_size", patch, f"a square of {size.height} pixels is no whole number of patches")
    before, after = config.get("overlap_margins") or (4, 4)
    tall, wide = config.get("pooling_size") or (2, 2)
    return Molmo2Processor(
        normalizer=normalizer_of(config, HALF, HALF, fused_normalizer),
        tokens=_tokens(model, processor),
        side=size.height,
        patch=patch,
        most=int(config.get("max_crops") or 8),
        margins=(int(before), int(after)),
        pool=(int(tall), int(wide)),
    )
