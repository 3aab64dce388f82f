"""Every odd stream of a Chat Completions server, through every API: each client sees an answer of its own API, or an error."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import attrs
import httpx
import pytest
from tests.core.engines.openai.test_odd_streams import CALLS, ERRORS, HELLOS, USAGES, chunk, sse

from smg_core import Config, Gateway
from smg_core.sse import SseReader
from smg_core.workers.settings import BreakerConfig, WorkersConfig

pytestmark = pytest.mark.anyio

MODELS = b'{"object":"list","data":[{"id":"m","object":"model","max_model_len":4096}]}'


class OddServer:
    """Answers every request for a chat with `stream`, in two writes that part it at `cut`, and then closes the connection."""

    def __init__(self) -> None:
        self.stream, self.cut = b"", 0
        self.heard = b""  # the body of the last request

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
        length = [int(line.split(":")[1]) for line in head.split("\r\n") if line.startswith("content-length:")]
        self.heard = await reader.readexactly(sum(length))
        if head.startswith("get"):
            writer.write(
                b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\nconnection: close\r\n\r\n%b" % (len(MODELS), MODELS)
            )
        else:
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n")
            writer.write(self.stream[: self.cut])
            await writer.drain()
            writer.write(self.stream[self.cut :])
        writer.close()
        await writer.wait_closed()


@attrs.frozen
class Api:
    """How an API is asked, and where the text of its whole answer and of its stream is."""

    path: str
    body: dict[str, Any]
    text: Callable[[Any], str]
    piece: Callable[[Any], str]
    streams_at: str = ""


def _content(found: Any) -> str:
    return "".join(part.get("text", "") for part in found)


APIS = {
    "Chat Completions": Api(
        "/v1/chat/completions",
        {"model": "m", "messages": [{"role": "user", "content": "Hi"}]},
        lambda body: body["choices"][0]["message"]["content"],
        lambda event: "".join(each["delta"].get("content") or "" for each in event.get("choices", ())),
    ),
    "Messages": Api(
        "/v1/messages",
        {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]},
        lambda body: _content(body["content"]),
        lambda event: event.get("delta", {}).get("text") or "",
    ),
    "Responses": Api(
        "/v1/responses",
        {"model": "m", "input": "Hi", "store": False},
        lambda body: "".join(_content(each["content"]) for each in body["output"] if each["type"] == "message"),
        lambda event: event["delta"] if event["type"] == "response.output_text.delta" else "",
    ),
    "generateContent": Api(
        "/v1beta/models/m:generateContent",
        {"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]},
        lambda body: _content(body["candidates"][0]["content"]["parts"]),
        lambda event: "".join(_content(each.get("content", {}).get("parts", ())) for each in event["candidates"]),
        "/v1beta/models/m:streamGenerateContent?alt=sse",
    ),
    "Interactions": Api(
        "/v1beta/interactions",
        {"model": "m", "input": "Hi", "store": False},
        lambda body: _content(body["outputs"]),
        lambda event: event.get("delta", {}).get("text") or "",
    ),
}


@pytest.fixture(scope="module")
async def house() -> AsyncIterator[tuple[httpx.AsyncClient, OddServer]]:
    odd = OddServer()
    server = await asyncio.start_server(odd.serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    config = Config(workers=WorkersConfig(health_interval_s=3600.0), breaker=BreakerConfig(failures=0))
    async with Gateway([f"http://127.0.0.1:{port}"], config=config) as gateway:
        await gateway.ready()
        async with gateway.http_client(httpx, base_url="http://gateway", timeout=60) as http:
            yield http, odd
    server.close()


async def said(http: httpx.AsyncClient, api: Api, *, stream: bool) -> tuple[int, str, str]:
    """Status, text and body of one answer."""
    path = (api.streams_at or api.path) if stream else api.path
    body = {**api.body, "stream": True} if stream and not api.streams_at else api.body
    answer = await http.post(path, json=body)
    if answer.status_code != 200:
        return answer.status_code, "", answer.text
    if not stream:
        return 200, api.text(answer.json()), answer.text
    events = [each.data for each in SseReader().feed(answer.content) if each.data != "[DONE]"]
    pieces = [json.loads(each) for each in events]
    return 200, "".join(api.piece(each) for each in pieces if "error" not in each), answer.text


@pytest.mark.full
@pytest.mark.sampled(keep=2)
@pytest.mark.parametrize("name", APIS)
@pytest.mark.parametrize("stream", [True, False])
async def test_every_way_to_say_hello_is_told_in_every_api(
    house: tuple[httpx.AsyncClient, OddServer], name: str, stream: bool
) -> None:
    http, odd = house
    for case, data in {**HELLOS, **USAGES}.items():
        for cut in (0, len(data) // 3, len(data) - 1):
            odd.stream, odd.cut = data, cut
            status, text, body = await said(http, APIS[name], stream=stream)
            assert (status, text) == (200, "Hello"), (case, cut, body)


@pytest.mark.parametrize("name", APIS)
@pytest.mark.parametrize("stream", [True, False])
async def test_every_way_to_call_a_tool_is_told_in_every_api(
    house: tuple[httpx.AsyncClient, OddServer], name: str, stream: bool
) -> None:
    http, odd = house
    for case, data in CALLS.items():
        odd.stream, odd.cut = data, len(data) // 2
        status, _, body = await said(http, APIS[name], stream=stream)
        assert status == 200, (case, body)
        assert "get_weather" in body, case
        assert "Paris" in body, case


@pytest.mark.sampled(keep=4)
@pytest.mark.parametrize("name", APIS)
@pytest.mark.parametrize("stream", [True, False])
async def test_what_is_no_answer_is_an_error_in_every_api(
    house: tuple[httpx.AsyncClient, OddServer], name: str, stream: bool
) -> None:
    http, odd = house
    for case, (data, _) in ERRORS.items():
        odd.stream, odd.cut = data, len(data) // 2
        status, text, body = await said(http, APIS[name], stream=stream)
        assert status >= 400 or (stream and text in ("", "Hello")), (case, body)
        assert "error" in body, case


@pytest.mark.sampled(per=("name",))
@pytest.mark.parametrize("name", APIS)
@pytest.mark.parametrize("stream", [True, False])
async def test_a_choice_that_ends_with_an_error_is_an_engine_that_failed(
    house: tuple[httpx.AsyncClient, OddServer], name: str, stream: bool
) -> None:
    http, odd = house
    odd.stream, odd.cut = sse(chunk({"content": "Hello"}), chunk({}, "error")), 0

    status, text, body = await said(http, APIS[name], stream=stream)

    assert (status, text) == (500, "") or (stream and (status, text) == (200, "Hello"))  # as much as had come
    assert "The engine failed while generating." in body


@pytest.mark.sampled(per=("name",))
@pytest.mark.parametrize("name", APIS)
@pytest.mark.parametrize("stream", [True, False])
async def test_a_choice_that_ends_in_a_new_word_has_ended_well(
    house: tuple[httpx.AsyncClient, OddServer], name: str, stream: bool
) -> None:
    http, odd = house
    odd.stream, odd.cut = sse(chunk({"content": "Hello"}), chunk({}, "tired")), 0

    status, text, body = await said(http, APIS[name], stream=stream)

    assert (status, text) == (200, "Hello"), body


async def test_a_server_of_chat_completions_is_sent_the_clients_own_bytes(
    house: tuple[httpx.AsyncClient, OddServer],
) -> None:
    http, odd = house
    odd.stream = next(iter(HELLOS.values()))
    messages = b'[ {"content" : "caf\\u00e9" ,"role": "user"} ]'
    json_type = {"content-type": "application/json"}
    whole = (
        b'{"stream":true, "model":"m","temperature":7E-1,"stream_options":{"include_usage":true},"messages":%b}'
        % messages
    )

    assert (await http.post("/v1/chat/completions", content=whole, headers=json_type)).status_code == 200
    assert odd.heard == whole

    body = b'{"messages":%b,"temperature":7E-1,"model":"m"}' % messages
    assert (await http.post("/v1/chat/completions", content=body, headers=json_type)).status_code == 200
    assert odd.heard == (
        b'{"messages":%b,"temperature":7E-1,"model":"m","stream":true,"stream_options":{"include_usage":true}}'
        % messages
    )
