"""What an item will cost before anything of it is decoded: tokens in the prompt, bytes of tensors, memory and time of decoding.

Above: `prepare`. Below: `formats` for headers, the family's processor for what it makes of a size. Knows no budget: whoever has
one compares.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from PIL import Image

from smg_multimodal.formats import Header
from smg_multimodal.types import ImageProcessor, Size

__all__ = ["Cost", "TensorBound", "cost_of_clip", "cost_of_picture", "cost_of_recording", "is_apart"]

_PROBES = (Size(32, 32), Size(100, 270), Size(700, 700))
_BESIDE = 4096
"""Bytes of an item's small tensors: grids, sizes, masks of tiles."""
_IN_BETWEEN = 0.4
"""Bytes in between, as resized pixels, for each byte of tensors; freed when the tensors are made."""
_SHORT_SECONDS = 0.6
"""What a thread decodes; what may take longer is decoded in a process that can be stopped."""
_HANDED_OVER = 7
"""Bytes a pixel, beside those of the decoding process: what it hands over, and the picture that is made of that."""


@dataclass(frozen=True, slots=True)
class Cost:
    """`tokens` is the least number that receive embeddings, `tensors` the most bytes of tensors, `memory` the most bytes in
    between while it is decoded and processed, `seconds` about the most that decoding takes. `apart`: decode it in a process."""

    tokens: int
    tensors: int
    memory: int
    seconds: float = 0.0
    apart: bool = False


class TensorBound:
    """How many bytes of tensors a family's pictures have at most, from their tokens and grid.

    Families differ in what their tensors grow with: tokens, cells of the grid (patches or tiles, with or without one for the
    whole picture), or nothing. Three pictures are processed to find out which, and how much of it."""

    def __init__(self, processor: ImageProcessor) -> None:
        self._processor = processor
        found = []
        for size in _PROBES:
            features = processor.item(Image.new("RGB", (size.width, size.height)))
            found.append((features.nbytes, self._quantities(size)))
        ratios = [[nbytes / each[index] for nbytes, each in found] for index in range(len(found[0][1]))]
        spreads = [max(each) / min(each) for each in ratios]
        self._index = spreads.index(min(spreads))
        self._ratio = max(ratios[self._index])

    def _quantities(self, size: Size) -> tuple[int, int, int, int]:
        tokens, grid = self._processor.measure(size)
        cells = math.prod(grid)
        return max(1, tokens), max(1, cells), cells + 1, 1

    def __call__(self, size: Size) -> int:
        """At most so many bytes for a picture of `size`."""
        return int(self._quantities(size)[self._index] * self._ratio) + _BESIDE


def cost_of_picture(
    header: Header, sizes: Sequence[Size], processor: ImageProcessor, bound: TensorBound, *, counts: bool = True
) -> Cost:
    """The cost of a picture that becomes one of `sizes` before the family processes it (which, its orientation says). Without
    `counts` it is not counted as the processor counts: one token at least. Sizes must be ones that the family takes."""
    tensors = max(bound(size) for size in sizes)
    tokens = min(processor.measure(size)[0] for size in sizes) if counts else 1
    apart = is_apart(header)
    between = header.pixels * _HANDED_OVER if apart else 0
    return Cost(tokens, tensors, header.memory() + between + int(tensors * _IN_BETWEEN), header.seconds(), apart)


def is_apart(header: Header) -> bool:
    """Whether a picture is decoded in a process of its own."""
    return header.format.apart or header.seconds() > _SHORT_SECONDS


_LEAST_FRAME = 128 * 1024
_MOST_FRAMES = 768
_FRAME_PIXEL_BYTES = 14


def cost_of_clip(header: Header) -> Cost:
    """The cost of an animation, whichever of its frames are taken; small ones are enlarged."""
    taken = min(header.frames, _MOST_FRAMES)
    tensors = taken * max(header.pixels, _LEAST_FRAME) * _FRAME_PIXEL_BYTES
    memory = header.memory(header.frames) + int(tensors * _IN_BETWEEN)
    return Cost(1, tensors, memory, header.seconds(header.frames))


def cost_of_recording(length: int) -> Cost:
    """The cost of `length` bytes of a recording, or of what is no picture: samples become floats, and are resampled."""
    return Cost(1, 4 * 1024 * 1024 + 4 * length, 16 * 1024 * 1024 + 16 * length)
