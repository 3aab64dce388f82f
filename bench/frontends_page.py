"""The tables and the chart of `frontends.py`, from the runs that it recorded.

Decides what is told of them. Figures are medians over the rounds, with the least and the most; a ratio is the median over the
rounds of the ratio to the first front end within a round. bench/frontends.json holds what the page is made from, so that a test
can compare them.
"""

import json
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from textwrap import fill
from typing import Any
from xml.sax.saxutils import escape

__all__ = ["CHART", "FIGURES", "PAGE", "chart", "section", "summary", "tables", "write"]

HERE = Path(__file__).parent
PAGE, FIGURES, CHART = HERE / "README.md", HERE / "frontends.json", HERE / "frontends.svg"
BEGIN, END = "<!-- frontends: begin -->", "<!-- frontends: end -->"
QUIET = 0.1
"""Up to this share of the machine that others use it counts as quiet."""
BASE = "vLLM"
MEASURES = {
    "cost": ("CPU of all but the engine core, ms a request", 2),
    "gateway": ("of it the gateway's own", 2),
    "pieces": ("pieces that an answer of {tokens} tokens came in", 1),
    "tokens_per_second": ("output tokens/s", 0),
    "first": ("time to the first token, ms (median of the clients)", 1),
    "between": ("time between two tokens, ms (median of the clients)", 2),
}
"""What is told of each front end and load: its words and the digits behind the point."""


def summary(settings: Mapping[str, Any], runs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What the page is made from: of each load and front end [median, least, most] of each measure, and the ratio of its cost."""
    rows: dict[str, dict[str, Any]] = {}
    for run in runs:
        rows.setdefault(json.dumps(run["cell"]), {}).setdefault(run["name"], []).append(run)
    return {
        **settings,
        "others": [min(run["others"] for run in runs), max(run["others"] for run in runs)],
        "load": [min(run["load"] for run in runs), max(run["load"] for run in runs)],
        "rows": [
            {**json.loads(cell), "front_ends": {name: _row(mine, named.get(BASE, [])) for name, mine in named.items()}}
            for cell, named in rows.items()
        ],
    }


def _row(mine: Sequence[Mapping[str, Any]], base: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    good = [run for run in mine if run["requests"]]
    costs = {run["round"]: _cost(run) for run in good}
    against = {run["round"]: _cost(run) for run in base if run["requests"]}
    ratios = [costs[number] / against[number] for number in costs if against.get(number)]
    row: dict[str, Any] = {"rounds": len(good), "failed": sum(len(run["failed"]) for run in mine)}
    if good:
        values = {name: [_value(name, run) for run in good] for name in MEASURES}
        row |= {name: _spread(each, MEASURES[name][1]) for name, each in values.items()}
        row["core"] = round(statistics.median(run["cpu"]["core"] / run["requests"] * 1000 for run in good), 2)
        row["prompt"] = statistics.median(run["prompt"] for run in good)
        row["ratio"] = round(statistics.median(ratios), 2) if ratios else None
    return row


def _cost(run: Mapping[str, Any]) -> float:
    return float((run["cpu"]["gateway"] + run["cpu"]["engine_front"]) / run["requests"] * 1000)


def _value(name: str, run: Mapping[str, Any]) -> float:
    if name == "cost":
        return _cost(run)
    return float(run["cpu"]["gateway"] / run["requests"] * 1000 if name == "gateway" else run[name])


def _spread(values: Sequence[float], digits: int) -> list[float]:
    return [round(each, digits) for each in (statistics.median(values), min(values), max(values))]


# ---------------------------------------------------------------------------------------------------------------------- tables


def tables(measured: Mapping[str, Any]) -> str:
    """One table for each measure: a row for each load, a column for each front end."""
    names = list(dict.fromkeys(name for row in measured["rows"] for name in row["front_ends"]))
    parts = []
    for measure, (words, digits) in MEASURES.items():
        words = words.format(tokens=measured["tokens"])
        lines = [f"**{words[0].upper()}{words[1:]}**", ""]
        lines += ["| prompt | at once | " + " | ".join(names) + " |", "|---" * (len(names) + 2) + "|"]
        for row in measured["rows"]:
            told = [_told(row["front_ends"].get(name), measure, digits) for name in names]
            lines.append(f"| {_prompt(row)} | {row['at_once']} | " + " | ".join(told) + " |")
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def _prompt(row: Mapping[str, Any]) -> str:
    return f"{row['prompt']:,}" + (" (mock)" if row["engine"] == "mock" else "")


def _told(figures: Mapping[str, Any] | None, measure: str, digits: int) -> str:
    if not figures or measure not in figures:
        return "" if not figures else "failed"
    middle, least, most = figures[measure]
    ratio = f" x{figures['ratio']:.2f}" if measure == "cost" and figures["ratio"] is not None else ""
    spread = f" ({least:.{digits}f} to {most:.{digits}f})" if figures["rounds"] > 1 else ""
    return f"{middle:.{digits}f}{spread}{ratio}"


def section(measured: Mapping[str, Any]) -> str:
    """What stands between the marks of the page."""
    rounds = [each["rounds"] for row in measured["rows"] for each in row["front_ends"].values()]
    failed = sum(each["failed"] for row in measured["rows"] for each in row["front_ends"].values())
    versions = ", ".join(f"{name} {version}" for name, version in measured["versions"].items())
    least, most = (f"{share:.0%}" for share in measured["others"])
    quiet = measured["others"][1] <= QUIET
    noise = "quiet" if quiet else "**not quiet**"
    low, high = measured["load"]
    words = (
        f"{measured['machine']}; {versions}. Answers of {measured['tokens']} tokens, {min(rounds)} to {max(rounds)} rounds, "
        f"{failed} streams failed. The machine was {noise}: other programs took {least} to {most} of all cores during a run, and "
        f"the load average at its start was {low} to {high}"
        + (
            "."
            if quiet
            else "; so times and throughput were measured beside other work, and CPU is what can be compared."
        )
    )
    return f"{BEGIN}\n{fill(words, 128)}\n\n![The same figures as a chart](frontends.svg)\n\n{tables(measured)}\n{END}"


def write(measured: Mapping[str, Any]) -> None:
    """Write the figures, the chart, and the section of the page anew."""
    FIGURES.write_text(json.dumps(measured, indent=1) + "\n")
    CHART.write_text(chart(measured))
    before, _, rest = PAGE.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    PAGE.write_text(before + section(measured) + after)


# ----------------------------------------------------------------------------------------------------------------------- chart

COLOURS = ("#4c566a", "#d1495b", "#e8a33d", "#2e86ab", "#6a994e", "#8e5ea2")
WIDTH, HEIGHT, LEFT, TOP, GAP = 270, 170, 70, 96, 62
PANELS = {
    "cost": "CPU but the engine core, ms/request",
    "tokens_per_second": "output tokens/s",
    "first": "first token, ms",
}
"""The rows of panels; each has one for each size of prompt."""


def chart(measured: Mapping[str, Any]) -> str:
    """The measures over the number of streams, a panel for each size of prompt of the real engine, as SVG."""
    rows = [row for row in measured["rows"] if row["engine"] == "vllm"]
    prompts = sorted({row["prompt"] for row in rows})
    names = list(dict.fromkeys(name for row in rows for name in row["front_ends"]))
    drawn = [_words(LEFT, 24, f"One vLLM (CPU, tiny model) behind {len(names)} front ends", size=15)]
    drawn.append(
        _words(LEFT, 42, f"{measured['machine']}; other programs took up to {measured['others'][1]:.0%} of the cores")
    )
    drawn += _legend(names)
    for down, measure in enumerate(PANELS):
        for across, prompt in enumerate(prompts):
            mine = sorted((row for row in rows if row["prompt"] == prompt), key=lambda row: row["at_once"])
            at = (LEFT + across * (WIDTH + GAP), TOP + down * (HEIGHT + GAP))
            drawn += _panel(at, f"{PANELS[measure]}; prompts of {prompt}", mine, names, measure)
    wide, high = LEFT + len(prompts) * (WIDTH + GAP), TOP + len(PANELS) * (HEIGHT + GAP)
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide}" height="{high}" viewBox="0 0 {wide} {high}" '
    style = 'font-family="sans-serif" font-size="11" fill="#222">\n<rect width="100%" height="100%" fill="#fff"/>\n'
    return head + style + "\n".join(drawn) + "\n</svg>\n"


def _words(x: float, y: float, text: str, *, size: int = 11, anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}">{escape(text)}</text>'


def _legend(names: Sequence[str]) -> list[str]:
    drawn = []
    for order, name in enumerate(names):
        x = LEFT + order * 150
        drawn.append(f'<rect x="{x}" y="58" width="14" height="8" fill="{COLOURS[order % len(COLOURS)]}"/>')
        drawn.append(_words(x + 20, 66, name))
    return drawn


def _panel(
    at: tuple[float, float], title: str, rows: Sequence[Mapping[str, Any]], names: Sequence[str], measure: str
) -> list[str]:
    """One panel: a line for each front end, with the least and the most of the rounds as a bar at each point."""
    x, y = at
    every = [figures[measure] for row in rows for figures in row["front_ends"].values() if measure in figures]
    top = _round_up(max((most for _, _, most in every), default=1.0))
    drawn = [
        f'<rect x="{x}" y="{y}" width="{WIDTH}" height="{HEIGHT}" fill="none" stroke="#bbb"/>',
        _words(x, y - 6, title),
    ]
    for share in (0, 0.25, 0.5, 0.75, 1):
        line = y + HEIGHT * (1 - share)
        drawn.append(f'<line x1="{x}" x2="{x + WIDTH}" y1="{line:.1f}" y2="{line:.1f}" stroke="#e5e5e5"/>')
        drawn.append(_words(x - 5, line + 4, f"{top * share:g}", anchor="end"))
    step = WIDTH / max(1, len(rows))
    for order, row in enumerate(rows):
        drawn.append(_words(x + step * (order + 0.5), y + HEIGHT + 15, f"{row['at_once']} at once", anchor="middle"))
    for number, name in enumerate(names):
        shift = (number - (len(names) - 1) / 2) * 5  # so that bars stand beside each other
        points = [
            (
                x + step * (order + 0.5) + shift,
                *(y + HEIGHT * (1 - value / top) for value in row["front_ends"][name][measure]),
            )
            for order, row in enumerate(rows)
            if measure in row["front_ends"].get(name, {})
        ]
        drawn += _line(points, COLOURS[number % len(COLOURS)])
    return drawn


def _line(points: Iterable[tuple[float, ...]], colour: str) -> list[str]:
    points = list(points)
    path = " ".join(f"{x:.1f},{middle:.1f}" for x, middle, _, _ in points)
    drawn = [f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.5"/>']
    for x, middle, least, most in points:
        drawn.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{least:.1f}" y2="{most:.1f}" stroke="{colour}"/>')
        drawn.append(f'<circle cx="{x:.1f}" cy="{middle:.1f}" r="2.5" fill="{colour}"/>')
    return drawn


def _round_up(value: float) -> float:
    """The next of 1, 2, 4, 6, 8 and 10 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(value)) if value > 0 else 1.0
    return next(step * power for step in (1, 2, 4, 6, 8, 10) if value <= step * power)
