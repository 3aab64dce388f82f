"""Text on the wire is what a plain JSON encoder writes, and never breaks a line."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg_core.wire.json_text import encode_object, encode_text, without_surrogates

any_text = st.text(st.characters())
text = st.text(st.characters(exclude_categories=["Cs"]))
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | any_text,
    lambda inner: st.lists(inner) | st.dictionaries(any_text, inner),
)


@given(text)
def test_text_is_encoded_as_json_dumps_does(value):
    plain = json.dumps(value, ensure_ascii=False)
    escaped = plain.replace("\x85", "\\u0085").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
    assert encode_text(value) == escaped.encode()


@given(any_text)
def test_no_text_can_break_a_line(value):
    encoded = encode_text(value).decode()
    assert len(encoded.splitlines()) == 1
    assert json.loads(encoded) == without_surrogates(value)


@pytest.mark.full
@given(values)
def test_objects_survive_lone_surrogates_anywhere(value):
    def clean(inner):
        if isinstance(inner, str):
            return without_surrogates(inner)
        if isinstance(inner, list):
            return [clean(one) for one in inner]
        if isinstance(inner, dict):
            return {without_surrogates(name): clean(one) for name, one in inner.items()}
        return inner

    assert json.loads(encode_object(value)) == clean(value)


def test_a_split_pair_of_surrogates_is_joined():
    assert without_surrogates("a\ud83d\ude00b\ud800") == "a\U0001f600b\ufffd"
