"""`smg-gateway simulate` and `faults`: an engine without a model, and what goes wrong with it (edge).

Decides which flags these commands have. What they do is imported when one is run. Above: flags. Below: server, engine.
"""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from smg_core.settings import ConfigError, nearest, number_flag, port_of

if TYPE_CHECKING:
    from smg_simulator.answers.faults import FaultKind

__all__ = ["faults_flags", "simulate_flags"]

_MOST = 1_000_000_000_000
_POOLED = ("embed", "classify", "score")
_POOLED_FIELDS = ("pooled", "labels", "alternatives")
_KV_ROLES = ("kv_producer", "kv_consumer", "kv_both")
_DIALECTS = ("vllm", "sglang", "trtllm", "tokenspeed", "mlx", "neutral")

SIMULATED_TIMING: dict[str, tuple[type, str]] = {
    "prefill_rate": (float, "prompt tokens a second, all requests together (default: at once)"),
    "decode_rate": (float, "output tokens a second of one request (default: at once)"),
    "batch": (int, "requests that run at once; more wait"),
    "queue": (int, "requests that may wait; more are refused"),
    "slowdown": (float, "share by which each further running request makes a step longer"),
    "overhead": (float, "seconds before any prefill"),
}
SIMULATED_ENGINE: dict[str, tuple[type, str]] = {
    "model": (str, "name of the model"),
    "model_folder": (str, "folder of the tokenizer (default: the shipped one)"),
    "context_length": (int, "tokens of prompt and output together"),
    "seed": (int, "another seed says other things"),
    "reply_tokens": (int, "least tokens of a reply"),
    "chained": (int, "each token follows from all before it, and one in so many ends the reply"),
    "blocks": (int, "blocks of the prefix cache"),
    "block_size": (int, "tokens of a block"),
}


def simulate_flags(parser: argparse.ArgumentParser) -> None:
    """The flags of `smg-gateway simulate`."""
    parser.set_defaults(run=_simulate)
    parser.add_argument(
        "--listen",
        default="127.0.0.1:50051",
        metavar="HOST:PORT",
        help="where the engine listens, or unix:///PATH (default: %(default)s)",
    )
    parser.add_argument(
        "--listen-http",
        metavar="HOST:PORT",
        help="where it answers as the HTTP servers of vLLM, SGLang and llama.cpp do too (default: nowhere)",
    )
    for name, (kind, text) in {**SIMULATED_ENGINE, **SIMULATED_TIMING}.items():
        flag = "--" + name.replace("_", "-")
        parser.add_argument(
            flag,
            dest=name,
            type=_flag_type(name, kind),
            default=argparse.SUPPRESS,
            metavar=kind.__name__.upper(),
            help=text,
        )
    parser.add_argument(
        "--pooled",
        choices=_POOLED,
        default=argparse.SUPPRESS,
        help="be a model that makes vectors, scores pairs or classifies, instead of text",
    )
    parser.add_argument(
        "--labels",
        type=_names,
        default=argparse.SUPPRESS,
        metavar="NAME,NAME",
        help="classes of a model that classifies",
    )
    parser.add_argument(
        "--alternatives",
        type=_token_ids,
        default=argparse.SUPPRESS,
        metavar="ID,ID",
        help="token ids that are among the likeliest at every position, so that texts can be scored by them",
    )
    _handing_over_flags(parser)
    parser.add_argument(
        "--script", type=Path, metavar="FILE", help="replies, calls, pauses and faults: TOML, YAML or JSON"
    )
    parser.add_argument(
        "--fault",
        type=_fault,
        action="append",
        default=[],
        metavar="KIND=SHARE",
        help="let that share of requests go wrong: refuse, stall, drip, cut, error, silence, garbage, restart or gap",
    )


def _handing_over_flags(parser: argparse.ArgumentParser) -> None:
    """Flags of an engine that does one part of a request, or speaks one dialect."""
    text = "hand caches of prompts over, as this connector does (NixlConnector, MooncakeConnector), in --kv-role"
    parser.add_argument("--kv-connector", default=argparse.SUPPRESS, metavar="NAME", help=text)
    parser.add_argument(
        "--kv-role", choices=_KV_ROLES, default=argparse.SUPPRESS, help="what of a request is done here"
    )
    text = "the one dialect to speak (default: all)"
    parser.add_argument("--dialect", dest="dialects", choices=_DIALECTS, default=argparse.SUPPRESS, help=text)


def faults_flags(parser: argparse.ArgumentParser) -> None:
    """The flags of `smg-gateway faults`."""
    parser.set_defaults(run=_faults)
    parser.add_argument("engine", metavar="grpc://HOST:PORT", help="an engine that `smg-gateway simulate` has started")
    text = "let that share of requests go wrong from now on, instead of the shares that are set"
    parser.add_argument("--fault", type=_fault, action="append", default=[], metavar="KIND=SHARE", help=text)
    text = (
        "let the next request go wrong; given again, the one after it; the shares are set anew, to none without --fault"
    )
    parser.add_argument("--next", type=_fault_kind, action="append", default=[], metavar="KIND", help=text)
    text = "forget the faults that wait for next requests, and the shares unless --fault sets some"
    parser.add_argument("--clear", action="store_true", help=text)


def _fault_kind(text: str) -> str:
    from smg_simulator.answers.faults import KINDS

    if text not in KINDS:
        raise argparse.ArgumentTypeError(
            f"{text} is no fault{nearest(text, KINDS) or '; there are ' + ', '.join(KINDS)}"
        )
    return text


def _fault(text: str) -> tuple[str, float]:
    kind, _, share = text.partition("=")
    _fault_kind(kind)
    try:
        return kind, number_flag(float, 0, 1)(share)
    except argparse.ArgumentTypeError:
        raise argparse.ArgumentTypeError(
            f"{share[:60]!r} is no share of requests, which is from 0 to 1, such as 0.05"
        ) from None


def _names(text: str) -> tuple[str, ...]:
    names = tuple(each.strip() for each in text.split(","))
    if not all(names) or len(set(names)) != len(names):
        raise argparse.ArgumentTypeError(
            f"{text[:60]!r} are no names, of which each is there once, with commas between"
        )
    return names


def _token_ids(text: str) -> tuple[int, ...]:
    number = number_flag(int, 0, _MOST)
    return tuple(int(number(each)) for each in text.split(","))


def _flag_type(name: str, kind: type) -> Callable[[str], Any]:
    """The type of a flag of the engine: a text, or a number that is finite and no smaller than it can be."""
    if kind is str:
        return str
    return number_flag(kind, -_MOST if name == "seed" else 0, _MOST)


def _simulate(args: argparse.Namespace) -> int:
    import asyncio

    import attrs

    from smg_simulator.answers.faults import Fault
    from smg_simulator.commands.simulate_script import read_script
    from smg_simulator.engine.clockwork import Timing
    from smg_simulator.engine.engine import SimulatorConfig
    from smg_simulator.server.grpc_server import SimulatedEngine
    from smg_simulator.server.running import run_simulator

    given = vars(args)
    try:
        timing = Timing(**{name: given[name] for name in SIMULATED_TIMING if name in given})
        rates = tuple((Fault(cast("FaultKind", kind)), share) for kind, share in args.fault)
        own = {name: given[name] for name in SIMULATED_ENGINE if name in given}
        own |= {name: given[name] for name in (*_POOLED_FIELDS, "kv_connector", "kv_role") if name in given}
        if "dialects" in given:
            own["dialects"] = (given["dialects"],)
        if own.get("pooled", "embed") != "embed":
            own["dialects"] = ("neutral",)  # vLLM's has no such calls, and a gateway would choose it
        config = SimulatorConfig(timing=timing, fault_rates=rates, generation_model="pooled" not in own, **own)
    except ValueError as error:
        raise ConfigError(f"simulate: {error}") from None
    if args.script is not None:
        script = read_script(args.script)
        config = attrs.evolve(config, replies=script.replies, rules=script.rules, repeat=script.repeat)
    if not args.listen.startswith("unix:"):
        port_of(args.listen, "--listen", "HOST:PORT or unix:///PATH")
    if args.listen_http is not None:
        port_of(args.listen_http, "--listen-http")
    if "model_folder" in own and not Path(own["model_folder"]).expanduser().is_dir():
        raise ConfigError(f"--model-folder: there is no folder {own['model_folder']}")

    from smg_core.engines.kinds.http import HTTP_KINDS

    def tell(engine: SimulatedEngine) -> None:
        if engine.http_target:
            dialects = ", ".join(each.name for each in HTTP_KINDS if each.codec is not None)
            print(f"over HTTP at {engine.http_target}, with the dialects {dialects}", flush=True)
        print(f"listening on {engine.target}; a gateway for it: smg-gateway serve --worker {engine.target}", flush=True)

    try:
        asyncio.run(run_simulator(config, args.listen, ready=tell, listen_http=args.listen_http))
    except OSError as error:
        print(f"smg-gateway: {error.strerror or error}", file=sys.stderr)
        return 1
    return 0


def _faults(args: argparse.Namespace) -> int:
    from smg_simulator.answers.faults import Fault
    from smg_simulator.server.remote import set_faults

    script = [Fault(cast("FaultKind", kind)) for kind in args.next]
    rates = {Fault(cast("FaultKind", kind)): share for kind, share in args.fault}
    try:
        plan = set_faults(args.engine, script, rates, clear=args.clear)
    except (ValueError, ConnectionError) as error:
        raise ConfigError(f"faults: {error}") from None
    listed_rates = ", ".join(f"{rate.fault.kind}={rate.share:g}" for rate in plan.rates) or "none"
    print(f"shares: {listed_rates}; {plan.waiting} waiting; {plan.met} met so far")
    return 0
