"""Engines and a gateway, from the first start to the last end (edge).

Decides when each program starts (once those that it waits for are healthy), what is done with one that does not come up, ends or
stands still, and how all leave: the gateway first, whose streams finish, then the engines, those last that others waited for. A
program that has not come up at the first start ends all: what is wrong with it is wrong again. Later it is started anew, with a
pause that grows. Above: `command`. Below: `child`, `plan`, fleet.connect.
"""

import asyncio
import contextlib
import itertools
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import httpx

from smg_core.engines.base import Engine
from smg_core.engines.kinds.kind import EnginePlace
from smg_core.engines.kinds.opening import open_engine
from smg_core.errors import SmgError
from smg_core.up.child import Child
from smg_core.up.plan import GATEWAY, EnginePlan, UpPlan

__all__ = ["Supervised"]

STARTING_S = 0.25
"""Seconds between two looks at a program that is coming up."""
WATCH_S = 2.0
"""Seconds between two looks at one that serves."""
SLOW_S = (10.0, 30.0, 60.0)
"""Seconds after which it is said of a program that it is still coming up; behind the last, each time as many again."""
PROBE_S = 10.0
"""Seconds that an answer to a look may take."""
PAUSE_S, LONGEST_PAUSE_S = 1.0, 60.0
"""Seconds before a program is started again: twice as many each time, at most the second; the first again for one that has served
for longer than that."""
GATEWAY_START_S = 120.0
GATEWAY_EXTRA_S = 10.0
"""Seconds that the gateway has beside `server.drain_s` and `server.notice_s` to end."""

TellLine = Callable[[str, str], None]
_Probe = Callable[[], Awaitable[bool]]


class _NotUp(Exception):
    """A program has not come up at the first start; the message says which, and why."""


class _Kept:
    """A program that is kept running: `child`, how its health is asked (`probe`), and its patience."""

    def __init__(
        self, child: Child, probe: _Probe, after: Sequence[str], start_s: float, hang_s: float, stop_s: float
    ) -> None:
        self.child, self.probe, self.after = child, probe, after
        self.start_s, self.hang_s, self.stop_s = start_s, hang_s, stop_s
        self.healthy = asyncio.Event()  # it has been once


class Supervised:
    """All programs of a plan. `gateway` are the words that start the gateway; `tell` is called with a name and a line."""

    def __init__(self, plan: UpPlan, gateway: Sequence[str], tell: TellLine) -> None:
        self._plan, self._tell = plan, tell
        self._leaving, self._killing = asyncio.Event(), asyncio.Event()
        self._kept = {each.name: self._engine(each) for each in plan.engines}
        server = plan.config.server
        child = Child(GATEWAY, gateway, {}, tell, whole_group=False)
        stop_s = server.drain_s + server.notice_s + GATEWAY_EXTRA_S
        self._kept[GATEWAY] = _Kept(child, self._gateway_ready, tuple(self._kept), GATEWAY_START_S, 0.0, stop_s)

    def leave(self) -> None:
        """End all in order; called a second time, end all at once."""
        if self._leaving.is_set():
            self._say("ending all at once")
            self._killing.set()
        else:
            self._say("leaving: the gateway finishes its streams, then the engines end (again: all at once)")
        self._leaving.set()

    async def run(self) -> int:
        """Run all until told to leave, or one does not come up; the exit status."""
        tasks = [asyncio.create_task(self._keep(each)) for each in self._kept.values()]
        leaving = asyncio.create_task(self._leaving.wait())
        status = 0
        try:
            both: list[asyncio.Task[Any]] = [leaving, *tasks]
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            for task in tasks:
                if task.done() and not task.cancelled() and isinstance(error := task.exception(), _NotUp):
                    self._say(str(error))
                    status = 1
        finally:
            self._leaving.set()
            for each in (leaving, *tasks):
                each.cancel()
            results = await asyncio.gather(leaving, *tasks, return_exceptions=True)
            await self._end()
        for fault in results:
            if isinstance(fault, Exception) and not isinstance(fault, _NotUp):
                raise fault
        return 130 if self._killing.is_set() else status

    # ---------------------------------------------------------------------------------------------------- one program

    async def _keep(self, kept: _Kept) -> None:
        """Start a program once those before it are healthy, and again whenever it has ended or stands still. Raises _NotUp."""
        for name in kept.after:
            await self._kept[name].healthy.wait()
        pause = PAUSE_S
        while True:
            began = time.monotonic()
            why = await self._once(kept)
            if not kept.healthy.is_set():
                raise _NotUp(f"{kept.child.name} {why}\n{kept.child.last_words}".rstrip())
            if time.monotonic() - began > LONGEST_PAUSE_S and why.startswith("has served"):
                pause = PAUSE_S
            self._say(f"{kept.child.name} {why}; started again in {pause:g} s")
            await asyncio.sleep(pause)
            pause = min(LONGEST_PAUSE_S, 2 * pause)

    async def _once(self, kept: _Kept) -> str:
        """One life of a program; why it is over."""
        began = time.monotonic()
        try:
            await kept.child.start()
        except OSError as error:
            return f"cannot be started: {error.strerror or error}"
        self._say(f"{kept.child.name} starts, process {kept.child.pid}")
        ended = asyncio.create_task(kept.child.ended())
        try:
            why = await self._until_healthy(kept, ended, began)
            if why:
                return why
            self._say(f"{kept.child.name} is ready after {time.monotonic() - began:.1f} s")
            kept.healthy.set()
            return await self._while_healthy(kept, ended)
        finally:
            ended.cancel()
            await asyncio.gather(ended, return_exceptions=True)
            if not self._leaving.is_set():
                await kept.child.kill()

    async def _until_healthy(self, kept: _Kept, ended: "asyncio.Task[int]", began: float) -> str:
        """Return once it says that it is healthy, or why it will not."""
        waits = 0
        while (passed := time.monotonic() - began) < kept.start_s:
            if ended.done():
                return f"has ended with {ended.result()} before it was ready"
            if await kept.probe():
                return ""
            if passed >= _reported_after(waits):
                self._say(f"{kept.child.name} is not ready yet after {passed:.0f} s of at most {kept.start_s:g}")
                waits = next(times for times in itertools.count(waits) if _reported_after(times) > passed)
            await asyncio.wait([ended], timeout=STARTING_S)
        return f"has not come up within {kept.start_s:g} s"

    async def _while_healthy(self, kept: _Kept, ended: "asyncio.Task[int]") -> str:
        """Return once it has ended or stands still, with why."""
        good = time.monotonic()
        while True:
            await asyncio.wait([ended], timeout=min(WATCH_S, kept.hang_s or WATCH_S))
            if ended.done():
                return f"has served, and ended with {ended.result()}"
            if not kept.hang_s or await kept.probe():
                good = time.monotonic()
            elif time.monotonic() - good >= kept.hang_s:
                return f"has served, and has not answered for {kept.hang_s:g} s"

    def _engine(self, plan: EnginePlan) -> _Kept:
        child = Child(plan.name, plan.words, plan.environment, self._tell)
        probe = _EngineProbe(plan, self._plan)
        return _Kept(child, probe, plan.after, plan.start_s, plan.hang_s, plan.stop_s)

    async def _gateway_ready(self) -> bool:
        """Whether the gateway takes requests; one that speaks TLS is asked whether it listens."""
        server = self._plan.config.server
        host = "127.0.0.1" if server.host in ("0.0.0.0", "::", "") else server.host  # noqa: S104  # read, not bound
        try:
            async with asyncio.timeout(PROBE_S):
                if self._plan.config.tls.cert is not None:
                    _, writer = await asyncio.open_connection(host, server.port)
                    writer.close()
                    return True
                async with httpx.AsyncClient(trust_env=False) as client:
                    answer = await client.get(f"http://{host}:{server.port}/readiness")
                    return answer.status_code == httpx.codes.OK
        except (OSError, httpx.HTTPError):
            return False

    # ---------------------------------------------------------------------------------------------------------- the end

    async def _end(self) -> None:
        """End the gateway, then the engines, in the reverse of the order in which they started."""
        await self._stop([self._kept[GATEWAY]])
        for level in reversed(self._plan.levels()):
            await self._stop([self._kept[each.name] for each in level])
        for kept in self._kept.values():
            if isinstance(kept.probe, _EngineProbe):
                await kept.probe.close()

    async def _stop(self, kept: Sequence[_Kept]) -> None:
        stopping = [asyncio.create_task(self._stopped(each)) for each in kept]
        killing = asyncio.create_task(self._killing.wait())
        try:
            together: asyncio.Future[Any] = asyncio.gather(*stopping)
            either: list[asyncio.Future[Any]] = [together, killing]
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if self._killing.is_set():
                await asyncio.gather(*[each.child.kill() for each in kept])
            await together
        finally:
            killing.cancel()
            await asyncio.gather(killing, return_exceptions=True)

    async def _stopped(self, kept: _Kept) -> None:
        running = kept.child.pid is not None
        by_itself = await kept.child.stop(kept.stop_s)
        if running:
            self._say(f"{kept.child.name} has ended" if by_itself else f"{kept.child.name} was killed")

    def _say(self, line: str) -> None:
        for each in line.split("\n"):
            self._tell("up", each)


def _reported_after(times: int) -> float:
    """Seconds after which it is said once more that a program is coming up."""
    return SLOW_S[times] if times < len(SLOW_S) else SLOW_S[-1] * (times - len(SLOW_S) + 2)


class _EngineProbe:
    """Asks an engine whether it is healthy, over one connection."""

    def __init__(self, engine: EnginePlan, plan: UpPlan) -> None:
        spec = engine.spec
        self._place = EnginePlace(
            spec.url, kind=spec.dialect, label=spec.label, headers=spec.headers, limits=plan.config.engines
        )
        self._client: Engine | None = None

    async def __call__(self) -> bool:
        try:
            async with asyncio.timeout(PROBE_S):
                if self._client is None:
                    self._client = await open_engine(self._place)
                return await self._client.health(PROBE_S)
        except (SmgError, OSError):
            await self.close()
            return False

    async def close(self) -> None:
        """Let go of the connection."""
        client, self._client = self._client, None
        if client is not None:
            with contextlib.suppress(SmgError):
                await client.close()
