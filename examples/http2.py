"""gRPC over HTTP/2 without I/O: the bytes are carried here, between a socket and the connection.

python examples/http2.py
"""

import asyncio

from smg_core.engines.grpc.h2 import Connection, SmgError, WorkerGone
from smg_simulator import SimulatedEngine, SimulatorConfig


class Answer:
    over = False

    def messages(self, batch: list[bytes]) -> None:
        print("messages", batch)

    def closed(self, error: SmgError | None) -> None:
        self.over = True
        print("closed:", error or "OK")


async def main() -> None:
    async with SimulatedEngine(SimulatorConfig(model="sim")) as engine:
        address = engine.target.removeprefix("grpc://")
        reader, writer = await asyncio.open_connection(*address.split(":"))
        connection, answer = Connection("http", address), Answer()
        connection.request("/grpc.health.v1.Health/Check", b"", answer, timeout=5)
        while not answer.over and not connection.over:
            writer.write(connection.take())
            if data := await reader.read(65536):
                connection.receive(data)
            else:
                connection.lost(WorkerGone("The connection was closed."))
        writer.close()


if __name__ == "__main__":
    asyncio.run(main())
