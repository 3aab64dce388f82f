"""The command `smg-gateway usage` (edge): who used how much and what it cost, as the admin door tells it.

Decides which rows are asked for and how they are written: a table, with a plot beside it where that is wanted, CSV or JSON lines.
Values that a terminal or a spreadsheet would act on are written so that they do not. Above: cli. Below: the client of the door.
"""

import argparse
import csv
import json
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import TextIO
from urllib.parse import urlencode

from smg_core.commands.admin import AdminClient, AdminRefused, admin_client, admin_flags
from smg_core.usage_report import USAGE_AXES

__all__ = ["usage_flags"]

_EVERY = ("hour", "day", "week", "month", "all")
_PAGE = 1000
_TABLE_AMOUNTS = (
    *("requests", "failed_requests", "prompt_tokens", "cached_tokens", "completion_tokens"),
    *("cost_usd", "unpriced_requests"),
)
"""The amounts of a table; CSV and JSON lines have all."""
_PLOTTED = (*_TABLE_AMOUNTS, "reasoning_tokens")
_BAR = 40
"""Characters of the longest bar of a plot."""
_FORMULA = ("=", "+", "-", "@", "\t", "\r")

Row = Mapping[str, object]


def usage_flags(parser: argparse.ArgumentParser) -> None:
    """The flags of `smg-gateway usage`."""
    parser.add_argument(
        "--from", dest="start", metavar="TIME", help="RFC 3339, a date, or seconds (default: 30 days ago)"
    )
    parser.add_argument("--to", dest="end", metavar="TIME", help="until when (default: now)")
    parser.add_argument("--every", choices=_EVERY, default="all", help="steps of time (default: %(default)s)")
    text = "apart by what, may be repeated (default: tenant and model; none: all together)"
    parser.add_argument("--by", action="append", choices=(*USAGE_AXES, "none"), metavar="AXIS", help=text)
    for axis in USAGE_AXES:
        parser.add_argument(f"--{axis}", help=f"of this {axis} alone")
    parser.add_argument("--plot", choices=_PLOTTED, metavar="AMOUNT", help=f"draw bars of one of {', '.join(_PLOTTED)}")
    written = parser.add_mutually_exclusive_group()
    for each, what in (("csv", "comma-separated values"), ("jsonl", "one JSON object a line")):
        written.add_argument(f"--{each}", dest="written", action="store_const", const=each, help=f"write {what}")
    admin_flags(parser)
    parser.set_defaults(run=_usage)


def _usage(args: argparse.Namespace) -> int:
    by = args.by or ["tenant", "model"]
    asked = {"every": args.every, "by": ",".join(each for each in by if each != "none")}
    asked |= {name: value for name, value in (("from", args.start), ("to", args.end)) if value is not None}
    asked |= {axis: getattr(args, axis) for axis in USAGE_AXES if getattr(args, axis) is not None}
    try:
        with admin_client(args) as admin:
            rows = _rows(admin, {name: value for name, value in asked.items() if value or name in USAGE_AXES})
            if args.written == "jsonl":
                for row in rows:
                    print(json.dumps(row))
            elif args.written == "csv":
                _write_csv(rows, sys.stdout)
            else:
                axes = [each for each in USAGE_AXES if each in by]
                _write_table(list(rows), ["start", *axes] if args.every != "all" else axes, args.plot)
    except AdminRefused as error:
        print(f"smg-gateway: {error}", file=sys.stderr)
        return 1
    return 0


def _rows(admin: AdminClient, asked: Mapping[str, str]) -> Iterator[Row]:
    """All rows, page by page."""
    after: int | None = 0
    while after is not None:
        answer = admin.ask("GET", f"/admin/usage?{urlencode({**asked, 'limit': _PAGE, 'after': after})}").json()
        yield from answer["data"]
        after = answer["next_after"]


def _write_csv(rows: Iterator[Row], out: TextIO) -> None:
    writer: csv.DictWriter[str] | None = None
    for row in rows:
        if writer is None:
            writer = csv.DictWriter(out, list(row), lineterminator="\n")
            writer.writeheader()
        writer.writerow({name: _plain(value) for name, value in row.items()})


def _plain(value: object) -> object:
    """A value that no spreadsheet takes for a formula."""
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value


def _write_table(
    rows: Sequence[Row], axes: Sequence[str], plotted: str | None, amounts: Sequence[str] = _TABLE_AMOUNTS
) -> None:
    columns = [*axes, *amounts]
    lines = [[_rendered(row.get(each, "")) for each in columns] for row in rows]
    widths = [max(map(len, (name, *(line[at] for line in lines)))) for at, name in enumerate(columns)]
    bars = [""] * len(rows)
    if plotted is not None:
        room = _room() - sum(widths) - 2 * len(widths)
        if room < len(plotted) and columns != [*axes, plotted]:  # the bars count: other amounts make room for them
            _write_table(rows, axes, plotted, (plotted,))
            return
        bars = _bars([Decimal(str(row[plotted])) for row in rows], max(1, min(_BAR, room)))
    _write_line(columns, widths, len(axes), "" if plotted is None else plotted)
    for line, bar in zip(lines, bars, strict=True):
        _write_line(line, widths, len(axes), bar)


def _write_line(cells: Sequence[str], widths: Sequence[int], left: int, bar: str) -> None:
    """Names stand on the left of their columns, amounts on the right."""
    parts = [
        cell.ljust(width) if at < left else cell.rjust(width)
        for at, (cell, width) in enumerate(zip(cells, widths, strict=True))
    ]
    print("  ".join([*parts, bar]).rstrip())


def _room() -> int:
    """The characters of a line: those of the terminal, or as many as there may be where it is none."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else sys.maxsize


def _bars(amounts: Sequence[Decimal], longest: int) -> list[str]:
    most = max(amounts, default=Decimal(0))
    return ["█" * int(each * longest / most) if most else "" for each in amounts]


def _rendered(value: object) -> str:
    """A cell; what a terminal would act on is written with escapes, and nothing as a dash."""
    text = str(value)
    return (text if text.isprintable() else ascii(text)) or "-"
