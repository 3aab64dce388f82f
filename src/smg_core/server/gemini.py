"""The routes of Google's API: generateContent, streamGenerateContent, countTokens and the models (edge).

The same routes stand under `/v1`, `/v1beta` and `/v1alpha`, since SDKs differ in which they call; and those that generate at the
paths of Vertex AI, with a project and a location or without. Under `/v1` the models are shared with other APIs, and
`server.status` answers there. Above: server.generating. Below: the handler of APIs, the decoders.
"""

import attrs

from smg_core.protocols.base import Incoming, Locate
from smg_core.protocols.errors import gemini_error
from smg_core.protocols.gemini import decode_count
from smg_core.protocols.gemini_models import gemini_model_body, gemini_models_body
from smg_core.protocols.json_text import encode_object
from smg_core.protocols.models import ModelCard
from smg_core.request import Caller
from smg_core.server import descriptions
from smg_core.server.apis import GENERATE_CONTENT, STREAM_GENERATE_CONTENT
from smg_core.server.endpoint import Endpoint, Handler
from smg_core.server.exchange import Exchange, Header
from smg_core.server.inference import Inference
from smg_core.server.routes import Route
from smg_core.server.runtime import Runtime
from smg_core.server.tokenizing import decoded_body, json_handler, prompt_count

__all__ = ["GeminiModelRoutes", "gemini_routes"]

JSON_TYPE: Header = (b"content-type", b"application/json")
VERSIONS = ("v1", "v1beta", "v1alpha")
_VERTEX = ("v1", "v1beta1")
"""The versions of Vertex AI, whose paths name who publishes a model, and may name a project and a location."""
_PUBLISHED = "publishers/{publisher}/models/{model:path}"
_WITHIN = ("", "projects/{project}/locations/{location}/")


def gemini_routes(gateway: Runtime) -> list[Route[Endpoint]]:
    """The routes, over `gateway`."""
    whole, streamed = Inference(gateway, GENERATE_CONTENT), Inference(gateway, STREAM_GENERATE_CONTENT)
    counting = _counting(gateway)
    models = GeminiModelRoutes(gateway)
    found: list[Route[Endpoint]] = []
    verbs = (
        ("generateContent", whole, descriptions.GENERATE_CONTENT),
        ("streamGenerateContent", streamed, descriptions.STREAM_GENERATE_CONTENT),
        ("countTokens", counting, descriptions.COUNT_CONTENT_TOKENS),
    )
    places = [(version, "models/{model:path}", version) for version in VERSIONS]
    places += [
        (f"{version}_vertex{number or ''}", f"{within}{_PUBLISHED}", version)
        for version in _VERTEX
        for number, within in enumerate(_WITHIN)
    ]
    for name, place, version in places:
        for verb, handler, about in verbs:
            own = attrs.evolve(about, name=f"{about.name}_{name}")
            pattern = f"/{version}/{place}:{verb}"
            found.append(Route("POST", pattern, Endpoint(handler, "generate_content", reads_json=True, about=own)))
    for version in VERSIONS:
        if version != "v1":
            listed = attrs.evolve(descriptions.GEMINI_MODELS, name=f"{descriptions.GEMINI_MODELS.name}_{version}")
            single = attrs.evolve(descriptions.GEMINI_MODEL, name=f"{descriptions.GEMINI_MODEL.name}_{version}")
            found.append(Route("GET", f"/{version}/models", Endpoint(models.all, "models", about=listed)))
            found.append(
                Route("GET", f"/{version}/models/{{model:path}}", Endpoint(models.one, "models", about=single))
            )
    return found


def _counting(gateway: Runtime) -> Handler:
    async def count(incoming: Incoming, located: list[Locate]) -> bytes:
        decoded = await decoded_body(gateway, incoming, decode_count)
        located.append(decoded.locate)
        return encode_object({"totalTokens": (await prompt_count(gateway, decoded.generation)).tokens})

    return json_handler(gateway, "", gemini_error, count)


class GeminiModelRoutes:
    """The models in Google's shape."""

    def __init__(self, gateway: Runtime) -> None:
        self._gateway = gateway

    async def all(self, exchange: Exchange) -> None:
        """A page of the models."""
        query = exchange.query
        size, token = (query.get(name, ("",))[-1] for name in ("pageSize", "pageToken"))
        cards = [self._card(name, exchange.caller) for name in self._gateway.names(exchange.caller)]
        await self._respond(exchange, gemini_models_body(cards, size, token))

    async def one(self, exchange: Exchange) -> None:
        """One model. Raises ModelNotFound, or NoWorker where one may still come."""
        await self._respond(exchange, gemini_model_body(self._card(exchange.path_values["model"], exchange.caller)))

    def _card(self, name: str, caller: Caller) -> ModelCard:
        model = self._gateway.served_or_refused(name, caller)
        parent = model.primary if model.adapter else None
        return ModelCard(name, model.created, max_model_len=model.context_length or None, parent=parent)

    async def _respond(self, exchange: Exchange, body: bytes) -> None:
        exchange.take_id(self._gateway.ids, "req-")
        await exchange.respond(200, body, [JSON_TYPE, self._gateway.id_header(exchange.name)])
