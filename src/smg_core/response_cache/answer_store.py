"""Answers in a Valkey or Redis that several processes and gateways share (edge).

A server that is lost costs a request the time-out at most, and after three losses nothing for a second: an engine answers then.
Above: `caching`. Below: redis-py.
"""

import asyncio
import logging
from collections.abc import Awaitable
from typing import TypeVar

import redis.asyncio as client
from redis.exceptions import RedisError

from smg_core.clock import Clock
from smg_core.errors import StoreFailed
from smg_core.response_cache.keys import tenant_of

__all__ = ["AnswerStore"]

T = TypeVar("T")
_log = logging.getLogger("smg.limits")

_PREFIX = b"smg:answer:"
_LOSSES, _PAUSE_S = 3, 1.0
"""After how many losses in a row the server is not asked, and for how long."""
_CONNECT_S = 1.0
_SCANNED, _ERASE_S = 1000, 5.0
"""Keys that the server looks at in one go when a tenant is erased, and for how long it may take to do that."""
_CONNECTIONS = 16


class AnswerStore:
    """The answers in the server at `url`, each of which is asked for within `timeout_s`."""

    def __init__(self, url: str, clock: Clock, timeout_s: float) -> None:
        self._redis = client.Redis.from_url(
            url.replace("valkey", "redis", 1) if url.startswith("valkey") else url,
            socket_connect_timeout=_CONNECT_S,
            socket_timeout=None,
            max_connections=_CONNECTIONS,
            retry=None,
        )
        self._clock, self.timeout_s = clock, timeout_s
        self._losses, self._closed_until = 0, 0.0

    async def find(self, key: bytes) -> bytes | None:
        """The answer of a key; None where there is none, or the server does not answer."""
        found = await self._asked(self._redis.get(_named(key)))
        return found if isinstance(found, bytes) else None

    async def keep(self, key: bytes, data: bytes, seconds: float) -> None:
        """Keep an answer for so long."""
        await self._asked(self._redis.set(_named(key), data, px=max(1, int(seconds * 1000))))

    async def drop(self, key: bytes) -> None:
        """Keep the answer of a key no longer."""
        await self._asked(self._redis.unlink(_named(key)))

    async def erase(self, tenant: bytes | None) -> None:
        """Keep no answer of a tenant, which is meant by its mark (None: of any). Raises StoreFailed."""
        cursor, named = 0, (_PREFIX if tenant is None else _of_tenant(tenant)) + b"*"
        try:
            while True:
                async with asyncio.timeout(_ERASE_S):
                    cursor, keys = await self._redis.scan(cursor, match=named, count=_SCANNED)
                    if keys:
                        await self._redis.unlink(*keys)
                if not cursor:
                    return
        except (RedisError, OSError, TimeoutError) as error:
            raise StoreFailed("unreachable", detail=f"response_cache.store: {type(error).__name__}") from error

    async def close(self) -> None:
        """Give the connections back."""
        await self._redis.aclose()

    async def _asked(self, answer: Awaitable[T]) -> T | None:
        if self._clock.monotonic() < self._closed_until:
            if asyncio.iscoroutine(answer):
                answer.close()
            return None
        try:
            async with asyncio.timeout(self.timeout_s):
                found = await answer
        except (RedisError, OSError, TimeoutError) as error:
            self._losses += 1
            if self._losses >= _LOSSES:
                self._closed_until = self._clock.monotonic() + _PAUSE_S
            if self._losses == _LOSSES:
                _log.warning("response_cache.store does not answer (%s): engines do meanwhile", type(error).__name__)
            return None
        self._losses = 0
        return found


def _of_tenant(tenant: bytes) -> bytes:
    """What the names of a tenant's answers begin with."""
    return _PREFIX + tenant.hex().encode() + b":"


def _named(key: bytes) -> bytes:
    """The name of an answer at the server."""
    tenant = tenant_of(key)
    return _of_tenant(tenant) + key[len(tenant) :]
