"""tokenize and detokenize: the ids are those of the prompt that an engine would be sent."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.gateway.conftest import House, eventually, in_process, over_http

from smg_core import Config, Gateway
from smg_core.tokenizer.settings import TokenizerConfig
from smg_core.wire.settings import LimitsConfig
from smg_simulator.engine.model_folder import MODEL_FOLDER

pytestmark = pytest.mark.anyio

MESSAGES: list[dict[str, Any]] = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": [{"type": "text", "text": "Grüße <|im_end|> 🙂"}]},
]
TOOL: dict[str, Any] = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}


@pytest.fixture(scope="module")
async def house() -> AsyncIterator[House]:
    async with in_process() as made:
        yield made


async def tokenized(house: House, **body: Any) -> dict[str, Any]:
    answer = await house.http.post("/tokenize", json={"model": "sim", **body})
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


@pytest.mark.parametrize("more", [{}, {"tools": [TOOL]}, {"chat_template_kwargs": {"enable_thinking": False}}])
async def test_messages_have_as_many_tokens_as_their_answer_says(house: House, more: dict[str, Any]) -> None:
    found = await tokenized(house, messages=MESSAGES, **more)
    answered = await house.http.post(
        "/v1/chat/completions", json={"model": "sim", "messages": MESSAGES, "max_tokens": 1, **more}
    )

    assert found["count"] == len(found["tokens"]) == answered.json()["usage"]["prompt_tokens"]
    assert found["max_model_len"] == house.gateway.models["sim"].context_length


async def test_a_text_comes_back_from_its_ids(house: House) -> None:
    found = await tokenized(house, prompt="Grüße 🙂 aus", return_token_strs=True)
    back = await house.http.post("/v1/detokenize", json={"model": "sim", "tokens": found["tokens"]})

    assert back.json() == {"prompt": "Grüße 🙂 aus", "text": "Grüße 🙂 aus"}
    assert len(found["token_strs"]) == found["count"]


async def test_several_texts_give_several_lists_and_the_only_model_needs_no_name(house: House) -> None:
    answer = await house.http.post("/v1/tokenize", json={"prompt": ["One two", "Three"]})
    found = answer.json()
    back = await house.http.post("/detokenize", json={"tokens": found["tokens"]})

    assert found["count"] == [len(each) for each in found["tokens"]]
    assert back.json()["text"] == ["One two", "Three"]


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        ("/tokenize", {}, "prompt"),
        ("/tokenize", {"prompt": "a", "messages": MESSAGES}, "messages"),
        ("/tokenize", {"prompt": []}, "prompt"),
        ("/tokenize", {"prompt": ""}, "prompt"),
        ("/tokenize", {"messages": []}, "messages"),
        ("/tokenize", {"messages": MESSAGES, "add_special_tokens": True}, "add_special_tokens"),
        ("/tokenize", {"messages": MESSAGES, "nonsense": 1}, "nonsense"),
        ("/tokenize", {"prompt": "a", "model": "nobody"}, "model"),
        ("/detokenize", {"tokens": []}, "tokens"),
        ("/detokenize", {"tokens": [10**8]}, "tokens"),
        ("/detokenize", {"tokens": [[1], [10**8]]}, "tokens[1]"),
        ("/detokenize", {"tokens": [1, [2]]}, "tokens"),
        ("/detokenize", {"tokens": [1], "model": "nobody"}, "model"),
    ],
)
async def test_a_refusal_names_the_field(house: House, path: str, body: dict[str, Any], param: str) -> None:
    answer = await house.http.post(path, json=body)

    assert answer.status_code in (400, 404), answer.text
    assert answer.json()["error"]["param"] == param


async def test_engines_that_encode_themselves_are_not_asked() -> None:
    async with (
        over_http() as far,
        Gateway([far.url]) as gateway,
        gateway.http_client(base_url="http://gateway") as http,
    ):
        for path, body in (("/tokenize", {"prompt": "a"}), ("/detokenize", {"tokens": [1]})):
            answer = await http.post(path, json={"model": "sim", **body})
            assert (answer.status_code, answer.json()["error"]["param"]) in [(400, "model"), (400, "prompt")]
        for path, body in COUNTING.items():
            answer = await http.post(path, json=body)
            assert answer.status_code == 400, answer.text
            assert "tokenizer.path, --tokenizer" in answer.json()["error"]["message"]


async def test_the_tokenizer_that_a_refused_count_names_lets_such_engines_prompts_be_counted() -> None:
    config = Config(tokenizer=TokenizerConfig(path=str(MODEL_FOLDER)))
    async with (
        over_http() as far,
        Gateway([far.url], config=config) as gateway,
        gateway.http_client(base_url="http://gateway") as http,
    ):
        for path, body in COUNTING.items():
            answer = await http.post(path, json=body)
            assert answer.status_code == 200, answer.text


WORDS = [{"role": "user", "content": "How many?"}]
COUNTING: dict[str, dict[str, Any]] = {
    "/tokenize": {"model": "sim", "messages": WORDS},
    "/v1/messages/count_tokens": {"model": "sim", "messages": WORDS},
    "/v1/responses/input_tokens": {"model": "sim", "input": "How many?"},
    "/v1/models/sim:countTokens": {"contents": [{"role": "user", "parts": [{"text": "How many?"}]}]},
}


@pytest.mark.parametrize("path", COUNTING)
async def test_a_count_is_a_request_in_flight_and_is_given_up_with_its_client(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with in_process(config=Config(limits=LimitsConfig(concurrent_requests=1))) as house:
        preparing = house.gateway.services.running.performers.preparing
        begun = asyncio.Event()

        async def waits(*_: object) -> None:
            begun.set()
            await asyncio.Event().wait()

        with monkeypatch.context() as patched:
            patched.setattr(type(preparing), "prepare", waits)
            asked = asyncio.ensure_future(house.http.post(path, json=COUNTING[path]))
            await begun.wait()
            second = await house.http.post(path, json=COUNTING[path])
            assert house.gateway.in_flight == 1
            asked.cancel()
            await eventually(lambda: not house.gateway.in_flight)
        third = await house.http.post(path, json=COUNTING[path])

        assert second.status_code in (503, 529)
        assert "retry-after" in second.headers
        assert third.status_code == 200


@pytest.mark.full
@pytest.mark.sampled(keep=2)
@pytest.mark.parametrize("path", COUNTING)
async def test_a_count_that_a_shutdown_ends_is_told_so(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with in_process() as house:
        preparing = house.gateway.services.running.performers.preparing

        async def is_ended(*_: object) -> None:
            house.gateway.drain()
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
            await asyncio.Event().wait()

        with monkeypatch.context() as patched:
            patched.setattr(type(preparing), "prepare", is_ended)
            answer = await house.http.post(path, json=COUNTING[path])

        assert answer.status_code in (503, 529)
        assert answer.headers["connection"] == "close"
        assert "shutting down" in answer.text
        assert house.gateway.in_flight == 0
