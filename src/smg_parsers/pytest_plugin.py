"""A pytest plugin that holds a third party's parser to the law.

    def test_my_parser_keeps_the_law(parser_law):
        parser_law(lambda: MyParser(), ["a transcript", "another one"], family=MY_FAMILY)

Decides: how a test asks for the law and how it fails.
Above: tests, through the entry point in the group `pytest11`. Below: `lab`, loaded when a test asks for it.
Does not know: the parser under test.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib import import_module
from typing import TYPE_CHECKING, TypeAlias

import pytest

if TYPE_CHECKING:
    from smg_parsers.families.family import Family
    from smg_parsers.lab.lab import Report
    from smg_parsers.lab.laws import Make

ParserLaw: TypeAlias = "Callable[..., Report]"


@pytest.fixture
def parser_law() -> ParserLaw:
    """A function that examines a parser on transcripts, and fails the test with every breach it finds."""
    # Imported here: test runs that do not use the fixture then do not load the lab.
    lab = import_module("smg_parsers.lab.lab")

    def check(
        make: Make, transcripts: Iterable[str], *, family: Family | None = None, linear: bool = True, seed: int = 0
    ) -> Report:
        report: Report = lab.examine("the parser", make, transcripts, family=family, linear=linear, seed=seed)
        if not report.passed:
            pytest.fail(str(report), pytrace=False)
        return report

    return check
