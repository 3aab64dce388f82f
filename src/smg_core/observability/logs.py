"""Log lines as text or JSON, and the access log (edge: it configures logging).

The library never configures logging by itself: `smg-gateway serve`, or a user, calls `configure`. Lines never hold prompts,
answers or headers. Text from a client cannot start a new line: control characters are escaped. Above: processes.telemetry,
processes.serve. Below: `access_lines`, `line_writer`, `wordless`.
"""

import contextlib
import logging
import os
import sys
import time
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Literal

import msgspec

from smg_core.errors import SmgError
from smg_core.hooks import ExchangeEnded, Moment, RunEnded
from smg_core.observability.access_lines import JsonLines, TextLines, access_fields, fields_in_words, plain, time_stamp
from smg_core.observability.line_writer import LineWriter
from smg_core.observability.wordless import without_words
from smg_core.outside_words import Outside

__all__ = ["AccessLog", "as_logged", "configure", "set_level", "written_by"]

log = logging.getLogger("smg.access")

_Raised = tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]

WIRE_LIBRARIES = ("grpc", "hpack", "httpcore", "httpx")
"""Libraries that write whole headers of engines to their debug logs: an engine may repeat a credential in one."""


def _is_printed(record: logging.LogRecord) -> bool:
    """Whether a record is written: of other packages only those from info up. What they write for their own search for faults
    has what they are given: a database's driver, statements with what a request stores."""
    return record.levelno >= logging.INFO or record.name.startswith("smg")


class _Formatter(logging.Formatter):
    """Writes tracebacks, of this and of other packages. Only with `words` there is the text of exceptions, and what was said from
    outside as it was said."""

    def __init__(self, form: str | None = None, *, words: bool = False) -> None:
        super().__init__(form)
        self._words = words

    def formatException(self, ei: _Raised) -> str:  # noqa: N802  (logging's name)
        _, error, frames = ei
        if error is None or self._words:
            return super().formatException(ei)
        reported = without_words(error)
        return super().formatException((type(reported), reported, frames))

    def message_of(self, record: logging.LogRecord) -> str:
        """The message of a record. What asyncio says of an exception has lines with the exception's text."""
        message = _in_whole(record) if self._words else record.getMessage()
        return message.partition("\n")[0] if record.name == "asyncio" and not self._words else message


def _in_whole(record: logging.LogRecord) -> str:
    """A record's message with all that was said from outside."""
    args = record.args
    if not isinstance(args, tuple):
        return record.getMessage()
    whole = [each.whole if isinstance(each, SmgError | Outside) else each for each in args]
    return str(record.msg) % tuple(whole) if whole else record.getMessage()


class _TextFormatter(_Formatter):
    """One line for each record, and the traceback of an exception below it."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  (logging's name)
        record.message = plain(self.message_of(record))
        return super().formatMessage(record)


class _JsonFormatter(_Formatter):
    """One JSON object per line. A record with `fields` has these as members, in place of the message."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": time_stamp(record.created),
            "level": record.levelname.lower(),
            "pid": record.process,
            "logger": record.name,
        }
        fields = getattr(record, "fields", None)
        if fields is None:
            line["message"] = self.message_of(record)
        else:
            line |= fields
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return plain(msgspec.json.encode(line).decode())  # an escape within a JSON text is one of JSON's


def configure(level: str, form: Literal["text", "json"], *, words: bool = False) -> None:
    """Send logs to standard error, from `level` up; those of other packages from info up at least. With `words` tracebacks have
    the text of their exceptions."""
    stream = logging.StreamHandler(sys.stderr)
    text = _TextFormatter("%(asctime)s %(levelname)-7s %(process)d %(name)s: %(message)s", words=words)
    stream.setFormatter(_JsonFormatter(words=words) if form == "json" else text)
    stream.addFilter(_is_printed)
    root = logging.getLogger()
    root.handlers[:] = [stream]
    set_level(level)


class _Handed:
    """A stream that hands what is logged to a writer."""

    def __init__(self, writer: LineWriter) -> None:
        self._writer = writer

    def write(self, text: str) -> None:
        self._writer.write(text.encode(errors="backslashreplace"), urgent=True)

    def flush(self) -> None:
        """The writer does that."""


@contextlib.contextmanager
def written_by(writer: LineWriter) -> Iterator[None]:
    """While a writer writes what `configure` sends to standard error, so that whoever logs waits for nobody that reads it. In the
    end what it was given is written, and logs go to standard error again."""
    handlers = [each for each in logging.getLogger().handlers if type(each) is logging.StreamHandler]
    streams = [each.setStream(_Handed(writer)) for each in handlers]
    try:
        yield
    finally:
        for handler, stream in zip(handlers, streams, strict=True):
            handler.setStream(stream)
        writer.close()


def as_logged(name: str, sentence: str) -> bytes:
    """The line that a warning of the logger `name` is in the log, with its end, for who writes there by himself."""
    record = logging.makeLogRecord({"name": name, "levelno": logging.WARNING, "levelname": "WARNING", "msg": sentence})
    made = [handler.format(record) for handler in logging.getLogger().handlers[:1]] or [sentence]
    return f"{made[0]}\n".encode()


def set_level(level: str) -> None:
    """Log from `level` up: "debug", "info", "warning" or "error"."""
    logging.getLogger().setLevel(level.upper())
    for name in ("uvicorn", "uvicorn.error", "alembic"):  # their ordinary news is not the operator's
        logging.getLogger(name).setLevel(max(logging.WARNING, logging.getLevelName(level.upper())))
    for name in WIRE_LIBRARIES:
        logging.getLogger(name).setLevel(max(logging.WARNING, logging.getLevelName(level.upper())))


def _local_time(second: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(second))


class AccessLog:
    """Logs one line for every HTTP request, whatever its route and however it ended, and for every request of a batch and every
    response in the background.

    With `writer`, which `smg-gateway serve` has, its lines go there in the form that `configure` was told, and not through
    `logging`, whose records cost several times as much as the line. They are the same lines."""

    __slots__ = ("_line", "_now", "_report")

    hears = frozenset({ExchangeEnded, RunEnded})

    def __init__(
        self,
        writer: LineWriter | None = None,
        form: Literal["text", "json"] = "text",
        now: Callable[[], float] = time.time,
    ) -> None:
        self._now = now
        pid = os.getpid()
        self._line = TextLines(_local_time, pid) if form == "text" else JsonLines(pid)
        self._report = writer.write if writer is not None else None

    def report(self, moment: Moment) -> None:
        if not isinstance(moment, ExchangeEnded | RunEnded) or not log.isEnabledFor(logging.INFO):
            return
        if self._report is not None:
            self._report(self._line(moment, self._now()))
        else:
            fields = access_fields(moment)
            log.info("%s", _Words(fields), extra={"fields": fields})


class _Words:
    """The fields of a line as text, made only where a line of text is written."""

    __slots__ = ("_fields",)

    def __init__(self, fields: dict[str, object]) -> None:
        self._fields = fields

    def __str__(self) -> str:
        return fields_in_words(self._fields)
