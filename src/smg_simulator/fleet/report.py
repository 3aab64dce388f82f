"""The report of several runs over one trace: an HTML page without scripts, and lines of text for a terminal.

Pure. Above: the command line. Below: figures, replay.
"""

from collections.abc import Callable, Mapping, Sequence
from html import escape
from math import isnan, log10

from smg_simulator.fleet.figures import Figures, figures
from smg_simulator.fleet.replay import FleetRun

__all__ = ["COLUMNS", "html_page", "table"]

COLUMNS: dict[str, Callable[[Figures], str]] = {
    "hits": lambda each: f"{each.hit:.1%}",
    "work max/mean": lambda each: f"{each.balance:.2f}",
    "first token mean": lambda each: f"{each.first_mean:.3f}",
    "p50": lambda each: f"{each.first_p50:.3f}",
    "p90": lambda each: f"{each.first_p90:.3f}",
    "p99": lambda each: f"{each.first_p99:.3f}",
    "whole mean": lambda each: f"{each.done_mean:.2f}",
    "whole p99": lambda each: f"{each.done_p99:.2f}",
    "goodput": lambda each: f"{each.goodput:.1%}",
    "retries": lambda each: str(each.retries),
    "refused": lambda each: str(each.refused),
}
"""What a report says of each run; times are in seconds."""

_COLOURS = ("#1b6ca8", "#d1495b", "#2a9d5c", "#8e5ea2", "#c98a1b", "#444444", "#17a2b8", "#7f4f24")
_WIDTH, _HEIGHT, _EDGE = 640, 240, 44
_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 75em; margin: 2em auto; padding: 0 1em }
table { border-collapse: collapse }
td, th { padding: .2em .6em; text-align: right; border-bottom: 1px solid #ddd }
figure { margin: 2em 0 }
svg { background: #fafafa }
"""
_SHORTEST = 1e-3
_CURVE = 200


def table(runs: Mapping[str, FleetRun]) -> list[str]:
    """The figures of the runs as lines of equal columns, each with the run's name in front."""
    rows = [["", *COLUMNS]] + [[name, *_cells(run)] for name, run in runs.items()]
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    return ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def html_page(title: str, sentences: Sequence[str], runs: Mapping[str, FleetRun]) -> str:
    """The whole page: `sentences` are sentences about trace and fleet."""
    head = "".join(f"<th>{escape(name)}</th>" for name in ("", *COLUMNS))
    rows = "".join(
        f"<tr><th style='color:{_colour(at)}'>{escape(name)}</th>"
        + "".join(f"<td>{cell}</td>" for cell in _cells(run))
        + "</tr>"
        for at, (name, run) in enumerate(runs.items())
    )
    parts = [
        f"<!doctype html><html lang='en'><meta charset='utf-8'><title>{escape(title)}</title>",
        f"<style>{_STYLE}</style>",
        f"<h1>{escape(title)}</h1>",
        *(f"<p>{escape(sentence)}</p>" for sentence in sentences),
        f"<table><tr>{head}</tr>{rows}</table>",
        _curves("Time to the first token: the share of requests that had it within so many seconds", runs),
        *(
            _bars(f"Work of each engine, in seconds: {name}", run.work, _colour(at))
            for at, (name, run) in enumerate(runs.items())
        ),
    ]
    return "\n".join(parts) + "\n</html>\n"


def _cells(run: FleetRun) -> list[str]:
    found = figures(run)
    return [say(found) for say in COLUMNS.values()]


def _colour(at: int) -> str:
    return _COLOURS[at % len(_COLOURS)]


def _curves(title: str, runs: Mapping[str, FleetRun]) -> str:
    """The distribution of waiting times of all runs, with time on a logarithmic axis."""
    waits = {name: sorted(max(_SHORTEST, each) for each in run.first if not isnan(each)) for name, run in runs.items()}
    longest = max((each[-1] for each in waits.values() if each), default=1.0)
    decades = max(1e-9, log10(max(longest, 10 * _SHORTEST) / _SHORTEST))

    def across(seconds: float) -> float:
        return _EDGE + (_WIDTH - 2 * _EDGE) * log10(seconds / _SHORTEST) / decades

    lines = []
    for at, ordered in enumerate(waits.values()):
        picked = [int(place * (len(ordered) - 1) / _CURVE) for place in range(_CURVE + 1)] if ordered else []
        points = " ".join(f"{across(ordered[i]):.1f},{_up((i + 1) / len(ordered)):.1f}" for i in picked)
        lines.append(f"<polyline fill='none' stroke='{_colour(at)}' stroke-width='1.5' points='{points}'/>")
    marks = [_SHORTEST * 10**power for power in range(int(decades) + 1)]
    lines += [_label(across(each), _HEIGHT - 12, f"{each:g} s") for each in marks]
    lines += [_label(_EDGE / 2, _up(share), f"{share:.0%}") for share in (0.0, 0.5, 0.9, 1.0)]
    return _figure(title, lines)


def _bars(title: str, values: Sequence[float], colour: str) -> str:
    most = max([*values, 1e-9])
    wide = (_WIDTH - 2 * _EDGE) / max(1, len(values))
    lines = [
        f"<rect x='{_EDGE + at * wide:.1f}' y='{_up(each / most):.1f}' width='{wide * 0.8:.1f}' "
        f"height='{_up(0.0) - _up(each / most):.1f}' fill='{colour}'/>"
        for at, each in enumerate(values)
    ]
    return _figure(title, [*lines, _label(_EDGE / 2, _up(1.0), f"{most:.0f}"), _label(_EDGE / 2, _up(0.0), "0")])


def _up(share: float) -> float:
    return _HEIGHT - _EDGE - (_HEIGHT - 2 * _EDGE) * share


def _label(x: float, y: float, text: str) -> str:
    return f"<text x='{x:.1f}' y='{y + 4:.1f}' font-size='11' text-anchor='middle'>{escape(text)}</text>"


def _figure(title: str, lines: Sequence[str]) -> str:
    box = f"viewBox='0 0 {_WIDTH} {_HEIGHT}' width='{_WIDTH}'"
    return f"<figure><figcaption>{escape(title)}</figcaption><svg {box}>{''.join(lines)}</svg></figure>"
