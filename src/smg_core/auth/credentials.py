"""The one credential that a request carries, wherever it carries it.

Five carriers: `Authorization: Bearer`, `x-api-key` (Anthropic's clients), `x-goog-api-key` and `?key=` (Google's), and the
subprotocol `openai-insecure-api-key.KEY` of a browser, which can give the handshake of a WebSocket no header. Decides that a
request has one credential: one header twice, or two carriers that differ, are refused, since what is checked and what another
server reads might not be the same. Pure. Above: `http.exchange` calls `presented` when it is asked. Below: `errors`.
"""

import hashlib
from collections.abc import Mapping, Sequence

from smg_core.errors import AuthenticationFailed

__all__ = ["Credential", "OtherScheme", "presented"]

_BEARER = "bearer"
_BLANKS = " \t"
"""What may stand around a header's value. `str.strip` alone would take away more, which is no blank to other readers."""
_USUAL = "Bearer "  # as nearly all clients write it
_AUTHORIZATION = "authorization"
_ANTHROPICS, _GOOGLES = "x-api-key", "x-goog-api-key"
_SUBPROTOCOLS, _BROWSERS = "sec-websocket-protocol", "openai-insecure-api-key."
_CARRIERS = frozenset(name.encode() for name in (_AUTHORIZATION, _ANTHROPICS, _GOOGLES))


class OtherScheme(AuthenticationFailed):
    """The header Authorization has another scheme than Bearer, which only an identity of one's own can know."""


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


def presented(
    headers: Mapping[str, str], pairs: Sequence[tuple[bytes, bytes]], in_query: Sequence[str] = ()
) -> Credential | None:
    """The credential of a request; None without any. `headers` has the last value of each lower-cased name, `pairs` all that were
    sent, `in_query` the values of `?key=`. An empty one counts as none: clients whose key is not set send it. Raises
    AuthenticationFailed."""
    if len(pairs) != len(headers):
        _refuse_repeated(pairs)
    if len(in_query) > 1:
        raise AuthenticationFailed("The key is given twice in the query.")
    found = [*in_query]
    if value := headers.get(_AUTHORIZATION):
        found.append(_bearer(value))
    if value := headers.get(_ANTHROPICS):
        found.append(value.strip(_BLANKS))
    if value := headers.get(_GOOGLES):
        found.append(value.strip(_BLANKS))
    if (value := headers.get(_SUBPROTOCOLS)) and headers.get("upgrade", "").lower() == "websocket":
        offered = [each.strip(_BLANKS) for each in value.split(",")]
        found += [each[len(_BROWSERS) :] for each in offered if each.startswith(_BROWSERS)]
    if not found:
        return None
    text = found[0]
    if len(found) > 1:
        texts = {each for each in found if each}
        if len(texts) > 1:
            raise AuthenticationFailed("The request carries two credentials that differ; send one.")
        text = texts.pop() if texts else ""
    if not text:
        return None
    if not (text.isascii() and text.isprintable()) or " " in text:
        raise AuthenticationFailed("The credential has characters that no credential has.")
    return Credential(text)


def _refuse_repeated(pairs: Sequence[tuple[bytes, bytes]]) -> None:
    names = [name for name, _ in pairs if name in _CARRIERS]
    for name in names:
        if names.count(name) > 1:
            raise AuthenticationFailed(f"The header {name.decode()} is given twice.")


def _bearer(value: str) -> str:
    """The credential in an Authorization header, "" if there is none."""
    if value.startswith(_USUAL):
        return value[len(_USUAL) :].strip(_BLANKS)
    value = value.strip(_BLANKS)
    if not value:
        return ""
    scheme, _, rest = value.partition(" ")
    if scheme.lower() != _BEARER:
        raise OtherScheme("The header Authorization takes the scheme Bearer.")
    return rest.strip(_BLANKS)
