"""The routes of files and of both APIs' batches, over one queue (edge).

Above: apis.ALL. Below: the routes of each, and what other APIs have put into `ApiContext.batched`.
"""

from smg_core.batches.calls import BatchEndpoint
from smg_core.batches.file_routes import file_routes
from smg_core.batches.files import KeptFiles
from smg_core.batches.messages import message_batch_routes
from smg_core.batches.openai import openai_batch_routes
from smg_core.batches.queue import BatchQueue
from smg_core.batches.spool import Spools
from smg_core.http.endpoint import Endpoint
from smg_core.http.envelopes import EnvelopeRule
from smg_core.http.routes import Route
from smg_core.serving.spec import ApiContext, ApiSpec
from smg_core.wire.errors import openai_error

__all__ = ["SPEC"]


def batch_routes(context: ApiContext) -> tuple[Route[Endpoint], ...]:
    """The routes; requests of batches go to the handlers that the APIs before this one have named."""
    services = context.services
    endpoints = {
        path: BatchEndpoint(path, each.needs, each.answer, each.error) for path, each in context.batched.items()
    }
    queue = services.side_tasks.one_of(BatchQueue, lambda: BatchQueue(services, endpoints))
    files, spools = KeptFiles(services), Spools(services)
    return (
        *file_routes(services, files, spools),
        *openai_batch_routes(services, queue, files),
        *message_batch_routes(services, queue, files, spools),
    )


SPEC = ApiSpec(
    (),
    {
        "batches": "Batches of OpenAI's API and of Messages; their requests need the permission of their own API",
        "files": "Files",
    },
    batch_routes,
    (EnvelopeRule("/v1/batches", openai_error),),
)
