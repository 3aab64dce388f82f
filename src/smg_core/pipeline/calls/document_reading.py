"""Has the documents of a request read, before its prompt is rendered (edge).

Each is read once for a request, however often the request is prepared. Above: performers, which hands it to preparing. Below:
documents, the executor.
"""

from collections.abc import Awaitable, Callable, Iterable

from smg_core.pipeline.answer.trace import Trace
from smg_core.pipeline.calls.executor import FairExecutor
from smg_core.pipeline.prompt.documents import (
    DocumentService,
    ReadDocument,
    ReadDocuments,
    documents_of,
    with_documents,
)
from smg_core.pipeline.prompt.media import media_of
from smg_core.request import GenerationRequest

__all__ = ["BringDocuments", "reads_documents"]

BringDocuments = Callable[[GenerationRequest, Trace, bool], Awaitable[GenerationRequest]]
"""Returns the request with the texts of its documents, and with their pictures where the last argument is True. Raises what is
wrong with one of them."""

_PLACED_HERE = 200_000
"""Characters of documents that are put into a request on the event loop; this takes a fraction of a millisecond."""
_LOST = "documents"
"""The name under which the answer says what the model did not see."""


def reads_documents(service: DocumentService, executor: FairExecutor) -> BringDocuments:
    """What reads documents with `service`. Long texts are put into the request in the threads of `executor`."""

    async def read(request: GenerationRequest, trace: Trace, pictured: bool) -> GenerationRequest:
        items = documents_of(request.messages)
        if not items:
            return request
        known, tenant = trace.documents, request.caller.tenant
        if known is None:
            known = trace.documents = ReadDocuments()
        pictured = pictured and known.most != 0
        unread = [item for item in items if known.get(item.source, pictured=pictured) is None]
        if unread:
            other_media = len(media_of(request.messages)) - len(items) if pictured else None
            for item, document in zip(
                unread, await service.read(unread, tenant=tenant, other_media=other_media), strict=True
            ):
                known.add(item.source, document, pictured=pictured)
        found = known.found_in((item.source for item in items), pictured=pictured)
        _say(trace, found.values())
        size = sum(len(each.text) for each in found.values())
        if size <= _PLACED_HERE:
            return with_documents(request, found)
        return await executor.run(lambda _: with_documents(request, found), size=size, caller=tenant)

    return read


def _say(trace: Trace, documents: Iterable[ReadDocument]) -> None:
    """Have the answer say how many pictures of the documents the model was not shown."""
    unseen = sum(each.unseen for each in documents)
    losses = {name: what for name, what in trace.losses.items() if name != _LOST}
    trace.losses = {**losses, _LOST: f"without {unseen} of their pictures"} if unseen else losses
