"""The quality of searches, by a set of questions about Python's standard library (`tools/retrieval_set.py` makes it)."""

import re
from pathlib import Path

import pytest
from tests.core.retrieval.recall import KINDS, recalls_of_both

pytestmark = pytest.mark.anyio

PAGE = Path(__file__).parents[3] / "docs" / "files.md"
POINT = 1.0
ROW = re.compile(r"^\| (words|vectors|both) \| ([0-9.]+) % \| ([0-9.]+) % \|$", re.MULTILINE)


@pytest.mark.full
async def test_recall_at_five_is_within_a_point_of_what_the_page_says(tmp_path: Path, postgresql: str) -> None:
    said = {kind: (float(one), float(other)) for kind, one, other in ROW.findall(PAGE.read_text(encoding="utf-8"))}

    found = await recalls_of_both(tmp_path, postgresql)

    assert set(said) == set(KINDS), "tools/retrieval_set.py --table writes them"
    for place, values in enumerate(found.values()):
        assert {kind: value for kind, value in values.items() if abs(value - said[kind][place]) > POINT} == {}
        assert values["both"] > max(values["words"], values["vectors"])
