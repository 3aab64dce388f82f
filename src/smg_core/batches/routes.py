"""The routes of both APIs' batches, over one queue (edge).

Above: apis.ALL. Below: `work`, which loads their handlers, and what other APIs have put into `ApiContext.batched`.
"""

from collections.abc import Mapping

from smg_core.batches.calls import BatchEndpoint
from smg_core.batches.message_types import MessageBatchBody
from smg_core.batches.types import BatchBody
from smg_core.batches.work import BatchWork
from smg_core.http.endpoint import Endpoint
from smg_core.http.envelopes import EnvelopeRule
from smg_core.http.routes import Route
from smg_core.json_types import JsonObject
from smg_core.serving.spec import ApiContext, ApiSpec
from smg_core.wire.errors import openai_error
from smg_core.wire.operation import Operation, OperationResponse

__all__ = ["SPEC"]

_LINES = "application/x-jsonl"


def _of_batches(name: str, summary: str, body: object = None, tag: str = "batches") -> Operation:
    return Operation(name, summary, tag, body, (OperationResponse(200, "The batch, or a list.", JsonObject),))


def _of_messages(name: str, summary: str, body: object = None) -> Operation:
    return _of_batches(name, summary, body, "messages")


BATCH_OPERATIONS: Mapping[tuple[str, str], Operation] = {
    ("POST", "/v1/batches"): _of_batches(
        "createBatch", "Have the requests of a file answered in their own time.", BatchBody
    ),
    ("GET", "/v1/batches"): _of_batches("listBatches", "The batches that are kept."),
    ("GET", "/v1/batches/{id}"): _of_batches("retrieveBatch", "A batch, as it is now."),
    ("POST", "/v1/batches/{id}/cancel"): _of_batches("cancelBatch", "Begin no further request of a batch."),
    ("POST", "/v1/messages/batches"): _of_messages(
        "createMessageBatch", "Have requests answered in their own time.", MessageBatchBody
    ),
    ("GET", "/v1/messages/batches"): _of_messages("listMessageBatches", "The batches that are kept."),
    ("GET", "/v1/messages/batches/{id}"): _of_messages("retrieveMessageBatch", "A batch, as it is now."),
    ("DELETE", "/v1/messages/batches/{id}"): _of_messages("deleteMessageBatch", "Forget a batch that has ended."),
    ("POST", "/v1/messages/batches/{id}/cancel"): _of_messages(
        "cancelMessageBatch", "Begin no further request of a batch."
    ),
    ("GET", "/v1/messages/batches/{id}/results"): Operation(
        "messageBatchResults",
        "The results of a batch that has ended.",
        "messages",
        None,
        (OperationResponse(200, "A line for each request.", None, _LINES),),
    ),
}
"""What the routes take and give, by method and pattern; handlers go by the names of operations (`BatchWork.handler`)."""


def batch_routes(context: ApiContext) -> tuple[Route[Endpoint], ...]:
    """The routes; requests of batches go to the handlers that the APIs before this one have named."""
    services = context.services
    endpoints = {
        path: BatchEndpoint(path, each.needs, each.answer, each.error) for path, each in context.batched.items()
    }
    work = services.side_tasks.one_of(BatchWork, lambda: BatchWork(services, endpoints))
    return tuple(
        Route(
            method,
            pattern,
            Endpoint(work.handler(about.name), "batches", reads_json=about.body is not None, about=about),
        )
        for (method, pattern), about in BATCH_OPERATIONS.items()
    )


SPEC = ApiSpec(
    (),
    {
        "batches": "Batches of OpenAI's API and of Messages; their requests need the permission of their own API",
    },
    batch_routes,
    (EnvelopeRule("/v1/batches", openai_error),),
)
