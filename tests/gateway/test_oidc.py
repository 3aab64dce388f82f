"""A gateway that asks for tokens of an issuer: official clients with good and bad ones, and starts that must not succeed."""

import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anthropic
import openai
import pytest
from google import genai
from tests.core.auth.issuer import Issuer, issuing
from tests.gateway.conftest import House, in_process, over_http

from smg_core import Config, Gateway
from smg_core.auth.settings import AuthConfig
from smg_core.settings import ConfigError

pytestmark = pytest.mark.anyio

SAID = [{"role": "user", "content": "Hello"}]
LIFE = {"exp": 4_000_000_000, "iat": 1_000_000_000}  # clients and this gateway live in real time


@asynccontextmanager
async def asking_for_tokens(issuer: Issuer, **changes: Any) -> AsyncIterator[House]:
    config = Config(oidc=issuer.settings(**changes), auth=AuthConfig(keys=("a-key-of-the-gateway tenant=other",)))
    async with over_http(config=config) as house:
        yield house


async def spoken(house: House, token: str) -> list[str]:
    """What three official clients get whose key is this token: what was said, or the name of the error."""
    found = []
    async with openai.AsyncOpenAI(base_url=f"{house.url}/v1", api_key=token, max_retries=0) as client:
        try:
            answer = await client.chat.completions.create(model="sim", messages=SAID, max_tokens=4)  # type: ignore[arg-type]
            found.append(str(answer.choices[0].message.role))
        except openai.APIStatusError as error:
            found.append(f"{error.status_code} {type(error).__name__}")
    async with anthropic.AsyncAnthropic(base_url=house.url, api_key=token, max_retries=0) as client:
        try:
            message = await client.messages.create(model="sim", messages=SAID, max_tokens=4)  # type: ignore[arg-type]
            found.append(message.role)
        except anthropic.APIStatusError as error:
            found.append(f"{error.status_code} {type(error).__name__}")
    google = genai.Client(api_key=token, http_options={"base_url": house.url}).aio
    try:
        content = await google.models.generate_content(model="sim", contents="Hello", config={"max_output_tokens": 4})
        found.append(str(content.candidates[0].content.role))
    except genai.errors.APIError as error:
        found.append(f"{error.code} {error.status}")
    finally:
        await google.aclose()
    return found


REFUSED = ["401 AuthenticationError", "401 AuthenticationError", "401 UNAUTHENTICATED"]


@pytest.mark.full
async def test_official_clients_are_served_with_a_token_for_a_key_and_refused_with_a_bad_one() -> None:
    async with issuing() as issuer, asking_for_tokens(issuer) as house:
        assert await spoken(house, issuer.token(**LIFE)) == ["assistant", "assistant", "model"]
        assert await spoken(house, issuer.token(number=1, head={"kid": "P-256-0"}, **LIFE)) == REFUSED
        assert await spoken(house, issuer.token()) == REFUSED  # expired, in this century
        assert await spoken(house, issuer.token(aud="https://other.example", **LIFE)) == REFUSED
        assert await spoken(house, "a-key-of-the-gateway") == ["assistant", "assistant", "model"]
        assert await spoken(house, "another-key") == REFUSED


async def test_a_token_is_neither_in_the_log_nor_in_an_answer(caplog: pytest.LogCaptureFixture) -> None:
    async with issuing() as issuer, asking_for_tokens(issuer) as house:
        bad = issuer.token(number=1, head={"kid": "P-256-0"}, **LIFE)
        answer = await house.http.get("/v1/models", headers={"authorization": f"Bearer {bad}"})

    assert answer.status_code == 401
    for part in bad.split("."):
        assert part not in caplog.text
        assert part not in answer.text


async def test_whose_token_it_is_decides_whose_data_are_seen() -> None:
    async with issuing() as issuer, asking_for_tokens(issuer) as house:
        ours = {"authorization": f"Bearer {issuer.token(**LIFE)}"}
        theirs = {"authorization": f"Bearer {issuer.token(org='other', **LIFE)}"}
        made = await house.http.post("/v1/responses", json={"model": "sim", "input": "Hello"}, headers=ours)
        path = f"/v1/responses/{made.json()['id']}"

        assert (await house.http.get(path, headers=ours)).status_code == 200
        assert (await house.http.get(path, headers=theirs)).status_code == 404


async def test_a_token_that_is_too_long_is_refused_before_it_is_looked_at() -> None:
    async with issuing() as issuer:
        config = Config(oidc=issuer.settings(), auth=AuthConfig(credential_characters=2000))
        async with in_process(config=config) as house:
            long = issuer.token(padding="x" * 4000, **LIFE)
            answer = await house.http.get("/v1/models", headers={"authorization": f"Bearer {long}"})

    assert answer.status_code == 401
    assert "2000" in answer.text


async def test_failures_with_one_token_do_not_lock_out_another_of_the_same_address() -> None:
    async with issuing() as issuer:
        config = Config(oidc=issuer.settings(), auth=AuthConfig(failures=2))
        async with over_http(config=config) as house:

            async def status(token: str) -> int:
                answer = await house.http.get("/v1/models", headers={"authorization": f"Bearer {token}"})
                return answer.status_code

            expired = issuer.token()
            assert [await status(expired) for _ in range(3)] == [401, 401, 429]
            assert await status(issuer.token(sub="bob", **LIFE)) == 200


async def test_an_issuer_that_cannot_be_had_stops_the_start() -> None:
    async with issuing() as issuer:
        settings = issuer.settings()
    gateway = Gateway.simulated(config=Config(oidc=settings))
    try:
        with pytest.raises(ConfigError, match=r"oidc\.issuer"):
            await gateway.start()
    finally:
        await gateway.stop()


async def test_a_missing_package_stops_the_start_and_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("smg_core.auth.") and name.endswith(("oidc", "jwks"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "joserfc.jws", None)
    gateway = Gateway.simulated(config=Config(oidc=Issuer(url="http://127.0.0.1:1").settings()))
    try:
        with pytest.raises(ConfigError, match=r"smg-sdk\[auth\]"):
            await gateway.start()
    finally:
        await gateway.stop()


@pytest.mark.full
def test_without_an_issuer_nothing_of_tokens_is_loaded() -> None:
    code = "import sys, smg_core; smg_core.Gateway(); print([m for m in sys.modules if m.startswith('joserfc')])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
