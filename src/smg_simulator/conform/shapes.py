"""The fields that clients need in answers, as JSON schemas: only what a client breaks on when it is missing or of another type.

Pure. Above: the checkers of streams and of whole answers. Sources: the types of OpenAI's, Anthropic's
and Google's SDKs.
"""

from collections.abc import Mapping
from functools import cache

import jsonschema_rs

from smg_core.json_types import Json, JsonObject

__all__ = ["SHAPES", "shape_faults"]

_TEXT: JsonObject = {"type": "string"}
_NAME: JsonObject = {"type": "string", "minLength": 1}
_COUNT: JsonObject = {"type": "integer", "minimum": 0}
_LIST: JsonObject = {"type": "array"}
_OBJECT: JsonObject = {"type": "object"}
_TEXT_OR_NULL: JsonObject = {"type": ["string", "null"]}


def _record(required: Mapping[str, Json], optional: Mapping[str, Json] | None = None) -> JsonObject:
    return {"type": "object", "required": list(required), "properties": {**required, **(optional or {})}}


def _one_of(*values: Json) -> JsonObject:
    return {"enum": list(values)}


def _each(shape: JsonObject, least: int = 0) -> JsonObject:
    return {"type": "array", "items": shape, "minItems": least}


_CHAT_USAGE = _record(dict.fromkeys(("prompt_tokens", "completion_tokens", "total_tokens"), _COUNT))
_CHAT_LOGPROBS: JsonObject = {
    "anyOf": [
        {"type": "null"},
        _record(
            {},
            {"content": {"anyOf": [{"type": "null"}, _each(_record({"token": _TEXT, "logprob": {"type": "number"}}))]}},
        ),
    ]
}
_CHAT_CALL = _record(
    {"id": _NAME, "type": _one_of("function"), "function": _record({"name": _NAME, "arguments": _TEXT})}
)
_CHAT_MESSAGE = _record(
    {"role": _one_of("assistant"), "content": _TEXT_OR_NULL},
    {"tool_calls": {"anyOf": [{"type": "null"}, _each(_CHAT_CALL)]}, "reasoning_content": _TEXT_OR_NULL},
)
_FINISH: list[Json] = ["stop", "length", "tool_calls", "content_filter", "function_call"]
_CHAT = _record(
    {
        "id": _NAME,
        "object": _one_of("chat.completion"),
        "created": _COUNT,
        "model": _NAME,
        "choices": _each(
            _record(
                {"index": _COUNT, "message": _CHAT_MESSAGE, "finish_reason": {"enum": _FINISH}},
                {"logprobs": _CHAT_LOGPROBS},
            ),
            least=1,
        ),
        "usage": _CHAT_USAGE,
    }
)
_CHAT_DELTA = _record(
    {},
    {
        "role": _one_of("assistant", None),
        "content": _TEXT_OR_NULL,
        "tool_calls": {
            "anyOf": [{"type": "null"}, _each(_record({"index": _COUNT}, {"function": {"type": ["object", "null"]}}))]
        },
    },
)
_CHAT_CHUNK = _record(
    {
        "id": _NAME,
        "object": _one_of("chat.completion.chunk"),
        "created": _COUNT,
        "model": _NAME,
        "choices": _each(
            _record(
                {"index": _COUNT, "delta": _CHAT_DELTA},
                {"finish_reason": {"enum": [*_FINISH, None]}, "logprobs": _CHAT_LOGPROBS},
            )
        ),
    },
    {"usage": {"anyOf": [{"type": "null"}, _CHAT_USAGE]}},
)
_RESPONSES_USAGE = _record(
    {
        **dict.fromkeys(("input_tokens", "output_tokens", "total_tokens"), _COUNT),
        "input_tokens_details": _record({"cached_tokens": _COUNT}),
        "output_tokens_details": _record({"reasoning_tokens": _COUNT}),
    }
)
_RESPONSE_FIELDS: dict[str, Json] = {
    "id": _NAME,
    "object": _one_of("response"),
    "created_at": {"type": "number"},
    "status": _one_of("queued", "in_progress", "completed", "incomplete", "failed", "cancelled"),
    "model": _NAME,
    "output": _each(_record({"type": _NAME})),
    "parallel_tool_calls": {"type": "boolean"},
    "tools": _LIST,
    "tool_choice": {"type": ["string", "object"]},
}
_MESSAGES_USAGE = _record(dict.fromkeys(("input_tokens", "output_tokens"), _COUNT))
_MESSAGE_FIELDS: dict[str, Json] = {
    "id": _NAME,
    "type": _one_of("message"),
    "role": _one_of("assistant"),
    "model": _NAME,
    "content": _each(_record({"type": _NAME})),
    "stop_sequence": _TEXT_OR_NULL,
    "usage": _MESSAGES_USAGE,
}
_STOP_REASONS: Json = [
    "end_turn",
    "max_tokens",
    "stop_sequence",
    "tool_use",
    "pause_turn",
    "refusal",
    "model_context_window_exceeded",
]
_OPENAI_ERROR = _record({"error": _record({"message": _NAME, "type": _NAME, "param": _TEXT_OR_NULL, "code": {}})})

_COMPLETION_LOGPROBS: JsonObject = {
    "anyOf": [
        {"type": "null"},
        _record(dict.fromkeys(("tokens", "token_logprobs", "top_logprobs", "text_offset"), _LIST)),
    ]
}
_COMPLETION_FIELDS: dict[str, Json] = {
    "id": _NAME,
    "object": _one_of("text_completion"),
    "created": _COUNT,
    "model": _NAME,
}
_COMPLETION_FINISH: list[Json] = ["stop", "length", "content_filter"]
_CANDIDATE = _record(
    {"content": _record({"role": _one_of("model"), "parts": _each(_OBJECT, least=1)})},
    {
        "index": _COUNT,
        "finishReason": _NAME,
        "logprobsResult": _record({"chosenCandidates": _each(_record({"logProbability": {"type": "number"}}))}),
    },
)
_GENERATED_FIELDS: dict[str, Json] = {
    "usageMetadata": _record(dict.fromkeys(("promptTokenCount", "totalTokenCount"), _COUNT)),
    "modelVersion": _NAME,
    "responseId": _NAME,
}
_GENERATED_CALL = _record({"functionCall": _record({"name": _NAME, "id": _NAME}, {"args": _OBJECT})})

_GOOGLE_ERROR = _record({"error": _record({"code": _COUNT, "message": _NAME, "status": _NAME}, {"details": _LIST})})
_INTERACTION_STATUSES: list[Json] = ["completed", "requires_action", "incomplete"]

SHAPES: Mapping[str, JsonObject] = {
    "chat": _CHAT,
    "chat chunk": _CHAT_CHUNK,
    "chat error": _OPENAI_ERROR,
    "response": _record(_RESPONSE_FIELDS),
    "ended response": _record({**_RESPONSE_FIELDS, "usage": _RESPONSES_USAGE}),
    "responses error": _OPENAI_ERROR,
    "responses message": _record(
        {"id": _NAME, "role": _one_of("assistant"), "status": _NAME, "content": _each(_record({"type": _NAME}))}
    ),
    "responses function_call": _record({"call_id": _NAME, "name": _NAME, "arguments": _TEXT}),
    "responses reasoning": _record({"id": _NAME, "summary": _LIST}),
    "responses output_text": _record({"text": _TEXT, "annotations": _LIST}),
    "message": _record({**_MESSAGE_FIELDS, "stop_reason": {"enum": _STOP_REASONS}}),
    "begun message": _record(
        {**_MESSAGE_FIELDS, "stop_reason": {"type": "null"}, "content": {"type": "array", "maxItems": 0}}
    ),
    "message delta": _record({"stop_reason": {"enum": _STOP_REASONS}}),
    "messages usage": _record({"output_tokens": _COUNT}),
    "messages text": _record({"text": _TEXT}),
    "messages thinking": _record({"thinking": _TEXT, "signature": _TEXT}),
    "messages tool_use": _record({"id": _NAME, "name": _NAME, "input": _OBJECT}),
    "messages error": _record({"type": _one_of("error"), "error": _record({"type": _NAME, "message": _NAME})}),
    "count": _record({"input_tokens": _COUNT}),
    "completion": _record(
        {
            **_COMPLETION_FIELDS,
            "choices": _each(
                _record(
                    {"index": _COUNT, "text": _TEXT, "finish_reason": {"enum": _COMPLETION_FINISH}},
                    {"logprobs": _COMPLETION_LOGPROBS},
                ),
                least=1,
            ),
            "usage": _CHAT_USAGE,
        }
    ),
    "completion chunk": _record(
        {
            **_COMPLETION_FIELDS,
            "choices": _each(
                _record(
                    {"index": _COUNT, "text": _TEXT, "finish_reason": {"enum": [*_COMPLETION_FINISH, None]}},
                    {"logprobs": _COMPLETION_LOGPROBS},
                )
            ),
        },
        {"usage": {"anyOf": [{"type": "null"}, _CHAT_USAGE]}},
    ),
    "completions error": _OPENAI_ERROR,
    "generated content": _record(
        {
            **_GENERATED_FIELDS,
            "candidates": _each(
                {"allOf": [_CANDIDATE, _record({"finishReason": _NAME})]},
                least=1,
            ),
        }
    ),
    "generated chunk": _record(_GENERATED_FIELDS, {"candidates": _each(_CANDIDATE)}),
    "generated call": _GENERATED_CALL,
    "generate_content error": _GOOGLE_ERROR,
    "interaction": _record(
        {
            "id": _NAME,
            "object": _one_of("interaction"),
            "status": {"enum": _INTERACTION_STATUSES},
            "model": _NAME,
            "created": _TEXT,
            "updated": _NAME,
            "steps": _each(_record({"type": _NAME})),
            "usage": _record(dict.fromkeys(("total_input_tokens", "total_output_tokens", "total_tokens"), _COUNT)),
        }
    ),
    "interactions model_output": _record({"content": _each(_record({"type": _NAME}))}),
    "interactions function_call": _record({"id": _NAME, "name": _NAME, "arguments": _OBJECT}),
    "interactions error": _GOOGLE_ERROR,
}
"""Each kind of object with its schema."""


_LONGEST = 300
"""Characters of one sentence: it may quote what the server sent."""


@cache
def _validator(kind: str) -> jsonschema_rs.Draft202012Validator:
    return jsonschema_rs.Draft202012Validator(SHAPES[kind])


def shape_faults(kind: str, value: Json) -> list[str]:
    """What `value` lacks to be a `kind`, a sentence each. Kinds without a schema have no faults."""
    if kind not in SHAPES:
        return []
    found = _validator(kind).iter_errors(value)
    return [f"{kind}{_path(error.instance_path)}: {error.message}"[:_LONGEST] for error in found]


def _path(parts: list[str | int]) -> str:
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in parts)
