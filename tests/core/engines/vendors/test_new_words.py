"""Words that a provider has made since: reasons to end, events and blocks that nobody here knows, at every provider."""

import base64
import json
from collections.abc import Mapping, Sequence
from typing import Any, get_args

import anthropic.types
import botocore.session
import google.genai.types
import pytest
from tests.core.engines.vendors.bedrock.event_streams import event_frame
from tests.core.engines.vendors.samples import talk
from tests.core.engines.vendors.test_faults_of_all import CHATS, WIRES
from tests.providers.answers import claude_stream, gemini_stream, responses_stream
from tests.providers.bedrock_answers import converse_stream
from tests.providers.chat_answers import chat_stream

from smg_core.engines.settings import EnginesConfig
from smg_core.engines.vendors.anthropic.events import _REASONS as CLAUDES_REASONS
from smg_core.engines.vendors.bedrock.converse_events import _REASONS as BEDROCKS_REASONS
from smg_core.engines.vendors.endings import GAVE_UP as FAILURES
from smg_core.engines.vendors.failures import ProviderFailed
from smg_core.engines.vendors.gemini.events import _REASONS as GEMINIS_REASONS
from smg_core.errors import EngineGarbled, SmgError
from smg_core.events import Event, Finished, TextDelta, Usage, Verbatim
from smg_core.origin import Origin

Json = dict[str, Any]
CLAUDE = ("anthropic", "vertex-anthropic", "bedrock-anthropic")
GOOGLE = ("gemini", "vertex")
TEXT = {"type": "text", "text": ""}, [{"type": "text_delta", "text": "Hi"}]
CALL = {"type": "tool_use", "id": "c", "name": "f", "input": {}}, [{"type": "input_json_delta", "partial_json": "{}"}]
CUT = {"type": "tool_use", "id": "c", "name": "f", "input": {}}, [{"type": "input_json_delta", "partial_json": '{"a":'}]
MESSAGE = {"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": []}
SAID = {"type": "response.output_text.delta", "content_index": 0, "logprobs": [], "delta": "Hi"}


def chunked(stream: bytes) -> bytes:
    events = [each.partition(b"data: ")[2] for each in stream.split(b"\n\n") if b"data: " in each]
    return b"".join(event_frame("chunk", json.dumps({"bytes": base64.b64encode(e).decode()}).encode()) for e in events)


def stopped_by(word: str, stream: bytes) -> bytes:
    """A stream of Converse with another word in its messageStop, of which the fakes' own types know nothing."""
    made, at = b"", 0
    while at < len(stream):
        end = at + int.from_bytes(stream[at : at + 4], "big")
        stops = b"messageStop" in stream[at:end]
        made += event_frame("messageStop", json.dumps({"stopReason": word}).encode()) if stops else stream[at:end]
        at = end
    return made


def renamed(stream: bytes, before: str, after: str) -> bytes:
    assert before.encode() in stream
    return stream.replace(before.encode(), after.encode())


def ended(kind: str, word: str, *, calls: bool = False, cut: bool = False) -> bytes:
    """An answer that says "Hi", or calls, and ends with a word."""
    if kind in CLAUDE:
        block = CUT if cut else CALL if calls else TEXT
        stream = renamed(claude_stream(block, stop="end_turn"), '"end_turn"', f'"{word}"')
        return chunked(stream) if kind == "bedrock-anthropic" else stream
    if kind in GOOGLE:
        part = {"functionCall": {"name": "f", "args": {}}} if calls else {"text": "Hi"}
        return renamed(gemini_stream([part]), '"STOP"', f'"{word}"')
    if kind == "openai-responses":
        details = {"status": "incomplete", "incomplete_details": {"reason": "content_filter"}}
        return renamed(responses_stream((MESSAGE, [SAID]), end=details), '"content_filter"', f'"{word}"')
    if kind == "bedrock":
        block = (
            ({"toolUse": {"toolUseId": "c", "name": "f"}}, [{"toolUse": {"input": "{}"}}])
            if calls
            else (None, [{"text": "Hi"}])
        )
        return stopped_by(word, converse_stream(block, stop="end_turn"))
    delta: Json = {"content": "Hi"}
    if calls:
        delta = {
            "tool_calls": [{"index": 0, "id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}]
        }
    return renamed(chat_stream(delta, stop="stop"), '"stop"', f'"{word}"')


def read(kind: str, stream: bytes, words: str = "", origin: str = "") -> tuple[list[Event], SmgError | None]:
    wire, model = WIRES[kind]
    request = talk(origin=Origin(origin), stream=True) if words else talk()
    decoder = wire.ask(request, model, EnginesConfig(), words).decoder
    assert decoder is not None
    events = [*decoder.feed(stream), *decoder.end()]
    return events, decoder.error


def reasons(events: list[Event]) -> list[str]:
    return [each.reason for each in events if isinstance(each, Finished)]


@pytest.mark.parametrize("kind", WIRES)
def test_a_reason_that_nobody_knows_ends_an_answer_as_usual(kind: str) -> None:
    events, error = read(kind, ended(kind, "a_new_word"))

    assert error is None
    assert reasons(events) == [
        "length" if kind == "openai-responses" else "stop"
    ]  # which says that there would be more
    assert "".join(each.text for each in events if isinstance(each, TextDelta)) == "Hi"
    assert isinstance(events[-1], Usage)


@pytest.mark.parametrize("kind", [kind for kind in WIRES if kind != "openai-responses"])
def test_behind_calls_it_means_that_they_are_to_be_made(kind: str) -> None:
    events, error = read(kind, ended(kind, "a_new_word", calls=True))

    assert error is None
    assert reasons(events) == ["tool_calls"]


@pytest.mark.parametrize("kind", CLAUDE)
def test_a_call_that_is_not_whole_is_a_broken_one(kind: str) -> None:
    events, error = read(kind, ended(kind, "a_new_word", cut=True))

    assert error is None
    assert reasons(events) == ["malformed_call"]


GAVE_UP = {
    "bedrock": "malformed_model_output",
    **dict.fromkeys(GOOGLE, "OTHER"),
    **dict.fromkeys(CHATS, "insufficient_system_resource"),
}


@pytest.mark.parametrize("kind", GAVE_UP)
def test_a_word_for_the_providers_own_failure_is_its_failure(kind: str) -> None:
    events, error = read(kind, ended(kind, GAVE_UP[kind]))

    assert isinstance(error, ProviderFailed)
    assert (error.status, error.another_worker_may_do) == (502, True)
    assert reasons(events) == []


def with_new_event(kind: str) -> bytes:
    stream = ended(kind, {"openai-responses": "max_output_tokens", **dict.fromkeys(GOOGLE, "STOP")}.get(kind, "stop"))
    if kind == "bedrock":
        return event_frame("novelty", b'{"a":1}') + stream
    if kind == "bedrock-anthropic":
        return event_frame("novelty", b'{"a":1}') + chunked(b'data: {"type":"novelty","a":1}\n\n') + stream
    if kind in CHATS:
        return b'event: novelty\ndata: {"object":"novelty","a":1}\n\n' + stream
    named = "" if kind in GOOGLE else '"type":"novelty",'
    return f'event: novelty\ndata: {{{named}"novelty":{{"a":1}}}}\n\n'.encode() + stream


@pytest.mark.parametrize("kind", WIRES)
def test_an_event_that_nobody_knows_is_passed_over(kind: str) -> None:
    events, error = read(kind, with_new_event(kind))

    assert error is None
    assert "".join(each.text for each in events if isinstance(each, TextDelta)) == "Hi"


def with_new_block(kind: str) -> bytes:
    if kind in CLAUDE:
        plain = claude_stream(({"type": "text", "text": "x"}, []), TEXT)
        stream = renamed(plain, '{"type":"text","text":"x"}', '{"type":"novelty","data":"c2VjcmV0","a":1}')
        return chunked(stream) if kind == "bedrock-anthropic" else stream
    if kind in GOOGLE:
        return renamed(gemini_stream([{"text": "x"}, {"text": "Hi"}]), '{"text":"x"}', '{"novelty":{"a":1}}')
    if kind == "openai-responses":
        plain = responses_stream(({**MESSAGE, "id": "n"}, []), (MESSAGE, [SAID]))
        return plain.replace(b'"type":"message","id":"n"', b'"type":"novelty","id":"n"')
    if kind == "bedrock":
        return converse_stream((None, [{"text": "x"}]), (None, [{"text": "Hi"}])).replace(b"", b"")
    return renamed(
        chat_stream({"content": "x"}, {"content": "Hi"}), '"content":"x"', '"content":[{"type":"novelty","a":1}]'
    )


BLOCKS = tuple(kind for kind in WIRES if kind != "bedrock")


@pytest.mark.parametrize("kind", BLOCKS)
def test_a_block_that_nobody_knows_is_an_error_and_never_left_out_in_silence(kind: str) -> None:
    _, error = read(kind, with_new_block(kind))

    assert isinstance(error, EngineGarbled)
    assert error.status == 502


def test_so_it_is_before_converse() -> None:
    for delta in ({"novelty": {"a": 1}}, {"image": {"source": {}}}):
        frame = event_frame("contentBlockDelta", json.dumps({"contentBlockIndex": 0, "delta": delta}).encode())

        _, error = read("bedrock", frame)

        assert isinstance(error, EngineGarbled), delta


@pytest.mark.parametrize(
    ("kind", "words", "origin"),
    [
        *((kind, "messages", "messages") for kind in CLAUDE),
        *((kind, "gemini", "generate_content") for kind in GOOGLE),
        ("openai-responses", "responses", "responses"),
    ],
)
def test_a_client_of_the_providers_own_api_is_told_such_a_block(kind: str, words: str, origin: str) -> None:
    events, error = read(kind, with_new_block(kind), words, origin)

    assert error is None
    told = b"".join(b"".join(each.pieces) for each in events if isinstance(each, Verbatim))
    assert b"novelty" in told
    assert all(len(each.pieces) == 1 for each in events if isinstance(each, Verbatim))  # no place waits for a seal
    assert reasons(events) == ["stop"]


_BEDROCK = botocore.session.get_session().get_service_model("bedrock-runtime").shape_for("StopReason")


@pytest.mark.parametrize(
    ("known", "official"),
    [
        (CLAUDES_REASONS, get_args(anthropic.types.StopReason)),
        (GEMINIS_REASONS, [each.value for each in google.genai.types.FinishReason]),
        (BEDROCKS_REASONS, _BEDROCK.enum),
    ],
)
def test_every_reason_to_end_of_the_official_types_is_known(known: Mapping[str, str], official: Sequence[str]) -> None:
    """One that is not known ends an answer as usual, which a newer library may show to be wrong."""
    assert len(official) >= 5
    assert set(official) - known.keys() - FAILURES <= {"FINISH_REASON_UNSPECIFIED"}
