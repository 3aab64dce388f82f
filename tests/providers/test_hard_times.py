"""What goes wrong beside an answer: a key that is revoked under it, a body that is too large, a model that is retired."""

import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from tests.core.engines.vendors.bedrock.event_streams import exception_frame
from tests.providers.answers import FORMATS, KEY, Format, script
from tests.providers.bedrock_answers import ALL_FORMATS
from tests.providers.client_apis import APIS, ClientApi
from tests.providers.fake import FakeProvider, Heard, Said, providing, sse
from tests.providers.houses import House, before
from tests.shared import PATIENCE

from smg_core import Config, Gateway
from smg_core.engines.connections.credential import CredentialSpec
from smg_core.workers.settings import BreakerConfig, WorkersConfig
from smg_core.workers.worker import WorkerSpec

pytestmark = [pytest.mark.anyio, pytest.mark.sampled(per=("house",), keep=2)]

CONFIG = Config(workers=WorkersConfig(health_interval_s=3600.0), breaker=BreakerConfig(failures=0))
REVOKED = f"The key {KEY} was revoked"
CANARY = "the-canary-of-the-prompt"


@pytest.fixture(scope="module", params=ALL_FORMATS)
async def house(request: pytest.FixtureRequest) -> AsyncIterator[House]:
    async with before(ALL_FORMATS[request.param]) as found:
        yield found


@pytest.fixture(params=APIS)
def api(request: pytest.FixtureRequest) -> ClientApi:
    return APIS[request.param]


def begun(form: Format) -> bytes:
    """The stream of a text up to and with its first piece."""
    stream = form.streams.get("cut") or form.streams["text"]
    return stream[: form.cut_at or stream.index(b"\n\n", stream.index(b"Hel")) + 2]


async def told(http: httpx.AsyncClient, path: str, body: Any, provider: FakeProvider) -> bytes:
    """A stream whose provider goes on once its first piece has come."""
    content = b""
    async with http.stream("POST", path, json=body) as answer:
        async for each in answer.aiter_bytes():
            content += each
            if b"Hel" in content:
                provider.go.set()
    return content


def revoked(form: Format) -> bytes:
    """What a provider says within its stream once the key is good no more."""
    if form.kind.startswith("bedrock"):
        return exception_frame("expiredTokenException", msgspec.json.encode({"message": REVOKED}))
    if form.kind == "anthropic":
        error: dict[str, Any] = {"type": "error", "error": {"type": "authentication_error", "message": REVOKED}}
        return sse([("error", error)])
    if form.kind == "gemini":
        return sse([(None, {"error": {"code": 401, "message": REVOKED, "status": "UNAUTHENTICATED"}})])
    if form.kind == "openai-responses":
        error = {"type": "error", "code": "invalid_api_key", "message": REVOKED, "param": None, "sequence_number": 9}
        return sse([("error", error)])
    return sse([(None, {"error": {"code": 401, "message": REVOKED}})])


async def test_a_key_that_is_revoked_under_an_answer_ends_it_with_an_error_that_blames_no_client(
    house: House, api: ClientApi, caplog: pytest.LogCaptureFixture
) -> None:
    form = house.form
    house.provider.script = lambda _: Said(begun(form), kind=form.content_type, then=revoked(form))
    house.provider.go.clear()
    path, body = api.asked(api.body("text"), stream=True)

    with caplog.at_level(logging.DEBUG):
        content = await told(house.http, path, body, house.provider)

    assert api.pieces(content) == "Hel"
    assert b"error" in content
    for words in (KEY, "authentication_error", "invalid_api_key", "UNAUTHENTICATED", "expiredToken"):
        assert words not in content.decode()
    assert KEY not in caplog.text


async def test_a_body_over_a_providers_bound_is_told_as_that(house: House, api: ClientApi) -> None:
    said = {"type": "error", "error": {"type": "request_too_large", "message": f"Request exceeds 32 MB, key {KEY}"}}
    house.provider.heard.clear()
    house.provider.script = lambda _: Said(msgspec.json.encode(said), 413, "application/json")

    for stream in (False, True):
        answer = await house.ask(api, api.body("text"), stream=stream)

        assert answer.status_code == 413, answer.text
        assert "larger than the provider takes" in api.error(answer.json())
        assert KEY not in answer.text


@pytest.mark.full
async def test_neither_key_nor_prompt_is_in_a_log_or_an_error_whatever_a_provider_says(
    house: House, api: ClientApi, caplog: pytest.LogCaptureFixture
) -> None:
    body = msgspec.json.decode(msgspec.json.encode(api.body("tool")).replace(b'"Hi"', b'"%b"' % CANARY.encode()))
    echo = msgspec.json.encode({"error": {"message": f"{KEY} said {CANARY}", "code": "x"}, "message": CANARY})
    with caplog.at_level(logging.DEBUG):
        for status in (400, 401, 403, 404, 413, 422, 429, 500, 503):
            house.provider.script = lambda _, status=status: Said(echo, status, "application/json")  # type: ignore[misc]
            answer = await house.ask(api, body)
            assert answer.status_code >= 400
            assert KEY not in answer.text
        house.provider.script = lambda _: Said(echo * 3, kind=house.form.content_type)
        assert KEY not in (await house.ask(api, body, stream=True)).text

    assert KEY not in caplog.text
    assert CANARY not in caplog.text


@pytest.mark.parametrize("kind", ["anthropic", "mistral"])
async def test_the_next_request_has_the_new_key_where_the_old_one_was_revoked_under_an_answer(
    kind: str, tmp_path: Path
) -> None:
    form, file, good = ALL_FORMATS[kind], tmp_path / "key", ["first"]
    file.write_text("first")

    def answer(heard: Heard) -> Said:
        if heard.method == "GET":
            return form.about(heard.path)
        sent = heard.headers[form.key[0]].removeprefix("Bearer ")
        if sent != good[0]:
            return form.errors["credentials"]
        return Said(begun(form), then=revoked(form)) if sent == "first" else Said(form.streams["text"])

    async with providing(answer) as provider:
        credential = CredentialSpec(file=str(file), every_s=3600)
        spec = WorkerSpec(provider.url, name="w", dialect=kind, model="m", credential=credential)
        async with Gateway([spec], config=CONFIG) as gateway:
            await gateway.ready()
            async with gateway.http_client(httpx, base_url="http://g", timeout=PATIENCE) as http:
                body = {**APIS["Chat Completions"].body("text"), "stream": True}
                assert b"error" in await told(http, "/v1/chat/completions", body, provider)
                good[0] = "second"
                file.write_text("second")
                again = await http.post("/v1/chat/completions", json=body)
                assert APIS["Chat Completions"].pieces(again.content) == "Hello"
                assert "error" not in again.text


@pytest.mark.parametrize("kind", ["anthropic", "bedrock", "azure"])
async def test_a_retired_model_is_left_for_one_of_its_name_elsewhere_and_is_a_404_where_there_is_none(
    kind: str,
) -> None:
    form = ALL_FORMATS[kind]
    credential = form.credential or CredentialSpec(key=KEY)
    async with providing(script(form, "no_model")) as gone, providing(script(form, "text")) as there:
        specs = [
            WorkerSpec(each.url, name=name, dialect=kind, model="m", vendor_model=form.model, credential=credential)
            for name, each in (("gone", gone), ("there", there))
        ]
        async with Gateway(specs, config=CONFIG) as gateway:
            await gateway.ready()
            async with gateway.http_client(httpx, base_url="http://g", timeout=PATIENCE) as http:
                body = APIS["Chat Completions"].body("text")
                for _ in range(8):
                    answer = await http.post("/v1/chat/completions", json=body)
                    assert answer.status_code == 200, answer.text
                    if gone.asked:
                        break
                there.script = script(form, "no_model")
                answer = await http.post("/v1/chat/completions", json=body)
                assert answer.status_code == 404
                assert answer.json()["error"]["code"] == "model_not_found"


async def test_a_body_that_one_account_finds_too_large_is_not_sent_to_the_next() -> None:
    form = FORMATS["anthropic"]
    large = Said(b'{"type":"error","error":{"type":"request_too_large","message":"no"}}', 413, "application/json")

    def answer(heard: Heard) -> Said:
        return form.about(heard.path) if heard.method == "GET" else large

    async with providing(answer) as one, providing(answer) as other:
        specs = [
            WorkerSpec(each.url, name=str(at), dialect=form.kind, model="m", credential=CredentialSpec(key=KEY))
            for at, each in enumerate((one, other))
        ]
        async with Gateway(specs, config=CONFIG) as gateway:
            await gateway.ready()
            async with gateway.http_client(httpx, base_url="http://g", timeout=PATIENCE) as http:
                answer_ = await http.post("/v1/chat/completions", json=APIS["Chat Completions"].body("text"))
                assert answer_.status_code == 413
                assert len(one.asked) + len(other.asked) == 1
