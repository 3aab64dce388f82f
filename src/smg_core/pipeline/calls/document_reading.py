"""Has the documents of a request read, before its prompt is rendered (edge).

Each is read once for a request, however often the request is prepared. Above: performers, which hands it to preparing. Below:
documents, the executor.
"""

from collections.abc import Awaitable, Callable

from smg_core.pipeline.answer.trace import Trace
from smg_core.pipeline.calls.executor import FairExecutor
from smg_core.pipeline.prompt.documents import DocumentService, DocumentTexts, documents_of, with_texts
from smg_core.request import GenerationRequest

__all__ = ["ReadDocuments", "reads_documents"]

ReadDocuments = Callable[[GenerationRequest, Trace], Awaitable[GenerationRequest]]
"""Returns the request with the texts of its documents. Raises what is wrong with one of them."""

_PLACED_HERE = 200_000
"""Characters of documents that are put into a request on the event loop; this takes a fraction of a millisecond."""


def reads_documents(service: DocumentService, executor: FairExecutor) -> ReadDocuments:
    """What reads documents with `service`. Long texts are put into the request in the threads of `executor`."""

    async def read(request: GenerationRequest, trace: Trace) -> GenerationRequest:
        items = documents_of(request.messages)
        if not items:
            return request
        texts, tenant = trace.documents, request.caller.tenant
        if texts is None:
            texts = trace.documents = DocumentTexts()
        unread = [item for item in items if texts.get(item.source) is None]
        if unread:
            for item, text in zip(unread, await service.read(unread, tenant=tenant), strict=True):
                texts.add(item.source, text)
        if texts.characters <= _PLACED_HERE:
            return with_texts(request, texts)
        return await executor.run(lambda _: with_texts(request, texts), size=texts.characters, caller=tenant)

    return read
