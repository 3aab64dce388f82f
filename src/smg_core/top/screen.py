"""The picture of `smg-gateway top`, as objects of the package rich, imported with this module.

Decides how figures are written and which workers are shown where there are many: the busiest. Reads no clock. Above: `command`.
Below: `figures`.
"""

from collections.abc import Mapping, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from smg_core.json_types import Json
from smg_core.top.figures import GatewayFigures, ModelFigures, WorkerFigures

__all__ = ["top_frame"]


def top_frame(figures: GatewayFigures, health: Mapping[str, Json], most: int, note: str = "") -> RenderableType:
    """One frame: the gateway as `health` of the admin door says, its models and its workers, at most `most` of each. `note` is a
    line below, in red."""
    parts: list[RenderableType] = [_head(figures, health), "", _models(figures.models, most), ""]
    parts.append(_workers(figures.workers, most))
    if note:
        parts.append(Text(note, style="bold red"))
    return Group(*parts)


def _head(figures: GatewayFigures, health: Mapping[str, Json]) -> Text:
    processes, status = health.get("processes"), str(health.get("status", "its health is told at the admin door"))
    count = len(processes) if isinstance(processes, list) else 0
    head = Text.assemble(
        (f"smg-gateway {health.get('version', '')}  ", "bold"),
        (status, "green" if status == "ok" else "yellow"),
    )
    head.append(
        f"   processes {count}   in flight {figures.in_flight}   connections {figures.connections}   "
        f"loop lag {_seconds(figures.lag)}   over {figures.seconds:.1f} s"
    )
    return head


def _table(first: str, *rest: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    table.add_column(first, no_wrap=True, overflow="ellipsis")
    for name in rest:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def _models(models: Sequence[ModelFigures], most: int) -> Table:
    table = _table("MODEL", "REQ/S", "IN TOK/S", "OUT TOK/S", "TTFT P50", "TTFT P95", "ERRORS")
    ranked = sorted(models, key=lambda each: (-each.requests, each.name))
    for each in ranked[:most]:
        rates = (f"{each.requests:.1f}", f"{each.input_tokens:.0f}", f"{each.output_tokens:.0f}")
        table.add_row(Text(each.name), *rates, _seconds(each.median), _seconds(each.high), _share(each.errors))
    return _with_rest(table, len(models) - most)


def _workers(workers: Sequence[WorkerFigures], most: int) -> Table:
    table = _table("WORKER", "STATE", "IN FLIGHT", "WAITING", "CALLS/S", "TOK/S", "TTFT", "ERRORS")
    ranked = sorted(workers, key=lambda each: (each.ready, -each.in_flight, -each.calls, each.name))
    for each in ranked[:most]:
        state = Text("ready", "green") if each.ready else Text("not ready", "bold red")
        load = (str(each.in_flight), str(each.waiting), f"{each.calls:.1f}", f"{each.output_tokens:.0f}")
        table.add_row(Text(each.name), state, *load, _seconds(each.first_token), _share(each.errors))
    return _with_rest(table, len(workers) - most)


def _with_rest(table: Table, left: int) -> Table:
    """The table with a line for the rows that are not shown, if there are any."""
    if left > 0:
        table.add_row(Text(f"and {left} more", style="dim"))
    return table


def _seconds(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value * 1000:.0f} ms" if value < 1 else f"{value:.1f} s"


def _share(value: float) -> Text:
    return Text(f"{value:.1%}", style="bold red" if value else "")
