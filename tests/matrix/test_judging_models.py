"""Cross-encoders, classifiers, generative rerankers, next tokens and recordings: every feature on every engine, over HTTP.

A cell works, as its check says, or is refused with a 400 that names what this engine cannot do.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from typing import Any

import attrs
import httpx
import pytest
from tests.gateway.vision_models import sound
from tests.matrix.conftest import ENGINES, Served

from smg_core import Gateway
from smg_simulator.engine.engine import SimulatorConfig
from smg_simulator.engine.model_folder import MODEL_FOLDER, read_vocabulary

pytestmark = [pytest.mark.anyio, pytest.mark.sampled(per=("engine", "api", "feature"))]

NAMES = (
    *("vLLM", "neutral", "MLX", "SGLang", "TensorRT-LLM", "TokenSpeed", "vLLM, HTTP", "SGLang, HTTP"),
    "chat server",
)
YES, NO = (read_vocabulary(MODEL_FOLDER).encode(each)[0] for each in ("yes", "no"))
CROSS = SimulatorConfig(generation_model=False, pooled="score")
CLASSIFIER = SimulatorConfig(generation_model=False, pooled="classify")
RERANKER = SimulatorConfig(model="sim-reranker", alternatives=(YES, NO))
PAIRS = {"query": "a", "documents": ["b", "c"]}
NEXT = {"query": "a", "items": ["b", "c"], "label_token_ids": [YES, NO]}


@attrs.frozen
class Feature:
    """A request to a model, what of its answer must be there, and the engines that can do it."""

    api: str
    name: str
    path: str
    body: dict[str, Any]
    model: SimulatorConfig
    check: Callable[[Any], object]
    able: frozenset[str]


def ranked(found: Any) -> None:
    assert len(found["results"]) == 2
    assert all(0 <= each["relevance_score"] <= 1 for each in found["results"])


def classified(found: Any) -> None:
    assert [len(each["probs"]) for each in found["data"]] == [3, 3]
    assert all(sum(each["probs"]) == pytest.approx(1, abs=1e-4) for each in found["data"])


def next_tokens(found: Any) -> None:
    assert [len(each) for each in found["scores"]] == [2, 2]
    assert all(0 < share < 1 for row in found["scores"] for share in row)


IDS = frozenset(NAMES) - {"chat server"}
FEATURES = (
    Feature("Rerank", "by a cross-encoder", "/v1/rerank", PAIRS, CROSS, ranked, frozenset({"neutral", "SGLang"})),
    Feature("Rerank", "by a model that writes text", "/v1/rerank", PAIRS, RERANKER, ranked, IDS | {"chat server"}),
    Feature("Score", "next tokens (SGLang)", "/v1/score", NEXT, RERANKER, next_tokens, IDS),
    Feature(
        "Classify",
        "several inputs",
        "/v1/classify",
        {"input": ["a", "b"]},
        CLASSIFIER,
        classified,
        frozenset({"neutral", "SGLang"}),
    ),
)


@pytest.fixture(scope="module")
async def serving() -> AsyncIterator[Callable[[str, SimulatorConfig], Any]]:
    """A gateway before an engine with such a model; each is started once."""
    made: dict[tuple[str, str, str], Served] = {}
    async with AsyncExitStack() as stack:

        async def find(engine: str, model: SimulatorConfig) -> Served:
            key = (engine, model.model, model.pooled if not model.generation_model else "")
            if key not in made:
                made[key] = await stack.enter_async_context(ENGINES[engine](model))
            return made[key]

        yield find


@pytest.mark.parametrize("feature", FEATURES, ids=lambda feature: f"{feature.api}: {feature.name}")
@pytest.mark.parametrize("engine", NAMES)
async def test_what_a_model_was_made_for_is_done_or_refused_by_name(
    engine: str,
    feature: Feature,
    serving: Callable[[str, SimulatorConfig], Any],
    called_by: Callable[[Gateway], httpx.AsyncClient],
    record_property: Callable[[str, object], None],
) -> None:
    record_property("cell", (feature.api, feature.name, engine, "whole"))
    if (
        engine in ("MLX", "TensorRT-LLM", "TokenSpeed", "vLLM, HTTP", "SGLang, HTTP")
        and not feature.model.generation_model
    ):
        model = attrs.evolve(feature.model, generation_model=True)  # no engine of these has another kind of model
    else:
        model = feature.model
    gateway, _ = await serving(engine, model)
    answer = await called_by(gateway).post(feature.path, json={"model": model.model, **feature.body})
    if engine not in feature.able:
        assert answer.status_code == 400
        assert answer.json()["error"]["param"] == "model"
        record_property("result", "400: model")
        return
    assert answer.status_code == 200, answer.text
    feature.check(answer.json())
    record_property("result", "yes")


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("engine", NAMES)
async def test_a_recording_is_written_down_or_refused_by_name(
    engine: str,
    streamed: bool,
    folders: Callable[[str], str],
    serving: Callable[[str, SimulatorConfig], Any],
    called_by: Callable[[Gateway], httpx.AsyncClient],
    record_property: Callable[[str, object], None],
) -> None:
    record_property("cell", ("Transcriptions", "a recording", engine, "stream" if streamed else "whole"))
    gateway, _ = await serving(engine, SimulatorConfig(model="hears", model_folder=folders("recording")))
    fields = {"model": "hears", "stream": "true" if streamed else "false"}
    files = {"file": ("a.wav", sound(0.4), "audio/wav")}
    request = httpx.Request("POST", "http://gateway/v1/audio/transcriptions", data=fields, files=files)
    headers = {"content-type": request.headers["content-type"]}
    answer = await called_by(gateway).post("/v1/audio/transcriptions", content=request.read(), headers=headers)
    if answer.status_code == 400:
        assert answer.json()["error"]["param"] == "file"
        record_property("result", "400: file")
        return
    assert answer.status_code == 200, answer.text
    assert "transcript.text.done" in answer.text if streamed else answer.json()["text"]
    record_property("result", "yes")
