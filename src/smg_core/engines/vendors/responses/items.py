"""The messages of a `GenerationRequest` as the input items of a Responses body.

Decides how each part is written. Reasoning goes back to the account that it came from, each piece right before the item that it
belongs to: one without such an item is left out, for the API refuses it. Pure. Above: body. Below: the shared modules of
providers, the vocabulary.
"""

from collections.abc import Iterator, Sequence

import attrs
import msgspec

from smg_core.engines.vendors.losses import Losses, not_for
from smg_core.engines.vendors.media import Inline, provider_media
from smg_core.engines.vendors.provider_json import ProviderJson
from smg_core.engines.vendors.wire_names import SentNames, wire_id
from smg_core.engines.vendors.written_fields import WrittenFields
from smg_core.request import File, Image, Message, Part, Reasoning, Refusal, Text, ToolCall, ToolResult
from smg_core.sealing.carried import carried_in

__all__ = ["PROVIDER", "ItemWriter"]

PROVIDER = "openai"
_ID_LENGTH = 64


@attrs.define
class ItemWriter:
    """Writes the turns of one request. `account` is that whose reasoning can be sent back."""

    account: str
    names: SentNames
    losses: Losses
    fields: WrittenFields
    _custom: set[str] = attrs.field(factory=set)  # the ids of calls of tools that take free text

    def write(self, messages: Sequence[Message]) -> list[ProviderJson]:
        """All items. Raises UnsupportedParameter naming the part that cannot be written."""
        items: list[ProviderJson] = []
        for at, message in enumerate(messages):
            self.fields.check(message, f"messages[{at}]")
            if message.role == "assistant":
                items += self._assistant(message, f"messages[{at}]")
            else:
                items += self._others(message, f"messages[{at}]")
        return items

    # ------------------------------------------------------------------------------------------------ assistant's turns

    def _assistant(self, message: Message, at: str) -> list[ProviderJson]:
        items: list[ProviderJson] = []
        plain = not any(isinstance(each, Reasoning) and each.carried for each in message.parts)
        for order, part in enumerate(message.parts):
            where = f"{at}.parts[{order}]"
            self.fields.check(part, where)
            match part:
                case Reasoning():
                    item = self._thought(part, plain=plain)
                    if item is not None:
                        items.append(item)
                case Text():
                    self._unmarked(part.cache)
                    if part.text:
                        _say({"type": "output_text", "text": part.text, "annotations": []}, message, items)
                case Refusal():
                    _say({"type": "refusal", "refusal": part.text}, message, items)
                case ToolCall():
                    items.append(self._call(part))
                case _:
                    raise not_for(where, PROVIDER, "it has no place for such a part there")
        kept = [
            each
            for place, each in enumerate(items)
            if each["type"] != "reasoning" or (place + 1 < len(items) and items[place + 1]["type"] != "reasoning")
        ]
        if len(kept) < len(items):
            self.losses.note("reasoning", "left out, for what it led to is not there")
        return kept

    def _thought(self, part: Reasoning, *, plain: bool) -> ProviderJson | None:
        original = carried_in(part)
        if original is not None and original.provider == PROVIDER and original.account == self.account:
            item: ProviderJson = msgspec.json.decode(original.payload)
            return item
        if (part.text and plain) or original is not None:
            self.losses.note("reasoning", "left out, for another account or model has made it")
        return None

    def _call(self, part: ToolCall) -> ProviderJson:
        self._unmarked(part.cache)
        call_id = wire_id(part.id, longest=_ID_LENGTH)
        if part.custom:
            self._custom.add(part.id)
            item: ProviderJson = {
                "type": "custom_tool_call",
                "call_id": call_id,
                "name": part.name,
                "input": part.arguments,
            }
        else:
            name = self.names.wire(part.name, part.namespace)
            item = {"type": "function_call", "call_id": call_id, "name": name, "arguments": part.arguments}
        return item

    # --------------------------------------------------------------------------------------------------- all other turns

    def _others(self, message: Message, at: str) -> Iterator[ProviderJson]:
        content: list[ProviderJson] = []
        for order, part in enumerate(message.parts):
            where = f"{at}.parts[{order}]"
            self.fields.check(part, where)
            if isinstance(part, ToolResult):
                if content:
                    yield {"type": "message", "role": message.role, "content": content}
                    content = []
                yield self._result(part, where)
            else:
                content.append(self._part(part, where))
        if content:
            yield {"type": "message", "role": "user" if message.role == "tool" else message.role, "content": content}

    def _result(self, part: ToolResult, at: str) -> ProviderJson:
        self._unmarked(part.cache)
        if part.is_error:
            self.losses.note("is_error", "a text that says so")
        content = [self._part(each, f"{at}.content[{order}]") for order, each in enumerate(part.content)]
        if all(each["type"] == "input_text" for each in content):
            text = "".join(each["text"] for each in content)
            output: object = f"Error: {text}" if part.is_error else text
        else:
            output = [{"type": "input_text", "text": "Error:"}, *content] if part.is_error else content
        kind = "custom_tool_call_output" if part.call_id in self._custom else "function_call_output"
        return {"type": kind, "call_id": wire_id(part.call_id, longest=_ID_LENGTH), "output": output}

    def _part(self, part: Part, at: str) -> ProviderJson:
        match part:
            case Text():
                self._unmarked(part.cache)
                return {"type": "input_text", "text": part.text}
            case Image():
                self._unmarked(part.cache)
                media = provider_media(part.source, at, PROVIDER, "image/png")
                url = f"data:{media.media_type};base64,{media.data}" if isinstance(media, Inline) else media.url
                return {"type": "input_image", "image_url": url, "detail": part.detail}
            case File():
                return self._file(part, at)
        raise not_for(at, PROVIDER, "it has no place for such a part there")

    def _file(self, part: File, at: str) -> ProviderJson:
        self._unmarked(part.cache)
        if part.citations:
            raise not_for(f"{at}.citations", PROVIDER)
        if part.context is not None:
            self.losses.note("file_context", "left out")
        media = provider_media(part.source, at, PROVIDER, "application/pdf")
        if not isinstance(media, Inline):
            return {"type": "input_file", "file_url": media.url}
        name = (
            part.filename or part.title or ("document.pdf" if media.media_type == "application/pdf" else "document.txt")
        )
        return {
            "type": "input_file",
            "filename": name,
            "file_data": f"data:{media.media_type};base64,{media.data}",
        }

    def _unmarked(self, mark: object) -> None:
        if mark is not None:
            self.losses.note("cache", "the provider's own, without marks")


def _say(content: ProviderJson, message: Message, items: list[ProviderJson]) -> None:
    """Add to what the assistant says: more of the message that is last, or one of its own."""
    if items and items[-1]["type"] == "message":
        items[-1]["content"].append(content)
        return
    item: ProviderJson = {"type": "message", "role": "assistant", "content": [content]}
    if message.phase is not None:
        item["phase"] = message.phase
    items.append(item)
