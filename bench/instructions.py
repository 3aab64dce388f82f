"""Instructions that a gateway spends on one request, counted by valgrind: it decides where a machine's noise hides a difference.

    python bench/instructions.py --peer before=../before/src            this checkout beside another one
    python bench/instructions.py --scenario paced --requests 200
    python bench/instructions.py --scenario paced --api chat --api responses --api stored      one API beside another
    python bench/instructions.py --scenario paced --identity            without and with an API key
    python bench/instructions.py --scenario paced --observed            without and with metrics, with the access log, with both
    python bench/instructions.py --scenario paced --traced              without traces, with 1 % and with all of them

Each gateway runs under `valgrind --tool=callgrind` before the mock engine; one client sends one request at a time, so that every
token is a read, a decoding and a write of its own; with `--at-once 16` as many come together, and so do their writes to the
history. The count is zeroed after a warm-up and read after the last request. A request takes some hundred times as long as in
use, and what is done at intervals is done a hundred times as seldom, so that it has about the share that it has in use; of what
metrics gather, as little is counted together as comes in that time of paced streams. Takes about half a minute a hundred
requests; needs valgrind.
"""

import argparse
import os
import re
import shlex
import shutil
import statistics
import subprocess
import sys
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import stand

SELDOM = (
    "SMG_WORKERS_HEALTH_INTERVAL_S=500 SMG_WORKERS_PROBE_TIMEOUT_S=200 SMG_WORKERS_LOADS_INTERVAL_S=100 "
    "SMG_METRICS_SAMPLE_S=100 SMG_OBSERVABILITY_ACCESS_FLUSH_S=10 SMG_OBSERVABILITY_LOOP_TICK_S=10 "
    "SMG_OBSERVABILITY_WATCHDOG_S=500 SMG_TRACES_DELAY_S=200"
)
"""The intervals of a gateway, a hundred times as long as they are by default."""
SCENARIOS = {
    "paced": {"tokens": 20, "stream": True, "pause_us": 60_000},
    "short": {"tokens": 2, "stream": True, "pause_us": 60_000},
    "flood": {"tokens": 100, "stream": True, "pause_us": 0},
    "whole": {"tokens": 100, "stream": False, "pause_us": 0},
}
TRACED = {"traced-few": "0.01", "traced-all": "1"}
"""Gateways with traces, and the share that each records."""
KEPT: list[grpc.Server] = []
STARTED_IN = 1200.0
"""Seconds until a gateway under valgrind answers: some minutes where the machine is busy with other work."""
APIS = ("chat", "generate_content", "interactions", "messages", "responses", "stored")
"""APIs by name; "stored" is Responses that are kept in SQLite, "responses" those that are not."""
PROSE = "Most of what a port does is waiting for water. "
COMMAND = (
    "env {seldom} {settings} PYTHONPATH={source}:{root} XDG_STATE_HOME={state} "
    "valgrind --tool=callgrind --instr-atstart=no --callgrind-out-file={out} --combine-dumps=no "
    "{python} -m tests.bounded serve --host 127.0.0.1 --port {{port}} --worker grpc://{{engine}} --tokenizer {{model}} "
    "--policy round_robin --log-level {level}"
)


def collecting() -> str:
    """The URL of a collector that takes every span and keeps none."""

    class Taking(grpc.GenericRpcHandler):  # type: ignore[misc]  # grpcio has no types
        def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
            return grpc.unary_unary_rpc_method_handler(lambda sent, context: b"")

    server = grpc.server(ThreadPoolExecutor(2), handlers=[Taking()])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    KEPT.append(server)
    return f"http://127.0.0.1:{port}"


def request_of(api: str, scenario: str) -> tuple[str, bytes]:
    """The path and the body of one request."""
    wanted = SCENARIOS[scenario]
    tokens, stream, pause_us = int(wanted["tokens"]), bool(wanted["stream"]), int(wanted["pause_us"])
    if api == "generate_content":
        verb = "streamGenerateContent?alt=sse" if stream else "generateContent"
        body = stand.generate_content(tokens, text=PROSE * 8, pause_us=pause_us)
        return f"/v1beta/models/mock:{verb}", body
    if api == "interactions":
        return "/v1/interactions", stand.interactions(tokens, stream=stream, text=PROSE * 8, pause_us=pause_us)
    if api == "messages":
        return "/v1/messages", stand.messages(tokens, stream=stream, text=PROSE * 8, pause_us=pause_us)
    if api != "chat":
        kept = api == "stored"
        return "/v1/responses", stand.responses(tokens, stream=stream, text=PROSE * 8, pause_us=pause_us, store=kept)
    return "/v1/chat/completions", stand.chat(tokens, stream=stream, text=PROSE * 8, pause_us=pause_us)


def asked(gateway: stand.Gateway, scenario: str, count: int, api: str, at_once: int) -> None:
    """Send so many requests, `at_once` at a time, and read each answer to its end."""
    path, body = request_of(api, scenario)
    url = f"http://127.0.0.1:{gateway.port}{path}"

    def ask(_: int) -> None:
        request = urllib.request.Request(
            url, body, {"Content-Type": "application/json", "Authorization": f"Bearer {stand.KEY}"}
        )
        urllib.request.urlopen(request, timeout=1200).read()

    with ThreadPoolExecutor(at_once) as clients:
        list(clients.map(ask, range(count)))


def control(gateway: stand.Gateway, *words: str) -> None:
    """Tell callgrind to zero its counts, or to write them."""
    pid = next(each for each in reversed(gateway.tree()) if "callgrind" in Path(f"/proc/{each}/cmdline").read_text())
    control_process(pid, *words)


def control_process(pid: int, *words: str) -> None:
    """Tell the callgrind of one process."""
    subprocess.run(["callgrind_control", *words, str(pid)], check=True, capture_output=True)


def dumped(out: Path) -> int:
    """The instructions in the newest dump."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        dumps = sorted(out.parent.glob(f"{out.name}.*"), key=lambda path: path.stat().st_mtime)
        found = re.search(r"^totals: (\d+)", dumps[-1].read_text(), re.MULTILINE) if dumps else None
        if found:
            count = int(found.group(1))
            for path in dumps:
                path.unlink()
            return count
        time.sleep(0.2)
    raise SystemExit("callgrind wrote no count")


def counted(gateway: stand.Gateway, scenario: str, asking: argparse.Namespace, api: str, out: Path) -> float:
    """Instructions a request, after a warm-up: the median of several rounds, since in one of them the garbage collector may go
    through everything. Nothing is counted while other gateways are, which makes that faster."""
    at_once = asking.at_once
    asked(gateway, scenario, max(10, at_once), api, at_once)
    control(gateway, "--instr=on")
    asked(gateway, scenario, max(2, at_once), api, at_once)
    counts = []
    for _ in range(asking.rounds):
        control(gateway, "--zero")
        asked(gateway, scenario, asking.requests, api, at_once)
        control(gateway, "--dump")
        counts.append(dumped(out) / asking.requests)
    control(gateway, "--instr=off")
    middle: float = statistics.median(counts)
    return middle


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer", action="append", default=[], metavar="NAME=SRC", help="another checkout's src folder")
    parser.add_argument("--identity", action="store_true", help="this checkout a second time, which asks for a key")
    parser.add_argument(
        "--observed", action="store_true", help="this checkout again, with metrics, with the access log, and with both"
    )
    parser.add_argument(
        "--traced", action="store_true", help="this checkout again, with 1 %% and with all traces recorded"
    )
    parser.add_argument("--scenario", action="append", choices=SCENARIOS, help="may be repeated; default all")
    parser.add_argument(
        "--api", action="append", choices=APIS, help="may be repeated; ratios are to the first; default chat"
    )
    parser.add_argument("--requests", type=int, default=64, help="in each round; default 64")
    parser.add_argument("--rounds", type=int, default=3, help="of which the median counts; default 3")
    text = "requests that metrics count together; default 15, as many as come in metrics.gather_s of 16 paced streams"
    parser.add_argument("--gathered", type=int, default=15, help=text)
    parser.add_argument("--at-once", type=int, default=1, help="requests at a time; default 1")
    return parser.parse_args()


def main() -> int:
    args = arguments()
    if shutil.which("valgrind") is None:
        print("valgrind is needed: apt-get install -y valgrind", file=sys.stderr)
        return 2
    own = str(stand.HERE.parent / "src")
    sources = dict(each.partition("=")[::2] for each in args.peer) | {"ours": own}
    if args.identity:
        sources["identity"] = own
    if args.observed:
        sources |= dict.fromkeys(stand.OBSERVED, own)
    if args.traced:
        sources |= dict.fromkeys(TRACED, own)
    gathering = f"SMG_METRICS_GATHER_S=20 SMG_METRICS_BATCH={args.gathered}"
    folder = stand.HERE / "results"
    folder.mkdir(exist_ok=True)
    python = shlex.quote(sys.executable)
    outs = {name: folder / f"callgrind.{os.getpid()}.{name}" for name in sources}
    collector = collecting() if args.traced else ""
    states = {name: folder / f"state.{os.getpid()}.{name}" for name in sources}
    commands = {
        name: COMMAND.format(
            seldom=SELDOM,
            settings={
                "identity": f"SMG_AUTH_KEYS={stand.KEY}",
                **{each: f"{variables} {gathering}" for each, (variables, _) in stand.OBSERVED.items()},
                **{each: f"SMG_TRACES_ENDPOINT={collector} SMG_TRACES_RATIO={ratio}" for each, ratio in TRACED.items()},
            }.get(name, ""),
            level=stand.OBSERVED.get(name, ("", "warning"))[1],
            source=Path(source).resolve(),
            root=stand.HERE.parent,
            state=states[name],
            out=outs[name],
            python=python,
        )
        for name, source in sources.items()
    }
    try:
        return measured(args, commands, outs)
    finally:
        for state in states.values():
            shutil.rmtree(state, ignore_errors=True)


def measured(args: argparse.Namespace, commands: dict[str, str], outs: dict[str, Path]) -> int:
    """Print a line for each scenario, gateway and API."""
    with stand.Stand(commands, answers_in=STARTED_IN) as bench:
        for scenario in args.scenario or SCENARIOS:
            base = 0.0
            for gateway in bench.gateways.values():
                for api in args.api or ["chat"]:
                    each = counted(gateway, scenario, args, api, outs[gateway.name])
                    base = base or each
                    print(
                        f"{scenario:8} {gateway.name:10} {api:16} {each / 1e6:8.3f} million instructions/request  "
                        f"x{each / base:.3f}",
                        flush=True,
                    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
