"""The routes of vector stores, in the form of OpenAI's API (edge).

Above: apis.ALL. Below: `work`, which loads their handlers.
"""

from collections.abc import Mapping

from smg_core.http.endpoint import Endpoint
from smg_core.http.envelopes import EnvelopeRule
from smg_core.http.routes import Route
from smg_core.json_types import JsonObject
from smg_core.serving.spec import ApiContext, ApiName, ApiSpec
from smg_core.vector_stores.types import (
    FileBatchBody,
    StoreBody,
    StoreChangeBody,
    StoreFileBody,
    StoreFileChangeBody,
    StoreSearchBody,
)
from smg_core.vector_stores.work import VectorStoreWork
from smg_core.wire.errors import gemini_error, openai_error
from smg_core.wire.operation import Operation, OperationResponse

__all__ = ["SPEC"]

_ROOT, _ONE = "/v1/vector_stores", "/v1/vector_stores/{id}"
_FILES, _FILE = f"{_ONE}/files", f"{_ONE}/files/{{file_id}}"
_BATCHES, _BATCH = f"{_ONE}/file_batches", f"{_ONE}/file_batches/{{batch_id}}"


_INSTEAD = " Stores are made and filled at /v1/vector_stores; fileSearchStoreNames takes their ids."
"""For clients of Google's stores, which are searched here and not made."""


def _of_stores(name: str, summary: str, body: object = None) -> Operation:
    answers = (OperationResponse(200, "The object, or a list.", JsonObject),)
    return Operation(name, summary, "vector_stores", body, answers)


OPERATIONS: Mapping[tuple[str, str], Operation] = {
    ("POST", _ROOT): _of_stores("createVectorStore", "Make a vector store.", StoreBody),
    ("GET", _ROOT): _of_stores("listVectorStores", "The vector stores that are kept."),
    ("GET", _ONE): _of_stores("getVectorStore", "A vector store, as it is now."),
    ("POST", _ONE): _of_stores("modifyVectorStore", "Change a vector store.", StoreChangeBody),
    ("DELETE", _ONE): _of_stores("deleteVectorStore", "Forget a vector store; its files stay."),
    ("POST", f"{_ONE}/search"): _of_stores("searchVectorStore", "Search a vector store.", StoreSearchBody),
    ("POST", _FILES): _of_stores("createVectorStoreFile", "Add a file to a vector store.", StoreFileBody),
    ("GET", _FILES): _of_stores("listVectorStoreFiles", "The files of a vector store."),
    ("GET", _FILE): _of_stores("getVectorStoreFile", "A file of a vector store, as it is now."),
    ("POST", _FILE): _of_stores("updateVectorStoreFile", "Change the attributes of a file.", StoreFileChangeBody),
    ("DELETE", _FILE): _of_stores("deleteVectorStoreFile", "Take a file out of a vector store; the file stays."),
    ("GET", f"{_FILE}/content"): _of_stores("retrieveVectorStoreFileContent", "The text of a file, as it was cut."),
    ("POST", _BATCHES): _of_stores("createVectorStoreFileBatch", "Add several files.", FileBatchBody),
    ("GET", _BATCH): _of_stores("getVectorStoreFileBatch", "A batch of files, as it is now."),
    ("POST", f"{_BATCH}/cancel"): _of_stores("cancelVectorStoreFileBatch", "Index no further file of a batch."),
    ("GET", f"{_BATCH}/files"): _of_stores("listFilesInVectorStoreBatch", "The files of a batch."),
}
"""What the routes take and give, by method and pattern; handlers go by the names of operations (`VectorStoreWork.handler`)."""


def vector_store_routes(context: ApiContext) -> tuple[Route[Endpoint], ...]:
    """The routes."""
    work = VectorStoreWork.of(context.services)
    return tuple(
        Route(
            method,
            pattern,
            Endpoint(work.handler(about.name), "vector_stores", reads_json=about.body is not None, about=about),
        )
        for (method, pattern), about in OPERATIONS.items()
    )


SPEC = ApiSpec(
    (ApiName("vector_stores", "embeddings"),),
    {"vector_stores": "Vector stores, their files, and searches of them; files are uploaded by `files`"},
    vector_store_routes,
    (
        EnvelopeRule("/v1/vector_stores", openai_error),
        *(
            EnvelopeRule(f"/{version}/fileSearchStores", gemini_error, instead=_INSTEAD)
            for version in ("v1", "v1beta", "v1alpha")
        ),
    ),
)
