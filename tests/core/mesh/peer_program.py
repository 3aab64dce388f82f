"""A member of a mesh in a process of its own: it says where it is, and sends back what is sent to it."""

import asyncio
import json
import sys
import time

import attrs

from smg_core.clock import SystemClock
from smg_core.mesh.base import SeenMember
from smg_core.mesh.carriers.rows import LinkTerms, mesh_link
from smg_core.mesh.mesh_keys import read_mesh_keys
from smg_core.mesh.settings import MeshConfig


class Echo:
    """Puts what comes into a queue."""

    def __init__(self) -> None:
        self.messages: asyncio.Queue[tuple[str, bytes]] = asyncio.Queue()

    def came(self, member: SeenMember) -> None: ...

    def suspected(self, name: str) -> None: ...

    def recovered(self, name: str) -> None: ...

    def lost(self, name: str) -> None: ...

    def left(self, name: str) -> None: ...

    def heard(self, sender: str, data: bytes) -> None:
        self.messages.put_nowait((sender, data))


async def main(settings: MeshConfig, name: str) -> None:
    echo = Echo()
    keys = read_mesh_keys(settings.keys)
    link = mesh_link(LinkTerms(attrs.evolve(settings, name=name), name, keys, "1-1", "test", SystemClock()))
    async with link.opened(echo):
        print(link.place, flush=True)
        while True:
            sender, data = await echo.messages.get()
            if data.startswith(b"block "):  # as a handler that does not give others their turn
                time.sleep(float(data[6:]))
            await link.send(sender, b"echo " + data)


if __name__ == "__main__":
    fields = json.loads(sys.argv[1])
    asyncio.run(
        main(MeshConfig(**{**fields, "seeds": tuple(fields["seeds"]), "keys": tuple(fields["keys"])}), sys.argv[2])
    )
