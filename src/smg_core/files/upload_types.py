"""OpenAI's uploads in parts on the wire: bodies and objects. Pure. Above: the handlers of uploads. Below: decoding."""

from typing import Annotated

from msgspec import Meta, Struct

from smg_core.errors import InvalidRequest
from smg_core.files.types import (
    ExpiresAfter,
    KeptFile,
    KeptPart,
    KeptUpload,
    check_filename,
    check_purpose,
    file_object,
)
from smg_core.json_types import JsonObject
from smg_core.wire.decoding import WireDecoder
from smg_core.wire.settings import LimitsConfig

__all__ = [
    "CompleteBody",
    "UploadBody",
    "part_object",
    "parts_in_order",
    "read_complete",
    "read_upload",
    "upload_object",
]

_LONGEST_TYPE = 255  # characters of a media type
_MOST_PARTS = 100_000  # the highest that files.parts can be


class UploadBody(Struct, forbid_unknown_fields=True, gc=False):
    """The body of a request that begins an upload."""

    bytes: Annotated[int, Meta(ge=0, le=1 << 40)]
    filename: str
    mime_type: Annotated[str, Meta(max_length=_LONGEST_TYPE)]
    purpose: str
    expires_after: ExpiresAfter | None = None


class CompleteBody(Struct, forbid_unknown_fields=True):
    """The body of a request that makes a file of an upload."""

    part_ids: Annotated[list[str], Meta(max_length=_MOST_PARTS)]
    md5: str | None = None


_UPLOAD, _COMPLETE = WireDecoder(UploadBody, {}), WireDecoder(CompleteBody, {})


def read_upload(body: bytes, limits: LimitsConfig, most: int) -> UploadBody:
    """The body of a request for an upload of at most `most` bytes. Raises InvalidRequest."""
    wire = _UPLOAD.decode(body, limits)
    check_filename(wire.filename, "filename")
    check_purpose(wire.purpose)
    if wire.bytes > most:
        raise InvalidRequest(f"Invalid 'bytes': a file has {most:,} bytes at most.", param="bytes")
    return wire


def read_complete(body: bytes, limits: LimitsConfig) -> CompleteBody:
    """The body of a request that completes an upload. Raises InvalidRequest."""
    return _COMPLETE.decode(body, limits)


def parts_in_order(upload: KeptUpload, ids: list[str]) -> list[KeptPart]:
    """The parts of an upload in the order of `ids`. Raises InvalidRequest for one that it does not have, one that is named twice,
    and where their bytes are not as many as were announced."""
    known, found, seen = {each.id: each for each in upload.parts}, [], set()
    for place, id in enumerate(ids):
        if id not in known or id in seen:
            what = "is named twice" if id in seen else "is no part of this upload"
            raise InvalidRequest(f"'{id[:100]}' {what}.", param=f"part_ids[{place}]")
        seen.add(id)
        found.append(known[id])
    size = sum(each.blob.bytes for each in found)
    if size != upload.bytes:
        raise InvalidRequest(
            f"The parts have {size} bytes together, and the upload was announced with {upload.bytes}.",
            param="part_ids",
            code="upload_incomplete",
        )
    return found


def upload_object(upload: KeptUpload, file: KeptFile | None = None) -> JsonObject:
    """An upload as clients get it."""
    return {
        "id": upload.id,
        "object": "upload",
        "bytes": upload.bytes,
        "created_at": int(upload.created_at),
        "expires_at": int(upload.expires_at),
        "filename": upload.filename,
        "purpose": upload.purpose,
        "status": upload.status,
        "file": None if file is None else file_object(file),
    }


def part_object(upload: KeptUpload, part: KeptPart, now: float) -> JsonObject:
    """A part as clients get it."""
    return {"id": part.id, "object": "upload.part", "created_at": int(now), "upload_id": upload.id}
