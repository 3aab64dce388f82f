"""`continuous_usage_stats`: each chunk of a stream has the usage so far; and the headers of streams."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.gateway.conftest import CHAT, House, over_http
from tests.gateway.test_chat_servers import before

from smg_simulator.answers.replies import Reply
from smg_simulator.engine.engine import SimulatorConfig

pytestmark = pytest.mark.anyio

COUNTS = {"stream": True, "stream_options": {"continuous_usage_stats": True, "include_usage": True}}
TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
ASKED: dict[str, tuple[str, dict[str, Any]]] = {
    "chat": (CHAT, {"messages": [{"role": "user", "content": "x"}]}),
    "chat, two choices": (CHAT, {"messages": [{"role": "user", "content": "x"}], "n": 2}),
    "chat, logprobs": (CHAT, {"messages": [{"role": "user", "content": "x"}], "logprobs": True}),
    "chat, with tools": (CHAT, {"messages": [{"role": "user", "content": "x"}], "tools": [TOOL]}),
    "completions": ("/v1/completions", {"prompt": "x", "max_tokens": 30}),
    "completions, logprobs": ("/v1/completions", {"prompt": "x", "max_tokens": 30, "logprobs": 1}),
}


@pytest.fixture(scope="module")
async def house() -> AsyncIterator[House]:
    async with over_http(SimulatorConfig(seed=1)) as house:
        yield house


async def chunks(house: House, case: str, **more: Any) -> list[dict[str, Any]]:
    path, fields = ASKED[case]
    reply = (
        Reply("", reasoning="hm, hm", tool_calls=(("look", {"at": "it"}),))
        if "tools" in case
        else Reply("one two three")
    )
    house.engine.say(*[reply] * fields.get("n", 1))
    answer = await house.http.post(path, json={"model": "sim", **fields, **COUNTS, **more})
    assert answer.status_code == 200, answer.text
    return [json.loads(line[6:]) for line in answer.text.splitlines() if line.startswith("data: {")]


@pytest.mark.parametrize("case", list(ASKED))
async def test_each_chunk_has_the_usage_so_far_and_the_last_of_them_the_whole(house: House, case: str) -> None:
    found = await chunks(house, case)
    *parts, last = found
    counts = [chunk["usage"]["completion_tokens"] for chunk in parts]
    assert counts == sorted(counts)
    assert len(set(counts)) > 1
    assert all(chunk["usage"]["prompt_tokens"] == last["usage"]["prompt_tokens"] for chunk in parts)
    for chunk in parts:
        usage = chunk["usage"]
        assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]
    assert last["choices"] == []
    assert counts[-1] == last["usage"]["completion_tokens"]
    assert "token_ids" not in json.dumps(found)


async def test_of_several_prompts_each_chunk_counts_its_own_and_the_last_all(house: House) -> None:
    prompts = ["x", "a b c d e f g", "x y"]
    asked = {"model": "sim", "max_tokens": 3}
    alone = [await house.http.post("/v1/completions", json={**asked, "prompt": prompt}) for prompt in prompts]
    lengths = [answer.json()["usage"]["prompt_tokens"] for answer in alone]
    assert len(set(lengths)) == len(prompts)
    answer = await house.http.post("/v1/completions", json={**asked, "prompt": prompts, "n": 2, **COUNTS})
    *parts, last = [json.loads(line[6:]) for line in answer.text.splitlines() if line.startswith("data: {")]
    for chunk in parts:
        assert chunk["usage"]["prompt_tokens"] == lengths[chunk["choices"][0]["index"] // 2]
        assert chunk["usage"]["completion_tokens"] <= 6
    assert (last["choices"], last["usage"]["prompt_tokens"]) == ([], sum(lengths))
    assert last["usage"]["completion_tokens"] == 18


async def test_token_ids_that_are_asked_for_are_told_too(house: House) -> None:
    for case in ("chat", "completions"):
        found = await chunks(house, case, return_token_ids=True)
        ids = [token for chunk in found for choice in chunk["choices"] for token in choice.get("token_ids", ())]
        assert len(ids) == found[-1]["usage"]["completion_tokens"]


async def test_without_the_option_only_the_last_chunk_has_usage(house: House) -> None:
    found = await chunks(house, "chat", stream_options={"include_usage": True})
    assert {json.dumps(chunk["usage"]) for chunk in found[:-1]} == {"null"}


async def test_an_engine_that_tells_no_token_ids_refuses_the_option_by_its_name() -> None:
    async with before("a") as house:
        path, fields = ASKED["chat"]
        answer = await house.http.post(path, json={"model": "a", **fields, **COUNTS})
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "stream_options.continuous_usage_stats"


STREAMS: dict[str, tuple[str, dict[str, Any]]] = {
    "chat": (CHAT, {"messages": [{"role": "user", "content": "x"}], "stream": True}),
    "completions": ("/v1/completions", {"prompt": "x", "stream": True}),
    "responses": ("/v1/responses", {"input": "x", "stream": True}),
    "responses, in the background": ("/v1/responses", {"input": "x", "stream": True, "background": True}),
    "messages": ("/v1/messages", {"messages": [{"role": "user", "content": "x"}], "max_tokens": 9, "stream": True}),
    "generateContent": (
        "/v1beta/models/sim:streamGenerateContent?alt=sse",
        {"contents": [{"role": "user", "parts": [{"text": "x"}]}]},
    ),
    "interactions": ("/v1beta/interactions", {"input": "x", "stream": True}),
    "generate": ("/generate", {"text": "x", "stream": True}),
}


@pytest.mark.parametrize("api", list(STREAMS))
async def test_a_stream_tells_proxies_not_to_hold_it_back(house: House, api: str) -> None:
    path, fields = STREAMS[api]
    body = fields if "v1beta/models" in path or path == "/generate" else {"model": "sim", **fields}
    async with house.http.stream("POST", path, json=body) as answer:
        await answer.aread()
    assert answer.status_code == 200, answer.text
    assert answer.headers["x-accel-buffering"] == "no"
    assert answer.headers["cache-control"] == "no-cache"


async def test_a_namespace_may_have_no_tools(house: House) -> None:
    for tool in ({"type": "namespace", "name": "crm"}, {"type": "namespace", "name": "crm", "tools": None}):
        house.engine.say(Reply("Hi"))
        answer = await house.http.post("/v1/responses", json={"model": "sim", "input": "x", "tools": [tool]})
        assert answer.status_code == 200, answer.text
        assert answer.json()["tools"][0]["name"] == "crm"
