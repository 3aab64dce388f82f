"""Values that Google's APIs have alike: base64 in either alphabet, media by their type, results of calls as text.

Pure. Above: the readers of generateContent and Interactions. Below: documents, request.
"""

import base64
import binascii
from typing import Literal

import msgspec
from msgspec.structs import replace

from smg_core.errors import InvalidRequest
from smg_core.json_types import JsonObject
from smg_core.request import Audio, File, Image, MediaSource, Part, Text, Video
from smg_core.wire.documents import document_text, inline_file

__all__ = ["PartDetail", "inline_address", "media_of_type", "result_text", "signature_bytes"]

PartDetail = Literal["auto", "low", "high", "original"]
_encode = msgspec.json.Encoder().encode


def result_text(response: JsonObject) -> tuple[str, bool]:
    """A result as text, and whether it is an error. For an object that has only an output, the text of the output."""
    if len(response) == 1:
        name, value = next(iter(response.items()))
        if name in ("output", "result", "error"):
            return (value if isinstance(value, str) else _encode(value).decode()), name == "error"
    return _encode(response).decode(), False


def media_of_type(media_type: str, source: MediaSource, name: str | None, detail: PartDetail, at: str) -> Part:
    """The media of this type, as the part of its kind; a document of text is text. `at` is the field that errors name."""
    family, _, rest = media_type.lower().partition("/")
    if family == "image":
        return Image(source, detail)
    if family == "audio":
        return Audio(source, rest.partition(";")[0] or None)
    if family == "video":
        return Video(source)
    if source.url is not None:
        found = inline_file(source.url, at)
        if isinstance(found, str):
            return Text(document_text(found, name))
        source = found
    if not (source.url or "").startswith("data:"):
        source = replace(source, media_type=media_type)
    return File(source, name)


def inline_address(media_type: str, data: str) -> str:
    """Media in base64 of either alphabet, padded or not, as an address in the alphabet that all others take: Google's own
    libraries write the one of URLs."""
    if "-" in data or "_" in data:
        data = data.replace("-", "+").replace("_", "/")
    missing = -len(data) % 4
    return f"data:{media_type};base64,{data}{'=' * missing if missing < 3 else ''}"


def signature_bytes(text: str, at: str) -> bytes:
    """Base64 in either alphabet, padded or not."""
    plain = text.replace("-", "+").replace("_", "/").rstrip("=")
    try:
        return base64.b64decode(plain + "=" * (-len(plain) % 4), validate=True)
    except (binascii.Error, ValueError):
        raise InvalidRequest(f"Invalid value at '{at}' (TYPE_BYTES): Base64 decoding failed.", param=at) from None
