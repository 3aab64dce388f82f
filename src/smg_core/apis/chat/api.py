"""The row of the Chat Completions API (edge)."""

from smg_core.apis.chat.answer_types import ChatCompletion, ChatCompletionChunk
from smg_core.apis.chat.decode import ChatRequest, decode_chat
from smg_core.apis.chat.encode import ChatStreamEncoder, ChatWholeEncoder
from smg_core.apis.chat.trials import TRIALS
from smg_core.apis.chat.types import ChatBody
from smg_core.http.endpoint import Endpoint
from smg_core.http.envelopes import EnvelopeRule
from smg_core.http.routes import Route
from smg_core.json_types import Json, JsonObject
from smg_core.pipeline.flow.flow import Terms
from smg_core.pipeline.flow.steps import Flow
from smg_core.pipeline.tools.loop import respond_with_tools
from smg_core.serving.api import Api
from smg_core.serving.inference import Inference
from smg_core.serving.spec import ApiContext, ApiName, ApiSpec, BatchTarget
from smg_core.wire.errors import openai_error
from smg_core.wire.operation import EVENT_STREAM, Operation, OperationResponse

__all__ = ["CHAT", "CHAT_OPERATION", "SPEC"]


def _respond_to_chat(decoded: ChatRequest, terms: Terms) -> Flow[object]:
    """As `one_turn`; a call that needs approval is told to the client, which may approve it in its next request."""
    return respond_with_tools(
        decoded.generation, terms, approved=decoded.approved, refused=decoded.refused, can_ask=True
    )


CHAT: Api[ChatRequest] = Api(
    name="chat",
    id_prefix="chatcmpl-",
    decode=decode_chat,
    stream=lambda decoded, created: ChatStreamEncoder(decoded, created, decoded.generation.id),
    whole=lambda decoded, created: ChatWholeEncoder(decoded, created, decoded.generation.id),
    error=openai_error,
    flow=_respond_to_chat,
)


_TOOL: JsonObject = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather of a city.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}

_SCHEMA: JsonObject = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
    "required": ["name", "age"],
}


def _hello(**more: Json) -> JsonObject:
    return {"model": "MODEL", "messages": [{"role": "user", "content": "Hello"}], **more}


CHAT_OPERATION = Operation(
    "createChatCompletion",
    "Generate the next message of a conversation, whole or as server-sent events.",
    "chat",
    ChatBody,
    (
        OperationResponse(200, "The answer; as a stream where `stream` is true.", ChatCompletion),
        OperationResponse(200, "The answer; as a stream where `stream` is true.", ChatCompletionChunk, EVENT_STREAM),
    ),
    {
        "whole": _hello(),
        "stream": _hello(stream=True, stream_options={"include_usage": True}),
        "tools": _hello(tools=[_TOOL], tool_choice="required", max_tokens=200),
        "structured": _hello(
            response_format={
                "type": "json_schema",
                "json_schema": {"name": "person", "schema": _SCHEMA, "strict": True},
            }
        ),
        "sampling": _hello(
            temperature=0.7, top_p=0.9, seed=1, stop=["\n\n"], n=2, logprobs=True, top_logprobs=2, max_tokens=20
        ),
    },
)


def chat_routes(context: ApiContext) -> tuple[Route[Endpoint], ...]:
    """The route of Chat Completions, which requests of batches may name."""
    handler, path = Inference(context.services, CHAT), "/v1/chat/completions"
    context.batched[path] = BatchTarget(handler, "chat", openai_error)
    return (Route("POST", path, Endpoint(handler, "chat", reads_json=True, about=CHAT_OPERATION)),)


SPEC = ApiSpec(
    (ApiName("chat"),), {"chat": "Chat Completions"}, chat_routes, (EnvelopeRule("/v1/chat", openai_error),), TRIALS
)
