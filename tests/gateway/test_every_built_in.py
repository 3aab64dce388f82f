"""Every built-in tool in every API that has it: one that is not set up, or not the caller's, is taken, named in a header and not
offered to the model, and refused only where it is demanded."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.gateway.conftest import House, in_process

from smg_core import Config
from smg_core.auth.settings import AuthConfig
from smg_core.history.settings import HistoryConfig
from smg_core.pipeline.settings import McpConfig

pytestmark = pytest.mark.anyio

CALLER = {"authorization": "Bearer sk-narrow-0000000000"}
RESPONSES: dict[str, dict[str, Any]] = {
    "web_search": {},
    "web_search_2025_08_26": {},
    "web_search_preview": {},
    "web_search_preview_2025_03_11": {},
    "code_interpreter": {"container": {"type": "auto"}},
    "image_generation": {},
    "programmatic_tool_calling": {},
    "shell": {"environment": {"type": "container_auto"}},
}
MESSAGES = {
    "web_search_20250305": "web_search",
    "web_search_20260209": "web_search",
    "web_fetch_20250910": "web_fetch",
    "web_fetch_20260209": "web_fetch",
    "code_execution_20250522": "code_execution",
    "code_execution_20250825": "code_execution",
    "tool_search_tool_bm25_20251119": "tool_search_tool_bm25",
    "advisor_20260301": "advisor",
}
GEMINI = ("googleSearch", "urlContext", "codeExecution", "googleMaps", "computerUse", "googleSearchRetrieval")
FILE = """
servers:
  - {name: web, protocol: python, functions: ["tests.gateway.test_tool_prices:look"], builtin_type: web_search_preview,
     builtin_tool_name: look}
  - {name: code, protocol: python, functions: ["tests.gateway.test_code_tools:run_python"], builtin_type: code_interpreter,
     builtin_tool_name: run_python}
  - {name: pictures, protocol: model, model: sim}
"""


@pytest.fixture(scope="module")
async def plain() -> AsyncIterator[House]:
    async with in_process(config=Config(history=HistoryConfig(url="memory:"))) as house:
        yield house


@pytest.fixture(scope="module")
async def narrow(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[House]:
    """A gateway that has the tools, of which the caller may use none."""
    file: Path = tmp_path_factory.mktemp("built-ins") / "mcp.yaml"
    file.write_text(FILE)
    auth = AuthConfig(keys=("sk-narrow-0000000000 tenant=acme tool=other.*",))
    config = Config(history=HistoryConfig(url="memory:"), mcp=McpConfig(config=str(file)), auth=auth)
    async with in_process(config=config) as house:
        yield house


@pytest.fixture(params=["plain", "narrow"])
def house(request: pytest.FixtureRequest) -> House:
    found: House = request.getfixturevalue(request.param)
    return found


async def asked(house: House, path: str, body: dict[str, Any]) -> Any:
    before = len(house.engine.requests)
    answer = await house.http.post(path, json=body, headers={**CALLER, "anthropic-version": "2023-06-01"})
    offered = ""
    if len(house.engine.requests) > before:
        offered = house.engine.engine.vocabulary.decode(list(house.engine.requests[-1].input_ids))
    return answer, offered


def check(answer: Any, offered: str, kind: str) -> None:
    assert answer.status_code == 200, answer.text
    assert kind in answer.headers["x-smg-not-offered"].split(", ")
    assert '"function"' not in offered


async def taken(house: House, path: str, body: dict[str, Any], kind: str) -> tuple[Any, Any]:
    """The answer as a whole and the one in a stream, in both of which the tool was taken and not offered."""
    whole, offered = await asked(house, path, body)
    check(whole, offered, kind)
    gemini = path.endswith(":generateContent")
    streamed = path.replace(":generateContent", ":streamGenerateContent?alt=sse") if gemini else path
    stream, offered = await asked(house, streamed, body if gemini else {**body, "stream": True})
    check(stream, offered, kind)
    assert stream.headers["content-type"].startswith("text/event-stream")
    return whole, stream


async def refused(house: House, path: str, body: dict[str, Any]) -> list[str]:
    """The fields that both answers to a request blame that demands the tool."""
    found = []
    gemini = path.endswith(":generateContent")
    for streams in (False, True):
        to = path.replace(":generateContent", ":streamGenerateContent?alt=sse") if gemini and streams else path
        answer, _ = await asked(house, to, body if gemini else {**body, "stream": streams})
        assert answer.status_code == 400, answer.text
        found.append(answer.text)
    return found


@pytest.mark.sampled(keep=7)
@pytest.mark.parametrize("kind", RESPONSES)
async def test_responses(house: House, kind: str) -> None:
    tool = {"type": kind, **RESPONSES[kind]}
    body: dict[str, Any] = {"model": "sim", "input": "Hello", "max_output_tokens": 16, "tools": [tool]}
    whole, stream = await taken(house, "/v1/responses", body, kind)
    assert whole.json()["tools"] == [tool]
    first = next(line for line in stream.text.splitlines() if line.startswith("data: "))
    assert json.loads(first[6:])["response"]["tools"] == [tool]
    for choice in ({"type": kind}, "required"):
        for text in await refused(house, "/v1/responses", {**body, "tool_choice": choice}):
            assert json.loads(text)["error"]["param"].startswith("tool_choice")


@pytest.mark.parametrize("kind", MESSAGES)
async def test_messages(house: House, kind: str) -> None:
    tool = {"type": kind, "name": MESSAGES[kind]}
    said = [{"role": "user", "content": "Hello"}]
    body: dict[str, Any] = {"model": "sim", "messages": said, "max_tokens": 5, "tools": [tool]}
    await taken(house, "/v1/messages", body, kind)
    for choice in ({"type": "any"}, {"type": "tool", "name": tool["name"]}):
        await refused(house, "/v1/messages", {**body, "tool_choice": choice})


@pytest.mark.sampled(keep=8)
@pytest.mark.parametrize("kind", GEMINI)
async def test_generate_content(house: House, kind: str) -> None:
    body: dict[str, Any] = {"contents": [{"role": "user", "parts": [{"text": "Hello"}]}], "tools": [{kind: {}}]}
    path = "/v1beta/models/sim:generateContent"
    await taken(house, path, body, kind)
    await refused(house, path, {**body, "toolConfig": {"functionCallingConfig": {"mode": "ANY"}}})


async def test_chat(house: House) -> None:
    body: dict[str, Any] = {"model": "sim", "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 5}
    await taken(house, "/v1/chat/completions", {**body, "web_search_options": {}}, "web_search_options")
    await refused(house, "/v1/chat/completions", {**body, "web_search_options": {}, "tool_choice": "required"})


@pytest.mark.parametrize("kind", ["google_search", "url_context", "code_execution"])
async def test_interactions(house: House, kind: str) -> None:
    body: dict[str, Any] = {"model": "sim", "input": "Hello", "tools": [{"type": kind}]}
    await taken(house, "/v1beta/interactions", body, kind)
    await refused(house, "/v1beta/interactions", {**body, "generation_config": {"tool_choice": "any"}})


async def test_a_search_of_files_that_the_caller_may_not_use_is_refused_by_the_store_it_names(narrow: House) -> None:
    """As where there is none: its client expects an answer out of the files, and one without them would look like it."""
    made = await narrow.http.post("/v1/vector_stores", json={"name": "mine"}, headers=CALLER)
    stores = [made.json()["id"]]
    said = [{"role": "user", "content": "Hello"}]
    searches: Any = {"type": "file_search", "vector_store_ids": stores}
    contents = {"contents": [{"role": "user", "parts": [{"text": "Hello"}]}]}
    gemini = {**contents, "tools": [{"fileSearch": {"fileSearchStoreNames": stores}}]}
    chat = {"model": "sim", "messages": said, "tools": [searches]}
    responses = {"model": "sim", "input": "Hello", "tools": [searches]}
    for path, body in (
        ("/v1/responses", responses),
        ("/v1/responses", {**responses, "stream": True}),
        ("/v1/chat/completions", chat),
        ("/v1/chat/completions", {**chat, "stream": True}),
        ("/v1beta/models/sim:generateContent", gemini),
        ("/v1beta/models/sim:streamGenerateContent?alt=sse", gemini),
    ):
        answer, offered = await asked(narrow, path, body)
        assert (answer.status_code, offered) == (404, ""), answer.text
        said_of_it = answer.json()["error"]["message"]
        assert "no tool that this key may use works on a vector store here" in said_of_it
        assert stores[0] in said_of_it
