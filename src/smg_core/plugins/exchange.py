"""One HTTP exchange with plugins around it (edge).

All that a handler reads and writes passes here: there is no way around, and no `write_now` while a plugin sees what leaves.
Above: `plugging` makes it, in place of a plain exchange, where there are plugins. Below: the exchange, `middleware.chain`.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from functools import partial
from typing import TypeVar

import attrs
import msgspec

from smg_core.auth.roles import USER, check_permission
from smg_core.errors import InternalError, PermissionDenied, SmgError
from smg_core.events import Usage
from smg_core.history.store.base import KEYS_OWNER
from smg_core.http.bodies import Held
from smg_core.http.endpoint import Handler, id_prefix_of
from smg_core.http.exchange import Exchange
from smg_core.http.scope import Header, Receive, Scope, Send
from smg_core.http.stream_errors import error_event
from smg_core.http.websocket import WebSocket
from smg_core.middleware.active import Identified
from smg_core.middleware.answer_watchers import AnswerWatchers
from smg_core.middleware.base import AnswerPiece, End, Failure, Headers, HookName, RequestHead, ResponseHead
from smg_core.middleware.chain import Offload, PluginChain, When
from smg_core.plugins.registry import Plugins
from smg_core.request import Caller, GenerationRequest

__all__ = ["PluginExchange", "exchange_within", "permit_plugged"]

T = TypeVar("T")

_STREAM = "text/event-stream"
_FRAMED = frozenset({"content-length", "connection", "transfer-encoding"})
_OF_BODIES: tuple[HookName, ...] = ("request_body",)
_OF_ANSWERS: tuple[HookName, ...] = ("piece", "response")


class _ModelOnly(msgspec.Struct):
    model: str = ""


def _named_model(text: str) -> str | None:
    """The model that a JSON text names, "" if none; None for another text."""
    try:
        return msgspec.json.decode(text, type=_ModelOnly).model
    except (msgspec.DecodeError, UnicodeEncodeError):
        return None


class PluginExchange(Exchange):
    """An exchange whose plugins are those of a plan, from when its route is known."""

    __slots__ = (
        "_began",
        "_chain",
        "_counted",
        "_head",
        "_most",
        "_offload",
        "_over",
        "_streams",
        "_tells",
        "_usage",
        "_whole",
        "refused",
    )

    plugged = True

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        super().__init__(scope, receive, send)
        self._chain: PluginChain | None = None
        self._counted: Callable[[], contextlib.AbstractContextManager[None]] = contextlib.nullcontext
        self._head = RequestHead(self.method, self.path, scope.get("query_string", b"").decode("latin-1"), ())
        self._streams = self._over = self._tells = False
        self._most = 0
        self._offload: Offload | None = None
        self._usage: Usage | None = None
        self._whole: tuple[int, Sequence[Header], list[bytes]] | None = (
            None  # an answer that is gathered before it leaves
        )
        self._began = time.monotonic()
        self.refused: SmgError | None = None

    def plug(self, plugins: Plugins) -> None:
        """Meet these plugins from now on. Called once, when the route is known."""
        headers = tuple((name.decode("latin-1"), value.decode("latin-1")) for name, value in self.scope["headers"])
        self._head = attrs.evolve(self._head, headers=headers)
        plan, self._counted = plugins.plan, plugins.asked
        self._chain = plan.chain(self.about(), plugins.report, lambda name: plugins.names_of(name, self.caller))
        self._most, self._offload = plan.rules.config.body_bytes, plan.rules.offload

    async def meet(self, when: When) -> Identified:
        """Show the head to the plugins of this time. Raises SmgError."""
        if self._chain is None:
            return Identified()
        with self._counted():
            head, identified = await self._chain.request_head(self._head, when, self.about())
        self._take(head)
        return identified

    def rebind(self, scope: Scope, receive: Receive, send: Send) -> None:
        super().rebind(scope, receive, send)
        headers = tuple((name.decode("latin-1"), value.decode("latin-1")) for name, value in scope["headers"])
        self._head = attrs.evolve(self._head, headers=headers)
        if self._chain is not None and self._chain.sees_wire:
            self.write_now = None

    def _take(self, head: RequestHead) -> None:
        """From now on the request has this head."""
        if self._chain is not None and self._chain.sees_wire:
            self.write_now = None
        if head == self._head:
            return
        self._head = head
        self.headers = dict(head.headers)
        raw = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in head.headers]
        self.scope = {**self.scope, "headers": raw}

    async def join(self, plugins: Plugins) -> None:
        """Meet the plugins as a request within another exchange, of a caller who is known. Raises SmgError."""
        await plugins.changed()
        self.plug(plugins)
        if self._chain is not None:
            self._chain.join(self.about())
            await self.meet("after_identity")

    async def body(self, limit: int, held: Held | None = None) -> bytes:
        """The body as the plugins leave it. Raises UnsupportedMedia for one that cannot be shown to them."""
        return await self._transformed_body(await super().body(limit, held))

    async def pieces(self, limit: int) -> AsyncIterator[bytes]:
        """The body, whole if plugins are to be shown it. Raises as `body`."""
        chain = self._chain
        if chain is None or not chain.wants("request_body"):
            async for piece in super().pieces(limit):
                yield piece
            return
        gathered, size = list[bytes](), 0
        async for piece in super().pieces(limit):
            gathered.append(piece)
            size += len(piece)
            if size > self._most:
                chain.unseen(_OF_BODIES)
                for each in gathered:
                    yield each
                gathered.clear()
        if size <= self._most:
            yield await self._transformed_body(b"".join(gathered))
        elif gathered:
            yield b"".join(gathered)

    async def _transformed_body(self, body: bytes) -> bytes:
        chain = self._chain
        if chain is None:
            return body
        try:
            text = await self._worked(body.decode, len(body))
        except UnicodeDecodeError:
            chain.unseen(_OF_BODIES)
            return body
        with self._counted(), self.watched():
            text, head = await chain.request_body(text, self._model_of, self._head)
        self._take(head)
        return await self._worked(text.encode, len(text))

    async def _worked(self, work: Callable[[], T], size: int) -> T:
        """What `work` makes of a body of this size: off the event loop where it is long."""
        return work() if self._offload is None else await self._offload(work, size, self.caller.tenant)

    async def _model_of(self, text: str) -> str | None:
        """The model that a body asks for, or that the path names; "" for a body in JSON that names none, None for another one."""
        named = self.path_values.get("model", "")
        if named:
            return named
        return await self._worked(partial(_named_model, text), len(text))

    async def transform_request(self, request: GenerationRequest) -> GenerationRequest:
        if self._chain is None:
            return request
        with self.watched():
            self._take(await self._chain.join_of_model(request.model, self._head))
            request, head = await self._chain.request(request, self._head)
        self._take(head or self._head)
        return request

    async def detach_request(self, request: GenerationRequest) -> GenerationRequest:
        if self._chain is not None:
            with self.watched():
                self._take(await self._chain.join_of_model(request.model, self._head))
            self._chain.leave_model_open()
        return request

    def shows(self, choices: int) -> Callable[[int], AnswerWatchers] | None:
        chain = self._chain
        if chain is None or not chain.watches_answers:
            return None
        turn = asyncio.Lock()
        return lambda place: AnswerWatchers(chain, place * choices, turn)

    # ---------------------------------------------------------------------------------------------------------- answers

    async def start(self, status: int, headers: Sequence[Header]) -> None:
        chain = self._chain
        if chain is None:
            await super().start(status, headers)
            return
        self._pass_nothing_refused()
        if self._whole is not None:
            return  # it is being gathered
        chain.join_unnamed()
        if chain.sees_wire:
            self.write_now = None
        plain, framed = _parted(headers)
        self._streams = any(name == "content-type" and value.startswith(_STREAM) for name, value in plain)
        if not self._streams and chain.sees_wire and self.method != "HEAD":
            self._whole = status, headers, []
            return
        with self._kept_refusal(), self.watched():
            head = await chain.response_head(ResponseHead(status, plain))
        await super().start(head.status, [*self._left(head, headers), *framed])

    async def write(self, data: bytes, last: bool) -> None:
        chain = self._chain
        if self._over:
            return
        if chain is None:
            await super().write(data, last)
            return
        if self.refused is not None and self.started:
            await self._end_refused(self.refused)
            return
        self._pass_nothing_refused()
        if self._whole is not None:
            await self._gather(data, last=last)
            return
        if not self._streams:
            await super().write(data, last)
            return
        try:
            with self._kept_refusal():
                text = chain.piece(AnswerPiece(data.decode(), "wire", last=last))
                data = (text if isinstance(text, str) else await text).encode()
        except SmgError as error:
            # What waits behind the piece was not seen by the plugin either: nothing more of it leaves.
            await self._end_refused(error)
            raise
        if last:
            data += (await chain.end(self._end("ok"))).encode()
        if data or last:
            await super().write(data, last)

    async def _end_refused(self, error: SmgError) -> None:
        """End a stream that has begun with the error event of its API, and with nothing of what waits to be written."""
        self._over = True
        await super().write(error_event(self, error), True)

    @property
    def ended_with_error(self) -> bool:
        """Whether a stream that had begun has been ended with an error, of which the client need not be told again."""
        return self._over

    def _pass_nothing_refused(self) -> None:
        """Raises again what an answer was refused for, unless the client is being told an error in its place."""
        if self.refused is not None and not self._tells:
            raise self.refused

    @contextlib.contextmanager
    def _kept_refusal(self) -> Iterator[None]:
        """While plugins are asked about an answer. If they refuse it, or the request ends while they look at it, nothing of it
        leaves any more."""
        try:
            yield
        except SmgError as error:
            self.refused = error
            raise
        except asyncio.CancelledError:
            self.refused = InternalError("The answer was cut off.")
            raise

    async def _gather(self, data: bytes, *, last: bool) -> None:
        """Keep a part of an answer that is no stream of events: plugins are shown it whole. One that is too large for that goes
        by, if they all let it."""
        if self._whole is None:
            return
        status, headers, gathered = self._whole
        gathered.append(data)
        if sum(map(len, gathered)) > self._most and self._chain is not None:
            self._whole = None
            with self._kept_refusal():
                self._chain.unseen(_OF_ANSWERS)
            await super().start(status, headers)
            await super().write(b"".join(gathered), last)
        elif last:
            self._whole = None
            framing = (b"content-length", b"transfer-encoding")
            await self.respond(status, b"".join(gathered), [each for each in headers if each[0].lower() not in framing])

    async def respond(self, status: int, body: bytes, headers: Sequence[Header]) -> None:
        chain = self._chain
        if chain is None:
            await super().respond(status, body, headers)
            return
        self._pass_nothing_refused()
        self._whole = None
        if self._over:
            return  # the stream has told of it
        if self.refused is None:
            with self._kept_refusal(), self.watched():
                status, body, headers = await self._responded(chain, status, body, headers)
        refused, self._chain = self.refused is not None, None  # what follows writes what the plugins have left
        try:
            await super().respond(status, body, headers)
        finally:
            self._chain = chain
        if not refused:
            await chain.end(self._end("ok" if status < 400 else "error"))

    async def _responded(
        self, chain: PluginChain, status: int, body: bytes, headers: Sequence[Header]
    ) -> tuple[int, bytes, list[Header]]:
        plain, framed = _parted(headers)
        head = ResponseHead(status, plain)
        try:
            text = await self._worked(body.decode, len(body))
        except UnicodeDecodeError:
            chain.unseen(_OF_ANSWERS)
            head = await chain.response_head(head)
        else:
            head, text = await chain.response(head, text)
            body = await self._worked(text.encode, len(text))
        return head.status, body, [*self._left(head, headers), *framed]

    def _left(self, head: ResponseHead, before: Sequence[Header]) -> list[Header]:
        """The headers that plugins have left of an answer. Those that name the request stay as they were `before`: logs have the
        same id."""
        id = self.name.encode("latin-1", "replace")
        ids = [each for each in before if each[1] == id]
        names = {name.lower() for name, _ in ids}
        return [*(each for each in _encoded(head.headers) if each[0] not in names), *ids]

    async def replaced_error(self, error: SmgError) -> SmgError:
        """The error that the client is told instead of one."""
        if self._chain is None:
            return error
        self._tells = True
        self._chain.lift_refusals()
        if self.refused is not None:
            return error
        failure = Failure(error.status, error.code or "", error.message)
        with self.watched():
            return await self._chain.error(failure) or error

    def used(self, usage: Usage | None) -> None:
        self._usage = usage

    def _end(self, outcome: str) -> End:
        seconds, usage = time.monotonic() - self._began, self._usage
        if usage is None:
            return End(self.status, outcome, seconds)
        tokens = usage.prompt_tokens, usage.cached_tokens, usage.completion_tokens
        return End(self.status, outcome, seconds, *tokens)

    def unplug(self) -> None:
        """The exchange is over."""
        chain, self._chain = self._chain, None
        if chain is not None:
            chain.close()


async def permit_plugged(
    exchange: Exchange, plugins: Plugins, needed: str, identified: Callable[[Exchange, str], Awaitable[None]]
) -> None:
    """Find the caller of a request with plugins: those that see the head before it is known, `identified`, and those after. Of a
    WebSocket that head is the handshake; each request in its frames is an exchange of its own. Raises what they refuse it for."""
    if not isinstance(exchange, PluginExchange):
        if isinstance(exchange, WebSocket):
            await _permit_handshake(exchange, plugins, needed, identified)
        else:
            await identified(exchange, needed)
        return
    exchange.plug(plugins)
    verdict = await exchange.meet("before_identity")
    if verdict.tenant is None:
        await identified(exchange, needed)
    else:
        if verdict.tenant == KEYS_OWNER:
            raise PermissionDenied("This tenant cannot be anybody's.")
        grants = plugins.roles.grants([USER])
        check_permission(grants, needed, exchange.headers)
        exchange.caller = Caller(verdict.tenant, verdict.principal or "", grants)
    await exchange.meet("after_identity")


async def _permit_handshake(
    socket: WebSocket, plugins: Plugins, needed: str, identified: Callable[[Exchange, str], Awaitable[None]]
) -> None:
    """As `permit_plugged`: the plugins meet the handshake as a request, of which the socket takes what they leave."""
    scope, receive, send = socket.ends()
    handshake = PluginExchange({**scope, "type": "http", "method": "GET"}, receive, send)
    handshake.request_id, handshake.client_id = socket.request_id, socket.client_id
    handshake.route = socket.route

    async def found(exchange: Exchange, permission: str) -> None:
        socket.headers = exchange.headers
        await identified(socket, permission)
        exchange.caller = socket.caller

    try:
        await permit_plugged(handshake, plugins, needed, found)
    finally:
        handshake.unplug()
    socket.caller, socket.headers = handshake.caller, handshake.headers
    socket.scope = {**socket.scope, "headers": handshake.scope["headers"]}


def exchange_within(
    plugins: Plugins, handler: Handler, scope: Scope, receive: Receive, send: Send, caller: Caller
) -> tuple[Exchange, Callable[[], Awaitable[None]]]:
    """An exchange for a request to `handler` within another one, such as a line of a batch, and what has its plugins see its
    head, which is called first. `unplug` ends it. Where there are no plugins, both do nothing."""
    exchange = (PluginExchange if plugins.plan.links else Exchange)(scope, receive, send)
    exchange.caller, exchange.route = caller, exchange.path
    if plugins.plan.links:
        exchange.take_id(plugins.ids, id_prefix_of(handler))

    async def join() -> None:
        if isinstance(exchange, PluginExchange):
            await exchange.join(plugins)

    return exchange, join


def _parted(headers: Sequence[Header]) -> tuple[Headers, list[Header]]:
    """Headers as plugins are shown them, and those of the framing, which they are not."""
    plain = tuple((name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in headers)
    framed = [each for each in headers if each[0].decode("latin-1").lower() in _FRAMED]
    return tuple(each for each in plain if each[0] not in _FRAMED), framed


def _encoded(headers: Headers) -> list[Header]:
    return [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers]
