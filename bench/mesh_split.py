"""Five members of a gossip mesh, each in a network namespace of its own, over a network that is cut in two; needs root.

    python bench/mesh_split.py [--write]

Three members are on one bridge and two on another; the bridges are joined by one link. Prints the seconds until all members know
what has happened: after the link between the bridges is cut and is back, after routes lose all that one side says and are back,
after a SIGSTOP and its end, after a SIGKILL; and how many members are thought to be gone while the link is slow. `--write` puts
that into the table of docs/reliability.md.
"""

import argparse
import asyncio
import contextlib
import os
import shutil
import signal
import sys
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import attrs
from mesh import KEY, Member, started

from smg_core.mesh.settings import MeshConfig

__all__ = ["Space", "Split", "can_split", "split_mesh", "times_of_a_split", "two_sides"]

_PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
NEAR, FAR = ("m0", "m1", "m2"), ("m3", "m4")
PAGE = Path(__file__).parent.parent / "docs" / "reliability.md"
BEGIN, END = "<!-- mesh: begin -->", "<!-- mesh: end -->"
SLOW = "rate 128kbit burst 8kb latency 400ms"
SLOW_S = 10.0
STATED: dict[str, tuple[str, float]] = {
    "killed": ("1 of 5 gateways is killed (SIGKILL)", 4.2),
    "stopped": ("1 of 5 gateways is stopped (SIGSTOP)", 4.2),
    "goes on": ("it goes on (SIGCONT)", 2.0),
    "split, larger side": ("the network is cut between 3 and 2 gateways: the 3 know", 4.2),
    "split, smaller side": ("the network is cut between 3 and 2 gateways: the 2 know", 14.0),
    "healed": ("the network is whole again", 2.0),
    "one way, larger side": ("routes lose what 2 of 5 gateways say: the 3 know", 4.2),
    "one way, smaller side": ("routes lose what 2 of 5 gateways say: the 2 know", 14.0),
    "ways back": ("the routes are back", 2.0),
}
"""By name: what happens, and the seconds that are stated until all whom it concerns know of it."""


def can_split() -> bool:
    """Whether this user may make namespaces and bridges."""
    return os.geteuid() == 0 and shutil.which("ip", path=_PATH) is not None


async def ip(command: str) -> None:
    await _run(f"ip {command}")


async def tc(command: str) -> None:
    await _run(f"tc {command}")


async def _run(command: str) -> None:
    process = await asyncio.create_subprocess_shell(command, env={**os.environ, "PATH": _PATH})
    if await process.wait():
        raise OSError(f"{command}: status {process.returncode}")


@attrs.define(eq=False)
class Split:
    """The members by name, the link between their sides, what their namespaces are called, their network, and where this process
    is for them."""

    members: dict[str, Member]
    link: str
    tag: str
    net: str
    here: str

    async def cut(self) -> float:
        at = time.time()
        await ip(f"link set {self.link} down")
        return at

    async def heal(self) -> float:
        at = time.time()
        await ip(f"link set {self.link} up")
        return at

    async def lose(self, *, lost: bool) -> float:
        """Have routes lose all that the members on the far side say to the near one, or no more."""
        at = time.time()
        for name in FAR:
            for other in NEAR:
                address = f"{self.net}.{(*NEAR, *FAR).index(other) + 1}/32"
                await ip(f"-n {self.tag}{name} route {'add' if lost else 'del'} blackhole {address}")
        return at

    async def lose_here(self, names: Sequence[str], *, lost: bool) -> None:
        """Have routes lose all that these say to this process, or no more."""
        for name in names:
            await ip(f"-n {self.tag}{name} route {'add' if lost else 'del'} blackhole {self.here}/32")

    async def lost_while_slow(self) -> int:
        """How many members were thought to be gone while the link carried little."""
        at = time.time()
        await tc(f"qdisc add dev {self.link} root tbf {SLOW}")
        await asyncio.sleep(SLOW_S)
        await tc(f"qdisc del dev {self.link} root")
        told = [each for member in self.members.values() for each in member.told]
        return len({name for what, name, when in told if what == "lost" and when >= at})

    async def known(self, what: str, others: Mapping[str, tuple[str, ...]], since: float) -> float:
        """Seconds until each of these members has told that of each of the others."""
        found = [
            await self.members[name].until(what, other, since) - since for name in others for other in others[name]
        ]
        return max(found)


@attrs.frozen
class Space:
    """A network namespace: its address among the members, the one at which this process reaches it, and the words before a
    command that runs in it."""

    name: str
    address: str
    door: str
    prefix: tuple[str, ...]


@contextlib.asynccontextmanager
async def two_sides() -> AsyncIterator[tuple[dict[str, Space], Split]]:
    """A namespace for each name, on one of two bridges, and a door to each that stays when the sides are parted."""
    tag, number = f"s{os.getpid() % 100_000}", os.getpid() % 250
    net, doors = f"10.77.{number}", f"10.78.{number}"
    async with AsyncExitStack() as stack:
        for side in "abd":
            await ip(f"link add {tag}{side} type bridge")
            stack.push_async_callback(ip, f"link del {tag}{side}")
            await ip(f"link set {tag}{side} up")
        await ip(f"addr add {doors}.254/24 dev {tag}d")
        await ip(f"link add {tag}x type veth peer name {tag}y")
        stack.push_async_callback(ip, f"link del {tag}x")
        for end, side in (("x", "a"), ("y", "b")):
            await ip(f"link set {tag}{end} master {tag}{side}")
            await ip(f"link set {tag}{end} up")
        spaces: dict[str, Space] = {}
        for place, name in enumerate((*NEAR, *FAR), start=1):
            space = f"{tag}{name}"
            await ip(f"netns add {space}")
            stack.push_async_callback(ip, f"netns del {space}")
            await ip(f"-n {space} link set lo up")
            for link, side, address in (("h", "a" if name in NEAR else "b", net), ("g", "d", doors)):
                inside = "eth0" if link == "h" else "eth1"
                await ip(f"link add {space}{link} type veth peer name {inside} netns {space}")
                await ip(f"link set {space}{link} master {tag}{side}")
                await ip(f"link set {space}{link} up")
                await ip(f"-n {space} addr add {address}.{place}/24 dev {inside}")
                await ip(f"-n {space} link set {inside} up")
            prefix = (shutil.which("ip", path=_PATH) or "ip", "netns", "exec", space)
            spaces[name] = Space(space, f"{net}.{place}", f"{doors}.{place}", prefix)
        yield spaces, Split({}, f"{tag}x", tag, net, f"{doors}.254")


@contextlib.asynccontextmanager
async def split_mesh() -> AsyncIterator[Split]:
    """The members in their namespaces, which all know each other."""
    async with two_sides() as (spaces, split), AsyncExitStack() as stack:
        members, seeds = split.members, (f"{spaces['m0'].address}:7946",)
        for name, space in spaces.items():
            mine = () if name == "m0" else seeds
            settings = MeshConfig(kind="gossip", bind=f"{space.address}:7946", keys=(KEY,), seeds=mine)
            members[name] = await started(stack, settings, name, 0, space.prefix)
        for name in members:
            for other in members:
                if other != name:
                    await members[name].until("came", other)
        yield split


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
        at = await split.lose(lost=True)
        found["one way, larger side"] = await split.known("lost", to_far, at)
        found["one way, smaller side"] = await split.known("lost", to_near, at)
        at = await split.lose(lost=False)
        found["ways back"] = max(await split.known("came", to_far, at), await split.known("came", to_near, at))
        found["lost while slow"] = await split.lost_while_slow()
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
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="write the table of docs/reliability.md")
    found = asyncio.run(times_of_a_split())
    for what, seconds in found.items():
        print(f"{what}: {seconds:.2f}")
    if parser.parse_args().write:
        write(found)


def write(found: dict[str, float]) -> None:
    """Put what was found into the page's table."""
    rows = ["| what happens | all know after | stated |", "|---|---|---|"]
    rows += [f"| {what} | {found[name]:.1f} s | {stated:.1f} s |" for name, (what, stated) in STATED.items()]
    lost = int(found["lost while slow"])
    rows.append(
        f"| the link between 3 and 2 gateways carries 128 kbit/s for {SLOW_S:.0f} s | {lost} thought gone | 0 |"
    )
    before, _, rest = PAGE.read_text().partition(BEGIN)
    after = rest.partition(END)[2]
    PAGE.write_text("\n".join([f"{before}{BEGIN}", *rows, f"{END}{after}"]))


if __name__ == "__main__":
    main()
