"""DeepSeek-VL2: the whole picture padded to one square, and squares of it padded to the candidate that shows most of it.

Above: `families.document_pipelines`. Below: `pixels.transforms`, `pixels.resample`. The rules are those of the processor in vLLM,
since transformers has none. It makes no squares where a prompt has more than two pictures, so that no more are taken here.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from PIL import Image

from smg_multimodal.configs.key_kinds import MOST_TILES, is_whole, refused
from smg_multimodal.configs.keys import positive_number
from smg_multimodal.pixels.collate import joined
from smg_multimodal.pixels.filters import Filter
from smg_multimodal.pixels.passes import Colour
from smg_multimodal.pixels.resample import BICUBIC, on_canvas, resample_of, resize
from smg_multimodal.pixels.transforms import HALF, Normalizer, divided_normalizer, means_of, write_tiles
from smg_multimodal.records.types import Array, Bytes8, ItemFeatures, Size

__all__ = ["DeepseekVl2Processor", "deepseek_vl2_image"]


@dataclass(frozen=True, slots=True)
class DeepseekVl2Processor:
    """Pictures to (1 + squares, 3, side, side) floats, the whole first, and (1, 2) columns and rows of squares.

    `candidates` are sizes that a picture may be padded to, whole numbers of squares. A square is `per_side` tokens each way; each
    row of tokens has one more at its end, those of all squares lying side by side, and one stands between the two views.
    """

    normalizer: Normalizer
    candidates: tuple[Size, ...]
    side: int = 384
    per_side: int = 14
    fill: Colour = (127, 127, 127)
    resample: Filter = BICUBIC

    def canvas(self, size: Size) -> Size:
        """The candidate that shows most of a picture, of those the one that wastes least."""

        def scaled(candidate: Size) -> tuple[int, int]:
            scale = min(candidate.width / size.width, candidate.height / size.height)
            area = min(int(size.width * scale) * int(size.height * scale), size.width * size.height)
            return area, area - candidate.height * candidate.width

        return max(self.candidates, key=scaled)

    def measure(self, size: Size) -> tuple[int, tuple[int, ...]]:
        """Tokens, and (rows, columns) of squares."""
        canvas, part = self.canvas(size), self.per_side
        rows, columns = canvas.height // self.side, canvas.width // self.side
        return part * (part + 1) + 1 + rows * part * (columns * part + 1), (rows, columns)

    def nbytes(self, size: Size) -> int:
        """Bytes of the tensors of a picture of `size`; those of a few numbers are not counted."""
        _, (rows, columns) = self.measure(size)
        return 12 * (1 + rows * columns) * self.side**2

    def _padded(self, image: Image.Image, canvas: Size) -> Bytes8:
        """The picture within `canvas`, centred; a line thinner than half a pixel there leaves nothing but the canvas."""
        shape, wanted = image.width / image.height, canvas.width / canvas.height
        fitted = canvas
        if shape > wanted:
            fitted = Size(round(image.height / image.width * canvas.width), canvas.width)
        elif shape < wanted:
            fitted = Size(canvas.height, round(image.width / image.height * canvas.height))
        if not min(fitted):
            return np.broadcast_to(np.array(self.fill, np.uint8), (*canvas, 3))
        top, left = (round((side - length) * 0.5) for side, length in zip(canvas, fitted, strict=True))
        return on_canvas(resize(image, fitted, self.resample), canvas, top, left, self.fill)

    def item(self, image: Image.Image) -> ItemFeatures:
        """The tensors of one RGB picture."""
        size = Size(image.height, image.width)
        tokens, (rows, columns) = self.measure(size)
        out = np.empty((1 + rows * columns, 3, self.side, self.side), np.float32)
        write_tiles(out[:1], self._padded(image, Size(self.side, self.side)), self.normalizer)
        write_tiles(out[1:], self._padded(image, self.canvas(size)), self.normalizer)
        tensors: dict[str, Array] = {
            "pixel_values": out,
            "images_spatial_crop": np.array([[columns, rows]], np.int64),
            "num_patches": np.array([len(out)], np.int64),
        }
        return ItemFeatures(tensors, size, tokens, (rows, columns))

    def collate(self, items: Sequence[ItemFeatures]) -> dict[str, Array]:
        """All squares one after the other."""
        return {name: joined([item.tensors[name] for item in items]) for name in items[0].tensors}


def _candidates(given: Any) -> tuple[Size, ...]:
    """Sizes of whole squares, of the side of the first. Raises `UnsupportedModel` for anything else."""
    key, why = "candidate_resolutions", "a list of widths and heights in whole squares is needed"
    if not isinstance(given, list | tuple) or not given:
        raise refused(key, given, why)
    if not all(isinstance(each, list | tuple) and len(each) == 2 and all(map(is_whole, each)) for each in given):
        raise refused(key, given, why)
    sizes, side = tuple(Size(int(height), int(width)) for width, height in given), int(given[0][0])
    counts = [(each.height % side or each.width % side, each.height * each.width // side**2) for each in sizes]
    if any(rest or count > MOST_TILES for rest, count in counts):
        raise refused(key, given, why)
    return sizes


def deepseek_vl2_image(processor: Mapping[str, Any]) -> DeepseekVl2Processor:
    """From processor_config.json: it has all that vLLM reads."""
    config = {"candidate_resolutions": [[384, 384]], "patch_size": 14, "downsample_ratio": 2, **processor}
    resample_of({}, BICUBIC)
    sizes = _candidates(config["candidate_resolutions"])
    mean, std = means_of(config, HALF), means_of(config, HALF, "image_std")
    red, green, blue = (int(value * 255) for value in mean)
    side = sizes[0].width
    return DeepseekVl2Processor(
        normalizer=divided_normalizer(*((None, None) if config.get("normalize") is False else (mean, std))),
        candidates=sizes,
        side=side,
        per_side=-(-(side // positive_number(config, "patch_size")) // positive_number(config, "downsample_ratio")),
        fill=(red, green, blue),
    )
