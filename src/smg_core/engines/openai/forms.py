"""Writes a form of `multipart/form-data` (RFC 7578) for a server: fields, and files with their bytes.

Pure. Above: speech, imaging.
"""

from collections.abc import Iterable, Sequence
from hashlib import sha256

from msgspec import Struct

__all__ = ["FormFile", "WrittenForm", "write_files_form"]


class FormFile(Struct, frozen=True):
    """One file of a form: its field, the client's name for it, its media type ("" for any), its bytes."""

    field: str
    filename: str
    media_type: str
    data: bytes


class WrittenForm(Struct, frozen=True):
    """The path below the API's, the body, and its content type."""

    path: str
    body: bytes
    content_type: str


def write_files_form(
    path: str, request_id: str, fields: Sequence[tuple[str, str]], files: Sequence[FormFile]
) -> WrittenForm:
    """The form for a request of this id, whose boundary stands nowhere in it."""
    mark = _boundary(request_id, fields, files)
    body = b"".join(_parts(mark, fields, files))
    return WrittenForm(path, body, f"multipart/form-data; boundary={mark}")


def _boundary(request_id: str, fields: Sequence[tuple[str, str]], files: Sequence[FormFile]) -> str:
    """A mark that stands nowhere in what it separates."""
    text = "\n".join(value for _, value in fields)
    count = 0
    while True:
        found = sha256(f"{request_id}/{count}".encode("utf-8", "replace")).hexdigest()[:40]
        if found not in text and not any(found.encode() in each.data for each in files):
            return found
        count += 1


def _parts(mark: str, fields: Sequence[tuple[str, str]], files: Sequence[FormFile]) -> Iterable[bytes]:
    for name, value in fields:
        yield f'--{mark}\r\ncontent-disposition: form-data; name="{name}"\r\n\r\n'.encode()
        yield value.encode("utf-8", "replace") + b"\r\n"
    for file in files:
        name = "".join(each if each.isprintable() and each not in '"\\' else "_" for each in file.filename)
        kind = file.media_type if file.media_type.isascii() and file.media_type.isprintable() else ""
        head = f'--{mark}\r\ncontent-disposition: form-data; name="{file.field}"; filename="{name}"\r\n'
        yield head.encode("utf-8", "replace")
        yield f"content-type: {kind or 'application/octet-stream'}\r\n\r\n".encode()
        yield file.data
        yield b"\r\n"
    yield f"--{mark}--\r\n".encode()
