"""Documents of requests, fetched by the rules of media and read in processes (edge).

The pipeline's `DocumentService`. Above: models.document_loading, which loads this module when the first document comes, since
it needs Pillow. Below: smg_multimodal.
"""

from collections.abc import Sequence

from smg_core.errors import InvalidRequest
from smg_core.http.settings import DocumentsConfig, MediaConfig
from smg_core.models.fetching import fetching_rules, trusted
from smg_core.models.media_errors import of_the_request
from smg_core.pipeline.prompt.documents import ReadDocument
from smg_core.pipeline.prompt.media import MediaItem
from smg_multimodal.decoding.pdf import DocumentContents, DocumentLimits
from smg_multimodal.fetching.fetch import Fetcher, FetchLimits, together
from smg_multimodal.processes.budget import ByteCount
from smg_multimodal.processes.documents import DocumentReader
from smg_multimodal.records.errors import MediaTooLarge

__all__ = ["GatewayDocuments"]


class GatewayDocuments:
    """The documents of one gateway's requests."""

    def __init__(self, config: DocumentsConfig, media: MediaConfig) -> None:
        limits = FetchLimits(
            max_bytes=config.max_bytes,
            connect_seconds=min(3.0, media.timeout_s),
            total_seconds=media.timeout_s,
            concurrent=media.fetches,
            max_request_bytes=config.max_request_bytes,
        )
        self.reader = DocumentReader(
            limits=DocumentLimits(config.max_pages, config.max_characters, config.memory_bytes, config.max_pictures),
            processes=config.processes,
            seconds=config.timeout_s,
            wait_seconds=config.wait_s,
            kept_characters=config.kept_characters,
        )
        self._most = config.max_items
        self._most_pictures, self._most_media = config.max_pictures, media.max_items
        self._fetcher = Fetcher(fetching_rules(media), limits, tls=trusted(media.tls_ca), pool=self.reader.pool)

    async def read(
        self, items: Sequence[MediaItem], *, tenant: str, other_media: int | None = None
    ) -> Sequence[ReadDocument]:
        """What is in `items`. Raises InvalidRequest naming one that cannot be read, and Overloaded."""
        if len(items) > self._most:
            raise InvalidRequest(
                f"The request has {len(items)} documents; at most {self._most} are taken.",
                param=items[self._most].param,
                code="too_many_media",
            )
        count = self._fetcher.count()
        room = 0 if other_media is None else max(0, min(self._most_pictures, self._most_media - other_media))
        read = await together([self._contents(item, tenant, count, room > 0) for item in items])
        found: list[ReadDocument] = []
        for each in read:
            pictures = each.pictures[:room]
            room -= len(pictures)
            unseen = each.unseen + len(each.pictures) - len(pictures)
            found.append(ReadDocument(each.text, tuple([(picture.at, picture.data) for picture in pictures]), unseen))
        return found

    async def _contents(self, item: MediaItem, tenant: str, count: ByteCount, pictures: bool) -> DocumentContents:
        with of_the_request(item.param):
            data = await self._data(item, tenant, count)
            return await self.reader.contents(data, tenant=tenant, pictures=pictures)

    async def _data(self, item: MediaItem, tenant: str, count: ByteCount) -> bytes:
        data = item.source.data
        if data is None:
            return await self._fetcher.fetch(item.source.url or "", tenant=tenant, count=count)
        if len(data) > self._fetcher.limits.max_bytes:
            raise MediaTooLarge(f"the document has more than {self._fetcher.limits.max_bytes} bytes")
        count.add(len(data))
        return data

    async def close(self) -> None:
        """Stop the processes."""
        self.reader.close()
        await self._fetcher.close()
