"""Answers that are made in the background: kept, run by whoever has room, cancelled (edge).

An answer waits in the history until a process of this gateway takes its lease. Every process looks there at intervals, and at
once when it has kept one itself, so that what a process that died has left is run again by another, or by itself after a
restart. Nothing but the history is shared. Which API an answer belongs to is said by the prefix of its id. Above:
app.generating_routes, apis.responses.routes. Below: `background_run`, the rows of the APIs, the history.
"""

import asyncio
import logging
from typing import TypeVar

import attrs
import msgspec

from smg_core.background.api import AnyBackgroundApi, BackgroundApi
from smg_core.background.create import keep_request
from smg_core.background.run import BackgroundRun
from smg_core.background.states import REQUEST, KeptAsker, closed, kept_bytes, next_status, unmarks
from smg_core.background.store import PendingResponse, kept_until, read_log
from smg_core.background.stream import follow
from smg_core.errors import Conflict, InvalidRequest, NotFound, SmgError, StoreFailed
from smg_core.history.store.base import (
    AppendEvents,
    DeleteResponse,
    NotKept,
    Owned,
    PutResponse,
    StaleVersion,
    StoredEvent,
    StoredResponse,
    StoreOperation,
)
from smg_core.hooks import RunEnded
from smg_core.http.exchange import Exchange
from smg_core.http.scope import Header
from smg_core.serving.answering import not_offered_header
from smg_core.serving.offload import worked
from smg_core.serving.request_traces import observer_of
from smg_core.serving.services import Services
from smg_core.serving.timeouts import CurrentTimeouts
from smg_core.stored.bells import Key, News, rung
from smg_core.wire.base import Decoded

__all__ = ["BackgroundService", "background_service"]

D = TypeVar("D", bound=Decoded)

log = logging.getLogger("smg.server")

_TRIES = 50
"""How often a cancellation is tried against a process that keeps events meanwhile."""


class BackgroundService:
    """The answers that one process makes in the background, of all APIs that offer them."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._apis: dict[str, AnyBackgroundApi] = {}
        self._settings = services.live.config.responses
        self._timeouts = CurrentTimeouts(services.live, services.models)
        self._observer = observer_of(services)
        self._owner = services.ids("run_")
        self._runs: dict[Key, asyncio.Task[bool]] = {}
        self._later: dict[Key, float] = {}  # when what could not be run is looked at again
        self._broken: set[Key] = set()  # whose runs have met faults: they are failed by the next
        self._wanted = asyncio.Event()
        self._news = News()

    def offer(self, api: AnyBackgroundApi) -> None:
        """Have answers of this API made here; those whose ids begin alike are of one API."""
        self._apis[api.api.id_prefix] = api

    # ------------------------------------------------------------------------------------------------------------ running

    async def run(self) -> None:
        """Take answers that wait, once the history is open, until this is cancelled. Answers under way are then given up, for
        another process to take."""
        await self._services.running.history.until_open()
        self._wanted = asyncio.Event()  # an event is its loop's, and a gateway may be started again in another one
        try:
            while True:
                self._wanted.clear()
                try:
                    if self._services.registry.any_ready and not (
                        self._services.admission.draining or self._services.life.retiring
                    ):
                        await self._take()
                except SmgError as error:
                    log.warning("answers in the background wait: %s", error)
                await rung(self._wanted, self._settings.poll_s)
        finally:
            for task in self._runs.values():
                task.cancel()
            await asyncio.gather(*self._runs.values(), return_exceptions=True)

    async def _take(self) -> None:
        """Take the leases of what waits, oldest first, as far as there is room."""
        history, settings = self._services.running.history, self._settings
        if len(self._runs) >= settings.background:
            return
        waiting = await history.abandoned("response", settings.queue)
        now = self._services.clock.monotonic()
        later = {each: self._later.get(each, 0.0) for each in map(_key, waiting)}
        self._later = {key: until for key, until in later.items() if until > now}
        self._broken.intersection_update(later)
        for key in later:
            if len(self._runs) >= settings.background:
                return
            api = self._api(key[1])
            if api is None or key in self._later or key in self._runs:
                continue
            if self._running(key[0]) >= settings.background_tenant:
                continue
            try:
                lease = await history.acquire(key[0], "response", key[1], self._owner, settings.lease_s)
            except NotKept:  # since it was kept
                continue
            except StoreFailed:  # for all of them
                raise
            except SmgError as error:  # a hook's, which may have nothing against the others
                self._put_off(key, error)
                continue
            if lease is None:
                continue
            pending = PendingResponse(self._services, api, self._news, key, lease, broken=key in self._broken)
            run = BackgroundRun(self._services, api, pending, self._timeouts, self._observer)
            task = self._runs[key] = asyncio.create_task(run.work())
            task.add_done_callback(lambda task, key=key: self._ended(key, task))  # type: ignore[misc]

    def _api(self, id: str) -> AnyBackgroundApi | None:
        """The row that an answer belongs to; None where this process does not know it."""
        return next((each for each in self._apis.values() if id.startswith(each.api.id_prefix)), None)

    def _running(self, tenant: str) -> int:
        return sum(key[0] == tenant for key in self._runs)

    def _ended(self, key: Key, task: asyncio.Task[bool]) -> None:
        self._runs.pop(key, None)
        if task.cancelled():
            return
        fault = task.exception()
        if fault is not None and not isinstance(fault, SmgError) and key not in self._broken:
            self._services.faults.note("a response in the background, which fails,", fault, key[1])
            self._broken.add(key)
        elif fault is not None or not task.result():
            self._put_off(key, fault)
        self._wanted.set()

    def _put_off(self, key: Key, fault: BaseException | None) -> None:
        """Look at an answer again when its lease would have ended."""
        if fault is not None:
            self._services.faults.note("a response in the background, which is run again,", fault, key[1])
        self._later[key] = self._services.clock.monotonic() + self._settings.lease_s

    # ---------------------------------------------------------------------------------------------- as its routes ask for

    async def create(self, api: BackgroundApi[D], exchange: Exchange, decoded: D) -> None:
        """Keep a request, and answer with the object that waits or with its stream."""
        whole = await keep_request(self._services, api, exchange, decoded)
        self._wanted.set()
        if left_out := getattr(decoded, "not_offered", ()):
            exchange.always.append(not_offered_header(left_out))
        if decoded.generation.stream:
            if exchange.keeper is not None:
                await exchange.keeper.goes_on_as(decoded.generation.id)
            await self._follow(api, exchange, decoded.generation.id, -1)
            return
        head = [(b"content-type", b"application/json"), self._services.request_ids.header(exchange.name)]
        await exchange.respond(200, whole, head)

    async def resume(self, api: BackgroundApi[D], exchange: Exchange, id: str, after: int) -> None:
        """Answer with the events of an answer behind the number `after`, to its end."""
        await self._check_events(api, exchange, id)
        exchange.take_id(self._services.ids, "req_")
        await self._follow(api, exchange, id, after)

    async def _follow(self, api: BackgroundApi[D], exchange: Exchange, id: str, after: int) -> None:
        await follow(self._services, self._news, api.words, exchange, (exchange.caller.tenant, id), after)

    async def answer_again(self, exchange: Exchange, id: str, header: Header) -> None:
        """Answer a request that has begun the answer `id` before: with its events, from the first, and a header that says so.
        Raises InvalidRequest and NotFound."""
        api = self._api(id)
        if api is None:
            raise NotFound("What this request has begun is not known here.")
        await self._check_events(api, exchange, id)
        exchange.request_id = id
        exchange.always.append(header)
        await self._follow(api, exchange, id, -1)

    async def _check_events(self, api: BackgroundApi[D], exchange: Exchange, id: str) -> None:
        if await self._services.running.history.last_event(exchange.caller.tenant, id) < 0:
            raise InvalidRequest(f"The events of this {api.words.noun} are not kept.", param="stream")

    async def cancel(self, api: BackgroundApi[D], key: Key, found: StoredResponse) -> StoredResponse:
        """The answer, cancelled; as it is where it has ended. Whoever runs it finds it ended and stops."""
        for _ in range(_TRIES):
            if next_status(found.status, "cancelled") is None:
                return found
            try:
                return await self._cancelled(api, key, found)
            except StaleVersion:
                again = await self._services.running.history.response(*key)
                if again is None:
                    return found  # deleted meanwhile
                found = again
        raise Conflict(
            f"The {api.words.noun} is being written; try again.", retry_after=self._services.admission.retry_after
        )

    async def _cancelled(self, api: BackgroundApi[D], key: Key, found: StoredResponse) -> StoredResponse:
        (tenant, id), services, now = key, self._services, self._services.clock.time()
        events, size = await read_log(services, api.words, key)
        first = events.following
        kept, closing = await worked(
            services, tenant, kept_bytes(found) + size, lambda: closed(found, events, api.words, "cancelled", now)
        )
        kept = attrs.evolve(kept, expires_at=kept_until(services, services.live.config.history.events_s))
        operations: list[StoreOperation] = [PutResponse(kept, if_version=found.version), *unmarks(id)]
        if closing:
            numbered = tuple(StoredEvent(first + place, data) for place, data in enumerate(closing))
            operations.append(AppendEvents(id, numbered))
        principal = await self._principal(key)
        await services.running.history.write(tenant, operations, principal=principal)
        self._stop(key)
        services.observer.report(
            RunEnded(
                method="BACKGROUND",
                path=api.path,
                status=200,
                sent=0,
                seconds=now - found.created_at,
                outcome="cancelled",
                request_id=id,
                tenant=tenant,
                principal=principal,
            )
        )
        return kept

    async def _principal(self, key: Key) -> str:
        """Whose key a pending answer was asked for with; "" where its request is gone."""
        record = await self._services.running.history.record(key[0], REQUEST, key[1])
        if record is None:
            return ""
        body = record.body
        asker = await worked(self._services, key[0], len(body), lambda: msgspec.json.decode(body, type=KeptAsker))
        return asker.principal

    async def delete(self, key: Key) -> None:
        """Forget the answer; a run of it stops."""
        await self._services.running.history.write(key[0], [DeleteResponse(key[1]), *unmarks(key[1])])
        self._stop(key)

    def _stop(self, key: Key) -> None:
        task = self._runs.get(key)
        if task is not None:
            task.cancel()
        self._news.ring(key)


def background_service(services: Services) -> BackgroundService:
    """The service of a gateway's background answers, which runs while the gateway is started."""
    return services.side_tasks.one_of(BackgroundService, lambda: BackgroundService(services))


def _key(owned: Owned) -> Key:
    return owned.tenant, owned.id
