"""Where a client's API is the provider's own, credentials of the client and what the gateway has taken out stay here."""

import json
from typing import Any

import pytest
from tests.providers.answers import FORMATS
from tests.providers.fake import FakeProvider
from tests.providers.houses import before

pytestmark = pytest.mark.anyio

MESSAGES = (
    '{ "model":"%s", "max_tokens":  100 ,\n "stream":true, "system":"Be \\u0062rief.",'
    ' "metadata": {"user_id":"ann"}, "tools":[{"type":"custom","name":"get_weather","description":"Weather",'
    '"input_schema":{"type":"object","properties":{"city":{"type":"string"}}}}], "tool_choice":{"type":"auto"},'
    ' "messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":[{"type":"text","text":"Yes"}]},'
    ' {"content":[{"text":"And?","type":"text","cache_control":{"type":"ephemeral","ttl":"1h"}}],"role":"user"}]}'
)
CONTENTS = (
    '{ "contents":[ {"parts":[{"text":"H\\u0069"}], "role":"user"}, {"role":"model","parts":[{"text":"Yes"}]},'
    ' {"parts":[{"text":"And?"}]}], "systemInstruction":{"parts":[{"text":"Be brief."}]},'
    ' "generationConfig":{"temperature":1.0e0,  "maxOutputTokens":100}}'
)
ITEMS = (
    '{ "model":"%s", "store":false, "stream":true, "include":["reasoning.encrypted_content"],\n "temperature":1e0,'
    ' "input":[{"role":"user","content":"H\\u0069"}] }'
)
SAME = {
    "anthropic": ("/v1/messages", MESSAGES),
    "gemini": ("/v1beta/models/%s:streamGenerateContent?alt=sse", CONTENTS),
    "openai-responses": ("/v1/responses", ITEMS),
}
JSON = {"content-type": "application/json"}


@pytest.mark.parametrize("kind", FORMATS)
async def test_credentials_of_the_client_stay_here(kind: str) -> None:
    form = FORMATS[kind]
    path, body = (part.replace("%s", form.model) for part in SAME[kind])
    theirs = {
        **JSON,
        "authorization": "Bearer theirs",
        "x-api-key": "theirs",
        "x-goog-api-key": "theirs",
        "cookie": "a=theirs",
    }
    async with before(form) as house:
        house.says("text")
        await house.http.post(path, content=body.encode(), headers=theirs)

        headers = house.provider.asked[0].headers
        assert headers[form.key[0]] == form.key[1]
        assert not any("theirs" in value for value in headers.values())


def told(provider: FakeProvider) -> Any:
    return json.loads(provider.asked[0].body)


async def test_what_the_gateway_changes_is_not_undone_by_the_clients_bytes() -> None:
    form = FORMATS["anthropic"]
    body = {"model": "m", "max_tokens": 99, "messages": [{"role": "user", "content": "Hi"}]}
    thought = {"type": "thinking", "thinking": "Hm", "signature": "another's"}
    turns = [*body["messages"], {"role": "assistant", "content": [thought, {"type": "text", "text": "Yes"}]}]
    async with before(form) as house:
        house.says("text")
        answer = await house.http.post(
            "/v1/messages", json={**body, "messages": [*turns, {"role": "user", "content": "And?"}]}
        )

        assert answer.status_code == 200, answer.text
        assert [each["type"] for each in told(house.provider)["messages"][1]["content"]] == ["text"]
