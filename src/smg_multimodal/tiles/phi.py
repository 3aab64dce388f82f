"""Phi-3 vision and Phi-4 multimodal: high-definition tiles on white, and a global view of the same canvas.

Above: `families.registry`. Below: `pixels.transforms`, `pixels.resample`. Phi-4 follows transformers'
image_processing_phi4_multimodal, Phi-3 the processor published with the model. Both make the global view by bicubic
interpolation of the normalised floats, without antialiasing; since the canvas is a whole number of tiles, only four pixels in
each direction matter for each of its points, so the floats of the rest of the canvas are never held.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from PIL import Image

from smg_multimodal.configs.key_kinds import refused
from smg_multimodal.configs.keys import RESIZE, ProcessorClass, fixed_size, settled
from smg_multimodal.pixels.collate import joined, padded
from smg_multimodal.pixels.filters import Filter
from smg_multimodal.pixels.resample import BILINEAR, on_canvas, resample_of, resize
from smg_multimodal.pixels.transforms import (
    CLIP_MEAN,
    CLIP_STD,
    HALF,
    Normalizer,
    fused_normalizer,
    normalizer_of,
    write_tiles,
)
from smg_multimodal.records.errors import BadMedia
from smg_multimodal.records.types import Array, Bytes8, Float32, Float64, ItemFeatures, Size

__all__ = ["Phi3Processor", "Phi4Processor", "phi3_image", "phi4_image", "write_overview"]


_PHI3 = ProcessorClass(
    frozenset({"Phi3VImageProcessor"}), {"num_img_tokens": 144}, {"num_img_tokens": (144,)}, own=True
)
_PHI4 = ProcessorClass(
    frozenset({"Phi4MultimodalImageProcessor"}),
    {"size": {"height": 448, "width": 448}, "patch_size": 14, "dynamic_hd": 36, "resample": 3},
    {"resample": (3,)},
    own=True,
)
_PHI4_LINES = 16
"""Rows and columns of tokens of a tile: transformers counts that many, whatever the sizes."""
_WHITE = (255, 255, 255)
_CUBIC = -0.75


def _near(x: Float64) -> Float64:
    return ((_CUBIC + 2) * x - (_CUBIC + 3)) * x * x + 1


def _far(x: Float64) -> Float64:
    return _CUBIC * (((x - 5) * x + 8) * x - 4)


@lru_cache(maxsize=8)
def _grids(most: int) -> tuple[tuple[int, int], ...]:
    """The grids of up to `most` tiles, smaller ones first. Made once for a model: there are tens of thousands of pairs to try.

    Grids of equal area come in the order in which a hash set of the pairs yields them, as in the reference."""
    span = range(1, most + 1)
    shapes = {(i, j) for n in span for i in range(1, n + 1) for j in range(1, n + 1) if i * j <= most}
    return tuple(sorted(shapes, key=lambda pair: pair[0] * pair[1]))


def _taps(length: int, wanted: int) -> tuple[np.ndarray[Any, np.dtype[np.intp]], Float32]:
    """Which four pixels make each of `wanted` points along a side of `length`, and their weights (4, wanted)."""
    centre = (np.arange(wanted) + 0.5) * (length / wanted) - 0.5
    first = np.floor(centre)
    part = centre - first
    weights = np.stack([_far(part + 1), _near(part), _near(1 - part), _far(2 - part)])
    places = np.clip(first[None] + np.arange(-1, 3)[:, None], 0, length - 1)
    return places.astype(np.intp), weights.astype(np.float32)


def write_overview(out: Float32, pixels: Bytes8, normalizer: Normalizer) -> None:
    """Write `pixels` (height, width, 3), normalised and then interpolated bicubically, into `out` (3, h, w)."""
    _, tall, wide = out.shape
    if pixels.shape[:2] == (
        tall,
        wide,
    ):  # a canvas of one tile is its own overview: one weight of four is 1, the others nothing
        write_tiles(out[None], pixels, normalizer)
        return
    rows, down = _taps(pixels.shape[0], tall)
    columns, across = _taps(pixels.shape[1], wide)
    floats = np.empty((tall, wide), np.float32)
    line = np.empty((tall, wide), np.float32)
    out[...] = 0
    # Where the canvas is an odd number of tiles wide or tall, points fall on pixels and three weights of four are nothing.
    for y in np.flatnonzero(down.any(axis=1)):
        band = pixels[rows[y]]
        for channel in range(3):
            line[...] = 0
            for x in np.flatnonzero(across.any(axis=1)):
                normalizer.apply(band[:, columns[x], channel], channel, floats)
                floats *= across[x]
                line += floats
            line *= down[y][:, None]
            out[channel] += line


@dataclass(frozen=True, slots=True)
class Phi3Processor:
    """Pictures to (1, 1 + most, 3, tile, tile) floats (overview, tiles, zeros) and the (1, 2) size of the canvas."""

    normalizer: Normalizer
    most: int = 16
    tile: int = 336
    per_tile: int = 144

    def canvas(self, size: Size) -> tuple[Size, Size]:
        """The size a picture is resized to, and that of the white canvas it is laid on (whole tiles)."""
        long, short = max(size), min(size)
        ratio = long / short
        scale = 1
        while scale * math.ceil(scale / ratio) <= self.most:
            scale += 1
        width = (scale - 1) * self.tile
        height = int(width / ratio)
        if height < 1:
            raise BadMedia(f"the image is {size.width}x{size.height}: too thin")
        fitted = Size(height, width)
        whole = Size(math.ceil(height / self.tile) * self.tile, width)
        return (fitted, whole) if size.width >= size.height else (Size(*fitted[::-1]), Size(*whole[::-1]))

    def measure(self, size: Size) -> tuple[int, tuple[int, ...]]:
        """Tokens, and the (rows, columns) of tiles."""
        _, (height, width) = self.canvas(size)
        rows, columns = height // self.tile, width // self.tile
        lines = math.isqrt(self.per_tile)
        return (rows * columns + 1) * self.per_tile + 1 + (rows + 1) * lines, (rows, columns)

    def item(self, image: Image.Image) -> ItemFeatures:
        """The tensors of one RGB picture. A picture taller than wide is turned, resized, and turned back."""
        size = Size(image.height, image.width)
        tokens, (rows, columns) = self.measure(size)
        fitted, whole = self.canvas(size)
        if size.width >= size.height:
            pixels = resize(image, fitted, BILINEAR)
        else:
            turned = image.transpose(Image.Transpose.ROTATE_90)
            pixels = np.rot90(resize(turned, Size(*fitted[::-1]), BILINEAR), -1)
        # Padding is split before the picture is turned back, so the odd row or column lands on the other side.
        top, left = int((whole.height - fitted.height) / 2), whole.width - fitted.width
        left = left - int(left / 2)
        canvas = on_canvas(pixels, whole, top, left, _WHITE)
        out = np.zeros((1, 1 + self.most, 3, self.tile, self.tile), np.float32)
        write_overview(out[0, 0], canvas, self.normalizer)
        write_tiles(out[0, 1 : 1 + rows * columns], canvas, self.normalizer)
        tensors: dict[str, Array] = {
            "pixel_values": out,
            "image_sizes": np.array([whole], np.int64),
            "num_img_tokens": np.array([tokens], np.int64),
        }
        return ItemFeatures(tensors, size, tokens, (rows, columns))

    def collate(self, items: Sequence[ItemFeatures]) -> dict[str, Array]:
        """One row per picture."""
        return {
            name: joined([item.tensors[name] for item in items])
            for name in ("pixel_values", "image_sizes", "num_img_tokens")
        }


@dataclass(frozen=True, slots=True)
class Phi4Processor:
    """Pictures to (1, 1 + tiles, 3, tile, tile) floats (overview first), canvas size, and a mask of real patches."""

    normalizer: Normalizer
    tile: int = 448
    patch: int = 14
    most: int = 36
    resample: Filter = BILINEAR

    def _grid(self, size: Size) -> tuple[int, int]:
        columns, rows = math.ceil(size.width / self.tile), math.ceil(size.height / self.tile)
        if columns * rows <= self.most:
            return rows, columns
        best, difference = (1, 1), math.inf
        for shape in _grids(self.most):
            found = abs(size.width / size.height - shape[0] / shape[1])
            enough = size.width * size.height > 0.5 * self.tile**2 * shape[0] * shape[1]
            if found < difference or (found == difference and enough):
                best, difference = shape, found
        return best[1], best[0]

    def canvas(self, size: Size) -> tuple[Size, Size]:
        """The size a picture is resized to, and that of the white canvas it is laid on (whole tiles)."""
        rows, columns = self._grid(size)
        whole = Size(rows * self.tile, columns * self.tile)
        across, down = whole.width / size.width, whole.height / size.height
        height = int(size.height * across) if across < down else whole.height
        fitted = Size(height, whole.width if across < down else int(size.width * down))
        if min(fitted) < 10:
            raise BadMedia(f"the image is {size.width}x{size.height}: too thin")
        return fitted, whole

    def mask(self, size: Size) -> Float32:
        """(canvas patches down, across): 1 where a patch touches the picture, 0 where it is padding."""
        fitted, whole = self.canvas(size)
        mask = np.ones((whole.height // self.patch, whole.width // self.patch), np.float32)
        if (spare := (whole.width - fitted.width) // self.patch) > 0:
            mask[:, -spare:] = 0
        if (spare := (whole.height - fitted.height) // self.patch) > 0:
            mask[-spare:, :] = 0
        return mask

    def _tiled_mask(self, size: Size) -> tuple[Float32, tuple[int, int]]:
        mask, side = self.mask(size), self.tile // self.patch
        rows, columns = mask.shape[0] // side, mask.shape[1] // side
        return mask.reshape(rows, side, columns, side).transpose(0, 2, 1, 3).reshape(-1, side, side), (rows, columns)

    def measure(self, size: Size) -> tuple[int, tuple[int, ...]]:
        """Tokens, and the (rows, columns) of tiles."""
        tiles, (rows, columns) = self._tiled_mask(size)
        half = tiles[:, ::2, ::2]
        side = half.shape[1]
        whole = half.reshape(rows, columns, side, side).transpose(0, 2, 1, 3).reshape(rows * side, columns * side)
        return side * side + 1 + int(whole.sum()) + int(whole[:, 0].sum()) + side, (rows, columns)

    def item(self, image: Image.Image) -> ItemFeatures:
        """The tensors of one RGB picture."""
        size = Size(image.height, image.width)
        tokens, (rows, columns) = self.measure(size)
        fitted, whole = self.canvas(size)
        canvas = on_canvas(resize(image, fitted, self.resample), whole, 0, 0, _WHITE)
        out = np.empty((1, 1 + rows * columns, 3, self.tile, self.tile), np.float32)
        write_overview(out[0, 0], canvas, self.normalizer)
        write_tiles(out[0, 1:], canvas, self.normalizer)
        tiles, _ = self._tiled_mask(size)
        tensors: dict[str, Array] = {
            "image_pixel_values": out,
            "image_sizes": np.array([whole], np.int64),
            "image_attention_mask": np.concatenate([np.ones((1, *tiles.shape[1:]), np.float32), tiles])[None],
            "num_img_tokens": np.array([tokens], np.int64),
        }
        return ItemFeatures(tensors, size, tokens, (rows, columns))

    def collate(self, items: Sequence[ItemFeatures]) -> dict[str, Array]:
        """One row per picture; pictures with fewer tiles are padded with zeros, their masks with ones."""
        return {
            "image_pixel_values": padded([item.tensors["image_pixel_values"] for item in items]),
            "image_sizes": joined([item.tensors["image_sizes"] for item in items]),
            "image_attention_mask": padded([item.tensors["image_attention_mask"] for item in items], 1.0),
            "num_img_tokens": joined([item.tensors["num_img_tokens"] for item in items]),
        }


def phi3_image(config: Mapping[str, Any]) -> Phi3Processor:
    """From preprocessor_config.json."""
    config = settled({**config, RESIZE: None}, _PHI3)  # the model's own code resizes by Pillow everywhere
    return Phi3Processor(
        normalizer=normalizer_of(config, CLIP_MEAN, CLIP_STD),
        most=int(config.get("num_crops") or 16),
        per_tile=int(config.get("num_img_tokens") or 144),
    )


def phi4_image(config: Mapping[str, Any]) -> Phi4Processor:
    """From preprocessor_config.json."""
    config = settled(config, _PHI4)
    size, patch = fixed_size(config), int(config["patch_size"])
    if size.height != size.width:
        raise refused("size", dict(config["size"]), "tiles are squares")
    if -(-(size.height // patch) // 2) != _PHI4_LINES or size.height % patch:
        key = "size" if patch == _PHI4.defaults["patch_size"] else "patch_size"
        raise refused(key, config[key], f"a tile has {_PHI4_LINES}x{_PHI4_LINES} tokens")
    return Phi4Processor(
        normalizer=normalizer_of(config, HALF, HALF, fused_normalizer),
        tile=size.height,
        patch=patch,
        most=int(config["dynamic_hd"]),
        resample=resample_of({RESIZE: config.get(RESIZE)}, BILINEAR),
    )
