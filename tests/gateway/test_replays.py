"""Items that SDKs hold as their own types, sent back as they are: with nulls, with all fields, with those that must be there."""

import types
from collections.abc import Iterator
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import anthropic.types as messages
import anthropic.types.beta as beta
import openai.types.responses as responses
import pytest
from pydantic import BaseModel
from tests.gateway.conftest import House, in_process

pytestmark = pytest.mark.anyio

VALUES = {"arguments": "{}", "url": "https://example.com/", "image_url": "https://example.com/a.png"}
VALUES |= {"media_type": "text/plain", "data": "aGk="}
OWN = {"ResponseCompactionItem", "McpApprovalResponse"}  # they hold something that this gateway itself must have made
HELLO = {"role": "user", "content": "Hello"}
Fill = Literal["required", "all", "nulls"]


def members(kind: Any) -> Iterator[type[BaseModel]]:
    if get_origin(kind) is Annotated:
        yield from members(get_args(kind)[0])
    elif get_origin(kind) in (Union, types.UnionType):
        for each in get_args(kind):
            yield from members(each)
    else:
        yield kind


def made(kind: Any, fill: Fill, name: str = "") -> Any:
    """A value of a type: a model with its required fields, all fields, or nulls where they may be."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return made(inner[0], fill, name)
    if origin is Literal:
        return inner[0]
    if origin in (Union, types.UnionType):
        return None if fill == "nulls" and type(None) in inner else made(inner[0], fill, name)
    if origin is list:
        return [made(inner[0], fill, name)]
    if origin is dict:
        return {"k": made(inner[1], fill)}
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        wanted = {n: f for n, f in kind.model_fields.items() if f.is_required() or fill != "required"}
        return {f.alias or n: made(f.annotation, fill, f.alias or n) for n, f in wanted.items() if n != "async_"}
    return {str: VALUES.get(name, "abc"), bool: True, int: 1, float: 0.5}.get(kind, {})


@pytest.fixture
async def house() -> Any:
    async with in_process() as found:
        yield found


@pytest.mark.full
@pytest.mark.parametrize("fill", ["required", "all", "nulls"])
async def test_every_output_item_of_responses_can_be_sent_back(house: House, fill: Fill) -> None:
    refused = {}
    for kind in members(responses.ResponseOutputItem):
        item = made(kind, fill)
        if kind.__name__ in OWN:
            continue
        call: dict[str, Any] = {"type": item["type"].removesuffix("_output"), "call_id": "abc", "name": "f"}
        call |= {"input": "x"} if "custom" in item["type"] else {"arguments": "{}"}
        around: dict[str, list[Any]] = {"before": [], "after": []}
        if item["type"] in ("function_call_output", "custom_tool_call_output"):
            item["call_id"] = "abc"  # the type lets it be null, and then nothing says which call it is of
            around["before"] = [call]
        elif item["type"] in ("function_call", "custom_tool_call"):
            around["after"] = [{"type": f"{item['type']}_output", "call_id": "abc", "output": "x"}]
        sent = [HELLO, *around["before"], item, *around["after"], HELLO]
        answer = await house.http.post("/v1/responses", json={"model": "sim", "store": False, "input": sent})
        if answer.status_code != 200:
            refused[kind.__name__] = answer.text
    assert refused == {}


@pytest.mark.parametrize("with_ids", [True, False])
@pytest.mark.parametrize("execution", ["server", "client"])
async def test_a_search_for_tools_and_what_it_found_can_be_sent_back(
    house: House, execution: str, with_ids: bool
) -> None:
    call_id = "abc" if with_ids else None
    call = {"type": "tool_search_call", "id": "a", "arguments": {}, "execution": execution, "call_id": call_id}
    tools = [{"type": "function", "name": "f", "parameters": None, "strict": None}]
    found = {"type": "tool_search_output", "id": "b", "tools": tools, "execution": execution, "call_id": call_id}
    answer = await house.http.post(
        "/v1/responses", json={"model": "sim", "store": False, "input": [HELLO, call, found, HELLO]}
    )
    assert answer.status_code == 200, answer.text


@pytest.mark.full
@pytest.mark.parametrize("fill", ["required", "all", "nulls"])
async def test_every_block_of_messages_can_be_sent_back(house: House, fill: Fill) -> None:
    refused = {}
    for kind in (*members(messages.ContentBlock), *members(beta.BetaContentBlock)):
        block = made(kind, fill)
        result = [{"type": "tool_result", "tool_use_id": "abc", "content": "x"}]
        after = {"role": "user", "content": result if block["type"] == "tool_use" else "Go on."}
        body = {"model": "sim", "max_tokens": 5, "messages": [HELLO, {"role": "assistant", "content": [block]}, after]}
        answer = await house.http.post("/v1/messages", json=body)
        if answer.status_code != 200:
            refused[kind.__name__] = answer.text
    assert refused == {}
