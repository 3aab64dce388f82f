"""The lines of the access log: which fields a request has, and how they are written as JSON and as text.

A line is made for every request, so it is made without `logging`; it is the line that the formatters of `logs` would make, which
a test compares. What many lines have in common is written once. Pure: times are arguments. Above: `logs`. Below: hooks.
"""

import itertools
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime

import msgspec

from smg_core.hooks import ExchangeEnded, RunEnded

__all__ = ["JsonLines", "TextLines", "access_fields", "fields_in_words", "plain", "time_stamp"]

LONGEST_WORD = 256  # characters of one text from a client
TEMPLATES = 1024  # lines with the same texts that are remembered
_CONTROL = re.compile("[\\x00-\\x1f\\x7f-\\x9f\\u200e\\u200f\\u2028-\\u202e\\u2066-\\u2069\\ud800-\\udfff]")
_ONE_WORD = re.compile(r"[!#-<>-~]+")  # printable ASCII but space, quote and equals sign
Ended = ExchangeEnded | RunEnded
"""The moments that are each a line."""
_ENCODER = msgspec.json.Encoder()
_MILLISECONDS = [f"{number:03d}" for number in range(1000)]
_OWN = frozenset(
    {"peer", "path", "bytes", "seconds", "request_id", "client_request_id", "trace_id"}
    | {"prompt_tokens", "completion_tokens", "cached_tokens", "first_token_seconds"}
)
"""The fields whose values are a line's own; those of the others are alike in many lines."""


def _names(traced: bool, owned: bool, of_model: bool, of_batch: bool) -> tuple[str, ...]:
    """The names of the fields of a line with a trace, with whose request it was, with what a model did, and with a batch."""
    names = ["peer", "method", "path", "status", "bytes", "seconds", "outcome", "request_id", "client_request_id"]
    if traced:
        names.append("trace_id")
    if owned:
        names += ("tenant", "principal")
    if of_model:
        names += ("api", "model", "worker", "attempts", "prompt_tokens", "completion_tokens", "cached_tokens")
        names += ("format_violations", "first_token_seconds")
    if of_batch:
        names.append("batch_id")
    return tuple(names)


class _Shape:
    """Lines with the same fields."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names
        self.json = msgspec.defstruct("_Line", ["time", "level", "pid", "logger", *names])


_SHAPES = {has: _Shape(_names(*has)) for has in itertools.product((False, True), repeat=4)}


def time_stamp(seconds: float) -> str:
    """A time (seconds since the epoch) as lines have it: UTC, with milliseconds."""
    whole, milliseconds = divmod(int(seconds * 1000), 1000)
    return f"{datetime.fromtimestamp(whole, UTC):%Y-%m-%dT%H:%M:%S}.{milliseconds:03d}Z"


def plain(text: str) -> str:
    """`text` with control characters, and those that change the direction of writing, as escapes."""
    return _CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def access_fields(ended: Ended) -> dict[str, object]:
    """The fields of one line, in order."""
    shape, values = _values(ended)
    return dict(zip(shape.names, values, strict=True))


def _values(ended: Ended) -> tuple[_Shape, tuple[object, ...]]:
    """Which fields one line has, and their values, in order."""
    values: tuple[object, ...] = (
        ended.peer,
        _cut(ended.method),
        _cut(ended.path),
        ended.status,
        ended.sent,
        _rounded(ended.seconds),
        ended.outcome,
        ended.request_id,
        ended.client_id,
    )
    traced, owned, done = ended.trace_id != "", ended.tenant != "" or ended.principal != "", ended.finished
    if traced:
        values += (ended.trace_id,)
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
            None if done.first_seconds is None else _rounded(done.first_seconds),
        )
    of_batch = type(ended) is RunEnded and ended.batch_id != ""
    if of_batch:
        values += (ended.batch_id,)  # type: ignore[union-attr]
    return _SHAPES[traced, owned, done is not None, of_batch], values


def _rounded(seconds: float) -> float:
    """To tenths of a millisecond; `round` takes three times as long."""
    return int(seconds * 10000 + 0.5) / 10000


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


class JsonLines:
    """Writes lines of JSON of the process `pid`. The text of a second is made once."""

    __slots__ = ("_beginning", "_pid", "_second")

    def __init__(self, pid: int = 0) -> None:
        self._pid = pid
        self._second, self._beginning = -1, ""

    def __call__(self, ended: Ended, now: float) -> bytes:
        """The line, with its end, of a request that ended `now` (seconds since the epoch)."""
        second, milliseconds = divmod(int(now * 1000), 1000)
        if second != self._second:
            self._second = second
            self._beginning = time_stamp(second)[:-4]
        shape, values = _values(ended)
        time = f"{self._beginning}{_MILLISECONDS[milliseconds]}Z"
        line: bytes = _ENCODER.encode(shape.json(time, "info", self._pid, "smg.access", *values)) + b"\n"
        if line.isascii() and b"\x7f" not in line:  # what is below a space is escaped in any JSON
            return line
        return plain(line[:-1].decode()).encode() + b"\n"


class TextLines:
    """Writes lines of text of the process `pid`. `local` says the local time of a second as text; it is asked once for each. What
    many lines have in common is made once, and kept for `most` kinds of lines."""

    __slots__ = ("_beginning", "_local", "_most", "_second", "_source", "_templates")

    def __init__(self, local: Callable[[int], str], pid: int = 0, most: int = TEMPLATES) -> None:
        self._local, self._most, self._source = local, most, f"INFO    {pid} smg.access:"
        self._second, self._beginning = -1, ""
        self._templates: dict[tuple[object, ...], list[str]] = {}

    def __call__(self, ended: Ended, now: float) -> bytes:
        """The line, with its end, of a request that ended `now` (seconds since the epoch)."""
        second, milliseconds = divmod(int(now * 1000), 1000)
        if second != self._second:
            self._second = second
            self._beginning = self._local(second)
        words = self._words(ended) if type(ended) is ExchangeEnded else ""
        words = words or fields_in_words(access_fields(ended))
        return f"{self._beginning},{_MILLISECONDS[milliseconds]} {self._source} {words}\n".encode()

    def _words(self, ended: ExchangeEnded) -> str:
        """The fields as text, by a template; "" where a text that is the line's own is not one short word."""
        peer, path, id, client_id, trace_id = ended.peer, ended.path, ended.request_id, ended.client_id, ended.trace_id
        own = f"{peer}{path}{id}{client_id}{trace_id}"
        if (
            not (own.isascii() and own.isprintable())
            or " " in own
            or '"' in own
            or "=" in own
            or len(path) > LONGEST_WORD
        ):
            return ""
        done = ended.finished
        key: tuple[object, ...]
        if done is None:
            key = ended.method, ended.status, ended.outcome, ended.tenant, ended.principal, trace_id != ""
            size, seconds, *tokens = _numbers((ended.sent, _rounded(ended.seconds)))
        elif len(done.model) > LONGEST_WORD:  # a client chooses it, and a template would keep all of it
            return ""
        else:
            first = done.first_seconds
            key = (
                ended.method,
                ended.status,
                ended.outcome,
                ended.tenant,
                ended.principal,
                trace_id != "",
                done.api,
                done.model,
                done.worker,
                done.attempts,
                done.violations,
            )
            numbers = (
                ended.sent,
                _rounded(ended.seconds),
                done.prompt_tokens,
                done.completion_tokens,
                done.cached_tokens,
                None if first is None else _rounded(first),
            )
            size, seconds, *tokens = _numbers(numbers)
            if first is None:
                tokens[-1] = "-"
        values = [peer or "-", path or "-", size, seconds, id or "-", client_id or "-"]
        if trace_id:
            values.append(trace_id)
        words = (self._templates.get(key) or self._made(key, ended)).copy()
        words[1::2] = values + tokens
        return "".join(words)

    def _made(self, key: tuple[object, ...], ended: ExchangeEnded) -> list[str]:
        """The template of lines with the same texts as this one, where those are not a line's own; these are put in at each
        second place."""
        if len(self._templates) >= self._most:
            self._templates.clear()
        made = [""]
        for name, value in access_fields(ended).items():
            made[-1] += f" {name}="
            if name in _OWN:
                made += ("", "")
            else:
                made[-1] += _word(value)
        made[0] = made[0].lstrip()
        self._templates[key] = made
        return made


def _numbers(numbers: tuple[float | None, ...]) -> list[str]:
    """Numbers as `str` writes them, which takes several times as long for some of them."""
    return _ENCODER.encode(numbers)[1:-1].decode().split(",")
