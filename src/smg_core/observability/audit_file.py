"""The file of the audit log (edge).

Lines are only ever appended. Beside FILE is FILE.head: it remembers the last line, and its lock lets one writer at a time in,
of this process or another. So several processes write one chain, a restart goes on with it, and lines that are missing at the
end are noticed when the next one is written. A full file is renamed, and the next one goes on with the chain. Above:
admin.auditing. Below: `audit_chain`.
"""

import contextlib
import logging
import os
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import attrs
import msgspec

from smg_core.observability.audit_chain import LONGEST_LINE, AuditHead, audit_line, read_tail, torn_of
from smg_core.observability.settings import AuditConfig

__all__ = ["AuditFile", "AuditFileBroken"]

log = logging.getLogger("smg.audit")

_TAIL = 4 * LONGEST_LINE  # bytes of the end of a file that are looked at for its last line
_HEAD_BYTES = 512


class AuditFileBroken(OSError):
    """The file is there and is no audit log, or its end is not."""


class _Remembered(msgspec.Struct):
    """What FILE.head says: the last line, and how long the file was after it."""

    chain: str
    seq: int
    hash: str
    size: int


@attrs.frozen
class _Place:
    """Where the next line goes: what it follows, what it says of the bytes before it, and the length of the file."""

    after: AuditHead | None
    size: int
    notes: Mapping[str, object] = attrs.field(factory=dict)
    ends_line: bool = True


class AuditFile:
    """Appends to the file that the settings name. `stamp` gives the time of a line as text, `ids` the name of a new chain."""

    def __init__(self, settings: AuditConfig, stamp: Callable[[], str], ids: Callable[[str], str]) -> None:
        self._path = Path(settings.file or "").expanduser()
        self._head_path = self._path.with_name(self._path.name + ".head")
        self._settings, self._stamp, self._ids = settings, stamp, ids
        self._sync = settings.fsync == "always"
        self._lock = threading.Lock()

    def check(self) -> None:
        """Raise OSError where no line could be written; AuditFileBroken is one. Writes no line."""
        if self._path.exists() and not self._path.is_file():
            raise AuditFileBroken(f"{self._path} is no file that lines can be appended to")
        with self._alone() as head, self._opened() as file:
            self._place(file, head)
            self._find_room(head)

    def append(self, fields: Mapping[str, object]) -> AuditHead:
        """Write a line, and return its head once it is where the settings want it. It waits for the disk and for other writers,
        so it is not for an event loop's thread. Raises OSError where that fails, and ValueError for a line too long."""
        with self._alone() as head:
            with self._opened() as file:
                place = self._place(file, head)
                if place.size < self._settings.file_bytes:
                    return self._append(file, head, place, fields)
            self._set_aside(head, place)
            with self._opened() as file:
                return self._append(file, head, self._place(file, head), fields)

    @contextlib.contextmanager
    def _alone(self) -> Iterator[int]:
        """A context in which nobody else writes; gives FILE.head, open."""
        with self._lock:
            head = os.open(self._head_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                _lock_for_processes(head)
                yield head
            finally:
                os.close(head)

    @contextlib.contextmanager
    def _opened(self) -> Iterator[int]:
        file = os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            yield file
        finally:
            os.close(file)

    def _place(self, file: int, head: int) -> _Place:
        """Where the next line goes. Raises AuditFileBroken."""
        size, known = os.fstat(file).st_size, self._remembered(head)
        last = None if known is None else AuditHead(known.chain, known.seq, known.hash)
        if known is not None and known.size == size:
            return _Place(last, size)
        if size == 0:
            if last is not None:
                log.error("%s is gone: line %d was its last one", self._path, last.seq)
            return _Place(last, 0, {"lost": True} if last is not None else {})
        end = os.pread(file, _TAIL, max(0, size - _TAIL))
        found, piece = read_tail(end)
        if (found is None and (size > LONGEST_LINE or last is None)) or len(piece) > LONGEST_LINE:
            raise AuditFileBroken(f"{self._path} does not end as an audit log does")
        if piece:
            log.warning("%s has %d bytes at its end that are no whole line", self._path, len(piece))
        notes = {"torn": torn_of(piece)} if piece else {}
        if last is not None and (found is None or found.chain != last.chain or found.seq < last.seq):
            log.error("%s was cut: its last line is not line %d", self._path, last.seq)
            found = last
        return _Place(found, size, notes, end.endswith(b"\n"))

    def _remembered(self, head: int) -> _Remembered | None:
        text = os.pread(head, _HEAD_BYTES, 0)
        try:
            return msgspec.json.decode(text, type=_Remembered) if text.strip() else None
        except (msgspec.DecodeError, UnicodeDecodeError):
            log.warning("%s cannot be read, so the end of %s is not compared with it", self._head_path, self._path)
            return None

    def _append(self, file: int, head: int, place: _Place, fields: Mapping[str, object]) -> AuditHead:
        """Write a line of `fields`, behind the first one of the file where that is missing."""
        lines, last, notes = [] if place.ends_line else [b""], place.after, dict(place.notes)
        if place.size == 0:
            event = "chain_started" if last is None else "file_started"
            chain = self._ids("audit-") if last is None else last.chain
            line, last = audit_line({"time": self._stamp(), "event": event, **notes}, chain, last)
            lines, notes = [line], {}
        if last is None:
            raise AuditFileBroken(f"{self._path} has no line")
        line, last = audit_line({"time": self._stamp(), **fields, **notes}, last.chain, last)
        data = b"\n".join([*lines, line, b""])
        self._write(file, data, place.size)
        self._remember(head, last, place.size + len(data))
        return last

    def _write(self, file: int, data: bytes, size: int) -> None:
        """Append all of `data`, or leave the file as it was, as far as the system lets it."""
        written = 0
        try:
            while written < len(data):
                written += os.write(file, data[written:])
        except OSError:
            with contextlib.suppress(OSError):  # a file that may only be appended to; the next line says what is there
                os.ftruncate(file, size)
            raise
        if self._sync:
            os.fsync(file)
            if size == 0:
                self._sync_folder()

    def _remember(self, head: int, last: AuditHead, size: int) -> None:
        text = msgspec.json.encode(_Remembered(last.chain, last.seq, last.hash, size))
        os.pwrite(head, text.ljust(_HEAD_BYTES - 1) + b"\n", 0)

    def _find_room(self, head: int) -> None:
        """Raise OSError where the disk has no room for a line beside the two files."""
        size = os.fstat(head).st_size
        try:
            at, end = max(size, _HEAD_BYTES), max(size, _HEAD_BYTES) + LONGEST_LINE
            while at < end:
                at += os.pwrite(head, b" " * (end - at), at)
            if self._sync:
                os.fsync(head)
        finally:
            os.ftruncate(head, size)

    def _set_aside(self, head: int, place: _Place) -> None:
        """Rename a full file, and remove the oldest where there are too many. A process that is killed in between leaves a head
        that is behind its file, which is no fault; the other way round, the file would count as lost."""
        if place.after is not None:
            self._remember(head, place.after, 0)
            self._path.replace(self._path.with_name(f"{self._path.name}.{place.after.seq:018d}"))
        if self._settings.files:
            kept = re.compile(re.escape(self._path.name) + r"\.\d{18}")
            aside = sorted(each for each in self._path.parent.iterdir() if kept.fullmatch(each.name))
            for each in aside[: -self._settings.files]:
                each.unlink(missing_ok=True)

    def _sync_folder(self) -> None:
        folder = os.open(self._path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _lock_for_processes(file: int) -> None:
    """Lock an open file for this process, until it is closed. Does nothing on a system that has no such locks."""
    try:
        import fcntl
    except ImportError:
        return
    fcntl.flock(file, fcntl.LOCK_EX)
