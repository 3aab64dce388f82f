"""LLaVA 1.5, LLaVA-NeXT and LLaVA-OneVision: a square, or a square and the tiles of the best-fitting canvas.

Above: `registry`. Below: `transforms`, `resample`. Decides crop, canvas and token count; rules and rounding follow
transformers' image_processing_pil_llava, _llava_next, _llava_onevision and their processors' feature counts.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from PIL import Image

from smg_multimodal.collate import joined, padded
from smg_multimodal.errors import BadMedia, UnsupportedModel
from smg_multimodal.resample import BICUBIC, centre_crop, on_canvas, resample_of, resize
from smg_multimodal.transforms import CLIP_MEAN, CLIP_STD, Normalizer, normalizer_of, write_tiles
from smg_multimodal.types import Array, Bytes8, ItemFeatures, Size

__all__ = [
    "AnyResolutionProcessor",
    "SquareProcessor",
    "best_canvas",
    "llava_image",
    "llava_next_image",
    "onevision_image",
]

_ONEVISION_SIDES = (384, 768, 1152, 1536, 1920, 2304)
_NEXT_PINPOINTS = ((336, 672), (672, 336), (672, 672), (1008, 336), (336, 1008))


def best_canvas(size: Size, canvases: Sequence[Size]) -> Size:
    """The canvas that keeps most of the picture's pixels, and of those the one that wastes least; the first on a tie."""
    best, most, least_waste = canvases[0], 0, math.inf
    for canvas in canvases:
        scale = min(canvas.width / size.width, canvas.height / size.height)
        kept = min(int(size.width * scale) * int(size.height * scale), size.width * size.height)
        waste = canvas.width * canvas.height - kept
        if kept > most or (kept == most and waste < least_waste):
            best, most, least_waste = canvas, kept, waste
    return best


def _fit_inside(size: Size, canvas: Size) -> Size:
    across, down = canvas.width / size.width, canvas.height / size.height
    if across < down:
        return Size(min(math.ceil(size.height * across), canvas.height), canvas.width)
    return Size(canvas.height, min(math.ceil(size.width * down), canvas.width))


def _around(mean: Sequence[float]) -> tuple[int, int, int]:
    """The mean colour in bytes, rounded down."""
    red, green, blue = (int(value * 255) for value in mean)
    return red, green, blue


@dataclass(frozen=True, slots=True)
class SquareProcessor:
    """One square of `crop` per picture: shortest edge to `edge`, then the middle; (1, 3, height, width) floats.

    With `square` the picture is first laid in the middle of a square of its longer side, filled with `mean`.
    """

    edge: int
    crop: Size
    tokens: int
    normalizer: Normalizer
    resample: Image.Resampling = BICUBIC
    square: bool = False
    mean: tuple[float, ...] = CLIP_MEAN

    def measure(self, size: Size) -> tuple[int, tuple[int, ...]]:
        """Always the same number of tokens, one tile."""
        del size
        return self.tokens, (1, 1)

    def _shortest_edge(self, size: Size) -> Size:
        short, long = sorted(size)
        other = int(self.edge * long / short)
        return Size(other, self.edge) if size.width <= size.height else Size(self.edge, other)

    def item(self, image: Image.Image) -> ItemFeatures:
        """The tensors of one RGB picture."""
        size = Size(image.height, image.width)
        fill = _around(self.mean) if self.square else None
        source = size if fill is None else Size(max(size), max(size))
        resized = resize(image, self._shortest_edge(source), self.resample, fill)
        out = np.empty((1, 3, *self.crop), np.float32)
        write_tiles(out, centre_crop(resized, self.crop), self.normalizer)
        return ItemFeatures({"pixel_values": out}, size, self.tokens, (1, 1))

    def collate(self, items: Sequence[ItemFeatures]) -> dict[str, Array]:
        """One row per picture."""
        return {"pixel_values": joined([item.tensors["pixel_values"] for item in items])}


@dataclass(frozen=True, slots=True)
class AnyResolutionProcessor:
    """The whole picture squeezed into one tile, then the tiles of the best canvas: (1, 1 + tiles, 3, tile, tile) floats.

    `side` is the number of patches along a tile. `limit`, where given, is the most canvas tiles' worth of features the
    model keeps (it pools above that); the tensors are not affected by it. `extra` is added to every token count.
    """

    canvases: tuple[Size, ...]
    tile: int
    side: int
    normalizer: Normalizer
    resample: Image.Resampling = BICUBIC
    limit: int | None = None
    extra: int = 0
    mean: tuple[float, ...] = CLIP_MEAN

    def __post_init__(self) -> None:
        """Refuse canvases that tiles do not cover exactly."""
        if any(canvas.height % self.tile or canvas.width % self.tile for canvas in self.canvases):
            raise UnsupportedModel(f"every canvas must be a multiple of the tile of {self.tile} pixels")

    def measure(self, size: Size) -> tuple[int, tuple[int, ...]]:
        """Tokens (the model drops the canvas's padding and adds a newline per row), and canvas tiles (rows, columns)."""
        canvas = best_canvas(size, self.canvases)
        rows, columns = canvas.height // self.tile, canvas.width // self.tile
        kept, lines = self._unpadded(size, self.side * rows, self.side * columns)
        return kept + lines + self.side**2 + self.extra, (rows, columns)

    def _unpadded(self, size: Size, tall: int, wide: int) -> tuple[int, int]:
        if size.width / size.height > wide / tall:
            tall -= (tall - int(round(size.height * (wide / size.width), 7))) // 2 * 2
        else:
            wide -= (wide - int(round(size.width * (tall / size.height), 7))) // 2 * 2
        if self.limit is not None:
            ratio = math.sqrt(tall * wide / (self.limit * self.side**2))
            if ratio > 1.1:
                return int(tall // ratio) * int(wide // ratio), int(tall // ratio)
        return tall * wide, tall

    def _canvas(self, image: Image.Image, canvas: Size) -> Bytes8:
        fitted = _fit_inside(Size(image.height, image.width), canvas)
        pixels = resize(image, fitted, self.resample)
        return on_canvas(pixels, canvas, (canvas.height - fitted.height) // 2, (canvas.width - fitted.width) // 2)

    def item(self, image: Image.Image) -> ItemFeatures:
        """The tensors of one RGB picture."""
        size = Size(image.height, image.width)
        tokens, grid = self.measure(size)
        out = np.empty((1, 1 + grid[0] * grid[1], 3, self.tile, self.tile), np.float32)
        write_tiles(out[0, :1], resize(image, Size(self.tile, self.tile), self.resample), self.normalizer)
        canvas = Size(grid[0] * self.tile, grid[1] * self.tile)
        write_tiles(out[0, 1:], self._canvas(image, canvas), self.normalizer)
        tensors: dict[str, Array] = {"pixel_values": out, "image_sizes": np.array([size], np.int64)}
        return ItemFeatures(tensors, size, tokens, grid)

    def whole(self, image: Image.Image) -> ItemFeatures:
        """One of several pictures that belong together: a single tile of the picture on a square of the mean colour."""
        size = Size(image.height, image.width)
        out = np.empty((1, 1, 3, self.tile, self.tile), np.float32)
        pixels = resize(image, Size(self.tile, self.tile), self.resample, _around(self.mean))
        write_tiles(out[0], pixels, self.normalizer)
        tensors: dict[str, Array] = {"pixel_values": out, "image_sizes": np.array([size], np.int64)}
        return ItemFeatures(tensors, size, self.side**2 + 1 + self.extra, (0, 0))

    def collate(self, items: Sequence[ItemFeatures]) -> dict[str, Array]:
        """One row per picture, tiles padded with zeros to the most any has."""
        return {
            "pixel_values": padded([item.tensors["pixel_values"] for item in items]),
            "image_sizes": joined([item.tensors["image_sizes"] for item in items]),
        }


def _select(model: Mapping[str, Any]) -> int:
    """-1 where the class token's place is dropped from a count that includes it, else 0."""
    return -1 if model.get("vision_feature_select_strategy", "default") == "default" else 0


def _side(model: Mapping[str, Any], tile: int, patch: int) -> int:
    return tile // int((model.get("vision_config") or {}).get("patch_size") or patch)


def _square_size(config: Mapping[str, Any], fallback: int) -> int:
    size = config.get("size") or {}
    if isinstance(size, int):
        return size
    return int(size.get("shortest_edge") or size.get("height") or fallback)


def llava_image(config: Mapping[str, Any], model: Mapping[str, Any]) -> SquareProcessor:
    """The processor of LLaVA 1.5 and its kin, from preprocessor_config.json and config.json."""
    edge = _square_size(config, 224)
    crop = config.get("crop_size") or edge
    crop_size = Size(crop, crop) if isinstance(crop, int) else Size(int(crop["height"]), int(crop["width"]))
    side = _side(model, crop_size.height, 14)
    return SquareProcessor(
        edge=edge,
        crop=crop_size,
        tokens=side * _side(model, crop_size.width, 14) + 1 + _select(model),
        normalizer=normalizer_of(config, CLIP_MEAN, CLIP_STD),
        resample=resample_of(config, BICUBIC),
        square=bool(config.get("do_pad")),
        mean=tuple(config.get("image_mean") or CLIP_MEAN),
    )


def _pinpoints(
    config: Mapping[str, Any], model: Mapping[str, Any], fallback: Sequence[Sequence[int]]
) -> tuple[Size, ...]:
    points = config.get("image_grid_pinpoints") or model.get("image_grid_pinpoints") or fallback
    return tuple(Size(int(height), int(width)) for height, width in points)


def llava_next_image(config: Mapping[str, Any], model: Mapping[str, Any]) -> AnyResolutionProcessor:
    """The processor of LLaVA-NeXT (1.6), from preprocessor_config.json and config.json."""
    tile = _square_size(config, 224)
    return AnyResolutionProcessor(
        canvases=_pinpoints(config, model, _NEXT_PINPOINTS),
        tile=tile,
        side=_side(model, tile, 14),
        normalizer=normalizer_of(config, CLIP_MEAN, CLIP_STD),
        resample=resample_of(config, BICUBIC),
        extra=1 + _select(model),
        mean=tuple(config.get("image_mean") or CLIP_MEAN),
    )


def onevision_image(config: Mapping[str, Any], model: Mapping[str, Any]) -> AnyResolutionProcessor:
    """The processor of LLaVA-OneVision, from preprocessor_config.json and config.json.

    `vision_aspect_ratio` "anyres_max_N" bounds the features at N tiles' worth.
    """
    tile = _square_size(config, 384)
    ratio = str(model.get("vision_aspect_ratio") or "anyres_max_9")
    if not ratio.startswith("anyres_max_"):
        raise BadMedia(f"vision_aspect_ratio {ratio!r} is not of the form anyres_max_N")
    strategy = model.get("vision_feature_select_strategy", "full")
    return AnyResolutionProcessor(
        canvases=_pinpoints(config, model, [(a, b) for a in _ONEVISION_SIDES for b in _ONEVISION_SIDES]),
        tile=tile,
        side=_side(model, tile, 14),
        normalizer=normalizer_of(config, CLIP_MEAN, CLIP_STD),
        resample=resample_of(config, BICUBIC),
        limit=int(ratio.removeprefix("anyres_max_")),
        extra=-1 if strategy == "default" else 0,
        mean=tuple(config.get("image_mean") or CLIP_MEAN),
    )
