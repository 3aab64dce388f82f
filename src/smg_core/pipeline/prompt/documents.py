"""Documents of a request that the gateway reads itself: which they are, and their text in their place.

Decides which files may be read: those that say they are PDF, and those at an address whose type is not told. The text of a file
stands where the file stood, and reads as the text of a document that was sent as text. `DocumentService` is the interface to the
code that fetches and reads them (`models.document_service`). Pure. Above: reading_documents. Below: the request's records, media.
"""

from collections.abc import Sequence
from typing import Protocol

from msgspec.structs import replace

from smg_core.pipeline.prompt.media import MediaItem, is_pdf, media_of
from smg_core.request import File, GenerationRequest, MediaSource, Message, Part, Text, ToolResult
from smg_core.wire.documents import document_text

__all__ = ["DocumentService", "DocumentTexts", "documents_of", "with_texts"]


class DocumentService(Protocol):
    """What reads documents. Errors are this package's, `param` naming the part at fault."""

    async def read(self, items: Sequence[MediaItem], *, tenant: str) -> Sequence[str]:
        """The text of each of `items`, which are fetched and read several at the same time, off the event loop. `tenant`: who
        asks, for a fair share."""
        ...


class DocumentTexts:
    """The texts of documents that were read for one request, found by the source itself, not by what is in it: that may be
    megabytes. A request that is prepared again has the same sources."""

    def __init__(self) -> None:
        self._read: dict[int, tuple[MediaSource, str]] = {}  # each source is held, so that its id stays its own

    def add(self, source: MediaSource, text: str) -> None:
        """`source` was read."""
        self._read[id(source)] = source, text

    def get(self, source: MediaSource) -> str | None:
        """The text, None for a source that was not read."""
        found = self._read.get(id(source))
        return found[1] if found is not None else None

    @property
    def characters(self) -> int:
        """How many characters all texts have."""
        return sum(len(text) for _, text in self._read.values())


def documents_of(messages: Sequence[Message]) -> list[MediaItem]:
    """The files that are to be read, in prompt order."""
    return [item for item in media_of(messages) if item.kind == "file" and _is_read(item.source)]


def _is_read(source: MediaSource) -> bool:
    if is_pdf(source):
        return True
    return source.media_type is None and (source.url or "")[:8].lower().startswith(("http://", "https://"))


def with_texts(request: GenerationRequest, texts: DocumentTexts) -> GenerationRequest:
    """The request with the texts of its documents in their places."""
    return replace(request, messages=tuple(_in_message(message, texts) for message in request.messages))


def _in_message(message: Message, texts: DocumentTexts) -> Message:
    if message.content_is_text:
        return message
    parts = _in_parts(message.parts, texts)
    return message if parts == message.parts else replace(message, parts=parts)


def _in_parts(parts: tuple[Part, ...], texts: DocumentTexts) -> tuple[Part, ...]:
    if not any(isinstance(part, File | ToolResult) for part in parts):
        return parts
    return tuple(_read(part, texts) for part in parts)


def _read(part: Part, texts: DocumentTexts) -> Part:
    if isinstance(part, ToolResult):
        return replace(part, content=_in_parts(part.content, texts))
    if not isinstance(part, File) or (text := texts.get(part.source)) is None:
        return part
    return Text(document_text(text, part.title or part.filename, part.context), part.cache)
