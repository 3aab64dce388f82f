"""What the heads of answers say of the request, in each API's own words: its id, and in OpenAI's APIs how long it took."""

import re
from typing import Any

import pytest
from tests.gateway.conftest import body, in_process

from smg_simulator.answers.faults import Fault

pytestmark = pytest.mark.anyio

OPENAI: dict[str, tuple[str, str, dict[str, Any] | None, int]] = {
    "chat": ("POST", "/v1/chat/completions", body(), 200),
    "a stream": ("POST", "/v1/chat/completions", body(stream=True), 200),
    "completions": ("POST", "/v1/completions", {"model": "sim", "prompt": "Hello"}, 200),
    "responses": ("POST", "/v1/responses", {"model": "sim", "input": "Hello"}, 200),
    "input tokens": ("POST", "/v1/responses/input_tokens", {"model": "sim", "input": "Hello"}, 200),
    "a stored response that is not there": ("GET", "/v1/responses/resp_1", None, 404),
    "models": ("GET", "/v1/models", None, 200),
    "files": ("GET", "/v1/files", None, 200),
    "batches": ("GET", "/v1/batches", None, 200),
    "vector stores": ("POST", "/v1/vector_stores", {}, 200),
    "conversations": ("POST", "/v1/conversations", {}, 200),
    "a refused request": ("POST", "/v1/chat/completions", {"model": "sim"}, 400),
    "no model": ("POST", "/v1/embeddings", {"model": "none", "input": "Hello"}, 404),
    "no route": ("GET", "/v1/nothing", None, 404),
    "no method": ("DELETE", "/v1/chat/completions", None, 405),
}
OTHERS: dict[str, tuple[str, str, dict[str, Any] | None]] = {
    "messages": ("POST", "/v1/messages", {"model": "sim", "max_tokens": 5, "messages": body()["messages"]}),
    "a refused message": ("POST", "/v1/messages", {"model": "sim"}),
    "generateContent": ("POST", "/v1beta/models/sim:generateContent", {"contents": [{"parts": [{"text": "Hello"}]}]}),
    "interactions": ("POST", "/v1/interactions", {"model": "sim", "input": "Hello"}),
    "health": ("GET", "/health", None),
}


@pytest.mark.full
@pytest.mark.sampled(keep=5)
@pytest.mark.parametrize("name", OPENAI)
async def test_answers_of_openais_apis_say_how_long_they_took(name: str) -> None:
    method, path, sent, status = OPENAI[name]
    async with in_process() as house:
        answer = await house.http.request(method, path, json=sent)
    assert answer.status_code == status, answer.text
    assert 0 <= int(answer.headers["openai-processing-ms"]) < 60_000
    assert answer.headers["openai-version"] == "2020-10-01"
    assert re.fullmatch(r"[a-z]+[_-][0-9a-f]+", answer.headers["x-request-id"])


@pytest.mark.full
@pytest.mark.parametrize("name", OTHERS)
async def test_answers_of_other_apis_say_nothing_in_openais_words(name: str) -> None:
    method, path, sent = OTHERS[name]
    async with in_process() as house:
        answer = await house.http.request(method, path, json=sent)
    assert not [each for each in answer.headers if each.startswith("openai-")]


async def test_an_id_that_belongs_to_no_object_has_one_form() -> None:
    async with in_process() as house:
        told = [
            (await house.http.get(path, headers=headers)).headers["x-request-id"]
            for path in ("/health", "/v1/models", "/v1/files", "/nothing", "/metrics")
            for headers in ({}, {"anthropic-version": "2023-06-01"})
        ]
    assert [each for each in told if not re.fullmatch(r"req_[0-9a-f]+", each)] == []


@pytest.mark.full
async def test_the_id_of_a_request_of_messages_has_one_form_wherever_it_is_told() -> None:
    asked = {"model": "sim", "max_tokens": 5, "messages": body()["messages"]}
    async with in_process() as house:
        for path, sent in (
            ("/v1/messages", asked),
            ("/v1/messages", {**asked, "stream": True}),
            ("/v1/messages", {**asked, "stream": True, "temperature": 1}),
            ("/v1/messages", {"model": "sim"}),
            ("/v1/messages", {**asked, "model": "none"}),
            ("/v1/messages/count_tokens", asked),
            ("/v1/messages/count_tokens", {"model": "sim"}),
            ("/v1/messages/batches", {}),
            ("/v1/messages/nothing", {}),
        ):
            for own in ({}, {"x-request-id": "mine"}):
                headers = {"anthropic-version": "2023-06-01", **own}
                if "temperature" in sent:
                    house.engine.inject(Fault("error", after=2))  # an error in the stream
                answer = await house.http.post(path, json=sent, headers=headers)
                named = answer.headers["request-id"]
                assert re.fullmatch(r"req_[0-9a-f]+", named), (path, sent, named)
                assert answer.headers["x-request-id"] == own.get("x-request-id", named)
                said = re.findall(r'"request_id":"([^"]*)"', answer.text)
                assert said == ([named] if "error" in answer.text else []), (path, sent, answer.text)
                assert re.findall(r'"id":"msg_([^"]*)"', answer.text) in ([], [named.removeprefix("req_")])
