"""Responses on the wire: every stream keeps the grammar, the SDK's own state machine takes it, and it says what the whole body
says."""

import json
import typing

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openai import omit
from openai._models import construct_type_unchecked
from openai.lib.streaming.responses._responses import ResponseStreamState
from openai.types.responses import Response, ResponseStreamEvent
from tests.core.apis.responses.responses_events import STARTED, USAGE, streams
from tests.tiers import examples

from smg_core.apis.responses.wire.builder import _WRITERS
from smg_core.apis.responses.wire.decode import ResponsesRequest, decode_responses
from smg_core.apis.responses.wire.encode import ResponsesStreamEncoder, ResponsesWholeEncoder
from smg_core.apis.responses.wire.grammar import TERMINAL, check_stream
from smg_core.errors import EngineFailed, InvalidRequest, Overloaded, PromptTooLong, SmgError
from smg_core.events import (
    Annotation,
    Done,
    DroppedReasoning,
    Event,
    Failed,
    Finished,
    ReasoningDelta,
    ReasoningEnd,
    Started,
    TextDelta,
    TextEnd,
    TokenLogprob,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from smg_core.sse import SseReader
from smg_core.wire.base import Incoming

TOOLS = [
    {"type": "function", "name": "look", "parameters": {"type": "object"}},
    {"type": "custom", "name": "patch"},
    {"type": "tool_search", "execution": "client", "parameters": {"type": "object"}},
    {"type": "namespace", "name": "clock", "tools": [{"type": "function", "name": "sleep"}]},
    {"type": "web_search"},
]
END = [Finished(0, "stop"), USAGE, Done()]


def asked(**fields: object) -> ResponsesRequest:
    body = {"model": "sim", "input": "Hello", "stream": True, "tools": TOOLS, **fields}
    return decode_responses(Incoming(json.dumps(body).encode(), request_id="resp_1"))


def sealed_by_us(request: ResponsesRequest, said: bytes) -> str:
    return f"gw1.{said.decode()}"


def wire(request: ResponsesRequest, events: list[Event]) -> list[dict[str, typing.Any]]:
    encoder = ResponsesStreamEncoder(request, 1700000000, lambda: 1700000009.5, sealed_by_us)
    data = encoder.start() + b"".join(encoder.encode([event]) for event in events)
    frames = SseReader().feed(data)
    found = [json.loads(frame.data) for frame in frames]
    assert [frame.event for frame in frames] == [each["type"] for each in found]
    return found


def whole(request: ResponsesRequest, events: list[Event]) -> dict[str, typing.Any]:
    encoder = ResponsesWholeEncoder(request, 1700000000, lambda: 1700000009.5, sealed_by_us)
    for event in events:
        encoder = encoder.fork()
        encoder.add([event])
    found: dict[str, typing.Any] = json.loads(encoder.body())
    return found


def names(frames: list[dict[str, typing.Any]]) -> list[str]:
    return [each["type"].removeprefix("response.") for each in frames]


@settings(max_examples=examples(60))
@given(streams(), st.sampled_from([None, "auto"]), st.booleans())
def test_every_stream_keeps_the_grammar_and_says_what_the_whole_body_says(
    events: list[Event], summary: str | None, sealed: bool
) -> None:
    include = ["reasoning.encrypted_content"] if sealed else []
    request = asked(reasoning={"summary": summary}, include=include)
    frames = wire(request, events)
    check_stream(frames)
    assert sum(each["type"] in TERMINAL for each in frames) == 1
    last = frames[-1]["response"]
    if last["status"] == "failed":
        with pytest.raises(SmgError):
            whole(request, events)
    else:
        assert whole(request, events) == last
    Response.model_validate(last)


@pytest.mark.full
@settings(max_examples=examples(40))
@given(streams())
def test_the_sdks_own_state_machine_takes_every_stream(events: list[Event]) -> None:
    state: ResponseStreamState[typing.Any] = ResponseStreamState(input_tools=omit, text_format=omit)
    for frame in wire(asked(), events):
        state.handle_event(construct_type_unchecked(value=frame, type_=typing.cast(typing.Any, ResponseStreamEvent)))


def test_each_kind_of_event_has_a_writer() -> None:
    assert set(_WRITERS) == set(typing.get_args(Event))


def test_a_text_has_the_events_that_clients_need() -> None:
    frames = wire(asked(), [STARTED, TextDelta(0, "Hel"), TextDelta(0, "lo"), TextEnd(0), *END])
    assert names(frames) == [
        "created",
        "in_progress",
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_text.delta",
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "completed",
    ]
    message = frames[-1]["response"]["output"][0]
    assert message["id"] == frames[2]["item"]["id"] == frames[4]["item_id"]
    assert message["content"] == [{"type": "output_text", "text": "Hello", "annotations": [], "logprobs": []}]
    assert frames[-1]["response"]["completed_at"] == 1700000009


def test_the_short_way_of_a_text_writes_what_the_long_way_writes() -> None:
    events: list[Event] = [STARTED, *(TextDelta(0, piece) for piece in 'a"\u2028é'), TextEnd(0), *END]
    encoder = ResponsesStreamEncoder(asked(), 1700000000, lambda: 1700000009.5, sealed_by_us)
    at_once = encoder.encode(events)
    one_by_one = ResponsesStreamEncoder(asked(), 1700000000, lambda: 1700000009.5, sealed_by_us)
    assert b"".join(one_by_one.encode([event]) for event in events) == at_once


def test_reasoning_is_text_or_where_it_was_asked_for_a_summary() -> None:
    events = [STARTED, ReasoningDelta(0, "Hm"), ReasoningEnd(0, b"gw1.seal"), TextDelta(0, "x"), TextEnd(0), *END]
    shown = wire(asked(store=False), events)
    assert shown[-1]["response"]["output"][0]["content"] == [{"type": "reasoning_text", "text": "Hm"}]
    assert shown[2]["item"]["encrypted_content"] is None
    assert shown[-1]["response"]["output"][0]["encrypted_content"] == "gw1.seal"
    summed = wire(asked(reasoning={"summary": "auto"}), events)
    assert summed[-1]["response"]["output"][0]["summary"] == [{"type": "summary_text", "text": "Hm"}]
    assert "reasoning_summary_text.delta" in names(summed)
    assert "reasoning_text.delta" not in names(summed)


def test_a_call_of_a_namespace_has_its_own_name_and_the_namespace() -> None:
    request = asked()
    assert [tool.name for tool in request.generation.tools] == ["look", "patch", "tool_search", "clock__sleep"]  # type: ignore[union-attr]
    call = [ToolCallStart(0, 0, "call_1", "clock__sleep"), ToolCallDelta(0, 0, "{}"), ToolCallEnd(0, 0)]
    frames = wire(request, [STARTED, *call, *END])
    item = frames[-1]["response"]["output"][0]
    assert (item["type"], item["name"], item["namespace"], item["call_id"]) == (
        "function_call",
        "sleep",
        "clock",
        "call_1",
    )


def test_a_search_for_tools_has_an_object_as_arguments() -> None:
    call = [ToolCallStart(0, 0, "call_1", "tool_search"), ToolCallDelta(0, 0, '{"query":"x"}'), ToolCallEnd(0, 0)]
    item = wire(asked(), [STARTED, *call, *END])[-1]["response"]["output"][0]
    assert item["type"] == "tool_search_call"
    assert (item["arguments"], item["execution"]) == ({"query": "x"}, "client")


def test_what_was_cut_off_is_incomplete_in_its_item_and_in_the_response() -> None:
    call = [ToolCallStart(0, 0, "call_1", "look"), ToolCallDelta(0, 0, '{"ci'), ToolCallEnd(0, 0, valid=False)]
    last = wire(asked(), [STARTED, *call, Finished(0, "length", cut=True), USAGE, Done()])[-1]["response"]
    assert (last["status"], last["incomplete_details"]) == ("incomplete", {"reason": "max_output_tokens"})
    assert (last["output"][0]["status"], last["output"][0]["arguments"]) == ("incomplete", '{"ci')


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (EngineFailed("x"), "server_error"),
        (Overloaded("x", retry_after=3), "rate_limit_exceeded"),
        (Overloaded("x"), "server_is_overloaded"),
        (PromptTooLong(10, 1, 5), "context_length_exceeded"),
        (InvalidRequest("x"), "invalid_prompt"),
    ],
)
def test_a_failed_stream_says_why_by_the_codes_that_clients_go_by(error: SmgError, code: str) -> None:
    frames = wire(asked(), [STARTED, TextDelta(0, "x"), USAGE, Failed(error)])
    check_stream(frames)
    told = frames[-1]["response"]
    assert told["error"]["code"] == code
    assert ("try again in 3s" in told["error"]["message"]) is (code == "rate_limit_exceeded")
    assert told["output"][0]["status"] == "incomplete"


def test_what_was_open_when_a_response_failed_is_in_its_output_and_never_done() -> None:
    call = [ToolCallStart(0, 0, "call_1", "look"), ToolCallDelta(0, 0, '{"city": "Pa')]
    for ends in ([], [ToolCallEnd(0, 0)]):
        text = [TextDelta(0, "I look."), TextEnd(0)]
        found = wire(asked(), [STARTED, *text, *call, *ends, Failed(EngineFailed("gone"))])
        check_stream(found)
        assert [each["item"]["type"] for each in found if each["type"] == "response.output_item.done"] == ["message"]
        assert [item["status"] for item in found[-1]["response"]["output"]] == ["completed", "incomplete"]
        assert found[-1]["response"]["output"][1]["arguments"] == '{"city": "Pa'


def test_a_stream_that_fails_before_any_engine_took_it_still_begins_with_created() -> None:
    frames = wire(asked(), [USAGE, Failed(Overloaded("Full.", retry_after=1))])
    assert names(frames) == ["created", "in_progress", "failed"]


def test_a_keep_alive_is_a_numbered_event_of_the_stream() -> None:
    encoder = ResponsesStreamEncoder(asked(), 1, lambda: 2.0, sealed_by_us)
    data = encoder.keep_alive() + encoder.encode([STARTED, TextDelta(0, "x")]) + encoder.keep_alive()
    data += encoder.encode([TextEnd(0), *END])
    frames = [json.loads(frame.data) for frame in SseReader().feed(data)]
    check_stream(frames)
    assert names(frames).count("in_progress") == 2
    assert encoder.keep_alive() == b""


def test_reasoning_that_did_not_open_is_told() -> None:
    dropped = (DroppedReasoning("messages[0].parts[0]", "other_family", "rs_9"),)
    last = wire(asked(), [Started(1, None, "sim", dropped), TextDelta(0, "x"), TextEnd(0), *END])[-1]["response"]
    expected = {"id": "rs_9", "type": "reasoning", "action": "removed", "reason": "model_mismatch"}
    assert last["input_transformations"] == [expected]


def test_logprobs_are_reported_where_they_are_included() -> None:
    token = TokenLogprob("x", b"x", -0.5)
    events = [STARTED, TextDelta(0, "x", (token,)), TextEnd(0), *END]
    included = wire(asked(include=["message.output_text.logprobs"]), events)
    assert included[4]["logprobs"][0]["token"] == "x"
    assert included[-1]["response"]["output"][0]["content"][0]["logprobs"][0]["logprob"] == -0.5
    assert wire(asked(), events)[4]["logprobs"] == []


def test_an_annotation_belongs_to_its_text() -> None:
    note = Annotation(0, "url", 0, 1, "https://a.example", "A")
    frames = wire(asked(), [STARTED, TextDelta(0, "x"), note, TextEnd(0), *END])
    check_stream(frames)
    told = frames[-1]["response"]["output"][0]["content"][0]["annotations"][0]
    assert (told["type"], told["url"], told["title"]) == ("url_citation", "https://a.example", "A")


def test_deltas_are_padded_where_the_client_wants_their_sizes_hidden() -> None:
    events = [STARTED, TextDelta(0, "Hel"), TextDelta(0, "lo"), TextEnd(0), *END]
    frames = wire(asked(stream_options={"include_obfuscation": True}), events)
    check_stream(frames)
    assert all("obfuscation" in each for each in frames if each["type"].endswith(".delta"))


@pytest.mark.parametrize(
    "asks",
    [
        {"generate": False},
        {"prompt_cache_options": {"prewarm": True}},
        {"prompt_cache_options": {"prewarm": True}, "generate": True},
        {
            "prompt_cache_options": {"prewarm": True},
            "input": [{"role": "user", "content": "x"}, {"type": "compaction_trigger"}],
        },
    ],
)
def test_a_prewarm_answers_nothing(asks: dict[str, typing.Any]) -> None:
    events = [STARTED, TextDelta(0, "x"), TextEnd(0), Finished(0, "length"), USAGE, Done()]
    frames = wire(asked(**asks), events)
    assert names(frames) == ["created", "in_progress", "completed"]
    assert frames[-1]["response"] == whole(asked(**asks), events)
    assert frames[-1]["response"]["output"] == []
    usage = frames[-1]["response"]["usage"]
    assert (usage["output_tokens"], usage["total_tokens"]) == (0, usage["input_tokens"])


def test_a_comparison_of_caches_is_told_to_be_unavailable_where_it_is_asked_for() -> None:
    compared = whole(asked(prompt_cache_options={"comparison_response_id": "resp_0"}), [STARTED, *END])
    assert compared["prompt_cache_diagnostics"] == {"type": "unavailable"}
    for options in (None, {"mode": "implicit"}, {"prewarm": False}):
        made = whole(asked(prompt_cache_options=options), [STARTED, TextDelta(0, "x"), TextEnd(0), *END])
        assert "prompt_cache_diagnostics" not in made
        assert made["output"]


def test_a_compaction_is_the_one_item_of_its_response() -> None:
    items = [{"role": "user", "content": "x"}, {"type": "compaction_trigger"}]
    said = [TextDelta(0, "They "), TextDelta(0, "met."), TextEnd(0)]
    frames = wire(asked(input=items), [STARTED, ReasoningDelta(0, "Hm"), ReasoningEnd(0), *said, *END])
    check_stream(frames)
    assert names(frames) == ["created", "in_progress", "output_item.added", "output_item.done", "completed"]
    (item,) = frames[-1]["response"]["output"]
    assert (item["type"], item["encrypted_content"]) == ("compaction", 'gw1.[["developer","They met."]]')
    empty = wire(asked(input=items), [STARTED, *END])
    assert frames[-1]["response"]["status"] == "completed"
    assert empty[-1]["response"]["status"] == "failed"


@pytest.mark.parametrize(
    ("reason", "told"),
    [("length", "max_output_tokens"), ("context", "max_output_tokens"), ("content_filter", "content_filter")],
)
def test_a_summary_that_was_cut_off_compacts_nothing(reason: typing.Any, told: str) -> None:
    items = [{"role": "user", "content": "x"}, {"type": "compaction_trigger"}]
    frames = wire(asked(input=items), [STARTED, TextDelta(0, "They"), TextEnd(0), Finished(0, reason), USAGE, Done()])
    check_stream(frames)
    assert names(frames) == ["created", "in_progress", "incomplete"]
    response = frames[-1]["response"]
    assert (response["output"], response["incomplete_details"]) == ([], {"reason": told})


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (lambda frames: frames.pop(0), "came when nothing has come"),
        (lambda frames: frames.pop(2), "came when no item is open"),
        (lambda frames: frames.pop(3), "came when a message is open"),
        (lambda frames: frames.pop(4), "has the number"),
        (lambda frames: frames.pop(), "the stream ended when"),
        (lambda frames: frames[-2]["item"].update(id="msg_2"), "another id"),
        (lambda frames: frames[4].update(delta="y"), "other text than its deltas"),
        (lambda frames: frames[-1]["response"].update(output=[]), "other output"),
        (lambda frames: frames[-1]["response"].update(id="resp_2"), "another response id"),
    ],
)
def test_the_grammar_finds_what_is_wrong(change: typing.Any, fault: str) -> None:
    frames = wire(asked(), [STARTED, TextDelta(0, "x"), TextEnd(0), *END])
    change(frames)
    with pytest.raises(ValueError, match=fault):
        check_stream(frames)


def test_the_item_of_an_answer_that_its_engine_broke_off_is_cut() -> None:
    events = [Started(3, None, "sim"), TextDelta(0, "Hal"), TextEnd(0), Finished(0, "abort"), USAGE, Done()]
    stream = wire(asked(), events)
    done = next(each["item"] for each in stream if each["type"] == "response.output_item.done")
    last = stream[-1]["response"]
    assert (stream[-1]["type"], last["status"]) == ("response.incomplete", "incomplete")
    assert done["status"] == last["output"][0]["status"] == "incomplete"
