"""What of prompts and answers stands in a span: within its bound, as valid JSON, whatever the texts hold."""

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from smg_core.events import Finished, ReasoningDelta, TextDelta, ToolCallDelta, ToolCallStart
from smg_core.observability.tracing.content import TracedContent
from smg_core.request import (
    GenerationRequest,
    Image,
    MediaSource,
    Message,
    Part,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
)

TEXTS = st.text(st.characters(), max_size=200)  # halves of surrogate pairs too
PARTS: st.SearchStrategy[Part] = st.one_of(
    st.builds(Text, TEXTS),
    st.builds(Reasoning, TEXTS),
    st.builds(ToolCall, TEXTS, TEXTS, TEXTS),
    st.builds(lambda id, text: ToolResult(id, (Text(text),)), TEXTS, TEXTS),
    st.just(Image(MediaSource(url="https://example.com/secret.png"))),
)
ROLES: Any = st.sampled_from(["system", "user", "assistant", "tool"])
MESSAGES = st.lists(st.builds(lambda role, parts: Message(role, tuple(parts)), ROLES, st.lists(PARTS, max_size=5)))


def asked(*messages: Message, most: int = 100, **fields: Any) -> Any:
    content = TracedContent(most)
    content.asked(GenerationRequest("r", "m", messages, **fields))
    return json.loads(content.inputs)


def test_the_last_messages_of_a_prompt_are_kept_in_order() -> None:
    told = asked(Message("system", (Text("s" * 90),)), Message("user", (Text("u" * 50),)), most=60)

    assert told == [
        {"role": "system", "parts": [{"type": "text", "content": "..." + "s" * 10}]},
        {"role": "user", "parts": [{"type": "text", "content": "u" * 50}]},
    ]


def test_media_and_hidden_reasoning_are_only_named() -> None:
    hidden = Reasoning("private", visible=False)
    told = asked(Message("user", (Image(MediaSource(url="https://example.com/secret.png")), hidden)))

    assert told == [{"role": "user", "parts": [{"type": "image"}, {"type": "reasoning"}]}]


@pytest.mark.parametrize(("prompt", "text"), [("x" * 200, "..." + "x" * 100), ([1, 2, 3], "3 token ids")])
def test_a_prompt_without_messages_is_one(prompt: Any, text: str) -> None:
    assert asked(prompt=prompt) == [{"role": "user", "parts": [{"type": "text", "content": text}]}]


@given(MESSAGES, st.integers(1, 400))
@example([Message("system", (ToolCall("", "000", "000"),))], 3)
def test_a_prompt_is_within_its_bound(messages: list[Message], most: int) -> None:
    content = TracedContent(most)
    content.asked(GenerationRequest("r", "m", tuple(messages)))
    texts = [
        each.get(name, "")
        for message in json.loads(content.inputs)
        for each in message["parts"]
        for name in ("content", "arguments", "response", "name")
    ]

    assert sum(len(text.removeprefix("...")) for text in texts) <= most + sum(len(text) <= 1 for text in texts)
    content.inputs.encode()


@given(st.lists(st.tuples(st.integers(0, 2), TEXTS)), st.integers(1, 400))
def test_an_answer_is_within_its_bound(texts: list[tuple[int, str]], most: int) -> None:
    content = TracedContent(most)
    for index, text in texts:
        content.take([TextDelta(index, text)])
    told = json.loads(content.outputs) if texts else []
    kept = [part["content"] for message in told for part in message["parts"]]

    assert sum(len(text.removesuffix("...")) for text in kept) <= most


def test_each_choice_is_a_message_with_its_reasoning_calls_and_end() -> None:
    content = TracedContent(1000)
    content.take([ReasoningDelta(0, "hm"), TextDelta(0, "Yes"), TextDelta(1, "No")])
    content.take([ToolCallStart(0, 0, "call_1", "f"), ToolCallDelta(0, 0, '{"a":'), ToolCallDelta(0, 0, "1}")])
    content.take([Finished(0, "tool_calls"), Finished(1, "stop")])

    assert json.loads(content.outputs) == [
        {
            "role": "assistant",
            "parts": [
                {"type": "reasoning", "content": "hm"},
                {"type": "text", "content": "Yes"},
                {"type": "tool_call", "id": "call_1", "name": "f", "arguments": '{"a":1}'},
            ],
            "finish_reason": "tool_calls",
        },
        {"role": "assistant", "parts": [{"type": "text", "content": "No"}], "finish_reason": "stop"},
    ]
