"""Processes that take, leave, lose and are killed over one response in the background, and a store that fails on them meanwhile.

Whatever comes in whatever order: what was stored once stands, the stream keeps the API's grammar, and it ends once.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.gateway.pending_responses import ID, LEASE, TENANT, Waiting, Worker
from tests.tiers import examples

from smg_core import Config
from smg_core.apis.responses.wire.grammar import check_stream
from smg_core.background.states import NEXT
from smg_core.errors import StoreFailed
from smg_core.history.memory.store import MemoryStore
from smg_core.history.opening import guarded
from smg_core.history.store.base import Lease, LeaseLost, StaleVersion
from smg_core.http.settings import ResponsesConfig
from smg_core.testing import FakeClock

WORKERS = st.integers(0, 2)
PENDING = 2000.0
SETTINGS = ResponsesConfig(lease_s=LEASE, poll_s=0.01, pending_s=PENDING)


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
        history = guarded(self.store, Config().history, self.clock)
        self.waiting = Waiting(history, self.clock, SETTINGS)
        self.gateway = self.waiting.gateway
        self.workers: dict[int, Worker] = {}
        self.seen: list[bytes] = []
        self.run(self.waiting.create())

    def run(self, work: Awaitable[Any]) -> Any:
        return self.loop.run_until_complete(work)  # type: ignore[arg-type]

    # ------------------------------------------------------------------------------------------------------- processes

    @rule(name=WORKERS)
    def takes(self, name: int) -> None:
        if name not in self.workers:
            self.run(self._take(name))

    async def _take(self, name: int) -> None:
        pending = await self.waiting.pending(f"run_{name}")
        if pending is None:
            return
        try:
            worker = await self.waiting.taken(pending)
        except (
            LeaseLost,
            StaleVersion,
            StoreFailed,
        ):  # what is kept for longer could not be written: it is tried again
            worker = None
        if worker is None:
            await pending.clear()
            return
        self.workers[name] = worker
        await self._does(name, lambda worker: worker.begins())

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
            self.run(self._does(name, lambda worker: worker.says(text)))

    @precondition(lambda self: self.workers)
    @rule(name=WORKERS, now=st.sampled_from([True, False, False]))
    def ends(self, name: int, now: bool = True) -> None:
        if name not in self.workers or not now:
            return
        self.run(self._does(name, lambda worker: worker.ends()))
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
            now = await self.waiting.background.cancel(self.waiting.api, (TENANT, ID), found)
        except StoreFailed:
            return
        assert now.status not in NEXT

    @rule(seconds=st.sampled_from([1.0, LEASE / 2, LEASE + 1]))
    def time_passes(self, seconds: float) -> None:
        self.clock.advance(seconds)

    @precondition(lambda self: self.workers and not self.store.failures)
    @rule(now=st.sampled_from([False, False, True]))
    def it_takes_days(self, now: bool = True) -> None:
        """Longer than anything of the response is kept where nobody works on it; guards look at intervals meanwhile."""
        for _ in range(int(2.5 * PENDING / (LEASE / 2)) if now else 0):
            self.clock.advance(LEASE / 2)
            for name, worker in list(self.workers.items()):
                self.run(worker.pending.look())
                if worker.pending.lost:
                    del self.workers[name]
                    self.run(worker.pending.clear())
            if not self.workers:
                break

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


Races.TestCase.settings = settings(max_examples=examples(50), stateful_step_count=40, deadline=None)
TestRaces = pytest.mark.filterwarnings("error")(Races.TestCase)
