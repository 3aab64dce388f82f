"""CPU that a gateway spends on one request, ours alone or side by side with others, in one interleaved run.

    make bench                                                      our gateway alone
    make bench PEER_SMG=$HOME/peer/bin/smg                          beside SMG
    python bench/compare.py --smg PATH --scenario paced --rounds 9 --markdown

Every gateway gets the same load from wrk in turn, round by round; the figure is the CPU time of its process tree divided by
the requests it answered. A ratio is the median over the rounds of the ratio within one round, so what the machine does
besides falls on both. The first gateway named is what ratios are against. Exit status 1 when any request failed.
"""

import argparse
import json
import re
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import stand

PROSE = (
    "Most of what a port does is waiting for water. The cranes wait for the hull, the hull waits for the tide, and the tide, "
    "which waits for nobody, comes in by the hand's breadth. "
)


class Scenario(NamedTuple):
    """One load: sizes in characters and tokens, the engine's pause between two tokens in microseconds."""

    prompt: int
    stream: bool
    tokens: int
    connections: int
    pause_us: int = 0
    unique: bool = False


SCENARIOS = {
    "paced": Scenario(400, True, 100, 64, pause_us=10_000),  # what serving looks like
    "flood": Scenario(400, True, 100, 16),
    "flood-64": Scenario(400, True, 100, 64),
    "whole": Scenario(400, False, 100, 16),
    "long": Scenario(30_000, True, 100, 16),
    "unique": Scenario(4_000, True, 32, 16, unique=True),
}


class Run(NamedTuple):
    """What one gateway did in one round."""

    requests: int
    per_second: float
    cpu_ms: float
    failed: int


class Row(NamedTuple):
    """One gateway over all rounds of a scenario; `ratio` is of CPU, against the first gateway."""

    cpu_ms: float
    ratio: float
    per_second: float
    rss_mib: float
    failed: int


def script(folder: Path, name: str, scenario: Scenario) -> Path:
    """A wrk script that posts the scenario's body; where every prompt is to differ, it begins with a number."""
    text = (PROSE * (scenario.prompt // len(PROSE) + 1))[: scenario.prompt]
    body = stand.chat(scenario.tokens, stream=scenario.stream, text="@@" + text, pause_us=scenario.pause_us)
    (folder / f"{name}.json").write_bytes(body)
    lines = [
        'wrk.method = "POST"',
        'wrk.headers["Content-Type"] = "application/json"',
        f'wrk.headers["Authorization"] = "Bearer {stand.KEY}"',
        f'body = io.open("{folder}/{name}.json", "rb"):read("*a")',
        "wrk.body = body",
    ]
    if scenario.unique:
        numbered = f"(body:gsub('@@', '{time.time_ns()}-' .. count .. ' ', 1))"
        lines.append("count = 0")
        lines.append(f"function request() count = count + 1; return wrk.format(nil, nil, nil, {numbered}) end")
    path = folder / f"{name}.lua"
    path.write_text("\n".join(lines) + "\n")
    return path


def load(gateway: stand.Gateway, lua: Path, connections: int, seconds: float) -> Run:
    """One gateway under wrk for so many seconds."""
    before = gateway.cpu_seconds()
    address = f"http://127.0.0.1:{gateway.port}/v1/chat/completions"
    options = ["-t1", f"-c{connections}", f"-d{seconds:g}s", "--timeout", "30s", "-s", str(lua)]
    out = subprocess.run(["wrk", *options, address], capture_output=True, text=True, check=True).stdout
    spent = gateway.cpu_seconds() - before
    done, rate = int(_number(r"(\d+) requests in", out)), _number(r"Requests/sec:\s+([\d.]+)", out)
    failed = int(_number(r"Non-2xx.*?(\d+)", out) + _number(r"Socket errors.*read (\d+)", out))
    return Run(done, rate, 1000 * spent / max(done, 1), failed + (0 if done else 1))


def _number(pattern: str, text: str) -> float:
    found = re.search(pattern, text)
    return float(found.group(1)) if found else 0.0


def measure(bench: stand.Stand, name: str, rounds: int, seconds: float) -> dict[str, Row]:
    """All gateways in turn, `rounds` times after one to warm up."""
    scenario = SCENARIOS[name]
    runs: dict[str, list[Run]] = {each: [] for each in bench.gateways}
    for turn in range(rounds + 1):
        for gateway in bench.gateways.values():
            run = load(gateway, script(bench.logs, name, scenario), scenario.connections, seconds)
            if turn:
                runs[gateway.name].append(run)
    base = next(iter(runs.values()))
    return {each: _row(mine, base, bench.gateways[each].resident_mib()) for each, mine in runs.items()}


def _row(mine: list[Run], base: list[Run], rss: float) -> Row:
    ratios = [a.cpu_ms / b.cpu_ms for a, b in zip(mine, base, strict=True) if b.cpu_ms]
    return Row(
        cpu_ms=statistics.median(run.cpu_ms for run in mine),
        ratio=statistics.median(ratios or [1.0]),
        per_second=statistics.median(run.per_second for run in mine),
        rss_mib=rss,
        failed=sum(run.failed for run in mine),
    )


HEAD = "| scenario | gateway | CPU a request, ms | ratio | requests/s | resident, MiB | failed |\n|---|---|---|---|---|---|---|"


def show(scenario: str, name: str, row: Row, base: str, *, markdown: bool) -> str:
    if markdown:
        figures = f"{row.cpu_ms:.3f} | {row.ratio:.2f} | {row.per_second:.0f} | {row.rss_mib:.0f} | {row.failed}"
        return f"| {scenario} | {name} | {figures} |"
    return (
        f"{scenario:9} {name:10} {row.cpu_ms:8.3f} ms/request  x{row.ratio:.2f} of {base}  {row.per_second:8.1f} requests/s"
        f"  {row.rss_mib:6.1f} MiB  {row.failed} failed"
    )


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    stand.add_gateway_options(parser)
    parser.add_argument("--scenario", action="append", choices=SCENARIOS, help="may be repeated; default all")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=6)
    parser.add_argument("--chunks", action="store_true", help="the engine sends pieces even where it is asked for none")
    parser.add_argument("--json", type=Path, help="write the figures there")
    parser.add_argument("--markdown", action="store_true", help="print a table for bench/README.md")
    return parser.parse_args()


def main() -> int:
    args = arguments()
    if shutil.which("wrk") is None:
        print("The load generator wrk is needed: apt-get install -y wrk", file=sys.stderr)
        return 2
    commands = stand.gateways(args)
    base = next(iter(commands))
    print(stand.machine(), flush=True)
    if args.markdown:
        print("\n" + HEAD, flush=True)
    table: dict[str, dict[str, Row]] = {}
    with stand.Stand(commands, chunks=args.chunks) as bench:
        for scenario in args.scenario or SCENARIOS:
            table[scenario] = measure(bench, scenario, args.rounds, args.seconds)
            for name, row in table[scenario].items():
                print(show(scenario, name, row, base, markdown=args.markdown), flush=True)
    if args.json:
        figures = {scenario: {name: row._asdict() for name, row in rows.items()} for scenario, rows in table.items()}
        args.json.write_text(json.dumps({"machine": stand.machine(), "table": figures}, indent=1))
    return int(any(row.failed for rows in table.values() for row in rows.values()))


if __name__ == "__main__":
    raise SystemExit(main())
