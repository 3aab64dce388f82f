"""A Chat Completions stream as events: cut anywhere, with calls that alternate, with errors, and with what servers leave out."""

import itertools
import json
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given
from tests.core.event_grammar import check

from smg_core.apis.chat.decode import ChatRequest
from smg_core.apis.chat.encode import ChatStreamEncoder
from smg_core.engines.openai.events import ChatDecoder
from smg_core.engines.settings import EnginesConfig
from smg_core.errors import EngineFailed, EngineGarbled, EngineRejected, SmgError, WorkerBusy
from smg_core.events import (
    Done,
    Event,
    Failed,
    Finished,
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
from smg_core.request import GenerationRequest, Sampling

USAGE = {"prompt_tokens": 3, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 1}}


def sse(*objects: Any, done: bool = True) -> bytes:
    lines = [f"data: {json.dumps(each)}\n\n" for each in objects] + ["data: [DONE]\n\n"] * done
    return "".join(lines).encode()


def delta(index: int = 0, finish: str | None = None, **fields: Any) -> dict[str, Any]:
    return {"choices": [{"index": index, "delta": fields, "finish_reason": finish}]}


def call(
    place: int | None, arguments: str | None = None, name: str | None = None, id: str | None = None
) -> dict[str, Any]:
    wire: dict[str, Any] = {"function": {"name": name, "arguments": arguments}, "id": id}
    if place is not None:
        wire["index"] = place
    return delta(tool_calls=[wire])


def read(data: bytes, choices: int = 1, **options: Any) -> tuple[list[Event], SmgError | None]:
    decoder = ChatDecoder("r", choices, **options)
    events = decoder.feed(data) + decoder.end()
    whole = [Started(0, None, "m"), *events]
    if not any(isinstance(event, Usage) for event in events):
        whole.append(Usage(0, 0))
    check([*whole, Done() if decoder.error is None else Failed(decoder.error)], choices=choices)
    return events, decoder.error


def good(data: bytes, choices: int = 1, **options: Any) -> list[Event]:
    events, error = read(data, choices, **options)
    assert error is None, error
    return events


def test_a_call_without_an_id_gets_one_in_the_form_of_the_clients_api() -> None:
    said = sse(call(0, "{}", "f"), delta(finish="tool_calls"))
    assert [good(said, **given)[0] for given in ({}, {"calls": "toolu_"})] == [
        ToolCallStart(0, 0, "call_r_0_0", "f"),
        ToolCallStart(0, 0, "toolu_r_0_0", "f"),
    ]


# -------------------------------------------------------------------------------------------------------- what is said


def test_text_and_usage() -> None:
    data = sse(
        delta(role="assistant", content=""), delta(content="Hel"), delta(content="lo"), delta(finish="stop"),
        {"choices": [], "usage": USAGE},
    )  # fmt: skip

    assert good(data) == [TextDelta(0, "Hel"), TextDelta(0, "lo"), TextEnd(0), Finished(0, "stop"), Usage(3, 2, 1)]


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning"])
def test_reasoning_under_both_its_names(name: str) -> None:
    data = sse(delta(**{name: "hm"}), delta(content="yes"), delta(finish="stop"))

    assert good(data)[:4] == [ReasoningDelta(0, "hm"), ReasoningEnd(0), TextDelta(0, "yes"), TextEnd(0)]


def test_reasoning_under_both_names_at_once_is_taken_once() -> None:
    assert good(sse(delta(reasoning="hm", reasoning_content="hm"), delta(finish="stop")))[0] == ReasoningDelta(0, "hm")


def test_a_refusal_and_an_opaque_block() -> None:
    block = {"type": "sealed", "data": "/w==", "encoding": "base64"}
    data = sse(delta(refusal="no"), delta(opaque_blocks=[block]), delta(finish="stop"))

    assert good(data)[:3] == [RefusalDelta(0, "no"), TextEnd(0), OpaqueBlock(0, "sealed", b"\xff")]


def test_logprobs_stay_with_their_text() -> None:
    told = {"token": "é", "logprob": -0.5, "bytes": [195, 169], "top_logprobs": [{"token": "e", "logprob": -1.0}]}
    chunk = {"choices": [{"index": 0, "delta": {"content": "é"}, "logprobs": {"content": [told]}}]}

    assert good(sse(chunk, delta(finish="stop")))[0] == TextDelta(
        0, "é", (TokenLogprob("é", "é".encode(), -0.5, (TopLogprob("e", b"e", -1.0),)),)
    )


def test_choices_alternate_and_each_finishes() -> None:
    data = sse(delta(0, content="a"), delta(1, content="b"), delta(1, "length"), delta(0, "stop"))

    assert good(data, 2) == [
        TextDelta(0, "a"), TextDelta(1, "b"), TextEnd(1), Finished(1, "length", None, True), TextEnd(0), Finished(0, "stop"),
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["stop_reason", "matched_stop"])
def test_what_ended_a_choice_is_told(name: str) -> None:
    chunk = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop", name: "END"}]}

    assert good(sse(chunk)) == [Finished(0, "stop", "END")]


def test_a_reason_nobody_knows_is_an_error_of_the_choice() -> None:
    assert good(sse(delta(finish="tired"))) == [Finished(0, "stop")]


def test_usage_that_is_told_all_along_is_given_once_at_the_end() -> None:
    chunk = {**delta(content="a"), "usage": {"prompt_tokens": 3, "completion_tokens": 1}}

    assert good(sse(chunk, {**delta(finish="stop"), "usage": USAGE}))[-1] == Usage(3, 2, 1)
    wrote = {**USAGE, "prompt_tokens_details": {"cached_tokens": 1, "cache_write_tokens": 2}}
    assert good(sse(chunk, {**delta(finish="stop"), "usage": wrote}))[-1] == Usage(3, 2, 1, cache_write_tokens=2)


def test_counts_that_cannot_be_are_not_passed_on() -> None:
    odd = {"prompt_tokens": -1, "completion_tokens": 10**30, "prompt_tokens_details": {"cached_tokens": -5}}

    assert good(sse(delta(content="a"), {**delta(finish="stop"), "usage": odd}))[-1] == Usage(0, 0)


def test_a_server_that_does_not_count_gives_no_usage() -> None:
    assert good(sse(delta(finish="stop"))) == [Finished(0, "stop")]


# --------------------------------------------------------------------------------------------------------------- calls


def test_a_call_streams_as_it_comes() -> None:
    data = sse(call(0, "", "f", "c1"), call(0, '{"a"'), call(0, ":1}"), delta(finish="tool_calls"))

    assert good(data) == [
        ToolCallStart(0, 0, "c1", "f"), ToolCallDelta(0, 0, '{"a"'), ToolCallDelta(0, 0, ":1}"), ToolCallEnd(0, 0),
        Finished(0, "tool_calls"),
    ]  # fmt: skip


def test_calls_that_alternate_come_one_after_the_other() -> None:
    data = sse(
        call(0, '{"a"', "f", "c1"), call(1, '{"b"', "g", "c2"), delta(content="x"), call(1, ":2}"), call(0, ":1}"),
        call(1, " "), delta(finish="tool_calls"),
    )  # fmt: skip

    assert good(data) == [
        ToolCallStart(0, 0, "c1", "f"), ToolCallDelta(0, 0, '{"a"'), ToolCallDelta(0, 0, ":1}"), ToolCallEnd(0, 0),
        ToolCallStart(0, 1, "c2", "g"), ToolCallDelta(0, 1, '{"b"'), ToolCallDelta(0, 1, ":2}"), ToolCallEnd(0, 1),
        TextDelta(0, "x"), TextEnd(0), Finished(0, "tool_calls"),
    ]  # fmt: skip


def test_a_complete_call_makes_way_at_once() -> None:
    decoder = ChatDecoder("r")
    first = decoder.feed(sse(call(0, "{}", "f", "c1"), call(1, "{", "g", "c2"), done=False))

    assert first[2:] == [ToolCallEnd(0, 0), ToolCallStart(0, 1, "c2", "g"), ToolCallDelta(0, 1, "{")]


def test_calls_without_numbers_are_told_apart_by_their_ids() -> None:
    data = sse(call(None, "{}", "f", "c1"), call(None, "{", "g", "c2"), call(None, "}"), delta(finish="stop"))
    events = good(data)

    assert [event.id for event in events if isinstance(event, ToolCallStart)] == ["c1", "c2"]
    assert events[-2:] == [ToolCallEnd(0, 1), Finished(0, "tool_calls")]


def test_a_call_without_an_id_gets_one_that_names_its_place() -> None:
    assert good(sse(call(3, "{}", "f"), delta(finish="stop")))[0] == ToolCallStart(0, 0, "call_r_0_3", "f")


def test_a_call_without_arguments_has_an_empty_object() -> None:
    assert good(sse(call(0, "", "f", "c1"), delta(finish="tool_calls")))[1:3] == [
        ToolCallDelta(0, 0, "{}"),
        ToolCallEnd(0, 0),
    ]


def test_a_call_that_is_cut_off_is_closed_as_not_valid() -> None:
    data = sse(call(0, '{"a"', "f", "c1"), delta(finish="length"))

    assert good(data)[2:] == [ToolCallEnd(0, 0, False), Finished(0, "length", None, True)]


def test_a_custom_call_carries_free_text() -> None:
    first = {"index": 0, "id": "c1", "type": "custom", "custom": {"name": "sh", "input": "ls"}}
    data = sse(delta(tool_calls=[first]), delta(finish="tool_calls"))

    assert good(data)[:3] == [
        ToolCallStart(0, 0, "c1", "sh", custom=True),
        ToolCallDelta(0, 0, "ls"),
        ToolCallEnd(0, 0),
    ]


# -------------------------------------------------------------------------------------------------------- what is wrong

BROKEN = [
    ("no JSON", b"data: {\n\n"),
    ("not a chunk", sse({"choices": 7})),
    ("too deep", b"data: " + b"[" * 100_000 + b"\n\n"),
    ("is over before its choices", sse(delta(content="a"))),
    ("a choice nobody asked for", sse(delta(5, content="a"))),
    ("a choice below all", sse(delta(-1, content="a"))),
    ("more after the finish", sse(delta(finish="stop"), delta(content="a"))),
    ("a call without a name", sse(call(0, "{}"))),
    ("more of a complete call", sse(call(0, "{}", "f"), delta(content="a"), call(0, "}"))),
    ("bytes of a token that are none", sse({"choices": [{"logprobs": {"content": [{"bytes": [300]}]}}]})),
    ("a block that is no base64", sse(delta(opaque_blocks=[{"type": "x", "data": "?", "encoding": "base64"}]))),
]


@pytest.mark.parametrize("data", [data for _, data in BROKEN], ids=[name for name, _ in BROKEN])
def test_a_stream_that_breaks_the_protocol_is_garbled(data: bytes) -> None:
    _, error = read(data)

    assert isinstance(error, EngineGarbled)


ERRORS = [
    ({"message": "bad", "type": "invalid_request_error", "code": None}, EngineRejected),
    ({"message": "bad", "type": "BadRequestError", "code": 400}, EngineRejected),
    ({"message": "full", "code": "429"}, WorkerBusy),
    ({"message": "full", "type": "rate_limit_error"}, WorkerBusy),
    ({"message": "full", "code": "server_is_overloaded"}, WorkerBusy),
    ({"message": "key", "code": 401}, EngineFailed),
    ({"message": "oops", "type": "server_error"}, EngineFailed),
    ("oops", EngineFailed),
]


@pytest.mark.parametrize(("told", "kind"), ERRORS)
def test_an_error_in_the_stream_ends_it_as_ours_and_keeps_what_came_before(told: Any, kind: type[SmgError]) -> None:
    data = sse({**delta(content="a"), "usage": USAGE}, {"error": told}, delta(content="never"))
    events, error = read(data)

    assert type(error) is kind
    assert events == [TextDelta(0, "a"), Usage(3, 2, 1)]
    words = told if isinstance(told, str) else told["message"]
    assert words not in error.message
    assert words in str(error.detail)


def test_an_error_without_an_envelope_is_one_too() -> None:
    _, error = read(sse({"object": "error", "message": "bad", "type": "BadRequestError", "code": 400}))

    assert type(error) is EngineRejected


def test_an_event_without_end_is_refused_before_it_is_held() -> None:
    _, error = read(b"data: " + b"x" * 2000, limits=EnginesConfig(http_event_bytes=1000))

    assert isinstance(error, EngineGarbled)


def test_what_is_held_back_is_bounded() -> None:
    pieces = [call(0, "{", "f"), call(1, "{", "g"), *(call(1, '"a":1,') for _ in range(100))]
    events, error = read(sse(*pieces, done=False), limits=EnginesConfig(http_held_bytes=2000))

    assert isinstance(error, EngineGarbled)
    assert events[0] == ToolCallStart(0, 0, "call_r_0_0", "f")


def test_what_was_held_back_and_let_go_is_not_counted_any_more() -> None:
    rounds = itertools.chain.from_iterable(
        (call(place, "{", "f"), call(place + 1, "{}", "g"), call(place, "}")) for place in range(0, 100, 2)
    )

    assert len(good(sse(*rounds, delta(finish="stop")), limits=EnginesConfig(http_held_bytes=500))) > 300


def test_calls_are_bounded() -> None:
    _, error = read(sse(*(call(place, "{}", "f") for place in range(5))), limits=EnginesConfig(http_calls=4))

    assert isinstance(error, EngineGarbled)


# ---------------------------------------------------------------------------------------------------------- properties

words = st.text(max_size=5)
arguments = st.dictionaries(words, words, max_size=2).map(json.dumps)


@st.composite
def calls_in_pieces(draw: st.DrawFn) -> tuple[list[str], list[tuple[int, str]]]:
    """Whole arguments, and their pieces in an order in which those of different calls alternate."""
    whole = draw(st.lists(arguments, min_size=1, max_size=4))
    left = dict(enumerate(whole))
    pieces = [(place, "") for place in left]
    while left:
        place = draw(st.sampled_from(sorted(left)))
        size = draw(st.integers(1, 4))
        pieces.append((place, left[place][:size]))
        left[place] = left[place][size:]
        if not left[place]:
            del left[place]
    return whole, pieces


@given(calls_in_pieces(), st.booleans())
def test_calls_in_any_order_of_pieces_come_whole_and_apart(
    drawn: tuple[list[str], list[tuple[int, str]]], text: bool
) -> None:
    whole, pieces = drawn
    chunks = [call(place, piece, None if piece else "f", None if piece else f"c{place}") for place, piece in pieces]
    if text:
        chunks.insert(len(chunks) // 2, delta(content="between"))
    events = good(sse(*chunks, delta(finish="tool_calls")))
    ids = [event.id for event in events if isinstance(event, ToolCallStart)]
    joined = [
        "".join(e.arguments for e in events if isinstance(e, ToolCallDelta) and e.call == n) for n in range(len(ids))
    ]

    assert dict(zip(ids, joined, strict=True)) == {f"c{place}": text for place, text in enumerate(whole)}
    assert all(event.valid for event in events if isinstance(event, ToolCallEnd))
    assert text == (TextDelta(0, "between") in events)


def test_calls_that_a_server_gives_one_id_have_two_for_the_client() -> None:
    chunks = [call(0, '{"a":1}', "f", "c1"), call(1, '{"a":2}', "f", "c1"), call(1, "", None, "c1")]
    events = good(sse(*chunks, delta(finish="tool_calls")))
    ids = [event.id for event in events if isinstance(event, ToolCallStart)]

    assert ids[0] == "c1"
    assert len({*ids}) == len(ids) == 2
    assert [e.arguments for e in events if isinstance(e, ToolCallDelta)] == ['{"a":1}', '{"a":2}']


@pytest.mark.parametrize("said", ["stop", "length", "content_filter"])
def test_a_refusal_that_a_server_ends_as_an_answer_ends_as_a_refusal(said: str) -> None:
    events = good(sse(delta(refusal="I cannot."), delta(finish=said)))
    (end,) = [event for event in events if isinstance(event, Finished)]

    assert end.reason == ("refusal" if said == "stop" else said)


STREAM = sse(
    delta(role="assistant", content=""), delta(reasoning_content="thé"), delta(content="ü\u2028\r\n"),
    call(0, '{"a"', "f", "c1"), call(1, "{}", "g", "c2"), call(0, ":1}"), delta(finish="tool_calls"),
    {"choices": [], "usage": USAGE}, {"error": {"message": "late"}},
)  # fmt: skip


@given(st.lists(st.integers(0, len(STREAM)), max_size=10), st.sampled_from([b"\n", b"\r\n", b"\r"]), st.booleans())
def test_any_split_of_the_bytes_gives_the_same_events(cuts: list[int], ending: bytes, comments: bool) -> None:
    data = STREAM.replace(b"\n\n", b"\n\n: ping\n\n") if comments else STREAM
    data = data.replace(b"\n", ending)
    decoder = ChatDecoder("r")
    edges = [0, *sorted(cuts), len(data)]
    events = [event for a, b in itertools.pairwise(edges) for event in decoder.feed(data[a:b])]

    assert events == ChatDecoder("r").feed(STREAM)
    assert type(decoder.error) is EngineFailed


blocks = st.one_of(
    st.builds(lambda text: [TextDelta(0, text), TextEnd(0)], words.filter(bool)),
    st.builds(lambda text: [ReasoningDelta(0, text), ReasoningEnd(0)], words.filter(bool)),
    st.builds(lambda text: [RefusalDelta(0, text), TextEnd(0)], words.filter(bool)),
    st.builds(lambda data: [OpaqueBlock(0, "sealed", data)], st.binary(max_size=4)),
    arguments.map(lambda text: [ToolCallStart(0, 0, "c", "f"), ToolCallDelta(0, 0, text), ToolCallEnd(0, 0)]),
)


def numbered(found: list[list[Event]]) -> list[Event]:
    """The blocks in a row, less those that run into the one before, with calls numbered from 0."""
    events: list[Event] = []
    calls = -1
    for block in found:
        if events and type(events[-1]) is type(block[-1]) and not isinstance(block[0], ToolCallStart | OpaqueBlock):
            continue
        calls += isinstance(block[0], ToolCallStart)
        for event in block:
            if isinstance(event, ToolCallStart):
                events.append(ToolCallStart(0, calls, f"c{calls}", event.name))
            elif isinstance(event, ToolCallDelta):
                events.append(ToolCallDelta(0, calls, event.arguments))
            else:
                events.append(ToolCallEnd(0, calls) if isinstance(event, ToolCallEnd) else event)
    refused = any(isinstance(event, RefusalDelta) for event in events)
    reason: Any = "tool_calls" if calls >= 0 else "refusal" if refused else "stop"
    return [*events, Finished(0, reason), Usage(3, 2, 1, 1)]


@given(st.lists(blocks, max_size=6).map(numbered))
def test_what_our_own_gateway_writes_is_read_back(events: list[Event]) -> None:
    request = ChatRequest(GenerationRequest("r", "m", sampling=Sampling()), include_usage=True)
    encoder = ChatStreamEncoder(request, 0, "r")

    assert good(encoder.encode([*events, Done()])) == events
