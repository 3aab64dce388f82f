"""Bedrock's fakes are read by AWS's own library, and the gateway signs for them as that does: keys, clocks, refusals."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import Any
from unittest import mock

import boto3
import httpx
import pytest
import trustme
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.config import Config as BotoConfig
from botocore.credentials import Credentials
from botocore.exceptions import ClientError, EventStreamError
from tests.providers.answers import KEY, SIGNATURE, script
from tests.providers.bedrock_answers import BEDROCK_FORMATS, EVENT_STREAM, MODEL
from tests.providers.fake import FakeProvider, Heard, Said, providing
from tests.shared import PATIENCE

from smg_core import Config, Gateway
from smg_core.engines.connections.credential import CredentialSpec
from smg_core.engines.connections.target import Tls
from smg_core.workers.settings import BreakerConfig, WorkersConfig
from smg_core.workers.worker import WorkerSpec

pytestmark = pytest.mark.anyio

CONVERSE = BEDROCK_FORMATS["bedrock"]
IN_PATH = "/model/us.anthropic.claude-opus-5-5-20260601-v1%3A0/converse-stream"
ASK = {"model": MODEL, "messages": [{"role": "user", "content": "Hi"}]}
CONFIG = Config(workers=WorkersConfig(health_interval_s=3600.0), breaker=BreakerConfig(failures=0))


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="module")
def context(authority: trustme.CA) -> ssl.SSLContext:
    made = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("localhost").configure_cert(made)
    return made


@pytest.fixture
def keys(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Keys of AWS in the environment."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("AWS_BEARER_TOKEN_BEDROCK", raising=False)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s3cret-of-aws")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "t0ken-of-aws")


def signed_as_botocore_signs(heard: Heard, place: str) -> bool:
    """Whether a request has the signature that AWS's own library makes for it."""
    proof = heard.headers["authorization"]
    names = proof.partition("SignedHeaders=")[2].partition(",")[0].split(";")
    sent = {name: heard.headers[name] for name in names if name not in ("host", "x-amz-date", "x-amz-security-token")}
    request = AWSRequest(heard.method, f"{place}{heard.path}", sent, heard.body)
    now = datetime.strptime(heard.headers["x-amz-date"], "%Y%m%dT%H%M%SZ")  # noqa: DTZ007
    with mock.patch("botocore.auth.get_current_datetime", return_value=now):
        SigV4Auth(Credentials("AKIDEXAMPLE", "s3cret-of-aws", "t0ken-of-aws"), "bedrock", "eu-west-1").add_auth(request)
    return bool(request.headers["Authorization"] == proof)


@asynccontextmanager
async def before(provider: FakeProvider, credential: CredentialSpec, ca: Path) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a gateway before `provider`."""
    spec = WorkerSpec(
        provider.url,
        dialect="bedrock",
        model=MODEL,
        region="eu-west-1",
        credential=credential,
        tls=Tls(ca=ca),
    )
    async with Gateway([spec], config=CONFIG) as gateway:
        await gateway.ready()
        async with gateway.http_client(httpx, base_url="http://gateway", timeout=60) as http:
            yield http


@pytest.fixture(scope="module")
def ca(authority: trustme.CA, tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("authority") / "ca.pem"
    authority.cert_pem.write_to_path(str(file))
    return file


def boto(url: str, ca: Path) -> Any:
    settings = BotoConfig(retries={"max_attempts": 1}, connect_timeout=60, read_timeout=60)
    return boto3.client("bedrock-runtime", region_name="eu-west-1", endpoint_url=url, verify=str(ca), config=settings)


def conversed(client: Any) -> list[dict[str, Any]]:
    answer = client.converse_stream(modelId=MODEL, messages=[{"role": "user", "content": [{"text": "Hi"}]}])
    try:
        return list(answer["stream"])
    finally:
        answer["stream"].close()


@pytest.mark.full
async def test_the_library_of_aws_reads_every_answer_of_the_fake(context: ssl.SSLContext, ca: Path, keys: None) -> None:
    async with providing(script(CONVERSE, "text"), context) as provider:
        client = await asyncio.to_thread(boto, provider.url, ca)
        events = await asyncio.to_thread(conversed, client)
        assert "".join(e["contentBlockDelta"]["delta"]["text"] for e in events if "contentBlockDelta" in e) == "Hello"
        assert events[-1]["metadata"]["usage"]["cacheReadInputTokens"] == 3
        provider.script = script(CONVERSE, "thinking_tool")
        events = await asyncio.to_thread(conversed, client)
        deltas = [each["contentBlockDelta"]["delta"] for each in events if "contentBlockDelta" in each]
        assert {"reasoningContent": {"signature": SIGNATURE}} in deltas
        assert "".join(each["toolUse"]["input"] for each in deltas if "toolUse" in each) == '{"city":"Paris"}'
        provider.script = lambda _: Said(CONVERSE.error_in_stream, kind=EVENT_STREAM)
        with pytest.raises(EventStreamError, match="throttlingException"):
            await asyncio.to_thread(conversed, client)
        for case, said in CONVERSE.errors.items():
            provider.script = script(CONVERSE, case)
            with pytest.raises(ClientError) as caught:
                await asyncio.to_thread(conversed, client)
            assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] == said.status
        client.close()
        assert {each.path for each in provider.heard} == {IN_PATH}
        assert all(signed_as_botocore_signs(each, provider.url) for each in provider.heard)


async def test_the_library_of_aws_reads_messages_out_of_the_fake_of_invoke_model(
    context: ssl.SSLContext, ca: Path, keys: None
) -> None:
    form = BEDROCK_FORMATS["bedrock-anthropic"]

    def invoked(client: Any) -> str:
        answer = client.invoke_model_with_response_stream(modelId=MODEL, body=b"{}")
        events = [json.loads(each["chunk"]["bytes"]) for each in answer["body"]]
        return "".join(each["delta"]["text"] for each in events if each["type"] == "content_block_delta")

    async with providing(script(form, "text"), context) as provider:
        client = await asyncio.to_thread(boto, provider.url, ca)
        assert await asyncio.to_thread(invoked, client) == "Hello"
        client.close()
        spec = WorkerSpec(
            provider.url,
            dialect="bedrock-anthropic",
            model=MODEL,
            region="eu-west-1",
            credential=CredentialSpec(kind="aws"),
            tls=Tls(ca=ca),
        )
        async with Gateway([spec], config=CONFIG) as gateway:
            await gateway.ready()
            async with gateway.http_client(httpx, base_url="http://gateway", timeout=60) as http:
                betas = {"anthropic-beta": "interleaved-thinking-2025-05-14,unknown-2026-01-01"}
                asked = {**ASK, "max_tokens": 9}
                answer = await http.post("/v1/messages", json={**asked, "stream": True}, headers=betas)
                whole = await http.post("/v1/messages", json=asked, headers=betas)
        theirs, ours, at_once = provider.asked
        assert '"text":"Hel"' in answer.text
        assert whole.json()["content"][0]["text"] == "Hello"
        assert at_once.path == theirs.path.removesuffix("-with-response-stream")
        assert signed_as_botocore_signs(at_once, provider.url)
        assert ours.path == theirs.path == IN_PATH.replace("converse-stream", "invoke-with-response-stream")
        assert "model" not in ours.json
        assert "stream" not in ours.json
        assert ours.json["anthropic_version"] == "bedrock-2023-05-31"
        assert ours.json["anthropic_beta"] == ["interleaved-thinking-2025-05-14"]
        assert "betas=" in answer.headers["x-smg-lossy"]
        assert signed_as_botocore_signs(ours, provider.url)


async def test_the_library_of_aws_sends_a_key_of_bedrock_as_the_gateway_does(
    context: ssl.SSLContext, ca: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AWS_BEARER_TOKEN_BEDROCK", KEY)
    async with providing(script(CONVERSE, "text"), context) as provider:
        client = await asyncio.to_thread(boto, provider.url, ca)
        await asyncio.to_thread(conversed, client)
        client.close()
        async with before(provider, CredentialSpec(kind="aws"), ca) as http:
            assert (await http.post("/v1/chat/completions", json=ASK)).status_code == 200
        theirs, ours = provider.asked
        assert theirs.headers["authorization"] == ours.headers["authorization"] == f"Bearer {KEY}"
        assert theirs.path == ours.path


async def test_the_gateway_signs_as_the_library_of_aws_does(context: ssl.SSLContext, ca: Path, keys: None) -> None:
    async with (
        providing(script(CONVERSE, "text"), context) as provider,
        before(provider, CredentialSpec(kind="aws"), ca) as http,
    ):
        answer = await http.post("/v1/chat/completions", json=ASK)
        assert answer.json()["choices"][0]["message"]["content"] == "Hello"
        counts = answer.json()["usage"]
        assert (counts["prompt_tokens"], counts["completion_tokens"]) == (12, 9)
        assert counts["prompt_tokens_details"]["cached_tokens"] == 3
        assert [each.path for each in provider.asked] == [IN_PATH]
        assert all(signed_as_botocore_signs(each, provider.url) for each in provider.asked)


async def test_a_clock_that_is_off_is_corrected_by_the_first_refusal(
    context: ssl.SSLContext, ca: Path, keys: None
) -> None:
    date = "Tue, 01 Jan 2030 00:00:00 GMT"

    def answer(heard: Heard) -> Said:
        if heard.headers["x-amz-date"].startswith("20300101T0000"):
            return Said(CONVERSE.streams["text"], kind=EVENT_STREAM)
        said = b'{"message":"Signature expired: 20261129T120000Z is now earlier than 20300101T000000Z"}'
        return Said(said, 403, "application/json", {"x-amzn-errortype": "InvalidSignatureException", "date": date})

    async with providing(answer, context) as provider, before(provider, CredentialSpec(kind="aws"), ca) as http:
        for _ in range(2):
            assert (await http.post("/v1/chat/completions", json=ASK)).status_code == 200
        assert len(provider.asked) == 3
        assert all(signed_as_botocore_signs(each, provider.url) for each in provider.asked)


async def test_a_clock_that_cannot_be_corrected_is_named_in_the_error(
    context: ssl.SSLContext, ca: Path, keys: None, caplog: pytest.LogCaptureFixture
) -> None:
    said = b'{"message":"Signature expired: 20261129T120000Z is now earlier than 20300101T000000Z"}'
    refusal = Said(said, 403, "application/json", {"x-amzn-errortype": "InvalidSignatureException"})
    async with (
        providing(lambda _: refusal, context) as provider,
        before(provider, CredentialSpec(kind="aws"), ca) as http,
    ):
        answer = await http.post("/v1/chat/completions", json=ASK)
        assert answer.status_code == 502
        assert "credentials" in answer.json()["error"]["message"]
        assert len(provider.asked) == 1
    assert "the clock of this machine is off" in caplog.text
    for secret in ("s3cret-of-aws", "t0ken-of-aws"):
        assert secret not in caplog.text
        assert secret not in answer.text


@pytest.mark.parametrize("stream", [False, True])
async def test_a_key_that_was_replaced_is_read_again_when_the_old_one_is_refused(
    context: ssl.SSLContext, ca: Path, tmp_path: Path, stream: bool
) -> None:
    file, good = tmp_path / "key", "first"
    file.write_text("first")

    def answer(heard: Heard) -> Said:
        if heard.headers["authorization"] == f"Bearer {good}":
            return Said(CONVERSE.streams["text"], kind=EVENT_STREAM)
        return Said(b'{"Message":"Authentication failed"}', 403, "application/json")

    credential = CredentialSpec(kind="aws", file=str(file), every_s=3600)
    async with providing(answer, context) as provider, before(provider, credential, ca) as http:
        asked = {**ASK, "stream": stream}
        assert (await http.post("/v1/chat/completions", json=asked)).status_code == 200
        good = "second"
        file.write_text("second")
        again = await http.post("/v1/chat/completions", json=asked)
        assert again.status_code == 200
        assert "Hel" in again.text
        good = "third"
        revoked = await http.post("/v1/chat/completions", json=asked)
        assert revoked.status_code == 502
        assert "credentials" in revoked.json()["error"]["message"]
        assert [each.headers["authorization"][7:] for each in provider.asked] == [
            "first",
            "first",
            "second",
            "second",
            "second",
        ]


async def test_an_exception_within_a_stream_of_which_nothing_was_told_has_its_own_status(
    context: ssl.SSLContext, ca: Path, keys: None
) -> None:
    said = Said(CONVERSE.error_in_stream, kind=EVENT_STREAM)
    async with providing(lambda _: said, context) as provider, before(provider, CredentialSpec(kind="aws"), ca) as http:
        for stream in (False, True):
            answer = await http.post("/v1/chat/completions", json={**ASK, "stream": stream})
            assert answer.status_code == 429
            assert answer.json()["error"]["code"] == "rate_limit_exceeded"


async def test_a_client_that_leaves_closes_the_connection_of_the_provider(
    context: ssl.SSLContext, ca: Path, keys: None
) -> None:
    frames = CONVERSE.streams["text"]
    held = Said(frames[: CONVERSE.cut_at], kind=EVENT_STREAM, held=True)
    async with providing(lambda _: held, context) as provider, before(provider, CredentialSpec(kind="aws"), ca) as http:
        async with http.stream("POST", "/v1/chat/completions", json={**ASK, "stream": True}) as answer:
            async for line in answer.aiter_lines():
                if "Hel" in line:
                    break
        await asyncio.wait_for(provider.left.wait(), PATIENCE)


async def test_a_provider_without_a_credential_to_send_is_told_apart_from_one_that_refuses(
    context: ssl.SSLContext, ca: Path, tmp_path: Path
) -> None:
    credential = CredentialSpec(kind="aws", file=str(tmp_path / "absent"))
    async with providing(script(CONVERSE, "text"), context) as provider, before(provider, credential, ca) as http:
        answer = await http.post("/v1/messages", json={**ASK, "max_tokens": 9})
        assert answer.status_code == 502
        assert answer.json()["error"]["message"] == "The gateway has no credential for the provider."
        assert str(tmp_path) not in answer.text
        assert not provider.asked
