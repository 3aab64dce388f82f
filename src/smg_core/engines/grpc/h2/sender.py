"""The sending half of an HTTP/2 connection: requests, within the windows and frame sizes of the peer.

Decides which bytes may be sent now. Pure: they collect in `out` until the connection's owner takes them. Above: `connection`.
It does not know what comes back.
"""

from collections.abc import Iterable

from smg_core.engines.grpc.h2 import frames as wire
from smg_core.engines.grpc.h2.frames import FRAME_HEAD, MAX_FRAME, MAX_WINDOW, Code, ProtocolError
from smg_core.engines.grpc.h2.stream import NOTHING, H2Stream

__all__ = ["Sender"]

_DEFAULT_WINDOW = 65_535
_PUMP_BYTES = 256 * 1024  # bytes of request bodies made ready before the socket is asked again


class Sender:
    """The sending half. `writable` is cleared by the owner while its socket is full; `unsent` are the calls, by stream id,
    of which some of the body is still to be put out."""

    def __init__(self) -> None:
        self.out: list[bytes] = []
        self.writable = True
        self._window = _DEFAULT_WINDOW
        self._initial_window = _DEFAULT_WINDOW
        self._max_frame = MAX_FRAME
        self._table_update = b""
        self.unsent: dict[int, H2Stream] = {}

    def open(self, stream: H2Stream) -> None:
        """Write a call's headers, and as much of its body as the windows allow, to the output. `stream.id` is set."""
        stream.send_window = self._initial_window
        block, self._table_update = self._table_update + stream.head, b""
        limit, out, size = self._max_frame, self.out, len(stream.body) + len(stream.rest)
        pack = FRAME_HEAD.pack
        if (
            len(block) <= limit
            and self.writable
            and not self.unsent
            and size <= min(limit, self._window, stream.send_window)
        ):
            self._window -= size  # a call whose request is two frames, as nearly all are
            stream.send_window -= size
            out.append(
                b"".join(
                    (
                        pack(len(block) >> 8, len(block) & 0xFF, wire.HEADERS, wire.END_HEADERS, stream.id),
                        block,
                        pack(size >> 8, size & 0xFF, wire.DATA, wire.END_STREAM, stream.id),
                        stream.body,
                        stream.rest,
                    )
                )
            )
            stream.body, stream.rest = b"", NOTHING
            return
        for at in range(0, len(block), limit):
            kind = wire.CONTINUATION if at else wire.HEADERS
            flags = wire.END_HEADERS if at + limit >= len(block) else 0
            out.append(wire.frame(kind, flags, stream.id, block[at : at + limit]))
        stream.body = memoryview(stream.body)
        self.unsent[stream.id] = stream
        self.pump()

    def forget(self, stream: H2Stream) -> bool:
        """Send no more of a call; returns whether some of it was unsent."""
        stream.body, stream.rest = b"", NOTHING
        return self.unsent.pop(stream.id, None) is not None

    def pump(self) -> bool:
        """Put out more of the bodies that wait, a frame of each in turn and `_PUMP_BYTES` in all; returns whether any moved."""
        budget = _PUMP_BYTES
        while self.unsent and self.writable and budget > 0:
            before = budget
            for stream in list(self.unsent.values()):
                size = min(len(stream.body), stream.send_window, self._window, self._max_frame)
                if size > 0 and budget > 0:
                    self._piece(stream, size)
                    budget -= size
            if budget == before:
                break
        return budget < _PUMP_BYTES

    def _piece(self, stream: H2Stream, size: int) -> None:
        piece, stream.body = stream.body[:size], stream.body[size:]
        if not stream.body:
            stream.body, stream.rest = stream.rest, NOTHING
        stream.send_window -= size
        self._window -= size
        last = not stream.body
        del self.unsent[stream.id]
        if not last:
            self.unsent[stream.id] = stream  # behind the others
        self.out += (wire.frame_head(size, wire.DATA, wire.END_STREAM if last else 0, stream.id), bytes(piece))

    def grant(self, stream: H2Stream | None, increment: int) -> bool:
        """The peer granted `increment` bytes to a stream, or to the connection (None). False: the stream's window is
        broken. Raises ProtocolError when the connection's is."""
        if stream is not None:
            stream.send_window += increment
            return increment > 0 and stream.send_window <= MAX_WINDOW
        self._window += increment
        if not increment or self._window > MAX_WINDOW:
            raise ProtocolError(Code.FLOW_CONTROL_ERROR, "a connection window update of zero or past 2^31-1")
        return True

    def set_initial_window(self, value: int, streams: Iterable[H2Stream]) -> None:
        """Applies to streams that are open too, by the difference; their windows may become negative. Raises ProtocolError."""
        if value > MAX_WINDOW:
            raise ProtocolError(Code.FLOW_CONTROL_ERROR, "an initial window over 2^31-1")
        change, self._initial_window = value - self._initial_window, value
        for stream in streams:
            stream.send_window += change
            if stream.send_window > MAX_WINDOW:
                raise ProtocolError(Code.FLOW_CONTROL_ERROR, "a window over 2^31-1")

    def set_max_frame(self, value: int) -> None:
        """Raises ProtocolError for a size the protocol does not allow."""
        if not MAX_FRAME <= value < 2**24:
            raise ProtocolError(Code.PROTOCOL_ERROR, f"a maximum frame size of {value}")
        self._max_frame = min(value, _PUMP_BYTES)

    def announce_table(self) -> None:
        """Announce a table of size 0 after the peer has resized its own: HPACK asks for it, though our blocks never use it."""
        self._table_update = b"\x20"
