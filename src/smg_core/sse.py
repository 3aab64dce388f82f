"""Server-sent events: bytes in any pieces to events, and events to bytes.

Decides how a stream is cut into events, as the HTML standard has it: lines end in LF, CR or CRLF, also where a CRLF is split
between two reads; a leading byte order mark is skipped; comments are skipped; `data` lines are joined by LF; an event
without data, or cut short by the end of the stream, is dropped. An event over its size limit is an error, raised before it is
held in memory. Above: engines that speak HTTP send such streams. Below: errors. It knows no API's payloads.
"""

import re

import attrs

from smg_core.errors import EngineGarbled

__all__ = ["COMMENT", "ServerSentEvent", "SseReader", "write_event"]

COMMENT = b": ping\n\n"
"""A comment: readers pass over it."""

_BOM = b"\xef\xbb\xbf"
_LINE_END = re.compile(rb"\r\n|\r|\n")
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
