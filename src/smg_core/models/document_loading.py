"""Loads the reading of documents and fetching of media when the first comes, where allowed (edge).

Above: models.loading. Below: models.document_service and models.passed_media, which are imported in a thread, since they need
Pillow and others.
"""

import asyncio
from collections.abc import Sequence
from concurrent.futures import Executor
from importlib.util import find_spec
from typing import TYPE_CHECKING

from smg_core.config import Config, DocumentsConfig, MediaConfig
from smg_core.errors import UnsupportedParameter
from smg_core.pipeline.calls.passing_media import ContentServices
from smg_core.pipeline.prompt.documents import ReadDocument
from smg_core.pipeline.prompt.media import MediaItem
from smg_core.request import MediaSource

if TYPE_CHECKING:
    from smg_core.models.document_service import GatewayDocuments
    from smg_core.models.passed_media import PassedMedia

__all__ = ["DocumentReading", "MediaFetchingHere", "content_services", "document_reading"]

_NEEDED = ("pypdf", "smg_multimodal", "PIL")
_FETCHING = ("smg_multimodal", "httpx", "PIL")


def content_services(config: Config, pool: Executor) -> "tuple[ContentServices, DocumentReading | None]":
    """What brings content into requests; and of that what is to be closed."""
    documents = document_reading(config, pool)
    media = MediaFetchingHere(config.media, pool)
    return ContentServices(documents, media, notes=config.media.note_earlier), documents


def document_reading(config: Config, pool: Executor) -> "DocumentReading | None":
    """What reads documents; None where it is switched off or a package is not installed."""
    if config.documents.pdf == "off" or any(find_spec(name) is None for name in _NEEDED):
        return None
    return DocumentReading(config.documents, config.media, pool)


class DocumentReading:
    """The pipeline's `DocumentService`, which is loaded in `pool` when it is first needed."""

    def __init__(self, config: DocumentsConfig, media: MediaConfig, pool: Executor) -> None:
        self._config, self._media, self._pool = config, media, pool
        self._opening: asyncio.Future[GatewayDocuments] | None = None

    async def read(
        self, items: Sequence[MediaItem], *, tenant: str, other_media: int | None = None
    ) -> Sequence[ReadDocument]:
        """`GatewayDocuments.read`."""
        if self._opening is None:
            self._opening = asyncio.get_running_loop().run_in_executor(self._pool, self._open)
        service = await asyncio.shield(self._opening)  # a client that leaves must not end it for others
        return await service.read(items, tenant=tenant, other_media=other_media)

    def _open(self) -> "GatewayDocuments":
        from smg_core.models.document_service import GatewayDocuments

        return GatewayDocuments(self._config, self._media)

    async def close(self) -> None:
        """Stop the processes, if there are any."""
        opening, self._opening = self._opening, None
        if opening is not None:
            (found,) = await asyncio.gather(opening, return_exceptions=True)
            if not isinstance(found, BaseException):
                await found.close()


class MediaFetchingHere:
    """The pipeline's `MediaFetching`, which is loaded in `pool` when it is first needed."""

    def __init__(self, config: MediaConfig, pool: Executor) -> None:
        self._config, self._pool = config, pool
        self._opening: asyncio.Future[PassedMedia] | None = None

    async def fetched(self, items: Sequence[MediaItem], *, tenant: str) -> Sequence[MediaSource]:
        """`PassedMedia.fetched`. Raises UnsupportedParameter where the packages that fetch are not installed."""
        if any(find_spec(name) is None for name in _FETCHING):
            raise UnsupportedParameter("Media at addresses are not fetched here; send the data.", param=items[0].param)
        if self._opening is None:
            self._opening = asyncio.get_running_loop().run_in_executor(self._pool, self._open)
        service = await asyncio.shield(self._opening)  # a client that leaves must not end it for others
        return await service.fetched(items, tenant=tenant)

    def _open(self) -> "PassedMedia":
        from smg_core.models.passed_media import PassedMedia

        return PassedMedia(self._config, self._pool)
