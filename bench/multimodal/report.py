"""What bench.py measured, as the part of docs/multimodal/performance.md between its two marks. Nothing there is typed by hand."""

import os
import platform
import statistics
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

Row = dict[str, Any]

BEGIN, END = "<!-- begin: written by bench/multimodal/bench.py -->", "<!-- end -->"
LIMITS = {"JPEG": 0.5, "PNG": 0.6}
MEDIAN_LIMIT = 0.4
TORCHVISION_LIMIT = 1.0
SEEN_LIMIT_US = 200
PACKAGES = ("pillow", "numpy", "wasmtime", "simplejpeg", "isal", "transformers", "torch", "torchvision")


def machine() -> dict[str, Any]:
    """Where and with what a run is made, and how busy others keep it."""
    cpu = next(
        (line.split(":")[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line),
        platform.processor(),
    )
    found = {}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return {"cpu": cpu, "cores": len(os.sched_getaffinity(0)), "load": os.getloadavg()[0], "versions": found}


def _where(measured: dict[str, Any]) -> str:
    about, rounds = measured["machine"], sorted({row["rounds"] for row in measured["rows"]})
    versions = ", ".join(f"{name} {number}" for name, number in about["versions"].items())
    return (
        f"Measured on {about['cpu']}, {about['cores']} cores, load {about['load']:.1f} when the run began; "
        f"Python {about['python']}, {versions}; the least of {rounds[0]} rounds"
        f"{f', of up to {rounds[-1]} where a row was measured again' if len(rounds) > 1 else ''}."
    )


def _named(row: Row) -> str:
    return f"{row['family']} {row['size']} {row['container']}"


def _ratio(row: Row, other: str) -> float:
    return float(row["ours_min"] / row[f"{other}_min"])


def _share(row: Row) -> float:
    return float(row["decode_min"] / row["ours_min"])


def _against_pil(rows: Sequence[Row]) -> list[str]:
    compared = [row for row in rows if "pil_min" in row]
    median = statistics.median(_ratio(row, "pil") for row in compared)
    lines = [f"- All {len(compared)} rows: median {median:.2f} of the PIL backend's time (aim: {MEDIAN_LIMIT})."]
    for container, limit in LIMITS.items():
        here = [row for row in compared if row["container"] == container]
        ratios = [_ratio(row, "pil") for row in here]
        met = sum(ratio <= limit for ratio in ratios)
        lines.append(
            f"- {container}: median {statistics.median(ratios):.2f}, from {min(ratios):.2f} to {max(ratios):.2f}; "
            f"{met} of {len(here)} rows are at most {limit} (aim: all)."
        )
        over = [row for row in here if _ratio(row, "pil") > limit]
        for row in over:
            alone = row["decode_min"] / row["pil_min"]
            lines.append(
                f"  - over it: {_named(row)}, {_ratio(row, 'pil'):.2f}. Decoding is {_share(row):.2f} of our time, and "
                f"{alone:.2f} of the PIL backend's."
            )
    shares = [_share(row) for row in rows]
    quicker = {
        container: statistics.median(r["decode_min"] / r["pillow_min"] for r in rows if r["container"] == container)
        for container in LIMITS
    }
    lines.append(
        f"- Decoding is {statistics.median(shares):.2f} of our time in the median. Beside Pillow's decoder ours takes "
        + ", ".join(f"{value:.2f} for {container}" for container, value in quicker.items())
        + "."
    )
    peaks = [row["peak"] for row in rows]
    resident = [row["resident"] for row in rows if row["resident"] is not None]
    lines.append(
        f"- The peak is at most {max(peaks):.2f} times the output by allocation, {max(resident):.2f} by resident set."
    )
    return lines


def _beyond(row: Row) -> float:
    return max(0.0, (row["seen_min"] - row["digest_min"]) * 1e3)


def _seen(rows: Sequence[Row]) -> list[str]:
    within = sum(_beyond(row) <= SEEN_LIMIT_US for row in rows)
    most = max(_beyond(row) for row in rows)
    fastest = max(row["bytes"] / row["digest_min"] / 1e6 for row in rows)
    largest = max(row["bytes"] for row in rows)
    slowest = max(row["seen_min"] for row in rows)
    text = (
        f"- A picture seen before: {within} of {len(rows)} rows take at most one pass of sha256 over their bytes and "
        f"{SEEN_LIMIT_US} µs; the most beyond the pass is {most:.0f} µs. sha256 goes through {fastest:.1f} GB/s here; "
        f"the largest file, {largest / 1e6:.1f} MB, is recognised in {slowest:.1f} ms at most."
    )
    return [text]


def _together(runs: Sequence[Row]) -> list[str]:
    if not runs:
        return []
    title = (
        "Eight pictures of one request, milliseconds that pass from the request to its tensors, and in brackets those of all "
        "processors; the round that passed quickest. Time that passes is shared with whatever else the machine does; `load` is "
        "how many threads of the whole machine wanted a core:"
    )
    lines = [
        "",
        title,
        "",
        "| picture | one thread | as many as by default | of one thread's time | load |",
        "|---|---|---|---|---|",
    ]
    for run in runs:
        ratio = run["all_min"] / run["one_min"]
        lines.append(
            f"| {run['size']} {run['container']} | {run['one_min']:.0f} ({run['one_busy']:.0f}) | "
            f"{run['threads']} threads: {run['all_min']:.0f} ({run['all_busy']:.0f}) | {ratio:.2f} | {run['load']:.1f} |"
        )
    return lines


def _against_torchvision(measured: dict[str, Any]) -> list[str]:
    rows = [row for row in measured["rows"] if "tv_min" in row]
    ratios = [_ratio(row, "tv") for row in rows]
    met = sum(ratio <= TORCHVISION_LIMIT for ratio in ratios)
    found = (
        f"Ours takes {min(ratios):.2f} to {max(ratios):.2f} of the torchvision backend's time, {statistics.median(ratios):.2f} "
        f"in the median; {met} of {len(rows)} rows are at most {TORCHVISION_LIMIT:.1f} (aim: all)."
    )
    lines = [
        "",
        "### Beside torchvision",
        "",
        _where(measured),
        "",
        found,
        "",
        "| family | image | ours | torchvision | ratio | decode |",
        "|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {row['family']} | {row['size']} {row['container']} | {row['ours_min']:.1f} | {row['tv_min']:.1f} | "
        f"{_ratio(row, 'tv'):.2f} | {row['decode_min']:.1f} |"
        for row in rows
    ]
    return lines


def _table(rows: Sequence[Row]) -> list[str]:
    lines = [
        "",
        "### Every row",
        "",
        "| family | image | ours | PIL backend | ratio | decode | by Pillow | peak | resident | seen before, µs | sha256, µs |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        compared = f"{row['pil_min']:.1f} | {_ratio(row, 'pil'):.2f}" if "pil_min" in row else "- | -"
        resident = "-" if row["resident"] is None else f"{row['resident']:.2f}"
        seen = f"{row['seen_min'] * 1e3:.0f} | {row['digest_min'] * 1e3:.0f}"
        lines.append(
            f"| {row['family']} | {row['size']} {row['container']} | {row['ours_min']:.1f} | {compared} | "
            f"{row['decode_min']:.1f} | {row['pillow_min']:.1f} | {row['peak']:.2f} | {resident} | {seen} |"
        )
    return lines


def figures(measured: dict[str, Any], torchvision: dict[str, Any] | None) -> str:
    """The part between the marks."""
    rows = measured["rows"]
    lines = [_where(measured), "", *_against_pil(rows), *_seen(rows)]
    lines += _together(measured["together"])
    if torchvision is not None:
        lines += _against_torchvision(torchvision)
    return "\n".join([BEGIN, "", *lines, *_table(rows), "", END])


def rewrite(page: Path, measured: dict[str, Any], torchvision: dict[str, Any] | None) -> None:
    """Put the figures between the marks of `page`."""
    before, rest = page.read_text().split(BEGIN)
    _, after = rest.split(END)
    page.write_text(before + figures(measured, torchvision) + after)
