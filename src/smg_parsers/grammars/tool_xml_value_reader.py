"""Reads one value of a tagged call up to its end, be it missing, misspelt, or quoted.

Decides: where a value ends, when that is certain, and what JSON it becomes. A string streams as it is written; any other value is
held until it is whole, because its type can only be told then. Nothing in a value that may be text begins a call.
Above: `tool_xml`. Below: `base`, `coerce`, `literals`, `tool_xml_ends`, `tool_xml_kinds`, `tool_xml_tags`, `tool_xml_values`.
Does not know: what stands around values.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, Protocol

from smg_parsers.grammars.tool_xml_ends import (
    CALL,
    CALL_CLOSES,
    ENDS,
    IN_CALL_END,
    MISSING,
    MISSPELT,
    OPEN_QUESTION,
    PARAMETER,
    PARAMETER_CLOSES,
    QUOTED,
    SUSPECT,
    Bounds,
)
from smg_parsers.grammars.tool_xml_kinds import KINDS, PLAIN, is_plain
from smg_parsers.grammars.tool_xml_tags import Tag, elements_to_json, read_tag
from smg_parsers.grammars.tool_xml_values import NULL, EndPlace, ValueText
from smg_parsers.pieces.base import FAIL, MORE, NAME_LIMIT, REREAD, UNDECIDED, Schema, Sink, match, skip_space
from smg_parsers.values.coerce import (
    admits_word,
    coerce,
    is_text,
    json_type,
    partial,
    property_schema,
    types_of,
    unquoted,
)
from smg_parsers.values.literals import escape, quote

_NAME: Final = re.compile(r"[\w.-]+")
_LINE_BREAKS: Final = ("\n", "\r\n")


class ValueSpec(Protocol):
    """What is used here of `XmlCalls`."""

    @property
    def param(self) -> Tag:
        """See `XmlCalls`."""
        ...

    @property
    def value(self) -> str:
        """See `XmlCalls`."""
        ...

    @property
    def newline(self) -> bool:
        """See `XmlCalls`."""
        ...

    @property
    def space(self) -> str:
        """See `XmlCalls`."""
        ...

    @property
    def quoted(self) -> bool:
        """Whether a string may be written as JSON."""
        ...

    @property
    def bounds(self) -> Bounds:
        """The tags around a value."""
        ...


class ValueReader:
    """The base of `XmlReader`: one value of the open call. `options` are the tags that may follow a value, the last of them a
    parameter's; `end` is the value's end tag."""

    __slots__ = (
        "_crlf",
        "_end",
        "_ended",
        "_framed",
        "_keys",
        "_kind",
        "_lopsided",
        "_needed",
        "_nesting",
        "_options",
        "_parameter",
        "_plain",
        "_root",
        "_schema",
        "_sink",
        "_slow",
        "_started",
        "_tags",
        "_text",
        "_values",
        "_written",
        "status",
    )

    def __init__(self, spec: ValueSpec, sink: Sink, options: tuple[str, ...], end: str) -> None:
        self.status = MORE
        self._values = spec
        self._sink = sink
        self._options = options
        self._end = end
        self._root: Schema = {}
        self._schema: Schema = {}
        self._parameter = ""
        self._keys: frozenset[str] | None = None  # the tool's arguments by its schema, None if that is not known
        self._written: set[str] = set()  # the arguments of this call so far
        self._needed: frozenset[str] = frozenset()  # the arguments that the tool's schema requires
        self._text = ValueText(sink)  # it is `skipped` where the parameter has come before
        self._plain = False  # the value is a number or a word: it quotes nothing
        self._ended: EndPlace | None = None  # where the value ends, when that has been found out later
        self._tags = spec.bounds.tags
        self._kind = ""
        self._started = False  # the value's first character has been seen
        self._crlf = False  # the lines of the value end with CR LF
        self._framed = False  # the format's newline has stood before the value
        self._lopsided = False  # and none behind it: the end tag may be one that the value quotes
        self._slow = False  # there is more to a value than text and its end tag
        self._nesting = 0

    def _value_cut_off(self, rest: str) -> None:
        """The output ends within the value; `rest` was not read."""
        if self._text.skipped:
            return
        held = self._text.take()
        if self._text.buffered:
            self._sink.arguments(self._partial(held + rest))
        else:
            self._sink.arguments(escape(rest))

    def _partial(self, text: str) -> str:
        if self._kind == "string":
            return quote(text)[:-1]
        return partial(text, self._schema, self._root)

    def _fail(self, pos: int) -> int:
        if self._sink.open:
            self._sink.abandon()
        self.status = FAIL
        return pos

    def _is_tool(self, name: str) -> bool:
        """Whether a name in the middle of a value may be the next call's."""
        return self._sink.known(name) and _NAME.fullmatch(name) is not None

    def _is_next(self, key: str) -> bool:
        """Whether a name in the middle of a value may be the next parameter's."""
        known = _NAME.fullmatch(key) is not None if self._keys is None else key in self._keys
        return known and key not in self._written

    def _may_follow(self, key: str) -> bool:
        """Whether this may be another parameter behind a missing end tag: one that the call needs, or a number or a word."""
        return (
            key not in self._written
            and (self._keys is None or key in self._keys)
            and (key in self._needed or is_plain(property_schema(self._root, key), self._root))
        )

    def _value_begins(self) -> None:
        self._schema = property_schema(self._root, self._parameter)
        # A repeated value is read like one that is held, and left out.
        repeated = self._text.skipped
        quoted = self._values.quoted
        text = self._kind == "string" or (is_text(self._schema, self._root) and not quoted)
        kind = self._kind
        word = text and not repeated and kind != "string" and not admits_word(self._schema, NULL)
        self._text.begin(buffered=repeated or not text, skipped=repeated, word=word)
        self._plain = not text and (kind in PLAIN or (kind in ("", "json") and is_plain(self._schema, self._root)))
        self._started = self._crlf = self._framed = self._lopsided = False
        self._slow = bool(self._values.space) and self._text.buffered and not word
        self._nesting = 0

    def _value(self, buf: str, pos: int, final: bool) -> int:
        if self._started and not (final or self._slow) and buf.find(self._end[0], pos) < 0:
            # Nearly every piece of a value comes this way. A last newline may belong to an end tag.
            stop = len(buf)
            if stop > pos and buf[stop - 1] == "\n":
                stop -= 1
            self._text.write(buf[pos:stop])
            if self.status:
                self.status = UNDECIDED if self._text.undecided else MORE
            return ~stop
        return self._value_at(buf, pos, final)

    @property
    def _is_through(self) -> bool:
        """Whether the value goes through as it arrives, and its text so far has."""
        return self._started and not (self._slow or self.status) and self._text.is_through

    def _written_through(self, text: str) -> str | None:
        """See `Grammar.within`. As in `_value`, a newline at the end may belong to an end tag."""
        return None if self._end[0] in text or text[-1:] in ("", "\n") else self._text.through(text)

    def _value_at(self, buf: str, pos: int, final: bool) -> int:
        """Read on in a value in which a tag may stand, or which has just begun."""
        spec = self._values
        ended = self._ended
        if ended is not None:
            self._ended = None
            self._sink.doubtful = self._sink.doubtful or ended.doubtful
            self._slow = self._crlf
            self.status = MORE
            at = pos + ended.offset
            return self._at_bound(buf, pos, at, ended.kind, at + len(self._end))
        if not self._started:
            if pos == len(buf) or (spec.newline and buf[pos:] == "\r" and not final):
                return ~pos
            self._started = True
            if not self._text.buffered:
                self._sink.arguments('"')
            if spec.newline and buf.startswith(_LINE_BREAKS, pos):
                self._framed = True
                self._crlf = buf[pos] == "\r"
                self._slow = self._slow or self._crlf
                return pos + 1 + self._crlf
        if spec.space and self._text.buffered and not self._text.word:
            return self._nested_value(buf, pos, final)
        at = buf.find(self._end[0], pos)
        while at >= 0:
            found, stop = self._bound(buf, at, pos, final)
            if found != QUOTED:
                return self._at_bound(buf, pos, at, found, stop)
            at = buf.find(self._end[0], at + 1)
        return self._more_value(buf, pos, final)

    def _bound(self, buf: str, at: int, pos: int, final: bool) -> tuple[int, int]:
        """Whether the value, passed on up to `pos`, ends at `at`. Nearly always it does not: what stands there is text."""
        tags = self._tags
        left = len(buf) - at
        if left < len(self._end) and not final and self._end.startswith(buf[at:]):
            return OPEN_QUESTION, at
        if not buf.startswith(tags, at) and not buf.startswith(self._end[:-1], at):
            rest = buf[at : at + NAME_LIMIT]
            if final or not any(left < len(tag) and tag.startswith(rest) for tag in tags):
                return QUOTED, at
        before = at
        while before > pos and buf[before - 1] in " \t":
            before -= 1
        line = self._text.line if before == pos else buf[before - 1] == "\n"
        return self._judged(buf, at, final, line, self._is_next, self._may_follow)

    def _judged(
        self, buf: str, at: int, final: bool, line: bool, is_next: Callable[[str], bool], needs: Callable[[str], bool]
    ) -> tuple[int, int]:
        text, bounds = self._text, self._values.bounds
        if self._plain:
            return bounds.at(buf, at, self._end, final, line, self._is_tool, is_next)
        quoted = (text.calls, text.parameters)
        return bounds.judge(buf, at, self._end, final, line, quoted, self._is_tool, is_next, needs)

    def _at_bound(self, buf: str, pos: int, at: int, found: int, stop: int) -> int:
        """Pass on the value up to `at`, where it ends, or may end as soon as more text has come."""
        spec = self._values
        newline = int(at > pos and buf[at - 1] == "\n" and (spec.newline or found not in (ENDS, SUSPECT)))
        newline += newline and self._crlf and buf.startswith("\r", at - 2, at) and at - 2 >= pos
        if found >= CALL:
            return self._at_quoted(buf, pos, at, found, stop, newline=newline)
        self._text.write(buf[pos : at - newline])
        if found == OPEN_QUESTION:
            self.status = UNDECIDED if self._text.undecided else MORE
            return ~(at - newline)
        if found == ENDS and self._text.undecided and not self._is_followed(buf, stop):
            place = self._missing_before()
            if place is not None:
                return self._again(place, at - newline)
        self.status = MORE
        self._lopsided = self._framed and not newline
        if found != ENDS and not self._sink.repair():
            return self._fail(at - newline)
        self._value_over()
        return at if found == MISSING else stop

    def _is_followed(self, buf: str, pos: int) -> bool:
        """Whether another parameter comes behind the value."""
        at = skip_space(buf, pos)
        return buf.startswith(self._values.param.begin, at) and not buf.startswith(self._options[:-1], at)

    def _missing_before(self, last: EndPlace | None = None) -> EndPlace | None:
        """Where the value has ended without a tag: before a parameter that the call needs, or that has a number or a word as its
        value, as its type asks for. Any other is quoted."""
        spec = self._values
        for place, text in self._text.nexts():
            reached, name, _ = read_tag(spec.param, text, len(spec.param.begin), True)
            if last is not None and place.offset > last.offset:
                return None
            if name in self._needed:
                return place
            value = text[reached:].partition(spec.param.begin)[0].strip().removeprefix(spec.value)
            schema = property_schema(self._root, name)
            if json_type(coerce(value.strip(), schema, self._root)) != "string":
                return place
        return None

    def _again(self, place: EndPlace, pos: int) -> int:
        """The value has ended at a place that was undecided: what came behind that is read again."""
        self._text.reread()
        self._ended = place
        self._slow = True
        self.status = REREAD
        return pos

    def _at_quoted(self, buf: str, pos: int, at: int, found: int, stop: int, *, newline: int) -> int:
        """Text that belongs to a call which the value quotes, or where the value may have ended."""
        text = self._text
        if found == CALL_CLOSES:
            text.call_closes(buf[pos:stop])
        elif found < IN_CALL_END:
            text.calls += found == CALL
            text.parameters += (found == PARAMETER) - (found == PARAMETER_CLOSES)
            text.write(buf[pos:stop])
        elif not text.undecided and at - newline > pos:
            # What is certain is passed on first: it is not read again.
            stop = at - newline
            text.write(buf[pos:stop])
        else:
            text.mark(found, buf[pos:at], buf[at:stop], self._values.bounds.fillers)
        self.status = UNDECIDED if text.undecided else MORE
        return stop

    def _nested_value(self, buf: str, pos: int, final: bool) -> int:
        """Read a value that may hold elements, from tag to tag, and count inner elements of the same name."""
        space = self._values.space
        at = buf.find(space, pos)
        if at < 0:
            return self._more_value(buf, pos, final)
        opening = f"{space}<{self._parameter}>"
        found = match(buf, at, (self._end, opening), final)
        if found == -1 or (found == 0 and not self._nesting) or found == -2:
            bound, stop = self._element_bound(buf, pos, at, final)
            if bound == QUOTED and found == -1:
                bound = OPEN_QUESTION
            if bound != QUOTED:
                return self._at_bound(buf, pos, at, bound, stop)
        self._nesting += (0, -1, 1)[found + 1] if found >= 0 else 0
        stop = at + (len(space) if found < 0 else len((self._end, opening)[found]))
        self._text.write(buf[pos:stop])
        return stop

    def _element_bound(self, buf: str, pos: int, at: int, final: bool) -> tuple[int, int]:
        """As `_bound`, in a value with elements: an element with another argument's name may belong to the value."""
        holds = types_of(self._schema, self._root) & {"object", "array"}
        nests = holds or not self._schema
        is_next, needs = (_no_name, _no_name) if nests else (self._is_next, self._may_follow)
        found, stop = self._judged(buf, at, final, False, is_next, needs)
        if found == MISSPELT:
            name = buf[at + len(self._end) - len(self._parameter) - 1 : stop - 1]
            if name in self._text.elements(self._values.space, buf[pos:at]):
                return QUOTED, at  # the end of an element whose name begins with the parameter's
        return found, stop

    def _more_value(self, buf: str, pos: int, final: bool) -> int:
        """No end tag has come: pass on all text except a last newline, which may belong to an end tag."""
        if final and self._sink.cut:
            return ~pos  # what was cut may have gone on: no end tag that it quotes is its own
        if final:
            place = self._text.settle()
            if place is None or place.kind == MISSING:
                place = self._missing_before(place) or place
            return ~pos if place is None else self._again(place, pos)
        stop = len(buf)
        if self._values.space and self._text.buffered and not self._text.word:
            stop = self._before_prefix(buf, pos)
        if stop > pos and buf[stop - 1] == "\n":
            stop -= 1
        if self._crlf and stop > pos and buf[stop - 1] == "\r":
            stop -= 1
        text = self._text
        text.write(buf[pos:stop])
        if self.status:
            self.status = UNDECIDED if text.undecided else MORE
        return ~stop

    def _before_prefix(self, buf: str, pos: int) -> int:
        """The position at the end of the text from which on it may be the beginning of a tag's prefix."""
        space = self._values.space
        at = buf.find(space[0], max(pos, len(buf) - len(space) + 1))
        while at >= 0 and not space.startswith(buf[at:]):
            at = buf.find(space[0], at + 1)
        return len(buf) if at < 0 else at

    def _value_over(self) -> None:
        """The value is whole."""
        text = self._text.take()
        if self._text.skipped:
            return
        if not self._text.buffered:
            self._sink.arguments('"')
        elif self._text.word:
            self._sink.arguments(text if text == NULL else quote(text))
        elif self._values.space:
            self._sink.arguments(elements_to_json(text, self._values.space, self._schema, self._root))
        elif self._kind:
            self._sink.arguments(coerce(text, {"type": KINDS.get(self._kind, ["string"])}, {}))
        elif self._values.quoted:
            null = text == NULL and not admits_word(self._schema, NULL)  # a string would stand in quotes
            self._sink.arguments(NULL if null else coerce(unquoted(text), self._schema, self._root))
        else:
            self._sink.arguments(coerce(text, self._schema, self._root))


def _no_name(key: str) -> bool:
    return False
