"""Frames of the Responses API over a WebSocket: whatever a client sends is read or refused, and every event is one frame."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg_core.apis.responses.wire.frames import error_frame, event_frames, read_frame, steer_failed
from smg_core.errors import InvalidRequest, SmgError
from smg_core.sse import COMMENT, write_event

LANES = st.text(min_size=1, max_size=64).filter(lambda text: "\ud800" not in text)
TEXTS = st.text(max_size=30)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)
FIELDS = st.dictionaries(TEXTS.filter(lambda name: name not in ("type", "stream_id", "background")), VALUES, max_size=6)


@given(FIELDS, st.none() | LANES)
def test_a_create_is_the_body_by_http_streamed_and_its_lane(fields: dict[str, Any], lane: str | None) -> None:
    frame = read_frame(json.dumps({**fields, "type": "response.create", "stream_id": lane}).encode())
    assert (frame.kind, frame.stream_id) == ("response.create", lane)
    assert json.loads(frame.body) == {**fields, "stream": True}


@given(st.binary(max_size=60) | FIELDS.map(lambda fields: json.dumps(fields).encode()))
def test_whatever_comes_is_read_or_refused_as_the_clients_fault(data: bytes) -> None:
    status = 200
    try:
        read_frame(data)
    except SmgError as error:
        status = error.status
    assert status in (200, 400)


@given(FIELDS, st.sampled_from(["type", "stream_id", "background"]), VALUES)
def test_a_field_of_the_frame_itself_is_refused_by_its_name(fields: dict[str, Any], name: str, value: Any) -> None:
    sent = {**fields, "type": "response.create", name: value}
    refused: str | None = name
    try:
        read_frame(json.dumps(sent).encode())
    except InvalidRequest as error:
        refused = error.param
    assert refused == name


@pytest.mark.full
@given(st.lists(st.tuples(st.sampled_from(["response.created", "error"]), FIELDS), max_size=5), st.none() | LANES)
def test_every_event_of_a_stream_is_a_frame_that_names_its_lane(
    events: list[tuple[str, dict[str, Any]]], lane: str | None
) -> None:
    made = [{"type": kind, **fields} for kind, fields in events]
    stream = COMMENT.join(write_event(json.dumps(each).encode(), each["type"]) for each in made)
    frames = [json.loads(text) for text in event_frames(stream, lane)]
    assert frames == [each if lane is None else {**each, "stream_id": lane} for each in made]


@given(TEXTS, st.integers(400, 599), st.none() | LANES)
def test_an_error_keeps_its_status_its_envelope_and_when_to_come_again(
    said: str, status: int, lane: str | None
) -> None:
    envelope = {"message": said, "type": "server_error", "param": None, "code": None}
    headers = [(b"retry-after", b"3"), (b"content-type", b"application/json")]
    frame = json.loads(error_frame(status, json.dumps({"error": envelope}).encode(), headers, lane))
    assert frame.pop("stream_id", None) == lane
    assert frame == {"type": "error", "status": status, "error": {**envelope, "headers": {"retry-after": "3"}}}


@given(VALUES, TEXTS)
def test_a_steer_comes_back_with_all_of_its_input(given_input: Any, previous: str) -> None:
    sent = {"type": "response.steer", "input": given_input, "previous_response_id": previous}
    told = json.loads(steer_failed(read_frame(json.dumps(sent).encode())))
    assert told["steer"] == {"input": given_input, "previous_response_id": previous}


@pytest.mark.parametrize("missing", ["input", "previous_response_id"])
def test_a_steer_without_what_it_needs_is_refused_by_name(missing: str) -> None:
    sent = {"type": "response.steer", "input": "x", "previous_response_id": "resp_1"}
    del sent[missing]
    with pytest.raises(InvalidRequest) as raised:
        steer_failed(read_frame(json.dumps(sent).encode()))
    assert raised.value.param == missing
