"""Gemma 3: one square per picture, and with pan-and-scan one more per crop of an elongated picture.

Above: `families.registry`. Below: `pixels.transforms`, `pixels.resample`. Follows transformers' image_processing_pil_gemma3.
Pan-and-scan is off unless the configuration or the caller asks for it.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from PIL import Image

from smg_multimodal.configs.keys import ProcessorClass, fixed_size, settled
from smg_multimodal.pixels.collate import joined
from smg_multimodal.pixels.filters import Filter
from smg_multimodal.pixels.resample import BILINEAR, resample_of, resize
from smg_multimodal.pixels.transforms import HALF, Normalizer, normalizer_of, write_tiles
from smg_multimodal.records.types import Array, Box, ItemFeatures, Size

__all__ = ["Gemma3Processor", "PanAndScan", "gemma3_image"]

_CLASS = ProcessorClass(
    frozenset({"Gemma3ImageProcessor"}),
    {"do_resize": True, "size": {"height": 224, "width": 224}},
    {"do_resize": (True,)},
)


@dataclass(frozen=True, slots=True)
class PanAndScan:
    """When and how an elongated picture is cut along its longer side: sides in pixels, `ratio` long over short."""

    least: int = 256
    most: int = 4
    ratio: float = 1.2

    def boxes(self, size: Size) -> list[Box]:
        """(left, top, right, bottom) of every crop; none for a picture that is not long enough."""
        long, short = max(size), min(size)
        if long / short < self.ratio:
            return []
        count = min(math.floor(long / self.least), math.floor(long / short + 0.5))
        count = min(self.most, max(2, count))
        step = math.ceil(long / count)
        if min(step, short) < self.least:
            return []
        starts = [step * index for index in range(count)]
        if size.width >= size.height:
            return [(start, 0, min(start + step, size.width), size.height) for start in starts]
        return [(0, start, size.width, min(start + step, size.height)) for start in starts]


@dataclass(frozen=True, slots=True)
class Gemma3Processor:
    """Pictures to (1 + crops, 3, height, width) floats; `per_view` tokens for each of them."""

    size: Size
    per_view: int
    normalizer: Normalizer
    scan: PanAndScan | None = None
    resample: Filter = BILINEAR

    def measure(self, size: Size) -> tuple[int, tuple[int, ...]]:
        """Tokens, and (views,): the picture itself and its crops."""
        views = 1 + (len(self.scan.boxes(size)) if self.scan else 0)
        return views * self.per_view, (views,)

    def item(self, image: Image.Image) -> ItemFeatures:
        """The tensors of one RGB picture."""
        size = Size(image.height, image.width)
        tokens, grid = self.measure(size)
        out = np.empty((grid[0], 3, *self.size), np.float32)
        views = [image, *(image.crop(box) for box in (self.scan.boxes(size) if self.scan else ()))]
        for index, view in enumerate(views):
            write_tiles(out[index : index + 1], resize(view, self.size, self.resample), self.normalizer)
        crops = np.array([grid[0] - 1], np.int64)
        return ItemFeatures({"pixel_values": out, "num_crops": crops}, size, tokens, grid)

    def collate(self, items: Sequence[ItemFeatures]) -> dict[str, Array]:
        """All views one after the other; the number of crops of each picture."""
        return {name: joined([item.tensors[name] for item in items]) for name in ("pixel_values", "num_crops")}


def gemma3_image(config: Mapping[str, Any], model: Mapping[str, Any], processor: Mapping[str, Any]) -> Gemma3Processor:
    """From preprocessor_config.json, config.json and processor_config.json."""
    config = settled(config, _CLASS)
    scan = PanAndScan(
        least=int(config.get("pan_and_scan_min_crop_size") or 256),
        most=int(config.get("pan_and_scan_max_num_crops") or 4),
        ratio=float(config.get("pan_and_scan_min_ratio_to_activate") or 1.2),
    )
    return Gemma3Processor(
        size=fixed_size(config),
        per_view=int(processor.get("image_seq_length") or model.get("mm_tokens_per_image") or 256),
        normalizer=normalizer_of(config, HALF, HALF),
        scan=scan if config.get("do_pan_and_scan") else None,
        resample=resample_of(config, BILINEAR),
    )
