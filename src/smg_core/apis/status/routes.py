"""The routes about the gateway itself: the models that it serves, its health, and the page at `/` (edge).

Above: app.app puts the routes into its table. Below: the records of models, the page's text.
"""

from smg_core.apis.gemini.routes import GeminiModelRoutes
from smg_core.apis.status.front_page import curl, front_page
from smg_core.app import operations
from smg_core.auth.roles import PUBLIC
from smg_core.errors import Overloaded
from smg_core.http.endpoint import Endpoint
from smg_core.http.exchange import Exchange, Header
from smg_core.http.routes import Route
from smg_core.pipeline.pooled.scoring import method_of
from smg_core.request import Caller
from smg_core.serving.services import Services
from smg_core.wire.model_list import (
    ModelCard,
    anthropic_model_body,
    anthropic_models_body,
    model_body,
    models_body,
)

__all__ = ["Status", "status_routes"]

JSON_TYPE: Header = (b"content-type", b"application/json")
ANTHROPIC = "anthropic-version"
"""The header that callers of Anthropic's API send with every request: they get answers in its shape."""
HTML: tuple[Header, ...] = (
    (b"content-type", b"text/html; charset=utf-8"),
    (b"content-security-policy", b"default-src 'none'; style-src 'unsafe-inline'"),
)


def status_routes(services: Services) -> tuple[Route[Endpoint], ...]:
    """The routes, over `gateway`. Health is public; the other routes need the caller's identity."""
    status = Status(services)
    return (
        Route("GET", "/", Endpoint(status.front_page, "models", about=operations.FRONT_PAGE)),
        Route("GET", "/v1/models", Endpoint(status.models, "models", about=operations.MODELS)),
        Route("GET", "/v1/models/{model:path}", Endpoint(status.model, "models", about=operations.MODEL)),
        Route(
            "GET",
            "/health",
            Endpoint(status.readiness, PUBLIC, about=operations.HEALTH),
        ),
        Route("GET", "/readiness", Endpoint(status.readiness, PUBLIC, about=operations.READINESS)),
        Route("GET", "/liveness", Endpoint(status.liveness, PUBLIC, about=operations.LIVENESS)),
    )


def _is_googles(exchange: Exchange) -> bool:
    """Whether a client of Google's API asks for what APIs share: by the key that it has in its own header, or in the query."""
    if ANTHROPIC in exchange.headers:
        return False
    return "x-goog-api-key" in exchange.headers or "key" in exchange.query


class Status:
    """Answers of one gateway about itself."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._google = GeminiModelRoutes(services)

    async def models(self, exchange: Exchange) -> None:
        if _is_googles(exchange):
            await self._google.all(exchange)
            return
        cards = [self._card(name, exchange.caller) for name in self._services.lookup.names(exchange.caller)]
        if ANTHROPIC not in exchange.headers:
            await self._json(exchange, models_body(cards))
            return
        asked = {name: values[-1] for name, values in exchange.query.items()}
        after, before = asked.get("after_id"), asked.get("before_id")
        await self._json(exchange, anthropic_models_body(cards, limit=asked.get("limit"), after=after, before=before))

    async def model(self, exchange: Exchange) -> None:
        if _is_googles(exchange):
            await self._google.one(exchange)
            return
        card = self._card(exchange.path_values["model"], exchange.caller)
        body = anthropic_model_body(card) if ANTHROPIC in exchange.headers else model_body(card)
        await self._json(exchange, body)

    def _card(self, name: str, caller: Caller) -> ModelCard:
        """The card of one model, by its name or an alias that this caller may use. Raises as a request for it does."""
        model = self._services.lookup.served_or_refused(name, caller)
        kinds = [each.facts for each in self._services.registry.of(model.name)]
        return ModelCard(
            id=name,
            created=model.created,
            max_model_len=model.context_length or None,
            root=model.root or name,
            parent=model.primary if model.adapter else None,
            pools=sorted(frozenset[str]().union(*(each.pools for each in kinds))),
            scores_by=method_of(model, kinds, self._services.live.config.pooling),
        )

    async def liveness(self, exchange: Exchange) -> None:
        await self._json(exchange, b'{"status":"ok"}')

    async def readiness(self, exchange: Exchange) -> None:
        if self._services.admission.draining:
            raise Overloaded("The gateway is shutting down.", retry_after=self._services.admission.retry_after)
        if self._services.admission.held:
            raise Overloaded(
                "The gateway takes no new requests for now.", retry_after=self._services.admission.retry_after
            )
        if not self._services.registry.any_ready:
            raise Overloaded("No worker is ready.", retry_after=self._services.admission.retry_after)
        await self._json(exchange, b'{"status":"ok"}')

    async def front_page(self, exchange: Exchange) -> None:
        names = self._services.lookup.names(exchange.caller)
        root = exchange.scope.get("root_path", "")
        base = f"{exchange.scope.get('scheme', 'http')}://{exchange.headers.get('host', 'localhost')}{root}"
        page = front_page(
            names, ready=self._services.registry.any_ready, trial=curl(self._services, base, names[0]) if names else ""
        )
        await self._respond(exchange, page, *HTML)

    async def _json(self, exchange: Exchange, body: bytes) -> None:
        await self._respond(exchange, body, JSON_TYPE)

    async def _respond(self, exchange: Exchange, body: bytes, *headers: Header) -> None:
        """Answer 200 with `body`."""
        exchange.take_id(self._services.ids, "req-")
        names: list[Header] = [self._services.request_ids.header(exchange.name)]
        if ANTHROPIC in exchange.headers:
            names.append((b"request-id", exchange.name.encode()))
        await exchange.respond(200, body, [*headers, *names])
