"""The bytes between members: the first format is read for ever, what is appended to it is skipped, and what is none changes
nothing."""

from contextlib import suppress

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg_core.mesh.state.entries import MeshDelta, WireEntry, Writer
from smg_core.mesh.state.format import (
    FORMATS,
    Formats,
    KnownLine,
    MeshFault,
    MessageKind,
    common_format,
    delta_in,
    formats_in,
    read_mesh_message,
    seen_in,
    sums_in,
    written_delta,
    written_digest,
    written_want,
)

ME = Writer("gateway-a", 1_800_000_000_000)

# Recorded when format 1 was made. These bytes stay: a release that cannot read them cannot run beside one that writes them.
RECORDED = {
    "delta": (
        "970101a9676174657761792d61cf000001a3185c50000509929502c40301020307c402c807789503c4017708c4"
        "100000000000000000000000000000000003"
    ),
    "state": ("980104a9676174657761792d61cf000001a3185c50000203919506c4017703c40164ce0001518092a9676174657761792d6263"),
    "digest": (
        "970102a9676174657761792d61cf000001a3185c500000009293a9676174657761792d61cf000001a3185c5000"
        "0993a9676174657761792d626303"
    ),
    "digest with sums": (
        "990102a9676174657761792d61cf000001a3185c500000009193a9676174657761792d626303c081a9676174657761792d62ceffffffff"
    ),
    "want": "970103a9676174657761792d61cf000001a3185c500000009193a9676174657761792d626303",
}


def made() -> dict[str, bytes]:
    """The same messages as they are written today."""
    other = Writer("gateway-b", 99)
    own = MeshDelta(ME, 5, 9, (WireEntry(2, b"\1\2\3", 7, b"\xc8\7", 120), WireEntry(3, b"w", 8, bytes(16), 3)))
    foreign = MeshDelta(other, 2, 3, (WireEntry(6, b"w", 3, b"d", 86400),))
    lines = [KnownLine("gateway-a", ME.epoch, 9), KnownLine("gateway-b", 99, 3)]
    return {
        "delta": written_delta(ME, own),
        "state": written_delta(ME, foreign),
        "digest": written_digest(ME, lines),
        "digest with sums": written_digest(ME, lines[1:], {"gateway-b": 0xFFFFFFFF}),
        "want": written_want(ME, lines[1:]),
    }


@pytest.mark.parametrize("name", RECORDED)
def test_recorded_bytes_of_the_first_format_are_read(name: str) -> None:
    recorded, now = read_mesh_message(bytes.fromhex(RECORDED[name])), read_mesh_message(made()[name])
    assert (recorded.kind, recorded.member, recorded.epoch) == (now.kind, "gateway-a", ME.epoch)
    if recorded.kind in (MessageKind.DELTA, MessageKind.STATE):
        assert delta_in(recorded) == delta_in(now)
        assert delta_in(recorded).entries
    else:
        assert seen_in(recorded) == seen_in(now)
        assert sums_in(recorded) == sums_in(now)


@pytest.mark.parametrize("name", RECORDED)
def test_what_later_releases_append_is_skipped(name: str) -> None:
    fields = msgspec.msgpack.decode(made()[name])
    fields += [None] * (9 - len(fields)) + [{"later": 1}]
    fields[6] = [[*each, "later"] for each in fields[6]]
    longer = read_mesh_message(msgspec.msgpack.encode(fields))
    if longer.kind in (MessageKind.DELTA, MessageKind.STATE):
        assert delta_in(longer) == delta_in(read_mesh_message(made()[name]))
    else:
        assert seen_in(longer) == seen_in(read_mesh_message(made()[name]))


@given(st.binary(max_size=200))
def test_any_bytes_are_a_message_or_a_fault(data: bytes) -> None:
    for read in (delta_in, seen_in):
        with suppress(MeshFault):
            read(read_mesh_message(data))


@given(st.sampled_from(sorted(RECORDED)), st.data())
def test_a_message_that_was_changed_on_the_way_is_a_message_or_a_fault(name: str, data) -> None:
    changed = bytearray(bytes.fromhex(RECORDED[name]))
    changed[data.draw(st.integers(0, len(changed) - 1))] = data.draw(st.integers(0, 255))
    for read in (delta_in, seen_in):
        with suppress(MeshFault):
            read(read_mesh_message(bytes(changed)))


@pytest.mark.parametrize(
    "fields",
    [
        [2, 1, "a", 1, 0, 0, []],
        [1, 1, "a", -1, 0, 0, []],
        [1, 1, "a", 1, 5, 4, []],
        [1, 1, "a", 1, 0, 4, [[2, b"k", 5, b"v", 1]]],
        [1, 1, "a", 1, 0, 4, [[2, b"k", 0, b"v", 1]]],
        [1, 2, "a", 1, 0, 0, [["b", -1, 2]]],
    ],
)
def test_numbers_that_cannot_be_are_a_fault(fields: list[object]) -> None:
    def read() -> None:
        message = read_mesh_message(msgspec.msgpack.encode(fields))
        (seen_in if message.kind == MessageKind.DIGEST else delta_in)(message)

    with pytest.raises(MeshFault):
        read()


def test_the_highest_format_that_all_speak_is_used() -> None:
    assert common_format([Formats(1, 3), Formats(2, 4)], Formats(1, 4)) == 3
    assert common_format([], FORMATS) == FORMATS.most
    assert common_format([Formats(5, 6)], Formats(1, 4)) is None
    assert FORMATS.least == 1


@pytest.mark.parametrize(
    ("text", "formats"),
    [("1-2", (1, 2)), ("3-3", (3, 3)), ("", (1, 1)), ("2-1", (1, 1)), ("x-9", (1, 1)), ("0-4", (1, 1))],
)
def test_what_a_member_says_of_its_formats_is_read(text: str, formats: tuple[int, int]) -> None:
    assert formats_in(text) == formats
    assert Formats(*formats).text in (text, "1-1")
