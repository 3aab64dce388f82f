"""Five members of a gossip mesh, each in a network namespace of its own, over a network that is cut in two; needs root.

    python bench/mesh_split.py

Three members are on one bridge and two on another; the bridges are joined by one link. Prints the seconds until each member knows
what has happened: after a SIGKILL, after a SIGSTOP and its end, after the link between the bridges is cut, and after it is back.
"""

import asyncio
import contextlib
import os
import shutil
import signal
import sys
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack

import attrs
from mesh import KEY, Member, started

from smg_core.mesh.settings import MeshConfig

__all__ = ["Split", "can_split", "split_mesh", "times_of_a_split"]

_PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
NEAR, FAR = ("m0", "m1", "m2"), ("m3", "m4")


def can_split() -> bool:
    """Whether this user may make namespaces and bridges."""
    return os.geteuid() == 0 and shutil.which("ip", path=_PATH) is not None


async def ip(command: str) -> None:
    process = await asyncio.create_subprocess_shell(f"ip {command}", env={**os.environ, "PATH": _PATH})
    if await process.wait():
        raise OSError(f"ip {command}: status {process.returncode}")


@attrs.define(eq=False)
class Split:
    """The members by name, and the link between their sides."""

    members: dict[str, Member]
    link: str

    async def cut(self) -> float:
        at = time.time()
        await ip(f"link set {self.link} down")
        return at

    async def heal(self) -> float:
        at = time.time()
        await ip(f"link set {self.link} up")
        return at

    async def known(self, what: str, others: Mapping[str, tuple[str, ...]], since: float) -> float:
        """Seconds until each of these members has told that of each of the others."""
        found = [
            await self.members[name].until(what, other, since) - since for name in others for other in others[name]
        ]
        return max(found)


@contextlib.asynccontextmanager
async def split_mesh() -> AsyncIterator[Split]:
    """The members in their namespaces, which all know each other."""
    tag = f"s{os.getpid() % 100_000}"
    async with AsyncExitStack() as stack:
        for side in "ab":
            await ip(f"link add {tag}{side} type bridge")
            stack.push_async_callback(ip, f"link del {tag}{side}")
            await ip(f"link set {tag}{side} up")
        await ip(f"link add {tag}x type veth peer name {tag}y")
        stack.push_async_callback(ip, f"link del {tag}x")
        for end, side in (("x", "a"), ("y", "b")):
            await ip(f"link set {tag}{end} master {tag}{side}")
            await ip(f"link set {tag}{end} up")
        members: dict[str, Member] = {}
        for number, name in enumerate((*NEAR, *FAR)):
            space, address = f"{tag}{name}", f"10.77.{os.getpid() % 250}.{number + 1}"
            await ip(f"netns add {space}")
            stack.push_async_callback(ip, f"netns del {space}")
            await ip(f"link add {space}h type veth peer name eth0 netns {space}")
            await ip(f"link set {space}h master {tag}{'a' if name in NEAR else 'b'}")
            await ip(f"link set {space}h up")
            for command in (f"addr add {address}/24 dev eth0", "link set eth0 up", "link set lo up"):
                await ip(f"-n {space} {command}")
            seeds = (f"10.77.{os.getpid() % 250}.1:7946",) if number else ()
            settings = MeshConfig(kind="gossip", bind=f"{address}:7946", keys=(KEY,), seeds=seeds)
            prefix = (shutil.which("ip", path=_PATH) or "ip", "netns", "exec", space)
            members[name] = await started(stack, settings, name, 0, prefix)
        for name in members:
            for other in members:
                if other != name:
                    await members[name].until("came", other)
        yield Split(members, f"{tag}x")


async def times_of_a_split() -> dict[str, float]:
    """Seconds by what has happened."""
    found: dict[str, float] = {}
    async with split_mesh() as split:
        to_far, to_near = dict.fromkeys(NEAR, FAR), dict.fromkeys(FAR, NEAR)
        at = await split.cut()
        found["split, larger side"] = await split.known("lost", to_far, at)
        found["split, smaller side"] = await split.known("lost", to_near, at)
        at = await split.heal()
        found["healed"] = max(await split.known("came", to_far, at), await split.known("came", to_near, at))
        stopped, at = split.members["m4"], time.time()
        stopped.process.send_signal(signal.SIGSTOP)
        rest = dict.fromkeys((*NEAR, "m3"), ("m4",))
        found["stopped"] = await split.known("lost", rest, at)
        at = time.time()
        stopped.process.send_signal(signal.SIGCONT)
        found["goes on"] = await split.known("came", rest, at)
        at = time.time()
        stopped.process.send_signal(signal.SIGKILL)
        found["killed"] = await split.known("lost", rest, at)
    return found


def main() -> None:
    if not can_split():
        sys.exit("this needs root, and the program ip")
    for what, seconds in asyncio.run(times_of_a_split()).items():
        print(f"{what}: {seconds:.2f} s")


if __name__ == "__main__":
    main()
