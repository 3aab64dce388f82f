"""`smg-gateway simulate-fleet`: policies compared over one trace, without engines (edge).

Decides which flags the command has, which trace is read or made, and where the report goes. Above: flags. Below:
fleet, smg_core.routing.
"""

import argparse
import random
import sys
from collections.abc import Sequence
from pathlib import Path

import attrs

from smg_core.routing import POLICIES, UnknownPolicy, policy
from smg_core.settings import ConfigError, number_flag
from smg_simulator.fleet.engine import EngineSpeed, FleetEngine
from smg_simulator.fleet.formats import read_trace
from smg_simulator.fleet.generated import GENERATORS, Load, generated
from smg_simulator.fleet.oracles import Greedy, hits_of_one_cache
from smg_simulator.fleet.pools import EVENTS, FleetSettings, Outage
from smg_simulator.fleet.replay import FleetRun, MakeChooser, replay
from smg_simulator.fleet.report import html_page, table
from smg_simulator.fleet.trace import FleetTrace
from smg_simulator.fleet.view import Chooser, PolicyChooser

__all__ = ["fleet_flags"]

_MOST = 1_000_000_000
_FACTOR, _COUNT, _NUMBER = number_flag(float, 1e-6, _MOST), number_flag(int, 1, _MOST), number_flag(int, 0, _MOST)
_SEED = number_flag(int, -_MOST, _MOST)
ORACLE = "greedy"
"""The name of the chooser that sees the engines' true state."""


def fleet_flags(parser: argparse.ArgumentParser) -> None:
    """The flags of `smg-gateway simulate-fleet`."""
    trace = parser.add_argument_group("the trace")
    kinds = ", ".join(GENERATORS)
    text = f"a file of Mooncake, Azure or BurstGPT, or one of: {kinds} (default: %(default)s)"
    trace.add_argument("--trace", default="chat", help=text)
    trace.add_argument("--requests", type=_COUNT, default=10_000, help="how many at most (default: %(default)s)")
    trace.add_argument(
        "--rate", type=_FACTOR, default=20.0, help="of a generated trace: requests a second (default: %(default)s)"
    )
    trace.add_argument(
        "--block", type=_COUNT, default=16, help="of a generated trace: tokens of a block (default: %(default)s)"
    )
    trace.add_argument("--scale", type=_FACTOR, default=1.0, help="of a generated trace: multiplies all lengths")
    trace.add_argument(
        "--faster", type=_FACTOR, default=1.0, help="of a recorded trace: in a time so many times shorter"
    )
    fleet = parser.add_argument_group("the fleet")
    fleet.add_argument("--engines", type=_COUNT, default=8, help="how many (default: %(default)s)")
    fleet.add_argument(
        "--prefill",
        type=number_flag(int, 0, _MOST),
        default=0,
        help="further engines that compute prompts for the others",
    )
    count, label = (
        number_flag(int, 0, _MOST),
        "tokens that its cache lacks, at most, which an engine reads itself all the same",
    )
    fleet.add_argument("--local-tokens", type=count, default=0, help=label)
    fleet.add_argument(
        "--factor",
        type=_FACTOR,
        action="append",
        help="how much faster an engine is, repeated over the fleet",
    )
    fleet.add_argument("--replicas", type=_COUNT, default=1, help="gateways that do not see each other's requests")
    fleet.add_argument("--events", choices=EVENTS, default="on_time", help="how KV events come (default: %(default)s)")
    fleet.add_argument(
        "--outage", type=_outage, action="append", default=[], metavar="ENGINE:FROM:UNTIL", help="in seconds"
    )
    _speed_flags(fleet)
    run = parser.add_argument_group("the run")
    names = ", ".join([*POLICIES, ORACLE])
    run.add_argument("--policy", action="append", default=[], help=f"may be repeated; installed ones, and {names}")
    run.add_argument("--seed", type=_SEED, default=0, help="of everything that is random (default: %(default)s)")
    run.add_argument("--report", type=Path, help="write an HTML page with charts here")
    parser.set_defaults(run=_run)


def _speed_flags(fleet: "argparse._ArgumentGroup") -> None:
    """Flags of how fast each engine is."""
    for field in attrs.fields(EngineSpeed):
        flag = f"--{field.name.replace('_', '-')}"
        fleet.add_argument(
            flag,
            type=number_flag(int if isinstance(field.default, int) else float, 0, _MOST),
            default=field.default,
            help="of each engine (default: %(default)s)",
        )


def _run(args: argparse.Namespace) -> int:
    try:
        speed = EngineSpeed(**{field.name: getattr(args, field.name) for field in attrs.fields(EngineSpeed)})
        settings = FleetSettings(
            engines=args.engines,
            prefill=args.prefill,
            local_tokens=args.local_tokens,
            speed=speed,
            factors=tuple(args.factor or [1.0]),
            replicas=args.replicas,
            events=args.events,
            outages=tuple(args.outage),
            seed=args.seed,
        )
        trace = _trace(args)
    except ValueError as error:
        raise ConfigError(f"simulate-fleet: {error}") from None
    names = list(dict.fromkeys(args.policy or ["round_robin", "cache_aware", ORACLE]))
    choosers = {name: _chooser(name) for name in names}  # a name that is wrong is told before anything runs
    runs = {name: _replayed(name, trace, settings, choosers[name]) for name in names}
    sentences = _sentences(trace, settings)
    print("\n".join([*sentences, "", *table(runs)]))
    if args.report is not None:
        return _write(args.report, html_page(f"Routing policies over {trace.name}", sentences, runs))
    return 0


def _replayed(name: str, trace: FleetTrace, settings: FleetSettings, chooser: MakeChooser) -> FleetRun:
    """A run, with how far it is on standard error: one line that changes on a terminal, elsewhere one at each fifth."""
    of, terminal = len(trace.requests), sys.stderr.isatty()
    reported_at = 0

    def come(count: int) -> None:
        nonlocal reported_at
        percent = 100 * count // of
        if terminal:
            print(f"\r{name}: {percent} % of {of:,} requests", end="", file=sys.stderr, flush=True)
        elif percent // 20 > reported_at:
            reported_at = percent // 20
            print(f"{name}: {percent} % of {of:,} requests", file=sys.stderr, flush=True)

    run = replay(trace, settings, chooser, come=come)
    if terminal:
        print(file=sys.stderr)
    return run


def _write(path: Path, text: str) -> int:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        print(f"smg-gateway: {path}: {error.strerror}", file=sys.stderr)
        return 1
    print(f"\nreport: {path}")
    return 0


def _trace(args: argparse.Namespace) -> FleetTrace:
    if args.trace in GENERATORS:
        return generated(args.trace, Load(args.requests, args.rate, args.block, args.scale, args.seed))
    path = Path(args.trace)
    try:
        with path.open(encoding="utf-8") as lines:
            trace = read_trace(path.name, lines, args.requests)
    except OSError as error:
        raise ConfigError(f"--trace: {path}: {error.strerror}; or one of {', '.join(GENERATORS)}") from None
    except ValueError as error:
        raise ConfigError(f"--trace: {path}: {error}") from None
    return trace if args.faster == 1.0 else trace.faster(args.faster)


def _chooser(name: str) -> MakeChooser:
    """What makes the choosers of a policy, or of the oracle, by name."""
    if name == ORACLE:
        return lambda engines, _: Greedy(engines)
    try:
        policy(name)
    except UnknownPolicy as error:
        raise ConfigError(f"--policy: {error}, {ORACLE}") from None

    def made(engines: Sequence[FleetEngine], rng: random.Random) -> Chooser:
        return PolicyChooser(engines, policy(name, rng=rng))

    return made


def _sentences(trace: FleetTrace, settings: FleetSettings) -> list[str]:
    """Trace and fleet in sentences, with the bounds that no policy can beat."""
    tokens = sum(each.prompt_tokens for each in trace.requests)
    shared = hits_of_one_cache(trace, None)
    kept = hits_of_one_cache(trace, settings.all_engines * settings.speed.cache_tokens)
    pools = f"{settings.engines} engines" + (
        f" and {settings.prefill} that compute prompts" if settings.prefill else ""
    )
    size = f"{len(trace.requests):,} requests in {trace.seconds:,.0f} s, {tokens:,} prompt tokens"
    events = f"KV events {settings.events.replace('_', ' ')}"
    bounds = f"{shared / tokens:.1%} of the prompt tokens were computed before; one cache of the fleet's memory"
    return [
        f"{trace.name}: {size}, blocks of {trace.block}.",
        f"{pools}, {settings.replicas} gateways, {events}, seed {settings.seed}.",
        f"{bounds} would keep {kept / tokens:.1%}.",
    ]


def _outage(text: str) -> Outage:
    """ENGINE:FROM:UNTIL."""
    try:
        engine, begin, end = text.split(":")
        return Outage(int(engine), float(begin), float(end))
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not ENGINE:FROM:UNTIL, a number and two times in seconds"
        ) from None
