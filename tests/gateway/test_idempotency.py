"""Idempotency-Key: a request that is sent again gets the first one's answer, on every route that makes something."""

import asyncio
import gzip
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anthropic
import httpx
import httpx2
import openai
import pytest
from tests.gateway.conftest import CHAT, JSON, House, body, eventually, in_process, over_http, settled
from tests.gateway.test_embeddings import MODEL
from tests.gateway.test_limits_held import by_bearer

from smg_core import Config
from smg_core.app.app import App
from smg_core.app.inprocess import async_client
from smg_core.history.settings import HistoryConfig
from smg_core.idempotency.settings import IdempotencyConfig
from smg_core.pipeline.settings import McpConfig
from smg_core.wire.settings import LimitsConfig
from smg_core.workers.settings import WorkersConfig
from smg_simulator.answers.faults import Fault
from smg_simulator.engine.clockwork import Timing
from smg_simulator.engine.engine import SimulatorConfig

pytestmark = pytest.mark.anyio

KEY = {"idempotency-key": "a-key"}
HELLO = [{"role": "user", "content": "Hello"}]
GEMINI = {"contents": [{"role": "user", "parts": [{"text": "Hello"}]}]}
CLASSIFIER = SimulatorConfig(generation_model=False, pooled="classify")
LINE = {"custom_id": "1", "method": "POST", "url": CHAT, "body": {"model": "sim", "messages": HELLO}}
SLOW = SimulatorConfig(seed=1, reply_tokens=2000, timing=Timing(decode_rate=100))

BODIES: dict[str, dict[str, Any]] = {
    CHAT: {"messages": HELLO},
    "/v1/completions": {"prompt": "Hello", "max_tokens": 5},
    "/v1/responses": {"input": "Hello"},
    "/v1/responses/compact": {"input": HELLO},
    "/v1/responses/input_tokens": {"input": "Hello"},
    "/v1/messages": {"messages": HELLO, "max_tokens": 20},
    "/v1/messages/count_tokens": {"messages": HELLO},
    "/generate": {"text": "Hello", "sampling_params": {"max_new_tokens": 5}},
    "/v1/conversations": {"metadata": {"a": "b"}},
    "/v1/conversations/{id}": {"metadata": {"a": "c"}},
    "/v1/conversations/{id}/items": {"items": HELLO},
    "interactions": {"input": "Hello"},
    "tokenize": {"prompt": "Hello"},
    "detokenize": {"tokens": [1, 2]},
    "/v1/embeddings": {"input": "Hello"},
    "/v1/embed": {"texts": ["Hello"], "input_type": "search_query"},
    "/v2/embed": {"texts": ["Hello"], "input_type": "search_query"},
    "rerank": {"query": "Hello", "documents": ["a", "b"]},
    "score": {"text_1": "Hello", "text_2": "b"},
    "classify": {"input": "Hello"},
    "moderations": {"input": "Hello"},
    "generateContent": GEMINI,
    "streamGenerateContent": GEMINI,
    "countTokens": GEMINI,
    "embedContent": {"content": {"parts": [{"text": "Hello"}]}},
    "batchEmbedContents": {"requests": [{"model": "models/sim", "content": {"parts": [{"text": "Hello"}]}}]},
    "/v1/uploads": {"bytes": 0, "filename": "a.txt", "mime_type": "text/plain", "purpose": "user_data"},
    "/v1/uploads/{id}/complete": {"part_ids": []},
    "/v1/containers": {"name": "a"},
    "/v1/vector_stores": {"name": "a"},
    "/v1/vector_stores/{id}": {"name": "b"},
    "/v1/vector_stores/{id}/search": {"query": "Hello"},
    "/v1/vector_stores/{id}/files": {"file_id": "{file}"},
    "/v1/vector_stores/{id}/files/{file_id}": {"attributes": {"a": 1}},
    "/v1/vector_stores/{id}/file_batches": {"file_ids": ["{file}"]},
    "/v1/batches": {"input_file_id": "{file}", "endpoint": CHAT, "completion_window": "24h"},
    "/mcp": {"jsonrpc": "2.0", "id": 1, "method": "ping"},
    "speech": {"input": "Hello", "voice": "alloy"},
    "generations": {"prompt": "Hello"},
    **{name: {} for name in ("client_secrets", "sessions", "transcription_sessions", "calls")},
    **{name: {} for name in ("hangup", "accept", "reject", "refer")},
    "/v1/messages/batches": {
        "requests": [{"custom_id": "1", "params": {"model": "sim", "messages": HELLO, "max_tokens": 5}}]
    },
}
"""A body of each route that takes JSON, by its pattern or how that ends."""
WITHOUT_MODEL = (
    "/mcp",
    "/v1/containers",
    "/v1/conversations",
    "/v1/realtime",
    "/v1/uploads",
    "/v1/vector_stores",
    "batches",
    "Contents",
    "Content",
    "countTokens",
)
FORMS = {
    "/v1/containers/{id}/files",
    "/v1/files",
    "/v1/uploads/{id}/parts",
    "/upload/v1/files",
    "/upload/v1beta/files",
    "/upload/v1alpha/files",
    "/v1/audio/transcriptions",
    "/v1/audio/translations",
    "/v1/images/edits",
}
REFUSED = (
    *(
        "/v1/audio/speech",
        "/v1/images/",
        "/v1/realtime/calls",
        "/v1/realtime/sessions",
        "/v1/realtime/transcription_sessions",
    ),
    "/v1/realtime/translations/client_secrets",
    "/v1/containers",
)
"""How routes begin that are refused here: these engines neither speak nor paint, and the gateway takes no calls, runs no code."""
ENDS = ("/cancel",)
"""Routes that end something: they are asked about something that is not there, and refuse."""


def body_of(pattern: str) -> dict[str, Any]:
    found = BODIES.get(pattern) or BODIES[pattern.rpartition("/")[2].rpartition(":")[2]]
    return found if any(each in pattern for each in WITHOUT_MODEL) else {"model": "sim", **found}


def settings(**more: Any) -> Config:
    return Config(idempotency=IdempotencyConfig(**more))


def same(one: httpx.Response, other: httpx.Response) -> bool:
    """Whether `other` is `one`, given again."""
    again = other.headers.get("idempotent-replayed") == "true"
    return again and (one.status_code, one.content) == (other.status_code, other.content)


async def made(house: House) -> dict[str, str]:
    """Things that routes are about."""
    conversation = (await house.http.post("/v1/conversations", json={})).json()["id"]
    file: dict[str, Any] = {"files": {"file": ("a.jsonl", json.dumps(LINE).encode())}, "data": {"purpose": "batch"}}
    sent = httpx.Request("POST", f"{house.http.base_url}/v1/files", **file)
    upload = (await house.http.post("/v1/uploads", json=BODIES["/v1/uploads"])).json()["id"]
    store = (await house.http.post("/v1/vector_stores", json={})).json()["id"]
    kept = (await house.http.send(sent)).json()["id"]
    await house.http.post(f"/v1/vector_stores/{store}/files", json={"file_id": kept})
    return {"conversation": conversation, "file": kept, "upload": upload, "store": store}


@pytest.mark.full
@pytest.mark.parametrize(
    "simulator", [SimulatorConfig(seed=1, reply_tokens=5), MODEL, CLASSIFIER], ids=["generates", "pools", "classifies"]
)
async def test_every_route_gives_the_answer_of_the_first_and_frees_the_key_of_one_that_it_refuses(
    simulator: SimulatorConfig,
) -> None:
    replayed = set[str]()
    workers = WorkersConfig(dialect="neutral" if simulator is CLASSIFIER else "vllm")
    config = Config(workers=workers, mcp=McpConfig(serve="stateless"))
    async with over_http(simulator, config=config) as house:
        things = await made(house)
        for route in house.gateway.asgi().routes:
            pattern = route.pattern
            if route.method != "POST" or pattern in FORMS:
                continue
            kind = "upload" if "/uploads/" in pattern else "store" if "/vector_stores/" in pattern else "conversation"
            path = pattern.replace("{id}", things[kind]).replace("{file_id}", things["file"])
            path = path.replace("{model:path}", "sim")
            path = path.replace("{publisher}", "google").replace("{project}", "p").replace("{location}", "l")
            content = b"" if pattern.endswith(ENDS) else json.dumps(body_of(pattern)).encode()
            content = content.replace(b"{file}", things["file"].encode())
            first, again = [await house.http.post(path, content=content, headers=KEY) for _ in range(2)]
            if first.status_code < 400:
                assert same(first, again), pattern
                other = await house.http.post(path, content=content + b" ", headers=KEY)
                assert other.status_code == 422, pattern
                assert "Idempotency-Key" in other.text, pattern
                replayed.add(pattern)
            else:
                assert again.status_code == first.status_code, (pattern, again.text)
                assert "idempotent-replayed" not in again.headers, pattern
        expected = {each.pattern for each in house.gateway.asgi().routes if each.method == "POST"} - FORMS

    expected = {each for each in expected if not each.endswith(ENDS) and not each.startswith(REFUSED)}
    classify = {each for each in expected if each.endswith(("/classify", "/moderations"))}
    pooling = {each for each in expected if "embed" in each.lower() or each.endswith(("/rerank", "/score"))}
    if simulator is CLASSIFIER:
        expected = classify
    elif simulator is MODEL:
        expected = pooling
    else:
        expected -= pooling | classify
    assert replayed >= expected


@pytest.mark.full
@pytest.mark.sampled(keep=2)
@pytest.mark.parametrize(
    ("path", "more"),
    [
        (CHAT, {"stream": True}),
        ("/v1/completions", {"stream": True}),
        ("/v1/responses", {"stream": True}),
        ("/v1/messages", {"stream": True}),
        ("/v1beta/interactions", {"stream": True}),
        ("/v1beta/models/sim:streamGenerateContent", {}),
        ("/v1beta/models/sim:streamGenerateContent?alt=sse", {}),
    ],
)
async def test_a_stream_is_given_again_as_it_was(path: str, more: dict[str, Any]) -> None:
    pattern = "streamGenerateContent" if "Generate" in path else path.replace("/v1beta/", "")
    async with over_http(SimulatorConfig(seed=1, reply_tokens=5)) as house:
        asked = body_of(pattern) | more
        first, again = [await house.http.post(path, json=asked, headers=KEY) for _ in range(2)]

        assert first.status_code == 200, first.text
        assert same(first, again)
        assert again.headers["content-type"] == first.headers["content-type"]
        await settled(house)
        assert house.engine.counters["finished"] == 1


@pytest.mark.parametrize(
    ("path", "read"),
    [
        (CHAT, lambda told: told["error"]["code"]),
        ("/v1/responses", lambda told: told["error"]["code"]),
        ("/v1/messages", lambda told: told["error"]["type"]),
        ("/v1beta/models/sim:generateContent", lambda told: told["error"]["status"]),
    ],
)
async def test_another_body_is_refused_in_the_words_of_its_api(path: str, read: Any) -> None:
    async with in_process() as house:
        asked = body_of("generateContent" if "Content" in path else path)
        text = json.dumps(asked)
        await house.http.post(path, content=text, headers=KEY)
        others = (json.dumps(asked | {"temperature": 0.1}), text.replace("Hello", "Howdy"), text.replace("Hello", ""))
        answers = [await house.http.post(path, content=each, headers=KEY) for each in others]
        by_query = await house.http.post(f"{path}?a=b", content=text, headers=KEY)

    assert [each.status_code for each in (*answers, by_query)] == [422] * 4
    for refused in answers:
        assert read(refused.json()) in ("idempotency_key_reused", "invalid_request_error", "INVALID_ARGUMENT")


async def test_a_file_is_uploaded_once_though_its_form_has_a_new_boundary() -> None:
    async with over_http() as house:
        del house.http.headers["content-type"]
        form: dict[str, Any] = {"files": {"file": ("a", b"a" * 600_000)}, "data": {"purpose": "user_data"}}
        first, again = [await house.http.post("/v1/files", headers=KEY, **form) for _ in range(2)]
        listed = (await house.http.get("/v1/files")).json()["data"]

    assert first.request.headers["content-type"] != again.request.headers["content-type"]
    assert same(first, again)
    assert [each["id"] for each in listed] == [first.json()["id"]]


@pytest.mark.parametrize(("first", "again"), [("abc", "abcdefghijk"), ("abcdefghijk", "abc")])
async def test_a_form_is_the_same_with_a_boundary_of_another_length(first: str, again: str) -> None:
    async with in_process() as house:
        answers = []
        for boundary in (first, again):
            parts = (
                'content-disposition: form-data; name="purpose"\r\n\r\nuser_data',
                'content-disposition: form-data; name="file"; filename="a"\r\n\r\nxyz',
            )
            content = "".join(f"--{boundary}\r\n{part}\r\n" for part in parts) + f"--{boundary}--\r\n"
            headers = {**KEY, "content-type": f"multipart/form-data; boundary={boundary}"}
            answers.append(await house.http.post("/v1/files", content=content.encode(), headers=headers))

    assert same(*answers), answers[1].text


async def test_an_empty_body_is_not_the_same_as_another() -> None:
    async with in_process() as house:
        first, again = [await house.http.post("/v1/conversations", content=b"", headers=KEY) for _ in range(2)]
        other = await house.http.post("/v1/conversations", json={"metadata": {"a": "b"}}, headers=KEY)

    assert same(first, again)
    assert other.status_code == 422


async def test_a_body_that_is_compressed_anew_is_the_same() -> None:
    async with in_process() as house:
        headers, text = {**KEY, "content-encoding": "gzip"}, json.dumps(body()).encode()
        compressed = [gzip.compress(text, mtime=at) for at in (1, 2)]
        answers = [await house.http.post(CHAT, content=each, headers=headers) for each in compressed]

    assert same(*answers)


async def test_a_request_with_two_keys_is_refused() -> None:
    async with in_process() as house:
        two = [("idempotency-key", "one"), ("idempotency-key", "other")]
        refused = await house.http.post(CHAT, json=body(), headers=two)

    assert refused.status_code == 400
    assert "one Idempotency-Key" in refused.json()["error"]["message"]


async def test_keys_of_tenants_of_principals_and_of_routes_are_apart() -> None:
    async with (
        in_process() as house,
        async_client(App(house.gateway, by_bearer), httpx, base_url="http://gateway", headers=JSON) as http,
    ):
        ids = set[str]()
        for who in ("acme:one", "acme:two", "other:one"):
            for path in ("/v1/responses", CHAT):
                asked = body_of(path)
                answer = await http.post(path, json=asked, headers={**KEY, "authorization": f"Bearer {who}"})
                assert "idempotent-replayed" not in answer.headers
                ids.add(answer.json()["id"])
    assert len(ids) == 6


@pytest.mark.full
async def test_who_comes_while_the_first_is_answered_waits_for_its_answer() -> None:
    async with in_process(SimulatorConfig(seed=1, reply_tokens=20, timing=Timing(decode_rate=100))) as house:
        answers = await asyncio.gather(*(house.http.post(CHAT, json=body(), headers=KEY) for _ in range(5)))

        assert len({each.content for each in answers}) == 1
        assert sum("idempotent-replayed" in each.headers for each in answers) == 4
        await settled(house)
        assert house.engine.counters["finished"] == 1


@asynccontextmanager
async def under_way(house: House) -> AsyncIterator[asyncio.Task[httpx.Response]]:
    """A long request with the key, of which the engine has begun the answer."""
    first = asyncio.create_task(house.http.post(CHAT, json=body(max_tokens=2000), headers=KEY))
    try:
        await eventually(lambda: house.engine.counters["tokens"])
        yield first
    finally:
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)


@pytest.mark.full
async def test_who_would_wait_too_long_is_told_that_the_key_is_in_use() -> None:
    async with over_http(SLOW, config=settings(wait_s=0)) as house, under_way(house):
        refused = await house.http.post(CHAT, json=body(max_tokens=2000), headers=KEY)

    assert refused.status_code == 409
    assert refused.json()["error"]["code"] == "idempotency_key_in_use"
    assert int(refused.headers["retry-after"]) >= 1


async def test_a_client_that_leaves_frees_the_key_at_once_where_its_answer_is_not_waited_for() -> None:
    async with over_http(SLOW, config=settings(left_s=0)) as house:
        async with under_way(house):
            pass
        again = await house.http.post(CHAT, json=body(max_tokens=3), headers=KEY)

    assert again.status_code == 200
    assert "idempotent-replayed" not in again.headers


@pytest.mark.full
@pytest.mark.sampled(keep=2)
@pytest.mark.parametrize(
    ("path", "more"),
    [
        (CHAT, {}),
        (CHAT, {"stream": True}),
        ("/v1/messages", {"stream": True}),
        ("/v1/responses", {"stream": True}),
        ("/v1/responses", {"stream": True, "background": True}),
        ("/v1beta/interactions", {"stream": True, "background": True}),
    ],
)
async def test_a_client_that_leaves_gets_the_answer_of_that_try_by_its_next_one(
    path: str, more: dict[str, Any]
) -> None:
    asked = body_of(path.replace("/v1beta/", "")) | more
    async with over_http(SimulatorConfig(seed=1, reply_tokens=40, timing=Timing(decode_rate=100))) as house:
        first = asyncio.create_task(house.http.post(path, json=asked, headers=KEY))
        await eventually(lambda: house.engine.counters["tokens"])
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        answers = await asyncio.gather(*(house.http.post(path, json=asked, headers=KEY) for _ in range(2)))

        assert all("idempotent-replayed" in each.headers for each in answers), answers[0].text
        assert answers[0].status_code == 200
        assert answers[0].content == answers[1].content
        await settled(house)
        assert house.engine.counters["finished"] == house.engine.counters["requests"] == 1


async def test_nobody_waits_longer_than_was_said_for_the_next_try_of_a_client_that_left() -> None:
    async with over_http(SLOW, config=settings(left_s=0.01)) as house:
        async with under_way(house):
            pass
        await eventually(lambda: house.engine.counters["cancelled"])
        await settled(house)
        again = await house.http.post(CHAT, json=body(max_tokens=3), headers=KEY)

    assert again.status_code == 200
    assert "idempotent-replayed" not in again.headers


@pytest.mark.full
async def test_a_stream_of_the_background_that_a_stop_has_cut_is_given_whole_and_is_run_once(tmp_path: Any) -> None:
    config = Config(history=HistoryConfig(url=f"sqlite:///{tmp_path}/history.db"))
    asked = {"model": "sim", "input": "Hello", "stream": True, "background": True}
    async with over_http(SimulatorConfig(seed=1, timing=Timing(decode_rate=100)), config=config) as house:
        first = asyncio.create_task(house.http.post("/v1/responses", json=asked, headers=KEY))
        await eventually(lambda: house.engine.counters["tokens"])
        house.gateway.drain()
        cut = await first
    async with over_http(SimulatorConfig(seed=1, reply_tokens=5), config=config) as house:
        again, third = [await house.http.post("/v1/responses", json=asked, headers=KEY) for _ in range(2)]
        await settled(house)
        assert house.engine.counters["finished"] == 1

    assert "response.completed" not in cut.text
    assert "response.completed" in again.text
    assert again.content.startswith(cut.content.rpartition(b"\n\nevent")[0])
    assert "idempotent-replayed" in again.headers
    assert again.headers["x-request-id"] == cut.headers["x-request-id"]
    assert again.content == third.content


@pytest.mark.parametrize("stream", [False, True])
async def test_a_first_try_that_fails_frees_the_key(stream: bool) -> None:
    async with in_process() as house:
        house.engine.inject(Fault("error", 2, status="INVALID_ARGUMENT"))
        failed = await house.http.post(CHAT, json=body(stream=stream), headers=KEY)
        again = await house.http.post(CHAT, json=body(stream=stream), headers=KEY)
        third = await house.http.post(CHAT, json=body(stream=stream), headers=KEY)

    assert "error" in failed.text
    assert again.status_code == 200
    assert "error" not in again.text
    assert "idempotent-replayed" not in again.headers
    assert same(again, third)


@pytest.mark.parametrize("bound", ["answer_bytes", "pending_bytes"])
async def test_an_answer_over_the_bound_is_not_kept_and_not_made_twice(bound: str) -> None:
    async with in_process(SimulatorConfig(seed=1, reply_tokens=600), config=settings(**{bound: 1024})) as house:
        first = await house.http.post(CHAT, json=body(), headers=KEY)
        again = await house.http.post(CHAT, json=body(), headers=KEY)
        small = await house.http.post(CHAT, json=body(max_tokens=2), headers={"idempotency-key": "another"})
        small_again = await house.http.post(CHAT, json=body(max_tokens=2), headers={"idempotency-key": "another"})

    assert len(first.content) > 1024
    assert again.status_code == 409
    assert again.json()["error"]["code"] == "idempotency_answer_not_kept"
    assert again.headers["x-should-retry"] == "false"
    assert same(small, small_again)


@pytest.mark.parametrize(
    "config",
    [settings(kept_s=0), Config(history=HistoryConfig(url="memory:", zero_retention=("*",)))],
    ids=["turned off", "zero retention"],
)
async def test_where_nothing_is_kept_the_header_does_nothing(config: Config) -> None:
    async with in_process(config=config) as house:
        answers = [await house.http.post(CHAT, json=body(), headers=KEY) for _ in range(2)]

    assert [each.status_code for each in answers] == [200, 200]
    assert all("idempotent-replayed" not in each.headers for each in answers)


@pytest.mark.parametrize("key", ["", "x" * 256])
async def test_a_key_that_is_none_is_refused(key: str) -> None:
    async with in_process() as house:
        refused = await house.http.post(CHAT, json=body(), headers={"idempotency-key": key})

    assert refused.status_code == 400
    assert "Idempotency-Key" in refused.json()["error"]["message"]


@pytest.mark.full
async def test_what_is_kept_is_the_tenants_encrypted_and_erased_with_it() -> None:
    secret = "k=" + "A" * 43 + "="
    config = Config(history=HistoryConfig(url="memory:", keys=(secret,)))
    async with in_process(config=config) as house:
        first = await house.http.post(CHAT, json=body(), headers=KEY)
        history = house.gateway.services.running.history
        exported = [each async for each in history.export("")]
        raw = [each async for each in history._in.export("")]
        await history.erase("")
        again = await house.http.post(CHAT, json=body(), headers=KEY)

    assert [each.owner for each in exported] == ["idempotency"]
    assert all(b"target" not in part for each in raw for part in each.parts.values())
    assert "idempotent-replayed" not in again.headers
    assert first.json()["id"] != again.json()["id"]


@pytest.mark.full
async def test_two_gateways_with_one_history_run_a_request_once(tmp_path: Any) -> None:
    config = Config(history=HistoryConfig(url=f"sqlite:///{tmp_path}/history.db"))
    slow = SimulatorConfig(seed=1, reply_tokens=20, timing=Timing(decode_rate=100))
    async with in_process(slow, config=config) as one, in_process(slow, config=config) as other:
        answers = await asyncio.gather(*(each.http.post(CHAT, json=body(), headers=KEY) for each in (one, other)))

        assert sum("idempotent-replayed" in each.headers for each in answers) == 1
        assert answers[0].content == answers[1].content
        await settled(one)
        await settled(other)
        assert one.engine.counters["finished"] + other.engine.counters["finished"] == 1


@pytest.mark.full
async def test_an_answer_that_is_given_again_takes_nothing_of_a_limit() -> None:
    config = Config(limits=LimitsConfig(rules=("1 requests/day per=tenant",)))
    async with in_process(config=config) as house:
        first, again = [await house.http.post(CHAT, json=body(), headers=KEY) for _ in range(2)]

    assert same(first, again)
    assert "x-ratelimit-limit-requests" in first.headers
    assert "x-ratelimit-limit-requests" not in again.headers


@pytest.mark.full
@pytest.mark.parametrize("kept_s", [0, 60])
async def test_the_described_routes_that_take_a_key_are_those_that_do(kept_s: int) -> None:
    async with in_process(config=settings(kept_s=kept_s)) as house:
        paths = (await house.http.get("/openapi.json")).json()["paths"]

    for path, methods in paths.items():
        for method, about in methods.items():
            named = [each["name"] for each in about.get("parameters", [])]
            assert ("Idempotency-Key" in named) is (kept_s > 0 and method == "post"), (method, path)


# ------------------------------------------------------------------------------------------------------ official SDKs


def losing(module: Any, keys: list[str]) -> Any:
    """A client that loses the first answer on its way back, after the gateway has given it, and notes the keys that are sent.
    `module` is the library that an SDK is built on."""

    class Losing(module.AsyncHTTPTransport):  # type: ignore[misc]
        async def handle_async_request(self, request: Any) -> Any:
            keys.append(request.headers["idempotency-key"])
            answer = await super().handle_async_request(request)
            if len(keys) == 1:
                await answer.aread()
                await answer.aclose()
                raise module.ReadError("the connection was reset")
            return answer

    return module.AsyncClient(transport=Losing())


@pytest.mark.full
@pytest.mark.parametrize("sdk", ["openai", "anthropic"])
async def test_the_retry_of_an_official_sdk_gets_the_answer_that_was_lost(sdk: str) -> None:
    keys: list[str] = []
    module = httpx if sdk == "openai" else httpx2
    async with over_http() as house, losing(module, keys) as http:
        client: Any
        if sdk == "openai":
            client = openai.AsyncOpenAI(base_url=f"{house.url}/v1", api_key="k", http_client=http)
        else:
            client = anthropic.AsyncAnthropic(base_url=house.url, api_key="k", http_client=http)
        client._idempotency_header = "Idempotency-Key"
        if sdk == "openai":
            answer = await client.responses.create(model="sim", input="Hello")
        else:
            answer = await client.messages.create(model="sim", max_tokens=20, messages=HELLO)

        assert answer.id
        assert len(keys) == 2
        assert len(set(keys)) == 1
        await settled(house)
        assert house.engine.counters["finished"] == 1


# --------------------------------------------------------------------------------------------------------- costs nothing

PROGRAM = """
import asyncio, sys
import httpx
from smg_core import Gateway
from smg_simulator.engine.engine import SimulatorConfig

async def main():
    async with Gateway.simulated(SimulatorConfig(seed=1)) as gateway:
        async with gateway.http_client(httpx, base_url="http://gateway") as http:
            asked = {"model": "sim", "messages": [{"role": "user", "content": "Hello"}]}
            print((await http.post("/v1/chat/completions", json=asked)).status_code)

asyncio.run(main())
print(*(name for name in sys.modules if name.startswith("smg_core.idempotency.") and not name.endswith("settings")))
"""


@pytest.mark.full
def test_a_gateway_whose_requests_have_no_key_loads_nothing_for_them() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)

    assert done.stdout.split() == ["200"]
