"""Callers by tokens of an OpenID Connect issuer: an authenticator (edge).

A token that was verified before is a look-up. Another is verified on the event loop (40 to 150 us), or in a thread where its
algorithm takes longer. Fetching keys waits.
However many requests need keys, one fetch is under way, and the next begins `oidc.pause_s` seconds later at the soonest. While
the issuer cannot be reached, known keys serve on for `oidc.keep_s` seconds; then every token is refused with 503. Above:
identity.identity. Below: tokens and jwks decide, issuer fetches. Needs the extra `auth`.
"""

import asyncio
import contextlib
import logging

from smg_core.auth.base import Head
from smg_core.auth.credentials import Credential
from smg_core.auth.issuer import IssuerDocuments, IssuerUnreachable
from smg_core.auth.jwks import COSTLY, TAKEN, IssuerKeys, KeysUnusable, VerifyingKey, read_keys
from smg_core.auth.roles import Roles
from smg_core.auth.settings import OidcConfig
from smg_core.auth.tokens import (
    Claims,
    UnverifiedToken,
    VerifiedTokens,
    claim_rules,
    looks_like_token,
    read_token,
    token_refusal,
)
from smg_core.clock import Clock
from smg_core.errors import Overloaded
from smg_core.request import Caller
from smg_core.settings import ConfigError

__all__ = ["OidcAuthenticator"]

log = logging.getLogger("smg.auth")


class OidcAuthenticator:
    """An `Authenticator` for the tokens of one issuer; `start` before the first request, `stop` after the last.

    Credentials that have not the form of a token are left to others; `longest` is the most characters of one. Raises
    ConfigError for settings that do not fit together.
    """

    def __init__(
        self,
        settings: OidcConfig,
        roles: Roles,
        *,
        clock: Clock,
        longest: int,
        documents: IssuerDocuments | None = None,
    ) -> None:
        self._settings = settings
        self._rules = claim_rules(settings)
        self._roles = roles
        self._clock = clock
        self._longest = longest
        try:
            roles.grants((*self._rules.roles.values(), *self._rules.default_roles))
        except ConfigError as error:
            raise ConfigError(f"oidc.roles, oidc.default_roles: {error}") from None
        self._documents = documents or IssuerDocuments(settings)
        self._keys = IssuerKeys(settings.fresh_s, settings.keep_s, settings.pause_s)
        self._verified: VerifiedTokens[Caller] = VerifiedTokens(settings.tokens)
        self._look_again = 0.0
        self._fetching: asyncio.Task[None] | None = None
        self._failure = ""

    async def start(self) -> None:
        """Fetch the keys, so that no request has to wait for them. Raises ConfigError where they cannot be had: a gateway that
        could verify nobody does not start."""
        await self._fetch_once()
        if self._keys.age(self._clock.monotonic()) == "gone":
            raise ConfigError(f"oidc.issuer: {self._settings.issuer}: {self._failure}")

    async def stop(self) -> None:
        """End a fetch that is under way."""
        if self._fetching is not None:
            self._fetching.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._fetching

    def known(self, credential: Credential) -> Caller | None:
        """The caller of a token that was verified before and is still good. Keys that are no longer new are fetched beside it."""
        now = self._clock.monotonic()
        if now >= self._look_again:
            if self._keys.age(now) == "gone":
                return None
            if self._keys.may_fetch(now):
                self._fetch()
        return self._verified.get(credential.digest, self._clock.time())

    def was_good(self, credential: Credential) -> bool:
        """False: a token that is still good is known, until the key that verified it is withdrawn."""
        return False

    async def __call__(self, head: Head) -> Caller | None:
        credential = head.credential
        if credential is None or not looks_like_token(credential.text):
            return None
        found = self.known(credential)
        if found is not None:
            return found
        token = read_token(credential.text, TAKEN, self._longest)
        await self._have_keys()
        key = await self._key_of(token)
        if not await _verifies(key, token):
            key = await self._changed_key(key, token)
        return self._verified_by(key, token, credential)

    async def _changed_key(self, key: VerifyingKey, token: UnverifiedToken) -> VerifyingKey:
        """The key that verifies a token which `key` of that name does not: an issuer may have changed the key under its name, so
        the keys are fetched again, as for a name that is not known. Raises AuthenticationFailed."""
        found = self._keys.find(token.kid, token.algorithm)
        if (found is None or found.thumbprint == key.thumbprint) and await self._looked_again():
            found = self._keys.find(token.kid, token.algorithm)
        if found is not None and found.thumbprint != key.thumbprint and await _verifies(found, token):
            return found  # also where others had the keys fetched while a thread verified by the one of before
        raise token_refusal("signature")

    def _verified_by(self, key: VerifyingKey, token: UnverifiedToken, credential: Credential) -> Caller:
        """The caller of a token that `key` has verified, which is remembered. Raises AuthenticationFailed."""
        left = self._keys.find(token.kid, token.algorithm)
        if left is None or left.thumbprint != key.thumbprint:  # withdrawn while a thread verified by it
            raise token_refusal("key")
        claims = Claims.of(token.claims, self._rules, self._clock.time())
        caller = Caller(claims.tenant, claims.principal, self._roles.grants(claims.roles))
        self._verified.put(credential.digest, claims.until, caller)
        return caller

    async def _key_of(self, token: UnverifiedToken) -> VerifyingKey:
        """The key that a token names. One that is not known may be new: the keys are fetched again, if the last time is long
        enough ago. Raises AuthenticationFailed."""
        key = self._keys.find(token.kid, token.algorithm)
        if key is None and await self._looked_again():
            key = self._keys.find(token.kid, token.algorithm)
        if key is None:
            raise token_refusal("key")
        return key

    # ----------------------------------------------------------------------------------------------------------------- keys

    async def _have_keys(self) -> None:
        """Fetch the keys where there are none that may be used. Raises Overloaded where they cannot be had."""
        now = self._clock.monotonic()
        if self._keys.age(now) != "gone":
            return
        if self._under_way or self._keys.may_fetch(now):
            await self._fetch_once()
            now = self._clock.monotonic()
        if self._keys.age(now) == "gone":
            raise Overloaded(
                "Tokens cannot be verified now: the keys of their issuer cannot be fetched.",
                retry_after=max(1.0, self._keys.wait_s(now)),
                detail=self._failure,
                outside_text=self._failure,
            )

    async def _looked_again(self) -> bool:
        """Fetch the keys again, if the last time is long enough ago; whether they were."""
        if not (self._under_way or self._keys.may_fetch(self._clock.monotonic())):
            return False
        await self._fetch_once()
        return True

    @property
    def _under_way(self) -> bool:
        return self._fetching is not None and not self._fetching.done()

    def _fetch(self) -> "asyncio.Task[None]":
        """The fetch that is under way, or a new one. It belongs to no request, so that a client who leaves ends it for nobody."""
        if self._fetching is None or self._fetching.done():
            self._keys.fetching(self._clock.monotonic())
            self._fetching = asyncio.create_task(self._renew())
        return self._fetching

    async def _fetch_once(self) -> None:
        await asyncio.shield(self._fetch())

    async def _renew(self) -> None:
        try:
            document = await self._documents.keys()
            keys = await asyncio.to_thread(read_keys, document, self._settings.keys)
        except (IssuerUnreachable, KeysUnusable) as error:
            self._failure = str(error)
            log.warning("oidc: the keys of %s could not be fetched: %s", self._settings.issuer, error)
            return
        self._failure = ""
        now = self._clock.monotonic()
        self._look_again = now + self._settings.fresh_s
        if self._keys.learn(keys, now):
            self._verified.forget()


async def _verifies(key: VerifyingKey, token: UnverifiedToken) -> bool:
    """Whether the key verifies the token's signature; in a thread where that takes long."""
    stated = token.algorithm, token.signed, token.signature
    return await asyncio.to_thread(key.verifies, *stated) if token.algorithm in COSTLY else key.verifies(*stated)
