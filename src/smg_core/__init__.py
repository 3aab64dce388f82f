"""Composable packages that turn inference engines into a gateway: text to tokens, tokens to engines, tokens to text.

    from smg_core import Gateway

    gateway = Gateway(workers=["grpc://gpu-0:50051", "grpc://gpu-1:50051"], policy="round_robin")
    app = gateway.asgi()

Importing this package imports none of the rooms below it; a name is fetched when it is first used. What gateways are
made of is loaded when the first one is made.
"""

from typing import TYPE_CHECKING, Any

from smg_core.version import SDK_VERSION

if TYPE_CHECKING:
    from smg_core.config import Config
    from smg_core.gateway.gateway import Gateway
    from smg_core.workers.worker import WorkerSpec

__all__ = ["Config", "Gateway", "WorkerSpec", "__version__"]

__version__ = SDK_VERSION

_WHERE = {
    "Config": "smg_core.config",
    "Gateway": "smg_core.gateway.gateway",
    "WorkerSpec": "smg_core.workers.worker",
}


def __getattr__(name: str) -> Any:
    if name in _WHERE:
        from importlib import import_module

        return getattr(import_module(_WHERE[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
