"""Rerank and score by vectors, end to end over real gRPC. The embedded engine's vectors are a function of an input's ids."""

from collections.abc import AsyncIterator
from typing import Any

import httpx
import numpy as np
import pytest
from tests.gateway.conftest import House, in_process
from tests.gateway.test_embeddings import MODEL, expected, tokens

from smg_core import Config
from smg_core.hooks import RequestFinished
from smg_core.pipeline.settings import PoolingConfig

pytestmark = pytest.mark.anyio

DOCUMENTS = ["A dog", "One sheep", "Two sheep and a dog", "Nothing"]


@pytest.fixture
async def house() -> AsyncIterator[House]:
    async with in_process(MODEL) as found:
        yield found


def cosine(one: str, other: str) -> float:
    first, second = np.array(expected(one)), np.array(expected(other))
    return float(first @ second / np.linalg.norm(first) / np.linalg.norm(second))


async def ask(house: House, path: str = "/v1/rerank", **fields: Any) -> httpx.Response:
    return await house.http.post(path, json={"model": "sim", "query": "Sheep", "documents": DOCUMENTS, **fields})


@pytest.mark.parametrize("path", ["/rerank", "/v1/rerank", "/v2/rerank"])
async def test_documents_come_by_their_likeness_to_the_query(house: House, path: str) -> None:
    answer = (await ask(house, path)).json()
    scores = {at: cosine("Sheep", each) for at, each in enumerate(DOCUMENTS)}
    assert [each["index"] for each in answer["results"]] == sorted(scores, key=lambda at: -scores[at])
    for each in answer["results"]:
        assert each["relevance_score"] == pytest.approx(scores[each["index"]], abs=1e-6)
        assert ("document" in each) == (path != "/v2/rerank")
    assert answer["id"].startswith("rerank-")
    assert answer["usage"]["total_tokens"] == tokens("Sheep", *DOCUMENTS)
    assert answer["meta"]["billed_units"] == {"search_units": 1}
    (told,) = house.observer.of(RequestFinished)
    assert (told.api, told.prompt_tokens) == ("rerank", tokens("Sheep", *DOCUMENTS))


async def test_the_best_few_are_enough_and_documents_may_be_objects(house: House) -> None:
    whole = (await ask(house)).json()["results"]
    objects = [{"text": each} for each in DOCUMENTS]
    few = (await ask(house, documents=objects, top_n=2, return_documents=False)).json()["results"]
    assert few == [{name: each[name] for name in ("index", "relevance_score")} for each in whole[:2]]
    for most in (0, 99):
        assert (await ask(house, top_n=most)).json()["results"] == whole


async def test_equal_documents_stay_in_their_order(house: House) -> None:
    answer = (await ask(house, documents=["A dog", "A dog", "Sheep"])).json()
    assert [each["index"] for each in answer["results"]] == [2, 0, 1]
    assert answer["results"][0]["relevance_score"] == pytest.approx(1.0)


@pytest.mark.full
@pytest.mark.sampled(keep=5)
@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"query": ""}, "query"),
        ({"query": " "}, "query"),
        ({"documents": []}, "documents"),
        ({"documents": ["a", " "]}, "documents[1]"),
        ({"documents": ["a", {"title": "b"}]}, "documents[1].title"),
        ({"top_n": -1}, "top_n"),
        ({"truncate_prompt_tokens": 0}, "truncate_prompt_tokens"),
        ({"colour": "red"}, "colour"),
    ],
)
async def test_what_cannot_be_ranked_is_refused_by_its_field(house: House, fields: dict[str, Any], named: str) -> None:
    answer = await ask(house, **fields)
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, named)
    cohere = await ask(house, "/v2/rerank", **fields)
    assert cohere.status_code == 400
    assert named.partition("[")[0] in cohere.json()["message"]


async def test_a_document_that_is_too_long_is_refused_by_its_place_or_cut() -> None:
    long = "word " * 100
    from attrs import evolve

    async with in_process(evolve(MODEL, context_length=16)) as house:
        refused = await ask(house, documents=["a", long])
        assert (refused.status_code, refused.json()["error"]["param"]) == (400, "documents[1]")
        assert (await ask(house, "/v2/rerank", documents=["a", long])).json()["usage"]["total_tokens"] < 40


async def test_query_and_documents_get_the_words_for_their_task() -> None:
    config = Config(pooling=PoolingConfig(prefixes=("query=q: ", "document=d: ")))
    async with in_process(MODEL, config=config) as house:
        answer = (await ask(house)).json()
    found = {each["index"]: each["relevance_score"] for each in answer["results"]}
    assert found == {at: pytest.approx(cosine("q: Sheep", f"d: {each}"), abs=1e-6) for at, each in enumerate(DOCUMENTS)}


@pytest.mark.sampled(keep=2)
@pytest.mark.parametrize(
    ("left", "right", "pairs"),
    [
        ("a", "b", [("a", "b")]),
        ("a", ["b", "c"], [("a", "b"), ("a", "c")]),
        (["a"], ["b", "c"], [("a", "b"), ("a", "c")]),
        (["a", "b"], ["c", "d"], [("a", "c"), ("b", "d")]),
    ],
)
@pytest.mark.parametrize("names", [("text_1", "text_2"), ("queries", "documents")])
async def test_scores_come_in_the_order_of_the_pairs(
    house: House, left: Any, right: Any, pairs: list[tuple[str, str]], names: tuple[str, str]
) -> None:
    for path in ("/score", "/v1/score"):
        answer = (await house.http.post(path, json={"model": "sim", names[0]: left, names[1]: right})).json()
        assert [each["score"] for each in answer["data"]] == [pytest.approx(cosine(*pair), abs=1e-6) for pair in pairs]
        assert [each["index"] for each in answer["data"]] == list(range(len(pairs)))
        assert answer["usage"]["prompt_tokens"] > 0


@pytest.mark.sampled(keep=4)
@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"text_1": ["a", "b"], "text_2": ["c"]}, "text_2"),
        ({"text_1": "a"}, "text_2"),
        ({"text_1": "a", "text_2": []}, "text_2"),
        ({"text_1": "a", "text_2": ["b", ""]}, "text_2[1]"),
        ({"text_1": "", "text_2": "b"}, "text_1"),
        ({"queries": "a", "documents": "b", "text_1": "c"}, "queries"),
    ],
)
async def test_what_cannot_be_scored_is_refused_by_its_field(house: House, fields: dict[str, Any], param: str) -> None:
    answer = await house.http.post("/v1/score", json={"model": "sim", **fields})
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, param)
