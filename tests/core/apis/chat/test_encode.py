"""The answer on the wire: chunks as a plain encoder would write them, and a stream that adds up to the whole body."""

import itertools
import json
import typing

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from openai.lib.streaming.chat import ChatCompletionStreamState
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from smg_core.apis.chat.decode import ChatRequest, decode_chat
from smg_core.apis.chat.encode import _STREAM_WRITERS, ChatStreamEncoder, ChatWholeEncoder
from smg_core.errors import ClientGone, EngineFailed, InvalidRequest
from smg_core.events import (
    Annotation,
    Cancelled,
    Done,
    Event,
    Failed,
    Finished,
    HostedEnd,
    HostedProgress,
    HostedStart,
    OpaqueBlock,
    ReasoningDelta,
    ReasoningEnd,
    RefusalDelta,
    Started,
    TextDelta,
    TextEnd,
    TokenLogprob,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
    TopLogprob,
    Usage,
)
from smg_core.request import GenerationRequest
from smg_core.sse import SseReader
from smg_core.wire.base import Incoming
from smg_core.wire.json_text import without_surrogates

USAGE = Usage(10, 5, cached_tokens=4, reasoning_tokens=2)
DETAILS = {
    "prompt_tokens": 10,
    "completion_tokens": 5,
    "total_tokens": 15,
    "prompt_tokens_details": {"cached_tokens": 4},
    "completion_tokens_details": {"reasoning_tokens": 2},
}


def asked(**fields) -> ChatRequest:
    body = {"model": "sim", "messages": [{"role": "user", "content": "Hello"}], **fields}
    return decode_chat(Incoming(json.dumps(body).encode(), request_id="r"))


def streamed(request: ChatRequest, events, **options) -> bytes:
    encoder = ChatStreamEncoder(request, 1700000000, "chatcmpl-1", **options)
    return encoder.start() + b"".join(encoder.encode([event]) for event in events)


def frames(wire: bytes) -> list[str]:
    return [event.data for event in SseReader().feed(wire)]


def chunks(request: ChatRequest, events, **options) -> list[dict]:
    return [json.loads(frame) for frame in frames(streamed(request, events, **options)) if frame != "[DONE]"]


def deltas(request: ChatRequest, events, **options) -> list[dict]:
    """The deltas of a stream with one choice, without the first and the last."""
    _, *rest = chunks(request, events, **options)
    return [chunk["choices"][0]["delta"] for chunk in rest]


def whole(request: ChatRequest, events, **options) -> dict:
    encoder = ChatWholeEncoder(request, 1700000000, "chatcmpl-1", **options)
    for event in events:
        encoder.add([event])
    return json.loads(encoder.body())


def chunk(delta, *, index=0, finish=None, logprobs=None, **more) -> dict:
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1700000000,
        "model": "sim",
        "choices": [{"index": index, "delta": delta, "logprobs": logprobs, "finish_reason": finish}],
        **more,
    }


FIRST = {"role": "assistant", "content": "", "refusal": None}


# -------------------------------------------------------------------------------------------------------- chunk by chunk


def test_a_plain_stream_is_these_very_bytes():
    wire = streamed(asked(stream=True), [TextDelta(0, "Hé"), TextDelta(0, '"\n'), Finished(0, "stop"), USAGE, Done()])
    objects = [chunk(FIRST), chunk({"content": "Hé"}), chunk({"content": '"\n'}), chunk({}, finish="stop")]
    lines = [json.dumps(one, ensure_ascii=False, separators=(",", ":")) for one in objects] + ["[DONE]"]
    assert wire == "".join(f"data: {line}\n\n" for line in lines).encode()


text = st.text(st.characters(exclude_characters="\x85\u2028\u2029", exclude_categories=["Cs"]), min_size=1)


@given(text, st.integers(0, 3), st.booleans(), text, st.none() | text)
def test_a_text_delta_is_what_a_plain_encoder_writes(said, index, usage, model, fingerprint):
    request = asked(stream=True, model=model[:512], n=4, stream_options={"include_usage": usage})
    encoder = ChatStreamEncoder(request, 1700000000, "chatcmpl-1", fingerprint)
    encoder.encode([TextDelta(0, "open")])
    expected = chunk({"content": said}, index=index)
    expected["model"] = model[:512]
    if fingerprint is not None:
        expected["system_fingerprint"] = fingerprint
    if usage:
        expected["usage"] = None
    line = json.dumps(expected, ensure_ascii=False, separators=(",", ":"))
    assert encoder.encode([TextDelta(index, said)]) == f"data: {line}\n\n".encode()


def test_nothing_goes_out_before_the_first_event():
    encoder = ChatStreamEncoder(asked(stream=True), 1, "id")
    assert encoder.start() == b""
    assert encoder.encode([]) == b""
    assert encoder.encode([TextDelta(0, "")]) == b""


def test_events_together_are_the_same_bytes_as_events_one_by_one():
    events = [TextDelta(0, "a"), ReasoningDelta(0, "r"), TextDelta(0, "b"), Finished(0, "stop"), USAGE, Done()]
    request = asked(stream=True)
    assert ChatStreamEncoder(request, 1700000000, "chatcmpl-1").encode(events) == streamed(request, events)


def test_choices_open_in_order_whichever_speaks_first():
    found = chunks(asked(stream=True, n=3), [TextDelta(2, "c"), TextDelta(0, "a"), Finished(1, "stop")])
    assert [(one["choices"][0]["index"], one["choices"][0]["delta"]) for one in found] == [
        (0, FIRST),
        (1, FIRST),
        (2, FIRST),
        (2, {"content": "c"}),
        (0, {"content": "a"}),
        (1, {}),
    ]


def test_reasoning_has_its_own_field_whose_name_can_be_chosen():
    events = [ReasoningDelta(0, "hm"), ReasoningDelta(0, ""), TextDelta(0, "a")]
    assert deltas(asked(stream=True), events) == [{"reasoning_content": "hm"}, {"content": "a"}]
    assert deltas(asked(stream=True), events, reasoning_field="reasoning")[0] == {"reasoning": "hm"}
    assert deltas(asked(stream=True, include_reasoning=False), events) == [{"content": "a"}]


CALLS = [
    ToolCallStart(0, 0, "call-1", "f"),
    ToolCallDelta(0, 0, '{"a":'),
    ToolCallDelta(0, 0, ""),
    ToolCallDelta(0, 0, "1}"),
    ToolCallEnd(0, 0),
    ToolCallStart(0, 1, "call-2", "shell", custom=True),
    ToolCallDelta(0, 1, "ls -l"),
    ToolCallEnd(0, 1),
    Finished(0, "tool_calls"),
]
TOOLS = [{"type": "function", "function": {"name": "f"}}, {"type": "custom", "custom": {"name": "shell"}}]


def test_tool_calls_stream_their_arguments():
    assert deltas(asked(stream=True, tools=TOOLS), CALLS) == [
        {"tool_calls": [{"index": 0, "id": "call-1", "type": "function", "function": {"name": "f", "arguments": ""}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": '{"a":'}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": "1}"}}]},
        {"tool_calls": [{"index": 1, "id": "call-2", "type": "custom", "custom": {"name": "shell", "input": ""}}]},
        {"tool_calls": [{"index": 1, "custom": {"input": "ls -l"}}]},
        {},
    ]


def test_a_whole_message_holds_its_calls_and_no_content():
    [choice] = whole(asked(tools=TOOLS), [*CALLS, USAGE, Done()])["choices"]
    assert choice["finish_reason"] == "tool_calls"
    assert choice["message"] == {
        "role": "assistant",
        "content": None,
        "refusal": None,
        "tool_calls": [
            {"id": "call-1", "type": "function", "function": {"name": "f", "arguments": '{"a":1}'}},
            {"id": "call-2", "type": "custom", "custom": {"name": "shell", "input": "ls -l"}},
        ],
    }


def test_who_asked_with_functions_is_answered_with_a_function_call():
    request = asked(stream=True, functions=[{"name": "f"}])
    assert deltas(request, CALLS) == [
        {"function_call": {"name": "f", "arguments": ""}},
        {"function_call": {"arguments": '{"a":'}},
        {"function_call": {"arguments": "1}"}},
        {},
    ]
    assert chunks(request, CALLS)[-1]["choices"][0]["finish_reason"] == "function_call"
    [choice] = whole(request, CALLS)["choices"]
    assert choice["message"]["function_call"] == {"name": "f", "arguments": '{"a":1}'}
    assert "tool_calls" not in choice["message"]


LOGPROBS = (
    TokenLogprob("é", "é".encode(), -0.5, (TopLogprob("é", "é".encode(), -0.5), TopLogprob("e", b"e", float("-inf")))),
    TokenLogprob("\ufffd", b"\xf0\x9f", -1.0),
)
LOGPROBS_WIRE = {
    "content": [
        {
            "token": "é",
            "logprob": -0.5,
            "bytes": [195, 169],
            "top_logprobs": [
                {"token": "é", "logprob": -0.5, "bytes": [195, 169]},
                {"token": "e", "logprob": -9999.0, "bytes": [101]},
            ],
        },
        {"token": "\ufffd", "logprob": -1.0, "bytes": [240, 159], "top_logprobs": []},
    ],
    "refusal": None,
}


def test_logprobs_stand_beside_their_text():
    request = asked(stream=True, logprobs=True, top_logprobs=2)
    found = chunks(request, [TextDelta(0, "é", LOGPROBS), TextDelta(0, "", LOGPROBS[1:])])
    assert found[1] == chunk({"content": "é"}, logprobs=LOGPROBS_WIRE)
    assert found[2]["choices"][0]["logprobs"]["content"] == LOGPROBS_WIRE["content"][1:]
    [choice] = whole(request, [TextDelta(0, "é", LOGPROBS), Finished(0, "stop")])["choices"]
    assert choice["logprobs"] == LOGPROBS_WIRE
    [choice] = whole(asked(), [TextDelta(0, "é"), Finished(0, "stop")])["choices"]
    assert choice["logprobs"] is None


def test_usage_is_a_chunk_of_its_own_where_asked_for():
    events = [TextDelta(0, "a"), Finished(0, "stop"), USAGE, Done()]
    found = chunks(asked(stream=True, stream_options={"include_usage": True}), events)
    assert [one["usage"] for one in found] == [None, None, None, DETAILS]
    assert found[-1]["choices"] == []
    assert all("usage" not in one for one in chunks(asked(stream=True), events))
    assert whole(asked(), events)["usage"] == DETAILS


def test_blocks_travel_byte_for_byte_and_back():
    payloads = [b'{"signature": "s\\u0041", "x" : 1.50}', b"\xff\x00", "é\u2028".encode()]
    events = [OpaqueBlock(0, "thinking", payload) for payload in payloads]
    [choice] = whole(asked(), [*events, Finished(0, "stop")])["choices"]
    streamed_blocks = [delta["opaque_blocks"][0] for delta in deltas(asked(stream=True), events)]
    assert [block.pop("index") for block in streamed_blocks] == [0, 1, 2]
    assert streamed_blocks == choice["message"]["opaque_blocks"]
    back = asked(messages=[choice["message"], {"role": "user", "content": "go on"}]).generation.messages[0]
    assert [part.payload for part in back.parts if hasattr(part, "payload")] == payloads


def test_a_stop_reason_is_told_where_there_is_one():
    for matched in ("END", 151645):
        assert chunks(asked(stream=True), [Finished(0, "stop", matched)])[-1]["choices"][0]["stop_reason"] == matched
        assert whole(asked(), [Finished(0, "stop", matched)])["choices"][0]["stop_reason"] == matched


def test_the_service_tier_that_served_is_told_to_who_asked_for_one():
    for request in (asked(stream=True, service_tier="auto"), asked(stream=True, service_tier="priority")):
        assert {one["service_tier"] for one in chunks(request, [TextDelta(0, "a"), USAGE])} == {"default"}
        assert whole(request, [Finished(0, "stop")])["service_tier"] == "default"
    assert "service_tier" not in whole(asked(), [Finished(0, "stop")])


def test_metadata_comes_back_with_the_whole_body():
    assert whole(asked(metadata={"a": "b"}), [Finished(0, "stop")])["metadata"] == {"a": "b"}


def test_an_error_ends_the_stream_in_band_without_done():
    wire = streamed(
        asked(stream=True),
        [TextDelta(0, "a"), Failed(EngineFailed("It broke.", detail="10.0.0.1")), TextDelta(0, "b"), Done()],
    )
    *_, last = frames(wire)
    assert json.loads(last) == {"error": {"message": "It broke.", "type": "server_error", "param": None, "code": None}}
    assert b"[DONE]" not in wire
    assert b"10.0.0.1" not in wire


def test_an_error_before_anything_else_is_the_only_frame():
    [frame] = frames(streamed(asked(stream=True, n=3), [Failed(EngineFailed("It broke."))]))
    assert json.loads(frame)["error"]["message"] == "It broke."


@pytest.mark.parametrize("reason", ["stop", "length", "tool_calls", "content_filter", "abort", "error"])
def test_the_reason_for_the_end_of_a_choice_is_told_as_it_is(reason):
    assert chunks(asked(stream=True), [Finished(0, reason)])[-1]["choices"][0]["finish_reason"] == reason
    assert whole(asked(), [Finished(0, reason)])["choices"][0]["finish_reason"] == reason


def test_nothing_follows_the_end():
    encoder = ChatStreamEncoder(asked(stream=True), 1, "id")
    assert encoder.encode([Done(), TextDelta(0, "late")]) == b"data: [DONE]\n\n"
    assert encoder.encode([TextDelta(0, "later"), Done()]) == b""


def test_a_failure_is_raised_by_the_whole_body():
    encoder = ChatWholeEncoder(asked(), 1, "id")
    error = EngineFailed("It broke.")
    encoder.add([TextDelta(0, "a"), Failed(error)])
    encoder.add([Finished(0, "stop"), Done()])
    with pytest.raises(EngineFailed) as caught:
        encoder.body()
    assert caught.value is error


def test_half_a_character_does_not_break_the_stream():
    events = [TextDelta(0, "a\ud83d"), ToolCallStart(0, 0, "c", "f\udc00"), Finished(0, "stop")]
    assert deltas(asked(stream=True), events)[0] == {"content": "a\ufffd"}
    assert whole(asked(), events)["choices"][0]["message"]["content"] == "a\ufffd"


def test_no_text_can_end_a_frame_early():
    wire = streamed(asked(stream=True), [TextDelta(0, "a\u2028b\u2029c\x85d\x0be\x0cf\x1cg\n\ndata: [DONE]\n\n")])
    assert len(wire.decode().splitlines()) == 4  # two frames, each one line and one empty line


@given(st.lists(text, min_size=1, max_size=20))
def test_obfuscated_chunks_differ_in_size_by_whole_blocks_and_say_the_same(said):
    request = asked(stream=True, stream_options={"include_obfuscation": True})
    encoder = ChatStreamEncoder(request, 1, "id")
    encoder.encode([TextDelta(0, "open")])
    sizes = set()
    for piece in said:
        wire = encoder.encode([TextDelta(0, piece)])
        [frame] = frames(wire)
        found = json.loads(frame)
        assert found["choices"][0]["delta"] == {"content": piece}
        assert set(found["obfuscation"]) <= {"x"}
        sizes.add(len(wire) % 32)
    assert len(sizes) == 1


# ------------------------------------------------------------------------------------------------- streams and wholes

words = st.text(st.characters(), max_size=8)


@st.composite
def choice_events(draw, index, names):
    """A valid run of events for one choice."""
    events, call = [], 0
    for kind in draw(st.lists(st.sampled_from("ttttrco"), max_size=8)):
        if kind == "t":
            events.append(TextDelta(index, draw(words)))
        elif kind == "r":
            events.append(ReasoningDelta(index, draw(words)))
        elif kind == "o":
            events.append(OpaqueBlock(index, "thinking", draw(st.binary(max_size=8))))
        else:
            name = draw(st.sampled_from(names))
            events.append(ToolCallStart(index, call, f"call-{index}-{call}", name))
            events += [ToolCallDelta(index, call, piece) for piece in draw(st.lists(words, max_size=3))]
            events.append(ToolCallEnd(index, call))
            call += 1
    reason = draw(st.sampled_from(["stop", "length", "content_filter"])) if not call else "tool_calls"
    return [*events, Finished(index, reason, draw(st.sampled_from([None, "END", 7])))]


@st.composite
def responses(draw, names=("f", "shell", "unknown")):
    """Valid events of a response with 1 to 3 choices, interleaved."""
    runs = [list(draw(choice_events(index, names))) for index in range(draw(st.integers(1, 3)))]
    count, events = len(runs), []
    while any(runs):
        events.append(draw(st.sampled_from([run for run in runs if run])).pop(0))
    return count, [*events, USAGE, Done()]


def add_delta(message: dict, delta: dict) -> None:
    for name in ("role", "refusal"):
        if name in delta:
            message[name] = delta[name]
    for name in ("content", "reasoning_content"):
        if name in delta:
            message[name] = message.get(name, "") + delta[name]
    for block in delta.get("opaque_blocks", ()):
        message.setdefault("opaque_blocks", []).append({k: v for k, v in block.items() if k != "index"})
    for call in delta.get("tool_calls", ()):
        calls = message.setdefault("tool_calls", [])
        if "id" in call:
            assert call["index"] == len(calls)
            calls.append({k: v for k, v in call.items() if k != "index"})
            continue
        kind, field = ("function", "arguments") if "function" in call else ("custom", "input")
        calls[call["index"]][kind][field] += call[kind][field]


def accumulate(found: list[dict]) -> dict:
    """The slow, obvious reading of a stream: what every chunk adds to its choice."""
    choices: dict[int, dict] = {}
    usage = None
    for one in found:
        usage = one.get("usage") or usage
        for part in one["choices"]:
            choice = choices.setdefault(part["index"], {"index": part["index"], "message": {}, "logprobs": None})
            add_delta(choice["message"], part["delta"])
            choice["finish_reason"] = part["finish_reason"]
            if "stop_reason" in part:
                choice["stop_reason"] = part["stop_reason"]
    for choice in choices.values():
        beside = {"tool_calls", "reasoning_content", "opaque_blocks"} & choice["message"].keys()
        if not choice["message"]["content"].strip() and beside:
            choice["message"]["content"] = None
    return {"choices": [choices[index] for index in sorted(choices)], "usage": usage}


@given(responses(), st.booleans())
def test_a_stream_adds_up_to_the_whole_body(response, reasoning):
    count, events = response
    events = [whole_characters(event) for event in events]
    request = asked(
        stream=True, n=count, tools=TOOLS, include_reasoning=reasoning, stream_options={"include_usage": True}
    )
    added = accumulate(chunks(request, events))
    body = whole(request, events)
    assert added["choices"] == body["choices"]
    assert added["usage"] == body["usage"]


def whole_characters(event):
    """The event with half characters mended as a stream mends them: piece by piece, where the whole body joins first."""
    changes = {
        name: without_surrogates(getattr(event, name))
        for name in ("text", "arguments")
        if isinstance(getattr(event, name, None), str)
    }
    return msgspec.structs.replace(event, **changes) if changes else event


SEALED_ALONE = [TextDelta(0, " "), OpaqueBlock(0, "thinking", b""), Finished(0, "stop"), Usage(10, 5, 4, 2), Done()]
"""White space alone beside reasoning that is sealed."""


@example((1, SEALED_ALONE))
@given(responses(names=["f", "g"]))
def test_the_official_sdk_adds_the_stream_up_to_the_whole_body(response):
    count, events = response
    events = [whole_characters(event) for event in events]
    request = asked(stream=True, n=count, stream_options={"include_usage": True})
    state = ChatCompletionStreamState()
    for one in chunks(request, events):
        list(state.handle_chunk(ChatCompletionChunk.model_validate(one)))
    added = state.current_completion_snapshot
    body = ChatCompletion.model_validate(whole(request, events))
    assert added.usage == body.usage
    for ours, theirs in itertools.zip_longest(body.choices, added.choices):
        assert (theirs.index, theirs.finish_reason) == (ours.index, ours.finish_reason)
        said, beside = theirs.message.content or "", theirs.message.tool_calls or theirs.message.model_extra
        # beside reasoning or calls, a whole answer has no content where that would be white space alone
        assert ((said or None) if said.strip() or not beside else None) == (ours.message.content or None)
        for extra in ("reasoning_content", "opaque_blocks"):
            said, meant = ((message.model_extra or {}).get(extra) or [] for message in (theirs.message, ours.message))
            assert (
                [block["data"] for block in said] == [block["data"] for block in meant]
                if extra[0] == "o"
                else said == meant
            )
        assert spoken(theirs.message) == spoken(ours.message)


def spoken(message):
    return [(call.id, call.function.name, call.function.arguments) for call in message.tool_calls or ()]


@given(responses())
def test_every_chunk_and_body_is_valid_by_the_official_types(response):
    count, events = response
    request = asked(stream=True, n=count)
    for one in chunks(request, events):
        ChatCompletionChunk.model_validate(one)
    ChatCompletion.model_validate(whole(request, events))


# --------------------------------------------------------------------------------------- what other APIs have words for

UNSEEN = [
    Started(3, None, "sim"),
    ReasoningEnd(0, b"gw1.x"),
    TextEnd(0),
    Annotation(0, "url", 0, 1, "https://a"),
    HostedStart(0, "ws-1", "web_search"),
    HostedProgress(0, "searching"),
    HostedEnd(0),
]


def test_what_chat_has_no_word_for_is_passed_over_and_does_not_commit_the_response():
    encoder = ChatStreamEncoder(asked(stream=True), 1700000000, "chatcmpl-1")
    assert encoder.encode(UNSEEN) == b""
    plain = [TextDelta(0, "a"), Finished(0, "stop"), USAGE, Done()]
    marked = [UNSEEN[0], TextDelta(0, "a"), *UNSEEN[1:], Finished(0, "stop", cut=True), USAGE, Done()]
    assert streamed(asked(stream=True), marked) == streamed(asked(stream=True), plain)
    assert whole(asked(), marked) == whole(asked(), plain)


def test_every_event_has_a_writer_in_a_stream():
    assert set(_STREAM_WRITERS) == set(typing.get_args(Event))


def test_a_refusal_has_its_own_field():
    events = [RefusalDelta(0, "I "), RefusalDelta(0, ""), RefusalDelta(0, "won't."), TextEnd(0), Finished(0, "refusal")]
    assert deltas(asked(stream=True), events) == [{"refusal": "I "}, {"refusal": "won't."}, {}]
    [choice] = whole(asked(), events)["choices"]
    assert choice["message"] == {"role": "assistant", "content": None, "refusal": "I won't."}
    assert choice["finish_reason"] == "stop"


@pytest.mark.parametrize(
    ("reason", "said"),
    [
        ("stop", "stop"),
        ("length", "length"),
        ("context", "length"),
        ("tool_calls", "tool_calls"),
        ("malformed_call", "tool_calls"),
        ("content_filter", "content_filter"),
        ("refusal", "stop"),
        ("pause", "length"),
        ("abort", "abort"),
    ],
)
def test_a_choice_ends_with_a_reason_that_chat_knows(reason, said):
    assert chunks(asked(stream=True), [Finished(0, reason)])[-1]["choices"][0]["finish_reason"] == said
    assert whole(asked(), [Finished(0, reason)])["choices"][0]["finish_reason"] == said


def test_a_malformed_call_of_the_old_wire_is_a_function_call_still():
    request = asked(stream=True, functions=[{"name": "f"}])
    assert chunks(request, [Finished(0, "malformed_call")])[-1]["choices"][0]["finish_reason"] == "function_call"


def test_a_call_that_says_it_is_custom_is_written_as_one_whatever_was_offered():
    events = [ToolCallStart(0, 0, "c", "shell", custom=True), ToolCallDelta(0, 0, "ls"), ToolCallEnd(0, 0)]
    opened, more = deltas(asked(stream=True), events)
    assert opened["tool_calls"][0]["custom"] == {"name": "shell", "input": ""}
    assert more["tool_calls"][0]["custom"] == {"input": "ls"}
    [call] = whole(asked(), events)["choices"][0]["message"]["tool_calls"]
    assert call == {"id": "c", "type": "custom", "custom": {"name": "shell", "input": "ls"}}


def test_a_cancelled_response_just_ends():
    events = [TextDelta(0, "a"), USAGE, Cancelled("asked"), TextDelta(0, "late")]
    assert frames(streamed(asked(stream=True), events)) == frames(streamed(asked(stream=True), events[:1]))
    with pytest.raises(ClientGone):
        whole(asked(), events)


def test_an_error_inside_a_stream_names_the_field_that_the_client_wrote():
    error = InvalidRequest("Invalid 'sampling.logprobs': too many.", param="sampling.logprobs")
    [frame] = frames(streamed(asked(stream=True), [Failed(error)]))
    found = json.loads(frame)["error"]

    assert (found["param"], found["message"]) == ("top_logprobs", "Invalid 'top_logprobs': too many.")


def test_a_stream_is_kept_alive_by_a_comment_that_readers_pass_over():
    comment = ChatStreamEncoder(ChatRequest(GenerationRequest(id="r", model="m")), 0, "r").keep_alive()

    assert comment.startswith(b":")
    assert list(SseReader().feed(comment)) == []
