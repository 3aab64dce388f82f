"""A family, and every record in it, is refused where a field is not of its kind: a forgotten comma makes no markers."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any, get_args, get_origin, get_type_hints

import pytest

import smg_parsers
from smg_parsers import FAMILIES, Family, Parser, Text, Thinking, register
from smg_parsers.grammars.tool_json import JsonCalls
from smg_parsers.pieces.base import InvalidFamily
from smg_parsers.pieces.checked import Checked


def records_in(value: object) -> Iterator[Any]:
    """Every record that is in a value, itself included, but what is computed."""
    if isinstance(value, tuple):
        for each in value:
            yield from records_in(each)
    elif is_dataclass(value) and not isinstance(value, type):
        yield value
        for field in fields(value):
            if field.init:
                yield from records_in(getattr(value, field.name))


USED = {type(record): record for row in FAMILIES.values() for record in records_in(row)}
"""One record of each class that the table uses."""
FIELDS = [(record, field.name) for record in USED.values() for field in fields(record) if field.init]
HINTS = {kind: get_type_hints(kind) for kind in USED}


def parts(record: Any, **changed: object) -> dict[str, object]:
    return {**{each.name: getattr(record, each.name) for each in fields(record) if each.init}, **changed}


def is_of(record: Any, name: str, wanted: object) -> bool:
    hint = HINTS[type(record)][name]
    return wanted in (hint, get_origin(hint), *(get_origin(each) for each in get_args(hint)))


def named(case: object) -> str:
    return case if isinstance(case, str) else type(case).__name__


TUPLES = [(record, name) for record, name in FIELDS if is_of(record, name, tuple)]
LISTS = [(record, name) for record, name in TUPLES if HINTS[type(record)][name] == tuple[str, ...]]
TEXTS = [(record, name) for record, name in FIELDS if is_of(record, name, str)]


def test_every_class_that_the_table_uses_is_checked_and_no_grammar_is_missed() -> None:
    modules = [
        importlib.import_module(each.name)
        for each in pkgutil.walk_packages(smg_parsers.__path__, "smg_parsers.")
        if not each.name.endswith("__main__")
    ]
    grammars = {
        each
        for module in modules
        for each in vars(module).values()
        if isinstance(each, type) and is_dataclass(each) and callable(getattr(each, "begin", None))
    }
    assert [each.__name__ for each in {*USED, *grammars} if not issubclass(each, Checked)] == []
    assert grammars <= set(USED)
    assert len(LISTS) > 20
    assert len(TEXTS) > 10


@pytest.mark.parametrize(("record", "name"), TUPLES, ids=named)
def test_a_text_where_a_tuple_belongs_is_refused_and_the_field_named(record: Any, name: str) -> None:
    with pytest.raises(InvalidFamily, match=rf"{type(record).__name__}\.{name} is a text; write "):
        type(record)(**parts(record, **{name: "acme-chat"}))


@pytest.mark.sampled(per=("record",))
@pytest.mark.parametrize(("record", "name"), TUPLES, ids=named)
@pytest.mark.parametrize("slip", [3, {"<act>": 1}, JsonCalls(("<act>",))], ids=["number", "mapping", "record"])
def test_what_is_no_tuple_is_refused_and_the_field_named(record: Any, name: str, slip: object) -> None:
    with pytest.raises(
        InvalidFamily, match=rf"{type(record).__name__}\.{name} is of type {type(slip).__name__}; write "
    ):
        type(record)(**parts(record, **{name: slip}))


@pytest.mark.parametrize(("record", "name"), LISTS, ids=named)
@pytest.mark.parametrize(("slip", "told"), [("", "is an empty text"), (7, "is of type int; it must be a text")])
def test_a_member_that_is_no_text_or_empty_is_refused(record: Any, name: str, slip: object, told: str) -> None:
    with pytest.raises(InvalidFamily, match=rf"\.{name}\[1\] {told}"):
        type(record)(**parts(record, **{name: ("<a>", slip)}))


@pytest.mark.parametrize(("record", "name"), TEXTS, ids=named)
def test_a_tuple_where_a_text_belongs_is_refused(record: Any, name: str) -> None:
    with pytest.raises(InvalidFamily, match=rf"\.{name} is of type tuple; it must be a text"):
        type(record)(**parts(record, **{name: ("</act>",)}))


@pytest.mark.parametrize(("record", "name"), LISTS, ids=named)
def test_a_list_of_texts_is_as_good_as_a_tuple(record: Any, name: str) -> None:
    assert type(record)(**parts(record, **{name: list(getattr(record, name))})) == record


@pytest.mark.parametrize("row", FAMILIES.values(), ids=FAMILIES)
def test_every_row_of_the_table_can_be_made_again(row: Family) -> None:
    assert Family(**parts(row)) == row  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["", " "])
def test_a_family_has_a_name(name: str) -> None:
    with pytest.raises(InvalidFamily, match=r"Family\.name is empty"):
        Family(name)


@pytest.mark.parametrize("changed", [{"thinking": None}, {"calls": ("<act>",)}, {"ids": "numbers"}])
def test_a_part_that_is_none_is_refused_and_named(changed: dict[str, Any]) -> None:
    with pytest.raises(InvalidFamily, match=rf"Family\.{next(iter(changed))}"):
        Family("acme", **changed)


def test_the_markers_of_a_grammar_of_ones_own_are_checked_with_the_family() -> None:
    class Own:
        opens = "<act>"
        at_start = headers = False

        def begin(self, marker: str, sink: object) -> None: ...

    with pytest.raises(InvalidFamily, match=r"Family\.calls\[0\]\.opens is a text; write \('<act>',\)"):
        Family("acme", calls=(Own(),))  # type: ignore[arg-type]


def test_a_name_that_another_family_has_is_taken_only_on_purpose() -> None:
    built_in = FAMILIES["qwen3"]
    with pytest.raises(InvalidFamily, match="'qwen3' already"):
        register(Family("qwen3"))
    assert FAMILIES["qwen3"] is built_in
    try:
        register(Family("qwen3"), replace=True)
        assert Parser.for_family("qwen3").parse("<think>") == [Text("<think>")]
    finally:
        FAMILIES["qwen3"] = built_in


def test_the_same_family_may_be_registered_again() -> None:
    try:
        for _ in range(2):
            register(Family("acme_again", thinking=Thinking(("<a>",), ("</a>",))))
    finally:
        del FAMILIES["acme_again"]
