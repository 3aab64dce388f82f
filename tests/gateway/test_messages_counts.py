"""The number that count_tokens gives is what the same request is charged when it is sent, whatever it is made of."""

import base64
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.gateway.conftest import House, in_process
from tests.gateway.vision_models import picture, qwen2_vl
from tests.tiers import examples

from smg_core import Config
from smg_core.workers.settings import WorkersConfig
from smg_simulator.engine.engine import SimulatorConfig

pytestmark = pytest.mark.anyio

Body = dict[str, Any]
WORDS = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), min_size=1, max_size=12).filter(str.strip)
SIZES = st.sampled_from([(56, 56), (84, 28), (28, 140), (300, 200)])
TEXTS = st.builds(lambda text: {"type": "text", "text": text}, WORDS)
IMAGES = st.builds(
    lambda size, colour: {"type": "image", "source": encoded(picture(*size, colour))},
    SIZES,
    st.sampled_from(["steelblue", "tomato"]),
)
DOCUMENTS = st.builds(
    lambda text, title, whole: {
        "type": "document",
        "title": title,
        "source": {"type": "text", "media_type": "text/plain", "data": text}
        if whole
        else {"type": "content", "content": [{"type": "text", "text": text}]},
    },
    WORDS,
    st.none() | WORDS,
    st.booleans(),
)
FOUND = st.builds(
    lambda text: {"type": "search_result", "source": "s", "title": "t", "content": [{"type": "text", "text": text}]},
    WORDS,
)
OTHERS = st.just({"type": "from_the_future", "text": "x"})
THOUGHTS = st.builds(lambda text: {"type": "thinking", "thinking": text, "signature": "another's"}, WORDS)
HELD_BACK = st.just({"type": "redacted_thinking", "data": "another's"})
SHOWN = st.lists(TEXTS | IMAGES | DOCUMENTS | FOUND | OTHERS, min_size=1, max_size=3).filter(
    lambda blocks: any(block["type"] != "from_the_future" for block in blocks)
)  # a block of an unknown type is no content: a request of such blocks alone is refused
TOOLS: list[Body] = [
    {"name": "f", "description": "F.", "input_schema": {"type": "object", "properties": {"a": {"type": "string"}}}},
    {"name": "g", "input_schema": {"type": "object"}, "input_examples": [{"a": 1}]},
    {"type": "bash_20250124", "name": "bash"},
    {"type": "web_search_20250305", "name": "web_search", "max_uses": 8},
    {"name": "later", "input_schema": {"type": "object"}, "defer_loading": True},
]
CHOICES = st.sampled_from(
    [None, {"type": "auto"}, {"type": "none"}, {"type": "auto", "disable_parallel_tool_use": True}]
)


def encoded(data: bytes) -> Body:
    return {"type": "base64", "media_type": "image/png", "data": base64.b64encode(data).decode()}


@st.composite
def requests(draw: st.DrawFn) -> Body:
    turns: list[Body] = []
    for number in range(draw(st.integers(0, 2))):
        turns.append({"role": "user", "content": draw(WORDS | SHOWN)})
        said = draw(st.lists(THOUGHTS | HELD_BACK | TEXTS, max_size=2))
        calls = [
            {
                "type": "tool_use",
                "id": f"t{number}{call}",
                "name": draw(st.sampled_from("fg")),
                "input": {"a": draw(WORDS)},
            }
            for call in range(draw(st.integers(0, 2)))
        ]
        turns.append({"role": "assistant", "content": [*said, *calls] or "so"})
        if calls:
            results = [
                {
                    "type": "tool_result",
                    "tool_use_id": call["id"],
                    "content": draw(WORDS | st.lists(TEXTS | IMAGES, max_size=2)),
                    "is_error": draw(st.booleans()),
                }
                for call in calls
            ]
            turns.append({"role": "user", "content": [*results, *draw(st.lists(TEXTS, max_size=1))]})
    turns.append({"role": "user", "content": draw(WORDS | SHOWN)})
    if system := draw(st.none() | WORDS):
        place = len(turns) if has_calls(turns) else draw(st.integers(1, len(turns)))
        turns.insert(place, {"role": "system", "content": system})
    body: Body = {"model": "sim", "messages": turns}
    body |= draw(st.fixed_dictionaries({}, optional={"system": WORDS | st.lists(TEXTS, min_size=1, max_size=2)}))
    if tools := draw(st.lists(st.sampled_from(TOOLS), max_size=3, unique_by=lambda tool: tool["name"])):
        body |= {"tools": tools, "tool_choice": draw(CHOICES)}
    thinking = draw(st.sampled_from([None, {"type": "disabled"}, {"type": "adaptive"}, {"type": "between_tools"}]))
    if thinking is not None:
        body["thinking"] = thinking
    elif draw(st.booleans()) and turns[-1]["role"] == "user":
        turns.append({"role": "assistant", "content": "I"})
    return body


def has_calls(turns: list[Body]) -> bool:
    return any(
        block["type"] == "tool_use" for turn in turns if isinstance(turn["content"], list) for block in turn["content"]
    )


@pytest.fixture(scope="module")
async def house(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[House]:
    folder = str(qwen2_vl(tmp_path_factory.mktemp("seeing") / "model"))
    simulator = SimulatorConfig(model_folder=folder, reply_tokens=2, call_tools=False)
    async with in_process(simulator, config=Config(workers=WorkersConfig(dialect="vllm"))) as made:
        yield made


@pytest.mark.full
@settings(deadline=None, max_examples=examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(body=requests())
async def test_a_request_is_charged_what_it_is_counted(house: House, body: Body) -> None:
    asked = house.engine.counters["requests"]
    counted = await house.http.post("/v1/messages/count_tokens", json=body)
    assert house.engine.counters["requests"] == asked
    answer = await house.http.post("/v1/messages", json={**body, "max_tokens": 2})

    assert (counted.status_code, answer.status_code) == (200, 200), (counted.text, answer.text)
    usage = answer.json()["usage"]
    charged = sum(usage[f"{kind}_tokens"] for kind in ("input", "cache_creation_input", "cache_read_input"))
    assert counted.json() == {"input_tokens": charged}
    assert len(house.engine.requests[-1].input_ids) == charged
