"""Deletes contents that no file and no upload has any more: of deleted and expired files, and what a crash has left (edge).

Contents are written before their record, so young ones are left alone. Above: `work`. Below: the place of contents, the history.
"""

import asyncio
import contextlib

import msgspec

from smg_core.errors import SmgError
from smg_core.files.blobs import BlobName
from smg_core.files.kept import FILE, UPLOAD
from smg_core.files.place import FilePlace
from smg_core.files.types import KeptUpload, read_kept_file
from smg_core.serving.services import Services

__all__ = ["sweep_contents"]


async def sweep_contents(services: Services, place: FilePlace) -> int:
    """Delete what nothing has, and return how many blobs that were."""
    opened = await place.opened()
    before = services.clock.time() - services.live.config.files.grace_s
    tenants: dict[str, str | None] = {}
    deleted = 0
    async for each in opened.blobs.names():
        name = BlobName.read(each.name)
        if name is None or each.written_at > before:
            continue
        if name.tenant not in tenants:
            tenants[name.tenant] = await opened.tenant_of(name)
        tenant = tenants[name.tenant]
        if tenant is None or await _has(services, tenant, name, each.name):
            continue
        with contextlib.suppress(SmgError):  # the next sweep finds it again
            await opened.blobs.delete(each.name)
            deleted += 1
        await asyncio.sleep(0)
    return deleted


async def _has(services: Services, tenant: str, name: BlobName, blob: str) -> bool:
    """Whether a file or an upload of the tenant has the blob."""
    history = services.running.history
    upload = await history.record(
        tenant, UPLOAD, f"upload_{name.key}"
    )  # first: one that is completed now has a file then
    if upload is not None:
        kept = msgspec.json.decode(upload.body, type=KeptUpload)
        if any(each.blob.name == blob for each in kept.parts):
            return True
    file = await history.record(tenant, FILE, f"file-{name.key}")
    return file is not None and any(each.name == blob for each in read_kept_file(file.body).blobs)
