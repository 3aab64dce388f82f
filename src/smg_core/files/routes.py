"""The routes of files, in the forms of OpenAI, Anthropic and Google (edge).

Above: apis.ALL. Below: `work`, which loads their handlers.
"""

from collections.abc import Iterator, Mapping

from smg_core.apis.gemini.routes import VERSIONS
from smg_core.files.work import FileWork
from smg_core.http.endpoint import Endpoint
from smg_core.http.envelopes import EnvelopeRule
from smg_core.http.routes import Route
from smg_core.json_types import JsonObject
from smg_core.serving.spec import ApiContext, ApiSpec
from smg_core.wire.errors import gemini_error, openai_error
from smg_core.wire.operation import Operation, OperationResponse

__all__ = ["SPEC"]

_BYTES = "application/octet-stream"


def _of_files(name: str, summary: str, tag: str = "files") -> Operation:
    return Operation(name, summary, tag, None, (OperationResponse(200, "The file, or a list.", JsonObject),))


def _of_bytes(name: str, tag: str = "files") -> Operation:
    return Operation(name, "The contents of a file.", tag, None, (OperationResponse(200, "Its bytes.", None, _BYTES),))


def _googles(version: str) -> Iterator[tuple[tuple[str, str], Operation]]:
    """Google's paths of one version. Those of v1 are OpenAI's too."""
    ending = "" if version == "v1beta" else f"_{version}"
    yield (
        ("POST", f"/upload/{version}/files"),
        _of_files(
            f"geminiUploadFile{ending}", "Begin an upload by Google's resumable protocol, or go on with it.", "gemini"
        ),
    )
    yield ("GET", f"/{version}/files/{{id}}:download"), _of_bytes(f"geminiDownloadFile{ending}", "gemini")
    if version == "v1":
        return
    yield ("GET", f"/{version}/files"), _of_files(f"geminiListFiles{ending}", "The files that are kept.", "gemini")
    one = f"/{version}/files/{{id}}"
    yield ("GET", one), _of_files(f"geminiGetFile{ending}", "A file, without its contents.", "gemini")
    yield ("DELETE", one), _of_files(f"geminiDeleteFile{ending}", "Forget a file.", "gemini")


OPERATIONS: Mapping[tuple[str, str], Operation] = {
    ("POST", "/v1/files"): _of_files(
        "createFile", "Upload a file, as multipart/form-data: file, purpose, expires_after."
    ),
    ("GET", "/v1/files"): _of_files("listFiles", "The files that are kept."),
    ("GET", "/v1/files/{id}"): _of_files("retrieveFile", "A file, without its contents."),
    ("DELETE", "/v1/files/{id}"): _of_files("deleteFile", "Forget a file."),
    ("GET", "/v1/files/{id}/content"): _of_bytes("downloadFile"),
    ("POST", "/v1/uploads"): _of_files("createUpload", "Begin the upload of a file in parts."),
    ("POST", "/v1/uploads/{id}/parts"): _of_files("addUploadPart", "Add a part, as multipart/form-data: data."),
    ("POST", "/v1/uploads/{id}/complete"): _of_files("completeUpload", "Make the file of the parts of an upload."),
    ("POST", "/v1/uploads/{id}/cancel"): _of_files("cancelUpload", "Give up an upload."),
    **{each: about for version in VERSIONS for each, about in _googles(version)},
}
"""What the routes take and give, by method and pattern; handlers go by the names of operations (`FileWork.handler`). At the paths
that Google's API shares with the others, the headers say whose a request is."""

_JSON = frozenset({"createUpload", "completeUpload"})


def file_routes(context: ApiContext) -> tuple[Route[Endpoint], ...]:
    """The routes."""
    work = FileWork.of(context.services)
    return tuple(
        Route(
            method,
            pattern,
            Endpoint(work.handler(about.name), "files", reads_json=about.name in _JSON, about=about),
        )
        for (method, pattern), about in OPERATIONS.items()
    )


SPEC = ApiSpec(
    (),
    {"files": "Files, and uploads of them in parts"},
    file_routes,
    (EnvelopeRule("/v1/uploads", openai_error), EnvelopeRule("/upload", gemini_error)),
)
