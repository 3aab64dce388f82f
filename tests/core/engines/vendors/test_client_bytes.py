"""A client's own bytes in a body of the same API: kept wherever they mean what the gateway says, and in no other case."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg_core.engines.vendors.client_bytes import ABSENT, as_sent, with_strings, without_texts

OURS = frozenset({"model", "stream"})
NAMES = st.sampled_from(["a", "b", 'q"uote', "model", "stream", "back\\slash", "é"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(NAMES, inner, max_size=2),
    max_leaves=5,
)


def same(name: str, value: object) -> object:
    return value


@given(st.dictionaries(NAMES, VALUES, max_size=5), st.sampled_from([None, 1, 2]), st.booleans())
def test_what_differs_in_the_gateways_own_fields_alone_keeps_every_other_byte(
    theirs: dict[str, object], indent: int | None, escaped: bool
) -> None:
    written = json.dumps(theirs, indent=indent, ensure_ascii=escaped).encode()
    body = {**theirs, "model": "ours", "stream": True}

    sent = as_sent(body, written, same)

    assert json.loads(sent) == body
    if theirs.get("model") == "ours" and theirs.get("stream") is True:
        assert sent == written
    for name, value in theirs.items():
        if name not in OURS:
            assert json.dumps(value, indent=indent, ensure_ascii=escaped).encode().split(b"\n")[0] in sent


def test_a_body_that_says_the_same_is_sent_to_the_byte() -> None:
    written = b' {"model" : "m", "stream":true, "x":  [1.0,\t2e0], "y":"\\u00e9"} '

    assert as_sent({"model": "m", "stream": True, "x": [1, 2], "y": "é"}, written, same) == written


def test_one_value_is_put_in_place_of_anothers() -> None:
    written = b'{"x":  1e0 , "model":"m\\u0031", "y":{"model":"m1"}}'

    sent = as_sent({"x": 1, "model": "other", "y": {"model": "m1"}, "stream": True}, written, same)

    assert sent == b'{"x":  1e0 , "model":"other", "y":{"model":"m1"},"stream":true}'


def test_what_the_gateway_says_otherwise_is_not_undone() -> None:
    written = b'{"x":  1e0 , "max":  9, "gone": true, "model":"m"}'

    sent = as_sent({"x": 1, "max": 5, "model": "m"}, written, same)

    assert json.loads(sent) == {"x": 1, "max": 5, "model": "m"}
    assert b'"x":1e0' in sent


def test_what_the_gateway_says_otherwise_is_put_in_its_place() -> None:
    written = b'{"x":  1e0 , "max":  9, "model":"m"}'

    assert as_sent({"x": 1, "max": 5, "model": "m"}, written, same) == b'{"x":  1e0 , "max":  5, "model":"m"}'


def test_a_field_that_says_nothing_stays_where_all_else_does() -> None:
    written = b'{"choice": {"type": "auto"}, "model":"m"}'

    def meant(name: str, value: object) -> object:
        return ABSENT if value == {"type": "auto"} else value

    assert as_sent({"model": "m"}, written, meant) == written


def test_a_name_that_stands_twice_is_the_gateways_to_read() -> None:
    assert as_sent({"model": "m", "x": 2}, b'{"x":1,"model":"m","x":2}', same) == b'{"model":"m","x":2}'


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (b'{ "model" : "a", "x":[1e0, null] }', b'{ "model" : "m", "x":[1e0, null] }'),
        (b'{"model":"m","x":1.0}', b'{"model":"m","x":1.0}'),
        (b'{"x":"\\"model\\":"}', b'{"x":"\\"model\\":"}'),
        (b'{"model":"a","model":"bcd"}', b'{"model":"m"}'),
    ],
)
def test_a_name_of_a_model_is_put_in_its_place_and_nothing_else_is_changed(written: bytes, expected: bytes) -> None:
    assert with_strings(written, {"model": "m"}) == expected


def test_a_text_is_cut_out_wherever_and_however_it_is_written() -> None:
    assert without_texts(b'{"a":"s+/=","b": "t"}', ("s+/=", "t")) == (b'{"a":"', b'","b": "', b'"}')
    assert without_texts(b'{ "a":"s\\u003d" }', ("s=",)) == (b'{"a":"', b'"}')
