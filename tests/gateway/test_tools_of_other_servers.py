"""Tools that a server would have to run: those that name something are refused by its name, the others are accepted and not
offered, which a header says."""

import json
from collections.abc import AsyncIterator
from contextlib import nullcontext, suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.gateway.conftest import House, over_http

from smg_core.errors import NotFound
from smg_core.wire.named_elsewhere import refuse_named
from smg_simulator.answers.replies import Reply
from smg_simulator.engine.engine import SimulatorConfig

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
async def house() -> AsyncIterator[House]:
    async with over_http(SimulatorConfig(seed=1)) as house:
        yield house


RESPONSES, INTERACTIONS, MESSAGES = "/v1/responses", "/v1beta/interactions", "/v1/messages"
GENERATE = "/v1beta/models/sim:generateContent"


def body(path: str, tools: list[dict[str, Any]]) -> dict[str, Any]:
    if path == GENERATE:
        return {"contents": [{"role": "user", "parts": [{"text": "x"}]}], "tools": tools}
    if path == MESSAGES:
        return {"model": "sim", "max_tokens": 9, "messages": [{"role": "user", "content": "x"}], "tools": tools}
    return {"model": "sim", "input": "x", "tools": tools}


NAMING: list[tuple[str, dict[str, Any], str, str]] = [
    (RESPONSES, {"type": "file_search", "vector_store_ids": ["vs_1"]}, "vector_store_ids[0]", "vs_1"),
    (RESPONSES, {"type": "code_interpreter", "container": "cntr_1"}, "container", "cntr_1"),
    (
        RESPONSES,
        {"type": "code_interpreter", "container": {"type": "auto", "file_ids": ["file-1"]}},
        "container.file_ids[0]",
        "file-1",
    ),
    (
        RESPONSES,
        {"type": "image_generation", "input_image_mask": {"file_id": "file-2"}},
        "input_image_mask.file_id",
        "file-2",
    ),
    (
        RESPONSES,
        {"type": "shell", "environment": {"type": "container_reference", "container_id": "cntr_2"}},
        "environment.container_id",
        "cntr_2",
    ),
    (
        RESPONSES,
        {"type": "shell", "environment": {"type": "container_auto", "skills": [{"skill_id": "sk_1"}]}},
        "environment.skills[0].skill_id",
        "sk_1",
    ),
    (
        INTERACTIONS,
        {"type": "file_search", "file_search_store_names": ["fileSearchStores/a"]},
        "file_search_store_names[0]",
        "fileSearchStores/a",
    ),
    (
        INTERACTIONS,
        {"type": "retrieval", "vertex_ai_search_config": {"engine": "engines/e"}},
        "vertex_ai_search_config.engine",
        "engines/e",
    ),
    (
        GENERATE,
        {"fileSearch": {"fileSearchStoreNames": ["fileSearchStores/b"]}},
        "fileSearch.fileSearchStoreNames[0]",
        "No such vector store: 'b'",
    ),
]


@pytest.mark.parametrize(("path", "tool", "place", "name"), NAMING)
async def test_a_tool_that_names_what_is_not_there_is_refused_by_it(
    house: House, path: str, tool: dict[str, Any], place: str, name: str
) -> None:
    for streams in (False, True) if path != GENERATE else (False,):
        answer = await house.http.post(path, json={**body(path, [tool]), **({"stream": True} if streams else {})})
        assert answer.status_code == 404, answer.text
        assert f"tools[0].{place}" in answer.text
        assert name in answer.text


HABITS: list[tuple[str, list[dict[str, Any]], str]] = [
    (RESPONSES, [{"type": "web_search", "external_web_access": False}], "web_search"),
    (
        RESPONSES,
        [
            {"type": "image_generation"},
            {"type": "code_interpreter", "container": {"type": "auto"}},
            {"type": "web_search"},
        ],
        "image_generation, code_interpreter, web_search",
    ),
    (RESPONSES, [{"type": "file_search", "vector_store_ids": []}], "file_search"),
    (INTERACTIONS, [{"type": "google_search"}, {"type": "code_execution"}], "google_search, code_execution"),
    (GENERATE, [{"googleSearch": {}}, {"codeExecution": {}, "googleSearch": {}}], "googleSearch, codeExecution"),
    (
        MESSAGES,
        [{"type": "web_search_20250305", "name": "web_search"}, {"type": "web_fetch_20250910", "name": "web_fetch"}],
        "web_search_20250305, web_fetch_20250910",
    ),
]


@pytest.mark.parametrize(("path", "tools", "told"), HABITS)
async def test_tools_that_clients_declare_by_habit_are_accepted_and_a_header_says_that_they_are_not_offered(
    house: House, path: str, tools: list[dict[str, Any]], told: str
) -> None:
    for streams in (False, True):
        house.engine.say(Reply("Hi"))
        asked = body(path, tools)
        if path == GENERATE:
            path = path.replace(":generate", ":streamGenerate") if streams else path
        elif streams:
            asked["stream"] = True
        answer = await house.http.post(path, json=asked)
        assert answer.status_code == 200, answer.text
        assert sorted(answer.headers["x-smg-not-offered"].split(", ")) == sorted(told.split(", "))
        tokenizer = house.gateway.models["sim"].tokenizer
        assert tokenizer is not None
        assert "search" not in tokenizer.decode(house.engine.requests[-1].input_ids)


@pytest.mark.parametrize(
    ("path", "tool", "told"),
    [(RESPONSES, {"type": "web_search"}, "web_search"), (INTERACTIONS, {"type": "google_search"}, "google_search")],
)
@pytest.mark.parametrize("stream", [False, True])
async def test_what_is_answered_in_the_background_names_such_tools_too(
    house: House, path: str, tool: dict[str, Any], told: str, stream: bool
) -> None:
    house.engine.say(Reply("Hi"))
    answer = await house.http.post(path, json={**body(path, [tool]), "background": True, "stream": stream})
    assert answer.status_code == 200, answer.text
    assert answer.headers["x-smg-not-offered"] == told


async def test_a_type_cannot_end_the_header(house: House) -> None:
    house.engine.say(Reply("Hi"))
    tool = {"type": "web_search_\r\nx-evil: 1", "name": "web_search"}
    answer = await house.http.post(MESSAGES, json=body(MESSAGES, [tool]))
    assert answer.status_code == 200
    assert "x-evil" not in answer.headers


async def test_without_such_tools_there_is_no_header(house: House) -> None:
    house.engine.say(Reply("Hi"))
    own = {"type": "function", "name": "f", "parameters": {"type": "object"}}
    answer = await house.http.post(RESPONSES, json=body(RESPONSES, [own]))
    assert "x-smg-not-offered" not in answer.headers


JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["container", "file_ids", "a", "environment"]), inner, max_size=3)
    ),
    max_leaves=12,
)


@pytest.mark.full
@given(tool=st.dictionaries(st.sampled_from(["type", "container", "file_ids", "filters"]), JSON, max_size=4))
def test_whatever_a_tool_says_it_is_read_or_refused_at_a_place_in_it(tool: dict[str, Any]) -> None:
    named = "file_ids" in json.dumps(tool) or "container" in json.dumps(tool)
    with suppress(NotFound) if named else nullcontext():
        refuse_named(tool, "tools[0]")
        return
    with pytest.raises(NotFound) as refused:
        refuse_named(tool, "tools[0]")
    assert (refused.value.param or "").startswith("tools[0].")
