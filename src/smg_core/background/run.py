"""One run of an answer in the background, by the process that holds its lease (edge).

The request is read back from the history and answered as any other; what would be sent is kept instead. What an earlier run has
kept stands: its open item is closed, and the items of this run follow. Decides when a failure is the answer's and when it is a
reason to wait: for engines that are not there, for a conversation that is in use, for a store that fails. Above: `background`.
Below: the flow, what it keeps.
"""

import asyncio
from functools import partial
from typing import Generic, TypeVar

from smg_core.background.api import BackgroundApi, StoredStream, StoredWhole
from smg_core.background.plugins import RunPlugins
from smg_core.background.store import PendingResponse
from smg_core.errors import (
    Conflict,
    GuardrailBlocked,
    GuardrailFailed,
    ModelNotFound,
    RateLimited,
    SmgError,
    StoreFailed,
)
from smg_core.events import Usage
from smg_core.history.store.base import LeaseLost, StaleVersion
from smg_core.hooks import Observer, RequestFinished, RequestStarted, RunEnded
from smg_core.lease import LedgerEntry, RequestLease
from smg_core.pipeline.answer.answer import Answer, WholeAnswer
from smg_core.pipeline.answer.keep_alive import StreamKeepAlive
from smg_core.pipeline.answer.trace import Trace
from smg_core.pipeline.answer.transformed_answer import Show
from smg_core.pipeline.flow.driver import Run
from smg_core.pipeline.flow.flow import Terms
from smg_core.request import Caller, GenerationRequest
from smg_core.serving.request_traces import account_of_run, how_it_ended
from smg_core.serving.services import Services
from smg_core.serving.timeouts import CurrentTimeouts
from smg_core.wire.base import Decoded

__all__ = ["BackgroundRun"]

D = TypeVar("D", bound=Decoded)


class BackgroundRun(Generic[D]):
    """One run of `pending`. `observer` is told how it went."""

    def __init__(
        self,
        services: Services,
        api: BackgroundApi[D],
        pending: PendingResponse[D],
        timeouts: CurrentTimeouts,
        observer: Observer,
    ) -> None:
        self._services, self._api, self._pending = services, api, pending
        self._memory = api.memory
        self._timeouts, self._observer = timeouts, observer
        self._broken: SmgError | None = None
        self._finished: RequestFinished | None = None
        self._written = 0.0
        self._lease: RequestLease
        self._entry: LedgerEntry | None = None
        self._used: Usage | None = None
        self._failed: SmgError | None = None

    async def work(self) -> bool:
        """Run it. True: it is over. False: it cannot be run now, or is somebody else's; it is looked at again after a while."""
        pending, task = self._pending, asyncio.current_task()
        if task is None:
            raise AssertionError("a run is a task")
        guarding = asyncio.create_task(pending.guard(task))
        guarding.add_done_callback(
            partial(self._services.side_tasks.note_end, "the guard of a response in the background")
        )
        lease = self._lease = self._services.admission.readmit(Caller(pending.tenant), "background")
        try:
            return await self._attempt()
        except (LeaseLost, StaleVersion):
            return False  # it is somebody else's now, or it was cancelled or deleted
        except StoreFailed:
            return False
        except asyncio.CancelledError:  # for good, or since it is no longer pending
            if not pending.lost:
                raise
            task.uncancel()
            return False
        finally:
            try:
                await self._let_go(guarding)
            finally:  # also where that fails, or is cancelled: a drain waits for what is counted
                lease.release()
                if pending.ended:  # what a run has used that another one makes anew is in no answer, and in no account
                    if self._entry is not None:
                        self._entry.settle(self._used, self._failed)
                    self._tell()

    async def _let_go(self, guarding: asyncio.Task[None]) -> None:
        """The run is over: end its guard and release its lease, whatever is cancelled on the way."""
        guarding.cancel()
        try:
            await asyncio.gather(guarding, return_exceptions=True)
        finally:
            await self._pending.clear()

    def _tell(self) -> None:
        """Report the end of the response, which has been kept: once, whoever has run it before."""
        pending, done, failure = self._pending, self._finished, self._pending.failure
        status = done.status if done is not None else 200 if failure is None else failure.status
        outcome = done.outcome if done is not None else "ok" if failure is None else failure.outcome
        self._services.observer.report(
            RunEnded(
                method="BACKGROUND",
                path=self._api.path,
                status=status,
                sent=0,
                seconds=self._services.clock.time() - pending.found.created_at,
                outcome=outcome,
                request_id=pending.id,
                finished=done,
                tenant=pending.tenant,
                principal=pending.principal,
                trace_id="" if done is None else done.trace_id,
            )
        )

    async def _attempt(self) -> bool:
        pending = self._pending
        request = await pending.read()
        if request is None:
            return True
        try:
            decoded = await pending.decoded(request)
            decoded = await self._memory.recall(decoded)
        except (StoreFailed, Conflict) as error:
            if isinstance(error, StoreFailed) or self._may_wait():
                return False
            await pending.fail(error)
            return True
        except SmgError as error:
            await pending.fail(error)
            return True
        await self._services.plugins.changed()
        guarding = self._services.live.guarding
        plugins = RunPlugins(self._services.plugins, decoded.generation, self._api.path, guarding)
        try:
            decoded = await plugins.left_of(decoded)
        except SmgError as error:
            await pending.fail(error)
            return True
        else:
            await pending.take()
            return await self._run(decoded, plugins)
        finally:
            plugins.close()
            await self._memory.forget(decoded)

    def _may_wait(self) -> bool:
        """Whether the response has time left to be made later."""
        waited = self._services.clock.time() - self._pending.found.created_at
        return waited < self._services.live.config.responses.pending_s

    async def _run(self, decoded: D, plugins: RunPlugins) -> bool:
        services, generation, name = self._services, decoded.generation, self._api.api.name
        if self._may_wait() and not services.lookup.served_name(generation.model, generation.caller):
            await self._pending.put_off()  # nobody is there who could be asked: no try that counts
            return False
        trace, traced = account_of_run(generation, name, self._pending.found.created_at, services, self._observer)
        trace.report(
            RequestStarted(generation.id, name, generation.model, generation.stream, trace.started, trace.started)
        )
        answer = self._answer(decoded, plugins, plugins.shows(generation, trace))
        run = Run(answer, trace, self._timeouts.of(generation, generation.headers))
        failure: SmgError | None = None
        self._enter(generation, trace)
        try:
            await self._its_turn(generation, trace, answer)
            place = self._lease.place
            terms = Terms(
                answer,
                services.live.config.routing,
                services.rng,
                trace,
                services.live.config.mcp,
                services.live.config.workers,
                services.admission.retry_budgets,
                services.live.choice if place is None else services.live.choice.after(place.refused),
                notes=services.live.config.media.note_earlier,
            )
            await services.running.driver.drive(self._api.api.flow(decoded, terms), run)
        except SmgError as error:
            failure = error
            if self._broken is not None:
                raise self._broken from None
            if not answer.committed and _is_absence(error, trace) and self._may_wait():
                await self._pending.put_off()
                return False
            await self._fail(decoded, answer, error)
            if isinstance(error, GuardrailBlocked) and error.ends_the_answer:
                failure = answer.failure
        finally:
            self._used, self._failed = answer.usage, failure or answer.failure
            self._lease.settle(self._used, self._failed)
            self._finished = how_it_ended(
                generation.id,
                name,
                generation.model,
                trace,
                seconds=services.clock.monotonic() - trace.started,
                usage=answer.usage,
                over=answer.state == "over",
                failure=failure or answer.failure,
                served=services.lookup.served_name(generation.model, generation.caller),
                tenant=generation.caller.tenant,
                trace_id="" if traced is None else traced.trace_id,
                sampled=traced is None or traced.sampled,
            )
            trace.report(self._finished)
            answer.release()
            if services.tracing is not None and traced is not None:
                services.tracing.tracer.end(traced)
        return True

    async def _its_turn(self, request: GenerationRequest, trace: Trace, answer: Answer) -> None:
        """Reserve what the response may take of its limits, and wait before the model until it is its turn. Raises what it is
        refused for."""
        live = self._services.live
        if live.limiting is not None:
            waiting = live.limiting.resume(request, self._lease, trace, answer)
            if waiting is not None:
                await waiting
        if live.queueing is not None:
            self._lease.weight = request.size
            waiting = live.queueing.begin_generation(request, 1, self._lease, trace)
            if waiting is not None:
                await waiting

    def _enter(self, request: GenerationRequest, trace: Trace) -> None:
        """Make the entry of the response in the ledger, where there is one: of the time at which it was asked for."""
        accounting, name, at = self._services.live.accounting, self._api.api.name, self._pending.found.created_at
        if accounting is not None:
            model, user = request.model, request.user or ""
            self._entry = accounting.entry(self._lease, trace, name, model, request.caller, user, at)

    async def _fail(self, decoded: D, answer: Answer, error: SmgError) -> None:
        """The response ends with an error, or where a guardrail ends it."""
        if isinstance(error, GuardrailBlocked) and error.ends_the_answer and await answer.fail(error):
            return
        if error.status == 503 and error.retry_after is None:
            error.retry_after = self._services.admission.retry_after
        if isinstance(answer, WholeAnswer):
            whole = answer.encoder
            if isinstance(whole, StoredWhole):
                whole.fail(error)
                await self._pending.end(decoded, whole.response(), b"")
            return
        await answer.fail(error, in_band=True)

    def _answer(self, decoded: D, plugins: RunPlugins, show: Show | None) -> Answer:
        """The side of the answer that would be the client's: everything is kept."""
        services, log, created = self._services, self._pending.log, int(self._pending.found.created_at)
        api = self._api
        following = self._pending.following

        def streamed() -> StoredStream:
            encoder = api.stream(decoded, created)
            encoder.go_on(following, log.items)
            return encoder

        def encoder() -> StoredStream | StoredWhole:
            made = answer.encoder
            if not isinstance(made, StoredStream | StoredWhole):
                raise TypeError("the encoders are those of the row")
            return made

        async def write(data: bytes, last: bool) -> None:
            frames = data if decoded.generation.stream else b""
            try:
                if last:
                    await self._pending.end(decoded, encoder().response(), frames)
                else:
                    await self._gathered()
                    await self._pending.append(frames)
            except (LeaseLost, StaleVersion, StoreFailed) as error:
                self._broken = error
                raise

        answer: Answer
        if decoded.generation.stream:
            silence = StreamKeepAlive(services.call_later, services.live.config.timeouts.silence_s)
            high_water = services.live.config.limits.response_buffer_bytes
            answer = plugins.streamed(streamed, write, high_water, silence, show)
        else:
            answer = plugins.whole(lambda: api.whole(decoded, created), write, show)
        return answer

    async def _gathered(self) -> None:
        """Wait until the last batch of events is old enough, so that what comes meanwhile is one write."""
        clock, batch = self._services.clock, self._services.live.config.responses.batch_s
        left = self._written + batch - clock.monotonic()
        if left > 0:
            await asyncio.sleep(left)
        self._written = clock.monotonic()


def _is_absence(error: SmgError, trace: Trace) -> bool:
    """Whether the response cannot be made now, and may be later: nobody is there, or a limit of its caller's is reached for a
    time. What a limit never gives has no such time. One that an engine has made and no guardrail could check is not made anew:
    each time would cost as much again."""
    if isinstance(error, GuardrailFailed) and trace.attempts:
        return False
    if isinstance(error, RateLimited):
        return error.retry_after is not None
    return error.status == 503 or isinstance(error, ModelNotFound)
