"""`smg-gateway conform`: whether a server's answers are what clients of its APIs rely on (edge).

Decides which flags the command has, and what its exit status says. Above: flags. Below: conform.
"""

import argparse
import sys

import httpx

from smg_core.commands.admin import bearer_of
from smg_core.commands.asked_server import server_url_of
from smg_core.settings import number_flag
from smg_simulator.commands.asked_model import ModelNotNamed, model_to_ask
from smg_simulator.conform.asking import look_at
from smg_simulator.conform.probes import APIS

__all__ = ["conform_flags"]

_TIMEOUT = number_flag(float, 0.001, 86400)


def conform_flags(parser: argparse.ArgumentParser) -> None:
    """The flags of `smg-gateway conform`."""
    parser.set_defaults(run=_conform)
    parser.add_argument("url", metavar="URL", help="where the server listens, such as http://localhost:8000")
    parser.add_argument("--model", default="", help="the model to ask (default: the only one)")
    text = "an API to look at, may be repeated (default: those that the server has)"
    parser.add_argument("--api", action="append", choices=APIS, default=[], help=text)
    parser.add_argument("--key", default="", help="API key, sent as a bearer token")
    parser.add_argument(
        "--timeout",
        type=_TIMEOUT,
        default=300,
        help="seconds that an answer may take (default: %(default)s)",
    )
    parser.add_argument("--json", action="store_true", help="print the report as JSON")


def _conform(args: argparse.Namespace) -> int:
    url, headers = server_url_of(args.url, "conform"), bearer_of(args.key, "--key")
    try:
        model = args.model or model_to_ask(url, headers, "--key")
        report = look_at(url, model, apis=args.api, key=args.key, timeout=args.timeout)
    except ModelNotNamed as error:
        print(f"smg-gateway: {error}", file=sys.stderr)
        return 1
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        print(f"smg-gateway: {args.url} cannot be asked: {error}", file=sys.stderr)
        return 1
    print(report.json() if args.json else report.text(), end="")
    return 1 if report.breaches or not report.findings else 0
