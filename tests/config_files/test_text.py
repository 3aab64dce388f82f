"""Texts that a person wrote: what is read as PyYAML and json read it, and what is refused, quickly and in words."""

import json
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from smg_config_files.text import TextRefused, read_json, read_yaml

PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(max_size=8)
    | st.binary(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
BOMB = "".join(f"- &l{number} [{','.join(['a' if number == 0 else f'*l{number - 1}'] * 10)}]\n" for number in range(10))
MERGES = "".join(
    f"- &m{number} {{k{number}: 1, <<: [{','.join([f'*m{number - 1}'] * 9)}]}}\n" if number else "- &m0 {a: 1}\n"
    for number in range(9)
)
CHAIN = "".join(f"- &c{number} [{f'*c{number - 1}' if number else 'a'}]\n" for number in range(200))
REFUSED = {
    "a list that is nested deeply": ("[" * 100_000, "too deeply"),
    "mappings that are nested deeply": ("\n".join("  " * depth + "a:" for depth in range(200)), "too deeply"),
    "aliases of aliases": (BOMB, "values with its aliases"),
    "merges of merges": (MERGES, "values with its aliases"),
    "a chain of aliases": (CHAIN, "too deeply"),
    "an alias of what it is in": ("&a [*a]", "an alias of no anchor"),
    "a key given twice": ("a: 1\nb: 2\na: 3\n", "line 3: a is given twice"),
    "a key given twice within": ("x:\n  - {a: {b: 1, b: 2}}\n", "line 2: b is given twice"),
    "an anchor given twice": ("[&a 1, &a 2]", "an anchor is given twice"),
    "a date that there is not": ("a: 2026-13-45\n", "cannot be read"),
    "an object of Python": ("!!python/object/apply:os.system [ls]", "is no YAML"),
    "a mapping as a key": ("? {a: 1}\n: 2\n", "is no YAML"),
    "a second document": ("a: 1\n---\nb: 2\n", "a second document"),
    "what is no YAML": ("a: [", "is no YAML"),
    "a character that YAML does not have": ("a: \x00", "is no YAML"),
}


@pytest.mark.full
@pytest.mark.sampled(keep=10)
@pytest.mark.parametrize("name", REFUSED)
def test_a_text_that_cannot_be_used_is_refused_with_its_reason(name: str) -> None:
    text, reason = REFUSED[name]
    with pytest.raises(TextRefused) as caught:
        read_yaml(text)
    assert reason in caught.value.reason


@pytest.mark.parametrize(
    "text", ["s3cretS3cret: 1\ns3cretS3cret: 2\n", "- s3cretS3cret: [", "[&s3cretS3cret a, *s3cretS3crets]"]
)
def test_the_reason_has_no_words_of_the_text(text: str) -> None:
    with pytest.raises(TextRefused) as caught:
        read_yaml(text)
    assert "s3cret" not in caught.value.reason


@given(PLAIN)
def test_what_is_dumped_is_read_back(value: Any) -> None:
    assert read_yaml(yaml.safe_dump(value)) == value


@given(st.text(max_size=40) | st.text(alphabet="ab:-[]{},&*! \n'\"<|>?#%", max_size=40))
def test_any_text_is_read_as_pyyaml_reads_it_or_refused(text: str) -> None:
    try:
        found = read_yaml(text)
    except TextRefused:
        return
    assert repr(found) == repr(yaml.safe_load(text))


def test_an_alias_and_a_merge_say_what_their_anchor_says() -> None:
    text = "base: &b {a: 1, c: 2}\nmore: {<<: *b, a: 3}\nsame: *b\n"
    assert read_yaml(text) == {"base": {"a": 1, "c": 2}, "more": {"a": 3, "c": 2}, "same": {"a": 1, "c": 2}}


@given(PLAIN)
def test_json_is_read_as_it_is(value: Any) -> None:
    text = json.dumps(value, default=str)
    assert read_json(text) == json.loads(text)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[" * 100_000, "too deeply"),
        ('{"a": {"b": 1, "b": 2}}', "b is given twice"),
        ('{"a": }', "line 1 is no JSON"),
        ("9" * 5000, "cannot be read"),
    ],
)
def test_json_that_cannot_be_used_is_refused_with_its_reason(text: str, reason: str) -> None:
    with pytest.raises(TextRefused) as caught:
        read_json(text)
    assert reason in caught.value.reason
