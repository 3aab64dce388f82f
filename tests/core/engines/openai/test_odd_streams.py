"""Streams as servers of Chat Completions really send them: without [DONE], with the usage anywhere, with errors under status 200,
with fields that are null, missing or of another type. Each is read the same however its bytes are cut."""

import json
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.event_grammar import check

from smg_core.engines.openai.events import ChatDecoder
from smg_core.errors import EngineFailed, EngineGarbled, EngineRejected, SmgError, WorkerBusy
from smg_core.events import (
    Done,
    Event,
    Failed,
    Finished,
    ReasoningDelta,
    Started,
    TextDelta,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
    Usage,
)

HELLO = {"choices": [{"index": 0, "delta": {"content": "Hello"}, "finish_reason": None}]}
END = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
COUNTS = {"prompt_tokens": 3, "completion_tokens": 2}
DONE = "data: [DONE]\n\n"


def sse(*objects: Any, end: str = DONE) -> bytes:
    return ("".join(f"data: {json.dumps(each)}\n\n" for each in objects) + end).encode()


def usage(**more: Any) -> dict[str, Any]:
    return {"choices": [], "usage": COUNTS, **more}


def chunk(delta: Any, finish: Any = None, **more: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish, **more}]}


def called(*pieces: dict[str, Any]) -> list[dict[str, Any]]:
    return [chunk({"tool_calls": [each]}) for each in pieces]


HELLOS: dict[str, bytes] = {
    # all of them say "Hello", and stop
    "OpenAI": sse(chunk({"role": "assistant", "content": ""}), HELLO, END, usage()),
    "no [DONE]": sse(HELLO, END, end=""),
    "[DONE] without an empty line": sse(HELLO, END, end="data: [DONE]"),
    "[DONE] without a space": sse(HELLO, END, end="data:[DONE]\n\n"),
    "[DONE] with spaces behind it": sse(HELLO, END, end="data: [DONE]  \n\n"),
    "the last chunk without an empty line": sse(HELLO, END, end="").rstrip(),
    "the whole message again at the end": sse(
        chunk({"role": "assistant"}),
        HELLO,
        {"choices": [{"index": 0, "message": {"role": "assistant", "content": "Hello"}, "finish_reason": "stop"}]},
    ),
    "a message beside an empty delta": sse(chunk({"role": "assistant"}, "stop", message={"content": "Hello"})),
    "text as of Completions": sse({"choices": [{"index": 0, "text": "Hello", "finish_reason": "stop"}]}),
    "more after [DONE]": sse(HELLO, END, end=DONE + 'data: {"choices":null}\n\n'),
    "CRLF": sse(HELLO, END).replace(b"\n", b"\r\n"),
    "CR": sse(HELLO, END).replace(b"\n", b"\r"),
    "a byte order mark": b"\xef\xbb\xbf" + sse(HELLO, END),
    "comments": b": OPENROUTER PROCESSING\n\n" + sse(HELLO, end=": ping\n\n: ping\n\n") + sse(END),
    "event names and ids": b"event: message\nid: 1\n" + sse(HELLO, END),
    "data without a space": sse(HELLO, END).replace(b"data: ", b"data:"),
    "data on two lines": b'data: {"choices":\ndata: [{"delta":{"content":"Hello"},"finish_reason":"stop"}]}\n\n',
    "empty events": b"data: \n\ndata:\n\n\n\n" + sse(HELLO, END),
    "deltas without anything": sse(chunk({}), chunk({"content": ""}), chunk({"content": None}), HELLO, END),
    "no delta": sse({"choices": [{"index": 0}]}, HELLO, {"choices": [{"index": 0, "finish_reason": "stop"}]}),
    "a delta that is null": sse(HELLO, chunk(None, "stop")),
    "no index": sse({"choices": [{"delta": {"content": "Hello"}, "finish_reason": "stop"}]}),
    "an index that is null": sse(
        {"choices": [{"index": None, "delta": {"content": "Hello"}, "finish_reason": "stop"}]}
    ),
    "choices that are null": sse({"choices": None}, HELLO, END, {"choices": None, "usage": COUNTS}),
    "no choices": sse({"id": "x"}, HELLO, END),
    "empty finish reasons": sse(chunk({"content": "Hello"}, ""), END),
    "the end twice": sse(HELLO, END, END),
    "the end and the text in one": sse(chunk({"content": "Hello"}, "stop")),
    "TGI's own reason": sse(HELLO, chunk({}, "eos_token")),
    "calls that are null or none": sse(
        chunk({"content": "Hello", "tool_calls": None}), chunk({"tool_calls": []}, "stop")
    ),
    "content in parts": sse(chunk({"content": [{"type": "text", "text": "Hel"}, {"type": "text", "text": "lo"}]}), END),
    "fields that nobody knows": sse({**HELLO, "x_groq": {"id": 1}, "provider": "x", "timings": {"n": 1}}, END),
    "characters that are written out": sse(HELLO, {**END, "note": "h\N{LATIN SMALL LETTER E WITH ACUTE}"}).replace(
        b"\\u00e9", "\N{GRINNING FACE}".encode()
    ),
    "numbers as fractions": sse({**HELLO, "created": 1.5}, END),
}
USAGES: dict[str, bytes] = {
    # all of them count 3 and 2
    "behind the end": sse(HELLO, END, usage()),
    "with the end": sse(HELLO, {**END, "usage": COUNTS}),
    "with every chunk": sse({**HELLO, "usage": {"prompt_tokens": 3, "completion_tokens": 1}}, {**END, "usage": COUNTS}),
    "null before": sse({**HELLO, "usage": None}, {**END, "usage": None}, usage()),
    "before the end": sse(HELLO, usage(), END),
    "before the text": sse(usage(), HELLO, END),
    "without choices": sse(HELLO, END, {"usage": COUNTS}),
    "with details that are null": sse(HELLO, END, {"choices": [], "usage": {**COUNTS, "prompt_tokens_details": None}}),
    "behind the end, without [DONE]": sse(HELLO, END, usage(), end=""),
}
CALLS: dict[str, bytes] = {
    # all of them call get_weather with a city
    "OpenAI": sse(
        *called(
            {"index": 0, "id": "c", "type": "function", "function": {"name": "get_weather", "arguments": ""}},
            {"index": 0, "function": {"arguments": '{"city":'}},
            {"index": 0, "function": {"arguments": '"Paris"}'}},
        ),
        chunk({}, "tool_calls"),
    ),
    "in one piece": sse(
        *called({"index": 0, "id": "c", "function": {"name": "get_weather", "arguments": '{"city":"Paris"}'}}),
        chunk({}, "tool_calls"),
    ),
    "arguments as an object": sse(
        *called({"id": "c", "function": {"name": "get_weather", "arguments": {"city": "Paris"}}}), chunk({}, "stop")
    ),
    "no index and no id": sse(
        *called({"function": {"name": "get_weather", "arguments": '{"city":"Paris"}'}}), chunk({}, "tool_calls")
    ),
    "the name again in every piece": sse(
        *called(
            {"index": 0, "id": "c", "function": {"name": "get_weather", "arguments": '{"city":'}},
            {"index": 0, "id": "c", "function": {"name": "get_weather", "arguments": '"Paris"}'}},
        ),
        chunk({}, "tool_calls"),
    ),
    "beside a content that is null": sse(
        chunk(
            {
                "content": None,
                "tool_calls": [{"index": 0, "function": {"name": "get_weather", "arguments": '{"city":"Paris"}'}}],
            }
        ),
        chunk({"content": ""}, "tool_calls"),
    ),
}


def named(name: str | None, arguments: Any, **fields: Any) -> dict[str, Any]:
    return {**fields, "function": {"name": name, "arguments": arguments}}


PARIS, ROME = '{"city":"Paris"}', '{"city":"Rome"}'
PARALLEL: dict[str, bytes] = {
    # all of them call get_weather with Paris, then with Rome, then now without arguments
    "OpenAI": sse(
        *called(
            named("get_weather", "", index=0, id="a"),
            named(None, PARIS, index=0),
            named("get_weather", "", index=1, id="b"),
            named(None, ROME, index=1),
            named("now", "", index=2, id="c"),
        ),
        chunk({}, "tool_calls"),
    ),
    "one index, ids": sse(
        *called(
            named("get_weather", PARIS, index=0, id="a"),
            named("get_weather", ROME, index=0, id="b"),
            named("now", "", index=0, id="c"),
        ),
        chunk({}, "tool_calls"),
    ),
    "one index, ids, in pieces that alternate": sse(
        *called(
            named("get_weather", PARIS[:5], index=0, id="a"),
            named("get_weather", ROME[:7], index=0, id="b"),
            named(None, PARIS[5:], index=0, id="a"),
            named("now", None, index=0, id="c"),
            named(None, ROME[7:], index=0, id="b"),
        ),
        chunk({}, "tool_calls"),
    ),
    "one index, empty ids": sse(
        *called(
            named("get_weather", PARIS, index=0, id=""),
            named("get_weather", ROME, index=0, id=""),
            named("now", "{}", index=0, id=""),
        ),
        chunk({}, "tool_calls"),
    ),
    "one index, no ids, in pieces": sse(
        *called(
            named("get_weather", PARIS[:5], index=0),
            named(None, PARIS[5:], index=0),
            named("get_weather", ROME[:5], index=0),
            named("get_weather", ROME[5:], index=0),
            named("now", "{}", index=0),
        ),
        chunk({}, "tool_calls"),
    ),
    "ids alone": sse(
        *called(named("get_weather", PARIS, id="a"), named("get_weather", ROME, id="b"), named("now", "", id="c")),
        chunk({}, "tool_calls"),
    ),
    "neither index nor id": sse(
        *called(named("get_weather", PARIS), named("get_weather", ROME), named("now", "")), chunk({}, "tool_calls")
    ),
    "neither index nor id, in one chunk": sse(
        chunk({"tool_calls": [named("get_weather", PARIS), named("get_weather", ROME), named("now", {})]}, "stop")
    ),
    "neither index nor id, in pieces with the name": sse(
        *called(
            named("get_weather", ""),
            named("get_weather", PARIS[:9]),
            named("get_weather", PARIS[9:]),
            named("get_weather", ""),
            named("get_weather", ROME[:3]),
            named("get_weather", ROME[3:]),
            named("now", ""),
        ),
        chunk({}, "tool_calls"),
    ),
    "a new id with each piece": sse(
        *called(
            named("get_weather", "", index=0, id="a"),
            named(None, PARIS, index=0, id="b"),
            named("get_weather", ROME[:4], index=1, id="c"),
            named(None, ROME[4:], index=1, id="d"),
            named("now", "{}", index=2, id="e"),
        ),
        chunk({}, "tool_calls"),
    ),
    "a new id with each piece, and no index": sse(
        *called(
            named("get_weather", "", id="a"),
            named(None, PARIS, id="b"),
            named("get_weather", ROME[:4], id="c"),
            named(None, ROME[4:], id="d"),
            named("now", "{}", id="e"),
        ),
        chunk({}, "tool_calls"),
    ),
}
ERRORS: dict[str, tuple[bytes, type[SmgError]]] = {
    "an envelope": (sse(HELLO, {"error": {"message": "x", "type": "server_error"}}), EngineFailed),
    "an envelope with a number": (sse({"error": {"message": "x", "code": 429}}), WorkerBusy),
    "TGI's": (sse(HELLO, {"error": "x", "error_type": "generation"}), EngineFailed),
    "bare": (sse({"object": "error", "message": "x", "code": 400}), EngineRejected),
    "a message and nothing else": (sse({"message": "x", "type": "BadRequestError", "code": 400}), EngineRejected),
    "under its own event name": (b"event: error\n" + sse({"error": {"message": "x", "code": 503}}), WorkerBusy),
    "cut off": (sse(HELLO, end=""), EngineGarbled),
    "[DONE] before the end": (sse(HELLO), EngineGarbled),
    "nothing": (b"", EngineGarbled),
    "only comments": (b": ping\n\n: ping\n\n", EngineGarbled),
    "a page": (b"<html><body>502 Bad Gateway</body></html>", EngineGarbled),
    "no JSON": (b"data: Hello\n\n", EngineGarbled),
    "a list": (b"data: []\n\n", EngineGarbled),
    "half a chunk": (sse(HELLO, end='data: {"choi'), EngineGarbled),
}
cut_anywhere = st.lists(st.integers(0, 10_000), max_size=10)


def read(data: bytes, cuts: list[int]) -> tuple[list[Event], SmgError | None]:
    decoder = ChatDecoder("r")
    edges = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    events = [each for a, b in pairwise(edges) if b > a for each in decoder.feed(data[a:b])] + decoder.end()
    counted = [] if any(isinstance(each, Usage) for each in events) else [Usage(0, 0)]
    check([Started(0, None, "m"), *events, *counted, Done() if decoder.error is None else Failed(decoder.error)])
    return events, decoder.error


def text_of(events: list[Event]) -> str:
    return "".join([each.text for each in events if isinstance(each, TextDelta)])


@pytest.mark.sampled(keep=10)
@pytest.mark.parametrize("data", HELLOS.values(), ids=HELLOS)
@given(cuts=cut_anywhere)
def test_every_way_to_say_hello_is_understood(data: bytes, cuts: list[int]) -> None:
    events, error = read(data, cuts)

    assert error is None
    assert text_of(events) == "Hello"
    assert [each.reason for each in events if isinstance(each, Finished)] == ["stop"]


@pytest.mark.parametrize("data", USAGES.values(), ids=USAGES)
@given(cuts=cut_anywhere)
def test_the_usage_is_told_once_and_last_wherever_it_came(data: bytes, cuts: list[int]) -> None:
    events, error = read(data, cuts)

    assert error is None
    assert [each for each in events if isinstance(each, Usage)] == [Usage(3, 2)]
    assert isinstance(events[-1], Usage)


@pytest.mark.parametrize("data", CALLS.values(), ids=CALLS)
@given(cuts=cut_anywhere)
def test_every_way_to_call_a_tool_is_understood(data: bytes, cuts: list[int]) -> None:
    events, error = read(data, cuts)

    assert error is None
    assert [each.name for each in events if isinstance(each, ToolCallStart)] == ["get_weather"]
    arguments = "".join([each.arguments for each in events if isinstance(each, ToolCallDelta)])
    assert json.loads(arguments) == {"city": "Paris"}
    assert [each.reason for each in events if isinstance(each, Finished)] == ["tool_calls"]


@pytest.mark.sampled(keep=4)
@pytest.mark.parametrize("data", PARALLEL.values(), ids=PARALLEL)
@given(cuts=cut_anywhere)
def test_calls_at_once_are_told_apart_however_they_are_numbered(data: bytes, cuts: list[int]) -> None:
    events, error = read(data, cuts)

    assert error is None
    begun = [each for each in events if isinstance(each, ToolCallStart)]
    assert [each.name for each in begun] == ["get_weather", "get_weather", "now"]
    assert len({each.id for each in begun}) == 3
    arguments = dict.fromkeys(range(3), "")
    for each in events:
        if isinstance(each, ToolCallDelta):
            arguments[each.call] += each.arguments
    assert [json.loads(each) for each in arguments.values()] == [{"city": "Paris"}, {"city": "Rome"}, {}]
    assert all(each.valid for each in events if isinstance(each, ToolCallEnd))


@pytest.mark.sampled(keep=5)
@pytest.mark.parametrize(("data", "kind"), ERRORS.values(), ids=ERRORS)
@given(cuts=cut_anywhere)
def test_what_is_no_answer_is_an_error_whatever_its_status_was(
    data: bytes, kind: type[SmgError], cuts: list[int]
) -> None:
    events, error = read(data, cuts)

    assert type(error) is kind
    assert text_of(events) in ("", "Hello")


CORPUS = {
    **HELLOS,
    **USAGES,
    **CALLS,
    **{f"calls: {name}": data for name, data in PARALLEL.items()},
    **{name: data for name, (data, _) in ERRORS.items()},
}


@pytest.mark.full
@pytest.mark.sampled(keep=20)
@pytest.mark.parametrize("data", CORPUS.values(), ids=CORPUS)
def test_a_stream_is_read_the_same_at_whichever_byte_it_is_cut(data: bytes) -> None:
    def outline(cuts: list[int]) -> tuple[str, list[Any], list[Any], str]:
        events, error = read(data, cuts)
        calls = "".join([each.arguments for each in events if isinstance(each, ToolCallDelta)])
        ends = [each for each in events if isinstance(each, Finished | Usage | ToolCallStart)]
        return text_of(events), [calls], [msgspec.structs.astuple(each) for each in ends], type(error).__name__

    whole = outline([])
    for cut in range(1, len(data)):
        assert outline([cut]) == whole, cut
    assert outline(list(range(len(data)))) == whole  # byte by byte


@given(cuts=cut_anywhere, text=st.text(max_size=40))
def test_a_character_that_is_cut_between_two_reads_is_whole(cuts: list[int], text: str) -> None:
    body = json.dumps(chunk({"content": f"é🙂{text}", "reasoning": "ß"}), ensure_ascii=False).encode("utf-8", "replace")
    events, error = read(b"data: " + body + b"\n\n" + sse(END), cuts)

    assert error is None
    assert text_of(events).startswith("é🙂")
    assert [each.text for each in events if isinstance(each, ReasoningDelta)] == ["ß"]


def test_a_character_that_the_server_cut_in_two_is_replaced_and_breaks_nothing() -> None:
    data = b'data: {"choices":[{"delta":{"content":"a\xf0\x9f"}}]}\n\n' + sse(END)

    events, error = read(data, [])
    assert error is None
    assert text_of(events) == "a�"


def test_an_answer_that_is_one_object_is_read_as_if_it_had_been_streamed() -> None:
    message = {"role": "assistant", "content": "Hello", "tool_calls": None}
    body = {
        "object": "chat.completion",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": COUNTS,
    }
    decoder = ChatDecoder("r")
    events = decoder.whole(json.dumps(body).encode())

    assert decoder.error is None
    assert text_of(events) == "Hello"
    assert events[-1] == Usage(3, 2)


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b'{"error": {"message": "x", "code": 429}}', WorkerBusy),
        (b'{"error": "model not found"}', EngineFailed),
        (b'{"choices": []}', EngineGarbled),
        (b"{}", EngineGarbled),
        (b"<html>", EngineGarbled),
    ],
)
def test_an_error_as_one_object_under_status_200_is_what_it_says(body: bytes, kind: type[SmgError]) -> None:
    decoder = ChatDecoder("r")
    decoder.whole(body)

    assert type(decoder.error) is kind
