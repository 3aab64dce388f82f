"""The routes of files and of both APIs' batches, over one queue (edge).

Above: app.generating_routes puts them into the table, with the handlers that requests of batches go to. Below: the routes of
each.
"""

from collections.abc import Mapping

from smg_core.batches.calls import BatchEndpoint
from smg_core.batches.file_routes import file_routes
from smg_core.batches.files import KeptFiles
from smg_core.batches.messages import message_batch_routes
from smg_core.batches.openai import openai_batch_routes
from smg_core.batches.queue import BatchQueue
from smg_core.batches.spool import Spools
from smg_core.http.endpoint import Endpoint, Handler
from smg_core.http.routes import Route
from smg_core.serving.services import Services
from smg_core.wire.errors import anthropic_error, openai_error, responses_error

__all__ = ["batch_routes"]

_ERRORS = {
    "/v1/chat/completions": ("chat", openai_error),
    "/v1/completions": ("completions", openai_error),
    "/v1/responses": ("responses", responses_error),
    "/v1/embeddings": ("embeddings", openai_error),
    "/v1/messages": ("messages", anthropic_error),
}
"""Of each path that requests of batches go to: the permission that its callers need, and the envelope of its errors."""


def batch_routes(services: Services, handlers: Mapping[str, Handler]) -> tuple[Route[Endpoint], ...]:
    """The routes, over `gateway`. `handlers` answer the requests of batches, by their paths."""
    endpoints = {path: BatchEndpoint(path, needs, handlers[path], error) for path, (needs, error) in _ERRORS.items()}
    queue = services.side_tasks.one_of(BatchQueue, lambda: BatchQueue(services, endpoints))
    files, spools = KeptFiles(services), Spools(services)
    return (
        *file_routes(services, files, spools),
        *openai_batch_routes(services, queue, files),
        *message_batch_routes(services, queue, files, spools),
    )
