"""The command `smg-gateway top` (edge): asks the admin door, and shows what it says until it is interrupted.

Decides what is asked, how often, and what is said where there is no door, no permission or no metrics. Above: cli. Below:
`figures`, `screen`, admin_client.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from smg_core.commands.admin import AdminDoor, DoorRefused, door_flags, opened_door
from smg_core.json_types import Json
from smg_core.settings import number_flag
from smg_core.top.figures import MetricsReading, figures_between, read_metrics

if TYPE_CHECKING:
    from rich.console import RenderableType

__all__ = ["top_flags"]

WIDTH = 110  # columns, where the output is no terminal
LONGEST_INTERVAL = 3600.0
MOST_ROWS = 1_000_000


def top_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `top`."""
    door_flags(parser)
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
        with opened_door(args) as door:
            frames = _frames(door, args, time.monotonic, time.sleep)
            first = next(frames)
            if args.once or not sys.stdout.isatty():  # only a terminal can show one frame over another
                console.print(first)
                return 0
            with Live(first, console=console, screen=True, auto_refresh=False) as live:
                for frame in frames:
                    live.update(frame, refresh=True)
    except DoorRefused as error:
        print(f"smg-gateway: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        pass  # how one leaves it
    return 0


def _frames(
    door: AdminDoor, args: argparse.Namespace, now: Callable[[], float], sleep: Callable[[float], None]
) -> "Iterator[RenderableType]":
    """A frame each interval. The first raises DoorRefused where the door cannot be asked; later ones say so, and try again."""
    from smg_core.top.screen import top_frame

    before, shown, note = _read(door, now), None, ""
    while True:
        sleep(args.interval)
        try:
            health: Json = door.ask("GET", "/admin/health").json()
            latest = _read(door, now)
            shown = figures_between(before, latest), health if isinstance(health, dict) else {}
            before, note = latest, ""
        except DoorRefused as error:
            if shown is None:
                raise
            note = str(error)
        except json.JSONDecodeError:
            raise DoorRefused("the admin door says of the gateway what is no JSON") from None
        yield top_frame(*shown, args.rows, note)


def _read(door: AdminDoor, now: Callable[[], float]) -> MetricsReading:
    """The metrics as they are now. Raises DoorRefused."""
    try:
        answer = door.ask("GET", "/admin/metrics")
    except DoorRefused as error:
        if error.status == 404:
            raise DoorRefused("the admin door has no metrics: start the gateway with --metrics-admin", 404) from None
        raise
    try:
        reading = read_metrics(answer.text, now())
    except ValueError as error:
        raise DoorRefused(f"the admin door gives no metrics: {error}") from None
    if not reading.of("smg_discovery_models"):
        raise DoorRefused("the gateway's metrics have other names (metrics.names: smg), which top cannot read")
    return reading
