"""Files and uploads as they are kept, and on OpenAI's wire: the form of one, the query of a list, and the objects that clients
get.

Pure. Above: the handlers of files. Below: `multipart` reads the form's fields.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from smg_core.errors import InvalidRequest
from smg_core.files.blobs import Blob
from smg_core.json_types import JsonObject
from smg_core.wire.fields import read_limit

__all__ = [
    "ExpiresAfter",
    "FileForm",
    "FileQuery",
    "KeptFile",
    "KeptPart",
    "KeptUpload",
    "check_filename",
    "check_purpose",
    "file_list",
    "file_object",
    "read_file_form",
    "read_file_query",
    "read_kept_file",
]

_MOST_LISTED = 10_000
_LONGEST_NAME = 255  # characters, as file systems have it
_PURPOSES = ("assistants", "batch", "fine-tune", "vision", "user_data", "evals")
_SHORTEST, _LONGEST = 3600, 2_592_000
"""Seconds that `expires_after` may say."""


class ExpiresAfter(Struct, frozen=True, forbid_unknown_fields=True):
    """When a file is deleted: so many seconds after it was made."""

    anchor: Literal["created_at"]
    seconds: Annotated[int, Meta(ge=_SHORTEST, le=_LONGEST)]


class FileForm(Struct, frozen=True):
    """The form of an upload, without the file's contents."""

    filename: str
    purpose: str
    expires_after: ExpiresAfter | None = None


class KeptFile(Struct, frozen=True, omit_defaults=True):
    """A file as it is kept; times are seconds since the epoch. Its contents lie in `blobs`, one behind the other, of the folder
    `folder`; those of a file with a `log` are its `pieces` events: of a result of a batch, and of any file of earlier versions.
    `media_type` is what it is of, `principal` the key that it was brought with."""

    id: str
    filename: str
    purpose: str
    bytes: int
    created_at: float
    expires_at: float
    log: str = ""
    pieces: int = 0
    blobs: tuple[Blob, ...] = ()
    folder: str = ""
    media_type: str = ""
    principal: str = ""

    @property
    def key(self) -> str:
        """What the id has behind its prefix, which differs from API to API."""
        return self.id.removeprefix("file-")


class KeptPart(Struct, frozen=True):
    """A part of an upload: its id, and where its bytes are."""

    id: str
    blob: Blob


class KeptUpload(Struct, frozen=True, omit_defaults=True):
    """An upload in parts, as it is kept: what the file will be, its size as it was announced, and the parts that have come.
    `file` is the id of the file, under which it is there once the status is "completed"; `seconds` says how long it is kept then,
    None for the usual time."""

    id: str
    filename: str
    purpose: str
    bytes: int
    created_at: float
    expires_at: float
    file: str
    media_type: str = ""
    status: Literal["pending", "completed", "cancelled"] = "pending"
    parts: tuple[KeptPart, ...] = ()
    folder: str = ""
    principal: str = ""
    seconds: float | None = None

    @property
    def received(self) -> int:
        """Bytes that have come."""
        return sum(each.blob.bytes for each in self.parts)


class FileQuery(Struct, frozen=True):
    """Which files of a list are wanted."""

    after: str | None
    limit: int
    newest_first: bool
    purpose: str | None


def read_file_form(fields: Mapping[str, str], filename: str | None) -> FileForm:
    """The form, from its fields and the name of its file. Raises InvalidRequest naming the field."""
    known = {"purpose", "expires_after[anchor]", "expires_after[seconds]"}
    for name in fields:
        if name not in known:
            raise InvalidRequest(f"Unknown parameter: '{name}'.", param=name, code="unknown_parameter")
    if filename is None:
        raise InvalidRequest("Missing required parameter: 'file'.", param="file", code="missing_required_parameter")
    if "purpose" not in fields:
        raise InvalidRequest(
            "Missing required parameter: 'purpose'.", param="purpose", code="missing_required_parameter"
        )
    check_purpose(fields["purpose"])
    return FileForm(check_filename(filename or "file", "file"), fields["purpose"], _read_expiry(fields))


def check_purpose(purpose: str) -> None:
    """Raise InvalidRequest for a purpose that no file has."""
    if purpose not in _PURPOSES:
        known_purposes = ", ".join(f"'{each}'" for each in _PURPOSES)
        raise InvalidRequest(
            f"Invalid value for 'purpose'. Supported values are: {known_purposes}.",
            param="purpose",
            code="invalid_value",
        )


def check_filename(name: str, param: str) -> str:
    """The name of a file, which is no path. Raises InvalidRequest."""
    if len(name) > _LONGEST_NAME:
        raise InvalidRequest(
            f"Invalid '{param}': the name of a file has at most {_LONGEST_NAME} characters.", param=param
        )
    if not name.isprintable() or "/" in name or "\\" in name or name in ("", ".", ".."):
        raise InvalidRequest(
            f"Invalid '{param}': the name of a file has no parts of a path and no control characters.", param=param
        )
    return name


def _read_expiry(fields: Mapping[str, str]) -> ExpiresAfter | None:
    anchor, seconds = fields.get("expires_after[anchor]"), fields.get("expires_after[seconds]")
    if anchor is None and seconds is None:
        return None
    if anchor != "created_at":
        at = "expires_after[anchor]"
        raise InvalidRequest(f"Invalid value for '{at}'. Supported values are: 'created_at'.", param=at)
    text = seconds or ""
    if not (text.isascii() and text.isdecimal() and len(text) < 9 and _SHORTEST <= int(text) <= _LONGEST):
        at = "expires_after[seconds]"
        raise InvalidRequest(f"Invalid '{at}': a number of seconds from {_SHORTEST} to {_LONGEST}.", param=at)
    return ExpiresAfter("created_at", int(text))


def read_file_query(query: Mapping[str, tuple[str, ...]]) -> FileQuery:
    """The page that is asked for. Raises InvalidRequest naming the parameter."""
    limit = read_limit(query, usual=_MOST_LISTED, most=_MOST_LISTED)
    order = query.get("order", ("desc",))[-1]
    if order not in ("asc", "desc"):
        raise InvalidRequest("Invalid value for 'order'. Supported values are: 'asc', 'desc'.", param="order")
    return FileQuery(query.get("after", (None,))[-1], limit, order == "desc", query.get("purpose", (None,))[-1])


def file_object(file: KeptFile) -> JsonObject:
    """A file as clients get it."""
    return {
        "id": file.id,
        "object": "file",
        "bytes": file.bytes,
        "created_at": int(file.created_at),
        "expires_at": int(file.expires_at),
        "filename": file.filename,
        "purpose": file.purpose,
        "status": "processed",
        "status_details": None,
    }


def file_list(files: Sequence[KeptFile], has_more: bool) -> JsonObject:
    """A page of files."""
    return {
        "object": "list",
        "data": [file_object(each) for each in files],
        "first_id": files[0].id if files else None,
        "last_id": files[-1].id if files else None,
        "has_more": has_more,
    }


def read_kept_file(body: bytes) -> KeptFile:
    """A file's record, as it was kept."""
    return msgspec.json.decode(body, type=KeptFile)
