"""Answers a request with an Idempotency-Key: runs the first, keeps its answer, and gives that to those that are the same (edge).

A key is taken by a lease of the history, so that of several processes and gateways with one history only one runs the request;
the others wait, and then send what was kept. An answer that is an error or breaks off is not kept, and frees the key; of one that
is made in the background is kept which it is, as soon as it has begun. No body is held for it: the first one's is digested while
its handler reads it, another one's once there is something to compare it with. Above: the app, for requests that have the header.
Below: `recording`, the history, its locks, the background.
"""

import asyncio
import logging

from smg_core.background.service import background_service
from smg_core.errors import ClientGone, SmgError
from smg_core.history.store.base import PutRecord, StoredRecord
from smg_core.http.endpoint import Handler, id_prefix_of
from smg_core.http.exchange import Exchange
from smg_core.idempotency.kept import (
    REPLAYED,
    AnswerNotKept,
    IdempotencyKeyInUse,
    IdempotencyKeyReused,
    KeptAnswer,
    checked_key,
    place_of,
    target_of,
)
from smg_core.idempotency.recording import LARGE, FirstAnswer, Room, body_digest, fed
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
_WRITTEN = 1 << 18


class Idempotency:
    """The requests of one gateway that have a key."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._locks = ConversationLocks(lambda: services.running.history, services.call_later, _KIND)
        self._news = News()
        self._room = Room(services.live)

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
        if kept is None:
            await self._run(exchange, handler, owner, place)
        elif kept.body is None:
            await background_service(services).answer_again(exchange, kept.goes_on, REPLAYED)
        else:
            await _send_again(kept, exchange)

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
        if len(found.body) > LARGE:
            return await asyncio.to_thread(KeptAnswer.read, found.body)
        return KeptAnswer.read(found.body)

    async def _check(self, kept: KeptAnswer, exchange: Exchange) -> None:
        """Raise IdempotencyKeyReused unless the request is the same as the one that was answered, and AnswerNotKept."""
        if kept.target != target_of(exchange.path, exchange.scope.get("query_string", b"")):
            raise IdempotencyKeyReused
        if kept.digest:
            digest, receive, more = body_digest(exchange), exchange.ends()[1], True
            while more:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise ClientGone("The client left before its request was complete.")
                more = message.get("more_body", False)
                await fed(digest, message.get("body", b""))
                if digest.size > kept.size:
                    raise IdempotencyKeyReused
            if digest.text() != kept.digest:
                raise IdempotencyKeyReused
        if kept.body is None and not kept.goes_on:
            raise AnswerNotKept

    # ---------------------------------------------------------------------------------------------------------- the first

    async def _run(self, exchange: Exchange, handler: Handler, owner: str, place: str) -> None:
        """Have the request answered, whose key is taken, and keep what it is told."""
        services, tenant = self._services, exchange.caller.tenant

        async def goes_on_as(id: str) -> bool:
            return await self._put(exchange, owner, place, recording.kept(exchange, id))

        recording = FirstAnswer(
            self._room, exchange, services.call_later, services.live.config.idempotency.left_s, goes_on_as
        )
        scope, _, _ = ends = exchange.ends()
        exchange.rebind(scope, recording.receive, recording.send)
        exchange.keeper = recording
        try:
            await handler(exchange)
        finally:
            recording.over()
            exchange.keeper = None
            exchange.settle(ends, exchange.status, exchange.sent, started=exchange.started)
            try:
                if recording.is_whole and exchange.status < 400 and _went_well(exchange):
                    await self._put(exchange, owner, place, recording.kept(exchange))
            finally:
                recording.drop()
                await self._let_go(tenant, owner, place)

    async def _put(self, exchange: Exchange, owner: str, place: str, kept: KeptAnswer) -> bool:
        """Keep an answer; returns whether that was done. A store that fails is no fault of the request, which has its answer."""
        text = await asyncio.to_thread(kept.text) if len(kept.body or "") > LARGE else kept.text()
        now, tenant = self._services.clock.time(), exchange.caller.tenant
        until = now + self._services.live.config.idempotency.kept_s
        record = StoredRecord(kind=_KIND, id=place, body=text, created_at=now, expires_at=until)
        try:
            await self._services.running.history.write(
                tenant, [PutRecord(record)], lease=self._locks.lease(owner), principal=exchange.caller.principal
            )
        except SmgError as error:
            log.warning("an answer was not kept for its Idempotency-Key: %s", error)
            return False
        return True

    async def _let_go(self, tenant: str, owner: str, place: str) -> None:
        try:
            await self._locks.release(owner)
        except SmgError as error:
            log.warning("an Idempotency-Key stays taken for %g seconds: %s", _LEASE_S, error)
        finally:
            self._news.ring((tenant, place))


def _went_well(exchange: Exchange) -> bool:
    """Whether an answer that is over says no error: a stream may, after its status."""
    return exchange.finished is None or exchange.finished.outcome == "ok"


async def _send_again(kept: KeptAnswer, exchange: Exchange) -> None:
    large = len(kept.body or "") > LARGE
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
