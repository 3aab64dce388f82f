"""LLaVA 1.5, LLaVA-NeXT and LLaVA-OneVision: a square, or a square and the tiles of the best-fitting canvas.

Above: `families.registry`. Below: `pixels.transforms`, `pixels.resample`. Decides crop, canvas and token count; rules and
rounding follow transformers' image_processing_pil_llava, _llava_next, _llava_onevision and their processors' feature counts.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from PIL import Image

from smg_multimodal.configs.key_kinds import refused
from smg_multimodal.configs.keys import ProcessorClass, fixed_size, settled
from smg_multimodal.pixels.collate import joined, padded
from smg_multimodal.pixels.filters import Filter
from smg_multimodal.pixels.resample import BICUBIC, centre_crop, on_canvas, resample_of, resize
from smg_multimodal.pixels.transforms import CLIP_MEAN, CLIP_STD, HALF, Normalizer, means_of, normalizer_of, write_tiles
from smg_multimodal.records.types import Array, Bytes8, ItemFeatures, Size

__all__ = [
    "AnyResolutionProcessor",
    "SquareProcessor",
    "best_canvas",
    "llava_image",
    "llava_next_image",
    "onevision_image",
]

_PICTURE = {"do_resize": True, "image_mean": CLIP_MEAN, "image_std": CLIP_STD}
_CLIP_SIZES = {"size": {"shortest_edge": 224}, "crop_size": {"height": 224, "width": 224}, "do_center_crop": True}
_LLAVA = ProcessorClass(frozenset({"LlavaImageProcessor"}), {**_PICTURE, **_CLIP_SIZES}, squares=False)
_CLIP = ProcessorClass(frozenset({"CLIPImageProcessor"}), {**_PICTURE, **_CLIP_SIZES}, squares=False)
_SIGLIP = ProcessorClass(
    frozenset({"SiglipImageProcessor"}),
    {"do_resize": True, "image_mean": HALF, "image_std": HALF, "size": {"height": 224, "width": 224}},
    squares=False,
)
_BLIP = ProcessorClass(
    frozenset({"BlipImageProcessor"}), {**_PICTURE, "size": {"height": 384, "width": 384}}, squares=False
)
_NEXT = ProcessorClass(frozenset({"LlavaNextImageProcessor"}), {**_PICTURE, **_CLIP_SIZES}, squares=False)
_ONEVISION = ProcessorClass(
    frozenset({"LlavaOnevisionImageProcessor"}), {**_PICTURE, "size": {"height": 384, "width": 384}}, squares=False
)
_CLASS_TOKENS = {"clip_vision_model": 1}
"""Embeddings of a tower that stand for no patch, where processor_config.json does not count them."""

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
    """A picture of the size `crop` per picture, (1, 3, height, width) floats: scaled, then the middle of it.

    `scaled` is a size that pictures are stretched to, the length of their shortest edge, or None where they keep their size.
    With `square` the picture is first laid in the middle of a square of its longer side, filled with `mean`.
    """

    scaled: Size | int | None
    crop: Size
    tokens: int
    normalizer: Normalizer
    resample: Filter = BICUBIC
    square: bool = False
    mean: tuple[float, ...] = CLIP_MEAN

    def measure(self, size: Size) -> tuple[int, tuple[int, ...]]:
        """Always the same number of tokens, one tile."""
        del size
        return self.tokens, (1, 1)

    def _target(self, size: Size) -> Size:
        if not isinstance(self.scaled, int):
            return self.scaled or size
        short, long = sorted(size)
        other = int(self.scaled * long / short)
        return Size(other, self.scaled) if size.width <= size.height else Size(self.scaled, other)

    def item(self, image: Image.Image) -> ItemFeatures:
        """The tensors of one RGB picture."""
        size = Size(image.height, image.width)
        fill = _around(self.mean) if self.square else None
        source = size if fill is None else Size(max(size), max(size))
        resized = resize(image, self._target(source), self.resample, fill)
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
    resample: Filter = BICUBIC
    limit: int | None = None
    extra: int = 0
    mean: tuple[float, ...] = CLIP_MEAN

    def __post_init__(self) -> None:
        """Refuse canvases that tiles do not cover exactly."""
        for canvas in self.canvases:
            if canvas.height % self.tile or canvas.width % self.tile:
                raise refused("image_grid_pinpoints", tuple(canvas), f"this is no multiple of the size, {self.tile}")

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


@dataclass(frozen=True, slots=True)
class _Tower:
    """What the files say of the embeddings of a tile of `tile` pixels: along its sides, and how many more there are."""

    tall: int
    wide: int
    extra: int


def _tower(tile: Size, model: Mapping[str, Any], processor: Mapping[str, Any], strategy: str) -> _Tower:
    """processor_config.json stands before config.json. A strategy of "default" drops the first embedding of each tile;
    `strategy` is what is meant where neither file has one."""
    vision = model.get("vision_config") or {}
    patch = int(processor.get("patch_size") or vision.get("patch_size") or 14)
    more = processor.get("num_additional_image_tokens")
    if more is None:
        more = _CLASS_TOKENS.get(str(vision.get("model_type") or "clip_vision_model"), 0)
    key = "vision_feature_select_strategy"
    chosen = processor.get(key) or model.get(key) or strategy
    if chosen not in ("default", "full"):
        raise refused(key, chosen, "only 'default' or 'full' is done here")
    return _Tower(tile.height // patch, tile.width // patch, int(more) - (chosen == "default"))


def llava_image(config: Mapping[str, Any], model: Mapping[str, Any], processor: Mapping[str, Any]) -> SquareProcessor:
    """The processor of LLaVA 1.5 and its kin, from preprocessor_config.json, config.json and processor_config.json."""
    config = settled(config, _LLAVA, _CLIP, _SIGLIP, _BLIP)
    padded = bool(config.get("do_pad"))
    square = padded and config["image_processor_type"] in _LLAVA.names
    scaled = _scaled(config)
    crop = _cropped(config, scaled, square=square)
    if padded and not square and Size(**config.get("pad_size", crop._asdict())) != crop:
        raise refused("pad_size", dict(config["pad_size"]), "nothing is laid around the picture")
    tower = _tower(crop, model, processor, "default")
    return SquareProcessor(
        scaled=scaled,
        crop=crop,
        tokens=tower.tall * tower.wide + tower.extra,
        normalizer=normalizer_of(config, CLIP_MEAN, CLIP_STD),
        resample=resample_of(config, BICUBIC),
        square=square,
        mean=means_of(config, CLIP_MEAN),
    )


def _scaled(config: Mapping[str, Any]) -> Size | int | None:
    if not config["do_resize"]:
        return None
    if set(config["size"]) == {"shortest_edge"}:
        return int(config["size"]["shortest_edge"])
    return fixed_size(config)


def _cropped(config: Mapping[str, Any], scaled: Size | int | None, *, square: bool) -> Size:
    """The size of every picture in the end; `square` ones are squares before they are scaled."""
    if config.get("do_center_crop"):
        if config.get("crop_size") is None:
            raise refused("do_center_crop", True, "there is no crop_size")
        return fixed_size(config, "crop_size")
    if isinstance(scaled, Size):
        return scaled
    if scaled is not None and square:
        return Size(scaled, scaled)
    key = "do_resize" if scaled is None else "do_center_crop"
    raise refused(key, False, "all pictures must have one size in the end")


def _tile(config: Mapping[str, Any]) -> int:
    """The side of the square that every tile is. Raises `UnsupportedModel` where tiles would be resized or cropped once more."""
    sides = set(config["size"].values())
    if len(sides) != 1 or not set(config["size"]) <= {"shortest_edge", "height", "width"}:
        raise refused("size", dict(config["size"]), "tiles are squares")
    (side,) = sides
    crop = config.get("crop_size")
    if crop is not None and dict(crop) != {"height": side, "width": side}:
        raise refused("crop_size", dict(crop), f"it must be the size, {side}x{side}")
    return int(side)


def _pinpoints(
    config: Mapping[str, Any], model: Mapping[str, Any], fallback: Sequence[Sequence[int]]
) -> tuple[Size, ...]:
    points = config.get("image_grid_pinpoints") or model.get("image_grid_pinpoints") or fallback
    return tuple(Size(int(height), int(width)) for height, width in points)


def _tiles(
    config: Mapping[str, Any],
    model: Mapping[str, Any],
    processor: Mapping[str, Any],
    pinpoints: Sequence[Sequence[int]],
    strategy: str,
) -> AnyResolutionProcessor:
    tile = _tile(config)
    tower = _tower(Size(tile, tile), model, processor, strategy)
    return AnyResolutionProcessor(
        canvases=_pinpoints(config, model, pinpoints),
        tile=tile,
        side=tower.tall,
        normalizer=normalizer_of(config, CLIP_MEAN, CLIP_STD),
        resample=resample_of(config, BICUBIC),
        extra=tower.extra,
        mean=means_of(config, CLIP_MEAN),
    )


def llava_next_image(
    config: Mapping[str, Any], model: Mapping[str, Any], processor: Mapping[str, Any]
) -> AnyResolutionProcessor:
    """The processor of LLaVA-NeXT (1.6), from preprocessor_config.json, config.json and processor_config.json.

    `downsample_rate` (Granite 4 Vision: "1/2", say) is how many tokens there are along a side for each patch.
    """
    made = _tiles(settled(config, _NEXT), model, processor, _NEXT_PINPOINTS, "default")
    rate = Fraction(processor.get("downsample_rate") or model.get("downsample_rate") or 1)
    return replace(made, side=int(made.side * rate))


def onevision_image(
    config: Mapping[str, Any], model: Mapping[str, Any], processor: Mapping[str, Any]
) -> AnyResolutionProcessor:
    """The processor of LLaVA-OneVision, from preprocessor_config.json, config.json and processor_config.json.

    `vision_aspect_ratio` "anyres_max_N" bounds the features at N tiles' worth; `num_image_tokens` are those of a tile.
    """
    key = "vision_aspect_ratio"
    ratio = str(processor.get(key) or model.get(key) or "anyres_max_9")
    most = ratio.removeprefix("anyres_max_")
    if most == ratio or not most.isdecimal():
        raise refused(key, ratio, "only anyres_max_N is done here")
    pinpoints = [(a, b) for a in _ONEVISION_SIDES for b in _ONEVISION_SIDES]
    # A tower of SigLIP has no embedding besides those of the patches.
    processor = {"num_additional_image_tokens": 0, **processor}
    made = _tiles(settled(config, _ONEVISION), model, processor, pinpoints, "full")
    tokens = processor.get("num_image_tokens")
    side = made.side if tokens is None else math.isqrt(int(tokens))
    return replace(made, limit=int(most), side=side)
