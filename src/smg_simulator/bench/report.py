"""The figures of a bench: lines for a terminal, and one HTML page with plots, without scripts and without anything from outside.

Pure. Above: the command. Below: figures.
"""

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from math import isnan, log10

from smg_simulator.bench.figures import BenchFigures, BenchObjective, BenchOutcome, BenchSummary

__all__ = ["bench_lines", "bench_page"]

_WIDTH, _HEIGHT, _EDGE = 720, 260, 52
_SHORTEST, _CURVE, _MOST_DOTS, _MOST_ERRORS = 1e-4, 200, 4000, 10
_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60em; margin: 2em auto; padding: 0 1em; color: #222; background: #fff }
table { border-collapse: collapse } td, th { padding: .2em .8em; text-align: right; border-bottom: 1px solid #ddd }
th:first-child { text-align: left } figure { margin: 2em 0 } svg { background: #fafafa; max-width: 100%; height: auto }
@media (prefers-color-scheme: dark) { body { color: #ddd; background: #181a1b } svg { background: #222 } text { fill: #ccc } }
"""
_BLUE, _RED = "#1b6ca8", "#d1495b"


def bench_lines(figures: BenchFigures, objective: BenchObjective) -> list[str]:
    """What a terminal is told."""
    cached = f"{figures.cached_share:.1%} of {figures.prompt_tokens} prompt tokens cached"
    rates = f"{figures.rate:.2f} answers/s, {figures.output_rate:.1f} output tokens/s"
    wanted = f"first token within {objective.first:g} s, then one every {objective.gap:g} s"
    lines = [
        f"{figures.requests} requests in {figures.seconds:.1f} s, {figures.failed} failed: {rates}; {cached}",
        f"goodput {figures.goodput:.1%}, {figures.good_rate:.2f} good answers/s ({wanted})",
        f"{'seconds':<14}{'p50':>10}{'p90':>10}{'p99':>10}",
    ]
    lines += [
        f"{name:<14}" + "".join(f"{value:>10}" for value in each.columns()) for name, each in _rows(figures).items()
    ]
    return lines + list(_errors(figures))


def _errors(figures: BenchFigures) -> Iterator[str]:
    """The errors that came most often, a line each."""
    for error, count in figures.errors[:_MOST_ERRORS]:
        yield f"{count} x {error}"
    if rest := figures.errors[_MOST_ERRORS:]:
        yield f"{sum(count for _, count in rest)} x others, of {len(rest)} kinds"


def _rows(figures: BenchFigures) -> Mapping[str, BenchSummary]:
    return {"first token": figures.first, "gap": figures.gap, "token, mean": figures.token, "whole": figures.whole}


def bench_page(
    title: str,
    sentences: Sequence[str],
    outcomes: Sequence[BenchOutcome],
    figures: BenchFigures,
    objective: BenchObjective,
) -> str:
    """The whole page: `sentences` are sentences about the load."""
    good = [each for each in outcomes if not each.error]
    rows = "".join(
        f"<tr><th>{escape(name)}</th>" + "".join(f"<td>{value}</td>" for value in each.columns())
        for name, each in _rows(figures).items()
    )
    parts = [
        f"<!doctype html><html lang='en'><meta charset='utf-8'><title>{escape(title)}</title><style>{_STYLE}</style>",
        f"<h1>{escape(title)}</h1>",
        *(f"<p>{escape(sentence)}</p>" for sentence in (*sentences, *bench_lines(figures, objective)[:2])),
        f"<table><tr><th>seconds</th><th>p50</th><th>p90</th><th>p99</th></tr>{rows}</table>",
        _shares("First token: the share of answers that had it within so many seconds", [each.first for each in good]),
        _shares("Gaps: the share of them that were at most so long", [gap for each in good for gap in each.gaps]),
        _dots("First token of each answer, by when it was due", [(each.due, each.first) for each in good]),
        _steps("Requests under way", outcomes),
        *(f"<p>{escape(line)}</p>" for line in _errors(figures)),
    ]
    return "\n".join(parts) + "\n</html>\n"


def _shares(title: str, values: Sequence[float]) -> str:
    """The distribution of times, with time on a logarithmic axis."""
    ordered = sorted(max(_SHORTEST, each) for each in values)
    longest = max([*ordered[-1:], 10 * _SHORTEST])
    decades = log10(longest / _SHORTEST)
    lines = []
    if ordered:
        picked = [int(place * (len(ordered) - 1) / _CURVE) for place in range(_CURVE + 1)]
        points = " ".join(
            f"{_across(log10(ordered[at] / _SHORTEST) / decades):.1f},{_up((at + 1) / len(ordered)):.1f}"
            for at in picked
        )
        lines.append(f"<polyline fill='none' stroke='{_BLUE}' stroke-width='1.5' points='{points}'/>")
    marks = [_SHORTEST * 10**power for power in range(int(decades) + 1)]
    lines += [_label(_across(log10(each / _SHORTEST) / decades), _HEIGHT - 16, f"{each:g} s") for each in marks]
    lines += [_label(_EDGE / 2, _up(share), f"{share:.0%}") for share in (0.0, 0.5, 0.9, 1.0)]
    return _figure(title, lines)


def _dots(title: str, points: Sequence[tuple[float, float]]) -> str:
    """Points by time; of very many, some of them evenly."""
    plotted = points[:: max(1, len(points) // _MOST_DOTS)]
    last = max([*(at for at, _ in plotted), 1e-9])
    most = max([*(value for _, value in plotted if not isnan(value)), 1e-9])
    lines = [
        f"<circle cx='{_across(at / last):.1f}' cy='{_up(value / most):.1f}' r='1.8' fill='{_RED}' fill-opacity='.6'/>"
        for at, value in plotted
    ]
    return _figure(title, [*lines, *_axes(last, f"{most:.3g} s")])


def _steps(title: str, outcomes: Sequence[BenchOutcome]) -> str:
    """How many requests were under way over time."""
    changes = [(each.sent, 1) for each in outcomes]
    changes += [(each.due + each.whole, -1) for each in outcomes if not isnan(each.whole)]
    changes += [(each.sent, -1) for each in outcomes if isnan(each.whole)]
    last, running, points = max([*(at for at, _ in changes), 1e-9]), 0, []
    levels = []
    for at, change in sorted(changes):
        levels.append((at, running))
        running += change
        levels.append((at, running))
    most = max([*(level for _, level in levels), 1])
    plotted = levels[:: max(1, len(levels) // _MOST_DOTS)]
    points = [f"{_across(at / last):.1f},{_up(level / most):.1f}" for at, level in plotted]
    line = f"<polyline fill='none' stroke='{_BLUE}' stroke-width='1.2' points='{' '.join(points)}'/>"
    return _figure(title, [line, *_axes(last, str(most))])


def _axes(last: float, most: str) -> list[str]:
    marks = [_label(_across(share), _HEIGHT - 16, f"{share * last:.3g} s") for share in (0.0, 0.5, 1.0)]
    return [*marks, _label(_EDGE / 2, _up(1.0), most), _label(_EDGE / 2, _up(0.0), "0")]


def _across(share: float) -> float:
    return _EDGE + (_WIDTH - 2 * _EDGE) * share


def _up(share: float) -> float:
    return _HEIGHT - _EDGE - (_HEIGHT - 2 * _EDGE) * share


def _label(x: float, y: float, text: str) -> str:
    return f"<text x='{x:.1f}' y='{y + 4:.1f}' font-size='11' text-anchor='middle'>{escape(text)}</text>"


def _figure(title: str, lines: Sequence[str]) -> str:
    box = f"viewBox='0 0 {_WIDTH} {_HEIGHT}' width='{_WIDTH}'"
    return f"<figure><figcaption>{escape(title)}</figcaption><svg {box} role='img'>{''.join(lines)}</svg></figure>"
