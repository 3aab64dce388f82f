"""A mesh over a Valkey or Redis that all members ask: a set of who was there when, and a stream for what is told (edge).

The server's clock says when each was there last, so members need not agree about the time. A message to all is one entry of one
stream, and each member has a stream of its own for what is meant for it alone. While the server does not answer, a member is
alone. Above: the table of carriers. Below: the heartbeats, the keys, redis-py.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Any

import msgspec
import redis.asyncio as client
from redis.exceptions import RedisError

from smg_core.mesh.base import Ears, SeenMember, Unreachable
from smg_core.mesh.carriers.rows import LinkTerms
from smg_core.mesh.heartbeats import Heartbeats
from smg_core.mesh.mesh_keys import MeshKeys
from smg_core.settings import ConfigError

__all__ = ["ValkeyLink"]

_log = logging.getLogger("smg.mesh")

_LARGEST = 256 << 10
_KEPT = 4096
"""Messages that the server keeps for those who have not read them; who misses more asks for it."""
_READ = 256
_BLOCK_MS = 4000
_CONNECT_S = 1.0
_PAUSE_S = 0.5
_GATHER_S = 0.03
"""Seconds in which words of several members gather, after some were read: one read of many costs little more than one of one."""
_KEEP_PART = 10
"""A stream is said to be kept for another `mesh.remember_s` once so small a part of that has gone by."""
_FAULTS = (RedisError, OSError, asyncio.TimeoutError)

_BEAT = """
local now = redis.call('TIME')
local at = now[1] * 1000 + math.floor(now[2] / 1000)
redis.call('ZADD', KEYS[1], at, ARGV[1])
redis.call('HSET', KEYS[2], ARGV[1], ARGV[2])
local old = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', at - ARGV[3])
for _, name in ipairs(old) do
  redis.call('ZREM', KEYS[1], name)
  redis.call('HDEL', KEYS[2], name)
end
redis.call('PEXPIRE', KEYS[1], ARGV[3])
redis.call('PEXPIRE', KEYS[2], ARGV[3])
local found = redis.call('ZRANGE', KEYS[1], 0, ARGV[4], 'WITHSCORES')
local out = {}
for n = 1, #found, 2 do
  out[#out + 1] = {found[n], at - found[n + 1], redis.call('HGET', KEYS[2], found[n]) or ''}
end
return out
"""
"""Says that a member is there, and answers with all that are, each with the milliseconds since it was there and with what it says
of itself. Both keys are in one slot of a cluster."""


class _Heartbeat(msgspec.Struct, frozen=True, array_like=True):
    start: int
    formats: str
    version: str
    place: str


_read_heartbeat = msgspec.msgpack.Decoder(_Heartbeat).decode


async def _end(tasks: Iterable["asyncio.Task[None]"]) -> None:
    """End tasks that call the server. One that is cancelled as its answer comes may go on, and is cancelled again: a member that
    waits for it any longer leaves so late that the others have lost it."""
    pending = set(tasks)
    while pending:
        for task in pending:
            task.cancel()
        _, pending = await asyncio.wait(pending, timeout=_PAUSE_S / 5)


class ValkeyLink:
    """One member's link, over the server at `mesh.url`, else at `limits.store`."""

    largest = _LARGEST

    def __init__(self, terms: LinkTerms) -> None:
        url = terms.settings.url or terms.url
        if not url:
            raise ConfigError("mesh.url: kind valkey needs the URL of a Valkey or Redis, here or in limits.store")
        settings = self._settings = terms.settings
        try:
            self._redis = client.Redis.from_url(
                url.replace("valkey", "redis", 1) if url.startswith("valkey") else url,
                socket_connect_timeout=_CONNECT_S,
                socket_timeout=_CONNECT_S + _BLOCK_MS / 1000,
                retry=None,
            )
        except ValueError as error:
            raise ConfigError(f"mesh.url: {error}") from None
        self._terms, self._name = terms, terms.name
        self._keys = MeshKeys(terms.keys, settings.cluster)
        self._prefix = f"smg:{{mesh:{settings.cluster}}}"
        self._script = self._redis.register_script(_BEAT)
        self._start = int(terms.clock.time() * 1000)
        self._ears: Ears | None = None
        self._heartbeats: Heartbeats | None = None
        self._lost = False
        self._over = False  # nothing more is read: the client may take a cancellation for a fault of the server
        self._places: dict[str, bytes] = {}
        self._placed = asyncio.Event()
        self._keep_at: dict[str, float] = {}  # when each stream is to be kept for longer
        self.refused = 0

    @property
    def members(self) -> Sequence[SeenMember]:
        return self._heartbeats.members if self._heartbeats is not None else ()

    @property
    def place(self) -> str:
        return self._prefix

    @property
    def lost(self) -> bool:
        """Whether the server does not answer."""
        return self._lost

    @contextlib.asynccontextmanager
    async def opened(self, ears: Ears) -> AsyncIterator[None]:
        settings = self._settings
        self._ears = ears
        self._heartbeats = Heartbeats(ears, settings.suspect_s, settings.dead_s, settings.members)
        tasks = [
            asyncio.create_task(self._reads(), name="mesh reads"),
            asyncio.create_task(self._beats(), name="mesh beats"),
        ]
        try:
            yield
        finally:
            self._over = True
            await _end(tasks)
            with contextlib.suppress(*_FAULTS):
                async with asyncio.timeout(_CONNECT_S):
                    await self._leave()
            await self._redis.aclose()

    async def _leave(self) -> None:
        await self._redis.zrem(f"{self._prefix}:members", self._name)
        await self._redis.hdel(f"{self._prefix}:said", self._name)
        await self._add("all", b"l", b"")

    async def adopt_keys(self, keys: Sequence[bytes]) -> None:
        self._keys.adopt(keys)

    async def send(self, to: str, data: bytes) -> None:
        if self._heartbeats is None or not self._heartbeats.knows(to):
            raise Unreachable(f"no member {to!r}")
        await self._sent(f"to:{to}", data)

    async def send_all(self, data: bytes) -> None:
        await self._sent("all", data)

    async def _sent(self, stream: str, data: bytes) -> None:
        if len(data) > _LARGEST:
            raise Unreachable(f"a message of {len(data)} bytes is larger than {_LARGEST}")
        if self._lost:
            raise Unreachable("the server does not answer")
        try:
            await self._add(stream, b"d", data)
        except _FAULTS as error:
            raise Unreachable(type(error).__name__) from None

    async def _add(self, stream: str, kind: bytes, data: bytes) -> None:
        key = f"{self._prefix}:{stream}"
        fields: Any = {b"s": self._name, b"d": self._keys.marked(self._name, kind + data)}
        await self._redis.xadd(key, fields, maxlen=_KEPT, approximate=True)
        now = self._terms.clock.monotonic()
        if now >= self._keep_at.get(stream, 0.0):
            if len(self._keep_at) > self._settings.members:
                self._keep_at.clear()  # of members that are long gone, too
            await self._redis.pexpire(key, round(self._settings.remember_s * 1000))
            self._keep_at[stream] = now + self._settings.remember_s / _KEEP_PART

    # ----------------------------------------------------------------------------------------------------------- membership

    async def _beats(self) -> None:
        """Say that this member is there, and hear who else is."""
        while self._heartbeats is not None and not self._over:
            try:
                async with asyncio.timeout(_CONNECT_S):
                    await self._find_places()
                    await self._beat(self._heartbeats)
                if self._lost:
                    _log.warning("the server of the mesh answers again")
                    await self._find_places(again=True)
                self._lost = False
            except _FAULTS as error:
                if not self._lost:
                    _log.warning("the server of the mesh does not answer (%s)", type(error).__name__)
                self._lost = True
            due_s = self._heartbeats.look(self._terms.clock.monotonic())
            await asyncio.sleep(min(due_s, self._settings.suspect_s / 2))

    async def _beat(self, heartbeats: Heartbeats) -> None:
        terms = self._terms
        heartbeat = msgspec.msgpack.encode(_Heartbeat(self._start, terms.formats, terms.version, self._prefix))
        keep_ms = round(self._settings.dead_s * 1000)
        keys = [f"{self._prefix}:members", f"{self._prefix}:said"]
        arguments: list[str | bytes | int | float] = [
            self._name,
            self._keys.marked(self._name, heartbeat),
            keep_ms,
            self._settings.members - 1,
        ]
        found = await self._script(keys=keys, args=arguments)
        now = terms.clock.monotonic()
        for name, age_ms, record in found:
            self._note(heartbeats, name.decode(errors="replace"), record, now - age_ms / 1000)

    def _note(self, heartbeats: Heartbeats, name: str, record: bytes, at: float) -> None:
        if name == self._name:
            return
        body = self._keys.opened(name, record)
        try:
            if body is None:
                raise msgspec.DecodeError("of no key that is known")
            heartbeat = _read_heartbeat(body)
        except msgspec.MsgspecError:
            self.refused += 1
            return
        heartbeats.heard(SeenMember(name, heartbeat.formats, heartbeat.version, heartbeat.place), heartbeat.start, at)

    # ------------------------------------------------------------------------------------------------------------- messages

    async def _find_places(self, *, again: bool = False) -> None:
        """Find where the streams end, before others know of this member: it reads all that is told from then on. `again`: the
        server was lost, and may be another one whose clock numbers entries from an earlier time; what is missed is asked for."""
        for stream in (f"{self._prefix}:all", f"{self._prefix}:to:{self._name}"):
            if again or stream not in self._places:
                last: Any = await self._redis.xrevrange(stream, count=1)
                self._places[stream] = last[0][0] if last else b"0-0"
        self._placed.set()

    async def _reads(self) -> None:
        """Read what is told."""
        await self._placed.wait()
        while not self._over:
            try:
                found: Any = await self._redis.xread(self._places, count=_READ, block=_BLOCK_MS)  # type: ignore[arg-type]
            except _FAULTS:
                await asyncio.sleep(_PAUSE_S)
                continue
            for stream, entries in found or ():
                for number, fields in entries:
                    self._places[stream.decode()] = number
                    self._take(fields)
            if found:
                await asyncio.sleep(_GATHER_S)

    def _take(self, fields: dict[bytes, bytes]) -> None:
        sender = fields.get(b"s", b"").decode(errors="replace")
        if sender == self._name or self._ears is None or self._heartbeats is None:
            return
        body = self._keys.opened(sender, fields.get(b"d", b""))
        if body is None:
            self.refused += 1
        elif body[:1] == b"l":
            self._heartbeats.left(sender)
        elif body[:1] == b"d" and self._heartbeats.knows(sender):
            self._ears.heard(sender, body[1:])
