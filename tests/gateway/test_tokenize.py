"""tokenize and detokenize: the ids are those of the prompt that an engine would be sent."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.gateway.conftest import House, in_process, over_http

from smg_core import Gateway

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
