"""Fetches media for engines that read prompts themselves, by the rules of media (edge).

Above: models.document_loading, which loads this module when the first address comes, since it needs Pillow. Below:
smg_multimodal.
"""

from collections.abc import Sequence
from concurrent.futures import Executor

from smg_core.config import MediaConfig
from smg_core.models.fetching import fetching_rules, trusted
from smg_core.models.media_errors import of_the_request
from smg_core.pipeline.prompt.media import MediaItem
from smg_core.request import MediaSource
from smg_multimodal.decoding.containers import container_of
from smg_multimodal.decoding.formats import recognised
from smg_multimodal.fetching.fetch import Fetcher, FetchLimits, together
from smg_multimodal.processes.budget import ByteCount

__all__ = ["PassedMedia"]

_TYPES = {
    "image": {"jpeg2000": "image/jp2"},
    "audio": {"mp3": "audio/mpeg"},
    "video": {"mov": "video/quicktime"},
}
"""By the kind of a medium: formats whose MIME type is not the kind and the format's name."""


class PassedMedia:
    """The media of one gateway's requests, which are passed on as they are: what they are made of, the engine finds out."""

    def __init__(self, config: MediaConfig, pool: Executor) -> None:
        limits = FetchLimits(
            max_bytes=config.max_bytes,
            connect_seconds=min(3.0, config.timeout_s),
            total_seconds=config.timeout_s,
            concurrent=config.fetches,
            max_request_bytes=config.max_request_bytes,
        )
        self._fetcher = Fetcher(fetching_rules(config), limits, tls=trusted(config.tls_ca), pool=pool)

    async def fetched(self, items: Sequence[MediaItem], *, tenant: str) -> Sequence[MediaSource]:
        """What is at the addresses of `items`. Raises InvalidRequest naming one that cannot be had, and Overloaded."""
        count = self._fetcher.count()
        return await together([self._one(item, tenant, count) for item in items])

    async def _one(self, item: MediaItem, tenant: str, count: ByteCount) -> MediaSource:
        with of_the_request(item.param):
            data = await self._fetcher.fetch(item.source.url or "", tenant=tenant, count=count)
        return MediaSource(data=data, media_type=item.source.media_type or _type_of(item.kind, data))


def _type_of(kind: str, data: bytes) -> str | None:
    """The MIME type of what was fetched, by its first bytes; None for what is not known."""
    if kind == "file":
        return "application/pdf" if data.startswith(b"%PDF-") else None
    found = recognised(data) if kind == "image" else container_of(data)
    return None if found is None else _TYPES.get(kind, {}).get(found, f"{kind}/{found}")
