"""Encryption of contents at rest: AES-256-GCM under the first of several keys.

What is encrypted is bound to its place (tenant, object, part): moved elsewhere it does not open. A text that is not encrypted is
read as it is, so encryption can be turned on over what is there; what is written again is then encrypted, under the first key.
Pure: nonces come through the constructor. Above: `guard`. Below: the cryptography package.
"""

import base64
import binascii
from collections.abc import Callable, Sequence

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from smg_core.errors import StoreFailed
from smg_core.settings import ConfigError

__all__ = ["Cipher"]

_MARK = b"\x00\x01"  # no JSON text begins like this
_NONCE = 12  # bytes
_KEY = 32  # bytes
_LONGEST_NAME = 255  # bytes: the length is one byte


class Cipher:
    """`keys` are texts NAME=BASE64: the first encrypts, all decrypt. `nonce` makes that many random bytes."""

    def __init__(self, keys: Sequence[str], nonce: Callable[[int], bytes]) -> None:
        self._nonce = nonce
        self._keys: dict[bytes, AESGCM] = {}
        for text in keys:
            name, secret = _read(text)
            if name in self._keys:
                raise ConfigError(f"history.keys: two keys are called {name.decode()!r}")
            self._keys[name] = AESGCM(secret)
        self._first = next(iter(self._keys))

    def seal(self, place: str, text: bytes) -> bytes:
        nonce = self._nonce(_NONCE)
        head = _MARK + bytes([len(self._first)]) + self._first + nonce
        return head + self._keys[self._first].encrypt(nonce, text, place.encode())

    def open(self, place: str, sealed: bytes) -> bytes:
        """The text. Raises StoreFailed where its key is not there any more, and where it was changed or moved."""
        if not sealed.startswith(_MARK):
            return sealed
        start = len(_MARK) + 1 + sealed[len(_MARK)]
        name = sealed[len(_MARK) + 1 : start]
        if name not in self._keys:
            raise StoreFailed(
                "failed", f"the key {name.decode(errors='replace')!r} of {place!r} is not in history.keys"
            )
        nonce = sealed[start : start + _NONCE]
        try:
            return self._keys[name].decrypt(nonce, sealed[start + _NONCE :], place.encode())
        except (InvalidTag, ValueError):
            raise StoreFailed("failed", f"what is kept at {place!r} was changed or moved") from None


def _read(text: str) -> tuple[bytes, bytes]:
    name, _, encoded = text.partition("=")
    try:
        secret = base64.b64decode(encoded, validate=True)
    except binascii.Error:
        secret = b""
    if not 0 < len(name.encode()) <= _LONGEST_NAME or len(secret) != _KEY:
        raise ConfigError("history.keys: expected NAME=BASE64 with the base64 of 32 bytes")
    return name.encode(), secret
