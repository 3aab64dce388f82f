"""Virtual keys: keys that are made, rotated and revoked while the gateway runs, and kept in a store.

A key is `smg_ID_SECRET`. `smg_ID` is its prefix: it names the key in lists and logs, and stays the same when the key is rotated.
The store has the hash of the whole key, so nobody who reads it has a key. Decides what a key is like after each operation, and
whether a secret is good at a time. Pure: times and random bytes are arguments. Above: `identity.virtual_keys` reads and writes.
Below: `errors`.
"""

import base64
import hmac
import re

from msgspec import Struct
from msgspec.structs import replace

from smg_core.errors import AuthenticationFailed, Conflict
from smg_core.json_types import JsonObject

__all__ = ["KeyHash", "VirtualKey", "is_id", "key_text", "named_id", "virtual_id"]

_PREFIX = "smg_"
_ID_DIGITS = 16
_ID = re.compile(r"[0-9a-f]{16}")
_SHAPE = re.compile(r"smg_([0-9a-f]{16})_[A-Za-z0-9_-]{43}")


class KeyHash(Struct, frozen=True, omit_defaults=True):
    """The SHA-256 of one secret of a key, in hexadecimal; `until` is when it stops being good, after a rotation."""

    digest: str
    until: float | None = None


class VirtualKey(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A virtual key as it is kept. Its requests are those of `tenant` and `principal`; `roles`, `models` and `tools` bound them.
    Times are in seconds since the Unix epoch."""

    id: str
    tenant: str
    principal: str
    created_at: float
    hashes: tuple[KeyHash, ...]
    name: str = ""
    roles: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    expires_at: float | None = None
    revoked_at: float | None = None

    @property
    def prefix(self) -> str:
        """What is shown of the key."""
        return _PREFIX + self.id

    def status(self, now: float) -> str:
        """ "active", "expired" or "revoked"."""
        if self.revoked_at is not None:
            return "revoked"
        return "expired" if self.expires_at is not None and now >= self.expires_at else "active"

    def good(self) -> dict[bytes, float]:
        """Until when each secret is good, by its hash; for whoever checks the key often, and asks `check` for the reason."""
        end = (
            float("-inf")
            if self.revoked_at is not None
            else self.expires_at
            if self.expires_at is not None
            else float("inf")
        )
        return {bytes.fromhex(each.digest): end if each.until is None else min(end, each.until) for each in self.hashes}

    def check(self, digest: bytes, now: float) -> None:
        """Raise AuthenticationFailed unless this is the hash of a secret that is good now. Only who has the secret is told that a
        key is revoked or expired."""
        mine = [each for each in self.hashes if hmac.compare_digest(bytes.fromhex(each.digest), digest)]
        if not mine:
            raise AuthenticationFailed("Incorrect API key.")
        if (status := self.status(now)) != "active":
            raise AuthenticationFailed(f"The API key is {status}.")
        if all(each.until is not None and now >= each.until for each in mine):
            raise AuthenticationFailed("The API key was replaced by another.")

    def rotated(self, digest: bytes, now: float, overlap: float) -> "VirtualKey":
        """The key with a new secret; the others stay good for `overlap` more seconds. Raises Conflict for one that is not
        active."""
        if (status := self.status(now)) != "active":
            raise Conflict(f"The key {self.prefix} is {status}.")
        until = now + overlap
        kept = tuple(
            KeyHash(each.digest, until if each.until is None else min(until, each.until))
            for each in self.hashes
            if overlap > 0 and (each.until is None or each.until > now)
        )
        return replace(self, hashes=(KeyHash(digest.hex()), *kept))

    def revoked(self, now: float) -> "VirtualKey":
        """The key, good no more; one that was revoked before stays as it is."""
        return self if self.revoked_at is not None else replace(self, revoked_at=now)

    def expiring(self, at: float | None) -> "VirtualKey":
        """The key, refused from this time on; None: never. Raises Conflict for one that was revoked."""
        if self.revoked_at is not None:
            raise Conflict(f"The key {self.prefix} is revoked.")
        return replace(self, expires_at=at)

    def listed(self, now: float) -> JsonObject:
        """The key without its hashes, for lists."""
        return {
            "id": self.id,
            "prefix": self.prefix,
            "name": self.name,
            "tenant": self.tenant,
            "principal": self.principal,
            "roles": list(self.roles),
            "models": list(self.models),
            "tools": list(self.tools),
            "status": self.status(now),
            "secrets": sum(each.until is None or each.until > now for each in self.hashes),
            "created_at": self.created_at,
            "expires_at": self.expires_at,
            "revoked_at": self.revoked_at,
        }


def key_text(id: str, secret: bytes) -> str:
    """The key that its user gets, of an id of 16 hexadecimal digits and 32 random bytes."""
    return f"{_PREFIX}{id}_{base64.urlsafe_b64encode(secret).decode().rstrip('=')}"


def is_id(text: str) -> bool:
    """Whether this can be the id of a virtual key."""
    return _ID.fullmatch(text) is not None


def named_id(text: str) -> str:
    """The id in a virtual key; of any other text something that is no id."""
    return text[len(_PREFIX) : len(_PREFIX) + _ID_DIGITS]


def virtual_id(text: str) -> str | None:
    """The id of the virtual key that this text can be; None for any other text, without a look at a store."""
    found = _SHAPE.fullmatch(text) if text.startswith(_PREFIX) else None
    return None if found is None else found[1]
