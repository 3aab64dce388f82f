"""The pytest plugin (edge): fixtures for the tests of users; what they are made of is imported when one is used.

- `smg_simulator`: makes engines; `async with smg_simulator("Hello") as engine:` in an async test (any async plugin),
  `with smg_simulator.in_thread("Hello") as engine:` in one without an event loop; the package smg_simulator has them
- `smg_clock`: a FakeClock
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Unpack

import pytest

from smg_core.simulator_package import require_simulator

if TYPE_CHECKING:
    from smg_core.testing import FakeClock
    from smg_simulator.answers.replies import Reply
    from smg_simulator.testing import EngineSettings, ScriptedEngine


__all__ = ["EngineFactory", "smg_clock", "smg_simulator"]


class EngineFactory:
    """Makes engines with scripted answers; the arguments are ScriptedEngine's."""

    def __call__(self, *says: "str | Sequence[str] | Reply", **settings: "Unpack[EngineSettings]") -> "ScriptedEngine":
        from smg_simulator.testing import ScriptedEngine

        return ScriptedEngine(*says, **settings)

    def in_thread(
        self, *says: "str | Sequence[str] | Reply", **settings: "Unpack[EngineSettings]"
    ) -> "AbstractContextManager[ScriptedEngine]":
        """The same engine, running in a thread of its own."""
        from smg_simulator.testing import in_thread

        return in_thread(self(*says, **settings))


@pytest.fixture
def smg_simulator() -> EngineFactory:
    """A factory of engines with scripted answers. Raises ConfigError where smg_simulator is not installed."""
    require_simulator("the fixture smg_simulator")
    return EngineFactory()


@pytest.fixture
def smg_clock() -> "FakeClock":
    """A clock that moves only by `advance`."""
    from smg_core.testing import FakeClock

    return FakeClock()
