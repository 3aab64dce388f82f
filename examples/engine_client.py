"""An engine called without a gateway: token ids in, token ids out, as they come.

python examples/engine_client.py [grpc://HOST:PORT]
"""

import asyncio
import sys

from smg_core.engines import EngineSession, Sampling
from smg_simulator import SimulatedEngine, SimulatorConfig


async def call(url: str) -> None:
    async with EngineSession(url) as engine:
        info, facts = await engine.describe()
        print(f"{info.model} speaks {facts.dialect}")
        async for output in engine.generate([72, 101, 108, 108, 111], Sampling(max_tokens=8)):
            print(list(output.ids), output.finish or "")


async def main() -> None:
    if len(sys.argv) > 1:
        await call(sys.argv[1])
    else:
        async with SimulatedEngine(SimulatorConfig(model="sim")) as engine:
            await call(engine.target)


if __name__ == "__main__":
    asyncio.run(main())
