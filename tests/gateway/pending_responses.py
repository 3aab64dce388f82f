"""A response in the background that waits in a store, and the process that works on it, without an engine."""

import json
from typing import Any

import attrs
import msgspec

from smg_core import Config, Gateway
from smg_core.apis.responses.api import background_responses, responses_api
from smg_core.apis.responses.memory import ResponseMemory
from smg_core.apis.responses.wire.decode import ResponsesRequest, decode_responses
from smg_core.apis.responses.wire.encode import ResponsesStreamEncoder
from smg_core.background.api import BackgroundApi
from smg_core.background.service import BackgroundService
from smg_core.background.states import KeptRequest, marks, pending_until
from smg_core.background.store import PendingResponse
from smg_core.events import Done, Finished, Started, TextDelta, TextEnd, Usage
from smg_core.history.store.base import AppendEvents, PutResponse, StoredEvent
from smg_core.http.settings import ResponsesConfig
from smg_core.stored.bells import News
from smg_core.testing import FakeClock
from smg_core.tools.opening import OpenTools
from smg_core.wire.base import Incoming

ID, TENANT, PRINCIPAL = "resp_1", "acme", "key_1"
LEASE = 30.0


@attrs.define
class Worker:
    """A process that works on the response: what it has read, and the encoder of its run."""

    pending: PendingResponse[ResponsesRequest]
    decoded: ResponsesRequest
    encoder: ResponsesStreamEncoder

    async def begins(self) -> None:
        await self.pending.append(self.encoder.start() + self.encoder.encode([Started(3, None, "sim")]))

    async def says(self, text: str) -> None:
        await self.pending.append(self.encoder.encode([TextDelta(0, text)]))

    async def ends(self) -> None:
        frames = self.encoder.encode([TextDelta(0, "."), TextEnd(0), Finished(0, "stop"), Usage(3, 2), Done()])
        await self.pending.end(self.decoded, self.encoder.response(), frames)


class Waiting:
    """A gateway with `history`, by a clock that is passed in, and one response that is kept there."""

    def __init__(self, history: Any, clock: FakeClock, settings: ResponsesConfig) -> None:
        self.clock, self.settings = clock, settings
        self.gateway = Gateway(config=Config(responses=settings), clock=clock)
        self.gateway.services.running.history, self.gateway.services.running.tools = history, OpenTools()
        memory = ResponseMemory(self.gateway.services)
        row = responses_api(clock.time, memory, memory.seal)
        self.api: BackgroundApi[ResponsesRequest] = background_responses(row, memory, clock.time, memory.seal)
        self.background = BackgroundService(self.gateway.services)
        self.background.offer(self.api)

    async def create(self) -> None:
        body = {"model": "sim", "input": "Hello", "background": True, "stream": True}
        decoded = decode_responses(Incoming(json.dumps(body).encode(), ID))
        now = self.clock.time()
        until = pending_until(now, self.settings.pending_s)
        encoder = self.api.stream(decoded, int(now))
        opening = self.api.words.events(encoder.queued())
        kept = self.api.stored(decoded, encoder.response(), True)
        request = KeptRequest(msgspec.json.encode(decoded.body).decode(), {}, PRINCIPAL)
        events = tuple(StoredEvent(number, data) for number, data in enumerate(opening))
        operations = [
            PutResponse(attrs.evolve(kept, expires_at=until), if_version=0),
            *marks(ID, request, now, until),
            AppendEvents(ID, events, until),
        ]
        await self.gateway.history.write(TENANT, operations)

    async def pending(self, owner: str) -> PendingResponse[ResponsesRequest] | None:
        """The response, under a lease; None where it does not wait."""
        history = self.gateway.history
        if not await history.abandoned("response"):
            return None
        lease = await history.acquire(TENANT, "response", ID, owner, LEASE)
        return None if lease is None else PendingResponse(self.gateway.services, self.api, News(), (TENANT, ID), lease)

    async def taken(self, pending: PendingResponse[ResponsesRequest]) -> Worker | None:
        """A worker that has read the request; None where the response is pending no more."""
        request = await pending.read()
        if request is None:
            return None
        decoded = await pending.decoded(request)
        await pending.take()
        encoder = self.api.stream(decoded, int(pending.found.created_at))
        encoder.go_on(pending.following, pending.log.items)
        assert isinstance(encoder, ResponsesStreamEncoder)
        return Worker(pending, decoded, encoder)
