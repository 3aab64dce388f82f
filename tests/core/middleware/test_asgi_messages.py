"""The messages that an ASGI middleware sends and gives: what a server could not write is its failure, whatever it is."""

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg_core.middleware.asgi_messages import STARTS, SentAnswer, check_received
from smg_core.middleware.base import MiddlewareFault

START = {"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"5")]}


def body(data: object, *, more: bool = False) -> dict[str, object]:
    return {"type": "http.response.body", "body": data, "more_body": more}


def taken(*messages: Any, method: str = "POST") -> SentAnswer:
    answer = SentAnswer(method)
    for each in messages:
        answer.take(each)
    return answer


def test_an_answer_in_order_is_taken() -> None:
    answer = taken(START, body(b"Hel", more=True), body(b"lo"))
    assert (answer.status, answer.started, answer.ended, answer.written) == (200, True, True, 5)


def test_a_websocket_in_order_is_taken() -> None:
    accept = {"type": "websocket.accept", "subprotocol": "a.b"}
    close = {"type": "websocket.close", "code": 4001, "reason": "x" * 123}
    assert taken(
        accept, {"type": "websocket.send", "text": "é"}, {"type": "websocket.send", "bytes": b"x"}, close
    ).ended
    assert taken({"type": "websocket.close"}).status == 403


def test_headers_that_can_be_read_once_are_kept() -> None:
    def headers() -> Iterator[tuple[bytes, bytes]]:
        yield b"x-a", b"1"

    assert taken({**START, "headers": headers()}).headers == [(b"x-a", b"1")]


@pytest.mark.parametrize("method", ["HEAD", "POST"])
def test_an_answer_without_a_body_may_name_its_length(method: str) -> None:
    status = 200 if method == "HEAD" else 304
    assert taken({**START, "status": status}, body(b""), method=method).ended


@pytest.mark.parametrize(
    "messages",
    [
        (body(b"before the head"),),
        (START, START),
        (START, body(b"Hello"), body(b"more")),
        (START, body(b"Hello!", more=True)),
        (START, body(b"Hell")),
        (START, body("Hello")),
        ({"type": "websocket.accept"}, {"type": "websocket.send"}),
        ({"type": "websocket.accept"}, {"type": "websocket.send", "text": b"x"}),
        ({"type": "websocket.accept"}, {"type": "websocket.send", "text": "\ud800"}),
        ({"type": "websocket.send", "text": "before it is accepted"},),
        ({"type": "websocket.accept"}, {"type": "websocket.close"}, {"type": "websocket.send", "text": "after"}),
        ({"type": "websocket.accept"}, {"type": "websocket.close"}, {"type": "websocket.close"}),
        ({"type": "websocket.accept", "subprotocol": "a\r\nb"},),
        ({"type": "websocket.accept", "subprotocol": 7},),
        ({"type": "websocket.accept"}, {"type": "websocket.close", "code": 99999}),
        ({"type": "websocket.accept"}, {"type": "websocket.close", "code": "abc"}),
        ({"type": "websocket.accept"}, {"type": "websocket.close", "code": 1005}),
        ({"type": "websocket.accept"}, {"type": "websocket.close", "reason": "x" * 124}),
        ({"type": "websocket.accept"}, {"type": "websocket.close", "reason": "\ud800"}),
        ({"type": "http.response.start", "status": 204}, body(b"x")),
        ({"type": "http.response.start", "status": 200, "headers": [(b"Transfer-Encoding", b"gzip")]},),
    ],
)
def test_an_answer_that_no_server_could_write_is_a_failure(messages: tuple[Any, ...]) -> None:
    taken(*messages[:-1])
    with pytest.raises(MiddlewareFault):
        taken(*messages)


def test_bytes_that_were_written_without_a_message_count() -> None:
    answer = taken(START)
    answer.take(body(b"lo"), direct_bytes=3)
    assert answer.ended


def test_a_message_of_an_extension_is_left_to_the_server_that_has_it() -> None:
    message = {"type": "http.response.pathsend", "path": "/x"}
    with pytest.raises(MiddlewareFault):
        SentAnswer("GET").take(message)
    SentAnswer("GET", {"http.response.pathsend": {}}).take(message)


ANYTHING = st.none() | st.booleans() | st.integers() | st.text() | st.binary() | st.lists(st.binary(), max_size=3)
MESSAGES = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from([*STARTS, "http.response.body", "websocket.send", "http.request", "websocket.receive"])
        | ANYTHING,
        "status": st.integers(0, 700) | ANYTHING,
        "headers": st.lists(st.tuples(st.binary(), st.binary()), max_size=3) | ANYTHING,
        "body": ANYTHING,
        "text": ANYTHING,
        "bytes": ANYTHING,
        "more_body": ANYTHING,
    },
)


@given(messages=st.lists(MESSAGES | ANYTHING, max_size=5))
def test_whatever_is_sent_is_taken_or_a_failure_that_changes_nothing(messages: list[Any]) -> None:
    answer = SentAnswer("POST")
    for each in messages:
        before = answer.started, answer.ended, answer.status, answer.written
        try:
            answer.take(each)
        except MiddlewareFault:
            assert (answer.started, answer.ended, answer.status, answer.written) == before
        else:
            assert all(b"\n" not in value for _, value in answer.headers)


@given(message=MESSAGES | ANYTHING)
def test_whatever_is_given_is_a_message_or_a_failure(message: Any) -> None:
    try:
        check_received(message)
    except MiddlewareFault:
        return
    assert isinstance(message["type"], str)
