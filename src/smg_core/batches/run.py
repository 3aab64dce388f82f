"""One run of a batch, by the process that holds its lease (edge).

The input is read from its beginning; requests that have ended already are passed over, the others are sent, a bounded number at
once, and each result is kept before the next is asked for in its place. Decides what is a result and what is a reason to try
again: a gateway or an engine without room, a conversation that is in use, and for a while a model that nobody serves. Above:
`batch_queue`. Below: what it keeps, calls.
"""

import asyncio
import itertools
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import attrs
import msgspec

from smg_core.batches.calls import BatchAnswer, BatchEndpoint, called
from smg_core.batches.job_input import input_pieces
from smg_core.batches.message_types import MessageLine, message_result, message_result_without_answer
from smg_core.batches.model_wait import Absences
from smg_core.batches.pacing import Turns
from smg_core.batches.store import BatchOutcome, PendingBatch
from smg_core.batches.types import BatchLine, BatchTokens, LineCheck, error_line, read_tokens, refusal, result_line
from smg_core.errors import GuardrailFailed, InvalidRequest, StoreFailed
from smg_core.files.blobs import ContentsGone
from smg_core.files.logs import lines_of
from smg_core.history.store.base import LeaseLost, StaleVersion
from smg_core.hooks import RunEnded
from smg_core.request import Caller
from smg_core.serving.json_handler import made_of
from smg_core.serving.services import Services
from smg_core.stored.bells import rung
from smg_core.stored.locks import LOCKED
from smg_core.wire.json_lines import Line

__all__ = ["BatchRun", "named_model", "read_request"]

T = TypeVar("T")

_NO_ROOM = frozenset({0, 429, 503, 529})
"""Statuses after which a request is tried again: nothing is wrong with it."""
_NOT_THERE = 404
_CONFLICT = 409
_EXPIRED = "batch_expired", "This request could not be executed before the completion window expired."


@attrs.define(eq=False)
class _Gathering:
    """Results that are kept in one write."""

    outcomes: list[BatchOutcome]
    kept: "asyncio.Task[None]"


class BatchRun:
    """One run of `pending`. `endpoints` are where its requests may go, by their paths; `served_elsewhere` says whether another
    gateway serves a model."""

    def __init__(
        self,
        services: Services,
        turns: Turns,
        endpoints: Mapping[str, BatchEndpoint],
        pending: PendingBatch,
        served_elsewhere: Callable[[str], Awaitable[bool]],
    ) -> None:
        self._served_elsewhere, self._left = served_elsewhere, False
        self._services, self._turns, self._endpoints, self._pending = services, turns, endpoints, pending
        self._settings = services.live.config.batches
        self._stopping = asyncio.Event()
        self._paused = False
        self._gathering: _Gathering | None = None
        self._writes: set[asyncio.Task[None]] = set()
        self._writing = asyncio.Lock()
        self._held = 0  # bytes of the lines of requests under way
        self._absences = Absences(self._settings.absence_s)

    def stop(self) -> None:
        """Begin no further request: the batch was cancelled. Those under way end."""
        self._stopping.set()

    def pause(self) -> None:
        """Begin no further request: the process is shutting down, and another goes on with the batch."""
        self._paused = True
        self._stopping.set()

    async def work(self) -> bool:
        """Run it. False: it waits again, for this process or another; True: it is over, here or elsewhere."""
        pending, task = self._pending, asyncio.current_task()
        if task is None:
            raise AssertionError("a run is a task")
        guards: list[asyncio.Task[None]] = []
        try:
            if not await pending.read():
                return True
            guards = [
                asyncio.create_task(pending.guard(self._stopping, task)),
                asyncio.create_task(self._dismissed()),
            ]
            for each in guards:
                each.add_done_callback(partial(self._services.side_tasks.note_end, "the guard of a batch"))
            if pending.batch.status == "cancelling" or pending.overdue:
                self._stopping.set()
            return await self._attempt()
        except (LeaseLost, StaleVersion):
            return True  # it is somebody else's now, or was deleted
        except StoreFailed:
            return False
        except asyncio.CancelledError:  # for good, or since it is not its any more
            if not pending.lost:
                raise
            task.uncancel()
            return True
        finally:
            try:
                await self._settle(guards)
            finally:  # also where that is cancelled: without its lease the batch can go on elsewhere
                await pending.release()

    async def _settle(self, guards: "Collection[asyncio.Task[None]]") -> None:
        """End the `guards` of the batch. Let results that are being written be written, for a limited time: their requests
        need not be sent again."""
        try:
            for each in guards:
                each.cancel()
            await asyncio.gather(*guards, return_exceptions=True)
            if self._writes:
                await asyncio.wait(self._writes, timeout=self._settings.poll_s)
        finally:
            for task in self._writes:
                task.cancel()
            await asyncio.gather(*self._writes, return_exceptions=True)

    async def _dismissed(self) -> None:
        """Once the run is to stop, wake the requests that wait for a turn: they go on without one."""
        await self._stopping.wait()
        self._turns.dismiss(self)

    async def _attempt(self) -> bool:
        pending = self._pending
        try:
            if pending.batch.status == "validating" and not self._stopping.is_set() and not await self._check():
                return True
            if not self._stopping.is_set():
                await self._feed()
            if self._paused or (self._left and not self._stopping.is_set()):
                return False
            await self._finish()
        except ContentsGone:
            fault = {
                "code": "input_file_gone",
                "message": "The input file is not kept any more.",
                "param": None,
                "line": None,
            }
            await pending.end("lost", faults=[fault])
        return True

    # ------------------------------------------------------------------------------------------------------------- input

    def _lines(self, most: int, read: Callable[[Sequence[Line]], T]) -> AsyncIterator[T]:
        services, tenant = self._services, self._pending.tenant
        return lines_of(services, tenant, input_pieces(services, tenant, self._pending.job), most, read)

    async def _requests(self, read: Callable[[int, bytes], T]) -> AsyncIterator[T]:
        """What `read` makes of each request that has not ended, and of its place."""
        places = itertools.count()

        def some(lines: Sequence[Line]) -> list[T]:
            job, numbered = (
                self._pending.job,
                zip(lines, places, strict=False),
            )  # in this order: no place is lost at the end
            return [read(place, line) for (_, line), place in numbered if line is not None and not job.has_done(place)]

        async for found in self._lines(sys.maxsize, some):  # their lengths were checked when the batch was
            for each in found:
                yield each
            await asyncio.sleep(0)

    async def _check(self) -> bool:
        """Check every line before one is run. False where the batch has failed for them."""
        pending, settings = self._pending, self._settings
        check = LineCheck(
            pending.batch.endpoint,
            most=settings.requests,
            most_faults=settings.errors,
            most_characters=settings.custom_id_characters,
            most_values=self._services.live.limits.json_values,
        )
        async for _ in self._lines(self._services.live.limits.largest_body, check.add):
            if check.over or self._stopping.is_set():
                break
        if self._stopping.is_set():
            return True
        check.end()
        if check.faults:
            return not await pending.end("refused", faults=check.faults, total=0)
        await pending.become("checked", total=check.count)
        return True

    async def _feed(self) -> None:
        """Send the requests that have not ended, until all are, or it is to stop. As many are under way as may be at once, and as
        have room in the memory for bodies together; one alone may always be."""
        under_way: set[asyncio.Task[None]] = set()
        try:
            async for place, line in self._requests(lambda *request: request):
                while under_way and not self._stopping.is_set() and not self._has_room(len(under_way), len(line)):
                    under_way = await _some_ended(under_way)
                if self._stopping.is_set():
                    break
                self._held += len(line)
                under_way.add(asyncio.create_task(self._one(place, line)))
            while under_way:
                under_way = await _some_ended(under_way)
        finally:
            for task in under_way:
                task.cancel()
            await asyncio.gather(*under_way, return_exceptions=True)

    def _has_room(self, under_way: int, size: int) -> bool:
        """Whether a request with a line of this size may begin beside those under way: each is held twice, as its line and as its
        body."""
        most = self._services.live.limits.pending_body_bytes
        return under_way < self._settings.in_flight_tenant and 2 * (self._held + size) <= most

    # ----------------------------------------------------------------------------------------------------------- one request

    async def _one(self, place: int, line: bytes) -> None:
        """Send one request until it has a result, and keep that."""
        try:
            await self._answered(place, line)
        finally:
            self._held -= len(line)

    async def _answered(self, place: int, line: bytes) -> None:
        pending = self._pending
        job, endpoint = pending.job, self._endpoints[pending.batch.endpoint]
        began = self._services.clock.monotonic()
        custom_id, body, named = await self._made(len(line), lambda: read_request(line, job.messages))
        answer: BatchAnswer | None
        if named is not None:
            request_id = self._services.ids("req_")
            error = InvalidRequest(f"Invalid '{named}': a request of a batch cannot have it.", param=named)
            answer = BatchAnswer(error.status, endpoint.error(error, request_id), request_id, error.outcome)
        else:
            answer = await self._answer(endpoint, body)
        if answer is not None:
            await self._keep(await self._made(len(answer.body), lambda: self._outcome(place, custom_id, answer)))
            self._tell(endpoint, answer, self._services.clock.monotonic() - began)

    def _tell(self, endpoint: BatchEndpoint, answer: BatchAnswer, seconds: float) -> None:
        """Report a request whose result is kept: once, however often it was tried."""
        self._services.observer.report(
            RunEnded(
                method="BATCH",
                path=endpoint.path,
                status=answer.status,
                sent=len(answer.body),
                seconds=seconds,
                outcome=answer.outcome,
                request_id=answer.request_id,
                finished=answer.finished,
                tenant=self._pending.tenant,
                principal=self._pending.job.principal,
                trace_id=answer.trace_id,
                batch_id=self._pending.id,
            )
        )

    async def _answer(self, endpoint: BatchEndpoint, body: bytes) -> BatchAnswer | None:
        """The answer to a request; None where it is not sent any more."""
        tenant, job = self._pending.tenant, self._pending.job
        first: float | None = None  # when nobody served its model
        while not self._stopping.is_set():
            if not await self._turns.enter(tenant, self):
                return None
            try:
                services = self._services
                answer = await called(
                    endpoint, body, job.headers, self._caller, faults=services.faults, plugins=services.plugins
                )
            finally:
                self._turns.leave(tenant)
            if answer.status == _NOT_THERE and await self._is_for_others(body):
                self._left = True
                return None
            if answer.status == _NOT_THERE:
                first = self._services.clock.monotonic() if first is None else first
            if not await self._again(answer, body, first) or not await self._waited(answer, body, first):
                return answer
        return None

    async def _is_for_others(self, body: bytes) -> bool:
        """Whether other gateways serve the model of a request, and this one does not: once the others have ended, the batch is
        left to them."""
        model = await self._model_of(body)
        return not self._services.lookup.served_name(model, self._caller) and await self._served_elsewhere(model)

    async def _waited(self, answer: BatchAnswer, body: bytes, first: float | None) -> bool:
        """Wait until a request may be tried again: for a model that nobody serves, until somebody does, so that its tries are not
        requests of their own. False where it has waited long enough."""
        model = await self._model_of(body) if answer.status == _NOT_THERE else ""
        while True:
            await rung(self._stopping, self._settings.retry_s)
            if self._stopping.is_set() or not model or self._services.lookup.served_name(model, self._caller):
                return True
            if await self._served_elsewhere(model):
                return True
            now = self._services.clock.monotonic()
            if first is None or not self._absences.found_nobody(model, first, now):
                return False

    @property
    def _caller(self) -> Caller:
        """Whose requests these are."""
        job = self._pending.job
        return Caller(self._pending.tenant, job.principal, job.grants)

    async def _again(self, answer: BatchAnswer, body: bytes, first: float | None) -> bool:
        """Whether a request is tried again, whose model was first found to be absent at `first`."""
        if _is_unchecked(answer):
            return False
        if answer.status in _NO_ROOM or _waits_for_conversation(answer):
            return True
        if first is None or answer.status != _NOT_THERE:
            if self._absences:
                self._absences.answered(await self._model_of(body))
            return False
        model = await self._model_of(body)
        return self._absences.found_nobody(model, first, self._services.clock.monotonic())

    async def _model_of(self, body: bytes) -> str:
        name: str = await self._made(len(body), lambda: named_model(body))
        return name

    def _outcome(self, place: int, custom_id: str, answer: BatchAnswer) -> BatchOutcome:
        good = answer.status < 400
        tokens = BatchTokens()
        if good:
            read_tokens(answer.body, tokens)
        count = "succeeded" if good else "errored"
        if self._pending.job.messages:
            return BatchOutcome(place, count, message_result(custom_id, good, answer.body), tokens=tokens)
        line = result_line(self._services.ids("batch_req_"), custom_id, answer.status, answer.request_id, answer.body)
        return BatchOutcome(place, count, line, not good, tokens)

    async def _made(self, size: int, make: Any) -> Any:
        return await made_of(self._services, Caller(self._pending.tenant), size, make)

    async def _keep(self, outcome: BatchOutcome) -> None:
        """Keep a result, together with those that come at about the same time. Returns when it is kept."""
        gathering = self._gathering
        if gathering is None:
            outcomes: list[BatchOutcome] = []
            gathering = self._gathering = _Gathering(outcomes, asyncio.create_task(self._write(outcomes)))
            self._writes.add(gathering.kept)
            gathering.kept.add_done_callback(self._written)
        gathering.outcomes.append(outcome)
        await asyncio.shield(gathering.kept)

    def _written(self, write: "asyncio.Task[None]") -> None:
        if not write.cancelled() and write.exception() is None:
            self._writes.discard(write)

    async def _write(self, outcomes: list[BatchOutcome]) -> None:
        await asyncio.sleep(self._settings.gather_s)
        async with self._writing:
            self._gathering = None
            await self._pending.keep(outcomes)

    # --------------------------------------------------------------------------------------------------------------- the end

    async def _finish(self) -> None:
        """End the batch: every request has ended, or it was cancelled, or its time is up."""
        pending = self._pending
        await pending.become("fed")
        while True:
            cancelled = pending.batch.status == "cancelling"
            missing = pending.batch.total > pending.job.counts.ended
            if missing and (pending.job.messages or not cancelled):
                await self._without_answer(expired=not cancelled)
            unread = pending.batch.status == "validating"
            what = "overdue" if unread or (missing and not cancelled) else "over"
            if await pending.end(what):
                return

    async def _without_answer(self, *, expired: bool) -> None:
        """Keep a result for each request that was never begun, which says so."""
        outcomes: list[BatchOutcome] = []
        size = 0
        messages = self._pending.job.messages

        def outcome(place: int, line: bytes) -> BatchOutcome:
            custom_id = _read_id(line, messages)
            if messages:
                outcome_bytes = message_result_without_answer(custom_id, expired)
            else:
                outcome_bytes = error_line(self._services.ids("batch_req_"), custom_id, *_EXPIRED)
            return BatchOutcome(place, "expired" if expired else "canceled", outcome_bytes, not messages)

        async for each in self._requests(outcome):
            outcomes.append(each)
            size += len(each.line)
            if size > _WRITTEN:
                await self._pending.keep(outcomes)
                outcomes, size = [], 0
        if outcomes:
            await self._pending.keep(outcomes)


_WRITTEN = 128 * 1024  # bytes of results that are written at once

_REQUEST = msgspec.json.Decoder(BatchLine)


class _Refusal(msgspec.Struct):
    code: str | None = None


class _Refused(msgspec.Struct):
    error: _Refusal


_REFUSED = msgspec.json.Decoder(_Refused)


def _is_unchecked(answer: BatchAnswer) -> bool:
    """Whether an engine has made an answer that no guardrail could check: each further try would cost as much again."""
    done = answer.finished
    return done is not None and done.outcome == GuardrailFailed.__name__ and done.attempts > 0


def _waits_for_conversation(answer: BatchAnswer) -> bool:
    """Whether the request was refused because another response is being made in its conversation, maybe one of this batch."""
    if answer.status != _CONFLICT:
        return False
    try:
        return _REFUSED.decode(answer.body).error.code == LOCKED
    except msgspec.DecodeError:
        return False


_MESSAGE = msgspec.json.Decoder(MessageLine)


class _Named(msgspec.Struct):
    """The field of a body that says of which model it asks."""

    model: str = ""


_NAMED = msgspec.json.Decoder(_Named)


def named_model(body: bytes) -> str:
    """The model that a request names, "" for a body that names none."""
    try:
        return _NAMED.decode(body).model
    except msgspec.DecodeError:
        return ""


def read_request(line: bytes, messages: bool) -> tuple[str, bytes, str | None]:
    """The custom_id and the body of a request, which has been checked, and the field for which it cannot be in a batch."""
    if messages:
        found = _MESSAGE.decode(line)
        custom_id, body = found.custom_id, bytes(found.params)
    else:
        wire = _REQUEST.decode(line)
        custom_id, body = wire.custom_id, bytes(wire.body)
    return custom_id, body, refusal(body)


def _read_id(line: bytes, messages: bool) -> str:
    """The custom_id of a request, which has been checked."""
    return _MESSAGE.decode(line).custom_id if messages else _REQUEST.decode(line).custom_id


async def _some_ended(tasks: "set[asyncio.Task[None]]") -> "set[asyncio.Task[None]]":
    """Wait until one of the tasks has ended; returns those that still run. Raises the error of one that failed."""
    ended, going = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in ended:
        task.result()
    return going
