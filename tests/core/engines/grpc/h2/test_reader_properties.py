"""However bytes are cut into reads, and whatever bytes they are."""

import random
import struct
from functools import cache
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.core.engines.grpc.h2.wire import (
    CONTINUATION,
    DATA,
    HEADERS,
    OK_HEAD,
    PING,
    RST,
    UPDATE,
    Server,
    Sink,
    frame,
    message,
    prefixed,
)
from tests.tiers import examples

from smg_core.engines.settings import EnginesConfig
from smg_core.errors import SmgError

from . import wire

LIMITS = EnginesConfig(
    message_bytes=100_000,
    held_bytes=200_000,
    stream_window_bytes=70_000,
    connection_window_bytes=140_000,
    header_block_bytes=4096,
    idle_frames=200,
)
CALLS = 4


def conversation(seed: int, size: int) -> bytes:
    """What a server might send on `CALLS` calls: every kind of frame, messages cut at random, each call's own end."""
    rng, server = random.Random(seed), Server(LIMITS)
    numbers = [2 * n + 1 for n in range(CALLS)]
    out = []
    for number in numbers:
        block = server.encoder.encode([*OK_HEAD, ("x-call", str(number))])
        cut = rng.randrange(len(block))
        if rng.random() < 0.5:
            out += [frame(HEADERS, 0, number, block[:cut]), frame(CONTINUATION, 4, number, block[cut:])]
        else:
            out.append(frame(HEADERS, 4, number, block))
    for _ in range(size):
        number, content = rng.choice(numbers), rng.randbytes(rng.choice((0, 1, 40, 41, 300)))
        body = prefixed(content)
        match rng.randrange(8):
            case 0:
                cut = rng.randrange(len(body))
                out += [frame(DATA, 0, number, body[:cut]), frame(DATA, 8, number, b"\x02" + body[cut:] + b"\0\0")]
            case 1:
                out.append(frame(PING, 0, 0, rng.randbytes(8)))
            case 2:
                out.append(frame(DATA, 0, number, body + prefixed(b"joined") + prefixed(b"")))
            case 3:
                out.append(frame(UPDATE, 0, rng.choice((0, number)), struct.pack(">I", 100)))
            case _:
                out.append(message(number, content))
    out.append(server.trailers(1))
    out.append(server.trailers(3, 3, "bad%20request"))
    out.append(frame(RST, 0, 5, struct.pack(">I", 8)))
    out.append(message(7, b"the last") + server.trailers(7))
    return b"".join(out)


Told = list[tuple[list[bytes], str | None]]


def told_by(pieces: list[bytes]) -> tuple[Told, list[tuple[int, int, int, bytes]]]:
    """What the receivers are told, and what is answered other than window, when the bytes come in these reads."""
    server = Server(LIMITS)
    sinks = [Sink() for _ in range(CALLS)]
    for sink in sinks:
        server.call(sink)
    server.take()
    for piece in pieces:
        server.say(piece)
    answers = [answer for answer in server.take() if answer[0] != UPDATE]
    return [(sink.got, str(sink.error)) for sink in sinks], answers


@cache
def recorded() -> tuple[bytes, tuple[Told, list[tuple[int, int, int, bytes]]]]:
    data = conversation(seed=7, size=40)
    return data, told_by([data])


def test_the_recorded_conversation_says_something() -> None:
    (told, answers) = recorded()[1]
    assert sum(len(got) for got, _ in told) > 30
    assert [error for _, error in told][:2] == [
        "None",
        "The engine rejected the request. (INVALID_ARGUMENT: bad request)",
    ]
    assert answers


@pytest.mark.full
def test_every_two_way_split_of_the_bytes_gives_the_same_pushes() -> None:
    data, whole = recorded()
    for cut in range(len(data)):
        assert told_by([data[:cut], data[cut:]]) == whole, f"cut at {cut}"


def test_one_byte_a_read_gives_the_same_pushes() -> None:
    data, whole = recorded()
    assert told_by([data[at : at + 1] for at in range(len(data))]) == whole


@given(seed=st.integers(0, 10**6), cuts=st.lists(st.integers(0, 5000), max_size=30))
@settings(max_examples=examples(60), deadline=None)
def test_random_splits_of_random_conversations_give_the_same_pushes(seed: int, cuts: list[int]) -> None:
    data = conversation(seed, 60)
    edges = [0, *sorted(cut for cut in cuts if cut < len(data)), len(data)]
    pieces = [data[start:end] for start, end in pairwise(edges)]
    assert told_by(pieces) == told_by([data])


def survive(pieces: list[bytes]) -> None:
    """Feed what may be rubbish: nothing is raised, nothing is held beyond the limits, and every end comes once."""
    server = Server(LIMITS)
    sinks = [Sink() for _ in range(CALLS)]
    for sink in sinks:
        server.call(sink)
    server.take()
    client = server.client
    for piece in pieces:
        server.say(piece)
        held = sum(len(stream.partial) for stream in client._streams.values())
        assert held == client._held <= LIMITS.held_bytes
        assert len(client._rest) <= 16_384 + 9
        assert len(client._block or b"") <= LIMITS.header_block_bytes
        assert len(b"".join(client.out)) < 100 * len(piece) + 10_000
        server.take()
        if client.failure is not None:
            assert isinstance(client.failure, SmgError)
            assert all(len(sink.ended) == 1 for sink in sinks)
    client.lost(client.failure or SmgError("over"))
    assert all(len(sink.ended) == 1 for sink in sinks)
    assert client._held == 0


@given(st.lists(st.binary(max_size=300), max_size=20))
@settings(max_examples=examples(300), deadline=None)
def test_arbitrary_bytes_do_no_harm(pieces: list[bytes]) -> None:
    survive(pieces)


headers_like = st.builds(
    frame,
    st.integers(0, 11),
    st.sampled_from([0, 1, 4, 5, 8, 9, 0xC, 0x20, 0x24, 0x2D, 0xFF]),
    st.sampled_from([0, 1, 2, 3, 5, 7, 9, 2**31 - 1, 2**32 - 1]),
    st.one_of(
        st.binary(max_size=64),
        st.sampled_from([b"\x88", b"\x88\x5f\x10application/grpc", b"\x40\x0bgrpc-status\x010", b"\xbe"]),
        st.builds(prefixed, st.binary(max_size=40)),
        st.builds(
            lambda size, rest: b"\0" + struct.pack(">I", size) + rest, st.integers(0, 2**32 - 1), st.binary(max_size=40)
        ),
        st.builds(lambda *values: struct.pack(">I", values[0]), st.integers(0, 2**32 - 1)),
        st.builds(lambda key, value: struct.pack(">HI", key, value), st.integers(0, 8), st.integers(0, 2**32 - 1)),
    ),
)


@pytest.mark.full
@given(st.lists(headers_like, max_size=40), st.booleans())
@settings(max_examples=examples(500), deadline=None)
def test_arbitrary_frames_do_no_harm(frames: list[bytes], together: bool) -> None:
    survive([b"".join(frames)] if together else frames)


@pytest.mark.full
@given(
    seed=st.integers(0, 50),
    edits=st.lists(
        st.tuples(st.integers(0, 10_000), st.integers(0, 255), st.sampled_from("xid")), min_size=1, max_size=6
    ),
    step=st.integers(1, 4000),
)
@settings(max_examples=examples(300), deadline=None)
def test_damaged_conversations_do_no_harm(seed: int, edits: list[tuple[int, int, str]], step: int) -> None:
    data = bytearray(conversation(seed, 30))
    for at, value, how in edits:
        at %= len(data)
        if how == "x":
            data[at] ^= value
        elif how == "i":
            data.insert(at, value)
        else:
            del data[at]
    survive([bytes(data[at : at + step]) for at in range(0, len(data), step)])


@pytest.mark.parametrize("kind", [wire.DATA, wire.HEADERS, wire.CONTINUATION, wire.SETTINGS])
def test_a_frame_that_never_ends_is_not_kept_beyond_its_limit(kind: int) -> None:
    survive([b"\xff\xff\xff" + bytes((kind, 0)) + bytes(4), *[bytes(1000)] * 50])
