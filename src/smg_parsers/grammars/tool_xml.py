"""Calls written as tags: `<function=name>`, `<invoke name="…">`, `<arg_key>` pairs and their relatives.

Decides: where a call, a parameter and a value begin and end, and how values become JSON. A string streams as it is
written; any other value is held until it is whole, because its type can only be told then.
Above: `table`. Below: `base`, `coerce`, `literals`, `tool_json` (a region may hold JSON instead), `tool_xml_ends`,
`tool_xml_tags`.
Does not know: which model writes which tags; that is `XmlCalls`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from smg_parsers.grammars.tool_json import JsonCalls
from smg_parsers.grammars.tool_xml_ends import (
    YES,
    Bounds,
)
from smg_parsers.grammars.tool_xml_kinds import written_kind
from smg_parsers.grammars.tool_xml_tags import SELF_CLOSED, Tag, read_tag, written_once
from smg_parsers.grammars.tool_xml_value_reader import ValueReader
from smg_parsers.pieces.base import (
    DONE,
    LOOKAHEAD,
    MORE,
    NAME_LIMIT,
    SPACE,
    Grammar,
    Sink,
    Within,
    match,
    skip_space,
)
from smg_parsers.pieces.checked import Checked
from smg_parsers.values.call_arguments import ArgumentsReader
from smg_parsers.values.coerce import (
    property_names,
    required_names,
)
from smg_parsers.values.literals import quote


@dataclass(frozen=True, slots=True)
class XmlCalls(Checked):
    """Tagged calls of one family.

    `opens` and `closes` are the wrapper around calls; there is no wrapper where one of `opens` is the call's own tag. A call is
    written `call … close`, a parameter `param … value … value_end`. `fillers` are texts that may stand between the calls of a
    wrapper; texts `behind` may follow a call. `newline`: one newline is removed from each side of a value. `cdata`: values may
    be wrapped in CDATA. `space` is MiniMax M3's prefix of every tag, with which values nest as elements. `body`: a call's body
    may be JSON between these two markers (which may be empty). `json`: a whole region or a whole call may be JSON. `words`: any
    word may stand where a filler may. `inline`: parameters follow one another on one line. `unwrapped`: see `CallSpec`; what
    begins so is a call of an offered tool and has a parameter or an end, or it is text. `misspelt`: how models write
    `call.begin`, or those of `opens`, by mistake. `quoted`: a string may be written as JSON. `doubled`: a name that is no
    tool's may be a tool's written twice (`f.f`). `header`: where a message's header names the tool, the end of that header. A
    value that quotes it before a parameter, or before a call's end, quotes a call. `message`: where each wrapper stands in a
    message of its own, what ends a message, what begins the next one's header, and what ends that.
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
    quoted: bool = False
    doubled: bool = False
    unwrapped: tuple[str, ...] = ()
    misspelt: tuple[str, ...] = ()
    header: str = ""
    message: tuple[str, ...] = ()
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
            self.header,
            self.message,
            self.newline,
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

    @property
    def value_ends(self) -> tuple[str, ...]:
        """What closes a value, or begins to."""
        return (self.value_end or f"{self.space}</",)

    def begin(self, marker: str, sink: Sink) -> Grammar:
        """See `CallSpec.begin`."""
        reader = XmlReader(self, sink, marker == self.call.begin, unwrapped=marker in self.unwrapped)
        reader.careless = marker in self.misspelt
        return reader


(
    _OPEN,
    _BETWEEN,
    _BODY,
    _BEFORE_VALUE,
    _AFTER_CALL,
    _TAG,
    _PARAM,
    _KIND,
    _VALUE,
    _JSON,
    _CDATA,
    _REGION,
    _CLOSE,
    _SHAPE,
) = range(14)


class XmlReader(ValueReader):
    """Reads one region of tagged calls."""

    __slots__ = (
        "_between_options",
        "_first",
        "_in_tag",
        "_inner",
        "_json_reader",
        "_mended",
        "_name",
        "_resumes",
        "_spec",
        "_state",
        "_tags_from",
        "_unwrapped",
        "careless",
    )

    def __init__(self, spec: XmlCalls, sink: Sink, in_tag: bool, *, unwrapped: bool = False) -> None:
        super().__init__(spec, sink, (*filter(None, (spec.close,)), *spec.closes, spec.param.begin), spec.value_end)
        self._spec = spec
        self._in_tag = in_tag
        self._unwrapped = unwrapped
        self._name = ""
        self._resumes = False  # JSON that was read is one call of a wrapper, not the whole region
        self._state = _OPEN if spec.json is not None or not in_tag else _TAG
        self._first = True  # no parameter of this call has been written yet
        self._json_reader = ArgumentsReader()
        self._inner: Grammar | None = None
        fillers = (*spec.fillers, *spec.behind, *filter(None, (spec.close, spec.body[1] if spec.body else "")))
        misspelt = [tag for tag in spec.misspelt if tag not in spec.opens]
        self._between_options = (*spec.closes, *fillers, spec.call.begin, *misspelt)
        self._tags_from = len(self._between_options) - len(misspelt) - 1
        self._mended = False  # the tag that was read last is a misspelt one
        self.careless = False  # the marker that has opened the region is one

    def step(self, buf: str, pos: int, final: bool) -> int:
        """See `Grammar.step`."""
        if self._state == _VALUE:
            return self._value(buf, pos, final)
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
        elif self._state == _VALUE:
            self._value_cut_off(rest)
        elif self._state == _JSON:
            self._json_reader.finish(self._sink, rest)

    @property
    def within(self) -> Within | None:
        """See `Grammar.within`."""
        if self._inner is not None:
            return getattr(self._inner, "within", None)
        if self._state == _JSON:
            return self._json_reader.within
        return self._written_through if self._state == _VALUE and self._is_through else None

    @property
    def whole(self) -> bool:
        """Whether a call is open, and all of its parameters so far are complete."""
        return self._state == _BODY

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
        elif found >= self._tags_from:
            self._mended = found > self._tags_from
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
        self._name = name
        if not self._unwrapped:
            return self._call_begins(reached, attributes)
        # Where there is no wrapper at all, the beginning of a line says that it is a call, of whatever tool.
        known = self._sink.trusted(name) or (self._sink.line and not self._spec.closes and bool(self._sink.schemas))
        if not known or SELF_CLOSED in attributes:
            return self._fail(reached)
        self._state = _SHAPE
        return reached

    def _shape(self, buf: str, pos: int, final: bool) -> int:
        """Behind the tag of a call without its wrapper: what makes it a call, or it is text."""
        limit = min(len(buf), pos + LOOKAHEAD)
        at = pos
        while at < limit and buf[at] in SPACE:
            at += 1
        if at == len(buf) and at < pos + LOOKAHEAD and not final:
            return ~pos
        options = (*self._options, self._spec.body[0] or "{") if self._spec.body else self._options
        found = match(buf, at, options, final)
        if found == -1:
            return ~pos
        return self._call_begins(pos, {}) if found >= 0 else self._fail(pos)

    def _call_begins(self, reached: int, attributes: dict[str, str]) -> int:
        name = self._name
        if self._spec.doubled:
            name = written_once(name, self._sink.schemas)
        if not self._sink.start(name, mended=self._mended or self.careless):
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
                self._json_reader = ArgumentsReader(closes)
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
        verdict = self._spec.bounds.calls_again(buf, pos, final, self._is_tool)
        if verdict == -1:
            return ~pos
        if verdict != YES or not self._sink.repair():
            return self._fail(pos)
        self._call_over(_AFTER_CALL)
        return pos

    def _call_over(self, state: int) -> None:
        if not (self._first or self._plain) and (self._lopsided or not self._written.issuperset(self._needed)):
            self._sink.doubtful = True  # what has ended the call was quoted, perhaps, and the rest of it is yet to come
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
        self._kind = written_kind(attributes.get(spec.kind_attribute, "")) if spec.kind_attribute else ""
        self._end = spec.value_end or f"{spec.space}</{name}>"
        self._text.skipped = repeated
        if not repeated:
            self._sink.arguments(("{" if self._first else ",") + quote(name) + ":")
        self._first = False
        self._state = _BEFORE_VALUE if spec.value else self._to_value()
        if SELF_CLOSED in attributes:
            if not self._text.buffered:
                self._sink.arguments('"')
            self._value_over()
        return reached

    def _to_value(self) -> int:
        self._value_begins()
        return _CDATA if self._spec.cdata else _VALUE

    def _value_over(self) -> None:
        super()._value_over()
        self._state = _BODY

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
        self._state = self._to_value()
        return pos + len(spec.value)

    def _read_kind(self, buf: str, pos: int, final: bool) -> int:
        end = buf.find(self._spec.kind[1], pos, pos + NAME_LIMIT)
        if end < 0:
            return self._fail(pos + NAME_LIMIT) if len(buf) - pos >= NAME_LIMIT else ~pos
        self._kind = written_kind(buf[pos:end].strip())
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

    def _json_body(self, buf: str, pos: int, final: bool) -> int:
        reader = self._json_reader
        end = reader.read(self._sink, buf, pos, final)
        if reader.json.bad:
            return self._fail(end)
        if not reader.json.done:
            return ~end
        reader.close(self._sink)
        self._state = _AFTER_CALL
        return end


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
    XmlReader._shape,
)
