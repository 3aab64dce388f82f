"""Shows guardrails a model's output, and holds back text until they have passed it (edge).

Of a text, the last characters are held back until more of it has come or it is over, so that what a guardrail looks for does not
leave in part; the characters that have left before are shown with the next ones. Calls of tools are held back whole. Where
something may not pass, the choice ends there as one that a filter has cut; what has left stays. Choices are apart from each
other. Above: `guarding` makes one for each answer, `pipeline.answer.transformed_answer` asks it. Below: `asking`, `held`.
"""

from collections.abc import Awaitable, Callable, Sequence

import attrs
from msgspec.structs import replace

from smg_core.clock import CallLater, Clock, Handle
from smg_core.errors import GuardrailBlocked
from smg_core.events import (
    Annotation,
    Cancelled,
    Done,
    Event,
    Failed,
    Finished,
    HostedEnd,
    HostedProgress,
    HostedStart,
    OpaqueBlock,
    ReasoningDelta,
    ReasoningEnd,
    RefusalDelta,
    SampledIds,
    TextDelta,
    TextEnd,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
    Verbatim,
)
from smg_core.guardrails.held import HeldChoice, TextHeld, masked_call
from smg_core.guardrails.records import GuardPlace, GuardSpan
from smg_core.guardrails.texts import plain_json, with_masks

__all__ = ["GuardedAnswer", "Holding", "SpansOf"]

SpansOf = Callable[[str, GuardPlace], Awaitable[tuple[GuardSpan, ...]]]
"""The parts of a text that are to be masked. Raises GuardrailBlocked and GuardrailFailed."""
_ARGUMENTS = 1 << 20
"""Most characters of a call of a tool, which is held back whole."""
_LISTS = frozenset({"mcp_list_tools"})
"""Hosted blocks that tell what the gateway's operator, or the client, has named: no words of a model's, nor of a tool's."""
_END = (Done, Failed, Cancelled)


@attrs.frozen
class Holding:
    """How much is held back: `chars` at the end of a text, for `seconds` at most; guardrails are asked again after `piece`
    characters."""

    chars: int
    piece: int
    seconds: float


class GuardedAnswer:
    """One answer of `choices` choices, whose events `before` is shown first. `name` is that of the guardrail which holds back
    what no mask can stand in. `wake`, where it is set, is called when something has been held back for long enough: then this is
    to be called again, with whatever events there are."""

    def __init__(
        self,
        name: str,
        spans: SpansOf,
        choices: int,
        holding: Holding,
        clock: Clock,
        call_later: CallLater,
        before: Callable[[Sequence[Event]], Awaitable[Sequence[Event]]] | None = None,
    ) -> None:
        self._name, self._spans, self._count, self._holding, self._before = name, spans, choices, holding, before
        self._clock, self._call_later = clock, call_later
        self._choices: dict[int, HeldChoice] = {}
        self._timer: Handle | None = None
        self._whole = False  # the end has come: what is asked about is asked once
        self.wake: Callable[[], None] | None = None
        self._block: GuardrailBlocked | None = None

    async def __call__(self, events: Sequence[Event]) -> Sequence[Event]:
        """The events that may leave. Raises GuardrailBlocked, with those that may still, where nothing more can come, and
        GuardrailFailed."""
        if self._before is not None:
            events = await self._before(events)
        left: list[Event] = []
        self._whole = bool(events) and isinstance(events[-1], _END)
        ending: list[Event] = []
        if self._whole and isinstance(events[-1], Failed):
            error = events[-1].error
            if isinstance(error, GuardrailBlocked) and error.ends_the_answer:
                events, ending = events[:-2], [events[-2], Done()]
        for event in events:
            await self._event(event, left)
        if ending:
            self._cut_all(left)
            return [*left, *ending]
        await self._let_old_go(left)
        self._watch()
        if self._block is not None and not self._whole and self._is_over():
            self._block.left = tuple(left)
            raise self._block
        return left

    def _is_over(self) -> bool:
        return len(self._choices) >= self._count and all(each.over for each in self._choices.values())

    def _cut_all(self, left: list[Event]) -> None:
        """End every choice that has not ended, as one that a filter has cut."""
        for index in sorted({0, *self._choices}):
            choice = self._choices.setdefault(index, HeldChoice(index, self._holding.chars))
            if not choice.over:
                choice.cut(left)

    # ------------------------------------------------------------------------------------------------------------ events

    async def _event(self, event: Event, left: list[Event]) -> None:
        index = getattr(event, "index", None)
        if index is None:
            left.append(event)
            return
        if isinstance(event, Verbatim):
            return
        choice = self._choices.get(index)
        if choice is None:
            choice = self._choices[index] = HeldChoice(index, self._holding.chars)
        if choice.blocked:
            return
        try:
            await self._of_choice(choice, event, left)
        except GuardrailBlocked as block:
            choice.cut(left)
            self._block = block

    async def _of_choice(self, choice: HeldChoice, event: Event, left: list[Event]) -> None:
        match event:
            case TextDelta() | RefusalDelta() | ReasoningDelta():
                choice.hold(event, event.text, self._clock.monotonic())
                if not self._whole and choice.unchecked >= self._holding.piece:
                    await self._check(choice, left)
            case SampledIds():
                choice.hold(event, "", self._clock.monotonic())
            case Annotation():
                await self._annotation(choice, event)
            case TextEnd() | ReasoningEnd():
                await self._check(choice, left, last=True)
                choice.end(event, left)
            case ToolCallStart() | ToolCallDelta():
                choice.keep(event)
                if choice.kept > _ARGUMENTS:
                    raise GuardrailBlocked(self._name, "arguments")
            case ToolCallEnd():
                await self._call(choice, event, left)
            case HostedStart() | HostedProgress() | HostedEnd():
                await self._hosted(choice, event, left)
            case OpaqueBlock():
                choice.release_all(left)
                left.append(event)
            case Finished():
                choice.release_all(left)
                choice.over = True
                left.append(event)

    async def _check(self, choice: HeldChoice, left: list[Event], *, last: bool = False) -> None:
        """Have the text that is held back looked at, and let go what may leave of it."""
        if choice.clean and last:
            choice.release_all(left)
            return
        held = choice.held()
        spans = await self._spans(held.in_context, "output") if held.text else ()
        choice.release(held, spans, last=last, left=left)

    async def _annotation(self, choice: HeldChoice, event: Annotation) -> None:
        words = f"{event.title} {event.quote}".strip()
        if not choice.changed and not (words and await self._spans(words, "output")):
            choice.hold(event, "", self._clock.monotonic())

    async def _call(self, choice: HeldChoice, event: ToolCallEnd, left: list[Event]) -> None:
        call = choice.call(event)
        plain = None if call.custom else plain_json(call.arguments)
        readable = call.arguments if plain is None else plain
        spans = await self._spans(readable, "arguments") if readable else ()
        events = masked_call(call, with_masks(readable, spans) if spans else None)
        if not events:
            raise GuardrailBlocked(self._name, "arguments")
        left += events

    async def _hosted(
        self, choice: HeldChoice, event: HostedStart | HostedProgress | HostedEnd, left: list[Event]
    ) -> None:
        choice.release_all(left)
        payload = event.payload
        text = "" if choice.lists(event, _LISTS) else payload.decode(errors="replace")
        readable = plain_json(text) or text
        spans = (
            await self._spans(readable, "output" if isinstance(event, HostedEnd) else "arguments") if readable else ()
        )
        if spans:
            changed = with_masks(readable, spans)
            if plain_json(changed) is None:
                raise GuardrailBlocked(self._name, "output")
            event = replace(event, payload=changed.encode())
        choice.opened = None if isinstance(event, HostedEnd) else "hosted"
        left.append(event)

    # ------------------------------------------------------------------------------------------------------------- time

    async def _let_old_go(self, left: list[Event]) -> None:
        """Check and let go what has been held back for long enough."""
        if self._whole:
            return
        now = self._clock.monotonic()
        for choice in self._choices.values():
            if choice.since + self._holding.seconds <= now and not choice.blocked:
                try:
                    await self._check(choice, left, last=True)
                except GuardrailBlocked as block:
                    choice.cut(left)
                    self._block = block

    def _watch(self) -> None:
        """Come back in time for what is held back now."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        oldest = min((each.since for each in self._choices.values()), default=TextHeld.NEVER)
        if self.wake is not None and not self._whole and oldest < TextHeld.NEVER:
            left = oldest + self._holding.seconds - self._clock.monotonic()
            self._timer = self._call_later(max(0.0, left), self.wake)

    def close(self) -> None:
        """The answer is over: nothing is waited for any more."""
        self._whole = True
        self._watch()
