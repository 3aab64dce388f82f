"""What becomes of streams while engines, and the network to them, fail in every way; writes the table of docs/reliability.md.

    python bench/chaos.py [--requests 36] [--tokens 120] [--rate 40] [--only NAME] [--write]

Three processes of the embedded engine, whose next token is a function of all tokens before it, each behind a proxy on the
loopback (`chaos_proxy`); the gateway's process before them, which finds them in a watched file of workers; and a client of
/generate, which tells token ids. When every stream has begun, something is done to one engine, or to all, one after the
other; or to the gateway, while further streams begin. As root, the first engine is also put into a network namespace of its
own, to which the link is broken (`chaos_namespace`). A stream is right if its ids are exactly those that one engine alone
gives and it has exactly one end. The longest pause is between two events of one stream, from which the usual time between two
tokens is not taken off.
"""

import argparse
import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import attrs
import httpx
from chaos_namespace import Break, Namespace, can_have_namespaces
from chaos_proxy import ChaosProxy, Mode
from killed import LENGTH, Stream, ask, expected

PAGE = Path(__file__).parent.parent / "docs" / "reliability.md"
BEGIN, END = "<!-- chaos: begin -->", "<!-- chaos: end -->"
ENGINES = 3
OK = 200
HEALTH_S, PROBE_S, FIRST_S, TOKEN_S = 0.5, 0.5, 3.0, 2.0
PORT = 50051  # of the engine in a namespace
HANGUPS = 3
EVERY_S = 0.25  # seconds between two streams that begin while the gateway is replaced
TAKES_OVER = "another process takes over"


@attrs.define
class Fleet:
    """The running engines, their proxies, and the gateway's URL. `taken_over` counts the gateway's processes that have left to
    another; `begin` begins one more stream; in `namespace`, if there is one, the first engine runs."""

    folder: str
    rate: float
    proxies: list[ChaosProxy]
    namespace: Namespace | None = None
    taken_over: int = 0
    gateway: "asyncio.subprocess.Process | None" = None
    begin: Callable[[], None] = lambda: None
    engines: list["asyncio.subprocess.Process"] = attrs.field(factory=list)
    http: httpx.AsyncClient = attrs.field(factory=httpx.AsyncClient)

    async def engine(self, number: int) -> "asyncio.subprocess.Process":
        """A new process for the engine of this number, once it listens."""
        path = Path(self.folder, f"{number}.sock")
        path.unlink(missing_ok=True)
        space = self.namespace if not number else None
        where = f"unix://{path}" if space is None else f"{space.address}:{PORT}"
        flags = ["--listen", where, "--chained", str(LENGTH), "--decode-rate", str(self.rate)]
        process = await started("simulate", *flags, prefix=() if space is None else space.prefix)
        while space is None and not path.exists():
            await asyncio.sleep(0.02)
        return process

    def name(self, *numbers: int) -> None:
        """Write the file of workers, with these."""
        fresh = Path(self.folder, "workers.new")
        entries = [{"url": self._url(number), "name": f"engine-{number}"} for number in numbers]
        fresh.write_text(json.dumps(entries))
        fresh.rename(Path(self.folder, "workers.json"))

    def _url(self, number: int) -> str:
        if self.namespace is not None and not number:
            return f"grpc://{self.namespace.address}:{PORT}"
        return self.proxies[number].url

    async def ready(self) -> None:
        """Return once every engine has taken part in an answer: the gateway gives an idle one its turn."""
        while (await self.http.get("/readiness")).status_code != OK:
            await asyncio.sleep(0.05)
        await asyncio.sleep(2 * HEALTH_S)

    async def kill(self, number: int) -> None:
        self.engines[number].kill()
        await self.engines[number].wait()


async def started(
    *command: str, log: int = subprocess.DEVNULL, prefix: tuple[str, ...] = ()
) -> "asyncio.subprocess.Process":
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SMG_")}
    return await asyncio.create_subprocess_exec(
        *(*prefix, sys.executable, "-m", "tests.bounded", *command),
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=log,
    )


@asynccontextmanager
async def fleet(rate: float, *, processes: int = 1, apart: bool = False) -> AsyncIterator[Fleet]:
    """Engines and the gateway before them, of so many processes, ready. `apart`: the first engine is in a namespace."""
    with tempfile.TemporaryDirectory() as folder:
        async with AsyncExitStack() as stack:
            proxies = [ChaosProxy(f"{folder}/{number}.sock", random.Random(number)) for number in range(ENGINES)]
            for proxy in proxies:
                await stack.enter_async_context(proxy)
            space = await stack.enter_async_context(Namespace()) if apart else None
            running = Fleet(folder, rate, proxies, space)
            for number in range(ENGINES):
                running.engines.append(await running.engine(number))
            stack.push_async_callback(_end, running)
            running.name(*range(ENGINES))
            gateway = await started("serve", *_flags(folder, processes), log=subprocess.PIPE)
            stack.push_async_callback(_leave, gateway)
            running.gateway = gateway
            url = await _url(gateway)
            reading = asyncio.create_task(_read(gateway, running))
            stack.callback(reading.cancel)
            limits = httpx.Limits(max_connections=None)
            running.http = await stack.enter_async_context(
                httpx.AsyncClient(base_url=url, timeout=120, trust_env=False, limits=limits)
            )
            if apart:
                await running.ready()
            yield running


def _flags(folder: str, processes: int) -> list[str]:
    settings = {
        "port": 0,
        "processes": processes,
        "workers-file": f"{folder}/workers.json",
        "workers-dialect": "vllm",
        "workers-health-interval-s": HEALTH_S,
        "workers-probe-timeout-s": PROBE_S,
        "timeouts-first-token-s": FIRST_S,
        "timeouts-token-s": TOKEN_S,
        "discovery-file-interval-s": 0.1,
        "discovery-look-s": 0.1,
        "wait-for-workers": 60,
    }
    return [word for name, value in settings.items() for word in (f"--{name}", str(value))]


async def _url(gateway: "asyncio.subprocess.Process") -> str:
    assert gateway.stderr is not None
    while line := (await gateway.stderr.readline()).decode():
        if "listening on" in line:
            return line.split("listening on ")[1].split()[0]
    raise RuntimeError("the gateway did not come up")


async def _read(gateway: "asyncio.subprocess.Process", running: Fleet) -> None:
    while gateway.stderr is not None and (line := await gateway.stderr.readline()):
        running.taken_over += TAKES_OVER.encode() in line


async def _leave(gateway: "asyncio.subprocess.Process") -> None:
    """End the gateway with its processes."""
    if gateway.returncode is None:
        gateway.terminate()
        gateway.terminate()  # the second one: at once
    await gateway.wait()


async def _end(running: Fleet) -> None:
    for process in running.engines:
        await _stop(process)


async def _stop(process: "asyncio.subprocess.Process") -> None:
    if process.returncode is None:
        process.kill()
    await process.wait()


# -------------------------------------------------------------------------------------------------------------- what is done


async def killed(running: Fleet) -> None:
    await running.kill(0)


async def frozen(running: Fleet) -> None:
    running.engines[0].send_signal(signal.SIGSTOP)
    await asyncio.sleep(TOKEN_S + 2.0)
    running.engines[0].send_signal(signal.SIGCONT)


async def rolling(running: Fleet) -> None:
    for number in range(ENGINES):
        await running.kill(number)
        running.engines[number] = await running.engine(number)
        await asyncio.sleep(2.0)  # within 3 s one that comes back is in use


async def flapping(running: Fleet) -> None:
    for turn in range(8):
        running.name(*(number for number in range(ENGINES) if number != turn % ENGINES))
        await asyncio.sleep(0.4)
    running.name(*range(ENGINES))


async def replaced(running: Fleet) -> None:
    """Have the gateway replace its processes several times, one after the other, while further streams begin."""
    assert running.gateway is not None
    for turn in range(HANGUPS):
        running.gateway.send_signal(signal.SIGHUP)
        while running.taken_over < PROCESSES * (turn + 1):
            running.begin()
            await asyncio.sleep(EVERY_S)


def link(how: Break, seconds: float = 4.0) -> Callable[[Fleet], Awaitable[None]]:
    async def break_it(running: Fleet) -> None:
        assert running.namespace is not None
        await running.namespace.broken(how)
        await asyncio.sleep(seconds)
        await running.namespace.mended(how)

    return break_it


def network(mode: Mode, seconds: float = 2.5) -> Callable[[Fleet], Awaitable[None]]:
    async def worsen(running: Fleet) -> None:
        running.proxies[0].set(mode)
        await asyncio.sleep(seconds)
        running.proxies[0].set("pass")

    return worsen


SCENARIOS: dict[str, tuple[str, Callable[[Fleet], Awaitable[None]], float]] = {
    "kill": ("1 of 3 engines is killed (SIGKILL)", killed, 1.0),
    "freeze": ("1 of 3 engines is stopped (SIGSTOP), and goes on later", frozen, TOKEN_S + 1.0),
    "cut": ("the connections to 1 of 3 engines are cut, none are taken for 2.5 s", network("cut"), 1.0),
    "stop": ("nothing passes to or from 1 of 3 engines for 2.5 s", network("stop"), TOKEN_S + 1.0),
    "delay": ("bytes to and from 1 of 3 engines are 0.2 s late for 2.5 s", network("delay"), TOKEN_S + 1.0),
    "drip": ("the bytes of 1 of 3 engines come in pieces of 16 for 2.5 s", network("drip"), 1.0),
    "corrupt": ("the bytes of 1 of 3 engines are replaced by others for 2.5 s", network("corrupt"), 1.0),
    "rolling": ("all 3 engines are killed and started again, one after the other", rolling, 1.0),
    "flapping": ("the file of workers names other 2 of 3 engines every 0.4 s, 8 times", flapping, 1.0),
    "gateway": (f"both processes of the gateway are replaced (SIGHUP), {HANGUPS} times", replaced, 1.0),
    "down": ("the link to the namespace of 1 of 3 engines is down for 4 s", link("down"), TOKEN_S + 1.0),
    "one-way": ("what comes from the namespace of 1 of 3 engines is lost for 4 s", link("one-way"), TOKEN_S + 1.0),
    "starved": ("the link to the namespace of 1 of 3 engines carries 1 kbit/s for 4 s", link("starved"), TOKEN_S + 1.0),
}
"""By name: what is done, in words and in deed, and the longest pause in seconds that is stated for it."""


PROCESSES = 2
APART = frozenset({"down", "one-way", "starved"})
"""The scenarios that need a namespace, and so root."""


@attrs.frozen
class Outcome:
    """What came of one scenario."""

    what: str
    right: int
    streams: int
    errors: tuple[str, ...]
    pause: float
    stated: float

    ended: bool
    """Whether each stream had one end."""

    @property
    def holds(self) -> bool:
        """Whether all is as stated: every stream right, one end each, no longer pause."""
        return self.right == self.streams and self.ended and self.pause <= self.stated

    @property
    def row(self) -> str:
        return f"| {self.what} | {self.right} of {self.streams} | {self.pause:.1f} s | {self.stated:.1f} s |"


async def played(name: str, requests: int, tokens: int, rate: float) -> Outcome:
    """One scenario."""
    what, deed, stated = SCENARIOS[name]
    several = PROCESSES if name == "gateway" else 1
    async with fleet(rate, processes=several, apart=name in APART) as running:
        streams: list[Stream] = []
        tasks: list[asyncio.Task[None]] = []

        def begin() -> None:
            streams.append(Stream([100 + len(streams), 7, 11, 13]))
            tasks.append(asyncio.create_task(ask(running.http, streams[-1], tokens)))

        running.begin = begin
        for _ in range(requests):
            begin()
        while not all(stream.events > 1 for stream in streams):
            await asyncio.sleep(0.01)
            if any(task.done() for task in tasks):
                break
        await deed(running)
        ended = await asyncio.gather(*tasks, return_exceptions=True)
    right = sum(stream.ids == expected(stream.prompt, tokens) and not stream.error for stream in streams)
    errors = {stream.error for stream in streams if stream.error} | {repr(each) for each in ended if each is not None}
    return Outcome(
        what,
        right,
        len(streams),
        tuple(sorted(errors)),
        pause=max(stream.pause for stream in streams),
        stated=stated,
        ended=all(stream.ends == 1 for stream in streams),
    )


def written(outcomes: list[Outcome]) -> None:
    """Put the rows into the page's table; rows of scenarios that were not played stay."""
    head = "| what happens | right | longest pause | stated |\n|---|---|---|---|"
    before, _, rest = PAGE.read_text().partition(BEGIN)
    old, _, after = rest.partition(END)
    rows = {line.split(" | ")[0]: line for line in old.splitlines() if line.startswith("| ")}
    rows |= {outcome.row.split(" | ")[0]: outcome.row for outcome in outcomes}
    known = [f"| {what}" for what, _, _ in SCENARIOS.values()]
    table = "\n".join([head, *(rows[what] for what in known if what in rows)])
    PAGE.write_text(f"{before}{BEGIN}\n{table}\n{END}{after}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--requests", type=int, default=36)
    parser.add_argument("--tokens", type=int, default=120)
    parser.add_argument("--rate", type=float, default=40.0, help="tokens a second of one stream")
    parser.add_argument("--only", choices=[*SCENARIOS], action="append")
    parser.add_argument("--write", action="store_true", help="write the table of docs/reliability.md")
    flags = parser.parse_args()
    outcomes = []
    names = flags.only or [each for each in SCENARIOS if each not in APART or can_have_namespaces()]
    for name in names:
        began = time.perf_counter()
        outcomes.append(asyncio.run(played(name, flags.requests, flags.tokens, flags.rate)))
        print(outcomes[-1].row, f"{time.perf_counter() - began:.0f} s", *outcomes[-1].errors, flush=True)
        if flags.write:  # after each: a run that is ended early has written what it played
            written(outcomes)
    sys.exit(not all(outcome.holds for outcome in outcomes))


if __name__ == "__main__":
    main()
