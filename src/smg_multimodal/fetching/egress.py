"""The addresses that clients may make this process fetch media from, and data URLs: the decisions behind `fetch`.

Above: `fetch`. Below: `smg_egress`, whose rules hold for every URL that others choose; the standard library's parsers. Pure:
names are resolved elsewhere and the answers judged here, so every rule is tested without a network.
"""

import binascii
import re
from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import ClassVar
from urllib.parse import unquote, urlsplit

from smg_egress import UrlRules
from smg_egress.escapes import unescaped
from smg_multimodal.records.errors import BadMedia, MediaForbidden, MediaTooLarge

try:
    import pybase64 as base64
except ImportError:  # the accelerator is optional
    import base64  # type: ignore[no-redef]

__all__ = ["EgressRules", "base64_bytes", "data_url", "is_bare_base64", "site_of"]


@dataclass(frozen=True, slots=True)
class EgressRules(UrlRules):
    """`UrlRules` for media, and for files: `files` is the only folder file URLs may read below; None refuses them all."""

    refusal: ClassVar[type[ValueError]] = MediaForbidden

    what: str = "media"
    files: Path | None = None

    def file(self, url: str) -> Path:
        """The path a file URL names, as written; the reader follows links and judges where they lead by `holds`."""
        if len(url) > self.max_url:
            raise MediaForbidden(f"the address is longer than {self.max_url} characters")
        parts = urlsplit(url)
        path = unquote(parts.path)
        if self.files is None or parts.netloc not in {"", "localhost"} or "\0" in path:
            raise MediaForbidden("files may not be read")
        return Path(path)

    def holds(self, path: Path, folder: Path) -> Path:
        """`path`, both it and `folder` with links followed, if it lies below the folder."""
        if not path.is_relative_to(folder):
            raise MediaForbidden("this file may not be read")
        return path


def site_of(host: str) -> str:
    """The part of a host's name under which its owner may make more names, so that those share one share: its last two labels,
    or three where the last two look like "co.uk". An address is its own. For fairness alone: nothing is allowed by it."""
    labels = host.split(".")
    if len(labels) <= 2 or labels[-1].isdigit() or ":" in host:
        return host
    return ".".join(labels[-3:] if len(labels[-2]) <= 3 and len(labels[-1]) == 2 else labels[-2:])


def data_url(url: str, max_bytes: int) -> bytes:
    """The bytes of a `data:` URL, base64 (as `base64_bytes` takes it) or percent-encoded; where its data are a `data:` URL once
    more, those of that one. Refused before decoding when it is too long."""
    comma = url.find(",")
    if comma < 0:
        raise BadMedia("the data URL has no comma")
    if not url[max(0, comma - _LOOKED_AT) : comma].rstrip().lower().endswith(";base64"):
        body = url[comma + 1 :]
        if len(body) // 3 > max_bytes:
            raise MediaTooLarge(f"the media has more than {max_bytes} bytes")
        plain = unescaped(body)
        if len(plain) > max_bytes:
            raise MediaTooLarge(f"the media has more than {max_bytes} bytes")
        return plain
    if url[comma + 1 : comma + 65].lstrip()[:5].lower() == "data:":
        comma = max(comma, url.find(",", comma + 1))
    if url.find("%", comma) >= 0:
        return base64_bytes(unescaped(url[comma + 1 :]).decode(errors="replace"), max_bytes)
    return base64_bytes(url, max_bytes, comma + 1)


_LEAST_BARE = 40
"""Characters of bare base64: less is taken for a mistyped address, since no picture or recording is that short."""
_LOOKED_AT = 4096
_TO_STANDARD = str.maketrans("-_", "+/")
_BLOCK = 256 * 1024
"""Characters that are decoded without letting another thread run."""
_ENDING = "= \t\r\n\v\f"


def is_bare_base64(url: str) -> bool:
    """Whether what stands where a URL should is no URL, and may be base64 without the `data:` before it."""
    start = url[:_LOOKED_AT]
    return len(url) >= _LEAST_BARE and not any(mark in start for mark in ":.?")


def base64_bytes(text: str, max_bytes: int, start: int = 0) -> bytes:
    """The bytes of base64 text from `start` on: either alphabet, with or without padding, in one line or several. Long text is
    decoded some at a time, so that the interpreter's lock is free for other threads in between.

    Raises BadMedia, which says what is wrong with it, and MediaTooLarge: where it is in one line, before decoding."""
    end = _end_of(text, start)
    in_lines = any(text.find(mark, start, end) >= 0 for mark in "\r\n")
    if not in_lines and (end - start) * 3 // 4 > max_bytes:
        raise MediaTooLarge(f"the media has more than {max_bytes} bytes")
    made, rest, read = BytesIO(), "", 0
    for piece in _pieces(text, start, end):
        rest += "".join(line.strip() for line in piece.splitlines()) if in_lines else piece.strip()
        whole = len(rest) // 4 * 4
        made.write(_decoded(rest[:whole], read))
        rest, read = rest[whole:], read + whole
        if made.tell() > max_bytes:
            raise MediaTooLarge(f"the media has more than {max_bytes} bytes")
    made.write(_decoded(rest, read))
    if made.tell() > max_bytes:
        raise MediaTooLarge(f"the media has more than {max_bytes} bytes")
    return made.getvalue()


def _end_of(text: str, start: int) -> int:
    """Where the text ends but for its padding and white space."""
    end = len(text)
    while end > start:
        block = max(start, end - _BLOCK)
        kept = len(text[block:end].rstrip(_ENDING))
        end = block + kept
        if kept:
            break
    return end


def _pieces(text: str, start: int, end: int) -> Iterator[str]:
    """The text in pieces, of which none begins or ends with white space that stands within a line."""
    while start < end:
        stop = min(start + _BLOCK, end)
        for place in range(stop, min(stop + _LOOKED_AT, end)):
            if not text[place - 1].isspace() and not text[place].isspace():
                stop = place
                break
        yield text[start:stop]
        start = stop


def _decoded(text: str, read: int) -> bytes:
    """The bytes of some characters in one line, before which `read` others stood."""
    if "-" in text or "_" in text:
        text = text.translate(_TO_STANDARD)
    made = _strictly(text)
    if made is None:
        raise BadMedia(_not_base64(text, read))
    return made


def _strictly(text: str) -> bytes | None:
    """What the text is in base64 without padding; None where it is none."""
    if "=" in text:
        return None
    try:
        return bytes(base64.b64decode(text + "=" * (-len(text) % 4), validate=True))
    except (binascii.Error, ValueError):
        return None


_NO_BASE64 = re.compile(r"[^A-Za-z0-9+/]")


def _not_base64(text: str, read: int) -> str:
    # Only what does not decode is searched by the character, which takes a hundred times as long.
    parts = (at for at in range(0, len(text), _LOOKED_AT) if _strictly(text[at : at + _LOOKED_AT]) is None)
    found = _NO_BASE64.search(text, next(parts, 0))
    if found is None:
        return "the data is not valid base64: it is cut short, or has a character too many"
    if found[0] == " ":
        return "the data is not valid base64: it has a space within a line, perhaps where a '+' was"
    return f"the data is not valid base64: it has {found[0]!r} at character {read + found.start()}"
