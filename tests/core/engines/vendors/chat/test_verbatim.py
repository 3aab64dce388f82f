"""What a client of Chat Completions is told of a provider's chunks: their bytes, but where a client could not read them."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg_core.engines.settings import EnginesConfig
from smg_core.engines.vendors.chat.format import ChatFormat
from smg_core.engines.vendors.chat.profiles import CHAT_PROFILES
from smg_core.errors import EngineGarbled
from smg_core.events import Event, Finished, ToolCallDelta, ToolCallStart, Verbatim
from smg_core.origin import Origin
from smg_core.request import GenerationRequest, Message, Sampling, Text

HI = (Message("user", (Text("Hi"),)),)
Json = dict[str, Any]


def told(*chunks: Json, n: int = 1, done: bool = True, most: int = 1 << 20) -> tuple[list[Event], list[Json], Any]:
    request = GenerationRequest("r", "m", HI, sampling=Sampling(n=n), stream=True, origin=Origin("chat"))
    limits = EnginesConfig(http_event_bytes=most)
    decoder = ChatFormat(CHAT_PROFILES["mistral"]).ask(request, "vendor-model", limits, "chat").decoder
    assert decoder is not None
    events: list[Event] = []
    for each in chunks:
        events += decoder.feed(b"data: " + json.dumps(each).encode() + b"\n\n")
    events += decoder.feed(b"data: [DONE]\n\n") if done else []
    events += decoder.end()
    return events, [json.loads(each.pieces[0]) for each in events if isinstance(each, Verbatim)], decoder.error


def chunk(stop: str | None = None, at: int = 0, **delta: Any) -> Json:
    return {"model": "vendor-model", "choices": [{"index": at, "delta": delta, "finish_reason": stop}]}


def call(index: int | None, call_id: str | None, name: str | None, arguments: str) -> Json:
    function = {"arguments": arguments} | ({} if name is None else {"name": name})
    found: Json = {"function": function, "type": "function"}
    found |= {} if index is None else {"index": index}
    return found | ({} if call_id is None else {"id": call_id})


def calls_of(chunks: list[Json]) -> list[tuple[int, str | None, str]]:
    said = [each for part in chunks for choice in part["choices"] for each in choice["delta"].get("tool_calls", ())]
    return [(each["index"], each.get("id"), each["function"].get("arguments", "")) for each in said]


def test_calls_that_have_one_index_are_numbered() -> None:
    events, words, error = told(
        chunk(tool_calls=[call(0, "a", "f", "{}")]),
        chunk(tool_calls=[call(0, "b", "g", '{"x":1}')]),
        chunk("tool_calls"),
    )

    assert error is None
    assert calls_of(words) == [(0, "a", "{}"), (1, "b", '{"x":1}')]
    assert [each.id for each in events if isinstance(each, ToolCallStart)] == ["a", "b"]


@pytest.mark.parametrize("index", [None, 0])
def test_calls_without_ids_get_those_that_the_answer_has(index: int | None) -> None:
    events, words, error = told(
        chunk(tool_calls=[call(index, None, "f", '{"x"')]),
        chunk(tool_calls=[call(index, None, None, ":1}")]),
        chunk(tool_calls=[call(index, None, "g", "{}")]),
        chunk("tool_calls"),
    )
    ids = [each.id for each in events if isinstance(each, ToolCallStart)]

    assert error is None
    assert len(set(ids)) == 2
    assert calls_of(words) == [(0, ids[0], '{"x"'), (0, None, ":1}"), (1, ids[1], "{}")]


def test_two_calls_of_one_id_are_told_by_two() -> None:
    events, words, _ = told(chunk(tool_calls=[call(0, "a", "f", "{}"), call(1, "a", "g", "{}")]), chunk("tool_calls"))

    ids = [each.id for each in events if isinstance(each, ToolCallStart)]
    assert len(set(ids)) == 2
    assert [each[1] for each in calls_of(words)] == ids


def test_a_content_that_is_a_list_is_text_with_its_reasoning_beside_it() -> None:
    parts = [{"type": "thinking", "thinking": [{"type": "text", "text": "Hm"}]}, {"type": "text", "text": "Yes"}]

    _, words, error = told(chunk(content=parts), chunk("stop"))

    assert error is None
    assert words[0]["choices"][0]["delta"] == {"content": "Yes", "reasoning_content": "Hm"}


def test_choices_that_end_at_different_times_are_told_to_their_ends() -> None:
    events, words, error = told(
        chunk(content="a"),
        chunk("stop"),
        chunk(at=1, content="b"),
        chunk("length", at=1),
        {"choices": [], "usage": {}},
        n=2,
    )

    assert error is None
    assert len(words) == 5
    assert [each.reason for each in events if isinstance(each, Finished)] == ["stop", "length"]
    assert [each.counts for each in events if isinstance(each, Verbatim)] == [False] * 4 + [True]


def test_nothing_is_told_of_an_answer_that_fails_before_its_first_word() -> None:
    _, words, error = told(chunk(role="assistant", content=""), {"error": {"code": 503, "message": "busy"}}, done=False)

    assert error is not None
    assert words == []


def test_much_that_says_nothing_is_not_kept() -> None:
    _, words, error = told(*[chunk(role="assistant", novelty="x" * 100)] * 9, most=600)

    assert isinstance(error, EngineGarbled)
    assert words == []


@given(
    st.lists(st.tuples(st.sampled_from("fg"), st.booleans(), st.booleans(), st.integers(0, 2)), min_size=1, max_size=5)
)
def test_whatever_a_provider_numbers_its_calls_by_clients_can_tell_them_apart(
    calls: list[tuple[str, bool, bool, int]],
) -> None:
    chunks = [
        chunk(tool_calls=[call(0 if same else at, None if bare else f"id{shared}", name, f'{{"n":{at}}}')])
        for at, (name, same, bare, shared) in enumerate(calls)
    ]

    events, words, error = told(*chunks, chunk("tool_calls"))

    started = [each.id for each in events if isinstance(each, ToolCallStart)]
    joined: dict[int, str] = {}
    ids: dict[int, str] = {}
    for index, call_id, arguments in calls_of(words):
        joined[index] = joined.get(index, "") + arguments
        ids.setdefault(index, call_id or "")
    if error is None:
        assert [ids[index] for index in sorted(ids)] == started
        assert len(set(ids.values())) == len(ids)
        read: dict[int, str] = {}
        for event in events:
            if isinstance(event, ToolCallDelta):
                read[event.call] = read.get(event.call, "") + event.arguments
        assert joined == read
