"""The requests that Interactions is tried with. Pure. Above: the row of the API."""

from collections.abc import Iterator

from smg_core.json_types import Json
from smg_core.trials import CITY, PERSON, QUESTION, TOOL, WHO, ApiTrial, ApiTrials

__all__ = ["TRIALS"]


def _trials(model: str) -> Iterator[ApiTrial]:
    tools: Json = [{"type": "function", **TOOL, "parameters": CITY}]
    asked: Json = {"type": "user_input", "content": [{"type": "text", "text": QUESTION}]}
    call: Json = {"type": "function_call", "id": "call_1", "name": "get_weather", "arguments": {"city": "Paris"}}
    turns: Json = [asked, call, {"type": "function_result", "call_id": "call_1", "result": "Sunny."}]
    schema: Json = {"type": "text", "mime_type": "application/json", "schema": PERSON}
    yield "text", "text", {"input": "Say hello."}
    yield "tool call", "call", {"input": [asked], "tools": tools, "generation_config": {"tool_choice": "any"}}
    yield "two turns", "text", {"input": turns, "tools": tools, "generation_config": {"tool_choice": "none"}}
    yield "JSON schema", "schema", {"input": WHO, "response_format": schema}
    yield "unknown step", "refusal", {"input": [{"type": "wizard", "content": "x"}]}
    yield "no input", "refusal", {}
    yield "unknown model", "refusal", {"model": f"{model}-that-nobody-serves", "input": "Hello"}


TRIALS = ApiTrials(
    "interactions",
    "/v1/interactions",
    _trials,
    "max_output_tokens",
    {"store": False},
    settings="generation_config",
)
