"""The requests that Chat Completions is tried with. Pure. Above: the row of the API."""

from collections.abc import Iterator

from smg_core.json_types import Json, JsonObject
from smg_core.trials import ARGUMENTS, CITY, PERSON, QUESTION, TOOL, WHO, ApiTrial, ApiTrials

__all__ = ["TRIALS"]


def _trials(model: str) -> Iterator[ApiTrial]:
    tool: Json = [{"type": "function", "function": {**TOOL, "parameters": CITY}}]
    call: Json = {"id": "call_1", "type": "function", "function": {"name": "get_weather", "arguments": ARGUMENTS}}
    asked: Json = {"role": "user", "content": QUESTION}
    answered: Json = {"role": "assistant", "content": None, "tool_calls": [call]}
    turns: Json = [asked, answered, {"role": "tool", "tool_call_id": "call_1", "content": "Sunny."}]
    schema: Json = {"type": "json_schema", "json_schema": {"name": "person", "strict": True, "schema": PERSON}}
    yield "text", "text", {"messages": [{"role": "user", "content": "Say hello."}]}
    yield "tool call", "call", {"messages": [asked], "tools": tool, "tool_choice": "required"}
    yield "two turns", "text", {"messages": turns, "tools": tool, "tool_choice": "none"}
    yield "JSON schema", "schema", {"messages": [{"role": "user", "content": WHO}], "response_format": schema}
    body: JsonObject = {"messages": [{"role": "user", "content": "Say hello."}], "logprobs": True, "top_logprobs": 2}
    yield "logprobs", "logprobs", body
    yield "unknown role", "refusal", {"messages": [{"role": "wizard", "content": "x"}]}
    yield "no messages", "refusal", {}
    yield "unknown model", "refusal", {"model": f"{model}-that-nobody-serves", "messages": [asked]}


TRIALS = ApiTrials(
    "chat",
    "/v1/chat/completions",
    _trials,
    "max_completion_tokens",
    streamed={"stream_options": {"include_usage": True}},
)
