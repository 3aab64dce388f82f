"""Documents of a request that the gateway reads itself: which they are, and their text and pictures in their place.

Decides which files may be read: those that say they are PDF, and those at an address whose type is not told. The text of a file
stands where the file stood, and reads as the text of a document that was sent as text, with its pictures where they stand in it,
for a model that takes pictures. `DocumentService` is the interface to the code that fetches and reads them
(`models.document_service`). Pure. Above: reading_documents. Below: the request's records, media.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Protocol

import attrs
from msgspec.structs import replace

from smg_core.pipeline.prompt.media import MediaItem, is_pdf, media_of
from smg_core.request import File, GenerationRequest, Image, MediaSource, Message, Part, Text, ToolResult
from smg_core.wire.documents import DOCUMENT_END, document_text

__all__ = ["DocumentService", "ReadDocument", "ReadDocuments", "documents_of", "with_documents"]


@attrs.frozen
class ReadDocument:
    """A document that was read: its text, its pictures as files of JPEG, each with the character of the text behind which it
    stands, and how many more pictures it has (`unseen`)."""

    text: str = attrs.field(repr=False)
    pictures: tuple[tuple[int, bytes], ...] = attrs.field(default=(), repr=False)
    unseen: int = 0

    def with_pictures(self, most: int) -> "ReadDocument":
        """With the first `most` of its pictures."""
        pictures = self.pictures[:most]
        return ReadDocument(self.text, pictures, self.unseen + len(self.pictures) - len(pictures))


class DocumentService(Protocol):
    """What reads documents. Errors are this package's, `param` naming the part at fault."""

    async def read(
        self, items: Sequence[MediaItem], *, tenant: str, other_media: int | None = None
    ) -> Sequence[ReadDocument]:
        """What is in each of `items`, which are fetched and read several at the same time, off the event loop. `tenant`: who
        asks, for a fair share. `other_media`: how many media the request has without them, where its model takes pictures: then
        those of the documents are read, as many as there is room for; without it their text alone is."""
        ...


class ReadDocuments:
    """The documents that were read for one request, found by the source itself, not by what is in it: that may be megabytes. A
    request that is prepared again has the same sources. `most`: how many of their pictures are shown, None for all."""

    def __init__(self) -> None:
        # sources are held, so that an id stays its own
        self._read: dict[tuple[int, bool], tuple[MediaSource, ReadDocument]] = {}
        self.most: int | None = None
        self._included = 0

    def add(self, source: MediaSource, document: ReadDocument, *, pictured: bool) -> None:
        """`source` was read, with its pictures where `pictured`."""
        self._read[id(source), pictured] = source, document

    def get(self, source: MediaSource, *, pictured: bool) -> ReadDocument | None:
        """What is in it; None for a source that was not read so."""
        found = self._read.get((id(source), pictured))
        if found is None and not pictured and (found := self._read.get((id(source), True))) is not None:
            return found[1].with_pictures(0) if found[1].text else None
        return None if found is None else found[1]

    def found_in(self, sources: Iterable[MediaSource], *, pictured: bool) -> dict[int, ReadDocument]:
        """What is in each of `sources`, by its id, with as many of the pictures as are shown."""
        found: dict[int, ReadDocument] = {}
        left = self.most
        self._included = 0
        for source in sources:
            document = self.get(source, pictured=pictured)
            if document is None:
                continue
            if left is not None:
                document = document.with_pictures(left)
                left -= len(document.pictures)
            self._included += len(document.pictures)
            found[id(source)] = document
        return found

    def show_fewer(self) -> bool:
        """Show half as many pictures from now on; False where none were shown, and where a document has nothing else."""
        if self._included < 2 and (not self._included or not all(document.text for _, document in self._read.values())):
            return False
        self.most = self._included // 2
        return True


def documents_of(messages: Sequence[Message]) -> list[MediaItem]:
    """The files that are to be read, in prompt order."""
    return [item for item in media_of(messages) if item.kind == "file" and _is_read(item.source)]


def _is_read(source: MediaSource) -> bool:
    if is_pdf(source):
        return True
    return source.media_type is None and (source.url or "")[:8].lower().startswith(("http://", "https://"))


def with_documents(request: GenerationRequest, found: Mapping[int, ReadDocument]) -> GenerationRequest:
    """The request with what was found in its documents, by the ids of their sources, in their places: a text, and pictures where
    they stand in it."""
    return replace(request, messages=tuple([_in_message(message, found) for message in request.messages]))


_Found = Mapping[int, ReadDocument]


def _in_message(message: Message, found: _Found) -> Message:
    if message.content_is_text:
        return message
    parts = _in_parts(message.parts, found)
    return message if parts is message.parts else replace(message, parts=parts)


def _in_parts(parts: tuple[Part, ...], found: _Found) -> tuple[Part, ...]:
    if not any(isinstance(part, File | ToolResult) for part in parts):
        return parts
    return tuple([made for part in parts for made in _pieces(part, found)])


def _pieces(part: Part, found: _Found) -> Sequence[Part]:
    if isinstance(part, ToolResult):
        return (replace(part, content=_in_parts(part.content, found)),)
    document = found.get(id(part.source)) if isinstance(part, File) else None
    return (part,) if document is None or not isinstance(part, File) else _of_document(part, document)


def _of_document(part: File, document: ReadDocument) -> Sequence[Part]:
    """The text of a document up to a picture, the picture, the text behind it, and so on."""
    whole = document_text(document.text, part.title or part.filename, part.context)
    begin = len(whole) - len(DOCUMENT_END) - len(document.text)
    places = [0, *(begin + at for at, _ in document.pictures), len(whole)]
    first, *others = [whole[start:end] for start, end in pairwise(places)]
    pieces: list[Part] = [Text(first)]
    for (_, data), behind in zip(document.pictures, others, strict=True):
        pieces.append(Image(MediaSource(data=data, media_type="image/jpeg"), of_document=1 + bool(behind)))
        if behind:
            pieces.append(Text(behind))
    return (*pieces[:-1], Text(others[-1] if others else first, part.cache))
