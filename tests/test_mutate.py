"""The tool that changes code to see whether tests notice: what it changes, and that what it writes is code."""

import ast
import importlib.util
from pathlib import Path
from typing import Any

import pytest
from tests.tiers import ROOT

FILE = ROOT / "tools" / "mutate.py"
CODE = '''"""A text with 1 + 1."""

__all__ = ["b", "a"]
LEAST = 3


def best(scores: list[int], most: int = 9) -> int:
    """Return the best > 0."""
    if not scores or len(scores) > most:
        raise ValueError(f"{len(scores) + 1} é")
    scores.sort()
    return max(scores) if "é" in "é" else scores[0] + LEAST
'''


@pytest.fixture(scope="module")
def mutate() -> Any:
    spec = importlib.util.spec_from_file_location("mutate_tool", FILE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def found(mutate: Any, tmp_path: Path) -> list[Any]:
    file = tmp_path / "code.py"
    file.write_text(CODE)
    return list(mutate.changes(file))


def test_each_kind_of_change_is_found_and_no_text_or_annotation_is_changed(found: list[Any]) -> None:
    assert {(each.line, each.kind, each.before, each.after) for each in found} == {
        (4, "constant changed", "3", "4"),
        (7, "constant changed", "9", "10"),
        (9, "branch negated", "not scores or len(scores) > most", "(not (not scores or len(scores) > most))"),
        (9, "and, or swapped", "not scores or len(scores) > most", "(not scores and len(scores) > most)"),
        (9, "comparison swapped", "len(scores) > most", "(len(scores) >= most)"),
        (11, "call left out", "scores.sort()", "pass"),
        (
            12,
            "returned value left out",
            'return max(scores) if "é" in "é" else scores[0] + LEAST',
            "return None",
        ),
        (12, "branch negated", '"é" in "é"', "(not ('é' in 'é'))"),
        (12, "comparison swapped", '"é" in "é"', "('é' not in 'é')"),
        (12, "any in place of the best", "max(scores)", "__import__('random').choice(list(scores))"),
        (12, "operator swapped", "scores[0] + LEAST", "(scores[0] - LEAST)"),
        (12, "constant changed", "0", "1"),
    }


def test_every_change_is_code_that_differs_in_its_place_alone(found: list[Any]) -> None:
    whole = CODE.encode()
    for each in found:
        text = whole[: each.start] + each.after.encode() + whole[each.end :]
        assert ast.dump(ast.parse(text)) != ast.dump(ast.parse(whole))
        assert text.decode().count("\n") == CODE.count("\n")


def test_a_sample_has_of_every_kind_and_is_the_same_for_a_seed(mutate: Any, found: list[Any]) -> None:
    kinds = {each.kind for each in found}
    some = mutate.sampled(found, len(kinds), 1)

    assert {each.kind for each in some} == kinds
    assert mutate.sampled(found, len(kinds), 1) == some
    assert sorted(mutate.sampled(found, 99, 2), key=repr) == sorted(found, key=repr)


def test_a_room_has_its_sources_and_tests_and_a_folder_without_tests_is_none(mutate: Any) -> None:
    for name, sources, tests in (
        ("routing", "smg_core/routing", "core/routing"),
        ("parsers", "smg_parsers", "parsers"),
    ):
        room = mutate.Room.named(name)
        assert (room.sources, room.tests) == (ROOT / "src" / sources, ROOT / "tests" / tests)
        assert room.files()
    with pytest.raises(SystemExit, match="no room 'nothing'"):
        mutate.Room.named("nothing")


def test_the_tests_of_a_changed_module_run_first(mutate: Any) -> None:
    room = mutate.Room.named("routing")

    assert room.tests_of(room.sources / "bucket.py") == [str(room.tests / "test_bucket.py"), str(room.tests)]
