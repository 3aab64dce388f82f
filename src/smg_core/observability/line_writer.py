"""Writes lines to a file from a thread of its own (edge): who hands a line over neither waits for the file nor for the system.

Lines are gathered for a moment and written together, in pieces that a pipe takes whole, so that those of several processes do
not mix; lines that are urgent are written at once, with those before them. What waits is bounded: where the file takes nothing,
further lines are dropped and counted, and the count is written when it takes lines again. A part of the bound is kept for urgent
lines. `close` writes what is left. A process that is killed loses the lines of the last moment. Above: `logs`.
"""

import os
import select
import threading
from collections import deque
from collections.abc import Callable

__all__ = ["LineWriter"]

_AT_ONCE: int = getattr(select, "PIPE_BUF", 512)  # bytes that a pipe takes whole


class LineWriter:
    """Writes to the file descriptor `file`, every `seconds` if there is something; `most` bytes may wait, and three quarters of
    them where all lines can wait. `as_logged` makes a line of the log of a sentence: what says how many lines were dropped."""

    def __init__(self, file: int, seconds: float, most: int, as_logged: Callable[[str], bytes]) -> None:
        self._file, self._seconds, self._most, self._patient = file, seconds, most, most * 3 // 4
        self._as_logged = as_logged
        self._lines: deque[bytes] = deque()
        # Held while a line is handed over. A line that is written while one is handed over, by a destructor, comes in between.
        self._handing = threading.RLock()
        self._given = self._dropped = 0  # bytes and lines; written by who calls `write` alone
        self._taken = self._logged = 0  # the same; written by the thread alone
        self._some, self._hurry, self._closing = threading.Event(), threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="log", daemon=True)
        self._thread.start()

    def write(self, line: bytes, *, urgent: bool = False) -> None:
        """Hand over a line with its end. May be called in any thread."""
        with self._handing:
            waiting = self._given - self._taken + len(line)
            if waiting > self._most or (waiting > self._patient and not urgent):
                self._dropped += 1
                return
            self._given += len(line)
            self._lines.append(line)
        if urgent:
            self._hurry.set()
        if not self._some.is_set():
            self._some.set()

    def close(self) -> None:
        """Write what is left, and end. Returns when it is written, or cannot be."""
        self._closing.set()
        self._hurry.set()
        self._some.set()
        self._thread.join(max(1.0, 10 * self._seconds))

    def _run(self) -> None:
        while not self._closing.is_set():
            self._some.wait()
            self._hurry.wait(self._seconds)
            self._hurry.clear()
            self._some.clear()
            self._write_all()
        self._write_all()

    def _write_all(self) -> None:
        """Write the lines that are there, in pieces that a pipe takes whole where a line is no longer than that."""
        piece: list[bytes] = []
        size = 0
        while self._lines:
            line = self._lines.popleft()
            if size and size + len(line) > _AT_ONCE:
                self._write_piece(b"".join(piece))
                piece, size = [], 0
            piece.append(line)
            size += len(line)
            self._taken += len(line)
        dropped, self._logged = self._dropped - self._logged, self._dropped
        if dropped:
            piece.append(self._as_logged(f"{dropped} lines of the log were dropped: nobody took them"))
        self._write_piece(b"".join(piece))

    def _write_piece(self, piece: bytes) -> None:
        while piece:
            try:
                piece = piece[os.write(self._file, piece) :]
            except BlockingIOError:
                select.select([], [self._file], [])
            except OSError:
                return  # nobody reads the log any more
