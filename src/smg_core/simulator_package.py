"""Whether the package smg_simulator is installed, for the parts of the core with a use for it.

The core runs without it: nothing here is loaded by it, and it is looked for when an engine without a model is asked for. Above:
the class Gateway, the command line, the pytest plugin.
"""

from importlib.util import find_spec

from smg_core.settings import ConfigError

__all__ = ["require_simulator"]


def require_simulator(what: str) -> None:
    """Raise ConfigError, which says how to install smg_simulator, where `what` was asked for and the package is not there."""
    if find_spec("smg_simulator") is None:
        raise ConfigError(f"{what} needs the package smg-simulator: pip install smg-simulator")
