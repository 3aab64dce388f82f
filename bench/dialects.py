"""CPU of one request before an engine of each dialect, over gRPC and over HTTP, and before a prefill and a decode engine.

    python bench/dialects.py                                    rounds of 40 requests, 8 at a time, 100 tokens each
    python bench/dialects.py --rounds 9 --dialect vllm --dialect sglang --dialect sglang-pair
    python bench/dialects.py --rounds 9 --dialect vllm --dialect vllm-http --dialect sglang-http --dialect chat

One gateway for each dialect before one embedded engine, which speaks them all and sends every token by itself, `--rate` a second;
`chat` is before a gateway that speaks Chat Completions, which is before that engine and whose own CPU does not count;
the gateways of pairs have two such engines each, which hand the cache of the prompt over. The gateways take turns in
short rounds, so that what else the machine does falls on all of them; the figure is the median round, in milliseconds of user and
system time a request, and its ratio to the first dialect's.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import stand

from smg_core.engines.kinds.grpc import GRPC_KINDS
from smg_core.engines.kinds.http import HTTP_KINDS

DIALECTS = [each.name for each in GRPC_KINDS]
HTTP_DIALECTS = [each.name for each in HTTP_KINDS if each.codec is not None]
PROMPT = "Most of what a port does is waiting for water. " * 8
AT_ONCE = 8
PAIRS = {"vllm-pair": "NixlConnector", "sglang-pair": "MooncakeConnector", "tokenspeed-pair": "MooncakeConnector"}
"""Rows of two engines, with the connector that they share."""
CHAT = "chat"
"""The row of a server of Chat Completions."""
PORTS = 32
"""Of one run: an engine, the gateways, and the engines of the pairs."""
ENGINE = """import asyncio
from smg_simulator import Timing
from smg_simulator import SimulatorConfig
from smg_simulator import run_simulator
config = SimulatorConfig(model="mock", timing=Timing(decode_rate={rate}), kv_connector="{connector}", kv_role="{role}")
asyncio.run(run_simulator(config, "127.0.0.1:{port}", listen_http={http!r}))
"""
STARTED_IN = 120.0
"""Seconds until a gateway answers."""


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--dialect",
        action="append",
        choices=[*DIALECTS, *HTTP_DIALECTS, CHAT, *PAIRS],
        help="may be repeated; default all",
    )
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--requests", type=int, default=40, help="of a round")
    parser.add_argument("--tokens", type=int, default=100, help="of an answer")
    parser.add_argument("--rate", type=int, default=200, help="tokens a second of one answer")
    return parser.parse_args()


def ask(port: int, tokens: int) -> None:
    """One request, read to its end."""
    body = {"model": "mock", "stream": True, "max_tokens": tokens, "ignore_eos": True}
    body["messages"] = [{"role": "user", "content": PROMPT}]
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/v1/chat/completions",
        json.dumps(body).encode(),
        {"Content-Type": "application/json", "Authorization": "Bearer -"},
    )
    urllib.request.urlopen(request, timeout=300).read()


def measured(gateway: stand.Gateway, args: argparse.Namespace) -> float:
    """Milliseconds of CPU a request, of one round."""
    before: float = gateway.cpu_seconds()
    with ThreadPoolExecutor(AT_ONCE) as clients:
        list(clients.map(lambda _: ask(gateway.port, args.tokens), range(args.requests)))
    spent: float = gateway.cpu_seconds() - before
    return spent / int(args.requests) * 1e3


def wait_for(gateway: stand.Gateway) -> None:
    """Ask until an answer comes; SystemExit when none does."""
    deadline = time.monotonic() + STARTED_IN
    while True:
        try:
            ask(gateway.port, 2)
        except OSError as error:
            if time.monotonic() > deadline or not gateway.alive():
                raise SystemExit(f"the gateway of {gateway.name} answers no chat: {error}") from None
            time.sleep(0.5)
        else:
            return


def engine(
    port: int, rate: int, connector: str = "", role: str = "", http: int | None = None
) -> "subprocess.Popen[bytes]":
    """An embedded engine; with a connector, one that does its part of each request; with a port `http`, over HTTP too."""
    door = None if http is None else f"127.0.0.1:{http}"
    code = ENGINE.format(rate=float(rate), connector=connector, role=role, port=port, http=door)
    return subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.DEVNULL)


def started(name: str, engines: dict[str, int], port: int, logs: Path) -> stand.Gateway:
    """A gateway of one dialect before `engines`, each of which has the flag that names it."""
    command = [sys.executable, "-m", "smg_core", "serve", "--host", "127.0.0.1", "--port", str(port)]
    for flag, each in engines.items():
        scheme = "http" if name in HTTP_DIALECTS or name == CHAT else "grpc"
        command += [flag, f"{scheme}://127.0.0.1:{each}"]
    if name != CHAT:
        command += ["--workers-dialect", name.removesuffix("-pair")]
    command += ["--log-level", "warning"]
    with (logs / f"{name}.log").open("wb") as log:
        return stand.Gateway(name, subprocess.Popen(command, stdout=log, stderr=log), port)


def main() -> int:
    args = arguments()
    names = args.dialect or [*DIALECTS, *HTTP_DIALECTS, CHAT, *PAIRS]
    first = 20_000 + os.getpid() % 390 * PORTS  # below those that the system gives to clients
    logs = stand.HERE / "results"
    logs.mkdir(exist_ok=True)
    ports = iter(range(first, first + PORTS))
    shared, http = next(ports), next(ports)
    engines = [engine(shared, args.rate, http=http)]
    others: list[stand.Gateway] = []
    gateways: list[stand.Gateway] = []
    try:
        for name in names:
            behind = {"--worker": http if name in HTTP_DIALECTS else shared}
            if name == CHAT:
                others.append(started("vllm", behind, next(ports), logs))
                wait_for(others[0])
                behind = {"--worker": others[0].port}
            if name in PAIRS:
                behind = {"--prefill": next(ports), "--decode": next(ports)}
                roles = zip(behind.values(), ("kv_producer", "kv_consumer"), strict=True)
                engines += [engine(each, args.rate, PAIRS[name], role) for each, role in roles]
            gateways.append(started(name, behind, next(ports), logs))
        for each in gateways:
            wait_for(each)
            measured(each, args)
        rounds: dict[str, list[float]] = {name: [] for name in names}
        for _ in range(args.rounds):
            for each in gateways:
                rounds[each.name].append(measured(each, args))
    finally:
        for process in [*engines, *(each.process for each in [*gateways, *others])]:
            process.terminate()
            process.wait(30)
    base = statistics.median(rounds[names[0]])
    for name in names:
        found = statistics.median(rounds[name])
        print(
            f"{name:14} {found:7.2f} ms a request  x{found / base:.3f}   ({min(rounds[name]):.2f}-{max(rounds[name]):.2f})"
        )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
