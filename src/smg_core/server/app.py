"""The ASGI app: a route table over a gateway (edge).

Bare ASGI, so that it can be served by any server, mounted in any framework and wrapped by any ASGI middleware. Decides which
handlers there are, what health means, and that nothing but an envelope ever leaves: that of the API whose path it is. The
gateway starts and stops with the lifespan; an app that is mounted where no lifespan reaches it starts the gateway with its
first request.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable

import attrs

from smg_core.errors import MethodNotAllowed, ModelNotFound, NotFound, Overloaded, SmgError
from smg_core.protocols.base import RequestLimits
from smg_core.protocols.errors import error_headers
from smg_core.protocols.models import ModelCard, model_body, models_body
from smg_core.protocols.parse import FamilyOf, parse_function_call, parse_reasoning
from smg_core.server.apis import CHAT
from smg_core.server.envelopes import envelope_of
from smg_core.server.exchange import Exchange, Header, Receive, Scope, Send
from smg_core.server.identity import Identify, anonymous
from smg_core.server.inference import Inference, internal_error, take_back_cancellation
from smg_core.server.routes import Route, Routes
from smg_core.server.runtime import Runtime
from smg_core.tokenizer.base import GivenUp
from smg_parsers import Family

__all__ = ["App"]

log = logging.getLogger("smg.server")

Handler = Callable[[Exchange], Awaitable[None]]


@attrs.frozen
class Endpoint:
    """What answers a route. A public one is not asked whose its requests are."""

    answer: Handler
    public: bool = False


PARSE_COST = 16
"""How much longer a character takes to be parsed than to be encoded, which is what lanes of the executor are cut by."""
JSON_TYPE: Header = (b"content-type", b"application/json")


class App:
    """`await app(scope, receive, send)`. `identify` says whose each request is, before its handler is called."""

    def __init__(self, gateway: Runtime, identify: Identify = anonymous) -> None:
        self._gateway = gateway
        self._identify = identify
        self._origins = gateway.config.server.cors_origins
        self._routes: Routes[Endpoint] = Routes(
            [
                Route("POST", "/v1/chat/completions", Endpoint(Inference(gateway, CHAT))),
                Route("GET", "/v1/models", Endpoint(self._models)),
                Route("GET", "/v1/models/{model:path}", Endpoint(self._model)),
                Route("GET", "/health", Endpoint(self._readiness, public=True)),
                Route("GET", "/readiness", Endpoint(self._readiness, public=True)),
                Route("GET", "/liveness", Endpoint(self._liveness, public=True)),
                *(self._parse_routes() if gateway.config.server.parse_routes else ()),
            ]
        )

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
        try:
            if not self._gateway.started:
                await self._gateway.start()
            if self._origins:
                self._allow_origin(exchange)
            endpoint = self._find(exchange)
            if not endpoint.public:
                exchange.caller = await self._identify(exchange)
            await endpoint.answer(exchange)
        except SmgError as error:
            await self._error(exchange, error)
        except Exception:
            # The last line before the server: whatever it was, the client gets an envelope and the operator the trace.
            log.exception("%s %s failed", exchange.method, exchange.path)
            if exchange.started:
                raise
            await self._error(exchange, internal_error())

    def _find(self, exchange: Exchange) -> Endpoint:
        method, path, raw_path = exchange.method, exchange.path, exchange.raw_path
        match = self._routes.find(method, path, raw_path)
        if match is not None:
            exchange.path_values = match.values
            return match.target
        allowed = ", ".join(self._routes.allowed(path, raw_path))
        if not allowed:
            raise NotFound(f"There is no {path} here.")
        if method == "OPTIONS" and self._origins:
            return Endpoint(self._preflight, public=True)  # browsers send no credentials with it
        exchange.always.append((b"allow", allowed.encode()))
        raise MethodNotAllowed(f"{path} does not take {method}; it takes {allowed}.")

    async def _error(self, exchange: Exchange, error: SmgError) -> None:
        request_id = self._gateway.ids("req-")
        headers: list[Header] = [*error_headers(error), self._gateway.id_header(exchange.headers, request_id)]
        envelope = envelope_of(exchange.path, exchange.headers, exchange.query)
        await exchange.respond(error.status, envelope(error, request_id), headers)

    # ------------------------------------------------------------------------------------------------- small answers

    async def _models(self, exchange: Exchange) -> None:
        await exchange.respond(
            200, models_body([self._card(name) for name in sorted(self._gateway.models)]), [JSON_TYPE]
        )

    async def _model(self, exchange: Exchange) -> None:
        card = self._card(exchange.path_values["model"])
        await exchange.respond(200, model_body(card), [JSON_TYPE])

    def _card(self, name: str) -> ModelCard:
        """The card of one model. Raises ModelNotFound."""
        model = self._gateway.models.get(name)
        if model is None:
            raise ModelNotFound(name)
        return ModelCard(
            id=name, created=model.created, max_model_len=model.context_length or None, root=model.root or name
        )

    async def _liveness(self, exchange: Exchange) -> None:
        await exchange.respond(200, b'{"status":"ok"}', [JSON_TYPE])

    async def _readiness(self, exchange: Exchange) -> None:
        if self._gateway.draining:
            raise Overloaded("The gateway is shutting down.", retry_after=self._gateway.admission.retry_after)
        if not self._gateway.ready_now:
            raise Overloaded("No worker is ready.", retry_after=self._gateway.admission.retry_after)
        await exchange.respond(200, b'{"status":"ok"}', [JSON_TYPE])

    def _parse_routes(self) -> list[Route[Endpoint]]:
        """Off unless the operator asks for them: they are work without a model."""
        return [
            Route("POST", "/parse/function_call", Endpoint(self._parse(parse_function_call))),
            Route("POST", "/parse/reasoning", Endpoint(self._parse(parse_reasoning))),
        ]

    def _parse(self, parse: "Callable[[bytes, RequestLimits, FamilyOf, GivenUp], bytes]") -> Handler:
        async def answer(exchange: Exchange) -> None:
            gateway = self._gateway
            body = await exchange.body(gateway.body_bytes)
            exchange.watch()
            try:
                parsed = await gateway.executor.run(
                    lambda given_up: parse(body, gateway.limits, self._family_of, given_up),
                    size=len(body) * PARSE_COST,
                    caller=exchange.caller.tenant,
                )
            except asyncio.CancelledError:
                if not exchange.gone:
                    raise
                take_back_cancellation()
                return
            finally:
                exchange.unwatch()
            await exchange.respond(200, parsed, [JSON_TYPE])

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
