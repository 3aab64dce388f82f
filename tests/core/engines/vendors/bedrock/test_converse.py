"""Converse: what each field of a request becomes, what is refused by name, and what each event of an answer is."""

import json
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.engines.vendors.bedrock.event_streams import event_frame, exception_frame

from smg_core.engines.settings import EnginesConfig
from smg_core.engines.vendors.bedrock.converse import ConverseFormat
from smg_core.engines.vendors.bedrock.converse_body import write_converse
from smg_core.engines.vendors.bedrock.converse_events import ConverseDecoder
from smg_core.engines.vendors.failures import ProviderFailed
from smg_core.engines.vendors.losses import Losses
from smg_core.engines.vendors.wire_names import SentNames
from smg_core.errors import EngineGarbled, InvalidRequest, SmgError, UnsupportedParameter
from smg_core.events import (
    Event,
    Finished,
    ReasoningDelta,
    ReasoningEnd,
    Started,
    TextDelta,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
    Usage,
)
from smg_core.request import (
    File,
    FunctionTool,
    GenerationRequest,
    Image,
    JsonFormat,
    MediaSource,
    Message,
    Part,
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
from smg_core.sealing.carried import carried_in

CLAUDE = "us.anthropic.claude-sonnet-4-5-20250929-v1:0"
NEW = "us.anthropic.claude-opus-5-5-20260601-v1:0"
NOVA = "us.amazon.nova-pro-v1:0"
LLAMA = "us.meta.llama4-maverick-17b-instruct-v1:0"
OPEN = "openai.gpt-oss-120b-1:0"
HI = (Message("user", (Text("Hi"),)),)
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
WEATHER = FunctionTool("get_weather", "The weather", SCHEMA)
PICTURE = Image(MediaSource(data=b"\x89PNG", media_type="image/png"))


def asked(
    model: str = CLAUDE, messages: tuple[Message, ...] = HI, **fields: Any
) -> tuple[dict[str, Any], dict[str, str]]:
    """The body as it is sent, and what it loses."""
    losses = Losses()
    made = write_converse(GenerationRequest("r", model, messages, **fields), model, losses)
    return json.loads(msgspec.json.encode(made.body)), losses.found


def user(*parts: Part) -> Message:
    return Message("user", parts)


def assistant(*parts: Part) -> Message:
    return Message("assistant", parts)


def test_a_plain_question_is_a_turn_and_nothing_else() -> None:
    assert asked() == ({"messages": [{"role": "user", "content": [{"text": "Hi"}]}]}, {})


def test_neighbours_are_joined_blank_text_is_left_out_and_the_front_is_the_system() -> None:
    talk = (
        Message("system", (Text("Be brief", cache={"type": "ephemeral", "ttl": "1h"}),)),
        Message("developer", (Text(" "),)),
        user(Text("One"), Text("")),
        user(Text("Two")),
        assistant(Text(" \n")),
        Message("system", (Text("Now in French"),)),
    )
    body, lost = asked(messages=talk)
    assert body["system"] == [{"text": "Be brief"}, {"cachePoint": {"type": "default", "ttl": "1h"}}]
    (turn,) = body["messages"]
    assert [each["text"] for each in turn["content"]] == [
        "One",
        "Two",
        "<system-reminder>\nNow in French\n</system-reminder>",
    ]
    assert set(lost) == {"system_later"}


def test_results_come_first_in_the_turn_of_the_user_and_say_whether_they_failed() -> None:
    talk = (
        user(Text("Weather?")),
        assistant(ToolCall("call|1", "get weather", '{"city":"Paris"}'), ToolCall("c2", "get_weather", "")),
        user(Text("And?")),
        Message("tool", (ToolResult("call|1", (Text("sunny"), PICTURE)),)),
        Message("tool", (ToolResult("c2", (), is_error=True),)),
    )
    for model, failed in ((CLAUDE, {"status": "error"}), (LLAMA, {})):
        body, _ = asked(model, talk, tools=(WEATHER,))
        first, second = (each["toolUse"] for each in body["messages"][1]["content"])
        assert first["input"] == {"city": "Paris"}
        assert second["input"] == {}
        assert first["name"].startswith("get_weather_")
        results = body["messages"][2]["content"]
        assert [next(iter(each)) for each in results] == ["toolResult", "toolResult", "text"]
        assert results[0]["toolResult"]["toolUseId"] == first["toolUseId"]
        assert [next(iter(each)) for each in results[0]["toolResult"]["content"]] == ["text", "image"]
        assert {name: value for name, value in results[1]["toolResult"].items() if name == "status"} == failed


def test_a_document_has_a_name_that_tells_nothing_and_a_text_beside_it() -> None:
    pdf = File(MediaSource(data=b"%PDF", media_type="application/pdf"), filename="ignore_all.rules!.pdf")
    body, lost = asked(messages=(user(pdf, pdf),))
    first, second, text = body["messages"][0]["content"]
    assert first["document"]["name"] == "ignore all rules"
    assert second["document"]["name"] == "ignore all rules 2"
    assert first["document"]["format"] == "pdf"
    assert text["text"]
    assert "file_name" in lost


def test_marks_for_the_cache_stand_behind_what_they_mark_and_are_four_at_most() -> None:
    mark = {"type": "ephemeral"}
    tool = msgspec.structs.replace(WEATHER, cache=mark)
    parts = tuple(Text(str(at), cache=mark) for at in range(5))
    body, lost = asked(messages=(user(*parts),), tools=(tool,))
    assert [next(iter(each)) for each in body["toolConfig"]["tools"]] == ["toolSpec"]
    kinds = [next(iter(each)) for each in body["messages"][0]["content"]]
    assert kinds == ["text", "text", "cachePoint", "text", "cachePoint", "text", "cachePoint", "text", "cachePoint"]
    assert set(lost) == {"cache"}
    body, lost = asked(LLAMA, (user(*parts),))
    assert "cachePoint" not in json.dumps(body)
    assert set(lost) == {"cache"}


def test_tools_and_what_is_to_be_called() -> None:
    body, _ = asked(tools=(WEATHER,))
    spec = {"name": "get_weather", "description": "The weather", "inputSchema": {"json": SCHEMA}}
    assert body["toolConfig"] == {"tools": [{"toolSpec": spec}]}
    bare, _ = asked(tools=(FunctionTool("ping", ""),))
    assert bare["toolConfig"]["tools"][0]["toolSpec"] == {
        "name": "ping",
        "inputSchema": {"json": {"type": "object", "properties": {}}},
    }
    required, _ = asked(tools=(WEATHER,), tool_choice=ToolChoice("required"))
    assert required["toolConfig"]["toolChoice"] == {"any": {}}
    named = ToolChoice("required", (ToolKey("get_weather"),))
    assert asked(tools=(WEATHER,), tool_choice=named)[0]["toolConfig"]["toolChoice"] == {
        "tool": {"name": "get_weather"}
    }
    single, _ = asked(tools=(WEATHER,), tool_choice=ToolChoice("required", parallel=False))
    assert single["toolConfig"]["toolChoice"] == {"any": {}}
    assert single["additionalModelRequestFields"] == {"tool_choice": {"disable_parallel_tool_use": True}}
    none, lost = asked(tools=(WEATHER,), tool_choice=ToolChoice("none"))
    assert "toolConfig" not in none
    assert set(lost) == {"tool_choice"}
    some, lost = asked(
        tools=(WEATHER, FunctionTool("b"), FunctionTool("c")), tool_choice=ToolChoice("auto", (ToolKey("b"),))
    )
    assert [each["toolSpec"]["name"] for each in some["toolConfig"]["tools"]] == ["b"]
    assert set(lost) == {"allowed_tools"}


@pytest.mark.parametrize(
    ("model", "reasoning", "own", "output", "lost"),
    [
        (
            NEW,
            ReasoningSettings(effort="high"),
            {"thinking": {"type": "adaptive", "display": "summarized"}},
            "high",
            set(),
        ),
        (
            NEW,
            ReasoningSettings(budget_tokens=2000),
            {"thinking": {"type": "adaptive", "display": "summarized"}},
            "low",
            {"budget_tokens"},
        ),
        (NEW, ReasoningSettings(enabled=False), {"thinking": {"type": "disabled"}}, None, set()),
        (
            CLAUDE,
            ReasoningSettings(budget_tokens=2000),
            {"thinking": {"type": "enabled", "budget_tokens": 2000}},
            None,
            set(),
        ),
        (
            CLAUDE,
            ReasoningSettings(budget_tokens=99_000),
            {"thinking": {"type": "enabled", "budget_tokens": 8999}},
            None,
            {"budget_tokens"},
        ),
        (CLAUDE, ReasoningSettings(enabled=False), {"thinking": {"type": "disabled"}}, None, set()),
        (
            NOVA,
            ReasoningSettings(effort="xhigh"),
            {"reasoningConfig": {"maxReasoningEffort": "high", "type": "enabled"}},
            None,
            {"effort"},
        ),
        (OPEN, ReasoningSettings(effort="low"), {"reasoning_effort": "low"}, None, set()),
        (LLAMA, ReasoningSettings(enabled=False), None, None, set()),
    ],
)
def test_how_much_to_reason_is_said_as_each_family_knows_it(
    model: str, reasoning: ReasoningSettings, own: Any, output: str | None, lost: set[str]
) -> None:
    body, found = asked(model, reasoning=reasoning, sampling=Sampling(max_tokens=9000))
    assert body.get("additionalModelRequestFields") == own
    assert body.get("outputConfig", {}).get("effort") == output
    assert set(found) == lost


def test_settings_of_sampling_and_of_the_service() -> None:
    sampling = Sampling(max_tokens=0, temperature=0.0, top_p=0.5, top_k=3, stop=("a", "b"))
    body, _ = asked(
        sampling=sampling, user="Zoé", service_tier="flex", extra={"guardrailConfig": {"guardrailIdentifier": "g"}}
    )
    assert body["inferenceConfig"] == {"maxTokens": 0, "temperature": 0.0, "topP": 0.5, "stopSequences": ["a", "b"]}
    assert body["additionalModelRequestFields"] == {"top_k": 3}
    assert len(body["requestMetadata"]["user_id"]) == 32
    assert body["serviceTier"] == {"type": "flex"}
    assert body["guardrailConfig"] == {"guardrailIdentifier": "g"}
    nova, _ = asked(NOVA, sampling=Sampling(top_k=3), user="me")
    assert nova["additionalModelRequestFields"] == {"inferenceConfig": {"topK": 3}}
    assert nova["requestMetadata"] == {"user_id": "me"}


def test_a_schema_is_sent_as_text() -> None:
    body, _ = asked(response_format=SchemaFormat(SCHEMA, "city", "A city"))
    form = body["outputConfig"]["textFormat"]
    assert form["type"] == "json_schema"
    schema = form["structure"]["jsonSchema"]
    assert (json.loads(schema["schema"]), schema["name"], schema["description"]) == (SCHEMA, "city", "A city")


CALLED = (
    user(Text("?")),
    assistant(ToolCall("c", "get_weather", "{}")),
    Message("tool", (ToolResult("c", (Text("x"),)),)),
)


@pytest.mark.parametrize(
    ("param", "model", "fields"),
    [
        ("messages[0]", CLAUDE, {"messages": (assistant(Text("Hello")),)}),
        ("messages[1]", NEW, {"messages": (*HI, assistant(Text("Hello")))}),
        ("messages[0].name", CLAUDE, {"messages": (Message("user", (Text("Hi"),), name="me"),)}),
        ("messages[1].parts[0].arguments", CLAUDE, {"messages": (*HI, assistant(ToolCall("c", "f", "[1]")))}),
        (
            "messages[0].parts[0].source.url",
            CLAUDE,
            {"messages": (user(Image(MediaSource(url="https://a.example/b.png"))),)},
        ),
        ("messages[0].parts[0].source.file_id", CLAUDE, {"messages": (user(Image(MediaSource(file_id="f"))),)}),
        (
            "messages[0].parts[0].source.media_type",
            CLAUDE,
            {"messages": (user(Image(MediaSource(data=b"x", media_type="image/tiff"))),)},
        ),
        ("tools", CLAUDE, {"messages": CALLED}),
        ("tool_choice", CLAUDE, {"messages": CALLED, "tools": (WEATHER,), "tool_choice": ToolChoice("none")}),
        (
            "tool_choice",
            NEW,
            {"tools": (WEATHER,), "tool_choice": ToolChoice("required"), "reasoning": ReasoningSettings(effort="low")},
        ),
        (
            "tool_choice.names",
            LLAMA,
            {"tools": (WEATHER,), "tool_choice": ToolChoice("required", (ToolKey("get_weather"),))},
        ),
        ("tool_choice.parallel", NOVA, {"tools": (WEATHER,), "tool_choice": ToolChoice(parallel=False)}),
        ("response_format", LLAMA, {"response_format": SchemaFormat(SCHEMA)}),
        ("response_format", CLAUDE, {"response_format": JsonFormat()}),
        ("sampling.n", CLAUDE, {"sampling": Sampling(n=2)}),
        ("sampling.seed", CLAUDE, {"sampling": Sampling(seed=1)}),
        ("sampling.temperature", CLAUDE, {"sampling": Sampling(temperature=1.5)}),
        ("sampling.temperature", NEW, {"sampling": Sampling(temperature=0.5)}),
        ("sampling.top_k", LLAMA, {"sampling": Sampling(top_k=3)}),
        ("sampling.logprobs", CLAUDE, {"sampling": Sampling(logprobs=1)}),
        ("reasoning", LLAMA, {"reasoning": ReasoningSettings(effort="low")}),
        ("reasoning", OPEN, {"reasoning": ReasoningSettings(enabled=False)}),
        ("reasoning", CLAUDE, {"reasoning": ReasoningSettings(effort="low")}),
        ("reasoning.effort", NEW, {"reasoning": ReasoningSettings(effort="utmost")}),
        ("service_tier", CLAUDE, {"service_tier": "scale"}),
        ("verbosity", CLAUDE, {"verbosity": "low"}),
        ("extra.safetySettings", CLAUDE, {"extra": {"safetySettings": []}}),
        (
            "extra.additionalModelRequestFields",
            CLAUDE,
            {"sampling": Sampling(top_k=3), "extra": {"additionalModelRequestFields": {"top_k": 4}}},
        ),
    ],
)
def test_what_the_api_cannot_say_is_refused_by_name(param: str, model: str, fields: dict[str, Any]) -> None:
    with pytest.raises(UnsupportedParameter) as caught:
        asked(model, **fields)
    assert caught.value.param == param


# ------------------------------------------------------------------------------------------------------------ answers


def event(kind: str, **body: Any) -> bytes:
    return event_frame(kind, msgspec.json.encode({**body, "p": "abc"}))


START = event("messageStart", role="assistant")
STOP = event("messageStop", stopReason="end_turn")
COUNTS = event(
    "metadata", usage={"inputTokens": 7, "outputTokens": 9, "cacheReadInputTokens": 3, "cacheWriteInputTokens": 2}
)
THOUGHT = (
    event("contentBlockDelta", contentBlockIndex=0, delta={"reasoningContent": {"text": "Hm"}})
    + event("contentBlockDelta", contentBlockIndex=0, delta={"reasoningContent": {"signature": "c2ln"}})
    + event("contentBlockStop", contentBlockIndex=0)
)
TEXT = event("contentBlockDelta", contentBlockIndex=1, delta={"text": "Hello"}) + event(
    "contentBlockStop", contentBlockIndex=1
)
CALL = (
    event("contentBlockStart", contentBlockIndex=2, start={"toolUse": {"toolUseId": "t1", "name": "f"}})
    + event("contentBlockDelta", contentBlockIndex=2, delta={"toolUse": {"input": '{"a":'}})
    + event("contentBlockDelta", contentBlockIndex=2, delta={"toolUse": {"input": "1}"}})
    + event("contentBlockStop", contentBlockIndex=2)
)
WHOLE = START + THOUGHT + TEXT + CALL + event("messageStop", stopReason="tool_use") + COUNTS


def read(*pieces: bytes) -> tuple[list[Event], SmgError | None, bool]:
    decoder = ConverseDecoder(NEW, SentNames(64), EnginesConfig())
    events = [each for piece in pieces for each in decoder.feed(piece)]
    return events + decoder.end(), decoder.error, decoder.done


def test_an_answer_is_told_in_order_with_counts_that_include_the_cache() -> None:
    events, error, done = read(WHOLE)
    assert (error, done) == (None, True)
    assert isinstance(events[0], Started)
    assert [each.text for each in events if isinstance(each, ReasoningDelta | TextDelta)] == ["Hm", "Hello"]
    call = [each for each in events if isinstance(each, ToolCallStart | ToolCallDelta | ToolCallEnd)]
    assert isinstance(call[-1], ToolCallEnd)
    assert call[-1].valid
    assert events[-2:] == [Finished(0, "tool_calls", None, False), Usage(12, 9, 3, 0, 2)]


@given(st.lists(st.integers(0, len(WHOLE)), max_size=6))
def test_any_split_of_an_answer_is_told_alike(cuts: list[int]) -> None:
    ends = [0, *sorted(cuts), len(WHOLE)]
    assert read(*(WHOLE[a:b] for a, b in pairwise(ends))) == read(WHOLE)


@given(st.integers(0, len(WHOLE) - 1))
def test_an_answer_that_ends_early_is_never_whole(end: int) -> None:
    events, error, done = read(WHOLE[:end])
    assert isinstance(error, EngineGarbled)
    assert not done
    assert not any(isinstance(each, Finished) for each in events)


def test_reasoning_goes_back_as_it_came_and_only_to_its_model() -> None:
    events, _, _ = read(WHOLE)
    seal = next(each.seal for each in events if isinstance(each, ReasoningEnd))
    thought = Reasoning("Hm", carried=seal)
    assert carried_in(thought) is not None
    loop = (
        user(Text("?")),
        assistant(thought, ToolCall("t1", "f", '{"a":1}')),
        Message("tool", (ToolResult("t1", (Text("x"),)),)),
    )
    settings = {"tools": (FunctionTool("f"),), "reasoning": ReasoningSettings(effort="high")}
    body, lost = asked(NEW, loop, **settings)
    assert body["messages"][1]["content"][0] == {
        "reasoningContent": {"reasoningText": {"text": "Hm", "signature": "c2ln"}}
    }
    assert not lost
    other, lost = asked(NEW.replace("5-5", "5-6"), loop, **settings)
    assert "reasoningContent" not in json.dumps(other)
    assert set(lost) == {"reasoning", "thinking"}
    assert "thinking" not in other.get("additionalModelRequestFields", {})


def test_hidden_reasoning_goes_back_too() -> None:
    hidden = event("contentBlockDelta", contentBlockIndex=0, delta={"reasoningContent": {"redactedContent": "AAAA"}})
    events, error, _ = read(START + hidden + event("contentBlockStop", contentBlockIndex=0) + TEXT + STOP + COUNTS)
    assert error is None
    seal = next(each.seal for each in events if isinstance(each, ReasoningEnd))
    body, _ = asked(NEW, (user(Text("?")), assistant(Reasoning("", carried=seal), Text("Hello")), user(Text("And?"))))
    assert body["messages"][1]["content"][0] == {"reasoningContent": {"redactedContent": "AAAA"}}


@pytest.mark.parametrize(
    ("stop", "reason"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("max_tokens", "length"),
        ("guardrail_intervened", "content_filter"),
        ("content_filtered", "content_filter"),
        ("model_context_window_exceeded", "context"),
        ("a_new_one", "stop"),
    ],
)
def test_why_an_answer_ended(stop: str, reason: str) -> None:
    events, error, _ = read(START + TEXT + event("messageStop", stopReason=stop) + COUNTS)
    assert error is None
    assert next(each.reason for each in events if isinstance(each, Finished)) == reason


def test_a_provider_that_gives_up_on_its_answer_has_failed() -> None:
    _, error, _ = read(START + TEXT + event("messageStop", stopReason="malformed_model_output") + COUNTS)
    assert isinstance(error, ProviderFailed)


def test_a_call_whose_arguments_broke_off_is_not_valid() -> None:
    begun = event("contentBlockStart", contentBlockIndex=0, start={"toolUse": {"toolUseId": "t1", "name": "f"}})
    begun += event("contentBlockDelta", contentBlockIndex=0, delta={"toolUse": {"input": '{"a":'}})
    events, _, _ = read(
        START
        + begun
        + event("contentBlockStop", contentBlockIndex=0)
        + event("messageStop", stopReason="max_tokens")
        + COUNTS
    )
    assert [each.valid for each in events if isinstance(each, ToolCallEnd)] == [False]
    assert next(each.cut for each in events if isinstance(each, Finished))
    silent = event("contentBlockStart", contentBlockIndex=0, start={"toolUse": {"toolUseId": "t1", "name": "f"}})
    events, _, _ = read(
        START
        + silent
        + event("contentBlockStop", contentBlockIndex=0)
        + event("messageStop", stopReason="tool_use")
        + COUNTS
    )
    assert [each.arguments for each in events if isinstance(each, ToolCallDelta)] == ["{}"]


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("throttlingException", "ProviderLimited"),
        ("validationException", "EngineRejected"),
        ("internalServerException", "ProviderFailed"),
        ("modelStreamErrorException", "ProviderFailed"),
        ("serviceUnavailableException", "WorkerBusy"),
        ("modelTimeoutException", "EngineStalled"),
        ("aNewException", "ProviderFailed"),
    ],
)
def test_an_exception_after_some_text_is_an_error_and_what_came_is_kept(kind: str, name: str) -> None:
    said = b'{"message":"arn:aws:bedrock:us-east-1:123456789012:model/x says no","originalMessage":"why"}'
    delta = event("contentBlockDelta", contentBlockIndex=1, delta={"text": "Hel"})
    events, error, done = read(START + delta, exception_frame(kind, said))
    assert type(error).__name__ == name
    assert isinstance(error, SmgError)
    assert "123456789012" not in error.message
    assert "why" in error.whole
    assert not done
    assert [each.text for each in events if isinstance(each, TextDelta)] == ["Hel"]


@given(
    st.sampled_from([CLAUDE, NEW, NOVA, LLAMA]),
    st.lists(
        st.sampled_from(
            [
                Text("a"),
                Text(" "),
                Text("b", cache={}),
                PICTURE,
                Reasoning("r"),
                ToolCall("c", "f", "{}"),
                ToolResult("c", (Text("x"),)),
            ]
        ),
        max_size=6,
    ),
    st.lists(st.sampled_from(["user", "assistant", "tool", "system"]), min_size=1, max_size=6),
)
def test_whatever_is_sent_has_turns_that_alternate_and_no_empty_block(
    model: str, parts: list[Any], roles: list[str]
) -> None:
    talk = tuple(Message(role, tuple(parts)) for role in roles)  # type: ignore[arg-type]
    try:
        body, _ = asked(model, talk, tools=(FunctionTool("f"),))
    except InvalidRequest:
        return
    turns = body["messages"]
    assert [each["role"] for each in turns] == ["user", "assistant"] * (len(turns) // 2) + ["user"] * (len(turns) % 2)
    for turn in turns:
        assert turn["content"]
        assert all(each.get("text", "x").strip() for each in turn["content"])


def test_the_prompt_is_counted_by_the_same_body() -> None:
    form = ConverseFormat()
    request = GenerationRequest("r", CLAUDE, HI, tools=(WEATHER,), sampling=Sampling(max_tokens=9))
    question = form.count(request, CLAUDE)
    assert question.path == "/model/us.anthropic.claude-sonnet-4-5-20250929-v1%3A0/count-tokens"
    counted = json.loads(question.body)["input"]["converse"]
    assert set(counted) == {"messages", "toolConfig"}
    assert form.counted(b'{"inputTokens":14}') == 14
    with pytest.raises(EngineGarbled):
        form.counted(b"{}")
