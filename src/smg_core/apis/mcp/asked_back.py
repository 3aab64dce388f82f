"""Answers what servers of tools ask back: a model of the gateway does, where the server's row of the file lets it (edge).

A server may ask a model (sampling), which gets the messages as they are, or the user (elicitation): the model is then asked for
JSON by the server's schema, and what is no such JSON declines. Each is a request of its own, of the tenant whose session it is,
with its limits and in its accounts. Above: the assembly, which gives it to the tools. Below: requests within others.
"""

import asyncio
import base64
import binascii
import copy
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from smg_core.errors import SmgError
from smg_core.events import Event, Failed, TextDelta
from smg_core.inner_requests import asked_within
from smg_core.json_types import Json
from smg_core.origin import Origin
from smg_core.request import (
    Caller,
    GenerationRequest,
    Image,
    MediaSource,
    Message,
    Part,
    ReasoningSettings,
    ResponseFormat,
    Role,
    Sampling,
    SchemaFormat,
    Text,
    TextFormat,
)
from smg_core.serving.api import Api
from smg_core.serving.inference import Inference
from smg_core.serving.services import Services
from smg_core.wire.base import Incoming
from smg_core.wire.errors import openai_error

__all__ = ["AskedBack"]

_ORIGIN = Origin("mcp")
_TOKENS, _AT_ONCE, _MESSAGES, _STOPS = 2048, 16, 100, 4
_FILLS = (
    "A tool that runs for the user asks for what it needs to go on. Answer with one JSON object of its schema and nothing else. "
    "What is not known is left out."
)


class _Asked(Struct, frozen=True):
    """A request that a server has asked for."""

    generation: GenerationRequest

    def locate(self, path: str) -> str:
        """The field: of these requests no client has written one."""
        return path


class AskedBack:
    """Has models of one gateway answer."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._places = asyncio.Semaphore(_AT_ONCE)

    async def sample(self, model: str, tenant: str, params: Mapping[str, Any]) -> tuple[str, str] | None:
        """The text of `model` to the params of a request for it; None where it cannot be asked that, or fails."""
        listed = params.get("messages")
        if not isinstance(listed, list) or not 1 <= len(listed) <= _MESSAGES or params.get("tools"):
            return None
        messages = [_message(each) for each in listed]
        if not all(each.parts for each in messages):
            return None
        if isinstance(system := params.get("systemPrompt"), str) and system:
            messages.insert(0, Message("system", (Text(system),), content_is_text=True))
        text = await self._sentence(model, tenant, tuple(messages), _sampling(params), TextFormat())
        return None if text is None else (text, model)

    async def elicit(
        self, model: str, tenant: str, message: str, schema: Mapping[str, Any]
    ) -> Mapping[str, Any] | None:
        """What `model` fills in, an object of the schema; None where there is nothing to fill in, or it fails."""
        properties = schema.get("properties")
        if not isinstance(properties, Mapping) or not properties:
            return None
        asked = (Message("system", (Text(_FILLS),), content_is_text=True), Message("user", (Text(message),)))
        wanted = SchemaFormat(dict(schema), strength="wished")
        text = await self._sentence(model, tenant, asked, Sampling(max_tokens=_TOKENS), wanted)
        return None if text is None else _filled(text, schema, properties)

    async def _sentence(
        self, model: str, tenant: str, messages: tuple[Message, ...], sampling: Sampling, format_: ResponseFormat
    ) -> str | None:
        caller, hears = Caller(tenant), _Hears()

        def decode(incoming: Incoming) -> _Asked:
            return _Asked(
                GenerationRequest(
                    id=incoming.request_id,
                    model=model,
                    messages=messages,
                    sampling=sampling,
                    response_format=format_,
                    reasoning=ReasoningSettings(effort="low"),
                    origin=_ORIGIN,
                    caller=caller,
                )
            )

        api: Api[_Asked] = Api(
            name="mcp",
            id_prefix="smpl-",
            decode=decode,
            stream=lambda request, created: hears,
            whole=lambda request, created: hears,
            error=openai_error,
        )
        async with self._places:
            try:
                answer = await asked_within(self._services, Inference(self._services, api), caller, "/mcp", {})
                answer.check()
            except SmgError:
                return None  # its line in the log says why
        return hears.text.strip()


class _Hears:
    """Both encoders of one answer: they keep its text and write nothing."""

    content_type = "application/json"

    def __init__(self) -> None:
        self._texts: list[str] = []
        self._failed: Failed | None = None

    @property
    def text(self) -> str:
        return "".join(self._texts)

    def start(self) -> bytes:
        return b""

    def keep_alive(self) -> bytes:
        return b""

    def encode(self, events: Sequence[Event]) -> bytes:
        """Take in events."""
        self.add(events)
        return b""

    def add(self, events: Sequence[Event]) -> None:
        """Take in events."""
        for event in events:
            if isinstance(event, TextDelta):
                self._texts.append(event.text)
            elif isinstance(event, Failed):
                self._failed = event

    def body(self) -> bytes:
        """Nothing. Raises the error of a `Failed` event."""
        if self._failed is not None:
            raise self._failed.error
        return b"{}"

    def fork(self) -> "_Hears":
        """An independent copy."""
        other = copy.copy(self)
        other._texts = list(self._texts)
        return other


def _message(error_message: object) -> Message:
    """A message of a server; without parts where it is none that a model can be told."""
    found = error_message if isinstance(error_message, Mapping) else {}
    role: Role = "assistant" if found.get("role") == "assistant" else "user"
    content = found.get("content")
    parts = [_part(each) for each in (content if isinstance(content, list) else [content])]
    return Message(role, tuple(part for part in parts if part is not None) if all(parts) else ())


def _part(content: object) -> Part | None:
    if not isinstance(content, Mapping):
        return None
    if content.get("type") == "text" and isinstance(text := content.get("text"), str):
        return Text(text)
    if content.get("type") == "image" and isinstance(data := content.get("data"), str):
        try:
            return Image(
                MediaSource(data=base64.b64decode(data, validate=True), media_type=str(content.get("mimeType")))
            )
        except (binascii.Error, ValueError):
            return None
    return None


def _sampling(params: Mapping[str, Any]) -> Sampling:
    most, heat, stops = params.get("maxTokens"), params.get("temperature"), params.get("stopSequences")
    return Sampling(
        max_tokens=min(most, _TOKENS) if isinstance(most, int) and most > 0 else _TOKENS,
        temperature=float(heat) if isinstance(heat, int | float) and 0 <= heat <= 2 else None,
        stop=tuple(str(each) for each in stops[:_STOPS]) if isinstance(stops, list) else (),
    )


_KINDS: Mapping[str, type | tuple[type, ...]] = {
    "string": str,
    "boolean": bool,
    "integer": int,
    "number": (int, float),
    "array": list,
}


def _filled(text: str, schema: Mapping[str, Any], properties: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The object in a model's answer; None for one that is not of the schema, whose properties are all plain values."""
    begin, end = text.find("{"), text.rfind("}")
    try:
        found: dict[str, Json] = msgspec.json.decode(
            text[begin : end + 1].encode("utf-8", "replace"), type=dict[str, Json]
        )
    except (msgspec.DecodeError, RecursionError):
        return None
    required = schema.get("required")
    if isinstance(required, list) and any(name not in found for name in required):
        return None
    return (
        found if all(name in properties and _fits(value, properties[name]) for name, value in found.items()) else None
    )


def _fits(value: Json, content: object) -> bool:
    asked = content if isinstance(content, Mapping) else {}
    kind = _KINDS.get(str(asked.get("type")))
    if kind is not None and (not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool)):
        return False
    return not isinstance(listed := asked.get("enum"), list) or value in listed
