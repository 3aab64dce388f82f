"""The vocabulary of the package: what a processed item is, how its tensors lie, where it sits in the prompt.

Above: family modules produce `ItemFeatures`, `prompts.expand` produces `Placeholder`, `preparing.packaging` reads both. Below:
numpy. Nothing here knows an engine, an API or a file format. All sizes are (height, width) in pixels; all spans are in tokens.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from PIL import Image

__all__ = [
    "BFLOAT16",
    "Array",
    "Batched",
    "Box",
    "Bytes8",
    "Flat",
    "Float32",
    "Float64",
    "ImageProcessor",
    "ItemFeatures",
    "Layout",
    "Modality",
    "Placeholder",
    "Replacement",
    "Size",
    "Span",
]

Array = NDArray[Any]
Float32 = NDArray[np.float32]
Float64 = NDArray[np.float64]
Bytes8 = NDArray[np.uint8]
Box = tuple[int, int, int, int]

BFLOAT16 = np.dtype("<u2")
"""How arrays of bfloat16 are kept, which numpy has not: the upper halves of the words of floats."""


class Size(NamedTuple):
    """Height and width in pixels."""

    height: int
    width: int


class Span(NamedTuple):
    """A run of tokens: first index and how many."""

    offset: int
    length: int

    @property
    def stop(self) -> int:
        """The index after the last token."""
        return self.offset + self.length


class Modality(StrEnum):
    """The kind of an item."""

    IMAGE = "image"
    VIDEO = "video"
    AUDIO = "audio"


@dataclass(frozen=True, slots=True)
class Flat:
    """Items lie one after the other along axis 0; `sizes` names the tensor that says how many rows each has."""

    sizes: str


@dataclass(frozen=True, slots=True)
class Batched:
    """Axis 0 is the item."""


Layout = Flat | Batched


@dataclass(frozen=True, slots=True, eq=False)
class ItemFeatures:
    """One processed item.

    `tensors` holds what the model's encoder takes for this item alone, with Hugging Face's names, shapes and dtypes as
    for a batch of one. `size` is the decoded picture's (height, width), `tokens` the number of embeddings the encoder
    will produce (equals the number of feature positions in the prompt). `grid` is the family's own summary: (t, h, w)
    patches for patch families, (rows, columns) tiles for tiling ones. `facts` carries what only the family's own
    expansion reads (timestamps, crops).
    """

    tensors: Mapping[str, Array]
    size: Size
    tokens: int
    grid: tuple[int, ...]
    modality: Modality = Modality.IMAGE
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def nbytes(self) -> int:
        """Bytes held by all tensors."""
        return sum(tensor.nbytes for tensor in self.tensors.values())


@dataclass(frozen=True, slots=True)
class Replacement:
    """The tokens that stand for one item: `ids`, and which runs of them receive embeddings (relative to `ids`)."""

    ids: tuple[int, ...]
    features: tuple[Span, ...]

    @property
    def tokens(self) -> int:
        """How many embeddings the runs take together."""
        return sum(span.length for span in self.features)


@dataclass(frozen=True, slots=True)
class Placeholder:
    """The place of one item in the expanded prompt.

    `span` covers every token the item brought (markers and separators too); `features` only those that receive
    embeddings. `content_hash` is 32 bytes of sha256 over the content and everything that shapes its tensors.
    """

    modality: Modality
    index: int
    span: Span
    features: tuple[Span, ...]
    content_hash: bytes


class ImageProcessor(Protocol):
    """What every family's image half does. Pure: the same picture always gives the same tensors."""

    def measure(self, size: Size) -> tuple[int, tuple[int, ...]]:
        """Token count and grid of a picture of `size`, without any pixels. Raises `BadMedia` if it cannot be taken."""
        ...

    def item(self, image: Image.Image) -> ItemFeatures:
        """The tensors of one RGB picture."""
        ...

    def collate(self, items: Sequence[ItemFeatures]) -> dict[str, Array]:
        """The tensors of several items as Hugging Face's processor returns them for one call."""
        ...
