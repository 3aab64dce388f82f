"""The routes of Google's API: generateContent, streamGenerateContent, countTokens and the models (edge).

The same routes stand under `/v1`, `/v1beta` and `/v1alpha`, since SDKs differ in which they call; and at the paths of Vertex AI,
with a project and a location or without. Under `/v1` the models are shared with other APIs, and
`apis.status.routes` answers there. Above: app.generating_routes. Below: the handler of APIs, the decoders.
"""

from collections.abc import Iterator

import attrs

from smg_core.apis.gemini.answer_types import (
    GeminiModel,
    GeminiModels,
    GenerateContentResponse,
    TokenCountResponse,
    VertexModel,
    VertexModels,
)
from smg_core.apis.gemini.api import GENERATE_CONTENT, STREAM_GENERATE_CONTENT
from smg_core.apis.gemini.decode import decode_count
from smg_core.apis.gemini.models import (
    gemini_model_body,
    gemini_models_body,
    model_of_path,
    vertex_model_body,
    vertex_models_body,
)
from smg_core.apis.gemini.trials import TRIALS
from smg_core.apis.gemini.types import CountContentBody, GenerateBody
from smg_core.apis.google.answer_types import GeminiError
from smg_core.http.endpoint import Endpoint, Handler
from smg_core.http.envelopes import EnvelopeRule
from smg_core.http.exchange import Exchange
from smg_core.http.routes import Route
from smg_core.http.scope import Header
from smg_core.json_types import JsonObject
from smg_core.request import Caller
from smg_core.serving.inference import Inference
from smg_core.serving.json_handler import decoded_body, json_handler
from smg_core.serving.prompt_count import prompt_count
from smg_core.serving.services import Services
from smg_core.serving.spec import ApiName, ApiSpec
from smg_core.wire.base import Incoming, Locate
from smg_core.wire.errors import gemini_error
from smg_core.wire.json_text import encode_object
from smg_core.wire.model_list import ModelCard
from smg_core.wire.operation import EVENT_STREAM, Operation, OperationResponse

__all__ = [
    "COUNT_CONTENT_TOKENS_OPERATION",
    "GEMINI_MODELS_OPERATION",
    "GEMINI_MODEL_OPERATION",
    "GENERATE_CONTENT_OPERATION",
    "SPEC",
    "STREAM_GENERATE_CONTENT_OPERATION",
    "VERTEX_MODELS_OPERATION",
    "VERTEX_MODEL_OPERATION",
    "GeminiModelRoutes",
    "gemini_routes",
]

JSON_TYPE: Header = (b"content-type", b"application/json")
VERSIONS = ("v1", "v1beta", "v1alpha")
_VERTEX = ("v1", "v1beta1")
"""The versions of Vertex AI, whose paths name who publishes a model, and may name a project and a location."""
_PUBLISHER = "publishers/{publisher}/"
_PROJECT = "projects/{project}/locations/{location}/"
_WITHIN = ("", _PROJECT)
_ASKED = (f"{_PUBLISHER}models", f"{_PROJECT}{_PUBLISHER}models", f"{_PROJECT}models", f"{_PROJECT}endpoints", "models")
"""Where Vertex AI's models are asked: publishers', and a project's own by their names and by those of their endpoints."""


_CONTENTS: JsonObject = {"contents": [{"role": "user", "parts": [{"text": "Hello"}]}]}

GENERATE_CONTENT_OPERATION = Operation(
    "generateContent",
    "Generate an answer, in the words of Google's API.",
    "generateContent",
    GenerateBody,
    (OperationResponse(200, "The answer.", GenerateContentResponse),),
    {
        "whole": _CONTENTS,
        "thoughts": {**_CONTENTS, "generationConfig": {"thinkingConfig": {"includeThoughts": True}}},
    },
    error=GeminiError,
)

STREAM_GENERATE_CONTENT_OPERATION = Operation(
    "streamGenerateContent",
    "The same as a stream: server-sent events where the query says `alt=sse`, else one JSON array.",
    "generateContent",
    GenerateBody,
    (
        OperationResponse(200, "The chunks.", list[GenerateContentResponse]),
        OperationResponse(200, "The chunks.", GenerateContentResponse, EVENT_STREAM),
    ),
    {"stream": _CONTENTS},
    error=GeminiError,
)

COUNT_CONTENT_TOKENS_OPERATION = Operation(
    "countTokens",
    "How many tokens the prompt of a request has; no engine is asked.",
    "generateContent",
    CountContentBody,
    (OperationResponse(200, "The count.", TokenCountResponse),),
    {"contents": _CONTENTS},
    error=GeminiError,
)

GEMINI_MODELS_OPERATION = Operation(
    "listGeminiModels",
    "The models that are served, in Google's shape.",
    "models",
    None,
    (OperationResponse(200, "A page of the models.", GeminiModels),),
    error=GeminiError,
)

GEMINI_MODEL_OPERATION = Operation(
    "getGeminiModel",
    "One model that is served, in Google's shape.",
    "models",
    None,
    (OperationResponse(200, "The model.", GeminiModel),),
    error=GeminiError,
)


VERTEX_MODELS_OPERATION = Operation(
    "listVertexModels",
    "The models that are served, in Vertex AI's shape.",
    "models",
    None,
    (OperationResponse(200, "A page of the models.", VertexModels),),
    error=GeminiError,
)

VERTEX_MODEL_OPERATION = Operation(
    "getVertexModel",
    "One model that is served, in Vertex AI's shape.",
    "models",
    None,
    (OperationResponse(200, "The model.", VertexModel),),
    error=GeminiError,
)


def gemini_routes(services: Services) -> list[Route[Endpoint]]:
    """The routes, over `gateway`."""
    whole, streamed = Inference(services, GENERATE_CONTENT), Inference(services, STREAM_GENERATE_CONTENT)
    counting = _counting(services)
    models = GeminiModelRoutes(services)
    found: list[Route[Endpoint]] = []
    verbs = (
        ("generateContent", whole, GENERATE_CONTENT_OPERATION),
        ("streamGenerateContent", streamed, STREAM_GENERATE_CONTENT_OPERATION),
        ("countTokens", counting, COUNT_CONTENT_TOKENS_OPERATION),
    )
    places = [(version, "models/{model:path}", version) for version in VERSIONS]
    places += [
        (f"{version}_vertex{number or ''}", f"{place}/{{model:path}}", version)
        for version in _VERTEX
        for number, place in enumerate(_ASKED)
        if version not in VERSIONS or place != "models"
    ]
    for name, place, version in places:
        for verb, handler, about in verbs:
            own = attrs.evolve(about, name=f"{about.name}_{name}")
            pattern = f"/{version}/{place}:{verb}"
            found.append(Route("POST", pattern, Endpoint(handler, "generate_content", reads_json=True, about=own)))
    for version in VERSIONS:
        if version != "v1":
            listed = attrs.evolve(GEMINI_MODELS_OPERATION, name=f"{GEMINI_MODELS_OPERATION.name}_{version}")
            single = attrs.evolve(GEMINI_MODEL_OPERATION, name=f"{GEMINI_MODEL_OPERATION.name}_{version}")
            found.append(Route("GET", f"/{version}/models", Endpoint(models.all, "models", about=listed)))
            found.append(
                Route("GET", f"/{version}/models/{{model:path}}", Endpoint(models.one, "models", about=single))
            )
    return [*found, *_vertex_models(models)]


def _vertex_models(models: "GeminiModelRoutes") -> Iterator[Route[Endpoint]]:
    """The lists of models at the paths of Vertex AI: a publisher's, and a project's own, which are adapters here."""
    places = [f"{within}{publisher}" for within in _WITHIN for publisher in (_PUBLISHER, "")]
    for version in _VERTEX:
        for number, place in enumerate(places):
            if version == "v1" and not place:
                continue  # the list of OpenAI's API
            name = f"{version}_vertex{number or ''}"
            listed = attrs.evolve(VERTEX_MODELS_OPERATION, name=f"{VERTEX_MODELS_OPERATION.name}_{name}")
            single = attrs.evolve(VERTEX_MODEL_OPERATION, name=f"{VERTEX_MODEL_OPERATION.name}_{name}")
            path = f"/{version}/{place}models"
            yield Route("GET", path, Endpoint(models.vertex_all, "models", about=listed))
            yield Route("GET", f"{path}/{{model:path}}", Endpoint(models.vertex_one, "models", about=single))


def _counting(services: Services) -> Handler:
    async def count(incoming: Incoming, located: list[Locate]) -> bytes:
        decoded = await decoded_body(services, incoming, decode_count)
        located.append(decoded.locate)
        return encode_object({"totalTokens": (await prompt_count(services, decoded.generation)).tokens})

    return json_handler(services, "", gemini_error, count)


class GeminiModelRoutes:
    """The models in Google's shape."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def all(self, exchange: Exchange) -> None:
        """A page of the models."""
        await self._respond(exchange, gemini_models_body(self._cards(exchange), *_page_of(exchange)))

    async def one(self, exchange: Exchange) -> None:
        """One model. Raises ModelNotFound, or NoWorker where one may still come."""
        await self._respond(exchange, gemini_model_body(self._card(exchange.path_values["model"], exchange.caller)))

    async def vertex_all(self, exchange: Exchange) -> None:
        """A page of the models at a path of Vertex AI: all are Google's, those with a name of two parts another publisher's,
        and adapters are a project's own."""
        parent, cards = _parent_of(exchange), self._cards(exchange)
        publisher = exchange.path_values.get("publisher", "google")
        if parent is not None:
            cards = [card for card in cards if card.parent is not None]
        elif publisher != "google":
            cards = [card for card in cards if card.id.startswith(f"{publisher}/")]
        await self._respond(exchange, vertex_models_body(cards, *_page_of(exchange), parent))

    async def vertex_one(self, exchange: Exchange) -> None:
        """One model at a path of Vertex AI. Raises as `one` does."""
        card = self._card(model_of_path(exchange.path_values), exchange.caller)
        await self._respond(exchange, vertex_model_body(card, _parent_of(exchange)))

    def _cards(self, exchange: Exchange) -> list[ModelCard]:
        return [self._card(name, exchange.caller) for name in self._services.lookup.names(exchange.caller)]

    def _card(self, name: str, caller: Caller) -> ModelCard:
        model = self._services.lookup.served_or_refused(name, caller)
        parent = model.primary if model.adapter else None
        return ModelCard(name, model.created, max_model_len=model.context_length or None, parent=parent)

    async def _respond(self, exchange: Exchange, body: bytes) -> None:
        exchange.take_id(self._services.ids, "req_")
        await exchange.respond(200, body, [JSON_TYPE, self._services.request_ids.header(exchange.name)])


def _page_of(exchange: Exchange) -> tuple[str, str]:
    """What the query says of the page."""
    size, token = (exchange.query.get(name, ("",))[-1] for name in ("pageSize", "pageToken"))
    return size, token


def _parent_of(exchange: Exchange) -> str | None:
    """Whose models the path names: the part that the names of a project's begin with, None for those of publishers."""
    values = exchange.path_values
    if "publisher" in values:
        return None
    return f"projects/{values['project']}/locations/{values['location']}/" if "project" in values else ""


_METHODS = (":generateContent", ":streamGenerateContent", ":countTokens", ":embedContent", ":batchEmbedContents")

SPEC = ApiSpec(
    (ApiName("generate_content", "generate_content"),),
    {"generate_content": "generateContent, streamGenerateContent and countTokens"},
    lambda context: gemini_routes(context.services),
    (
        *(
            EnvelopeRule(prefix, gemini_error)
            for prefix in ("/v1alpha", "/v1beta", "/v1beta1", "/v1/projects", "/v1/publishers")
        ),
        EnvelopeRule("/v1/models", gemini_error, _METHODS),
    ),
    TRIALS,
)
