"""The requests that Responses is tried with. Pure. Above: the row of the API."""

from collections.abc import Iterator

from smg_core.json_types import Json, JsonObject
from smg_core.trials import ARGUMENTS, CITY, PERSON, QUESTION, TOOL, WHO, ApiTrial, ApiTrials

__all__ = ["TRIALS"]


def _trials(model: str) -> Iterator[ApiTrial]:
    tool: Json = [{"type": "function", **TOOL, "parameters": {**CITY, "additionalProperties": False}, "strict": True}]
    asked: Json = {"role": "user", "content": QUESTION}
    call: Json = {"type": "function_call", "call_id": "call_1", "name": "get_weather", "arguments": ARGUMENTS}
    turns: Json = [asked, call, {"type": "function_call_output", "call_id": "call_1", "output": "Sunny."}]
    schema: Json = {"format": {"type": "json_schema", "name": "person", "strict": True, "schema": PERSON}}
    yield "text", "text", {"input": "Say hello."}
    yield "tool call", "call", {"input": [asked], "tools": tool, "tool_choice": "required"}
    yield "two turns", "text", {"input": turns, "tools": tool, "tool_choice": "none"}
    yield "JSON schema", "schema", {"input": WHO, "text": schema}
    included: JsonObject = {"input": "Say hello.", "top_logprobs": 2, "include": ["message.output_text.logprobs"]}
    yield "logprobs", "logprobs", included
    yield "unknown role", "refusal", {"input": [{"role": "wizard", "content": "x"}]}
    yield "no input", "refusal", {}
    yield "unknown model", "refusal", {"model": f"{model}-that-nobody-serves", "input": "Hello"}


TRIALS = ApiTrials("responses", "/v1/responses", _trials, "max_output_tokens", {"store": False})
