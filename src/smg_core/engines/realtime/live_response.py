"""One response of Gemini Live as the events of the Realtime API: its message, its calls, its end.

Pure. Above: the translation. Below: JSON.
"""

from collections.abc import Callable, Mapping, Sequence

import attrs
from msgspec import Struct

from smg_core.json_types import Json, JsonObject
from smg_core.wire.json_text import encode_object

__all__ = ["LiveCall", "LiveResponse", "LiveUsage", "live_event"]


def live_event(names: Callable[[str], str], kind: str, **fields: object) -> bytes:
    """An event of the session, with an id of its own."""
    return encode_object({"type": kind, "event_id": names("event_"), **fields})


class LiveCall(Struct):
    """A call of a function, as the server tells it."""

    name: str = ""
    id: str = ""
    args: JsonObject = {}


class _Counted(Struct, rename="camel"):
    modality: str = ""
    token_count: int = 0


class LiveUsage(Struct, rename="camel"):
    """The tokens of a response, as the server tells them."""

    prompt_token_count: int = 0
    cached_content_token_count: int = 0
    response_token_count: int = 0
    tool_use_prompt_token_count: int = 0
    thoughts_token_count: int = 0
    prompt_tokens_details: list[_Counted] = []
    response_tokens_details: list[_Counted] = []

    def as_object(self) -> JsonObject:
        """The same in the words of the Realtime API."""
        read = max(0, self.prompt_token_count) + max(0, self.tool_use_prompt_token_count)
        made = max(0, self.response_token_count) + max(0, self.thoughts_token_count)
        sound, pictures = _of(self.prompt_tokens_details, "AUDIO"), _of(self.prompt_tokens_details, "IMAGE", "VIDEO")
        spoken = _of(self.response_tokens_details, "AUDIO")
        return {
            "total_tokens": read + made,
            "input_tokens": read,
            "output_tokens": made,
            "input_token_details": {
                "text_tokens": max(0, read - sound - pictures),
                "audio_tokens": sound,
                "image_tokens": pictures,
                "cached_tokens": max(0, self.cached_content_token_count),
            },
            "output_token_details": {"text_tokens": max(0, made - spoken), "audio_tokens": spoken},
        }


def _of(details: Sequence[_Counted], *modalities: str) -> int:
    return sum(max(0, each.token_count) for each in details if each.modality in modalities)


@attrs.define(eq=False)
class LiveResponse:
    """A response under way, called `id`, in a session whose answers are `spoken` or written. `after` is the item before its
    first, `most` the tokens that it may have. `usage` is the last that the server has told of it."""

    id: str
    names: Callable[[str], str]
    spoken: bool
    conversation: str
    after: str | None
    metadata: Json = None
    most: Json = "inf"
    usage: LiveUsage | None = None
    has_content: bool = False
    _output: list[JsonObject] = attrs.field(factory=list)
    _item: JsonObject | None = None
    _text: list[str] = attrs.field(factory=list)

    def created(self) -> bytes:
        """The event of its beginning."""
        return self._event("response.created", response=self._response_object("in_progress", None))

    def add_text(self, text: str) -> list[bytes]:
        """More of what it says."""
        lines = self._open_message()
        self._text.append(text)
        kind = "response.output_audio_transcript.delta" if self.spoken else "response.output_text.delta"
        return [*lines, self._placed(kind, content_index=0, delta=text)]

    def sounded(self, audio: str) -> list[bytes]:
        """More of its sound, in base64."""
        return [*self._open_message(), self._placed("response.output_audio.delta", content_index=0, delta=audio)]

    def called(self, calls: Sequence[LiveCall]) -> list[bytes]:
        """The calls that it ends with."""
        lines = self._close_message("completed")
        for call in calls:
            arguments = encode_object(call.args).decode()
            lines += self._begin(
                {"type": "function_call", "call_id": call.id, "name": call.name, "arguments": ""}, "in_progress"
            )
            lines += [
                self._placed("response.function_call_arguments.delta", call_id=call.id, delta=arguments),
                self._placed(
                    "response.function_call_arguments.done", call_id=call.id, name=call.name, arguments=arguments
                ),
            ]
            lines += self._finish({"arguments": arguments}, "completed")
        return lines

    def ended(self, status: str, reason: str | None = None) -> list[bytes]:
        """Its end: "completed", "incomplete" or "cancelled", and why."""
        lines = self._close_message("completed" if status == "completed" else "incomplete")
        details: JsonObject = {"type": status, **({} if reason is None else {"reason": reason})}
        return [*lines, self._event("response.done", response=self._response_object(status, details))]

    # ----------------------------------------------------------------------------------------------------------- items

    def _open_message(self) -> list[bytes]:
        self.has_content = True
        if self._item is not None:
            return []
        lines = self._begin({"type": "message", "role": "assistant", "content": []}, "in_progress")
        part = {"type": "audio", "transcript": ""} if self.spoken else {"type": "text", "text": ""}
        return [*lines, self._placed("response.content_part.added", content_index=0, part=part)]

    def _close_message(self, status: str) -> list[bytes]:
        if self._item is None:
            return []
        text = "".join(self._text)
        self._text.clear()
        if self.spoken:
            lines = [
                self._placed("response.output_audio.done", content_index=0),
                self._placed("response.output_audio_transcript.done", content_index=0, transcript=text),
            ]
            part, content = {"type": "audio", "transcript": text}, {"type": "output_audio", "transcript": text}
        else:
            lines = [self._placed("response.output_text.done", content_index=0, text=text)]
            part, content = {"type": "text", "text": text}, {"type": "output_text", "text": text}
        lines.append(self._placed("response.content_part.done", content_index=0, part=part))
        return [*lines, *self._finish({"content": [content]}, status)]

    def _begin(self, fields: JsonObject, status: str) -> list[bytes]:
        self.has_content = True
        item: JsonObject = {"id": self.names("item_"), "object": "realtime.item", "status": status, **fields}
        self._item = item
        return [
            self._event(
                "response.output_item.added", response_id=self.id, output_index=len(self._output), item=dict(item)
            ),
            self._event("conversation.item.added", previous_item_id=self.after, item=dict(item)),
        ]

    def _finish(self, fields: Mapping[str, Json], status: str) -> list[bytes]:
        item: JsonObject = {**(self._item or {}), **fields, "status": status}
        at, before = len(self._output), self.after
        self._output.append(item)
        self._item, self.after = None, str(item["id"])
        return [
            self._event("response.output_item.done", response_id=self.id, output_index=at, item=item),
            self._event("conversation.item.done", previous_item_id=before, item=item),
        ]

    # ---------------------------------------------------------------------------------------------------------- events

    def _placed(self, kind: str, **fields: object) -> bytes:
        id = None if self._item is None else self._item["id"]
        return self._event(kind, response_id=self.id, item_id=id, output_index=len(self._output), **fields)

    def _event(self, kind: str, **fields: object) -> bytes:
        return live_event(self.names, kind, **fields)

    def _response_object(self, status: str, details: JsonObject | None) -> JsonObject:
        usage = None if details is None or self.usage is None else self.usage.as_object()
        return {
            "object": "realtime.response",
            "id": self.id,
            "status": status,
            "status_details": details,
            "output": list(self._output),
            "conversation_id": self.conversation,
            "output_modalities": ["audio" if self.spoken else "text"],
            "max_output_tokens": self.most,
            "usage": usage,
            "metadata": self.metadata,
        }
