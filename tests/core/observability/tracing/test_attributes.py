"""The tables of stages, events and attributes are those of the documentation."""

import re
from pathlib import Path

import pytest

from smg_core.observability.tracing.attributes import ATTRIBUTES, EVENTS, STAGES

PAGE = (Path(__file__).parents[4] / "docs" / "observability.md").read_text()


@pytest.mark.parametrize(("head", "table"), [("stage", STAGES), ("event", EVENTS), ("attribute", ATTRIBUTES)])
def test_the_page_has_the_table_of_the_code(head: str, table: dict[str, str]) -> None:
    found = PAGE.partition(f"| {head} | |\n|---|---|\n")[2].partition("\n\n")[0]

    assert dict(re.findall(r"^\| `([^`]+)` \| (.*) \|$", found, re.MULTILINE)) == table
