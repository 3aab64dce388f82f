"""Calls in blocks of markers with a header and bare JSON arguments, and messages with headers.

Decides: what a header names (a tool, an id, a channel) and where the JSON behind it ends.
Above: `table`. Below: `base`, `lenient_json`, `tool_json`, `tool_xml_tags`.
Does not know: which model writes which markers; that is `BlockCalls`, `HarmonyCalls` and `TypedBlocks`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from smg_parsers.grammars.tool_json import JsonCalls
from smg_parsers.grammars.tool_xml_tags import Tag, read_tag
from smg_parsers.pieces.base import (
    DONE,
    FAIL,
    LOOKAHEAD,
    MORE,
    NAME_LIMIT,
    RESUME,
    SPACE,
    SWITCH,
    Grammar,
    Sink,
    Within,
    match,
    skip_space,
)
from smg_parsers.pieces.checked import Checked
from smg_parsers.pieces.code_fences import BACKTICKS
from smg_parsers.values.call_arguments import ArgumentsReader

_ID_BEGINS: Final = re.compile(r"\A(?:functions?|call|tool|toolu|fc|\d+)[._:-]")
_ID_ENDS: Final = re.compile(r"(?:[._:-](?:call[._-]?)?|(?<=\D))\d{1,9}$")
_ID_PARTS: Final = 3
"""How many parts that are no name are looked for at each end of an id that a client has changed."""
_FOREIGN_ID: Final = re.compile(r"(?:call|toolu|chatcmpl-tool|fc)[_-]")
"""Ids as other APIs make them, which clients put in the place of Kimi's own."""
HEADER_LIMIT: Final = 2 * NAME_LIMIT
"""Longest message header, in characters."""


class _Reader:
    """The base of this module's readers: passes on JSON arguments, which `closes` may follow."""

    __slots__ = ("_arguments_closes", "_json_reader", "_sink", "status")

    def __init__(self, sink: Sink, closes: tuple[str, ...] = ()) -> None:
        self.status = MORE
        self._sink = sink
        self._arguments_closes = closes
        self._json_reader: ArgumentsReader | None = None

    @property
    def within(self) -> Within | None:
        """See `Grammar.within`."""
        return self._json_reader.within if self._json_reader is not None else None

    def finish(self, rest: str) -> None:
        """See `Grammar.finish`."""
        if self._json_reader is not None:
            self._json_reader.finish(self._sink, rest)

    def _fail(self, pos: int) -> int:
        if self._sink.open:
            self._sink.abandon(torn=self._json_reader is not None and self._json_reader.json.torn)
        self.status = FAIL
        return pos

    def _json(self, buf: str, pos: int, final: bool) -> int:
        """Pass on arguments; when they are complete the call is over."""
        reader = self._json_reader
        if reader is None:
            reader = self._json_reader = ArgumentsReader(self._arguments_closes)
        end = reader.read(self._sink, buf, pos, final)
        if reader.json.bad:
            return self._fail(end)
        if not reader.json.done:
            return ~end
        self._json_reader = None
        reader.close(self._sink)
        return end

    def _nothing(self, pos: int) -> int:
        """End a call that has no arguments."""
        self._sink.arguments("{}")
        self._sink.end()
        return pos


@dataclass(frozen=True, slots=True)
class BlockCalls(Checked):
    """Calls of the form `header arguments close`, perhaps several in a section.

    `header` is a call's opening tag; `identity`: the header holds an id of the form `functions.name:index`. `sections` and
    `section_ends` wrap several calls. `line`: a header may hold only a type, and the name is a line of its own before a
    fenced block. `json`: the opening marker may be followed by JSON calls instead. `fillers` are markers that may stand
    before a header and before arguments; markers `behind` may follow a block.
    """

    opens: tuple[str, ...]
    header: Tag
    close: str = ""
    section_ends: tuple[str, ...] = ()
    identity: bool = False
    line: bool = False
    json: JsonCalls | None = None
    at_start: bool = False
    fillers: tuple[str, ...] = ()
    behind: tuple[str, ...] = ()

    @property
    def headers(self) -> bool:
        """See `CallSpec.headers`."""
        return False

    @property
    def closers(self) -> tuple[str, ...]:
        """See `CallSpec`."""
        return (*filter(None, (self.close,)), *self.section_ends, *self.behind)

    @property
    def ends(self) -> tuple[str, ...]:
        """See `CallSpec`."""
        return self.section_ends or self.closers

    def begin(self, marker: str, sink: Sink) -> Grammar:
        """See `CallSpec.begin`."""
        return BlockReader(self, sink, marker == self.header.begin)


(_OPEN, _BETWEEN, _AFTER_HEADER, _ID, _ARGUMENTS, _HEADER, _LINE, _JSON, _CLOSE, _AFTER, _REGION) = range(11)


class BlockReader(_Reader):
    """Reads one region of such calls."""

    __slots__ = ("_before", "_given", "_inner", "_name", "_spec", "_state")

    def __init__(self, spec: BlockCalls, sink: Sink, in_header: bool) -> None:
        super().__init__(sink, (*spec.closers, *(("```",) if spec.line else ())))
        self._spec = spec
        self._before = sink.count
        self._state = _BETWEEN
        if in_header:
            self._state = _OPEN if spec.json is not None else _HEADER
        self._name = ""
        self._given = ""
        self._inner: Grammar | None = None

    def step(self, buf: str, pos: int, final: bool) -> int:
        """See `Grammar.step`."""
        if self._state <= _ARGUMENTS:
            at = skip_space(buf, pos)
            if at == len(buf):
                return ~at
            if at > pos:
                return at
        return _BLOCK_STATES[self._state](self, buf, pos, final)

    def finish(self, rest: str) -> None:
        """See `Grammar.finish`."""
        if self._inner is not None:
            self._inner.finish(rest)
        else:
            super().finish(rest)

    def _open(self, buf: str, pos: int, final: bool) -> int:
        # Some models write the marker twice.
        again = match(buf, pos, (self._spec.header.begin,), final)
        if again != -2:
            return ~pos if again == -1 else pos + len(self._spec.header.begin)
        if buf[pos] in "{[" and self._spec.json is not None:
            self._inner = self._spec.json.begin(" ", self._sink)
            self._state = _REGION
        else:
            self._state = _HEADER
        return pos

    def _region(self, buf: str, pos: int, final: bool) -> int:
        inner = self._inner
        if inner is None:
            return self._fail(pos)
        reached = inner.step(buf, pos, final)
        self.status = inner.status
        return reached

    @property
    def within(self) -> Within | None:
        """See `Grammar.within`."""
        return super().within if self._inner is None else getattr(self._inner, "within", None)

    def _between(self, buf: str, pos: int, final: bool) -> int:
        ends = self._spec.section_ends
        fillers = self._spec.fillers
        found = match(buf, pos, (*ends, self._spec.header.begin, *fillers), final)
        if found == -1:
            return ~pos
        if found == -2:
            return self._fail(pos)
        if found > len(ends):
            return pos + len(fillers[found - len(ends) - 1])
        if found < len(ends):
            # An empty section gives no piece.
            self.status = RESUME if self._sink.count == self._before else DONE
            return pos + len(ends[found])
        self._state = _HEADER
        return pos + len(self._spec.header.begin)

    def _header(self, buf: str, pos: int, final: bool) -> int:
        spec = self._spec
        reached, name, _ = read_tag(spec.header, buf, pos, final)
        if not name:
            return reached if reached < 0 else self._fail(reached)
        self._name, self._given = _identity(name) if spec.identity else (name, "")
        if spec.identity and not self._sink.known(self._name):
            self._name = _offered(name, self._sink) or self._name
            if _FOREIGN_ID.match(name) and not self._sink.known(self._name):
                # The name stands in the arguments.
                self._inner = JsonCalls(opens=(spec.header.begin,), closes=spec.closers).begin(" ", self._sink)
                self._state = _REGION
                return reached
        if spec.line:
            self._state = _AFTER_HEADER
            return reached
        if buf.endswith("[CALL_ID]", pos, reached):
            self._state = _ID
            return reached
        return self._begin(reached)

    def _begin(self, pos: int) -> int:
        if not self._sink.start(self._name, self._given):
            return self._fail(pos)
        self._json_reader = None
        self._state = _ARGUMENTS
        return pos

    def _read_id(self, buf: str, pos: int, final: bool) -> int:
        reached, name, _ = read_tag(Tag("", ends=("[ARGS]",), stops=("{",)), buf, pos, final)
        if not name:
            return reached if reached < 0 else self._fail(reached)
        self._given = name
        return self._begin(reached)

    def _after_header(self, buf: str, pos: int, final: bool) -> int:
        """If arguments follow, the header was the name; else it was a type, and the name is on this line."""
        if buf[pos] in "{[":
            return self._begin(pos)
        self._state = _LINE
        return pos

    def _line(self, buf: str, pos: int, final: bool) -> int:
        reached, name, _ = read_tag(Tag("", ends=("\n",), stops=("{",)), buf, pos, final)
        if not name:
            return reached if reached < 0 else self._fail(reached)
        if name.startswith(BACKTICKS):  # the fence of the arguments: the name is missing
            return self._fail(reached)
        self._name = name
        return self._begin(reached)

    def _arguments(self, buf: str, pos: int, final: bool) -> int:
        """Before the arguments, which may be missing or inside a fence."""
        options = (*filter(None, (self._spec.close,)), "```json", "```", *self._spec.fillers)
        found = match(buf, pos, options, final)
        if found == -1:
            return ~pos
        if found == 0 and self._spec.close:
            self._state = _CLOSE
            return self._nothing(pos)
        if found >= 0:
            return pos + len(options[found])
        self._state = _JSON
        return pos

    def _json_value(self, buf: str, pos: int, final: bool) -> int:
        end = self._json(buf, pos, final)
        if end >= 0 and self.status == MORE:
            self._state = _CLOSE
        return end

    def _close(self, buf: str, pos: int, final: bool) -> int:
        """After the arguments: the end of a fence and of the block, both optional."""
        if not self._spec.close:
            self.status = DONE
            return pos
        at = pos
        limit = min(len(buf), pos + LOOKAHEAD)
        while at < limit and (buf[at] in SPACE or buf[at] == "`"):
            at += 1
        if at == len(buf) and not final:
            return ~pos
        found = match(buf, at, (self._spec.close, *self._spec.section_ends), final)
        if found == -1:
            return ~pos
        if found == -2:
            self.status = DONE
            return pos
        if found > 0:
            self.status = DONE
            return at + len(self._spec.section_ends[found - 1])
        self._state = _AFTER
        return at + len(self._spec.close)

    def _after(self, buf: str, pos: int, final: bool) -> int:
        """After a block: the next block, the section's end, or ordinary text."""
        at = pos
        limit = min(len(buf), pos + LOOKAHEAD)
        while at < limit and buf[at] in SPACE:
            at += 1
        if at == len(buf) and not final:
            return ~pos
        fillers = (*self._spec.fillers, *self._spec.behind)
        found = match(buf, at, (*fillers, self._spec.header.begin, *self._spec.section_ends), final)
        if found == -1:
            return ~pos
        if found == -2:
            self.status = DONE
            return pos
        if found < len(fillers):
            return at + len(fillers[found])
        self._state = _BETWEEN
        return at


_BLOCK_STATES: Final[tuple[Callable[[BlockReader, str, int, bool], int], ...]] = (
    BlockReader._open,
    BlockReader._between,
    BlockReader._after_header,
    BlockReader._read_id,
    BlockReader._arguments,
    BlockReader._header,
    BlockReader._line,
    BlockReader._json_value,
    BlockReader._close,
    BlockReader._after,
    BlockReader._region,
)


def _identity(written: str) -> tuple[str, str]:
    """Name and id of `functions.name:index`; no id when there is no index."""
    name, colon, index = written.rpartition(":")
    if not colon or not index.isdigit():
        name, written = written, ""
    return name.removeprefix("functions."), written


def _offered(written: str, sink: Sink) -> str:
    """The offered tool that an id names which a client has changed (`functions_get_weather_1`); empty if there is none."""
    for begin in _shorter(written, _ID_BEGINS):
        for name in _shorter(begin, _ID_ENDS):
            if name and sink.offered(name):
                return name
    return ""


def _shorter(written: str, part: re.Pattern[str]) -> list[str]:
    """The text, and what is left of it without one such part, without two, and so on."""
    texts = [written]
    while len(texts) <= _ID_PARTS and (found := part.search(texts[-1])):
        texts.append(texts[-1][: found.start()] + texts[-1][found.end() :])
    return texts


HARMONY_MESSAGE: Final = "<|message|>"
_CHANNEL: Final = "<|channel|>"
_CONSTRAIN: Final = "<|constrain|>"
_MESSAGE_ENDS: Final = ("<|call|>", "<|end|>", "<|return|>")
_TOOLS_OF_THE_MODEL: Final = ("python", "browser", "container")


@dataclass(frozen=True, slots=True)
class HarmonyCalls(Checked):
    """OpenAI's messages: a header with role, channel and recipient, then `<|message|>` and the content."""

    opens: tuple[str, ...] = ("<|start|>", "<|channel|>")
    at_start: bool = False

    @property
    def headers(self) -> bool:
        """See `CallSpec.headers`."""
        return True

    @property
    def closers(self) -> tuple[str, ...]:
        """See `CallSpec`."""
        return ("<|call|>",)

    def begin(self, marker: str, sink: Sink) -> Grammar:
        """See `CallSpec.begin`. An empty marker is the output's very beginning: the prompt has opened the header."""
        return HarmonyReader(sink, marker)


class HarmonyReader(_Reader):
    """Reads one header, and the arguments behind it if it addresses a tool."""

    __slots__ = ("_header", "_opening", "_size", "_state")

    def __init__(self, sink: Sink, marker: str) -> None:
        super().__init__(sink, _MESSAGE_ENDS)
        self._state = 0
        self._opening = not marker
        self._size = 0
        self._header: list[str] = [marker if marker == _CHANNEL else ""]

    def step(self, buf: str, pos: int, final: bool) -> int:
        """See `Grammar.step`."""
        if self._state == 0:
            return self._read_header(buf, pos, final)
        if self._state == 1:
            return self._arguments(buf, pos, final)
        end = self._json(buf, pos, final)
        if end >= 0 and self.status == MORE:
            self.status = DONE
        return end

    def _read_header(self, buf: str, pos: int, final: bool) -> int:
        if self._opening:
            found = match(buf, pos, (" to=", _CHANNEL, _CONSTRAIN, HARMONY_MESSAGE), final)
            if found == -1:
                return ~pos
            if found == -2:
                return self._fail(pos)
            self._opening = False
        limit = min(len(buf), pos + HEADER_LIMIT - self._size)
        at = pos
        while at < limit and buf[at] not in "<\r\n":
            at += 1
        if at > pos:
            return self._keep(buf, pos, at)
        if at == len(buf):
            return ~at
        if self._size >= HEADER_LIMIT:
            return self._fail(at)
        if buf[at] in SPACE:
            after = _line_break(buf, at, adjoining=not self._size or self._header[-1].endswith(">"))
            return after if after < 0 else self._keep(buf, at, after) if after > at else self._fail(at)
        found = match(buf, at, (_CHANNEL, _CONSTRAIN, HARMONY_MESSAGE), final)
        if found == -1:
            return ~at
        if found == -2:
            return self._fail(at)
        if found == 2:
            return self._decide(at + len(HARMONY_MESSAGE))
        return self._keep(buf, at, at + len((_CHANNEL, _CONSTRAIN)[found]))

    def _keep(self, buf: str, pos: int, at: int) -> int:
        self._header.append(buf[pos:at])
        self._size += at - pos
        return at

    def _decide(self, pos: int) -> int:
        header = "".join(self._header)
        channel = header.partition(_CHANNEL)[2].split(_CONSTRAIN)[0].split()
        recipient = _recipient(header)
        self._sink.reasoning = bool(channel) and channel[0] == "analysis"
        if recipient.startswith("functions.") or (recipient and self._sink.schemas and recipient in self._sink.schemas):
            self._sink.reasoning = False
            if not self._sink.start(recipient.removeprefix("functions.")):
                return self._fail(pos)
            self._state = 1
            return pos
        if recipient.split(".")[0] in _TOOLS_OF_THE_MODEL:
            self._sink.reasoning = True
        self.status = SWITCH
        return pos

    def _arguments(self, buf: str, pos: int, final: bool) -> int:
        at = skip_space(buf, pos)
        if at > pos or at == len(buf):
            return at if at < len(buf) else ~at
        found = match(buf, pos, _MESSAGE_ENDS, final)
        if found == -1:
            return ~pos
        if found >= 0:
            self.status = DONE
            return self._nothing(pos)
        self._state = 2
        return pos


def _line_break(buf: str, at: int, *, adjoining: bool) -> int:
    """The position after white space that holds a line break and stands beside a marker; `at` if there is none."""
    after = at
    limit = min(len(buf), at + LOOKAHEAD)
    while after < limit and buf[after] in SPACE:
        after += 1
    if after == len(buf):
        return ~at
    return after if adjoining or buf[after] == "<" else at


def _recipient(header: str) -> str:
    for word in header.replace(_CHANNEL, " ").replace(_CONSTRAIN, " ").split():
        if word.startswith("to="):
            return word[3:]
    return ""


@dataclass(frozen=True, slots=True)
class TypedBlocks(Checked):
    """Messages whose header is followed by a marker for what they hold (Inkling)."""

    json: JsonCalls
    opens: tuple[str, ...] = ("<|message_model|>",)
    text: str = "<|content_text|>"
    reasoning: str = "<|content_thinking|>"
    call: str = "<|content_invoke_tool_json|>"
    at_start: bool = False

    @property
    def headers(self) -> bool:
        """See `CallSpec.headers`."""
        return True

    @property
    def closers(self) -> tuple[str, ...]:
        """See `CallSpec`."""
        return self.json.closes

    @property
    def ends(self) -> tuple[str, ...]:
        """See `CallSpec`: the message's end may be followed by the turn's."""
        return self.json.closes[-1:]

    def begin(self, marker: str, sink: Sink) -> Grammar:
        """See `CallSpec.begin`."""
        return TypedReader(self, sink)


class TypedReader(_Reader):
    """Reads one such header, and the call behind it if it announces one."""

    __slots__ = ("_inner", "_size", "_spec")

    def __init__(self, spec: TypedBlocks, sink: Sink) -> None:
        super().__init__(sink)
        self._spec = spec
        self._size = 0
        self._inner: Grammar | None = None

    def step(self, buf: str, pos: int, final: bool) -> int:
        """See `Grammar.step`."""
        inner = self._inner
        if inner is not None:
            reached = inner.step(buf, pos, final)
            self.status = inner.status
            return reached
        limit = min(len(buf), pos + NAME_LIMIT - self._size)
        at = pos
        while at < limit and buf[at] not in "<\r\n":
            at += 1
        if at > pos:
            self._size += at - pos
            return at
        if at == len(buf):
            return ~at
        if buf[at] in SPACE:
            after = _line_break(buf, at, adjoining=not self._size)
            self._size += max(after - at, 0)
            return after if after != at else self._fail(at)
        found = match(buf, at, (self._spec.text, self._spec.reasoning, self._spec.call), final)
        if found == -1:
            return ~at
        if found == -2:
            return self._fail(at)
        if found == 2:
            self._inner = self._spec.json.begin(self._spec.call, self._sink)
            self._sink.reasoning = False
            return at + len(self._spec.call)
        self._sink.reasoning = found == 1
        self.status = SWITCH
        return at + len((self._spec.text, self._spec.reasoning)[found])

    @property
    def within(self) -> Within | None:
        """See `Grammar.within`."""
        return getattr(self._inner, "within", None)

    def finish(self, rest: str) -> None:
        """See `Grammar.finish`."""
        if self._inner is not None:
            self._inner.finish(rest)
