"""Performs `Hedge`: makes a call, and one of a second worker where the answer is late; the first whole answer counts (edge).

The first call feeds the client's answer as it would alone. The second one's output is kept aside, and becomes the answer if it
is whole first. The other call is then given up at once, as if its client had left: its engine is told. A second call that fails
changes nothing; if the first one fails, the second goes on alone. Above: performers. Below: streaming, selecting, aside, and
routing.hedging, which says when an answer is late.
"""

import asyncio
from collections.abc import Sequence

from msgspec.structs import replace

from smg_core.clock import CallLater, Clock
from smg_core.errors import SmgError
from smg_core.hooks import Hedged
from smg_core.observability.faults import FaultLog
from smg_core.pipeline.answer.discarded_answer import AsideAnswer, AsideTrace
from smg_core.pipeline.answer.turn import Turn
from smg_core.pipeline.calls.selecting import Selecting
from smg_core.pipeline.calls.streaming import Streaming
from smg_core.pipeline.flow.driver import Run, loop_call_later
from smg_core.pipeline.flow.steps import Hedge, Placement, Raced, Select, Stream
from smg_core.routing.hedging import Hedges, ModelHedges

__all__ = ["Hedging"]


class Hedging:
    """The performer of `Hedge`. `call_later` is the event loop's unless a test passes its own."""

    def __init__(
        self, streaming: Streaming, selecting: Selecting, *, clock: Clock, call_later: CallLater = loop_call_later
    ) -> None:
        self._streaming = streaming
        self._selecting = selecting
        self._clock = clock
        self._call_later = call_later
        self._hedges = Hedges()
        self._faults = FaultLog("smg.pipeline", clock)

    async def __call__(self, step: Hedge, run: Run) -> Raced:
        hedges = self._hedges.of(step.stream.prompted.model.name, step.settings)
        hedges.pay()
        began, delay = self._clock.monotonic(), hedges.delay()
        if delay is None:
            raced = Raced(await self._streaming(step.stream, run), step.stream, step.placement)
        else:
            raced = await self._race(step, run, hedges, delay)
        if raced.turn.error is None:
            hedges.took(self._clock.monotonic() - began)
        return raced

    async def _race(self, step: Hedge, run: Run, hedges: ModelHedges, delay: float) -> Raced:
        first = asyncio.ensure_future(self._streaming(step.stream, run))
        second: _Second | None = None
        try:
            await self._until(first, delay)
            if not first.done():
                second = self._second(step, run, hedges, delay)
            if second is None:
                return Raced(await first, step.stream, step.placement)
            await _decided(first, second.call)
            return await _outcome(step, run, first, second)
        finally:
            await _end([first] if second is None else [first, second.call])

    async def _until(self, call: "asyncio.Future[Turn]", delay: float) -> None:
        """Return when `call` is over, after `delay` seconds at the latest."""
        late: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        timer = self._call_later(delay, lambda: None if late.done() else late.set_result(None))
        try:
            await asyncio.wait((call, late), return_when=asyncio.FIRST_COMPLETED)
        finally:
            timer.cancel()
            late.cancel()

    def _second(self, step: Hedge, run: Run, hedges: ModelHedges, delay: float) -> "_Second | None":
        """The second call, begun; None where there is no worker to spare for it, or the budget is used up."""
        prompted, stream, trace = step.stream.prompted, step.stream, AsideTrace(run.trace)
        record = Hedged(prompted.request.id, prompted.model.name, stream.chosen.worker.name, "", delay, "no_budget")
        if not hedges.take():
            run.trace.report(record)
            return None
        exclude, number = step.exclude | step.placement.names, stream.attempt + 1
        asked = Select(prompted, exclude, number, spare=True, suspects=stream.after.suspects)
        try:
            placement = self._selecting.choose(asked, trace)
        except SmgError:
            hedges.give_back()
            run.trace.report(replace(record, outcome="no_worker"))
            return None
        again = replace(
            stream,
            chosen=placement.last,
            attempt=number,
            prefill=placement.prefill,
            encoders=placement.encoders,
        )
        own = Run(AsideAnswer(run.answer.earlier_calls), trace, run.timeouts, calls=run.calls)
        run.calls += 1
        return _Second(
            again, placement, own, replace(record, to=placement.last.worker.name), self._streaming, self._faults
        )


class _Second:
    """The second call, under way."""

    def __init__(
        self, stream: Stream, placement: Placement, run: Run, record: Hedged, streaming: Streaming, faults: FaultLog
    ) -> None:
        self.stream, self.placement, self.run, self.record = stream, placement, run, record
        self._faults = faults
        self.call = asyncio.ensure_future(streaming(stream, run))

    @property
    def turn(self) -> Turn | None:
        """Its turn, if it is over and went well."""
        if not self.call.done():
            return None
        error = self.call.exception()
        if error is not None:
            if not isinstance(error, SmgError):
                self._faults.note("the second call of a request", error)
            return None
        turn = self.call.result()
        return turn if turn.error is None else None

    def with_outcome(self, outcome: str) -> Hedged:
        return replace(self.record, outcome=outcome)


async def _decided(first: "asyncio.Future[Turn]", second: "asyncio.Future[Turn]") -> None:
    """Return when one call has a whole answer, when the first one failed so that no other could do it, or both are over."""
    running = {first, second}
    while running:
        done, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
        for each in done:
            error = each.exception() or each.result().error
            if error is None or (each is first and not _others_may_do(each, error)):
                return


def _others_may_do(call: "asyncio.Future[Turn]", error: BaseException) -> bool:
    """Whether another worker may do what this call has failed at."""
    return isinstance(error, SmgError) and (
        error.another_worker_may_do or (call.exception() is None and call.result().handed_nothing)
    )


async def _outcome(step: Hedge, run: Run, first: "asyncio.Future[Turn]", second: _Second) -> Raced:
    """Whose answer it is, once that is decided; the other call is given up."""
    names, aside, failed = second.placement.names, second.run, second.call.done()
    if first.done() and (first.result().error is None or not second.call.done()):
        aside.given_up = "outrun"
        await _end([second.call])
        run.trace.report(second.with_outcome("failed" if failed and second.turn is None else "lost"))
        return Raced(first.result(), step.stream, step.placement, names)
    turn = second.turn
    if turn is None:
        run.trace.report(second.with_outcome("both_failed"))
        return Raced(first.result(), step.stream, step.placement, names)
    run.given_up, run.trace.outrun = "outrun", True
    try:
        await _end([first])
    finally:
        run.given_up, run.trace.outrun = "abandoned", False
    _use(aside, run)
    run.trace.report(second.with_outcome("won"))
    return Raced(turn, second.stream, second.placement, step.placement.names)


def _use(aside: Run, run: Run) -> None:
    """Let the answer that was kept aside be the client's."""
    kept = aside.answer
    if isinstance(kept, AsideAnswer) and kept.attempt is not None:
        run.answer.begin(kept.attempt)
        if run.trace.content is not None:
            run.trace.content.take(kept.events)
        run.answer.take(kept.events, True)
    if isinstance(aside.trace, AsideTrace):
        aside.trace.used()


async def _end(calls: "Sequence[asyncio.Future[Turn]]") -> None:
    """Give up calls that are not over, and return once they have given back what they held."""
    running = [call for call in calls if not call.done()]
    for call in running:
        call.cancel()
    await asyncio.gather(*running, return_exceptions=True)
