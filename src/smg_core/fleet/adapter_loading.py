"""LoRA adapters loaded by engines when a request asks for them, and unloaded for others (edge).

The settings name such adapters, each with its model and its folder on the engines' machines (`workers.adapters`). A request for
one that no worker holds waits while a worker loads it; requests that come meanwhile wait for the same load. Where all that hold
it have many more requests than another worker of the model, that one loads it too, and no request waits for that. A worker
holds at most `workers.loaded_adapters` of them: the one that was asked for the longest ago goes first. Above: the pipeline's
Select step, by `AdapterHolder`. Below: registry, onboarding, the engines' upkeep.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from math import inf
from weakref import WeakValueDictionary

import attrs

from smg_core.clock import Clock
from smg_core.engines.upkeep import LoadAdapter, UnloadAdapter
from smg_core.errors import EngineFailed, NotImplementedHere, NoWorker, SmgError
from smg_core.fleet.adapter_changes import AdapterChanges
from smg_core.pipeline.prompt.prompted import Prompted
from smg_core.pipeline.prompt.served import ServedModel
from smg_core.routing.simple import pressure
from smg_core.workers.registry import Registry
from smg_core.workers.settings import WorkersConfig
from smg_core.workers.worker import Worker, WorkerRole

__all__ = ["AdapterLoading"]

log = logging.getLogger("smg.workers")

FAILED_S = 10.0
"""Seconds for which a worker that could not load an adapter is not asked for it again."""
LEAST_KEPT = 16
"""Engines of which it is known, at least, when each adapter was asked for last; beyond twice the workers those that left go."""
JUST_S = 0.1
"""Seconds for which an adapter that was asked for, or has been loaded, is not let go of."""
SPREAD = 8.0
"""How many more requests than another worker the least loaded holder of an adapter has before that one loads it too."""

_Fits = Callable[[tuple[Worker, ...]], tuple[Worker, ...]]
"""Those of these workers that a request may be sent to."""


@attrs.define(eq=False)
class AdapterLoading:
    """What one process has engines load. `ids` makes the id that an engine is to know an adapter by; `models` are those that are
    served."""

    settings: WorkersConfig
    registry: Registry
    changes: AdapterChanges
    clock: Clock
    ids: Callable[[str], str]
    models: Mapping[str, ServedModel]
    _named: Mapping[str, tuple[str, str]] = attrs.field(init=False)
    _under_way: dict[tuple[str, str], "asyncio.Task[None]"] = attrs.field(factory=dict)
    _failed: dict[tuple[str, str], tuple[float, SmgError]] = attrs.field(factory=dict)
    _used: dict[tuple[str, str], float] = attrs.field(factory=dict)
    _one_by_one: "WeakValueDictionary[str, asyncio.Lock]" = attrs.field(factory=WeakValueDictionary)

    @_named.default
    def _read(self) -> Mapping[str, tuple[str, str]]:
        return self.settings.of_adapters()

    async def held(self, prompted: Prompted, exclude: frozenset[str], fits: _Fits) -> str:
        """Return when a worker holds the adapter of a request that may be sent there, with what had to be done in words. Raises
        NoWorker where none can hold it now, NotImplementedHere where no engine of its model can load one, and what the last
        engine said that was asked to."""
        model = prompted.model
        path = self._path(model)
        if path is None:
            return ""
        holders = [await self._held_in(role, model, path, exclude, fits) for role in self._roles(model)]
        return "; ".join(filter(None, holders))

    def used(self, worker: Worker, model: ServedModel) -> None:
        """A request for the adapter goes to the worker."""
        if model.adapter in self._named:  # others are never let go of
            self._used[worker.spec.url, model.adapter] = self.clock.monotonic()
            if len(self._used) > len(self._named) * max(LEAST_KEPT, 2 * len(self.registry)):
                self._forget_engines()

    def _forget_engines(self) -> None:
        """Forget what is known of engines that are no workers any more."""
        there = {each.spec.url for each in self.registry}
        self._used = {key: each for key, each in self._used.items() if key[0] in there}

    async def close(self) -> None:
        """Give up what is under way."""
        tasks = [*self._under_way.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _path(self, model: ServedModel) -> str | None:
        named, path = self._named.get(model.adapter, ("", None))
        served = self.models.get(named)
        return path if served is not None and served.primary == model.primary else None

    def _roles(self, model: ServedModel) -> tuple[WorkerRole, ...]:
        parts: tuple[WorkerRole, ...] = ("prefill", "decode")
        return parts if all(self.registry.some_ready(model.primary, each) for each in parts) else ("regular",)

    async def _held_in(
        self, role: WorkerRole, model: ServedModel, path: str, exclude: frozenset[str], fits: _Fits
    ) -> str:
        def left(found: tuple[Worker, ...]) -> list[Worker]:
            return [each for each in fits(found) if each.name not in exclude]

        holders, all_of_it = (
            left(self.registry.ready_of(model.name, role)),
            left(self.registry.ready_of(model.primary, role)),
        )
        able = [each for each in all_of_it if each.facts.lora and model.adapter not in each.adapters]
        able = self._in_order([each for each in able if not self._has_failed(each, model.adapter)], model.adapter)
        if holders:
            if able and _least(holders) >= _least(able[:1]) + SPREAD and not self._some_under_way(able, model.adapter):
                self._begin(able[0], model, path)
            return ""
        if not able:
            raise self._refusal(model, all_of_it)
        began, failure = self.clock.monotonic(), None
        for worker in able[:2]:
            try:
                await self._within(self._begin(worker, model, path), model)
            except NoWorker:
                raise  # it has waited as long as it may
            except SmgError as error:
                failure = error
                continue
            seconds = self.clock.monotonic() - began
            return f"the adapter {model.adapter} was loaded on {worker.name}, which took {seconds:.2f} s"
        raise failure or self._refusal(model, all_of_it)

    def _in_order(self, workers: list[Worker], adapter: str) -> list[Worker]:
        """Those that are loading already first, then those with room for one more adapter, then by their requests."""
        most = self.settings.loaded_adapters

        def order(worker: Worker) -> tuple[bool, bool, float]:
            idle = (worker.spec.url, adapter) not in self._under_way
            return idle, len(self._loaded(worker)) >= most, pressure(worker.record)

        return sorted(workers, key=order)

    def _loaded(self, worker: Worker) -> list[str]:
        """The adapters of the settings that the worker holds."""
        return [each for each in worker.adapters if each in self._named]

    def _some_under_way(self, workers: Sequence[Worker], adapter: str) -> bool:
        return any((each.spec.url, adapter) in self._under_way for each in workers)

    def _has_failed(self, worker: Worker, adapter: str) -> bool:
        until, _ = self._failed.get((worker.spec.url, adapter), (0.0, None))
        return until > self.clock.monotonic()

    def _refusal(self, model: ServedModel, workers: Sequence[Worker]) -> SmgError:
        """Why no worker can load the adapter now."""
        if workers and not any(each.facts.lora for each in workers):
            dialects = ", ".join(sorted({each.facts.dialect for each in workers}))
            return NotImplementedHere(f"The engines of the model '{model.primary}' ({dialects}) take no adapters.")
        return NoWorker(f"No worker could load the adapter '{model.adapter}'.", retry_after=self.registry.retry_after)

    # ------------------------------------------------------------------------------------------------------------- loading

    def _begin(self, worker: Worker, model: ServedModel, path: str) -> "asyncio.Task[None]":
        """The load of the adapter on the worker: the one that is under way, or a new one, which no request ends."""
        key = worker.spec.url, model.adapter
        task = self._under_way.get(key)
        if task is None:
            task = self._under_way[key] = asyncio.ensure_future(self._load(worker, model, path))
            task.add_done_callback(lambda done: self._over(key, done))
        return task

    def _over(self, key: tuple[str, str], task: "asyncio.Task[None]") -> None:
        self._under_way.pop(key, None)
        error = None if task.cancelled() else task.exception()
        now = self.clock.monotonic()
        self._failed = {each: failed for each, failed in self._failed.items() if failed[0] > now}
        if isinstance(error, SmgError):
            log.warning("the adapter %s was not loaded: %s", key[1], error)
            self._failed[key] = now + FAILED_S, error
        elif error is None:
            self._failed.pop(key, None)

    async def _within(self, task: "asyncio.Task[None]", model: ServedModel) -> None:
        """Wait for a load, as long as a request may."""
        done, _ = await asyncio.wait((task,), timeout=self.settings.adapter_load_s)
        if not done or task.cancelled():
            raise NoWorker(
                f"The adapter '{model.adapter}' is still being loaded.", retry_after=self.registry.retry_after
            )
        task.result()

    async def _load(self, worker: Worker, model: ServedModel, path: str) -> None:
        """Have the worker's engine hold the adapter. Raises what it says."""
        async with self._one_by_one.setdefault(worker.spec.url, asyncio.Lock()):
            engine = worker.engine
            loaded = self._loaded(worker)
            while len(loaded) >= self.settings.loaded_adapters:
                oldest = await self._oldest(worker, loaded)
                loaded.remove(oldest)
                await engine.upkeep(UnloadAdapter(oldest, worker.adapters.get(oldest, oldest)))
                await self.changes.made(worker, engine, oldest)
                self._used.pop((worker.spec.url, oldest), None)
            reply = await engine.upkeep(LoadAdapter(model.adapter, self.ids("lora-"), path))
            if reply is None:
                raise NotImplementedHere(
                    f"Engines of the dialect {worker.facts.dialect} cannot be told to load adapters."
                )
            await self.changes.made(worker, engine, model.adapter)
            self._used[worker.spec.url, model.adapter] = self.clock.monotonic()  # by those that wait for it
            if model.adapter not in worker.adapters:
                detail = f"worker {worker.name}, adapter {model.adapter}: {reply.message}"
                raise EngineFailed("The engine could not load the adapter.", detail=detail, outside_text=reply.message)

    async def _oldest(self, worker: Worker, loaded: Sequence[str]) -> str:
        """The one of `loaded` that was asked for the longest ago. Where that was a moment ago, those who wait for it are let go
        first: they would find it gone."""

        def used(adapter: str) -> float:
            return self._used.get((worker.spec.url, adapter), -inf)

        left = used(min(loaded, key=used)) + JUST_S - self.clock.monotonic()
        if left > 0:
            await asyncio.sleep(left)
        return min(loaded, key=used)


def _least(workers: Sequence[Worker]) -> float:
    return min(pressure(each.record) for each in workers)
