"""The list of models: what is known of those of providers, from the providers and from the table of prices."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import httpx
import pytest
from tests.providers.answers import FORMATS
from tests.providers.bedrock_answers import ALL_FORMATS
from tests.providers.fake import FakeProvider, Heard, Said, providing
from tests.providers.houses import before
from tests.shared import PATIENCE

from smg_core import Config, Gateway
from smg_core.wire.settings import LimitsConfig
from smg_core.workers.settings import WorkersConfig
from smg_core.workers.worker_file import workers_of

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
        # what the provider said when the worker joined is kept, and its list is asked for once
        assert [each.path.partition("?")[0].rpartition("/")[2] for each in house.provider.heard] == ["models"]


async def test_a_model_without_a_price_has_none() -> None:
    async with before(FORMATS["anthropic"]) as house:
        (model, *_) = (await house.http.get("/v1/models")).json()["data"]

        assert "pricing" not in model


# ------------------------------------------------------------------------------------------------ what providers list

ROUTER = {
    "id": "maker/large",
    "context_length": 131_072,
    "architecture": {"input_modalities": ["text", "image"], "output_modalities": ["text"]},
    "pricing": {"prompt": "0.000002", "completion": "0.000006"},
    "top_provider": {"max_completion_tokens": 8192},
}
MISTRAL = {"id": "mistral-embed", "max_context_length": 8192, "capabilities": {"completion_chat": False}}


def listing(*models: dict[str, Any]) -> Callable[[Heard], Said]:
    return lambda _: Said(json.dumps({"data": models}).encode(), kind="application/json")


@asynccontextmanager
async def accounts(
    **scripts: Callable[[Heard], Said],
) -> AsyncIterator[tuple[httpx.AsyncClient, dict[str, FakeProvider]]]:
    """A gateway before providers of these dialects, each with models `DIALECT-a` and `DIALECT-b`."""
    named = {
        "openrouter": "maker/large",
        "mistral": "mistral-embed",
        "groq": "g",
        "anthropic": FORMATS["anthropic"].model,
    }
    config = attrs.evolve(Config(), workers=WorkersConfig(health_interval_s=3600.0))
    async with AsyncExitStack() as stack:
        fakes: dict[str, FakeProvider] = {}
        entries: list[dict[str, Any]] = []
        for dialect, script in scripts.items():
            fakes[dialect] = await stack.enter_async_context(providing(script))
            models = {f"{dialect}-a": named[dialect], f"{dialect}-b": "not-listed"}
            entry = {"url": fakes[dialect].url, "name": dialect, "dialect": dialect, "models": models}
            entries.append({**entry, "credential": {"key": f"sk-{dialect}-secret"}})
        workers = workers_of(entries, lambda path: Path(path).read_text(), 1 << 16)
        gateway = await stack.enter_async_context(Gateway(workers, config=config))
        await gateway.ready()
        for _ in range(1000):
            if all(each.state == "ready" for each in gateway.services.registry):
                break
            await asyncio.sleep(0.01)
        http = gateway.http_client(httpx, base_url="http://gateway", timeout=PATIENCE)
        yield await stack.enter_async_context(http), fakes


async def shown(http: httpx.AsyncClient) -> dict[str, Any]:
    return {each["id"]: each for each in (await http.get("/v1/models")).json()["data"]}


async def test_models_have_what_their_providers_list_of_them() -> None:
    async with accounts(openrouter=listing(ROUTER), mistral=listing(MISTRAL)) as (http, fakes):
        for _ in range(3):
            found = await shown(http)
        one = (await http.get("/v1/models/openrouter-a")).json()
        claude = (await http.get("/v1/models", headers={"anthropic-version": "2023-06-01"})).json()["data"]

    model = found["openrouter-a"]
    assert (model["max_model_len"], model["max_output_tokens"]) == (131_072, 8192)
    assert (model["input_modalities"], model["output_modalities"]) == (["text", "image"], ["text"])
    assert model["pricing"] == {"currency": "USD", "tokens": 1_000_000, "input": "2", "output": "6"}
    assert one == model
    assert found["mistral-a"]["max_model_len"] == 8192
    assert "pricing" not in found["openrouter-b"]
    (shaped,) = [each for each in claude if each["id"] == "openrouter-a"]
    assert (shaped["max_input_tokens"], shaped["max_tokens"]) == (131_072, 8192)
    for fake in fakes.values():  # once for both models of an account
        assert [each.path for each in fake.heard] == ["/v1/models"]
        assert fake.heard[0].headers["authorization"].startswith("Bearer sk-")


async def test_a_provider_that_fails_or_is_silent_hides_nothing_of_the_others(caplog: pytest.LogCaptureFixture) -> None:
    refused = b'{"error":{"message":"Incorrect API key provided: sk-mistral-secret"}}'
    scripts = {
        "openrouter": listing(ROUTER),
        "mistral": lambda _: Said(refused, status=401, kind="application/json"),
        "groq": lambda _: Said(b'{"data":[', kind="application/json", held=True),
    }
    caplog.set_level(logging.DEBUG)
    async with accounts(**scripts) as (http, fakes):
        found = await shown(http)
        again = await shown(http)

    assert found == again
    assert found["openrouter-a"]["max_model_len"] == 131_072
    assert {"mistral-a", "mistral-b", "groq-a", "groq-b"} <= found.keys()
    assert "could not be had" in caplog.text
    assert "sk-mistral-secret" not in caplog.text
    assert all(len(each.heard) <= 2 for each in fakes.values())  # nobody is asked at each look


@pytest.mark.parametrize(
    "body", [b"<html>", b'{"data":"none"}', b'{"data":[{"id":"maker/large","context_length":"many","pricing":[]}]}']
)
async def test_a_list_that_makes_no_sense_says_nothing(body: bytes) -> None:
    async with accounts(openrouter=lambda _: Said(body, kind="application/json")) as (http, _):
        found = await shown(http)

    assert found["openrouter-a"].keys().isdisjoint({"max_model_len", "pricing", "kinds"})
