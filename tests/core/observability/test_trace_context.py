"""The header `traceparent`: what W3C Trace Context allows, and nothing else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg_core.observability.trace_context import trace_id_of

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


@pytest.mark.parametrize(
    "header", [f"00-{TRACE}-{SPAN}-01", f"00-{TRACE}-{SPAN}-00", f"cc-{TRACE}-{SPAN}-01-what-comes"]
)
def test_the_trace_of_a_valid_header_is_taken(header: str) -> None:
    assert trace_id_of(header) == TRACE


@pytest.mark.parametrize(
    "header",
    [
        "",
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{TRACE.upper()}-{SPAN}-01",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE}-{SPAN}-01-more",
        f"00-{TRACE}-{SPAN}",
        f" 00-{TRACE}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-01\n",
    ],
)
def test_a_header_that_is_none_is_no_trace(header: str) -> None:
    assert trace_id_of(header) == ""


@given(st.text())
def test_any_text_is_a_trace_or_none(header: str) -> None:
    assert len(trace_id_of(header)) in (0, 32)
