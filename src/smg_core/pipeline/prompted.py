"""A request ready for any engine of its model: prompt, ids and media, made once and before a worker is known.

Nothing here depends on an engine. What one kind of engine is sent is made of it by `pipeline.fit`, and kept in `fits` under that
engine's facts, so that a retry on a like worker makes nothing anew. Above: steps, fit and the performers. Below: the records.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from smg_core.engines.base import EngineFacts, RequestMedia
from smg_core.errors import SmgError
from smg_core.events import DroppedReasoning
from smg_core.pipeline.media import MediaItem, PlacedMedia
from smg_core.pipeline.served import ServedModel
from smg_core.request import GenerationRequest
from smg_core.tokenizer.base import EncodeReport
from smg_core.tokens import TokenIds

if TYPE_CHECKING:
    from smg_core.pipeline.fit import Fit

__all__ = ["Prompted"]


class Prompted(Struct, frozen=True, eq=False):
    """`text` is the rendered prompt ("" for one that came as ids); `ids` what engines are sent: those of a prompt with media are
    expanded, and `media` is what belongs to them; there are none for a model whose engines all speak chat. `encoded` says how the
    ids were come by, `salt` in which part of the caches. `check` tells what is wrong with a complete answer, or None.
    `dropped` is the sealed reasoning that did not open: `request` has all other in plain text."""

    request: GenerationRequest
    model: ServedModel
    text: str
    encoded: EncodeReport
    ids: TokenIds
    salt: str = ""
    check: Callable[[str], str | None] | None = None
    items: tuple[MediaItem, ...] = ()
    media: PlacedMedia | None = None
    dropped: tuple[DroppedReasoning, ...] = ()
    fits: "list[tuple[EngineFacts, Fit | SmgError]]" = []
    packed: dict[EngineFacts, RequestMedia] = {}

    @property
    def media_keys(self) -> Sequence[int] | None:
        """What stands for the ids of a prompt with media where prompts are compared."""
        return self.media.keys if self.media is not None else None
