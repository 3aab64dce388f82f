"""Asks guardrails within their bounds: places, time, and what their failures mean (edge).

A check runs in a task of its own, which keeps its place until it has really ended: one that hangs, or takes no notice of being
cancelled, cannot make a request wait for longer than its time. One that has failed several times in a row rests. Above:
`guarding`, `prompts`, `answers`. Below: `records`, `texts`, the adapters by way of `Guardrail.check`.
"""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from inspect import isawaitable, iscoroutinefunction
from typing import Literal

import attrs

from smg_core.clock import Clock
from smg_core.errors import GuardrailBlocked, GuardrailFailed
from smg_core.guardrails.records import (
    NOTHING_FOUND,
    GuardFault,
    GuardFindings,
    GuardPlace,
    GuardQuestion,
    Guardrail,
    GuardSpan,
)
from smg_core.guardrails.texts import checked_spans, mapped_back, merged, windows, with_masks
from smg_core.hooks import GuardrailAsked, Moment
from smg_core.middleware.asking import fault_words
from smg_core.request import Caller

__all__ = ["AskedFor", "GuardAccount", "RailAsking", "spans_found"]

_FAULTS = 5
"""Failures in a row after which a guardrail rests."""
_REST_S = 1.0
"""How long it then fails at once, without being asked."""
_RETRY_S = 1.0
_THREADS = 8
"""Threads in which the checks of one guardrail run that are plain functions."""

GuardAccount = Callable[[Caller, Guardrail, GuardFindings | None], None]
"""Takes down what a question has cost a caller; None where the guardrail failed."""


@attrs.frozen
class AskedFor:
    """The request that guardrails are asked for: its caller, its model, its id, and who hears what happens."""

    caller: Caller
    model: str
    request_id: str
    report: Callable[[Moment], None]


class RailAsking:
    """One guardrail of a process. `overlap` is how many characters windows of a long text have in common."""

    def __init__(self, rail: Guardrail, overlap: int, clock: Clock, account: GuardAccount) -> None:
        self.rail = rail
        self._overlap, self._clock, self._account = overlap, clock, account
        self._places = asyncio.Semaphore(rail.at_once)
        self._waits = iscoroutinefunction(rail.check) or iscoroutinefunction(type(rail.check).__call__)
        self._threads: ThreadPoolExecutor | None = None
        self._tasks: set[asyncio.Task[GuardFindings]] = set()
        self._faults = 0
        self._rests_until = 0.0

    async def ask(self, text: str, place: GuardPlace, asked: AskedFor, pictures: tuple[str, ...] = ()) -> GuardFindings:
        """What it finds in a text. Raises GuardrailFailed where it fails and is "closed"."""
        began, rail = self._clock.monotonic(), self.rail
        try:
            found = await self._of_all(text, place, asked, pictures)
        except GuardFault as fault:
            self._note(asked, place, "failed", began)
            self._account(asked.caller, rail, None)
            if rail.on_failure == "open":
                return NOTHING_FOUND
            raise GuardrailFailed(
                "A guardrail of this gateway cannot be asked at the moment.",
                detail=f"{rail.name}: {fault.reason}",
                retry_after=_RETRY_S,
            ) from fault
        held = found.blocked or (found.spans and rail.action == "block")
        self._note(asked, place, "blocked" if held else "masked" if found.spans else "passed", began)
        return found

    async def _of_all(self, text: str, place: GuardPlace, asked: AskedFor, pictures: tuple[str, ...]) -> GuardFindings:
        """What it finds in all windows of a text. Raises GuardFault."""
        rail, caller = self.rail, asked.caller
        blocked, spans = list[str](), list[GuardSpan]()
        for start, piece in windows(text, rail.chars, self._overlap):
            question = GuardQuestion(piece, place, caller.tenant, caller.principal, asked.model, pictures)
            found = await self._once(question)
            self._account(caller, rail, found)
            blocked += found.blocked
            spans += [attrs.evolve(each, start=each.start + start, end=each.end + start) for each in found.spans]
            if blocked:
                break
        return GuardFindings(tuple(blocked), merged(spans))

    async def _once(self, question: GuardQuestion) -> GuardFindings:
        """The answer to one question. Raises GuardFault, also where none comes in time."""
        if self._rests_until > self._clock.monotonic():
            raise GuardFault(f"rests, since it failed {_FAULTS} times in a row")
        task = asyncio.ensure_future(self._placed(question))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        try:
            await asyncio.wait((task,), timeout=self.rail.timeout_s)
        except asyncio.CancelledError:  # the request has ended, which says nothing of the guardrail
            task.cancel()
            raise
        fault = _fault_of(task)
        if fault is None:
            self._faults = 0
            return task.result()
        task.cancel()
        self._faults += 1
        if self._faults >= _FAULTS:
            self._rests_until = self._clock.monotonic() + _REST_S
        raise fault

    async def _placed(self, question: GuardQuestion) -> GuardFindings:
        async with self._places:
            if self._waits:
                answer = self.rail.check(question)
            else:
                if self._threads is None:
                    self._threads = ThreadPoolExecutor(min(_THREADS, self.rail.at_once), f"guard-{self.rail.name}")
                answer = await asyncio.wrap_future(self._threads.submit(self.rail.check, question))
            return _checked(await answer if isawaitable(answer) else answer, question)

    def _note(
        self,
        asked: AskedFor,
        place: GuardPlace,
        outcome: Literal["passed", "masked", "blocked", "failed"],
        began: float,
    ) -> None:
        now = self._clock.monotonic()
        asked.report(GuardrailAsked(asked.request_id, self.rail.name, place, outcome, now - began, now))

    def close(self) -> None:
        """Ask nothing more; what is under way ends as it can."""
        for task in self._tasks:
            task.cancel()
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)


def _fault_of(task: "asyncio.Task[GuardFindings]") -> GuardFault | None:
    """Why a task has no answer, None where it has one."""
    if not task.done():
        return GuardFault("took longer than its time")
    if task.cancelled():
        return GuardFault("was cancelled")
    error = task.exception()
    if error is None or isinstance(error, GuardFault):
        return error
    fault = GuardFault(fault_words(error))
    fault.__cause__ = error
    return fault


def _checked(found: object, question: GuardQuestion) -> GuardFindings:
    """The answer of a check, which may be anything. Raises GuardFault for what is none."""
    if found is None:
        return NOTHING_FOUND
    if not isinstance(found, GuardFindings):
        raise GuardFault(f"answered {type(found).__name__[:60]}")
    if isinstance(found.blocked, str) or not all(isinstance(each, str) for each in found.blocked):
        raise GuardFault("gave reasons that are no texts")
    return attrs.evolve(found, spans=checked_spans(found.spans, len(question.text)))


async def spans_found(
    rails: Sequence[RailAsking], text: str, place: GuardPlace, asked: AskedFor, pictures: tuple[str, ...] = ()
) -> tuple[GuardSpan, ...]:
    """The parts of a text that are to be masked. Guardrails are asked in their order, and each sees the text as those before it
    have left it. Raises GuardrailBlocked and GuardrailFailed."""
    spans, left = tuple[GuardSpan, ...](), text
    for each in rails:
        if not left and not pictures:
            break
        found = await each.ask(left, place, asked, pictures)
        if found.blocked or (found.spans and each.rail.action == "block"):
            raise GuardrailBlocked(each.rail.name, place)
        if found.spans:
            spans = mapped_back(spans, found.spans)
            left = with_masks(text, spans)
    return spans
