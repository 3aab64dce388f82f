"""CPU of one stream before outside providers: this gateway beside LiteLLM's proxy, on the same fakes, in flood and paced.

    python3 -m venv /tmp/litellm && /tmp/litellm/bin/pip install 'litellm[proxy]==1.106.0'
    python bench/provider_proxies.py --litellm /tmp/litellm/bin/litellm
    python bench/provider_proxies.py --litellm /tmp/litellm/bin/litellm --kinds bedrock --rounds 5

Both take Chat Completions and ask the provider in its own format. Flood: `--at-once` clients ask one stream after the other, and
the provider writes as fast as it can. Paced: 64 streams at once, of which each brings a piece every 20 ms. The CPU is that of the
process with all its children, read from /proc, so that it holds still on a busy machine; the two have their turn in every round,
and the median of the rounds counts. Each has its defaults, one process, and writes no log of requests.
"""

import argparse
import asyncio
import base64
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
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import attrs
import sse_client
import stand

import providers

OURS = (
    f"{shlex.quote(sys.executable)} -m smg_core serve --host 127.0.0.1 --port {{port}} --workers-file {{workers}} "
    "--log-level warning"
)
THEIRS = "{path} --host 127.0.0.1 --port {port} --config {config} --telemetry False"
AWS = {"AWS_ACCESS_KEY_ID": "AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY": "an-example", "AWS_REGION": "eu-west-1"}
LOCAL = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_LOG": "ERROR", **stand.LITELLM_ENVIRONMENT}
PAUSES = {"flood": 0.0, "paced": 0.02}
PACED_AT_ONCE = 64
BEDROCK = "us.anthropic.claude-opus-4-6-v1:0"
KINDS = {"chat": "openai-chat", "anthropic": "anthropic", "bedrock": "bedrock"}
"""What providers are called here, and their dialect in this gateway."""


@attrs.frozen
class Run:
    """One load on one gateway before one kind of provider."""

    load: str
    kind: str

    @property
    def model(self) -> str:
        return f"{self.load}-{self.kind}"


def worker(run: Run, port: int) -> dict[str, Any]:
    """The entry of a provider in this gateway's file of workers."""
    entry: dict[str, Any] = {"url": f"http://127.0.0.1:{port}", "name": run.model, "dialect": KINDS[run.kind]}
    if run.kind == "bedrock":
        return {**entry, "region": "eu-west-1", "credential": {"kind": "aws"}, "models": {run.model: BEDROCK}}
    return {**entry, "credential": {"key": "k"}, "models": {run.model: providers.MODEL}}


def entry_of_litellm(run: Run, port: int) -> dict[str, Any]:
    """The same provider in LiteLLM's list of models."""
    url = f"http://127.0.0.1:{port}"
    if run.kind == "bedrock":
        endpoint = {"aws_bedrock_runtime_endpoint": url, "aws_region_name": "eu-west-1"}
        params: dict[str, Any] = {"model": f"bedrock/converse/{BEDROCK}", **endpoint}
    elif run.kind == "anthropic":
        params = {"model": f"anthropic/{providers.MODEL}", "api_base": url, "api_key": "k"}
    else:
        params = {"model": f"openai/{providers.MODEL}", "api_base": f"{url}/v1", "api_key": "k"}
    return {"model_name": run.model, "litellm_params": params}


@contextmanager
def fake(pieces: int, pause: float) -> Iterator[int]:
    """The providers, in a process of their own; gives its port."""
    program = providers.SERVER.replace("asyncio.sleep(0)", f"asyncio.sleep({pause})")
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    if process.stdin is None or process.stdout is None:
        raise SystemExit("the providers have no pipes")
    try:
        answers = providers.answers(pieces).items()
        process.stdin.write("\n".join(f"{path} {base64.b64encode(data).decode()}" for path, data in answers))
        process.stdin.close()
        yield int(process.stdout.readline())
    finally:
        process.kill()
        process.wait()


def wait_for(gateway: stand.Gateway) -> None:
    """Return once the gateway lists its models; SystemExit where it does not."""
    deadline = time.monotonic() + 180
    asked = urllib.request.Request(f"http://127.0.0.1:{gateway.port}/v1/models", headers={"Authorization": "Bearer -"})
    while True:
        with suppress(OSError), urllib.request.urlopen(asked, timeout=30) as answer:
            if b"flood-chat" in answer.read():
                return
        if time.monotonic() > deadline or not gateway.alive():
            raise SystemExit(f"{gateway.name} lists no models at port {gateway.port}")
        time.sleep(0.5)


@contextmanager
def started(name: str, command: str, port: int, logs: Path) -> Iterator[stand.Gateway]:
    """A gateway that runs."""
    with (logs / f"{name}.log").open("wb") as log:
        process = subprocess.Popen(
            shlex.split(command), stdout=log, stderr=log, start_new_session=True, env={**os.environ, **AWS, **LOCAL}
        )
    try:
        gateway = stand.Gateway(name, process, port)
        wait_for(gateway)
        yield gateway
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        process.wait(30)


async def ask(port: int, model: str, streams: int, at_once: int, pieces: int) -> None:
    """Ask for so many streams. SystemExit where one is not whole."""
    body = json.dumps({"model": model, "stream": True, "messages": [{"role": "user", "content": "Hi"}]}).encode()
    left = iter(range(streams))

    async def client() -> None:
        for _ in left:
            stream = await sse_client.open_stream(port, body)
            async with asyncio.timeout(240):
                outcome = await stream.outcome
            if outcome != "ok" or stream.events < pieces:
                raise SystemExit(f"{model} at port {port}: {outcome}, {stream.events} events")

    await asyncio.gather(*(client() for _ in range(at_once)))


def measured(gateway: stand.Gateway, run: Run, asked: argparse.Namespace) -> float:
    """Milliseconds of CPU of one stream."""
    at_once = PACED_AT_ONCE if run.load == "paced" else asked.at_once
    streams = max(asked.streams, at_once)
    begun = gateway.cpu_seconds()
    asyncio.run(ask(gateway.port, run.model, streams, at_once, asked.pieces))
    spent = gateway.cpu_seconds() - begun
    return float(spent / streams * 1e3)


def told(runs: list[Run], found: dict[tuple[str, Run], list[float]], asked: argparse.Namespace) -> str:
    """The table."""
    lines = [
        f"{stand.machine()}; streams of {asked.pieces} pieces, {asked.rounds} rounds.",
        "",
        "| provider | load | this gateway, ms of CPU a stream | LiteLLM 1.106.0 | times |",
        "|---|---|---|---|---|",
    ]
    for run in runs:
        ours, theirs = (statistics.median(found[name, run]) for name in ("smg", "litellm"))
        lines.append(f"| {run.kind} | {run.load} | {ours:.2f} | {theirs:.1f} | {theirs / ours:.1f} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--litellm", required=True, metavar="PATH", help="the litellm program")
    parser.add_argument("--kinds", nargs="*", choices=list(KINDS), default=list(KINDS))
    parser.add_argument("--streams", type=int, default=128)
    parser.add_argument("--at-once", type=int, default=16)
    parser.add_argument("--pieces", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    logs = Path(tempfile.mkdtemp(prefix="smg-bench-"))
    first = 20_000 + os.getpid() % 1500 * 8
    everything = [Run(load, kind) for load in PAUSES for kind in KINDS]
    with fake(asked.pieces, PAUSES["flood"]) as flood, fake(asked.pieces, PAUSES["paced"]) as paced:
        ports = {"flood": flood, "paced": paced}
        workers, config = logs / "workers.json", logs / "litellm.yaml"
        workers.write_text(json.dumps([worker(run, ports[run.load]) for run in everything]))
        listed = {"model_list": [entry_of_litellm(run, ports[run.load]) for run in everything]}
        config.write_text(json.dumps(listed))  # YAML has JSON in it
        ours = OURS.format(port=first, workers=workers)
        theirs = THEIRS.format(path=asked.litellm, port=first + 1, config=config)
        with started("smg", ours, first, logs) as one, started("litellm", theirs, first + 1, logs) as other:
            runs = [run for run in everything if run.kind in asked.kinds]
            found: dict[tuple[str, Run], list[float]] = {}
            for gateway in (one, other):
                for run in runs:
                    asyncio.run(ask(gateway.port, run.model, 4, 4, asked.pieces))
            for _ in range(asked.rounds):
                for run in runs:
                    for gateway in (one, other):
                        found.setdefault((gateway.name, run), []).append(measured(gateway, run, asked))
                        print(f"{gateway.name} {run.model}: {found[gateway.name, run][-1]:.2f} ms", file=sys.stderr)
    print(told(runs, found, asked))


if __name__ == "__main__":
    main()
