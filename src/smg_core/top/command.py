"""The command `smg-gateway top` (edge): asks the admin door, and shows what it says until it is interrupted.

Decides what is asked, how often, where the metrics are, and what is said where there is no door, no permission or no metrics.
Above: cli. Below: `figures`, `screen`, admin_client.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from smg_core.commands.admin import AdminClient, AdminRefused, admin_client, admin_flags
from smg_core.json_types import Json
from smg_core.settings import ConfigError, number_flag
from smg_core.top.figures import MetricsReading, figures_between, read_metrics

if TYPE_CHECKING:
    from rich.console import RenderableType

__all__ = ["top_flags"]

WIDTH = 110  # columns, where the output is no terminal
LONGEST_INTERVAL = 3600.0
MOST_ROWS = 1_000_000


def top_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `top`."""
    admin_flags(parser)
    text = "where the metrics are read, such as http://127.0.0.1:9090/metrics (default: where the admin door says they are)"
    parser.add_argument("--metrics", metavar="URL", help=text)
    parser.add_argument(
        "--once",
        action="store_true",
        help="print one frame as text and end, as is done where the output is no terminal",
    )
    text = "seconds between two frames, over which rates are taken (default: %(default)s)"
    parser.add_argument(
        "--interval", type=number_flag(float, 0.001, LONGEST_INTERVAL), default=2.0, metavar="SECONDS", help=text
    )
    text = "most models and most workers that are shown (default: %(default)s)"
    parser.add_argument("--rows", type=number_flag(int, 1, MOST_ROWS), default=30, help=text)
    parser.set_defaults(run=_top)


def _top(args: argparse.Namespace) -> int:
    """Show frames; the exit status. Raises ConfigError, and ModuleNotFoundError where rich is missing."""
    from rich.console import Console
    from rich.live import Live

    console = Console(width=None if sys.stdout.isatty() else WIDTH)
    try:
        with _opened(args) as (admin, metrics):
            frames = _frames(admin, metrics, args, time.monotonic, time.sleep)
            first = next(frames)
            if args.once or not sys.stdout.isatty():  # only a terminal can show one frame over another
                console.print(first)
                return 0
            with Live(first, console=console, screen=True, auto_refresh=False) as live:
                for frame in frames:
                    live.update(frame, refresh=True)
    except AdminRefused as error:
        print(f"smg-gateway: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        pass  # how one leaves it
    return 0


@contextmanager
def _opened(args: argparse.Namespace) -> "Iterator[tuple[AdminClient | None, _Metrics]]":
    """A context with the admin door, where there is one, and with where the metrics are. Raises ConfigError and AdminRefused."""
    if not args.admin and not args.metrics:
        raise ConfigError(
            "where is the admin door? Give --admin URL or SMG_ADMIN; or --metrics URL, where the metrics are"
        )
    with ExitStack() as stack:
        admin = stack.enter_context(admin_client(args)) if args.admin else None
        yield admin, _Metrics(admin, args.metrics, args.timeout)


class _Metrics:
    """Where the metrics are read: at the `url` that was given, else at the admin door, else at the port that the door's settings
    name, on the machine that this runs on or on the one that the settings name."""

    def __init__(self, admin: AdminClient | None, url: str | None, timeout: float) -> None:
        self._admin, self._url, self._timeout = admin, url, timeout

    def text(self) -> str:
        """The metrics as they are now. Raises AdminRefused."""
        if self._url is None and self._admin is not None:
            try:
                return self._admin.ask("GET", "/admin/metrics").text
            except AdminRefused as error:
                if error.status != 404:
                    raise
                self._url = self._elsewhere(self._admin)
        return self._fetched(self._url or "")

    @staticmethod
    def _elsewhere(admin: AdminClient) -> str:
        """The URL of the metrics' own port, by the settings of the gateway. Raises AdminRefused where it has none. A gateway
        that is made in Python with another path is asked by --metrics."""
        values = {each["path"]: each["value"] for each in admin.ask("GET", "/admin/config").json()["settings"]}
        port, host = values.get("metrics.port"), values.get("metrics.host")
        if not port:
            raise AdminRefused(
                "the gateway has no metrics that can be found: start it with --metrics-admin, or with --metrics-port",
                404,
            )
        return f"http://{'127.0.0.1' if host in ('0.0.0.0', '::') else host}:{port}/metrics"  # noqa: S104  # read, not bound

    def _fetched(self, url: str) -> str:
        import httpx

        try:
            answer = httpx.get(url, timeout=self._timeout, trust_env=False)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise AdminRefused(f"the metrics at {url} cannot be read: {error}") from None
        if answer.status_code != httpx.codes.OK:
            raise AdminRefused(f"the metrics at {url} cannot be read: {answer.status_code}", answer.status_code)
        return answer.text


def _frames(
    admin: AdminClient | None,
    metrics: _Metrics,
    args: argparse.Namespace,
    now: Callable[[], float],
    sleep: Callable[[float], None],
) -> "Iterator[RenderableType]":
    """A frame each interval. The first raises AdminRefused where the door cannot be asked; later ones say so, and try again."""
    from smg_core.top.screen import top_frame

    before, figures, note = _read(metrics, now), None, ""
    while True:
        sleep(args.interval)
        try:
            health: Json = admin.ask("GET", "/admin/health").json() if admin is not None else {}
            latest = _read(metrics, now)
            figures = figures_between(before, latest), health if isinstance(health, dict) else {}
            before, note = latest, ""
        except AdminRefused as error:
            if figures is None:
                raise
            note = str(error)
        except json.JSONDecodeError:
            raise AdminRefused("the admin door says of the gateway what is no JSON") from None
        yield top_frame(*figures, args.rows, note)


def _read(metrics: _Metrics, now: Callable[[], float]) -> MetricsReading:
    """The metrics as they are now. Raises AdminRefused."""
    text = metrics.text()
    try:
        reading = read_metrics(text, now())
    except ValueError as error:
        raise AdminRefused(f"there are no metrics of a gateway: {error}") from None
    if not reading.of("smg_discovery_models"):
        raise AdminRefused("the gateway's metrics have other names (metrics.names: smg), which top cannot read")
    return reading
