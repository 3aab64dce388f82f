"""The media type of a file: what its client says, checked against how its contents begin.

Pure. Above: the handlers of files. Below: nothing of the gateway.
"""

import mimetypes
from collections.abc import Callable

from smg_core.errors import InvalidRequest

__all__ = ["BEGINNING", "checked_type"]

BEGINNING = 64
"""How many bytes of contents tell of their type."""

_UNKNOWN = "application/octet-stream"
_LONGEST = 127  # characters of a type that is kept


def _starts(*marks: bytes) -> Callable[[bytes], bool]:
    return lambda data: data.startswith(marks)


def _riff(form: bytes) -> Callable[[bytes], bool]:
    return lambda data: data[:4] == b"RIFF" and data[8:12] == form


def _boxes(data: bytes) -> bool:
    return data[4:8] in (b"ftyp", b"moov", b"mdat", b"wide", b"free", b"skip")


_SIGNED: dict[str, Callable[[bytes], bool]] = {
    "application/pdf": lambda data: b"%PDF-" in data,
    "image/png": _starts(b"\x89PNG\r\n\x1a\n"),
    "image/jpeg": _starts(b"\xff\xd8\xff"),
    "image/gif": _starts(b"GIF87a", b"GIF89a"),
    "image/webp": _riff(b"WEBP"),
    "image/bmp": _starts(b"BM"),
    "audio/wav": _riff(b"WAVE"),
    "audio/flac": _starts(b"fLaC"),
    "audio/ogg": _starts(b"OggS"),
    "audio/mpeg": lambda data: data[:3] == b"ID3" or (data[:1] == b"\xff" and data[1:2] >= b"\xe0"),
    "video/mp4": _boxes,
    "video/quicktime": _boxes,
    "audio/mp4": _boxes,
    "video/webm": _starts(b"\x1a\x45\xdf\xa3"),
    "video/x-msvideo": _riff(b"AVI "),
}
"""Types whose contents begin in a way of their own, and how."""

_SAME = {
    "image/jpg": "image/jpeg",
    "audio/x-wav": "audio/wav",
    "audio/wave": "audio/wav",
    "audio/vnd.wave": "audio/wav",
    "audio/mp3": "audio/mpeg",
    "audio/x-flac": "audio/flac",
    "audio/m4a": "audio/mp4",
    "audio/x-m4a": "audio/mp4",
    "video/x-matroska": "video/webm",
    "audio/webm": "video/webm",
    "application/x-pdf": "application/pdf",
}
_FOUND = (
    *("application/pdf", "image/png", "image/jpeg", "image/gif", "image/webp", "audio/wav", "audio/flac", "audio/ogg"),
    *("video/webm", "video/x-msvideo"),
)
"""Types that are told from contents alone, whatever the client says or does not say."""

_TEXTS = ("md", "jsonl", "rst", "toml", "yaml", "yml", "log")


def checked_type(stated: str, filename: str, beginning: bytes, param: str = "file") -> str:
    """The media type of a file that its client calls `stated` ("" where it says nothing) and `filename`, with contents that begin
    with `beginning`. Raises InvalidRequest where the contents are not what the type says."""
    kind = stated.partition(";")[0].strip().lower()
    if (
        kind in ("", _UNKNOWN)
        or "/" not in kind
        or len(kind) > _LONGEST
        or not kind.isascii()
        or not kind.isprintable()
    ):
        kind = _guessed(filename, beginning)
    kind = _SAME.get(kind, kind)
    signed = _SIGNED.get(kind)
    if signed is not None and not signed(beginning):
        raise InvalidRequest(
            f"Invalid '{param}': its type is {kind}, and its contents are not.", param=param, code="invalid_file_type"
        )
    return kind


def _guessed(filename: str, beginning: bytes) -> str:
    for kind in _FOUND:
        if kind == "application/pdf":
            if beginning.startswith(b"%PDF-"):
                return kind
        elif _SIGNED[kind](beginning):
            return kind
    ending = filename.rpartition(".")[2].lower()
    named = mimetypes.guess_type(filename)[0]
    if named is None and ending in _TEXTS:
        named = "text/markdown" if ending == "md" else "text/plain"
    return named or _UNKNOWN
