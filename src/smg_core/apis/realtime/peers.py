"""Sessions at the servers of workers (edge): one is opened at the server with the fewest, or at another where that cannot be had.

Above: the socket of sessions. Below: servers of Realtime, the registry of workers.
"""

import asyncio

import attrs

from smg_core.apis.realtime.injecting import ToolInjection
from smg_core.apis.realtime.wire.relayed import read_server_event
from smg_core.engines.openai.answers import one_line
from smg_core.engines.realtime.engine import RealtimeEngine
from smg_core.engines.realtime.forms import SessionSocket
from smg_core.errors import EngineGarbled, EngineTimeout, InvalidRequest, NoWorker, SmgError, WorkerError
from smg_core.json_types import JsonObject
from smg_core.serving.services import Services
from smg_core.wire.json_text import encode_object
from smg_core.workers.worker import Worker

__all__ = ["PeerSession", "begin_with", "open_peer"]

_TRIES = 3
"""Servers that are asked for a session before its client is refused."""
_BEFORE = 16
"""Events of a server before the one that its session has the settings of a client secret."""


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


async def begin_with(
    services: Services, peer: PeerSession, settings: JsonObject, injection: ToolInjection
) -> list[bytes]:
    """Have a session begin with the settings of its client secret; returns what its server has said by then. A session without
    them is not what the maker of the secret has allowed. Raises InvalidRequest, and WorkerError."""
    asked = {**settings, **({"model": peer.name_there} if "model" in settings else {})}
    reported: list[bytes] = []
    listed: list[bytes] = []
    if injection.concerns(encode_object(asked)):
        asked, listed = await injection.session(asked)
    try:
        async with asyncio.timeout(services.live.config.engines.question_timeout_s):
            await peer.socket.send(encode_object({"type": "session.update", "session": asked}))
            while len(reported) < _BEFORE:
                reported.append(await peer.socket.receive())
                event = read_server_event(reported[-1])
                if event is not None and event.type == "error":
                    refusal = one_line(reported[-1].decode())
                    message = "The server of this model does not take the settings of the client secret."
                    raise InvalidRequest(
                        message, param="session", detail=f"{peer.worker.name}: {refusal}", outside_text=refusal
                    )
                if event is not None and event.type == "session.updated":
                    return [*reported, *listed]
    except TimeoutError:
        raise EngineTimeout("The engine did not answer in time.", detail="it has not answered session.update") from None
    raise EngineGarbled("The server of this session has not taken its settings.")
