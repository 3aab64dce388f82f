"""The table of commands that this package has: the name of each, and what adds its flags to a parser.

A command's module is imported when its flags are asked for. Above: smg_core.cli, which imports this when such a command is run.
"""

import argparse
from collections.abc import Callable, Mapping

__all__ = ["FLAGS"]


def _simulate(parser: argparse.ArgumentParser) -> None:
    from smg_simulator.commands.simulate import simulate_flags

    simulate_flags(parser)


def _faults(parser: argparse.ArgumentParser) -> None:
    from smg_simulator.commands.simulate import faults_flags

    faults_flags(parser)


def _simulate_fleet(parser: argparse.ArgumentParser) -> None:
    from smg_simulator.commands.simulate_fleet import fleet_flags

    fleet_flags(parser)


def _demo(parser: argparse.ArgumentParser) -> None:
    from smg_simulator.commands.demo import demo_flags

    demo_flags(parser)


def _conform(parser: argparse.ArgumentParser) -> None:
    from smg_simulator.commands.conform import conform_flags

    conform_flags(parser)


def _bench(parser: argparse.ArgumentParser) -> None:
    from smg_simulator.commands.bench import bench_flags

    bench_flags(parser)


def _record(parser: argparse.ArgumentParser) -> None:
    from smg_simulator.commands.cassettes import record_flags

    record_flags(parser)


def _replay(parser: argparse.ArgumentParser) -> None:
    from smg_simulator.commands.cassettes import replay_flags

    replay_flags(parser)


FLAGS: Mapping[str, Callable[[argparse.ArgumentParser], None]] = {
    "bench": _bench,
    "conform": _conform,
    "demo": _demo,
    "faults": _faults,
    "record": _record,
    "replay": _replay,
    "simulate": _simulate,
    "simulate-fleet": _simulate_fleet,
}
