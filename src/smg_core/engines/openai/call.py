"""`HttpAnswerCall`: one generation of an engine that answers over HTTP with events or with one object (edge).

Waits for the network, and for the end of a stream whose answer is whole. What the bytes mean is decided by the decoder of the
`Asking`. Above: the engines that take requests. Below: engines.http, asking.
"""

import asyncio
from collections.abc import Callable, Mapping

import attrs

from smg_core.engines.base import EngineSink
from smg_core.engines.calls import AnswerCall
from smg_core.engines.connections.secrets import SecretHeaders
from smg_core.engines.http.answer import HttpReply
from smg_core.engines.openai.asking import Asking
from smg_core.engines.settings import EnginesConfig
from smg_core.errors import EngineGarbled, ReadingFailed, SmgError
from smg_core.events import Event

__all__ = ["HttpAnswerCall"]

_EVENT_STREAM, _JSON = "text/event-stream", "application/json"
_LOOKED_AT = (_EVENT_STREAM, _JSON, "text/plain")
"""Types under which servers send events or an object: which it is, is seen by the first byte."""
_FIRST = b"{:deir"
"""First bytes of an object, of a comment and of the fields of events (data, event, id, retry): an answer of any other type is
read where it begins with one, and is refused otherwise."""
_BLANK = b" \t\r\n\xef\xbb\xbf"
"""Bytes that may stand before an object or the first event: spaces, and the mark of UTF-8."""
_BINARY = "application/vnd.amazon.eventstream"
"""The type of a stream that is no text: its reader is given all of it."""
_NO_LOSSES: Mapping[str, str] = {}


class HttpAnswerCall:
    """A call in flight: receives the answer (`HttpReceiver`) and pushes what it means, until one of both sides has had enough.
    `error_of` makes the error of an answer that is none, of whose body the beginning is known; `secrets` are kept out of errors.
    `losses` names what of the request the server is not told, each with what is done in its place. `alive` is called for pieces
    of a stream that bring no events, which say that the server is at work."""

    def __init__(
        self,
        asked: Asking,
        sink: EngineSink[Event],
        address: str,
        limits: EnginesConfig,
        secrets: SecretHeaders,
        error_of: Callable[[HttpReply], SmgError],
        losses: Mapping[str, str] = _NO_LOSSES,
        alive: Callable[[], None] | None = None,
    ) -> None:
        self._alive = alive
        self.losses = losses
        self._error_of = error_of
        self._limits = limits
        self._secrets = secrets
        self._decoder, self._any_kind, self._raw = asked.decoder, asked.any_kind, asked.raw
        self._sink = sink
        self._address = address
        self._over = False  # the sink is told nothing more
        self._call: AnswerCall | None = None
        self._refusal: HttpReply | None = None  # the head of an answer that is an error
        self._refused = bytearray()
        self._object: bytearray | None = None  # of an answer that is one object and no stream
        self._unseen = False  # whether the answer is an object or events is seen by its first byte
        self._kind = ""  # the type of an answer, where it is none that servers send
        self._timer: asyncio.TimerHandle | None = None  # for the end of a stream whose answer is whole
        self._paused = False

    def attach(self, call: AnswerCall) -> None:
        """Take the call that was started with this as its receiver."""
        self._call = call

    def keep_out(self, secrets: SecretHeaders) -> None:
        """Take the headers that the request is sent with, which are kept out of errors from now on."""
        self._secrets = secrets

    # --------------------------------------------------------------------------------------------- asked by the sink's owner

    def cancel(self) -> None:
        """Close the connection. The sink hears nothing more. Harmless when the call is already over."""
        self._over = True
        self._stop_timer()
        if self._call is not None:
            self._call.cancel()

    def leave(self) -> None:
        """Leave the call to the server's own end of it."""
        self._over = True
        self._stop_timer()
        if self._call is not None:
            self._call.leave()

    def pause(self) -> None:
        """Stop reading: what one read has brought may still be pushed, then the server is held back by its full socket."""
        self._paused = True
        self._stop_timer()
        if self._call is not None:
            self._call.pause()

    def resume(self) -> None:
        """Read again."""
        self._paused = False
        self._await_end()
        if self._call is not None:
            self._call.resume()

    # ------------------------------------------------------------------------------------------------- pushed by the client

    def head(self, status: int, headers: dict[str, str]) -> None:
        kind = headers.get("content-type", "")
        if status != 200:
            self._refusal = HttpReply(status, headers, b"")
        elif self._raw or kind.lower().startswith(_BINARY):
            self._unseen = False
        elif self._any_kind and not kind.lower().startswith(_EVENT_STREAM):
            self._object = bytearray()
        else:
            self._unseen = True
            self._kind = "" if kind.lower().startswith(_LOOKED_AT) else kind

    def body(self, piece: bytes) -> None:
        if self._refusal is not None:
            self._refused += piece
            if len(self._refused) >= self._limits.http_error_bytes:
                self._stop(self._refusal_error(self._refusal))
            return
        if self._unseen:
            piece = piece.lstrip(_BLANK)
            if not piece:
                return
            self._unseen = False
            if self._kind and piece[0] not in _FIRST:
                kind = repr(self._kind[:64])
                detail = f"{self._address}: content-type {kind}"
                self._stop(
                    EngineGarbled(
                        "The engine did not answer with a stream of events.", detail=detail, outside_text=kind
                    )
                )
                return
            self._object = bytearray() if piece[:1] == b"{" else None
        if self._object is not None:
            self._object += piece
            if len(self._object) > self._limits.http_event_bytes:
                most = self._limits.http_event_bytes
                self._stop(EngineGarbled(f"The engine sent an answer of more than {most} bytes at once."))
            return
        decoder = self._decoder
        try:
            events = decoder.feed(piece)
        except Exception as fault:  # noqa: BLE001  # a fault of the decoder's is not the server's
            self._stop(ReadingFailed.of(fault))
            return
        self._push(events)
        if decoder.done or decoder.error is not None:
            call = self._call
            self._end(decoder.error)
            if call is None:
                return
            if decoder.done:
                call.leave()  # the body's own end mostly came with the last event
            else:
                call.cancel()
        else:
            self._await_end()

    def _await_end(self) -> None:
        """Give a server its time to end a stream whose answer is whole, from the last piece on: some say no [DONE], and some of
        those do not close it either."""
        self._stop_timer()
        if self._decoder.finished and not self._over and not self._paused:
            seconds = self._limits.http_end_s or self._limits.question_timeout_s
            self._timer = asyncio.get_running_loop().call_later(seconds, self._end_is_late)

    def _end_is_late(self) -> None:
        call = self._call
        self.closed(None)
        if call is not None:
            call.cancel()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def closed(self, error: SmgError | None) -> None:
        if self._over:
            return
        if error is None and self._refusal is not None:
            error = self._refusal_error(self._refusal)
        if error is None:
            decoder = self._decoder
            try:
                self._push(decoder.end() if self._object is None else decoder.whole(bytes(self._object)))
                error = decoder.error
            except Exception as fault:  # noqa: BLE001  # as above
                error = ReadingFailed.of(fault)
        self._end(error)

    def _refusal_error(self, refusal: HttpReply) -> SmgError:
        return self._error_of(attrs.evolve(refusal, body=bytes(self._refused[: self._limits.http_error_bytes])))

    def _stop(self, error: SmgError) -> None:
        """End the call on this side."""
        self._end(error)
        if self._call is not None:
            self._call.cancel()

    def _end(self, error: SmgError | None) -> None:
        """Tell the sink how the call ended, unless it was told already or asked not to be."""
        self._stop_timer()
        if self._over:
            return
        if error is not None:
            self._secrets.hide(error)
            if self._decoder.error is None and not isinstance(
                error, ReadingFailed
            ):  # else it is broken off in its midst
                self._push(self._decoder.fail(error))
        if not self._over:
            self._over = True
            self._sink.closed(error)

    def _push(self, events: list[Event]) -> None:
        if self._over:
            return
        if events:
            self._sink.push(events)
        elif self._alive is not None:
            self._alive()
