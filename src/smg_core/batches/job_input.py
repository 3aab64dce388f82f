"""The input of a batch: a file of contents, or a log of the history (edge).

Above: the runs of batches, the look at what waits. Below: the kept files, logs.
"""

from collections.abc import AsyncIterator

from smg_core.batches.states import BatchJob
from smg_core.files.logs import log_contents
from smg_core.files.work import FileWork
from smg_core.serving.services import Services

__all__ = ["input_pieces"]


async def input_pieces(services: Services, tenant: str, job: BatchJob) -> AsyncIterator[bytes]:
    """The input of a batch, piece by piece. Raises ContentsGone, also amid it."""
    if job.log:
        pieces = log_contents(services, tenant, job.log, job.pieces)
    else:
        pieces = (await FileWork.of(services).rooms()).kept.blobs(job.blobs, job.folder)
    async for piece in pieces:
        yield piece
