"""Ten times what an engine takes, before real processes: what is answered, what a person waits, how soon health and admin answer.

    python bench/overload_process.py [--seconds 20]

An engine's process that runs few requests at once, a gateway's process with queues, and clients over sockets: two tenants that
flood with weights 3 and 1, and a person that asks now and then. Times in milliseconds.
"""

import argparse
import asyncio
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import attrs
import httpx

from smg_simulator.fleet.figures import percentile

BATCH, TOKENS, RATE = 8, 40, 100.0  # requests at once, tokens of an answer, tokens a second: 20 requests a second
CAPACITY = BATCH * RATE / TOKENS
KEYS = {name: f"key-of-{name}-0123456789" for name in ("person", "a", "b", "operator")}

ROLES = {"person": "app", "operator": "admin"}


@attrs.define
class Load:
    """What clients were told."""

    statuses: Counter[str] = attrs.field(factory=Counter)
    done: Counter[str] = attrs.field(factory=Counter)
    first: list[float] = attrs.field(factory=list)
    health: list[float] = attrs.field(factory=list)
    admin: list[float] = attrs.field(factory=list)
    counts: bool = False
    spent: float = 0.0  # seconds of CPU that the gateway's process took while it counted


async def exchange(port: int, method: str, path: str, key: str, body: bytes = b"") -> tuple[int, float | None]:
    """A request over a connection of its own: the status, and when the first piece of an answer's text came."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = f"{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\nauthorization: Bearer {key}\r\n"
    writer.write(f"{head}content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body)
    status, first = int((await reader.readline()).split()[1]), None
    while piece := await reader.read(65536):
        if first is None and b'"content":"' in piece.replace(b'"content":""', b""):
            first = time.perf_counter()
    writer.close()
    return status, first


async def ask(port: int, who: str, load: Load) -> None:
    body = {"model": "sim", "messages": [{"role": "user", "content": "Hello"}], "max_tokens": TOKENS, "stream": True}
    began, counts = time.perf_counter(), load.counts
    status, first = await exchange(port, "POST", "/v1/chat/completions", KEYS[who], json.dumps(body).encode())
    if who == "person" and counts:
        load.first.append((first - began) * 1000 if first is not None else float("inf"))
    if load.counts:
        load.statuses[str(status)] += 1
        load.done[who] += status == 200


async def every(seconds: float, until: float, make: Any) -> None:
    """Begin one after the other at this pace, whatever becomes of those before."""
    async with asyncio.TaskGroup() as group:
        at = time.perf_counter()
        while at < until:
            group.create_task(make())
            at += seconds
            await asyncio.sleep(max(0.0, at - time.perf_counter()))


async def timed(port: int, path: str, into: list[float]) -> None:
    began = time.perf_counter()
    status, _ = await exchange(port, "GET", path, KEYS["operator"])
    into.append((time.perf_counter() - began) * 1000 if status == 200 else float("inf"))


def spent(pid: int) -> float:
    """Seconds of CPU that a process has taken."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def loaded(port: int, door: int, gateway: int, times: float, seconds: float) -> Load:
    """The load of so many times the capacity on the gateway of this process, of which the first third is not counted."""
    load, until = Load(), time.perf_counter() + seconds

    def count(yes: bool) -> None:
        load.counts = yes
        load.spent = spent(gateway) - load.spent

    asyncio.get_running_loop().call_later(seconds / 3, count, True)
    asyncio.get_running_loop().call_later(seconds, count, False)
    flood = max(0.1, times * CAPACITY / 2)
    async with asyncio.TaskGroup() as group:
        group.create_task(every(1.0, until, lambda: ask(port, "person", load)))
        if times:
            group.create_task(every(1 / flood, until, lambda: ask(port, "a", load)))
            group.create_task(every(1 / flood, until, lambda: ask(port, "b", load)))
        group.create_task(every(0.2, until, lambda: timed(port, "/health", load.health)))
        group.create_task(every(0.2, until, lambda: timed(door, "/admin/workers", load.admin)))
    return load


def line(name: str, load: Load, seconds: float) -> str:
    counted = seconds * 2 / 3
    share = f"{load.done['a'] / load.done['b']:.2f}" if load.done["b"] else "-"
    shown = [f"{percentile(sorted(each), 0.99):.0f}" for each in (load.first, load.health, load.admin)]
    told = ", ".join(f"{status}: {count}" for status, count in sorted(load.statuses.items()))
    each = f"{load.spent / max(1, load.statuses.total()) * 1e6:,.0f}"
    return f"| {name} | {load.done.total() / counted:.1f} | {share} | {' | '.join(shown)} | {each} | {told} |"


def free_ports(count: int) -> list[int]:
    import socket

    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


async def ready(url: str) -> None:
    async with httpx.AsyncClient(base_url=url) as http:
        for _ in range(600):
            try:
                if (await http.get("/health")).status_code == 200:
                    return
            except httpx.TransportError:
                pass
            await asyncio.sleep(0.1)
    raise SystemExit("the gateway did not start")


async def measured(seconds: float) -> list[str]:
    engine, port, door = free_ports(3)
    config = {
        "server": {"port": port},
        "admin": {"port": door},
        "workers": {"urls": [f"grpc://127.0.0.1:{engine}"], "most_in_flight": BATCH},
        "queue": {"enabled": True, "wait_s": 5.0, "weights": ["a=3"]},
        "auth": {
            "keys": [f"{key} tenant={name} role={ROLES.get(name, 'user')}" for name, key in KEYS.items()],
            "roles": ["app=chat queue.interactive"],
        },
    }
    smg = [sys.executable, "-m", "smg_core"]
    speed = ["--decode-rate", str(RATE), "--batch", str(BATCH), "--reply-tokens", "200"]
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        path = Path(folder) / "smg.json"
        path.write_text(json.dumps(config))
        for command in (["simulate", "--listen", f"127.0.0.1:{engine}", *speed], ["serve", "--config", str(path)]):
            out = subprocess.DEVNULL
            process = subprocess.Popen([*smg, *command], stdout=out, stderr=out)
            stack.callback(process.wait)
            stack.callback(process.terminate)
        await ready(f"http://127.0.0.1:{port}")
        loads = [("the person alone", 0.0), ("x1", 1.0), ("x10", 10.0)]
        made = {name: await loaded(port, door, process.pid, times, seconds) for name, times in loads}
    few, many = made["x1"], made["x10"]
    shed = many.statuses.total() - many.statuses["200"]
    answered = few.spent / few.statuses.total()
    refused = (many.spent - many.statuses["200"] * answered) / shed if shed else 0.0
    return [
        *(line(name, each, seconds) for name, each in made.items()),
        "",
        f"Of x10, {refused * 1e6:,.0f} microseconds of CPU went to each request that was refused, with a connection of its own",
        "and what the process did beside: what is left when the answered ones are taken off at what they cost at x1.",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=20.0, help="of each load")
    parser.add_argument("--report", action="store_true", help="write bench/overload_process.md")
    arguments = parser.parse_args()
    lines = asyncio.run(measured(arguments.seconds))
    wanted, cpus = os.getloadavg()[0], os.cpu_count()
    machine = f"{platform.machine()}, {wanted:.0f} processes wanted the {cpus} CPUs, Python {platform.python_version()}"
    text = "\n".join(
        [
            "# Ten times what an engine takes, before real processes",
            "",
            f"`python bench/overload_process.py --report` writes this page ({machine}).",
            f"An engine of {BATCH} requests at once, {CAPACITY:g} a second; tenants `a` and `b` have the weights 3 and 1. Times",
            "in milliseconds, CPU of the gateway in microseconds a request. Health is asked at the port that is flooded, admin",
            "at its own: a process that gets too little of a CPU takes connections one by one, in the order of their coming.",
            "",
            "| load | answered a second | `a` over `b` | person's first token, p99 | health, p99 | admin, p99 | CPU | statuses |",
            "|---|---|---|---|---|---|---|---|",
            *lines,
            "",
        ]
    )
    if arguments.report:
        (Path(__file__).parent / "overload_process.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
