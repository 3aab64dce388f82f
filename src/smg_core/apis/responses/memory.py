"""The memory of the Responses API: loaded before a request is answered, kept before its answer is complete (edge).

A request that continues a response, or stands in a conversation, is given the items of what came before it, in their order. Its
own items and those of its answer are kept in one write, so that whoever has read the end of an answer can continue it. Where the
store fails then, the answer is given all the same and the failure is logged.

Everything is of one tenant: an id of another is not found. Above: serving.inference, by the row of the API. Below: the history.
"""

import asyncio
import logging
from collections.abc import Sequence, Set
from functools import partial

import attrs
import msgspec
from msgspec.structs import replace

from smg_core.apis.responses.records import PREFIX, answer_bytes, stored_response, turn_of
from smg_core.apis.responses.sealed_compactions import opened_compactions, sealed_compaction
from smg_core.apis.responses.wire.decode import ResponsesRequest, continued
from smg_core.apis.responses.wire.encode import ResponsesStreamEncoder, ResponsesWholeEncoder
from smg_core.apis.responses.wire.stored_items import item_type
from smg_core.errors import Conflict, InvalidRequest, NotFound, SmgError, StoreFailed
from smg_core.history.store.base import (
    AppendItems,
    ItemExists,
    ItemPosition,
    LeaseLost,
    NoConversation,
    PutResponse,
    StoreOperation,
)
from smg_core.json_types import JsonObject
from smg_core.observability.repeats import Repeats
from smg_core.serving.offload import worked
from smg_core.serving.services import Services
from smg_core.stored.expiry import ChainTimes, continued_kept
from smg_core.stored.locks import LOCKED, ConversationLocks
from smg_core.wire.base import StreamEncoder, WholeEncoder
from smg_core.wire.decoding import OWN_LEVELS
from smg_core.wire.json_bounds import NestedJson

__all__ = ["Earlier", "ResponseMemory"]

log = logging.getLogger("smg.server")

_PAGE = 1000  # items of a conversation that are loaded at once
_PENDING = ("queued", "in_progress")


@attrs.frozen
class Earlier:
    """What came before a request where its connection knows that: the items of `texts`, each a JSON array, and before them those
    of the stored response `root`."""

    root: str | None = None
    texts: tuple[bytes, ...] = ()

    @property
    def size(self) -> int:
        """Bytes of the items."""
        return sum(map(len, self.texts))


class ResponseMemory:
    """The memory of one gateway's Responses API."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._failures = Repeats(
            services.live.config.observability.repeat_s, services.live.config.observability.repeats
        )
        self._chains = ChainTimes(services)
        self._locks = ConversationLocks(lambda: services.running.history, services.call_later)

    # ------------------------------------------------------------------------------------------------------------ before

    def concerns(self, decoded: ResponsesRequest) -> bool:
        return decoded.waits_for_history or decoded.store

    async def recall(self, decoded: ResponsesRequest, earlier: Earlier | None = None) -> ResponsesRequest:
        """The request with the items that it continues, `earlier` where they are known already. A request of a tenant for which
        nothing is kept is answered as if it had asked for nothing to be stored."""
        generation = decoded.generation
        caller = generation.caller
        if decoded.store and not self._services.running.history.keeps(caller.tenant, caller.principal):
            kept_nothing = replace(generation, history=replace(generation.history, store=False))
            decoded = replace(decoded, generation=kept_nothing)
        if not decoded.waits_for_history:
            return decoded
        try:
            return await self._with_history(decoded, earlier)
        except BaseException:
            await self.forget(decoded)
            raise

    async def _with_history(self, decoded: ResponsesRequest, earlier: Earlier | None) -> ResponsesRequest:
        reference, tenant = decoded.history, decoded.generation.caller.tenant
        texts: list[bytes] = []
        if earlier is not None:
            texts = [*(await self._chain(decoded, earlier.root) if earlier.root is not None else ()), *earlier.texts]
        elif reference.previous_id is not None:
            texts = await self._chain(decoded, reference.previous_id)
        elif reference.conversation_id is not None:
            await self._lock(decoded, reference.conversation_id)
            texts = [b"[" + b",".join(await self._conversation(tenant, reference.conversation_id)) + b"]"]
        wanted = {str(item.get("id")) for item in decoded.items if item_type(item) == "item_reference"}
        referred = await self._referred(tenant, sorted(wanted)) if wanted else {}

        def whole() -> ResponsesRequest:
            self._check_bounds(texts, "conversation" if reference.previous_id is None else "previous_response_id")
            items: list[JsonObject] = [item for text in texts for item in msgspec.json.decode(text)]
            given = [*items, *decoded.items]
            summaries = opened_compactions(self._services.running.sealer, given, decoded.generation.caller)
            named = {id: item for item in items if (id := str(item.get("id"))) in wanted}
            return continued(decoded, items, summaries, named | referred)

        return await worked(self._services, tenant, decoded.generation.size + sum(map(len, texts)), whole)

    def _check_bounds(self, texts: Sequence[bytes], param: str) -> None:
        """Hold what was loaded to the bounds of a body, before it is parsed: many small texts make a large one."""
        bounds = NestedJson(self._services.live.limits, "the items before this request", own=OWN_LEVELS)
        for text in texts:
            bounds.check(text, param)

    async def _chain(self, decoded: ResponsesRequest, previous: str) -> list[bytes]:
        caller, known = decoded.generation.caller, previous.startswith(PREFIX)
        chain = await self._services.running.history.chain(caller.tenant, previous) if known else None
        if chain is None or chain.missing is not None:
            raise InvalidRequest(
                f"Previous response with id '{(chain.missing if chain else previous) or ''}' not found.",
                param="previous_response_id",
                code="previous_response_not_found",
            )
        if chain.links[-1].status in _PENDING:
            raise InvalidRequest(
                f"The response '{previous}' is not complete yet.",
                param="previous_response_id",
                code="previous_response_not_complete",
            )
        if decoded.store:
            await self._chains.keep(caller.tenant, caller.principal, chain)
        return [text for link in chain.links for text in (link.input, link.output)]

    async def _conversation(self, tenant: str, id: str) -> list[bytes]:
        most, most_bytes = self._services.live.limits.messages, self._services.live.config.history.chain_bytes
        after: str | ItemPosition | None = None
        size = 0
        found: list[bytes] = []
        while True:
            page = await self._services.running.history.items(tenant, id, after=after, limit=_PAGE)
            found += [item.body for item in page.data]
            size += sum(len(item.body) for item in page.data)
            if len(found) > most:
                raise InvalidRequest(f"The conversation has more than {most} items.", param="conversation")
            if size > most_bytes:
                raise InvalidRequest(f"The conversation has more than {most_bytes:,} bytes.", param="conversation")
            if not page.has_more:
                return found
            after = page.data[-1].position or page.data[-1].id  # which another request may delete meanwhile

    async def _lock(self, decoded: ResponsesRequest, id: str) -> None:
        """Lock the conversation for this request: two writers would not see each other's items."""
        history, tenant = self._services.running.history, decoded.generation.caller.tenant
        if await history.conversation(tenant, id) is None:
            raise NotFound(f"Conversation with id '{id}' not found.", param="conversation")
        if not decoded.store:
            return
        settings = self._services.live.config.responses
        seconds = settings.lease_s if decoded.generation.background else settings.lock_s
        if not await self._locks.take(decoded.generation.id, tenant, id, seconds):
            raise Conflict(
                "Another response is being made in this conversation.",
                param="conversation",
                code=LOCKED,
                retry_after=self._services.admission.retry_after,
            )

    async def hold(self, id: str, tenant: str) -> None:
        """Raise LeaseLost where the response `id` has lost the conversation that `recall` has locked for it."""
        if self._locks.has_lost(id):
            raise LeaseLost(id)

    async def _referred(self, tenant: str, ids: Sequence[str]) -> dict[str, JsonObject]:
        """The items of these ids, each from the newest response that has it."""
        found: dict[str, JsonObject] = {}
        wanted, most = frozenset(ids), self._services.live.config.history.chain_bytes
        size = 0
        while wanted:
            responses = await self._services.running.history.holding(tenant, sorted(wanted))
            texts = [text for each in responses for text in (each.input, each.output)]
            size += sum(map(len, texts))
            if size > most:
                raise InvalidRequest(
                    f"The items referred to are in responses of more than {most:,} bytes.", param="input"
                )
            among = await worked(self._services, tenant, sum(map(len, texts)), partial(self._among, texts, wanted))
            if not among:
                break
            found |= among
            wanted -= among.keys()
        return found

    def _among(self, texts: Sequence[bytes], wanted: Set[str]) -> dict[str, JsonObject]:
        """The first item of each of these ids that is in the lists."""
        found: dict[str, JsonObject] = {}
        for text in texts:
            self._check_bounds([text], "input")
            for item in msgspec.json.decode(text):
                if str(item.get("id")) in wanted:
                    found.setdefault(str(item["id"]), item)
            if len(found) == len(wanted):
                break
        return found

    def seal(self, decoded: ResponsesRequest, summary: bytes) -> str:
        """The encrypted_content of a compaction."""
        return sealed_compaction(self._services.running.sealer, summary, decoded.generation.caller)

    # ------------------------------------------------------------------------------------------------------------- after

    async def keep(
        self, decoded: ResponsesRequest, encoder: StreamEncoder | WholeEncoder, *, cut: bool = False
    ) -> None:
        """Keep the response that `encoder` has made; with `cut` as it is where its client has left. One that said nothing is
        kept where its client was told its id."""
        if not decoded.store or not isinstance(encoder, ResponsesStreamEncoder | ResponsesWholeEncoder):
            return
        if cut and encoder.ended:
            return  # it was kept when it ended
        if cut:
            encoder.interrupt()
        response = encoder.response()
        announced = isinstance(encoder, ResponsesStreamEncoder) and encoder.begun
        if cut and not announced and not response["output"]:
            return
        await asyncio.shield(self._write(decoded, response))

    async def _write(self, decoded: ResponsesRequest, response: JsonObject) -> None:
        services, caller, id = self._services, decoded.generation.caller, decoded.generation.id

        def operations() -> tuple[StoreOperation, list[AppendItems]]:
            return PutResponse(stored_response(decoded, response)), turn_of(decoded, response)

        before = continued_kept(services, decoded.history.previous_id)
        put, turn = await worked(services, caller.tenant, answer_bytes(decoded, response), operations)
        write = partial(services.running.history.write, caller.tenant, principal=caller.principal)
        try:
            try:
                await write([put, *before, *turn], lease=self._locks.lease(id))
            except (LeaseLost, NoConversation, ItemExists) as error:  # the conversation is another's now, or is gone
                self._tell(id, error)
                await write([put])
        except SmgError as error:
            self._tell(id, error)

    def _tell(self, id: str, error: SmgError) -> None:
        """Log that a response was not kept; the same failure is logged only now and then."""
        why = error.cause if isinstance(error, StoreFailed) else error.message
        again = self._failures.note((type(error).__name__, why), self._services.clock.monotonic())
        if again is not None:
            more = f", {again} more like it since the last time" if again else ""
            what = "kept" if isinstance(error, StoreFailed) else "kept in its conversation"
            log.error("the response %s was answered and could not be %s: %s%s", id, what, why, more)

    async def forget(self, decoded: ResponsesRequest) -> None:
        try:
            await self._locks.release(decoded.generation.id)
        except SmgError as error:
            self._tell(decoded.generation.id, error)
