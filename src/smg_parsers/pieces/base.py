"""The pieces that a parser returns, and the interface between a parser and its grammars.

Decides: the pieces, the errors, how calls are numbered, named and refused (`Sink`), and what a grammar is.
Above: every other module of this package but `free_text` and `partial_json`. Below: those.
Does not know: any model, any marker, any syntax.
"""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, Protocol, TypeAlias, runtime_checkable

from smg_parsers.json_text.free_text import parameters

UnknownTools: TypeAlias = Literal["forward", "drop", "error"]
MalformedCalls: TypeAlias = Literal["repair", "text", "error"]
Schema: TypeAlias = Mapping[str, object]
Within: TypeAlias = Callable[[str], str | None]
"""Reads text that is all within the value that is open; returns its JSON, or None if it is not and nothing has been read."""

MORE: Final = 0
DONE: Final = 1
FAIL: Final = 2
SWITCH: Final = 3
RESUME: Final = 4
SPILL: Final = 5
UNDECIDED: Final = 6
REREAD: Final = 7
UNFENCED: Final = 8

SPACE: Final = " \t\r\n"
NAME_LIMIT: Final = 256
"""Longest tool or parameter name, and longest tag, that a header may hold back, in characters."""
BEHIND_LIMIT: Final = 256
"""How far behind a finished call its closing markers are still looked for, in characters."""
LOOKAHEAD: Final = 64
"""Longest run of white space that may be held back to see what follows it, in characters."""


# A piece is made for nearly every token: those three that go on by tokens set their slots themselves, in two thirds of the time.


@dataclass(frozen=True, slots=True, init=False)
class Reasoning:
    """Text the model wrote for itself."""

    text: str

    def __init__(self, text: str) -> None:
        _set_reasoning(self, text)


@dataclass(frozen=True, slots=True, init=False)
class Text:
    """Text for the reader."""

    text: str

    def __init__(self, text: str) -> None:
        _set_text(self, text)


@dataclass(frozen=True, slots=True)
class CallStart:
    """A tool call begins. `index` counts the calls of one output from 0."""

    index: int
    id: str
    name: str


@dataclass(frozen=True, slots=True, init=False)
class CallArguments:
    """The next part of a call's arguments; all parts of a call together are one JSON value."""

    index: int
    delta: str

    def __init__(self, index: int, delta: str) -> None:
        _set_index(self, index)
        _set_delta(self, delta)


_set_reasoning = vars(Reasoning)["text"].__set__
_set_text = vars(Text)["text"].__set__
_set_index, _set_delta = vars(CallArguments)["index"].__set__, vars(CallArguments)["delta"].__set__


@dataclass(frozen=True, slots=True)
class CallEnd:
    """Says that the deltas of call `index` are complete, valid JSON. A call that was cut off has no `CallEnd`.

    `repaired`: the model left out or misspelt a marker, or its arguments were only nearly JSON, and the parser inferred what it
    meant. The arguments are valid JSON, but a caller that runs tools may want to refuse this call.
    """

    index: int
    repaired: bool = False


@dataclass(frozen=True, slots=True)
class Citation:
    """Says that a part of the answer comes from `sources`. `start` and `end` are its positions in all `Text` so far, joined,
    in characters. Sources are named as the model names them: a document (`3`), or a call and one of its results (`0:2`)."""

    start: int
    end: int
    sources: tuple[str, ...]


Piece: TypeAlias = Reasoning | Text | Citation | CallStart | CallArguments | CallEnd


class ParserError(Exception):
    """The base of the errors that this package raises on purpose."""


class UnknownModelFamily(ParserError, LookupError):
    """No family of the table fits this model id or this family name. Name a family explicitly."""


class InvalidOption(ParserError, ValueError):
    """The `tools` given to a parser are malformed."""


class InvalidFamily(ParserError, ValueError):
    """A family, or a part of one, has a field of the wrong kind, or the name of another family."""


class UnknownTool(ParserError, ValueError):
    """The model called a tool that was not offered, and the policy is `error`.

    `name` is the tool it called; `pieces` are the pieces of the same `feed` before the call.
    """

    def __init__(self, name: str, pieces: Sequence[Piece] = ()) -> None:
        super().__init__(f"the model called {name!r}, which is not among the tools of this request")
        self.name = name
        self.pieces = tuple(pieces)


class MalformedCall(ParserError, ValueError):
    """A call can be read only with a repair, and the policy is `error`.

    `name` is the tool it calls; `pieces` are the pieces of the same `feed` before the repair.
    """

    def __init__(self, name: str, pieces: Sequence[Piece] = ()) -> None:
        super().__init__(f"the call of {name!r} can be read only with a repair: its markers or arguments are malformed")
        self.name = name
        self.pieces = tuple(pieces)


def merge(pieces: Sequence[Piece]) -> list[Piece]:
    """The pieces with adjacent texts, reasonings and deltas of one call joined: the same however the output was cut."""
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
    """Tool names to parameter schemas. Tools are in OpenAI's form, or in the bare form `{"name", "parameters"}`.

    A `custom` tool, which takes free text, gets the schema of one string. Tools of other types, which the server runs
    itself, are skipped. Raises InvalidOption, which names the place and the value, for anything else.
    """
    if type(tools) in (list, tuple) and not tools:
        return {}
    if isinstance(tools, str | bytes | Mapping) or not isinstance(tools, Sequence):
        raise InvalidOption(f"tools must be a list, not {_rendered(tools)}")
    schemas: dict[str, Schema] = {}
    for number, tool in enumerate(tools):
        if not isinstance(tool, Mapping):
            raise InvalidOption(f"tools[{number}] must be an object, not {_rendered(tool)}")
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
        raise InvalidOption(f"{place} must be an object, not {_rendered(body)}")
    name, parameters = body.get("name"), body.get("parameters")
    if not isinstance(name, str):
        raise InvalidOption(f"{place}.name must be a text, not {_rendered(name)}")
    if parameters is not None and not isinstance(parameters, Mapping):
        raise InvalidOption(f"{place}.parameters must be a JSON schema, not {_rendered(parameters)}")
    return name, parameters or {}


def _custom(tool: Mapping[str, object], place: str) -> str:
    body = tool.get("custom", tool)
    name = body.get("name") if isinstance(body, Mapping) else None
    if not isinstance(name, str):
        raise InvalidOption(f"{place}.custom.name must be a text, not {_rendered(name)}")
    return name


def _rendered(value: object) -> str:
    return reprlib.repr(value)


class Sink:
    """Receives calls from grammars: numbers them, gives them ids, applies the policies for unknown tools and malformed calls.

    `touched`: the text consumed so far has been passed on as a part of a call. `open`: a call has begun and not ended.
    `reasoning`: the text around is reasoning.
    """

    __slots__ = (
        "_any_tool",
        "_behind",
        "_cited",
        "_closers",
        "_id",
        "_loose",
        "_malformed",
        "_name",
        "_openers",
        "_policy",
        "_repaired",
        "_seen",
        "_shut",
        "_silent",
        "_strict",
        "_surplus",
        "count",
        "cut",
        "doubtful",
        "ended",
        "index",
        "late",
        "line",
        "muted",
        "open",
        "out",
        "reasoning",
        "reread",
        "schemas",
        "spoken",
        "torn",
        "touched",
        "undecided",
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
        undecided: int = 0,
        strict: bool = False,
        surplus: tuple[str, ...] = (),
        openers: tuple[str, ...] = (),
        closers: tuple[str, ...] = (),
    ) -> None:
        self.out: list[Piece] = []
        self.schemas = schemas
        self.open = False
        self.ended = False  # the last call is complete
        self.cut = False  # the output is over before the model had come to its end
        self.doubtful = False  # a call that begins now may be a part of another's value, so it is told as repaired
        self.touched = False
        self.line = True  # the region that was opened last began at the beginning of a line
        self.reasoning = False
        self.count = 0
        self.reread = 0  # characters, the last that were read, that are to be read again
        self.undecided = undecided  # characters that may yet be held back because a value may have ended before them
        self.spoken = 0  # characters of the answer so far, counted where the family has citations
        self.late: CallEnd | None = None  # the end of a call that is told when it is clear what stands behind it
        self._behind: list[Text | Reasoning] = []  # what stands there so far,
        self._seen = ""  # and its text
        self._surplus = (
            surplus  # tags that never stand behind a call, unless this call and the one before are of one value
        )
        self._openers, self._closers = openers, closers  # the markers of calls
        self._shut = False  # what follows is of a call's value, perhaps: no call begins any more
        self.torn = False  # so it is, if a call begins before a closing marker comes
        self._loose = ""  # the end of the text behind a quote that was not escaped
        self._cited: tuple[int, tuple[str, ...]] | None = None  # where cited words began, and their sources
        self._policy = policy
        self._malformed = malformed
        self._any_tool = any_tool
        self._silent = silent
        self._strict = strict
        self._name = ""
        self._repaired = False
        self._id = call_id
        self.index = 0  # of the call that is open, or comes next
        self.muted = False  # the call that is open is not passed on

    def known(self, name: str) -> bool:
        """Whether the request offers this tool; true if the tools of the request are not known."""
        return self.schemas is None or name in self.schemas

    def offered(self, name: str) -> bool:
        """Whether this is certainly a tool's name. Grammars ask this where no marker says that a call begins."""
        return self._any_tool if self.schemas is None else name in self.schemas

    def trusted(self, name: str) -> bool:
        """Whether a call without its wrapper may be one of this tool: it is offered, or that is not known and need not be."""
        return not self._strict if self.schemas is None else name in self.schemas

    def schema(self, name: str) -> Schema:
        """The tool's parameter schema, empty when there is none."""
        return {} if self.schemas is None else self.schemas.get(name, {})

    def start(self, name: str, given: str = "", *, mended: bool = False) -> bool:
        """Begin a call. False if this is no call: it has no name, there are no tools, reasoning only mentions an unknown name,
        or the call had to be `mended` before its name came, and the policy forbids it (MalformedCall if that is `error`)."""
        known = self.known(name)
        if not name.strip() or (not known and (self.reasoning or not self.schemas)):
            return False
        if self._shut or self.torn:
            self._shut = True
            return False
        mended = mended or self.doubtful
        if mended and self._malformed == "text":
            return False
        self.tell()
        self.count += 1
        self.open = self.touched = True
        self.ended = False
        self._cited = None
        self._loose = ""
        self._name = name
        self._repaired = False
        self.muted = self._silent or (not known and self._policy == "drop")
        if not known and self._policy == "error":
            raise UnknownTool(name, self.out)
        if mended:
            self.repair()
        if not self.muted:
            self.out.append(CallStart(self.index, given or self._id(name, self.index), name))
        return True

    def arguments(self, delta: str) -> None:
        """Pass on the next part of the arguments."""
        if delta:
            self.touched = True
            if not self.muted:
                self.out.append(CallArguments(self.index, delta))

    def cite_begin(self, sources: tuple[str, ...]) -> bool:
        """A cited part of the answer begins here; false inside reasoning."""
        if not self.reasoning:
            self._cited = (self.spoken, sources)
        return not self.reasoning

    def cite_end(self, sources: tuple[str, ...]) -> bool:
        """A cited part ends here; false if none has begun."""
        cited, self._cited = self._cited, None
        if cited is None or self.reasoning:
            return False
        begin, named = cited
        if self.spoken > begin:
            self.out.append(Citation(begin, self.spoken, sources or named))
        return True

    def repair(self) -> bool:
        """Ask whether the open call may be repaired, and mark it as repaired. False if the policy forbids it; raises
        MalformedCall if the policy is `error`."""
        if self._malformed == "error" and not self.muted:
            raise MalformedCall(self._name, self.out)
        self._repaired = True
        return self._malformed == "repair"

    def end(self) -> None:
        """The arguments are complete."""
        if not self.muted:
            end = CallEnd(self.index, self._repaired)
            if self._surplus and self.count > 1:
                self.late = end
            else:
                self.out.append(end)
        self._over()

    def keep(self, text: str) -> None:
        """Pass on a part of a call as text, unchanged: it is never reasoning."""
        if text:
            self.out.append(Text(text))

    def say(self, piece: Text | Reasoning) -> None:
        """Pass on text. Behind the end of a call that is told later it waits with that."""
        if self.late is None:
            self.out.append(piece)
            return
        self._behind.append(piece)
        self._seen += piece.text
        if any(self._seen.find(tag, 0, BEHIND_LIMIT) >= 0 for tag in self._surplus):
            self.tell(surplus=True)
        elif len(self._seen) >= BEHIND_LIMIT:
            self.tell()

    def tell(self, *, surplus: bool = False) -> None:
        """Tell the end of a call that was held back, and what stands behind it. With a `surplus` tag there, one value may have
        quoted the end of the call before, and this one: it is told as repaired."""
        end, self.late = self.late, None
        if end is None:
            return
        behind, self._behind, self._seen = self._behind, [], ""
        if surplus and self._malformed == "error":
            raise MalformedCall(self._name, self.out)
        if not surplus:
            self.out.append(end)
        elif self._malformed == "repair":
            self.out.append(CallEnd(end.index, True))
        self.out += behind

    @property
    def waiting(self) -> int:
        """How many characters of text wait behind the end of a call."""
        return len(self._seen)

    def leave(self) -> None:
        """The arguments are over, and are none: the call has no end, and what closes it is not text."""
        self._over()

    def unescaped(self, text: str) -> None:
        """Take note of text that the open call's value has behind a quote that was not escaped. The value has ended too early,
        perhaps, and what follows is the rest of it: certainly so if a call begins in this text."""
        self.doubtful = True
        self._loose = self._loose[-NAME_LIMIT:] + text  # a marker may have begun in what came before
        self._shut = self._shut or any(marker in self._loose for marker in self._openers)

    def behind_torn(self, text: str) -> None:
        """Take note of text behind a call that is `torn`: with its closing marker it is over."""
        self._loose = self._loose[-NAME_LIMIT:] + text
        self.torn = not any(marker in self._loose for marker in self._closers)

    def abandon(self, *, torn: bool = False) -> None:
        """The call breaks off here. What follows may be a part of its arguments, and so may a call in it. `torn`: it breaks off
        behind a string, which a quote that was not escaped has ended, perhaps, or certainly if there was another one."""
        self.doubtful = True
        self._shut = self._shut or (torn and bool(self._loose))
        self.torn = torn
        self._stop()

    def _over(self) -> None:
        self._stop()
        self.touched = self.ended = True

    def _stop(self) -> None:
        if not self.muted:
            self.index += 1
        self.open = self.muted = False


class Grammar(Protocol):
    """Reads one region of calls, from just after its opening marker. It can stop anywhere and go on with more text."""

    status: int
    """`MORE` (the region goes on), `DONE` (it is over), `FAIL` (this is no call, or no longer one), `SWITCH` (it was a
    header, and `Sink.reasoning` now says whether the text behind it is reasoning), `RESUME` (it was a mark, which is
    dropped; the text around it goes on), `SPILL` (what was read since the last call is text; the region goes on), `UNDECIDED`
    (the region goes on, and from this step on what is read may have to be read again), `REREAD` (so it is) or `UNFENCED`
    (of a `FencedReader`: the grammar inside goes on alone).

    A grammar may also have `within`: in the middle of a value that is passed on as it arrives, what reads text of the value's
    own, as a step would; None elsewhere. It is asked for between two feeds, if nothing is held back."""

    def step(self, buf: str, pos: int, final: bool) -> int:
        """Make one transition at `pos`.

        Returns the position reached, or its complement (`~position`) if more input is needed. A step may decide only by
        the text from the region's start to the position reached; otherwise results would depend on how the text was cut.
        With `final`, no more input will come.
        """
        ...

    def finish(self, rest: str) -> None:
        """Called when the output ends inside an open call; `rest` was held back. Passes on what belongs to the arguments."""
        ...


@runtime_checkable
class CallSpec(Protocol):
    """Says how one family's calls are recognised. Frozen, and shared by all parsers of the family.

    A spec may also have `closers`: markers that close its calls. A closer that comes late behind a finished call, or that
    is cut off by the end of the output, is not passed on as text. It may also have `ends`, the closers after which no
    further closer is expected; without the field, these are all closers. Those of its `opens` that are `unwrapped`
    are tags that prose may hold: they count outside of code only, and where calls have a wrapper too, at a line's beginning.
    """

    @property
    def opens(self) -> tuple[str, ...]:
        """Markers that open a region of calls."""
        ...

    @property
    def at_start(self) -> bool:
        """Whether the markers count only before any text."""
        ...

    @property
    def headers(self) -> bool:
        """Whether the markers also open regions that are no calls, and so count even if there are no tools."""
        ...

    def begin(self, marker: str, sink: Sink) -> Grammar:
        """A reader for the region that `marker` has just opened."""
        ...


def match(buf: str, pos: int, options: tuple[str, ...], final: bool) -> int:
    """The number of the option that stands at `pos`, -1 if more text is needed to decide, -2 for none."""
    left = len(buf) - pos
    for number, option in enumerate(options):
        if buf.startswith(option, pos):
            return number
        if not final and left < len(option) and option.startswith(buf[pos:]):
            return -1
    return -2


def skip_space(buf: str, pos: int) -> int:
    """The first position from `pos` on without white space."""
    size = len(buf)
    while pos < size and buf[pos] in SPACE:
        pos += 1
    return pos
