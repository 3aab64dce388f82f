"""Answers of Messages: streams obey the API's grammar whatever the events are, and say the same as whole answers."""

import itertools
import json
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg_core.apis.messages.decode import MessagesRequest
from smg_core.apis.messages.encode import MessagesStreamEncoder, MessagesWholeEncoder
from smg_core.errors import EngineFailed
from smg_core.events import (
    Done,
    Event,
    Failed,
    Finished,
    ReasoningDelta,
    ReasoningEnd,
    RefusalDelta,
    Started,
    TextDelta,
    TextEnd,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
    Usage,
)
from smg_core.request import GenerationRequest, ReasoningSettings, Sampling
from smg_core.sse import SseReader

REQUEST = MessagesRequest(GenerationRequest(id="msg_1", model="m", sampling=Sampling(stop=("END",))))
TEXTS = st.lists(st.text(min_size=1, max_size=8), min_size=1, max_size=3)


@st.composite
def blocks(draw: st.DrawFn) -> list[Event]:
    kind = draw(st.sampled_from(["text", "refusal", "thinking", "call"]))
    texts = draw(TEXTS)
    if kind == "text":
        return [*(TextDelta(0, text) for text in texts), TextEnd(0)]
    if kind == "refusal":
        return [*(RefusalDelta(0, text) for text in texts), TextEnd(0)]
    if kind == "thinking":
        return [*(ReasoningDelta(0, text) for text in texts), ReasoningEnd(0, b"gw1.seal")]
    arguments = json.dumps(draw(st.dictionaries(st.text(max_size=3), st.integers() | st.text(max_size=5), max_size=3)))
    cut = draw(st.integers(0, len(arguments)))
    pieces = [piece for piece in (arguments[:cut], arguments[cut:]) if piece]
    return [ToolCallStart(0, 0, "toolu_1", "f"), *(ToolCallDelta(0, 0, each) for each in pieces), ToolCallEnd(0, 0)]


@st.composite
def responses(draw: st.DrawFn) -> list[Event]:
    said = [event for block in draw(st.lists(blocks(), max_size=5)) for event in block]
    reason = draw(st.sampled_from(["stop", "length", "tool_calls", "context", "content_filter", "pause"]))
    cached, wrote = draw(st.integers(0, 10)), draw(st.integers(0, 10))
    usage = Usage(10, draw(st.integers(0, 9)), cached, 1, wrote)
    return [Started(10, None, "m"), *said, Finished(0, reason), usage, Done()]


def frames(data: bytes) -> list[dict[str, Any]]:
    found = []
    for event in SseReader().feed(data):
        payload: dict[str, Any] = json.loads(event.data)
        assert event.event == payload["type"]
        found.append(payload)
    return found


def read(events: list[dict[str, Any]]) -> dict[str, Any]:
    """What a client makes of a stream; fails where it breaks the grammar."""
    message: dict[str, Any] = {}
    current: dict[str, Any] | None = None
    arguments, ended = "", False
    for event in events:
        assert not ended
        match event["type"]:
            case "message_start":
                assert not message
                message = event["message"]
            case "ping":
                assert message
            case "content_block_start":
                assert current is None
                assert event["index"] == len(message["content"])
                current, arguments = event["content_block"], ""
                message["content"].append(current)
            case "content_block_delta":
                assert current is not None
                assert event["index"] == len(message["content"]) - 1
                delta = event["delta"]
                if delta["type"] == "input_json_delta":
                    arguments += delta["partial_json"]
                elif delta["type"] == "signature_delta":
                    assert current["signature"] == ""
                    current["signature"] = delta["signature"]
                else:
                    current[delta["type"].removesuffix("_delta")] += delta[delta["type"].removesuffix("_delta")]
            case "content_block_stop":
                assert current is not None
                if current["type"] == "tool_use" and arguments:
                    current["input"] = json.loads(arguments)
                current = None
            case "message_delta":
                assert current is None
                message |= event["delta"]
                message["usage"] |= event["usage"]
            case "message_stop":
                ended = True
    assert ended
    return message


def plain(message: dict[str, Any]) -> dict[str, Any]:
    for block in message["content"]:
        block.pop("citations", None)
    return message


@given(responses(), st.lists(st.integers(0, 40), max_size=6))
def test_a_stream_in_any_batches_is_the_whole_answer(events, cuts):
    edges = [0, *sorted({min(cut, len(events)) for cut in cuts}), len(events)]
    encoder, whole = MessagesStreamEncoder(REQUEST), MessagesWholeEncoder(REQUEST)
    data = b"".join(encoder.encode(events[a:b]) for a, b in itertools.pairwise(edges))
    whole.fork().add(events)  # changes nothing here
    whole.add(events)

    assert plain(read(frames(encoder.start() + data))) == plain(json.loads(whole.body()))


@given(responses())
def test_the_parts_of_the_prompt_add_up(events):
    whole = MessagesWholeEncoder(REQUEST)
    whole.add(events)
    usage = json.loads(whole.body())["usage"]

    assert usage["input_tokens"] + usage["cache_read_input_tokens"] + usage["cache_creation_input_tokens"] == 10


def test_an_error_is_the_last_event_and_names_the_request():
    encoder = MessagesStreamEncoder(REQUEST)
    data = encoder.encode([Started(3, 1, "m"), TextDelta(0, "a")])
    data += encoder.encode([Usage(3, 1), Failed(EngineFailed("It broke."))])
    data += encoder.encode([TextDelta(0, "b")])

    last = frames(data)[-1]
    assert last == {"type": "error", "error": {"type": "api_error", "message": "It broke."}, "request_id": "msg_1"}


@pytest.mark.parametrize(
    ("finished", "reason", "sequence"),
    [
        (Finished(0, "stop"), "end_turn", None),
        (Finished(0, "stop", "END"), "stop_sequence", "END"),
        (Finished(0, "stop", "<eos>"), "end_turn", None),
        (Finished(0, "context"), "model_context_window_exceeded", None),
        (Finished(0, "malformed_call"), "tool_use", None),
    ],
)
def test_each_end_has_the_apis_reason(finished, reason, sequence):
    whole = MessagesWholeEncoder(REQUEST)
    whole.add([Started(1, None, "m"), finished, Usage(1, 1), Done()])
    found = json.loads(whole.body())

    assert (found["stop_reason"], found["stop_sequence"]) == (reason, sequence)


def test_arguments_that_are_no_json_go_on_as_they_are():
    events = [
        Started(1, None, "m"),
        ToolCallStart(0, 0, "c", "f"),
        ToolCallDelta(0, 0, '{"a'),
        ToolCallEnd(0, 0, False),
    ]
    encoder, whole = MessagesStreamEncoder(REQUEST), MessagesWholeEncoder(REQUEST)
    whole.add([*events, Finished(0, "length"), Usage(1, 1), Done()])

    assert b'"partial_json":"{\\"a"' in encoder.encode(events)
    assert json.loads(whole.body())["content"][0]["input"] == {"INVALID_JSON": '{"a'}


@pytest.mark.parametrize("cuts", [(), (1,), (1, 2, 3), (0, 0, 4)])
@pytest.mark.parametrize("arguments", ['["a \\"b"]', '"text"', " 7", "no json", "null"])
def test_a_stream_wraps_arguments_that_do_not_begin_as_an_object(arguments: str, cuts: tuple[int, ...]) -> None:
    pieces = [arguments[start:end] for start, end in pairwise((0, *cuts, len(arguments)))]
    events = [Started(1, None, "m"), ToolCallStart(0, 0, "c", "f"), *[ToolCallDelta(0, 0, each) for each in pieces]]
    data = MessagesStreamEncoder(REQUEST).encode([*events, ToolCallEnd(0, 0, True)])
    said = "".join(frame["delta"]["partial_json"] for frame in frames(data) if "delta" in frame)
    assert json.loads(said)["INVALID_JSON"].strip() == arguments.strip()


def test_silence_is_a_ping_once_the_message_has_begun():
    encoder = MessagesStreamEncoder(REQUEST)
    assert encoder.keep_alive().startswith(b":")
    encoder.encode([Started(1, None, "m")])
    assert frames(encoder.keep_alive()) == [{"type": "ping"}]


def test_hidden_thinking_leaves_as_its_signature():
    generation = msgspec.structs.replace(REQUEST.generation, reasoning=ReasoningSettings(visible="sealed"))
    encoder = MessagesStreamEncoder(MessagesRequest(generation))
    data = encoder.encode([Started(1, None, "m"), ReasoningDelta(0, "secret"), ReasoningEnd(0, b"gw1.s")])

    assert b"secret" not in data
    kinds = [frame["delta"]["type"] for frame in frames(data) if "delta" in frame]
    assert kinds == ["signature_delta"]


def test_blank_lines_behind_a_thought_are_left_out():
    texts = [TextDelta(0, "\n"), TextDelta(0, "\n"), TextDelta(0, "\nGood"), TextDelta(0, "\n\nday."), TextEnd(0)]
    thought = [ReasoningDelta(0, "I think."), ReasoningEnd(0, b"gw1.s")]
    events = [Started(1, None, "m"), *thought, *texts, Finished(0, "stop"), Usage(1, 5), Done()]
    encoder, whole = MessagesStreamEncoder(REQUEST), MessagesWholeEncoder(REQUEST)
    data = b"".join(encoder.encode([event]) for event in events)
    whole.add(events)

    for message in (read(frames(data)), json.loads(whole.body())):
        assert [block.get("text") for block in message["content"]] == [None, "Good\n\nday."]
