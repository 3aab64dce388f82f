"""Engines that sleep: nobody is sent there, and one is woken when a request needs it (edge).

An operator has a worker's engine sleep at the admin door. It keeps no KV cache meanwhile, and is no candidate in any process of
the gateway. A request for a model of which no worker is awake waits while one is woken; requests that come meanwhile wait for the
same one. Above: the pipeline's Select step, by `Waking`, and the admin door. Below: registry, the engines' upkeep, the channel.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable

import attrs
import msgspec

from smg_core.channel.base import Channel, Notice
from smg_core.engines.base import Engine
from smg_core.engines.upkeep import EngineReply, FallAsleep, WakeUp
from smg_core.errors import EngineFailed, NoWorker, SmgError, WorkerError
from smg_core.pipeline.prompt.prompted import Prompted
from smg_core.workers.registry import Registry
from smg_core.workers.settings import WorkersConfig
from smg_core.workers.worker import Worker, WorkerRole

__all__ = ["Sleeping"]

log = logging.getLogger("smg.workers")

KIND = "sleep"
ROLES: tuple[WorkerRole, ...] = ("regular", "prefill", "decode")


class SleepChange(msgspec.Struct, frozen=True):
    """Whether the engine at `url` sleeps now."""

    url: str
    asleep: bool


@attrs.define(eq=False)
class Sleeping:
    """The sleep of engines, for one process. `emptied` is told of a worker whose cache is gone; `settle_s` are the seconds that a
    change may take to be known everywhere."""

    settings: WorkersConfig
    registry: Registry
    channel: Channel
    emptied: Callable[[Worker], Awaitable[None]]
    settle_s: float
    _waking: dict[str, "asyncio.Task[None]"] = attrs.field(factory=dict)
    _failed: set[str] = attrs.field(factory=set)
    _closed: bool = False

    def listen(self) -> None:
        """Take up what other processes tell."""
        self.channel.subscribe(KIND, self._receive)

    async def close(self) -> None:
        """Take up nothing more, and give up what is under way."""
        self._closed = True
        tasks = [*self._waking.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def put_to_sleep(self, worker: Worker, engine: Engine, asked: FallAsleep) -> EngineReply | None:
        """Send the worker nothing more, and have its engine sleep once its requests have ended; None where it has no such call.
        Where it does not do it, the worker is used as before."""
        await self._tell(worker.spec.url, asleep=True)
        reply: EngineReply | None = None
        try:
            reply = await engine.upkeep(asked)
        finally:
            if reply is None or not reply.done:
                await self._tell(worker.spec.url, asleep=False)
        if reply is not None and reply.done:
            await self.emptied(worker)
        return reply

    async def woken(self, worker: Worker, engine: Engine) -> EngineReply | None:
        """Have the worker's engine wake, and send it requests again; None where it has no such call."""
        reply = await engine.upkeep(WakeUp())
        if reply is not None and reply.done:
            await self._tell(worker.spec.url, asleep=False)
        return reply

    async def awake(
        self, prompted: Prompted, exclude: frozenset[str], fits: Callable[[tuple[Worker, ...]], tuple[Worker, ...]]
    ) -> str:
        """Return when a worker is awake that a request may be sent to, with what had to be done for that in words. Raises
        NoWorker where it takes too long, and what the engine says that does not wake."""
        model, served = prompted.request.model, prompted.model
        woken = await self.awake_for(model, exclude, fits)
        if woken or not served.adapter or any(each.name not in exclude for each in fits(self._ready(model))):
            return woken
        return await self.awake_for(served.primary, exclude, fits)  # nobody holds the adapter: one is to load it

    async def awake_for(
        self, model: str, exclude: frozenset[str], fits: Callable[[tuple[Worker, ...]], tuple[Worker, ...]]
    ) -> str:
        """The same, of a request for the model of this name."""
        woken = []
        for role in self._roles_to_wake(model, exclude, fits):
            sleepers = [each for each in fits(self._asleep(model, role)) if each.name not in exclude]
            if sleepers:
                woken.append(f"{await self._one_of(sleepers)} was woken")
        return "; ".join(woken)

    def _roles_to_wake(
        self, model: str, exclude: frozenset[str], fits: Callable[[tuple[Worker, ...]], tuple[Worker, ...]]
    ) -> tuple[WorkerRole, ...]:
        """The roles of which a worker has to wake: none where those that are awake can answer, else the fewest."""

        def some(found: tuple[Worker, ...]) -> bool:
            return any(each.name not in exclude for each in fits(found))

        awake = {role for role in ROLES if some(self.registry.ready_of(model, role))}
        asleep = {role for role in ROLES if role not in awake and some(self._asleep(model, role))}
        ways = [ROLES[1:], ROLES[:1]]
        possible = [tuple([role for role in way if role not in awake]) for way in ways if awake | asleep >= {*way}]
        return min(possible, key=len) if possible else tuple([role for role in ROLES if role in asleep])

    async def _one_of(self, sleepers: list[Worker]) -> str:
        """The name of the one of `sleepers` that woke: the one that is being woken, where it has not taken too long, else those
        first that did not fail to wake the last time. Where an engine does not wake, the next one is asked."""
        sleepers = sorted(sleepers, key=lambda each: (each.spec.url in self._failed, each.spec.url not in self._waking))
        refused: WorkerError | None = None
        asked = sleepers[0]
        try:
            async with asyncio.timeout(self.settings.wake_s):
                for asked in sleepers:
                    try:
                        await self._woken_by_then(self._begin(asked))
                    except WorkerError as error:
                        refused = error
                    else:
                        return asked.name
        except TimeoutError:
            self._fail(asked)
            raise self._still_waking() from None
        raise refused or self._still_waking()

    def _still_waking(self) -> NoWorker:
        return NoWorker("A worker is still being woken.", retry_after=self.registry.retry_after)

    def _ready(self, model: str) -> tuple[Worker, ...]:
        return tuple(each for role in ROLES for each in self.registry.ready_of(model, role))

    def _asleep(self, model: str, role: WorkerRole) -> tuple[Worker, ...]:
        return tuple(
            each
            for each in self.registry
            if each.asleep and each.state == "ready" and each.role == role and each.answers_to(model)
        )

    def _begin(self, worker: Worker) -> "asyncio.Task[None]":
        """The waking of the worker: the one that is under way, or a new one, which no request ends."""
        url = worker.spec.url
        task = self._waking.get(url)
        if task is None:
            task = self._waking[url] = asyncio.ensure_future(self._wake(worker))
            task.add_done_callback(lambda done: self._over(worker, done))
        return task

    async def _wake(self, worker: Worker) -> None:
        reply = await self.woken(worker, worker.engine)
        if reply is None or not reply.done:
            reason = "" if reply is None else reply.message
            raise EngineFailed(
                "The engine does not wake.", detail=f"worker {worker.name}: {reason}", outside_text=reason
            )

    def _over(self, worker: Worker, task: "asyncio.Task[None]") -> None:
        self._waking.pop(worker.spec.url, None)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._fail(worker)
            log.warning("worker %s does not wake: %s", worker.name, error)
        elif not task.cancelled():
            self._failed.discard(worker.spec.url)

    def _fail(self, worker: Worker) -> None:
        """Note that the worker did not wake, or not in time: others are tried before it."""
        self._failed &= {each.spec.url for each in self.registry}
        self._failed.add(worker.spec.url)

    async def _woken_by_then(self, task: "asyncio.Task[None]") -> None:
        """Wait for a waking, which goes on where this is given up."""
        await asyncio.wait((task,))
        if task.cancelled():
            raise self._still_waking()
        task.result()

    async def _tell(self, url: str, *, asleep: bool) -> None:
        """Let all processes know whether an engine sleeps."""
        self._set(url, asleep=asleep)
        try:
            number = await self.channel.publish(KIND, msgspec.json.encode(SleepChange(url, asleep)))
        except SmgError as error:
            log.warning("%s: other processes were not told whether it sleeps: %s", url, error)
            return
        if not await self.channel.settled(number, self.settle_s):
            log.warning("%s: not every process knows yet whether it sleeps", url)

    def _set(self, url: str, *, asleep: bool) -> None:
        self.registry.sleep([each for each in self.registry if each.spec.url == url], asleep=asleep)

    def _receive(self, message: Notice) -> None:
        if not self._closed:
            change = msgspec.json.decode(message.body, type=SleepChange)
            self._set(change.url, asleep=change.asleep)
