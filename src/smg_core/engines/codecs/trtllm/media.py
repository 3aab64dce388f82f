"""Pictures for TensorRT-LLM, framed so that files are copied once.

The engine prepares pictures itself: it is sent their files, and the prompt as it was before it was expanded, with one placeholder
a picture. Pure. Above: `packing` makes a `TrtllmRequestMedia`, `codec` puts its pieces into the request. It takes any object with
the attributes below.
"""

from collections.abc import Sequence
from typing import Protocol

import attrs

from smg_core.engines.base import SharedPlace, Tensor
from smg_core.engines.codecs.tensors import BytesLike, MediaMessage, head
from smg_core.tokens import TokenIds

__all__ = ["TrtllmMedia", "TrtllmRequestMedia"]

_IMAGE_DATA = 1  # MultimodalInput


class TrtllmMedia(Protocol):
    """All pictures of a request. `image_data` are the files as they came, `prompt` the ids before they were expanded, `expanded`
    how many the expanded prompt has."""

    @property
    def image_data(self) -> Sequence[bytes]: ...
    @property
    def prompt(self) -> Sequence[int]: ...
    @property
    def expanded(self) -> int: ...


@attrs.frozen(eq=False)
class TrtllmRequestMedia:
    """The pictures of one request."""

    pictures: TrtllmMedia = attrs.field(repr=False)

    @property
    def shareable(self) -> tuple[Tensor, ...]:
        """None: there are no tensors."""
        return ()

    def with_shared(self, places: Sequence[SharedPlace | None]) -> "TrtllmRequestMedia":
        """The same media, since nothing of them can be shared."""
        return self

    def prompt_of(self, ids: TokenIds) -> TokenIds:
        """What the engine is sent for `ids`, the expanded prompt and what was answered since: the prompt as it was, and that."""
        return TokenIds(self.pictures.prompt) + ids[self.pictures.expanded :]

    def message(self) -> MediaMessage:
        """The pictures as MultimodalInput."""
        pieces: list[BytesLike] = []
        for file in self.pictures.image_data:
            pieces += [head(_IMAGE_DATA, len(file)), file]
        return MediaMessage.of(pieces)
