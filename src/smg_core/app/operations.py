"""The input and output of each route, for `/openapi.json`.

One `Operation` for each route. Only its texts are written by hand: fields and bounds are those of the types that the decoders
read. Above: the modules with the routes. Below: the protocols' types.
"""

from typing import Literal

import attrs
import msgspec

from smg_core.apis.chat.answer_types import ChatCompletion, ChatCompletionChunk
from smg_core.apis.chat.types import ChatBody
from smg_core.apis.completions.answer_types import Completion, CompletionChunk
from smg_core.apis.completions.types import CompletionBody
from smg_core.apis.gemini.answer_types import GeminiModel, GeminiModels, GenerateContentResponse, TokenCountResponse
from smg_core.apis.gemini.types import CountContentBody, GenerateBody
from smg_core.apis.google.answer_types import GeminiError
from smg_core.apis.messages.answer_types import MessageAnswer, TokenCountAnswer
from smg_core.apis.messages.types import CountBody, MessagesBody
from smg_core.apis.parse.wire import ParseBody
from smg_core.apis.responses.wire.types import ResponsesBody
from smg_core.apis.sglang.answer_types import SglangAnswer
from smg_core.apis.sglang.types import SglangBody
from smg_core.apis.tokenize.wire import DetokenizeBody, Detokenized, TokenizeBody, Tokenized
from smg_core.json_types import Json, JsonObject
from smg_core.wire.operation import Operation, OperationResponse

__all__ = [
    "CHAT",
    "COMPACT",
    "COMPLETIONS",
    "COUNT_CONTENT_TOKENS",
    "COUNT_TOKENS",
    "DETOKENIZE",
    "DOCS",
    "FRONT_PAGE",
    "GEMINI_MODEL",
    "GEMINI_MODELS",
    "GENERATE_CONTENT",
    "HEALTH",
    "INPUT_TOKENS",
    "LIVENESS",
    "MESSAGES",
    "MODEL",
    "MODELS",
    "OPENAPI",
    "PARSE_CALLS",
    "PARSE_REASONING",
    "READINESS",
    "RESPONSES",
    "SGLANG",
    "STREAM_GENERATE_CONTENT",
    "TOKENIZE",
]

_HTML = "text/html; charset=utf-8"
_STREAM = "text/event-stream"


class HealthStatus(msgspec.Struct):
    """The body of a health check that succeeds."""

    status: Literal["ok"]


class ModelObject(msgspec.Struct):
    """A model that is served. `created` is seconds since the epoch, `max_model_len` its context in tokens, `root` the model that
    an alias names, `parent` the model that an adapter belongs to. `pools` are the kinds of pooled work that its engines do,
    `scores_by` how it judges pairs of texts."""

    id: str
    object: Literal["model"]
    created: int
    owned_by: str
    pools: list[str]
    root: str | msgspec.UnsetType = msgspec.UNSET
    parent: str | msgspec.UnsetType = msgspec.UNSET
    max_model_len: int | msgspec.UnsetType = msgspec.UNSET
    scores_by: str | msgspec.UnsetType = msgspec.UNSET


class ModelList(msgspec.Struct):
    """All models that are served."""

    object: Literal["list"]
    data: list[ModelObject]


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


CHAT = Operation(
    "createChatCompletion",
    "Generate the next message of a conversation, whole or as server-sent events.",
    "chat",
    ChatBody,
    (
        OperationResponse(200, "The answer; as a stream where `stream` is true.", ChatCompletion),
        OperationResponse(200, "The answer; as a stream where `stream` is true.", ChatCompletionChunk, _STREAM),
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
COMPLETIONS = Operation(
    "createCompletion",
    "Go on with a text, or with several, whole or as server-sent events.",
    "completions",
    CompletionBody,
    (
        OperationResponse(200, "The texts; as a stream where `stream` is true.", Completion),
        OperationResponse(200, "The texts; as a stream where `stream` is true.", CompletionChunk, _STREAM),
    ),
    {
        "whole": {"model": "MODEL", "prompt": "Once upon a time"},
        "several": {"model": "MODEL", "prompt": ["One,", "A,"], "max_tokens": 5, "echo": True, "logprobs": 2},
        "stream": {"model": "MODEL", "prompt": [1, 2, 3], "stream": True, "stream_options": {"include_usage": True}},
    },
)
SGLANG = Operation(
    "generate",
    "Go on with a text, or with several, in the shape of SGLang: with token ids, and chunks that have all of the text so far.",
    "completions",
    SglangBody,
    (
        OperationResponse(200, "The answer; a list for a list of prompts.", SglangAnswer | list[SglangAnswer]),
        OperationResponse(200, "The answer so far; as a stream where `stream` is true.", SglangAnswer, _STREAM),
    ),
    {
        "whole": {"text": "Once upon a time", "sampling_params": {"max_new_tokens": 16}},
        "several": {"text": ["One,", "A,"], "sampling_params": {"max_new_tokens": 5}, "return_logprob": True},
        "stream": {"input_ids": [1, 2, 3], "stream": True},
    },
)
RESPONSES = Operation(
    "createResponse",
    "Generate a response, whole or as server-sent events.",
    "responses",
    ResponsesBody,
    (
        OperationResponse(200, "The response; as a stream where `stream` is true.", JsonObject),
        OperationResponse(200, "The response; as a stream where `stream` is true.", JsonObject, _STREAM),
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
COMPACT = Operation(
    "compactResponse",
    "Have the model summarize a conversation: the user's messages and one sealed item, to go on from.",
    "responses",
    ResponsesBody,
    (OperationResponse(200, "The items to send instead of the history.", JsonObject),),
    {"whole": {"model": "MODEL", "input": "I am Ada."}},
)
INPUT_TOKENS = Operation(
    "countInputTokens",
    "How many tokens the prompt of such a request has.",
    "responses",
    ResponsesBody,
    (OperationResponse(200, "The number.", JsonObject),),
    {"whole": {"model": "MODEL", "input": "I am Ada."}},
)
_TALK: JsonObject = {"model": "sim", "messages": [{"role": "user", "content": "Hello"}]}
MESSAGES = Operation(
    "createMessage",
    "Generate the next message of a conversation, in Anthropic's Messages API, whole or as server-sent events.",
    "messages",
    MessagesBody,
    (
        OperationResponse(200, "The answer; as a stream where `stream` is true.", MessageAnswer),
        OperationResponse(200, "The answer; as a stream where `stream` is true.", JsonObject, _STREAM),
    ),
    {"whole": {**_TALK, "max_tokens": 50}, "stream": {**_TALK, "max_tokens": 50, "stream": True}},
)
COUNT_TOKENS = Operation(
    "countMessageTokens",
    "How many tokens the prompt of such a request has.",
    "messages",
    CountBody,
    (OperationResponse(200, "The count.", TokenCountAnswer),),
    {"count": _TALK},
)
_CONTENTS: JsonObject = {"contents": [{"role": "user", "parts": [{"text": "Hello"}]}]}
GENERATE_CONTENT = Operation(
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
STREAM_GENERATE_CONTENT = Operation(
    "streamGenerateContent",
    "The same as a stream: server-sent events where the query says `alt=sse`, else one JSON array.",
    "generateContent",
    GenerateBody,
    (
        OperationResponse(200, "The chunks.", list[GenerateContentResponse]),
        OperationResponse(200, "The chunks.", GenerateContentResponse, _STREAM),
    ),
    {"stream": _CONTENTS},
    error=GeminiError,
)
COUNT_CONTENT_TOKENS = Operation(
    "countTokens",
    "How many tokens the prompt of a request has; no engine is asked.",
    "generateContent",
    CountContentBody,
    (OperationResponse(200, "The count.", TokenCountResponse),),
    {"contents": _CONTENTS},
    error=GeminiError,
)
GEMINI_MODELS = Operation(
    "listGeminiModels",
    "The models that are served, in Google's shape.",
    "models",
    None,
    (OperationResponse(200, "A page of the models.", GeminiModels),),
    error=GeminiError,
)
GEMINI_MODEL = Operation(
    "getGeminiModel",
    "One model that is served, in Google's shape.",
    "models",
    None,
    (OperationResponse(200, "The model.", GeminiModel),),
    error=GeminiError,
)
TOKENIZE = Operation(
    "tokenize",
    "The token ids of a text, or of the prompt that messages become.",
    "tokens",
    TokenizeBody,
    (OperationResponse(200, "The ids.", Tokenized),),
    {"text": {"model": "MODEL", "prompt": "Hello"}, "texts": {"prompt": ["One", "Two"], "return_token_strs": True}},
)
DETOKENIZE = Operation(
    "detokenize",
    "The text of token ids.",
    "tokens",
    DetokenizeBody,
    (OperationResponse(200, "The text.", Detokenized),),
    {"ids": {"model": "MODEL", "tokens": [5, 6, 7]}},
)
MODELS = Operation(
    "listModels", "All models that are served.", "models", None, (OperationResponse(200, "The models.", ModelList),)
)
MODEL = Operation(
    "retrieveModel", "One model that is served.", "models", None, (OperationResponse(200, "The model.", ModelObject),)
)
HEALTH = Operation(
    "health",
    "Whether new requests are taken; 503 while no worker is ready, and while the gateway is drained or shuts down.",
    "health",
    None,
    (OperationResponse(200, "It is.", HealthStatus),),
)
READINESS = attrs.evolve(HEALTH, name="readiness")
LIVENESS = Operation(
    "liveness", "Whether the process answers.", "health", None, (OperationResponse(200, "It does.", HealthStatus),)
)
FRONT_PAGE = Operation(
    "frontPage",
    "A page with what is served and a request to try.",
    "about",
    None,
    (OperationResponse(200, "The page.", None, _HTML),),
)
OPENAPI = Operation("openapi", "This document.", "about", None, (OperationResponse(200, "The document.", JsonObject),))
DOCS = Operation("docs", "This document as a page.", "about", None, (OperationResponse(200, "The page.", None, _HTML),))
PARSE_CALLS = Operation(
    "parseFunctionCall",
    "Read a text that a model wrote: its tool calls.",
    "parse",
    ParseBody,
    (OperationResponse(200, "What was read.", JsonObject),),
    {"hermes": {"text": '<tool_call>{"name": "f", "arguments": {}}</tool_call>', "parser": "hermes"}},
)
PARSE_REASONING = Operation(
    "parseReasoning",
    "Read a text that a model wrote: its reasoning.",
    "parse",
    ParseBody,
    (OperationResponse(200, "What was read.", JsonObject),),
    {"qwen3": {"text": "<think>Hm.</think>Hello.", "parser": "qwen3"}},
)
