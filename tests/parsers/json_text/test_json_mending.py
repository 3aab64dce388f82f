"""JSON answers mended as they come: what is sure is put right, everything else stays as it was written."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg_parsers.json_text.json_mending import JsonMender, Mended

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4), max_leaves=12
).filter(lambda value: isinstance(value, list | dict))
EDGES = st.lists(st.integers(0, 10_000), max_size=8)


def is_container(text: str) -> bool:
    try:
        return isinstance(json.loads(text), list | dict)
    except ValueError:
        return False


def mended(text: str, *edges: int, fits: object = is_container) -> tuple[str, tuple[str, ...]]:
    mender = JsonMender()
    places = [0, *sorted(edge % (len(text) + 1) for edge in edges), len(text)]
    sent = "".join([mender.feed(text[start:end]) for start, end in pairwise(places)])
    end: Mended = mender.finish(sent, fits)  # type: ignore[arg-type]
    return sent + end.rest, end.faults


def beginning_of(part: object, whole: object) -> bool:
    """Whether `part` is `whole`, cut off somewhere: nothing in it is made up."""
    if isinstance(whole, dict):
        if not isinstance(part, dict) or list(part) != list(whole)[: len(part)]:
            return False
        pairs = [(part[name], whole[name]) for name in part]
    elif isinstance(whole, list):
        if not isinstance(part, list) or len(part) > len(whole):
            return False
        pairs = list(zip(part, whole, strict=False))
    elif isinstance(whole, str):
        return isinstance(part, str) and whole.startswith(part)
    else:
        return part == whole
    return all(beginning_of(*pair) if last else pair[0] == pair[1] for last, pair in _marked(pairs))


def _marked(pairs: list[tuple[object, object]]) -> list[tuple[bool, tuple[object, object]]]:
    return [(at == len(pairs) - 1, pair) for at, pair in enumerate(pairs)]


@given(VALUES, st.booleans(), st.sampled_from([None, 0, 2]), EDGES)
def test_json_that_is_right_passes_unchanged(
    value: object, ascii_only: bool, indent: int | None, edges: list[int]
) -> None:
    text = " " + json.dumps(value, ensure_ascii=ascii_only, indent=indent) + "\n"
    assert mended(text, *edges) == (text, ())


@given(VALUES, st.integers(0, 10_000), EDGES)
def test_json_that_is_cut_anywhere_is_closed_and_nothing_is_made_up(value: object, cut: int, edges: list[int]) -> None:
    whole = json.dumps(value)
    text = whole[: 1 + cut % len(whole)]
    found, faults = mended(text, *edges)
    assert beginning_of(json.loads(found), value)
    assert faults == (() if text == whole else ("it was cut off",))


@given(st.text(alphabet='{}[]",:\\`jsontrue01.e- \n\x01', max_size=40), EDGES)
def test_any_text_is_mended_the_same_however_it_is_cut(text: str, edges: list[int]) -> None:
    assert mended(text, *edges) == mended(text) == mended(text, *range(len(text)))


@given(st.text(alphabet='{}[]",:\\`jsontrue01.e- \n', max_size=40))
def test_what_cannot_be_mended_is_as_it_was_but_for_its_fence(text: str) -> None:
    found, faults = mended(text, fits=lambda _: False)
    assert faults == ()
    assert found == text or "```" in text


@pytest.mark.parametrize(
    ("text", "right", "faults"),
    [
        ('```json\n{"a": 1}\n```', '{"a": 1}', ("it stands in a code fence",)),
        ('```\n{"a": 1}', '{"a": 1}', ("it stands in a code fence",)),
        ('```json\n{"a": "b', '{"a": "b"}', ("it stands in a code fence", "it was cut off")),
        ('{"a": 1}\n\nI hope this helps!', '{"a": 1}', ("words follow it",)),
        ('{"a": "two\nlines"}', '{"a": "two\\nlines"}', ("control characters are raw in it",)),
        ('{"a": 12, "b": 3', '{"a": 12}', ("it was cut off",)),
        ('{"a": 12, "b": 3 ', '{"a": 12, "b": 3 }', ("it was cut off",)),
        ('{"a": [tr', '{"a": []}', ("it was cut off",)),
        ('{"a": "b\\u00', '{"a": "b"}', ("it was cut off",)),
        ('{"a": 1, "b', '{"a": 1}', ("it was cut off",)),
        ('{"a": 1, "b": ', '{"a": 1}', ("it was cut off",)),
        ('{"a": 1} {"a": 2}', '{"a": 1} {"a": 2}', ()),
        ("Here it is: {}", "Here it is: {}", ()),
        ('{"a": 1,}', '{"a": 1,}', ()),
        ("{'a': 1}", "{'a': 1}", ()),
        ("12", "12", ()),
        ("", "", ()),
        ("``", "``", ()),
    ],
)
def test_only_what_is_sure_is_mended(text: str, right: str, faults: tuple[str, ...]) -> None:
    assert mended(text) == (right, faults)


def test_little_is_held_back() -> None:
    """A string goes out as it comes; a name, a number and a word wait for what follows them."""
    mender = JsonMender()
    assert [mender.feed(piece) for piece in ('{"te', 'xt": "One', " two", " three", '", "n": 1', "2", ", ")] == [
        "{",
        '"text": "One',
        " two",
        " three",
        '"',
        "",
        ', "n": 12',
    ]
