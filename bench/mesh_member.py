"""One member of a mesh, and nothing else of a gateway: `bench/mesh.py` starts it. It tells of each change, with the time.

    python bench/mesh_member.py SETTINGS NAME HOT

It runs on the loop that a gateway has, charges so many limits in each period (HOT), and tells once a second how many seconds of a
core that has taken. With kind off it is in no mesh, and waits.
"""

import asyncio
import json
import sys
import time
from random import Random

import uvloop

from smg_core.clock import SystemClock
from smg_core.limits.counters import Instant
from smg_core.limits.decision import LimitClaim
from smg_core.limits.memory import MemoryCounters
from smg_core.limits.rules import LimitRule
from smg_core.mesh.carriers.rows import LinkTerms, mesh_link
from smg_core.mesh.member import MeshMember
from smg_core.mesh.mesh_keys import read_mesh_keys
from smg_core.mesh.settings import MeshConfig
from smg_core.mesh.state.node import NodeTerms
from smg_core.meshed.counters import MeshCounters

_AT_ONCE = 250
"""Decisions between two turns of the loop."""
RULE = LimitRule(600_000, "tokens", "minute", 600_000)


def told(what: str, about: object) -> None:
    print(f"{what} {about} {time.time()}", flush=True)


async def serve(settings: MeshConfig, name: str, hot: int) -> None:
    clock = SystemClock()
    if settings.kind == "off":
        told("place", "nowhere")
        await asyncio.Event().wait()
    link = mesh_link(LinkTerms(settings, name, read_mesh_keys(settings.keys), "1-1", "bench", clock))
    counters = MeshCounters(MemoryCounters(100_000, "UTC"), "UTC", 0.05, "majority", 8192, clock.time)
    member = MeshMember(name, link, NodeTerms(), clock, Random(), [counters], told)
    claims = [[LimitClaim(RULE, f"limit {number}", 1)] for number in range(hot)]
    decided_s, told_at = 0.0, 0.0
    async with member.joined(0.0):
        told("place", link.place)
        while True:
            at = Instant(int(clock.monotonic() * 1e6), clock.time())
            for begin in range(0, len(claims), _AT_ONCE):
                began = time.thread_time()
                for claim in claims[begin : begin + _AT_ONCE]:
                    counters.claim(claim, at)
                decided_s += time.thread_time() - began
                await asyncio.sleep(0)
            if hot and at.wall_s - told_at >= 1.0:
                told_at = at.wall_s
                told("decided", decided_s)
            await asyncio.sleep(0.1 if hot else 1.0)


def main() -> None:
    fields = json.loads(sys.argv[1])
    fields |= {"seeds": tuple(fields["seeds"]), "keys": tuple(fields["keys"])}
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve(MeshConfig(**fields), sys.argv[2], int(sys.argv[3])))


if __name__ == "__main__":
    main()
