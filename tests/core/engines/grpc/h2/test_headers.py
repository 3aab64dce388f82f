"""Header blocks: what we encode, what we understand, and when a block may be remembered."""

import pytest
from hpack import Decoder, Encoder
from hpack.exceptions import HPACKError
from hypothesis import given, settings
from hypothesis import strategies as st

from smg_core.engines.grpc.h2.headers import (
    HeadDecoder,
    HeaderBlock,
    check_metadata,
    leaves_table,
    metadata_block,
    request_block,
    timeout_text,
)
from smg_core.errors import InternalError

ascii_text = st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=400)
key = st.text("abcdefghijklmnopqrstuvwxyz0123456789_-.", min_size=1, max_size=200)


def decoded(block: bytes) -> list[tuple[str, str]]:
    decoder = Decoder(max_header_list_size=10**6)
    fields = [(str(name), str(value)) for name, value in decoder.decode(block)]
    assert len(decoder.header_table.dynamic_entries) == 0, "a request block must not touch the table"
    return fields


@pytest.mark.full
@given(
    path=ascii_text, authority=ascii_text, agent=ascii_text, metadata=st.lists(st.tuples(key, ascii_text), max_size=5)
)
@settings(deadline=None)
def test_request_blocks_decode_to_what_was_meant(
    path: str, authority: str, agent: str, metadata: list[tuple[str, str]]
) -> None:
    assert decoded(request_block("https", authority, path, agent) + metadata_block(metadata)) == [
        (":method", "POST"),
        (":scheme", "https"),
        (":path", path),
        (":authority", authority),
        ("te", "trailers"),
        ("content-type", "application/grpc"),
        ("user-agent", agent),
        *metadata,
    ]


@given(st.integers(0, 300_000))
@settings(deadline=None)
def test_string_lengths_of_every_size_are_encoded(size: int) -> None:
    assert len(decoded(metadata_block([("k", "v" * size)]))[0][1]) == size


def test_what_may_be_a_credential_is_never_indexed_whatever_its_name() -> None:
    assert metadata_block([("authorization", "Bearer x")])[0] == 0x10
    assert metadata_block([("x-id", "x")])[0] == 0x10
    assert metadata_block([("traceparent", "x")])[0] == 0x00


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "1m"),
        (-5, "1m"),
        (0.0001, "1m"),
        (1.5, "1500m"),
        (60, "60000m"),
        (99_999.999, "99999999m"),
        (100_000, "100000S"),
        (10**9, "16666667M"),
        (10**12, "99999999H"),
    ],
)
def test_timeouts_fit_eight_digits_and_round_up(seconds: float, text: str) -> None:
    assert timeout_text(seconds) == text


@given(
    st.lists(
        st.tuples(st.sampled_from(["grpc-status", "x", "content-type", ":status"]), st.sampled_from(["0", "200", "q"]))
    )
)
@settings(deadline=None)
def test_a_block_that_leaves_the_table_really_does(fields: list[tuple[str, str]]) -> None:
    encoder, decoder = Encoder(), Decoder()
    for count in range(1, len(fields) + 1):
        block = encoder.encode(fields[:count])
        before = list(decoder.header_table.dynamic_entries)
        decoder.decode(block)
        if leaves_table(block):
            assert list(decoder.header_table.dynamic_entries) == before


@given(st.binary(max_size=60))
@settings(deadline=None)
def test_a_decodable_block_said_to_leave_the_table_does(block: bytes) -> None:
    decoder = Decoder()
    decoder.decode(b"\x40\x01a\x01b\x40\x01c\x01d")
    before = list(decoder.header_table.dynamic_entries), decoder.header_table.maxsize
    if leaves_table(block):
        try:
            decoder.decode(block)
        except HPACKError:  # nothing is claimed of these
            return
        assert (list(decoder.header_table.dynamic_entries), decoder.header_table.maxsize) == before


@pytest.mark.parametrize(
    ("block", "leaves"),
    [
        (b"\x88\xbe", True),
        (b"\xbe\x00\x0cgrpc-message\x00", True),  # what grpcio's server ends its calls with
        (b"\x0f\x10\x01x", False),
        (b"\x40\x01a\x01b", False),
        (b"\x20", False),
        (b"\xff\x01", False),
        (b"\x00\x05ab", False),
        (b"\x00\x7f\x10", False),
        (b"", True),
    ],
)
def test_which_blocks_leave_the_table(block: bytes, leaves: bool) -> None:
    assert leaves_table(block) is leaves


def test_blocks_are_remembered_only_while_the_table_stands() -> None:
    encoder, heads = Encoder(), HeadDecoder(10_000)
    reference = Decoder()
    for turn in range(200):
        fields = [(":status", "200"), ("content-type", f"application/grpc+{turn // 3}")]
        block = encoder.encode(fields)
        expected = dict(reference.decode(block))
        assert heads.decode(block) == HeaderBlock(http=200, content_type=expected["content-type"])


@pytest.mark.parametrize("metadata", [[("a b", "x")], [("é", "x")], [("a", "é")], [("a", "\r\n")], [("x" * 300, "")]])
def test_metadata_of_the_wrong_letters_is_refused_without_its_value(metadata: list[tuple[str, str]]) -> None:
    with pytest.raises(InternalError) as caught:
        check_metadata(metadata, 1000)
    assert "\r" not in str(caught.value)
