"""A level of effort over the wire, in every API: what holds the thought, and what the object says is in effect."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.gateway.conftest import in_process

from smg_core.config.config import Config
from smg_core.hooks import RequestFinished
from smg_core.http.settings import ModelConfig
from smg_core.tokenizer.settings import TokenizerConfig
from smg_simulator.answers.replies import Reply
from smg_simulator.engine.engine import SimulatorConfig

pytestmark = pytest.mark.anyio

TURNS = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}<|im_start|>assistant\n"
)
ALWAYS = "{# [THINK] <think> #}" + TURNS
SWITCHED = TURNS + "{% if enable_thinking %}<think>\n{% endif %}"
HELLO = [{"role": "user", "content": "Hello"}]
GENERATION = {"thinkingConfig": {"thinkingLevel": "LOW", "includeThoughts": True}, "maxOutputTokens": 40}
ASKED: Mapping[str, tuple[str, dict[str, Any]]] = {
    "chat": ("/v1/chat/completions", {"messages": HELLO, "reasoning_effort": "low", "max_tokens": 40}),
    "responses": ("/v1/responses", {"input": "Hello", "reasoning": {"effort": "low"}, "max_output_tokens": 40}),
    "messages": ("/v1/messages", {"messages": HELLO, "output_config": {"effort": "low"}, "max_tokens": 40}),
    "generate_content": (
        "/v1beta/models/sim:generateContent",
        {"contents": [{"parts": [{"text": "Hello"}]}], "generationConfig": GENERATION},
    ),
    "interactions": (
        "/v1/interactions",
        {"input": "Hello", "generation_config": {"thinking_level": "low", "max_output_tokens": 40}},
    ),
}
THOUGHT = "word " * 200


def config(folder: Path, family: str, template: str) -> Config:
    file = folder / "template.jinja"
    file.write_text(template)
    return Config(model=ModelConfig(parser=family), tokenizer=TokenizerConfig(chat_template=str(file)))


@pytest.mark.parametrize(
    ("family", "marks"), [("qwen3", ("<think>", "</think>")), ("magistral", ("[THINK]", "[/THINK]"))]
)
async def test_a_thought_is_held_to_the_tokens_that_its_level_stands_for(
    family: str, marks: tuple[str, str], tmp_path: Path
) -> None:
    replies = (Reply(f"{marks[0]}{THOUGHT}{marks[1]}"), Reply("The answer.")) * len(ASKED)
    async with in_process(SimulatorConfig(replies=replies), config=config(tmp_path, family, ALWAYS)) as house:
        for path, body in ASKED.values():
            answer = await house.http.post(path, json={"model": "sim", **body})
            assert answer.status_code == 200, answer.text
            assert "The answer." in answer.text
        told = {each.api: each.reasoning_tokens for each in house.observer.of(RequestFinished)}
    assert len(told) == len(ASKED)
    assert all(20 <= tokens < 30 for tokens in told.values()), told  # half of the answer's tokens, and the marks


OFF: Mapping[str, tuple[str, dict[str, Any]]] = {
    "chat": ("/v1/chat/completions", {"messages": HELLO, "enable_thinking": False, "max_tokens": 40}),
    "responses": ("/v1/responses", {"input": "Hello", "reasoning": {"effort": "none"}, "max_output_tokens": 40}),
    "messages": ("/v1/messages", {"messages": HELLO, "thinking": {"type": "disabled"}, "max_tokens": 40}),
    "generate_content": (
        "/v1beta/models/sim:generateContent",
        {
            "contents": [{"parts": [{"text": "Hello"}]}],
            "generationConfig": {"thinkingConfig": {"thinkingBudget": 0}, "maxOutputTokens": 40},
        },
    ),
}


@pytest.mark.full
@pytest.mark.parametrize("family", ["qwen3", "deepseek_r1"])
async def test_off_closes_the_thought_of_a_model_that_always_thinks(family: str, tmp_path: Path) -> None:
    replies = (Reply(f"<think>{THOUGHT}</think>"), Reply("The answer.")) * len(OFF)
    async with in_process(SimulatorConfig(replies=replies), config=config(tmp_path, family, ALWAYS)) as house:
        for path, body in OFF.values():
            answer = await house.http.post(path, json={"model": "sim", **body})
            assert "The answer." in answer.text, answer.text
        told = {each.api: each.reasoning_tokens for each in house.observer.of(RequestFinished)}
    assert len(told) == len(OFF)
    assert all(tokens < 5 for tokens in told.values()), told


async def test_a_level_switches_a_model_that_has_a_switch_only(tmp_path: Path) -> None:
    async with in_process(SimulatorConfig(), config=config(tmp_path, "qwen3", SWITCHED)) as house:
        for path, body in ASKED.values():
            assert (await house.http.post(path, json={"model": "sim", **body})).status_code == 200
        prompts = [house.engine.engine.vocabulary.decode(each.input_ids) for each in house.engine.requests]
    assert sum(prompt.endswith("<think>\n") for prompt in prompts) == len(ASKED)


@pytest.mark.sampled(keep=4)
@pytest.mark.parametrize(
    ("asked", "template", "told"),
    [
        ("low", ALWAYS, "low"),
        ("minimal", SWITCHED, "none"),
        ("xhigh", "{{ reasoning_effort }}" + TURNS, "high"),
        ("high", TURNS, "high"),
        (None, ALWAYS, None),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
async def test_a_response_says_what_is_in_effect(
    asked: str | None, template: str, told: str | None, stream: bool, tmp_path: Path
) -> None:
    body: dict[str, Any] = {"model": "sim", "input": "Hello", "stream": stream, "reasoning": {"effort": asked}}
    async with in_process(SimulatorConfig(), config=config(tmp_path, "qwen3", template)) as house:
        text = (await house.http.post("/v1/responses", json=body)).text
    effort = "null" if told is None else f'"{told}"'
    said = [f'"reasoning":{{"effort":{effort},', '"temperature":0.7,', '"top_p":0.9,']  # those of the model's own file
    assert [text.count(each) for each in said] == [3 if stream else 1] * 3


async def test_an_interaction_echoes_the_level_in_effect_and_the_models_own_temperature(tmp_path: Path) -> None:
    told = []
    async with in_process(SimulatorConfig(), config=config(tmp_path, "qwen3", ALWAYS)) as house:
        for sent in ({"thinking_level": "low"}, {"temperature": 0.1}):
            body = {"model": "sim", "input": "Hello", "generation_config": sent}
            told.append((await house.http.post("/v1/interactions", json=body)).json()["generation_config"])
    assert told == [{"thinking_level": "low", "temperature": 0.7, "top_p": 0.9}, {"temperature": 0.1, "top_p": 0.9}]


async def test_a_family_that_does_not_reason_takes_every_level_and_does_nothing(tmp_path: Path) -> None:
    async with in_process(SimulatorConfig(), config=config(tmp_path, "qwen25", TURNS)) as house:
        for path, body in ASKED.values():
            answer = await house.http.post(path, json={"model": "sim", **body})
            assert answer.status_code == 200, answer.text
            assert '"low"' not in answer.text
        prompts = {house.engine.engine.vocabulary.decode(each.input_ids) for each in house.engine.requests}
    assert prompts == {"<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant"}
