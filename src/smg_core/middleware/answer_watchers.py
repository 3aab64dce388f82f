"""A model's output, as the plugins of an exchange leave it: the events between the engine and the encoder of an API (edge).

Plugins that look at texts are shown those of each block piece by piece, and its end, where what was held back comes out. Plugins
in Python may look at the events themselves. So one plugin works on every API, streamed and whole, and what is kept of an answer
is what was left of it. Events whose text was changed lose what still tells the old one: logprobs, token ids, annotations. Above:
serving.answering makes one for each answer, `pipeline.answer.transformed_answer` asks it. Below: `chain`, `event_order`.
"""

import asyncio
from collections.abc import Awaitable, Generator, Sequence
from typing import Literal

import msgspec
from msgspec.structs import replace

from smg_core.events import (
    Annotation,
    Event,
    ReasoningDelta,
    ReasoningEnd,
    RefusalDelta,
    TextDelta,
    TextEnd,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from smg_core.middleware.active import AnswerWatcher
from smg_core.middleware.base import AnswerPiece
from smg_core.middleware.chain import PluginChain

__all__ = ["AnswerWatchers"]

_Kind = Literal["text", "reasoning", "arguments"]
_Delta = TextDelta | RefusalDelta | ReasoningDelta | ToolCallDelta
_Steps = Generator[Awaitable[str], str, list[Event]]
_DELTAS = {TextDelta: "text", RefusalDelta: "text", ReasoningDelta: "reasoning", ToolCallDelta: "arguments"}


class AnswerWatchers:
    """The plugins of one answer. `first_choice` is added to the choices of its events: the answers that make one response
    together, one at a time by `turn`, show plugins choices of their own."""

    def __init__(self, chain: PluginChain, first_choice: int = 0, turn: asyncio.Lock | None = None) -> None:
        self._turn = turn or asyncio.Lock()  # calls of one plugin in one exchange do not overlap
        self._stages = [_stage(chain, link, first_choice) for link in chain.watchers()]

    async def __call__(self, events: Sequence[Event]) -> Sequence[Event]:
        """The events that leave in the place of these. Raises SmgError: a refusal, or a plugin that failed and is "closed"."""
        async with self._turn:
            for stage in self._stages:
                steps = stage.of(events)
                try:
                    waiting = next(steps)
                    while True:
                        waiting = steps.send(await waiting)
                except StopIteration as stop:
                    events = stop.value
        return events


def _stage(chain: PluginChain, link: AnswerWatcher, first_choice: int) -> "_Texts | _Events":
    return _Events(chain, link) if link.events else _Texts(chain, link, first_choice)


class _Events:
    """A plugin that is shown events."""

    def __init__(self, chain: PluginChain, link: AnswerWatcher) -> None:
        self._chain, self._link = chain, link

    def of(self, events: Sequence[Event]) -> _Steps:
        left: list[Event] = []
        for event in events:
            waiting = self._chain.turn_of(self._link)
            if waiting is not None:
                yield waiting
            left += self._chain.event(self._link, event)
        return left


class _Block:
    """An open block: what its pieces are, and what has become of it."""

    __slots__ = ("arguments", "changed", "custom", "has_come", "kind", "make")

    def __init__(self, kind: _Kind, make: _Delta, *, custom: bool = False) -> None:
        self.kind, self.make, self.custom = kind, make, custom
        self.changed = self.has_come = False
        self.arguments: list[str] = []


class _Texts:
    """A plugin that is shown texts."""

    def __init__(self, chain: PluginChain, link: AnswerWatcher, first_choice: int) -> None:
        self._chain, self._link, self._first = chain, link, first_choice
        self._blocks: dict[int, _Block] = {}

    def of(self, events: Sequence[Event]) -> _Steps:
        left: list[Event] = []
        for event in events:
            if isinstance(event, TextDelta | RefusalDelta | ReasoningDelta | ToolCallDelta):
                yield from self._delta(event, left)
            elif isinstance(event, TextEnd | ReasoningEnd | ToolCallEnd):
                yield from self._end(event, left)
            elif isinstance(event, ToolCallStart):
                made = ToolCallDelta(event.index, event.call, "")
                self._blocks[event.index] = _Block("arguments", made, custom=event.custom)
                left.append(event)
            elif not isinstance(event, Annotation) or not self._is_changed(event.index):
                left.append(event)
        return left

    def _is_changed(self, index: int) -> bool:
        block = self._blocks.get(index)
        return block is not None and block.changed

    def _passed(self, index: int, block: _Block, text: str, *, last: bool) -> Generator[Awaitable[str], str, str]:
        piece = AnswerPiece(text, block.kind, self._first + index, last)
        left = self._chain.watched_piece(self._link, piece)
        return left if isinstance(left, str) else (yield left)

    def _delta(self, event: _Delta, left: list[Event]) -> Generator[Awaitable[str], str, None]:
        block = self._blocks.get(event.index)
        if block is None:
            kind: _Kind = _DELTAS[type(event)]  # type: ignore[assignment]
            block = self._blocks[event.index] = _Block(kind, _with_text(event, ""))
        before = event.arguments if isinstance(event, ToolCallDelta) else event.text
        text = yield from self._passed(event.index, block, before, last=False)
        block.changed = block.changed or text != before
        if block.kind == "arguments":
            block.arguments.append(text)
        if not block.changed:
            left.append(event)
        elif text:
            left.append(_with_text(event, text))
        block.has_come = block.has_come or bool(text) or not block.changed

    def _end(
        self, event: TextEnd | ReasoningEnd | ToolCallEnd, left: list[Event]
    ) -> Generator[Awaitable[str], str, None]:
        block = self._blocks.pop(event.index, None)
        if block is None:
            left.append(event)
            return
        text = yield from self._passed(event.index, block, "", last=True)
        if text:
            block.changed = block.has_come = True
            block.arguments.append(text)
            left.append(_with_text(block.make, text))
        if isinstance(event, ToolCallEnd):
            broken = block.changed and not block.custom and not _is_json("".join(block.arguments))
            left.append(replace(event, valid=False) if broken else event)
        elif block.has_come:  # nothing is left of the block otherwise
            left.append(event)


def _with_text(event: _Delta, text: str) -> _Delta:
    """The event with another text, and nothing that still tells the old one."""
    if isinstance(event, TextDelta):
        return TextDelta(event.index, text, echo=event.echo)
    return replace(event, arguments=text) if isinstance(event, ToolCallDelta) else replace(event, text=text)


def _is_json(text: str) -> bool:
    try:
        msgspec.json.decode(text, type=dict[str, msgspec.Raw])
    except msgspec.DecodeError:
        return False
    return True
