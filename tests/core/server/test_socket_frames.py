"""Frames of a WebSocket: however they are cut, what comes out is what the client meant, or the fault that it has made."""

from itertools import pairwise

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.frames import Frame, Opcode
from websockets.speedups import apply_mask

from smg_core.server.socket_frames import CLOSE, PING, PONG, FrameEvent, FrameFault, FrameReader, SocketMessage

MOST = 1024
OPCODES = {PING: Opcode.PING, PONG: Opcode.PONG, CLOSE: Opcode.CLOSE}


def read(reader: FrameReader, *pieces: bytes) -> list[FrameEvent]:
    """All that comes of these bytes, up to a fault."""
    events = []
    for piece in pieces:
        reader.feed(piece)
        while not reader.starved:
            event = reader.step()
            if event is not None:
                events.append(event)
            if isinstance(event, FrameFault):
                return events
    return events


def reader(most: int = MOST) -> FrameReader:
    return FrameReader(most, apply_mask)


def frame(opcode: Opcode, data: bytes = b"", *, fin: bool = True) -> bytes:
    """As the websockets library writes it for a client, with a mask of its own."""
    return Frame(opcode, data, fin).serialize(mask=True)


def plain(events: list[FrameEvent]) -> list[tuple[object, bytes]]:
    return [
        (each.text, bytes(each.data)) if isinstance(each, SocketMessage) else attrs.astuple(each) for each in events
    ]


@attrs.frozen
class Sent:
    """A message in fragments, with control frames before each of them."""

    text: bool
    fragments: tuple[bytes, ...]
    controls: tuple[tuple[tuple[int, bytes], ...], ...]

    def frames(self) -> bytes:
        sent, last = b"", len(self.fragments) - 1
        for number, data in enumerate(self.fragments):
            sent += b"".join(frame(OPCODES[kind], carried) for kind, carried in self.controls[number])
            opcode = Opcode.CONT if number else Opcode.TEXT if self.text else Opcode.BINARY
            sent += frame(opcode, data, fin=number == last)
        return sent

    def events(self) -> list[tuple[object, bytes]]:
        return [*(each for before in self.controls for each in before), (self.text, b"".join(self.fragments))]


@st.composite
def sent(draw: st.DrawFn) -> Sent:
    text = draw(st.booleans())
    data = draw(st.text(max_size=70)).encode() if text else draw(st.binary(max_size=300))
    cuts = sorted(draw(st.lists(st.integers(0, len(data)), max_size=5)))
    edges = [0, *cuts, len(data)]
    fragments = tuple(data[at:end] for at, end in pairwise(edges))
    control = st.tuples(st.sampled_from(list(OPCODES)), st.binary(max_size=125))
    controls = tuple(tuple(draw(st.lists(control, max_size=2))) for _ in fragments)
    return Sent(text, fragments, controls)


def cut(data: bytes, at: list[int]) -> list[bytes]:
    edges = [0, *sorted(each % (len(data) + 1) for each in at), len(data)]
    return [data[begin:end] for begin, end in pairwise(edges)]


@pytest.mark.full
@given(st.lists(sent(), max_size=4), st.lists(st.integers(0), max_size=6))
def test_messages_come_out_as_they_were_sent_however_the_bytes_arrive(messages: list[Sent], at: list[int]) -> None:
    data = b"".join(each.frames() for each in messages)
    made = reader()
    assert plain(read(made, *cut(data, at))) == [event for each in messages for event in each.events()]
    assert (made.idle, made.size) == (True, 0)


@given(st.binary(max_size=300), st.lists(st.integers(0), max_size=6))
def test_any_bytes_are_read_alike_whole_and_in_pieces(data: bytes, at: list[int]) -> None:
    assert plain(read(reader(), data)) == plain(read(reader(), *cut(data, at)))


def masked(first: int, length: int, *, masked: bool = True) -> bytes:
    """A head without its payload: bytes that a well-meant client does not write."""
    return bytes((first, (0x80 if masked else 0) | length)) + bytes(4)


TOO_LONG = b"\x82\xff" + (2**63).to_bytes(8, "big")
FAULTS = {
    "the first reserved bit": (masked(0xC1, 0), 1002),
    "the second reserved bit": (masked(0xA1, 0), 1002),
    "the third reserved bit": (masked(0x91, 0), 1002),
    "a reserved bit of a ping": (masked(0xC9, 0), 1002),
    **{f"the opcode {kind}": (masked(0x80 | kind, 0), 1002) for kind in (3, 4, 5, 6, 7, 11, 12, 13, 14, 15)},
    "no mask": (masked(0x81, 0, masked=False), 1002),
    "no mask of a ping": (masked(0x89, 0, masked=False), 1002),
    "a fragmented ping": (masked(0x09, 0), 1002),
    "a fragmented pong": (masked(0x0A, 0), 1002),
    "a fragmented close": (masked(0x08, 0), 1002),
    "a ping of 126 bytes": (b"\x89\xfe\x00\x7e" + bytes(4), 1002),
    "a close of 2**16 bytes": (b"\x88\xff" + (2**16).to_bytes(8, "big") + bytes(4), 1002),
    "a continuation first": (frame(Opcode.CONT, b"x"), 1002),
    "a continuation behind a whole message": (frame(Opcode.TEXT, b"x") + frame(Opcode.CONT, b"x"), 1002),
    "a text within a text": (frame(Opcode.TEXT, b"x", fin=False) + frame(Opcode.TEXT, b"x"), 1002),
    "bytes within a text": (frame(Opcode.TEXT, b"x", fin=False) + frame(Opcode.BINARY, b"x"), 1002),
    "a text that is none": (frame(Opcode.TEXT, b"a\xff"), 1007),
    "a text that ends in a character": (frame(Opcode.TEXT, "é".encode()[:1]), 1007),
    "a surrogate": (frame(Opcode.TEXT, b"\xed\xa0\x80"), 1007),
    "a slash in two bytes": (frame(Opcode.TEXT, b"\xc0\xaf"), 1007),
    "a text that is none in its second fragment": (
        frame(Opcode.TEXT, "é".encode()[:1], fin=False) + frame(Opcode.CONT, b"x"),
        1007,
    ),
    "a message over the limit": (frame(Opcode.BINARY, bytes(MOST + 1)), 1009),
    "a length over the limit": (b"\x82\xfe" + (MOST + 1).to_bytes(2, "big"), 1009),
    "a length of 64 bits": (TOO_LONG, 1009),
    "fragments over the limit": (
        frame(Opcode.BINARY, bytes(MOST), fin=False) + frame(Opcode.PING) + frame(Opcode.CONT, b"x"),
        1009,
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_what_breaks_the_protocol_is_a_fault_with_its_code_wherever_the_bytes_are_cut(name: str) -> None:
    data, code = FAULTS[name]
    for at in range(len(data) + 1):
        *before, fault = read(reader(), data[:at], data[at:])
        assert isinstance(fault, FrameFault)
        assert fault.code == code
        assert not any(isinstance(each, FrameFault) for each in before)


def test_a_fault_is_found_before_the_payload_that_a_frame_announces() -> None:
    assert isinstance(read(reader(), b"\xc1")[-1], FrameFault)
    assert isinstance(read(reader(), TOO_LONG)[-1], FrameFault)
    assert isinstance(read(reader(), b"\x82\xfe" + (MOST + 1).to_bytes(2, "big"))[-1], FrameFault)


def test_text_that_is_none_is_found_before_its_message_is_whole() -> None:
    assert isinstance(read(reader(), frame(Opcode.TEXT, b"a\xff", fin=False))[-1], FrameFault)


def test_what_is_partly_here_is_known_with_its_size() -> None:
    made = reader()
    assert (made.idle, made.between, made.starved) == (True, True, True)
    read(made, b"\x82")
    assert (made.idle, made.between, made.size) == (False, True, 0)
    read(made, b"\x85" + bytes(4) + b"abc")
    assert (made.idle, made.between, made.size) == (False, False, 3)
    read(made, b"de")
    assert (made.idle, made.size) == (True, 0)

    read(made, frame(Opcode.BINARY, b"abc", fin=False), frame(Opcode.PING, b"x"))
    assert (made.idle, made.size) == (False, 3)
    read(made, frame(Opcode.CONT, b"", fin=False) * 5)
    assert (made.idle, made.size) == (False, 3)


def test_a_step_takes_a_piece_of_a_long_payload_and_all_are_the_message() -> None:
    made, data = reader(1 << 20), bytes(range(256)) * 2048
    made.feed(frame(Opcode.BINARY, data))
    steps, events = 0, []
    while not made.starved:
        events.append(made.step())
        steps += 1
    assert steps == len(data) // 65536
    assert plain([each for each in events if each is not None]) == [(False, data)]
