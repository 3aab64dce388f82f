"""A network namespace of its own for an engine, joined to this one by a pair of virtual links that can be broken; needs root.

down       the link is down: nothing passes, and nobody is told
one-way    what comes from the engine is lost, what goes to it arrives
starved    the link carries 1 kbit/s from here, and drops the rest
"""

import asyncio
import os
import shutil
from contextlib import AsyncExitStack
from typing import Literal, get_args

__all__ = ["BREAKS", "Break", "Namespace", "can_have_namespaces"]

Break = Literal["down", "one-way", "starved"]
BREAKS: tuple[Break, ...] = get_args(Break)
_PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
_STARVED = "rate 1kbit burst 100 latency 1ms"


def can_have_namespaces() -> bool:
    """Whether this user may make namespaces, and the program for it is there."""
    return os.geteuid() == 0 and all(shutil.which(each, path=_PATH) for each in ("ip", "tc"))


class Namespace:
    """While entered, a namespace whose name and addresses are made of this process's number. `address` is that of the engine in
    it, `here` that of this end; a program runs in it with `prefix` before its words."""

    def __init__(self) -> None:
        number = os.getpid()
        self.name = f"smg{number}"
        self._link, self._peer = f"sg{number}", f"sp{number}"
        net = f"10.{200 + number % 50}.{number // 50 % 250}"
        self.here, self.address = f"{net}.1", f"{net}.2"
        self.prefix = ("ip", "netns", "exec", self.name)
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> "Namespace":
        async with AsyncExitStack() as stack:
            await _run(f"ip netns add {self.name}")
            stack.push_async_callback(_run, f"ip netns del {self.name}")
            await _run(f"ip link add {self._link} type veth peer name {self._peer} netns {self.name}")
            await _run(f"ip addr add {self.here}/30 dev {self._link}")
            await _run(f"ip link set {self._link} up")
            await self._inside(f"ip addr add {self.address}/30 dev {self._peer}")
            await self._inside(f"ip link set {self._peer} up")
            self._stack = stack.pop_all()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self._stack.aclose()

    async def broken(self, how: Break) -> None:
        """Break the link."""
        if how == "down":
            await self._inside(f"ip link set {self._peer} down")
        elif how == "one-way":
            await self._inside(f"ip route add blackhole {self.here}/32")
        else:
            await _run(f"tc qdisc add dev {self._link} root tbf {_STARVED}")

    async def mended(self, how: Break) -> None:
        """Have the link work again."""
        if how == "down":
            await self._inside(f"ip link set {self._peer} up")
        elif how == "one-way":
            await self._inside(f"ip route del blackhole {self.here}/32")
        else:
            await _run(f"tc qdisc del dev {self._link} root")

    async def _inside(self, command: str) -> None:
        await _run(f"{' '.join(self.prefix)} {command}")


async def _run(command: str) -> None:
    program, *rest = command.split()
    found = shutil.which(program, path=_PATH)
    if found is None:
        raise RuntimeError(f"{program} is not here; tools/services.sh installs it")
    process = await asyncio.create_subprocess_exec(
        found, *rest, stderr=asyncio.subprocess.PIPE, env={**os.environ, "PATH": _PATH}
    )
    _, said = await process.communicate()
    if process.returncode:
        raise RuntimeError(f"{command}: {said.decode().strip()}")
