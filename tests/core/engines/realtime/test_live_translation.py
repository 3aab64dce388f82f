"""The translation of Gemini Live: whatever comes in whatever order, each response is one of the table and has one end."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.gateway.realtime import EVENTS

from smg_core.apis.realtime.wire.states import ANYWHERE, StreamState, following
from smg_core.engines.realtime.live_settings import changed_settings, first_settings, setup_of, update_of
from smg_core.engines.realtime.live_translation import LiveTranslation
from smg_core.engines.realtime.live_wire import read_live_event, read_live_message
from smg_core.errors import InvalidRequest

TEXT = {"type": "session.update", "session": {"type": "realtime", "output_modalities": ["text"]}}
WRITES = {
    "type": "session.update",
    "session": {"type": "realtime", "audio": {"input": {"transcription": {"model": "any"}}}},
}
COMMITS = {"type": "session.update", "session": {"type": "realtime", "audio": {"input": {"turn_detection": None}}}}
HELLO = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hello"}]}
SENT = [
    TEXT,
    {"type": "conversation.item.create", "item": HELLO},
    {"type": "conversation.item.create", "item": {"type": "function_call", "name": "add", "arguments": "{}"}},
    {"type": "conversation.item.create", "item": {"type": "function_call_output", "call_id": "call-1", "output": "5"}},
    {"type": "input_audio_buffer.append", "audio": "AAAA"},
    {"type": "input_audio_buffer.commit"},
    {"type": "input_audio_buffer.clear"},
    {"type": "response.create"},
    {"type": "response.cancel"},
]
SOUND = {"inlineData": {"mimeType": "audio/pcm", "data": "AAAA"}}
TOLD = [
    {"setupComplete": {}},
    {"serverContent": {"modelTurn": {"parts": [{"text": "word"}, {"text": "thought", "thought": True}]}}},
    {"serverContent": {"modelTurn": {"parts": [SOUND]}}},
    {"serverContent": {"outputTranscription": {"text": "word"}, "inputTranscription": {"text": "said"}}},
    {"serverContent": {"inputTranscription": {"text": "", "finished": True}}},
    {"serverContent": {"interrupted": True}},
    {"serverContent": {"turnComplete": True}, "usageMetadata": {"promptTokenCount": 3, "responseTokenCount": 2}},
    {"serverContent": {"turnComplete": True, "turnCompleteReason": "RESPONSE_REJECTED"}},
    {"toolCall": {"functionCalls": [{"id": "call-1", "name": "add", "args": {"a": 1}}, {"name": "other"}]}},
    {"toolCallCancellation": {"ids": ["call-1", "none"]}},
    {"sessionResumptionUpdate": {"newHandle": "h", "resumable": True}},
    {"voiceActivity": {"voiceActivityType": "ACTIVITY_START"}},
    {"voiceActivity": {"voiceActivityType": "ACTIVITY_END"}},
    {"goAway": {"timeLeft": "10s"}},
    {},
]
STEPS = st.lists(st.one_of(st.sampled_from(SENT), st.sampled_from(TOLD)), max_size=25)


def session() -> LiveTranslation:
    count = 0

    def names(prefix: str) -> str:
        nonlocal count
        count += 1
        return f"{prefix}{count}"

    return LiveTranslation("sess_1", "models/live", names)


def step(live: LiveTranslation, message: Any) -> list[Any]:
    """What a client is told of an event of its own, or of a message of the server."""
    data = json.dumps(message).encode()
    if "type" in message:
        lines = live.sent(read_live_event(data)).to_client
    else:
        told = read_live_message(data)
        lines = [] if told is None else live.received(told)
    for line in lines:
        EVENTS.validate_json(line, strict=True)
    return [json.loads(line) for line in lines]


@pytest.mark.sampled(keep=2)
@pytest.mark.parametrize("before", [[], [TEXT], [WRITES], [COMMITS, TEXT]])
@given(steps=STEPS)
def test_whatever_comes_each_response_is_one_of_the_table(before: list[Any], steps: list[Any]) -> None:
    live = session()
    told = [event for message in (*before, *steps) for event in step(live, message)]
    state: StreamState = "idle"
    for event in told:
        if event["type"] not in ANYWHERE:
            state = following(state, event["type"], sound=event.get("part", {}).get("type") == "audio")
    if state != "idle":
        (*_, last) = step(live, {"type": "response.cancel"})
        assert last["type"] == "response.done"
    ids = [event["event_id"] for event in told]
    assert len(set(ids)) == len(ids)
    added = [event["item"]["id"] for event in told if event["type"] == "conversation.item.added"]
    assert len(set(added)) == len(added)


@given(steps=STEPS)
def test_the_server_is_told_its_setup_once_and_first(steps: list[Any]) -> None:
    live, said = session(), []
    for message in steps:
        if "type" in message:
            made = live.sent(read_live_event(json.dumps(message).encode()))
            said += [*([made.setup] if made.setup else []), *made.to_server]
    assert [list(json.loads(each)) for each in said[:1]] in ([], [["setup"]])
    assert sum("setup" in json.loads(each) for each in said) <= 1


ODD: list[Any] = [None, True, 0, -1, 0.5, "", "x", [], ["text"], [None], {}, {"type": "x"}, [{}], {"x": [1]}, "\ud800"]
JSON = st.sampled_from(ODD)
FIELDS = st.sampled_from(
    ["type", "item", "session", "audio", "response", "response_id", "previous_item_id", "event_id", "role", "content"]
) | st.sampled_from(
    ["output_modalities", "tools", "instructions", "truncation", "input", "output", "voice", "turn_detection"]
)


@given(
    kind=st.sampled_from([each["type"] for each in SENT]),
    fields=st.dictionaries(FIELDS, JSON | st.dictionaries(FIELDS, JSON, max_size=4), max_size=3),
)
def test_no_event_of_a_client_is_too_odd(kind: str, fields: dict[str, Any]) -> None:
    step(session(), {**fields, "type": kind})


@given(st.dictionaries(st.sampled_from([name for each in TOLD for name in each]), JSON, max_size=3))
def test_a_message_of_the_server_is_read_or_none(message: dict[str, Any]) -> None:
    step(session(), message)


PATCHES = st.fixed_dictionaries(
    {"type": st.just("realtime")},
    optional={
        "instructions": st.text(max_size=8),
        "output_modalities": st.sampled_from([["text"], ["audio"], ["text", "audio"]]),
        "max_output_tokens": st.sampled_from([1, 50, "inf", 0]),
        "tools": st.sampled_from([[], [{"type": "function", "name": "add"}], [{"type": "mcp"}]]),
        "tool_choice": st.sampled_from(["auto", "none", "required"]),
        "truncation": st.sampled_from(["auto", "disabled", {"type": "retention_ratio"}]),
        "reasoning": st.sampled_from([None, {"effort": "low"}, {"effort": "odd"}]),
        "audio": st.fixed_dictionaries(
            {},
            optional={
                "input": st.sampled_from([{"turn_detection": None}, {"turn_detection": {"type": "semantic_vad"}}]),
                "output": st.sampled_from(
                    [{"voice": "Kore"}, {"voice": "marin"}, {"speed": 2.0}, {"voice": {"id": "x"}}]
                ),
            },
        ),
    },
)


@given(st.lists(PATCHES, max_size=4))
def test_settings_that_are_taken_can_be_said_to_the_server(patches: list[Any]) -> None:
    settings = first_settings("sess_1", "m")
    for patch in patches:
        try:
            made = changed_settings(settings, patch)
        except InvalidRequest:
            continue
        assert json.dumps(setup_of(made, "models/m"))
        assert update_of(made, made) is None
        assert changed_settings(made, patch) == made
        settings = made


def test_a_voice_of_another_vendor_is_the_servers_usual_one() -> None:
    settings = first_settings("sess_1", "m")
    named = {
        voice: setup_of(
            changed_settings(settings, {"type": "realtime", "audio": {"output": {"voice": voice}}}), "models/m"
        )["generationConfig"]
        for voice in ("marin", "Kore")
    }
    assert "speechConfig" not in named["marin"]
    assert named["Kore"]["speechConfig"] == {"voiceConfig": {"prebuiltVoiceConfig": {"voiceName": "Kore"}}}


def test_sound_that_waits_for_its_commit_has_a_bound() -> None:
    live = session()
    step(live, COMMITS)
    most = read_live_event(b'{"type": "input_audio_buffer.append", "audio": "%b"}' % (b"A" * (15 << 20)))
    assert live.sent(most).to_client == ()
    (refused,) = live.sent(most).to_client
    assert json.loads(refused)["error"]["code"] == "session_too_large"


def test_items_that_wait_for_a_response_have_a_bound() -> None:
    live = session()
    large = {**HELLO, "content": [{"type": "input_text", "text": "x" * (3 << 20)}]}
    data = json.dumps({"type": "conversation.item.create", "item": large}).encode()
    taken = live.sent(read_live_event(data)).to_client
    (refused,) = live.sent(read_live_event(data)).to_client
    step(live, {"type": "response.create"})
    step(live, {"type": "response.cancel"})
    assert len(taken) == len(live.sent(read_live_event(data)).to_client) == 2
    assert json.loads(refused)["error"]["code"] == "session_too_large"
