"""HTML tables for notebooks, which the `_repr_html_` of public classes return. Pure. Above: those classes. Below: nothing."""

from collections.abc import Iterable, Sequence

__all__ = ["card"]

LONGEST_VALUE = 400  # characters; the rest of a value is not shown
MOST_ROWS = 50


def card(title: str, rows: Iterable[Sequence[object]], head: Sequence[str] = ()) -> str:
    """An HTML table with a caption, column names in `head`, and at most `MOST_ROWS` of `rows`. Long values are cut."""
    found = list(rows)
    lines = [f"<table><caption style='text-align:left'><b>{_escaped(title)}</b></caption>"]
    if head:
        lines.append("<tr>" + "".join(f"<th style='text-align:left'>{_escaped(name)}</th>" for name in head) + "</tr>")
    lines += ["<tr>" + "".join(_cell(value) for value in row) + "</tr>" for row in found[:MOST_ROWS]]
    if len(found) > MOST_ROWS:
        lines.append(f"<tr><td>{len(found) - MOST_ROWS} more</td></tr>")
    return "".join([*lines, "</table>"])


def _cell(value: object) -> str:
    text = str(value)
    cut = text if len(text) <= LONGEST_VALUE else f"{text[:LONGEST_VALUE]}… ({len(text):,} characters)"
    return f"<td style='text-align:left;white-space:pre-wrap'>{_escaped(cut)}</td>"


def _escaped(text: str) -> str:
    from html import escape  # which comes with the names of 2,000 characters; a server shows no card

    return escape(text)
