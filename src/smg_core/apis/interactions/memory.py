"""The memory of the Interactions API: loaded before a request is answered, kept before its answer is complete (edge).

A request that continues an interaction is given the steps of all before it. Its own steps and those of its answer are kept in one
write, with the events of a stream, which may then be read again from any of them. Where the store fails then, the answer is given
all the same and the failure is logged.

Everything is of one tenant: an id of another is not found. Above: serving.inference, by the row of the API. Below: the history.
"""

import asyncio
import logging

import msgspec
from msgspec.structs import replace

from smg_core.apis.interactions.decode import InteractionRequest, continued_interaction
from smg_core.apis.interactions.encode import InteractionStreamEncoder, InteractionWholeEncoder
from smg_core.apis.interactions.records import INTERACTION_PREFIX, interaction_bytes, stored_interaction
from smg_core.apis.interactions.resume import interaction_events
from smg_core.apis.interactions.steps import PREVIOUS
from smg_core.errors import Conflict, NotFound, SmgError, StoreFailed
from smg_core.history.store.base import AppendEvents, PutResponse, StoredEvent, StoreOperation
from smg_core.json_types import JsonObject
from smg_core.observability.repeats import Repeats
from smg_core.serving.offload import worked
from smg_core.serving.services import Services
from smg_core.stored.expiry import ChainTimes, continued_kept
from smg_core.wire.base import StreamEncoder, WholeEncoder
from smg_core.wire.decoding import OWN_LEVELS
from smg_core.wire.json_bounds import NestedJson

__all__ = ["InteractionMemory"]

log = logging.getLogger("smg.server")

_PENDING = ("queued", "in_progress")


class InteractionMemory:
    """The memory of one gateway's Interactions API."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._chains = ChainTimes(services)
        self._failures = Repeats(
            services.live.config.observability.repeat_s, services.live.config.observability.repeats
        )

    def concerns(self, decoded: InteractionRequest) -> bool:
        return decoded.store or decoded.generation.history.previous_id is not None

    async def recall(self, decoded: InteractionRequest) -> InteractionRequest:
        """The request with the steps that it continues. A tenant of which nothing is kept is answered as if it had asked for
        nothing to be stored."""
        generation = decoded.generation
        caller = generation.caller
        if decoded.store and not self._services.running.history.keeps(caller.tenant, caller.principal):
            kept_nothing = replace(generation, history=replace(generation.history, store=False))
            decoded = replace(decoded, generation=kept_nothing)
        previous = generation.history.previous_id
        if previous is None:
            return decoded
        texts = await self._chain(decoded, previous)

        def whole() -> InteractionRequest:
            bounds = NestedJson(self._services.live.limits, "the steps before this request", own=OWN_LEVELS)
            for text in texts:  # held to the bounds of a body, before they are parsed: many small ones make a large one
                bounds.check(text, PREVIOUS)
            return continued_interaction(decoded, [step for text in texts for step in msgspec.json.decode(text)])

        return await worked(self._services, caller.tenant, generation.size + sum(map(len, texts)), whole)

    async def _chain(self, decoded: InteractionRequest, previous: str) -> list[bytes]:
        caller, known = decoded.generation.caller, previous.startswith(INTERACTION_PREFIX)
        chain = await self._services.running.history.chain(caller.tenant, previous) if known else None
        if chain is None or chain.missing is not None:
            missing = (chain.missing if chain else previous) or ""
            raise NotFound(f"Interaction not found: {missing[:100]}", param=PREVIOUS)
        if chain.links[-1].status in _PENDING:
            after = self._services.admission.retry_after
            raise Conflict(f"The interaction {previous} is not complete yet.", param=PREVIOUS, retry_after=after)
        if decoded.store:
            await self._chains.keep(caller.tenant, caller.principal, chain)
        return [text for link in chain.links for text in (link.input, link.output)]

    async def keep(
        self, decoded: InteractionRequest, encoder: StreamEncoder | WholeEncoder, *, cut: bool = False
    ) -> None:
        """Keep the interaction that `encoder` has made; with `cut` as it is where its client has left. One that said nothing
        is kept where its client was told its id."""
        if not decoded.store or not isinstance(encoder, InteractionStreamEncoder | InteractionWholeEncoder):
            return
        if cut and encoder.ended:
            return  # it was kept when it ended
        announced = isinstance(encoder, InteractionStreamEncoder) and encoder.begun
        if cut:
            encoder.interrupt()
        found = encoder.response()
        if cut and not announced and not found["steps"]:
            return
        frames = encoder.frames() if isinstance(encoder, InteractionStreamEncoder) else b""
        await asyncio.shield(self._write(decoded, found, frames))

    async def _write(self, decoded: InteractionRequest, found: JsonObject, frames: bytes) -> None:
        caller, size = decoded.generation.caller, interaction_bytes(decoded, found) + len(frames)
        operations = await worked(self._services, caller.tenant, size, lambda: _operations(decoded, found, frames))
        operations += continued_kept(self._services, decoded.generation.history.previous_id)
        try:
            await self._services.running.history.write(caller.tenant, operations, principal=caller.principal)
        except SmgError as error:
            self._tell(decoded.generation.id, error)

    def _tell(self, id: str, error: SmgError) -> None:
        """Log that an interaction was not kept, once a while for the same failure."""
        why = error.cause if isinstance(error, StoreFailed) else error.message
        again = self._failures.note((type(error).__name__, why), self._services.clock.monotonic())
        if again is not None:
            more = f", {again} more like it since the last time" if again else ""
            log.error("the interaction %s was answered and could not be kept: %s%s", id, why, more)

    async def forget(self, decoded: InteractionRequest) -> None:
        """Nothing was taken: an interaction may be continued by many at once."""

    async def hold(self, id: str, tenant: str) -> None:
        """Nothing is to be renewed."""


def _operations(decoded: InteractionRequest, found: JsonObject, frames: bytes) -> list[StoreOperation]:
    """What an interaction is kept by."""
    kept: list[StoreOperation] = [PutResponse(stored_interaction(decoded, found))]
    events = interaction_events(frames)
    if events:
        numbered = tuple(StoredEvent(number, data) for number, data in enumerate(events))
        kept.append(AppendEvents(decoded.generation.id, numbered))
    return kept
