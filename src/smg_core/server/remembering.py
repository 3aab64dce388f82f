"""What the Responses API remembers: loaded before a request is answered, kept before its answer is complete (edge).

A request that continues a response, or stands in a conversation, is given the items of what came before it, in their order. Its
own items and those of its answer are kept in one write, so that whoever has read the end of an answer can continue it. Where the
store fails then, the answer is given all the same and the failure is logged.

Everything is of one tenant: an id of another is not found. Above: server.inference, by the row of the API. Below: the history.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence, Set
from functools import partial
from typing import TypeVar

import attrs
import msgspec
from msgspec.structs import replace

from smg_core.errors import Conflict, InvalidRequest, NotFound, SealBroken, SmgError, StoreFailed
from smg_core.history.base import Lease
from smg_core.json_types import JsonObject
from smg_core.observability.repeats import Repeats
from smg_core.protocols.base import StreamEncoder, WholeEncoder
from smg_core.protocols.decoding import OWN_LEVELS
from smg_core.protocols.json_bounds import NestedJson
from smg_core.protocols.responses import ResponsesRequest, continued
from smg_core.protocols.responses_encode import ResponsesStreamEncoder, ResponsesWholeEncoder
from smg_core.protocols.responses_items import item_type
from smg_core.protocols.responses_summaries import Said, read_said
from smg_core.request import Caller
from smg_core.sealing.sealer import SealContext
from smg_core.server.responses_records import PREFIX, operations_of
from smg_core.server.runtime import Runtime

__all__ = ["Earlier", "ResponseMemory"]

log = logging.getLogger("smg.server")
T = TypeVar("T")

_INLINE = 32 * 1024
"""Bytes of items that are read on the event loop, in about a millisecond at most."""
_PAGE = 1000  # items of a conversation that are loaded at once
_PENDING = ("queued", "in_progress")


def _compaction_context(caller: Caller) -> SealContext:
    """The context that a compaction is sealed for: its tenant, and every model, because its summary is plain text."""
    return SealContext("compaction", caller.tenant)


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

    def __init__(self, gateway: Runtime) -> None:
        self._gateway = gateway
        self._failures = Repeats(gateway.config.observability.repeat_s, gateway.config.observability.repeats)
        self._locks: dict[str, Lease] = {}  # of conversations, by the request that has them

    # ------------------------------------------------------------------------------------------------------------ before

    async def recall(self, decoded: ResponsesRequest, earlier: Earlier | None = None) -> ResponsesRequest:
        """The request with the items that it continues, `earlier` where they are known already. A tenant of which nothing is
        kept is answered as if it had asked for nothing to be stored."""
        generation = decoded.generation
        caller = generation.caller
        if decoded.store and not self._gateway.history.keeps(caller.tenant, caller.principal):
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
            texts = [*(await self._chain(tenant, earlier.root) if earlier.root is not None else ()), *earlier.texts]
        elif reference.previous_id is not None:
            texts = await self._chain(tenant, reference.previous_id)
        elif reference.conversation_id is not None:
            await self._lock(decoded, reference.conversation_id)
            texts = [b"[" + b",".join(await self._conversation(tenant, reference.conversation_id)) + b"]"]
        wanted = [str(item.get("id")) for item in decoded.items if item_type(item) == "item_reference"]
        referred = await self._referred(tenant, wanted) if wanted else {}

        def whole() -> ResponsesRequest:
            self._check_bounds(texts, "conversation" if reference.previous_id is None else "previous_response_id")
            items: list[JsonObject] = [item for text in texts for item in msgspec.json.decode(text)]
            summaries = self._summaries([*items, *decoded.items], decoded.generation.caller)
            return continued(decoded, items, summaries, referred)

        return await self._off_the_loop(whole, decoded.generation.size + sum(map(len, texts)), tenant)

    def _check_bounds(self, texts: Sequence[bytes], param: str) -> None:
        """Hold what was loaded to the bounds of a body, before it is parsed: many small texts make a large one."""
        bounds = NestedJson(self._gateway.limits, "the items before this request", own=OWN_LEVELS)
        for text in texts:
            bounds.check(text, param)

    async def _off_the_loop(self, work: Callable[[], T], size: int, tenant: str) -> T:
        if size <= _INLINE:
            return work()
        return await self._gateway.executor.run(lambda _: work(), size=size, caller=tenant)

    async def _chain(self, tenant: str, previous: str) -> list[bytes]:
        known = previous.startswith(PREFIX)
        chain = await self._gateway.history.chain(tenant, previous) if known else None
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
        return [text for link in chain.links for text in (link.input, link.output)]

    async def _conversation(self, tenant: str, id: str) -> list[bytes]:
        most, most_bytes = self._gateway.limits.messages, self._gateway.config.history.chain_bytes
        after, size = None, 0
        found: list[bytes] = []
        while True:
            page = await self._gateway.history.items(tenant, id, after=after, limit=_PAGE)
            found += [item.body for item in page.data]
            size += sum(len(item.body) for item in page.data)
            if len(found) > most:
                raise InvalidRequest(f"The conversation has more than {most} items.", param="conversation")
            if size > most_bytes:
                raise InvalidRequest(f"The conversation has more than {most_bytes:,} bytes.", param="conversation")
            if not page.has_more:
                return found
            after = page.data[-1].id

    async def _lock(self, decoded: ResponsesRequest, id: str) -> None:
        """Lock the conversation for this request: two writers would not see each other's items."""
        history, tenant = self._gateway.history, decoded.generation.caller.tenant
        if await history.conversation(tenant, id) is None:
            raise NotFound(f"Conversation with id '{id}' not found.", param="conversation")
        if not decoded.store:
            return
        owner, seconds = decoded.generation.id, self._lock_seconds(decoded)
        lease = await history.acquire(tenant, "conversation", id, owner, seconds)
        if lease is None:
            raise Conflict(
                "Another response is being made in this conversation.",
                param="conversation",
                code="conversation_locked",
                retry_after=1.0,
            )
        self._locks[owner] = lease

    def _lock_seconds(self, decoded: ResponsesRequest) -> float:
        """How long a conversation is locked at once. A run in the background renews it, so that another can soon take over."""
        settings = self._gateway.config.responses
        return settings.lease_s if decoded.generation.background else settings.lock_s

    async def hold(self, id: str, tenant: str) -> None:
        """Renew what `recall` has taken for the response `id` in the background. Raises LeaseLost and StoreFailed."""
        lease = self._locks.get(id)
        if lease is not None:
            self._locks[id] = await self._gateway.history.renew(tenant, lease, self._gateway.config.responses.lease_s)

    async def _referred(self, tenant: str, ids: Sequence[str]) -> dict[str, JsonObject]:
        """The items of these ids, each from the newest response that has it."""
        found: dict[str, JsonObject] = {}
        wanted, most = frozenset(ids), self._gateway.config.history.chain_bytes
        size = 0
        while wanted:
            responses = await self._gateway.history.holding(tenant, sorted(wanted))
            texts = [text for each in responses for text in (each.input, each.output)]
            size += sum(map(len, texts))
            if size > most:
                raise InvalidRequest(
                    f"The items referred to are in responses of more than {most:,} bytes.", param="input"
                )
            among = await self._off_the_loop(partial(self._among, texts, wanted), sum(map(len, texts)), tenant)
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

    def _summaries(self, items: Sequence[JsonObject], caller: Caller) -> Mapping[str, tuple[Said, ...]]:
        """What the sealed compactions among the items say. Those that do not open are left out."""
        found: dict[str, tuple[Said, ...]] = {}
        for item in items:
            token = item.get("encrypted_content")
            if item_type(item) == "compaction" and isinstance(token, str):
                try:
                    said = read_said(self._gateway.sealer.open(token.encode(), _compaction_context(caller)))
                except SealBroken:
                    continue
                if said is not None:
                    found[token] = said
        return found

    def seal(self, decoded: ResponsesRequest, said: bytes) -> str:
        """The encrypted_content of a compaction."""
        return self._gateway.sealer.seal(said, _compaction_context(decoded.generation.caller)).decode()

    # ------------------------------------------------------------------------------------------------------------- after

    async def keep(
        self, decoded: ResponsesRequest, encoder: StreamEncoder | WholeEncoder, *, cut: bool = False
    ) -> None:
        if not decoded.store or not isinstance(encoder, ResponsesStreamEncoder | ResponsesWholeEncoder):
            return
        if cut and encoder.ended:
            return  # it was kept when it ended
        if cut:
            encoder.interrupt()
        response = encoder.response()
        if cut and not response["output"]:
            return
        await asyncio.shield(self._write(decoded, response))

    async def _write(self, decoded: ResponsesRequest, response: JsonObject) -> None:
        caller = decoded.generation.caller
        size = decoded.generation.size
        operations = await self._off_the_loop(lambda: operations_of(decoded, response), size, caller.tenant)
        try:
            await self._gateway.history.write(caller.tenant, operations, principal=caller.principal)
        except SmgError as error:
            self._tell(decoded.generation.id, error)

    def _tell(self, id: str, error: SmgError) -> None:
        """Log that a response was not kept; the same failure is logged only now and then."""
        why = error.detail or error.message if isinstance(error, StoreFailed) else error.message
        again = self._failures.note((type(error).__name__, why), self._gateway.clock.monotonic())
        if again is not None:
            more = f", {again} more like it since the last time" if again else ""
            log.error("the response %s was answered and could not be kept: %s%s", id, why, more)

    async def forget(self, decoded: ResponsesRequest) -> None:
        lease = self._locks.pop(decoded.generation.id, None)
        if lease is None:
            return
        try:
            await self._gateway.history.release(decoded.generation.caller.tenant, lease)
        except StoreFailed as error:
            self._tell(decoded.generation.id, error)
