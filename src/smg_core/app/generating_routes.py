"""The routes of the APIs that generate: a row each (edge).

Above: app.app puts them into its table. Below: the handler, and the table of APIs.
"""

import attrs

from smg_core.apis.chat.api import CHAT
from smg_core.apis.completions.api import COMPLETIONS
from smg_core.apis.gemini.routes import gemini_routes
from smg_core.apis.messages.api import MESSAGES
from smg_core.apis.messages.count_tokens import token_count
from smg_core.apis.parse.routes import parse_routes
from smg_core.apis.pooling.routes import pooling_routes
from smg_core.apis.sglang.api import sglang_api
from smg_core.apis.tokenize.routes import Tokenizing
from smg_core.apis.transcriptions.routes import speech_routes
from smg_core.app import operations
from smg_core.app.stateful_routes import remembering_routes
from smg_core.batches.routes import batch_routes
from smg_core.http.endpoint import Endpoint, Handler
from smg_core.http.routes import Route
from smg_core.serving.inference import Inference
from smg_core.serving.prompt_count import only_model
from smg_core.serving.services import Services

__all__ = ["generating_routes"]


def generating_routes(services: Services) -> tuple[Route[Endpoint], ...]:
    """The routes, over `gateway`."""
    chat = Endpoint(Inference(services, CHAT), "chat", reads_json=True, about=operations.CHAT)
    completions = Endpoint(
        Inference(services, COMPLETIONS), "completions", reads_json=True, about=operations.COMPLETIONS
    )
    generate = Endpoint(
        Inference(services, sglang_api(lambda name, caller: only_model(services, name, caller))),
        "generate",
        reads_json=True,
        about=operations.SGLANG,
    )
    kept, responses = remembering_routes(services)
    messages = Endpoint(Inference(services, MESSAGES), "messages", reads_json=True, about=operations.MESSAGES)
    pooled = pooling_routes(services)
    embeddings = next(each.target for each in pooled if each.pattern == "/v1/embeddings")
    batched: dict[str, Handler] = {
        "/v1/embeddings": embeddings.answer,
        "/v1/chat/completions": chat.answer,
        "/v1/completions": completions.answer,
        "/v1/responses": responses,
        "/v1/messages": messages.answer,
    }
    count = Endpoint(token_count(services), "messages", reads_json=True, about=operations.COUNT_TOKENS)
    tokenizing = Tokenizing(services)
    tokenize = Endpoint(tokenizing.tokenize, "tokenize", reads_json=True, about=operations.TOKENIZE)
    detokenize = Endpoint(tokenizing.detokenize, "tokenize", reads_json=True, about=operations.DETOKENIZE)
    return (
        *gemini_routes(services),
        *pooled,
        *speech_routes(services),
        Route("POST", "/tokenize", tokenize),
        Route("POST", "/v1/tokenize", _again(tokenize)),
        Route("POST", "/detokenize", detokenize),
        Route("POST", "/v1/detokenize", _again(detokenize)),
        Route("POST", "/v1/chat/completions", chat),
        Route("POST", "/v1/completions", completions),
        Route("POST", "/generate", generate),
        Route("PUT", "/generate", _again(generate, "put")),
        *kept,
        Route("POST", "/v1/messages", messages),
        Route("POST", "/v1/messages/count_tokens", count),
        *batch_routes(services, batched),
        *(parse_routes(services) if services.live.config.server.parse_routes else ()),
    )


def _again(endpoint: Endpoint, ending: str = "v1") -> Endpoint:
    """The same endpoint for its second path or method; the name of its description gets the ending."""
    about = endpoint.about
    return (
        endpoint if about is None else attrs.evolve(endpoint, about=attrs.evolve(about, name=f"{about.name}_{ending}"))
    )
