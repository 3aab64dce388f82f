"""Reads the turn of an engine that speaks chat: passes on its events, except those that only the `Answer` may make.

The engine's own `Started` and `Usage` are kept for the counts; `Done` is dropped; `Failed` becomes the turn's error. What
holds for answers of engines that take ids is held here too: tool calls are numbered on from those of earlier turns, and only
those that may be made are passed on; white space alone beside anything else is no content; a text is checked against its
format. The counterpart of `OutputProcessor` for engines that take requests. Pure. Above: pipeline.answer.attempt. Below: events.
"""

from collections.abc import Callable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from smg_core.errors import EngineFailed, EngineGarbled, SmgError
from smg_core.events import (
    Cancelled,
    Done,
    Event,
    Failed,
    Finished,
    HostedEnd,
    HostedStart,
    OpaqueBlock,
    ReasoningDelta,
    ReasoningEnd,
    RefusalDelta,
    Started,
    TextDelta,
    TextEnd,
    TokenLogprob,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
    Usage,
    Verbatim,
)
from smg_core.pipeline.prompt.conformance import Check, Conformance, OnViolation
from smg_core.sealing.reasoning import CARRIED
from smg_parsers.json_text.free_text import FreeTextReader

__all__ = ["ChatPlan", "ChatReader"]


class ChatPlan(Struct, frozen=True, eq=False):
    """How to read one turn of `choices` choices. `only` names the tools whose calls are passed on (None: all), `single_call`
    passes on the first of a choice only, `free_text` names the tools whose text the engine writes as the one argument of a
    function. `stop` are the client's stop strings; `check`, `on_violation` and `seal` as in `OutputPlan`. `carry` seals what an
    outside provider wants back of its reasoning; `reads_parts`: the API has no seals of its own, so it is told as a block."""

    choices: int = 1
    stop: tuple[str, ...] = ()
    only: frozenset[str] | None = None
    single_call: bool = False
    free_text: frozenset[str] = frozenset()
    check: Check | None = None
    on_violation: OnViolation = "report"
    seal: Callable[[str], bytes] | None = None
    carry: Callable[[bytes], bytes] | None = None
    reads_parts: bool = False


_CALLS = (ToolCallStart, ToolCallDelta, ToolCallEnd)


class _Choice:
    """One choice. `passed` counts the calls that were passed on; the number of the first is `first_call`."""

    __slots__ = (
        "_accompanied",
        "_conformance",
        "_free_text",
        "_held",
        "_held_logprobs",
        "_index",
        "_muted",
        "_open",
        "_plan",
        "_spoke",
        "_thought",
        "finished",
        "first_call",
        "passed",
    )

    def __init__(self, index: int, plan: ChatPlan, first_call: int) -> None:
        self.finished: Finished | None = None
        self.first_call = first_call
        self.passed = 0
        self._index = index
        self._plan = plan
        self._open: Event | None = None  # what began or went on with the open block
        self._muted = False  # the open call is not passed on
        self._free_text: FreeTextReader | None = None
        self._accompanied = False  # by reasoning, a refusal, calls, or blocks that are passed on unread
        self._spoke = False  # the content has something other than white space
        self._held: list[str] = []  # the white space before that, and its logprobs
        self._held_logprobs: list[TokenLogprob] = []
        self._conformance = None if plan.check is None else Conformance(plan.check, plan.on_violation)
        self._thought: list[str] = []  # the open reasoning, where it is to be sealed

    def feed(self, event: Event, events: list[Event]) -> None:
        """Take in one event of this choice, append what is to be passed on."""
        if isinstance(event, TextDelta):
            self._content(event, events)
        elif isinstance(event, _CALLS):
            self._call(event, events)
        elif isinstance(event, Finished):
            self._finish(event, events)
        elif isinstance(event, TextEnd):
            if self._open is not None:  # None: the block was white space that was not passed on
                self._open = None
                events.append(event)
        else:
            if isinstance(event, ReasoningDelta | RefusalDelta | OpaqueBlock | HostedStart):
                self._accompanied = True
            carry, original = self._plan.carry, event.seal if isinstance(event, ReasoningEnd) else None
            if carry is not None and original is not None:
                self._carried(carry(original), events)
                return
            if self._plan.seal is not None:
                event = self._sealed(event, self._plan.seal)
            self._note(event)
            events.append(event)

    def _carried(self, token: bytes, events: list[Event]) -> None:
        """The end of reasoning whose provider wants an original back, which `token` is the seal of."""
        self._thought.clear()
        self._open = None
        if self._plan.reads_parts:
            events += (ReasoningEnd(self._index), OpaqueBlock(self._index, CARRIED, token))
        else:
            events.append(ReasoningEnd(self._index, token, carried=True))

    def _sealed(self, event: Event, seal: Callable[[str], bytes]) -> Event:
        """The event; the end of reasoning with its seal."""
        if isinstance(event, ReasoningDelta):
            self._thought.append(event.text)
        elif isinstance(event, ReasoningEnd):
            event = replace(event, seal=seal("".join(self._thought)))
            self._thought.clear()
        return event

    def _note(self, event: Event) -> None:
        if isinstance(event, TextDelta | RefusalDelta | ReasoningDelta | HostedStart):
            self._open = event
        elif isinstance(event, ReasoningEnd | HostedEnd):
            self._open = None

    def _content(self, event: TextDelta, events: list[Event]) -> None:
        if not self._spoke:
            if not event.text or event.text.isspace():
                self._held.append(event.text)
                self._held_logprobs += event.logprobs
                return
            self._spoke = True
            event = self._released(event)
        if self._conformance is not None:
            event = replace(event, text=self._conformance.feed(event.text))
        self._open = event
        events.append(event)

    def _released(self, event: TextDelta) -> TextDelta:
        """The event, with the white space that was held back before it."""
        if not self._held:
            return event
        text, logprobs = "".join([*self._held, event.text]), (*self._held_logprobs, *event.logprobs)
        self._held, self._held_logprobs = [], []
        return TextDelta(self._index, text, logprobs)

    def _call(self, event: ToolCallStart | ToolCallDelta | ToolCallEnd, events: list[Event]) -> None:
        if isinstance(event, ToolCallStart):
            plan = self._plan
            self._muted = (plan.only is not None and event.name not in plan.only) or (
                plan.single_call and self.passed > 0
            )
            if self._muted:
                return
            unwrapped = event.name in plan.free_text and not event.custom
            self._free_text = FreeTextReader() if unwrapped else None
            self._accompanied = True
            self._open = event = replace(event, call=self.first_call + self.passed, custom=event.custom or unwrapped)
            self.passed += 1
            events.append(event)
        elif not self._muted:
            call = self.first_call + self.passed - 1
            if isinstance(event, ToolCallDelta):
                self._arguments(event.arguments, call, events)
            else:
                self._open = None
                if self._free_text is not None and (rest := self._free_text.finish()):
                    events.append(ToolCallDelta(self._index, call, rest))
                events.append(replace(event, call=call))

    def _arguments(self, arguments: str, call: int, events: list[Event]) -> None:
        if text := arguments if self._free_text is None else self._free_text.feed(arguments):
            events.append(ToolCallDelta(self._index, call, text))

    def _finish(self, event: Finished, events: list[Event]) -> None:
        if event.reason == "error":
            raise EngineFailed("The engine failed while generating.")
        if self._held and not self._spoke and not self._accompanied:
            events += (self._released(TextDelta(self._index, "")), TextEnd(self._index))
        if event.reason == "tool_calls" and (not self.passed or (event.cut and event.matched in self._plan.stop)):
            event = replace(event, reason="stop")
        elif event.reason == "stop" and self.passed and not event.stopped_by(self._plan.stop):
            event = replace(event, reason="tool_calls")
        if self._conformance is not None:
            event = self._judged(event, self._conformance, events)
        self.finished = event
        events.append(event)

    def _judged(self, event: Finished, conformance: Conformance, events: list[Event]) -> Finished:
        """The end of the choice, with the verdict on the text's format; text that was held back is appended before it."""
        verdict = conformance.finish(event.reason, calls=self.passed > 0)
        if verdict.rest:
            text, end = TextDelta(self._index, verdict.rest), TextEnd(self._index)
            if events and events[-1] == end:
                events[-1:] = (text, end)
            else:
                events += (text, end)
        return replace(event, violation=verdict.violation, mended=verdict.mended)

    def cut(self) -> Event | None:
        """The end of the block that is open."""
        block, self._open = self._open, None
        match block:
            case TextDelta() | RefusalDelta():
                return TextEnd(self._index)
            case ReasoningDelta():
                end: Event = ReasoningEnd(self._index)
                return end if self._plan.seal is None else self._sealed(end, self._plan.seal)
            case ToolCallStart():
                return ToolCallEnd(self._index, block.call, valid=False)
            case HostedStart():
                return HostedEnd(self._index, failed=True)
        return None


class ChatReader:
    """All choices of one turn. It is done when all choices have finished and the engine has sent its usage or closed the
    stream."""

    family = ""  # the engine has read its own output
    strict: frozenset[str] | None = None  # and says not what it holds calls to

    def __init__(self, plan: ChatPlan, first_call: int = 0) -> None:
        self.done = False
        self._plan = plan
        self.finishes: list[Finished] = []
        self.rest: list[Event] = []
        self._choices = [_Choice(index, plan, first_call) for index in range(plan.choices)]
        self._usage: Usage | None = None
        self._started: Started | None = None

    @property
    def next_call(self) -> int:
        return max(choice.first_call + choice.passed for choice in self._choices)

    @property
    def whole(self) -> bool:
        return len(self.finishes) >= len(self._choices)

    engine_done = whole

    @property
    def plain(self) -> bool:
        """Whether all of what the engine says is passed on, and nothing is put in its place but seals."""
        plan = self._plan
        changes = plan.only or plan.single_call or plan.free_text or plan.check
        return plan.carry is not None and not changes

    @property
    def prompt_tokens(self) -> int:
        if self._usage is not None:
            return self._usage.prompt_tokens
        return self._started.prompt_tokens if self._started is not None else 0

    @property
    def cached_tokens(self) -> int:
        return self._usage.cached_tokens if self._usage is not None else 0

    def feed(self, outputs: Sequence[Event]) -> list[Event]:
        events: list[Event] = []
        try:
            for event in outputs:
                kind = type(event)
                if kind is TextDelta:
                    self._pass(event, events)
                elif kind is Verbatim:  # may speak of choices that have ended
                    events.append(event)
                elif isinstance(event, Started):
                    self._started = event
                elif isinstance(event, Usage):
                    self._usage = event
                elif isinstance(event, Failed):
                    raise event.error
                elif isinstance(event, Cancelled):
                    raise EngineGarbled(
                        "The engine gave the request up.", detail=event.reason, outside_text=event.reason
                    )
                elif not isinstance(event, Done):
                    self._pass(event, events)
        except SmgError:
            self.rest = events
            raise
        if self._usage is not None and self.whole:
            self.done = True
        return events

    def _pass(self, event: Event, events: list[Event]) -> None:
        index = event.index  # type: ignore[union-attr]  # all that are left are of a choice
        if not 0 <= index < len(self._choices) or self._choices[index].finished is not None:
            raise EngineGarbled(f"The engine spoke for choice {index}, which has ended or was not asked for.")
        choice = self._choices[index]
        choice.feed(event, events)
        if choice.finished is not None:
            self.finishes.append(choice.finished)

    def usage(self) -> Usage:
        return self._usage or Usage(self.prompt_tokens, 0)

    def cut(self) -> list[Event]:
        """The ends of the blocks that are open."""
        return [end for choice in self._choices if (end := choice.cut()) is not None]
