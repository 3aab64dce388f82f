"""The command `smg-gateway up FILE` (edge): engines and a gateway on one machine, from one file, until it is told to leave.

Decides the flags, which files the gateway is started with, what is said of a port that is taken, and how lines are shown. What
reads the file and runs it is imported when it is run. Above: cli. Below: `plan`, `supervisor`.
"""

import argparse
import json
import os
import shlex
import signal
import socket
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from smg_core.config.config import parse_file
from smg_core.settings import ConfigError

if TYPE_CHECKING:
    from smg_core.up.plan import UpPlan

__all__ = ["up_flags"]

FILE_BYTES = 1 << 20


def up_flags(parser: argparse.ArgumentParser) -> None:
    """The flags of `smg-gateway up`."""
    parser.set_defaults(run=_up)
    parser.add_argument("file", metavar="FILE", help="what to run: engines and the gateway's settings (docs/up.md)")
    parser.add_argument(
        "--simulated", action="store_true", help="put the engine without a model in the place of each engine"
    )
    parser.add_argument("--show", action="store_true", help="print what would be run, and end")


def _up(args: argparse.Namespace) -> int:
    import asyncio

    from smg_core.up.plan import GATEWAY

    plan = _plan(Path(args.file), simulated=args.simulated)
    with tempfile.TemporaryDirectory(prefix="smg-up-") as folder:
        gateway = _gateway_words(plan, Path(folder))
        if args.show:
            for engine in plan.engines:
                print(f"{engine.name}: {shlex.join(engine.words)}")
            print(f"{GATEWAY}: {shlex.join(gateway)}")
            return 0
        if taken := _taken(plan):
            print("\n".join(f"smg-gateway: {each}" for each in taken), file=sys.stderr)
            return 1
        return asyncio.run(_run(plan, gateway))


def _plan(path: Path, *, simulated: bool) -> "UpPlan":
    """The plan of a file. Raises ConfigError, each problem beginning with the file's name."""
    from smg_core.up.plan import up_plan_of

    try:
        if path.stat().st_size > FILE_BYTES:
            raise ConfigError(f"{path}: over {FILE_BYTES} bytes")
        written = parse_file(path.read_text(), path.suffix.lower())
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}: {error.strerror if isinstance(error, OSError) else error}") from None
    try:
        return up_plan_of(written, free_port=_FreePorts(), python=sys.executable, simulated=simulated)
    except ConfigError as error:
        raise ConfigError(*(f"{path}: {each}" for each in error.problems)) from None


class _FreePorts:
    """Finds ports that nobody listens on, each once."""

    def __init__(self) -> None:
        self._given: set[int] = set()

    def __call__(self) -> int:
        while True:
            with socket.create_server(("127.0.0.1", 0)) as found:
                port: int = found.getsockname()[1]
            if port not in self._given:
                self._given.add(port)
                return port


def _gateway_words(plan: "UpPlan", folder: Path) -> list[str]:
    """The words that start the gateway, whose settings and workers are written into `folder`, which is for its owner alone."""
    settings, workers = folder / "gateway.json", folder / "workers.json"
    settings.write_text(json.dumps(plan.sections))
    workers.write_text(json.dumps([dict(each.entry) for each in plan.engines]))
    return [sys.executable, "-m", "smg_core", "serve", "--config", str(settings), "--workers-file", str(workers)]


def _taken(plan: "UpPlan") -> list[str]:
    """Which ports are taken that something of the plan is to listen on, before anything is started."""
    from smg_core.up.plan import GATEWAY

    server = plan.config.server
    wanted = [(GATEWAY, server.host, server.port)]
    wanted += [(each.name, "127.0.0.1", each.port) for each in plan.engines if each.fixed]
    problems = []
    for name, host, port in wanted:
        try:
            socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET).close()
        except OSError as error:
            problems.append(f"{name}: cannot listen on {host}:{port}: {os.strerror(error.errno or 0)}")
    return problems


async def _run(plan: "UpPlan", gateway: list[str]) -> int:
    import asyncio

    from smg_core.up.plan import GATEWAY
    from smg_core.up.supervisor import Supervised

    width = max(len(each) for each in (GATEWAY, *(engine.name for engine in plan.engines)))
    progress = _ProgressLines(width)
    supervised = Supervised(plan, gateway, progress.show)
    progress.lost = supervised.leave
    loop = asyncio.get_running_loop()
    for name in ("SIGTERM", "SIGINT", "SIGHUP"):  # the last: the terminal was closed, and nobody would end the programs
        if hasattr(signal, name):
            loop.add_signal_handler(getattr(signal, name), supervised.leave)
    return await supervised.run()


class _ProgressLines:
    """Shows lines of programs, each with a name before it. Where nobody reads them any more, `lost` is called once."""

    def __init__(self, width: int) -> None:
        self._width = width
        self._open = True
        self.lost: Callable[[], None] = lambda: None

    def show(self, name: str, line: str) -> None:
        """Print a line."""
        if not self._open:
            return
        text = line if line.isprintable() else "".join(each if each.isprintable() else " " for each in line)
        try:
            print(f"{name:<{self._width}} | {text}", flush=True)
        except OSError:  # a pipe without a reader, or a terminal that is gone
            self._open = False
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is left is written there at exit
            self.lost()
