"""The ASGI app: a route table over a gateway (edge).

Bare ASGI, so that it can be served by any server and mounted in any framework. Decides which handler a path and method
get, what health means, and that nothing but an envelope ever leaves. The gateway starts and stops with the lifespan; an app
that is mounted where no lifespan reaches it starts the gateway with its first request.
"""

import logging
from collections.abc import Awaitable, Callable

from smg_core.errors import MethodNotAllowed, NotFound, Overloaded, SmgError
from smg_core.protocols.base import RequestLimits
from smg_core.protocols.errors import error_headers, openai_error
from smg_core.protocols.models import model_body, models_body
from smg_core.protocols.parse import FamilyOf, parse_function_call, parse_reasoning
from smg_core.server.exchange import Exchange, Header, Receive, Scope, Send
from smg_core.server.inference import APIS, JSON_TYPE, Inference, internal_error
from smg_core.server.runtime import Runtime
from smg_parsers import Family

__all__ = ["App"]

log = logging.getLogger("smg.server")

Handler = Callable[[Exchange], Awaitable[None]]


class App:
    """`await app(scope, receive, send)`."""

    def __init__(self, gateway: Runtime) -> None:
        self._gateway = gateway
        self._origins = gateway.config.server.cors_origins
        self._routes: dict[str, dict[str, Handler]] = {
            path: {"POST": Inference(gateway, api)} for path, api in APIS.items()
        }
        self._routes |= {
            "/v1/models": {"GET": self._models},
            "/health": {"GET": self._readiness},
            "/readiness": {"GET": self._readiness},
            "/liveness": {"GET": self._liveness},
            "/parse/function_call": {"POST": self._parse(parse_function_call)},
            "/parse/reasoning": {"POST": self._parse(parse_reasoning)},
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._http(Exchange(scope, receive, send))
        elif scope["type"] == "lifespan":
            await self._lifespan(receive, send)
        else:
            await send({"type": "websocket.close", "code": 1008})

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        await receive()
        try:
            await self._gateway.start()
        except (SmgError, OSError, LookupError, ValueError) as error:
            log.critical("the gateway cannot start: %s", error)
            await self._gateway.stop()
            await send({"type": "lifespan.startup.failed", "message": str(error)})
            return
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await self._gateway.stop()
        await send({"type": "lifespan.shutdown.complete"})

    async def _http(self, exchange: Exchange) -> None:
        root = exchange.scope.get("root_path", "")
        path = exchange.path.removeprefix(root) if root else exchange.path
        if not self._gateway.started:
            await self._gateway.start()
        try:
            if self._origins:
                self._allow_origin(exchange)
            await self._find(exchange, path)(exchange)
        except SmgError as error:
            await self._error(exchange, error)
        except Exception:
            # The last line before the server: whatever it was, the client gets an envelope and the operator the trace.
            log.exception("%s %s failed", exchange.method, path)
            if exchange.started:
                raise
            await self._error(exchange, internal_error())

    def _find(self, exchange: Exchange, path: str) -> Handler:
        method = exchange.method
        methods = self._routes.get(path)
        if methods is None and path.startswith("/v1/models/"):
            methods = {"GET": self._model}
        if methods is None:
            raise NotFound(f"There is no {path} here.")
        if method == "OPTIONS" and self._origins:
            return self._preflight
        handler = methods.get("GET" if method == "HEAD" else method)
        if handler is None:
            allowed = ", ".join(sorted(methods))
            exchange.always.append((b"allow", allowed.encode()))
            raise MethodNotAllowed(f"{path} does not take {method}; it takes {allowed}.")
        return handler

    async def _error(self, exchange: Exchange, error: SmgError) -> None:
        request_id = self._gateway.ids("req-")
        headers: list[Header] = [*error_headers(error), self._gateway.id_header(exchange.headers, request_id)]
        await exchange.respond(error.status, openai_error(error, request_id), headers)

    # ------------------------------------------------------------------------------------------------- small answers

    async def _models(self, exchange: Exchange) -> None:
        await exchange.respond(200, models_body(self._gateway.cards()), [JSON_TYPE])

    async def _model(self, exchange: Exchange) -> None:
        name = exchange.path.partition("/v1/models/")[2]
        await exchange.respond(200, model_body(self._gateway.card(name)), [JSON_TYPE])

    async def _liveness(self, exchange: Exchange) -> None:
        await exchange.respond(200, b'{"status":"ok"}', [JSON_TYPE])

    async def _readiness(self, exchange: Exchange) -> None:
        if self._gateway.draining:
            raise Overloaded("The gateway is shutting down.", retry_after=self._gateway.admission.retry_after)
        if not self._gateway.ready_now:
            raise Overloaded("No worker is ready.", retry_after=self._gateway.admission.retry_after)
        await exchange.respond(200, b'{"status":"ok"}', [JSON_TYPE])

    def _parse(self, parse: "Callable[[bytes, RequestLimits, FamilyOf], bytes]") -> Handler:
        async def answer(exchange: Exchange) -> None:
            body = await exchange.body(self._gateway.limits.body_bytes)
            await exchange.respond(200, parse(body, self._gateway.limits, self._family_of), [JSON_TYPE])

        return answer

    def _family_of(self, name: str) -> Family | None:
        served = self._gateway.models.get(name)
        return served.parser if served is not None else None

    # ------------------------------------------------------------------------------------------------------- browsers

    def _allow_origin(self, exchange: Exchange) -> None:
        """Let browsers of the allowed origins read the answer."""
        origin = exchange.headers.get("origin")
        if origin is not None and (origin in self._origins or "*" in self._origins):
            exchange.always.append((b"access-control-allow-origin", origin.encode("latin-1")))
            exchange.always.append((b"vary", b"origin"))

    async def _preflight(self, exchange: Exchange) -> None:
        asked = exchange.headers.get("access-control-request-headers", "content-type, authorization")
        allowed = [
            (b"access-control-allow-methods", b"GET, POST, OPTIONS"),
            (b"access-control-allow-headers", asked.encode("latin-1")),
            (b"access-control-max-age", b"600"),
        ]
        await exchange.respond(204, b"", allowed)
