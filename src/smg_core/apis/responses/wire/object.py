"""The response object: the fields around `output`, with the values that are in effect.

Clients read many of its fields whether they were asked for or not, so all are there; what the client did not say has its default.
`tools` are echoed as they were sent, those that nobody here runs too. Pure. Above: the encoders, the handlers of stored
responses. Below: responses, errors.
"""

import math
from collections.abc import Mapping

import msgspec

from smg_core.apis.responses.wire.decode import ResponsesRequest
from smg_core.apis.responses.wire.mcp import HIDDEN
from smg_core.errors import NoWorker, PromptTooLong, SmgError
from smg_core.events import Started, Usage
from smg_core.json_types import Json, JsonObject
from smg_core.wire.base import Locate
from smg_core.wire.errors import in_stream_text

__all__ = ["END_EVENTS", "INCOMPLETE", "error_object", "in_effect", "response_fields", "usage_object"]

INCOMPLETE: Mapping[str, str] = {
    "length": "max_output_tokens",
    "context": "max_output_tokens",
    "content_filter": "content_filter",
    "pause": "max_tool_calls",
}
"""Why a response is incomplete, by the reason of its choice's end."""
END_EVENTS: Mapping[str, str] = {
    "completed": "response.completed",
    "incomplete": "response.incomplete",
    "failed": "response.failed",
    "cancelled": "response.incomplete",
}
"""The event that ends a stream, by the status that the response has then."""


def response_fields(request: ResponsesRequest, created: int) -> JsonObject:
    """The object of a response that is under way; what its end changes is null or empty."""
    generation, body = request.generation, request.body
    sampling = generation.sampling
    text: JsonObject = {"format": _text_format(request)}
    if body.text is not None and body.text.verbosity is not None:
        text["verbosity"] = body.text.verbosity
    found: JsonObject = {
        "id": generation.id,
        "object": "response",
        "created_at": created,
        "status": "in_progress",
        "background": generation.background,
        "completed_at": None,
        "error": None,
        "incomplete_details": None,
        "instructions": body.instructions or None,
        "max_output_tokens": sampling.max_tokens,
        "max_tool_calls": generation.max_tool_calls,
        "metadata": dict(generation.metadata),
        "model": generation.model,
        "output": [],
        "parallel_tool_calls": body.parallel_tool_calls is not False,
        "previous_response_id": generation.history.previous_id,
        "prompt_cache_key": generation.cache_key,
        "reasoning": _reasoning(request),
        "safety_identifier": body.safety_identifier or None,
        "service_tier": "default",
        "store": request.store,
        "temperature": 1.0 if sampling.temperature is None else sampling.temperature,
        "text": text,
        "tool_choice": body.tool_choice if body.tool_choice is not None else "auto",
        "tools": [_echoed(tool) for tool in body.tools] if body.tools else [],
        "top_logprobs": body.top_logprobs or 0,
        "top_p": 1.0 if body.top_p is None else body.top_p,
        "truncation": generation.truncation or "disabled",
        "usage": None,
        "user": body.user or None,
    }
    if body.prompt_cache_options is not None and body.prompt_cache_options.comparison_response_id is not None:
        found["prompt_cache_diagnostics"] = {"type": "unavailable"}
    if generation.history.conversation_id is not None:
        found["conversation"] = {"id": generation.history.conversation_id}
    return found


def _reasoning(request: ResponsesRequest) -> JsonObject:
    settings, asked = request.generation.reasoning, request.body.reasoning
    found: JsonObject = {"effort": settings.effort, "summary": None}
    if asked is not None:
        found["summary"] = asked.summary or asked.generate_summary
    if settings.keep is not None:
        found["context"] = "all_turns" if settings.keep == "all" else settings.keep
    return found


_TOOL_DEFAULTS: Mapping[str, JsonObject] = {
    "function": {"parameters": None, "strict": None},
    "namespace": {"description": ""},
}
"""Fields that clients' types demand of an echoed tool."""


def _echoed(tool: JsonObject) -> JsonObject:
    if tool.get("type") == "mcp":
        tool = {name: value for name, value in tool.items() if name not in HIDDEN}
    return {**_TOOL_DEFAULTS.get(str(tool.get("type")), {}), **tool}


def in_effect(fields: JsonObject, started: Started) -> JsonObject:
    """The fields of an object that say what is in effect, once an engine has taken the request: the level of effort, temperature
    and top_p of the model, and of each function of which the client has not said whether its calls are to be held to its schema,
    whether they are."""
    effective, reasoning, tools = started.effective, fields.get("reasoning"), fields.get("tools")
    found: JsonObject = {}
    if isinstance(reasoning, dict):
        found["reasoning"] = {**reasoning, "effort": effective.effort}
    if effective.temperature is not None:
        found["temperature"] = effective.temperature
    if effective.top_p is not None:
        found["top_p"] = effective.top_p
    if started.strict is not None and tools and isinstance(tools, list):
        found["tools"] = [_with_strict(tool, started.strict) for tool in tools]
    return found


def _with_strict(tool: Json, strict: frozenset[str]) -> Json:
    if not isinstance(tool, dict) or tool.get("type") != "function" or tool.get("strict") is not None:
        return tool
    return {**tool, "strict": tool.get("name") in strict}


def _text_format(request: ResponsesRequest) -> JsonObject:
    asked = request.body.text.format if request.body.text is not None else None
    if asked is None:
        return {"type": "text"}
    return {name: value for name, value in msgspec.structs.asdict(asked).items() if value is not None}


def usage_object(usage: Usage) -> JsonObject:
    """The tokens of a response."""
    return {
        "input_tokens": usage.prompt_tokens,
        "input_tokens_details": {
            "cached_tokens": usage.cached_tokens,
            "cache_write_tokens": usage.cache_write_tokens,
        },
        "output_tokens": usage.completion_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        "total_tokens": usage.total_tokens,
    }


def error_object(error: SmgError, locate: Locate | None = None) -> JsonObject:
    """Why a response failed. Clients decide by the code: after a rate limit with a number of seconds they try again, after an
    overload they do not. So a lack of room is reported as a rate limit where it is known when to come back; a lack of workers
    is not."""
    text, param = in_stream_text(error), error.param
    if param is not None and locate is not None:
        param = locate(param)
        text = text.replace(f"'{error.param}'", f"'{param}'")
    code = error.in_stream_code
    if isinstance(error, PromptTooLong):
        code = "context_length_exceeded"
    elif error.status == 503 and error.retry_after is not None and not isinstance(error, NoWorker):
        code, text = "rate_limit_exceeded", f"{text} Please try again in {max(1, math.ceil(error.retry_after))}s."
    found: JsonObject = {"code": code, "message": text}
    if param is not None:
        found["param"] = param
    return found
