"""What the routes of files and batches take and give, in the words of `/openapi.json`.

Above: the modules with the routes. Below: the protocols' types.
"""

from collections.abc import Mapping

from smg_core.batches.message_types import MessageBatchBody
from smg_core.batches.types import BatchBody
from smg_core.json_types import JsonObject
from smg_core.wire.operation import Operation, OperationResponse

__all__ = ["BATCH_ROUTES"]

_BYTES = "application/octet-stream"
_LINES = "application/x-jsonl"


def _file(name: str, summary: str) -> Operation:
    return Operation(name, summary, "files", None, (OperationResponse(200, "The file, or a list.", JsonObject),))


def _batch(name: str, summary: str, body: object = None) -> Operation:
    return Operation(name, summary, "batches", body, (OperationResponse(200, "The batch, or a list.", JsonObject),))


def _messages(name: str, summary: str, body: object = None, media_type: str = "application/json") -> Operation:
    given = OperationResponse(200, "The batch, or a list.", JsonObject)
    if media_type != "application/json":
        given = OperationResponse(200, "A line for each request.", None, media_type)
    return Operation(name, summary, "messages", body, (given,))


BATCH_ROUTES: Mapping[tuple[str, str], Operation] = {
    ("POST", "/v1/files"): _file("createFile", "Upload a file, as multipart/form-data: file, purpose, expires_after."),
    ("GET", "/v1/files"): _file("listFiles", "The files that are kept."),
    ("GET", "/v1/files/{id}"): _file("retrieveFile", "A file, without its contents."),
    ("DELETE", "/v1/files/{id}"): _file("deleteFile", "Forget a file."),
    ("GET", "/v1/files/{id}/content"): Operation(
        "downloadFile", "The contents of a file.", "files", None, (OperationResponse(200, "Its bytes.", None, _BYTES),)
    ),
    ("POST", "/v1/batches"): _batch(
        "createBatch", "Have the requests of a file answered in their own time.", BatchBody
    ),
    ("GET", "/v1/batches"): _batch("listBatches", "The batches that are kept."),
    ("GET", "/v1/batches/{id}"): _batch("retrieveBatch", "A batch, as it is now."),
    ("POST", "/v1/batches/{id}/cancel"): _batch("cancelBatch", "Begin no further request of a batch."),
    ("POST", "/v1/messages/batches"): _messages(
        "createMessageBatch", "Have requests answered in their own time.", MessageBatchBody
    ),
    ("GET", "/v1/messages/batches"): _messages("listMessageBatches", "The batches that are kept."),
    ("GET", "/v1/messages/batches/{id}"): _messages("retrieveMessageBatch", "A batch, as it is now."),
    ("DELETE", "/v1/messages/batches/{id}"): _messages("deleteMessageBatch", "Forget a batch that has ended."),
    ("POST", "/v1/messages/batches/{id}/cancel"): _messages(
        "cancelMessageBatch", "Begin no further request of a batch."
    ),
    ("GET", "/v1/messages/batches/{id}/results"): _messages(
        "messageBatchResults", "The results of a batch that has ended.", media_type=_LINES
    ),
}
"""The routes of files and batches, by method and pattern."""
