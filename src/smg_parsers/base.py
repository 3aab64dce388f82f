"""What a parser gives out, and what a grammar may ask of the parser around it.

Decides: the pieces, the errors, how calls are numbered, named and refused (`Sink`), and what a grammar is.
Above: every other module of this package but `free_text` and `partial_json`. Below: those.
Does not know: any model, any marker, any syntax.
"""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, Protocol, TypeAlias

from smg_parsers.free_text import parameters

UnknownTools: TypeAlias = Literal["forward", "drop", "error"]
MalformedCalls: TypeAlias = Literal["repair", "text", "error"]
Schema: TypeAlias = Mapping[str, object]

MORE: Final = 0
DONE: Final = 1
FAIL: Final = 2
SWITCH: Final = 3
RESUME: Final = 4
SPILL: Final = 5

SPACE: Final = " \t\r\n"
NAME_LIMIT: Final = 256
"""Longest tool or parameter name, and longest tag, that a header may hold back, in characters."""
LOOKAHEAD: Final = 64
"""Longest run of white space that may be held back to see what follows it, in characters."""


@dataclass(frozen=True, slots=True)
class Reasoning:
    """Text the model wrote for itself."""

    text: str


@dataclass(frozen=True, slots=True)
class Text:
    """Text for the reader."""

    text: str


@dataclass(frozen=True, slots=True)
class CallStart:
    """A tool call begins. `index` counts the calls of one output from 0."""

    index: int
    id: str
    name: str


@dataclass(frozen=True, slots=True)
class CallArguments:
    """The next part of a call's arguments; all parts of a call together are one JSON value."""

    index: int
    delta: str


@dataclass(frozen=True, slots=True)
class CallEnd:
    """The promise that the deltas of call `index` are complete, valid JSON. A call that was cut off has none.

    `repaired`: the model left out or misspelt a marker, and where one of the values ends was told by what follows it. The
    arguments are valid JSON all the same, but whoever runs calls may want to refuse this one.
    """

    index: int
    repaired: bool = False


@dataclass(frozen=True, slots=True)
class Citation:
    """Words of the answer come from sources. `start` and `end` are positions in it (all `Text` so far, joined), in characters;
    `sources` are names as the model writes them: a document's (`3`), or a call's and a result's (`0:2`)."""

    start: int
    end: int
    sources: tuple[str, ...]


Piece: TypeAlias = Reasoning | Text | Citation | CallStart | CallArguments | CallEnd


class ParserError(Exception):
    """Whatever this package raises on purpose."""


class UnknownModelFamily(ParserError, LookupError):
    """No row of the table fits this model or this family name; name one explicitly."""


class InvalidOption(ParserError, ValueError):
    """What a parser was told of a request cannot be: malformed `tools`."""


class UnknownTool(ParserError, ValueError):
    """The model called a tool that was not offered, and the policy is `error`.

    `name` is what it called; `pieces` are those of the same `feed` that came before the call.
    """

    def __init__(self, name: str, pieces: Sequence[Piece] = ()) -> None:
        super().__init__(f"the model called {name!r}, which is not among the tools of this request")
        self.name = name
        self.pieces = tuple(pieces)


class MalformedCall(ParserError, ValueError):
    """A call could be read only by a repair, and the policy is `error`.

    `name` is the tool it calls; `pieces` are those of the same `feed` up to where the repair would be.
    """

    def __init__(self, name: str, pieces: Sequence[Piece] = ()) -> None:
        super().__init__(f"the call of {name!r} lacks a marker or has a misspelt one")
        self.name = name
        self.pieces = tuple(pieces)


def merge(pieces: Sequence[Piece]) -> list[Piece]:
    """The same stream with adjacent texts, reasonings and deltas of one call joined: equal for every split."""
    joined: list[Piece] = []
    parts: list[str] = []
    for piece in pieces:
        last = joined[-1] if joined else None
        if last is not None and _continues(last, piece):
            parts.append(_content(piece))
            continue
        _settle(joined, parts)
        joined.append(piece)
        parts = [_content(piece)]
    _settle(joined, parts)
    return joined


def _continues(last: Piece, piece: Piece) -> bool:
    if isinstance(piece, CallArguments):
        return isinstance(last, CallArguments) and last.index == piece.index
    return type(last) is type(piece) and isinstance(piece, Text | Reasoning)


def _content(piece: Piece) -> str:
    if isinstance(piece, Text | Reasoning):
        return piece.text
    return piece.delta if isinstance(piece, CallArguments) else ""


def _settle(joined: list[Piece], parts: list[str]) -> None:
    if len(parts) < 2:
        return
    last = joined[-1]
    if isinstance(last, Text):
        joined[-1] = Text("".join(parts))
    elif isinstance(last, Reasoning):
        joined[-1] = Reasoning("".join(parts))
    elif isinstance(last, CallArguments):
        joined[-1] = CallArguments(last.index, "".join(parts))


def tool_schemas(tools: Sequence[Mapping[str, object]]) -> dict[str, Schema]:
    """Name to parameter schema, from OpenAI's form or the bare `{"name", "parameters"}` form.

    A `custom` tool, which takes free text, is a function with one string. Tools of other types are the server's own and are
    passed over. Raises InvalidOption, which names the place and the value, for what is no tool.
    """
    if isinstance(tools, str | bytes | Mapping) or not isinstance(tools, Sequence):
        raise InvalidOption(f"tools must be a list, not {_shown(tools)}")
    schemas: dict[str, Schema] = {}
    for number, tool in enumerate(tools):
        if not isinstance(tool, Mapping):
            raise InvalidOption(f"tools[{number}] must be an object, not {_shown(tool)}")
        if tool.get("type", "function") == "function":
            name, schema = _function(tool, f"tools[{number}]")
            schemas[name] = schema
        elif tool["type"] == "custom":
            schemas[_custom(tool, f"tools[{number}]")] = parameters()
    return schemas


def _function(tool: Mapping[str, object], place: str) -> tuple[str, Schema]:
    body: object = tool
    if "function" in tool:
        body, place = tool["function"], f"{place}.function"
    if not isinstance(body, Mapping):
        raise InvalidOption(f"{place} must be an object, not {_shown(body)}")
    name, parameters = body.get("name"), body.get("parameters")
    if not isinstance(name, str):
        raise InvalidOption(f"{place}.name must be a text, not {_shown(name)}")
    if parameters is not None and not isinstance(parameters, Mapping):
        raise InvalidOption(f"{place}.parameters must be a JSON schema, not {_shown(parameters)}")
    return name, parameters or {}


def _custom(tool: Mapping[str, object], place: str) -> str:
    body = tool.get("custom", tool)
    name = body.get("name") if isinstance(body, Mapping) else None
    if not isinstance(name, str):
        raise InvalidOption(f"{place}.custom.name must be a text, not {_shown(name)}")
    return name


def _shown(value: object) -> str:
    return reprlib.repr(value)


class Sink:
    """Where grammars put calls: numbers them, gives them ids, applies the policies for unknown tools and malformed calls.

    `touched` tells the parser that what was consumed so far has come out as part of a call; `open` that one is under way;
    `reasoning` whether the text around is the model's own.
    """

    __slots__ = (
        "_any_tool",
        "_cited",
        "_id",
        "_index",
        "_malformed",
        "_muted",
        "_name",
        "_policy",
        "_repaired",
        "_silent",
        "count",
        "ended",
        "open",
        "out",
        "reasoning",
        "schemas",
        "spoken",
        "touched",
    )

    def __init__(
        self,
        schemas: Mapping[str, Schema] | None,
        policy: UnknownTools,
        call_id: Callable[[str, int], str],
        malformed: MalformedCalls = "repair",
        *,
        any_tool: bool = False,
        silent: bool = False,
    ) -> None:
        self.out: list[Piece] = []
        self.schemas = schemas
        self.open = False
        self.ended = False  # the last call is complete
        self.touched = False
        self.reasoning = False
        self.count = 0
        self.spoken = 0  # characters of the answer so far, counted where the family has citations
        self._cited: tuple[int, tuple[str, ...]] | None = None  # where cited words began, and their sources
        self._policy = policy
        self._malformed = malformed
        self._any_tool = any_tool
        self._silent = silent
        self._name = ""
        self._repaired = False
        self._id = call_id
        self._index = 0
        self._muted = False

    def known(self, name: str) -> bool:
        """Whether the request offers this tool; true when it did not say what it offers."""
        return self.schemas is None or name in self.schemas

    def offered(self, name: str) -> bool:
        """Whether this is a tool's name beyond doubt, as it has to be where no marker says that a call begins."""
        return self._any_tool if self.schemas is None else name in self.schemas

    def schema(self, name: str) -> Schema:
        """The tool's parameter schema, empty when there is none."""
        return {} if self.schemas is None else self.schemas.get(name, {})

    def start(self, name: str, given: str = "") -> bool:
        """Begin a call; false when this is no call after all (there are no tools, or a mere mention inside reasoning)."""
        known = self.known(name)
        if not known and (self.reasoning or not self.schemas):
            return False
        self.count += 1
        self.open = self.touched = True
        self.ended = False
        self._cited = None
        self._name = name
        self._repaired = False
        self._muted = self._silent or (not known and self._policy == "drop")
        if not known and self._policy == "error":
            raise UnknownTool(name, self.out)
        if not self._muted:
            self.out.append(CallStart(self._index, given or self._id(name, self._index), name))
        return True

    def arguments(self, delta: str) -> None:
        """Pass on the next part of the arguments."""
        if delta:
            self.touched = True
            if not self._muted:
                self.out.append(CallArguments(self._index, delta))

    def cite_begin(self, sources: tuple[str, ...]) -> bool:
        """Cited words begin here; false when this is no answer."""
        if not self.reasoning:
            self._cited = (self.spoken, sources)
        return not self.reasoning

    def cite_end(self, sources: tuple[str, ...]) -> bool:
        """Cited words end here; false when none have begun."""
        cited, self._cited = self._cited, None
        if cited is None or self.reasoning:
            return False
        begin, named = cited
        if self.spoken > begin:
            self.out.append(Citation(begin, self.spoken, sources or named))
        return True

    def repair(self) -> bool:
        """The open call can go on only by a guess about a marker; false when the policy is not to make one."""
        if self._malformed == "error" and not self._muted:
            raise MalformedCall(self._name, self.out)
        self._repaired = True
        return self._malformed == "repair"

    def end(self) -> None:
        """The arguments are complete."""
        if not self._muted:
            self.out.append(CallEnd(self._index, self._repaired))
        self.abandon()
        self.touched = self.ended = True

    def abandon(self) -> None:
        """The call stops here without having ended."""
        if not self._muted:
            self._index += 1
        self.open = self._muted = False


class Grammar(Protocol):
    """A resumable reader of one region of calls, from just after its opening marker."""

    status: int
    """`MORE`, `DONE` (the region is over), `FAIL` (this is no call, or no longer one), `SWITCH` (the region was a
    header, and `Sink.reasoning` now says what the text behind it is), `RESUME` (the region was a mark that is dropped, and
    what is around it goes on) or `SPILL` (what was read since the last call is text, and the region goes on)."""

    def step(self, buf: str, pos: int, final: bool) -> int:
        """Make one transition at `pos`.

        Returns the position reached, or its complement (`~position`) when more input is needed to go on. What a step
        decides may depend on the text from the region's start to the position reached and on nothing else, or results
        would depend on how the text was cut. With `final`, no more input will come.
        """
        ...

    def finish(self, rest: str) -> None:
        """The output ended inside an open call; `rest` was held back. Pass on what belongs to the arguments."""
        ...


class CallSpec(Protocol):
    """How one family's calls are recognised; frozen, shared by every parser of the family.

    A spec may also have `closers`: markers that close its calls. One that comes late behind a finished call, or that the
    output's end cuts off, never reaches the reader. Behind one of its `ends` (all of them, where it has no such field) none
    is waited for.
    """

    @property
    def opens(self) -> tuple[str, ...]:
        """Markers that open a region of calls."""
        ...

    @property
    def at_start(self) -> bool:
        """Whether the markers count only where no text has come before."""
        ...

    @property
    def headers(self) -> bool:
        """Whether the markers also open what is no call, and so count even where there are no tools."""
        ...

    def begin(self, marker: str, sink: Sink) -> Grammar:
        """A reader for the region that `marker` has just opened."""
        ...


def match(buf: str, pos: int, options: tuple[str, ...], final: bool) -> int:
    """Which option stands at `pos`: its number, -1 when that cannot be told yet, -2 for none."""
    left = len(buf) - pos
    for number, option in enumerate(options):
        if buf.startswith(option, pos):
            return number
        if not final and left < len(option) and option.startswith(buf[pos:]):
            return -1
    return -2


def skip_space(buf: str, pos: int) -> int:
    """The first position from `pos` on that holds no white space."""
    size = len(buf)
    while pos < size and buf[pos] in SPACE:
        pos += 1
    return pos
