"""Kept files of a request, which it names by their ids: which they are, and what stands in their places.

A file is what its type says, whatever kind of part names it: text is put into the prompt as a document that was sent as text,
and a picture, a recording, a clip or a PDF is as if it had been sent with the request. Pure. Above: file_reading. Below: the
request's records, media.
"""

from collections.abc import Mapping, Sequence

import attrs
from msgspec.structs import replace

from smg_core.errors import InvalidRequest
from smg_core.pipeline.prompt.media import MediaItem, media_of
from smg_core.request import Audio, File, GenerationRequest, Image, MediaSource, Message, Part, Text, ToolResult, Video
from smg_core.wire.documents import document_text

__all__ = ["FileContents", "FilesInUse", "kept_files_of", "with_kept_files"]

_MOVING = frozenset({"image/gif", "image/webp"})
"""Types of pictures that may be clips."""


@attrs.frozen
class FileContents:
    """A file that was read: its name and media type, and its bytes, or its `text` where it is one."""

    filename: str
    media_type: str
    data: bytes = attrs.field(repr=False)
    text: str | None = attrs.field(default=None, repr=False)


@attrs.define(eq=False)
class FilesInUse:
    """The files that one request uses, by the id that it names each by. The memory that they take is reserved as long as this
    lives."""

    by_id: dict[str, FileContents] = attrs.field(factory=dict, repr=False)


def kept_files_of(messages: Sequence[Message]) -> list[MediaItem]:
    """The parts that name a kept file, in prompt order."""
    return [item for item in media_of(messages) if item.source.file_id is not None]


def with_kept_files(request: GenerationRequest, found: Mapping[str, FileContents]) -> GenerationRequest:
    """The request with files in the places of their ids. Raises InvalidRequest for a part of a kind that its file is not of."""
    messages = [
        message
        if message.content_is_text
        else replace(message, parts=_parts(message.parts, found, f"messages[{place}].parts"))
        for place, message in enumerate(request.messages)
    ]
    return replace(request, messages=tuple(messages))


def _parts(parts: tuple[Part, ...], found: Mapping[str, FileContents], at: str) -> tuple[Part, ...]:
    return tuple([_part(part, found, f"{at}[{order}]") for order, part in enumerate(parts)])


def _part(part: Part, found: Mapping[str, FileContents], at: str) -> Part:
    if isinstance(part, ToolResult):
        return replace(part, content=_parts(part.content, found, f"{at}.content"))
    if not isinstance(part, Image | Audio | Video | File) or part.source.file_id is None:
        return part
    file = found.get(part.source.file_id)
    return part if file is None else _placed(part, file, at)


def _placed(part: Image | Audio | Video | File, file: FileContents, at: str) -> Part:
    family, _, rest = file.media_type.partition("/")
    moving = isinstance(part, Video) and file.media_type in _MOVING
    if not isinstance(part, File) and family != type(part).__name__.lower() and not moving:
        kind = {Image: "picture", Audio: "recording", Video: "clip"}[type(part)]
        raise InvalidRequest(f"The file in '{at}' is no {kind}: it is {file.media_type}.", param=at)
    if file.text is not None:
        title, context = (part.title, part.context) if isinstance(part, File) else (None, None)
        name = title or (part.filename if isinstance(part, File) else None) or file.filename
        return Text(document_text(file.text, name, context), part.cache)
    source: MediaSource = replace(part.source, file_id=None, data=file.data, media_type=file.media_type)
    if not isinstance(part, File):
        return replace(part, source=source)
    if family == "image":
        return Image(source, cache=part.cache)
    if family == "audio":
        return Audio(source, rest, part.cache)
    if family == "video":
        return Video(source, part.cache)
    return replace(part, source=source, filename=part.filename or file.filename or None)
