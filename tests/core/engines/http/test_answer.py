"""Answers are read the same however their bytes are cut, and what is none is named."""

from collections.abc import Iterable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg_core.engines.http.answer import AnswerReader
from smg_core.errors import EngineGarbled

MOST = 2000


def read(pieces: Iterable[bytes], *, ended: bool = False, most: int = MOST) -> tuple[AnswerReader, bytes]:
    reader = AnswerReader(most)
    reader.begin()
    body = b"".join([reader.feed(piece) for piece in pieces if piece and not reader.done])
    if ended:
        reader.end()
    return reader, body


def chunked(*chunks: bytes) -> bytes:
    return b"".join(b"%x\r\n%s\r\n" % (len(each), each) for each in (*chunks, b""))


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + chunked(b"one ", b"two")
ANSWERS: dict[str, tuple[bytes, bool]] = {
    # bytes, whether the connection may be used again
    "a length": (HEAD + b"Content-Length: 7\r\n\r\none two", True),
    "chunks": (CHUNKED, True),
    "chunks with extensions and a trailer": (
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n4;a=b\r\none \r\n3\r\ntwo\r\n0\r\nX-Sum: 1\r\n\r\n",
        True,
    ),
    "until the end": (HEAD + b"\r\none two", False),
    "to be closed": (HEAD + b"Connection: close\r\nContent-Length: 7\r\n\r\none two", False),
    "of HTTP/1.0": (b"HTTP/1.0 200 OK\r\ncontent-type: text/event-stream\r\n\r\none two", False),
    "after others": (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + CHUNKED, True),
}


@pytest.mark.parametrize(("data", "again"), ANSWERS.values(), ids=ANSWERS)
@given(cuts=st.lists(st.integers(0, 200), max_size=12))
def test_an_answer_is_the_same_however_it_is_cut(data: bytes, again: bool, cuts: list[int]) -> None:
    places = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    reader, body = read((data[a:b] for a, b in pairwise(places)), ended=True)

    assert (reader.status, body, reader.fault) == (200, b"one two", None)
    assert reader.headers["content-type"] == "text/event-stream"
    assert (reader.done, reader.keep_alive) == (True, again)


def test_answers_come_one_after_the_other() -> None:
    reader = AnswerReader(MOST)
    for text in (b"first", b"second"):
        reader.begin()
        assert not reader.begun
        assert reader.feed(HEAD + b"content-length: %d\r\n\r\n" % len(text) + text) == text
        assert reader.done
        assert reader.keep_alive


def test_values_of_a_header_that_is_there_twice_are_joined() -> None:
    reader, _ = read([b"HTTP/1.1 204 No Content\r\nX-A: 1\r\nx-a:  2 \r\n\r\n"])

    assert reader.headers == {"x-a": "1, 2"}
    assert reader.done


@pytest.mark.parametrize("status", [204, 304])
def test_an_answer_that_has_no_body_is_whole_with_its_head(status: int) -> None:
    reader, body = read([b"HTTP/1.1 %d Any\r\n\r\n" % status])

    assert (reader.done, body) == (True, b"")


def test_more_than_the_answer_leaves_it_as_it_is_and_ends_the_connections_use() -> None:
    reader, body = read([CHUNKED + b"HTTP/1.1 200 OK\r\n\r\n"])

    assert (reader.done, reader.keep_alive, body, reader.fault) == (True, False, b"one two", None)


def test_what_comes_unasked_is_a_fault() -> None:
    reader = AnswerReader(MOST)
    assert reader.feed(CHUNKED) == b""
    assert type(reader.fault) is EngineGarbled


def test_a_body_without_its_end_is_not_whole() -> None:
    reader, body = read([CHUNKED[:-5]], ended=True)

    assert (reader.done, body) == (False, b"one two")


BROKEN: dict[str, tuple[bytes, str]] = {
    "no HTTP": (b"SSH-2.0-OpenSSH_9.6\r\n\r\n", "does not speak"),
    "HTTP/2": (b"\0\0\6\4\0\0\0\0\0\0\3\0\0\0d", "does not speak"),
    "two lengths": (HEAD + b"content-length: 1\r\ncontent-length: 2\r\n\r\nab", "does not speak"),
    "a length and chunks": (
        HEAD + b"content-length: 3\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        "does not speak",
    ),
    "a space before the colon": (b"HTTP/1.1 200 OK\r\ncontent-length : 1\r\n\r\na", "does not speak"),
    "another protocol": (b"HTTP/1.1 101 Switching\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n", "does not speak"),
    "a chunk without a size": (HEAD + b"transfer-encoding: chunked\r\n\r\nzz\r\n", "broke HTTP"),
    "a head too long": (HEAD + b"x: " + b"a" * MOST, "does not speak"),
    "a head of one line": (b"HTTP/1.1 200 " + b"a" * MOST, "does not speak"),
    "heads without an end": (b"HTTP/1.1 100 Continue\r\n\r\n" * 200, "does not speak"),
    "an extension without an end": (HEAD + b"transfer-encoding: chunked\r\n\r\n1;" + b"a" * 3 * MOST, "broke HTTP"),
    "trailers without an end": (CHUNKED[:-2] + b"x: y\r\n" * MOST, "broke HTTP"),
}


@pytest.mark.parametrize("size", [1, 97, 4096])
@pytest.mark.parametrize(("data", "told"), BROKEN.values(), ids=BROKEN)
def test_what_is_no_answer_is_named_and_costs_no_memory(data: bytes, told: str, size: int) -> None:
    reader = AnswerReader(MOST)
    reader.begin()
    for place in range(0, len(data), size):
        if reader.fault is None and not reader.done:
            reader.feed(data[place : place + size])

    assert type(reader.fault) is EngineGarbled
    assert told in reader.fault.message


@given(st.binary(max_size=400), st.integers(1, 50))
def test_no_bytes_make_it_raise(data: bytes, size: int) -> None:
    for before in (b"", HEAD, HEAD + b"transfer-encoding: chunked\r\n\r\n"):
        read((before, *(data[at : at + size] for at in range(0, len(data), size))), ended=True)
