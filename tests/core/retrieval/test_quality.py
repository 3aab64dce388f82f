"""The quality of searches, by a set of questions about Python's standard library (`tools/retrieval_set.py` makes it)."""

import re
from pathlib import Path

import pytest
from tests.core.retrieval.recall import KINDS, recalls

PAGE = Path(__file__).parents[3] / "docs" / "files.md"
POINT = 1.0


@pytest.mark.full
def test_recall_at_five_is_within_a_point_of_what_the_page_says(tmp_path: Path) -> None:
    page = PAGE.read_text(encoding="utf-8")
    said = {
        kind: float(value)
        for kind, value in re.findall(r"^\| (words|vectors|both) \| ([0-9.]+) % \|$", page, re.MULTILINE)
    }

    found = recalls(tmp_path)

    assert set(said) == set(KINDS), "tools/retrieval_set.py --table writes them"
    assert {kind: value for kind, value in found.items() if abs(value - said[kind]) > POINT} == {}
    assert found["both"] > max(found["words"], found["vectors"])
