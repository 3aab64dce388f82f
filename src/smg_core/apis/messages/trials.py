"""The requests that Messages is tried with. Pure. Above: the row of the API."""

from collections.abc import Iterator

from smg_core.json_types import Json
from smg_core.trials import CITY, PERSON, QUESTION, TOOL, WHO, ApiTrial, ApiTrials

__all__ = ["TRIALS"]


def _trials(model: str) -> Iterator[ApiTrial]:
    tool: Json = [{**TOOL, "input_schema": CITY}]
    asked: Json = {"role": "user", "content": QUESTION}
    call: Json = {"type": "tool_use", "id": "toolu_1", "name": "get_weather", "input": {"city": "Paris"}}
    result: Json = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "Sunny."}
    turns: Json = [asked, {"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]
    yield "text", "text", {"messages": [{"role": "user", "content": "Say hello."}]}
    yield "tool call", "call", {"messages": [asked], "tools": tool, "tool_choice": {"type": "any"}}
    yield "two turns", "text", {"messages": turns, "tools": tool, "tool_choice": {"type": "none"}}
    schema: Json = {"format": {"type": "json_schema", "schema": PERSON}}
    yield "JSON schema", "schema", {"messages": [{"role": "user", "content": WHO}], "output_config": schema}
    yield "unknown role", "refusal", {"messages": [{"role": "wizard", "content": "x"}]}
    yield "no messages", "refusal", {}
    yield "unknown model", "refusal", {"model": f"{model}-that-nobody-serves", "messages": [asked]}


TRIALS = ApiTrials(
    "messages",
    "/v1/messages",
    _trials,
    "max_tokens",
    headers=(("anthropic-version", "2023-06-01"),),
    count={"messages": [{"role": "user", "content": "Say hello."}]},
)
