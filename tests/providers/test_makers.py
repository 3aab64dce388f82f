"""Who has made the reasoning of a talk is asked again where several could go on with it: an account, or a vendor of one model."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from tests.providers.answers import FORMATS, SIGNATURE, Format, script
from tests.providers.client_apis import APIS
from tests.providers.fake import FakeProvider, providing
from tests.shared import PATIENCE

from smg_core import Config, Gateway
from smg_core.engines.connections.credential import CredentialSpec
from smg_core.workers.settings import BreakerConfig, WorkersConfig
from smg_core.workers.worker import WorkerSpec

pytestmark = pytest.mark.anyio

CONFIG = Config(workers=WorkersConfig(health_interval_s=3600.0), breaker=BreakerConfig(failures=0))
PAIRS = {
    "two accounts": ("openai-responses", "openai-responses"),
    "two vendors": ("anthropic", "gemini"),
}


@asynccontextmanager
async def two(kinds: tuple[str, str]) -> AsyncIterator[tuple[httpx.AsyncClient, list[tuple[FakeProvider, Format]]]]:
    """A client of a gateway before two providers of the model "m", each with a key of its own."""
    first, last = (FORMATS[kind] for kind in kinds)
    async with providing(script(first, "text")) as one, providing(script(last, "text")) as other:
        houses = [(one, first), (other, last)]
        specs = [
            WorkerSpec(
                provider.url,
                name=f"account-{at}",
                dialect=form.kind,
                model="m",
                vendor_model=form.model,
                credential=CredentialSpec(key=f"key-{at}"),
            )
            for at, (provider, form) in enumerate(houses)
        ]
        async with Gateway(specs, config=CONFIG) as gateway:
            await gateway.ready()
            async with gateway.http_client(httpx, base_url="http://g", timeout=PATIENCE) as http:
                yield http, houses


def say(houses: list[tuple[FakeProvider, Format]], case: str) -> None:
    for provider, form in houses:
        provider.script = script(form, case)
        provider.heard.clear()


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("name", ["Chat Completions", "Messages", "Responses"])
async def test_a_talk_goes_on_with_who_has_made_its_reasoning(pair: str, name: str) -> None:
    api = APIS[name]
    body = api.body("thinking_tool")
    async with two(PAIRS[pair]) as (http, houses):
        for maker in (0, 1):
            say(houses, "overloaded")
            houses[maker][0].script = script(houses[maker][1], "thinking_tool")
            answer = await http.post(api.path, json=body)
            assert answer.status_code == 200, answer.text
            say(houses, "text")

            again = await http.post(api.path, json=api.again(body, answer.json()))

            assert again.status_code == 200, again.text
            assert "reasoning" not in again.headers.get("x-smg-lossy", "")
            assert SIGNATURE in houses[maker][0].asked[0].body.decode()
            assert not houses[1 - maker][0].asked


async def test_another_account_goes_on_without_it_where_the_maker_cannot() -> None:
    api = APIS["Chat Completions"]
    body: dict[str, Any] = api.body("thinking_tool")
    async with two(PAIRS["two accounts"]) as (http, houses):
        say(houses, "thinking_tool")
        answer = await http.post(api.path, json=body)
        (maker,) = [at for at, (provider, _) in enumerate(houses) if provider.asked]
        say(houses, "text")
        houses[maker][0].script = script(houses[maker][1], "limited")

        again = await http.post(api.path, json=api.again(body, answer.json()))

        assert again.status_code == 200, again.text
        assert "reasoning=left out, for another account or model has made it" in again.headers["x-smg-lossy"]
        assert houses[maker][0].asked
        assert SIGNATURE not in houses[1 - maker][0].asked[0].body.decode()


def test_every_provider_says_who_takes_its_reasoning_back() -> None:
    from tests.core.engines.vendors.test_faults_of_all import WIRES

    for name, (wire, _) in WIRES.items():
        assert len(wire.maker) == 2, name
        assert wire.maker[0], name
