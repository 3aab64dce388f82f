"""The one credential that a request carries, wherever it carries it.

Four carriers: `Authorization: Bearer`, `x-api-key` (Anthropic's clients), `x-goog-api-key` and `?key=` (Google's). Decides that a
request has one credential: one header twice, or two carriers that differ, are refused, since what is checked and what another
server reads might not be the same. Pure. Above: `server.exchange` calls `presented` when it is asked. Below: `errors`.
"""

import hashlib
from collections.abc import Iterable

from smg_core.errors import AuthenticationFailed

__all__ = ["Credential", "presented"]

_BEARER = b"bearer"
_AUTHORIZATION = b"authorization"
_CARRIERS = frozenset({_AUTHORIZATION, b"x-api-key", b"x-goog-api-key"})


class Credential:
    """A key or a token as the client sent it: printable ASCII without spaces. `digest` is its SHA-256, by which it is looked up
    and remembered."""

    __slots__ = ("_digest", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self._digest: bytes | None = None

    @property
    def digest(self) -> bytes:
        """The SHA-256 of the whole credential."""
        if self._digest is None:
            self._digest = hashlib.sha256(self.text.encode()).digest()
        return self._digest

    def __repr__(self) -> str:
        return "<Credential>"  # a key is in no log


def presented(headers: Iterable[tuple[bytes, bytes]], in_query: Iterable[str] = ()) -> Credential | None:
    """The credential among these headers, whose names are lower-cased, and these values of `?key=`; None without any. An empty
    one counts as none: clients whose key is not set send it. Raises AuthenticationFailed."""
    found: dict[bytes, bytes] = {}
    for name, value in headers:
        if name in _CARRIERS:
            if name in found:
                raise AuthenticationFailed(f"The header {name.decode()} is given twice.")
            found[name] = value
    queried = list(in_query)
    if len(queried) > 1:
        raise AuthenticationFailed("The key is given twice in the query.")
    if not found and not queried:
        return None
    texts = {text for each in found.items() if (text := _text(*each))}
    texts |= {text for each in queried if (text := _checked(each.encode("utf-8", "replace")))}
    if len(texts) > 1:
        raise AuthenticationFailed("The request carries two credentials that differ; send one.")
    return Credential(texts.pop()) if texts else None


def _text(name: bytes, value: bytes) -> str:
    """The credential in a header, "" if there is none."""
    value = value.strip()
    if name == _AUTHORIZATION and value:
        scheme, _, value = value.partition(b" ")
        if scheme.lower() != _BEARER:
            raise AuthenticationFailed("The header Authorization takes the scheme Bearer.")
    return _checked(value.strip())


def _checked(value: bytes) -> str:
    text = value.decode("latin-1")
    if text and not (text.isascii() and text.isprintable() and " " not in text):
        raise AuthenticationFailed("The credential has characters that no credential has.")
    return text
