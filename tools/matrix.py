"""Makes docs/matrix.md from the results of tests/matrix, or checks that the page is what they say.

    make test-all; python tools/matrix.py            writes the page
    make test-all; python tools/matrix.py --check    fails where a cell differs, or a cell's test is gone

No cell is written by hand. `make test-all` leaves the results in build/matrix.json; without them there is nothing to compare
with, and the check says so.
"""

import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from tests.matrix.results import FILE, read  # noqa: E402  (found by the line above)

PAGE = ROOT / "docs" / "matrix.md"
WAYS = ("whole", "stream")
HEAD = """# What works on which engine

Made by `make docs` from the results of `make test-all`; no cell is written by hand, and CI fails when one differs from what its
test gave. Each cell is a request by the official SDK, or over HTTP where there is none, to a gateway before that engine, answered
whole or streamed.

**yes**: it works, as the test's check says. **400**: the engine cannot do it, and the request is refused with an error that names
the parameter. **not told**: the answer comes, but the engine never says this number, which is 0 then. Where streamed and whole
answers differ, the cell has both.

Of [adapters](workers.md#lora-adapters): **501**: the engine has no such call, and the admin door says so. **does not join**: a
worker that is said to hold one and cannot be asked for it stays out, and its record says why. **not listed**: the engine cannot
say which it holds; where it can be asked for one, the file of workers says which.
"""


def page(found: dict[str, str]) -> str:
    """The page for the results, by cell."""
    apis: dict[str, dict[str, dict[str, dict[str, str]]]] = {}
    engines: dict[str, list[str]] = {}
    for cell, result in found.items():
        api, feature, engine, way = cell.split("\t")
        apis.setdefault(api, {}).setdefault(feature, {}).setdefault(engine, {})[way] = result
        if engine not in engines.setdefault(api, []):
            engines[api].append(engine)
    return HEAD + "".join(_table(api, features, sorted(engines[api])) for api, features in sorted(apis.items()))


def _table(api: str, features: dict[str, dict[str, dict[str, str]]], engines: list[str]) -> str:
    lines = [f"\n## {api}\n", "| | " + " | ".join(engines) + " |", "|---|" + "---|" * len(engines)]
    for feature, by_engine in sorted(features.items()):
        cells = [_cell(by_engine.get(engine, {})) for engine in engines]
        lines.append(f"| {feature} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def _cell(results: dict[str, str]) -> str:
    if len(results) == 1:  # a request that has one way alone, as tokenize has
        return next(iter(results.values()))
    told = [results.get(way, "not tried") for way in WAYS]
    return told[0] if told[0] == told[1] else ", ".join(f"{way}: {each}" for way, each in zip(WAYS, told, strict=True))


def main() -> int:
    parser = argparse.ArgumentParser(description="Make docs/matrix.md from the results of tests/matrix.")
    parser.add_argument(
        "--check", action="store_true", help="write nothing; fail if the page is not what the results say"
    )
    check = parser.parse_args().check
    found = read()
    if not found:
        print(f"there are no results in {FILE.relative_to(ROOT)}; run make test-all first")
        return 1 if check else 0
    text = page(found)
    if PAGE.exists() and PAGE.read_text() == text:
        return 0
    if check:
        before = set(PAGE.read_text().splitlines()) if PAGE.exists() else set()
        differing = [line for line in text.splitlines() if line not in before]
        print(
            f"{PAGE.relative_to(ROOT)} is not what the tests gave; run make docs. Lines that differ:",
            *differing,
            sep="\n",
        )
        return 1
    PAGE.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
