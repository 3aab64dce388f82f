"""A mesh between processes of one machine: datagram sockets in a folder that their owner alone may enter (edge).

The system tells who sends, so no name can be borrowed; whoever may write to the folder is a member. A member that was killed is
found at once, since nobody listens at its socket any more. Above: the table of carriers. Below: the heartbeats, the keys.
"""

import asyncio
import contextlib
import os
import re
import socket
from collections.abc import AsyncIterator, Sequence
from itertools import count
from pathlib import Path

import msgspec

from smg_core.mesh.base import Ears, SeenMember, Unreachable
from smg_core.mesh.carriers.rows import LinkTerms
from smg_core.mesh.heartbeats import Heartbeats
from smg_core.mesh.mesh_keys import MeshKeys
from smg_core.settings import ConfigError

__all__ = ["LocalLink"]

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_PATH_BYTES = 104  # of a socket's path, on the systems that allow least
_LARGEST = 64 << 10
_ENDING = ".sock"
_BEAT, _LEAVES, _DATA = b"b", b"l", b"d"
_LOOKS_EACH = 4
"""After so many beats the folder is looked into for others."""
_AT_ONCE = 64
"""Messages that are read before others have their turn."""


class _Hello(msgspec.Struct, frozen=True, array_like=True):
    start: int
    formats: str
    version: str


_hello = msgspec.msgpack.Decoder(_Hello).decode


class LocalLink:
    """One member's link, over sockets in `mesh.folder`."""

    largest = _LARGEST

    def __init__(self, terms: LinkTerms) -> None:
        settings = terms.settings
        if settings.folder is None:
            raise ConfigError("mesh.folder: kind local needs a folder for its sockets")
        if not _NAME.fullmatch(terms.name):
            raise ConfigError("mesh.name: letters, digits, dots, dashes and underscores, at most 64")
        self._terms, self._folder = terms, Path(settings.folder).expanduser().resolve()
        self._keys = MeshKeys(terms.keys, settings.cluster)
        self._path = self._folder / f"{terms.name}{_ENDING}"
        self._begins = f"{self._folder}{os.sep}"
        if len(os.fsencode(self._path)) > _PATH_BYTES:
            raise ConfigError(
                f"mesh.folder: with the name it is longer than the {_PATH_BYTES} bytes that a socket may have"
            )
        self._start = int(terms.clock.time() * 1000)
        self._sock: socket.socket | None = None
        self._heartbeats: Heartbeats | None = None
        self._ears: Ears | None = None
        self.refused = 0

    @property
    def members(self) -> Sequence[SeenMember]:
        return self._heartbeats.members if self._heartbeats is not None else ()

    @property
    def place(self) -> str:
        return str(self._path)

    @contextlib.asynccontextmanager
    async def opened(self, ears: Ears) -> AsyncIterator[None]:
        settings, loop = self._terms.settings, asyncio.get_running_loop()
        self._heartbeats = Heartbeats(ears, settings.suspect_s, settings.dead_s, settings.members)
        self._ears, self._sock = ears, self._bound()
        loop.add_reader(self._sock, self._readable)
        beating = loop.create_task(self._beat(), name="mesh beats")
        try:
            yield
        finally:
            beating.cancel()
            await asyncio.gather(beating, return_exceptions=True)
            loop.remove_reader(self._sock)
            self._to_all(_LEAVES, b"")
            self._sock.close()
            self._sock = None
            self._path.unlink(missing_ok=True)

    def _bound(self) -> socket.socket:
        """The socket of this member. Raises ConfigError where another process has the name."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if self._folder.stat().st_mode & 0o022:
            raise ConfigError("mesh.folder: others than its owner may write to it")
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            sock.setblocking(False)
            self._take_name(sock)
            sock.bind(str(self._path))
        except BaseException:
            sock.close()
            raise
        return sock

    def _take_name(self, sock: socket.socket) -> None:
        """Take the place of an earlier start of this name, unless it still runs."""
        if self._path.exists():
            if sock.connect_ex(str(self._path)) == 0:
                raise ConfigError(f"mesh.name: {self._terms.name} is taken by a process that runs")
            self._path.unlink(missing_ok=True)

    async def adopt_keys(self, keys: Sequence[bytes]) -> None:
        self._keys.adopt(keys)

    async def send(self, to: str, data: bytes) -> None:
        if self._sock is None or self._heartbeats is None or not self._heartbeats.knows(to):
            raise Unreachable(f"no member {to!r}")
        if len(data) > _LARGEST:
            raise Unreachable(f"a message of {len(data)} bytes is larger than {_LARGEST}")
        self._to(to, self._keys.marked(self._terms.name, _DATA + data))

    async def send_all(self, data: bytes) -> None:
        if self._sock is None or len(data) > _LARGEST:
            raise Unreachable("not open, or too large")
        self._to_all(_DATA, data)

    def _place_of(self, name: str) -> str:
        return f"{self._begins}{name}{_ENDING}"

    def _to_all(self, kind: bytes, data: bytes) -> None:
        message = self._keys.marked(self._terms.name, kind + data)
        for each in self.members:
            self._to(each.name, message)

    def _to(self, name: str, message: bytes) -> None:
        """Send to one, who may be slow (then the message is lost) or gone (then it is known)."""
        if self._sock is None or self._heartbeats is None or self._ears is None:
            return
        try:
            self._sock.sendto(message, self._place_of(name))
        except BlockingIOError:
            pass
        except OSError:
            if self._heartbeats.lose(name):
                self._ears.lost(name)

    async def _beat(self) -> None:
        """Say that this member is there, and look who is not any more. Those that come greet all whose sockets are in the folder,
        so that it need not be looked into each time. All do that at the same times of the machine's clock: a member wakes up
        once for the words of all others."""
        terms, clock = self._terms, self._terms.clock
        each_s = terms.settings.suspect_s / 2.5
        hello = _BEAT + msgspec.msgpack.encode(_Hello(self._start, terms.formats, terms.version))
        for number in count():
            if self._heartbeats is None:
                return
            message = self._keys.marked(terms.name, hello)
            if number % _LOOKS_EACH:
                names = [each.name for each in self.members]
            else:
                names = [path.stem for path in await asyncio.to_thread(self._others)]
            for name in names:
                self._to(name, message)
            due_s = self._heartbeats.look(clock.monotonic())
            await asyncio.sleep(min(due_s, each_s - clock.monotonic() % each_s))

    def _others(self) -> list[Path]:
        found = sorted(path for path in self._folder.glob(f"*{_ENDING}") if path != self._path)
        return found[: self._terms.settings.members]

    def _readable(self) -> None:
        for _ in range(_AT_ONCE):
            try:
                message, _, _, address = (
                    self._sock.recvmsg(_LARGEST + 64) if self._sock is not None else (b"", [], 0, "")
                )
            except (BlockingIOError, InterruptedError):
                return
            except OSError:
                continue
            if not message or not isinstance(address, str):
                return
            self._take(address, message)

    def _take(self, address: str, message: bytes) -> None:
        heartbeats, ears = self._heartbeats, self._ears
        sender = address.removeprefix(self._begins).removesuffix(_ENDING)
        if heartbeats is None or ears is None or address != self._place_of(sender):
            self.refused += 1
            return
        known = heartbeats.knows(sender)
        body = self._keys.opened(sender, message) if known or _NAME.fullmatch(sender) else None
        if body is None:
            self.refused += 1
            return
        kind, data = body[:1], body[1:]
        if kind == _BEAT:
            self._greeted(heartbeats, sender, data, new=not known)
        elif kind == _LEAVES:
            heartbeats.left(sender)
        elif kind == _DATA and known:
            ears.heard(sender, data)

    def _greeted(self, heartbeats: Heartbeats, name: str, data: bytes, *, new: bool) -> None:
        try:
            hello = _hello(data)
        except msgspec.MsgspecError:
            self.refused += 1
            return
        member = SeenMember(name, hello.formats, hello.version, self._place_of(name))
        heartbeats.heard(member, hello.start, self._terms.clock.monotonic())
        if new:  # which need not wait for the next beat to know us
            terms = self._terms
            answer = _BEAT + msgspec.msgpack.encode(_Hello(self._start, terms.formats, terms.version))
            self._to(name, self._keys.marked(terms.name, answer))
