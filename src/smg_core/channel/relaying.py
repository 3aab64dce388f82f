"""The supervisor's end of the channel: one thread that moves bytes between the processes (edge).

A thread of its own, so that a supervisor that waits for a process to end still passes messages on. Above: processes.supervisor.
Below: relay, which decides what is sent to whom.
"""

import contextlib
import selectors
import socket
import threading
from collections import deque
from collections.abc import Callable, Collection
from functools import partial

from smg_core.channel.frames import Splitter
from smg_core.channel.relay import Relay
from smg_core.channel.settings import ChannelConfig
from smg_core.errors import InternalError

__all__ = ["Relaying"]

READ_BYTES = 65536


class Relaying:
    """Passes the messages of processes on to all of them. `heard` becomes readable when a process has said a word, which `words`
    then returns. Sockets are the thread's alone; other threads leave it notes."""

    def __init__(self, settings: ChannelConfig) -> None:
        self._settings = settings
        self._relay = Relay(settings)
        self._sockets: dict[int, socket.socket] = {}
        self._splitters: dict[int, Splitter] = {}
        self._notes: deque[Callable[[], None] | None] = deque()
        self._words: deque[tuple[int, str]] = deque()
        self._bell, self._bell_end = _pair()
        self.heard, self._heard_end = _pair()
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._bell, selectors.EVENT_READ, None)
        self._thread = threading.Thread(target=self._run, name="channel", daemon=True)
        self._thread.start()

    def add(self, name: int, generation: int = 0) -> socket.socket:
        """A process of this number and generation begins: its end of the channel, to be closed here once the process has it."""
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        self._note(partial(self._add, name, ours, generation))
        return theirs

    def tell(self, name: int, word: str) -> None:
        """Say a word to a process."""
        self._note(partial(self._relay.tell, name, word))

    def began(self, generation: int, anew: Collection[str], oldest: int) -> None:
        """Processes of this generation are not told what was kept before of the kinds `anew`; of the generations before `oldest`
        none will be added any more."""
        self._note(partial(self._relay.began, generation, anew, oldest))

    def words(self) -> list[tuple[int, str]]:
        """What processes have said since the last call: each with its number."""
        with contextlib.suppress(BlockingIOError):
            while self.heard.recv(READ_BYTES):
                pass
        found = []
        while self._words:
            found.append(self._words.popleft())
        return found

    def close(self) -> None:
        """End the thread, and close what it has."""
        self._note(None)
        self._thread.join()
        for each in (self._bell, self._bell_end, self.heard, self._heard_end):
            each.close()

    def _note(self, call: Callable[[], None] | None) -> None:
        """Have the thread do this, and end after None."""
        self._notes.append(call)
        _ring(self._bell_end)

    def _run(self) -> None:
        while self._heed_notes():
            for key, events in self._selector.select():
                if key.data is None:
                    with contextlib.suppress(BlockingIOError):
                        self._bell.recv(READ_BYTES)
                    continue
                if events & selectors.EVENT_READ:
                    self._read(key.data)
                if events & selectors.EVENT_WRITE:
                    self._write(key.data)
            self._watch()
        for name in list(self._sockets):
            self._gone(name)
        self._selector.close()

    def _heed_notes(self) -> bool:
        """Do what other threads have asked for; False once that is to end."""
        while self._notes:
            call = self._notes.popleft()
            if call is None:
                return False
            call()
        self._watch()
        return True

    def _add(self, name: int, sock: socket.socket, generation: int) -> None:
        self._sockets[name] = sock
        self._splitters[name] = Splitter(self._settings.message_bytes)
        self._selector.register(sock, selectors.EVENT_READ, name)
        self._relay.joined(name, generation)

    def _watch(self) -> None:
        """Look for room in the sockets of those for whom something waits, and of no others."""
        for name, sock in self._sockets.items():
            events = selectors.EVENT_READ
            if self._relay.waiting(name) is not None:
                events |= selectors.EVENT_WRITE
            if self._selector.get_key(sock).events != events:
                self._selector.modify(sock, events, name)

    def _read(self, name: int) -> None:
        try:
            data = self._sockets[name].recv(READ_BYTES)
            frames = self._splitters[name].feed(data)
        except BlockingIOError:
            return
        except (OSError, InternalError):
            data, frames = b"", []
        for frame in frames:
            word = self._relay.received(name, frame)
            if word is not None:
                self._words.append((name, word))
                _ring(self._heard_end)
        if not data:
            self._gone(name)

    def _write(self, name: int) -> None:
        if name not in self._sockets:
            return
        waiting = self._relay.waiting(name)
        try:
            while waiting is not None:
                self._relay.wrote(name, self._sockets[name].send(waiting))
                waiting = self._relay.waiting(name)
        except BlockingIOError:
            return
        except OSError:
            self._gone(name)

    def _gone(self, name: int) -> None:
        sock = self._sockets.pop(name)
        self._splitters.pop(name)
        self._selector.unregister(sock)
        sock.close()
        self._relay.left(name)


def _pair() -> tuple[socket.socket, socket.socket]:
    """A bell and what rings it; neither blocks."""
    bell, end = socket.socketpair()
    bell.setblocking(False)
    end.setblocking(False)
    return bell, end


def _ring(end: socket.socket) -> None:
    with contextlib.suppress(BlockingIOError):  # it rings already
        end.send(b"\0")
