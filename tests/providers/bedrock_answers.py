"""What the fakes of Bedrock say: one answer for each case, in Converse and in Messages over AWS's event stream.

Events of Converse are checked against the service model of AWS's own library where they are made: an answer that the service
could not give is a fault of the test.
"""

import base64
from collections.abc import Mapping
from typing import Any

import botocore.session
import msgspec
from botocore.model import Shape
from tests.core.engines.vendors.bedrock.event_streams import event_frame, exception_frame
from tests.providers.answers import FORMATS, KEY, SIGNATURE, Format
from tests.providers.chat_answers import CHAT_FORMATS
from tests.providers.fake import Said

from smg_core.engines.connections.credential import CredentialSpec

__all__ = ["ALL_FORMATS", "BEDROCK_FORMATS", "EVENT_STREAM", "converse_event", "converse_stream"]

MODEL = "us.anthropic.claude-opus-5-5-20260601-v1:0"
EVENT_STREAM = "application/vnd.amazon.eventstream"
_EVENTS = botocore.session.get_session().get_service_model("bedrock-runtime").shape_for("ConverseStreamOutput").members
_BEARER = ("authorization", f"Bearer {KEY}")
_CREDENTIAL = CredentialSpec(kind="aws", key=KEY)


def _check(shape: Shape, value: Any, where: str) -> None:
    """Raise AssertionError for what the service model does not have."""
    if shape.type_name == "structure" and not getattr(shape, "is_document_type", False):
        unknown = set(value) - set(shape.members)
        assert not unknown, f"{where} has no {unknown}"
        for name, inner in value.items():
            _check(shape.members[name], inner, f"{where}.{name}")
    elif shape.type_name == "string" and shape.enum:
        assert value in shape.enum, f"{where} cannot be {value!r}"


def converse_event(kind: str, body: Mapping[str, Any]) -> bytes:
    padded = {"p": "abcdefgh"} | body
    _check(_EVENTS[kind], {name: value for name, value in padded.items() if name != "p"}, kind)
    return event_frame(kind, msgspec.json.encode(padded))


def converse_stream(*blocks: tuple[Mapping[str, Any] | None, list[Mapping[str, Any]]], stop: str = "end_turn") -> bytes:
    """A stream of Converse: blocks with their deltas; those without a start begin with their first one."""
    frames = [converse_event("messageStart", {"role": "assistant"})]
    for at, (start, deltas) in enumerate(blocks):
        if start is not None:
            frames.append(converse_event("contentBlockStart", {"contentBlockIndex": at, "start": start}))
        frames += [converse_event("contentBlockDelta", {"contentBlockIndex": at, "delta": each}) for each in deltas]
        frames.append(converse_event("contentBlockStop", {"contentBlockIndex": at}))
    frames.append(converse_event("messageStop", {"stopReason": stop}))
    usage = {"inputTokens": 7, "outputTokens": 9, "totalTokens": 21}
    usage |= {"cacheReadInputTokens": 3, "cacheWriteInputTokens": 2}
    frames.append(converse_event("metadata", {"usage": usage, "metrics": {"latencyMs": 1}}))
    return b"".join(frames)


def _said(text: str) -> tuple[None, list[Mapping[str, Any]]]:
    return None, [{"text": each} for each in (text[:3], text[3:]) if each]


def _called(
    call_id: str, city: str, name: str = "get_weather", field: str = "city"
) -> tuple[Mapping[str, Any], list[Mapping[str, Any]]]:
    pieces = ["", f'{{"{field}"', f':"{city}"}}']
    return {"toolUse": {"toolUseId": call_id, "name": name}}, [{"toolUse": {"input": each}} for each in pieces]


def _thought(text: str) -> tuple[None, list[Mapping[str, Any]]]:
    return None, [{"reasoningContent": {"text": text}}, {"reasoningContent": {"signature": SIGNATURE}}]


def _refused(status: int, kind: str, text: str, **more: str) -> Said:
    headers = {"x-amzn-errortype": f"{kind}:http://internal.example/coral", **more}
    return Said(msgspec.json.encode({"message": text}), status, "application/json", headers)


_ERRORS = {
    "rejected": _refused(400, "ValidationException", "messages.0: bad, says https://internal.example/x"),
    "too_long": _refused(400, "ValidationException", "prompt is too long: 250000 tokens > 200000 maximum"),
    "credentials": _refused(403, "AccessDeniedException", "User: arn:aws:iam::1:user/x is not authorized"),
    "unfunded": _refused(400, "ServiceQuotaExceededException", "no more"),
    "limited": _refused(429, "ThrottlingException", "Too many requests", **{"retry-after": "7"}),
    "overloaded": _refused(503, "ServiceUnavailableException", "busy"),
    "late": _refused(408, "ModelTimeoutException", "too slow"),
    "failed": _refused(424, "ModelErrorException", "The model failed"),
    "no_model": _refused(404, "ResourceNotFoundException", f"model: {MODEL}"),
}


def _cut_after(stream: bytes, text: bytes) -> int:
    """The end of the message that has `text`."""
    at = 0
    while text not in stream[at : (end := at + int.from_bytes(stream[at : at + 4], "big"))]:
        at = end
    return end


def _nothing(path: str) -> Said:
    raise AssertionError(f"nobody asks for {path}")


_CONVERSE = {
    "text": converse_stream(_said("Hello")),
    "tool": converse_stream(_called("tooluse_1", "Paris"), stop="tool_use"),
    "parallel": converse_stream(_called("tooluse_1", "Paris"), _called("tooluse_2", "Rome"), stop="tool_use"),
    "json": converse_stream(_said('{"city":"Paris"}')),
    "length": converse_stream(_said("Hello"), stop="max_tokens"),
    "refusal": converse_stream(_said("Hello"), stop="content_filtered"),
    "thinking": converse_stream(_thought("Let me see"), _said("Hello")),
    "free_text": converse_stream(_called("tooluse_1", "Paris", "run", "input"), stop="tool_use"),
    "hidden_tool": converse_stream(
        (None, [{"reasoningContent": {"redactedContent": SIGNATURE}}]),
        _called("tooluse_1", "Paris"),
        stop="tool_use",
    ),
    "thinking_tool": converse_stream(_thought("Let me see"), _called("tooluse_1", "Paris"), stop="tool_use"),
}


def _chunks(stream: bytes) -> bytes:
    """The events of a stream of Messages, each in a message."""
    events = [each.partition(b"data: ")[2] for each in stream.split(b"\n\n") if b"data: " in each]
    events = [each for each in events if b'"ping"' not in each]
    return b"".join(
        event_frame("chunk", msgspec.json.encode({"bytes": base64.b64encode(each).decode(), "p": "abc"}))
        for each in events
    )


def _after_delta(stream: bytes) -> int:
    """The end of the message that has the first delta: the third one, behind the beginnings of the answer and of its block."""
    at = 0
    for _ in range(3):
        at += int.from_bytes(stream[at : at + 4], "big")
    return at


_MESSAGES = FORMATS["anthropic"]

BEDROCK_FORMATS: Mapping[str, Format] = {
    "bedrock": Format(
        "bedrock",
        MODEL,
        _CONVERSE,
        _ERRORS,
        exception_frame("throttlingException", b'{"message":"Too many requests"}'),
        _nothing,
        _BEARER,
        Said(b'{"inputTokens":14}', kind="application/json"),
        credential=_CREDENTIAL,
        content_type=EVENT_STREAM,
        cut_at=_cut_after(_CONVERSE["text"], b"Hel"),
        filters=True,
    ),
    "bedrock-anthropic": Format(
        "bedrock-anthropic",
        MODEL,
        {case: _chunks(stream) for case, stream in _MESSAGES.streams.items()}
        | {"free_text": _chunks(_MESSAGES.streams["tool"].replace(b"get_weather", b"run").replace(b"city", b"input"))},
        _ERRORS,
        exception_frame("throttlingException", b'{"message":"Too many requests"}'),
        _nothing,
        _BEARER,
        Said(b'{"inputTokens":14}', kind="application/json"),
        credential=_CREDENTIAL,
        content_type=EVENT_STREAM,
        cut_at=_after_delta(_chunks(_MESSAGES.streams["text"])),
        wholes=_MESSAGES.streams
        | {"free_text": _MESSAGES.streams["tool"].replace(b"get_weather", b"run").replace(b"city", b"input")},
    ),
}
"""Bedrock's formats, by the kind of their workers."""

ALL_FORMATS: Mapping[str, Format] = {**FORMATS, **BEDROCK_FORMATS, **CHAT_FORMATS}
"""The formats of all providers."""
