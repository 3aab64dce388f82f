"""A request for generation as a Chat Completions body: what Chat can say is said and read back, the rest is refused by name."""

import json
from typing import Any

import pytest
from hypothesis import given
from msgspec import Struct
from msgspec.structs import fields, replace
from tests.core.engines.openai.requests import chat_requests

from smg_core import request as vocabulary
from smg_core.apis.chat.decode import decode_chat
from smg_core.engines.openai.body import write_body
from smg_core.engines.openai.fields import NOT_SENT, WRITTEN
from smg_core.errors import UnsupportedParameter
from smg_core.origin import Origin
from smg_core.request import (
    Audio,
    CustomTool,
    File,
    FunctionTool,
    GenerationRequest,
    HostedTool,
    Image,
    MediaSource,
    Message,
    Opaque,
    Reasoning,
    ReasoningSettings,
    RegexFormat,
    Sampling,
    Text,
    ToolCall,
    ToolChoice,
    ToolKey,
    ToolResult,
    Video,
)
from smg_core.wire.base import Incoming

HELLO = (Message("user", (Text("Hello"),), None, True),)


def asked(**fields: Any) -> GenerationRequest:
    return GenerationRequest(id="1", model="m", **{"messages": HELLO, **fields})


def written(request: GenerationRequest, **options: Any) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(write_body(request, **options))
    return body


@pytest.mark.full
@given(chat_requests())
def test_what_chat_can_say_is_read_back_as_the_same_request(request: GenerationRequest) -> None:
    read = decode_chat(Incoming(write_body(request), request_id="chatcmpl-1"))

    assert replace(read.generation, size=0) == request
    assert read.include_usage


def test_a_plain_request_is_written_in_few_words() -> None:
    assert written(asked()) == {
        "model": "m",
        "messages": [{"role": "user", "content": "Hello"}],
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def test_the_server_is_asked_by_its_own_name_of_the_model() -> None:
    assert written(asked(), model="org/served")["model"] == "org/served"


def test_the_answer_is_always_a_stream() -> None:
    assert written(asked(stream=False))["stream"] is True


def test_headers_of_the_client_are_not_for_the_engine() -> None:
    assert b"secret" not in write_body(asked(headers={"authorization": "secret"}))


def test_results_of_one_turn_become_a_message_each_and_its_text_another() -> None:
    turn = Message("user", (ToolResult("a", (Text("1"),)), ToolResult("b", (Text("2"),)), Text("go on")))

    assert written(asked(messages=(turn,)))["messages"] == [
        {"role": "tool", "tool_call_id": "a", "content": [{"type": "text", "text": "1"}]},
        {"role": "tool", "tool_call_id": "b", "content": [{"type": "text", "text": "2"}]},
        {"role": "user", "content": [{"type": "text", "text": "go on"}]},
    ]


def test_what_an_assistant_said_behind_a_call_keeps_its_place() -> None:
    call, again = ToolCall("a", "f", "{}"), ToolCall("b", "f", "{}")
    parts = (Text("one"), call, Reasoning("hm"), Text("two"), Reasoning(""), again)
    first, second = written(asked(messages=(*HELLO, Message("assistant", parts))))["messages"][1:]

    assert (first["content"][0]["text"], [each["id"] for each in first["tool_calls"]]) == ("one", ["a"])
    assert (second["reasoning_content"], second["content"]) == ("hm", [{"type": "text", "text": "two"}])
    assert [each["id"] for each in second["tool_calls"]] == ["b"]


def test_reasoning_that_was_left_out_leaves_nothing() -> None:
    turn = Message("assistant", (Reasoning(""), Text("one")))

    assert written(asked(messages=(*HELLO, turn)), extras=False)["messages"][1] == {
        "role": "assistant",
        "content": [{"type": "text", "text": "one"}],
    }


@pytest.mark.parametrize(
    ("reasoning", "effort"),
    [
        (ReasoningSettings(), None),
        (ReasoningSettings(enabled=True, adaptive=True), None),
        (ReasoningSettings(enabled=True, adaptive=True, effort="high"), "high"),
        (ReasoningSettings(enabled=True), "medium"),
        (ReasoningSettings(enabled=False), "none"),
        (ReasoningSettings(enabled=False, effort="high"), "none"),
        (ReasoningSettings(enabled=True, budget_tokens=1), "minimal"),
        (ReasoningSettings(enabled=True, budget_tokens=1024), "low"),
        (ReasoningSettings(enabled=True, budget_tokens=16383), "medium"),
        (ReasoningSettings(enabled=True, budget_tokens=16384), "high"),
        (ReasoningSettings(enabled=True, budget_tokens=31999), "high"),
        (ReasoningSettings(enabled=True, budget_tokens=64000), "xhigh"),
        (ReasoningSettings(budget_tokens=-1), None),
    ],
)
@pytest.mark.parametrize("api", ["messages", "generate_content"])
def test_thinking_is_a_word_of_effort_to_a_server_that_has_no_other(
    api: str, reasoning: ReasoningSettings, effort: str | None
) -> None:
    body = written(asked(reasoning=reasoning, origin=Origin(api)), extras=False)
    assert (body.get("reasoning_effort"), "enable_thinking" in body, "thinking_token_budget" in body) == (
        effort,
        False,
        False,
    )


def test_bytes_become_a_data_url_of_their_type() -> None:
    parts = (
        Image(MediaSource(data=b"\0\0\0", media_type="image/webp")),
        Audio(MediaSource(data=b"\0\0\0"), "mp3"),
    )

    assert written(asked(messages=(Message("user", parts),)))["messages"][0]["content"] == [
        {"type": "image_url", "image_url": {"url": "data:image/webp;base64,AAAA"}},
        {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "mp3"}},
    ]


def test_a_final_message_to_be_continued_opens_no_new_turn() -> None:
    body = written(asked(continue_final_message=True))

    assert (body["continue_final_message"], body["add_generation_prompt"]) == (True, False)


# ------------------------------------------------------------------------------------------------------------ refusals


def said(*parts: Any, role: Any = "user") -> dict[str, Any]:
    return {"messages": (*HELLO, Message(role, parts))}


REFUSED = [
    ({"messages": (), "prompt": "once upon"}, "prompt"),
    ({"truncation": "auto"}, "truncation"),
    ({"generate": False}, "generate"),
    ({"sampling": Sampling(echo=True)}, "sampling.echo"),
    ({"sampling": Sampling(prompt_logprobs=1)}, "sampling.prompt_logprobs"),
    ({"tools": (FunctionTool("f"), HostedTool("web_search"))}, "tools[1]"),
    ({"tools": (CustomTool("c", None, "lark"),)}, "tools[0].grammar"),
    ({"tools": (FunctionTool("f", namespace="files"),)}, "tools[0].namespace"),
    ({"tools": (FunctionTool("f"),), "tool_choice": ToolChoice("required", (ToolKey("g"),))}, "tool_choice.names[0]"),
    ({"tools": (FunctionTool("f"),), "tool_choice": ToolChoice("none", (ToolKey("f"),))}, "tool_choice.names"),
    ({"extra": {"messages[0].color": 1}}, "extra.messages[0].color"),
    ({"extra": {"model": "other"}}, "extra.model"),
    (said(Image(MediaSource(url="file:///etc/passwd"))), "messages[1].parts[0].source.url"),
    (said(Text("a"), Image(MediaSource(file_id="f-1"))), "messages[1].parts[1].source.file_id"),
    (said(Video(MediaSource(file_id="f-1"))), "messages[1].parts[0].source.file_id"),
    (said(File(MediaSource(url="https://a.example/x.pdf"))), "messages[1].parts[0].source.url"),
    (said(Audio(MediaSource(url="https://a.example/x"), "wav")), "messages[1].parts[0].format"),
    (said(Video(MediaSource(url="https://a.example/x", fps=2))), "messages[1].parts[0].source.fps"),
    (said(File(MediaSource(text="plain"))), "messages[1].parts[0].source.text"),
    (said(Reasoning("", seal=b"x"), role="assistant"), "messages[1].parts[0].seal"),
    (said(Image(MediaSource(url="https://a.example/x")), role="system"), "messages[1].parts[0]"),
    (said(ToolCall("1", "f", "{}")), "messages[1].parts[0]"),
    (said(Text("a"), Opaque("sealed", b""), role="assistant"), "messages[1].parts[1]"),
    (said(ToolResult("1", (Reasoning("a"),)), role="tool"), "messages[1].parts[0].content[0]"),
    (said(ToolResult("1", ()), Text("a"), role="tool"), "messages[1].parts[1]"),
    (said(role="tool"), "messages[1].parts"),
]


@pytest.mark.parametrize(("fields", "param"), REFUSED, ids=[param for _, param in REFUSED])
def test_what_the_wire_cannot_say_is_refused_by_its_path(fields: dict[str, Any], param: str) -> None:
    with pytest.raises(UnsupportedParameter) as caught:
        write_body(asked(**fields))

    assert caught.value.param == param
    assert f"'{param}'" in caught.value.message


EXTRAS = [
    *(
        ({"sampling": Sampling(**{name: value})}, f"sampling.{name}")
        for name, value in [
            ("min_tokens", 1),
            ("top_k", 1),
            ("min_p", 0.5),
            ("repetition_penalty", 1.5),
            ("stop_token_ids", (1,)),
            ("include_stop", True),
            ("ignore_eos", True),
            ("skip_special_tokens", False),
        ]
    ),
    ({"reasoning": ReasoningSettings(enabled=True)}, "reasoning.enabled"),
    ({"reasoning": ReasoningSettings(budget_tokens=1)}, "reasoning.budget_tokens"),
    ({"response_format": RegexFormat("a")}, "response_format"),
    ({"template": "t"}, "template"),
    ({"template_arguments": {"depth": 1}}, "template_arguments.depth"),
    ({"documents": ({},)}, "documents"),
    ({"add_generation_prompt": False}, "add_generation_prompt"),
    ({"continue_final_message": True}, "continue_final_message"),
    ({"cache_salt": "s"}, "cache_salt"),
    ({"priority": 1}, "priority"),
    (said(Reasoning("a"), role="assistant"), "messages[1].parts[0]"),
    (said(ToolCall("1", "f", "{}"), Text("a"), role="assistant"), "messages[1].parts"),
    (said(Text("a"), Reasoning("a"), role="assistant"), "messages[1].parts[1]"),
    (said(Opaque("sealed", b""), role="assistant"), "messages[1].parts[0]"),
    (said(Video(MediaSource(url="https://a.example/x"))), "messages[1].parts[0]"),
    (said(Audio(MediaSource(url="https://a.example/x"))), "messages[1].parts[0]"),
]


@pytest.mark.parametrize(("fields", "param"), EXTRAS, ids=[param for _, param in EXTRAS])
def test_what_only_engines_know_is_refused_where_the_server_is_no_engine(fields: dict[str, Any], param: str) -> None:
    write_body(asked(**fields))
    with pytest.raises(UnsupportedParameter) as caught:
        write_body(asked(**fields), extras=False)

    assert caught.value.param == param


def test_a_server_of_openais_words_is_told_its_own_names() -> None:
    body = written(asked(sampling=Sampling(max_tokens=7), verbosity="low"), extras=False)

    assert (body["max_completion_tokens"], body["verbosity"]) == (7, "low")


def test_marks_for_caches_are_written_where_there_is_a_place_for_them() -> None:
    request = asked(
        messages=(Message("user", (Text("a", {"type": "ephemeral"}), Text("b", {"mode": "explicit"}))),),
        tools=(FunctionTool("f", cache={"type": "ephemeral"}),),
    )
    first, second = written(request)["messages"][0]["content"]

    assert first == {"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}
    assert second == {"type": "text", "text": "b", "prompt_cache_breakpoint": {"mode": "explicit"}}
    assert written(request, extras=False)["messages"][0]["content"][0] == {"type": "text", "text": "a"}


def test_every_field_in_the_tables_exists_and_every_other_has_a_default() -> None:
    """Fields that are in neither table are refused when they are set, which takes a default to tell."""
    for kind, names in WRITTEN.items():
        known = names | NOT_SENT.get(kind, frozenset())
        assert known <= set(kind.__struct_fields__), kind
        assert not any(field.required for field in fields(kind) if field.name not in known), kind


def test_every_record_of_a_request_is_in_the_table() -> None:
    records = {
        each
        for each in vars(vocabulary).values()
        if isinstance(each, type) and issubclass(each, Struct) and each is not Struct
    }
    without_fields = {"TextFormat", "JsonFormat"}
    of_one_field = {"RegexFormat", "GrammarFormat", "ChoiceFormat", "StructuralTagFormat"}
    never_written = {"HostedTool", "HistoryRef", "Caller", "Origin", "ToolKey", "CompactRequest", "ClearReasoning"}
    never_written |= {"ClearToolUses", "PoolRequest", "AskedCall", "Grants", "Transcription", "Speech"}
    never_written |= {"CitableSource", "Imaging"}

    assert {each.__name__ for each in records - set(WRITTEN)} == without_fields | of_one_field | never_written
    assert {len(each.__struct_fields__) for each in records if each.__name__ in of_one_field} == {1}
