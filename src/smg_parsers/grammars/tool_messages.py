"""Messages whose headers say who they are for: the reader, the model itself, or a tool, and then a tagged call follows.

Decides: where a header ends, whether its message is reasoning or the answer, and which tool it calls.
Above: `table_2026`. Below: `base`, `tool_json`, `tool_xml`.
Does not know: which model writes such messages; that is `AddressedCalls`, `ChannelCalls` and `RoleCalls`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

from smg_parsers.grammars.tool_json import JsonCalls
from smg_parsers.grammars.tool_xml import XmlCalls, XmlReader
from smg_parsers.grammars.tool_xml_ends import MESSAGE_LIMIT
from smg_parsers.pieces.base import (
    DONE,
    FAIL,
    LOOKAHEAD,
    MORE,
    SPACE,
    SWITCH,
    Grammar,
    Sink,
    Within,
    match,
    skip_space,
)
from smg_parsers.pieces.checked import Checked

MESSAGE: Final = "<|message|>"
CHANNEL: Final = "<|channel|>"
CONSTRAIN: Final = "<|constrain|>"
START: Final = "<|start|>"
_ADDRESS: Final = "to="


class HeaderReader:
    """Reads one header up to `<|message|>`, then, where it calls a tool, the call behind it."""

    __slots__ = ("_first", "_header", "_inner", "_sink", "_size", "status")

    first: ClassVar[tuple[str, ...]]
    """What a header may begin with that the prompt has opened."""
    inside: ClassVar[tuple[str, ...]]
    """The markers that may stand in a header; the last one ends it."""

    def __init__(self, sink: Sink, *, opened: bool) -> None:
        self.status = MORE
        self._sink = sink
        self._first = opened
        self._header: list[str] = []
        self._size = 0
        self._inner: Grammar | None = None

    def step(self, buf: str, pos: int, final: bool) -> int:
        """See `Grammar.step`."""
        if self._inner is not None:
            return self._call(self._inner, buf, pos, final)
        if self._first:
            return self._begins(buf, pos, final)
        return self._read_header(buf, pos, final)

    @property
    def within(self) -> Within | None:
        """See `Grammar.within`."""
        return getattr(self._inner, "within", None)

    def finish(self, rest: str) -> None:
        """See `Grammar.finish`."""
        if self._inner is not None:
            self._inner.finish(rest)

    def _call(self, inner: Grammar, buf: str, pos: int, final: bool) -> int:
        reached = inner.step(buf, pos, final)
        self.status = inner.status
        return reached

    def _fail(self, pos: int) -> int:
        self.status = FAIL
        return pos

    def _switch(self, pos: int, *, reasoning: bool) -> int:
        self._sink.reasoning = reasoning
        self.status = SWITCH
        return pos

    def _begins(self, buf: str, pos: int, final: bool) -> int:
        """At the output's beginning: a header that the prompt has opened, or text without one."""
        at = pos
        while at < len(buf) and at - pos < LOOKAHEAD and buf[at] in SPACE:
            at += 1
        if at == len(buf) and not final:
            return ~pos
        found = match(buf, at, self.first, final)
        if found == -1:
            return ~pos
        if found == -2:
            return self._fail(pos)
        self._first = False
        return pos

    def _read_header(self, buf: str, pos: int, final: bool) -> int:
        limit = min(len(buf), pos + MESSAGE_LIMIT - self._size)
        at = pos
        while at < limit and buf[at] not in "<\r\n":
            at += 1
        if at > pos:
            return self._keep(buf, pos, at)
        if at == len(buf):
            return ~at
        if self._size >= MESSAGE_LIMIT:
            return self._fail(at)
        if buf[at] != "<":
            return self._line_break(buf, at)
        found = match(buf, at, self.inside, final)
        if found == -1:
            return ~at
        if found == -2:
            return self._fail(at)
        after = at + len(self.inside[found])
        if found == len(self.inside) - 1:
            return self._decide("".join(self._header), after)
        return self._keep(buf, at, after)

    def _line_break(self, buf: str, at: int) -> int:
        """White space with a line break belongs to a header only before a marker of it."""
        after = at
        limit = min(len(buf), at + LOOKAHEAD)
        while after < limit and buf[after] in SPACE:
            after += 1
        if after == len(buf):
            return ~at
        return self._keep(buf, at, after) if buf[after] == "<" else self._fail(at)

    def _keep(self, buf: str, pos: int, at: int) -> int:
        self._header.append(buf[pos:at])
        self._size += at - pos
        return at

    def _decide(self, header: str, pos: int) -> int:
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class AddressedCalls(Checked):
    """Muse's messages: `<|start|>assistant to=NAME<|message|>`, and in those to a tool the calls of `body`.

    `thinks` and `speaks` are the recipients whose messages are reasoning, and the answer; every other one is a tool. With
    `unnamed_thinks`, a message to nobody is reasoning. `ends` are the markers that end a message. A call counts only in a
    message to a tool: what a message to the reader or to the model itself quotes is text.
    """

    body: XmlCalls
    unnamed_thinks: bool = False
    opens: tuple[str, ...] = (START, MESSAGE)
    thinks: tuple[str, ...] = ("self", "developer")
    speaks: tuple[str, ...] = ("user", "commentary")
    ends: tuple[str, ...] = ("<|eom|>", "<|eot|>")
    at_start: bool = False

    @property
    def headers(self) -> bool:
        """See `CallSpec.headers`."""
        return True

    @property
    def closers(self) -> tuple[str, ...]:
        """See `CallSpec`."""
        return (*self.body.closers, *self.ends)

    def begin(self, marker: str, sink: Sink) -> Grammar:
        """See `CallSpec.begin`. An empty marker is the output's very beginning: the prompt has opened the header."""
        return AddressedReader(self, sink, marker)


class AddressedReader(HeaderReader):
    """Reads one such header, and the calls behind it if a tool is addressed."""

    __slots__ = ("_bare", "_before", "_seeks", "_spec")

    first = (_ADDRESS, MESSAGE)
    inside = (MESSAGE,)

    def __init__(self, spec: AddressedCalls, sink: Sink, marker: str) -> None:
        super().__init__(sink, opened=not marker)
        self._spec = spec
        # A message to a tool may follow reasoning without a header of its own: `to=NAME` was read as reasoning then.
        self._seeks = self._bare = marker == MESSAGE
        self._before = sink.count

    def step(self, buf: str, pos: int, final: bool) -> int:
        """See `Grammar.step`."""
        return self._seek(buf, pos, final) if self._seeks else super().step(buf, pos, final)

    def _call(self, inner: Grammar, buf: str, pos: int, final: bool) -> int:
        reached = super()._call(inner, buf, pos, final)
        if self.status == FAIL and self._sink.count == self._before:
            self._sink.reasoning = True
        return reached

    def _decide(self, header: str, pos: int) -> int:
        words = header.split()
        if words and words[0] != "assistant" and not words[0].startswith(_ADDRESS):
            return self._switch(pos, reasoning=True)  # another role's message, which the model makes up
        recipient = next((word.removeprefix(_ADDRESS) for word in words if word.startswith(_ADDRESS)), "")
        if not recipient:
            return self._switch(pos, reasoning=self._spec.unnamed_thinks)
        if recipient in self._spec.thinks or recipient in self._spec.speaks:
            return self._switch(pos, reasoning=recipient in self._spec.thinks)
        self._seeks = True
        return pos

    def _seek(self, buf: str, pos: int, final: bool) -> int:
        """Behind a header: the calls, or else text, which is for nobody to read and so counts as reasoning."""
        if self._bare and not self._sink.reasoning:
            return self._fail(pos)
        at = skip_space(buf, pos)
        if at == len(buf) and not final:
            return ~pos
        body = self._spec.body
        options = (*body.opens, body.call.begin)
        found = match(buf, at, options, final)
        if found == -1:
            return ~pos
        self._seeks = False
        if found == -2:
            return self._fail(pos) if self._bare else self._switch(pos, reasoning=True)
        if not self._bare:
            self._sink.reasoning = False
        self._inner = body.begin(options[found], self._sink)
        return at + len(options[found])


@dataclass(frozen=True, slots=True)
class ChannelCalls(Checked):
    """Beam's messages: a channel, or a recipient and `<|constrain|>xml`, behind which parameters stand without a call's tag."""

    body: XmlCalls
    opens: tuple[str, ...] = (START, CHANNEL)
    answer: str = "final"
    at_start: bool = False

    @property
    def headers(self) -> bool:
        """See `CallSpec.headers`."""
        return True

    @property
    def closers(self) -> tuple[str, ...]:
        """See `CallSpec`."""
        return (self.body.close,)

    def begin(self, marker: str, sink: Sink) -> Grammar:
        """See `CallSpec.begin`. An empty marker is the output's very beginning: the prompt has opened the header."""
        return ChannelCallReader(self, sink, marker)


class ChannelCallReader(HeaderReader):
    """Reads one such header, and the parameters behind it if it names a tool."""

    __slots__ = ("_parameters", "_spec")

    first = (_ADDRESS, CHANNEL, MESSAGE)
    inside = (CHANNEL, CONSTRAIN, MESSAGE)

    def __init__(self, spec: ChannelCalls, sink: Sink, marker: str) -> None:
        super().__init__(sink, opened=not marker)
        self._spec = spec
        self._parameters: XmlReader | None = None
        if marker == CHANNEL:
            self._header.append(marker)

    def step(self, buf: str, pos: int, final: bool) -> int:
        """See `Grammar.step`."""
        reader = self._parameters
        if reader is None:
            return super().step(buf, pos, final)
        reached = reader.step(buf, pos, final)
        if final and reader.whole and reached == ~len(buf) and not self._sink.cut:
            # The token that ends a call ends the output too, and is then no part of its text.
            reader.step(self._spec.body.close, 0, final)
        self.status = reader.status
        if self.status == MORE and not self._sink.open:
            self.status = DONE
            return reached if reached >= 0 else ~reached
        return reached

    def _decide(self, header: str, pos: int) -> int:
        before, _, behind = header.partition(CHANNEL)
        words = before.split()
        recipient = next((word.removeprefix(_ADDRESS) for word in words if word.startswith(_ADDRESS)), "")
        if not recipient:
            channel = behind.partition(CONSTRAIN)[0].strip()
            return self._switch(pos, reasoning=channel != self._spec.answer)
        self._sink.reasoning = False
        call = self._spec.body.call
        reader = XmlReader(self._spec.body, self._sink, in_tag=True)
        reader.step(f"{recipient}{call.ends[0]}", 0, final=False)
        if not self._sink.open:
            return self._fail(pos)
        self._parameters = reader
        self._inner = reader
        return pos


@dataclass(frozen=True, slots=True)
class RoleCalls(Checked):
    """Turns whose header goes on behind the assistant's role: `/think` for reasoning, ` -> tool/function_call` for calls."""

    json: JsonCalls
    opens: tuple[str, ...] = ("<|im_start|>assistant -> tool/function_call\n", "<|im_start|>assistant")
    thinks: str = "/think\n"
    speaks: str = "\n"
    calls: str = " -> tool/function_call\n"
    at_start: bool = False

    @property
    def headers(self) -> bool:
        """See `CallSpec.headers`."""
        return True

    @property
    def closers(self) -> tuple[str, ...]:
        """See `CallSpec`."""
        return self.json.closes

    def begin(self, marker: str, sink: Sink) -> Grammar:
        """See `CallSpec.begin`. An empty marker is the output's very beginning: the prompt has opened the header."""
        if not marker.endswith(self.calls):
            return RoleReader(self, sink)
        sink.reasoning = False
        return self.json.begin(self.calls, sink)


class RoleReader:
    """Reads what stands behind the role, and the calls if it announces some."""

    __slots__ = ("_inner", "_sink", "_spec", "status")

    def __init__(self, spec: RoleCalls, sink: Sink) -> None:
        self.status = MORE
        self._spec = spec
        self._sink = sink
        self._inner: Grammar | None = None

    def step(self, buf: str, pos: int, final: bool) -> int:
        """See `Grammar.step`."""
        if self._inner is not None:
            reached = self._inner.step(buf, pos, final)
            self.status = self._inner.status
            return reached
        options = (self._spec.thinks, self._spec.speaks, self._spec.calls)
        found = match(buf, pos, options, final)
        if found == -1 or (pos == len(buf) and not final):
            return ~pos
        if found == -2:
            self.status = FAIL
            return pos
        if found == len(options) - 1:
            self._sink.reasoning = False
            self._inner = self._spec.json.begin(self._spec.calls, self._sink)
        else:
            self._sink.reasoning = found == 0
            self.status = SWITCH
        return pos + len(options[found])

    @property
    def within(self) -> Within | None:
        """See `Grammar.within`."""
        return getattr(self._inner, "within", None)

    def finish(self, rest: str) -> None:
        """See `Grammar.finish`."""
        if self._inner is not None:
            self._inner.finish(rest)
