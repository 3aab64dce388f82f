"""Has the kept files of a request read, before anything is made of them (edge).

Each is read once for a request, however often the request is prepared. Above: passing_media. Below: kept_files; `files.inputs`
reads.
"""

from collections.abc import Awaitable, Callable, Sequence

from smg_core.pipeline.answer.trace import Trace
from smg_core.pipeline.calls.executor import FairExecutor
from smg_core.pipeline.prompt.kept_files import FilesInUse, with_kept_files
from smg_core.pipeline.prompt.media import MediaItem
from smg_core.request import Caller, GenerationRequest

__all__ = ["ReadsFiles", "brought_files"]

_PLACED_HERE = 200_000
"""Characters of files that are put into a request on the event loop; this takes a fraction of a millisecond."""

ReadsFiles = Callable[[Caller, Sequence[MediaItem]], Awaitable[FilesInUse]]
"""Reads the files that these parts of a caller's request name. Raises InvalidRequest naming a part whose file is not there."""


async def brought_files(
    request: GenerationRequest, items: Sequence[MediaItem], trace: Trace, read: ReadsFiles, executor: FairExecutor
) -> GenerationRequest:
    """The request with the files that `items` name in their places. Long texts are put there in the threads of `executor`."""
    found = trace.files
    if found is None or any(each.source.file_id not in found.by_id for each in items):
        found = trace.files = await read(request.caller, items)
    files, size = found.by_id, sum(len(found.by_id[each.source.file_id or ""].text or "") for each in items)
    if size <= _PLACED_HERE:
        return with_kept_files(request, files)
    return await executor.run(lambda _: with_kept_files(request, files), size=size, caller=request.caller.tenant)
