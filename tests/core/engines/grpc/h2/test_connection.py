"""Frames in, pushes and frames out."""

import struct
import tracemalloc

import pytest
from tests.core.engines.grpc.h2.wire import (
    CONTINUATION,
    DATA,
    GOAWAY,
    HEADERS,
    OK_HEAD,
    PATH,
    PING,
    PRIORITY,
    PUSH,
    RST,
    SETTINGS,
    UPDATE,
    Server,
    Sink,
    frame,
    message,
    open_call,
    prefixed,
    settings,
)

from smg_core.engines.grpc.h2.stream import H2Stream
from smg_core.engines.settings import EnginesConfig
from smg_core.errors import (
    EngineFailed,
    EngineGarbled,
    EngineRejected,
    InternalError,
    SmgError,
    WorkerBusy,
    WorkerGone,
)

CANCEL, REFUSED, FLOW, CALM = 8, 7, 3, 0xB


def u32(value: int) -> bytes:
    return struct.pack(">I", value)


def resets(server: Server) -> list[tuple[int, int]]:
    """`(stream, code)` of the RST_STREAM frames written since the last look."""
    return [(stream, int.from_bytes(payload, "big")) for kind, _, stream, payload in server.take() if kind == RST]


def goaway_code(server: Server) -> int | None:
    codes = [int.from_bytes(payload[4:8], "big") for kind, _, _, payload in server.take() if kind == GOAWAY]
    return codes[0] if codes else None


def sent_bodies(server: Server) -> dict[int, tuple[bytes, bool]]:
    """Bytes of DATA the client wrote a stream, and whether it half-closed."""
    bodies: dict[int, tuple[bytes, bool]] = {}
    for kind, flags, stream, payload in server.take():
        if kind == DATA:
            bodies[stream] = (bodies.get(stream, (b"", False))[0] + payload, bool(flags & 1))
    return bodies


# -------------------------------------------------------------------------------------------------- the client's words


def test_the_client_opens_with_preface_settings_and_a_wide_connection_window() -> None:
    kinds = [(kind, flags) for kind, flags, _, _ in Server().first]
    assert kinds == [(SETTINGS, 0), (UPDATE, 0), (SETTINGS, 1)]


@pytest.mark.parametrize("size", [0, 1, 16_379, 65_535, 65_536, 65_537, 200_000])
def test_a_message_of_any_length_arrives_whole_behind_its_prefix(size: int) -> None:
    server = Server(None, (4, 2**31 - 1), (5, 20_000))
    server.say(frame(UPDATE, payload=u32(2**30)))
    content = bytes(range(251)) * (size // 251 + 1)
    server.call(content=content[:size])
    sent = server.take()
    assert b"".join(payload for kind, _, _, payload in sent if kind == DATA) == prefixed(content[:size])
    assert [bool(flags & 1) for kind, flags, _, _ in sent if kind == DATA][-1]


def test_a_large_message_is_kept_once_however_often_it_may_have_to_be_sent() -> None:
    server, content = Server(), bytes(8 << 20)
    tracemalloc.start()
    try:
        server.call(content=content)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_a_request_is_headers_and_one_data_frame_that_half_closes() -> None:
    server = Server()
    server.call(content=b"hello", metadata=[("x-id", "7")], timeout=1.5)
    (kind, flags, stream, block), data = server.take()
    assert (kind, flags, stream) == (HEADERS, 4, 1)
    assert [(str(name), str(value)) for name, value in server.decoder.decode(block)] == [
        (":method", "POST"),
        (":scheme", "http"),
        (":path", PATH),
        (":authority", "engine"),
        ("te", "trailers"),
        ("content-type", "application/grpc"),
        ("user-agent", "test"),
        ("grpc-timeout", "1500m"),
        ("x-id", "7"),
    ]
    assert data == (DATA, 1, 1, prefixed(b"hello"))


def test_streams_are_numbered_by_odd_numbers() -> None:
    server = Server()
    assert [server.call()[0].id for _ in range(3)] == [1, 3, 5]


def test_a_request_larger_than_a_frame_is_cut() -> None:
    server = Server(None, (4, 10**6))
    server.say(frame(UPDATE, payload=u32(10**6)))
    server.call(content=bytes(40_000))
    sizes = [(len(payload), flags) for kind, flags, _, payload in server.take() if kind == DATA]
    assert sizes == [(16384, 0), (16384, 0), (40_005 - 2 * 16384, 1)]


def test_a_larger_maximum_frame_size_is_used() -> None:
    server = Server(None, (4, 10**6), (5, 30_000))
    server.say(frame(UPDATE, payload=u32(10**6)))
    server.call(content=bytes(40_000))
    assert [len(payload) for kind, _, _, payload in server.take() if kind == DATA] == [30_000, 10_005]


def test_headers_larger_than_a_frame_are_continued() -> None:
    server = Server(EnginesConfig(metadata_bytes=100_000))
    server.call(metadata=[("x", "y" * 20_000)])
    written = server.take()
    assert [(kind, flags) for kind, flags, _, _ in written] == [(HEADERS, 0), (CONTINUATION, 4), (DATA, 1)]
    fields = dict(server.decoder.decode(written[0][3] + written[1][3]))
    assert fields["x"] == "y" * 20_000


def test_a_resized_header_table_is_acknowledged_in_the_next_block() -> None:
    server = Server(None, (1, 0))
    server.decoder.header_table_size = 0
    server.call()
    block = server.take()[0][3]
    assert block[0] == 0x20
    assert dict(server.decoder.decode(block))[":path"] == PATH


# ------------------------------------------------------------------------------------------------------ sending window


def test_a_request_stops_at_the_streams_window_and_goes_on_when_it_is_granted_more() -> None:
    server = Server(None, (4, 10))
    stream, _ = server.call(content=b"0123456789")
    assert sent_bodies(server) == {1: (prefixed(b"0123456789")[:10], False)}
    server.say(frame(UPDATE, stream=stream.id, payload=u32(3)))
    assert sent_bodies(server) == {1: (prefixed(b"0123456789")[10:13], False)}
    server.say(frame(UPDATE, stream=stream.id, payload=u32(100)))
    assert sent_bodies(server) == {1: (b"89", True)}


def test_requests_share_the_connections_window_fairly() -> None:
    server = Server(None, (4, 10**6))
    first, _ = server.call(content=bytes(100_000))
    second, _ = server.call(content=bytes(100_000))
    assert sum(len(body) for body, _ in sent_bodies(server).values()) == 65_535
    server.say(frame(UPDATE, payload=u32(40_000)))
    bodies = sent_bodies(server)
    assert set(bodies) == {first.id, second.id}
    server.say(frame(UPDATE, payload=u32(10**6)))
    assert [ended for _, ended in sent_bodies(server).values()] == [True, True]


def test_a_changed_initial_window_moves_open_streams_even_below_zero() -> None:
    server = Server(None, (4, 100))
    stream, _ = server.call(content=bytes(200))
    assert len(sent_bodies(server)[1][0]) == 100
    server.say(settings((4, 40)))
    server.say(frame(UPDATE, stream=stream.id, payload=u32(60)))
    assert sent_bodies(server) == {}
    server.say(frame(UPDATE, stream=stream.id, payload=u32(1)))
    assert len(sent_bodies(server)[1][0]) == 1
    server.say(settings((4, 1000)))
    assert sent_bodies(server)[1][1]


def test_a_full_socket_holds_bodies_back() -> None:
    server = Server(None, (4, 10**7))
    server.say(frame(UPDATE, payload=u32(10**7)))
    server.client.sender.writable = False
    server.call(content=bytes(100))
    assert [kind for kind, *_ in server.take()] == [HEADERS]
    server.client.sender.writable = True
    server.client.sender.pump()
    assert len(sent_bodies(server)[1][0]) == 105


def test_a_large_body_is_made_ready_a_bite_at_a_time() -> None:
    server = Server(None, (4, 10**7))
    server.say(frame(UPDATE, payload=u32(10**7)))
    server.call(content=bytes(2_000_000))
    assert len(sent_bodies(server)[1][0]) < 300_000


@pytest.mark.parametrize("size", [10, 40_000])
def test_a_peer_may_give_back_what_a_request_has_used_of_the_widest_window(size: int) -> None:
    server = Server(None, (4, 2**31 - 1))
    stream, sink = server.call(content=bytes(size))
    server.say(frame(UPDATE, stream=stream.id, payload=u32(size + 5)))
    assert (sink.ended, resets(server)) == ([], [])


@pytest.mark.parametrize("increment", [0, 2**31 - 1])
def test_a_window_update_out_of_range_ends_its_stream(increment: int) -> None:
    server, stream, sink = open_call()
    server.say(frame(UPDATE, stream=stream.id, payload=u32(increment)))
    assert isinstance(sink.error, EngineGarbled)
    assert resets(server) == [(1, FLOW)]


@pytest.mark.parametrize("increment", [0, 2**31 - 1])
def test_a_window_update_out_of_range_ends_the_connection_when_it_is_the_connections(increment: int) -> None:
    server, _, sink = open_call()
    server.say(frame(UPDATE, payload=u32(increment)))
    assert isinstance(sink.error, EngineGarbled)
    assert goaway_code(server) == FLOW


# ---------------------------------------------------------------------------------------------------- receiving window


def test_window_is_granted_when_half_is_used_and_once_a_read() -> None:
    limits = EnginesConfig(stream_window_bytes=70_000, connection_window_bytes=100_000)
    server, stream, _ = open_call(limits)
    server.take()
    server.say(*[message(1, bytes(9_995)) for _ in range(3)])
    assert server.take() == []
    server.say(*[message(1, bytes(9_995)) for _ in range(3)])
    updates = [(kind, number, int.from_bytes(payload, "big")) for kind, _, number, payload in server.take()]
    assert updates == [(UPDATE, 1, 40_000), (UPDATE, 0, 60_000)]
    assert stream.window == 50_000


def test_a_paused_call_is_granted_nothing_until_it_resumes() -> None:
    server, stream, sink = open_call(EnginesConfig(stream_window_bytes=20_000, connection_window_bytes=10**6))
    server.take()
    stream.pause()
    server.say(message(1, bytes(9_995)), message(1, bytes(9_995)))
    assert server.take() == []
    assert len(sink.got) == 2
    stream.resume()
    stream.resume()
    assert server.take() == [(UPDATE, 0, 1, u32(20_000))]


def test_a_peer_that_ignores_a_streams_window_loses_the_stream() -> None:
    server, stream, sink = open_call(EnginesConfig(stream_window_bytes=20_000, connection_window_bytes=10**6))
    stream.pause()
    server.take()
    server.say(*[message(1, bytes(9_995)) for _ in range(3)])
    assert isinstance(sink.error, EngineGarbled)
    assert resets(server) == [(1, FLOW)]
    assert server.client.failure is None


def test_a_peer_that_ignores_the_connections_window_loses_the_connection() -> None:
    server = Server(EnginesConfig(stream_window_bytes=10**6, connection_window_bytes=65_535))
    stream, sink = server.call()
    server.say(server.head(1), *[message(stream.id, bytes(16_000)) for _ in range(5)])
    assert isinstance(sink.error, EngineGarbled)
    assert goaway_code(server) == FLOW


def test_a_paused_call_with_half_a_large_message_goes_on_when_resumed() -> None:
    server, stream, sink = open_call(EnginesConfig(stream_window_bytes=20_000))
    body = prefixed(bytes(30_000))
    server.say(frame(DATA, 0, 1, body[:16_000]))
    stream.pause()
    server.take()
    server.say(frame(DATA, 0, 1, body[16_000:30_000]))
    assert server.take() == []
    stream.resume()
    assert [kind for kind, *_ in server.take()] == [UPDATE]
    server.say(frame(DATA, 0, 1, body[30_000:]))
    assert sink.got == [bytes(30_000)]


def test_data_in_flight_for_a_cancelled_call_is_window_of_the_connection_too() -> None:
    server, stream, _ = open_call(EnginesConfig(connection_window_bytes=80_000, idle_frames=1))
    stream.cancel()
    server.take()
    server.say(*[message(1, bytes(9_995)) for _ in range(5)])
    assert server.take() == [(UPDATE, 0, 0, u32(50_000))]
    assert server.client.failure is None


# ------------------------------------------------------------------------------------------------------------ messages


def test_all_messages_of_one_read_are_one_push_a_call() -> None:
    server = Server()
    (first, one), (second, two) = server.call(), server.call()
    server.say(server.head(1), server.head(3), message(1, b"a"), message(3, b"b"), message(1, b"c"), message(3, b""))
    assert (one.pushes, two.pushes) == ([[b"a", b"c"]], [[b"b", b""]])
    assert (first.done, second.done) == (False, False)


@pytest.mark.parametrize("cut", range(1, 26))
def test_messages_may_be_split_over_frames_anywhere(cut: int) -> None:
    server, _, sink = open_call()
    body = prefixed(b"first") + prefixed(b"") + prefixed(b"second one")
    server.say(frame(DATA, 0, 1, body[:cut]), frame(DATA, 0, 1, body[cut:]), server.trailers(1))
    assert sink.got == [b"first", b"", b"second one"]
    assert sink.error is None


def test_a_message_may_come_byte_by_byte() -> None:
    server, _, sink = open_call()
    server.say(*[frame(DATA, 0, 1, bytes([byte])) for byte in prefixed(b"drip") + prefixed(b"drop")])
    assert sink.got == [b"drip", b"drop"]


@pytest.mark.parametrize("padding", [0, 1, 200])
def test_padding_is_dropped_and_counted(padding: int) -> None:
    server, stream, sink = open_call()
    payload = bytes([padding]) + prefixed(b"in") + bytes(padding)
    before = stream.window
    server.say(frame(DATA, 8, 1, payload))
    assert sink.got == [b"in"]
    assert before - stream.window == len(payload)


def test_padded_headers_with_priority_are_read() -> None:
    server = Server()
    _, sink = server.call()
    block = server.encoder.encode(OK_HEAD)
    server.say(frame(HEADERS, 4 | 8 | 0x20, 1, b"\x03" + bytes(5) + block + bytes(3)), message(1, b"x"))
    assert sink.got == [b"x"]


@pytest.mark.parametrize("payload", [b"", b"\x01", b"\x05abc"])
def test_padding_longer_than_its_frame_ends_the_connection(payload: bytes) -> None:
    server, _, sink = open_call()
    server.say(frame(DATA, 8, 1, payload))
    assert isinstance(sink.error, EngineGarbled)
    assert goaway_code(server) == 1


def test_a_compressed_message_is_refused() -> None:
    server, _, sink = open_call()
    server.say(frame(DATA, 0, 1, prefixed(b"zip", compressed=1)))
    assert "compressed" in str(sink.error)
    assert resets(server) == [(1, CANCEL)]


@pytest.mark.parametrize("split", [2, 5, 14, 2000])
def test_a_message_over_the_limit_is_refused_before_it_is_held(split: int) -> None:
    server, stream, sink = open_call(EnginesConfig(message_bytes=1000))
    body = prefixed(bytes(1001))
    server.say(frame(DATA, 0, 1, body[:split]), *([frame(DATA, 0, 1, body[split:])] if body[split:] else []))
    assert "over the limit" in str(sink.error)
    assert resets(server) == [(1, CANCEL)]
    assert not stream.partial


def test_messages_partly_here_are_bounded_together() -> None:
    server = Server(EnginesConfig(held_bytes=20_000))
    sinks = [server.call()[1] for _ in range(3)]
    for number in (1, 3, 5):
        server.say(server.head(number), frame(DATA, 0, number, prefixed(bytes(20_000))[:9_000]))
    assert [len(sink.ended) for sink in sinks] == [0, 0, 1]
    server.say(frame(DATA, 0, 1, prefixed(bytes(20_000))[9_000:]))
    assert sinks[0].got == [bytes(20_000)]


def test_data_before_headers_is_refused() -> None:
    server = Server()
    _, sink = server.call()
    server.say(message(1, b"early"))
    assert isinstance(sink.error, EngineGarbled)
    assert sink.got == []


def test_an_answer_that_ends_without_trailers_is_refused_after_its_messages() -> None:
    server, _, sink = open_call()
    server.say(frame(DATA, 1, 1, prefixed(b"last")))
    assert sink.got == [b"last"]
    assert isinstance(sink.error, EngineGarbled)


def test_an_answer_that_ends_inside_a_message_is_refused() -> None:
    server, _, sink = open_call()
    server.say(frame(DATA, 0, 1, prefixed(b"half")[:6]), server.trailers(1))
    assert isinstance(sink.error, EngineGarbled)


# ------------------------------------------------------------------------------------------------------------- headers


def test_trailers_end_the_call_after_messages_of_the_same_read() -> None:
    server, stream, sink = open_call()
    server.say(message(1, b"a"), server.trailers(1))
    assert (sink.got, sink.error, stream.done) == ([b"a"], None, True)


def test_a_response_that_is_trailers_only_carries_its_error() -> None:
    server = Server()
    _, sink = server.call()
    server.say(server.head(1, [*OK_HEAD, ("grpc-status", "3"), ("grpc-message", "t%C3%B6o 100%25 bad")], end=True))
    assert isinstance(sink.error, EngineRejected)
    assert "töo 100% bad" in (sink.error.detail or "")


@pytest.mark.parametrize("step", [1, 7, 10_000])
def test_a_header_block_may_be_split_over_continuations(step: int) -> None:
    server = Server()
    _, sink = server.call()
    block = server.encoder.encode([*OK_HEAD, ("x-filler", "f" * 300)])
    pieces = [block[at : at + step] for at in range(0, len(block), step)]
    server.say(frame(HEADERS, 4 if len(pieces) == 1 else 0, 1, pieces[0]))
    for left, piece in zip(range(len(pieces) - 2, -1, -1), pieces[1:], strict=True):
        server.say(frame(CONTINUATION, 0 if left else 4, 1, piece))
    server.say(message(1, b"x"))
    assert sink.got == [b"x"]


@pytest.mark.parametrize(
    "between", [frame(PING, 0, 0, bytes(8)), frame(DATA, 0, 1, prefixed(b"123456789")), frame(200)]
)
def test_nothing_may_come_between_headers_and_their_continuation(between: bytes) -> None:
    server = Server()
    _, sink = server.call()
    server.say(frame(HEADERS, 0, 1, server.encoder.encode(OK_HEAD)), between, frame(CONTINUATION, 4, 1))
    assert isinstance(sink.error, EngineGarbled)
    assert sink.got == []


@pytest.mark.parametrize(("stream", "before"), [(1, b""), (3, frame(HEADERS, 0, 1, b"\x88"))])
def test_a_continuation_of_nothing_ends_the_connection(stream: int, before: bytes) -> None:
    server = Server()
    _, sink = server.call()
    server.say(before, frame(CONTINUATION, 4, stream, b"\x88"))
    assert isinstance(sink.error, EngineGarbled)


def test_a_header_block_without_end_is_bounded() -> None:
    server = Server(EnginesConfig(header_block_bytes=4096))
    server.call()
    server.say(frame(HEADERS, 0, 1, b""), *[frame(CONTINUATION, 0, 1, bytes(1000)) for _ in range(5)])
    assert goaway_code(server) == CALM


def test_a_header_block_that_begins_too_large_is_not_kept() -> None:
    server = Server(EnginesConfig(header_block_bytes=4096))
    server.call()
    server.say(frame(HEADERS, 0, 1, bytes(5000)))
    assert not server.client._block
    assert goaway_code(server) == CALM


def test_headers_that_decode_to_too_much_are_refused() -> None:
    """Eighty references to one 1000-byte field are 80 bytes on the wire and 80,000 in memory."""
    server = Server(EnginesConfig(header_block_bytes=10_000))
    server.call()
    block = server.encoder.encode([*OK_HEAD, ("x", "y" * 1000)], huffman=False)
    server.say(frame(HEADERS, 4, 1, block + b"\xbe" * 80))
    assert isinstance(server.client.failure, EngineGarbled)


@pytest.mark.parametrize("block", [b"\xff\xff\xff\xff\xff\x7f", b"\x80", b"\xfe", b"\x00\x7f", b"\x3f\xff\xff\x7f"])
def test_a_block_that_cannot_be_decoded_ends_the_connection(block: bytes) -> None:
    server = Server()
    _, sink = server.call()
    server.say(frame(HEADERS, 4, 1, block))
    assert isinstance(sink.error, EngineGarbled)
    assert goaway_code(server) in (9, CALM)


@pytest.mark.parametrize(
    "fields",
    [
        [("content-type", "application/grpc"), (":status", "200")],
        [(":status", "200"), (":status", "200")],
        [(":path", "/"), (":status", "200")],
        [(":status", "20x")],
        [(":status", "200"), ("Upper", "x")],
    ],
)
def test_a_malformed_head_ends_its_call_only(fields: list[tuple[str, str]]) -> None:
    server = Server()
    _, sink = server.call()
    _, other = server.call()
    server.say(server.head(1, fields), server.head(3), message(3, b"fine"))
    assert isinstance(sink.error, EngineGarbled)
    assert other.got == [b"fine"]


@pytest.mark.parametrize(
    ("status", "error"), [("503", WorkerGone), ("429", WorkerGone), ("404", EngineFailed), ("500", EngineFailed)]
)
@pytest.mark.parametrize("end", [True, False])
def test_an_http_status_without_a_grpc_status_becomes_its_error(status: str, error: type[SmgError], end: bool) -> None:
    server = Server()
    _, sink = server.call()
    server.say(server.head(1, [(":status", status), ("content-type", "text/html")], end=end))
    assert type(sink.error) is error
    assert f"HTTP status {status}" in str(sink.error)


def test_a_page_in_place_of_grpc_is_refused() -> None:
    server = Server()
    _, sink = server.call()
    server.say(server.head(1, [(":status", "200"), ("content-type", "text/html")]), frame(DATA, 0, 1, b"<html></html>"))
    assert "text/html" in str(sink.error)


def test_interim_responses_are_passed_over() -> None:
    server = Server()
    _, sink = server.call()
    server.say(server.head(1, [(":status", "103"), ("link", "x")]), server.head(1), message(1, b"x"))
    assert sink.got == [b"x"]


def test_a_grpc_status_that_is_no_number_is_unknown() -> None:
    server, _, sink = open_call()
    server.say(server.head(1, [("grpc-status", "banana")], end=True))
    assert isinstance(sink.error, EngineFailed)


def test_the_header_table_is_followed_through_calls_that_are_over() -> None:
    server = Server()
    stream, _ = server.call()
    stream.cancel()
    _, sink = server.call()
    server.say(server.head(1, [*OK_HEAD, ("x-new", "value")]))
    server.say(server.head(3, [*OK_HEAD, ("x-new", "value")]), server.trailers(3, 8, "full"))
    assert isinstance(sink.error, WorkerBusy)


def test_a_block_means_something_else_once_the_table_has_changed() -> None:
    """0xbe is the newest table entry: the same byte stands for two statuses here."""
    server = Server()
    sinks = [server.call()[1] for _ in range(4)]
    literal = b"\x40\x0bgrpc-status\x01"
    for number in (1, 3, 5, 7):
        server.say(server.head(number))
    server.say(frame(HEADERS, 5, 1, literal + b"0"), frame(HEADERS, 5, 3, b"\xbe"))
    server.say(frame(HEADERS, 5, 5, literal + b"8"), frame(HEADERS, 5, 7, b"\xbe"))
    assert [type(sink.error) for sink in sinks] == [type(None), type(None), WorkerBusy, WorkerBusy]


# ------------------------------------------------------------------------------------------------ the connection's own


def test_a_ping_is_answered_with_its_own_bytes() -> None:
    server = Server()
    server.say(frame(PING, 0, 0, b"12345678"))
    assert server.take() == [(PING, 1, 0, b"12345678")]


def test_settings_are_acknowledged_each_time() -> None:
    server = Server()
    server.say(settings((4, 1)), settings())
    assert server.take() == [(SETTINGS, 1, 0, b"")] * 2


@pytest.mark.parametrize(
    "junk", [frame(PRIORITY, 0, 1, bytes(5)), frame(0x42, 0xFF, 9, b"?"), frame(0xA, 0, 0, b"alt")]
)
def test_frames_that_mean_nothing_to_us_are_passed_over(junk: bytes) -> None:
    server, _, sink = open_call()
    server.say(junk, message(1, b"x"), junk)
    assert sink.got == [b"x"]


@pytest.mark.parametrize(
    "bad",
    [
        frame(PUSH, 4, 1, u32(2)),
        frame(DATA, 0, 0, b"x"),
        frame(DATA, 0, 2, b"x"),
        frame(DATA, 0, 99, b"x"),
        frame(HEADERS, 4, 99, b"\x88"),
        frame(HEADERS, 4 | 0x20, 1, b"abc"),
        frame(RST, 0, 99, u32(8)),
        frame(RST, 0, 1, b"abc"),
        frame(UPDATE, 0, 99, u32(1)),
        frame(UPDATE, 0, 0, b"abc"),
        frame(PING, 0, 0, b"short"),
        frame(PING, 0, 1, bytes(8)),
        frame(SETTINGS, 0, 1),
        frame(SETTINGS, 0, 0, b"12345"),
        frame(SETTINGS, 1, 0, bytes(6)),
        settings((2, 1)),
        settings((4, 2**31)),
        settings((5, 100)),
        settings((5, 2**24)),
        frame(GOAWAY, 0, 0, b"short"),
        frame(GOAWAY, 0, 1, bytes(8)),
        frame(DATA, 0, 1, bytes(16_385)),
    ],
)
def test_what_the_protocol_forbids_ends_the_connection_and_its_calls(bad: bytes) -> None:
    server, _, sink = open_call()
    server.say(message(1, b"before"), bad, message(1, b"after"))
    assert sink.got == [b"before"]
    assert isinstance(sink.error, EngineGarbled)
    assert goaway_code(server)
    assert not server.client.usable
    with pytest.raises(EngineGarbled):
        server.call()


def test_a_peer_that_does_not_begin_with_settings_is_not_http2() -> None:
    server = Server()
    server.client.greeted = False
    server.say(frame(PING, 0, 0, bytes(8)))
    assert isinstance(server.client.failure, EngineGarbled)


@pytest.mark.parametrize(
    "flood",
    [
        frame(PING, 0, 0, bytes(8)),
        frame(PING, 1, 0, bytes(8)),
        settings(),
        frame(DATA, 0, 1),
        frame(PRIORITY, 0, 1, bytes(5)),
        frame(UPDATE, 0, 0, u32(1)),
        frame(0x77),
        frame(GOAWAY, 0, 0, u32(2**31 - 1) + u32(0)),
    ],
)
def test_frames_that_bring_nothing_are_bounded(flood: bytes) -> None:
    server, _, sink = open_call(EnginesConfig(idle_frames=100))
    server.say(*[flood] * 95)
    assert not sink.ended
    server.say(*[flood] * 10)
    assert isinstance(sink.error, EngineGarbled)
    assert goaway_code(server) == CALM


def test_a_message_earns_the_peer_its_pings() -> None:
    server, _, sink = open_call(EnginesConfig(idle_frames=100))
    for _ in range(10):
        server.say(*[frame(PING, 0, 0, bytes(8))] * 90, message(1, b"x"))
    assert len(sink.got) == 10


# --------------------------------------------------------------------------------------------- calls that do not finish


def test_a_cancelled_call_is_reset_and_hears_nothing_more() -> None:
    server, stream, sink = open_call()
    stream.cancel()
    stream.cancel()
    assert resets(server) == [(1, CANCEL)]
    server.say(message(1, b"late"), server.trailers(1))
    assert (sink.pushes, sink.ended) == ([], [])


def test_a_call_cancelled_by_its_own_push_gets_no_end() -> None:
    server = Server()
    calls: list[H2Stream] = []
    sink = Sink(lambda batch: calls[0].cancel())
    calls.append(server.call(sink)[0])
    server.say(server.head(1), message(1, b"a"), message(1, b"b"), server.trailers(1))
    assert (sink.got, sink.ended) == ([b"a", b"b"], [])


def test_a_call_may_cancel_another_within_a_push() -> None:
    server = Server()
    second: list[H2Stream] = []
    first_sink = Sink(lambda batch: second[0].cancel())
    server.call(first_sink)
    stream, second_sink = server.call()
    second.append(stream)
    server.say(server.head(1), server.head(3), message(1, b"a"), message(3, b"b"))
    assert (first_sink.got, second_sink.got) == ([b"a"], [])
    assert resets(server) == [(3, CANCEL)]


def test_a_receiver_that_raises_is_told_its_own_error_and_the_others_go_on() -> None:
    refusal = EngineGarbled("not a message of this dialect")

    def refuse(batch: list[bytes]) -> None:
        raise refusal

    server = Server()
    _, bad = server.call(Sink(refuse))
    _, good = server.call()
    server.say(server.head(1), server.head(3), message(1, b"a"), message(3, b"b"), server.trailers(1))
    assert bad.error is refusal
    assert good.got == [b"b"]


@pytest.mark.parametrize(
    ("code", "error"), [(2, EngineFailed), (8, WorkerGone), (0xB, WorkerBusy), (0, EngineGarbled), (99, EngineFailed)]
)
def test_a_reset_becomes_its_error_after_the_messages_before_it(code: int, error: type[SmgError]) -> None:
    server, _, sink = open_call()
    server.say(message(1, b"a"), frame(RST, 0, 1, u32(code)))
    assert sink.got == [b"a"]
    assert type(sink.error) is error
    assert resets(server) == []


def test_an_answer_before_the_whole_request_went_resets_the_rest() -> None:
    server = Server(None, (4, 10))
    _, sink = server.call(content=bytes(100))
    server.take()
    server.say(server.head(1, [*OK_HEAD, ("grpc-status", "8")], end=True))
    assert isinstance(sink.error, WorkerBusy)
    assert resets(server) == [(1, CANCEL)]
    server.say(frame(UPDATE, stream=1, payload=u32(1000)))
    assert sent_bodies(server) == {}


def test_a_lost_connection_ends_every_call_and_those_that_wait() -> None:
    server = Server(None, (3, 1))
    _, sent = server.call()
    stream, waiting = server.call()
    told: list[SmgError | None] = []
    stream.on_sent = told.append
    gone = WorkerGone("lost")
    server.client.lost(gone)
    server.client.lost(WorkerGone("again"))
    assert sent.error is gone
    assert (told, waiting.ended) == ([gone], [])
    assert server.client.over


def test_on_end_is_called_once_however_a_call_ends() -> None:
    server = Server()
    ends: list[int] = []
    for number, finish in enumerate(
        (
            lambda stream: server.say(server.head(stream.id, [*OK_HEAD, ("grpc-status", "0")], end=True)),
            lambda stream: stream.cancel(),
            lambda stream: stream.end(WorkerGone("x")),
            lambda stream: server.client.lost(WorkerGone("x")),
        )
    ):
        stream, _ = server.call()
        stream.on_end = lambda number=number: ends.append(number)
        finish(stream)
    assert ends == [0, 1, 2, 3]


# ------------------------------------------------------------------------------------------------- waiting for a stream


def test_calls_over_the_engines_limit_wait_and_go_in_order() -> None:
    server = Server(None, (3, 1))
    first, _ = server.call()
    second, _ = server.call()
    third, _ = server.call()
    told: list[str] = []
    second.on_sent = lambda error: told.append("second")
    third.on_sent = lambda error: told.append("third")
    assert (first.id, second.id, third.id) == (1, 0, 0)
    first.cancel()
    assert (second.id, third.id, told) == (3, 0, ["second"])
    server.say(settings((3, 5)))
    assert (third.id, told) == (5, ["second", "third"])


def test_a_limit_of_no_streams_holds_every_call() -> None:
    server = Server(None, (3, 0))
    assert server.call()[0].id == 0
    assert [kind for kind, *_ in server.take()] == []


def test_the_queue_of_waiting_calls_is_bounded() -> None:
    server = Server(EnginesConfig(waiting_calls=2), (3, 1))
    for _ in range(3):
        server.call()
    with pytest.raises(WorkerBusy):
        server.call()


@pytest.mark.parametrize("question_calls", [0, 2])
def test_a_question_may_wait_though_no_call_may(question_calls: int) -> None:
    server = Server(EnginesConfig(waiting_calls=0, question_calls=question_calls), (3, 1))
    call, _ = server.call()
    questions = [server.call(question=True)[0] for _ in range(max(1, question_calls))]
    with pytest.raises(WorkerBusy):
        server.call()
    call.cancel()

    assert [bool(each.id) for each in questions] == [True] + [False] * (len(questions) - 1)


@pytest.mark.parametrize(("streams", "kept"), [(7, 0), (8, 1), (20, 2), (100, 4), (4096, 4)])
def test_a_few_streams_are_kept_for_questions(streams: int, kept: int) -> None:
    server = Server(EnginesConfig(waiting_calls=8), (3, streams))
    calls = [server.call()[0] for _ in range(streams + 1 - kept)]
    questions = [server.call(question=True)[0] for _ in range(kept + 1)]

    assert [bool(call.id) for call in calls] == [True] * (streams - kept) + [False]
    assert [bool(each.id) for each in questions] == [True] * kept + [False]
    calls[0].cancel()
    assert [bool(each.id) for each in (questions[-1], calls[-1])] == [True, False]  # questions go first
    calls[1].cancel()
    assert bool(calls[-1].id) is (kept == 0 and streams > 1)
    for each in questions:
        each.cancel()
    assert bool(calls[-1].id) is True


def test_questions_wait_in_order_before_all_other_calls_and_have_a_bound_of_their_own() -> None:
    server = Server(EnginesConfig(waiting_calls=2, question_calls=1), (3, 1))
    first, *waiting = [server.call()[0] for _ in range(3)]
    questions = [server.call(question=True)[0] for _ in range(3)]
    with pytest.raises(WorkerBusy):
        server.call(question=True)
    with pytest.raises(WorkerBusy):
        server.call()
    order = []
    for each in (first, *questions, *waiting):
        assert each.id
        order.append(each.id)
        each.cancel()

    assert order == sorted(order)


@pytest.mark.parametrize("others", [True, False])
def test_a_question_for_which_the_queue_has_no_room_tells_whether_others_were_answered(others: bool) -> None:
    server = Server(EnginesConfig(waiting_calls=0, question_calls=1), (3, 1))
    call, _ = server.call()
    server.say(server.head(call.id))
    server.call(question=True)
    if others:
        server.say(message(call.id, b"a token"))
    with pytest.raises(WorkerBusy) as caught:
        server.call(question=True)

    assert caught.value.answers_others is others


def test_a_refused_call_waits_behind_the_questions() -> None:
    server = Server(None, (3, 8))
    calls = [server.call()[0] for _ in range(7)]
    questions = [server.call(question=True)[0] for _ in range(2)]
    assert [bool(each.id) for each in questions] == [True, False]
    server.say(settings((3, 1)), frame(RST, 0, calls[0].id, u32(REFUSED)))
    for each in (*calls[1:], questions[0]):
        each.cancel()

    assert (bool(questions[1].id), calls[0].id) == (True, 0)
    questions[1].cancel()
    assert calls[0].id


def test_a_waiting_call_that_is_cancelled_leaves_the_queue() -> None:
    server = Server(None, (3, 1))
    first, _ = server.call()
    second, _ = server.call()
    third, _ = server.call()
    server.take()
    second.cancel()
    first.cancel()
    assert third.id == 3
    assert resets(server) == [(1, CANCEL)]


def test_a_refused_stream_is_sent_again_and_then_given_up() -> None:
    server = Server(EnginesConfig(refusals=3))
    stream, sink = server.call(content=b"again")
    for number in (1, 3, 5):
        assert stream.id == number
        assert sent_bodies(server) == {number: (prefixed(b"again"), True)}
        server.say(frame(RST, 0, number, u32(REFUSED)))
    assert not sink.ended
    server.say(frame(RST, 0, 7, u32(REFUSED)))
    assert isinstance(sink.error, WorkerGone)


def test_a_refused_stream_that_was_sent_again_answers_as_if_nothing_had_been() -> None:
    server = Server()
    stream, sink = server.call(content=b"again")
    server.say(frame(RST, 0, 1, u32(REFUSED)))
    server.say(server.head(3), message(3, b"yes"), server.trailers(3))
    assert (sink.got, sink.error, stream.id) == ([b"yes"], None, 3)


def test_a_call_that_waits_to_be_sent_again_ends_with_the_connection() -> None:
    server = Server()
    _, sink = server.call()
    server.say(settings((3, 0)), frame(RST, 0, 1, u32(REFUSED)))
    assert not sink.ended
    server.client.lost(WorkerGone("lost"))
    assert isinstance(sink.error, WorkerGone)


# -------------------------------------------------------------------------------------------------------------- GOAWAY


def test_goaway_ends_the_calls_it_did_not_take_and_lets_the_others_finish() -> None:
    server = Server()
    _, old = server.call()
    _, new = server.call()
    server.say(server.head(1), frame(GOAWAY, 0, 0, u32(1) + u32(0) + b"bye"))
    assert isinstance(new.error, WorkerGone)
    assert not old.ended
    assert (server.client.usable, server.client.over) == (False, False)
    with pytest.raises(WorkerGone):
        server.call()
    server.say(message(1, b"x"), server.trailers(1))
    assert (old.got, old.error, server.client.over) == ([b"x"], None, True)


def test_a_goaway_in_two_steps_takes_the_smaller_number() -> None:
    server = Server()
    sinks = [server.call()[1] for _ in range(3)]
    server.say(frame(GOAWAY, 0, 0, u32(2**31 - 1) + u32(0)), frame(PING, 0, 0, bytes(8)))
    assert [len(sink.ended) for sink in sinks] == [0, 0, 0]
    server.say(frame(GOAWAY, 0, 0, u32(3) + u32(0)))
    assert [len(sink.ended) for sink in sinks] == [0, 0, 1]


def test_calls_that_wait_learn_of_goaway_before_they_are_sent() -> None:
    server = Server(None, (3, 1))
    server.call()
    stream, sink = server.call()
    told: list[SmgError | None] = []
    stream.on_sent = told.append
    server.say(frame(GOAWAY, 0, 0, u32(1) + u32(0)))
    assert [type(error) for error in told] == [WorkerGone]
    assert sink.ended == []


def test_stream_numbers_run_out_into_a_new_connection() -> None:
    server = Server()
    server.client._next_id = 2**31 - 1
    stream, _ = server.call()
    assert stream.id == 2**31 - 1
    assert not server.client.usable
    with pytest.raises(WorkerGone):
        server.call()


def test_goodbye_is_said_in_a_frame() -> None:
    server = Server()
    server.client.goodbye()
    assert server.take() == [(GOAWAY, 0, 0, bytes(8))]
    assert server.client.over


def test_metadata_is_checked_before_anything_is_written() -> None:
    server = Server()
    with pytest.raises(InternalError):
        server.call(metadata=[("bad key", "x")])
    assert server.take() == []


# ---------------------------------------------------------------------------------------------------------- keep-alive


def test_a_silent_engine_with_calls_is_pinged_and_then_given_up() -> None:
    server, _, sink = open_call(EnginesConfig(ping_interval_s=30, ping_timeout_s=10))
    server.take()
    assert server.client.tick(0) == 30  # it has just been heard
    assert server.client.tick(30) == 10
    assert server.take() == [(PING, 0, 0, b"smg-ping")]
    server.client.tick(40)
    assert "ping" in str(sink.error)


def test_an_answered_ping_keeps_the_connection() -> None:
    server, _, sink = open_call(EnginesConfig(ping_interval_s=30, ping_timeout_s=10))
    server.client.tick(0)
    server.client.tick(30)
    server.say(frame(PING, 1, 0, b"smg-ping"))
    assert server.client.tick(40) == 30
    assert not sink.ended


# ------------------------------------------------------------------------------------------------- edges of the bounds


def test_what_is_done_between_reads_is_written_at_once() -> None:
    server, stream, sink = open_call(EnginesConfig(stream_window_bytes=20_000))
    other, other_sink = server.call()
    server.take()
    stream.pause()
    server.say(message(1, bytes(15_000)))
    assert server.written == []
    stream.resume()
    assert server.written.pop() == frame(UPDATE, 0, 1, u32(15_005))
    stream.end(WorkerGone("enough"))
    assert server.written.pop() == frame(RST, 0, 1, u32(CANCEL))
    assert isinstance(sink.error, WorkerGone)
    other.cancel()
    assert server.written.pop() == frame(RST, 0, 3, u32(CANCEL))
    assert other_sink.ended == []


def test_a_call_that_is_over_or_not_yet_sent_is_granted_nothing() -> None:
    server = Server(None, (3, 1))
    first, _ = server.call()
    waiting, _ = server.call()
    server.take()
    waiting.pause()
    waiting.resume()
    first.pause()
    server.say(server.head(1), message(1, bytes(10_000)), server.trailers(1))
    server.take()
    first.resume()
    assert server.take() == []


def test_a_window_may_be_used_to_its_last_byte() -> None:
    server, stream, sink = open_call(EnginesConfig(stream_window_bytes=20_000, connection_window_bytes=65_535))
    stream.pause()
    server.say(message(1, bytes(9_995)), message(1, bytes(9_995)))
    assert (stream.window, sink.ended, len(sink.got)) == (0, [], 2)


def test_the_connections_window_may_be_used_to_its_last_byte_in_one_read() -> None:
    server = Server(EnginesConfig(stream_window_bytes=10**6, connection_window_bytes=65_535))
    _, sink = server.call()
    server.say(server.head(1), *[message(1, bytes(16_000))] * 4, message(1, bytes(65_535 - 4 * 16_005 - 5)))
    assert (len(sink.got), sink.ended) == (5, [])
    assert server.client.failure is None


def test_data_for_a_cancelled_call_beyond_its_window_counts_as_nothing_gained() -> None:
    server, stream, _ = open_call(EnginesConfig(stream_window_bytes=20_000, idle_frames=100))
    stream.cancel()
    server.say(*[message(1, bytes(195))] * 100)
    assert server.client.failure is None
    server.say(*[message(1, bytes(195))] * 110)
    assert goaway_code(server) == CALM


@pytest.mark.parametrize(
    "flood",
    [
        frame(RST, 0, 1, u32(8)),
        frame(HEADERS, 4, 1, b"\x88"),
        frame(HEADERS, 4, 3, b"\x08\x03103"),
        frame(UPDATE, 0, 3, u32(1)),
    ],
    ids=["resets of a call that is over", "headers of a call that is over", "interim responses", "window for nothing"],
)
def test_frames_of_streams_that_bring_nothing_are_bounded(flood: bytes) -> None:
    server = Server(EnginesConfig(idle_frames=100))
    gone, _ = server.call()
    _, sink = server.call()
    gone.cancel()
    server.say(*[flood] * 95)
    assert not sink.ended
    server.say(*[flood] * 10)
    assert isinstance(sink.error, EngineGarbled)
    assert goaway_code(server) == CALM


def test_empty_continuations_are_bounded() -> None:
    server = Server(EnginesConfig(idle_frames=100))
    server.call()
    server.say(frame(HEADERS, 0, 1), *[frame(CONTINUATION, 0, 1)] * 110)
    assert goaway_code(server) == CALM


def test_a_call_refused_with_half_its_request_sent_is_sent_whole_again() -> None:
    server = Server(None, (4, 10))
    _, sink = server.call(content=b"0123456789")
    server.take()
    server.say(frame(RST, 0, 1, u32(REFUSED)))
    assert sent_bodies(server) == {3: (prefixed(b"0123456789")[:10], False)}
    server.say(frame(UPDATE, 0, 1, u32(100)), frame(UPDATE, 0, 3, u32(100)))
    assert sent_bodies(server) == {3: (b"56789", True)}
    assert not sink.ended


def test_a_call_the_engine_has_begun_to_answer_is_not_sent_again() -> None:
    server, _, sink = open_call()
    server.say(frame(RST, 0, 1, u32(REFUSED)))
    assert isinstance(sink.error, WorkerGone)


def test_a_refused_call_is_not_sent_again_on_a_connection_that_drains() -> None:
    server = Server()
    _, sink = server.call()
    server.say(frame(GOAWAY, 0, 0, u32(1) + u32(0)), frame(RST, 0, 1, u32(REFUSED)))
    assert isinstance(sink.error, WorkerGone)
    assert server.client.over


def test_a_frame_may_be_all_padding() -> None:
    server, _, sink = open_call()
    server.say(frame(DATA, 8, 1, b"\x03\0\0\0"), message(1, b"x"))
    assert sink.got == [b"x"]


def test_data_in_the_read_after_unfinished_headers_is_an_interruption() -> None:
    server, _, sink = open_call()
    server.call()
    server.say(frame(HEADERS, 0, 3, b"\x88"))
    server.say(message(1, b"123456789"))
    assert sink.got == []
    assert isinstance(sink.error, EngineGarbled)


def test_the_next_stream_to_be_opened_is_not_open_yet() -> None:
    server, _, sink = open_call()
    server.say(frame(RST, 0, 3, u32(8)))
    assert isinstance(sink.error, EngineGarbled)


def test_calls_that_wait_move_on_when_stream_numbers_run_out() -> None:
    server = Server(None, (3, 1))
    first, _ = server.call()
    second, _ = server.call()
    third, _ = server.call()
    told: list[SmgError | None] = []
    third.on_sent = told.append
    server.client._next_id = 2**31 - 1
    first.cancel()
    assert second.id == 2**31 - 1
    assert [type(error) for error in told] == [WorkerGone]


def test_a_ping_is_written_at_once() -> None:
    server, _, _ = open_call(EnginesConfig(ping_interval_s=30, ping_timeout_s=10))
    server.take()
    server.client.tick(0)
    server.client.tick(30)
    assert server.written == [frame(PING, 0, 0, b"smg-ping")]


def test_a_second_head_that_does_not_end_the_answer_is_refused() -> None:
    server, _, sink = open_call()
    server.say(message(1, b"x"), server.head(1))
    assert sink.got == [b"x"]
    assert isinstance(sink.error, EngineGarbled)
    assert resets(server) == [(1, 1)]


def test_a_frame_may_end_with_an_empty_message() -> None:
    server, _, sink = open_call()
    server.say(frame(DATA, 0, 1, prefixed(b"a") + prefixed(b"")), server.trailers(1))
    assert (sink.got, sink.error) == ([b"a", b""], None)


def test_a_receiver_that_raises_in_the_middle_of_its_answer_is_reset() -> None:
    refusal = EngineGarbled("not a message of this dialect")

    def refuse(batch: list[bytes]) -> None:
        raise refusal

    server = Server()
    _, sink = server.call(Sink(refuse))
    server.take()
    server.say(server.head(1), message(1, b"a"))
    assert sink.error is refusal
    assert resets(server) == [(1, CANCEL)]


def test_small_requests_use_up_the_connections_window_too() -> None:
    server = Server()
    for _ in range(7):
        server.call(content=bytes(9_995))
    bodies = sent_bodies(server)
    assert sum(len(body) for body, _ in bodies.values()) == 65_535
    assert [ended for _, ended in bodies.values()] == [True] * 6 + [False]
    server.say(frame(UPDATE, payload=u32(10_000)))
    assert sent_bodies(server)[13][1]
