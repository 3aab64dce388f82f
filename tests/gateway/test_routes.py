"""What the app does before a handler: whose envelope, which values, and whose request it is."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import attrs
import httpx
import pytest
from tests.gateway.conftest import CHAT, House, body, in_process

from smg_core.apis.chat.api import CHAT as CHAT_API
from smg_core.apis.chat.decode import ChatRequest, decode_chat
from smg_core.app.app import App
from smg_core.app.inprocess import async_client
from smg_core.auth.base import Head
from smg_core.errors import AuthenticationFailed
from smg_core.request import Caller
from smg_core.wire.base import Incoming

pytestmark = pytest.mark.anyio

OPENAI = {"message", "type", "param", "code"}
ANTHROPIC = {"type", "message"}
GEMINI = {"code", "message", "status"}


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def house() -> AsyncIterator[House]:
    async with in_process() as house:
        yield house


@asynccontextmanager
async def identified(house: House, identify: Any) -> AsyncIterator[httpx.AsyncClient]:
    """The same gateway behind an app that asks `identify` whose each request is."""
    async with async_client(App(house.gateway, identify), httpx, base_url="http://gateway") as http:
        yield http


async def known(head: Head) -> Caller:
    if head.headers.get("authorization") != "Bearer right":
        raise AuthenticationFailed("Wrong key.")
    return Caller("acme", "key-1")


@pytest.mark.parametrize(
    ("path", "headers", "fields"),
    [
        ("/v1/nothing", {}, OPENAI),
        ("/v1/messages", {}, ANTHROPIC),
        ("/v1/messages/batches", {"authorization": "Bearer x"}, ANTHROPIC),
        ("/v1beta/models", {}, GEMINI),
        ("/v1/models/sim:generateContent", {}, GEMINI),
        ("/v1/models", {"anthropic-version": "2023-06-01"}, ANTHROPIC),
        ("/v1/models", {"x-goog-api-key": "k"}, GEMINI),
        ("/v1/models?key=k", {}, GEMINI),
        ("/v1/models", {}, OPENAI),
    ],
)
async def test_what_is_not_there_is_refused_in_the_envelope_of_the_api_whose_path_it_is(
    house: House, path: str, headers: dict[str, str], fields: set[str]
) -> None:
    answer = await house.http.put(path, headers=headers)

    assert answer.status_code in (404, 405)
    assert set(answer.json()["error"]) == fields
    assert (answer.status_code == 405) == ("allow" in answer.headers)


@pytest.mark.full
async def test_every_route_answers_with_a_slash_behind_its_path_as_without(house: House) -> None:
    routes = App(house.gateway).routes
    for route in routes:
        path = re.sub(r"\{[a-z_]+(:path)?\}", "sim", route.pattern)
        sent = {"content": b"{}"} if route.method == "POST" else {}
        answers = [await house.http.request(route.method, path + slash, **sent) for slash in ("", "/" * (path != "/"))]
        assert answers[0].status_code == answers[1].status_code
        assert all("There is no" not in answer.text for answer in answers), path

    said = await house.http.post(f"{CHAT}/", json=body("Hello"))
    assert said.status_code == 200


async def test_a_fault_of_ours_is_told_in_that_envelope_too(house: House) -> None:
    async def broken(head: Head) -> Caller:
        raise RuntimeError("this is ours")

    async with identified(house, broken) as http:
        answer = await http.get("/v1/models", headers={"anthropic-version": "x"})

    assert answer.status_code == 500
    assert answer.json()["error"] == {"type": "api_error", "message": "The gateway failed on this request."}
    assert answer.json()["request_id"] == answer.headers["x-request-id"]


async def test_who_sends_a_request_is_asked_before_its_handler_and_not_for_probes(house: House) -> None:
    async with identified(house, known) as http:
        refused = [await http.post(CHAT, json=body()), await http.get("/v1/models")]
        right = await http.post(CHAT, json=body(), headers={"authorization": "Bearer right"})
        probes = [await http.get("/health"), await http.get("/liveness")]

    assert [answer.status_code for answer in refused] == [401, 401]
    assert refused[0].json()["error"]["code"] == "invalid_api_key"
    assert right.status_code == 200
    assert [answer.status_code for answer in probes] == [200, 200]


async def test_a_decoder_gets_the_caller_the_query_and_the_headers(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Incoming] = []

    def decode(incoming: Incoming) -> ChatRequest:
        seen.append(incoming)
        return decode_chat(incoming)

    monkeypatch.setattr("smg_core.apis.chat.api.CHAT", attrs.evolve(CHAT_API, decode=decode))
    async with identified(house, known) as http:
        answer = await http.post(CHAT + "?a=1&a=2", json=body(), headers={"authorization": "Bearer right"})

    (incoming,) = seen
    assert incoming.caller == Caller("acme", "key-1")
    assert incoming.query == {"a": ("1", "2")}
    assert incoming.headers["authorization"] == "Bearer right"
    assert incoming.request_id == answer.json()["id"]
    assert incoming.limits is house.gateway.services.live.limits


async def test_the_name_of_a_model_may_be_sent_encoded(house: House) -> None:
    whole = await house.http.get("/v1/models/%73im")
    lost = await house.http.get("/v1/models/org%2Fsim%3A8b")

    assert whole.json()["id"] == "sim"
    assert lost.status_code == 404
    assert "'org/sim:8b'" in lost.json()["error"]["message"]


async def test_the_head_of_an_answer_has_the_type_that_its_encoder_says(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("smg_core.apis.chat.encode.ChatStreamEncoder.content_type", "text/plain; a=stream")
    monkeypatch.setattr("smg_core.apis.chat.encode.ChatWholeEncoder.content_type", "text/plain; a=whole")
    types = [(await house.chat(stream=stream)).headers["content-type"] for stream in (True, False)]

    assert types == ["text/plain; a=stream", "text/plain; a=whole"]
