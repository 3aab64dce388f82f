"""Embeddings in each API that has them: every feature on every engine, over HTTP.

A cell works, as its check says, or is refused with a 400 that names what this engine cannot do.
"""

import base64
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from typing import Any

import attrs
import httpx
import pytest
from tests.matrix.conftest import ENGINES, Served

from smg_core import Gateway
from smg_simulator.engine.engine import SimulatorConfig

pytestmark = [pytest.mark.anyio, pytest.mark.sampled(per=("engine", "api", "feature"))]

NAMES = ("vLLM", "neutral", "MLX", "SGLang", "TensorRT-LLM", "TokenSpeed", "chat server")
MAKES_NONE = {"MLX", "TensorRT-LLM", "TokenSpeed"}
SIZE = 8


@attrs.frozen
class Feature:
    """A request, and what of its answer must be there."""

    api: str
    name: str
    path: str
    body: dict[str, Any]
    check: Callable[[Any], object]


def vectors(*sizes: int) -> Callable[[Any], None]:
    def check(found: Any) -> None:
        assert [len(each["embedding"]) for each in found["data"]] == list(sizes)
        assert found["usage"]["prompt_tokens"] > 0

    return check


def packed(found: Any) -> None:
    assert len(base64.b64decode(found["data"][0]["embedding"])) == 4 * SIZE


def by_type(found: Any) -> None:
    assert {name: len(each) for name, each in found["embeddings"].items()} == {"float": 2, "ubinary": 2}


def plain(found: Any) -> None:
    assert [len(each) for each in found["embeddings"]] == [SIZE, SIZE]


def one_value(found: Any) -> None:
    assert len(found["embedding"]["values"]) == 3


def several_values(found: Any) -> None:
    assert [len(each["values"]) for each in found["embeddings"]] == [SIZE, SIZE]


def ranked(found: Any) -> None:
    assert len(found["results"]) == 1


def scored(found: Any) -> None:
    assert len(found["data"]) == 2


COHERE = {"model": "sim", "texts": ["One", "Two"], "input_type": "search_query"}
CONTENT = {"content": {"parts": [{"text": "One"}]}}
OPENAI = "Embeddings"
FEATURES = (
    Feature(OPENAI, "a text", "/v1/embeddings", {"input": "One"}, vectors(SIZE)),
    Feature(OPENAI, "several texts and ids", "/v1/embeddings", {"input": ["One", [5, 6]]}, vectors(SIZE, SIZE)),
    Feature(OPENAI, "dimensions", "/v1/embeddings", {"input": "One", "dimensions": 3}, vectors(3)),
    Feature(OPENAI, "base64", "/v1/embeddings", {"input": "One", "encoding_format": "base64"}, packed),
    Feature(
        OPENAI,
        "truncate_prompt_tokens",
        "/v1/embeddings",
        {"input": "One two three four", "truncate_prompt_tokens": 1},
        lambda found: vectors(SIZE)(found) or found["usage"]["prompt_tokens"] == 1,
    ),
    Feature("Embed (Cohere)", "version 2", "/v2/embed", {**COHERE, "embedding_types": ["float", "ubinary"]}, by_type),
    Feature("Embed (Cohere)", "version 1", "/v1/embed", COHERE, plain),
    Feature("Rerank", "rerank", "/v1/rerank", {"query": "a", "documents": ["b", "c"], "top_n": 1}, ranked),
    Feature("Rerank", "version 2 (Cohere)", "/v2/rerank", {"query": "a", "documents": ["b", "c"], "top_n": 1}, ranked),
    Feature("Score", "one to many", "/v1/score", {"text_1": "a", "text_2": ["b", "c"]}, scored),
    Feature(
        "embedContent",
        "embedContent",
        "/v1beta/models/sim:embedContent",
        {**CONTENT, "outputDimensionality": 3},
        one_value,
    ),
    Feature(
        "embedContent",
        "batchEmbedContents",
        "/v1beta/models/sim:batchEmbedContents",
        {"requests": [CONTENT, CONTENT]},
        several_values,
    ),
)


@pytest.fixture(scope="module")
async def embedding() -> AsyncIterator[Callable[[str], Any]]:
    """A gateway before an engine whose model makes vectors, where the engine can have one; each is started once."""
    made: dict[str, Served] = {}
    async with AsyncExitStack() as stack:

        async def find(engine: str) -> Served:
            if engine not in made:
                config = SimulatorConfig(embedding_size=SIZE, generation_model=engine in MAKES_NONE)
                made[engine] = await stack.enter_async_context(ENGINES[engine](config))
            return made[engine]

        yield find


@pytest.mark.parametrize("feature", FEATURES, ids=lambda feature: f"{feature.api}: {feature.name}")
@pytest.mark.parametrize("engine", NAMES)
async def test_vectors_are_made_or_refused_by_name(
    engine: str,
    feature: Feature,
    embedding: Callable[[str], Any],
    called_by: Callable[[Gateway], httpx.AsyncClient],
    record_property: Callable[[str, object], None],
) -> None:
    record_property("cell", (feature.api, feature.name, engine, "whole"))
    gateway, _ = await embedding(engine)
    own = {} if "models/" in feature.path else {"model": "sim"}
    answer = await called_by(gateway).post(feature.path, json={**own, **feature.body})
    if answer.status_code == 400:
        assert "sim" in answer.text
        record_property("result", "400: model")
        assert engine in MAKES_NONE
        return
    assert engine not in MAKES_NONE
    feature.check(answer.json())
    record_property("result", "yes")
