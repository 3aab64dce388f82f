"""The gateway before a real vLLM over HTTP whose model is a cross-encoder. For `make test-engines`."""

import json
from collections.abc import AsyncIterator

import attrs
import httpx
import pytest
from tests.engines.real_engines import VLLM_SCORING
from tests.engines.running import COMES_UP_S, config_of, own_server

from smg_core import Gateway

pytestmark = [pytest.mark.anyio, pytest.mark.engines, pytest.mark.timeout(COMES_UP_S + 300)]
TITLE = VLLM_SCORING.title
DOCUMENTS = ["One sheep", "The weather in Paris is fine today.", "Two sheep and a dog"]


@attrs.frozen
class Before:
    """HTTP clients of the gateway and of the server behind it."""

    near: httpx.AsyncClient
    far: httpx.AsyncClient


@pytest.fixture(scope="module")
async def before(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Before]:
    async with (
        own_server(VLLM_SCORING, tmp_path_factory.mktemp("vllm") / "log") as url,
        httpx.AsyncClient(base_url=url, timeout=60, trust_env=False) as far,
        Gateway([url], config=config_of("h2")) as gateway,
        gateway.http_client(httpx, base_url="http://gateway", timeout=60) as near,
    ):
        await gateway.ready()
        yield Before(near, far)


async def test_the_server_says_that_its_model_judges_pairs(before: Before) -> None:
    (model,) = (await before.near.get("/v1/models")).json()["data"]
    assert (model["id"], model["scores_by"]) == ("tiny", "cross_encoder")
    assert "score" in model["pools"]
    assert "embed" not in model["pools"]


async def test_rerank_gives_the_scores_of_the_server_with_its_own_count_of_tokens(before: Before) -> None:
    asked = {"model": "tiny", "query": "sheep", "documents": DOCUMENTS}
    near, far = [(await each.post("/v1/rerank", json=asked)).json() for each in (before.near, before.far)]
    theirs = {each["index"]: each["relevance_score"] for each in far["results"]}
    ours = {each["index"]: each["relevance_score"] for each in near["results"]}
    assert ours == {at: pytest.approx(score, abs=0.02) for at, score in theirs.items()}
    assert near["usage"]["total_tokens"] == far["usage"]["total_tokens"]
    assert [each["relevance_score"] for each in near["results"]] == sorted(ours.values(), reverse=True)


async def test_score_takes_pairs_of_any_queries_and_raw_numbers(before: Before) -> None:
    asked = {"model": "tiny", "text_1": ["sheep", "Paris"], "text_2": DOCUMENTS[:2]}
    for fields in ({}, {"use_activation": False}):
        near, far = [(await each.post("/score", json={**asked, **fields})).json() for each in (before.near, before.far)]
        expected = [pytest.approx(each["score"], abs=0.05) for each in far["data"]]
        assert [each["score"] for each in near["data"]] == expected


async def test_what_the_server_cannot_do_is_refused_by_name(before: Before) -> None:
    answer = await before.near.post("/v1/embeddings", json={"model": "tiny", "input": "a"})
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "model")
    chat = await before.near.post(
        "/v1/chat/completions", json={"model": "tiny", "messages": [{"role": "user", "content": "a"}]}
    )
    assert chat.status_code >= 400
    json.loads(chat.text)
