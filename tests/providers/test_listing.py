"""The list of models: what is known of those of providers, from the providers and from the table of prices."""

import json
from pathlib import Path

import attrs
import pytest
from tests.providers.answers import FORMATS
from tests.providers.bedrock_answers import ALL_FORMATS
from tests.providers.houses import before

from smg_core import Config
from smg_core.wire.settings import LimitsConfig

pytestmark = pytest.mark.anyio

CONTEXTS = {"anthropic": 200_000, "gemini": 1_000_000}
MEDIA = {
    "anthropic": ["text", "file", "image"],
    "gemini": ["text", "audio", "file", "image", "video"],
    "openai-responses": ["text", "file", "image"],
}


@pytest.mark.parametrize("kind", FORMATS)
async def test_a_model_is_listed_with_its_context_its_media_and_what_it_costs(kind: str, tmp_path: Path) -> None:
    form = ALL_FORMATS[kind]
    table = tmp_path / "prices.json"
    table.write_text(json.dumps({"models": {form.model: {"input": "3", "output": "15.50", "cached": "0.3"}}}))
    limits = LimitsConfig(rules=("1000 USD/day",), prices=str(table))
    async with before(form, attrs.evolve(Config(), limits=limits)) as house:
        house.provider.heard.clear()
        for _ in range(3):
            listed = (await house.http.get("/v1/models")).json()["data"]

        (model,) = [each for each in listed if each["id"] == form.model]
        assert model.get("max_model_len") == CONTEXTS.get(kind)
        assert model["input_modalities"] == MEDIA[kind]
        assert model["pricing"] == {
            "currency": "USD",
            "tokens": 1_000_000,
            "input": "3",
            "output": "15.50",
            "cached": "0.3",
        }
        assert house.provider.heard == []  # what the provider said when the worker joined is kept


async def test_a_model_without_a_price_has_none() -> None:
    async with before(FORMATS["anthropic"]) as house:
        (model, *_) = (await house.http.get("/v1/models")).json()["data"]

        assert "pricing" not in model
