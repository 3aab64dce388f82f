"""Lines of a batch are looked at within bounds, whatever they hold."""

import json
import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg_core.protocols.batches import refusal

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
