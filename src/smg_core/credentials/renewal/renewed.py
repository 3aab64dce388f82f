"""`Renewed`: a credential that is asked for anew before it ends, by one at a time (edge).

Requests go on with the value that is there while the next one is asked for; they wait only where it is near its end. A failure
leaves the old value while that is valid, and is not repeated for each request. Above: the signers. Below: granted.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from smg_core.clock import Clock, SystemClock
from smg_core.credentials.renewal.granted import Granted
from smg_core.errors import CredentialFailed, SmgError

__all__ = ["PAUSE_S", "Renewed"]

log = logging.getLogger(__name__)

T = TypeVar("T")

PAUSE_S = 5.0
"""Seconds after a failure in which the source of a credential is not asked again."""
_NONE = "The gateway has no credential for the provider."


class Renewed(Generic[T]):
    """A credential from `fetch`, which raises ValueError, OSError or SmgError where it gets none; `name` says in logs what it is,
    and no word of the credential. After a failure the source is left alone for `pause_s` seconds."""

    def __init__(
        self,
        name: str,
        fetch: Callable[[], Awaitable[Granted[T]]],
        *,
        clock: Clock | None = None,
        pause_s: float = PAUSE_S,
    ) -> None:
        self.name = name
        self._fetch = fetch
        self._clock = clock or SystemClock()
        self._pause_s = pause_s
        self._held: Granted[T] | None = None
        self._refused: T | None = None  # the provider has refused it
        self._running: asyncio.Task[None] | None = None
        self._failure: tuple[float, str] | None = None  # when and why the source gave none
        self._closed = False

    def __repr__(self) -> str:
        return f"<credential {self.name}>"

    def held(self) -> T | None:
        """The value, where there is one that needs no wait. Begins to ask for the next one where that is due."""
        held = self._held
        if held is None:
            return None
        now = self._clock.time()
        if now >= held.wait_at and not self._rests(now, held):
            return None
        if now >= held.renew_at and not self._rests(now, held):
            self._begin()
        return held.value if now < held.ends_at else None

    async def current(self) -> T:
        """The value, awaited where there is none. Raises CredentialFailed."""
        value = self.held()
        if value is not None:
            return value
        if self._failure is None or self._clock.monotonic() - self._failure[0] >= self._pause_s:
            await self._asked()
        held = self._held
        if held is None or self._clock.time() >= held.ends_at:
            why = self._failure[1] if self._failure is not None else "closed"
            raise CredentialFailed(_NONE, detail=f"credential {self.name}: {why}", outside_text=why)
        return held.value

    async def _asked(self) -> None:
        """Wait until the source was asked, or until nothing is asked any more."""
        running = self._begin()
        try:
            await asyncio.shield(running)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if not running.cancelled() or (task is not None and task.cancelling()):
                raise  # it is the caller who is cancelled

    def refuse(self, value: T) -> bool:
        """The provider does not take `value`: the source is asked again. Returns whether there can be another one; a value that
        came anew and is refused like the one before is not asked for again at once."""
        held = self._held
        if held is None or held.value != value:
            return True  # it was renewed meanwhile
        if self._refused == value:
            return False
        self._refused = value
        self._held = None
        self._failure = None
        return True

    async def close(self) -> None:
        """Ask no more."""
        self._closed = True
        running = self._running
        if running is not None:
            running.cancel()
            await asyncio.wait([running])

    def _rests(self, now: float, held: Granted[T]) -> bool:
        """Whether the source has failed just now, and the old value is still good."""
        failure = self._failure
        return failure is not None and now < held.ends_at and self._clock.monotonic() - failure[0] < self._pause_s

    def _begin(self) -> "asyncio.Task[None]":
        """The task that asks the source: the one that does so already, or a new one."""
        loop, running = asyncio.get_running_loop(), self._running
        if running is None or running.done() or running.get_loop() is not loop:
            running = self._running = loop.create_task(self._renew(), name=f"credential {self.name}")
        return running

    async def _renew(self) -> None:
        if self._closed:
            return
        try:
            self._held = await self._fetch()
        except SmgError as error:
            self._fail(error.cause)
        except (ValueError, OSError, TimeoutError) as error:
            self._fail(" ".join(str(error).split()) or type(error).__name__)
        else:
            self._failure = None
            self._refused = self._refused if self._refused == self._held.value else None

    def _fail(self, why: str) -> None:
        self._failure = self._clock.monotonic(), why
        log.warning("credential %s could not be renewed: %s", self.name, why)
