"""Server-sent events: bytes in any pieces to events, and events to bytes.

Decides how a stream is cut into events, as the HTML standard has it: lines end in LF, CR or CRLF, also where a CRLF is split
between two reads; a leading byte order mark is skipped; comments are skipped; `data` lines are joined by LF; an event
without data, or cut short by the end of the stream, is dropped. An event over its size limit is an error, raised before it is
held in memory. Above: engines that speak HTTP send such streams. Below: errors. It knows no API's payloads.
"""

import re

import attrs

from smg_core.errors import EngineGarbled

__all__ = ["COMMENT", "DONE", "DataReader", "ServerSentEvent", "SseReader", "write_event"]

COMMENT = b": ping\n\n"
"""A comment: readers pass over it."""

DONE = b"[DONE]"
"""The data of the last event of a stream, in OpenAI's APIs and those that follow them."""

_BOM = b"\xef\xbb\xbf"
_LINE_END = re.compile(rb"\r\n|\r|\n")
_LF = 10
_MAX_EVENT_BYTES = 8 * 1024 * 1024


@attrs.frozen
class ServerSentEvent:
    """One event. `id` is the last event id as of this event; `retry` the reconnection time in ms, if this event set it."""

    data: str
    event: str = "message"
    id: str = ""
    retry: int | None = None


class SseReader:
    """Reads one stream. `max_event_bytes` bounds the size of an event, complete or not."""

    def __init__(self, *, max_event_bytes: int = _MAX_EVENT_BYTES) -> None:
        self._limit = max_event_bytes
        self._held: list[bytes] = []  # pieces of the line that has not ended yet
        self._size = 0  # bytes of the event so far, the unfinished line included
        self._after_cr = False
        self._first_line = True
        self._data: list[str] = []
        self._event = ""
        self._id = ""
        self._retry: int | None = None

    def feed(self, chunk: bytes) -> list[ServerSentEvent]:
        """The events that `chunk` completes. Raises `EngineGarbled` when one is too large."""
        if not chunk:
            return []
        if self._after_cr and chunk.startswith(b"\n"):
            chunk = chunk[1:]
        self._after_cr = chunk.endswith(b"\r") if chunk else False
        events: list[ServerSentEvent] = []
        position = 0
        for end in _LINE_END.finditer(chunk):
            self._hold(chunk[position : end.start()])
            self._line(b"".join(self._held), events)
            self._held.clear()
            position = end.end()
        self._hold(chunk[position:])
        return events

    def _hold(self, piece: bytes) -> None:
        self._size += len(piece)
        if self._size > self._limit:
            raise EngineGarbled(f"The upstream sent an event of more than {self._limit} bytes.")
        if piece:
            self._held.append(piece)

    def _line(self, line: bytes, events: list[ServerSentEvent]) -> None:
        if self._first_line:
            self._first_line = False
            line = line.removeprefix(_BOM)
        if not line:
            self._dispatch(events)
            return
        name, colon, value = line.partition(b":")
        if not name and colon:
            self._size -= len(line)  # a comment is not part of an event, however many there are
            return
        self._field(name, value.removeprefix(b" ").decode("utf-8", "replace"))

    def _field(self, name: bytes, value: str) -> None:
        if name == b"data":
            self._data.append(value)
        elif name == b"event":
            self._event = value
        elif name == b"id":
            if "\0" not in value:
                self._id = value
        elif name == b"retry" and value.isascii() and value.isdigit() and len(value) < 10:
            self._retry = int(value)

    def _dispatch(self, events: list[ServerSentEvent]) -> None:
        if self._data:
            events.append(ServerSentEvent("\n".join(self._data), self._event or "message", self._id, self._retry))
        self._data = []
        self._event, self._retry, self._size = "", None, 0


class DataReader:
    """Reads the data of one stream's events and nothing else of them, several times as fast as `SseReader`. The data are bytes as
    they came, since JSON is decoded from bytes. `max_event_bytes` bounds what is held of an event that is not complete."""

    __slots__ = ("_after_cr", "_begun", "_held", "_limit", "_line_over", "_size")

    def __init__(self, *, max_event_bytes: int = _MAX_EVENT_BYTES) -> None:
        self._limit = max_event_bytes
        self._held: list[bytes] = []  # pieces of the event that is not complete
        self._size = 0
        self._line_over = False  # what is held ends in a line end
        self._after_cr = False
        self._begun = False

    def feed(self, chunk: bytes) -> list[bytes]:
        """The data of the events that `chunk` completes. Raises `EngineGarbled` when one is too large."""
        if b"\r" in chunk or self._after_cr:
            chunk = self._with_lf(chunk)
        if not self._begun:
            chunk = self._begin(chunk)
        if not chunk:
            return []
        if b"\n\n" not in chunk and not (self._line_over and chunk[0] == _LF):
            self._hold(chunk)
            return []
        if self._held:
            self._held.append(chunk)
            chunk = b"".join(self._held)
            self._held.clear()
            self._size = 0
        *blocks, rest = chunk.split(b"\n\n")
        found = []
        for block in blocks:
            if block[:6] == b"data: " and b"\n" not in block:
                found.append(block[6:])
            elif (data := _data_of(block)) is not None:
                found.append(data)
        if rest:
            self._hold(rest)
        else:
            self._line_over = False
        return found

    def rest(self) -> bytes | None:
        """The data of an event that the end of the stream cut off behind them: its last line end may be missing. None where there
        is none."""
        held = b"".join(self._held)
        self._held.clear()
        return _data_of(held)

    def _hold(self, piece: bytes) -> None:
        self._held.append(piece)
        self._line_over = piece[-1] == _LF
        self._size += len(piece)
        if self._size > self._limit:
            self._drop_comments()

    def _drop_comments(self) -> None:
        """A comment is not part of an event, however many there are."""
        lines = b"".join(self._held).split(b"\n")
        kept = b"\n".join([line for line in lines[:-1] if line[:1] != b":"] + lines[-1:])
        self._held, self._size = [kept] if kept else [], len(kept)
        self._line_over = kept[-1:] == b"\n"
        if self._size > self._limit:
            raise EngineGarbled(f"The upstream sent an event of more than {self._limit} bytes.")

    def _with_lf(self, chunk: bytes) -> bytes:
        """`chunk` with LF for every line end, also for a CRLF that is split between two reads."""
        if self._after_cr and chunk[:1] == b"\n":
            chunk = chunk[1:]
        self._after_cr = chunk[-1:] == b"\r"
        return chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")

    def _begin(self, chunk: bytes) -> bytes:
        """The first bytes, without a byte order mark."""
        start = b"".join((*self._held, chunk))
        self._held.clear()
        if len(start) < len(_BOM) and _BOM.startswith(start):
            self._held.append(start)
            return b""
        self._begun = True
        return start.removeprefix(_BOM)


def _data_of(block: bytes) -> bytes | None:
    """The data lines of an event, joined by LF; None where it has none."""
    lines = []
    for line in block.split(b"\n"):
        name, _, value = line.partition(b":")
        if name == b"data":
            lines.append(value.removeprefix(b" "))
    return b"\n".join(lines) if lines else None


def write_event(data: bytes, event: str | None = None, event_id: str | None = None) -> bytes:
    """The frame of one event. Each line of `data` becomes a data line. Raises `ValueError` when `event` or `event_id` holds a
    line end."""
    lines: list[bytes] = []
    for name, value in ((b"event", event), (b"id", event_id)):
        if value is None:
            continue
        if "\n" in value or "\r" in value or "\0" in value:
            raise ValueError(f"the {name.decode()} of a server-sent event is one line")
        lines.append(name + b": " + value.encode())
    lines += [b"data: " + line for line in _LINE_END.split(data)]
    return b"\n".join(lines) + b"\n\n"
