"""The table of faults that others had: every row has tests, and the tests exist."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest
from tests.core.engines.vendors.test_known_faults import WRITTEN

TESTS = Path(__file__).parent.parent
TABLE = Path(__file__).with_name("known_faults.md").read_text()
ROWS = [[cell.strip() for cell in line.split("|")[1:-1]] for line in TABLE.splitlines() if re.match(r"\| \d", line)]
FILES = dict(re.findall(r"\b([A-Z])\s(?:is\s)?`([\w/]+\.py)`", TABLE))
REPOSITORIES = set(re.findall(r"\b([A-Z]{2,3}) [\w.-]+/[\w.-]+", TABLE))


@cache
def names_in(file: str) -> frozenset[str]:
    """The names of the tests in a file below `tests`."""
    tree = ast.parse((TESTS / file).read_text())
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return frozenset(each.name for each in tree.body if isinstance(each, kinds) and each.name.startswith("test_"))


def test_the_table_has_every_fault_once_with_its_issues() -> None:
    assert [row[0] for row in ROWS] == [str(number) for number in range(1, 73)]
    issues = [row[1] for row in ROWS]
    assert len(set(issues)) == len(issues)
    for each in issues:
        assert re.fullmatch(r"(?:[\w-]+)?#\d+(?:, (?:[\w-]+)?#\d+)*", each), each
        assert set(re.findall(r"\b([A-Z]{2,3})#", each)) <= REPOSITORIES


@pytest.mark.parametrize("row", ROWS, ids=[row[0] for row in ROWS])
def test_every_fault_has_tests_that_exist(row: list[str]) -> None:
    held = [each.strip() for each in row[3].split("; ")]
    named = 0
    for each in held:
        if each.startswith(("refused by name", "does not apply")):
            continue
        place, _, name = each.partition(" ")
        file = FILES.get(place, place)
        if name.startswith('"'):
            assert name.strip('"') in WRITTEN, name
        else:
            assert name in names_in(file), each
        named += 1
    assert named or held
