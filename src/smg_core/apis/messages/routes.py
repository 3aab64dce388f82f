"""The routes of Messages and of the count of its tokens, and the row of the API (edge). Above: apis.ALL. Below: the handlers."""

from msgspec.structs import replace

from smg_core.apis.messages.answer_types import MessageAnswer, TokenCountAnswer
from smg_core.apis.messages.api import MESSAGES
from smg_core.apis.messages.decode import decode_count
from smg_core.apis.messages.trials import TRIALS
from smg_core.apis.messages.types import CountBody, MessagesBody
from smg_core.http.endpoint import Endpoint, Handler
from smg_core.http.envelopes import EnvelopeRule
from smg_core.http.routes import Route
from smg_core.json_types import JsonObject
from smg_core.pipeline.prompt.tool_places import naming_places_of
from smg_core.pipeline.tools.loop import without_hosted_tools
from smg_core.serving.inference import Inference
from smg_core.serving.json_handler import decoded_body, json_handler
from smg_core.serving.prompt_count import prompt_count
from smg_core.serving.services import Services
from smg_core.serving.spec import ApiContext, ApiName, ApiSpec, BatchTarget
from smg_core.wire.base import Incoming, Locate
from smg_core.wire.errors import anthropic_error, anthropic_status
from smg_core.wire.json_text import encode_object
from smg_core.wire.operation import EVENT_STREAM, Operation, OperationResponse

__all__ = ["SPEC"]

_TALK: JsonObject = {"model": "sim", "messages": [{"role": "user", "content": "Hello"}]}

MESSAGES_OPERATION = Operation(
    "createMessage",
    "Generate the next message of a conversation, in Anthropic's Messages API, whole or as server-sent events.",
    "messages",
    MessagesBody,
    (
        OperationResponse(200, "The answer; as a stream where `stream` is true.", MessageAnswer),
        OperationResponse(200, "The answer; as a stream where `stream` is true.", JsonObject, EVENT_STREAM),
    ),
    {"whole": {**_TALK, "max_tokens": 50}, "stream": {**_TALK, "max_tokens": 50, "stream": True}},
)

COUNT_TOKENS_OPERATION = Operation(
    "countMessageTokens",
    "How many tokens the prompt of such a request has.",
    "messages",
    CountBody,
    (OperationResponse(200, "The count.", TokenCountAnswer),),
    {"count": _TALK},
)


def token_count(services: Services) -> Handler:
    """The handler of `POST /v1/messages/count_tokens`, which asks no engine."""

    async def count(incoming: Incoming, located: list[Locate]) -> bytes:
        decoded = await decoded_body(
            services, replace(incoming, hosted=services.hosted(MESSAGES.name, incoming.caller)), decode_count
        )
        located.append(decoded.locate)
        with naming_places_of(decoded.generation):
            counted = await prompt_count(services, without_hosted_tools(decoded.generation))
        found: dict[str, object] = {"input_tokens": counted.tokens}
        if decoded.edited:
            found["context_management"] = {"original_input_tokens": counted.tokens + counted.cleared}
        return encode_object(found)

    return json_handler(services, "req_", anthropic_error, count, status=anthropic_status, id_header=MESSAGES.id_header)


def message_routes(context: ApiContext) -> tuple[Route[Endpoint], ...]:
    """The routes of Messages and of the count of its tokens; batches of either API may name the first."""
    handler, path = Inference(context.services, MESSAGES), "/v1/messages"
    context.batched[path] = BatchTarget(handler, "messages", anthropic_error)
    count = Endpoint(token_count(context.services), "messages", reads_json=True, about=COUNT_TOKENS_OPERATION)
    return (
        Route("POST", path, Endpoint(handler, "messages", reads_json=True, about=MESSAGES_OPERATION)),
        Route("POST", "/v1/messages/count_tokens", count),
    )


SPEC = ApiSpec(
    (ApiName("messages"),),
    {"messages": "Messages, and the count of their tokens"},
    message_routes,
    (EnvelopeRule("/v1/messages", anthropic_error),),
    TRIALS,
)
