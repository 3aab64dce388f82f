"""Performs `Prepare`: renders, encodes and checks a request, long work off the event loop (edge).

Decides nothing but what runs on the event loop and what does not; what is made is `pipeline.prepare`'s affair.
"""

import asyncio
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor

import attrs

from smg_core.clock import Clock
from smg_core.errors import NoWorker
from smg_core.hooks import EncodeDone, MediaLoaded, Rendered
from smg_core.pipeline.driver import Run
from smg_core.pipeline.media import MediaItem, PlacedMedia, refuse_unless_taken
from smg_core.pipeline.prepare import assemble, encode, refuse_too_long, render, salt_of, take_media
from smg_core.pipeline.prompted import Prompted
from smg_core.pipeline.served import ServedModel
from smg_core.pipeline.steps import Prepare
from smg_core.pipeline.trace import Trace
from smg_core.request import GenerationRequest, Text
from smg_core.tokenizer.base import EncodeReport, Prompt
from smg_core.tokens import TokenIds
from smg_core.workers.registry import Registry

__all__ = ["Preparing"]


class Preparing:
    """`render_inline` is how many characters of messages may be rendered inside the event loop (about a millisecond's worth), as
    each model's `encode_inline` is for encoding; what is longer goes to `pool`."""

    def __init__(
        self,
        *,
        registry: Registry,
        models: Mapping[str, ServedModel],
        clock: Clock,
        pool: Executor,
        render_inline: int = 200_000,
    ) -> None:
        self._registry = registry
        self._models = models
        self._clock = clock
        self._pool = pool
        self._render_inline = render_inline

    async def __call__(self, step: Prepare, run: Run) -> Prompted:
        return await self.prepare(step.request, run.trace)

    async def prepare(self, request: GenerationRequest, trace: Trace) -> Prompted:
        """The request, ready for any engine of its model. Raises ModelNotFound, NoWorker, and what is wrong with the request."""
        model = self._models.get(request.model)
        if model is None:
            self._registry.refuse(request.model)
            raise NoWorker(f"The model '{request.model}' is still being loaded.", retry_after=1.0)
        items = take_media(request, model)
        prompt = await self._render(request, model)
        rendered = self._clock.monotonic()
        trace.report(Rendered(request.id, rendered))
        salt = salt_of(request)
        encoded = await self._encode(prompt, model, salt)
        now = self._clock.monotonic()
        media = await self._place(request, model, items, encoded.ids) if model.media is not None else None
        if media is not None:
            encoded = attrs.evolve(encoded, ids=media.ids)
        trace.report(
            EncodeDone(
                request.id,
                encoded.characters,
                encoded.cached_characters,
                len(encoded.ids),
                now - rendered,
                now,
            )
        )
        if media is not None:
            trace.report(MediaLoaded(request.id, len(items), self._clock.monotonic()))
        text = prompt.text if isinstance(prompt, Prompt) else ""
        trace.prompted = prompted = assemble(request, model, text, encoded, items, media, salt=salt)
        return prompted

    async def _render(self, request: GenerationRequest, model: ServedModel) -> Prompt | TokenIds:
        if model.template is None and model.tokenizer is None and request.prompt is None:
            return TokenIds()  # its engines write the prompt themselves
        if _characters(request) <= self._render_inline:
            return render(request, model)
        return await asyncio.get_running_loop().run_in_executor(self._pool, render, request, model)

    async def _encode(self, prompt: Prompt | TokenIds, model: ServedModel, salt: str) -> EncodeReport:
        if isinstance(prompt, TokenIds) or model.tokenizer is None:
            return encode(prompt, model, salt)
        if sum(map(len, prompt.pieces)) <= model.encode_inline:
            return encode(prompt, model, salt)
        known = model.tokenizer.recall(prompt, salt=salt)
        if known is not None:
            return known
        return await asyncio.get_running_loop().run_in_executor(self._pool, encode, prompt, model, salt)

    async def _place(
        self, request: GenerationRequest, model: ServedModel, items: Sequence[MediaItem], ids: TokenIds
    ) -> PlacedMedia | None:
        """Fetch and process the media and expand the prompt for them. This has no time-out of its own beside those of fetching: a
        client that leaves cancels it."""
        media = model.media
        if media is None:
            return None
        if not items:
            if request.prompt is not None or not model.protect_control:
                media.refuse_strays(ids)
            return None
        kinds = self._registry.kinds(request.model)
        if all(facts.media is not None for facts in kinds):
            taken = frozenset(kind for facts in kinds for kind in facts.media or ())
            refuse_unless_taken(items, request.model, taken)
        loaded = await media.load(
            items,
            normalizes=any(facts.normalizes for facts in kinds),
            tenant=request.caller.tenant,
            check=lambda tokens: refuse_too_long(request, len(ids) + tokens - len(items), model.context_length),
        )
        return await media.place(ids, loaded)


def _characters(request: GenerationRequest) -> int:
    return sum(len(part.text) for message in request.messages for part in message.parts if isinstance(part, Text))
