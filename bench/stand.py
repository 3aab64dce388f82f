"""The test stand of the benchmarks: one mock engine, gateways in front of it, and what their processes cost.

A gateway is a name and a command line in which `{port}` is the port to listen on, `{spare}` another free port (some want
one for metrics), `{engine}` the engine's host:port for gRPC, `{http}` its base URL for HTTP, `{origin}` that URL without its
path, and `{model}` the model folder. CPU and memory are of the gateway's whole process tree, read from /proc, so they hold
still on a machine that others use.
"""

import argparse
import json
import os
import platform
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType, TracebackType

import make_tokenizer

HERE = Path(__file__).parent
MODEL = HERE / "results" / "model"
KEY = "sk-bench-0123456789abcdef"
"""What all loads send as their API key: `SMG_AUTH_KEYS` with it makes a gateway ask for it."""
OURS = (
    f"{shlex.quote(sys.executable)} -m smg_core serve --host 127.0.0.1 --port {{port}} --worker grpc://{{engine}} "
    "--tokenizer {model} --policy round_robin --log-level warning"
)
SMG = (
    "{path} launch --host 127.0.0.1 --port {{port}} --worker-urls grpc://{{engine}} --model-path {{model}} "
    "--policy round_robin --log-level warn --prometheus-port {{spare}}"
)
LITELLM = "{path} --host 127.0.0.1 --port {{port}} --model openai/mock --api_base {{http}} --telemetry False"
NOTHING: Mapping[str, object] = MappingProxyType({})
LITELLM_ENVIRONMENT = {"OPENAI_API_KEY": "-", "LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY": "true"}


OBSERVED = {
    "metrics": ("SMG_METRICS_PORT=0", "warning"),
    "log": ("SMG_SERVER_ACCESS_LOG=true", "info"),
    "observed": ("SMG_METRICS_PORT=0 SMG_SERVER_ACCESS_LOG=true", "info"),
}
"""Gateways that tell of themselves: their settings as variables, and their log's level."""


def descendants(root: int) -> list[int]:
    """A process and all that descend from it."""
    found, waiting = [], [root]
    while waiting:
        pid = waiting.pop()
        found.append(pid)
        for children in Path(f"/proc/{pid}/task").glob("*/children"):
            waiting += map(int, children.read_text().split())
    return found


def cpu_seconds(pids: Iterable[int]) -> float:
    """User and system time of these processes so far."""
    ticks = 0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


class Gateway:
    """A running gateway."""

    def __init__(self, name: str, process: "subprocess.Popen[bytes]", port: int) -> None:
        self.name, self.process, self.port = name, process, port

    def tree(self) -> list[int]:
        """Its process and all descendants."""
        return descendants(self.process.pid)

    def cpu_seconds(self) -> float:
        """User and system time so far."""
        return cpu_seconds(self.tree())

    def resident_mib(self) -> float:
        kib = 0
        for pid in self.tree():
            status = Path(f"/proc/{pid}/status").read_text()
            kib += sum(int(size) for size in re.findall(r"VmRSS:\s+(\d+)", status))
        return kib / 1024

    def alive(self) -> bool:
        return self.process.poll() is None

    def wait_until_it_answers(self, seconds: float, model: str = "mock") -> None:
        """Ask for two tokens until they come; SystemExit when they do not."""
        body = chat(2, stream=False, text="hi", model=model)
        url = f"http://127.0.0.1:{self.port}/v1/chat/completions"
        deadline = time.monotonic() + seconds
        while True:
            asked = urllib.request.Request(
                url, body, {"Content-Type": "application/json", "Authorization": f"Bearer {KEY}"}
            )
            try:
                urllib.request.urlopen(asked, timeout=seconds / 10).read()
            except OSError as error:
                if time.monotonic() > deadline or not self.alive():
                    raise SystemExit(f"{self.name} answers no chat on port {self.port}: {error}") from None
                time.sleep(0.5)
            else:
                return


class Stand:
    """The engine and the gateways, for as long as the `with` block runs. `logs` is the folder of their output; `answers_in` how
    many seconds a gateway may take until it answers."""

    def __init__(
        self,
        gateways: dict[str, str],
        *,
        trace: bool = False,
        plain: bool = False,
        chunks: bool = False,
        answers_in: float = 120.0,
    ) -> None:
        self._answers_in = answers_in
        self.commands = gateways
        self.logs = Path(tempfile.mkdtemp(prefix="smg-bench-"))
        self.trace = self.logs / "trace" if trace else None
        self.plain = plain
        self.chunks = chunks
        self.model = make_tokenizer.at(MODEL)
        self.gateways: dict[str, Gateway] = {}
        self.engine_port = self.engine_pid = 0
        self._processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> "Stand":
        try:
            self._start_all()
        except BaseException:
            self._stop_all()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stop_all()
        print(f"logs: {self.logs}", file=sys.stderr)

    def _start_all(self) -> None:
        first = 20_000 + os.getpid() % 1500 * 8
        self.engine_port, http = first, first + 1
        more = ["--trace", str(self.trace)] if self.trace else []
        if any("{http}" in command or "{origin}" in command for command in self.commands.values()):
            more += ["--http", str(http)]
        more += ["--plain"] if self.plain else []
        more += ["--chunks"] if self.chunks else []
        mock = [sys.executable, str(HERE / "engine_mock.py"), str(first), str(self.model)]
        self.engine_pid = self._start("engine", [*mock, *more]).pid
        self._wait_for_engine()
        for number, (name, command) in enumerate(self.commands.items(), 1):
            port = first + 2 * number
            places = {
                "port": port,
                "spare": port + 1,
                "engine": f"127.0.0.1:{first}",
                "http": f"http://127.0.0.1:{http}/v1",
                "origin": f"http://127.0.0.1:{http}",
                "model": self.model,
            }
            self.gateways[name] = Gateway(name, self._start(name, shlex.split(command.format(**places))), port)
        for gateway in self.gateways.values():
            gateway.wait_until_it_answers(self._answers_in)

    def _start(self, name: str, command: Sequence[str]) -> "subprocess.Popen[bytes]":
        environment = {**os.environ, "PYTHONUNBUFFERED": "1", **LITELLM_ENVIRONMENT}
        with (self.logs / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(
                command, stdout=log, stderr=subprocess.STDOUT, start_new_session=True, env=environment
            )
        self._processes.append(process)
        return process

    def _wait_for_engine(self) -> None:
        log = self.logs / "engine.log"
        deadline = time.monotonic() + 60
        while "ready" not in log.read_text():
            if time.monotonic() > deadline or self._processes[0].poll() is not None:
                raise SystemExit(f"the mock engine did not start: {log.read_text()}")
            time.sleep(0.1)

    def _stop_all(self) -> None:
        for sign in (signal.SIGTERM, signal.SIGKILL):
            for process in self._processes:
                if process.poll() is None:
                    os.killpg(process.pid, sign)
            deadline = time.monotonic() + 5
            while any(process.poll() is None for process in self._processes) and time.monotonic() < deadline:
                time.sleep(0.05)

    def traced(self) -> list[tuple[int, float, float]]:
        """(seed, longest gap, duration) of every call the engine finished; seconds."""
        if self.trace is None or not self.trace.exists():
            return []
        rows = (line.split() for line in self.trace.read_text().splitlines())
        return [(int(seed), float(gap), float(took)) for seed, gap, took in rows]


def chat(
    tokens: int,
    *,
    stream: bool,
    text: str,
    pause_us: int = 0,
    model: str = "mock",
    more: Mapping[str, object] = NOTHING,
) -> bytes:
    """The body of one chat completion, with `more` fields; the mock engine reads the pause between two tokens from the seed."""
    messages = [{"role": "system", "content": "You are a helpful assistant."}, {"role": "user", "content": text}]
    asked = {"model": model, "stream": stream, "max_tokens": tokens, "seed": pause_us, "messages": messages}
    return json.dumps({**asked, **more}).encode()


def generate_content(tokens: int, *, text: str, pause_us: int = 0) -> bytes:
    """The body of the same request to generateContent."""
    asked = {
        "systemInstruction": {"parts": [{"text": "You are a helpful assistant."}]},
        "contents": [{"role": "user", "parts": [{"text": text}]}],
        "generationConfig": {"maxOutputTokens": tokens, "seed": pause_us},
    }
    return json.dumps(asked).encode()


def interactions(tokens: int, *, stream: bool, text: str, pause_us: int = 0) -> bytes:
    """The body of the same request to Interactions, whose answer is not kept."""
    asked = {"model": "mock", "stream": stream, "store": False, "system_instruction": "You are a helpful assistant."}
    settings = {"max_output_tokens": tokens, "seed": pause_us}
    return json.dumps({**asked, "input": text, "generation_config": settings}).encode()


def responses(tokens: int, *, stream: bool, text: str, pause_us: int = 0, store: bool = False) -> bytes:
    """The body of the same request to Responses, whose answer is kept where `store` says so."""
    asked = {"model": "mock", "stream": stream, "store": store, "max_output_tokens": tokens, "seed": pause_us}
    return json.dumps({**asked, "instructions": "You are a helpful assistant.", "input": text}).encode()


def messages(tokens: int, *, stream: bool, text: str, pause_us: int = 0) -> bytes:
    """The body of the same request to Messages, which has no seed: the mock engine reads the pause from top_k too."""
    asked = {"model": "mock", "stream": stream, "max_tokens": tokens, "system": "You are a helpful assistant."}
    return json.dumps({**asked, "top_k": pause_us, "messages": [{"role": "user", "content": text}]}).encode()


def add_gateway_options(parser: argparse.ArgumentParser) -> None:
    """The options that name gateways; `gateways` reads them."""
    parser.add_argument("--smg", metavar="PATH", help="the smg program of a virtual environment with smg 1.13.0")
    parser.add_argument("--litellm", metavar="PATH", help="the litellm program of one with litellm[proxy]")
    parser.add_argument(
        "--peer", action="append", default=[], metavar="NAME=COMMAND", help="another gateway; may be repeated"
    )
    parser.add_argument("--ours", default=OURS, metavar="COMMAND", help="how our own gateway is started")
    parser.add_argument(
        "--observed", action="store_true", help="ours again, with metrics, with the access log, and with both"
    )
    parser.add_argument("--without-ours", action="store_true", help="measure the peers alone")


def gateways(args: argparse.Namespace) -> dict[str, str]:
    """Name to command, peers first: ratios are against the first."""
    found = {}
    if args.smg:
        found["smg"] = SMG.format(path=args.smg)
    if args.litellm:
        found["litellm"] = LITELLM.format(path=args.litellm)
    for entry in args.peer:
        name, equals, command = entry.partition("=")
        if not equals:
            raise SystemExit(f"--peer takes NAME=COMMAND, not {entry!r}")
        found[name] = command
    if not args.without_ours:
        found["ours"] = args.ours
    if args.observed:
        for name, (settings, level) in OBSERVED.items():
            found[name] = f"env {settings} {args.ours} --log-level {level}"
    return found


def machine() -> str:
    """One line for the head of a table: date, cores, processor, Python."""
    model = re.search(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text())
    name = model.group(1) if model else platform.machine()
    return f"{time.strftime('%Y-%m-%d')}, {os.cpu_count()} cores, {name}, Python {platform.python_version()}"
