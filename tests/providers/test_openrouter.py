"""OpenRouter's details of reasoning: put together out of a stream, and given back as they came, through every API."""

import pytest
from tests.providers.bedrock_answers import ALL_FORMATS
from tests.providers.chat_answers import chat_stream
from tests.providers.client_apis import APIS
from tests.providers.fake import Said
from tests.providers.houses import before

pytestmark = pytest.mark.anyio

TEXT = {"type": "reasoning.text", "index": 0, "format": "anthropic-claude-v1", "id": "r1"}
ENCRYPTED = {"type": "reasoning.encrypted", "index": 1, "data": "gAAAA", "format": "openai-responses-v1", "id": "r2"}
WHOLE = [{**TEXT, "text": "Let me see", "signature": "c2ln"}, ENCRYPTED]
PIECES = [
    {"reasoning": "Let me", "reasoning_details": [{**TEXT, "text": "Let me", "signature": None}]},
    {"reasoning": " see", "reasoning_details": [{**TEXT, "text": " see"}]},
    {"reasoning_details": [{**TEXT, "signature": "c2ln"}]},
]
CALL = {
    "index": 0,
    "id": "callabc12",
    "type": "function",
    "function": {"name": "get_weather", "arguments": '{"city":"Paris"}'},
}
STREAM = chat_stream(*PIECES, {"tool_calls": [CALL]}, {"reasoning_details": [ENCRYPTED]}, stop="tool_calls")


@pytest.mark.parametrize("name", APIS)
async def test_details_of_reasoning_go_back_as_they_came(name: str) -> None:
    api = APIS[name]
    async with before(ALL_FORMATS["openrouter"]) as house:
        house.provider.script = lambda _: Said(STREAM)
        body = api.body("thinking_tool")
        answer = await house.ask(api, body)
        assert answer.status_code == 200, answer.text
        assert api.calls(answer.json()) == [("get_weather", {"city": "Paris"})]
        assert "c2ln" not in answer.text

        again = await house.ask(api, api.again(body, answer.json()))

        assert again.status_code == 200, again.text
        spoken = [each for each in house.provider.asked[-1].json["messages"] if each["role"] == "assistant"]
        assert [each.get("reasoning_details") for each in spoken] == [WHOLE]
        assert "reasoning" not in again.headers.get("x-smg-lossy", "")


async def test_the_details_of_another_model_are_left_out() -> None:
    api = APIS["Chat Completions"]
    async with before(ALL_FORMATS["openrouter"]) as house, before(ALL_FORMATS["mistral"]) as other:
        house.provider.script = lambda _: Said(STREAM)
        body = {**api.body("text"), "tools": api.body("tool")["tools"]}
        answer = await house.ask(api, body)

        again = await other.ask(api, api.again(body, answer.json()))

        assert again.status_code == 200, again.text
        assert b"reasoning_details" not in other.provider.asked[-1].body
