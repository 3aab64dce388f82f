"""The cache salts of tenants: what an engine's prefix cache is parted by.

Prompts with different salts share nothing in an engine's cache, so that no tenant learns from the time of an answer what another
has asked. The salt is made here of the tenant and of the salt that the client may have sent, never of the latter alone. Without
the secret nobody who reaches the engine by another way can name a tenant's part. Pure. Above: pipeline.fit.fit. Below: hmac.
"""

import hmac

import attrs

__all__ = ["CacheSalts"]

_BYTES = 16
"""Of a salt: two tenants with the same one are not to be expected."""


@attrs.frozen
class CacheSalts:
    """Makes salts with `secret`, which all processes before the same engines share."""

    secret: bytes = attrs.field(repr=False)

    def of(self, tenant: str, own: str | None) -> str | None:
        """The salt of a request of `tenant` with the client's `own` salt. Where tenants are not told apart (""), the client's."""
        if not tenant:
            return own
        # The length keeps "ab" with the salt "c" apart from "a" with the salt "bc".
        seed = f"{len(tenant)}:{tenant}{own or ''}".encode("utf-8", "surrogatepass")
        return hmac.digest(self.secret, seed, "sha256")[:_BYTES].hex()
