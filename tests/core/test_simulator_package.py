"""The core where smg_simulator is not installed: all of it loads, and what needs the package says how to install it."""

import subprocess
import sys

import pytest

from smg_core.settings import ConfigError
from smg_core.simulator_package import require_simulator

WITHOUT = """
import importlib, pkgutil, sys
sys.modules["smg_simulator"] = None  # what Python has for a package that is not there
import smg_core
for module in pkgutil.walk_packages(smg_core.__path__, "smg_core."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
"""
ASKED = """
from smg_core.cli import main
for command in ("simulate", "simulate-fleet", "faults", "demo", "conform"):
    print(main([command]), file=sys.stderr)
main(["config"])
for ask in (smg_core.Gateway.simulated, lambda: SimulatedGateway([None])):
    try:
        ask()
    except ConfigError as error:
        print(error, file=sys.stderr)
"""
HOW = "needs the package smg-simulator: pip install smg-simulator"


@pytest.fixture(scope="module")
def told() -> subprocess.CompletedProcess[str]:
    """What a process without smg_simulator says: all of the core loaded, each command and each way from Python asked for."""
    names = "from smg_core.gateway.simulated import SimulatedGateway\nfrom smg_core.settings import ConfigError\n"
    return subprocess.run([sys.executable, "-c", WITHOUT + names + ASKED], capture_output=True, text=True, check=False)


@pytest.mark.full
def test_every_module_of_the_core_loads_without_the_simulator(told: subprocess.CompletedProcess[str]) -> None:
    assert told.returncode == 0, told.stderr


@pytest.mark.full
@pytest.mark.parametrize("command", ["simulate", "simulate-fleet", "faults", "demo", "conform"])
def test_a_command_that_needs_the_simulator_says_how_to_install_it(
    told: subprocess.CompletedProcess[str], command: str
) -> None:
    said = told.stderr.splitlines()

    assert said[said.index(f"smg-gateway: {command} {HOW}") + 1] == "2"


@pytest.mark.full
@pytest.mark.parametrize("what", ["Gateway.simulated", "a simulated gateway"])
def test_a_simulated_gateway_says_how_to_install_it(told: subprocess.CompletedProcess[str], what: str) -> None:
    assert f"{what} {HOW}" in told.stderr.splitlines()


def test_other_commands_run_without_it(told: subprocess.CompletedProcess[str]) -> None:
    assert "server:" in told.stdout


def test_the_fixture_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "smg_simulator", None)

    with pytest.raises(ConfigError, match="the fixture smg_simulator needs the package"):
        require_simulator("the fixture smg_simulator")
