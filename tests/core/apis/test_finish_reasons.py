"""Why an answer ended, in the words of every API, streamed and whole: each reason there is has a word, or is an error."""

import json
from collections.abc import Callable
from typing import Any, get_args

import attrs
import pytest

from smg_core.apis.chat.answer_types import AnswerFinishReason
from smg_core.apis.chat.decode import decode_chat
from smg_core.apis.chat.encode import ChatStreamEncoder, ChatWholeEncoder
from smg_core.apis.completions.decode import decode_completion
from smg_core.apis.completions.encode import CompletionStreamEncoder, CompletionWholeEncoder
from smg_core.apis.gemini.decode import decode_generate
from smg_core.apis.gemini.encode import GeminiStreamEncoder, GeminiWholeEncoder
from smg_core.apis.interactions.decode import interaction_decoder
from smg_core.apis.interactions.encode import InteractionStreamEncoder, InteractionWholeEncoder
from smg_core.apis.messages.answer_types import StopReason
from smg_core.apis.messages.decode import decode_messages
from smg_core.apis.messages.encode import MessagesStreamEncoder, MessagesWholeEncoder
from smg_core.apis.responses.wire.decode import decode_responses
from smg_core.apis.responses.wire.encode import ResponsesStreamEncoder, ResponsesWholeEncoder
from smg_core.apis.sglang.decode import decode_sglang
from smg_core.apis.sglang.encode import SglangStreamEncoder, SglangWholeEncoder
from smg_core.apis.transcriptions.wire import (
    TranscriptionRequest,
    TranscriptionStreamEncoder,
    TranscriptionWholeEncoder,
)
from smg_core.errors import EngineFailed
from smg_core.events import Done, Event, Finished, FinishReason, Started, TextDelta, TextEnd, Usage
from smg_core.request import GenerationRequest
from smg_core.speech import Transcription
from smg_core.sse import SseReader
from smg_core.wire.base import Incoming, StreamEncoder, WholeEncoder

REASONS: tuple[FinishReason, ...] = get_args(FinishReason)
ERROR = "(an error)"
Words = dict[FinishReason, str]


def now() -> float:
    return 1700000009.5


@attrs.frozen
class Api:
    """`stream` and `whole` make the encoders of one request, `told` takes the word from a whole answer, `told_last` from the
    objects of a stream."""

    words: Words
    stream: Callable[[], StreamEncoder]
    whole: Callable[[], WholeEncoder]
    told: Callable[[Any], str]
    told_last: Callable[[list[Any]], str]


def incoming(**body: Any) -> Incoming:
    return Incoming(json.dumps({"model": "m", **body}).encode(), "r_1", path_values={"model": "m"})


CHAT = decode_chat(incoming(messages=[{"role": "user", "content": "Hi"}], stream=True))
COMPLETION = decode_completion(incoming(prompt="Hi", stream=True))
MESSAGES = decode_messages(incoming(messages=[{"role": "user", "content": "Hi"}], max_tokens=9))
RESPONSES = decode_responses(incoming(input="Hi", stream=True))
GEMINI = decode_generate(Incoming(b'{"contents":[{"parts":[{"text":"Hi"}]}]}', "r_1", path_values={"model": "m"}))
INTERACTION = interaction_decoder("steps")(incoming(input="Hi", stream=True))
SGLANG = decode_sglang(Incoming(b'{"text":"Hi","stream":true}', "r_1"), lambda name: "m")
SPEECH = TranscriptionRequest(GenerationRequest(id="r_1", model="m"), Transcription())

CHAT_WORDS: Words = {
    "stop": "stop",
    "length": "length",
    "tool_calls": "tool_calls",
    "content_filter": "content_filter",
    "abort": "abort",
    "error": "error",
    "context": "length",
    "refusal": "stop",
    "pause": "length",
    "malformed_call": "tool_calls",
}
COMPLETION_WORDS: Words = {**CHAT_WORDS, "tool_calls": "stop", "malformed_call": "stop", "pause": "stop"}
APIS = {
    "chat": Api(
        CHAT_WORDS,
        lambda: ChatStreamEncoder(CHAT, 1, "r_1"),
        lambda: ChatWholeEncoder(CHAT, 1, "r_1"),
        lambda answer: answer["choices"][0]["finish_reason"],
        lambda chunks: chunks[-1]["choices"][0]["finish_reason"],
    ),
    "completions": Api(
        COMPLETION_WORDS,
        lambda: CompletionStreamEncoder(COMPLETION, 1),
        lambda: CompletionWholeEncoder(COMPLETION, 1),
        lambda answer: answer["choices"][0]["finish_reason"],
        lambda chunks: chunks[-1]["choices"][0]["finish_reason"],
    ),
    "messages": Api(
        {
            "stop": "end_turn",
            "length": "max_tokens",
            "tool_calls": "tool_use",
            "content_filter": "refusal",
            "abort": ERROR,
            "error": ERROR,
            "context": "model_context_window_exceeded",
            "refusal": "refusal",
            "pause": "pause_turn",
            "malformed_call": "tool_use",
        },
        lambda: MessagesStreamEncoder(MESSAGES),
        lambda: MessagesWholeEncoder(MESSAGES),
        lambda answer: answer["stop_reason"],
        lambda events: ERROR if events[-1]["type"] == "error" else events[-2]["delta"]["stop_reason"],
    ),
    "responses": Api(
        {
            "stop": "completed",
            "length": "incomplete max_output_tokens",
            "tool_calls": "completed",
            "content_filter": "incomplete content_filter",
            "abort": "incomplete",
            "error": ERROR,
            "context": "incomplete max_output_tokens",
            "refusal": "completed",
            "pause": "incomplete max_tool_calls",
            "malformed_call": "completed",
        },
        lambda: ResponsesStreamEncoder(RESPONSES, 1, now, lambda request, said: ""),
        lambda: ResponsesWholeEncoder(RESPONSES, 1, now, lambda request, said: ""),
        lambda answer: " ".join([answer["status"], *(answer["incomplete_details"] or {}).values()]),
        lambda events: (
            ERROR if events[-1]["type"] == "response.failed" else APIS["responses"].told(events[-1]["response"])
        ),
    ),
    "generateContent": Api(
        {
            "stop": "STOP",
            "length": "MAX_TOKENS",
            "tool_calls": "STOP",
            "content_filter": "SAFETY",
            "abort": "OTHER",
            "error": "OTHER",
            "context": "MAX_TOKENS",
            "refusal": "SAFETY",
            "pause": "TOO_MANY_TOOL_CALLS",
            "malformed_call": "MALFORMED_FUNCTION_CALL",
        },
        lambda: GeminiStreamEncoder(GEMINI, 1),
        lambda: GeminiWholeEncoder(GEMINI, 1),
        lambda answer: answer["candidates"][0]["finishReason"],
        lambda chunks: chunks[-1]["candidates"][0]["finishReason"],
    ),
    "interactions": Api(
        {
            "stop": "completed",
            "length": "incomplete",
            "tool_calls": "requires_action",
            "content_filter": "failed",
            "abort": "incomplete",
            "error": ERROR,
            "context": "incomplete",
            "refusal": "completed",
            "pause": "incomplete",
            "malformed_call": "failed",
        },
        lambda: InteractionStreamEncoder(INTERACTION, 1, now),
        lambda: InteractionWholeEncoder(INTERACTION, 1, now),
        lambda answer: answer["status"],
        lambda events: ERROR if events[-1]["event_type"] == "error" else events[-1]["interaction"]["status"],
    ),
    "generate": Api(
        dict.fromkeys(REASONS, "stop") | {"length": "length", "context": "length", "abort": "abort", "error": "abort"},
        lambda: SglangStreamEncoder(SGLANG, 1),
        lambda: SglangWholeEncoder(SGLANG, 1),
        lambda answer: answer["meta_info"]["finish_reason"]["type"],
        lambda chunks: chunks[-1]["meta_info"]["finish_reason"]["type"],
    ),
    "transcriptions": Api(
        dict.fromkeys(REASONS, "Hello") | {"abort": ERROR, "error": ERROR},
        lambda: TranscriptionStreamEncoder(SPEECH, 1),
        lambda: TranscriptionWholeEncoder(SPEECH, 1),
        lambda answer: answer["text"],
        lambda events: ERROR if "error" in events[-1] else events[-1]["text"],
    ),
}


def ended(reason: FinishReason) -> list[Event]:
    return [Started(3, None, "m"), TextDelta(0, "Hello"), TextEnd(0), Finished(0, reason), Usage(3, 1), Done()]


@pytest.mark.parametrize("name", APIS)
@pytest.mark.parametrize("reason", REASONS)
def test_every_reason_has_its_word_in_every_api_or_is_an_error(name: str, reason: FinishReason) -> None:
    api = APIS[name]
    stream, whole = api.stream(), api.whole()
    data = stream.start() + b"".join([stream.encode([event]) for event in ended(reason)])
    objects = [json.loads(event.data) for event in SseReader().feed(data) if event.data != "[DONE]"]
    whole.add(ended(reason))

    assert api.told_last([each for each in objects if each.get("choices") != []]) == api.words[reason]
    if api.words[reason] == ERROR:
        with pytest.raises(EngineFailed):
            whole.body()
    else:
        assert api.told(json.loads(whole.body())) == api.words[reason]


def test_the_words_are_those_of_the_apis_descriptions() -> None:
    assert {word for word in APIS["messages"].words.values() if word != ERROR} <= set(get_args(StopReason))
    assert set(CHAT_WORDS.values()) <= set(get_args(AnswerFinishReason))
    assert all(set(api.words) == set(REASONS) for api in APIS.values())


@pytest.mark.parametrize("reason", ["abort", "error"])
def test_a_message_that_the_engine_broke_off_has_no_end_but_the_error(reason: FinishReason) -> None:
    stream = MessagesStreamEncoder(MESSAGES)
    events = SseReader().feed(stream.encode(ended(reason)))
    kinds = [event.event for event in events]

    assert kinds[-2:] == ["content_block_stop", "error"]
    assert not {"message_delta", "message_stop"} & set(kinds)
    assert stream.encode([TextDelta(0, "more")]) == b""
