"""The example runs, and the documents name what exists."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from smg_parsers import FAMILIES, Parser, Reasoning, Text

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.full
def test_the_example_of_a_family_of_ones_own_runs_and_keeps_the_law() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / "custom_parser.py")],
        capture_output=True,
        text=True,
        check=False,
        env={"PYTHONPATH": str(ROOT / "src")},
    )
    assert done.returncode == 0, done.stderr
    assert "CallStart(index=0, id='call_1', name='get_weather')" in done.stdout
    assert "0 breaches" in done.stdout


def table(page: str) -> dict[str, str]:
    """What the page's table of families says about reasoning, by row."""
    found: dict[str, str] = {}
    for line in (ROOT / "docs" / "parsers" / page).read_text(encoding="utf-8").splitlines():
        cells = re.split(r"(?<!\\)\|", line)
        names = re.findall(r"\w+", cells[1]) if len(cells) > 3 else []
        if names and set(names) <= set(FAMILIES):
            found.update((name, cells[2].strip()) for name in names if name not in found)
    return found


def says_opened(rows: dict[str, str], name: str, word: str) -> bool:
    """Whether the row says `word` without a condition; a row that is "as" another says what that one says."""
    text = rows[name]
    if re.search(rf"{word}(?! (?:in thinking|by|when)\b)", text):
        return True
    other = re.match(r"as (\w+)$", text)
    return other is not None and other[1] in rows and says_opened(rows, other[1], word)


@pytest.mark.parametrize(("page", "word"), [("families.md", "opens in prompt"), ("formats.md", "opened")])
def test_where_nobody_says_output_begins_inside_reasoning_exactly_where_the_pages_say_so(page: str, word: str) -> None:
    rows = table(page)
    assert set(rows) == set(FAMILIES)
    for name, family in FAMILIES.items():
        assert says_opened(rows, name, word) == family.thinking.opens_in_prompt, name
        if family.thinking.opens and not family.headed:
            first = Parser.for_family(name).parse("x")[0]
            assert type(first) is (Reasoning if says_opened(rows, name, word) else Text), name


def test_the_page_of_families_lists_every_row_and_no_other() -> None:
    page = (ROOT / "docs" / "parsers" / "families.md").read_text(encoding="utf-8")
    rows = {
        name
        for line in page.splitlines()
        if line.startswith("| `")
        for name in re.findall(r"`(\w+)`", line.split("|")[1])
    }
    assert rows == set(FAMILIES)
