"""A process's end of the channel (edge).

Reads what the supervisor sends, calls the subscribers in the one order, and tells the supervisor what was taken. Above:
processes.serve makes it, the runtime and its rooms publish and subscribe. Below: base, frames.
"""

import asyncio
import contextlib
import socket
from collections.abc import Callable
from typing import Self

from smg_core.channel.base import Notice, Subscriber, Subscriptions, check_size
from smg_core.channel.frames import (
    Began,
    Caught,
    Declined,
    Delivered,
    Frame,
    Publish,
    Settled,
    Splitter,
    Took,
    Word,
    encoded,
)
from smg_core.channel.settings import ChannelConfig
from smg_core.errors import Draining, Overloaded

__all__ = ["MemberChannel"]

READ_BYTES = 65536


class MemberChannel:
    """The channel of one of several processes, over `sock` to the supervisor; `on_word`, which may be set, is called with
    each word that the supervisor says. To be entered in the event loop: it returns once all that was kept is known here."""

    def __init__(
        self, sock: socket.socket, settings: ChannelConfig, on_word: Callable[[str], None] = lambda word: None
    ) -> None:
        self._sock = sock
        self._settings = settings
        self.on_word = on_word
        self._subscriptions = Subscriptions(settings)
        self._splitter = Splitter(settings.message_bytes)
        self._replayed: set[tuple[str, str]] | None = None  # while all that is kept is told: the keys
        self._token = 0
        self._own: dict[int, asyncio.Future[int]] = {}
        self._settled = 0
        self._outgoing: list[bytes] = []
        self._outgoing_bytes = 0
        self._wake = asyncio.Event()
        self._changed = asyncio.Event()
        self._caught = asyncio.Event()
        self._closed = False
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        self._sock.setblocking(False)
        self._loop = asyncio.get_running_loop()
        self._tasks = [
            self._loop.create_task(self._read(), name="channel in"),
            self._loop.create_task(self._write(), name="channel out"),
        ]
        await self._caught.wait()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._close()
        self._sock.close()

    def subscribe(self, kind: str, receive: Subscriber) -> None:
        self._subscriptions.add(kind, receive)

    async def publish(self, kind: str, body: bytes, *, key: str = "") -> int:
        check_size(kind, key, body, self._settings)
        if self._closed:
            raise Draining("This gateway is shutting down.")
        self._token += 1
        token = self._token
        self._send(encoded(Publish(kind, key, body, token)))
        done = self._own[token] = self._loop.create_future()
        try:
            async with asyncio.timeout(self._settings.publish_s):
                number: int = await done
                return number
        except TimeoutError:
            detail = "no answer in channel.publish_s"
            raise Overloaded("It is not known whether this change was made.", detail=detail) from None
        finally:
            del self._own[token]

    async def settled(self, number: int, seconds: float) -> bool:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self._settled < number and not self._closed:
                    self._changed.clear()
                    await self._changed.wait()
        return self._settled >= number

    def say(self, word: str) -> None:
        """Say a word to the supervisor."""
        if not self._closed:
            self._send(encoded(Word(word)))

    def _send(self, data: bytes) -> None:
        if self._outgoing_bytes + len(data) > self._settings.pending_bytes and self._outgoing:
            raise Overloaded("The gateway does not take changes now.", detail="channel.pending_bytes is reached")
        self._outgoing.append(data)
        self._outgoing_bytes += len(data)
        self._wake.set()

    async def _write(self) -> None:
        with contextlib.suppress(OSError):  # the supervisor is gone, which the reading side finds
            while True:
                await self._wake.wait()
                self._wake.clear()
                data = b"".join(self._outgoing)
                self._outgoing.clear()
                await self._loop.sock_sendall(self._sock, data)
                self._outgoing_bytes -= len(data)

    async def _read(self) -> None:
        try:
            while data := await self._loop.sock_recv(self._sock, READ_BYTES):
                for frame in self._splitter.feed(data):
                    self._take(frame)
                await asyncio.sleep(0)  # data that is there already is read without waiting
        except OSError:
            pass
        finally:
            self._close()

    def _close(self) -> None:
        """The supervisor is gone, or this process goes."""
        self._closed = True
        self._changed.set()
        self._caught.set()
        for done in self._own.values():
            if not done.done():
                done.set_exception(Draining("This gateway is shutting down."))

    def _take(self, frame: Frame) -> None:
        if isinstance(frame, Delivered):
            self._delivered(frame)
        elif isinstance(frame, Began):
            self._replayed = set()
        elif isinstance(frame, Caught):
            self._replay_over(frame)
        elif isinstance(frame, Settled):
            self._settled = frame.number
            self._changed.set()
        elif isinstance(frame, Declined):
            self._answer(frame.token, None)
        elif isinstance(frame, Word):
            self.on_word(frame.word)

    def _delivered(self, frame: Delivered) -> None:
        if self._replayed is not None:
            self._replayed.add((frame.kind, frame.key))
            if frame.number <= self._subscriptions.kept.number_of(frame.kind, frame.key):
                return
        self._call(Notice(frame.kind, frame.key, frame.body, frame.number))
        if self._replayed is None:
            self._loop.call_soon(self._called, frame.number, frame.token)

    def _call(self, message: Notice) -> None:
        """Have the subscribers called, each by the event loop, which logs what one of them raises."""
        for receive in self._subscriptions.note(message):
            self._loop.call_soon(receive, message)

    def _replay_over(self, frame: Caught) -> None:
        """What is kept here and was not told has been forgotten meanwhile."""
        addressees, self._replayed = self._replayed or set(), None
        for message in self._subscriptions.kept:
            if (message.kind, message.key) not in addressees:
                self._call(Notice(message.kind, message.key, b"", frame.number))
        self._loop.call_soon(self._called, frame.number, frame.token, frame.token)
        self._loop.call_soon(self._caught.set)

    def _called(self, number: int, token: int, up_to: int = 0) -> None:
        """The subscribers were called with the messages up to this number: answer who has sent it, or, of those that were told
        as state, all up to a token."""
        for each in [token] if not up_to else [own for own in self._own if own <= up_to]:
            self._answer(each, number)
        if not self._closed:
            self._send(encoded(Took(number)))

    def _answer(self, token: int, number: int | None) -> None:
        done = self._own.get(token)
        if done is None or done.done():
            return
        if number is None:
            detail = "channel.keys or channel.kept_bytes is reached"
            done.set_exception(Overloaded("No more changes can be kept.", detail=detail))
        else:
            done.set_result(number)
