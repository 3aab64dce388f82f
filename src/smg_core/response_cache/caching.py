"""Finds the answer to an equal request, shares a running generation, and caches the result (edge).

A request is looked up once, before it is charged and waits. Then it is given what is kept, follows the generation of an equal
one, or leads one that others may follow. Where nothing comes of what it follows, it is answered by itself. Above: the handler in
`serving.inference`, through `Live.caching`. Below: `flight`, `keys`, what holds the answers.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol

import attrs

from smg_core.clock import Clock
from smg_core.errors import ClientGone, InternalError, SmgError
from smg_core.events import Finished
from smg_core.hooks import FellBack
from smg_core.lease import ModelPlace, RequestLease
from smg_core.limit_moments import AnswerLookedUp
from smg_core.pipeline.answer.trace import Trace
from smg_core.pipeline.flow.driver import Driver, Run
from smg_core.pipeline.flow.timeouts import Timeouts
from smg_core.pipeline.prompt.served import ServedModel
from smg_core.request import GenerationRequest
from smg_core.response_cache.answer_memory import AnswerMemory
from smg_core.response_cache.flight import Flight, NotShared, RecordedAnswer, followed
from smg_core.response_cache.keys import (
    CACHE_HEADER,
    cache_key_of,
    may_be_shared,
    model_mark,
    tenant_mark,
    tenant_of,
    wish_of,
)
from smg_core.response_cache.packing import CachedAnswer, packed, unpacked
from smg_core.response_cache.settings import ResponseCacheConfig

__all__ = ["ResponseCaching", "SharedAnswer"]

_INLINE, _INLINE_EVENTS = 32 * 1024, 128
"""Bytes that are digested or read, and events that are written, on the event loop: more than a millisecond's are in a thread."""
_SWEPT = 256
"""Answers of a tenant that is erased that are let go of at a time."""
_MARKS = 4096
"""Models of which the mark is kept before all are made anew."""
_WHOLE = frozenset({"stop", "length", "tool_calls", "refusal", "context", "content_filter"})
"""How the choices of an answer end that is kept."""

_Headers = list[tuple[bytes, bytes]]


class AnswersKept(Protocol):
    """What keeps answers for several processes."""

    async def find(self, key: bytes) -> bytes | None:
        """The answer of a key."""

    async def keep(self, key: bytes, data: bytes, seconds: float) -> None:
        """Keep an answer for so long."""

    async def drop(self, key: bytes) -> None:
        """Keep the answer of a key no longer."""

    async def erase(self, tenant: bytes | None) -> None:
        """Keep no answer of a tenant, which is meant by its mark (None: of any). Raises StoreFailed."""

    async def close(self) -> None:
        """Give the connections back."""


@attrs.frozen(eq=False)
class _Answering:
    """What an answer for several takes of the one who handles its request; as the arguments of `SharedAnswer.answered`."""

    driver: Driver
    run: Run
    request: GenerationRequest
    lease: RequestLease
    always: _Headers
    timeouts: Timeouts
    generate: Callable[[Run, ModelPlace | None], Awaitable[object]]
    pay: Callable[[], Awaitable[None]]
    draining: Callable[[], SmgError | None]


class SharedAnswer:
    """The part of one request in an answer for several. `leads`: its generation is the one that others follow. `again` finds
    another one to have a part in."""

    def __init__(
        self,
        caching: "ResponseCaching",
        key: bytes,
        flight: Flight,
        again: Callable[[], Awaitable["SharedAnswer | None"]],
    ) -> None:
        self._caching, self._key, self._again = caching, key, again
        self.flight = flight
        self.leads = False

    @property
    def free(self) -> bool:
        """Whether another request pays for its tokens, or nobody."""
        return not self.leads

    def leave(self) -> None:
        """The request is over; if it has not begun the generation that it was to lead, another one leads."""
        if self.leads and not self.flight.begun:
            self._caching.end(self._key, self.flight)
            self.flight.end(NotShared(again=True))

    async def answered(
        self,
        *,
        driver: Driver,
        run: Run,
        request: GenerationRequest,
        lease: RequestLease,
        always: _Headers,
        timeouts: Timeouts,
        generate: Callable[[Run, ModelPlace | None], Awaitable[object]],
        pay: Callable[[], Awaitable[None]],
        draining: Callable[[], SmgError | None],
    ) -> bool:
        """Answer the request; False where that is to be done without the cache. Raises what goes wrong. `generate` makes the
        answer of a run, at a place before the model; `pay` charges the request and has it wait for its turn; `timeouts` are
        those of a generation for several, and `draining` says why one ends that the gateway stops."""
        return await self._answered(_Answering(driver, run, request, lease, always, timeouts, generate, pay, draining))

    async def _answered(self, of: _Answering) -> bool:
        shared: SharedAnswer | None = self
        while shared is not None:
            of.lease.shared = shared
            if shared.leads and not shared.flight.begun:
                self._caching.begin(shared._key, shared.flight, of)
            try:
                flow = followed(shared.flight, live=of.request.stream, leads=shared.leads)
                await of.driver.drive(flow, of.run)
            except NotShared as error:
                shared = await self._again() if error.again else None
            else:
                return True
            if shared is None or shared.leads:
                of.lease.shared = shared
                self._caching.note_outcome(of.request, "unshared", of.run.trace)
                _say(of.always, "miss")
                await of.pay()
        return False


class ResponseCaching:
    """The cache of answers of one gateway, and the generations under way that equal requests share. `served` is the model
    that a request gets; `reported` what the engines of a model say of themselves; `keeps` whether anything
    of a tenant is kept; `guarded` is the mark of the guardrails that see a request. `note_end` is told of tasks that end. `tell`
    has all processes forget a tenant, or None for all: it returns when they have."""

    def __init__(
        self,
        clock: Clock,
        served: Callable[[GenerationRequest], ServedModel | None],
        reported: Callable[[str], Sequence[str]],
        keeps: Callable[[str, str], bool],
        guarded: Callable[[GenerationRequest], str],
        note_end: Callable[[str, "asyncio.Task[None]"], None],
        tell: Callable[[str | None], Awaitable[None]],
    ) -> None:
        self._clock, self._served, self._reported = clock, served, reported
        self._keeps, self._guarded, self._note_end, self._tell = keeps, guarded, note_end, tell
        self._settings = ResponseCacheConfig()
        self._memory = AnswerMemory(self._settings.bytes)
        self.store: AnswersKept | None = None
        self._flights: dict[bytes, Flight] = {}
        self._tasks: dict[asyncio.Task[None], tuple[bytes, Flight]] = {}
        self._marks: dict[str, tuple[ServedModel, tuple[str, ...], bytes]] = {}

    def adopt(self, settings: ResponseCacheConfig) -> None:
        """Go by these settings from the next request on."""
        self._settings = settings
        self._memory.most = settings.bytes
        self._memory.shrink()

    async def run(self) -> None:
        """Wait until the gateway stops, and give up what is under way then."""
        try:
            await asyncio.Event().wait()
        finally:
            tasks = [*self._tasks]
            for each in tasks:
                each.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def close(self) -> None:
        """The gateway stops: give back what is held open. What is kept in memory stays for its next start."""
        if self.store is not None:
            store, self.store = self.store, None
            await store.close()

    @property
    def under_way(self) -> int:
        """How many generations there are that others may follow."""
        return len(self._flights)

    # --------------------------------------------------------------------------------------------------------- erasing

    def forget(self, tenant: str | None) -> None:
        """Give nobody an answer of a tenant (None: of any) that this process keeps or makes; those that wait for one under way
        get it."""
        mark = None if tenant is None else tenant_mark(tenant)
        for key, flight in (*self._tasks.values(), *self._flights.items()):
            if mark is None or tenant_of(key) == mark:
                flight.erased = True
                self.end(key, flight)
        self._memory.erase(mark)
        self._sweep()

    def clear(self) -> None:
        """Let go of all that this process keeps."""
        self._memory = AnswerMemory(self._settings.bytes)

    def _sweep(self) -> None:
        if self._memory.sweep(_SWEPT):
            asyncio.get_running_loop().call_soon(self._sweep)

    async def erase(self, tenant: str) -> None:
        """Erase what is kept of a tenant, in all processes and in the store. Raises StoreFailed, and Overloaded where it is not
        known whether all have done so."""
        await self._tell(tenant)
        if self.store is not None:
            await self.store.erase(tenant_mark(tenant))

    async def erase_all(self) -> None:
        """The same of all tenants."""
        await self._tell(None)
        if self.store is not None:
            await self.store.erase(None)

    # --------------------------------------------------------------------------------------------------------- finding

    async def find(
        self,
        request: GenerationRequest,
        headers: Mapping[str, str],
        always: _Headers,
        trace: Trace,
        *,
        unattended: bool = False,
    ) -> SharedAnswer | None:
        """The part of a request in an answer for several; None where it has none. Says in the headers `always` what was found.
        Raises UnsupportedParameter for a header that asks for what there is not."""
        wish = wish_of(headers.get(CACHE_HEADER))
        if not wish.keeps:
            return None
        model, caller = self._served(request), request.caller
        if model is None:
            return None
        if not may_be_shared(request, model, chance=self._settings.chance) or not self._keeps(
            caller.tenant, caller.principal
        ):
            return None
        key = await self._key(request, model)

        async def again() -> SharedAnswer | None:
            return (await self._found(key, reads=True, unattended=unattended, again=again))[0]

        found, outcome, age = await self._found(key, reads=wish.reads, unattended=unattended, again=again)
        self.note_outcome(request, outcome, trace)
        _say(always, outcome)
        if age is not None:
            always.append((b"age", b"%d" % age))
        return found

    async def _found(
        self, key: bytes, *, reads: bool, unattended: bool, again: Callable[[], Awaitable[SharedAnswer | None]]
    ) -> tuple[SharedAnswer, str, int | None]:
        if reads:
            if (flight := self._under_way(key, unattended=unattended)) is not None:
                return SharedAnswer(self, key, flight, again), "shared", None
            kept = await self._kept(key)
            if kept is not None:
                age = max(0, int(self._clock.time() - kept.kept_at))
                return SharedAnswer(self, key, Flight.of(kept), again), "hit", age
            if (flight := self._under_way(key, unattended=unattended)) is not None:  # another one has come meanwhile
                return SharedAnswer(self, key, flight, again), "shared", None
        flight = Flight(on_left=lambda left: self._given_up(key, left), unattended=unattended)
        self._flights.setdefault(key, flight)
        shared = SharedAnswer(self, key, flight, again)
        shared.leads = True
        return shared, "miss", None

    def _under_way(self, key: bytes, *, unattended: bool) -> Flight | None:
        """The generation to follow; nobody who waits for an answer follows work that may wait for long before it begins."""
        flight = self._flights.get(key)
        return flight if flight is not None and (flight.begun or unattended or not flight.unattended) else None

    def _given_up(self, key: bytes, flight: Flight) -> None:
        """All who followed have left."""
        if flight.task is not None:
            self.end(key, flight)
            flight.task.cancel()

    async def _key(self, request: GenerationRequest, model: ServedModel) -> bytes:
        mark = self._settings.revision, self._mark(model), self._guarded(request)
        if 0 < request.size <= _INLINE:
            return cache_key_of(request, *mark)
        return await asyncio.to_thread(cache_key_of, request, *mark)

    def _mark(self, model: ServedModel) -> bytes:
        reported = tuple(self._reported(model.primary or model.name))
        known = self._marks.get(model.name)
        if known is None or known[0] is not model or known[1] != reported:
            if len(self._marks) >= _MARKS:
                self._marks.clear()
            known = self._marks[model.name] = model, reported, model_mark(model, reported)
        return known[2]

    async def _kept(self, key: bytes) -> CachedAnswer | None:
        data = await self.store.find(key) if self.store is not None else self._memory.find(key, self._clock.monotonic())
        if data is None:
            return None
        kept = unpacked(data) if len(data) <= _INLINE else await asyncio.to_thread(unpacked, data)
        if kept is not None and self._clock.time() - kept.kept_at > self._settings.kept_s:
            return None  # it was kept by a longer setting
        return kept

    def note_outcome(self, request: GenerationRequest, outcome: str, trace: Trace) -> None:
        """Tell what became of a request here."""
        trace.report(AnswerLookedUp(request.model, outcome, self._memory.size))

    # ------------------------------------------------------------------------------------------------------ generating

    def begin(self, key: bytes, flight: Flight, of: _Answering) -> None:
        """Begin the generation of a request that leads."""
        answer = flight.answer = RecordedAnswer(flight)
        flight.begun, flight.trace = True, of.run.trace
        made = self._generate(key, flight, answer, of, of.lease.hand_over())
        flight.task = asyncio.create_task(made, name="shared answer")
        self._tasks[flight.task] = key, flight
        flight.task.add_done_callback(self._ended)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        del self._tasks[task]
        self._note_end("an answer for several requests", task)

    async def _generate(
        self, key: bytes, flight: Flight, answer: RecordedAnswer, of: _Answering, lease: RequestLease
    ) -> None:
        """Make the answer that all who follow are told, and keep it."""
        place, trace = lease.place, of.run.trace
        failure: SmgError | None = InternalError("The gateway failed on this request.")

        def why() -> SmgError | None:
            if not flight.followed:
                return ClientGone("All clients left before the answer was complete.")
            return of.draining() or (None if place is None else place.stopped)

        try:
            if lease.charge is not None:
                lease.charge.follow(answer)
            await of.generate(Run(answer, trace, of.timeouts, why), place)
            failure = None
        except SmgError as error:
            failure = error
        finally:
            lease.settle(answer.usage, failure)
            lease.release()
            flight.kept = CachedAnswer(
                answer.started(), tuple(flight.events), flight.usage, trace.losses, self._clock.time()
            )
            answer.release()
            flight.end(failure)
            if failure is not None:
                self.end(key, flight)
        try:
            await self._keep(key, flight, flight.kept, trace)
        finally:
            self.end(key, flight)

    async def _keep(self, key: bytes, flight: Flight, answer: CachedAnswer, trace: Trace) -> None:
        """Keep an answer, if it is one that an equal request would get from any engine of the model."""
        ends = [event.reason for event in answer.events if isinstance(event, Finished)]
        if not ends or not _WHOLE.issuperset(ends) or trace.violations or trace.last(FellBack) is not None:
            return
        settings = self._settings
        try:
            few = len(answer.events) <= _INLINE_EVENTS
            data = packed(answer) if few else await asyncio.to_thread(packed, answer)
        except ValueError:  # half a character, which no store holds
            return
        if not settings.kept_s or len(data) > settings.answer_bytes or flight.erased:
            return
        if (store := self.store) is not None:
            await store.keep(key, data, settings.kept_s)
            if flight.erased:  # meanwhile
                await store.drop(key)
        else:
            self._memory.keep(key, data, self._clock.monotonic() + settings.kept_s)

    def end(self, key: bytes, flight: Flight) -> None:
        """Nobody is to follow a generation any more."""
        if self._flights.get(key) is flight:
            del self._flights[key]


def _say(always: _Headers, outcome: str) -> None:
    """Say in the headers of an answer what was found for it."""
    name = CACHE_HEADER.encode()
    always[:] = [each for each in always if each[0] not in (name, b"age")]
    always.append((name, outcome.encode()))
