"""The header `traceparent`: what W3C Trace Context allows, and nothing else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg_core.observability.trace_context import RemoteSpan, passed_on, remote_span, settle, trace_id_of, traceparent

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


@pytest.mark.parametrize(
    "header",
    [f"00-{TRACE}-{SPAN}-01", f"00-{TRACE}-{SPAN}-00", f"cc-{TRACE}-{SPAN}-01-what-comes", f"00-{TRACE}-{SPAN}-01 \t"],
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


def test_the_span_of_the_sender_is_read_with_its_flag_and_state() -> None:
    found = remote_span({"traceparent": f"00-{TRACE}-{SPAN}-01", "tracestate": "vendor=a,other=b"})
    unsampled = remote_span({"traceparent": f"00-{TRACE}-{SPAN}-02"})

    assert found == RemoteSpan(TRACE, SPAN, True, "vendor=a,other=b")
    assert unsampled == RemoteSpan(TRACE, SPAN, False)
    assert remote_span({"tracestate": "vendor=a"}) is None


@pytest.mark.parametrize(
    "state", ["a=" + "x" * 511, ",".join(f"a{each}=b" for each in range(33)), "a=b\r\nx: y", "a=\x00", "a=ü"]
)
def test_a_state_that_could_not_be_sent_on_is_left_out(state: str) -> None:
    passed = passed_on({"traceparent": f"00-{TRACE}-{SPAN}-01", "tracestate": state})

    assert passed is not None
    assert passed.outgoing().metadata == (("traceparent", f"00-{TRACE}-{SPAN}-01"),)


@given(st.integers(1, 2**128 - 1), st.integers(1, 2**64 - 1), st.booleans())
def test_what_is_written_is_read_as_the_same(trace: int, span: int, sampled: bool) -> None:
    header = traceparent(f"{trace:032x}", f"{span:016x}", sampled=sampled)

    assert remote_span({"traceparent": header}) == RemoteSpan(f"{trace:032x}", f"{span:016x}", sampled)


@given(st.text(), st.text())
def test_what_goes_on_is_always_a_header(header: str, state: str) -> None:
    passed = passed_on({"traceparent": header, "tracestate": state})

    for _, value in () if passed is None else passed.outgoing().metadata:
        assert value.isascii()
        assert value.isprintable()


def test_two_parents_are_none_and_several_states_are_one_list() -> None:
    parent, other = (f"00-{TRACE}-{each}-01".encode() for each in (SPAN, SPAN[::-1]))
    sent = [(b"traceparent", parent), (b"tracestate", b"a=1"), (b"x", b"y"), (b"tracestate", b"b=2")]
    for more in ([], [(b"traceparent", other)], [(b"traceparent", parent)]):
        headers = {name.decode(): value.decode() for name, value in (*sent, *more)}
        settle(headers, [*sent, *more])

        assert ("traceparent" in headers) == (not more)
        assert headers["tracestate"] == "a=1,b=2"
        assert (remote_span(headers) is None) == bool(more)


def test_a_state_of_as_many_members_as_may_be_goes_on() -> None:
    state = ",".join([*(f"a{each}=b" for each in range(32)), " ", ""])
    found = remote_span({"traceparent": f"00-{TRACE}-{SPAN}-01", "tracestate": state})

    assert found is not None
    assert found.state == state.rstrip()
