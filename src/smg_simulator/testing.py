"""For the tests of users (edge): an engine with scripted answers, on a real port, with real gRPC.

Above: tests, and `smg_core.pytest_plugin`, which offers these as fixtures. Below: server. docs/simulator.md shows how it is used.

    async with ScriptedEngine(["Hel", "lo"]) as engine:
        gateway = Gateway(workers=[engine.target])
"""

import asyncio
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TypedDict, TypeVar

import attrs

from smg_core.json_types import Json
from smg_simulator.answers.faults import Fault
from smg_simulator.answers.replies import Reply, Rule
from smg_simulator.engine.engine import SimulatorConfig
from smg_simulator.engine.timer import Timer
from smg_simulator.server.grpc_server import SimulatedEngine

__all__ = ["EngineSettings", "Fault", "Reply", "ScriptedEngine", "in_thread", "tool_call"]

E = TypeVar("E", bound=SimulatedEngine)


def tool_call(
    name: str, arguments: Mapping[str, Json] | None = None, *, text: str = "", reasoning: str | None = None
) -> Reply:
    """A reply that calls one tool, after `text` and `reasoning` if given."""
    return Reply(text=text, reasoning=reasoning, tool_calls=((name, dict(arguments or {})),))


class EngineSettings(TypedDict, total=False):
    """The keyword arguments of `ScriptedEngine`."""

    faults: Sequence[Fault | None]
    config: SimulatorConfig | None
    listen: str
    timer: Timer | None


class ScriptedEngine(SimulatedEngine):
    """An engine with scripted answers.

    Each of `says` answers one request, in order; the last one answers all further requests. It is a string, a sequence of pieces
    (each is sent as one message), or a `Reply`. `faults` are applied to the requests in order; None means no fault. `config` has
    everything else; its own replies and rules are replaced.
    """

    def __init__(
        self,
        *says: str | Sequence[str] | Reply,
        faults: Sequence[Fault | None] = (),
        config: SimulatorConfig | None = None,
        listen: str = "127.0.0.1:0",
        timer: Timer | None = None,
    ) -> None:
        replies = [_reply(each) for each in says]
        config = attrs.evolve(config or SimulatorConfig(), faults=tuple(faults))
        if replies:
            config = attrs.evolve(config, replies=tuple(replies[:-1]), rules=(Rule((), replies[-1]),))
        super().__init__(config, listen, timer=timer)


def _reply(answer: str | Sequence[str] | Reply) -> Reply:
    if isinstance(answer, Reply):
        return answer
    return Reply(text=answer) if isinstance(answer, str) else Reply(pieces=tuple(answer))


@contextmanager
def in_thread(engine: E, timeout: float = 30.0) -> Iterator[E]:
    """Run an engine on an event loop of its own, for tests that have none. Start and stop each take at most `timeout` seconds."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="embedded engine", daemon=True)
    thread.start()
    try:
        asyncio.run_coroutine_threadsafe(engine.start(), loop).result(timeout)
        try:
            yield engine
        finally:
            asyncio.run_coroutine_threadsafe(engine.stop(), loop).result(timeout)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(timeout)
        loop.close()
