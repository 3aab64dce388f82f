"""docs/security.md has the attacks and bounds of the program that plays them; its figures are that program's affair."""

import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

from smg_core.config.config import describe, describe_arguments

BENCH = Path(__file__).parent.parent / "bench"
MODULES = (
    "attacked",
    "attacks_work",
    "attacks_wire",
    "attacks_engines",
    "security",
    "stand",
    "watched",
    "make_tokenizer",
)


@pytest.fixture(scope="module")
def security() -> ModuleType:
    """The program, whose modules lie beside each other and are no package."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(BENCH))
        import security as program

        yield program
        for name in MODULES:
            sys.modules.pop(name, None)


@pytest.mark.full
def test_the_page_has_the_rows_of_the_program(security: ModuleType) -> None:
    rows = security.rows_of(security.PAGE.read_text())

    assert rows == [security.start_of(attack) for attack in security.ATTACKS]


@pytest.mark.full  # the program of the page loads what it attacks
def test_rows_that_are_missing_or_other_are_found(security: ModuleType) -> None:
    page = security.PAGE.read_text()
    first = security.start_of(security.ATTACKS[0])

    assert security.rows_of(page.replace(first, first.replace(" 20 ", " 30 "))) != security.rows_of(page)
    assert len(security.rows_of(page.replace(first, ""))) == len(security.ATTACKS) - 1


@pytest.mark.full
def test_every_bound_that_is_named_is_a_setting(security: ModuleType) -> None:
    known = {each.path for each in (*describe(), *describe_arguments())}
    named = {name for attack in security.ATTACKS for name in re.findall(r"`([a-z_]+\.[a-z_0-9]+)`", attack.bound)}

    assert named
    assert named <= known


@pytest.mark.full
def test_no_attack_is_told_twice(security: ModuleType) -> None:
    starts = [security.start_of(attack) for attack in security.ATTACKS]

    assert len(starts) == len(set(starts))
