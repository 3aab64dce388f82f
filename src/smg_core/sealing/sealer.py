"""Seals bytes into a token that only the gateway can make and read, and opens it again.

    token   = "gw1." base64url(key id (4) | mark of the tenant (2) | mark of the family (2) | sealed)
    sealed  = AES-256-SIV (RFC 5297) of the bytes; its associated data are the format, the context and the four fields before

AES-SIV needs no nonce: the same bytes always make the same token, so an answer that is replayed is the same to the byte, and no
randomness is needed here. Its key is derived (HKDF-SHA-256) from a master key for each purpose and tenant. The marks are parts
of keyed hashes; they only serve to say why a token does not open. Several master keys: the first seals, all open.

The library of the ciphers is loaded when the first token is made or opened, or by `load_ciphers`: many gateways never seal.

Pure. Above: reasoning, and who seals other things. Below: cryptography, errors. Nothing here is ever logged.
"""

import base64
import binascii
import hmac
from collections.abc import Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, Final

import attrs

from smg_core.errors import SealBroken, SealFault

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESSIV

__all__ = ["PREFIX", "SealContext", "Sealer", "load_ciphers"]

PREFIX: Final = b"gw1."
_KEY_ID, _MARK = 4, 2
_HEAD = _KEY_ID + 2 * _MARK
_SIV_KEY = 64  # AES-256-SIV has two keys of 32 bytes


@attrs.frozen
class SealContext:
    """What a token is good for: a `purpose` ("messages.thinking"), a tenant ("" where there is but one) and a family of models,
    since one model's reasoning is noise to another. A token opens in the context that it was sealed in, and in no other."""

    purpose: str
    tenant: str = ""
    family: str = ""

    @property
    def associated(self) -> list[bytes]:
        """The context as associated data. Hashed where it is long, since tenants may have names of any length."""
        return [PREFIX, *(sha256(part.encode()).digest() for part in (self.purpose, self.tenant, self.family))]


class Sealer:
    """Seals and opens with `masters`, the first of which seals. `most` is how long a token may be to be opened, in bytes."""

    __slots__ = ("_masters", "_most")

    def __init__(self, masters: Sequence[bytes], *, most: int) -> None:
        if not masters:
            raise ValueError("a sealer needs a key")
        self._masters = [(_hashed(master, "key id")[:_KEY_ID], master) for master in masters]
        self._most = most

    def __repr__(self) -> str:
        return f"Sealer({len(self._masters)} keys)"

    @property
    def key_id(self) -> str:
        """A mark of the key that seals: gateways and processes that share it are one."""
        return self._masters[0][0].hex()

    def seal(self, content: bytes, context: SealContext) -> bytes:
        """The token of `content`, which is not empty: ASCII, 4/3 of its length and 38 bytes more."""
        key_id, master = self._masters[0]
        head = key_id + _marks(master, context)
        sealed = _cipher(master, context).encrypt(content, [*context.associated, head])
        return PREFIX + base64.urlsafe_b64encode(head + sealed).rstrip(b"=")

    def open(self, token: bytes, context: SealContext) -> bytes:
        """What was sealed. Raises SealBroken with the reason: "not_ours" for what is no token of this gateway, "too_long",
        "unknown_key", "wrong_tenant", "other_family", else "tampered"."""
        if not token.startswith(PREFIX):
            raise SealBroken("not_ours")
        if len(token) > self._most:
            raise SealBroken("too_long")
        raw = _decoded(token[len(PREFIX) :])
        head, sealed = raw[:_HEAD], raw[_HEAD:]
        # Ids are parts of hashes: two keys may have the same.
        masters = [master for key_id, master in self._masters if key_id == head[:_KEY_ID]]
        if not masters:
            raise SealBroken("unknown_key")
        from cryptography.exceptions import InvalidTag

        for master in masters:
            try:
                return _cipher(master, context).decrypt(sealed, [*context.associated, head])
            except (InvalidTag, ValueError):
                continue
        raise SealBroken(_fault(masters[0], head, context))


def _fault(master: bytes, head: bytes, context: SealContext) -> SealFault:
    """Why a token with this head does not open."""
    marks = _marks(master, context)
    if head[_KEY_ID : _KEY_ID + _MARK] != marks[:_MARK]:
        return "wrong_tenant"
    return "other_family" if head[_KEY_ID + _MARK :] != marks[_MARK:] else "tampered"


def _marks(master: bytes, context: SealContext) -> bytes:
    tenant, family = _hashed(master, "tenant", context.tenant), _hashed(master, "family", context.family)
    return tenant[:_MARK] + family[:_MARK]


def _hashed(master: bytes, what: str, value: str = "") -> bytes:
    return hmac.digest(master, f"{what}\0{value}".encode(), "sha256")


def load_ciphers() -> None:
    """Load the library of the ciphers (7 MiB, 50 ms): to be called in a thread where seals are likely to be made."""
    _cipher(bytes(_SIV_KEY), SealContext(""))


def _cipher(master: bytes, context: SealContext) -> "AESSIV":
    from cryptography.hazmat.primitives.ciphers.aead import AESSIV
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    info = b"\0".join((b"seal", *context.associated[:3]))
    return AESSIV(HKDF(SHA256(), _SIV_KEY, salt=None, info=info).derive(master))


def _decoded(text: bytes) -> bytes:
    """Base64url without padding, in the one way in which it is written here."""
    try:
        raw = base64.b64decode(text + b"=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise SealBroken("tampered") from None
    if base64.urlsafe_b64encode(raw).rstrip(b"=") != text or len(raw) <= _HEAD:
        raise SealBroken("tampered")
    return raw
