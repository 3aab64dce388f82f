"""How an object shows itself in a notebook: a small table of HTML. Pure; knows no object of ours."""

from collections.abc import Iterable, Sequence
from html import escape

__all__ = ["card"]

SHOWN = 400  # characters of a value that a card shows
ROWS = 50


def card(title: str, rows: Iterable[Sequence[object]], head: Sequence[str] = ()) -> str:
    """A table with a caption, `head` above its columns, and a row for each of the first `ROWS` of `rows`; long values are cut."""
    found = list(rows)
    lines = [f"<table><caption style='text-align:left'><b>{escape(title)}</b></caption>"]
    if head:
        lines.append("<tr>" + "".join(f"<th style='text-align:left'>{escape(name)}</th>" for name in head) + "</tr>")
    lines += ["<tr>" + "".join(_cell(value) for value in row) + "</tr>" for row in found[:ROWS]]
    if len(found) > ROWS:
        lines.append(f"<tr><td>{len(found) - ROWS} more</td></tr>")
    return "".join([*lines, "</table>"])


def _cell(value: object) -> str:
    text = str(value)
    shown = text if len(text) <= SHOWN else f"{text[:SHOWN]}… ({len(text):,} characters)"
    return f"<td style='text-align:left;white-space:pre-wrap'>{escape(shown)}</td>"
