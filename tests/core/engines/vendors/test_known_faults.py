"""Faults that translations between these APIs are known to have: none of them is here. One row each."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace
from tests.core.engines.vendors.samples import OBJECT, PICTURE, STRICT, TOOL, called, originals, talk, user, with_tools
from tests.providers.answers import SIGNATURE, claude_stream, gemini_stream, responses_stream

from smg_core.engines.http.answer import HttpReply
from smg_core.engines.settings import EnginesConfig
from smg_core.engines.vendors.anthropic.format import MessagesFormat
from smg_core.engines.vendors.gemini.format import GeminiFormat
from smg_core.engines.vendors.responses.format import ResponsesFormat
from smg_core.engines.vendors.wire_format import ProviderCall
from smg_core.errors import EngineGarbled, UnsupportedParameter
from smg_core.events import (
    Annotation,
    Event,
    Finished,
    ReasoningDelta,
    ReasoningEnd,
    TextDelta,
    TextEnd,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
    Usage,
)
from smg_core.origin import Origin
from smg_core.request import (
    CustomTool,
    FunctionTool,
    GenerationRequest,
    Message,
    Reasoning,
    ReasoningSettings,
    Sampling,
    SchemaFormat,
    Text,
    ToolCall,
    ToolChoice,
    ToolKey,
    ToolResult,
)
from smg_core.sealing.carried import Carried, carrying

MODELS = {"anthropic": "claude-opus-4-6", "gemini": "gemini-3-pro", "openai-responses": "gpt-6-astra"}
FORMATS: dict[str, Callable[[], Any]] = {
    "anthropic": MessagesFormat,
    "gemini": GeminiFormat,
    "openai-responses": ResponsesFormat,
}
Json = dict[str, Any]


def ask(kind: str, request: GenerationRequest, model: str = "", **account: str) -> ProviderCall:
    wire = ResponsesFormat(**account) if account else FORMATS[kind]()
    call: ProviderCall = wire.ask(request, model or MODELS[kind], EnginesConfig())
    return call


def body(kind: str, request: GenerationRequest, model: str = "") -> Json:
    found: Json = json.loads(ask(kind, request, model).body)
    return found


def read(kind: str, stream: bytes, request: GenerationRequest | None = None, model: str = "") -> list[Event]:
    decoder = ask(kind, request or talk(), model).decoder
    assert decoder is not None
    events = [*decoder.feed(stream), *decoder.end()]
    assert decoder.error is None, decoder.error
    return events


def only(events: list[Event], kind: type[Any]) -> list[Any]:
    return [each for each in events if isinstance(each, kind)]


def _block(text: str) -> Json:
    return {"type": "text", "text": text}


def _names(value: object) -> set[str]:
    if isinstance(value, dict):
        return set(value).union(*map(_names, value.values()))
    return set().union(*map(_names, value)) if isinstance(value, list) else set()


# ------------------------------------------------------------------------------------------------------ what is written

PARALLEL = talk(
    user(),
    Message("assistant", (ToolCall("c1", "get_weather", "{}"), ToolCall("c2", "get_weather", "{}"))),
    Message("tool", (ToolResult("c1", (Text("one"),)),)),
    Message("tool", (ToolResult("c2", (Text("two"),)),)),
    user(Text("And?")),
    tools=(TOOL,),
)
NO_PARAMETERS = with_tools(tools=(FunctionTool("now"),))
REFERENCE = {
    "type": "object",
    "properties": {"a": {"$ref": "#/$defs/A"}},
    "$defs": {"A": {"type": "string", "const": "x"}},
}
ON_A_TEXT = Carried("gemini", "", "gemini-3-pro", "text", b"c2ln")
MARKED = Text("Hi", cache={"type": "ephemeral"})

WRITTEN: dict[str, tuple[str, GenerationRequest, Callable[[Json], bool]]] = {
    "empty texts and turns are left out": (
        "anthropic",
        talk(user(Text(""), Text("Hi")), Message("assistant", (Text(" "),)), user(Text("And?"))),
        lambda sent: sent["messages"] == [{"role": "user", "content": [_block("Hi"), _block("And?")]}],
    ),
    "blank text beside calls is left out": (
        "anthropic",
        called(None, Text("\n")),
        lambda sent: [each["type"] for each in sent["messages"][1]["content"]] == ["tool_use"],
    ),
    "a choice of tools without tools is not sent": (
        "anthropic",
        talk(tool_choice=ToolChoice("auto", parallel=False)),
        lambda sent: "tool_choice" not in sent and "tools" not in sent,
    ),
    "a choice of tools without tools is not sent to Gemini": (
        "gemini",
        talk(tool_choice=ToolChoice("none")),
        lambda sent: "toolConfig" not in sent and "tools" not in sent,
    ),
    "a choice of tools without tools is not sent to OpenAI": (
        "openai-responses",
        talk(tool_choice=ToolChoice("none", parallel=False)),
        lambda sent: "tool_choice" not in sent and "parallel_tool_calls" not in sent,
    ),
    "an empty description is not sent": (
        "anthropic",
        with_tools(tools=(FunctionTool("now", ""),)),
        lambda sent: "description" not in sent["tools"][0],
    ),
    "a tool without parameters has an object": (
        "anthropic",
        NO_PARAMETERS,
        lambda sent: sent["tools"][0]["input_schema"] == {"type": "object", "properties": {}},
    ),
    "a tool without parameters has an object before OpenAI": (
        "openai-responses",
        NO_PARAMETERS,
        lambda sent: sent["tools"][0]["parameters"] == {"type": "object", "properties": {}},
    ),
    "a tool without parameters declares none to Gemini": (
        "gemini",
        NO_PARAMETERS,
        lambda sent: sent["tools"] == [{"functionDeclarations": [{"name": "now"}]}],
    ),
    "references and constants of a schema stay before Gemini": (
        "gemini",
        with_tools(tools=(FunctionTool("f", parameters=REFERENCE),)),
        lambda sent: sent["tools"][0]["functionDeclarations"][0]["parametersJsonSchema"] == REFERENCE,
    ),
    "Gemini's fields are in camel case": (
        "gemini",
        with_tools(sampling=Sampling(max_tokens=5, top_p=0.5), tool_choice=ToolChoice("required")),
        lambda sent: not any("_" in name for name in _names(sent) - {"get_weather"}),
    ),
    "parallel calls are one content, and their results the next": (
        "gemini",
        PARALLEL,
        lambda sent: (
            [next(iter(part)) for part in sent["contents"][2]["parts"]]
            == ["functionResponse", "functionResponse", "text"]
            and len(sent["contents"]) == 3
            and len(sent["contents"][1]["parts"]) == 2
        ),
    ),
    "a result has the name of its call": (
        "gemini",
        called(ToolResult("call_1", (Text("sunny"),))),
        lambda sent: sent["contents"][2]["parts"][0]["functionResponse"]["name"] == "get_weather",
    ),
    "results come first in the turn after their calls": (
        "anthropic",
        talk(
            user(),
            Message("assistant", (ToolCall("c1", "get_weather", "{}"),)),
            Message("user", (Text("Look:"), ToolResult("c1", (Text("one"),)))),
            tools=(TOOL,),
        ),
        lambda sent: [each["type"] for each in sent["messages"][2]["content"]] == ["tool_result", "text"],
    ),
    "all results of parallel calls are in one turn": (
        "anthropic",
        PARALLEL,
        lambda sent: (
            [each["type"] for each in sent["messages"][2]["content"]] == ["tool_result", "tool_result", "text"]
        ),
    ),
    "a picture in a result is a picture": (
        "anthropic",
        called(ToolResult("call_1", (PICTURE,))),
        lambda sent: sent["messages"][2]["content"][0]["content"][0]["type"] == "image",
    ),
    "marks for the cache stay on texts, tools and results": (
        "anthropic",
        replace(
            called(ToolResult("call_1", (Text("sunny"),), cache={"type": "ephemeral"})),
            tools=(replace(TOOL, cache={"type": "ephemeral", "ttl": "1h"}),),
        ),
        lambda sent: (
            sent["tools"][0]["cache_control"] == {"type": "ephemeral", "ttl": "1h"}
            and "cache_control" in sent["messages"][2]["content"][0]
        ),
    ),
    "text of the system in the talk stays in its place, with its mark": (
        "anthropic",
        talk(user(), Message("assistant", (Text("Yes"),)), Message("system", (MARKED,)), user(Text("And?"))),
        lambda sent: (
            "system" not in sent
            and "<system-reminder>" in sent["messages"][2]["content"][0]["text"]
            and "cache_control" in sent["messages"][2]["content"][0]
        ),
    ),
    "zero is said": (
        "anthropic",
        talk(sampling=Sampling(temperature=0.0, top_k=0)),
        lambda sent: (sent["temperature"], sent["top_k"]) == (0.0, 0),
    ),
    "zero is said to Gemini": (
        "gemini",
        talk(sampling=Sampling(temperature=0.0, seed=0)),
        lambda sent: sent["generationConfig"] == {"temperature": 0.0, "seed": 0},
    ),
    "false is said to OpenAI": (
        "openai-responses",
        with_tools(tool_choice=ToolChoice(parallel=False)),
        lambda sent: sent["parallel_tool_calls"] is False,
    ),
    "nothing is filled in": (
        "openai-responses",
        talk(),
        lambda sent: set(sent) == {"model", "input", "stream", "store", "include"},
    ),
    "no calls, though there are tools": (
        "anthropic",
        with_tools(tool_choice=ToolChoice("none")),
        lambda sent: sent["tool_choice"] == {"type": "none"} and sent["tools"] != [],
    ),
    "an id with other characters is the same in call and result": (
        "anthropic",
        talk(
            user(),
            Message("assistant", (ToolCall("a:b.c" * 40, "get_weather", "{}"),)),
            Message("tool", (ToolResult("a:b.c" * 40, (Text("x"),)),)),
            tools=(TOOL,),
        ),
        lambda sent: (
            sent["messages"][1]["content"][0]["id"] == sent["messages"][2]["content"][0]["tool_use_id"]
            and ":" not in sent["messages"][1]["content"][0]["id"]
        ),
    ),
    "a long id is short enough for OpenAI": (
        "openai-responses",
        talk(
            user(),
            Message("assistant", (ToolCall("x" * 90, "get_weather", "{}"),)),
            Message("tool", (ToolResult("x" * 90, (Text("x"),)),)),
            tools=(TOOL,),
        ),
        lambda sent: (
            sent["input"][1]["call_id"] == sent["input"][2]["call_id"] and len(sent["input"][1]["call_id"]) <= 64
        ),
    ),
    "a schema for a model that thinks is native": (
        "anthropic",
        talk(response_format=SchemaFormat(STRICT), reasoning=ReasoningSettings(effort="low")),
        lambda sent: sent["output_config"]["format"]["type"] == "json_schema" and "tools" not in sent,
    ),
    "thinking is off for calls that come without theirs": (
        "anthropic",
        replace(called(), reasoning=ReasoningSettings(effort="low")),
        lambda sent: "thinking" not in sent,
    ),
    "thinking is adaptive where the model knows that": (
        "anthropic",
        talk(reasoning=ReasoningSettings(enabled=True)),
        lambda sent: sent["thinking"]["type"] == "adaptive",
    ),
    "a signature goes back on the call that it came on": (
        "gemini",
        called(None, Reasoning("", carried=carrying(originals("gemini-3-pro")["gemini"]))),
        lambda sent: (
            sent["contents"][1]["parts"][0]["thoughtSignature"] == "c2ln"
            and "functionCall" in sent["contents"][1]["parts"][0]
        ),
    ),
    "a signature goes back on the text that it came on": (
        "gemini",
        talk(
            user(), Message("assistant", (Text("Yes"), Reasoning("", carried=carrying(ON_A_TEXT)))), user(Text("And?"))
        ),
        lambda sent: sent["contents"][1]["parts"] == [{"text": "Yes", "thoughtSignature": "c2ln"}],
    ),
    "calls of another model have what stands for a signature": (
        "gemini",
        called(),
        lambda sent: sent["contents"][1]["parts"][0]["thoughtSignature"] == "skip_thought_signature_validator",
    ),
    "reasoning without what it led to is left out": (
        "openai-responses",
        talk(
            user(),
            Message("assistant", (Reasoning("", carried=carrying(originals("gpt-6-astra")["openai-responses"])),)),
            user(Text("And?")),
        ),
        lambda sent: [each["type"] for each in sent["input"]] == ["message", "message"],
    ),
    "reasoning stands right before what it led to": (
        "openai-responses",
        called(None, Reasoning("", carried=carrying(originals("gpt-6-astra")["openai-responses"]))),
        lambda sent: [each["type"] for each in sent["input"][1:3]] == ["reasoning", "function_call"],
    ),
}


@pytest.mark.parametrize("row", WRITTEN)
def test_what_is_written(row: str) -> None:
    kind, request, holds = WRITTEN[row]

    sent = body(kind, request)

    assert holds(sent), sent


def test_a_name_that_is_too_long_is_mapped_back_in_calls_history_and_choice() -> None:
    name = "x" * 90
    request = talk(
        user(),
        Message("assistant", (ToolCall("c1", name, "{}"),)),
        Message("tool", (ToolResult("c1", (Text("x"),)),)),
        tools=(FunctionTool(name, parameters=OBJECT), FunctionTool("get", namespace="a" * 70)),
        tool_choice=ToolChoice("required", (ToolKey(name),)),
    )
    sent = body("openai-responses", request)
    short = sent["tools"][0]["name"]
    assert len(short) <= 64
    assert sent["input"][1]["name"] == sent["tool_choice"]["name"] == short
    call: Json = {"type": "function_call", "id": "fc", "call_id": "c", "status": "completed", "arguments": "{}"}

    for wire, expected in ((short, (name, None)), (sent["tools"][1]["name"], ("get", "a" * 70))):
        events = read("openai-responses", responses_stream(({**call, "name": wire}, [])), request)
        assert [(each.name, each.namespace) for each in only(events, ToolCallStart)] == [expected]


@pytest.mark.parametrize(
    ("model", "asked", "sent"),
    [
        ("gemini-2.5-flash", ReasoningSettings(effort="low"), {"includeThoughts": True, "thinkingBudget": 1024}),
        ("gemini-2.5-pro", ReasoningSettings(budget_tokens=-1), {"includeThoughts": True, "thinkingBudget": -1}),
        ("gemini-2.5-flash", ReasoningSettings(enabled=False), {"thinkingBudget": 0}),
        ("gemini-3-pro", ReasoningSettings(effort="low"), {"includeThoughts": True, "thinkingLevel": "LOW"}),
        ("gemini-3-pro", ReasoningSettings(budget_tokens=20000), {"includeThoughts": True, "thinkingLevel": "HIGH"}),
        ("gemini-3-flash", ReasoningSettings(effort="minimal"), {"includeThoughts": True, "thinkingLevel": "MINIMAL"}),
        ("gemini-3-pro", ReasoningSettings(effort="max", visible="none"), {"thinkingLevel": "HIGH"}),
    ],
)
def test_a_model_is_told_a_level_or_a_budget_and_never_both(model: str, asked: ReasoningSettings, sent: Json) -> None:
    assert body("gemini", talk(reasoning=asked), model)["generationConfig"]["thinkingConfig"] == sent


def test_encrypted_reasoning_goes_to_its_own_account_alone() -> None:
    item = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": SIGNATURE}
    original = Carried("openai", "one", "gpt-6-astra", "thought", json.dumps(item).encode())
    request = called(None, Reasoning("", carried=carrying(original)))

    own = ask("openai-responses", request, account="one")
    other = ask("openai-responses", request, account="two")

    assert SIGNATURE in own.body.decode()
    assert own.losses == {}
    assert SIGNATURE not in other.body.decode()
    assert "reasoning" in other.losses


# --------------------------------------------------------------------------------------------------------- what is read


def test_the_first_empty_input_is_no_arguments() -> None:
    block = {"type": "tool_use", "id": "t", "name": "get_weather", "input": {}}
    deltas = [{"type": "input_json_delta", "partial_json": each} for each in ("", '{"city":', '"Paris"}')]

    events = read("anthropic", claude_stream((block, deltas), stop="tool_use"))

    assert "".join(each.arguments for each in only(events, ToolCallDelta)) == '{"city":"Paris"}'


def test_a_call_without_deltas_has_an_empty_object() -> None:
    block = {"type": "tool_use", "id": "t", "name": "now", "input": {}}

    events = read("anthropic", claude_stream((block, []), stop="tool_use"))

    assert [each.arguments for each in only(events, ToolCallDelta)] == ["{}"]
    assert [each.valid for each in only(events, ToolCallEnd)] == [True]


def test_a_call_that_is_cut_off_is_not_valid() -> None:
    block = {"type": "tool_use", "id": "t", "name": "get_weather", "input": {}}
    events = read(
        "anthropic", claude_stream((block, [{"type": "input_json_delta", "partial_json": '{"ci'}]), stop="max_tokens")
    )

    assert [each.valid for each in only(events, ToolCallEnd)] == [False]
    assert [(each.reason, each.cut) for each in only(events, Finished)] == [("length", True)]


def test_a_signature_without_text_is_kept() -> None:
    block = {"type": "thinking", "thinking": "", "signature": ""}
    events = read("anthropic", claude_stream((block, [{"type": "signature_delta", "signature": SIGNATURE}])))

    assert [each.text for each in only(events, ReasoningDelta)] == [""]
    assert SIGNATURE.encode() in only(events, ReasoningEnd)[0].seal


def test_redacted_thinking_is_kept() -> None:
    events = read("anthropic", claude_stream(({"type": "redacted_thinking", "data": SIGNATURE}, [])))

    assert SIGNATURE.encode() in only(events, ReasoningEnd)[0].seal


def test_counts_of_the_end_overwrite_those_that_they_name_and_no_others() -> None:
    events = read("anthropic", claude_stream(input_tokens=8, output_tokens=40))

    assert only(events, Usage) == [Usage(8 + 3 + 2, 40, 3, 0, 2)]


def test_marks_of_reasoning_in_a_text_stay_text() -> None:
    text = "<think>no</think>yes"
    stream = claude_stream(({"type": "text", "text": ""}, [{"type": "text_delta", "text": text}]))

    events = read("anthropic", stream)

    assert [each.text for each in only(events, TextDelta)] == [text]
    assert only(events, ReasoningDelta) == []


def _called(city: str, **more: str) -> Json:
    return {"functionCall": {"name": "get_weather", "args": {"city": city}, **more}}


def test_calls_in_chunks_of_their_own_are_several_calls() -> None:
    events = read("gemini", gemini_stream([_called("Paris")], [_called("Rome")], [_called("Oslo", id="x")]))

    starts = only(events, ToolCallStart)
    assert [each.call for each in starts] == [0, 1, 2]
    assert len({each.id for each in starts}) == 3
    assert starts[2].id == "x"
    assert [each.arguments for each in only(events, ToolCallDelta)][1] == '{"city":"Rome"}'


def test_an_answer_with_a_call_ended_for_its_calls_though_stop_is_said_in_every_chunk() -> None:
    events = read("gemini", gemini_stream([{"text": "See"}], [_called("Paris")], [{"text": ""}]))

    assert [each.reason for each in only(events, Finished)] == ["tool_calls"]
    assert "".join(each.text for each in only(events, TextDelta)) == "See"


def test_a_signature_behind_a_text_comes_behind_it() -> None:
    events = read("gemini", gemini_stream([{"text": "Yes"}], [{"text": "", "thoughtSignature": SIGNATURE}]))

    kinds = [type(each) for each in events]
    assert kinds.index(TextDelta) < kinds.index(ReasoningEnd)
    assert SIGNATURE.encode() in only(events, ReasoningEnd)[0].seal


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("MALFORMED_FUNCTION_CALL", "malformed_call"),
        ("MAX_TOKENS", "length"),
        ("CONTINUATION", "length"),
        ("SAFETY", "content_filter"),
    ],
)
def test_why_gemini_stopped_is_told_for_what_it_is(said: str, reason: str) -> None:
    events = read("gemini", gemini_stream([{"text": "Yes"}], stop=said))

    assert [each.reason for each in only(events, Finished)] == [reason]


def test_a_prompt_that_is_blocked_is_an_answer_that_is_filtered() -> None:
    stream = b'data: {"promptFeedback":{"blockReason":"SAFETY"},"usageMetadata":{"promptTokenCount":5}}\n\n'

    events = read("gemini", stream)

    assert only(events, Finished) == [Finished(0, "content_filter")]
    assert only(events, Usage) == [Usage(5, 0)]


def test_thoughts_are_a_part_of_the_answers_tokens_once() -> None:
    apart = read("gemini", gemini_stream([{"text": "Yes"}]))
    within = read("gemini", gemini_stream([{"text": "Yes"}], candidatesTokenCount=9))

    assert [each.completion_tokens for each in (*only(apart, Usage), *only(within, Usage))] == [9, 9]


def test_each_candidate_is_its_own_choice() -> None:
    chunk: Json = {
        "candidates": [
            {"index": 1, "content": {"parts": [{"text": "B"}]}, "finishReason": "STOP"},
            {"content": {"parts": [{"text": "A"}]}, "finishReason": "STOP"},
        ]
    }
    stream = f"data: {json.dumps(chunk)}\n\n".encode()

    events = read("gemini", stream, talk(sampling=Sampling(n=2)))

    assert {each.index: each.text for each in only(events, TextDelta)} == {0: "A", 1: "B"}
    assert [each.index for each in only(events, Finished)] == [0, 1]


@pytest.mark.parametrize("status", ["incomplete", "failed"])
def test_counts_are_told_however_a_response_ends(status: str) -> None:
    end: Json = {"status": status}
    if status == "failed":
        end["error"] = {"code": "server_error", "message": "sorry"}
    else:
        end["incomplete_details"] = {"reason": "max_output_tokens"}
    decoder = ask("openai-responses", talk()).decoder
    assert decoder is not None

    events = [*decoder.feed(responses_stream(end=end)), *decoder.end()]

    assert only(events, Usage) == [Usage(12, 9, 3, 5, 2)]


@pytest.mark.parametrize("kind", FORMATS)
def test_a_stream_without_its_end_was_cut_off(kind: str) -> None:
    streams = {
        "anthropic": claude_stream(({"type": "text", "text": "Hi"}, [])).replace(b"message_stop", b"message_other"),
        "gemini": gemini_stream([{"text": "Hi"}], stop="FINISH_REASON_UNSPECIFIED"),
        "openai-responses": responses_stream().replace(b"response.completed", b"response.other"),
    }
    decoder = ask(kind, talk()).decoder
    assert decoder is not None

    decoder.feed(streams[kind])
    decoder.end()

    assert isinstance(decoder.error, EngineGarbled)


@pytest.mark.parametrize("kind", FORMATS)
def test_a_providers_text_is_told_without_its_private_parts(kind: str) -> None:
    text = "bad field, see https://x.example/a?key=1 for org-Ab12Cd34 of ann@x.example, key sk-proj-12345678"
    said = {"type": "error", "error": {"type": "invalid_request_error", "message": text, "status": "INVALID_ARGUMENT"}}
    reply = HttpReply(400, {}, json.dumps(said).replace('"code": 400', "").encode())

    error = FORMATS[kind]().refusal(reply)

    assert error.status == 400
    assert "bad field" in error.message
    assert not any(each in error.message for each in ("x.example", "Ab12Cd34", "ann@", "12345678"))
    assert text in (error.detail or "")
    assert "Ab12Cd34" not in str(error)


def test_citations_are_annotations_of_their_text() -> None:
    place = {"type": "page_location", "cited_text": "the sea", "document_index": 0, "document_title": "Log"}
    cited = {**place, "start_page_number": 1, "end_page_number": 2}
    deltas = [{"type": "text_delta", "text": "Blue"}, {"type": "citations_delta", "citation": cited}]

    events = read("anthropic", claude_stream(({"type": "text", "text": "", "citations": []}, deltas)))

    assert only(events, Annotation) == [Annotation(0, "file", 0, 4, "0", "Log", "the sea")]
    assert [type(each) for each in events].index(Annotation) < [type(each) for each in events].index(TextEnd)


def test_annotations_of_responses_are_told() -> None:
    cited = {"type": "url_citation", "url": "https://x.example", "title": "X", "start_index": 1, "end_index": 3}
    part = {"type": "output_text", "text": "Blue", "annotations": [cited], "logprobs": []}
    item = {"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": [part]}
    delta = {"type": "response.output_text.delta", "content_index": 0, "logprobs": [], "delta": "Blue"}
    added = {"type": "response.output_text.annotation.added", "content_index": 0, "annotation_index": 0}

    events = read("openai-responses", responses_stream((item, [delta, {**added, "annotation": cited}])))

    assert only(events, Annotation) == [Annotation(0, "url", 1, 3, "https://x.example", "X")]


@pytest.mark.parametrize(
    ("origin", "sampled", "version"),
    [
        (Origin("messages", version="2023-01-01"), True, "2023-01-01"),
        (Origin("chat"), True, "2023-06-01"),
        (Origin("chat"), False, "2026-10-21"),
    ],
)
def test_the_version_is_the_clients_else_one_that_takes_the_body(origin: Origin, sampled: bool, version: str) -> None:
    sampling = Sampling(temperature=0.0) if sampled else Sampling()

    call = ask("anthropic", talk(sampling=sampling, origin=origin))

    assert dict(call.headers)["anthropic-version"] == version


def test_the_clients_betas_go_along() -> None:
    call = ask("anthropic", talk(origin=Origin("messages", betas=frozenset({"b", "a"}))))

    assert dict(call.headers)["anthropic-beta"] == "a,b"


def test_an_older_model_goes_on_with_its_own_turn_where_that_is_asked_and_in_no_other_case() -> None:
    request = talk(user(), Message("assistant", (Text("Once upon "),)))
    goes_on = replace(request, continue_final_message=True, add_generation_prompt=False)

    sent = body("anthropic", goes_on, "claude-sonnet-4-5")

    assert sent["messages"][-1] == {"role": "assistant", "content": [_block("Once upon")]}
    for refused, model in ((request, "claude-sonnet-4-5"), (goes_on, "claude-opus-4-6")):
        with pytest.raises(UnsupportedParameter, match=r"messages\[1\]"):
            ask("anthropic", refused, model)


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize(
    "fields",
    [
        {"add_generation_prompt": False},
        {"continue_final_message": True},
        {"priority": 1},
        {"truncation": "auto"},
        {"cache_salt": "x"},
        {"template": "x"},
        {"documents": ({"a": 1},)},
        {"sampling": Sampling(ignore_eos=True)},
        {"sampling": Sampling(skip_special_tokens=False)},
        {"sampling": Sampling(stop_token_ids=(1,))},
        {"reasoning": ReasoningSettings(keep="all")},
    ],
)
def test_what_the_gateway_has_not_done_itself_is_refused_and_never_dropped(kind: str, fields: Json) -> None:
    with pytest.raises(UnsupportedParameter) as refused:
        ask(kind, talk(**fields))

    assert next(iter(fields)) in (refused.value.param or "") or refused.value.param == "continue_final_message"


def test_a_tool_of_free_text_is_one_before_openai() -> None:
    request = talk(
        user(),
        Message("assistant", (ToolCall("c1", "run", "ls -l", custom=True),)),
        Message("tool", (ToolResult("c1", (Text("a"),)),)),
        tools=(CustomTool("run", "Runs it", "regex", "[a-z -]+"),),
        tool_choice=ToolChoice("required", (ToolKey("run", kind="custom"),)),
    )
    sent = body("openai-responses", request)
    item = {"type": "custom_tool_call", "id": "ctc_1", "call_id": "c2", "name": "run", "input": "ls"}
    delta = {"type": "response.custom_tool_call_input.delta"}
    events = read(
        "openai-responses", responses_stream((item, [{**delta, "delta": "l"}, {**delta, "delta": "s"}])), request
    )

    assert sent["tools"][0]["format"] == {"type": "grammar", "syntax": "regex", "definition": "[a-z -]+"}
    assert sent["tool_choice"] == {"type": "custom", "name": "run"}
    assert [each["type"] for each in sent["input"][1:]] == ["custom_tool_call", "custom_tool_call_output"]
    assert [(each.name, each.custom) for each in only(events, ToolCallStart)] == [("run", True)]
    assert "".join(each.arguments for each in only(events, ToolCallDelta)) == "ls"
    assert [each.valid for each in only(events, ToolCallEnd)] == [True]


def test_an_older_model_is_held_to_a_schema_by_a_tool_whose_arguments_are_the_answer() -> None:
    request, model = talk(response_format=SchemaFormat(STRICT)), "claude-3-5-sonnet-20241022"
    call = ask("anthropic", request, model)
    sent = json.loads(call.body)
    block = {"type": "tool_use", "id": "t", "name": sent["tools"][0]["name"], "input": {}}
    deltas = [{"type": "input_json_delta", "partial_json": each} for each in ("", '{"city":', '"Paris"}')]

    events = read("anthropic", claude_stream((block, deltas), stop="tool_use"), request, model)

    assert sent["tool_choice"] == {"type": "tool", "name": sent["tools"][0]["name"]}
    assert sent["tools"][0]["input_schema"] == STRICT
    assert call.losses == {"response_format": "the arguments of a tool"}
    assert "".join(each.text for each in only(events, TextDelta)) == '{"city":"Paris"}'
    assert only(events, ToolCallStart) == []
    assert [each.reason for each in only(events, Finished)] == ["stop"]


@pytest.mark.parametrize(
    ("model", "asked", "most", "sent", "losses"),
    [
        (
            "claude-sonnet-4-5",
            ReasoningSettings(budget_tokens=2048),
            4096,
            {"type": "enabled", "budget_tokens": 2048},
            {},
        ),
        ("claude-sonnet-4-5", ReasoningSettings(effort="high"), 4096, {"type": "enabled", "budget_tokens": 4095}, {}),
        (
            "claude-sonnet-4-5",
            ReasoningSettings(budget_tokens=100),
            4096,
            {"type": "enabled", "budget_tokens": 1024},
            {"budget_tokens"},
        ),
        ("claude-sonnet-4-5", ReasoningSettings(budget_tokens=2048), 900, None, {"thinking"}),
        ("claude-sonnet-4-5", ReasoningSettings(enabled=False), 4096, {"type": "disabled"}, {}),
        (
            "claude-opus-5-5",
            ReasoningSettings(budget_tokens=2048),
            4096,
            {"type": "adaptive", "display": "summarized"},
            {"budget_tokens"},
        ),
        (
            "claude-opus-5-5",
            ReasoningSettings(adaptive=True, visible="sealed"),
            4096,
            {"type": "adaptive", "display": "omitted"},
            {},
        ),
    ],
)
def test_a_model_thinks_in_the_way_that_it_knows(
    model: str, asked: ReasoningSettings, most: int, sent: Json | None, losses: set[str]
) -> None:
    call = ask("anthropic", talk(reasoning=asked, sampling=Sampling(max_tokens=most)), model)

    assert json.loads(call.body).get("thinking") == sent
    assert set(call.losses) == set(losses)


def test_what_the_list_of_models_says_of_one_is_held_to() -> None:
    wire = MessagesFormat()
    supported = {"supported": True}
    capabilities = {
        "thinking": {"supported": True, "types": {"adaptive": supported, "disabled": {"supported": False}}},
        "effort": {"supported": True, "low": supported, "high": supported},
        "structured_outputs": {"supported": True},
    }
    about = {"id": "new", "max_input_tokens": 9000, "max_tokens": 500, "capabilities": capabilities}

    assert wire.described(json.dumps(about).encode()).context == 9000

    sent = json.loads(wire.ask(talk(reasoning=ReasoningSettings(effort="medium")), "new", EnginesConfig()).body)
    assert sent["max_tokens"] == 500
    assert sent["output_config"]["effort"] in ("low", "high")
    with pytest.raises(UnsupportedParameter, match=r"reasoning\.enabled"):
        wire.ask(talk(reasoning=ReasoningSettings(enabled=False)), "new", EnginesConfig())


def test_a_reason_in_every_chunk_does_not_say_that_the_end_is_due() -> None:
    decoder = ask("gemini", talk()).decoder
    assert decoder is not None

    decoder.feed(gemini_stream([{"text": "Yes"}]))

    assert not decoder.finished  # else a pause before the next chunk would end the answer
    assert only(decoder.end(), Finished) == [Finished(0, "stop")]
