"""The lines of the access log: which fields a request has, and how they are written as JSON and as text.

A line is made for every request, so it is made without `logging`; it is the line that the formatters of `logs` would make, which
a test compares. Pure: times are arguments. Above: `logs`. Below: hooks.
"""

import itertools
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime

import msgspec

from smg_core.hooks import ExchangeEnded

__all__ = ["JsonLines", "TextLines", "access_fields", "fields_in_words", "plain", "time_stamp"]

LONGEST_WORD = 256  # characters of one text from a client
_CONTROL = re.compile("[\\x00-\\x1f\\x7f-\\x9f\\u200e\\u200f\\u2028-\\u202e\\u2066-\\u2069\\ud800-\\udfff]")
_ONE_WORD = re.compile(r"[!#-<>-~]+")  # printable ASCII but space, quote and equals sign
_WORDS = re.compile(r"[!#-<>-~\n]+")  # such words, with ends of lines between them
_ENCODER = msgspec.json.Encoder()


def _names(traced: bool, owned: bool, of_model: bool) -> tuple[str, ...]:
    """The names of the fields of a line with a trace, with whose request it was, and with what a model did."""
    names = ["peer", "method", "path", "status", "bytes", "seconds", "outcome", "request_id", "client_request_id"]
    if traced:
        names.append("trace_id")
    if owned:
        names += ("tenant", "principal")
    if of_model:
        names += ("api", "model", "worker", "attempts", "prompt_tokens", "completion_tokens", "cached_tokens")
        names += ("format_violations", "first_token_seconds")
    return tuple(names)


class _Shape:
    """Lines with the same fields."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names
        self.words = " ".join([f"{name}=%s" for name in names])
        self.json = msgspec.defstruct("_Line", ["time", "level", "logger", *names])


_SHAPES = {has: _Shape(_names(*has)) for has in itertools.product((False, True), repeat=3)}


def time_stamp(seconds: float) -> str:
    """A time (seconds since the epoch) as lines have it: UTC, with milliseconds."""
    whole, milliseconds = divmod(int(seconds * 1000), 1000)
    return f"{datetime.fromtimestamp(whole, UTC):%Y-%m-%dT%H:%M:%S}.{milliseconds:03d}Z"


def plain(text: str) -> str:
    """`text` with control characters, and those that change the direction of writing, as escapes."""
    return _CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def access_fields(ended: ExchangeEnded) -> dict[str, object]:
    """The fields of one line, in order."""
    shape, values = _values(ended)
    return dict(zip(shape.names, values, strict=True))


def _values(ended: ExchangeEnded) -> tuple[_Shape, list[object]]:
    """Which fields one line has, and their values, in order."""
    values: list[object] = [
        ended.peer,
        _cut(ended.method),
        _cut(ended.path),
        ended.status,
        ended.sent,
        round(ended.seconds, 4),
        ended.outcome,
        ended.request_id,
        ended.client_id,
    ]
    traced, owned, done = ended.trace_id != "", bool(ended.tenant or ended.principal), ended.finished
    if traced:
        values.append(ended.trace_id)
    if owned:
        values += (_cut(ended.tenant), _cut(ended.principal))
    if done is not None:
        values += (
            done.api,
            _cut(done.model),
            done.worker,
            done.attempts,
            done.prompt_tokens,
            done.completion_tokens,
            done.cached_tokens,
            done.violations,
            None if done.first_seconds is None else round(done.first_seconds, 4),
        )
    return _SHAPES[traced, owned, done is not None], values


def _cut(text: str) -> str:
    """At most `LONGEST_WORD` characters of a text from a client."""
    if len(text) <= LONGEST_WORD and text.isascii():
        return text
    return text[:LONGEST_WORD].encode("utf-8", "replace").decode()


def fields_in_words(fields: Mapping[str, object]) -> str:
    """Fields as text: name=value, separated by spaces."""
    return " ".join([f"{name}={_word(value)}" for name, value in fields.items()])


def _word(value: object) -> str:
    """A value as it stands after `=`: quoted if it is not one word."""
    if type(value) is int or type(value) is float:
        return str(value)
    text = "-" if value is None or value == "" else str(value)
    return text if _ONE_WORD.fullmatch(text) else plain(msgspec.json.encode(text).decode())


def _in_words(ended: ExchangeEnded) -> str:
    """`fields_in_words` of the fields of a request. All values are looked at together first: most lines are plain words."""
    shape, values = _values(ended)
    texts = [(each or "-") if type(each) is str else "-" if each is None else str(each) for each in values]
    joined = "\n".join(texts)
    if _WORDS.fullmatch(joined) and joined.count("\n") == len(texts) - 1:
        return shape.words % tuple(texts)
    return fields_in_words(dict(zip(shape.names, values, strict=True)))


class JsonLines:
    """Writes lines of JSON. The text of a second is made once."""

    __slots__ = ("_beginning", "_second")

    def __init__(self) -> None:
        self._second, self._beginning = -1, ""

    def __call__(self, ended: ExchangeEnded, now: float) -> bytes:
        """The line, with its end, of a request that ended `now` (seconds since the epoch)."""
        second, milliseconds = divmod(int(now * 1000), 1000)
        if second != self._second:
            self._second = second
            self._beginning = time_stamp(second)[:-4]
        shape, values = _values(ended)
        time = f"{self._beginning}{milliseconds:03d}Z"
        line: bytes = _ENCODER.encode(shape.json(time, "info", "smg.access", *values)) + b"\n"
        if line.isascii() and b"\x7f" not in line:  # what is below a space is escaped in any JSON
            return line
        return plain(line[:-1].decode()).encode() + b"\n"


class TextLines:
    """Writes lines of text. `local` says the local time of a second as text; it is asked once for each."""

    __slots__ = ("_beginning", "_local", "_second")

    def __init__(self, local: Callable[[int], str]) -> None:
        self._local = local
        self._second, self._beginning = -1, ""

    def __call__(self, ended: ExchangeEnded, now: float) -> bytes:
        """The line, with its end, of a request that ended `now` (seconds since the epoch)."""
        second, milliseconds = divmod(int(now * 1000), 1000)
        if second != self._second:
            self._second = second
            self._beginning = self._local(second)
        return f"{self._beginning},{milliseconds:03d} INFO    smg.access: {_in_words(ended)}\n".encode()
