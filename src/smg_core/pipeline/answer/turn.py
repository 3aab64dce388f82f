"""The result of one turn of a model, for the flow that asked for it.

A turn is one generation: its result is one or more choices, or an error. `Turn` is the outcome of the step `Stream`; a flow
reads it to decide the next step: end the response, run the tools that were called, try another worker. Pure records. Above:
flows. Below: the events.
"""

from collections.abc import Mapping, Sequence

import attrs
from msgspec import Struct

from smg_core.errors import SmgError
from smg_core.events import (
    Event,
    Finished,
    OpaqueBlock,
    ReasoningDelta,
    ReasoningEnd,
    TextDelta,
    TextEnd,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
    Usage,
)
from smg_core.pipeline.answer.attempt import AnyReader
from smg_core.pipeline.answer.citing import Citing
from smg_core.request import Opaque, Part, Reasoning, Text, ToolCall
from smg_core.sealing.reasoning import CARRIED

__all__ = ["CalledTool", "Transcript", "Turn", "TurnOutput"]


@attrs.frozen
class CalledTool:
    """A tool call as the model made it. `call` is its number within the response; `arguments` the text it wrote; `complete`
    False for one that was cut off."""

    call: int
    id: str
    name: str
    arguments: str
    complete: bool


@attrs.frozen
class TurnOutput:
    """The complete output of one choice. `parts` are all of it in order, where some of them are an outside provider's, which
    wants them back so; else there are none."""

    text: str = ""
    reasoning: str = ""
    calls: tuple[CalledTool, ...] = ()
    parts: tuple[Part, ...] = ()


class Turn(Struct, frozen=True):
    """How a turn ended. `error` is None if it succeeded; then `finishes` has a `Finished` for every choice. `outputs` holds the
    output of each choice by its index if the flow asked for that (`Stream.keep`), else None. `usage` counts only this turn,
    `calls` the tool calls of the whole response so far. `failed`: of two workers, the name of the one that failed. `held`: the
    `Finished` events were not sent to the client. If the turn was kept, another call can continue it (`Stream.continues`) with
    its `reader`, `transcript` collects its outputs, `citing` has the sources of its text; `received` is how many tokens of it
    have come, of all its calls.
    `begun`: this call of an engine has brought something. `cut_short`: the budget of reasoning is used up, so another call must
    continue the turn. `lost`: the worker was lost, with all the calls that it had.
    `handed_nothing`: the engine failed before it had said anything, and the one to blame may also be that which read the prompt
    for it, so that another pair may do what the error says that no other worker can."""

    finishes: tuple[Finished, ...]
    usage: Usage
    calls: int = 0
    error: SmgError | None = None
    outputs: Mapping[int, TurnOutput] | None = None
    failed: str | None = None
    held: bool = False
    reader: AnyReader | None = None
    transcript: "Transcript | None" = None
    citing: Citing | None = None
    cut_short: bool = False
    begun: bool = False
    received: int = 0
    lost: bool = False
    handed_nothing: bool = False

    @property
    def output(self) -> TurnOutput:
        """The output of the first choice. Raises LookupError if the flow did not ask to keep it."""
        if self.outputs is None:
            raise LookupError("the output of this turn was not kept; ask for it with Stream(keep=True)")
        return self.outputs.get(0, TurnOutput())


class _Choice:
    """One choice of a transcript. `blocks` are its parts in order, the last of which may be open; `carried`: some of them are
    what a provider wants back. `text_ended` and `reasoning_ended` count the deltas that stand in blocks already."""

    __slots__ = ("blocks", "calls", "carried", "reasoning", "reasoning_ended", "text", "text_ended")

    def __init__(self) -> None:
        self.text: list[str] = []
        self.reasoning: list[str] = []
        self.calls: dict[int, tuple[ToolCallStart, list[str], bool]] = {}
        self.blocks: list[Part | ToolCallStart] = []
        self.carried = False
        self.text_ended = self.reasoning_ended = 0

    def whole(self) -> TurnOutput:
        return TurnOutput(
            "".join(self.text),
            "".join(self.reasoning),
            tuple(
                CalledTool(number, start.id, start.name, "".join(arguments), complete)
                for number, (start, arguments, complete) in self.calls.items()
            ),
            tuple(self._part(each) for each in self.blocks) if self.carried else (),
        )

    def _part(self, block: Part | ToolCallStart) -> Part:
        if not isinstance(block, ToolCallStart):
            return block
        return ToolCall(block.id, block.name, "".join(self.calls[block.call][1]) or "{}")

    def end_text(self) -> None:
        """The open text is complete."""
        if text := "".join(self.text[self.text_ended :]):
            self.blocks.append(Text(text))
        self.text_ended = len(self.text)

    def end_reasoning(self, event: ReasoningEnd) -> None:
        """The open reasoning is complete, with what a provider wants back of it."""
        self.carried = self.carried or event.carried
        seal = event.seal if event.carried else None
        self.blocks.append(Reasoning("".join(self.reasoning[self.reasoning_ended :]), seal=seal))
        self.reasoning_ended = len(self.reasoning)


class Transcript:
    """Collects the events of a turn into complete texts and calls."""

    def __init__(self) -> None:
        self._choices: dict[int, _Choice] = {}

    def add(self, events: Sequence[Event]) -> None:
        for event in events:
            match event:
                case TextDelta():
                    self._of(event.index).text.append(event.text)
                case ReasoningDelta():
                    self._of(event.index).reasoning.append(event.text)
                case TextEnd():
                    self._of(event.index).end_text()
                case ReasoningEnd():
                    self._of(event.index).end_reasoning(event)
                case OpaqueBlock() if event.kind == CARRIED:
                    self._of(event.index).blocks.append(Opaque(event.kind, event.payload))
                    self._of(event.index).carried = True
                case ToolCallStart():
                    self._of(event.index).calls[event.call] = (event, [], False)
                    self._of(event.index).blocks.append(event)
                case ToolCallDelta():
                    self._of(event.index).calls[event.call][1].append(event.arguments)
                case ToolCallEnd():
                    start, arguments, _ = self._of(event.index).calls[event.call]
                    self._of(event.index).calls[event.call] = (start, arguments, event.valid)

    def _of(self, index: int) -> _Choice:
        return self._choices.setdefault(index, _Choice())

    def outputs(self) -> dict[int, TurnOutput]:
        """The output of each choice so far, by its index."""
        return {index: choice.whole() for index, choice in self._choices.items()}
