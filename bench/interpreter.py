"""How long a warm call of the interpreter takes: code in a container that has run code before.

    python bench/interpreter.py --interpreter FOLDER [--calls N]

FOLDER is what `smg-gateway interpreter build` has filled. The first call of a container begins its program and is told apart.
The calls are those that a tool makes: through the containers of a gateway, with its record and the look at its files.
"""

import argparse
import asyncio
import statistics
import tempfile
import time

from smg_core import Config, Gateway
from smg_core.containers.settings import ContainersConfig
from smg_core.containers.work import ContainerWork
from smg_core.request import Caller
from smg_simulator.engine.engine import SimulatorConfig

SNIPPETS = {
    "an expression": "1 + 1",
    "a loop of 10,000": "sum(n * n for n in range(10_000))",
    "a file of 1 KiB": "open('made.txt', 'w').write('x' * 1024)",
}


async def measure(interpreter: str, calls: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        config = Config(containers=ContainersConfig(interpreter=interpreter, folder=folder))
        async with Gateway.simulated(SimulatorConfig(), config=config) as gateway:
            rooms = await ContainerWork.of(gateway.services).rooms()
            caller = Caller("bench")
            made = await rooms.containers.create(caller, gateway.services.ids("cntr_"), "bench")
            begun = time.perf_counter()
            await rooms.containers.run(caller, made.id, "x = 1")
            print(f"the first call, which begins the interpreter: {(time.perf_counter() - begun) * 1000:.0f} ms")
            for name, code in SNIPPETS.items():
                times = []
                for _ in range(calls):
                    begun = time.perf_counter()
                    done = await rooms.containers.run(caller, made.id, code)
                    times.append((time.perf_counter() - begun) * 1000)
                    if done.ran.error is not None or done.ran.stopped is not None:
                        raise SystemExit(f"the code did not run: {done.ran}")
                print(f"{name}: median {statistics.median(times):.1f} ms, least {min(times):.1f} ms of {calls} calls")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--interpreter", required=True, metavar="FOLDER")
    parser.add_argument("--calls", type=int, default=50)
    arguments = parser.parse_args()
    asyncio.run(measure(arguments.interpreter, arguments.calls))


if __name__ == "__main__":
    main()
