"""Tokens of prompts before a provider: its own count, in the words of the API that asks."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.providers.bedrock_answers import ALL_FORMATS
from tests.providers.houses import House, before

from smg_core.operation.live_settings import with_values

pytestmark = pytest.mark.anyio

COUNTING = [kind for kind, form in ALL_FORMATS.items() if form.counted is not None]
ASKED: dict[str, tuple[str, dict[str, Any], str]] = {
    "Messages": (
        "/v1/messages/count_tokens",
        {"model": "m", "messages": [{"role": "user", "content": "Hi"}]},
        "input_tokens",
    ),
    "generateContent": (
        "/v1beta/models/m:countTokens",
        {"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]},
        "totalTokens",
    ),
    "Responses": ("/v1/responses/input_tokens", {"model": "m", "input": "Hi"}, "input_tokens"),
}


@pytest.fixture(scope="module", params=COUNTING)
async def house(request: pytest.FixtureRequest) -> AsyncIterator[House]:
    async with before(ALL_FORMATS[request.param]) as found:
        yield found


@pytest.mark.parametrize("api", ASKED)
async def test_a_prompt_is_counted_by_its_provider(house: House, api: str) -> None:
    path, body, field = ASKED[api]
    house.says("text")

    answer = await house.http.post(path, json=body)

    assert answer.status_code == 200, answer.text
    assert answer.json()[field] == 14
    (asked,) = house.provider.asked
    assert "count" in asked.path or "input_tokens" in asked.path
    assert asked.headers[house.form.key[0]] == house.form.key[1]


@pytest.mark.parametrize("api", ASKED)
async def test_a_refusal_to_count_is_told_in_the_clients_own_words(house: House, api: str) -> None:
    path, body, _ = ASKED[api]
    house.provider.script = lambda _: house.form.errors["limited"]

    answer = await house.http.post(path, json=body)

    assert answer.status_code == 429, answer.text
    error = answer.json()["error"]
    assert error["message"] == "The provider takes no more requests for now."
    assert ("status" in error) == (api == "generateContent")


@pytest.mark.parametrize("api", ASKED)
async def test_a_prompt_is_counted_only_where_it_may_be_placed(house: House, api: str) -> None:
    path, body, field = ASKED[api]
    house.says("text")
    before, found = house.gateway.config, []
    for line in ("require zone=mars", "require zone!=mars"):
        house.gateway.adopt(with_values(before, {"routing.placement": (line,)}))
        found.append(await house.http.post(path, json=body))
    house.gateway.adopt(before)

    assert [each.status_code >= 500 for each in found] == [True, False]
    assert "zone=mars" in found[0].json()["error"]["message"]
    assert len(house.provider.asked) == 1
    assert found[1].json()[field] == 14
