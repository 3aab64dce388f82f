"""Calls written like Python (`[f(a=1), g()]`) or like Gemma's records (`call:f{a:1}`).

Decides: where calls and arguments begin and end. A string is streamed while it arrives, and so is any literal for which the
schema gives no type; any other value is held until it is complete and then converted to the schema's type.
Above: `table`. Below: `base`, `coerce`, `literals`, `tool_json` (a region may hold JSON instead).
Does not know: which model writes which marks; that is `PythonCalls` and `RecordCalls`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from smg_parsers.grammars.tool_json import JsonCalls
from smg_parsers.pieces.base import (
    DONE,
    FAIL,
    LOOKAHEAD,
    MORE,
    NAME_LIMIT,
    SPACE,
    Grammar,
    Schema,
    Sink,
    Within,
    match,
    skip_space,
)
from smg_parsers.pieces.checked import Checked
from smg_parsers.values.coerce import coerce_json, property_schema, required_names, types_of
from smg_parsers.values.literals import PYTHON, LiteralReader, LiteralSyntax, quote


@dataclass(frozen=True, slots=True)
class PythonCalls(Checked):
    """Calls with keyword arguments, in a list or (`bare` false) also one after another inside markers. A `bare` list has no
    marker, so the first name in it must be a known tool's.

    With `json`, the region may hold JSON calls instead. `method` is taken off the end of names.
    """

    opens: tuple[str, ...]
    closes: tuple[str, ...] = ()
    at_start: bool = False
    bare: bool = False
    json: JsonCalls | None = None
    method: str = ""

    @property
    def headers(self) -> bool:
        """See `CallSpec.headers`."""
        return False

    @property
    def closers(self) -> tuple[str, ...]:
        """See `CallSpec`."""
        return self.closes

    def begin(self, marker: str, sink: Sink) -> Grammar:
        """See `CallSpec.begin`."""
        reader = PythonReader(self.closes, sink, "(", ")", "=", PYTHON, listed=marker == "[", bare=self.bare)
        reader.json = self.json
        reader.method = self.method
        return reader


@dataclass(frozen=True, slots=True)
class RecordCalls(Checked):
    """`call:name{key:value,…}` with strings between `mark`s. Where `call:` itself opens it, the name must be a known tool's."""

    opens: tuple[str, ...]
    closes: tuple[str, ...]
    mark: str
    at_start: bool = False

    @property
    def headers(self) -> bool:
        """See `CallSpec.headers`."""
        return False

    @property
    def closers(self) -> tuple[str, ...]:
        """See `CallSpec`."""
        return self.closes

    @property
    def value_ends(self) -> tuple[str, ...]:
        """What closes a value."""
        return (self.mark,)

    def begin(self, marker: str, sink: Sink) -> Grammar:
        """See `CallSpec.begin`."""
        dialect = LiteralSyntax(marks=(self.mark, '"'), python=False, loose=True)
        bare = marker == _RECORD
        return PythonReader(self.closes, sink, "{", "}", ":", dialect, listed=False, bare=bare)


_RECORD: Final = "call:"
(_OPEN, _NAME, _ARGUMENT, _EQUALS, _VALUE, _AFTER, _AFTER_CALL, _TAIL) = range(8)


class PythonReader:
    """Reads one region of such calls. `begin`, `end` and `equals` are the characters around and inside arguments."""

    __slots__ = (
        "_bare",
        "_begin",
        "_begun",
        "_buffered",
        "_closes",
        "_dialect",
        "_end",
        "_equals",
        "_first",
        "_inner",
        "_key",
        "_listed",
        "_name",
        "_reader",
        "_repeated",
        "_root",
        "_schema",
        "_sink",
        "_state",
        "_written",
        "json",
        "method",
        "status",
    )

    def __init__(
        self,
        closes: tuple[str, ...],
        sink: Sink,
        begin: str,
        end: str,
        equals: str,
        dialect: LiteralSyntax,
        *,
        listed: bool,
        bare: bool,
    ) -> None:
        self.status = MORE
        self.json: JsonCalls | None = None
        self.method = ""
        self._inner: Grammar | None = None
        self._closes = closes
        self._sink = sink
        self._begin = begin
        self._end = end
        self._equals = equals
        self._dialect = dialect
        self._listed = listed
        self._bare = bare
        self._begun = False  # a call has been read, so the further items of the list are calls too
        self._state = _NAME if listed or bare else _OPEN
        self._name = ""
        self._key = ""
        self._written: set[str] = set()  # the arguments of this call so far
        self._repeated = False  # this argument has come before: its value is read and left out
        self._first = True
        self._buffered = False
        self._reader = LiteralReader(dialect)
        self._root: Schema = {}
        self._schema: Schema = {}

    def step(self, buf: str, pos: int, final: bool) -> int:
        """See `Grammar.step`."""
        inner = self._inner
        if inner is not None:
            reached = inner.step(buf, pos, final)
            self.status = inner.status
            return reached
        if self._state < _VALUE:
            at = skip_space(buf, pos)
            if at == len(buf):
                return ~at
            if at > pos:
                return at
        return _STATES[self._state](self, buf, pos, final)

    def finish(self, rest: str) -> None:
        """See `Grammar.finish`."""
        if self._inner is not None:
            self._inner.finish(rest)
        if self._state != _VALUE:
            return
        pos = 0
        while not (self._reader.done or self._reader.bad):
            reached = self._reader.step(rest, pos, True)
            if reached < 0:
                break
            pos = reached
        if not self._repeated:
            self._sink.arguments(self._reader.rest())

    @property
    def within(self) -> Within | None:
        """See `Grammar.within`."""
        if self._inner is not None:
            return getattr(self._inner, "within", None)
        return self._reader.within if self._state == _VALUE and not self._buffered else None

    def _fail(self, pos: int) -> int:
        if self._sink.open:
            self._sink.abandon()
        self.status = FAIL
        return pos

    def _open(self, buf: str, pos: int, final: bool) -> int:
        self._state = _NAME
        if self._equals == ":":
            options = (_RECORD, ":")
            found = match(buf, pos, options, final)
            if found == -1:
                self._state = _OPEN
                return ~pos
            return self._fail(pos) if found == -2 else pos + len(options[found])
        if self.json is not None and buf[pos] in "{[":
            # A list holds JSON when an object comes first in it, and Python calls when a name does.
            at = pos if buf[pos] == "{" else skip_space(buf, pos + 1)
            near = at - pos <= LOOKAHEAD
            if near and at == len(buf) and not final:
                self._state = _OPEN
                return ~pos
            if near and buf[at : at + 1] == "{":
                self._inner = self.json.begin(" ", self._sink)
                return pos
        if buf[pos] == "[":
            self._listed = True
            return pos + 1
        return pos

    def _word(self, buf: str, pos: int) -> int:
        """The end of the name at `pos`; its complement when it may go on; `pos` itself when there is none."""
        size = min(len(buf), pos + NAME_LIMIT)
        at = pos
        while at < size and (buf[at].isalnum() or buf[at] in "_.-"):
            at += 1
        return ~at if at == len(buf) else at

    def _read_name(self, buf: str, pos: int, final: bool) -> int:
        at = self._word(buf, pos)
        if at < 0:
            return ~pos
        if at == pos or buf[at : at + 1] != self._begin:
            return self._fail(at)
        self._name = buf[pos:at].removesuffix(self.method) or buf[pos:at]
        if self._bare and not self._begun and not self._sink.offered(self._name):
            return self._fail(at)
        self._first = True
        self._written.clear()
        self._state = _ARGUMENT
        return at + 1

    def _start(self) -> bool:
        self._begun = self._sink.start(self._name)
        return self._begun

    def _argument(self, buf: str, pos: int, final: bool) -> int:
        """Read the name of an argument, or the end of the arguments."""
        if buf[pos] == self._end:
            return self._call_over(pos)
        marks = self._dialect.marks
        found = match(buf, pos, marks, final) if self._equals == ":" else -2
        if found == -1:
            return ~pos
        if found >= 0:
            return self._quoted_key(buf, pos, pos + len(marks[found]), marks[found])
        at = self._word(buf, pos)
        if at < 0:
            return ~pos
        if at == pos:
            return self._fail(at)
        self._key = buf[pos:at]
        self._state = _EQUALS
        return at

    def _quoted_key(self, buf: str, pos: int, begin: int, mark: str) -> int:
        end = buf.find(mark, begin, begin + NAME_LIMIT)
        if end < 0:
            return self._fail(begin + NAME_LIMIT) if len(buf) >= begin + NAME_LIMIT else ~pos
        self._key = buf[begin:end]
        self._state = _EQUALS
        return end + len(mark)

    def _equals_sign(self, buf: str, pos: int, final: bool) -> int:
        other = buf[pos] != self._equals
        if other and (self._equals != ":" or buf[pos] != "="):
            return self._fail(pos)
        if self._first and not self._start():
            return self._fail(pos)
        if other and not self._sink.repair():
            return self._fail(pos)
        if self._first:
            self._root = self._sink.schema(self._name)
        self._repeated = self._key in self._written
        if self._repeated and not self._sink.repair():
            return self._fail(pos)
        self._written.add(self._key)
        if not self._repeated:
            self._sink.arguments(("{" if self._first else ",") + quote(self._key) + ":")
        self._first = False
        self._reader = LiteralReader(self._dialect)
        self._schema = property_schema(self._root, self._key)
        types = types_of(self._schema, self._root)
        # The first character of the value decides whether it is held. A repeated one is held to its end, and left out.
        self._buffered = bool(types) or self._repeated
        self._state = _VALUE
        return pos + 1

    def _value(self, buf: str, pos: int, final: bool) -> int:
        reader = self._reader
        reached = reader.step(buf, pos, final)
        if self._buffered and not self._repeated and reader.out and reader.out[0] == '"' and not reader.depth:
            self._buffered = "string" not in types_of(self._schema, self._root)
        if loose := reader.loose():
            self._sink.unescaped(loose)
        if not self._buffered:
            self._sink.arguments(reader.tail())
        if reader.bad:
            return self._fail(~reached if reached < 0 else reached)
        if reader.done:
            if self._buffered and not self._repeated:
                self._sink.arguments(coerce_json(reader.tail(), self._schema, self._root))
            self._state = _AFTER
        return reached

    def _after(self, buf: str, pos: int, final: bool) -> int:
        at = skip_space(buf, pos)
        if at == len(buf):
            return ~at
        if buf[at] == ",":
            self._state = _ARGUMENT
            return at + 1
        return self._call_over(at) if buf[at] == self._end else self._fail(at)

    def _call_over(self, pos: int) -> int:
        if self._first and not self._start():
            return self._fail(pos)
        if self._equals == ":" and not (self._first or self._written.issuperset(required_names(self._root))):
            self._sink.doubtful = True  # a string has quoted the mark and the call's end, perhaps
        self._sink.arguments("{}" if self._first else "}")
        self._sink.end()
        self._state = _AFTER_CALL
        return pos + 1

    def _after_call(self, buf: str, pos: int, final: bool) -> int:
        """After a call: in a list, a comma or the list's end; outside of a list, another call if one follows."""
        at = pos
        limit = min(len(buf), pos + LOOKAHEAD)
        while at < limit and buf[at] in SPACE:
            at += 1
        if at == len(buf) and not final:
            return ~pos
        char = buf[at : at + 1]
        if char == "," or (char == ";" and not self._listed):
            self._state = _NAME
            return at + 1
        if self._listed:
            self._state = _TAIL
            return at + 1 if char == "]" else pos
        if char and (char.isalpha() or char == "_") and self._closes and self._equals == "=":
            self._state = _NAME
            return at
        self._state = _TAIL
        return pos

    def _tail(self, buf: str, pos: int, final: bool) -> int:
        at = pos
        limit = min(len(buf), pos + LOOKAHEAD)
        while at < limit and buf[at] in SPACE:
            at += 1
        if at == len(buf) and not final and self._closes:
            return ~pos
        found = match(buf, at, self._closes, final)
        if found == -1:
            return ~pos
        self.status = DONE
        return pos if found == -2 else at + len(self._closes[found])


_STATES: Final[tuple[Callable[[PythonReader, str, int, bool], int], ...]] = (
    PythonReader._open,
    PythonReader._read_name,
    PythonReader._argument,
    PythonReader._equals_sign,
    PythonReader._value,
    PythonReader._after,
    PythonReader._after_call,
    PythonReader._tail,
)
