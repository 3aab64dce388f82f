"""Faults that translations are known to have, looked for at every provider: those of Chat Completions and of Bedrock too."""

import base64
import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.core.engines.vendors.samples import OBJECT, PICTURE, TOOL, called, talk, user, with_tools
from tests.providers.answers import claude_stream, gemini_stream, responses_stream
from tests.providers.bedrock_answers import converse_stream
from tests.providers.chat_answers import chat_stream

from smg_core.engines.settings import EnginesConfig
from smg_core.engines.vendors.anthropic.format import MessagesFormat
from smg_core.engines.vendors.bedrock.converse import ConverseFormat
from smg_core.engines.vendors.bedrock.invoke import InvokeMessagesFormat
from smg_core.engines.vendors.chat.format import ChatFormat
from smg_core.engines.vendors.chat.profiles import CHAT_PROFILES
from smg_core.engines.vendors.clouds.vertex import VertexFormat, VertexMessagesFormat
from smg_core.engines.vendors.failures import ProviderFailed, ProviderLimited, ProviderRefused, ProviderUnfunded
from smg_core.engines.vendors.gemini.format import GeminiFormat
from smg_core.engines.vendors.responses.format import ResponsesFormat
from smg_core.engines.vendors.wire_format import ProviderCall, WireFormat
from smg_core.errors import EngineGarbled, SmgError, UnsupportedParameter, WorkerBusy
from smg_core.events import Event, Finished, ReasoningDelta, ReasoningEnd, TextDelta, ToolCallStart, Usage
from smg_core.origin import Origin
from smg_core.request import (
    FunctionTool,
    GenerationRequest,
    HostedTool,
    Message,
    Reasoning,
    ReasoningSettings,
    Sampling,
    Text,
    ToolCall,
    ToolChoice,
    ToolKey,
    ToolResult,
)

CLAUDE = "us.anthropic.claude-opus-4-6-v1:0"
WIRES: dict[str, tuple[WireFormat, str]] = {
    "anthropic": (MessagesFormat(), "claude-opus-4-6"),
    "gemini": (GeminiFormat(), "gemini-3-pro"),
    "openai-responses": (ResponsesFormat(), "gpt-6-astra"),
    "bedrock": (ConverseFormat(), CLAUDE),
    "bedrock-anthropic": (InvokeMessagesFormat(), CLAUDE),
    "vertex": (VertexFormat(GeminiFormat()), "gemini-3-pro"),
    "vertex-anthropic": (VertexMessagesFormat(), "claude-opus-4-6"),
    **{name: (ChatFormat(profile), "vendor-model") for name, profile in CHAT_PROFILES.items()},
}
CHATS = tuple(CHAT_PROFILES)
OTHERS = tuple(name for name in CHATS if name not in ("azure", "openai-chat"))
"""Providers of Chat Completions that are not OpenAI's own."""
BETAS = frozenset({"interleaved-thinking-2025-05-14", "made-up-2099-01-01"})
Json = dict[str, Any]


def ask(kind: str, request: GenerationRequest) -> ProviderCall:
    wire, model = WIRES[kind]
    return wire.ask(request, model, EnginesConfig())


def body(kind: str, request: GenerationRequest) -> Json:
    found: Json = json.loads(ask(kind, request).body)
    return found


def read(kind: str, stream: bytes, request: GenerationRequest | None = None) -> tuple[list[Event], SmgError | None]:
    decoder = ask(kind, request or talk()).decoder
    assert decoder is not None
    events = [*decoder.feed(stream), *decoder.end()]
    return events, decoder.error


def strings(value: object, under: str) -> list[str]:
    """All strings that are the value of `under` anywhere."""
    if isinstance(value, list):
        return [found for each in value for found in strings(each, under)]
    if not isinstance(value, dict):
        return []
    own = [each for name, each in value.items() if name == under and isinstance(each, str)]
    return own + [found for each in value.values() for found in strings(each, under)]


# ------------------------------------------------------------------------------------------------------ what is written


@pytest.mark.parametrize("kind", CHATS)
def test_blank_text_beside_calls_is_no_text(kind: str) -> None:
    sent = body(kind, called(None, Text("\n")))["messages"][1]

    assert sent.get("content") is None
    assert len(sent["tool_calls"]) == 1


@pytest.mark.parametrize("kind", CHATS)
def test_a_call_and_its_result_have_one_id_of_a_length_that_is_taken(kind: str) -> None:
    request = talk(
        user(),
        Message("assistant", (ToolCall("x" * 90, "get_weather", "{}"), ToolCall("y" * 90, "get_weather", "{}"))),
        Message("tool", (ToolResult("x" * 90, (Text("one"),)),)),
        Message("tool", (ToolResult("y" * 90, (Text("two"),)),)),
        tools=(TOOL,),
    )
    asked, *results = body(kind, request)["messages"][1:]
    ids = [each["id"] for each in asked["tool_calls"]]

    assert [each["tool_call_id"] for each in results] == ids
    assert len(set(ids)) == 2
    assert all(len(each) <= 64 for each in ids)


@pytest.mark.parametrize("kind", OTHERS)
def test_a_tool_without_parameters_has_an_object(kind: str) -> None:
    sent = body(kind, with_tools(tools=(FunctionTool("now"),)))["tools"]

    assert sent[0]["function"]["parameters"] == {"type": "object", "properties": {}}


@pytest.mark.parametrize("kind", WIRES)
def test_a_choice_without_tools_is_not_sent(kind: str) -> None:
    sent = body(kind, talk(tool_choice=ToolChoice("none", parallel=False)))

    assert not {"tools", "tool_choice", "parallel_tool_calls", "toolConfig"} & set(sent)


@pytest.mark.parametrize("kind", WIRES)
def test_one_call_at_a_time_is_said_refused_or_named(kind: str) -> None:
    asked = with_tools(tool_choice=ToolChoice(parallel=False))
    if kind in ("deepseek", "together", "cohere"):
        with pytest.raises(UnsupportedParameter, match=r"tool_choice\.parallel"):
            ask(kind, asked)
        return

    call = ask(kind, asked)

    assert b"parallel" in call.body or "parallel_tool_calls" in call.losses


@pytest.mark.parametrize("kind", WIRES)
def test_zero_is_said(kind: str) -> None:
    sent = body(kind, talk(sampling=Sampling(temperature=0.0)))
    places = [sent, sent.get("generationConfig", {}), sent.get("inferenceConfig", {})]

    assert [each["temperature"] for each in places if "temperature" in each] in ([0.0], [1e-8])


@pytest.mark.parametrize("kind", WIRES)
def test_no_setting_is_filled_in(kind: str) -> None:
    sent = body(kind, talk())
    needed = {"model", "messages", "contents", "input", "max_tokens", "anthropic_version"}

    assert set(sent) <= needed | {"stream", "stream_options", "store", "include"}


@pytest.mark.parametrize("kind", WIRES)
def test_a_schema_is_sent_whole(kind: str) -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/A"}, "b": {"anyOf": [{"type": "string"}, {"type": "null"}]}},
        "$defs": {"A": {"type": "string", "enum": ["x"], "examples": ["x"]}},
        "additionalProperties": False,
    }

    sent = ask(kind, with_tools(tools=(FunctionTool("f", "F", schema),))).body

    assert json.dumps(schema, separators=(",", ":")).encode() in sent


@pytest.mark.parametrize("kind", WIRES)
def test_a_tool_that_a_server_runs_is_not_skipped(kind: str) -> None:
    with pytest.raises(UnsupportedParameter, match=r"tools\[1\]"):
        ask(kind, with_tools(tools=(TOOL, HostedTool("web_search"))))


@pytest.mark.parametrize("kind", WIRES)
def test_names_are_short_enough_and_mapped_back(kind: str) -> None:
    name = "get weather " * 12
    request = with_tools(tools=(FunctionTool(name, parameters=OBJECT),))
    sent = [each for each in strings(body(kind, request), "name") if each.startswith("get")]

    assert len(sent) == 1
    assert re.fullmatch(r"[a-zA-Z_][a-zA-Z0-9_-]{0,127}", sent[0])
    assert len(sent[0]) <= 64 or "anthropic" in kind
    streams = {"gemini": gemini_stream([{"functionCall": {"name": sent[0], "args": {}}}])}
    streams["vertex"] = streams["gemini"]
    call = {"index": 0, "id": "c", "type": "function", "function": {"name": sent[0], "arguments": "{}"}}
    stream = streams.get(kind, chat_stream({"role": "assistant", "tool_calls": [call]}, stop="tool_calls"))
    if kind in CHATS or kind in streams:
        events, error = read(kind, stream, request)
        assert error is None
        assert [each.name for each in events if isinstance(each, ToolCallStart)] == [name]


def test_deepseek_is_sent_calls_with_their_reasoning_or_an_empty_one_while_it_reasons() -> None:
    thinking = replace(called(), reasoning=ReasoningSettings(effort="high"))
    call = ask("deepseek", thinking)

    assert json.loads(call.body)["messages"][1]["reasoning_content"] == ""
    assert "reasoning" in call.losses
    quiet = ask("deepseek", replace(called(), reasoning=ReasoningSettings(enabled=False)))
    assert "reasoning_content" not in json.loads(quiet.body)["messages"][1]
    assert "reasoning" not in quiet.losses


def test_the_mark_of_a_result_is_inside_of_it_before_openrouter() -> None:
    mark = {"type": "ephemeral"}

    sent = body("openrouter", called(ToolResult("call_1", (Text("sunny"),), cache=mark)))["messages"][2]

    assert sent["content"] == [{"type": "text", "text": "sunny", "cache_control": mark}]


def test_calls_without_their_tools_are_refused_where_the_provider_would() -> None:
    with pytest.raises(UnsupportedParameter, match="tools"):
        ask("bedrock", talk(*called().messages))


@pytest.mark.parametrize("kind", ["bedrock", "bedrock-anthropic"])
def test_a_model_on_bedrock_that_chooses_how_much_to_think_has_no_budget(kind: str) -> None:
    call = ask(kind, talk(reasoning=ReasoningSettings(budget_tokens=2048)))
    sent = json.loads(call.body)

    thinking = sent.get("thinking") or sent["additionalModelRequestFields"]["thinking"]
    assert thinking == {"type": "adaptive", "display": "summarized"}
    assert "budget_tokens" in call.losses


def test_bedrock_is_told_of_the_betas_that_it_knows_where_it_looks_for_them() -> None:
    request = talk(origin=Origin("messages", betas=BETAS))
    known = ["interleaved-thinking-2025-05-14"]

    invoked, conversed = ask("bedrock-anthropic", request), ask("bedrock", request)

    assert json.loads(invoked.body)["anthropic_beta"] == known
    assert json.loads(conversed.body)["additionalModelRequestFields"] == {"anthropic_beta": known}
    for call in (invoked, conversed):
        assert not any(name == "anthropic-beta" for name, _ in call.headers)
        assert "betas" in call.losses
    other = ConverseFormat().ask(request, "us.amazon.nova-pro-v1:0", EnginesConfig())
    assert b"anthropic_beta" not in other.body


@pytest.mark.parametrize("kind", ["bedrock", "bedrock-anthropic"])
def test_a_model_that_is_named_by_an_arn_is_one_segment_of_the_path(kind: str) -> None:
    call = WIRES[kind][0].ask(talk(), "arn:aws:bedrock:us-east-1:1:inference-profile/us.a-v1:0", EnginesConfig())

    assert call.path.startswith("/model/arn%3Aaws%3Abedrock%3Aus-east-1%3A1%3Ainference-profile%2Fus.a-v1%3A0/")


def test_a_long_id_is_one_that_converse_takes_in_call_and_result() -> None:
    ids = ["x" * 90, "x" * 89 + "y"]
    request = talk(
        user(),
        Message("assistant", tuple(ToolCall(each, "get_weather", "{}") for each in ids)),
        Message("tool", tuple(ToolResult(each, (Text(each[-1]),)) for each in ids)),
        tools=(TOOL,),
    )

    _, asked, told = body("bedrock", request)["messages"]

    sent = [each["toolUse"]["toolUseId"] for each in asked["content"]]
    assert [each["toolResult"]["toolUseId"] for each in told["content"]] == sent
    assert len(set(sent)) == 2
    assert all(re.fullmatch(r"[A-Za-z0-9_.:-]{1,64}", each) for each in sent)


def test_marks_on_tools_and_results_reach_converse() -> None:
    mark = {"type": "ephemeral", "ttl": "1h"}
    asked = called(ToolResult("call_1", (Text("sunny"),), cache=mark))

    sent = body("bedrock", replace(asked, tools=(replace(TOOL, cache=mark),)))

    point = {"cachePoint": {"type": "default", "ttl": "1h"}}
    assert [next(iter(each)) for each in sent["toolConfig"]["tools"]] == ["toolSpec", "cachePoint"]
    assert [each for each in sent["messages"][-1]["content"] if "cachePoint" in each] == [point]
    assert next(iter(sent["messages"][-1]["content"][0])) == "toolResult"


def test_a_signature_without_text_has_a_text_before_converse() -> None:
    stream = converse_stream((None, [{"reasoningContent": {"signature": "c2ln"}}]), (None, [{"text": "Hi"}]))
    events, error = read("bedrock", stream)
    assert error is None
    seal = next(each.seal for each in events if isinstance(each, ReasoningEnd))

    sent = body("bedrock", talk(user(), Message("assistant", (Reasoning("", carried=seal), Text("Hi"))), user()))

    assert sent["messages"][1]["content"][0] == {
        "reasoningContent": {"reasoningText": {"text": "", "signature": "c2ln"}}
    }


@pytest.mark.parametrize("kind", WIRES)
def test_a_picture_in_a_result_reaches_every_provider(kind: str) -> None:
    call = ask(kind, called(ToolResult("call_1", (Text("Look"), PICTURE))))

    assert base64.b64encode(b"\x89PNG") in call.body
    moved = json.loads(call.body)["messages"][-1]["role"] == "user" if kind in CHATS else False
    assert ("result_media" in call.losses) == moved


@pytest.mark.parametrize("kind", WIRES)
def test_a_choice_of_some_tools_is_said_or_refused_by_name(kind: str) -> None:
    """Where it is refused the pipeline has asked for these tools alone before: a test with a gateway tells of that."""
    tools = tuple(FunctionTool(name, name, OBJECT) for name in ("first", "second", "third"))
    asked = talk(tools=tools, tool_choice=ToolChoice("auto", (ToolKey("first"), ToolKey("third"))))
    if "anthropic" in kind or kind in ("gemini", "vertex"):
        with pytest.raises(UnsupportedParameter, match=r"tool_choice\.names"):
            ask(kind, asked)
        return

    sent = json.loads(ask(kind, asked).body)

    names = set(strings(sent.get("tools") or sent["toolConfig"]["tools"], "name"))
    if "second" in names:  # all are offered, and the choice says which
        assert set(strings(sent["tool_choice"], "name")) == {"first", "third"}
    else:
        assert names == {"first", "third"}


# --------------------------------------------------------------------------------------------------------- what is read


def test_calls_behind_a_text_are_numbered_from_nought() -> None:
    use = {"type": "tool_use", "id": "t", "name": "get_weather", "input": {}}
    said = {"type": "text", "text": ""}, [{"type": "text_delta", "text": "See"}]
    streams = {
        "anthropic": claude_stream(said, (use, [])),
        "bedrock": converse_stream(
            (None, [{"text": "See"}]), ({"toolUse": {"toolUseId": "t", "name": "get_weather"}}, []), stop="tool_use"
        ),
        "gemini": gemini_stream([{"text": "See"}, {"functionCall": {"name": "get_weather", "args": {}}}]),
    }
    for kind, stream in streams.items():
        events, error = read(kind, stream, with_tools())
        assert error is None, kind
        assert [each.call for each in events if isinstance(each, ToolCallStart)] == [0], kind


@given(*[st.integers(0, 10**7)] * 4)
def test_what_is_counted_of_a_prompt_is_all_of_it_once(fresh: int, cached: int, written: int, said: int) -> None:
    """Some providers count what is cached within the prompt, some beside it: here it is always a part of it."""
    whole = fresh + cached + written
    apart = {
        "input_tokens": fresh,
        "cache_read_input_tokens": cached,
        "cache_creation_input_tokens": written,
        "output_tokens": said,
    }
    counts = {"prompt_tokens": whole, "completion_tokens": said, "total_tokens": whole + said}
    counts |= {"prompt_tokens_details": {"cached_tokens": cached}}
    last = {"choices": [], "usage": counts}
    streams = {
        "anthropic": claude_stream(({"type": "text", "text": "a"}, []), **apart),
        "gemini": gemini_stream(
            [{"text": "a"}],
            promptTokenCount=whole,
            cachedContentTokenCount=cached,
            candidatesTokenCount=said,
            thoughtsTokenCount=0,
            totalTokenCount=whole + said,
        ),
        "mistral": _chat(SAID, {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}, last),
    }
    for kind, stream in streams.items():
        events, error = read(kind, stream)
        (usage,) = [each for each in events if isinstance(each, Usage)]
        assert error is None, kind
        assert (usage.prompt_tokens, usage.completion_tokens, usage.cached_tokens) == (whole, said, cached), kind
        assert usage.cache_write_tokens in (written, 0), kind


MARKED = "<think>no</think>yes"
TEXTS = {
    "anthropic": claude_stream(({"type": "text", "text": ""}, [{"type": "text_delta", "text": MARKED}])),
    "gemini": gemini_stream([{"text": MARKED}]),
    "openai-responses": responses_stream(
        (
            {"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": []},
            [{"type": "response.output_text.delta", "content_index": 0, "logprobs": [], "delta": MARKED}],
        )
    ),
    "bedrock": converse_stream((None, [{"text": MARKED}])),
    **{name: chat_stream({"role": "assistant", "content": MARKED}) for name in CHATS},
}


@pytest.mark.parametrize("kind", TEXTS)
def test_marks_of_reasoning_in_a_text_stay_text(kind: str) -> None:
    events, error = read(kind, TEXTS[kind])

    assert error is None
    assert "".join(each.text for each in events if isinstance(each, TextDelta)) == MARKED
    assert not any(isinstance(each, ReasoningDelta) for each in events)


def _chat(*chunks: Json) -> bytes:
    return b"".join(b"data: " + json.dumps(each).encode() + b"\n\n" for each in chunks) + b"data: [DONE]\n\n"


SAID = {"choices": [{"index": 0, "delta": {"role": "assistant", "content": "Hi"}, "finish_reason": None}]}


@pytest.mark.parametrize("kind", CHATS)
def test_an_answer_without_a_reason_to_end_was_cut_off(kind: str) -> None:
    _, error = read(kind, _chat(SAID))

    assert isinstance(error, EngineGarbled)


@pytest.mark.parametrize("kind", CHATS)
def test_nulls_where_there_is_nothing_are_nothing(kind: str) -> None:
    nulls = {"choices": None, "usage": None, "error": None}
    empty = {"index": 0, "delta": {"content": None, "tool_calls": None, "role": None}, "finish_reason": None}
    ended = {"index": 0, "delta": None, "finish_reason": "stop", "logprobs": None}

    events, error = read(kind, _chat(nulls, {"choices": [empty]}, SAID, {"choices": [ended]}, nulls))

    assert error is None
    assert [each.text for each in events if isinstance(each, TextDelta)] == ["Hi"]
    assert [each.reason for each in events if isinstance(each, Finished)] == ["stop"]


@pytest.mark.parametrize("kind", CHATS)
def test_an_error_in_a_chunk_of_a_good_answer_is_an_error(kind: str) -> None:
    broken = {
        "error": {"code": 502, "message": "Upstream said no", "metadata": {"provider_name": "x", "raw": "secret"}},
        "choices": [{"index": 0, "delta": {"content": ""}, "finish_reason": "error"}],
    }

    _, error = read(kind, _chat(SAID, broken))

    assert error is not None
    assert "secret" not in error.message


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (401, ProviderRefused),
        ("402", ProviderUnfunded),
        (429, ProviderLimited),
        (503, WorkerBusy),
        ("server_is_overloaded", WorkerBusy),
        (502, ProviderFailed),
        ("a_new_word", ProviderFailed),
    ],
)
@pytest.mark.parametrize("kind", CHATS)
def test_an_error_in_a_chunk_is_of_the_class_that_its_code_means(
    kind: str, code: object, error: type[SmgError]
) -> None:
    _, first = read(kind, _chat({"error": {"code": code, "message": "no"}}))
    decoder = ask(kind, talk()).decoder
    assert decoder is not None
    decoder.whole(json.dumps({"error": {"code": code, "message": "no"}}).encode())

    assert type(first) is type(decoder.error)
    assert isinstance(first, error), repr(first)


@pytest.mark.parametrize("kind", CHATS)
def test_calls_with_one_index_are_told_apart_by_their_ids(kind: str) -> None:
    calls = [
        {"index": 0, "id": f"c{at}", "type": "function", "function": {"name": "get_weather", "arguments": "{}"}}
        for at in range(3)
    ]

    events, error = read(kind, chat_stream(*({"tool_calls": [each]} for each in calls), stop="stop"), with_tools())

    assert error is None
    assert [(each.call, each.id) for each in events if isinstance(each, ToolCallStart)] == [
        (at, f"c{at}") for at in range(3)
    ]
    assert [each.reason for each in events if isinstance(each, Finished)] == ["tool_calls"]


@pytest.mark.parametrize("kind", WIRES)
def test_an_object_without_an_answer_is_an_error(kind: str) -> None:
    decoder = ask(kind, talk()).decoder
    assert decoder is not None

    decoder.whole(b'{"usage":{"inputTokens":3},"metrics":{}}')

    assert isinstance(decoder.error, EngineGarbled)
