"""Has what a request names brought into it before its prompt is rendered: kept files, documents, media at addresses (edge).

Media are brought for engines that read prompts themselves. Such an engine fetches by rules of its own, or not at all, so that it
is never sent an address: the gateway's rules say from where media may come. Above: performers, which hands it to preparing.
Below: reading_documents, media.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol

import attrs
from msgspec.structs import replace

from smg_core.engines.base import EngineFacts
from smg_core.errors import SmgError
from smg_core.pipeline.answer.trace import Trace
from smg_core.pipeline.calls.document_reading import reads_documents
from smg_core.pipeline.calls.executor import FairExecutor
from smg_core.pipeline.calls.file_reading import ReadsFiles, brought_files
from smg_core.pipeline.prompt.documents import DocumentService
from smg_core.pipeline.prompt.kept_files import kept_files_of
from smg_core.pipeline.prompt.media import MediaItem, may_have_pictures, media_of
from smg_core.pipeline.prompt.media_notes import noted_earlier, without_faults
from smg_core.pipeline.prompt.served import ServedModel
from smg_core.request import Audio, File, GenerationRequest, Image, MediaSource, Part, ToolResult, Video

__all__ = ["BringContent", "ContentServices", "MediaFetching", "brings_content"]

BringContent = Callable[[GenerationRequest, Trace, ServedModel, Sequence[EngineFacts]], Awaitable[GenerationRequest]]
"""Returns the request with what its model and the engines of these facts do not bring themselves: kept files, texts and pictures
of documents, and media in place of their addresses. Raises what is wrong with one of them."""

_Sources = Mapping[int, MediaSource]


class MediaFetching(Protocol):
    """What fetches media. Errors are this package's, `param` naming the part at fault."""

    async def fetched(self, items: Sequence[MediaItem], *, tenant: str) -> Sequence[MediaSource]:
        """What is at the addresses of `items`, with its type. `tenant`: who asks, for a fair share."""
        ...


@attrs.frozen
class ContentServices:
    """What reads documents, fetches media and brings kept `files`; None where that is not done here: then models refuse them.
    `notes`: a medium or document of an earlier turn that cannot be used has a note put in its place."""

    documents: DocumentService | None = None
    media: MediaFetching | None = None
    files: ReadsFiles | None = None
    notes: bool = False

    def noted(self, request: GenerationRequest, error: SmgError) -> GenerationRequest | None:
        """The request with which to go on after `error`; None where it stands."""
        return noted_earlier(request, error) if self.notes else None


def brings_content(services: ContentServices, executor: FairExecutor) -> BringContent:
    """What brings content by `services`. Long texts are put into the request in the threads of `executor`."""
    documents = reads_documents(services.documents, executor) if services.documents is not None else None

    async def bring(
        request: GenerationRequest, trace: Trace, model: ServedModel, kinds: Sequence[EngineFacts]
    ) -> GenerationRequest:
        request = without_faults(request, notes=services.notes)
        if services.files is not None and (kept := kept_files_of(request.messages)):
            request = await brought_files(request, kept, trace, services.files, executor)
        passed = model.tokenizer is None and request.transcription is None
        if documents is not None and not (passed and kinds and all(each.documents for each in kinds)):
            items = media_of(request.messages)
            pictured = may_have_pictures(items, model.media_kinds, kinds, passed=passed)
            request = await documents(request, trace, pictured)
        if not passed or services.media is None:
            return request
        items = [item for item in media_of(request.messages) if _is_elsewhere(item.source)]
        return await _fetched(request, items, services.media) if items else request

    return bring


async def _fetched(request: GenerationRequest, items: Sequence[MediaItem], service: MediaFetching) -> GenerationRequest:
    found = await service.fetched(items, tenant=request.caller.tenant)
    sources = {id(item.source): source for item, source in zip(items, found, strict=True)}
    messages = [
        message if message.content_is_text else replace(message, parts=_parts(message.parts, sources))
        for message in request.messages
    ]
    return replace(request, messages=tuple(messages))


def _is_elsewhere(source: MediaSource) -> bool:
    return source.url is not None and source.url[:5].lower() != "data:"


def _parts(parts: tuple[Part, ...], sources: _Sources) -> tuple[Part, ...]:
    return tuple([_part(part, sources) for part in parts])


def _part(part: Part, sources: _Sources) -> Part:
    if isinstance(part, ToolResult):
        return replace(part, content=_parts(part.content, sources))
    if isinstance(part, Image | Audio | Video | File) and id(part.source) in sources:
        return replace(part, source=sources[id(part.source)])
    return part
