"""smg_simulator: An engine without a model, fleets of them, and checks of API servers.

    from smg_simulator import SimulatedEngine, SimulatorConfig

    async with SimulatedEngine(SimulatorConfig(model="sim")) as engine: ...

Begin with `server.grpc_server`, the engine as a server; `engine` decides what it does, `answers` what it says, `codecs` how each
dialect writes it. `fleet` compares routing policies over traces, `conform` asks any server, `testing` is for the tests of users,
and `commands` has the commands of `smg-gateway` that need these. A name here is loaded when it is first used.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from smg_simulator.answers.faults import Fault
    from smg_simulator.answers.replies import Reply, Rule
    from smg_simulator.engine.clockwork import Timing
    from smg_simulator.engine.engine import SimulatorConfig
    from smg_simulator.engine.model_folder import MODEL_FOLDER
    from smg_simulator.server.grpc_server import SimulatedEngine
    from smg_simulator.server.running import run_simulator

__all__ = ["MODEL_FOLDER", "Fault", "Reply", "Rule", "SimulatedEngine", "SimulatorConfig", "Timing", "run_simulator"]

_WHERE = {
    "Fault": "smg_simulator.answers.faults",
    "MODEL_FOLDER": "smg_simulator.engine.model_folder",
    "Reply": "smg_simulator.answers.replies",
    "Rule": "smg_simulator.answers.replies",
    "SimulatedEngine": "smg_simulator.server.grpc_server",
    "SimulatorConfig": "smg_simulator.engine.engine",
    "Timing": "smg_simulator.engine.clockwork",
    "run_simulator": "smg_simulator.server.running",
}


def __getattr__(name: str) -> Any:
    if name in _WHERE:
        from importlib import import_module

        return getattr(import_module(_WHERE[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
