"""Which addresses a client may make this process fetch media from, and how a data URL is read: the decisions behind `fetch`.

Above: `fetch`. Below: `smg_egress`, whose rules hold for every URL that others choose; the standard library's parsers. Pure:
names are resolved elsewhere and the answers judged here, so every rule is tested without a network.
"""

import binascii
import re
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar
from urllib.parse import unquote, urlsplit

from smg_egress import FetchTarget, UrlRules, is_public
from smg_egress.escapes import unescaped
from smg_multimodal.errors import BadMedia, MediaForbidden, MediaTooLarge

try:
    import pybase64 as base64
except ImportError:  # the accelerator is optional
    import base64  # type: ignore[no-redef]

__all__ = ["EgressRules", "FetchTarget", "base64_bytes", "data_url", "is_bare_base64", "is_public", "site_of"]


@dataclass(frozen=True, slots=True)
class EgressRules(UrlRules):
    """`UrlRules` for media, and for files: `files` is the only folder file URLs may read below; None refuses them all."""

    refusal: ClassVar[type[ValueError]] = MediaForbidden

    what: str = "media"
    files: Path | None = None

    def file(self, url: str) -> Path:
        """The path a file URL names, as written; the reader follows links and judges where they lead by `holds`."""
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
    head, comma, body = url.partition(",")
    if not comma:
        raise BadMedia("the data URL has no comma")
    if not head.rstrip().lower().endswith(";base64"):
        if len(body) // 3 > max_bytes:
            raise MediaTooLarge(f"the media has more than {max_bytes} bytes")
        plain = unescaped(body)
        if len(plain) > max_bytes:
            raise MediaTooLarge(f"the media has more than {max_bytes} bytes")
        return plain
    start = body[:64].lstrip()
    if start[:5].lower() == "data:":
        head, _, body = body.lstrip().partition(",")
    return base64_bytes(unescaped(body).decode(errors="replace") if "%" in body else body, max_bytes)


_LEAST_BARE = 40
"""Characters of bare base64: less is taken for a mistyped address, since no picture or recording is that short."""
_LOOKED_AT = 4096
_TO_STANDARD = str.maketrans("-_", "+/")


def is_bare_base64(url: str) -> bool:
    """Whether what stands where a URL should is no URL, and may be base64 without the `data:` before it."""
    start = url[:_LOOKED_AT]
    return len(url) >= _LEAST_BARE and not any(mark in start for mark in ":.?")


def base64_bytes(text: str, max_bytes: int) -> bytes:
    """The bytes of base64 text: either alphabet, with or without padding, in one line or several.

    Raises BadMedia, which says what is wrong with it, and MediaTooLarge, before decoding, for what is too long."""
    if "\n" in text or "\r" in text or text[:1].isspace() or text[-1:].isspace():
        text = "".join(line.strip() for line in text.splitlines())
    text = text.rstrip("=")
    if len(text) * 3 // 4 > max_bytes:
        raise MediaTooLarge(f"the media has more than {max_bytes} bytes")
    if "-" in text or "_" in text:
        text = text.translate(_TO_STANDARD)
    try:
        return bytes(base64.b64decode(text + "=" * (-len(text) % 4), validate=True))
    except (binascii.Error, ValueError) as error:
        raise BadMedia(_not_base64(text)) from error


_NO_BASE64 = re.compile(r"[^A-Za-z0-9+/]")


def _not_base64(text: str) -> str:
    found = _NO_BASE64.search(text)
    if found is None:
        return "the data is not valid base64: it is cut short, or has a character too many"
    if found[0] == " ":
        return "the data is not valid base64: it has a space within a line, perhaps where a '+' was"
    return f"the data is not valid base64: it has {found[0]!r} at character {found.start()}"
