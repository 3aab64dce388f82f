"""Reads and writes of the process that runs an answer in the background (edge).

Every write is made under the lease and numbered behind the last, so that a process which has lost the lease, or whose response
was cancelled or deleted meanwhile, cannot add anything. The last events, the finished response and the end of its pending state
are one write. Above: `background_run`, `background`. Below: the history, the log of events, the table of states.
"""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

import attrs
import msgspec

from smg_core.background.api import BackgroundApi, StoredLog, StoredWords
from smg_core.background.states import (
    REQUEST,
    RUNNING,
    KeptRequest,
    Mark,
    closed,
    ends_soon,
    kept_bytes,
    kept_longer,
    mark,
    next_status,
    pending_until,
    unmarks,
)
from smg_core.errors import InternalError, SmgError, StoreFailed
from smg_core.history.store.base import (
    AppendEvents,
    AppendItems,
    DeleteEvents,
    ItemExists,
    Lease,
    LeaseLost,
    NoConversation,
    PutResponse,
    StoredEvent,
    StoredResponse,
    StoreOperation,
)
from smg_core.json_types import JsonObject
from smg_core.request import Caller
from smg_core.serving.offload import worked
from smg_core.serving.services import Services
from smg_core.stored.bells import Key, News
from smg_core.stored.expiry import continued_kept
from smg_core.wire.base import Decoded, Incoming
from smg_core.wire.settings import MOST_VALUES

__all__ = ["PendingResponse", "kept_until", "read_log"]

D = TypeVar("D", bound=Decoded)
T = TypeVar("T")

_PAGE = 1000
_FIELDS = 1000
"""More values than a request has for the fields that its client left out."""


async def read_log(services: Services, words: StoredWords, key: Key) -> tuple[StoredLog, int]:
    """The stored part of an answer's stream, and its size in bytes."""
    tenant, id = key
    found: list[bytes] = []
    after = -1
    while page := await services.running.history.events(tenant, id, after=after, limit=_PAGE):
        found += [event.data for event in page]
        after = page[-1].number
    size = sum(map(len, found))
    return await worked(services, tenant, size, lambda: words.log(found)), size


def kept_until(services: Services, seconds: float) -> float | None:
    """Until when a response is kept for which clients may still ask in `seconds`, however short the retention is; None where the
    store's own time is longer."""
    kept = services.live.config.history.responses_s
    return None if kept is None or kept >= seconds else services.clock.time() + seconds


class PendingResponse(Generic[D]):
    """The answer `key` of `api`, worked on under `lease`. `broken`: a run of it has met a fault, so that it is failed and not
    begun again."""

    def __init__(
        self, services: Services, api: BackgroundApi[D], news: News, key: Key, lease: Lease, *, broken: bool = False
    ) -> None:
        self._api, self._words = api, api.words
        self._services, self._news, self._history = services, news, services.running.history
        self._settings = services.live.config.responses
        self._broken = broken
        self._runs = 0
        self.key = key
        self.tenant, self.id = key
        self.failure: SmgError | None = None
        self.lost = self.ended = False
        self._lease, self._renewed = lease, services.clock.monotonic()
        self._kept_until: float | None = None  # its request; None where there is none, or it is kept for ever
        self._has_request = False
        self.principal = ""
        self._found: StoredResponse | None = None
        self._bytes = 0
        self.log = api.words.log(())
        self._log_bytes = 0
        self.following = 0

    # ----------------------------------------------------------------------------------------------------------- reading

    async def read(self) -> KeptRequest | None:
        """The request. None where the response is pending no more, and where it cannot be begun again: then it fails."""
        found = self._found = await self._history.response(self.tenant, self.id)
        if found is None or next_status(found.status, "taken") is None:
            return None
        self.log, self._log_bytes = await read_log(self._services, self._words, self.key)
        self.following = self.log.following
        record = await self._history.record(self.tenant, REQUEST, self.id)
        if record is None:
            await self.fail(InternalError("The request is not kept any more."))
            return None
        self._has_request, self._kept_until = True, record.expires_at
        body = record.body
        request = await self._worked(len(body), lambda: msgspec.json.decode(body, type=KeptRequest))
        self.principal = request.principal
        await self._keep_longer()
        marked = await self._history.record(self.tenant, RUNNING, self.id)
        self._runs = 0 if marked is None else msgspec.json.decode(marked.body, type=Mark).runs
        if self._broken or self._runs >= self._settings.runs:
            why = "Its last run met an error of the server." if self._broken else f"It was begun {self._runs} times."
            await self.fail(InternalError(f"The {self._words.noun} could not be completed. {why}"))
            return None
        return request

    @property
    def found(self) -> StoredResponse:
        """The response as it was last read or written."""
        if self._found is None:
            raise AssertionError("it is read first")
        return self._found

    async def decoded(self, request: KeptRequest) -> D:
        """The request, decoded as when it came. It is kept with the fields that its client left out, and may be longer for them
        than a client's may be."""
        services, decode = self._services, self._api.api.decode
        body, taken = request.body.encode(), services.live.limits
        values = min(taken.json_values + _FIELDS, MOST_VALUES)
        limits = attrs.evolve(taken, body_bytes=max(taken.body_bytes, len(body)), json_values=values)
        caller = Caller(self.tenant, request.principal, request.grants)
        incoming = Incoming(
            body,
            self.id,
            headers=request.headers,
            caller=caller,
            limits=limits,
            compat=services.compat,
            hosted=services.hosted(self._api.api.name, caller),
        )
        return await self._worked(len(request.body), lambda: decode(incoming))

    async def _worked(self, size: int, work: Callable[[], T]) -> T:
        return await worked(self._services, self.tenant, size, work)

    async def _closed(
        self, log: StoredLog, what: str, error: SmgError | None = None
    ) -> tuple[StoredResponse, list[bytes]]:
        """The answer after `what`, and the events that close its stream `log`."""
        found, words, now = self.found, self._words, self._services.clock.time()
        if next_status(found.status, what) is None:
            raise LeaseLost(self.id)
        size = kept_bytes(found) + self._log_bytes
        return await self._worked(size, lambda: closed(found, log, words, what, now, error))

    # ----------------------------------------------------------------------------------------------------------- writing

    async def take(self) -> None:
        """Mark the response as running, once more, and close what an earlier run has left open."""
        await self._restate("taken", self.log, 1)

    async def put_off(self) -> None:
        """Put the response back into the queue: this run does not count."""
        await self._restate("put_off", self._words.log(()), -1)

    async def _restate(self, what: str, log: StoredLog, runs: int) -> None:
        """Write what follows `what`, and count `runs` more. The mark is only written over where the response is pending still."""
        found = self.found
        kept, events = await self._closed(log, what)
        counted = mark(self.id, self._runs + runs, found.created_at, self._kept_until)
        await self._write([PutResponse(kept, if_version=found.version), counted, *self._events(events)])
        self._runs += runs
        self._found = attrs.evolve(kept, version=found.version + 1)

    async def append(self, frames: bytes) -> None:
        """Keep more of the stream. Raises an error when it is over its bound; what was given is kept then too."""
        events = self._words.events(frames)
        if events:
            await self._write(self._events(events))
        self._bytes += len(frames)
        if self._bytes > self._settings.log_bytes:
            raise InternalError(
                f"The events of this {self._words.noun} are more than {self._settings.log_bytes:,} bytes."
            )

    async def end(self, decoded: D, response: JsonObject, frames: bytes) -> None:
        """Keep the end of the response: the last events of its stream, the response itself, and its turn of the conversation."""
        found, api, until = (
            self.found,
            self._api,
            kept_until(self._services, self._services.live.config.history.events_s),
        )

        def written() -> tuple[list[StoreOperation], list[AppendItems]]:
            kept = attrs.evolve(api.stored(decoded, response, False), expires_at=until)
            events = self._events(api.words.events(frames), last=True)
            before = continued_kept(self._services, kept.previous_id)
            operations = [PutResponse(kept, if_version=found.version), *before, *unmarks(self.id), *events]
            return operations, api.turn(decoded, response)

        operations, turn = await self._worked(decoded.generation.size + kept_bytes(found) + len(frames), written)
        try:
            await self._write([*operations, *turn])
        except (NoConversation, ItemExists):  # deleted meanwhile, or changed
            await self._write(operations)
        self.ended = True

    async def fail(self, error: SmgError) -> None:
        """End a response that cannot be run, and its stream, with `error`."""
        found = self.found
        kept, events = await self._closed(self.log, "failed", error)
        until = kept_until(self._services, self._services.live.config.history.events_s)
        put = PutResponse(attrs.evolve(kept, expires_at=until), if_version=found.version)
        await self._write([put, *unmarks(self.id), *self._events(events, last=True)])
        self.failure, self.ended = error, True

    def _events(self, data: Sequence[bytes], *, last: bool = False) -> list[StoreOperation]:
        if not data:
            return []
        until = None if last else pending_until(self._services.clock.time(), self._settings.pending_s)
        numbered = tuple(StoredEvent(self.following + place, each) for place, each in enumerate(data))
        return [AppendEvents(self.id, numbered, until)]

    async def _write(self, operations: Sequence[StoreOperation]) -> None:
        """Write, and try again for as long as a lease lasts where the store fails."""
        clock = self._services.clock
        until = clock.monotonic() + self._settings.lease_s
        while True:
            try:
                await self._history.write(self.tenant, operations, lease=self._lease, principal=self.principal)
                break
            except StoreFailed:
                if clock.monotonic() > until:
                    raise
                await asyncio.sleep(self._settings.poll_s)
        self.following += sum(len(each.events) for each in operations if isinstance(each, AppendEvents))
        self._news.ring(self.key)

    # ------------------------------------------------------------------------------------------------------------- lease

    async def guard(self, task: "asyncio.Task[bool]") -> None:
        """Keep the lease while `task` works, and cancel it once the response is not its any more: `lost` says so then."""
        settings = self._settings
        while not self.lost:
            await asyncio.sleep(min(settings.poll_s, settings.lease_s / 4))
            await self.look()
        task.cancel()

    async def look(self) -> None:
        """See whether the response is still this process's, and renew the lease and the time of what is kept where they are due:
        the guard does so at intervals. A request that is lost says nothing: then the run is about to fail the response."""
        clock, lease_s = self._services.clock, self._settings.lease_s
        try:
            self.lost = self._has_request and await self._history.record(self.tenant, RUNNING, self.id) is None
            if not self.lost and clock.monotonic() - self._renewed > lease_s / 4:
                began = clock.monotonic()
                self._lease = await self._history.renew(self.tenant, self._lease, lease_s)
                self._renewed = began
            if not self.lost:
                await self._keep_longer()
            await self._api.memory.hold(self.id, self.tenant)
        except LeaseLost:
            self.lost = True
        except SmgError:  # the store fails, or a hook refuses: until the lease ends there are further tries
            self.lost = clock.monotonic() - self._renewed > lease_s * 0.75

    async def _keep_longer(self) -> None:
        """Have everything of the response kept for longer, where its time is up before long: it may be made for days."""
        now, pending_s = self._services.clock.time(), self._settings.pending_s
        if self._kept_until is None or not ends_soon(self._kept_until, now, pending_s):
            return
        until = pending_until(now, pending_s)
        longer = kept_longer(self.id, until)
        await self._history.write(self.tenant, longer, lease=self._lease, principal=self.principal)
        self._kept_until = until
        found = self._found
        if found is not None and found.expires_at is not None:
            self._found = attrs.evolve(found, expires_at=max(found.expires_at, until))

    async def clear(self) -> None:
        """Release the lease, and delete events that were kept after the response was deleted. The one does not wait for the
        other to do well: without its lease the response can be made elsewhere."""
        try:
            with contextlib.suppress(SmgError):  # a store that fails, or a hook that refuses
                if await self._history.response(self.tenant, self.id) is None:
                    await self._history.write(self.tenant, [DeleteEvents(self.id)])
        finally:
            with contextlib.suppress(SmgError):
                await self._history.release(self.tenant, self._lease)
