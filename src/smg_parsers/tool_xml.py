"""Calls written as tags: `<function=name>`, `<invoke name="…">`, `<arg_key>` pairs and their relatives.

Decides: where a call, a parameter and a value begin and end, and how values become JSON. A string streams as it is
written; any other value is held until it is whole, because its type can only be told then.
Above: `table`. Below: `base`, `coerce`, `literals`, `tool_json` (a region may hold JSON instead), `tool_xml_ends`,
`tool_xml_tags`.
Does not know: which model writes which tags; that is `XmlCalls`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from smg_parsers.base import (
    DONE,
    FAIL,
    LOOKAHEAD,
    MORE,
    NAME_LIMIT,
    REREAD,
    SPACE,
    UNDECIDED,
    Grammar,
    Schema,
    Sink,
    match,
    skip_space,
)
from smg_parsers.checked import Checked
from smg_parsers.coerce import (
    coerce,
    is_text,
    json_type,
    partial,
    property_names,
    property_schema,
    required_names,
    types_of,
)
from smg_parsers.lenient_json import LenientJsonReader, pass_arguments
from smg_parsers.literals import escape, quote
from smg_parsers.tool_json import JsonCalls
from smg_parsers.tool_xml_ends import (
    CALL,
    CALL_CLOSES,
    ENDS,
    IN_CALL_END,
    MISSING,
    OPEN_QUESTION,
    PARAMETER,
    PARAMETER_CLOSES,
    QUOTED,
    SUSPECT,
    YES,
    Bounds,
)
from smg_parsers.tool_xml_tags import SELF_CLOSED, Tag, elements_to_json, read_tag
from smg_parsers.tool_xml_values import Place, ValueText

_NAME: Final = re.compile(r"[\w.-]+")


@dataclass(frozen=True, slots=True)
class XmlCalls(Checked):
    """Tagged calls of one family.

    `opens` and `closes` are the wrapper around calls; there is no wrapper where one of `opens` is the call's own tag. A call is
    written `call … close`, a parameter `param … value … value_end`. `fillers` are texts that may stand between the calls of a
    wrapper; texts `behind` may follow a call. `newline`: one newline is removed from each side of a value. `cdata`: values may
    be wrapped in CDATA. `space` is MiniMax M3's prefix of every tag, with which values nest as elements. `body`: a call's body
    may be JSON between these two markers (which may be empty). `json`: a whole region or a whole call may be JSON. `words`: any
    word may stand where a filler may. `inline`: parameters follow one another on one line.
    """

    opens: tuple[str, ...]
    call: Tag
    close: str
    param: Tag
    value_end: str
    closes: tuple[str, ...] = ()
    at_start: bool = False
    value: str = ""
    kind: tuple[str, str] = ("", "")
    kind_attribute: str = ""
    fillers: tuple[str, ...] = ()
    behind: tuple[str, ...] = ()
    newline: bool = False
    cdata: bool = False
    body: tuple[str, str] | None = None
    words: bool = False
    json: JsonCalls | None = None
    space: str = ""
    inline: bool = False
    bounds: Bounds = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        Checked.__post_init__(self)
        fillers = (*self.fillers, *self.behind, *filter(None, (self.body[1] if self.body else "",)))
        bounds = Bounds(
            self.opens,
            self.call,
            self.close,
            self.closes,
            self.param,
            self.value,
            fillers,
            self.words,
            self.json is not None,
            bool(self.space),
            self.inline,
        )
        object.__setattr__(self, "bounds", bounds)

    @property
    def headers(self) -> bool:
        """See `CallSpec.headers`."""
        return False

    @property
    def closers(self) -> tuple[str, ...]:
        """See `CallSpec`."""
        return (*filter(None, (self.close,)), *self.closes, *self.behind)

    @property
    def ends(self) -> tuple[str, ...]:
        """See `CallSpec`."""
        return self.closes or self.closers

    def begin(self, marker: str, sink: Sink) -> Grammar:
        """See `CallSpec.begin`."""
        return XmlReader(self, sink, marker == self.call.begin)


(_OPEN, _BETWEEN, _BODY, _BEFORE_VALUE, _AFTER_CALL, _TAG, _PARAM, _KIND, _VALUE, _JSON, _CDATA, _REGION, _CLOSE) = (
    range(13)
)


class XmlReader:
    """Reads one region of tagged calls."""

    __slots__ = (
        "_between_options",
        "_end",
        "_ended",
        "_first",
        "_in_tag",
        "_inner",
        "_json_reader",
        "_keys",
        "_kind",
        "_needed",
        "_nesting",
        "_options",
        "_parameter",
        "_plain",
        "_resumes",
        "_root",
        "_schema",
        "_sink",
        "_spec",
        "_started",
        "_state",
        "_tags",
        "_text",
        "_written",
        "status",
    )

    def __init__(self, spec: XmlCalls, sink: Sink, in_tag: bool) -> None:
        self.status = MORE
        self._spec = spec
        self._sink = sink
        self._in_tag = in_tag
        self._resumes = False  # JSON that was read is one call of a wrapper, not the whole region
        self._state = _OPEN if spec.json is not None or not in_tag else _TAG
        self._options: tuple[str, ...] = (*(filter(None, (spec.close,))), *spec.closes, spec.param.begin)
        self._root: Schema = {}
        self._schema: Schema = {}
        self._parameter = ""
        self._keys: frozenset[str] | None = None  # the tool's arguments by its schema, None if that is not known
        self._written: set[str] = set()  # the arguments of this call so far
        self._needed: frozenset[str] = frozenset()  # the arguments that the tool's schema requires
        self._text = ValueText(sink)  # it is `skipped` where the parameter has come before
        self._plain = False  # the value is a number or a word: it quotes nothing
        self._ended: Place | None = None  # where the value ends, when that has been found out later
        self._tags = spec.bounds.tags
        self._kind = ""
        self._first = True  # no parameter of this call has been written yet
        self._started = False  # the value's first character has been seen
        self._end = spec.value_end
        self._nesting = 0
        self._json_reader = LenientJsonReader()
        self._inner: Grammar | None = None
        fillers = (*spec.fillers, *spec.behind, *filter(None, (spec.close, spec.body[1] if spec.body else "")))
        self._between_options = (*spec.closes, *fillers, spec.call.begin)

    def step(self, buf: str, pos: int, final: bool) -> int:
        """See `Grammar.step`."""
        if self._state <= _BEFORE_VALUE:
            at = skip_space(buf, pos)
            if at == len(buf) and not (final and self._state == _BODY):
                return ~at
            if at > pos:
                return at
        return _STATES[self._state](self, buf, pos, final)

    def finish(self, rest: str) -> None:
        """See `Grammar.finish`."""
        if self._inner is not None:
            self._inner.finish(rest)
        elif self._state == _VALUE and not self._text.skipped:
            held = self._text.take()
            if self._text.buffered:
                self._sink.arguments(self._partial(held + rest))
            else:
                self._sink.arguments(escape(rest))
        elif self._state == _JSON:
            self._sink.arguments(rest)

    def _partial(self, text: str) -> str:
        if self._kind == "string":
            return quote(text)[:-1]
        return partial(text, self._schema, self._root)

    def _fail(self, pos: int) -> int:
        if self._sink.open:
            self._sink.abandon()
        self.status = FAIL
        return pos

    def _open(self, buf: str, pos: int, final: bool) -> int:
        """Just behind the opening marker: JSON, where the family allows it, or a call's tag."""
        self._state = _TAG if self._in_tag else _BETWEEN
        if self._spec.json is not None and buf[pos] in "{[":
            self._begin_json()
        return pos

    def _begin_json(self) -> None:
        if self._spec.json is not None:
            self._inner = self._spec.json.begin(" ", self._sink)
            self._state = _REGION

    def _region(self, buf: str, pos: int, final: bool) -> int:
        inner = self._inner
        if inner is None:
            return self._fail(pos)
        reached = inner.step(buf, pos, final)
        self.status = inner.status
        if self.status == DONE and self._resumes:
            self.status, self._state, self._inner = MORE, _AFTER_CALL, None
        return reached

    def _between(self, buf: str, pos: int, final: bool) -> int:
        """Between the calls of a wrapper."""
        spec = self._spec
        options = self._between_options
        found = match(buf, pos, options, final)
        if found == -1:
            return ~pos
        if found == -2:
            return self._word(buf, pos) if spec.words else self._fail(pos)
        if found < len(spec.closes):
            self.status = DONE
        elif found == len(options) - 1:
            self._state = _TAG
        return pos + len(options[found])

    def _word(self, buf: str, pos: int) -> int:
        at = pos
        limit = min(len(buf), pos + NAME_LIMIT)
        while at < limit and (buf[at].isalnum() or buf[at] in "_-."):
            at += 1
        return at if at > pos else self._fail(pos)

    def _tag(self, buf: str, pos: int, final: bool) -> int:
        if self._spec.json is not None:
            at = skip_space(buf, pos)
            if at == len(buf):
                return ~pos
            if buf[at] in "{[":
                self._resumes = True
                self._begin_json()
                return at
        reached, name, attributes = read_tag(self._spec.call, buf, pos, final)
        if not name:
            return reached if reached < 0 else self._fail(reached)
        if not self._sink.start(name):
            return self._fail(reached)
        self._root = self._sink.schema(name)
        self._keys = property_names(self._root)
        self._needed = required_names(self._root)
        self._written.clear()
        self._first = True
        self._state = _BODY
        if SELF_CLOSED in attributes:
            self._sink.arguments("{}")
            self._sink.end()
            self._state = _AFTER_CALL
        return reached

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
            and (key in self._needed or _is_plain(property_schema(self._root, key), self._root))
        )

    def _body(self, buf: str, pos: int, final: bool) -> int:
        """Inside a call, between its parameters."""
        spec = self._spec
        if spec.body is not None and self._first:
            begin = spec.body[0] or "{"
            found = match(buf, pos, (begin,), final)
            if found == -1:
                return ~pos
            if found == 0:
                closes = (*filter(None, (spec.body[1], spec.close)), *spec.closes)
                self._json_reader = LenientJsonReader(closes)
                self._state = _JSON
                return pos + len(spec.body[0])
        found = match(buf, pos, self._options, final)
        if found == -1:
            return ~pos
        if found == -2:
            return self._unexpected(buf, pos, final)
        if found == len(self._options) - 1:
            self._state = _PARAM
            return pos + len(spec.param.begin)
        # Where the call's own end tag is missing, the wrapper's is read again as such.
        self._call_over(_CLOSE if spec.close and found == 0 else _AFTER_CALL)
        return pos

    def _unexpected(self, buf: str, pos: int, final: bool) -> int:
        """Handle what is neither a parameter nor the call's end: another call, or text."""
        if pos == len(buf):
            return ~pos
        told = self._spec.bounds.calls_again(buf, pos, final, self._is_tool)
        if told == -1:
            return ~pos
        if told != YES or not self._sink.repair():
            return self._fail(pos)
        self._call_over(_AFTER_CALL)
        return pos

    def _call_over(self, state: int) -> None:
        self._sink.arguments("{}" if self._first else "}")
        self._sink.end()
        self._state = state

    def _close(self, buf: str, pos: int, final: bool) -> int:
        self._state = _AFTER_CALL
        return pos + len(self._spec.close)

    def _after_call(self, buf: str, pos: int, final: bool) -> int:
        """After a call: the wrapper's end, another call, or else ordinary text."""
        spec = self._spec
        if not spec.closes:
            self.status = DONE
            return pos
        limit = min(len(buf), pos + LOOKAHEAD)
        at = pos
        while at < limit and buf[at] in SPACE:
            at += 1
        if at == len(buf) and not final:
            return ~pos
        found = match(buf, at, self._between_options, final)
        if found == -1:
            return ~pos
        if found == -2:
            self.status = DONE
            return pos
        self._state = _BETWEEN
        return at

    def _param(self, buf: str, pos: int, final: bool) -> int:
        spec = self._spec
        reached, name, attributes = read_tag(spec.param, buf, pos, final)
        if not name:
            return reached if reached < 0 else self._fail(reached)
        unclosed = bool(spec.param.stops) and not buf.endswith(spec.param.ends, pos, reached)
        repeated = name in self._written
        if (unclosed or repeated) and not self._sink.repair():
            return self._fail(pos)
        self._parameter = name
        self._written.add(name)
        self._kind = _kind_of(attributes.get(spec.kind_attribute, "")) if spec.kind_attribute else ""
        self._end = spec.value_end or f"{spec.space}</{name}>"
        self._text.skipped = repeated
        if not repeated:
            self._sink.arguments(("{" if self._first else ",") + quote(name) + ":")
        self._first = False
        self._state = _BEFORE_VALUE if spec.value else self._value_begins()
        if SELF_CLOSED in attributes:
            if not self._text.buffered:
                self._sink.arguments('"')
            self._value_over()
        return reached

    def _value_begins(self) -> int:
        self._schema = property_schema(self._root, self._parameter)
        # A repeated value is read like one that is held, and left out.
        repeated = self._text.skipped
        text = self._kind == "string" or is_text(self._schema, self._root)
        self._text.begin(buffered=repeated or not text, skipped=repeated)
        kind = self._kind
        self._plain = not text and (kind in _PLAIN or (kind in ("", "json") and _is_plain(self._schema, self._root)))
        self._started = False
        self._nesting = 0
        return _CDATA if self._spec.cdata else _VALUE

    def _before_value(self, buf: str, pos: int, final: bool) -> int:
        spec = self._spec
        options = (spec.value, spec.kind[0]) if spec.kind[0] else (spec.value,)
        found = match(buf, pos, options, final)
        if found == -1:
            return ~pos
        if found == -2:
            return self._fail(pos)
        if found == 1:
            self._state = _KIND
            return pos + len(spec.kind[0])
        self._state = self._value_begins()
        return pos + len(spec.value)

    def _read_kind(self, buf: str, pos: int, final: bool) -> int:
        end = buf.find(self._spec.kind[1], pos, pos + NAME_LIMIT)
        if end < 0:
            return self._fail(pos + NAME_LIMIT) if len(buf) - pos >= NAME_LIMIT else ~pos
        self._kind = _kind_of(buf[pos:end].strip())
        self._state = _BEFORE_VALUE
        return end + len(self._spec.kind[1])

    def _cdata(self, buf: str, pos: int, final: bool) -> int:
        found = match(buf, pos, ("<![CDATA[",), final)
        if found == -1:
            return ~pos
        self._state = _VALUE
        if found == 0:
            self._end = "]]>" + self._spec.value_end
            return pos + len("<![CDATA[")
        return pos

    def _value(self, buf: str, pos: int, final: bool) -> int:
        spec = self._spec
        self.status = UNDECIDED if self._text.undecided else MORE
        if not self._started:
            if pos == len(buf):
                return ~pos
            self._started = True
            if not self._text.buffered:
                self._sink.arguments('"')
            if spec.newline and buf[pos] == "\n":
                return pos + 1
        ended = self._ended
        if ended is not None:
            self._ended = None
            at = pos + ended.offset
            return self._at_bound(buf, pos, at, ended.kind, at + len(self._end))
        if spec.space and self._text.buffered:
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
        if not buf.startswith(tags, at) and not buf.startswith(self._end[:-1], at):
            left = len(buf) - at
            rest = buf[at : at + NAME_LIMIT]
            if final or not any(left < len(tag) and tag.startswith(rest) for tag in (self._end, *tags)):
                return QUOTED, at
        before = at
        while before > pos and buf[before - 1] in " \t":
            before -= 1
        line = self._text.line if before == pos else buf[before - 1] == "\n"
        return self._judged(buf, at, final, line, self._is_next, self._may_follow)

    def _judged(
        self, buf: str, at: int, final: bool, line: bool, is_next: Callable[[str], bool], needs: Callable[[str], bool]
    ) -> tuple[int, int]:
        text, bounds = self._text, self._spec.bounds
        if self._plain:
            return bounds.at(buf, at, self._end, final, line, self._is_tool, is_next)
        quoted = (text.calls, text.parameters)
        return bounds.judge(buf, at, self._end, final, line, quoted, self._is_tool, is_next, needs)

    def _at_bound(self, buf: str, pos: int, at: int, found: int, stop: int) -> int:
        """Pass on the value up to `at`, where it ends, or may end as soon as more text has come."""
        spec = self._spec
        newline = at > pos and buf[at - 1] == "\n" and (spec.newline or found not in (ENDS, SUSPECT))
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
        if found != ENDS and not self._sink.repair():
            return self._fail(at - newline)
        self._value_over()
        return at if found == MISSING else stop

    def _is_followed(self, buf: str, pos: int) -> bool:
        """Whether another parameter comes behind the value."""
        at = skip_space(buf, pos)
        return buf.startswith(self._spec.param.begin, at) and not buf.startswith(self._options[:-1], at)

    def _missing_before(self, last: Place | None = None) -> Place | None:
        """Where the value has ended without a tag: before a parameter that the call needs, or that has a number or a word as its
        value, as its type asks for. Any other is quoted."""
        spec = self._spec
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

    def _again(self, place: Place, pos: int) -> int:
        """The value has ended at a place that was undecided: what came behind that is read again."""
        self._text.reread()
        self._ended = place
        self.status = REREAD
        return pos

    def _at_quoted(self, buf: str, pos: int, at: int, found: int, stop: int, *, newline: bool) -> int:
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
            text.mark(found, buf[pos:at], buf[at:stop])
        self.status = UNDECIDED if text.undecided else MORE
        return stop

    def _nested_value(self, buf: str, pos: int, final: bool) -> int:
        """Read a value that may hold elements, from tag to tag, and count inner elements of the same name."""
        space = self._spec.space
        at = buf.find(space, pos)
        if at < 0:
            return self._more_value(buf, pos, final)
        opening = f"{space}<{self._parameter}>"
        found = match(buf, at, (self._end, opening), final)
        if found == -1 or (found == 0 and not self._nesting) or found == -2:
            bound, stop = self._element_bound(buf, at, final)
            if bound != QUOTED:
                return self._at_bound(buf, pos, at, bound, stop)
        self._nesting += (0, -1, 1)[found + 1] if found >= 0 else 0
        stop = at + (len(space) if found < 0 else len((self._end, opening)[found]))
        self._text.write(buf[pos:stop])
        return stop

    def _element_bound(self, buf: str, at: int, final: bool) -> tuple[int, int]:
        """As `_bound`, in a value with elements: an element with another argument's name may belong to the value."""
        holds = types_of(self._schema, self._root) & {"object", "array"}
        nests = holds or not self._schema
        is_next, needs = (_never, _never) if nests else (self._is_next, self._may_follow)
        return self._judged(buf, at, final, False, is_next, needs)

    def _more_value(self, buf: str, pos: int, final: bool) -> int:
        """No end tag has come: pass on all text except a last newline, which may belong to an end tag."""
        if final:
            place = self._text.settle()
            if place is None or place.kind == MISSING:
                place = self._missing_before(place) or place
            return ~pos if place is None else self._again(place, pos)
        stop = len(buf)
        if self._spec.space and self._text.buffered:
            stop = self._before_prefix(buf, pos)
        if stop > pos and buf[stop - 1] == "\n":
            stop -= 1
        self._text.write(buf[pos:stop])
        self.status = UNDECIDED if self._text.undecided else MORE
        return ~stop

    def _before_prefix(self, buf: str, pos: int) -> int:
        """The position at the end of the text from which on it may be the beginning of a tag's prefix."""
        space = self._spec.space
        at = buf.find(space[0], max(pos, len(buf) - len(space) + 1))
        while at >= 0 and not space.startswith(buf[at:]):
            at = buf.find(space[0], at + 1)
        return len(buf) if at < 0 else at

    def _value_over(self) -> None:
        self._state = _BODY
        text = self._text.take()
        if self._text.skipped:
            return
        if not self._text.buffered:
            self._sink.arguments('"')
        elif self._spec.space:
            self._sink.arguments(elements_to_json(text, self._spec.space, self._schema, self._root))
        elif self._kind:
            self._sink.arguments(coerce(text, {"type": _KINDS.get(self._kind, ["string"])}, {}))
        else:
            self._sink.arguments(coerce(text, self._schema, self._root))

    def _json_body(self, buf: str, pos: int, final: bool) -> int:
        reader = self._json_reader
        end = pass_arguments(reader, self._sink, buf, pos, final)
        if reader.bad:
            return self._fail(end)
        if not reader.done:
            return ~end
        self._sink.end()
        self._state = _AFTER_CALL
        return end


_KINDS: Final = {
    "json": ["object", "array", "number", "integer", "boolean", "null"],
    "number": ["integer", "number"],
    "integer": ["integer"],
    "boolean": ["boolean"],
    "object": ["object"],
    "array": ["array"],
    "null": ["null"],
}


_PLAIN: Final = frozenset(("number", "integer", "boolean", "null"))


def _is_plain(schema: Schema, root: Schema) -> bool:
    """Whether a value is a number or a word, and no text."""
    types = types_of(schema, root)
    return bool(types) and types <= _PLAIN


def _never(key: str) -> bool:
    return False


def _kind_of(written: str) -> str:
    """What an attribute such as `string="false"` or `type="number"` says about the value."""
    word = written.partition("[")[0].strip().lower()
    return {"true": "string", "false": "json", "any": ""}.get(word, word)


_STATES: Final[tuple[Callable[[XmlReader, str, int, bool], int], ...]] = (
    XmlReader._open,
    XmlReader._between,
    XmlReader._body,
    XmlReader._before_value,
    XmlReader._after_call,
    XmlReader._tag,
    XmlReader._param,
    XmlReader._read_kind,
    XmlReader._value,
    XmlReader._json_body,
    XmlReader._cdata,
    XmlReader._region,
    XmlReader._close,
)
