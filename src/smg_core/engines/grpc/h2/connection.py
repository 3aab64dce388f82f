"""One HTTP/2 connection to an engine, without the socket: bytes in, pushes to receivers and bytes out.

Decides everything that HTTP/2 and gRPC framing ask of a client: what a frame means, how much window to grant, when a call may
be sent, which calls survive a GOAWAY, and when to close the connection of a misbehaving peer. It reads no clock and owns no
socket: `receive` is given the bytes that were read, `take` returns the bytes to write, `tick` is given the time. Above:
`h2.transport`. It does not know what the messages mean.

The hot path is `receive`: a token is usually one DATA frame with one whole message in it, so that case is recognised
with one unpack and four comparisons, and everything else goes to `_frame`. All messages one read brought for a call are
pushed in one `Receiver.messages`; window is granted when half of it is used, not per frame.

What a peer can make this side hold is bounded: one message a call (`EnginesConfig.message_bytes`), one header block, one partial
frame, `waiting_calls` calls that wait for a free stream; and frames that bring nothing are counted until one that does.
"""

import struct
from collections.abc import Callable, Sequence

from smg_core.engines.base import Receiver
from smg_core.engines.grpc.h2 import frames as wire
from smg_core.engines.grpc.h2.frames import MAX_FRAME, MAX_WINDOW, Code, ProtocolError, SettingsParameter
from smg_core.engines.grpc.h2.headers import HeadDecoder, RequestHeads, check_metadata
from smg_core.engines.grpc.h2.keepalive import KeepAlive, KeepaliveAction
from smg_core.engines.grpc.h2.sender import Sender
from smg_core.engines.grpc.h2.stream import H2Stream, outcome, protocol_broken
from smg_core.engines.grpc.h2.waiting import WaitingCalls
from smg_core.engines.settings import EnginesConfig
from smg_core.engines.status import error_from_http, error_from_reset
from smg_core.errors import EngineGarbled, ReadingFailed, SmgError, WorkerGone

__all__ = ["Connection"]

_FAST = struct.Struct(">IBIBI")  # frame: length and kind, flags, stream; gRPC prefix: compressed, length
_U32 = struct.Struct(">I")
_SETTING = struct.Struct(">HI")

_DEFAULT_WINDOW = 65_535
_DEFAULTS = EnginesConfig()


class Connection:
    """The client's side of one connection. Never raises on bytes of the peer; `failure` says what went wrong.

    `wants_write` is called when something outside `receive` made output or left no work; the owner calls `take`, or closes.
    """

    def __init__(
        self,
        scheme: str,
        authority: str,
        *,
        limits: EnginesConfig = _DEFAULTS,
        user_agent: str = "smg",
        wants_write: Callable[[], None] = lambda: None,
    ) -> None:
        self.limits = limits
        self.failure: SmgError | None = None  # set once the connection is over
        self.draining = False  # the peer takes no new calls
        self.greeted = False  # the peer's SETTINGS have arrived
        self.answers = 0  # reads that brought messages
        self.sender = Sender()
        self.out = self.sender.out
        self._wants_write = wants_write
        self._requests = RequestHeads(scheme, authority, user_agent)
        self._streams: dict[int, H2Stream] = {}
        self._waiting = WaitingCalls(limits)
        self._max_streams = limits.streams
        self._next_id = 1
        self._ready: list[H2Stream] = []  # those with messages of the present read
        self._receiving = False
        self._rest = b""
        self._window = self._full_window = max(limits.connection_window_bytes, _DEFAULT_WINDOW)
        self._low_window = self._full_window // 2
        self._held = 0  # bytes of messages that are partly here
        self._plain_size = min(MAX_FRAME - 5, limits.message_bytes)  # of a message that is one frame
        self._owed = 0  # bytes that may be on their way for calls that we have cancelled
        self._heads = HeadDecoder(limits.header_block_bytes)
        self._block: bytearray | None = None  # a header block that CONTINUATION frames are still to complete
        self._block_of, self._block_flags = 0, 0
        self._idle = 0  # frames in a row that brought nothing
        self._alive = KeepAlive(limits.ping_interval_s, limits.ping_timeout_s)
        self._greet()

    def _greet(self) -> None:
        limits = self.limits
        ours = (
            (SettingsParameter.ENABLE_PUSH, 0),
            (SettingsParameter.INITIAL_WINDOW_SIZE, limits.stream_window_bytes),
            (SettingsParameter.MAX_HEADER_LIST_SIZE, limits.header_block_bytes),
        )
        self.out += (wire.PREFACE, wire.settings(ours))
        if self._full_window > _DEFAULT_WINDOW:
            self.out.append(wire.window_update(0, self._full_window - _DEFAULT_WINDOW))

    # ---------------------------------------------------------------------------------------- called by the transport

    @property
    def usable(self) -> bool:
        """Whether a new call may be put on this connection."""
        return not self.draining and self.failure is None

    @property
    def over(self) -> bool:
        """Whether the socket may be closed: failed, or drained of its last call."""
        return self.failure is not None or (self.draining and not self._streams)

    def take(self) -> bytes:
        """Return and remove all output, in order; empty bytes when there is none."""
        out = self.out
        if not out:
            return b""
        data = out[0] if len(out) == 1 else b"".join(out)
        out.clear()
        return data

    def request(
        self,
        path: str,
        message: bytes,
        receiver: Receiver,
        *,
        metadata: Sequence[tuple[str, str]] = (),
        timeout: float | None = None,
        question: bool = False,
    ) -> H2Stream:
        """A new call with its whole request. When no stream is free it waits (`id` 0) in a bounded queue. A `question` goes
        before other calls, and has streams that are kept for questions.

        Raises WorkerGone when the connection takes no new calls, WorkerBusy when the queue is full, InternalError for
        metadata that may not be sent.
        """
        if self.draining or self.failure is not None:
            raise self.failure or WorkerGone("The engine is shutting down.", detail="GOAWAY received")
        if metadata:
            check_metadata(metadata, self.limits.metadata_bytes)
        stream = H2Stream(self, receiver, self._requests.block(path, metadata, timeout), message, question)
        if self._waiting.sends_now(stream, len(self._streams), self._max_streams):
            self._send_request(stream)
        else:
            self._waiting.add(stream, self.answers)
        return stream

    def cancel(self, stream: H2Stream) -> None:
        """Cancel a call here and at the engine; nothing more is pushed to its receiver."""
        if not stream.done:
            stream.done = True
            self._forget(stream, Code.CANCEL)
            self._output()

    def end(self, stream: H2Stream, error: SmgError) -> None:
        """End a call from this side; its receiver is told `error`."""
        if not stream.done:
            self._finish(stream, error, Code.CANCEL)
            self._output()

    def resume(self, stream: H2Stream) -> None:
        """Grant a paused call what it has used of its window."""
        stream.paused = False
        stream.low = self.limits.stream_window_bytes // 2
        if not stream.done and stream.id and stream.window < stream.low:
            self._refill(stream)
            self._output()

    def lost(self, error: SmgError) -> None:
        """The socket is gone or to be closed: every call ends with `error`, and none can be made."""
        if self.failure is None:
            self.failure = error
        self._rest, self._ready = b"", []
        for stream in list(self._streams.values()):
            self._finish(stream, error)
        self._drop_waiting(error)

    def goodbye(self) -> None:
        """Tell the peer that no more calls come."""
        self.draining = True
        self.out.append(wire.frame(wire.GOAWAY, 0, 0, bytes(8)))

    def retire(self) -> None:
        """Take no more calls. Those under way go on; those that wait are told that they are to go over another connection."""
        self.goodbye()
        self._drop_waiting(WorkerGone("The engine is not available.", detail="nothing comes over the connection"))

    def tick(self, now: float) -> float:
        """Keep-alive: to be called after the seconds that the last call returned; `now` is in seconds of any steady clock.

        Pings an engine that has been silent while calls are open, and declares the connection lost when no byte came back
        within `ping_timeout`.
        """
        self._idle = 0
        verdict, delay = self._alive.tick(now, len(self._streams))
        if verdict is KeepaliveAction.GIVE_UP:
            self.lost(WorkerGone("The engine does not answer.", detail="keep-alive ping unanswered"))
        elif verdict is KeepaliveAction.PING:
            self.out.append(wire.frame(wire.PING, 0, 0, b"smg-ping"))
            self._wants_write()
        return delay

    # ---------------------------------------------------------------------------------------------------- bytes in

    def receive(self, data: bytes) -> None:
        """Handle the bytes of one read of the socket, and push the messages in them. Output it causes is left for `take`."""
        if self.failure is not None:
            return
        self._alive.heard = self._receiving = True
        try:
            self._read(data)
            ready, self._ready = self._ready, []
            if ready:
                self.answers += 1
                self._idle = self._alive.quiet_pings = 0
            for stream in ready:  # one push for each receiver
                batch, stream.batch = stream.batch, None
                if batch is not None and not stream.done:
                    try:
                        stream.push(batch)
                    except Exception as fault:  # noqa: BLE001  # other calls are on this connection
                        self._finish(stream, ReadingFailed.of(fault), Code.CANCEL)
        except ProtocolError as fault:
            self._fail(fault)
        finally:
            self._receiving = False

    def _read(self, data: bytes) -> None:
        """Cut the frames of one read, and the messages out of them."""
        if self._rest:
            data = self._rest + data
        at, size, taken = 0, len(data), 0
        get, unpack, ready = self._streams.get, _FAST.unpack_from, self._ready
        fast, most = self._block is None, self._plain_size
        while at < size:
            if fast and size - at >= 14:
                word, flags, number, packed, length = unpack(data, at)
                start = at + 14
                end = start + length
                # One DATA frame, no flags, holding exactly one uncompressed message, all of it here.
                if word == length + 5 << 8 and not flags and not packed and end <= size:
                    stream = get(number)
                    if stream is not None and stream.plain and length <= most:
                        at = end
                        length += 5
                        taken += length
                        stream.window = window = stream.window - length
                        if window < stream.low:
                            self._refill(stream)
                        batch = stream.batch
                        if batch is None:
                            stream.batch = [data[start:end]]
                            ready.append(stream)
                        else:
                            batch.append(data[start:end])
                        continue
            end = self._frame(data, at, size)
            if not end:
                break
            at = end
            fast = self._block is None
        self._rest = data[at:] if at < size else b""
        self._window -= taken
        if self._window < self._low_window:
            self._use_window(0)

    def _use_window(self, size: int) -> None:
        """Account for `size` bytes of the connection's window, and grant them anew when half is used."""
        self._window -= size
        if self._window < 0:
            raise ProtocolError(Code.FLOW_CONTROL_ERROR, "more data than the connection's window")
        if self._window < self._low_window:
            self.out.append(wire.window_update(0, self._full_window - self._window))
            self._window = self._full_window

    def _refill(self, stream: H2Stream) -> None:
        """Grant a stream whose window is below half its full window again, unless it is paused. Ends it where the peer
        ignored the window."""
        if stream.window < 0:
            self._finish(stream, protocol_broken("sent more than its window allows"), Code.FLOW_CONTROL_ERROR)
        elif not stream.paused:
            full = self.limits.stream_window_bytes
            self.out.append(wire.window_update(stream.id, full - stream.window))
            stream.window = full

    def _frame(self, data: bytes, at: int, size: int) -> int:
        """Handle the frame at `at`; returns where the next begins, or 0 when this one is not all there."""
        if size - at < 9:
            return 0
        high, low, kind, flags, number = wire.FRAME_HEAD.unpack_from(data, at)
        length: int = high << 8 | low
        if length > MAX_FRAME:
            raise ProtocolError(Code.FRAME_SIZE_ERROR, f"a frame of {length} bytes; is this an HTTP/2 server?")
        if not self.greeted and kind != wire.SETTINGS:
            raise ProtocolError(Code.PROTOCOL_ERROR, "the first frame is not SETTINGS; is this an HTTP/2 server?")
        at += 9
        if at + length > size:
            return 0
        if self._block is not None and kind != wire.CONTINUATION:
            raise ProtocolError(Code.PROTOCOL_ERROR, "a header block was interrupted")
        handler = _HANDLERS.get(kind)
        if handler is None:
            self._count_idle_frame()  # PRIORITY and kinds we do not know
        else:
            handler(self, number & 0x7FFFFFFF, flags, data, at, at + length)
        return at + length

    def _count_idle_frame(self) -> None:
        """Count a frame that brings nothing; raises ProtocolError after too many in a row."""
        self._idle += 1
        if self._idle > self.limits.idle_frames:
            raise ProtocolError(Code.ENHANCE_YOUR_CALM, "too many frames that bring nothing")

    def _stream_of(self, number: int) -> H2Stream | None:
        """The open stream a frame is for; None when it is over. A stream we never opened is a fault."""
        if number == 0 or not number & 1 or number >= self._next_id:
            raise ProtocolError(Code.PROTOCOL_ERROR, f"a frame for stream {number}, which was never opened")
        return self._streams.get(number)

    # ---------------------------------------------------------------------------------------------------------- DATA

    def _on_data(self, number: int, flags: int, data: bytes, at: int, end: int) -> None:
        stream = self._stream_of(number)
        size = end - at
        self._use_window(size)
        if flags & wire.PADDED:
            at, end = wire.unpad(data, at, end)
        if at == end and not flags & wire.END_STREAM:
            self._count_idle_frame()
        if stream is None:
            self._owed -= size
            if self._owed < 0:
                self._count_idle_frame()
            return
        stream.window -= size
        if stream.window < stream.low:
            self._refill(stream)
        if not stream.done:
            self._collect(stream, data, at, end)
        if flags & wire.END_STREAM and not stream.done:
            self._finish(stream, protocol_broken("ended the answer without a status"))

    def _collect(self, stream: H2Stream, data: bytes, at: int, end: int) -> None:
        held, first = len(stream.partial), stream.batch is None
        wrong = stream.collect(data, at, end)
        if first and stream.batch is not None:
            self._ready.append(stream)
        self._held += len(stream.partial) - held
        if wrong is None and self._held > self.limits.held_bytes:
            wrong = "sent too many messages at once that are partly here"
        if wrong is not None:
            self._finish(stream, protocol_broken(wrong), Code.CANCEL)

    # ------------------------------------------------------------------------------------------------------- HEADERS

    def _on_headers(self, number: int, flags: int, data: bytes, at: int, end: int) -> None:
        if flags & wire.PADDED:
            at, end = wire.unpad(data, at, end)
        if flags & wire.PRIORITY_FLAG:
            at += 5
        if at > end:
            raise ProtocolError(Code.FRAME_SIZE_ERROR, "a HEADERS frame too short for its flags")
        if number not in self._streams:
            self._stream_of(number)
        if flags & wire.END_HEADERS:
            self._on_block(number, flags, data[at:end])
        else:
            self._block, self._block_of, self._block_flags = bytearray(), number, flags
            self._add_to_block(data[at:end])

    def _add_to_block(self, piece: bytes) -> None:
        if self._block is None or len(self._block) + len(piece) > self.limits.header_block_bytes:
            raise ProtocolError(Code.ENHANCE_YOUR_CALM, "a header block over its limit")
        self._block += piece

    def _on_continuation(self, number: int, flags: int, data: bytes, at: int, end: int) -> None:
        block = self._block
        if block is None or number != self._block_of:
            raise ProtocolError(Code.PROTOCOL_ERROR, "a CONTINUATION without its HEADERS")
        self._add_to_block(data[at:end])
        self._count_idle_frame()
        if flags & wire.END_HEADERS:
            self._block = None
            self._on_block(number, self._block_flags, bytes(block))

    def _on_block(self, number: int, flags: int, block: bytes) -> None:
        # Decoded even for a call that is over: the table must follow every block.
        head = self._heads.decode(block)
        stream = self._streams.get(number)
        if stream is None:
            self._count_idle_frame()
            return
        self._alive.quiet_pings = 0
        if head is None:
            self._finish(stream, protocol_broken("sent a malformed header block"), Code.PROTOCOL_ERROR)
        elif flags & wire.END_STREAM:
            self._finish(stream, outcome(stream, head))
        elif stream.plain or stream.need:
            self._finish(stream, protocol_broken("sent trailers that do not end the answer"), Code.PROTOCOL_ERROR)
        elif 100 <= head.http < 200:
            self._count_idle_frame()
        elif head.http != 200:
            self._finish(stream, error_from_http(head.http), Code.CANCEL)
        elif not head.content_type.startswith("application/grpc"):
            reason = f"answered with content-type {head.content_type[:80]!r}"
            self._finish(stream, protocol_broken(reason), Code.CANCEL)
        else:
            stream.plain = True
            stream.message = None

    # ---------------------------------------------------------------------------------------------- the other frames

    def _on_reset(self, number: int, flags: int, data: bytes, at: int, end: int) -> None:
        if end - at != 4:
            raise ProtocolError(Code.FRAME_SIZE_ERROR, "an RST_STREAM frame of the wrong size")
        stream = self._stream_of(number)
        code = _U32.unpack_from(data, at)[0]
        if stream is None:
            self._count_idle_frame()
        elif (
            code == Code.REFUSED_STREAM
            and self.usable
            and stream.message is not None
            and stream.refusals < self.limits.refusals
        ):
            self._count_idle_frame()
            self._send_again(stream)
        else:
            self._finish(stream, error_from_reset(code))

    def _send_again(self, stream: H2Stream) -> None:
        """Send a call again that the engine refused unread, as servers do when a stream ends and one begins at the same time."""
        del self._streams[stream.id]
        self.sender.forget(stream)
        stream.renew()
        self._waiting.add_again(stream, self.answers)
        self._admit()

    def _on_settings(self, number: int, flags: int, data: bytes, at: int, end: int) -> None:
        self._count_idle_frame()
        if number:
            raise ProtocolError(Code.PROTOCOL_ERROR, "SETTINGS on a stream")
        if flags & wire.ACK:
            if at != end or not self.greeted:
                raise ProtocolError(Code.FRAME_SIZE_ERROR, "an acknowledgement of settings out of place")
            return
        if (end - at) % 6:
            raise ProtocolError(Code.FRAME_SIZE_ERROR, "a SETTINGS frame of the wrong size")
        for key, value in _SETTING.iter_unpack(data[at:end]):
            self._set(key, value)
        self.greeted = True
        self.out.append(wire.frame(wire.SETTINGS, wire.ACK, 0))
        self._admit()
        if self.sender.unsent:
            self._pump()

    def _set(self, key: int, value: int) -> None:
        if key == SettingsParameter.INITIAL_WINDOW_SIZE:
            self.sender.set_initial_window(value, self._streams.values())
        elif key == SettingsParameter.MAX_FRAME_SIZE:
            self.sender.set_max_frame(value)
        elif key == SettingsParameter.MAX_CONCURRENT_STREAMS:
            self._max_streams = min(value, self.limits.streams)
        elif key == SettingsParameter.HEADER_TABLE_SIZE:
            self.sender.announce_table()
        elif key == SettingsParameter.ENABLE_PUSH and value:
            raise ProtocolError(Code.PROTOCOL_ERROR, "a server that sets ENABLE_PUSH")

    def _on_push(self, number: int, flags: int, data: bytes, at: int, end: int) -> None:
        raise ProtocolError(Code.PROTOCOL_ERROR, "PUSH_PROMISE, which our settings refuse")

    def _on_ping(self, number: int, flags: int, data: bytes, at: int, end: int) -> None:
        if number:
            raise ProtocolError(Code.PROTOCOL_ERROR, "PING on a stream")
        if end - at != 8:
            raise ProtocolError(Code.FRAME_SIZE_ERROR, "a PING frame of the wrong size")
        self._count_idle_frame()
        if not flags & wire.ACK:
            self.out.append(wire.frame(wire.PING, wire.ACK, 0, data[at:end]))

    def _on_goaway(self, number: int, flags: int, data: bytes, at: int, end: int) -> None:
        if number or end - at < 8:
            raise ProtocolError(Code.PROTOCOL_ERROR, "a malformed GOAWAY frame")
        self._count_idle_frame()
        last, code = _U32.unpack_from(data, at)[0] & MAX_WINDOW, _U32.unpack_from(data, at + 4)[0]
        self.draining = True
        text = data[at + 8 : min(end, at + 208)].decode("ascii", "replace").rstrip()
        error = WorkerGone(
            "The engine is shutting down.", detail=f"GOAWAY, code {code} {text}".rstrip(), outside_text=text
        )
        for stream in [stream for stream in self._streams.values() if stream.id > last]:
            self._finish(stream, error)
        self._drop_waiting(error)

    def _on_window_update(self, number: int, flags: int, data: bytes, at: int, end: int) -> None:
        if end - at != 4:
            raise ProtocolError(Code.FRAME_SIZE_ERROR, "a WINDOW_UPDATE frame of the wrong size")
        self._count_idle_frame()
        increment = _U32.unpack_from(data, at)[0] & MAX_WINDOW
        stream = self._stream_of(number) if number else None
        if number and stream is None:
            return
        if not self.sender.grant(stream, increment) and stream is not None:
            self._finish(
                stream, protocol_broken("sent a window update of zero or past 2^31-1"), Code.FLOW_CONTROL_ERROR
            )
        if self.sender.unsent:
            self._pump()

    def _pump(self) -> None:
        if self.sender.pump():
            self._idle = 0

    # --------------------------------------------------------------------------------------------- calls come and go

    def _send_request(self, stream: H2Stream) -> None:
        """Give a call its stream id, and write its headers, and as much of its body as the window allows, to the output."""
        stream.id = number = self._next_id
        self._next_id += 2
        if self._next_id > MAX_WINDOW:
            self.draining = True  # ids are used up: the next call needs a new connection
        self._streams[number] = stream
        self.sender.open(stream)
        if self.draining:
            self._drop_waiting(
                WorkerGone("The engine is not available.", detail="the connection's stream ids are used up")
            )

    def _finish(self, stream: H2Stream, error: SmgError | None, reset: int | None = None) -> None:
        """End a call and tell its receiver, after all earlier messages. `reset`: the peer must still be told."""
        batch, stream.batch = stream.batch, None
        if batch is not None and not stream.done:
            try:
                stream.push(batch)
            except Exception as fault:  # noqa: BLE001
                error, reset = ReadingFailed.of(fault), Code.CANCEL
        if stream.done:
            return
        stream.done = True
        self._forget(stream, reset)
        stream.receiver.closed(error)

    def _forget(self, stream: H2Stream, reset: int | None) -> None:
        """Release all that a finished call holds, and send the next one that waits."""
        stream.plain = False
        stream.batch = stream.message = None
        self._held -= len(stream.partial)
        stream.partial = bytearray()
        if stream.id:
            self._streams.pop(stream.id, None)
            unsent = self.sender.forget(stream)
            if (reset is not None or unsent) and self.failure is None:
                code = Code.CANCEL if reset is None else reset
                self._owed = min(self._owed + max(stream.window, 0), 2 * self._full_window)
                self.out.append(wire.frame(wire.RST_STREAM, 0, stream.id, _U32.pack(code)))
        else:
            self._waiting.remove(stream)
        if stream.on_end is not None:
            stream.on_end()
        if self._waiting:
            self._admit()

    def _admit(self) -> None:
        """Send calls that waited for a stream: questions, then others, the oldest first."""
        while self.usable and (stream := self._waiting.next(len(self._streams), self._max_streams)) is not None:
            self._send_request(stream)
            if stream.on_sent is not None:
                tell, stream.on_sent = stream.on_sent, None
                tell(None)

    def _drop_waiting(self, error: SmgError) -> None:
        """Drop the calls that wait for a stream. Nothing of them was sent, so their receivers are told nothing."""
        for stream in self._waiting.drain():
            if stream.refusals:  # it was sent once, and its receiver waits
                self._finish(stream, error)
                continue
            stream.done = True
            if stream.on_sent is not None:
                stream.on_sent(error)

    def _fail(self, fault: ProtocolError) -> None:
        last = bytes(4) + _U32.pack(fault.code)
        self.out.append(wire.frame(wire.GOAWAY, 0, 0, last + fault.reason.encode()[:200]))
        self.lost(
            EngineGarbled("The engine broke its own protocol.", detail=fault.reason, outside_text=fault.outside_text)
        )

    def _output(self) -> None:
        """Called where something else than the peer's bytes may have made output, or ended a draining connection's last call."""
        if (self.out or self.over) and not self._receiving:
            self._wants_write()


_HANDLERS: dict[int, Callable[[Connection, int, int, bytes, int, int], None]] = {
    wire.DATA: Connection._on_data,
    wire.HEADERS: Connection._on_headers,
    wire.RST_STREAM: Connection._on_reset,
    wire.SETTINGS: Connection._on_settings,
    wire.PUSH_PROMISE: Connection._on_push,
    wire.PING: Connection._on_ping,
    wire.GOAWAY: Connection._on_goaway,
    wire.WINDOW_UPDATE: Connection._on_window_update,
    wire.CONTINUATION: Connection._on_continuation,
}
