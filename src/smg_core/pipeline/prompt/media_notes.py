"""Puts a note in place of an unusable medium of an earlier turn, so that a conversation goes on.

A client sends its whole conversation with each turn: one picture that is damaged, or that the model of today does not take, would
fail every later request. The turn that is to be answered now is not changed: there the client can do something. Pure. Above:
passing_media. Below: the request's records.
"""

import re
from typing import TypeVar

from msgspec.structs import replace

from smg_core.errors import InvalidRequest, SmgError, UnsupportedParameter
from smg_core.pipeline.prompt.media import media_of
from smg_core.request import Audio, File, GenerationRequest, Image, Message, Part, Text, ToolResult, Video

__all__ = ["all_noted", "noted_answer", "noted_earlier", "without_faults"]

T = TypeVar("T")

_PLACE = re.compile(r"messages\[(\d+)\]\.parts\[(\d+)\](?:\.content\[(\d+)\])?(?:\.source(?:\.\w+)?)?")
_KINDS = {Image: "picture", Audio: "recording", Video: "clip", File: "file"}


def noted_earlier(request: GenerationRequest, error: SmgError) -> GenerationRequest | None:
    """The request with a note in place of the medium that `error` refuses; None where that is none, or of the current turn."""
    return _noted(request, error, range(_current(request.messages)))


def noted_answer(request: GenerationRequest, error: SmgError, first: int) -> GenerationRequest | None:
    """The request with a note in place of the medium that `error` refuses, where a tool that ran here answered with it: in the
    messages from `first` on. None where that is none."""
    return _noted(request, error, range(first, len(request.messages)))


def _noted(request: GenerationRequest, error: SmgError, places: range) -> GenerationRequest | None:
    found = _PLACE.fullmatch(error.param or "")
    if found is None or not isinstance(error, InvalidRequest | UnsupportedParameter):
        return None
    place, order, inner = int(found[1]), int(found[2]), found[3]
    messages = request.messages
    if place not in places:
        return None
    parts = messages[place].parts
    part = parts[order] if order < len(parts) else None
    noted: tuple[Part, ...] | None = None
    if inner is None:
        noted = _with_note(parts, order)
    elif isinstance(part, ToolResult) and (content := _with_note(part.content, int(inner))) is not None:
        noted = _changed(parts, order, replace(part, content=content))
    if noted is None:
        return None
    return replace(request, messages=_changed(messages, place, replace(messages[place], parts=noted)))


def without_faults(request: GenerationRequest, *, notes: bool) -> GenerationRequest:
    """The request without the media in which its decoder found faults. Raises InvalidRequest with the fault of the first that no
    note may stand for: of the current turn, and of any where `notes` is False."""
    for item in media_of(request.messages):
        fault = item.source.fault
        if fault is None:
            continue
        noted = noted_earlier(request, InvalidRequest(fault["message"], param=item.param)) if notes else None
        if noted is None:
            raise InvalidRequest(fault["message"], param=fault["param"], code=fault["code"])
        request = noted
    return request


def all_noted(request: GenerationRequest, first: int | None = None) -> GenerationRequest | None:
    """The request with notes in place of all media of earlier turns, or of all in the messages from `first` on; None where they
    have none."""
    found = request
    places = range(_current(request.messages)) if first is None else range(first, len(request.messages))
    for item in media_of(request.messages):
        found = _noted(found, InvalidRequest("", param=item.param), places) or found
    return None if found is request else found


def _current(messages: tuple[Message, ...]) -> int:
    """Where the turn begins that is to be answered: the last messages of one role, before the beginning of an answer."""
    place = len(messages)
    while place and messages[place - 1].role == "assistant":
        place -= 1
    messages = messages[:place]
    while place and messages[place - 1].role == messages[-1].role:
        place -= 1
    return place


def _with_note(parts: tuple[Part, ...], order: int) -> tuple[Part, ...] | None:
    part = parts[order] if order < len(parts) else None
    kind = None if part is None else _KINDS.get(type(part))
    if kind is None:
        return None
    return _changed(parts, order, Text(f"[Here was a {kind} that cannot be shown.]"))


def _changed(items: tuple[T, ...], place: int, item: T) -> tuple[T, ...]:
    return (*items[:place], item, *items[place + 1 :])
