"""The routes of the APIs that remember: Responses, conversations, Interactions (edge).

They share the history and the background. Above: app.generating_routes. Below: the handler, the rows of these APIs.
"""

from functools import partial

from smg_core.apis.interactions.api import background_interactions, interactions_api
from smg_core.apis.interactions.memory import InteractionMemory
from smg_core.apis.interactions.routes import interaction_routes
from smg_core.apis.responses.api import background_responses, compaction_api, responses_api
from smg_core.apis.responses.input_tokens import input_tokens
from smg_core.apis.responses.memory import ResponseMemory
from smg_core.apis.responses.routes import stored_routes
from smg_core.apis.responses.socket import ResponsesSocket
from smg_core.app import operations
from smg_core.background.service import Background
from smg_core.http.endpoint import Endpoint, Handler
from smg_core.http.routes import WEBSOCKET, Route
from smg_core.serving.inference import Inference
from smg_core.serving.services import Services

__all__ = ["remembering_routes"]


def remembering_routes(services: Services) -> tuple[tuple[Route[Endpoint], ...], Handler]:
    """The routes, over `gateway`, and the handler of responses that are answered at once, for batches."""
    now = services.clock.time
    memory, recalled = ResponseMemory(services), InteractionMemory(services)
    made = responses_api(now, memory, memory.seal)
    kept = background_responses(made, memory, now, memory.seal)
    interacting = interactions_api("steps", now, recalled, services.live.config.responses.log_bytes)
    interactions = background_interactions(interacting, recalled, now)
    background = services.side_tasks.one_of(Background, lambda: Background(services, [kept, interactions]))
    detach = partial(background.create, kept)
    responses = Endpoint(Inference(services, made, detach), "responses", reads_json=True, about=operations.RESPONSES)
    alone = compaction_api(now, memory, memory.seal)
    compact = Endpoint(Inference(services, alone), "responses", reads_json=True, about=operations.COMPACT)
    tokens = Endpoint(input_tokens(services, memory), "responses", reads_json=True, about=operations.INPUT_TOKENS)
    at_once = Inference(services, made)
    socket = Endpoint(ResponsesSocket(services, at_once, memory), "responses")
    routes = (
        Route("POST", "/v1/responses", responses),
        Route("POST", "/v1/responses/compact", compact),
        Route("POST", "/v1/responses/input_tokens", tokens),
        Route(WEBSOCKET, "/v1/responses", socket),
        *stored_routes(services, background, kept),
        *interaction_routes(services, background, interactions),
    )
    return routes, at_once
