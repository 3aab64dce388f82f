"""Fields that an API's own provider alone can honour: that one gets them, another one is not sent them, and never in silence."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.providers.answers import FORMATS
from tests.providers.client_apis import APIS
from tests.providers.houses import House, before

pytestmark = pytest.mark.anyio

SAFETY = [{"category": "HARM_CATEGORY_HATE_SPEECH", "threshold": "BLOCK_NONE"}]
OWN: list[tuple[str, str, str, Any]] = [
    ("generateContent", "gemini", "safetySettings", SAFETY),
    ("generateContent", "gemini", "labels", {"team": "a"}),
    ("generateContent", "gemini", "serviceTier", "flex"),
    ("Messages", "anthropic", "speed", "fast"),
    ("Messages", "anthropic", "cache_control", {"type": "ephemeral"}),
    ("Messages", "anthropic", "inference_geo", "us"),
    ("Responses", "openai-responses", "prompt_cache_retention", "24h"),
]


@pytest.fixture(scope="module", params=FORMATS)
async def house(request: pytest.FixtureRequest) -> AsyncIterator[House]:
    async with before(FORMATS[request.param]) as found:
        yield found


@pytest.mark.parametrize(("api", "provider", "name", "value"), OWN, ids=[each[2] for each in OWN])
async def test_a_field_reaches_its_own_provider_alone(
    house: House, api: str, provider: str, name: str, value: Any
) -> None:
    house.says("text")

    answer = await house.ask(APIS[api], {**APIS[api].body("text"), name: value})

    if house.form.kind == provider:
        assert answer.status_code == 200, answer.text
        assert house.provider.asked[0].json[name] == value
        assert "x-smg-lossy" not in answer.headers
    elif name == "inference_geo":
        assert answer.status_code == 400, answer.text
        assert name in answer.text
    else:
        assert answer.status_code == 200, answer.text
        assert f"{name}=not sent" in answer.headers["x-smg-lossy"]


@pytest.mark.parametrize(
    ("api", "fields"), [("Chat Completions", {"verbosity": "low"}), ("Responses", {"text": {"verbosity": "low"}})]
)
async def test_how_long_an_answer_is_to_be_is_said_or_refused(house: House, api: str, fields: Any) -> None:
    house.says("text")

    answer = await house.ask(APIS[api], {**APIS[api].body("text"), **fields})

    if house.form.kind == "openai-responses":
        assert house.provider.asked[0].json["text"]["verbosity"] == "low"
    else:
        assert answer.status_code == 400, answer.text
        assert "verbosity" in answer.text


async def test_a_bound_of_the_gateways_own_is_no_more_than_the_model_gives(house: House) -> None:
    house.says("text")

    await house.ask(APIS["Chat Completions"], APIS["Chat Completions"].body("text"))

    sent = house.provider.asked[0].json
    assert sent.get("max_tokens", 0) <= 64_000
    assert sent.get("generationConfig", {}).get("maxOutputTokens", 0) <= 64_000
