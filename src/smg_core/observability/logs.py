"""Log lines as text or JSON, and the access log (edge: it configures logging).

The library never configures logging by itself: `smg-gateway serve`, or a user, calls `configure`. Lines never hold prompts,
answers or headers. Text from a client cannot start a new line: control characters are escaped.
"""

import logging
import re
import sys
import time
from typing import Literal

import msgspec

from smg_core.hooks import ExchangeEnded, Moment

__all__ = ["AccessLog", "configure"]

log = logging.getLogger("smg.access")

WIRE_LIBRARIES = ("grpc", "hpack", "httpcore", "httpx")
"""Libraries that write whole headers of engines to their debug logs: an engine may repeat a credential in one."""

LONGEST_WORD = 256  # characters of one text from a client
_CONTROL = re.compile("[\\x00-\\x1f\\x7f-\\x9f\\u200e\\u200f\\u2028-\\u202e\\u2066-\\u2069\\ud800-\\udfff]")

_ONE_WORD = re.compile(r"[!#-<>-~]+")  # printable ASCII but space, quote and equals sign


def _plain(text: str) -> str:
    """`text` with control characters, and those that change the direction of writing, as escapes."""
    return _CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


class _TextFormatter(logging.Formatter):
    """One line for each record, and the traceback of an exception below it."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  (logging's name)
        record.message = _plain(record.message)
        return super().formatMessage(record)


class _JsonFormatter(logging.Formatter):
    """One JSON object per line. A record with `fields` has these as members, in place of the message."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{record.msecs:03.0f}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
        }
        fields = getattr(record, "fields", None)
        if fields is None:
            line["message"] = record.getMessage()
        else:
            line |= fields
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return _plain(msgspec.json.encode(line).decode())  # an escape within a JSON text is one of JSON's


def configure(level: str, form: Literal["text", "json"]) -> None:
    """Send this package's logs to standard error, from `level` up."""
    stream = logging.StreamHandler(sys.stderr)
    text = _TextFormatter("%(asctime)s %(levelname)-7s %(name)s: %(message)s")
    stream.setFormatter(_JsonFormatter() if form == "json" else text)
    root = logging.getLogger()
    root.handlers[:] = [stream]
    root.setLevel(level.upper())
    for name in ("uvicorn", "uvicorn.error", "alembic"):  # their ordinary news is not the operator's
        logging.getLogger(name).setLevel(max(logging.WARNING, logging.getLevelName(level.upper())))
    for name in WIRE_LIBRARIES:
        logging.getLogger(name).setLevel(max(logging.WARNING, logging.getLevelName(level.upper())))


class AccessLog:
    """Logs one line for every HTTP request, whatever its route and however it ended."""

    __slots__ = ()

    def report(self, moment: Moment) -> None:
        if isinstance(moment, ExchangeEnded):
            fields = _fields(moment)
            log.info("%s", _Line(fields), extra={"fields": fields})


class _Line:
    """The fields of a line as text, made only where a line of text is written."""

    __slots__ = ("_fields",)

    def __init__(self, fields: dict[str, object]) -> None:
        self._fields = fields

    def __str__(self) -> str:
        return " ".join([f"{name}={_word(value)}" for name, value in self._fields.items()])


def _fields(ended: ExchangeEnded) -> dict[str, object]:
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
        fields |= {"tenant": _cut(ended.tenant), "principal": _cut(ended.principal)}
    done = ended.finished
    if done is not None:
        fields |= {
            "api": done.api,
            "model": _cut(done.model),
            "worker": done.worker,
            "attempts": done.attempts,
            "prompt_tokens": done.prompt_tokens,
            "completion_tokens": done.completion_tokens,
            "cached_tokens": done.cached_tokens,
            "format_violations": done.violations,
            "first_token_seconds": None if done.first_seconds is None else round(done.first_seconds, 4),
        }
    return fields


def _cut(text: str) -> str:
    """At most `LONGEST_WORD` characters of a text from a client."""
    return text[:LONGEST_WORD].encode("utf-8", "replace").decode()


def _word(value: object) -> str:
    """A value as it stands after `=`: quoted if it is not one word."""
    if type(value) is int or type(value) is float:
        return str(value)
    text = "-" if value is None or value == "" else str(value)
    return text if _ONE_WORD.fullmatch(text) else _plain(msgspec.json.encode(text).decode())
