"""Documents that stand in a request, as text for a model: one law for every API.

A file whose type is one of text is read as UTF-8. Where its type is not told, the bytes decide. Any other file (PDF, say) is not
read here and stays a file, which a model may take or not.

Also here: the ids of kept files, in the form of any API. Pure. Above: the readers of messages and items. Below: errors, request.
"""

import base64
import binascii
import re
from collections.abc import Iterable

from smg_core.errors import InvalidRequest
from smg_core.request import Audio, File, Image, MediaSource, Part, ToolResult, Video
from smg_egress.escapes import unescaped

__all__ = [
    "DOCUMENT_END",
    "document_text",
    "faulty",
    "inline_file",
    "inline_text",
    "is_text_type",
    "kept_file_key",
    "refuse_faults",
    "untyped_url",
]

_TEXTS = frozenset({"json", "jsonl", "x-ndjson", "xml", "yaml", "x-yaml", "toml", "javascript", "x-javascript", "sql"})
"""Subtypes of application/ that are text; so is what ends with +json or +xml."""

_UNKNOWN = "application/octet-stream"
_KEY = re.compile(
    r"(?:(?:https?://[^/?#\s]{1,300}/)?(?:v1|v1beta|v1alpha)/)?(?:files/|file-|file_)(?P<key>[A-Za-z0-9-]{1,64})"
)
_ONE_ALPHABET = str.maketrans("-_", "+/", "= \r\n\t")


DOCUMENT_END = "\n</document>"
"""What a model gets behind the text of a document."""


def document_text(text: str, title: str | None, context: str | None = None) -> str:
    """What a model gets of a document: its text, with what the client says about it before."""
    lines = ["<document>"]
    if title:
        lines.append(f"<title>{title}</title>")
    if context:
        lines.append(f"<context>{context}</context>")
    return "\n".join([*lines, text]) + DOCUMENT_END


def untyped_url(data: str) -> str:
    """The `data:` URL of a file that was sent as one or as base64 alone, whose type is not told then."""
    return data if data.startswith("data:") else f"data:{_UNKNOWN};base64,{data}"


def inline_text(url: str, at: str) -> str | None:
    """The text of a file in a `data:` URL; None for an address and for a file that is no text. Raises InvalidRequest, with `at`
    as its parameter, for data that cannot be decoded, and for a type of text where it is not UTF-8."""
    if not url.startswith("data:"):
        return None
    head, comma, data = url.removeprefix("data:").partition(",")
    kind = head.partition(";")[0].strip().lower()
    declared = is_text_type(kind)
    if not declared and kind not in ("", _UNKNOWN):
        return None
    if not comma:
        raise _invalid(at, "it is no data URL")
    content = _bytes(data, at) if head.lower().endswith(";base64") else unescaped(data)
    if not declared and (b"\0" in content or content.startswith(b"%PDF-")):
        return None
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        if declared:
            raise _invalid(at, f"a file of type {kind[:80]} must be text in UTF-8") from None
        return None


def inline_file(url: str, at: str) -> str | MediaSource:
    """The text of a file in a `data:` URL; the source of any other file, with its fault where the data cannot be decoded."""
    try:
        text = inline_text(url, at)
    except InvalidRequest as error:
        return faulty(error)
    return MediaSource(url=url) if text is None else text


def faulty(error: InvalidRequest) -> MediaSource:
    """The source of a medium that cannot be had. The error is raised when the request is prepared: in an earlier turn, a note may
    stand for the medium."""
    return MediaSource(fault={"message": error.message, "param": error.param or "", "code": error.code or ""})


def refuse_faults(parts: Iterable[Part]) -> None:
    """Raise InvalidRequest for the first medium among `parts` that cannot be had."""
    for part in parts:
        if isinstance(part, ToolResult):
            refuse_faults(part.content)
        elif isinstance(part, Image | Audio | Video | File) and part.source.fault is not None:
            fault = part.source.fault
            raise InvalidRequest(fault["message"], param=fault["param"], code=fault["code"])


def is_text_type(kind: str) -> bool:
    """Whether files of this media type are text."""
    family, _, rest = kind.partition("/")
    return family == "text" or (family == "application" and (rest in _TEXTS or rest.endswith(("+json", "+xml"))))


def kept_file_key(text: str) -> str | None:
    """What the id of a file has behind its prefix, in the form of any API: "file-KEY", "file_KEY", "files/KEY", or the address of
    the file in Google's. None for anything else."""
    found = _KEY.fullmatch(text)
    return None if found is None else found["key"]


def _bytes(data: str, at: str) -> bytes:
    plain = data.translate(_ONE_ALPHABET)
    try:
        return base64.b64decode(plain + "=" * (-len(plain) % 4), validate=True)
    except (binascii.Error, ValueError):
        raise _invalid(at, "it is not base64") from None


def _invalid(at: str, fault: str) -> InvalidRequest:
    return InvalidRequest(f"Invalid '{at}': {fault}.", param=at, code="invalid_value")
