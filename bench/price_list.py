"""What each feature costs a plain request while it is on: Python calls, counted, and instructions, counted by valgrind.

    python bench/price_list.py                                  the calls, in about two minutes
    python bench/price_list.py --instructions --write           instructions too (some minutes a feature); writes bench/README.md

Both are counts, which a busy machine does not change by much. One gateway is started for each feature, before simulated engines
for the calls and before the mock engine for the instructions, and asked for whole answers of Chat Completions by one client, one
at a time. What a request of the plain gateway costs is taken off. Nothing here is a time: `compare.py` measures that.
"""

import argparse
import asyncio
import os
import re
import shlex
import shutil
import sys
import tempfile
from argparse import Namespace
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import attrs
import instructions
import stand

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.gateway.conftest import CHAT
from tests.gateway.test_call_budget import MESSAGES, RULES, counting, told

from smg_simulator.engine.engine import SimulatorConfig
from smg_simulator.server.grpc_server import SimulatedEngine

README = Path(__file__).with_name("README.md")
BEGIN, END = "<!-- price list: begin -->", "<!-- price list: end -->"
PLUGINS = """from smg_core.middleware.base import CONTINUE
from smg_core.middleware.python import PythonPlugin


class Head(PythonPlugin):
    async def on_request_head(self, head):
        return CONTINUE


class Body(PythonPlugin):
    async def on_request_body(self, body):
        return CONTINUE
"""


@attrs.frozen
class Feature:
    """One row: the settings that turn it on, as variables and as flags, and what stands in its requests. `engines`: how many
    workers there are; `level`: of the log; `path` and `body`: what is asked, where that is no plain chat; `instructed`: whether
    its instructions can be counted before the one mock engine."""

    settings: Mapping[str, str] = attrs.field(factory=dict)
    flags: Sequence[str] = ()
    engines: int = 1
    level: str = "warning"
    path: str = CHAT
    body: Mapping[str, object] = attrs.field(factory=dict)
    instructed: bool = True


RESPONSES = {"input": MESSAGES[0]["content"], "max_output_tokens": 2}
PLAIN = "nothing more"
FEATURES = {
    PLAIN: Feature(),
    "API keys": Feature({"SMG_AUTH_KEYS": stand.KEY}),
    "three limits": Feature(flags=[each for rule in RULES for each in ("--limits-rules", rule)]),
    "the ledger": Feature(flags=("--ledger", "--ledger-write-s", "3600")),
    "metrics": Feature({"SMG_METRICS_PORT": "0"}),
    "the access log": Feature({"SMG_SERVER_ACCESS_LOG": "true"}, level="info"),
    "traces, 1 % recorded": Feature({"SMG_TRACES_ENDPOINT": "{collector}", "SMG_TRACES_RATIO": "0.01"}),
    "traces, all recorded": Feature({"SMG_TRACES_ENDPOINT": "{collector}", "SMG_TRACES_RATIO": "1"}),
    "a plugin that sees heads": Feature({"SMG_MIDDLEWARE_PLUGINS": "price_plugins:Head"}),
    "a plugin that sees bodies": Feature({"SMG_MIDDLEWARE_PLUGINS": "price_plugins:Body"}),
    "hedging": Feature({"SMG_ROUTING_HEDGE_AFTER_S": "30"}, engines=2),
    "cache-aware routing": Feature({"SMG_ROUTING_POLICY": "cache_aware"}),
    "2 workers": Feature(engines=2, instructed=False),
    "64 workers": Feature(engines=64, instructed=False),
    "64 workers, cache-aware": Feature({"SMG_ROUTING_POLICY": "cache_aware"}, engines=64, instructed=False),
    "a response, not stored": Feature(path="/v1/responses", body={**RESPONSES, "store": False}),
    "a response, stored in memory": Feature(
        {"SMG_HISTORY_URL": "memory:"}, path="/v1/responses", body={**RESPONSES, "store": True}
    ),
}
"""The first is what the others are compared with."""


@attrs.define
class Row:
    calls: int = 0
    millions: float | None = None


async def calls_of(feature: Feature, folder: Path) -> Counter[str]:
    """The calls of one request, by function."""
    settings = {name: value.format(collector=instructions.collecting()) for name, value in feature.settings.items()}
    settings = {"SMG_ROUTING_POLICY": "round_robin", "PYTHONPATH": str(folder), **settings}
    async with AsyncExitStack() as stack:
        further = [
            await stack.enter_async_context(SimulatedEngine(SimulatorConfig())) for _ in range(feature.engines - 1)
        ]
        flags = [argument for engine in further for argument in ("--worker", engine.target)] + [*feature.flags]
        gateway = await stack.enter_async_context(
            counting(folder, SimulatorConfig(), flags=flags, settings=settings, key=stand.KEY)
        )
        body = dict(feature.body) or {"messages": MESSAGES, "max_tokens": 2}
        return await gateway.calls(feature.path, {"model": "sim", **body})


def millions_of(feature: Feature, folder: Path, asking: Namespace) -> float:
    """Instructions of one request, in millions."""
    out = folder / f"callgrind.{os.getpid()}"
    settings = {name: value.format(collector=instructions.collecting()) for name, value in feature.settings.items()}
    command = instructions.COMMAND.format(
        seldom=instructions.SELDOM,
        settings=" ".join(f"{name}={shlex.quote(value)}" for name, value in settings.items()),
        level=feature.level,
        source=f"{stand.HERE.parent / 'src'}:{folder}",
        state=folder / "state",
        out=out,
        python=shlex.quote(sys.executable),
    )
    if "SMG_ROUTING_POLICY" in settings:
        command = command.replace("--policy round_robin ", "")
    command += "".join(f" {shlex.quote(each)}" for each in feature.flags)
    api = "chat" if not feature.body else "stored" if feature.body["store"] else "responses"
    with stand.Stand({"ours": command}, answers_in=instructions.STARTED_IN) as bench:
        return instructions.counted(bench.gateways["ours"], "whole", asking, api, out) / 1e6


def table(rows: Mapping[str, Row]) -> str:
    """The rows as Markdown: what the first costs, and how much more each other one."""
    base, lines = (
        rows[PLAIN],
        ["| a request with | calls | more | instructions, millions | more |", "|---|---|---|---|---|"],
    )
    for name, row in rows.items():
        more = "" if row is base else f"{row.calls - base.calls:+}"
        count = "" if row.millions is None else f"{row.millions:.3f}"
        known = row.millions is not None and base.millions is not None and row is not base
        than = f"{row.millions - base.millions:+.3f}" if known and row.millions and base.millions else ""
        lines.append(f"| {name} | {row.calls} | {more} | {count} | {than} |")
    return "\n".join(lines)


def arguments() -> Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--feature", action="append", choices=FEATURES, help="one of them; may be repeated; default all"
    )
    parser.add_argument("--instructions", action="store_true", help="count instructions too; needs valgrind")
    parser.add_argument("--requests", type=int, default=40, help="in each round of counting instructions; default 40")
    parser.add_argument("--rounds", type=int, default=3, help="of which the median counts; default 3")
    parser.add_argument("--verbose", action="store_true", help="the calls of each feature by phase")
    parser.add_argument("--write", action="store_true", help="write the table into bench/README.md")
    return parser.parse_args()


def main() -> int:
    args = arguments()
    args.at_once = 1
    if args.instructions and shutil.which("valgrind") is None:
        print("valgrind is needed: apt-get install -y valgrind", file=sys.stderr)
        return 2
    rows: dict[str, Row] = {}
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        (folder / "price_plugins.py").write_text(PLUGINS)
        for name in dict.fromkeys([PLAIN, *(args.feature or FEATURES)]):
            calls = asyncio.run(calls_of(FEATURES[name], folder))
            rows[name] = Row(calls.total())
            if args.instructions and FEATURES[name].instructed:
                rows[name].millions = millions_of(FEATURES[name], folder, args)
            print(f"{name}: {rows[name].calls} calls, {rows[name].millions or 0:.3f} million instructions", flush=True)
            if args.verbose:
                print(told(calls), flush=True)
    made_table = f"{BEGIN}\n{stand.machine()}.\n\n{table(rows)}\n{END}"
    print(made_table)
    if args.write:
        page = README.read_text()
        README.write_text(re.sub(f"{BEGIN}.*{END}", lambda _: made_table, page, flags=re.DOTALL))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
