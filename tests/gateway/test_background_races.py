"""Processes that take, leave, lose and are killed over one response in the background, and a store that fails on them meanwhile.

Whatever comes in whatever order: what was stored once stands, the stream keeps the API's grammar, and it ends once.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import attrs
import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from smg_core import Config, Gateway
from smg_core.errors import StoreFailed
from smg_core.events import Done, Finished, Started, TextDelta, TextEnd, Usage
from smg_core.history.base import AppendEvents, Lease, LeaseLost, PutResponse, StaleVersion, StoredEvent
from smg_core.history.memory import MemoryStore
from smg_core.history.opening import guarded
from smg_core.protocols.base import Incoming
from smg_core.protocols.responses import ResponsesRequest, decode_responses
from smg_core.protocols.responses_encode import ResponsesStreamEncoder
from smg_core.protocols.responses_grammar import check_stream
from smg_core.server.background import Background
from smg_core.server.background_states import NEXT, KeptRequest, marks
from smg_core.server.background_store import PendingResponse
from smg_core.server.news import News
from smg_core.server.remembering import ResponseMemory
from smg_core.server.responses_api import background_responses, responses_api
from smg_core.server.settings import ResponsesConfig
from smg_core.testing import FakeClock

ID, TENANT = "resp_1", "acme"
LEASE = 30.0
WORKERS = st.integers(0, 2)
SETTINGS = ResponsesConfig(lease_s=LEASE, poll_s=0.01)


class Store(MemoryStore):
    """A store whose next writes fail: before they are done, or after it, as when the answer of a database is lost."""

    failures: list[bool]

    async def write(self, tenant: str, operations: Any, *, lease: Lease | None = None, principal: str = "") -> None:
        failing = self.failures.pop(0) if self.failures else None
        if failing is False:
            raise StoreFailed("failed", "not written")
        await super().write(tenant, operations, lease=lease, principal=principal)
        if failing is True:
            raise StoreFailed("failed", "written, and not told")


@attrs.define
class Worker:
    """A process that works on the response: what it has read, and the encoder of its run."""

    pending: PendingResponse[ResponsesRequest]
    decoded: ResponsesRequest
    encoder: ResponsesStreamEncoder


class Races(RuleBasedStateMachine):
    """Three processes, one client that may cancel, one clock."""

    @initialize()
    def created(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.clock = FakeClock()
        self.store = Store(
            self.clock, most_bytes=1 << 24, most_links=10, most_link_bytes=1 << 20, most_page_bytes=1 << 20
        )
        self.store.failures = []
        self.gateway = Gateway(config=Config(responses=SETTINGS), clock=self.clock)
        self.gateway.history = guarded(self.store, self.gateway.config.history, self.clock)
        memory = ResponseMemory(self.gateway)
        row = responses_api(self.clock.time, memory, memory.seal)
        self.api = background_responses(row, memory, self.clock.time, memory.seal)
        self.background = Background(self.gateway, [self.api])
        self.workers: dict[int, Worker] = {}
        self.seen: list[bytes] = []
        self.run(self._create())

    def run(self, work: Awaitable[Any]) -> Any:
        return self.loop.run_until_complete(work)  # type: ignore[arg-type]

    async def _create(self) -> None:
        body = {"model": "sim", "input": "Hello", "background": True, "stream": True}
        decoded = decode_responses(Incoming(json.dumps(body).encode(), ID))
        now = self.clock.time()
        encoder = self.api.stream(decoded, int(now))
        opening = self.api.words.events(encoder.queued())
        kept = self.api.stored(decoded, encoder.response(), True)
        request = KeptRequest(msgspec.json.encode(decoded.body).decode(), {}, "")
        events = tuple(StoredEvent(number, data) for number, data in enumerate(opening))
        operations = [PutResponse(kept, if_version=0), *marks(ID, request, now, 1e6), AppendEvents(ID, events)]
        await self.gateway.history.write(TENANT, operations)

    # ------------------------------------------------------------------------------------------------------- processes

    @rule(name=WORKERS)
    def takes(self, name: int) -> None:
        if name not in self.workers:
            self.run(self._take(name))

    async def _take(self, name: int) -> None:
        history = self.gateway.history
        if not await history.abandoned("response"):
            return
        lease = await history.acquire(TENANT, "response", ID, f"run_{name}", LEASE)
        if lease is None:
            return
        pending = PendingResponse(self.gateway, self.api, News(), (TENANT, ID), lease)
        try:
            request = await pending.read()
            if request is None:
                await pending.clear()
                return
            decoded = await pending.decoded(request)
            await pending.take()
        except (LeaseLost, StaleVersion):
            await pending.clear()
            return
        encoder = self.api.stream(decoded, int(pending.found.created_at))
        encoder.go_on(pending.following, pending.log.items)
        assert isinstance(encoder, ResponsesStreamEncoder)
        self.workers[name] = Worker(pending, decoded, encoder)
        first = encoder.start() + encoder.encode([Started(3, None, "sim")])
        await self._does(name, lambda worker: worker.pending.append(first))

    async def _does(self, name: int, work: Callable[[Worker], Awaitable[None]]) -> None:
        worker = self.workers[name]
        try:
            await work(worker)
        except (LeaseLost, StaleVersion):
            del self.workers[name]
            await worker.pending.clear()

    @precondition(lambda self: self.workers)
    @rule(text=st.sampled_from(["one ", "two ", "three "]))
    def all_say(self, text: str) -> None:
        for name in list(self.workers):
            frames = self.workers[name].encoder.encode([TextDelta(0, text)])
            self.run(self._does(name, lambda worker, frames=frames: worker.pending.append(frames)))  # type: ignore[misc]

    @precondition(lambda self: self.workers)
    @rule(name=WORKERS, now=st.sampled_from([True, False, False]))
    def ends(self, name: int, now: bool = True) -> None:
        if name not in self.workers or not now:
            return
        worker = self.workers[name]
        frames = worker.encoder.encode([TextDelta(0, "."), TextEnd(0), Finished(0, "stop"), Usage(3, 2), Done()])
        whole = worker.encoder.response()
        self.run(self._does(name, lambda worker: worker.pending.end(worker.decoded, whole, frames)))
        if name in self.workers:
            self.run(self.workers.pop(name).pending.clear())

    @precondition(lambda self: self.workers)
    @rule(name=WORKERS)
    def is_killed(self, name: int) -> None:
        self.workers.pop(name, None)

    @precondition(lambda self: self.workers)
    @rule(name=WORKERS)
    def stops(self, name: int) -> None:
        if name in self.workers:
            self.run(self.workers.pop(name).pending.clear())

    # ------------------------------------------------------------------------------------------------------- the world

    @rule(now=st.sampled_from(9 * [False] + [True]))
    def is_cancelled(self, now: bool) -> None:
        if now:
            self.run(self._cancel())

    async def _cancel(self) -> None:
        found = await self.gateway.history.response(TENANT, ID)
        assert found is not None
        try:
            now = await self.background.cancel(self.api, (TENANT, ID), found)
        except StoreFailed:
            return
        assert now.status not in NEXT

    @rule(seconds=st.sampled_from([1.0, LEASE / 2, LEASE + 1]))
    def time_passes(self, seconds: float) -> None:
        self.clock.advance(seconds)

    @precondition(lambda self: not self.store.failures)
    @rule(failures=st.lists(st.booleans(), min_size=1, max_size=3))
    def the_store_fails(self, failures: list[bool]) -> None:
        self.store.failures = failures

    # ----------------------------------------------------------------------------------------------------- what holds

    @invariant()
    def what_was_stored_stands_and_keeps_the_grammar(self) -> None:
        if not hasattr(self, "loop"):
            return
        events = [event.data for event in self.run(self.gateway.history.events(TENANT, ID))]
        assert events[: len(self.seen)] == self.seen
        self.seen = events
        grammar = check_stream(map(msgspec.json.decode, events), whole=False)
        found = self.run(self.gateway.history.response(TENANT, ID))
        last = msgspec.json.decode(events[-1])
        ended = found.status not in NEXT
        assert ended == (last["type"] in ("response.completed", "response.incomplete", "response.failed"))
        if ended:
            whole = msgspec.json.decode(found.body) | {"output": msgspec.json.decode(found.output)}
            assert whole == last["response"]
            assert whole["output"] == grammar.items

    def teardown(self) -> None:
        """The store is well again and time has passed: some process brings the response to its end."""
        if not hasattr(self, "loop"):
            return
        self.store.failures = []
        self.workers.clear()
        self.clock.advance(LEASE + 1)
        self.takes(0)
        self.ends(0)
        self.what_was_stored_stands_and_keeps_the_grammar()
        check_stream(map(msgspec.json.decode, self.seen))
        assert not self.run(self.gateway.history.abandoned("response"))
        self.loop.close()


Races.TestCase.settings = settings(max_examples=50, stateful_step_count=40, deadline=None)
TestRaces = pytest.mark.filterwarnings("error")(Races.TestCase)
