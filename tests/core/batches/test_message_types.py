"""The requests of a Message Batch are read within the bounds of its API, and kept as lines."""

import io
import json
import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg_core.batches.message_types import write_lines
from smg_core.errors import InvalidRequest, PayloadTooLarge
from smg_core.wire.settings import LimitsConfig

LIMITS = LimitsConfig(json_values=100, json_depth=10)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def written(body: bytes, most_bytes: int = 10_000) -> list[Any]:
    lines = io.BytesIO()
    count = write_lines(io.BytesIO(body).read, lines.write, LIMITS, most=10, most_bytes=most_bytes)
    found = lines.getvalue().split(b"\n")
    assert len(found) == count + 1
    return [json.loads(each) for each in found[:-1]]


def batch(*params: Any, indent: int | None = None) -> bytes:
    requests = [{"custom_id": f"r{number}", "params": each} for number, each in enumerate(params)]
    return json.dumps({"requests": requests}, indent=indent).encode()


@given(st.lists(st.dictionaries(st.text(), VALUES, max_size=3), min_size=1, max_size=3), st.sampled_from([None, 1]))
def test_every_request_is_one_line_however_it_was_written(params: list[Any], indent: int | None) -> None:
    body = batch(*params, indent=indent)
    assert written(body) == written(body.replace(b"\n", b"\r\n")) == json.loads(body)["requests"]


@pytest.mark.parametrize(
    ("params", "refused"),
    [
        ({"x": [1] * 98}, ""),
        ({"x": [1] * 101}, "values"),
        ({"x": [{}] * 100_000}, "values"),
        (json.loads('{"x":' * 26 + "1" + "}" * 26), ""),
        (json.loads('{"x":' * 27 + "1" + "}" * 27), "deep"),
        ({"x": "1,[{" * 2000}, ""),
        ({"x": "a" * 9_990}, ""),
        ({"x": "a" * 12_000}, "bytes"),
    ],
)
def test_a_request_has_as_many_values_levels_and_bytes_as_one_of_its_api(params: Any, refused: str) -> None:
    body = batch({}, params)
    if not refused:
        assert written(body) == json.loads(body)["requests"]
        return
    with pytest.raises((InvalidRequest, PayloadTooLarge), match=refused):
        written(body)


@pytest.mark.parametrize("params", ["a" * 4_000_000, "\n" * 2_000_000, "\u4e00" * 600_000])
def test_a_long_request_takes_the_memory_of_two_of_it(params: str) -> None:
    body = io.BytesIO(batch({"x": params}))
    size = len(body.getvalue())
    tracemalloc.start()
    try:
        write_lines(body.read, len, LIMITS, most=1, most_bytes=size)
        assert tracemalloc.get_traced_memory()[1] < 2.3 * size
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("inside", ["01", "1.", '"\n"', "NaN", "tru", '{"a" 1}', "[1 2]", "[1,]", '"\\q"', "[}", "-"])
def test_what_is_no_json_inside_of_a_request_is_refused(inside: str) -> None:
    with pytest.raises(InvalidRequest, match="JSON") as raised:
        written(b'{"requests":[{"custom_id":"a","params":{"x":%s}}]}' % inside.encode())
    assert raised.value.status == 400
