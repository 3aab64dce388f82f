"""The tool `image_generation` in the Responses API: its settings in a request, its item, and the pictures that it may change.

What the API leaves open: pictures that are changed are those of the conversation that stand in it as data, the last ones, be they
the user's or made before; a mask is data too. Pure. Above: responses.wire.built_in, the decoder. Below: the wire types, events.
"""

from collections.abc import Iterator, Sequence
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from smg_core.built_in import BuiltIn
from smg_core.errors import UnsupportedParameter
from smg_core.events import HostedEnd, HostedProgress, HostedStart
from smg_core.image_terms import check_image_terms
from smg_core.json_types import Json, JsonObject
from smg_core.wire.decoding import explained

__all__ = ["closed_picture", "opened_picture", "pictures_in", "read_picture_tool", "state_of_picture"]

_MOST = 16  # pictures that are changed together: as many as OpenAI's API for it takes
_DATA = ";base64,"
_WISHES = (
    *("background", "complexity", "frame_count", "frame_duration_ms", "input_fidelity", "moderation"),
    *("output_compression", "output_format", "quality", "size"),
)


class _Mask(Struct, gc=False):
    image_url: str | None = None
    file_id: str | None = None


class _PictureTool(Struct, gc=False):
    """What makes pictures. Keys that it does not have are passed over."""

    action: Literal["generate", "edit", "auto"] | None = None
    background: Literal["transparent", "opaque", "auto"] | None = None
    complexity: Literal["low", "medium", "high"] | None = None
    frame_count: Annotated[int, Meta(ge=2, le=16)] | None = None
    frame_duration_ms: Annotated[int, Meta(ge=1, le=655_350)] | None = None
    input_fidelity: Literal["high", "low"] | None = None
    input_image_mask: _Mask | None = None
    model: Annotated[str, Meta(max_length=512)] | None = None
    moderation: Literal["auto", "low"] | None = None
    output_compression: Annotated[int, Meta(ge=0, le=100)] | None = None
    output_format: Literal["png", "webp", "jpeg", "gif", "svg"] | None = None
    partial_images: Annotated[int, Meta(ge=0, le=3)] | None = None
    quality: Literal["low", "medium", "high", "xhigh", "max", "auto"] | None = None
    size: str | None = None
    svg: JsonObject | None = None


def read_picture_tool(tool: JsonObject, at: str) -> BuiltIn:
    """The tool at `at`. Raises InvalidRequest and UnsupportedParameter."""
    asked = explained(tool, _PictureTool, at)
    if asked.svg is not None:
        raise UnsupportedParameter(f"Unsupported parameter: '{at}.svg': leave it out.", param=f"{at}.svg")
    wishes: JsonObject = {name: value for name in _WISHES if (value := getattr(asked, name)) is not None}
    if asked.output_compression == 100 and asked.output_format in (None, "png"):
        wishes.pop("output_compression")  # the default, which some clients send
    check_image_terms(wishes, f"{at}.")
    mask = ""
    if asked.input_image_mask is not None:
        mask = _base64_of(asked.input_image_mask.image_url)
        if not mask:
            where = f"{at}.input_image_mask.{'file_id' if asked.input_image_mask.file_id else 'image_url'}"
            raise UnsupportedParameter(f"Unsupported parameter: '{where}': give the mask as a data URL.", param=where)
    return BuiltIn(
        "image",
        model=asked.model or "",
        picture=wishes,
        partial=asked.partial_images or 0,
        action=asked.action or "auto",
        mask=mask,
    )


def pictures_in(items: Sequence[JsonObject]) -> tuple[str, ...]:
    """The pictures of a conversation in base64, the last ones, in their order."""
    found: list[str] = []
    for item in reversed(items):
        found += reversed(list(_of_item(item)))
        if len(found) >= _MOST:
            break
    return tuple(reversed(found[:_MOST]))


def _of_item(item: JsonObject) -> Iterator[str]:
    if item.get("type") == "image_generation_call":
        if isinstance(result := item.get("result"), str) and result:
            yield result
        return
    content = item.get("content")
    for part in content if isinstance(content, list) else ():
        if isinstance(part, dict) and part.get("type") == "input_image" and (data := _base64_of(part.get("image_url"))):
            yield data


def _base64_of(url: Json) -> str:
    """The data of a data URL; "" for anything else."""
    if not isinstance(url, str) or not url.startswith("data:image/"):
        return ""
    head, base64, data = url.partition(_DATA)
    return data if base64 and len(head) < len(url) else ""


# -------------------------------------------------------------------------------------------------------------- the encoder


def opened_picture(event: HostedStart) -> tuple[str, JsonObject]:
    """The prefix of the id and the fields of the item of a call that begins."""
    return "ig_", {"type": "image_generation_call", "result": None}


class _Made(Struct):
    structured: dict[str, msgspec.Raw] | None = None


def closed_picture(event: HostedEnd) -> JsonObject:
    """What the end of a call adds to its item. The picture is JSON as it came, which is not read again."""
    if event.failed:
        return {"status": "failed"}
    made = msgspec.json.decode(event.payload, type=_Made).structured or {}
    facts: JsonObject = {name: msgspec.json.decode(value) for name, value in made.items() if name != "result"}
    return {"status": "completed", **facts, "result": made.get("result")}


def state_of_picture(event: HostedProgress) -> JsonObject:
    """An earlier state of the picture, as fields of its event."""
    fields: JsonObject = msgspec.json.decode(event.payload, type=dict[str, msgspec.Raw])
    return fields
