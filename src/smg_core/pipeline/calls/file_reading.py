"""Has the kept files of a request read, before anything is made of them (edge).

Each is read once for a request, however often the request is prepared. Above: passing_media. Below: kept_files; `files.inputs`
reads.
"""

from collections.abc import Awaitable, Callable, Sequence

from smg_core.pipeline.answer.trace import Trace
from smg_core.pipeline.prompt.kept_files import FilesInUse, with_kept_files
from smg_core.pipeline.prompt.media import MediaItem
from smg_core.request import Caller, GenerationRequest

__all__ = ["ReadsFiles", "brought_files"]

ReadsFiles = Callable[[Caller, Sequence[MediaItem]], Awaitable[FilesInUse]]
"""Reads the files that these parts of a caller's request name. Raises InvalidRequest naming a part whose file is not there."""


async def brought_files(
    request: GenerationRequest, items: Sequence[MediaItem], trace: Trace, read: ReadsFiles
) -> GenerationRequest:
    """The request with the files that `items` name in their places."""
    found = trace.files
    if found is None or any(each.source.file_id not in found.by_id for each in items):
        found = trace.files = await read(request.caller, items)
    return with_kept_files(request, found.by_id)
