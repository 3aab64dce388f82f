"""Servers of Chat Completions are spoken to in words that they read, and what they answer is read or refused, never lost."""

import asyncio
import base64
import json
from typing import Any

import attrs
import pytest
from tests.gateway.conftest import CHAT
from tests.gateway.fleet import CALM
from tests.gateway.test_chat_servers import before
from tests.gateway.tool_server import RED_DOT
from tests.peers import listening

from smg_core.config import EnginesConfig, MediaConfig

pytestmark = pytest.mark.anyio

DATA = base64.b64encode(RED_DOT).decode()
URL = f"data:image/png;base64,{DATA}"
SAYS_DEVELOPER: dict[str, tuple[str, dict[str, Any]]] = {
    "chat": (CHAT, {"messages": [{"role": "developer", "content": "brief"}, {"role": "user", "content": "x"}]}),
    "responses": (
        "/v1/responses",
        {"input": [{"role": "developer", "content": "brief"}, {"role": "user", "content": "x"}]},
    ),
}


@pytest.mark.sampled(keep=2)
@pytest.mark.parametrize("api", list(SAYS_DEVELOPER))
@pytest.mark.parametrize(
    ("dialect", "setting", "role"),
    [
        ("openai", "auto", "system"),
        ("openai-strict", "auto", "developer"),
        ("openai", "developer", "developer"),
        ("openai-strict", "system", "system"),
    ],
)
async def test_the_developer_is_called_what_the_server_knows(api: str, dialect: str, setting: Any, role: str) -> None:
    path, fields = SAYS_DEVELOPER[api]
    config = attrs.evolve(CALM, engines=EnginesConfig(http_developer=setting))
    async with before("a", config=config, dialect=dialect) as house:
        assert (await house.http.post(path, json={"model": "a", **fields})).status_code == 200
        assert [message["role"] for message in house.server.asked[0]["messages"]] == [role, "user"]


def stream(*deltas: dict[str, Any], reason: str = "stop") -> bytes:
    chunks = [{"choices": [{"index": 0, "delta": delta}]} for delta in deltas]
    chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
    return b"".join(b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in chunks) + b"data: [DONE]\n\n"


THOUGHT = [
    {"role": "user", "content": "x"},
    {"role": "assistant", "content": "y", "reasoning_content": "hm"},
    {"role": "user", "content": "z"},
]


@pytest.mark.parametrize("told", [("reasoning_content",), ("reasoning",), ("reasoning_content", "reasoning")])
async def test_reasoning_is_replayed_in_the_fields_that_the_server_writes_and_in_both_before_that(
    told: tuple[str, ...],
) -> None:
    async with before("a") as house:
        house.server.answer = stream(dict.fromkeys(told, "aha"), {"content": "Hi"})
        for _ in range(2):
            answer = await house.http.post(CHAT, json={"model": "a", "messages": THOUGHT})
            assert answer.json()["choices"][0]["message"]["reasoning_content"] == "aha"
        first, second = (body["messages"][1] for body in house.server.asked)
    both = {"reasoning_content": "hm", "reasoning": "hm"}
    assert {name: first[name] for name in both if name in first} == both
    assert {name: second[name] for name in both if name in second} == dict.fromkeys(told, "hm")


# ------------------------------------------------------------------------------------------------------------ pictures

CALLED: list[Any] = [
    {"role": "user", "content": "x"},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
    },
]
SHOWING: dict[str, tuple[str, dict[str, Any]]] = {
    "chat": (CHAT, {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "IT"}}]}]}),
    "chat, a result": (
        CHAT,
        {
            "messages": [
                *CALLED,
                {"role": "tool", "tool_call_id": "c", "content": [{"type": "image_url", "image_url": {"url": "IT"}}]},
            ]
        },
    ),
    "responses": (
        "/v1/responses",
        {"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "IT"}]}]},
    ),
    "messages": (
        "/v1/messages",
        {
            "max_tokens": 5,
            "messages": [{"role": "user", "content": [{"type": "image", "source": {"type": "url", "url": "IT"}}]}],
        },
    ),
    "generateContent": (
        "/v1beta/models/a:generateContent",
        {"contents": [{"role": "user", "parts": [{"fileData": {"mimeType": "image/png", "fileUri": "IT"}}]}]},
    ),
    "interactions": ("/v1beta/interactions", {"input": [{"type": "image", "uri": "IT", "mime_type": "image/png"}]}),
}


async def picture(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\nconnection: close\r\n\r\n" % len(RED_DOT) + RED_DOT)
    await writer.drain()
    writer.close()


@pytest.mark.full
@pytest.mark.sampled(keep=3)
@pytest.mark.parametrize("api", list(SHOWING))
async def test_a_picture_is_passed_on_as_data_wherever_it_is(api: str) -> None:
    path, fields = SHOWING[api]
    async with listening(picture) as port:
        media = MediaConfig(allow_http=True, allow_private=("127.0.0.1",), port=port)
        async with before("a", config=attrs.evolve(CALM, media=media)) as house:
            for url in (f"http://127.0.0.1:{port}/red", URL):
                if url == URL and api == "messages":
                    continue  # its addresses are addresses
                body = json.loads(json.dumps(fields).replace("IT", url))
                answer = await house.http.post(path, json={"model": "a", **body})
                assert answer.status_code == 200, answer.text
                assert house.server.asked[-1]["messages"][-1]["content"] == [
                    {"type": "image_url", "image_url": {"url": URL}}
                ]


@pytest.mark.parametrize("api", list(SHOWING))
async def test_the_rules_of_media_hold_for_pictures_that_are_passed_on(api: str) -> None:
    path, fields = SHOWING[api]
    async with before("a") as house:
        for url in ("http://169.254.169.254/latest", "https://127.0.0.1/x", "file:///etc/passwd"):
            body = json.loads(json.dumps(fields).replace("IT", url))
            assert (await house.http.post(path, json={"model": "a", **body})).status_code == 400
        assert not house.server.asked


# ------------------------------------------------------------------------------------------------------- what is answered

WHOLE = json.dumps({"choices": [{"index": 0, "message": {"content": "Hi"}, "finish_reason": "stop"}]}).encode()


LEADS = [b"", b"\n", b": a comment\n\n", b"\xef\xbb\xbf", b"event: message\n", b"  ", b" " * 200_000]
KINDS = [
    "text/event-stream",
    "application/json",
    "text/plain; charset=utf-8",
    "APPLICATION/JSON",
    "application/octet-stream",
    "application/x-ndjson",
    "text/html",
    "",
]


@pytest.mark.full
async def test_events_are_read_whatever_they_are_called() -> None:
    async with before("a") as house:
        for kind in KINDS:
            for lead in LEADS:
                for streams in (True, False):
                    house.server.kind, house.server.answer = kind, lead + stream({"content": "Hi"})
                    asked = {"model": "a", "messages": [{"role": "user", "content": "x"}], "stream": streams}
                    answer = await house.http.post(CHAT, json=asked)
                    assert (answer.status_code, '"content":"Hi"' in answer.text) == (200, True), (kind, lead, streams)


@pytest.mark.sampled(keep=12)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "lead", [b"", b"\n ", b"\xef\xbb\xbf \t", b" " * 200_000], ids=["none", "blanks", "mark", "many"]
)
async def test_an_object_is_read_whatever_it_is_called(kind: str, lead: bytes) -> None:
    async with before("a") as house:
        house.server.kind, house.server.answer = kind, lead + WHOLE
        answer = await house.http.post(CHAT, json={"model": "a", "messages": [{"role": "user", "content": "x"}]})
    assert answer.json()["choices"][0]["message"]["content"] == "Hi"


@pytest.mark.sampled(keep=5)
@pytest.mark.parametrize("kind", KINDS)
async def test_what_is_neither_is_refused(kind: str) -> None:
    async with before("a") as house:
        for page in (b"<html>Welcome</html>", b"", b" \n", b"Welcome", b"[1]", b"\x00\x01"):
            for streams in (True, False):
                house.server.kind, house.server.answer = kind, page
                asked = {"model": "a", "messages": [{"role": "user", "content": "x"}], "stream": streams}
                answer = await house.http.post(CHAT, json=asked)
                assert answer.status_code == 502, (page, streams, answer.text)


@pytest.mark.parametrize(
    "deltas",
    [
        [{"function_call": {"name": "f", "arguments": '{"a": 1}'}}],
        [{"function_call": {"name": "f"}}, *({"function_call": {"arguments": each}} for each in ('{"a"', ": 1}"))],
        [{"function_call": {"name": "f", "arguments": {"a": 1}}}],
    ],
)
async def test_the_older_word_for_a_call_is_read(deltas: list[dict[str, Any]]) -> None:
    tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
    async with before("a") as house:
        house.server.answer = stream(*deltas, reason="function_call")
        asked = {"model": "a", "messages": [{"role": "user", "content": "x"}], "tools": [tool]}
        choice = (await house.http.post(CHAT, json=asked)).json()["choices"][0]
    (call,) = choice["message"]["tool_calls"]
    assert (call["function"]["name"], json.loads(call["function"]["arguments"])) == ("f", {"a": 1})
    assert choice["finish_reason"] == "tool_calls"


async def test_parts_of_an_answer_are_read_each_as_what_it_is() -> None:
    parts = [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}, {"type": "text", "text": "Hi"}]
    async with before("a") as house:
        house.server.answer = stream({"content": parts})
        message = (
            await house.http.post(CHAT, json={"model": "a", "messages": [{"role": "user", "content": "x"}]})
        ).json()
    said = message["choices"][0]["message"]
    assert (said["content"], said["reasoning_content"]) == ("Hi", "hm")


@pytest.mark.parametrize(
    "delta",
    [
        {"content": [{"type": "image_url", "image_url": {"url": URL}}]},
        {"images": [{"type": "image_url", "image_url": {"url": URL}}]},
        {"audio": {"data": "AAAA"}},
    ],
)
async def test_what_cannot_be_passed_on_is_refused_and_not_lost(delta: dict[str, Any]) -> None:
    async with before("a") as house:
        house.server.answer = stream(delta)
        answer = await house.http.post(CHAT, json={"model": "a", "messages": [{"role": "user", "content": "x"}]})
    assert answer.status_code == 502
    assert "cannot be passed on" in answer.json()["error"]["message"]
