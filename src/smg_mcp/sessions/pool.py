"""Sessions, one for each server, tenant and set of credentials; bounded; those that nobody uses are closed (edge).

Above: `tools`. Below: `session`.
"""

import asyncio
import contextlib
import hashlib
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Iterable
from typing import TYPE_CHECKING

import attrs

from smg_mcp.records.errors import McpBusy
from smg_mcp.records.settings import SessionSettings

if TYPE_CHECKING:
    from smg_mcp.sessions.session import Session

__all__ = ["SessionKey", "SessionPool", "digest_of_credentials"]


@attrs.frozen
class SessionKey:
    """Whose session: two calls share one only where all three are the same."""

    server: str
    tenant: str
    credentials: bytes


def digest_of_credentials(pairs: Iterable[tuple[str, str]]) -> bytes:
    """The credentials' part of a key: a digest of all headers with their values, of which each pair counts by itself."""
    digest = hashlib.sha256()
    for name, value in sorted((name.lower(), value) for name, value in pairs):
        for part in (name.encode(), value.encode("utf-8", "surrogatepass")):
            digest.update(len(part).to_bytes(8, "big") + part)
    return digest.digest()


class SessionPool:
    """The sessions. A session in use is never closed; where all are in use, another gets McpBusy. A tenant with a name has three
    quarters of them at most."""

    def __init__(self, settings: SessionSettings, clock: Callable[[], float]) -> None:
        self._settings, self._clock = settings, clock
        self._sessions: OrderedDict[SessionKey, Session] = OrderedDict()
        self._closing: set[asyncio.Task[None]] = set()
        self._closed = False

    def __len__(self) -> int:
        return len(self._sessions)

    @contextlib.asynccontextmanager
    async def session(self, key: SessionKey, make: "Callable[[], Session]") -> "AsyncIterator[Session]":
        """The key's session, made by `make` where there is none, for as long as the block runs."""
        session = self._sessions.get(key)
        if session is None:
            if self._closed:
                raise McpBusy("the sessions are being closed")
            self._make_room(key.tenant)
            session = self._sessions[key] = make()
        self._sessions.move_to_end(key)
        session.users += 1
        try:
            yield session
        finally:
            session.users -= 1
            session.used_at = self._clock()

    def _make_room(self, tenant: str) -> None:
        """Have room for one more session of a tenant: one that nobody uses goes, its own before those of others."""
        most = self._settings.max_connections
        own = [key for key in self._sessions if key.tenant == tenant]
        if tenant and len(own) >= max(1, most * 3 // 4):
            if not self._close_idle(own):
                raise McpBusy("all sessions with MCP servers that one tenant may have are in use")
        elif len(self._sessions) >= most and not self._close_idle([*own, *self._sessions]):
            raise McpBusy(f"all {most} sessions with MCP servers are in use")

    def _close_idle(self, keys: Iterable[SessionKey]) -> bool:
        """Close the first of these sessions that nobody uses; whether there is one."""
        for key in keys:
            if not self._sessions[key].users:
                self._close(self._sessions.pop(key))
                return True
        return False

    def _close(self, session: "Session") -> None:
        task = asyncio.ensure_future(session.close())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    async def sweep(self) -> None:
        """Close sessions that nobody used for the idle time, and ping those that nobody used for a while. To be called often."""
        now, pings = self._clock(), []
        for key, session in list(self._sessions.items()):
            if session.users:
                continue
            if now - session.used_at >= self._settings.idle_timeout:
                del self._sessions[key]
                self._close(session)
            elif now - max(session.pinged_at, session.used_at) >= self._settings.ping_interval:
                pings.append(session.ping())
        await asyncio.gather(*pings)

    async def close(self) -> None:
        """Close every session and wait for it."""
        self._closed = True
        sessions, self._sessions = list(self._sessions.values()), OrderedDict()
        await asyncio.gather(*(session.close() for session in sessions))
        await asyncio.gather(*self._closing)
