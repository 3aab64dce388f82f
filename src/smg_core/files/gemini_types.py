"""Files on Google's wire: the body that begins an upload, and the objects that clients get.

Pure. Above: the handlers of Google's files. Below: decoding.
"""

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated

from msgspec import Meta, Struct, field

from smg_core.apis.google.proto_json import ProtoJsonDecoder
from smg_core.errors import InvalidRequest
from smg_core.files.types import KeptFile
from smg_core.json_types import Json, JsonObject
from smg_core.wire.settings import LimitsConfig

__all__ = ["GeminiUpload", "gemini_file", "gemini_files", "read_gemini_page", "read_start", "read_whole_number"]

_LISTED, _MOST_LISTED = 10, 100
_NAME = re.compile(r"files/(?P<key>[a-z0-9](?:[a-z0-9-]{0,38}[a-z0-9])?)")
_LONGEST_TYPE = 255  # characters of a media type
_LONGEST_NUMBER = 15  # digits


class GeminiFile(Struct, rename="camel", forbid_unknown_fields=True):
    """What a client says of the file that it uploads. Those that the server fills in count for nothing."""

    name: str | None = None
    display_name: Annotated[str, Meta(max_length=512)] | None = None
    mime_type: Annotated[str, Meta(max_length=_LONGEST_TYPE)] | None = None
    size_bytes: int | str | None = None
    create_time: object = None
    update_time: object = None
    expiration_time: object = None
    sha256_hash: object = None
    uri: object = None
    download_uri: object = None
    state: object = None
    source: object = None
    error: object = None
    video_metadata: object = None


class GeminiUpload(Struct, forbid_unknown_fields=True):
    """The body of a request that begins an upload."""

    file: GeminiFile = field(default_factory=GeminiFile)


_UPLOAD = ProtoJsonDecoder(GeminiUpload)


def read_start(body: bytes, limits: LimitsConfig) -> tuple[GeminiFile, str | None]:
    """What is said of the file, and the key that its name gives it, if it has one. Raises InvalidRequest."""
    file = _UPLOAD.decode(body, limits).file if body.strip() else GeminiFile()
    if file.name is None:
        return file, None
    found = _NAME.fullmatch(file.name)
    if found is None:
        raise InvalidRequest(
            "Invalid value at 'file.name': it is 'files/' and up to 40 lower-case letters, digits and dashes, with no dash at "
            "either end.",
            param="file.name",
        )
    return file, found["key"]


def read_whole_number(text: str, name: str, most: int) -> int:
    """The number in a header. Raises InvalidRequest."""
    if not (text.isascii() and text.isdecimal() and len(text) <= _LONGEST_NUMBER) or int(text) > most:
        raise InvalidRequest(f"Invalid value of {name}: a whole number from 0 to {most}.", param=name)
    return int(text)


def read_gemini_page(query: Mapping[str, tuple[str, ...]]) -> tuple[int, str | None]:
    """How many files a page has, and the file behind which it begins. Raises InvalidRequest."""
    size, token = (query.get(name, ("",))[-1] for name in ("pageSize", "pageToken"))
    if size and not (size.isascii() and size.isdecimal() and len(size) <= _LONGEST_NUMBER):
        raise InvalidRequest("Invalid value at 'page_size': it must be a whole number.", param="pageSize")
    return min(int(size or 0) or _LISTED, _MOST_LISTED), f"files/{token}" if token else None


def gemini_file(file: KeptFile, base: str) -> JsonObject:
    """A file as clients get it; `base` is the address of the gateway."""
    made: dict[str, Json] = {
        "name": f"files/{file.key}",
        "mimeType": file.media_type or "application/octet-stream",
        "sizeBytes": str(file.bytes),
        "createTime": _stamp(file.created_at),
        "updateTime": _stamp(file.created_at),
        "expirationTime": _stamp(file.expires_at),
        "uri": f"{base}/v1beta/files/{file.key}",
        "downloadUri": f"{base}/v1beta/files/{file.key}:download?alt=media",
        "state": "ACTIVE",
        "source": "UPLOADED",
    }
    if file.filename:
        made["displayName"] = file.filename
    return made


def gemini_files(files: Sequence[KeptFile], has_more: bool, base: str) -> JsonObject:
    """A page of files."""
    page: dict[str, Json] = {"files": [gemini_file(each, base) for each in files]}
    if has_more and files:
        page["nextPageToken"] = files[-1].key
    return page


def _stamp(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")
