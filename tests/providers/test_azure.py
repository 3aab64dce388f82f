"""Azure: OpenAI's own library reads its fakes at both of its addresses, and the gateway asks there with keys and tokens."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import openai
import pytest
from tests.providers.answers import FORMATS, KEY, SIGNATURE, script
from tests.providers.chat_answers import CHAT_FORMATS
from tests.providers.client_apis import APIS
from tests.providers.fake import Heard, Said, providing

from smg_core import Config, Gateway
from smg_core.credentials import opening
from smg_core.credentials.renewal.asking import TokenAsker
from smg_core.engines.connections.credential import CredentialSpec
from smg_core.workers.settings import BreakerConfig, WorkersConfig
from smg_core.workers.worker import WorkerSpec
from smg_egress.rules import UrlRules

pytestmark = pytest.mark.anyio

AZURE = CHAT_FORMATS["azure"]
VERSION = "2024-10-21"
CLASSIC = f"/openai/deployments/my-gpt/chat/completions?api-version={VERSION}"
ASK: dict[str, Any] = {"model": "gpt", "messages": [{"role": "user", "content": "Hi"}]}
CONFIG = Config(workers=WorkersConfig(health_interval_s=3600.0), breaker=BreakerConfig(failures=0))


@asynccontextmanager
async def before(url: str, dialect: str = "azure", **fields: Any) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a gateway before an Azure resource."""
    spec = WorkerSpec(url, dialect=dialect, model="gpt", vendor_model="my-gpt", **fields)
    async with Gateway([spec], config=CONFIG) as gateway:
        await gateway.ready()
        async with gateway.http_client(httpx, base_url="http://gateway", timeout=60) as http:
            yield http


async def read(client: openai.AsyncOpenAI) -> str:
    """The text that OpenAI's own library reads."""
    stream = await client.chat.completions.create(
        model="my-gpt",
        messages=[{"role": "user", "content": "Hi"}],
        stream=True,
        stream_options={"include_usage": True},
    )
    return "".join([c.choices[0].delta.content or "" async for c in stream if c.choices])


async def test_the_library_of_openai_asks_at_the_addresses_that_the_gateway_asks_at() -> None:
    async with providing(script(AZURE, "text")) as azure:
        async with openai.AsyncAzureOpenAI(
            azure_endpoint=azure.url, azure_deployment="my-gpt", api_version=VERSION, api_key=KEY
        ) as client:
            assert await read(client) == "Hello"
        async with openai.AsyncOpenAI(base_url=f"{azure.url}/openai/v1", api_key=KEY) as client:
            assert await read(client) == "Hello"
        async with before(azure.url, credential=CredentialSpec(key=KEY), api_version=VERSION) as http:
            assert (await http.post("/v1/chat/completions", json=ASK)).status_code == 200
        async with before(azure.url, credential=CredentialSpec(key=KEY)) as http:
            assert (await http.post("/v1/chat/completions", json=ASK)).status_code == 200
        theirs, theirs_new, ours, ours_new = azure.asked
        assert theirs.path == ours.path == CLASSIC
        assert theirs_new.path == ours_new.path == "/openai/v1/chat/completions"
        assert theirs.headers["api-key"] == ours.headers["api-key"] == ours_new.headers["api-key"] == KEY
        assert ours.json["model"] == "my-gpt"
        assert "authorization" not in ours.headers


async def test_a_token_of_entra_is_asked_for_once_and_again_when_it_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    given = 0

    def answer(heard: Heard) -> Said:
        nonlocal given
        if heard.path.endswith("/oauth2/v2.0/token"):
            given += 1
            token = json.dumps({"access_token": f"t0ken-{given}", "expires_in": 3600})
            return Said(token.encode(), kind="application/json")
        if heard.headers["authorization"] == "Bearer t0ken-1" and given == 1 and len(azure.heard) > 4:
            return AZURE.errors["credentials"]
        return Said(AZURE.streams["text"])

    loopback = UrlRules(
        schemes=frozenset({"http"}), hosts=frozenset({"127.0.0.1"}), private=frozenset({"127.0.0.1"}), ports=None
    )
    monkeypatch.setattr(
        opening, "TokenAsker", lambda limits: TokenAsker(token=loopback, metadata=loopback, timeout_s=60, near_s=60)
    )
    credential = CredentialSpec(kind="entra", tenant="t", client="c", key="s3cret-of-the-client")
    async with providing(answer) as azure:
        monkeypatch.setenv("AZURE_AUTHORITY_HOST", azure.url)
        async with before(azure.url, credential=credential) as http:
            for _ in range(4):
                assert (await http.post("/v1/chat/completions", json=ASK)).status_code == 200
        asked = [each.headers["authorization"] for each in azure.heard if "authorization" in each.headers]
        assert asked == ["Bearer t0ken-1"] * 4 + ["Bearer t0ken-2"]
        assert given == 2


@pytest.mark.parametrize("field", ["prompt", "completion"])
async def test_a_filter_of_contents_is_told_as_one(field: str) -> None:
    refusal = {"code": "content_filter", "message": "blocked", "innererror": {"code": "ResponsibleAIPolicyViolation"}}
    said = Said(json.dumps({"error": refusal}).encode(), 400, "application/json")
    async with (
        providing(script(AZURE, "refusal") if field == "completion" else lambda _: said) as azure,
        before(azure.url, credential=CredentialSpec(key=KEY)) as http,
    ):
        answer = await http.post("/v1/chat/completions", json=ASK)
        if field == "prompt":
            assert answer.status_code == 400
            assert answer.json()["error"]["code"] == "content_filter"
        else:
            assert answer.json()["choices"][0]["finish_reason"] == "content_filter"


async def test_a_key_and_a_credential_at_once_are_refused() -> None:
    with pytest.raises(ValueError, match="give one"):
        async with before("http://127.0.0.1:1", credential=CredentialSpec(key=KEY), headers=(("api-key", KEY),)):
            raise AssertionError("it began")


@pytest.mark.parametrize("version", ["", VERSION])
async def test_responses_are_asked_for_where_openais_library_does_and_reasoning_goes_back(version: str) -> None:
    form, api = FORMATS["openai-responses"], APIS["Responses"]
    async with providing(script(form, "thinking_tool")) as azure:
        theirs = (
            openai.AsyncAzureOpenAI(azure_endpoint=azure.url, api_version=version, api_key=KEY)
            if version
            else openai.AsyncOpenAI(base_url=f"{azure.url}/openai/v1", api_key=KEY)
        )
        async with theirs as client:
            [_ async for _ in await client.responses.create(model="my-gpt", input="Hi", stream=True)]
        async with before(
            azure.url, "azure-responses", credential=CredentialSpec(key=KEY), api_version=version
        ) as http:
            body = {**api.body("thinking_tool"), "model": "gpt"}
            answer = await http.post(api.path, json=body)
            again = await http.post(api.path, json=api.again(body, answer.json()))

        assert again.status_code == 200, again.text
        asked, first, second = azure.asked
        assert asked.path == first.path == second.path
        assert first.headers["api-key"] == KEY
        assert first.json["model"] == "my-gpt"
        assert SIGNATURE in second.body.decode()
