"""The model of the next request of a waiting batch (edge): so that it is left to a gateway that serves the model.

Above: `batch_queue`. Below: the history, the files in it, how `batch_run` reads a line.
"""

import contextlib
import itertools
import sys
from collections.abc import Sequence

import msgspec

from smg_core.batches.job_input import input_pieces
from smg_core.batches.run import named_model, read_request
from smg_core.batches.states import JOB, BatchJob
from smg_core.files.blobs import ContentsGone
from smg_core.files.logs import lines_of
from smg_core.request import Caller
from smg_core.serving.services import Services
from smg_core.stored.bells import Key
from smg_core.wire.json_lines import Line

__all__ = ["next_request"]


async def next_request(services: Services, key: Key) -> tuple[str, Caller]:
    """The model that the next request of a batch asks for, "" where none is to be found, and whose request it is."""
    tenant, id = key
    record = await services.running.history.record(tenant, JOB, id)
    if record is None:
        return "", Caller(tenant)
    job = msgspec.json.decode(record.body, type=BatchJob)
    caller, places = Caller(tenant, job.principal, job.grants), itertools.count()

    def models(lines: Sequence[Line]) -> list[str]:
        left = (line for (_, line), place in zip(lines, places, strict=False) if line and not job.has_done(place))
        return [named_model(read_request(line, job.messages)[1]) for line in itertools.islice(left, 1)]

    with contextlib.suppress(ContentsGone, msgspec.DecodeError):  # whoever runs it finds that too
        async for found in lines_of(services, tenant, input_pieces(services, tenant, job), sys.maxsize, models):
            if found:
                return found[0], caller
    return "", caller
