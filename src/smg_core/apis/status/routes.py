"""The routes about the gateway itself: the models that it serves, its health, and the page at `/` (edge).

Above: app.app puts the routes into its table. Below: the records of models, the page's text.
"""

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal

import attrs
import msgspec

from smg_core.apis.gemini.routes import GeminiModelRoutes
from smg_core.apis.status.front_page import front_page
from smg_core.auth.roles import PUBLIC
from smg_core.engines.base import EngineFacts
from smg_core.errors import Overloaded
from smg_core.http.endpoint import Endpoint
from smg_core.http.exchange import Exchange
from smg_core.http.routes import Route
from smg_core.http.scope import Header
from smg_core.identity.identity import anonymous
from smg_core.pipeline.pooled.scoring import method_of
from smg_core.request import Caller
from smg_core.serving.services import Services
from smg_core.serving.spec import ApiSpec
from smg_core.wire.model_list import (
    ModelCard,
    anthropic_model_body,
    anthropic_models_body,
    model_body,
    models_body,
)
from smg_core.wire.operation import HTML_PAGE, Operation, OperationResponse
from smg_core.workers.worker import Worker

if TYPE_CHECKING:
    from smg_core.apis.status.provider_lists import ProviderLists
    from smg_core.engines.vendors.listing import ProviderModel

__all__ = [
    "FRONT_PAGE_OPERATION",
    "HEALTH_OPERATION",
    "LIVENESS_OPERATION",
    "MODELS_OPERATION",
    "MODEL_OPERATION",
    "READINESS_OPERATION",
    "SPEC",
    "HealthStatus",
    "ModelList",
    "ModelObject",
    "Status",
    "curl",
    "status_routes",
]

JSON_TYPE: Header = (b"content-type", b"application/json")
ANTHROPIC = "anthropic-version"
"""The header that callers of Anthropic's API send with every request: they get answers in its shape."""
HTML: tuple[Header, ...] = (
    (b"content-type", b"text/html; charset=utf-8"),
    (b"content-security-policy", b"default-src 'none'; style-src 'unsafe-inline'"),
)


class HealthStatus(msgspec.Struct):
    """The body of a health check that succeeds."""

    status: Literal["ok"]


class ModelObject(msgspec.Struct):
    """A model that is served. `created` is seconds since the epoch, `max_model_len` its context in tokens, `root` the model that
    an alias names, `parent` the model that an adapter belongs to. `pools` are the kinds of pooled work that its engines do,
    `scores_by` how it judges pairs of texts. Of an outside provider's model, where the provider says so: the media that it takes
    and makes, the most tokens of an answer, the kinds of work that it does, and what it costs."""

    id: str
    object: Literal["model"]
    created: int
    owned_by: str
    pools: list[str]
    root: str | msgspec.UnsetType = msgspec.UNSET
    parent: str | msgspec.UnsetType = msgspec.UNSET
    max_model_len: int | msgspec.UnsetType = msgspec.UNSET
    scores_by: str | msgspec.UnsetType = msgspec.UNSET
    input_modalities: list[str] | msgspec.UnsetType = msgspec.UNSET
    output_modalities: list[str] | msgspec.UnsetType = msgspec.UNSET
    max_output_tokens: int | msgspec.UnsetType = msgspec.UNSET
    kinds: list[str] | msgspec.UnsetType = msgspec.UNSET
    pricing: dict[str, str | int] | msgspec.UnsetType = msgspec.UNSET


class ModelList(msgspec.Struct):
    """All models that are served."""

    object: Literal["list"]
    data: list[ModelObject]


MODELS_OPERATION = Operation(
    "listModels", "All models that are served.", "models", None, (OperationResponse(200, "The models.", ModelList),)
)

MODEL_OPERATION = Operation(
    "retrieveModel", "One model that is served.", "models", None, (OperationResponse(200, "The model.", ModelObject),)
)

HEALTH_OPERATION = Operation(
    "health",
    "Whether new requests are taken; 503 while no worker is ready, and while the gateway is drained or shuts down.",
    "health",
    None,
    (OperationResponse(200, "It is.", HealthStatus),),
)

READINESS_OPERATION = attrs.evolve(HEALTH_OPERATION, name="readiness")

LIVENESS_OPERATION = Operation(
    "liveness", "Whether the process answers.", "health", None, (OperationResponse(200, "It does.", HealthStatus),)
)

FRONT_PAGE_OPERATION = Operation(
    "frontPage",
    "A page with what is served and a request to try.",
    "about",
    None,
    (OperationResponse(200, "The page.", None, HTML_PAGE),),
)


def status_routes(services: Services) -> tuple[Route[Endpoint], ...]:
    """The routes, over `gateway`. Health is public; the other routes need the caller's identity."""
    status = Status(services)
    return (
        Route("GET", "/", Endpoint(status.front_page, "models", about=FRONT_PAGE_OPERATION)),
        Route("GET", "/v1/models", Endpoint(status.models, "models", about=MODELS_OPERATION)),
        Route("GET", "/v1/models/{model:path}", Endpoint(status.model, "models", about=MODEL_OPERATION)),
        Route(
            "GET",
            "/health",
            Endpoint(status.readiness, PUBLIC, about=HEALTH_OPERATION),
        ),
        Route("GET", "/readiness", Endpoint(status.readiness, PUBLIC, about=READINESS_OPERATION)),
        Route("GET", "/liveness", Endpoint(status.liveness, PUBLIC, about=LIVENESS_OPERATION)),
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
        lists = await self._lists()
        cards = [self._card(name, exchange.caller, lists) for name in self._services.lookup.names(exchange.caller)]
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
        card = self._card(exchange.path_values["model"], exchange.caller, await self._lists())
        body = anthropic_model_body(card) if ANTHROPIC in exchange.headers else model_body(card)
        await self._json(exchange, body)

    async def _lists(self) -> "ProviderLists | None":
        """What outside providers list, once they have been asked; None without such a worker."""
        registry = self._services.registry
        if not registry.any_chat or not any(getattr(each.reached, "lists", False) for each in registry):
            return None
        from smg_core.apis.status.provider_lists import ProviderLists  # which gateways without such workers do not need

        lists = self._services.side_tasks.one_of(ProviderLists, lambda: ProviderLists(self._services.clock))
        await lists.look(registry)
        return lists

    def _card(self, name: str, caller: Caller, lists: "ProviderLists | None") -> ModelCard:
        """The card of one model, by its name or an alias that this caller may use. Raises as a request for it does."""
        model = self._services.lookup.served_or_refused(name, caller)
        workers = self._services.registry.of(model.name)
        kinds = [each.facts for each in workers]
        card = ModelCard(
            id=name,
            created=model.created,
            max_model_len=model.context_length or None,
            root=model.root or name,
            parent=model.primary if model.adapter else None,
            pools=sorted(frozenset[str]().union(*(each.pools for each in kinds))),
            scores_by=method_of(model, kinds, self._services.live.config.pooling),
            media=_media_of(kinds),
            prices=self._prices(model.name, model.root),
        )
        return card if lists is None else _with_listed(card, lists, workers)

    def _prices(self, *names: str) -> Mapping[str, str]:
        """What the model costs, by the entries of its workers or the table that requests are counted with; empty where neither
        says it."""
        live, registry = self._services.live, self._services.registry
        known = [name for name in names if name]
        if any(each.spec.price for name in known for each in registry.of(name)):
            from smg_core.workers.own_prices import OwnPrices  # which gateways without such workers do not need

            own = OwnPrices(registry).of_model(*known)
            return {} if own is None else own.listed
        counting = live.accounting or live.limiting
        price = None if counting is None else counting.prices.find(*known)
        return {} if price is None else price.listed

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
        exchange.take_id(self._services.ids, "req_")
        names: list[Header] = [self._services.request_ids.header(exchange.name)]
        if ANTHROPIC in exchange.headers:
            names.append((b"request-id", exchange.request_id.encode()))
        await exchange.respond(200, body, [*headers, *names])


SPEC = ApiSpec((), {}, lambda context: status_routes(context.services))
"""What a gateway says of itself; its permission is no API's."""


def curl(services: Services, base: str, model: str) -> str:
    """A command line that sends a small request for `model` to this gateway at `base`; where it asks who its callers are, with
    the key that the environment variable SMG_API_KEY has."""
    asked = {"model": model, "messages": [{"role": "user", "content": "Hello"}]}
    body = json.dumps(asked).replace("'", r"'\''")
    key = "" if services.running.identify is anonymous else ' -H "authorization: Bearer $SMG_API_KEY"'
    return f"curl {base}/v1/chat/completions{key} -H 'content-type: application/json' -d '{body}'"


def _with_listed(card: ModelCard, lists: "ProviderLists", workers: Sequence[Worker]) -> ModelCard:
    """The card with what providers list of the model, where it is not known here."""
    from smg_core.apis.status.provider_lists import joined_entries

    found = lists.of(workers)
    if not found:
        return card
    listed = joined_entries(found)
    return attrs.evolve(
        card,
        max_model_len=card.max_model_len or listed.context or None,
        output=listed.output or None,
        media=_both(card.media, listed),
        gives=None if listed.gives is None else sorted(listed.gives),
        kinds=listed.kinds,
        prices=card.prices or dict(listed.prices),
    )


def _both(media: Sequence[str] | None, listed: "ProviderModel") -> Sequence[str] | None:
    """The media that a model takes, and that its provider can be sent."""
    if media is None or listed.takes is None:
        return media if listed.takes is None else sorted(listed.takes)
    return sorted(listed.takes.intersection(media))


def _media_of(facts: Sequence[EngineFacts]) -> Sequence[str] | None:
    """What engines that read media themselves say that they take: what all of them do. None where one does not say."""
    media = [each.media for each in facts if each.media is not None and not each.takes_ids]
    if not facts or len(media) < len(facts):
        return None
    documents = {"file"} if all(each.documents for each in facts) else set()
    return sorted(frozenset[str].intersection(*media) | documents)
