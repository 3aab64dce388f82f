"""The lines of the access log: which fields a request has, and how they are written as JSON and as text.

A line is made for every request, so it is made without `logging`; it is the line that the formatters of `logs` would make, which
a test compares. Pure: times are arguments. Above: `logs`. Below: hooks.
"""

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime

import msgspec

from smg_core.hooks import ExchangeEnded

__all__ = ["JsonLines", "TextLines", "access_fields", "fields_in_words", "plain", "time_stamp"]

LONGEST_WORD = 256  # characters of one text from a client
_CONTROL = re.compile("[\\x00-\\x1f\\x7f-\\x9f\\u200e\\u200f\\u2028-\\u202e\\u2066-\\u2069\\ud800-\\udfff]")
_ONE_WORD = re.compile(r"[!#-<>-~]+")  # printable ASCII but space, quote and equals sign
_ENCODER = msgspec.json.Encoder()


def time_stamp(seconds: float) -> str:
    """A time (seconds since the epoch) as lines have it: UTC, with milliseconds."""
    whole, milliseconds = divmod(int(seconds * 1000), 1000)
    return f"{datetime.fromtimestamp(whole, UTC):%Y-%m-%dT%H:%M:%S}.{milliseconds:03d}Z"


def plain(text: str) -> str:
    """`text` with control characters, and those that change the direction of writing, as escapes."""
    return _CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def access_fields(ended: ExchangeEnded) -> dict[str, object]:
    """The fields of one line, in order."""
    fields: dict[str, object] = {
        "peer": ended.peer,
        "method": _cut(ended.method),
        "path": _cut(ended.path),
        "status": ended.status,
        "bytes": ended.sent,
        "seconds": round(ended.seconds, 4),
        "outcome": ended.outcome,
        "request_id": ended.request_id,
        "client_request_id": ended.client_id,
    }
    if ended.trace_id:
        fields["trace_id"] = ended.trace_id
    if ended.tenant or ended.principal:
        fields["tenant"], fields["principal"] = _cut(ended.tenant), _cut(ended.principal)
    done = ended.finished
    if done is not None:
        fields["api"] = done.api
        fields["model"] = _cut(done.model)
        fields["worker"] = done.worker
        fields["attempts"] = done.attempts
        fields["prompt_tokens"] = done.prompt_tokens
        fields["completion_tokens"] = done.completion_tokens
        fields["cached_tokens"] = done.cached_tokens
        fields["format_violations"] = done.violations
        fields["first_token_seconds"] = None if done.first_seconds is None else round(done.first_seconds, 4)
    return fields


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
    """Writes lines of JSON. The text of a second is made once."""

    __slots__ = ("_beginning", "_second")

    def __init__(self) -> None:
        self._second, self._beginning = -1, ""

    def __call__(self, fields: Mapping[str, object], now: float) -> bytes:
        """The line, with its end, of a request that ended `now` (seconds since the epoch)."""
        second, milliseconds = divmod(int(now * 1000), 1000)
        if second != self._second:
            self._second = second
            self._beginning = '{"time":"' + time_stamp(second)[:-4]
        begin = f'{self._beginning}{milliseconds:03d}Z","level":"info","logger":"smg.access",'
        line = begin.encode() + _ENCODER.encode(fields)[1:] + b"\n"
        if line.isascii() and b"\x7f" not in line:  # what is below a space is escaped in any JSON
            return line
        return plain(line[:-1].decode()).encode() + b"\n"


class TextLines:
    """Writes lines of text. `local` says the local time of a second as text; it is asked once for each."""

    __slots__ = ("_beginning", "_local", "_second")

    def __init__(self, local: Callable[[int], str]) -> None:
        self._local = local
        self._second, self._beginning = -1, ""

    def __call__(self, fields: Mapping[str, object], now: float) -> bytes:
        """The line, with its end, of a request that ended `now` (seconds since the epoch)."""
        second, milliseconds = divmod(int(now * 1000), 1000)
        if second != self._second:
            self._second = second
            self._beginning = self._local(second)
        return f"{self._beginning},{milliseconds:03d} INFO    smg.access: {fields_in_words(fields)}\n".encode()
