"""Calls written as JSON: an object, a list of objects, or several in a row, with or without markers around them.

Decides: which JSON is a call (it names a tool), and where its arguments are. Arguments are passed on while they arrive,
verbatim if they are JSON. Once they are complete the call has ended, whether or not the braces around it are closed.
Above: `table`. Below: `base`, `lenient_json`, `partial_json`, `literals`.
Does not know: which model writes which keys; that is `JsonCalls`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from smg_parsers.json_text.partial_json import JsonScanner, is_json
from smg_parsers.pieces.base import (
    DONE,
    FAIL,
    LOOKAHEAD,
    MORE,
    NAME_LIMIT,
    SPACE,
    SPILL,
    Grammar,
    Sink,
    Within,
    match,
    skip_space,
)
from smg_parsers.pieces.checked import Checked
from smg_parsers.values.call_arguments import STRING_LIMIT, are_arguments, pass_arguments
from smg_parsers.values.lenient_json import LenientJsonReader, mended_json
from smg_parsers.values.literals import PYTHON, LiteralReader

NAMES: Final = ("name", "tool_name", "function")
ARGUMENTS: Final = ("arguments", "parameters", "args")
IDS: Final = ("id", "tool_call_id")
_KEYS: Final = frozenset((*NAMES, *ARGUMENTS, *IDS, "type", "index"))
_QUOTES: Final = ('"', "'")
_LONGEST_ESCAPE: Final = 6
"""Most characters of JSON that one character of a Python string becomes."""
_FENCES: Final = ("```json", "```")


@dataclass(frozen=True, slots=True)
class JsonCalls(Checked):
    """JSON calls of one family.

    `opens` are the markers that begin a region (a lone `{` or `[` is part of the JSON itself), `closes` those that end it.
    `strict` is for JSON without any marker: an object with a key that calls do not have is not a call, and the first name
    must be a known tool's. `keyed`: calls are written `{"name": arguments}`. `python`: calls are Python literals. `lines`:
    every call is a line of its own; a line that is not a call is text, and the next line may be a call again. `arguments` are the
    keys under which arguments may stand.
    """

    opens: tuple[str, ...]
    closes: tuple[str, ...] = ()
    at_start: bool = False
    strict: bool = False
    keyed: bool = False
    python: bool = False
    lines: bool = False
    arguments: tuple[str, ...] = ARGUMENTS

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
        envelope = JsonEnvelope(self, sink)
        bracket = marker[-1] if marker[-1] in "{[" else ""
        if self.python:
            return PythonEnvelope(envelope, bracket)
        if bracket:
            envelope.prime(bracket)
        return envelope


(
    _START,
    _KEY,
    _COLON,
    _VALUE,
    _AFTER,
    _BETWEEN,
    _TAIL,
    _KEY_TEXT,
    _NAME,
    _ID,
    _ARGUMENTS,
    _QUOTED,
    _SKIP,
    _BAD_LINE,
) = range(14)


class JsonEnvelope:
    """Reads the JSON around the arguments, and passes the arguments on."""

    __slots__ = (
        "_astray",
        "_begun",
        "_early",
        "_gathers",
        "_given",
        "_key",
        "_listed",
        "_mended",
        "_name",
        "_nested",
        "_objects",
        "_reader",
        "_sink",
        "_size",
        "_spec",
        "_spent",
        "_state",
        "_stray",
        "_text",
        "status",
    )

    def __init__(self, spec: JsonCalls, sink: Sink) -> None:
        self.status = MORE
        self._spec = spec
        self._sink = sink
        self._state = _START
        self._listed = False
        self._objects = False  # an object has begun
        self._astray = False  # the line after the last call is not an object
        self._gathers: JsonScanner | LenientJsonReader = JsonScanner()  # reads the string that is gathered
        self._reader = LenientJsonReader()
        self._text: list[str] = []
        self._size = 0
        self._key = ""
        self._name = ""
        self._given = ""
        self._nested = 0
        self._spent = False  # the call of this object has ended; its further members are skipped
        self._begun = not spec.strict  # it is certain that this is a call, or a list of calls
        self._early: str | None = None  # arguments that came before the name
        self._mended = False  # they had to be mended
        fenced = any(close.startswith("`") for close in spec.closes)
        self._stray = "" if not spec.closes else "}]" if fenced else "}]`"  # what may stand before a closing marker

    @property
    def room(self) -> int | None:
        """How many more characters the name may have that is read, or that may begin here; None if none can."""
        if self._state in (_KEY, _VALUE):
            return NAME_LIMIT
        return NAME_LIMIT - self._size if self._state in (_KEY_TEXT, _NAME, _ID) else None

    def unescaped(self, text: str) -> None:
        """Take note of text behind a quote in a string that was not escaped."""
        if self._sink.open:
            self._sink.unescaped(text)

    def prime(self, char: str) -> None:
        """Take the bracket that was part of the opening marker."""
        if char == "[":
            self._listed = True
        else:
            self._state = _KEY

    def step(self, buf: str, pos: int, final: bool) -> int:
        """See `Grammar.step`."""
        if self._state < _TAIL:
            at = skip_space(buf, pos)
            if at == len(buf):
                return ~at
            if at > pos:
                return at
        return _STATES[self._state](self, buf, pos, final)

    @property
    def within(self) -> Within | None:
        """See `Grammar.within`."""
        return self._reader.within if self._state == _ARGUMENTS and self._name else None

    def finish(self, rest: str) -> None:
        """See `Grammar.finish`."""
        if self._state == _QUOTED:
            self._sink.arguments('"' + "".join(self._text) + rest)
        elif self._state == _ARGUMENTS:
            self._sink.arguments(rest)

    def fail(self, pos: int) -> int:
        """End the region: what stands at `pos` is not part of a call. A call that is open is abandoned."""
        if self._sink.open:
            self._sink.abandon(torn=self._state == _ARGUMENTS and self._reader.torn)
        self._text.clear()  # what was gathered is text now, and no part of a later call
        if self._spec.lines and not self._listed and self._objects:
            self._state, self.status = _BAD_LINE, SPILL
        else:
            self.status = FAIL
        return pos

    def _bad_line(self, buf: str, pos: int, final: bool) -> int:
        """A line that is no call is text, up to the next one."""
        end = buf.find("\n", pos)
        if end < 0 and not final:
            self.status = SPILL if len(buf) > pos else MORE
            return len(buf) if len(buf) > pos else ~pos
        if end < 0:
            self.status = FAIL
            return pos
        self.status, self._state = SPILL, _TAIL
        return end

    def _next_call(self) -> None:
        self._astray = False
        self._name = self._given = ""
        self._nested = 0
        self._spent = self._mended = False
        self._early = None
        self._state = _START

    def _start(self, buf: str, pos: int, final: bool) -> int:
        if buf[pos] == "`" and self._spec.closes and not (self._listed or self._objects or self._spec.strict):
            found = match(buf, pos, _FENCES, final)
            if found != -2:
                return ~pos if found == -1 else pos + len(_FENCES[found])
        if buf[pos] == "[" and not self._listed:
            self._listed = True
        elif buf[pos] == "{":
            self._state = _KEY
            self._objects = True
        elif buf[pos] == "]" and self._listed and self._objects:
            self._state = _TAIL  # a comma too many
        else:
            return self.fail(pos)
        return pos + 1

    def _key_or_end(self, buf: str, pos: int, final: bool) -> int:
        if buf[pos] in _QUOTES:
            return self._string(_KEY_TEXT, buf[pos], pos)
        return self._object_over(pos) if buf[pos] == "}" else self._off(pos)

    def _off(self, pos: int) -> int:
        """What stands at `pos` is not part of a call. Once the arguments are complete it is skipped; before, the region fails."""
        if not self._spent:
            return self.fail(pos)
        self._state = _TAIL
        return pos

    def _string(self, state: int, mark: str, pos: int) -> int:
        """Begin to gather a string whose opening quote is at `pos`."""
        self._state = state
        if state == _QUOTED or mark == "'":
            self._reader = self._gathers = LenientJsonReader(self._spec.closes, lenient=True)
            self._reader.begin_string(mark)
            self._mended = self._mended or mark == "'"
        else:
            self._gathers = JsonScanner()
            self._gathers.scan(mark, 0)
        self._size = 0
        return pos + 1

    def _literal(self, buf: str, pos: int, limit: int) -> int:
        """Gather a string up to its closing quote; at most `limit` characters, counted exactly."""
        scanner = self._gathers
        delta, end = scanner.take(buf, pos)
        if self._size + end - pos > limit:
            return self.fail(pos + limit - self._size)
        self._size += end - pos
        self._text.append(delta)
        if scanner.bad:
            return self.fail(end)
        return end if scanner.done else ~end

    def _take_literal(self) -> str:
        raw = '"' + "".join(self._text)
        self._text.clear()
        return str(json.loads(raw))

    def _key_text(self, buf: str, pos: int, final: bool) -> int:
        end = self._literal(buf, pos, NAME_LIMIT)
        if end < 0 or self.status != MORE:
            return end
        self._key = self._take_literal()
        self._state = _COLON
        if self._spec.strict and self._key not in _KEYS:
            return self.fail(end)
        return end

    def _colon(self, buf: str, pos: int, final: bool) -> int:
        if buf[pos] != ":":
            return self._off(pos)
        self._state = _VALUE
        return pos + 1

    def _value(self, buf: str, pos: int, final: bool) -> int:
        char = buf[pos]
        self._reader = LenientJsonReader(self._spec.closes, lenient=self._spent, escaped=self._spec.python)
        if self._spec.keyed and not self._nested:
            self._next_call()
            self._name = self._key
            return self._arguments_begin(char, pos)
        if self._spent:
            self._skip_value()
        elif self._key in NAMES and char in _QUOTES:
            return self._string(_NAME, char, pos)
        elif self._key == "function" and char == "{":
            self._nested += 1
            self._state = _KEY
            return pos + 1
        elif self._key in self._spec.arguments and self._early is None:
            return self._arguments_begin(char, pos)
        elif self._key in IDS and char in _QUOTES:
            return self._string(_ID, char, pos)
        else:
            self._skip_value()
        return pos

    def _skip_value(self) -> None:
        self._reader.mend()
        self._state = _SKIP

    def _arguments_begin(self, char: str, pos: int) -> int:
        if char in _QUOTES:
            if self._name and not self._begin_call():
                return self.fail(pos)
            return self._string(_QUOTED, char, pos)
        if char in "nN":
            # `null` means no arguments: it is skipped, and `{}` is passed on instead.
            self._skip_value()
            self._early = "{}"
            self._mended = self._mended or char == "N"
            return pos
        self._state = _ARGUMENTS
        if self._name and not self._begin_call():
            return self.fail(pos)
        return pos

    def _begin_call(self) -> bool:
        offered = self._begun or self._sink.offered(self._name)
        self._begun = offered and self._sink.start(self._name, self._given, mended=self._mended)
        return self._begun

    def _read_name(self, buf: str, pos: int, final: bool) -> int:
        end = self._literal(buf, pos, NAME_LIMIT)
        if end < 0 or self.status != MORE:
            return end
        self._name = self._take_literal()
        self._state = _AFTER
        if not self._name or not (self._begun or self._sink.offered(self._name)):
            return self.fail(end)
        return self._late(end)

    def _read_id(self, buf: str, pos: int, final: bool) -> int:
        end = self._literal(buf, pos, NAME_LIMIT)
        if end < 0 or self.status != MORE:
            return end
        self._given = self._take_literal()
        self._state = _AFTER
        return end

    def _arguments(self, buf: str, pos: int, final: bool) -> int:
        reader = self._reader
        if self._name:
            end = pass_arguments(reader, self._sink, buf, pos, final)
        else:
            reader.mend()
            delta, end = reader.take(buf, pos, final)
            self._text.append(delta)
        if reader.bad:
            return self.fail(end)
        if not reader.done:
            return ~end
        self._state = _AFTER
        if self._name:
            self._call_over(valid=are_arguments(reader))
        else:
            self._early = "".join(self._text)
            self._mended = self._mended or reader.mended
            self._text.clear()
        return end

    def _quoted(self, buf: str, pos: int, final: bool) -> int:
        """Read arguments written as a JSON string. If the string holds a JSON object, that is passed on, else the string."""
        end = self._literal(buf, pos, STRING_LIMIT)
        if end < 0 or self.status != MORE:
            return end
        raw = '"' + "".join(self._text)
        text = self._take_literal().strip()
        inner = mended_json(text) if text[:1] == "{" else None
        mended = self._reader.mended or (inner is not None and not is_json(text))
        self._mended = self._mended or mended
        if mended and self._sink.open and not self._sink.repair():
            return self.fail(end)
        self._early = inner or (raw if text else "{}")
        self._state = _AFTER
        return self._late(end)

    def _late(self, pos: int) -> int:
        """Pass on arguments that were held back, once the name is known too."""
        if self._early is None or not self._name or self._spent:
            return pos
        if not self._sink.open and not self._begin_call():
            return self.fail(pos)
        self._sink.arguments(self._early)
        self._call_over(valid=self._early.lstrip()[:1] == "{")
        return pos

    def _call_over(self, *, valid: bool) -> None:
        """The arguments are complete; they are `valid` if they are an object."""
        if valid:
            self._sink.end()
        else:
            self._sink.leave()
        self._spent = True

    def _skip(self, buf: str, pos: int, final: bool) -> int:
        _, end = self._reader.take(buf, pos, final)
        if self._reader.bad:
            return self._off(end)
        if not self._reader.done:
            return ~end
        self._state = _AFTER
        return self._late(end)

    def _after(self, buf: str, pos: int, final: bool) -> int:
        """After a value: a comma or the object's end."""
        if buf[pos] == ",":
            self._state = _KEY
            return pos + 1
        return self._object_over(pos) if buf[pos] == "}" else self._off(pos)

    def _object_over(self, pos: int) -> int:
        if self._nested:
            self._nested -= 1
            self._state = _AFTER
            return pos + 1
        if not self._spent:
            if not self._name:
                return self.fail(pos + 1)
            self._early = self._early or "{}"
            self._late(pos)
            if self.status == FAIL:
                return pos + 1
        self._sink.touched = True  # the braces around a call are never text
        self._state = _BETWEEN if self._listed else _TAIL
        return pos + 1

    def _between(self, buf: str, pos: int, final: bool) -> int:
        """After an item of the list: another one or the list's end."""
        if buf[pos] == ",":
            self._sink.touched = True
            self._next_call()
            return pos + 1
        self._state = _TAIL
        return pos + 1 if buf[pos] == "]" else pos

    def _tail(self, buf: str, pos: int, final: bool) -> int:
        """After the calls: the closing marker, past stray brackets if need be; another object; or ordinary text."""
        size = len(buf)
        limit = min(size, pos + LOOKAHEAD)
        closes = self._spec.closes
        at = pos
        while at < limit and (buf[at] in SPACE or buf[at] in self._stray):
            at += 1
        if at == size and not final:
            return ~pos
        found = match(buf, at, closes, final)
        if found == -1:
            return ~pos
        if found >= 0:
            self.status = DONE
            return at + len(closes[found])
        if (
            self._spec.lines
            and not self._listed
            and not self._astray
            and "\n" in buf[pos:at]
            and buf[at : at + 1] != "{"
        ):
            self._astray, self._state, self.status = True, _BAD_LINE, SPILL
            return at
        again = buf[at : at + 1]
        if again == ";" or (closes and not self._listed and again == "{"):
            self._next_call()
            return at if again == "{" else at + 1
        self.status = DONE
        return pos


_STATES: Final[tuple[Callable[[JsonEnvelope, str, int, bool], int], ...]] = (
    JsonEnvelope._start,
    JsonEnvelope._key_or_end,
    JsonEnvelope._colon,
    JsonEnvelope._value,
    JsonEnvelope._after,
    JsonEnvelope._between,
    JsonEnvelope._tail,
    JsonEnvelope._key_text,
    JsonEnvelope._read_name,
    JsonEnvelope._read_id,
    JsonEnvelope._arguments,
    JsonEnvelope._quoted,
    JsonEnvelope._skip,
    JsonEnvelope._bad_line,
)


class PythonEnvelope:
    """The same envelope written as a Python literal: each token becomes JSON and is handed on."""

    __slots__ = ("_inner", "_left", "_reader", "status")

    def __init__(self, inner: JsonEnvelope, bracket: str) -> None:
        self.status = MORE
        self._inner = inner
        self._left = ""  # JSON that the envelope holds back
        self._reader = LiteralReader(PYTHON)
        if bracket:
            self._reader.step(bracket, 0, False)
            self._pass(self._reader.tail())

    def step(self, buf: str, pos: int, final: bool) -> int:
        """See `Grammar.step`."""
        reader = self._reader
        reached = self._read(buf, pos, final)
        end = ~reached if reached < 0 else reached
        if loose := reader.loose():
            self._inner.unescaped(loose)
        self._pass(reader.tail())
        if reader.bad or self._inner.status == FAIL:
            if self.status == MORE:
                self._inner.fail(end)
            self.status = FAIL
            return end
        if reader.done:
            self.status = DONE
            return end
        return reached

    @property
    def within(self) -> Within | None:
        """See `Grammar.within`."""
        literal, json = self._reader.within, self._inner.within
        if literal is None or json is None or self._left:
            return None
        return lambda text: None if (written := literal(text)) is None else json(written)

    def _read(self, buf: str, pos: int, final: bool) -> int:
        """One step of the reader. Where a name is too long must not depend on how much of it came at once."""
        room = self._inner.room
        size = len(buf) if room is None else max(room // _LONGEST_ESCAPE, 1)
        while pos + size < len(buf):
            reached = self._reader.step(buf[: pos + size], pos, False)
            if reached != ~pos:
                return ~reached if reached < 0 else reached
            size *= 2
        return self._reader.step(buf, pos, final)

    def _pass(self, text: str) -> None:
        pos = 0
        text = self._left + text
        while pos < len(text) and self._inner.status == MORE:
            reached = self._inner.step(text, pos, False)
            if reached < 0:
                pos = ~reached
                break
            pos = reached
        self._left = text[pos:]

    def finish(self, rest: str) -> None:
        """See `Grammar.finish`."""
        self._inner.finish(self._left)
