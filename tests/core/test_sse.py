"""Server-sent events are read the same however the bytes arrive."""

import itertools
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg_core.errors import EngineGarbled
from smg_core.sse import DataReader, ServerSentEvent, SseReader, write_event


def read(data: bytes, *cuts: int, limit: int = 1 << 20) -> list[ServerSentEvent]:
    reader = SseReader(max_event_bytes=limit)
    edges = [0, *sorted(cuts), len(data)]
    return [event for a, b in itertools.pairwise(edges) for event in reader.feed(data[a:b])]


def slow_reference(data: bytes) -> list[ServerSentEvent]:
    """The standard's algorithm, over the whole stream at once, by another road."""
    text = data.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "replace")
    *lines, _ = re.split("\r\n|\n|\r", text)
    events, buffer, kind, last_id, retry = [], None, "", "", None
    for line in lines:
        if line == "":
            if buffer is not None:
                events.append(ServerSentEvent(buffer[:-1], kind or "message", last_id, retry))
            buffer, kind, retry = None, "", None
            continue
        if line.startswith(":"):
            continue
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            buffer = (buffer or "") + value + "\n"
        elif name == "event":
            kind = value
        elif name == "id" and "\0" not in value:
            last_id = value
        elif name == "retry" and value.isascii() and value.isdigit() and len(value) < 10:
            retry = int(value)
    return events


pieces = st.sampled_from(
    [
        b"data",
        b":",
        b" ",
        b"\r",
        b"\n",
        b"\r\n",
        b"\n\n",
        b"event: a",
        b"id: 7",
        b"retry: 10",
        b"data: x",
        b"\xef\xbb\xbf",
        b": note",
        "data: é\u2028ü".encode(),
        b"\xff",
        b"\0",
        b"other: y",
        b"\r\r",
    ]
)
streams = st.lists(pieces, max_size=40).map(b"".join)


@given(streams, st.data())
def test_any_split_reads_the_same_events(data, draw):
    cuts = draw.draw(st.lists(st.integers(0, len(data)), max_size=8))
    assert read(data, *cuts) == slow_reference(data)


@given(streams)
def test_byte_by_byte_reads_the_same_events(data):
    assert read(data, *range(len(data))) == slow_reference(data)


def test_every_line_ending_ends_a_line():
    for end in (b"\n", b"\r", b"\r\n"):
        assert read(b"event: done" + end + b"data: 1" + end + b"data: 2" + end + end) == [
            ServerSentEvent("1\n2", "done")
        ]


def test_a_crlf_split_between_two_reads_is_one_line_ending():
    reader = SseReader()
    assert reader.feed(b"data: 1\r") == []
    assert reader.feed(b"\n") == []
    assert reader.feed(b"\r") == [ServerSentEvent("1")]
    assert reader.feed(b"\ndata: 2\n\n") == [ServerSentEvent("2")]


def test_an_event_that_the_end_cuts_short_is_dropped():
    assert read(b"data: whole\n\ndata: half\n") == [ServerSentEvent("whole")]


def test_an_id_lasts_until_the_next_and_one_with_a_nul_is_ignored():
    found = read(b"id: 1\ndata: a\n\ndata: b\n\nid: \0\ndata: c\n\nid\ndata: d\n\n")
    assert [event.id for event in found] == ["1", "1", "1", ""]


def test_an_endless_line_is_refused_before_it_is_held():
    reader = SseReader(max_event_bytes=100)
    reader.feed(b"data: " + b"x" * 90)
    with pytest.raises(EngineGarbled, match="100 bytes"):
        reader.feed(b"x" * 10)


def test_an_event_of_endless_lines_is_refused():
    reader = SseReader(max_event_bytes=100)
    for _ in range(14):
        reader.feed(b"data: x\n")
    with pytest.raises(EngineGarbled):
        reader.feed(b"data: x\n")


def test_endless_comments_are_not_an_event():
    reader = SseReader(max_event_bytes=100)
    for _ in range(1000):
        assert reader.feed(b": still here\n") == []
    assert reader.feed(b"data: x\n\n") == [ServerSentEvent("x")]


@given(st.text(st.characters(exclude_categories=["Cs"])), st.sampled_from([None, "delta", "a b"]))
def test_what_is_written_is_read_back(text, name):
    """The standard has no way to keep a CR apart from an LF within data."""
    [event] = read(write_event(text.encode(), name))
    assert event.event == (name or "message")
    assert event.data == re.sub("\r\n|\r", "\n", text)


def test_an_event_name_of_two_lines_is_not_written():
    with pytest.raises(ValueError, match="one line"):
        write_event(b"x", event="a\ndata: smuggled")


# ------------------------------------------------------------------------------------------------------------ data alone


def data_of(data: bytes, *cuts: int, limit: int = 1 << 20) -> list[bytes]:
    reader = DataReader(max_event_bytes=limit)
    edges = [0, *sorted(cuts), len(data)]
    return [each for a, b in itertools.pairwise(edges) for each in reader.feed(data[a:b])]


@given(streams, st.data())
def test_data_alone_are_those_of_the_events_however_they_are_cut(data, draw):
    cuts = draw.draw(st.lists(st.integers(0, len(data)), max_size=8))
    wanted = [event.data for event in slow_reference(data)]
    assert [each.decode("utf-8", "replace") for each in data_of(data, *cuts)] == wanted
    assert [each.decode("utf-8", "replace") for each in data_of(data, *range(len(data)))] == wanted


def test_data_of_an_event_whose_last_line_end_is_missing_are_the_rest():
    for tail in (b"data: [DONE]", b"data: [DONE]\n", b": note\ndata: [DONE]\r\n"):
        reader = DataReader()
        assert reader.feed(b"data: 1\n\n" + tail) == [b"1"]
        assert reader.rest() == b"[DONE]"
        assert reader.rest() is None


def test_data_without_an_end_are_refused_before_they_are_held():
    for piece in (b"x" * 10, b"data: x\n"):
        reader = DataReader(max_event_bytes=100)
        for _ in range(100 // len(piece)):
            reader.feed(piece)
        with pytest.raises(EngineGarbled, match="100 bytes"):
            reader.feed(piece)


def test_comments_do_not_count_for_data_alone():
    reader = DataReader(max_event_bytes=100)
    for _ in range(200):
        assert reader.feed(b": ping\n") == []
    assert reader.feed(b"data: x\n\n") == [b"x"]
