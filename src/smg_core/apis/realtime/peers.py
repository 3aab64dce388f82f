"""Sessions at the servers of workers (edge): one is opened at the server with the fewest, or at another where that cannot be had.

Above: the socket of sessions. Below: servers of Realtime, the registry of workers.
"""

import attrs

from smg_core.engines.realtime.engine import RealtimeEngine
from smg_core.engines.realtime.forms import SessionSocket
from smg_core.errors import NoWorker, SmgError, WorkerError
from smg_core.serving.services import Services
from smg_core.workers.worker import Worker

__all__ = ["PeerSession", "open_peer"]

_TRIES = 3
"""Servers that are asked for a session before its client is refused."""


@attrs.frozen(eq=False)
class PeerSession:
    """A session that is open at a worker's server, which calls the model `name_there`."""

    worker: Worker
    engine: RealtimeEngine
    socket: SessionSocket
    name_there: str


async def open_peer(services: Services, model: str, session: str) -> PeerSession | None:
    """A session of `model`, called `session` here, at the server with the fewest, or at another one where that cannot be had;
    None for a model whose engines have no sessions of their own. Raises NoWorker, and what kept the last one from opening it."""
    tried: frozenset[str] = frozenset()
    last: SmgError | None = None
    registry, clock = services.registry, services.clock
    for _ in range(_TRIES):
        try:
            found = registry.candidates(model, tried)
        except SmgError as error:
            raise last or error from None
        able = tuple(each for each in found if each.facts.realtime and isinstance(each.engine, RealtimeEngine))
        if not able:
            if last is not None:
                raise last
            return None
        open_to = registry.admitted(registry.with_room(able), clock.monotonic())
        worker = min(open_to, key=_load)
        engine = worker.engine
        if not isinstance(engine, RealtimeEngine):
            raise NoWorker(f"No worker for the model '{model}' is ready.")
        try:
            socket = await engine.open(session)
        except SmgError as error:
            last, tried = error, tried | {worker.name}
            if isinstance(error, WorkerError):
                services.running.monitor.outcome(worker, error, clock.monotonic())
            if not error.another_worker_may_do:
                raise
        else:
            services.running.monitor.outcome(worker, None, clock.monotonic())
            return PeerSession(worker, engine, socket, engine.model)
    raise last or NoWorker(f"No worker for the model '{model}' is ready.")


def _load(worker: Worker) -> float:
    engine = worker.engine
    sessions = engine.sessions if isinstance(engine, RealtimeEngine) else 0
    return (sessions + worker.in_flight) / worker.spec.weight
