"""The routes that show the workers and change their roster, at the admin door (edge).

Each calls one operation of the gateway's roster, which makes the change in every process. A worker's credentials go in and never
come out. Above: admin.app. Below: fleet.roster.
"""

from collections.abc import Mapping
from typing import TypeVar

import attrs
import msgspec

from smg_core.admin.answers import respond_json
from smg_core.admin.bodies import decode_body
from smg_core.admin.roster_types import (
    AddWorkerBody,
    ChangeWorkerBody,
    DrainedWorker,
    DrainWorkerBody,
    NothingMore,
    WorkerRow,
    WorkerRows,
)
from smg_core.admin.workers import worker_routes
from smg_core.config.config import without_password
from smg_core.errors import Conflict, InvalidRequest, NotFound
from smg_core.fleet.roster import ADMIN, Roster
from smg_core.http.endpoint import Endpoint
from smg_core.http.exchange import Exchange
from smg_core.http.routes import Route
from smg_core.serving.services import Services
from smg_core.wire.operation import Operation, OperationResponse
from smg_core.workers.worker import Worker, WorkerSpec
from smg_core.workers.worker_file import TLS_FIELDS, WorkerEntry, adapter_pairs, changed_tls, labels_of, spec_of

__all__ = [
    "ADD_WORKER",
    "CHANGE_WORKER",
    "DRAIN_WORKER",
    "REMOVE_WORKER",
    "SHOW_WORKER",
    "SHOW_WORKERS",
    "UNDRAIN_WORKER",
    "roster_routes",
    "worker_row",
]

B = TypeVar("B", bound=msgspec.Struct)
V = TypeVar("V")
NEEDED = "admin.workers"
_KEY = "authorization"


def _about(name: str, summary: str, body: object, status: int, details: object) -> Operation:
    return Operation(name, summary, "workers", body, (OperationResponse(status, "The worker as it is now.", details),))


SHOW_WORKERS = _about("listWorkers", "All workers, with their states.", None, 200, WorkerRows)

SHOW_WORKER = _about("getWorker", "One worker.", None, 200, WorkerRow)

ADD_WORKER = _about(
    "addWorker", "Add a worker, in every process; it joins when its engine answers.", AddWorkerBody, 201, WorkerRow
)

CHANGE_WORKER = _about("changeWorker", "Change a worker, in every process.", ChangeWorkerBody, 200, WorkerRow)

DRAIN_WORKER = _about("drainWorker", "Send a worker no new requests.", DrainWorkerBody, 200, DrainedWorker)

UNDRAIN_WORKER = _about("undrainWorker", "Let a worker that drains have requests again.", NothingMore, 200, WorkerRow)

REMOVE_WORKER = _about(
    "removeWorker", "Remove a worker at once; its calls go on with others where they can.", None, 200, DrainedWorker
)


def roster_routes(services: Services) -> tuple[Route[Endpoint], ...]:
    """The routes, over the workers of `gateway`; those that ask engines among them."""
    routes, one = _Workers(services), "/admin/workers/{name}"
    return (
        *worker_routes(services),
        Route("GET", "/admin/workers", Endpoint(routes.listed, NEEDED, about=SHOW_WORKERS)),
        Route("POST", "/admin/workers", Endpoint(routes.add, NEEDED, reads_json=True, about=ADD_WORKER)),
        Route("GET", one, Endpoint(routes.one, NEEDED, about=SHOW_WORKER)),
        Route("PATCH", one, Endpoint(routes.change, NEEDED, reads_json=True, about=CHANGE_WORKER)),
        Route("DELETE", one, Endpoint(routes.remove, NEEDED, about=REMOVE_WORKER)),
        Route("POST", f"{one}/drain", Endpoint(routes.drain, NEEDED, reads_json=True, about=DRAIN_WORKER)),
        Route("POST", f"{one}/undrain", Endpoint(routes.undrain, NEEDED, reads_json=True, about=UNDRAIN_WORKER)),
    )


class _Workers:
    def __init__(self, services: Services) -> None:
        self._services = services

    @property
    def _roster(self) -> Roster:
        return self._services.running.roster

    async def listed(self, exchange: Exchange) -> None:
        rows = [worker_row(self._services, each) for each in self._services.registry]
        await respond_json(self._services, exchange, WorkerRows(rows))

    async def one(self, exchange: Exchange) -> None:
        await self._show(exchange, self._named(exchange))

    async def add(self, exchange: Exchange) -> None:
        body = await self._body(exchange, AddWorkerBody)
        entry = WorkerEntry(**msgspec.structs.asdict(body))
        try:
            spec = spec_of(entry, str, self._services.live.config.engines.metadata_bytes)
        except ValueError as error:
            raise InvalidRequest(f"Invalid worker: {error}.") from None
        if self._services.registry.get(spec.label) is not None:
            raise Conflict(f"There is a worker '{spec.label}' already.")
        try:
            worker = await self._roster.add(spec, ADMIN)
        except (ValueError, LookupError) as error:
            raise InvalidRequest(f"Invalid worker: {error}.") from None
        await self._roster.settled()
        await self._show(exchange, worker, 201)

    async def change(self, exchange: Exchange) -> None:
        worker, body = self._named(exchange), await self._body(exchange, ChangeWorkerBody)
        try:
            changed = await self._roster.edit(worker.name, lambda spec: changed_spec(spec, body))
        except (ValueError, LookupError) as error:
            raise InvalidRequest(f"Invalid worker: {error}.") from None
        await self._roster.settled()
        await self._show(exchange, changed)

    async def drain(self, exchange: Exchange) -> None:
        worker, body = self._named(exchange), await self._body(exchange, DrainWorkerBody)
        if body.remove:
            await self._roster.retire(worker.name, self._services.live.config.workers.drain_s, move=body.move)
        else:
            await self._roster.drain(worker.name, move=body.move)
        await self._roster.settled()
        left = await self._roster.drained(worker, body.wait_s)
        await respond_json(self._services, exchange, DrainedWorker(worker_row(self._services, worker), left))

    async def undrain(self, exchange: Exchange) -> None:
        worker, _ = self._named(exchange), await self._body(exchange, NothingMore)
        back = await self._roster.undrain(worker.name)
        await self._roster.settled()
        await self._show(exchange, back)

    async def remove(self, exchange: Exchange) -> None:
        worker = self._named(exchange)
        left = worker.in_flight
        await self._roster.remove(worker.name)
        await self._roster.settled()
        await respond_json(self._services, exchange, DrainedWorker(worker_row(self._services, worker), left))

    def _named(self, exchange: Exchange) -> Worker:
        """The worker that the path names. Raises NotFound."""
        worker = self._services.registry.get(exchange.path_values["name"])
        if worker is None:
            raise NotFound("There is no worker of this name.")
        return worker

    async def _body(self, exchange: Exchange, shape: type[B]) -> B:
        return decode_body(await exchange.body(self._services.live.config.admin.body_bytes), shape)

    async def _show(self, exchange: Exchange, worker: Worker, status: int = 200) -> None:
        await respond_json(self._services, exchange, worker_row(self._services, worker), status)


def changed_spec(spec: WorkerSpec, body: ChangeWorkerBody) -> WorkerSpec:
    """The spec with what `body` changes. Raises ValueError for labels and adapters without a name."""
    given = {name: value for name, value in msgspec.structs.asdict(body).items() if value is not msgspec.UNSET}
    moves = given.get("url", spec.url) != spec.url
    if moves and spec.credential is not None:
        raise ValueError("the worker has a credential, which is not sent elsewhere: remove it and add another one")
    if moves and spec.headers and not {"api_key", "headers"} & given.keys():
        raise ValueError("the worker has credentials, which are not sent elsewhere: give those for the new URL")
    headers = {name.lower(): value for name, value in given.pop("headers", {}).items()}
    if "api_key" in given:
        key = given.pop("api_key")
        headers[_KEY] = None if key is None else f"Bearer {key}"
    if headers:
        given["headers"] = tuple(_merged({} if moves else dict(spec.headers), headers).items())
    if "labels" in given:
        given["labels"] = labels_of(_merged(dict(spec.labels), given["labels"]))
    if "adapters" in given:
        given["adapters"] = adapter_pairs(_merged(dict(spec.adapters), given["adapters"]))
    if certificates := {name: given.pop(name) for name in TLS_FIELDS & given.keys()}:
        given["tls"] = changed_tls(spec.tls, certificates)
    return attrs.evolve(spec, **given)


def _merged(before: Mapping[str, V], changes: Mapping[str, V | None]) -> dict[str, V]:
    """The values with `changes`, of which null removes one."""
    merged = {**before, **changes}
    return {name: value for name, value in merged.items() if value is not None}


def worker_row(services: Services, worker: Worker) -> WorkerRow:
    """A worker as it is told."""
    registry = services.registry
    return WorkerRow(
        name=worker.name,
        url=without_password(worker.spec.url),
        state=worker.state,
        reason=worker.reason,
        processes=worker.board.states(worker.row),
        pending=worker.pending,
        source=worker.source,
        role=worker.role,
        dialect=worker.facts.dialect or worker.spec.dialect,
        models=list(worker.models),
        adapters=sorted(worker.adapters),
        weight=worker.weight,
        share=round(registry.slow_start.share_of(worker.name, services.clock.monotonic()), 3),
        labels=dict(worker.spec.labels),
        headers=[name for name, _ in worker.spec.headers],
        in_flight=worker.in_flight,
        waiting_tokens=worker.prefill_tokens,
        queued=worker.queued,
        running=worker.running,
        kv_usage=worker.kv_usage,
        breaker=registry.breakers.state(worker.name),
        evidence=dict(worker.evidence),
    )
