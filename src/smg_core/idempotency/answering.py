"""Answers a request with an Idempotency-Key: runs the first, keeps its answer, and gives that to those that are the same (edge).

A key is taken by a lease of the history, so that of several processes and gateways with one history only one runs the request;
the others wait, and then send what was kept. An answer that is an error or breaks off is not kept, and frees the key. No body
is held for it: the first one's is digested while its handler reads it, another one's once there is something to compare it with.
Above: the app, for requests that have the header. Below: the history, its locks.
"""

import asyncio
import logging
from collections.abc import Sequence

from smg_core.errors import ClientGone, SmgError
from smg_core.history.store.base import PutRecord, StoredRecord
from smg_core.http.endpoint import Handler, id_prefix_of
from smg_core.http.exchange import Exchange
from smg_core.http.scope import AsgiMessage, Receive, Send
from smg_core.idempotency.kept import (
    AnswerNotKept,
    BodyDigest,
    IdempotencyKeyInUse,
    IdempotencyKeyReused,
    KeptAnswer,
    checked_key,
    of_first_answer,
    place_of,
    target_of,
)
from smg_core.serving.services import Services
from smg_core.stored.bells import News, rung
from smg_core.stored.locks import ConversationLocks

__all__ = ["Idempotency"]

log = logging.getLogger("smg.history")

_KIND = "idempotency"
_LEASE_S = 30.0
"""Seconds after which the key of a process that has died is free."""
_LOOK_S = 0.25
"""How often is looked for what another process has kept."""
_LARGE = 256 * 1024
"""Bytes that are digested or encoded on the event loop at most: more than a millisecond's are in a thread."""
_WRITTEN = 1 << 18


class Idempotency:
    """The requests of one gateway that have a key."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._locks = ConversationLocks(lambda: services.running.history, services.call_later, _KIND)
        self._news = News()
        self._pending = 0

    async def answer(self, exchange: Exchange, handler: Handler) -> None:
        """Answer a request that has the header. Raises what the handler raises, InvalidRequest for a key that is none,
        IdempotencyKeyReused, IdempotencyKeyInUse, AnswerNotKept and StoreFailed."""
        services, caller = self._services, exchange.caller
        owner = exchange.take_id(services.ids, id_prefix_of(handler))
        place = place_of(caller.principal, exchange.route, checked_key(exchange.scope["headers"]))
        if not services.running.history.keeps(caller.tenant, caller.principal):
            await handler(exchange)
            return
        with exchange.watched():
            kept = await self._taken(owner, caller.tenant, place)
            if kept is not None:
                await self._check(kept, exchange)
        if kept is not None:
            await _send_again(kept, exchange)
            return
        await self._run(exchange, handler, owner, place)

    async def _taken(self, owner: str, tenant: str, place: str) -> KeptAnswer | None:
        """The answer that is kept for the key; None where there is none and the key is this request's now. Raises
        IdempotencyKeyInUse where another has it for too long."""
        live, clock = self._services.live, self._services.clock
        until = clock.monotonic() + live.config.idempotency.wait_s
        while True:
            bell = self._news.bell((tenant, place))
            if (kept := await self._read(tenant, place)) is not None:
                return kept
            if await self._locks.take(owner, tenant, place, _LEASE_S):
                return await self._read_locked(owner, tenant, place)
            left = until - clock.monotonic()
            if left <= 0:
                raise IdempotencyKeyInUse(live.limits.retry_after_s)
            await rung(bell, min(left, _LOOK_S))

    async def _read_locked(self, owner: str, tenant: str, place: str) -> KeptAnswer | None:
        """As `_read`, of a key that was just taken: its answer may have been kept since. Without one it stays taken."""
        kept, free = None, True
        try:
            kept = await self._read(tenant, place)
            free = kept is not None
        finally:
            if free:
                await self._let_go(tenant, owner, place)
        return kept

    async def _read(self, tenant: str, place: str) -> KeptAnswer | None:
        found = await self._services.running.history.record(tenant, _KIND, place)
        if found is None:
            return None
        if len(found.body) > _LARGE:
            return await asyncio.to_thread(KeptAnswer.read, found.body)
        return KeptAnswer.read(found.body)

    async def _check(self, kept: KeptAnswer, exchange: Exchange) -> None:
        """Raise IdempotencyKeyReused unless the request is the same as the one that was answered, and AnswerNotKept."""
        if kept.target != target_of(exchange.path, exchange.scope.get("query_string", b"")):
            raise IdempotencyKeyReused
        if kept.digest:
            digest, receive, more = _digest_of(exchange), exchange.ends()[1], True
            while more:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise ClientGone("The client left before its request was complete.")
                more = message.get("more_body", False)
                await _feed(digest, message.get("body", b""))
                if digest.size > kept.size:
                    raise IdempotencyKeyReused
            if digest.text() != kept.digest:
                raise IdempotencyKeyReused
        if kept.body is None:
            raise AnswerNotKept

    # ---------------------------------------------------------------------------------------------------------- the first

    async def _run(self, exchange: Exchange, handler: Handler, owner: str, place: str) -> None:
        """Have the request answered, whose key is taken, and keep what it is told."""
        scope, receive, send = ends = exchange.ends()
        recording = _Recording(self, receive, send, _digest_of(exchange))
        exchange.rebind(scope, recording.receive, recording.send)
        try:
            await handler(exchange)
        finally:
            exchange.settle(ends, exchange.status, exchange.sent, started=exchange.started)
            try:
                if recording.ended and exchange.status < 400 and _went_well(exchange):
                    await self._keep(exchange, owner, place, recording)
            finally:
                recording.drop()
                await self._let_go(exchange.caller.tenant, owner, place)

    async def _keep(self, exchange: Exchange, owner: str, place: str, recording: "_Recording") -> None:
        """Keep the answer. A store that fails is no fault of the request, which has its answer."""
        body = b"".join(recording.pieces) if recording.whole else None
        query = exchange.scope.get("query_string", b"")
        digest, headers = recording.digest, of_first_answer(recording.headers)
        kept = KeptAnswer.of(
            target_of(exchange.path, query), digest.text(), digest.whole_size, recording.status, headers, body
        )
        text = await asyncio.to_thread(kept.text) if len(body or b"") > _LARGE else kept.text()
        now, tenant = self._services.clock.time(), exchange.caller.tenant
        until = now + self._services.live.config.idempotency.kept_s
        record = StoredRecord(kind=_KIND, id=place, body=text, created_at=now, expires_at=until)
        try:
            await self._services.running.history.write(
                tenant, [PutRecord(record)], lease=self._locks.lease(owner), principal=exchange.caller.principal
            )
        except SmgError as error:
            log.warning("an answer was not kept for its Idempotency-Key: %s", error)

    async def _let_go(self, tenant: str, owner: str, place: str) -> None:
        try:
            await self._locks.release(owner)
        except SmgError as error:
            log.warning("an Idempotency-Key stays taken for %g seconds: %s", _LEASE_S, error)
        finally:
            self._news.ring((tenant, place))

    def room(self, size: int, more: int) -> bool:
        """Whether so many bytes more of an answer of `size` bytes can be held until it is over."""
        settings = self._services.live.config.idempotency
        if size + more > settings.answer_bytes or self._pending + more > settings.pending_bytes:
            return False
        self._pending += more
        return True

    def give_back(self, size: int) -> None:
        """So many bytes are held no more."""
        self._pending -= size


class _Recording:
    """What one request reads and writes with: digests its body, and holds its answer until it is over. `whole` is False once the
    answer is too large."""

    def __init__(self, room: Idempotency, receive: Receive, send: Send, digest: BodyDigest) -> None:
        self._room, self._receive, self._send, self.digest = room, receive, send, digest
        self.pieces: list[bytes] = []
        self.headers: Sequence[tuple[bytes, bytes]] = ()
        self.status, self._size = 0, 0
        self.whole, self.ended = True, False

    async def receive(self) -> AsgiMessage:
        message = await self._receive()
        if message["type"] == "http.request":
            await _feed(self.digest, message.get("body", b""))
        return message

    async def send(self, message: AsgiMessage) -> None:
        if message["type"] == "http.response.start":
            self.status, self.headers = message["status"], message.get("headers", ())
        elif message["type"] == "http.response.body":
            self._hold(message.get("body", b""))
            self.ended = not message.get("more_body", False)
        await self._send(message)

    def _hold(self, piece: bytes) -> None:
        if not self.whole or not piece:
            return
        if self._room.room(self._size, len(piece)):
            self.pieces.append(piece)
            self._size += len(piece)
        else:
            self.drop()
            self.whole = False

    def drop(self) -> None:
        """Hold nothing more of the answer."""
        self._room.give_back(self._size)
        self.pieces, self._size = [], 0


def _digest_of(exchange: Exchange) -> BodyDigest:
    return BodyDigest(exchange.headers.get("content-type", ""), exchange.headers.get("content-encoding", ""))


async def _feed(digest: BodyDigest, piece: bytes) -> None:
    if len(piece) > _LARGE:
        await asyncio.to_thread(digest.feed, piece)
    else:
        digest.feed(piece)


def _went_well(exchange: Exchange) -> bool:
    """Whether an answer that is over says no error: a stream may, after its status."""
    return exchange.finished is None or exchange.finished.outcome == "ok"


async def _send_again(kept: KeptAnswer, exchange: Exchange) -> None:
    large = len(kept.body or "") > _LARGE
    body = (await asyncio.to_thread(kept.content) if large else kept.content()) or b""
    headers = kept.headers_again()
    if not _is_stream(kept):
        await exchange.respond(kept.status, body, headers)
        return
    await exchange.start(kept.status, headers)
    for at in range(0, len(body), _WRITTEN):
        await exchange.write(body[at : at + _WRITTEN], False)
    await exchange.write(b"", True)


def _is_stream(kept: KeptAnswer) -> bool:
    return any(name.lower() == "content-type" and value.startswith("text/event-stream") for name, value in kept.headers)
