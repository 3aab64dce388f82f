"""The routes of the APIs that generate: a row each (edge).

Above: server.app puts them into its table. Below: the handler, and the table of APIs.
"""

from functools import partial

import attrs

from smg_core.server import descriptions
from smg_core.server.apis import CHAT, COMPLETIONS, MESSAGES, sglang_api
from smg_core.server.background import Background
from smg_core.server.counting import token_count
from smg_core.server.endpoint import Endpoint
from smg_core.server.gemini import gemini_routes
from smg_core.server.inference import Inference
from smg_core.server.parsing import parse_routes
from smg_core.server.remembering import ResponseMemory
from smg_core.server.response_tokens import input_tokens
from smg_core.server.responses_api import background_responses, compaction_api, responses_api
from smg_core.server.responses_socket import ResponsesSocket
from smg_core.server.routes import WEBSOCKET, Route
from smg_core.server.runtime import Runtime
from smg_core.server.stored import stored_routes
from smg_core.server.tokenizing import Tokenizing, only_model

__all__ = ["generating_routes"]


def generating_routes(gateway: Runtime) -> tuple[Route[Endpoint], ...]:
    """The routes, over `gateway`."""
    chat = Endpoint(Inference(gateway, CHAT), reads_json=True, about=descriptions.CHAT)
    completions = Endpoint(Inference(gateway, COMPLETIONS), reads_json=True, about=descriptions.COMPLETIONS)
    generate = Endpoint(
        Inference(gateway, sglang_api(lambda name: only_model(gateway, name))),
        reads_json=True,
        about=descriptions.SGLANG,
    )
    memory = ResponseMemory(gateway)
    made = responses_api(gateway.clock.time, memory, memory.seal)
    kept = background_responses(made, memory, gateway.clock.time, memory.seal)
    background = gateway.beside(Background, lambda: Background(gateway, [kept]))
    detach = partial(background.create, kept)
    responses = Endpoint(Inference(gateway, made, detach), reads_json=True, about=descriptions.RESPONSES)
    alone = compaction_api(gateway.clock.time, memory, memory.seal)
    compact = Endpoint(Inference(gateway, alone), reads_json=True, about=descriptions.COMPACT)
    tokens = Endpoint(input_tokens(gateway, memory), reads_json=True, about=descriptions.INPUT_TOKENS)
    socket = Endpoint(ResponsesSocket(gateway, Inference(gateway, made), memory))
    messages = Endpoint(Inference(gateway, MESSAGES), reads_json=True, about=descriptions.MESSAGES)
    count = Endpoint(token_count(gateway), reads_json=True, about=descriptions.COUNT_TOKENS)
    tokenizing = Tokenizing(gateway)
    tokenize = Endpoint(tokenizing.tokenize, reads_json=True, about=descriptions.TOKENIZE)
    detokenize = Endpoint(tokenizing.detokenize, reads_json=True, about=descriptions.DETOKENIZE)
    return (
        *gemini_routes(gateway),
        Route("POST", "/tokenize", tokenize),
        Route("POST", "/v1/tokenize", _again(tokenize)),
        Route("POST", "/detokenize", detokenize),
        Route("POST", "/v1/detokenize", _again(detokenize)),
        Route("POST", "/v1/chat/completions", chat),
        Route("POST", "/v1/completions", completions),
        Route("POST", "/generate", generate),
        Route("POST", "/v1/responses", responses),
        Route("POST", "/v1/responses/compact", compact),
        Route("POST", "/v1/responses/input_tokens", tokens),
        Route(WEBSOCKET, "/v1/responses", socket),
        Route("POST", "/v1/messages", messages),
        Route("POST", "/v1/messages/count_tokens", count),
        *stored_routes(gateway, background, kept),
        *(parse_routes(gateway) if gateway.config.server.parse_routes else ()),
    )


def _again(endpoint: Endpoint) -> Endpoint:
    """The same endpoint for its second path; the name of its description gets the ending "_v1"."""
    about = endpoint.about
    return endpoint if about is None else attrs.evolve(endpoint, about=attrs.evolve(about, name=f"{about.name}_v1"))
