"""Copies of requests sent to another model too, whose answers are measured and discarded (edge).

A copy is one turn in a task of its own, with a driver's run, a trace and an answer that nobody reads, so that nothing of it can
reach the request that it is a copy of. It is not kept, performs no tool, is tried once, and counts towards no bound on requests.
Copies have a bound of their own: what is beyond it is dropped and counted. Which requests have one is said by
`routing.model_choice`. Above: the handler in `serving.inference`. Below: the gateway's driver.
"""

import asyncio
from collections.abc import Sequence

from msgspec.structs import replace

from smg_core.errors import SmgError
from smg_core.grants import Grants
from smg_core.hooks import RequestFinished, Shadowed
from smg_core.pipeline.answer.discarded_answer import AsideAnswer
from smg_core.pipeline.answer.trace import Trace
from smg_core.pipeline.flow.driver import Run
from smg_core.pipeline.flow.flow import shadowed
from smg_core.pipeline.flow.timeouts import Timeouts
from smg_core.pipeline.prompt.media import media_of
from smg_core.pipeline.tools.loop import has_hosted_tools
from smg_core.request import GenerationRequest, HistoryRef
from smg_core.serving.services import Services

__all__ = ["Shadow", "Shadows"]


class Shadow:
    """One copy. It is told of, by `tell`, once it has ended and the answer of its request too."""

    def __init__(self, services: Services, record: Shadowed) -> None:
        self._services = services
        self._copy = record
        self._over = False
        self._answered: RequestFinished | None = None

    def answered(self, finished: RequestFinished) -> None:
        """Called when the request that this is a copy of has ended."""
        self._answered = finished
        self._tell()

    def ended(self, copy: Shadowed) -> None:
        """Called when the copy has ended."""
        self._copy, self._over = copy, True
        self._tell()

    def _tell(self) -> None:
        if self._over and self._answered is not None:
            self._services.observer.report(replace(self._copy, agrees=agreement(self._copy, self._answered)))


def agreement(copy: Shadowed, answered: RequestFinished) -> bool | None:
    """Whether both answers are as long and ended for the same reasons; None where one of them is not whole."""
    if copy.outcome != "ok" or answered.outcome != "ok":
        return None
    return copy.completion_tokens == answered.completion_tokens and sorted(copy.finish) == sorted(answered.finish)


class Shadows:
    """The copies of one gateway's requests. Runs beside its requests (`SideTasks`)."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._running: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Wait until the gateway stops, and give up what is under way then."""
        try:
            await asyncio.Event().wait()
        finally:
            await _end([*self._running])

    def drain(self) -> None:
        """The gateway shuts down: give up what is under way."""
        for each in self._running:
            each.cancel()

    def begin(self, request: GenerationRequest, timeouts: Timeouts) -> Shadow | None:
        """Begin the copy of a request that begins now; None where it has none. Returns at once."""
        services = self._services
        models = services.live.choice.shadow(request)
        if models is None or services.admission.draining or services.life.retiring or not _can_be_copied(request):
            return None
        settings, record = services.live.config.routing, Shadowed(request.id, *models, "dropped")
        if len(self._running) >= settings.shadow_at_once:
            services.observer.report(record)
            return None
        shadow = Shadow(services, record)
        bounded = replace(timeouts, request=min(timeouts.request or settings.shadow_s, settings.shadow_s))
        task = asyncio.create_task(self._run(shadow, record, _copy_of(request, services), bounded), name="shadow")
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return shadow

    async def _run(self, shadow: Shadow, record: Shadowed, request: GenerationRequest, timeouts: Timeouts) -> None:
        services = self._services
        began = services.clock.monotonic()
        trace, answer = Trace(began, services.failures), AsideAnswer(keep=False)
        outcome = "abandoned"
        try:
            turn = await services.running.driver.drive(shadowed(request, record.shadow), Run(answer, trace, timeouts))
            outcome = "ok" if turn.error is None else type(turn.error).__name__
        except SmgError as error:
            outcome = type(error).__name__
        finally:
            ended, usage, first = trace.ended, answer.usage, trace.first
            shadow.ended(
                replace(
                    record,
                    outcome=outcome,
                    worker=ended.worker if ended is not None else "",
                    first_seconds=first.seconds if first is not None else None,
                    seconds=services.clock.monotonic() - began,
                    prompt_tokens=usage.prompt_tokens if usage is not None else 0,
                    completion_tokens=usage.completion_tokens if usage is not None else 0,
                    finish=ended.finish if ended is not None else (),
                )
            )
            answer.release()


def _can_be_copied(request: GenerationRequest) -> bool:
    """Whether a copy asks for the same and does nothing else: no tool runs here, no media are fetched twice, nothing is only
    read into a cache or made shorter first."""
    plain = request.generate and request.compact is None and not has_hosted_tools(request)
    return plain and not media_of(request.messages)


def _copy_of(request: GenerationRequest, services: Services) -> GenerationRequest:
    """The copy: streamed, so that its first token can be measured, kept nowhere, and with an id of its own. The operator decides
    which model it is sent to, so the caller needs no grant for that."""
    caller = replace(request.caller, grants=Grants())
    return replace(
        request, id=services.ids("shadow-"), caller=caller, stream=True, background=False, history=HistoryRef()
    )


async def _end(tasks: "Sequence[asyncio.Task[None]]") -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
