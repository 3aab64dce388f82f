"""AWS's event stream: any split gives the same messages, any flipped bit is an error, and botocore reads it as we do."""

import struct
import zlib

import pytest
from botocore.eventstream import EventStreamBuffer
from hypothesis import given
from hypothesis import strategies as st
from tests.core.engines.vendors.bedrock.event_streams import error_frame, event_frame, exception_frame, frame

from smg_core.engines.vendors.bedrock.event_stream import EventMessage, EventStreamReader
from smg_core.errors import EngineGarbled

DELTA = event_frame("contentBlockDelta", b'{"contentBlockIndex":0,"delta":{"text":"Hi"},"p":"abc"}')
THROTTLED = exception_frame("throttlingException", b'{"message":"Too many requests"}')

VALUES = st.one_of(st.text(max_size=20), st.binary(max_size=20), st.booleans(), st.integers(-(1 << 63), (1 << 63) - 1))
NAMES = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=20)
FRAMES = st.lists(
    st.tuples(st.dictionaries(NAMES, VALUES, max_size=4), st.binary(max_size=200)), min_size=1, max_size=4
)


def read(*pieces: bytes) -> list[EventMessage]:
    reader = EventStreamReader()
    return [message for piece in pieces for message in reader.feed(piece)]


def test_a_message_has_the_bytes_that_aws_gives_it() -> None:
    assert len(DELTA) == 158
    assert DELTA[:12].hex() == "0000009e00000057fe1b824f"
    assert DELTA[-4:].hex() == "9343f010"
    assert len(THROTTLED) == 144
    assert THROTTLED[:12].hex() == "00000090000000618e91a9b7"
    assert THROTTLED[-4:].hex() == "e67f8005"
    (message,) = read(THROTTLED)
    assert message.text(":exception-type") == "throttlingException"
    assert message.payload == b'{"message":"Too many requests"}'
    (failed,) = read(error_frame("InternalFailure", "no more"))
    assert (failed.text(":error-code"), failed.text(":error-message"), failed.payload) == (
        "InternalFailure",
        "no more",
        b"",
    )


@pytest.mark.full
@given(FRAMES, st.data())
def test_any_split_gives_the_same_messages(frames: list[tuple[dict[str, object], bytes]], data: st.DataObject) -> None:
    whole = b"".join(frame(headers, payload) for headers, payload in frames)  # type: ignore[arg-type]
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=8)))
    pieces = [whole[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    assert read(*pieces) == read(whole) == [EventMessage(headers, payload) for headers, payload in frames]  # type: ignore[arg-type]


@given(FRAMES)
def test_botocore_reads_what_we_read(frames: list[tuple[dict[str, object], bytes]]) -> None:
    whole = b"".join(frame(headers, payload) for headers, payload in frames)  # type: ignore[arg-type]
    buffer = EventStreamBuffer()
    buffer.add_data(whole)
    assert [(each.headers, each.payload) for each in buffer] == [(each.headers, each.payload) for each in read(whole)]


@given(st.sampled_from([DELTA, THROTTLED]), st.data())
def test_any_flipped_bit_is_an_error_and_never_another_message(whole: bytes, data: st.DataObject) -> None:
    bit = data.draw(st.integers(0, len(whole) * 8 - 1))
    broken = bytearray(whole)
    broken[bit // 8] ^= 1 << (bit % 8)
    reader = EventStreamReader()
    with pytest.raises(EngineGarbled):
        reader.feed(bytes(broken))


def test_a_message_that_is_not_whole_is_seen_at_the_end() -> None:
    for end in range(1, len(DELTA)):
        reader = EventStreamReader()
        assert reader.feed(DELTA[:end]) == []
        assert reader.within
    reader = EventStreamReader()
    assert len(reader.feed(DELTA)) == 1
    assert not reader.within


def test_a_message_that_is_too_long_is_refused_by_its_first_bytes() -> None:
    long = event_frame("contentBlockDelta", b"x" * 2000)
    with pytest.raises(EngineGarbled):
        EventStreamReader(most=1000).feed(long[:12])


def test_headers_of_an_unknown_type_are_refused() -> None:
    block = b"\x01a\x0a"
    prelude = struct.pack(">II", 16 + len(block), len(block))
    whole = prelude + struct.pack(">I", zlib.crc32(prelude)) + block
    with pytest.raises(EngineGarbled, match="broken"):
        read(whole + struct.pack(">I", zlib.crc32(whole)))
