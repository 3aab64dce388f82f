"""Requests of an operator to all engines at once, at the admin door: load, caches, profiles, LoRA adapters, pauses, weights
(edge).

Every worker that is asked has a row in the answer, with an HTTP status of its own: 200 where its engine did it, 409 where it
refused, 501 where it has no such call, 503 where the worker is not there, and the status of the error where the call failed;
what the engine itself said of a failure is a line of the log `smg.audit`.
Workers that are ranks of one engine share one call. The engines are asked at the same time, at most `admin.engine_calls` of them.
Above: admin.app. Below: the registry and the engines' clients.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import TypeVar

import attrs
import msgspec

from smg_core.admin.bodies import decode_body
from smg_core.admin.worker_types import (
    FlushCacheBody,
    LoadAdapterBody,
    LoadWeightsBody,
    PauseBody,
    RankRow,
    ResumeBody,
    SleepBody,
    StartProfileBody,
    StopProfileBody,
    TransferWeightsBody,
    UnloadAdapterBody,
    WakeBody,
    WorkerAnswer,
    WorkerAnswers,
    WorkersBody,
)
from smg_core.engines.base import Engine
from smg_core.engines.upkeep import (
    EngineReply,
    EngineTask,
    FallAsleep,
    FlushCache,
    LoadAdapter,
    LoadWeights,
    PauseGeneration,
    ResumeGeneration,
    StartProfile,
    StopProfile,
    TransferWeights,
    UnloadAdapter,
)
from smg_core.errors import InvalidRequest, NotFound, SmgError
from smg_core.http.endpoint import Endpoint
from smg_core.http.exchange import Exchange
from smg_core.http.routes import Route
from smg_core.serving.services import Services
from smg_core.wire.operation import Operation, OperationResponse
from smg_core.workers.worker import Worker

__all__ = [
    "FLUSH_CACHE",
    "LOAD_ADAPTER",
    "LOAD_WEIGHTS",
    "PAUSE",
    "RESUME",
    "SLEEP",
    "START_PROFILE",
    "STOP_PROFILE",
    "TRANSFER_WEIGHTS",
    "UNLOAD_ADAPTER",
    "WAKE",
    "WORKER_LOADS",
    "worker_routes",
]

log = logging.getLogger("smg.audit")

B = TypeVar("B", bound=WorkersBody)
NEEDED = "admin.workers"
_EngineAnswer = tuple[int, str, list[RankRow] | None]
"""The status of a row, what it says, and the load of the engine's ranks, if that was asked for."""
_LACKS: _EngineAnswer = (HTTPStatus.NOT_IMPLEMENTED, "The engine has no such call.", None)


def _about(name: str, summary: str, body: object) -> Operation:
    return Operation(name, summary, "workers", body, (OperationResponse(200, "One row a worker.", WorkerAnswers),))


WORKER_LOADS = _about(
    "workerLoads", "The load of the engines, asked now; worker=NAME, repeated, for some of them.", None
)

FLUSH_CACHE = _about("flushCaches", "Have engines empty their KV caches.", FlushCacheBody)

START_PROFILE = _about("startProfiles", "Have engines take a profile of themselves.", StartProfileBody)

STOP_PROFILE = _about("stopProfiles", "End the profiles.", StopProfileBody)

LOAD_ADAPTER = _about("loadAdapter", "Have engines load a LoRA adapter, which is then a model.", LoadAdapterBody)

PAUSE = _about("pauseGeneration", "Have engines stop generating until they are resumed.", PauseBody)

SLEEP = _about("sleepWorkers", "Have engines give their memory free; they get no requests until they wake.", SleepBody)
WAKE = _about("wakeWorkers", "Have engines take their memory back, and send them requests again.", WakeBody)
RESUME = _about("resumeGeneration", "Have engines generate again.", ResumeBody)

LOAD_WEIGHTS = _about("loadWeights", "Have engines load the weights of a checkpoint, in place.", LoadWeightsBody)

TRANSFER_WEIGHTS = _about(
    "transferWeights", "Have engines do one step of taking weights from a trainer.", TransferWeightsBody
)

UNLOAD_ADAPTER = _about("unloadAdapter", "Have engines let go of a LoRA adapter.", UnloadAdapterBody)


def worker_routes(services: Services) -> tuple[Route[Endpoint], ...]:
    """The routes, over the workers of `gateway`."""
    workers = _Workers(services)
    changing: tuple[tuple[str, Callable[[Exchange], Awaitable[None]], Operation], ...] = (
        ("/admin/workers/flush_cache", workers.flush_cache, FLUSH_CACHE),
        ("/admin/workers/start_profile", workers.start_profile, START_PROFILE),
        ("/admin/workers/stop_profile", workers.stop_profile, STOP_PROFILE),
        ("/admin/workers/load_adapter", workers.load_adapter, LOAD_ADAPTER),
        ("/admin/workers/unload_adapter", workers.unload_adapter, UNLOAD_ADAPTER),
        ("/admin/workers/pause", workers.pause, PAUSE),
        ("/admin/workers/resume", workers.resume, RESUME),
        ("/admin/workers/sleep", workers.sleep, SLEEP),
        ("/admin/workers/wake_up", workers.wake_up, WAKE),
        ("/admin/workers/load_weights", workers.load_weights, LOAD_WEIGHTS),
        ("/admin/workers/transfer_weights", workers.transfer_weights, TRANSFER_WEIGHTS),
    )
    return (
        Route("GET", "/admin/workers/loads", Endpoint(workers.loads, NEEDED, about=WORKER_LOADS)),
        *(
            Route("POST", path, Endpoint(answer, NEEDED, reads_json=True, about=about))
            for path, answer, about in changing
        ),
    )


_OTHER_ANSWERS = (LoadWeights, TransferWeights, LoadAdapter, UnloadAdapter)
"""After these an engine answers otherwise than before, under the same names."""


class _Workers:
    def __init__(self, services: Services) -> None:
        self._services = services
        self._places = asyncio.Semaphore(services.live.config.admin.engine_calls)

    async def loads(self, exchange: Exchange) -> None:
        await self._respond(exchange, self._chosen(exchange.query.get("worker")), _loads)

    async def flush_cache(self, exchange: Exchange) -> None:
        body = await self._body(exchange, FlushCacheBody)
        await self._upkeep(exchange, body, FlushCache(body.wait_s))

    async def start_profile(self, exchange: Exchange) -> None:
        body = await self._body(exchange, StartProfileBody)
        given = msgspec.structs.asdict(body)
        del given["workers"]
        await self._upkeep(exchange, body, StartProfile(**given))

    async def stop_profile(self, exchange: Exchange) -> None:
        await self._upkeep(exchange, await self._body(exchange, StopProfileBody), StopProfile())

    async def pause(self, exchange: Exchange) -> None:
        body = await self._body(exchange, PauseBody)
        await self._upkeep(exchange, body, PauseGeneration(body.mode))

    async def resume(self, exchange: Exchange) -> None:
        await self._upkeep(exchange, await self._body(exchange, ResumeBody), ResumeGeneration())

    async def sleep(self, exchange: Exchange) -> None:
        body = await self._body(exchange, SleepBody)

        async def ask(worker: Worker, engine: Engine) -> _EngineAnswer:
            return _done(await self._services.running.sleeping.put_to_sleep(worker, engine, FallAsleep()))

        await self._respond(exchange, self._chosen(body.workers), ask)

    async def wake_up(self, exchange: Exchange) -> None:
        body = await self._body(exchange, WakeBody)

        async def ask(worker: Worker, engine: Engine) -> _EngineAnswer:
            return _done(await self._services.running.sleeping.woken(worker, engine))

        await self._respond(exchange, self._chosen(body.workers), ask)

    async def load_weights(self, exchange: Exchange) -> None:
        body = await self._body(exchange, LoadWeightsBody)
        exchange.subject = body.version or body.path
        await self._upkeep(exchange, body, LoadWeights(body.path, body.version))

    async def transfer_weights(self, exchange: Exchange) -> None:
        body = await self._body(exchange, TransferWeightsBody)
        exchange.subject = body.version
        await self._upkeep(exchange, body, TransferWeights(body.step, msgspec.json.encode(body.info), body.version))

    async def load_adapter(self, exchange: Exchange) -> None:
        body = await self._body(exchange, LoadAdapterBody)
        exchange.subject = body.name
        known = self._services.models.get(body.name)
        if known is not None and known.adapter != body.name:
            raise InvalidRequest(f"'{body.name}' is the name of something else that is served.", param="name")
        asked = LoadAdapter(body.name, self._services.ids("lora-"), body.path, body.pinned)
        await self._upkeep(exchange, body, asked)

    async def unload_adapter(self, exchange: Exchange) -> None:
        body = await self._body(exchange, UnloadAdapterBody)
        exchange.subject = body.name

        async def ask(worker: Worker, engine: Engine) -> _EngineAnswer:
            if not worker.facts.lora:
                return _LACKS
            if (id := worker.adapters.get(body.name)) is None:
                return HTTPStatus.CONFLICT, "The engine does not hold the adapter.", None
            return await self._have_done(worker, engine, UnloadAdapter(body.name, id))

        await self._respond(exchange, self._chosen(body.workers), ask)

    async def _body(self, exchange: Exchange, shape: type[B]) -> B:
        return decode_body(await exchange.body(self._services.live.config.admin.body_bytes), shape)

    async def _upkeep(self, exchange: Exchange, body: WorkersBody, asked: EngineTask) -> None:
        async def ask(worker: Worker, engine: Engine) -> _EngineAnswer:
            return await self._have_done(worker, engine, asked)

        await self._respond(exchange, self._chosen(body.workers), ask)

    async def _have_done(self, worker: Worker, engine: Engine, asked: EngineTask) -> _EngineAnswer:
        reply = await engine.upkeep(asked)
        if reply is None:
            return _LACKS
        if isinstance(asked, LoadAdapter | UnloadAdapter):
            await self._services.running.adapter_changes.made(worker, engine, asked.name)
        if isinstance(asked, FlushCache | LoadWeights | TransferWeights) and reply.done:
            # What other weights have computed is of no use; engines drop it, or are to be told to.
            await self._services.running.cache_losses.emptied(worker)
        caching = self._services.live.caching
        if reply.done and caching is not None and isinstance(asked, _OTHER_ANSWERS):
            await caching.erase_all()
        return HTTPStatus.OK if reply.done else HTTPStatus.CONFLICT, reply.message, None

    def _chosen(self, names: tuple[str, ...] | None) -> list[Worker]:
        """The workers of these names; for None all. Raises NotFound naming one that is not there."""
        if names is None:
            return list(self._services.registry)
        if len(set(names)) < len(names):
            raise InvalidRequest("A worker is named twice.", param="workers")
        found = [(name, self._services.registry.get(name)) for name in names]
        for name, worker in found:
            if worker is None:
                raise NotFound(f"There is no worker '{name}'.", param="workers")
        return [worker for _, worker in found if worker is not None]

    async def _respond(
        self, exchange: Exchange, workers: list[Worker], ask: Callable[[Worker, Engine], Awaitable[_EngineAnswer]]
    ) -> None:
        """Ask the engine of each of `workers`, each engine once, and answer with a row a worker."""
        engines: dict[str, list[Worker]] = {}
        for worker in workers:
            engines.setdefault(worker.spec.url, []).append(worker)
        asked = await asyncio.gather(*[self._ask(ranks[0], ask) for ranks in engines.values()])
        answers = dict(zip(engines, asked, strict=True))
        rows = [_row(worker, answers[worker.spec.url]) for worker in workers]
        exchange.take_id(self._services.ids, "req_")
        headers = [(b"content-type", b"application/json"), self._services.request_ids.header(exchange.name)]
        await exchange.respond(200, msgspec.json.encode(WorkerAnswers(rows)), headers)

    async def _ask(self, worker: Worker, ask: Callable[[Worker, Engine], Awaitable[_EngineAnswer]]) -> _EngineAnswer:
        engine = worker.reached
        if engine is None:
            return HTTPStatus.SERVICE_UNAVAILABLE, f"The worker is {worker.state}.", None
        async with self._places:
            try:
                return await ask(worker, engine)
            except SmgError as error:
                log.warning("worker %s did not do what it was asked: %s", worker.name, error)
                return error.status, error.message, None


def _done(reply: EngineReply | None) -> _EngineAnswer:
    if reply is None:
        return _LACKS
    return HTTPStatus.OK if reply.done else HTTPStatus.CONFLICT, reply.message, None


async def _loads(worker: Worker, engine: Engine) -> _EngineAnswer:
    loads = await engine.loads()
    if loads is None:
        return _LACKS
    return HTTPStatus.OK, "", [RankRow(**attrs.asdict(rank)) for rank in loads.ranks]


def _row(worker: Worker, details: _EngineAnswer) -> WorkerAnswer:
    status, message, ranks = details
    if ranks is not None and worker.spec.rank is not None:
        ranks = [row for row in ranks if row.rank == worker.spec.rank]
    return WorkerAnswer(worker.name, worker.facts.dialect, int(status), message, ranks)
