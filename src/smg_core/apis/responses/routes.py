"""The routes of the Responses API (edge): made, compacted, counted, over a WebSocket, and kept ones by their ids.

Above: apis.ALL. Below: the handlers.
"""

from functools import partial

from msgspec.structs import replace

from smg_core.apis.responses.api import background_responses, compaction_api, responses_api
from smg_core.apis.responses.flow import prompted_as, shortened
from smg_core.apis.responses.memory import ResponseMemory
from smg_core.apis.responses.socket import ResponsesSocket
from smg_core.apis.responses.stored import StoredResponses
from smg_core.apis.responses.trials import TRIALS
from smg_core.apis.responses.wire.decode import ResponsesRequest, decode_responses
from smg_core.apis.responses.wire.types import ResponsesBody
from smg_core.background.api import BackgroundApi
from smg_core.background.service import BackgroundService, background_service
from smg_core.http.endpoint import Endpoint, Handler
from smg_core.http.envelopes import EnvelopeRule
from smg_core.http.routes import WEBSOCKET, Route
from smg_core.json_types import JsonObject
from smg_core.pipeline.prompt.tool_places import naming_places_of
from smg_core.serving.inference import Inference
from smg_core.serving.json_handler import decoded_body, json_handler
from smg_core.serving.prompt_count import prompt_count
from smg_core.serving.services import Services
from smg_core.serving.spec import ApiContext, ApiName, ApiSpec, BatchTarget
from smg_core.wire.base import Incoming, Locate
from smg_core.wire.errors import openai_error, responses_error
from smg_core.wire.json_text import encode_body
from smg_core.wire.operation import EVENT_STREAM, Operation, OperationResponse

__all__ = ["SPEC"]

RESPONSES_OPERATION = Operation(
    "createResponse",
    "Generate a response, whole or as server-sent events.",
    "responses",
    ResponsesBody,
    (
        OperationResponse(200, "The response; as a stream where `stream` is true.", JsonObject),
        OperationResponse(200, "The response; as a stream where `stream` is true.", JsonObject, EVENT_STREAM),
    ),
    {
        "whole": {"model": "MODEL", "input": "Hello"},
        "stream": {"model": "MODEL", "input": "Hello", "stream": True, "store": False},
        "tools": {
            "model": "MODEL",
            "input": [{"role": "user", "content": "Hello"}],
            "tools": [{"type": "function", "name": "get_weather", "parameters": {"type": "object"}}],
            "tool_choice": "required",
        },
    },
)

COMPACT_OPERATION = Operation(
    "compactResponse",
    "Have the model summarize a conversation: the user's messages and one sealed item, to go on from.",
    "responses",
    ResponsesBody,
    (OperationResponse(200, "The items to send instead of the history.", JsonObject),),
    {"whole": {"model": "MODEL", "input": "I am Ada."}},
)

INPUT_TOKENS_OPERATION = Operation(
    "countInputTokens",
    "How many tokens the prompt of such a request has.",
    "responses",
    ResponsesBody,
    (OperationResponse(200, "The number.", JsonObject),),
    {"whole": {"model": "MODEL", "input": "I am Ada."}},
)


def _stored(name: str, summary: str) -> Operation:
    return Operation(
        name, summary, "responses", None, (OperationResponse(200, "What is kept, as it is now.", JsonObject),)
    )


def _stored_routes(
    services: Services, background: BackgroundService, api: BackgroundApi[ResponsesRequest]
) -> tuple[Route[Endpoint], ...]:
    """The routes of responses that are kept; `background` has what is made there, by the row `api`."""
    responses = StoredResponses(services, background, api)
    rows: tuple[tuple[str, str, Handler, Operation], ...] = (
        ("GET", "/v1/responses/{id}", responses.retrieve, _stored("retrieveResponse", "A response that is kept.")),
        ("DELETE", "/v1/responses/{id}", responses.delete, _stored("deleteResponse", "Forget a response.")),
        (
            "POST",
            "/v1/responses/{id}/cancel",
            responses.cancel,
            _stored("cancelResponse", "End a response that is made in the background."),
        ),
        (
            "GET",
            "/v1/responses/{id}/input_items",
            responses.input_items,
            _stored("listInputItems", "The items of a response's request."),
        ),
    )
    return tuple(
        Route(method, pattern, Endpoint(handler, "responses", about=about)) for method, pattern, handler, about in rows
    )


def input_tokens(services: Services, memory: ResponseMemory) -> Handler:
    """The handler of `POST /v1/responses/input_tokens`: the tokens that the prompt would have; `memory` has what it continues."""

    async def count(incoming: Incoming, located: list[Locate]) -> bytes:
        decoded = await decoded_body(services, incoming, decode_responses)
        located.append(decoded.locate)
        unkept = replace(decoded.generation, history=replace(decoded.history, store=False))
        decoded = await memory.recall(replace(decoded, generation=unkept))
        may_shorten = decoded.generation.truncation == "auto"
        with naming_places_of(decoded.generation):
            counted = await prompt_count(services, prompted_as(decoded), shortened if may_shorten else None)
        return encode_body({"object": "response.input_tokens", "input_tokens": counted.tokens})

    return json_handler(services, "resp_", responses_error, count)


def response_routes(context: ApiContext) -> tuple[Route[Endpoint], ...]:
    """The routes of Responses; requests of batches are answered at once."""
    services = context.services
    now, memory = services.clock.time, ResponseMemory(services)
    made, alone = responses_api(now, memory, memory.seal), compaction_api(now, memory, memory.seal)
    kept = background_responses(made, memory, now, memory.seal)
    background = background_service(services)
    background.offer(kept)
    at_once = Inference(services, made)
    context.batched["/v1/responses"] = BatchTarget(at_once, "responses", responses_error)
    create = Inference(services, made, partial(background.create, kept))
    posts: tuple[tuple[str, Handler, Operation], ...] = (
        ("/v1/responses", create, RESPONSES_OPERATION),
        ("/v1/responses/compact", Inference(services, alone), COMPACT_OPERATION),
        ("/v1/responses/input_tokens", input_tokens(services, memory), INPUT_TOKENS_OPERATION),
    )
    return (
        *(
            Route("POST", path, Endpoint(each, "responses", reads_json=True, about=about))
            for path, each, about in posts
        ),
        Route(WEBSOCKET, "/v1/responses", Endpoint(ResponsesSocket(services, at_once, memory), "responses")),
        *_stored_routes(services, background, kept),
    )


SPEC = ApiSpec(
    (ApiName("responses"), ApiName("compact")),
    {"responses": "Responses: all routes, the WebSocket too"},
    response_routes,
    (EnvelopeRule("/v1/responses", openai_error),),
    TRIALS,
)
