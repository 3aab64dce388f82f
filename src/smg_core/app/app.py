"""The ASGI app: a route table over a gateway (edge).

Plain ASGI, so that any server can serve it, any framework can mount it and any ASGI middleware can wrap it. Decides which
handlers there are, and that every error leaves in the envelope of the API whose path it is. The gateway starts and stops with
the lifespan; an app that is mounted where no lifespan reaches it starts the gateway with its first request, and stops it when
the event loop ends. Until then it is there, also where nobody else keeps it. No request starts one that somebody has
stopped.
"""

import asyncio
import logging
from collections.abc import Awaitable
from functools import partial
from typing import TYPE_CHECKING

from smg_core.app.public_routes import public_table
from smg_core.errors import (
    AuthenticationFailed,
    ClientGone,
    InternalError,
    MethodNotAllowed,
    NotFound,
    SmgError,
    UpgradeRequired,
)
from smg_core.hooks import SilentObserver
from smg_core.http.browsers import READS_ONLY, check_form, check_json_type, check_origin
from smg_core.http.endpoint import Endpoint, RouteTable, id_prefix_of
from smg_core.http.envelopes import ENVELOPES
from smg_core.http.exchange import Exchange
from smg_core.http.forwarded import forwarding_of
from smg_core.http.routes import WEBSOCKET, Routes
from smg_core.http.scope import Header, Receive, Scope, Send
from smg_core.http.websocket import WebSocket
from smg_core.identity.identity import ANYBODY, Identify, anonymous, permitted
from smg_core.observability.repeats import Repeats
from smg_core.plugins.app_plugins import Plugging, StepOfExchange
from smg_core.serving.inference import internal_error, take_back_cancellation
from smg_core.serving.lifecycle import Lifecycle
from smg_core.wire.base import ErrorEncoder
from smg_core.wire.errors import anthropic_error, anthropic_status, error_headers, openai_error, responses_error

if TYPE_CHECKING:
    from smg_core.idempotency.answering import Idempotency

__all__ = ["App"]

log = logging.getLogger("smg.server")


EXPOSED = (
    "location",
    "openai-processing-ms",
    "openai-version",
    "retry-after",
    "retry-after-ms",
    "x-should-retry",
    "x-smg-explain",
    "x-smg-format-violation",
    "x-smg-lossy",
    "x-smg-migrated",
)
"""The response headers that SDKs and pages read, beside the request's id. A browser hides headers that are not named here."""
CANNOT_START = (SmgError, OSError, LookupError, ValueError)
"""The errors of a start with wrong settings, or in an environment where it cannot start."""
_STARTED_HERE: set[asyncio.Task[None]] = set()
"""What stops the gateways that requests have started, when their event loops end. An event loop itself keeps no task alive."""
_GONE = ClientGone("The client left before its request was answered.").outcome
LONGEST_QUOTE = 200  # characters of a path that an answer or a log repeats


def _is_openai(path: str, envelope: ErrorEncoder) -> bool:
    """Whether a path, or a pattern of paths, is of OpenAI's APIs, whose answers say how long they took."""
    return path.startswith("/v1/") and envelope in (openai_error, responses_error)


class App:
    """`await app(scope, receive, send)`. `identify` is called before the handler and returns the caller of the request; without
    it, the gateway's own identity is asked. `table` has the routes, by default those of the public listener."""

    def __init__(
        self, gateway: Lifecycle, identify: Identify | None = None, *, table: RouteTable | None = None
    ) -> None:
        services = gateway.services
        self._gateway, self._services = gateway, services
        self._envelopes = services.apis.envelopes
        self._identify = identify
        self._tracer = services.tracing.tracer if services.tracing is not None else None
        self._watched = self._tracer is not None or not isinstance(services.observer, SilentObserver)
        self._starts = Repeats(services.live.config.observability.repeat_s, services.live.config.observability.repeats)
        self._beginning: asyncio.Task[None] | None = None
        self._ending: asyncio.Task[None] | None = None
        server = services.live.config.server
        self._plugging: Plugging | None = None
        if table is None:  # none at the admin door
            self._plugging = Plugging(services.plugins, self._settle, self._error, self._headers_of_every_answer)
        self._is_public = table is None
        self._idempotency: Idempotency | None = None
        table = public_table(services, gateway.apis) if table is None else table
        self._origins, self._hosts = table.origins or (), table.hosts
        self._may_ask = table.origins
        self._exposed = ", ".join([services.live.config.observability.request_id_header.lower(), *EXPOSED]).encode()
        self._forwarding = forwarding_of(services.live.config.proxies)
        self._any_type = server.any_content_type
        self._header_bytes, self._header_lines = server.header_bytes, server.header_lines
        self._stranger_bytes = server.stranger_bytes
        self.routes = table.routes
        self._routes: Routes[Endpoint] = Routes(self.routes)
        patterns = {route.pattern for route in self.routes}
        self._openai = frozenset(each for each in patterns if _is_openai(each, self._envelopes.of(each, {})))
        for route in self.routes:
            if not route.target.public and route.target.needs not in services.apis.permissions:
                raise ValueError(f"{route.pattern} needs {route.target.needs!r}, which is no permission of any API")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._forwarding is not None:
            self._forwarding.apply(scope)
        scope[ENVELOPES] = self._envelopes
        if scope["type"] == "http":
            if self._plugging is not None and self._plugging.any:
                await self._plugging.served(scope, receive, send, self._http)
            else:
                await self._http(Exchange(scope, receive, send))
        elif scope["type"] == "lifespan":
            await self._lifespan(receive, send)
        elif scope["type"] == "websocket":
            await self._http(WebSocket(scope, receive, send))

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        await receive()
        try:
            await self._gateway.start()
        except CANNOT_START as error:
            log.critical("the gateway cannot start: %s", error)
            await self._gateway.rest()
            await send({"type": "lifespan.startup.failed", "message": str(error)})
            return
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await self._gateway.rest()
        await send({"type": "lifespan.shutdown.complete"})

    def _http(self, exchange: Exchange) -> Awaitable[object]:
        """Answer one request, and report how it ended to the observer where there is one."""
        services = self._services
        exchange.client_id = services.request_ids.from_client(exchange.headers)
        exchange.began = services.clock.monotonic()
        if self._watched:
            return self._reported(exchange)
        return self._settle(exchange, self._answered_at_route)

    async def _reported(self, exchange: Exchange) -> None:
        services, started = self._services, exchange.began
        tracer = self._tracer
        if tracer is not None:
            exchange.traced = tracer.begin(exchange.headers, started)
        exchange.count_direct()
        outcome = "error"
        try:
            outcome = await self._settle(exchange, self._answered_at_route)
        finally:
            ended = exchange.ended(outcome, services.clock.monotonic() - started)
            services.observer.report(ended)
            if tracer is not None and exchange.traced is not None:
                tracer.end(exchange.traced, ended)

    async def _settle(self, exchange: Exchange, step: StepOfExchange) -> str:
        """Take a step of an exchange, and tell the client of its errors; returns the outcome. Errors after the answer has begun
        are raised. A task that is cancelled because its client has left, or because the gateway ends, ends the exchange and no
        more than that."""
        try:
            try:
                return await step(exchange) or "ok"
            except SmgError as error:
                if not exchange.identified and self._asks_everybody:
                    exchange.discard(self._stranger_bytes)  # a stranger's body, whatever it is refused for
                await self._error(exchange, error)
                return error.outcome
            except Exception as error:
                # The last handler before the server: the client gets an envelope, and the log the traceback, for any error.
                self._log(exchange, error)
                if exchange.started:
                    raise
                await self._error(exchange, internal_error())
                return "error"
        except asyncio.CancelledError:
            if exchange.gone:
                take_back_cancellation()
                exchange.status = exchange.status or ClientGone.status
                return _GONE
            if exchange.started or not self._services.admission.draining:
                raise
            take_back_cancellation()
        ended = self._services.admission.shut_down()
        await self._error(exchange, ended)
        return ended.outcome

    def _answered_at_route(self, exchange: Exchange, *, begun: bool = False) -> Awaitable[str | None]:
        """Find the route of one request, check what is known without its body, and answer it; returns what does so. `begun`: the
        gateway has been started. Raises SmgError."""
        exchange.check_head(self._header_bytes, self._header_lines)
        if not begun and (not self._services.life.started or self._beginning is not None):
            return self._answered_once_begun(exchange)
        if self._origins:
            self._allow_origin(exchange)
        endpoint = self._find(exchange)
        if not endpoint.public and self._hosts is not None:
            self._hosts.check(exchange.scope, exchange.headers.get("host", ""))
        if not endpoint.reads_json or exchange.headers.get("content-type") != "application/json":
            self._check_form(exchange, endpoint)
        plugging = self._plugging if self._plugging is not None and self._plugging.any else None
        if plugging is not None:  # they are told the id before a handler makes one
            exchange.take_id(self._services.ids, id_prefix_of(endpoint.answer))
        if endpoint.public:
            if self._asks_everybody:
                exchange.discard(self._stranger_bytes)
        elif plugging is not None and plugging.has_asgi:
            return self._answered_wrapped(exchange, endpoint, plugging)
        elif plugging is None and (self._identify or self._services.running.identify) is anonymous:
            exchange.caller = ANYBODY
        else:
            return self._permitted_and_answered(exchange, endpoint, plugging)
        if "idempotency-key" in exchange.headers or isinstance(exchange, WebSocket):
            return self._answered(exchange, endpoint)
        return endpoint.answer(exchange)

    async def _answered_once_begun(self, exchange: Exchange) -> str | None:
        await self._begun(exchange)
        return await self._answered_at_route(exchange, begun=True)

    async def _permitted_and_answered(
        self, exchange: Exchange, endpoint: Endpoint, plugging: Plugging | None
    ) -> str | None:
        await self._permit(exchange, endpoint.needs, plugging)
        return await self._answered(exchange, endpoint)

    async def _answered(self, exchange: Exchange, endpoint: Endpoint) -> str | None:
        await self._answered_once(exchange, endpoint)
        return exchange.outcome if isinstance(exchange, WebSocket) else None

    def _check_form(self, exchange: Exchange, endpoint: Endpoint) -> None:
        """Check that a request that is not plainly JSON is no page's of another origin, and has the type that the handler reads.
        Raises PermissionDenied and UnsupportedMedia."""
        if isinstance(exchange, WebSocket):
            if self._plugging is not None:
                exchange.met = self._plugging.on_arrival
            check_origin(exchange.headers.get("origin"), exchange.headers.get("host", ""), self._may_ask)
        elif endpoint.reads_json and not self._any_type:
            check_json_type(exchange.headers.get("content-type", ""))
        elif exchange.method not in READS_ONLY and not endpoint.public:
            check_form(exchange.headers, self._may_ask)

    async def _answered_wrapped(self, exchange: Exchange, endpoint: Endpoint, plugging: Plugging) -> str:
        """Find the caller and answer, each behind the ASGI middleware of its time. Raises SmgError."""

        async def permitted_and_answered(exchange: Exchange) -> str:
            await self._permit(exchange, endpoint.needs, plugging)
            return await plugging.around(exchange, "after_identity", partial(self._answered, endpoint=endpoint))

        outcome = await plugging.around(exchange, "before_identity", permitted_and_answered)
        if not exchange.identified and self._asks_everybody:
            exchange.discard(self._stranger_bytes)
        return outcome

    async def _answered_once(self, exchange: Exchange, endpoint: Endpoint) -> None:
        """Answer a request that may have an Idempotency-Key: one that is sent again gets the answer of the first."""
        has_key = exchange.method == "POST" and "idempotency-key" in exchange.headers and not endpoint.public
        if not has_key or not self._is_public or not self._services.live.config.idempotency.kept_s:
            await endpoint.answer(exchange)
            return
        if self._idempotency is None:
            from smg_core.idempotency.answering import Idempotency

            self._idempotency = Idempotency(self._services)
        await self._idempotency.answer(exchange, endpoint.answer)

    def _headers_of_every_answer(self, exchange: Exchange) -> list[Header]:
        if not exchange.request_id:
            exchange.take_id(self._services.ids, "req_")
        return [*exchange.always, self._services.request_ids.header(exchange.name)]

    @property
    def _asks_everybody(self) -> bool:
        """Whether requests without a good credential are refused."""
        return (self._identify or self._services.running.identify) is not anonymous

    async def _permit(self, exchange: Exchange, needed: str, plugging: Plugging | None) -> None:
        """Find the caller of a request. Raises AuthenticationFailed and PermissionDenied, and what plugins refuse it for."""
        with exchange.watched():
            if plugging is not None:
                await plugging.permit(exchange, needed, self._identified)
            else:
                await self._identified(exchange, needed)

    async def _identified(self, exchange: Exchange, needed: str) -> None:
        identify = self._identify or self._services.running.identify
        exchange.caller = await permitted(identify, exchange, needed)
        if isinstance(exchange, WebSocket):
            exchange.identify = lambda: permitted(identify, exchange, needed)

    async def _begun(self, exchange: Exchange) -> None:
        """Start the gateway if no lifespan has done so. Requests that come meanwhile wait too, until a worker is ready or
        `server.wait_for_workers_s` (else `server.first_wait_s`) seconds have passed. Raises InternalError, and Draining where
        somebody has stopped it."""
        if self._services.life.stopped:
            raise self._services.admission.stopped()
        if self._beginning is None:
            self._beginning = asyncio.create_task(self._begin())
        try:
            await asyncio.shield(self._beginning)
        except CANNOT_START as error:
            if self._starts.note(str(error), self._services.clock.monotonic()) is not None:
                log.critical("the gateway cannot start: %s", error)
            raise InternalError("The gateway cannot start; its log says why.") from error
        finally:
            if self._beginning is not None and self._beginning.done():
                self._beginning = None
        if self._services.life.stopped:  # meanwhile
            raise self._services.admission.stopped()

    async def _begin(self) -> None:
        await self._gateway.start()
        if self._ending is None or self._ending.done():
            stopped = asyncio.Event()
            self._gateway.when_stopped(stopped.set)
            self._ending = asyncio.create_task(self._end_with_loop(stopped), name="end with the event loop")
            _STARTED_HERE.difference_update([each for each in _STARTED_HERE if each.get_loop().is_closed()])
            _STARTED_HERE.add(self._ending)
            self._ending.add_done_callback(_STARTED_HERE.discard)
        server = self._services.live.config.server
        await self._ready_or_over(server.wait_for_workers_s or server.first_wait_s)

    async def _ready_or_over(self, seconds: float) -> None:
        """Wait until a worker is ready, for `seconds` at most, or somebody stops the gateway."""
        ready = asyncio.create_task(self._gateway.ready(seconds))
        self._gateway.when_stopped(ready.cancel)
        try:
            await asyncio.wait([ready])
        finally:
            ready.cancel()
        if not ready.cancelled() and not isinstance(error := ready.exception(), TimeoutError | None):
            raise error

    async def _end_with_loop(self, stopped: asyncio.Event) -> None:
        """Stop the gateway when the event loop ends, unless it was stopped before: `asyncio.run` cancels the tasks that are left,
        this one too."""
        try:
            await stopped.wait()
        except asyncio.CancelledError:
            await self._gateway.rest()
            raise

    def _log(self, exchange: Exchange, error: Exception) -> None:
        """Log the traceback of a fault; for each place that raises faults only once in a while."""
        names = f"request {exchange.request_id} (client's {exchange.client_id or 'none'})"
        self._services.faults.note("a request", error, f"{exchange.method} {exchange.loggable_path[:200]}, {names}")

    def _find(self, exchange: Exchange) -> Endpoint:
        method, path, raw_path = exchange.method, exchange.path, exchange.raw_path
        match = self._routes.find(method, path, raw_path)
        if match is not None:
            exchange.path_values, exchange.route = match.values, match.pattern
            if match.pattern in self._openai:
                exchange.timed = self._services.clock.monotonic
            if match.target.public and exchange.traced is not None:
                exchange.traced.sampled = False  # probes, and pages for people
            return match.target
        if method == "OPTIONS" and path == "*":
            return Endpoint.for_all(self._whole_server)
        unknown = self._envelopes.unknown_google_method(method, path)
        if unknown:
            raise NotFound(f"There is no method '{unknown[:LONGEST_QUOTE]}' of models here.")
        has_socket = self._routes.find(WEBSOCKET, path, raw_path) is not None
        allowed = ", ".join(self._routes.allowed(path, raw_path)) or ("GET" if has_socket else "")
        if not allowed:
            raise NotFound(f"There is no {path[:LONGEST_QUOTE]} here.{self._envelopes.instead_of(path)}")
        if method == "OPTIONS" and self._origins:
            return Endpoint.for_all(partial(self._preflight, allowed))  # browsers send no credentials with it
        exchange.always.append((b"allow", allowed.encode()))
        if method == "GET" and has_socket:
            exchange.always.append((b"upgrade", b"websocket"))
            raise UpgradeRequired(
                f"{path[:LONGEST_QUOTE]} takes GET as the handshake of a WebSocket; this request is none."
            )
        raise MethodNotAllowed(f"{path[:LONGEST_QUOTE]} does not take {method}; it takes {allowed}.")

    async def _error(self, exchange: Exchange, error: SmgError) -> None:
        if not exchange.request_id:
            exchange.take_id(self._services.ids, "req_")
        error = await exchange.replaced_error(error)
        challenge = self._challenge(exchange) if isinstance(error, AuthenticationFailed) else None
        headers: list[Header] = [*error_headers(error, challenge), self._services.request_ids.header(exchange.name)]
        envelope = self._envelopes.of(exchange.path, exchange.headers, exchange.query)
        status = error.status
        if _is_openai(exchange.path, envelope):
            exchange.timed = self._services.clock.monotonic
        if envelope is anthropic_error:
            status = anthropic_status(error)
            headers.append((b"request-id", exchange.request_id.encode()))
        await exchange.respond(status, envelope(error, exchange.request_id), headers)

    def _challenge(self, exchange: Exchange) -> str | None:
        """Where a client that has no good credential reads who gives one, if its path has such a place."""
        path = self._envelopes.metadata_of(exchange.path)
        scheme, host = exchange.scope.get("scheme", "http"), exchange.headers.get("host", "")
        legal = host and all(each.isalnum() or each in ".-:[]" for each in host) and host.isascii()
        return f'Bearer resource_metadata="{scheme}://{host}{path}"' if path and legal else None

    async def _whole_server(self, exchange: Exchange) -> None:
        """Answer `OPTIONS *`, which asks for no path: the methods that any path takes."""
        methods = sorted({route.method for route in self.routes} - {WEBSOCKET})
        await exchange.respond(204, b"", [(b"allow", ", ".join(methods).encode())])

    # ------------------------------------------------------------------------------------------------------- browsers

    def _allow_origin(self, exchange: Exchange) -> None:
        """Let browsers of the allowed origins read the answer."""
        origin = exchange.headers.get("origin")
        if origin is not None and (origin in self._origins or "*" in self._origins):
            exchange.always.append((b"access-control-allow-origin", origin.encode("latin-1")))
            exchange.always.append((b"vary", b"origin"))
            exchange.always.append((b"access-control-expose-headers", self._exposed))

    async def _preflight(self, methods: str, exchange: Exchange) -> None:
        """Answer a browser that asks whether a page may send what it wants to: all that the path takes."""
        asked = exchange.headers.get("access-control-request-headers", "content-type, authorization")
        allowed = [
            (b"access-control-allow-methods", f"{methods}, OPTIONS".encode()),
            (b"access-control-allow-headers", asked.encode("latin-1")),
            (b"access-control-max-age", b"600"),
        ]
        await exchange.respond(204, b"", allowed)
