"""Whether documents are read here, and loading what reads them when the first one comes (edge).

Above: models.loading. Below: models.document_service, which is imported in a thread, since it needs Pillow and others.
"""

import asyncio
from collections.abc import Sequence
from concurrent.futures import Executor
from importlib.util import find_spec
from typing import TYPE_CHECKING

from smg_core.config.config import Config
from smg_core.http.settings import DocumentsConfig, MediaConfig
from smg_core.pipeline.prompt.media import MediaItem

if TYPE_CHECKING:
    from smg_core.models.document_service import GatewayDocuments

__all__ = ["DocumentReading", "document_reading"]

_NEEDED = ("pypdf", "PIL", "numpy")


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

    async def read(self, items: Sequence[MediaItem], *, tenant: str) -> Sequence[str]:
        """`GatewayDocuments.read`."""
        if self._opening is None:
            self._opening = asyncio.get_running_loop().run_in_executor(self._pool, self._open)
        service = await asyncio.shield(self._opening)  # a client that leaves must not end it for others
        return await service.read(items, tenant=tenant)

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
