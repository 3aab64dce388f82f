"""Lines of a batch are looked at within bounds, whatever they hold."""

import json
import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg_core.batches.types import LineCheck, refusal

SHAPES = [b"true", b"1", b'"no"', b"{}", b"[false]", b"[" + b"{}," * 300_000 + b"{}]", b'{"a":' * 60 + b"1" + b"}" * 60]


@pytest.mark.parametrize("field", ["stream", "background"])
@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape[:10].decode())
def test_a_field_that_a_request_cannot_have_is_named_whatever_its_shape_and_nothing_is_made_of_it(
    field: str, shape: bytes
) -> None:
    body = b'{"model":"m","%s": %s }' % (field.encode(), shape)
    tracemalloc.start()
    try:
        assert refusal(body) == field
        assert tracemalloc.get_traced_memory()[1] < 10_000
    finally:
        tracemalloc.stop()


@given(st.sampled_from([None, False]), st.sampled_from([None, False]), st.sampled_from([None, 1]))
def test_fields_that_are_null_or_false_are_as_if_they_were_not_there(
    stream: Any, background: Any, indent: int | None
) -> None:
    given = {"stream": stream, "background": background}
    assert refusal(json.dumps(given, indent=indent).encode()) is None
    assert refusal(b"{}") is None


def check(**bounds: int) -> LineCheck:
    given = {"most": 1000, "most_faults": 3, "most_characters": 64, "most_values": 1000, **bounds}
    return LineCheck("/v1/completions", **given)


def line(id: str, **fields: Any) -> bytes:
    return json.dumps({"custom_id": id, "method": "POST", "url": "/v1/completions", **fields}).encode()


@pytest.mark.parametrize("place", ["body", "custom_id", "more"])
def test_a_line_of_too_many_values_is_a_fault_and_nothing_is_made_of_them(place: str) -> None:
    many = json.dumps([{}] * 300_000).encode()
    text = line("a", body={}).replace(b'"method"', b'"%s": %s, "method"' % (place.encode(), many))
    checked = check()
    tracemalloc.start()
    try:
        checked.add([(7, text)])
        assert tracemalloc.get_traced_memory()[1] < len(text)
    finally:
        tracemalloc.stop()
    assert [(fault["code"], fault["line"]) for fault in checked.faults] == [("too_many_values", 7)]


def test_a_body_of_as_many_values_as_it_may_have_is_none() -> None:
    checked = check(most_values=100)
    checked.add([(1, line("a", body={"x": [1] * 98})), (2, line("b", body={}, more=[1] * 98))])
    checked.end()
    assert (checked.faults, checked.count) == ([], 2)
