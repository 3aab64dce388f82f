"""A request ready for any engine of its model: prompt, ids and media, made once and before a worker is known.

Nothing here depends on an engine. What one kind of engine is sent is made of it by `pipeline.fit`, and kept in `fits` under that
engine's facts, so that a retry on a like worker makes nothing anew. Above: steps, fit and the performers. Below: the records.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import attrs

from smg_core.engines.base import EngineFacts
from smg_core.errors import SmgError
from smg_core.pipeline.media import MediaItem, PlacedMedia
from smg_core.pipeline.served import ServedModel
from smg_core.request import GenerationRequest
from smg_core.tokenizer.base import EncodeReport
from smg_core.tokens import TokenIds

if TYPE_CHECKING:
    from smg_core.pipeline.fit import Fit

__all__ = ["Prompted"]


@attrs.frozen(eq=False)
class Prompted:
    """`text` is the rendered prompt ("" for one that came as ids). `encoded` has the ids that engines are sent: those of a prompt
    with media are expanded, and `media` is what belongs to them; it has none for a model whose engines all speak chat. `check`
    tells what is wrong with a complete answer, or None."""

    request: GenerationRequest
    model: ServedModel
    text: str
    encoded: EncodeReport
    check: Callable[[str], str | None] | None = None
    items: tuple[MediaItem, ...] = ()
    media: PlacedMedia | None = None
    fits: "dict[EngineFacts, Fit | SmgError]" = attrs.field(factory=dict, repr=False)
    packed: dict[EngineFacts, Any] = attrs.field(factory=dict, repr=False)

    @property
    def ids(self) -> TokenIds:
        return self.encoded.ids

    @property
    def media_keys(self) -> Sequence[int] | None:
        """What stands for the ids of a prompt with media where prompts are compared."""
        return self.media.keys if self.media is not None else None
