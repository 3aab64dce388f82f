"""A request ready for any engine of its model: prompt, ids and media, made once and before a worker is known.

Nothing here depends on an engine. `pipeline.fit.fit` makes of it what one kind of engine is sent, and keeps that in `fits`
with the engine's facts, so that a retry on a worker of the same kind need not make it again. Above: steps, fit and the
performers. Below: the records.
"""

from collections.abc import Callable, Sequence

from msgspec import Struct

from smg_core.engines.base import EngineFacts, RequestMedia
from smg_core.events import DroppedReasoning, EditedContext
from smg_core.pipeline.prompt.media import MediaItem, PlacedMedia
from smg_core.pipeline.prompt.prompt_shares import PromptShares
from smg_core.pipeline.prompt.served import ServedModel
from smg_core.request import GenerationRequest
from smg_core.tokenizer.base import EncodeReport
from smg_core.tokens import TokenIds

__all__ = ["Prompted"]


class Prompted(Struct, frozen=True, eq=False):
    """`text` is the rendered prompt ("" if the client sent ids). `ids` are sent to engines, with the placeholders of `media`
    expanded; they are empty for a model whose engines all speak chat. `encoded` reports how the ids were found, `salt` in which
    part of the caches. `check` returns why a complete answer violates its format, or None. `dropped`: sealed reasoning that did
    not open; the rest is plain text in `request`. `edits`: the edits of the context that have been made. `eased`: an engine has
    rejected it, so no engine is told a schema that does not bind. `fits` and `packed` are made on demand, one for each kind of
    engine. `maker`: the outside provider that wants the last reasoning back that came with the request (`EngineFacts.maker`)."""

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
    edits: tuple[EditedContext, ...] = ()
    eased: bool = False
    fits: list[tuple[EngineFacts, object]] = []
    packed: dict[EngineFacts, RequestMedia] = {}
    maker: tuple[str, str, str] | None = None

    @property
    def media_keys(self) -> Sequence[int] | None:
        """Routing compares these instead of the ids of a prompt with media; None without media."""
        return self.media.keys if self.media is not None else None

    def shares(self, *, hosted: bool) -> PromptShares | None:
        """What the prompt consists of besides text; None where that is nothing, and the turn does not come after results of tools
        that ran here (`hosted`): nearly always."""
        shows = bool(self.items) or self.request.transcription is not None
        if not shows and not hosted:
            return None
        placed = self.media.tokens if self.media is not None else None
        return PromptShares(hosted, placed if shows else {})
