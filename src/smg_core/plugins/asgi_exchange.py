"""One exchange on its way through ASGI middleware of the operator (edge).

Each middleware is called with a scope, `receive` and `send`, and calls the next one. Behind the last is the step that answers; it
reads and writes through all of them, so there is no way around. What leaves the outermost is what is counted. If one fails before
anything has left, the client gets an error of the gateway, through those around it; one that is "open" is left out. If a stream
of events has begun, it ends with an error event; another answer is cut off, and one that is over stays whole. What one sends is
checked as it passes, so that it is known whose failure it is.
Above: `plugging`. Below: the exchange, `middleware`.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import cast

from smg_core.errors import InternalError, SmgError
from smg_core.http.exchange import Exchange
from smg_core.http.scope import AsgiMessage, DirectSend, Header, Receive, Scope, Send, direct_of
from smg_core.http.stream_errors import error_event
from smg_core.middleware.asgi import STEP, AsgiMiddleware
from smg_core.middleware.asgi_messages import STARTS, SentAnswer, check_received
from smg_core.middleware.asking import app_verdict, checked, fault_words
from smg_core.middleware.base import MiddlewareFault
from smg_core.middleware.chain import Happened, ReportHappened
from smg_core.middleware.entries import Link

__all__ = ["OwnHeaders", "Refuse", "Wrapped"]

Refuse = Callable[[Exchange, SmgError], Awaitable[None]]
"""Tells the client an error, in the envelope of its API."""
OwnHeaders = Callable[[Exchange], Sequence[Header]]
"""The headers that every answer has."""


def _is_plain_stream(headers: Iterable[Header]) -> bool:
    """Whether an answer is a stream of events to which one can be added: its body has no coding, and no length."""
    found = {name.lower(): value for name, value in headers}
    coded = found.keys() & {b"content-encoding", b"content-length"}
    return found.get(b"content-type", b"").startswith(b"text/event-stream") and not coded


class _Checkpoint:
    """What one middleware is given to receive and send with: checks and notes what passes."""

    def __init__(self, name: str, scope: Scope, receive: Receive, send: Send) -> None:
        self.name, self._receive, self._send = name, receive, send
        self.answer = SentAnswer(scope.get("method", ""), scope.get("extensions") or ())
        self.first: AsgiMessage | None = None
        self.fault: MiddlewareFault | None = None  # of the middleware, at which nothing more of its answer passes
        self.broken: BaseException | None = None  # what came from further out
        self.fast = 0
        self._is_stream, self._tail = False, b"\n\n"
        self.begins: Callable[[AsgiMessage], None] | None = None
        self.send: Send = self._pass
        direct = direct_of(send)
        if direct is not None:
            self._write_now = direct.write_now
            self.send = DirectSend(self._pass, self._pass_now, lambda: self.fast)

    async def receive(self) -> AsgiMessage:
        try:
            message = await self._receive()
        except (MiddlewareFault, SmgError) as error:  # of a middleware further out
            self.broken = error
            raise
        if self.first is None:
            self.first = message
        return message

    async def again(self) -> AsgiMessage:
        """As `receive`, but begins with what the middleware has received: for who answers in its place."""
        return self.first if self.first is not None else await self.receive()

    async def _pass(self, message: AsgiMessage) -> None:
        begins = not self.answer.started
        try:
            self.answer.take(message, self.fast)
        except MiddlewareFault as fault:
            self.fault = self.fault or fault
            raise
        kind = message["type"]
        if kind in STARTS:
            if not isinstance(message.get("headers", ()), list | tuple):
                message = {**message, "headers": self.answer.headers}  # it could be read only once
            if begins and self.begins is not None:
                self.begins(message)
            self._is_stream = kind == "http.response.start" and _is_plain_stream(self.answer.headers)
        elif kind == "http.response.body":
            self._tail = (self._tail + message.get("body", b"")[-2:])[-2:]
        try:
            await self._send(message)
        except BaseException as error:
            self.broken = error
            raise

    @property
    def takes_event(self) -> bool:
        """Whether one more event can be sent: a stream of events has begun, is not over, and no event of it is cut in two."""
        return self._is_stream and not self.answer.ended and self.broken is None and self._tail == b"\n\n"

    def _pass_now(self, data: bytes) -> bool:
        done = self._write_now(data)
        if done:
            self.fast += len(data)
        return done


def _failure(checkpoint: _Checkpoint, fault: MiddlewareFault) -> InternalError:
    """The error that a client gets where a middleware failed."""
    return InternalError("A plugin of this gateway failed.", detail=f"{checkpoint.name}: {fault.reason}")


class Wrapped:
    """One exchange and the ASGI middleware around `answer`, which is what is left to do and returns the outcome."""

    def __init__(
        self,
        exchange: Exchange,
        links: tuple[Link, ...],
        answer: Callable[[], Awaitable[str]],
        *,
        report: ReportHappened,
        refuse: Refuse,
        headers: OwnHeaders,
    ) -> None:
        self._exchange, self._links, self._answer = exchange, links, answer
        self._report, self._refuse, self._headers = report, refuse, headers
        self._ends = exchange.ends()
        self._checkpoints: list[_Checkpoint] = []
        self._outcome = ""
        self._broken: BaseException | None = None

    async def run(self) -> str:
        """Call the middleware, the outermost first, and the step behind them; returns how the exchange ended. Raises what nobody
        can be told any more, since the answer has begun."""
        try:
            await self._enter(0, *self._ends)
        finally:
            outer, sent = self._checkpoints[0], self._checkpoints[0].answer
            self._exchange.settle(self._ends, sent.status, sent.written + outer.fast, started=sent.started)
        return self._outcome or ("ok" if sent.status < 400 else "error")

    async def onward(self, middleware: AsgiMiddleware, scope: Scope, receive: Receive, send: Send) -> None:
        """Called by a middleware for what it wraps."""
        at = next(number for number, link in enumerate(self._links) if link.middleware is middleware)
        if len(self._checkpoints) > at + 1 or self._outcome:
            raise MiddlewareFault("calls what it wraps twice")
        checkpoint = self._checkpoints[at]
        sends = send if send is checkpoint.send else self._watched(checkpoint, send)
        receives = (
            receive
            if receive in (checkpoint.receive, checkpoint.again)
            else self._watched_receive(checkpoint, scope, receive)
        )
        await self._enter(at + 1, scope, receives, sends)

    def _watched(self, checkpoint: _Checkpoint, send: Send) -> Send:
        """The `send` of a middleware, in which it may fail while what it wraps answers."""

        async def watched(message: AsgiMessage) -> None:
            if checkpoint.fault is not None:
                raise checkpoint.fault
            try:
                await app_verdict(send, self._has_left, message)
            except (MiddlewareFault, SmgError) as error:
                if error.__cause__ is not None and error.__cause__ is checkpoint.broken:
                    raise checkpoint.broken from None
                if error is checkpoint.broken or checkpoint.fault is not None:
                    raise
                checkpoint.fault = fault = MiddlewareFault(fault_words(error))
                raise fault from None

        return watched

    def _watched_receive(self, checkpoint: _Checkpoint, scope: Scope, receive: Receive) -> Receive:
        """The `receive` of a middleware, in which it may fail while what it wraps reads. A request is refused for that by what
        reads it; a WebSocket that has begun cannot be."""

        async def watched() -> AsgiMessage:
            try:
                message = await app_verdict(receive, self._has_left)
                checked(check_received, message)
            except (MiddlewareFault, SmgError) as error:
                if checkpoint.broken is not None:
                    raise checkpoint.broken from None
                checkpoint.fault = fault = checkpoint.fault or MiddlewareFault(fault_words(error))
                raise (_failure(checkpoint, fault) if scope["type"] == "http" else fault) from None
            return message

        return watched

    async def _enter(self, at: int, scope: Scope, receive: Receive, send: Send) -> None:
        if at == len(self._links):
            await self._inside(scope, receive, send)
            return
        link, checkpoint = self._links[at], _Checkpoint(self._links[at].entry.name, scope, receive, send)
        if at == 0:
            checkpoint.begins = self._complete
        self._checkpoints.append(checkpoint)
        fault = await self._called(at, checkpoint, {**scope, STEP: self})
        if fault is None:
            return
        self._report(Happened(link.entry.name, "asgi", "failed", fault.reason))
        answer = checkpoint.answer
        if answer.ended:
            return  # the client has its whole answer
        untouched = (
            not answer.started and checkpoint.first is None and len(self._checkpoints) == at + 1 and not self._outcome
        )
        if link.entry.on_failure == "open" and untouched:
            await self._enter(at + 1, scope, receive, checkpoint.send)
            return
        self._outcome = InternalError.__name__
        error = _failure(checkpoint, fault)
        if not answer.started:
            self._exchange.rebind(scope, checkpoint.again, checkpoint.send)
            self._exchange.started = False
            await self._refuse(self._exchange, error)
        elif checkpoint.takes_event:
            await checkpoint.send({"type": "http.response.body", "body": error_event(self._exchange, error)})
        else:
            self._broken = fault
            raise fault

    async def _called(self, at: int, checkpoint: _Checkpoint, scope: Scope) -> MiddlewareFault | None:
        """Call one middleware; returns its fault. Raises what came from within it, or from further out."""
        fault: MiddlewareFault | None = None
        try:
            await self._call(at, checkpoint, scope)
        except MiddlewareFault as found:
            if self._broken is not None and checkpoint.fault is None:
                raise
            fault = found
        else:
            if not checkpoint.answer.started:
                fault = MiddlewareFault("sent no answer")
            elif scope["type"] == "http" and not checkpoint.answer.ended and self._broken is None:
                fault = MiddlewareFault("sent no end of its answer")
        return None if self._exchange.gone else checkpoint.fault or fault

    async def _call(self, at: int, checkpoint: _Checkpoint, scope: Scope) -> None:
        """Raises MiddlewareFault for whatever the middleware raises, and what came from within it, or from further out, as it
        is."""
        middleware = cast(AsgiMiddleware, self._links[at].middleware)
        try:
            await app_verdict(middleware.call, self._has_left, scope, checkpoint.receive, checkpoint.send)
        except (MiddlewareFault, SmgError) as error:
            if checkpoint.fault is not None:
                raise checkpoint.fault from None
            if self._broken is not None:
                raise self._broken from None
            if checkpoint.broken is not None:
                raise checkpoint.broken from None
            if isinstance(error, MiddlewareFault):
                raise
            raise MiddlewareFault(fault_words(error)) from error

    def _has_left(self) -> bool:
        return self._exchange.gone

    async def _inside(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Behind the last: the step that answers."""
        self._exchange.rebind(scope, receive, send)
        try:
            self._outcome = await self._answer()
        except Exception as error:
            self._broken, self._outcome = error, "error"
            raise

    def _complete(self, message: AsgiMessage) -> None:
        """Give an answer that a middleware made by itself what every answer has: its id, and what browsers need."""
        exchange = self._exchange
        if self._outcome or exchange.started:
            return
        headers = list(message.get("headers", ()))
        present = {name.lower() for name, _ in headers}
        headers += [each for each in self._headers(exchange) if each[0].lower() not in present]
        if "expect" in exchange.headers and self._checkpoints[0].first is None:
            headers.append((b"connection", b"close"))  # the body that waits may not be read as a request
        message["headers"] = headers
