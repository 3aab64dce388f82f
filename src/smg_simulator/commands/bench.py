"""`smg-gateway bench`: first token, gaps and goodput of a server of Chat Completions under a load (edge).

Decides which flags the command has, which load they mean, how far it is said to be, and where the report goes. Above: flags.
Below: bench.
"""

import argparse
import asyncio
import json
import os
import sys
import time
from collections.abc import Iterable
from pathlib import Path

import attrs
import httpx
import msgspec

from smg_core.commands.admin import bearer_of
from smg_core.commands.asked_server import server_url_of
from smg_core.settings import ConfigError, number_flag
from smg_simulator.bench.asking import BenchTarget, bench_run
from smg_simulator.bench.figures import BenchObjective, BenchOutcome, summary
from smg_simulator.bench.load import BenchRequest, made_requests, requests_of_trace
from smg_simulator.bench.report import bench_lines, bench_page
from smg_simulator.commands.asked_model import ModelNotNamed, model_to_ask
from smg_simulator.fleet.formats import read_trace

__all__ = ["bench_flags"]

_KEY = "SMG_API_KEY"
_MOST = 10_000_000
_COUNT, _NUMBER = number_flag(int, 1, _MOST), number_flag(int, 0, _MOST)
_SECONDS = number_flag(float, 0.0001, 86400)
_AT_ONCE = number_flag(int, 1, 20_000)
INTERRUPTED = 130
BUSY = 0.85
"""The share of a CPU from which on this program itself may be what is measured."""


def bench_flags(parser: argparse.ArgumentParser) -> None:
    """The flags of `smg-gateway bench`."""
    parser.set_defaults(run=_bench)
    parser.add_argument("url", metavar="URL", help="where the server listens, such as http://localhost:8000")
    parser.add_argument("--model", default="", help="the model to ask (default: the only one)")
    load = parser.add_argument_group("the load").add_mutually_exclusive_group()
    text = "closed loop: so many at once, each sends its next request when the last is answered (default: 8)"
    load.add_argument("--users", type=_AT_ONCE, help=text)
    text = "open loop: so many requests a second, whatever becomes of those before"
    load.add_argument("--rate", type=number_flag(float, 0.001, 100_000), help=text)
    load.add_argument("--trace", type=Path, help="times and lengths of a file of Mooncake, Azure or BurstGPT")
    for flag, kind, default, text in (
        ("--requests", _COUNT, 200, "how many requests"),
        ("--prompt-tokens", _COUNT, 512, "words of a prompt"),
        ("--output-tokens", _COUNT, 128, "most tokens of an answer"),
        ("--shared-tokens", _NUMBER, 0, "words that all prompts begin with"),
        ("--faster", number_flag(float, 0.001, 100_000), 1.0, "a trace in a time so many times shorter"),
        ("--most", _AT_ONCE, 2000, "requests under way at most, in an open loop"),
        ("--first-token", _SECONDS, 1.0, "objective: seconds to the first token"),
        ("--gap", _SECONDS, 0.05, "objective: seconds between two tokens, in the mean of an answer"),
        ("--timeout", _SECONDS, 300.0, "seconds without anything new after which an answer has failed"),
        ("--seed", number_flag(int, -_MOST, _MOST), 0, "of prompts and times"),
    ):
        parser.add_argument(flag, type=kind, default=default, help=f"{text} (default: %(default)s)")
    parser.add_argument("--field", action="append", default=[], metavar="NAME=JSON", help="a field of every request")
    parser.add_argument("--report", type=Path, help="write an HTML page with plots here")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")


def _bench(args: argparse.Namespace) -> int:
    headers = bearer_of(os.environ.get(_KEY, ""), _KEY)
    fields = dict(map(_field, args.field))
    args.url = server_url_of(args.url, "bench")
    if args.report is not None and not args.report.parent.is_dir():
        raise ConfigError(f"--report: there is no folder {args.report.parent}")
    requests, count, users = _load(args)
    interrupted = False
    try:
        model = args.model or model_to_ask(args.url, headers, _KEY)
        target = BenchTarget(args.url, model, headers, args.timeout, fields)
        progress, before, begun = _Progress(count), time.process_time(), time.perf_counter()
        try:
            outcomes, seconds = asyncio.run(
                bench_run(target, requests, users=users, most=args.most, come=progress.come)
            )
        except KeyboardInterrupt:
            outcomes, seconds, interrupted = progress.outcomes, time.perf_counter() - begun, True
        progress.end()
    except ModelNotNamed as error:
        print(f"smg-gateway: {error}", file=sys.stderr)
        return 1
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        print(f"smg-gateway: {args.url} cannot be asked: {error}", file=sys.stderr)
        return 1
    sentences = [f"{args.url}, {model}: {_described(args)}"]
    if interrupted:
        sentences.append(f"Interrupted: {len(outcomes)} of {count} requests had come to their end.")
    if (busy := (time.process_time() - before) / max(seconds, 1e-9)) > BUSY:
        sentences.append(
            f"This program itself was busy for {busy:.0%} of the time: spread the load over several of them."
        )
    status = _reported(args, model, sentences, outcomes, seconds, busy)
    return INTERRUPTED if interrupted else status


def _reported(
    args: argparse.Namespace,
    model: str,
    sentences: list[str],
    outcomes: list[BenchOutcome],
    seconds: float,
    busy: float,
) -> int:
    """Print the figures and write the report; the exit status says whether any request was answered."""
    objective = BenchObjective(args.first_token, args.gap)
    figures = summary(outcomes, seconds, objective)
    if args.report is not None:
        try:
            args.report.write_text(bench_page(f"Bench of {model}", sentences, outcomes, figures, objective))
        except OSError as error:
            print(f"smg-gateway: {args.report}: {error.strerror}", file=sys.stderr)
            return 1
    if args.json:
        print(
            msgspec.json.encode(
                {"load": sentences[0], "notes": sentences[1:], "client_cpu": busy, **attrs.asdict(figures)}
            ).decode()
        )
    else:
        print("\n".join([*sentences, *bench_lines(figures, objective)]))
    return 0 if figures.failed < figures.requests else 1


def _load(args: argparse.Namespace) -> tuple[Iterable[BenchRequest], int, int | None]:
    """The requests, how many they are, and the users of a closed loop. Raises ConfigError."""
    if args.trace is not None:
        try:
            with args.trace.open() as lines:
                trace = read_trace(args.trace.name, lines, args.requests).faster(args.faster)
        except (OSError, ValueError) as error:
            raise ConfigError(f"--trace: {args.trace}: {getattr(error, 'strerror', None) or error}") from None
        return requests_of_trace(trace, args.seed), len(trace.requests), None
    made = made_requests(
        args.requests,
        prompt_tokens=args.prompt_tokens,
        output_tokens=args.output_tokens,
        shared_tokens=args.shared_tokens,
        rate=args.rate,
        seed=args.seed,
    )
    return made, args.requests, None if args.rate else args.users or 8


def _described(args: argparse.Namespace) -> str:
    if args.trace is not None:
        return f"the trace {args.trace.name}, {args.faster:g} times as fast"
    lengths = (
        f"{args.prompt_tokens} words in ({args.shared_tokens} of them shared), at most {args.output_tokens} tokens out"
    )
    return f"{f'{args.rate:g} requests/s' if args.rate else f'{args.users or 8} users'}, {lengths}"


def _field(text: str) -> tuple[str, object]:
    name, _, value = text.partition("=")
    try:
        return name, json.loads(value)
    except ValueError:
        raise ConfigError(f"--field: {text[:60]}: expected NAME=JSON, such as temperature=0") from None


class _Progress:
    """Says on standard error how far it is: a line that changes on a terminal, elsewhere one at each fifth."""

    def __init__(self, of: int) -> None:
        self._of, self._terminal = of, sys.stderr.isatty()
        self._failed, self._reported = 0, 0
        self.outcomes: list[BenchOutcome] = []

    def come(self, outcome: BenchOutcome) -> None:
        self.outcomes.append(outcome)
        count = len(self.outcomes)
        self._failed += bool(outcome.error)
        percent = 100 * count // self._of
        text = f"{count} of {self._of} requests ({percent} %), {self._failed} failed"
        if self._terminal:
            print(f"\r{text}", end="", file=sys.stderr, flush=True)
        elif percent // 20 > self._reported:
            self._reported = percent // 20
            print(text, file=sys.stderr, flush=True)

    def end(self) -> None:
        if self._terminal:
            print(file=sys.stderr)
