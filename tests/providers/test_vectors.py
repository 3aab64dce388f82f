"""Vectors of texts and scores of documents, before every provider that makes them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import attrs
import httpx
import msgspec
import openai
import pytest
from tests.providers.answers import KEY
from tests.providers.fake import FakeProvider, Heard, Said, providing
from tests.shared import PATIENCE

from smg_core import Config, Gateway
from smg_core.engines.connections.credential import CredentialSpec
from smg_core.workers.settings import WorkersConfig
from smg_core.workers.worker import WorkerSpec

pytestmark = pytest.mark.anyio

TEXTS = ["one", "two"]
_KEY = CredentialSpec(key=KEY)
LIST = {"object": "list", "model": "x", "usage": {"prompt_tokens": 4, "total_tokens": 4}}


def _openai(heard: Heard) -> Any:
    assert heard.json["input"] == TEXTS
    return {**LIST, "data": [{"object": "embedding", "index": at, "embedding": [at, 0.5]} for at in (1, 0)]}


def _gemini(heard: Heard) -> Any:
    assert [each["content"]["parts"][0]["text"] for each in heard.json["requests"]] == TEXTS
    return {"embeddings": [{"values": [at, 0.5]} for at in range(2)]}


def _vertex(heard: Heard) -> Any:
    at = TEXTS.index(heard.json["instances"][0]["content"])
    return {
        "predictions": [{"embeddings": {"values": [at, 0.5], "statistics": {"token_count": 2, "truncated": False}}}]
    }


def _titan(heard: Heard) -> Any:
    return {"embedding": [TEXTS.index(heard.json["inputText"]), 0.5], "inputTextTokenCount": 2}


def _cohere(heard: Heard) -> Any:
    return {"embeddings": [[TEXTS.index(heard.json["texts"][0]), 0.5]], "response_type": "embeddings_floats"}


@attrs.frozen
class Case:
    """A provider's kind, its model, the path where it is asked, what it answers, and the tokens that it counts."""

    kind: str
    model: str
    path: str
    answer: Any
    tokens: int = 4
    below: str = ""
    api_version: str = ""
    credential: CredentialSpec = _KEY


CASES = {
    "openai": Case("openai-responses", "text-embedding-3-small", "/v1/embeddings", _openai),
    "azure": Case("azure", "text-embedding-3-small", "/openai/v1/embeddings", _openai),
    "azure, older": Case(
        "azure",
        "embed-1",
        "/openai/deployments/embed-1/embeddings?api-version=2024-10-21",
        _openai,
        api_version="2024-10-21",
    ),
    "mistral": Case("mistral", "mistral-embed", "/v1/embeddings", _openai),
    "together": Case("together", "BAAI/bge-large-en-v1.5", "/v1/embeddings", _openai),
    "fireworks": Case("fireworks", "nomic-ai/nomic-embed-text-v1.5", "/v1/embeddings", _openai),
    "openrouter": Case("openrouter", "openai/text-embedding-3-small", "/v1/embeddings", _openai),
    "cohere": Case("cohere", "embed-v4.0", "/v1/embeddings", _openai),
    "gemini": Case(
        "gemini", "gemini-embedding-001", "/v1beta/models/gemini-embedding-001:batchEmbedContents", _gemini, 0
    ),
    "vertex": Case(
        "vertex",
        "gemini-embedding-001",
        "/v1/projects/p/locations/l/publishers/google/models/gemini-embedding-001:predict",
        _vertex,
        below="/v1/projects/p/locations/l",
    ),
    "titan": Case(
        "bedrock",
        "amazon.titan-embed-text-v2:0",
        "/model/amazon.titan-embed-text-v2%3A0/invoke",
        _titan,
        credential=CredentialSpec(kind="aws", key=KEY),
    ),
    "cohere on bedrock": Case(
        "bedrock",
        "cohere.embed-v4:0",
        "/model/cohere.embed-v4%3A0/invoke",
        _cohere,
        0,
        credential=CredentialSpec(kind="aws", key=KEY),
    ),
}


@asynccontextmanager
async def served(case: Case, answer: Any) -> AsyncIterator[tuple[httpx.AsyncClient, FakeProvider]]:
    def script(heard: Heard) -> Said:
        if heard.method == "GET":
            return Said(msgspec.json.encode({"name": case.model, "id": case.model}), kind="application/json")
        status, said = answer(heard) if isinstance(answer(heard), tuple) else (200, answer(heard))
        return Said(msgspec.json.encode(said), status, "application/json")

    config = Config(workers=WorkersConfig(health_interval_s=3600.0))
    async with providing(script) as provider:
        spec = WorkerSpec(
            f"{provider.url}{case.below}",
            dialect=case.kind,
            model=case.model,
            credential=case.credential,
            api_version=case.api_version,
        )
        async with Gateway([spec], config=config) as gateway:
            await gateway.ready()
            async with gateway.http_client(httpx, base_url="http://gateway", timeout=PATIENCE) as http:
                yield http, provider


@pytest.mark.parametrize("name", CASES)
async def test_openais_library_gets_vectors_from_every_provider_that_makes_them(name: str) -> None:
    case = CASES[name]
    async with served(case, case.answer) as (http, provider):
        client = openai.AsyncOpenAI(api_key="x", base_url="http://gateway/v1", http_client=http, max_retries=0)

        answer = await client.embeddings.create(model=case.model, input=TEXTS)

        assert [each.embedding for each in answer.data] == [[0.0, 0.5], [1.0, 0.5]]
        assert answer.usage.prompt_tokens == case.tokens
        assert {each.path for each in provider.asked} == {case.path}
        assert all(KEY in "".join(each.headers.values()) for each in provider.asked)


@pytest.mark.parametrize("kind", ["together", "fireworks"])
async def test_documents_are_ranked(kind: str) -> None:
    def ranked(heard: Heard) -> Any:
        assert heard.json["documents"] == TEXTS
        return {"results": [{"index": 1, "relevance_score": 0.9}, {"index": 0, "relevance_score": 0.1}]}

    async with served(Case(kind, "x-rerank-v1", "/v1/rerank", ranked), ranked) as (http, provider):
        answer = await http.post("/v1/rerank", json={"model": "x-rerank-v1", "query": "q", "documents": TEXTS})

        assert answer.status_code == 200, answer.text
        assert [each["index"] for each in answer.json()["results"]] == [1, 0]
        assert provider.asked[0].path == "/v1/rerank"


@pytest.mark.parametrize("name", ["mistral", "gemini", "titan"])
async def test_a_refusal_and_an_answer_that_is_none_are_errors_of_the_api(name: str) -> None:
    case = CASES[name]
    for said, expected in (((400, {"message": "bad input"}), 400), ((200, {"data": 3}), 502), ((401, {}), 502)):
        async with served(case, lambda _, said=said: said) as (http, _):
            answer = await http.post("/v1/embeddings", json={"model": case.model, "input": TEXTS})
            assert answer.status_code == expected, answer.text
            assert KEY not in answer.text
            assert answer.json()["error"]["message"]


async def test_a_model_that_makes_vectors_writes_no_text() -> None:
    case = CASES["mistral"]
    async with served(case, case.answer) as (http, _):
        answer = await http.post(
            "/v1/chat/completions", json={"model": case.model, "messages": [{"role": "user", "content": "Hi"}]}
        )
        assert answer.status_code == 400, answer.text


async def test_tokens_are_refused_where_texts_are_wanted() -> None:
    case = CASES["gemini"]
    async with served(case, case.answer) as (http, provider):
        answer = await http.post("/v1/embeddings", json={"model": case.model, "input": [[1, 2]]})

        assert answer.status_code == 400, answer.text
        assert provider.asked == []
