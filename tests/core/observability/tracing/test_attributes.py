"""The tables of stages, events and attributes are those of the documentation."""

import ast
import inspect
import re
from pathlib import Path

import pytest

from smg_core.observability.tracing import spans
from smg_core.observability.tracing.attributes import ATTRIBUTES, EVENTS, STAGES

PAGE = (Path(__file__).parents[4] / "docs" / "observability.md").read_text()


@pytest.mark.parametrize(("head", "table"), [("stage", STAGES), ("event", EVENTS), ("attribute", ATTRIBUTES)])
def test_the_page_has_the_table_of_the_code(head: str, table: dict[str, str]) -> None:
    found = PAGE.partition(f"| {head} | |\n|---|---|\n")[2].partition("\n\n")[0]

    assert dict(re.findall(r"^\| `([^`]+)` \| (.*) \|$", found, re.MULTILINE)) == table


def test_every_attribute_and_event_that_spans_have_is_in_the_tables() -> None:
    tree = ast.walk(ast.parse(inspect.getsource(spans)))
    texts: set[str] = set()
    events: set[str] = set()
    for node in tree:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            texts.add(node.value)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "_event":
            events.add(ast.literal_eval(node.args[1]))
    named = {text for text in texts if re.fullmatch(r"(smg|gen_ai|http|url|client|error)(\.[a-z_]+)+", text)}

    assert named == set(ATTRIBUTES)
    assert events == set(EVENTS)
