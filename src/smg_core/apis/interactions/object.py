"""The interaction object: as it is stored, and as each wire revision shows it.

Stored are steps. The earlier revision has `outputs`, the contents of the model's steps, and another name for the tokens of
thoughts. What the client did not say is absent. Pure. Above: the encoders, the handlers of stored interactions. Below:
interactions.
"""

from collections.abc import Sequence
from datetime import UTC, datetime

import msgspec

from smg_core.apis.google.mcp import hidden_headers
from smg_core.apis.interactions.decode import InteractionRequest, Revision
from smg_core.errors import SmgError
from smg_core.events import Effective, Usage
from smg_core.json_types import Json, JsonObject
from smg_core.wire.base import Locate
from smg_core.wire.errors import gemini_error

__all__ = [
    "effective_config",
    "interaction_error",
    "interaction_fields",
    "interaction_usage",
    "legacy_contents",
    "legacy_usage",
    "rendered_interaction",
    "stream_fields",
    "time_text",
]

_ECHOED = (
    "previous_interaction_id",
    "system_instruction",
    "tools",
    "generation_config",
    "response_format",
    "response_mime_type",
    "response_modalities",
    "labels",
    "safety_settings",
    "service_tier",
)
"""Fields of the request that the object repeats."""
_IN_STREAMS = ("id", "object", "status", "model", "created", "updated", "usage", "errors", "previous_interaction_id")


def time_text(seconds: float) -> str:
    """A time, in seconds since the epoch, as the API writes it."""
    return datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def interaction_fields(request: InteractionRequest, created: int) -> JsonObject:
    """The object of an interaction that is under way, without its steps."""
    fields: JsonObject = msgspec.to_builtins(request.body)
    fields["tools"] = hidden_headers(fields.get("tools"))
    created_at = time_text(created)
    found: JsonObject = {
        "id": request.generation.id,
        "object": "interaction",
        "status": "in_progress",
        "model": request.generation.model,
        "created": created_at,
        "updated": created_at,
    }
    return found | {name: fields[name] for name in _ECHOED if fields.get(name) is not None}


def effective_config(sent: JsonObject, effective: Effective) -> JsonObject:
    """The generation_config that a client has sent, with the settings that are in effect: a level that a model does not have is
    another one or none, and the model's own temperature and top_p stand where the client says nothing."""
    found = {name: value for name, value in sent.items() if name != "thinking_level"}
    if "thinking_level" in sent and effective.effort not in (None, "none"):
        found["thinking_level"] = effective.effort
    own = {"temperature": effective.temperature, "top_p": effective.top_p}
    return {**{name: value for name, value in own.items() if value is not None}, **found}


def stream_fields(fields: JsonObject) -> JsonObject:
    """What the events that open and end a stream have of the object."""
    return {name: fields[name] for name in _IN_STREAMS if name in fields}


def interaction_error(error: SmgError, locate: Locate | None = None) -> JsonObject:
    """An error as interactions and their streams tell it."""
    error_body: JsonObject = msgspec.json.decode(gemini_error(error, locate=locate))["error"]
    return {"code": error.gemini_status, "message": error_body["message"]}


def interaction_usage(usage: Usage) -> JsonObject:
    """The token counts of an answer. The prompts of the turns after results of tools that ran here stand apart."""
    prompt = usage.prompt_tokens - usage.hosted_prompt_tokens
    found: JsonObject = {"total_input_tokens": prompt}
    if not usage.unsplit_prompt_tokens:
        media = {"image": usage.image_tokens, "audio": usage.audio_tokens, "video": usage.video_tokens}
        shares = {"text": prompt - sum(media.values()), **media}
        details: list[Json] = [{"modality": kind, "tokens": count} for kind, count in shares.items() if count]
        found["input_tokens_by_modality"] = details
    return found | {
        "total_cached_tokens": usage.cached_tokens - usage.hosted_cached_tokens,
        "total_output_tokens": usage.completion_tokens - usage.reasoning_tokens,
        "total_thought_tokens": usage.reasoning_tokens,
        "total_tool_use_tokens": usage.hosted_prompt_tokens,
        "total_tokens": usage.total_tokens,
    }


def legacy_usage(usage: Json) -> Json:
    """The same counts in the words of the earlier revision."""
    if not isinstance(usage, dict):
        return usage
    return {("total_reasoning_tokens" if name == "total_thought_tokens" else name): n for name, n in usage.items()}


def legacy_contents(steps: Sequence[JsonObject]) -> list[JsonObject]:
    """Steps as contents of the earlier revision: those of the model's output stand by themselves."""
    found: list[JsonObject] = []
    for step in steps:
        contents = step.get("content")
        if step.get("type") == "model_output" and isinstance(contents, list):
            found += [each for each in contents if isinstance(each, dict)]
        else:
            found.append(step)
    return found


def rendered_interaction(found: JsonObject, revision: Revision) -> JsonObject:
    """A stored object, which has steps, in the words of the revision."""
    if revision == "steps":
        return found
    rendered = {name: value for name, value in found.items() if name != "steps"}
    steps = found.get("steps")
    outputs = [each for each in steps if isinstance(each, dict)] if isinstance(steps, list) else []
    if "usage" in rendered:
        rendered["usage"] = legacy_usage(rendered["usage"])
    return {**rendered, "role": "model", "outputs": legacy_contents(outputs)}
