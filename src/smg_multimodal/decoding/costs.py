"""The cost of an item before anything of it is decoded: tokens in the prompt, bytes of tensors, memory and time of decoding.

Above: `preparing.prepare`. Below: `formats` for headers, the family's processor for what it makes of a size. Knows no budget:
whoever has one compares.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from PIL import Image

from smg_multimodal.decoding.formats import ImageHeader
from smg_multimodal.records.types import ImageProcessor, Size

if TYPE_CHECKING:
    from smg_multimodal.decoding.clips import ClipFacts
    from smg_multimodal.decoding.sounds import RecordingFacts

__all__ = [
    "Cost",
    "TensorBound",
    "cost_of_clip",
    "cost_of_measuring",
    "cost_of_picture",
    "cost_of_recording",
    "cost_with_sound",
    "needs_process",
]

_PROBES = (Size(32, 32), Size(100, 270), Size(700, 700))
_OVERHEAD = 4096
"""Bytes of an item's small tensors: grids, sizes, masks of tiles."""
_IN_BETWEEN = 0.4
"""Bytes in between, as resized pixels, for each byte of tensors; freed when the tensors are made."""
_SHORT_SECONDS = 0.6
"""What a thread decodes; what may take longer is decoded in a process that can be stopped."""
_HANDED_FRAMES = 2
"""Frames of a clip that a process is ahead."""
_MEASURED = 64 * 1024 * 1024
"""Bytes that a process takes to walk over a file's packets."""
_HANDED_OVER = 7
"""Bytes a pixel, beside those of the decoding process: what it hands over, and the picture that is made of that."""


@dataclass(frozen=True, slots=True)
class Cost:
    """`tokens` is the least number that receive embeddings, `tensors` the most bytes of tensors, `memory` the most bytes in
    between while it is decoded and processed, `seconds` about the most that decoding takes. `isolated`: decode it in a process.
    `facts` are what was found out about a clip or a recording, so that it need not be found out again."""

    tokens: int
    tensors: int
    memory: int
    seconds: float = 0.0
    isolated: bool = False
    facts: "ClipFacts | RecordingFacts | None" = None


@runtime_checkable
class Weighed(Protocol):
    """A processor that says itself how many bytes its largest tensor has."""

    def nbytes(self, size: Size) -> int:
        """Bytes for a picture of `size`."""
        ...


class TensorBound:
    """How many bytes of tensors a family's pictures have at most, from their tokens and grid.

    Families differ in what their tensors grow with: tokens, cells of the grid (patches or tiles, with or without one for the
    whole picture), or nothing. Three pictures are processed to find out which, and how much of it. A processor whose tensors
    grow with something else is `Weighed`, and asked."""

    def __init__(self, processor: ImageProcessor) -> None:
        self._processor = processor
        self._weighed = processor if isinstance(processor, Weighed) else None
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
        if self._weighed is not None:
            return self._weighed.nbytes(size) + _OVERHEAD
        return int(self._quantities(size)[self._index] * self._ratio) + _OVERHEAD


def cost_of_picture(
    header: ImageHeader, sizes: Sequence[Size], processor: ImageProcessor, bound: TensorBound, *, counts: bool = True
) -> Cost:
    """The cost of a picture that becomes one of `sizes` before the family processes it (which, its orientation says). Without
    `counts` it is not counted as the processor counts: one token at least. Sizes must be ones that the family takes."""
    tensors = max(bound(size) for size in sizes)
    tokens = min(processor.measure(size)[0] for size in sizes) if counts else 1
    isolated = needs_process(header)
    between = header.pixels * _HANDED_OVER if isolated else 0
    return Cost(tokens, tensors, header.memory() + between + int(tensors * _IN_BETWEEN), header.seconds(), isolated)


def needs_process(header: ImageHeader, frames: int = 1) -> bool:
    """Whether a picture, or an animation of that many frames, is decoded in a process of its own."""
    return header.format.isolated or header.seconds(frames) > _SHORT_SECONDS


_RECORDED = 192 * 1024
"""Bytes of tensors for each second of a recording: 24,000 samples as floats with a mask; 128 mels of floats, 100 times a second,
twice, are less."""
_LEAST_RECORDED = 4 * 1024 * 1024
"""Bytes of tensors of the shortest recording: some models take a window of 30 s, however little is in it."""

_SPECTRA = 8
"""Bytes of windows and spectra for each byte of a recording's tensors."""


def cost_of_clip(facts: "ClipFacts", frames: int, tokens: int, tensors: int) -> Cost:
    """The cost of a clip of which `frames` are taken: they come one after the other, and what was resized of a few of them is in
    memory beside the tensors."""
    between = _HANDED_FRAMES * _HANDED_OVER * facts.size.height * facts.size.width
    memory = facts.memory + between + int(tensors * _IN_BETWEEN / max(1, frames))
    return Cost(tokens, tensors, memory, isolated=facts.isolated, facts=facts)


def cost_of_recording(facts: "RecordingFacts") -> Cost:
    """The cost of a recording: what decoding takes, its samples once more, and spectra in between."""
    tensors = _LEAST_RECORDED + int(_RECORDED * facts.seconds)
    return Cost(1, tensors, max(facts.memory, _SPECTRA * tensors), isolated=facts.isolated, facts=facts)


def cost_with_sound(clip: Cost, sound: "RecordingFacts") -> Cost:
    """The cost of a clip whose sound is decoded after its frames."""
    own = cost_of_recording(sound)
    return replace(
        clip, tokens=clip.tokens + own.tokens, tensors=clip.tensors + own.tensors, memory=max(clip.memory, own.memory)
    )


def cost_of_measuring(length: int) -> Cost:
    """The cost of finding out in a process what a clip or a recording of `length` bytes is."""
    return Cost(0, 0, _MEASURED + 2 * length, isolated=True)
