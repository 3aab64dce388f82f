"""Finds the caller of a request (edge).

Called once for every request, before its handler and before its body is read. Without any identity in the settings all requests
have the same anonymous caller, who may do everything; with one, a request without a good credential is refused. What the settings
name is made at the start, and what cannot be made stops the start. Above: app.app asks; gateway.assembly opens. Below: the
room `auth`.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from smg_core.auth.attempts import Attempts, network_of
from smg_core.auth.base import Authenticator, Head, KnowsCallers
from smg_core.auth.credentials import Credential, OtherScheme
from smg_core.auth.keys import ApiKey, StaticKeys, keys_in_file, keys_in_lines
from smg_core.auth.roles import Roles, check_permission
from smg_core.auth.settings import AuthConfig
from smg_core.auth.tokens import looks_like_token
from smg_core.clock import Clock
from smg_core.config.config import Config
from smg_core.errors import AuthenticationFailed, PermissionDenied, SmgError
from smg_core.extras import missing
from smg_core.history.store.base import KEYS_OWNER, Store
from smg_core.identity.certificates import by_certificate
from smg_core.identity.virtual_keys import VirtualKeys
from smg_core.observability.repeats import Repeats
from smg_core.request import Caller
from smg_core.settings import ConfigError

if TYPE_CHECKING:
    from smg_core.auth.oidc import OidcAuthenticator

__all__ = [
    "ANYBODY",
    "Identify",
    "Identity",
    "anonymous",
    "is_open",
    "open_identity",
    "permitted",
    "static_keys",
    "unshared_keys",
]

log = logging.getLogger("smg.auth")

ANYBODY = Caller()
"""The caller of every request to a gateway that tells none apart: it may do everything."""
_LONGEST_QUOTE = 200  # characters of an address that a line of the log repeats


class Identify(Protocol):
    """Returns the caller of a request, by its head. Raises AuthenticationFailed for missing and wrong credentials."""

    async def __call__(self, head: Head) -> Caller: ...


async def anonymous(head: Head) -> Caller:
    """The `Identify` of a gateway without identity: the same caller, who may do everything, for every request."""
    return ANYBODY


async def permitted(identify: Identify, head: Head, needed: str) -> Caller:
    """The caller of a request to a route that needs the permission `needed`. Raises AuthenticationFailed and PermissionDenied."""
    caller = await identify(head)
    if caller.tenant == KEYS_OWNER:
        raise PermissionDenied("This tenant cannot be anybody's.")
    if caller.grants.permissions is not None:
        check_permission(caller.grants, needed, head.headers)
    return caller


def is_open(config: Config) -> bool:
    """Whether these settings let everybody in."""
    auth = config.auth
    if config.tls.client_names:
        return False
    return not (auth.keys or auth.keys_file is not None or auth.virtual_keys or config.oidc.issuer is not None)


def unshared_keys(config: Config, processes: int) -> str:
    """What is wrong with virtual keys in so many processes, "" if nothing: a key that one has revoked must be known to all."""
    scheme = (config.history.url or "memory:").partition(":")[0]
    if not config.auth.virtual_keys or processes == 1 or scheme != "memory":
        return ""
    return (
        f"auth.virtual_keys with server.processes {processes}: the history is in each process's own memory; "
        "set history.url to a store that they share"
    )


async def open_identity(
    config: Config,
    clock: Clock,
    stack: AsyncExitStack,
    store: Store,
    permissions: Mapping[str, str],
    given: Authenticator | None = None,
    secrets: Authenticator | None = None,
) -> tuple[Identify, VirtualKeys | None]:
    """The `Identify` of these settings, or of the authenticator that was `given` in their place, and the virtual keys if there
    are any, which `store` keeps. `secrets` knows the client secrets, which this gateway gives out itself. Called when a gateway
    starts; `stack` ends what was begun for it. Raises ConfigError for what cannot be made, and where both are given."""
    auth = config.auth
    if is_open(config) and given is None:
        return anonymous, None
    if given is not None and not is_open(config):
        raise ConfigError(
            "auth, oidc: the gateway was given an identity of its own; leave out the settings of these sections"
        )
    if given is not None and not callable(given):
        raise ConfigError(
            f"identity: {type(given).__name__} cannot be called; it needs `async def __call__(self, head)`"
        )
    roles = Roles(auth.roles, permissions)
    knowing: list[KnowsCallers] = []
    asked: list[Authenticator] = [each for each in (secrets, given) if each is not None]
    if (static := static_keys(auth, clock, permissions)) is not None:
        knowing.append(static)
    virtual = VirtualKeys(auth, store, clock, roles) if auth.virtual_keys else None
    if virtual is not None:
        stack.push_async_callback(virtual.close)
        knowing.append(virtual)
        asked.append(virtual)
    if config.oidc.issuer is not None:
        tokens = _oidc(config, roles, clock)
        stack.push_async_callback(tokens.stop)
        await tokens.start()
        knowing.append(tokens)
        asked.append(tokens)
    if config.tls.client_names:
        asked.append(by_certificate(config.tls.client_names, roles, clock.time))
    identity = Identity(config, clock, permissions, knowing=knowing, asked=asked, any_scheme=given is not None)
    stack.push_async_callback(identity.close)
    return identity, virtual


def _oidc(config: Config, roles: Roles, clock: Clock) -> "OidcAuthenticator":
    try:
        from smg_core.auth.oidc import OidcAuthenticator
    except ModuleNotFoundError as error:
        raise ConfigError(missing("oidc.issuer", error, "auth")) from None
    return OidcAuthenticator(config.oidc, roles, clock=clock, longest=config.auth.credential_characters)


def static_keys(auth: AuthConfig, clock: Clock, permissions: Mapping[str, str]) -> StaticKeys | None:
    """The keys of the settings and of their file, which is read; None without any. Raises ConfigError."""
    found = _listed_keys(auth)
    return StaticKeys(found, Roles(auth.roles, permissions), clock.time) if found else None


def _listed_keys(auth: AuthConfig) -> list[ApiKey]:
    found = keys_in_lines(auth.keys, "auth.keys")
    if auth.keys_file is not None:
        try:
            text = Path(auth.keys_file).expanduser().read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"auth.keys_file: {auth.keys_file} cannot be read: {error}") from None
        found += keys_in_file(text, auth.keys_file)
    return found


class Identity:
    """The `Identify` of a gateway that asks who sends a request. `knowing` are asked first, and never limited; then `asked`, one
    after the other, until one says whose the credential is. `any_scheme`: they are asked too where the header Authorization has
    another scheme than Bearer."""

    def __init__(
        self,
        config: Config,
        clock: Clock,
        permissions: Mapping[str, str],
        *,
        knowing: Sequence[KnowsCallers],
        asked: Sequence[Authenticator],
        any_scheme: bool,
    ) -> None:
        auth, observability = config.auth, config.observability
        self._knowing, self._asked, self._any_scheme = tuple(knowing), tuple(asked), any_scheme
        self._clock, self._permissions = clock, permissions
        self._most = auth.credential_characters
        self._attempts = Attempts(
            auth.failures, auth.failures_address, window=auth.failures_window_s, most=auth.failures_remembered
        )
        self._repeats = Repeats(observability.repeat_s, observability.repeats)
        self._wanted: AuthConfig | None = None  # whose keys are to be read next
        self._adopting: asyncio.Task[None] | None = None

    def adopt_keys(self, auth: AuthConfig) -> None:
        """Know the keys of these settings, and of their file as it is now, in place of those before. Called in every process when
        settings were read again; whoever asks from now on waits until the keys are read, so that one that was taken away is good
        nowhere once that was answered."""
        self._wanted = auth
        if self._adopting is None:
            self._adopting = asyncio.create_task(self._adopt(), name="adopt keys")

    async def adopted(self) -> None:
        """Return when the keys are known here that were to be adopted."""
        while self._adopting is not None:
            await asyncio.wait([self._adopting])

    async def _adopt(self) -> None:
        """Read what is wanted, one after the other: of two that are read at once, the older one might end last."""
        try:
            while self._wanted is not None:
                auth, self._wanted = self._wanted, None
                try:
                    keys = await asyncio.to_thread(static_keys, auth, self._clock, self._permissions)
                except ConfigError as error:  # the process that was asked has read the same file
                    log.warning("the keys stay as they were: %s", error)
                else:
                    others = [each for each in self._knowing if not isinstance(each, StaticKeys)]
                    self._knowing = tuple(others if keys is None else [keys, *others])
        finally:
            self._adopting = None

    async def close(self) -> None:
        """Adopt nothing more."""
        self._wanted = None
        if self._adopting is not None:
            self._adopting.cancel()
            await self.adopted()

    async def __call__(self, head: Head) -> Caller:
        if self._adopting is not None:
            await self.adopted()
        credential: Credential | None = None
        try:
            credential = self._credential(head)
            if credential is not None and (caller := self._known(credential)) is not None:
                return caller
            return await self._ask(head, credential)
        except AuthenticationFailed as error:
            if credential is not None or error.code != _MISSING:
                self._failed(head, credential, error)
            raise

    def _credential(self, head: Head) -> Credential | None:
        """The credential of a request. An identity that was given may know other schemes than ours, such as Basic: to all others
        such a request has none."""
        try:
            return head.credential
        except OtherScheme:
            if not self._any_scheme:
                raise
            return None

    def _known(self, credential: Credential) -> Caller | None:
        """The caller, by who knows it at once."""
        if len(credential.text) > self._most:
            raise AuthenticationFailed(f"The credential is longer than {self._most} characters.")
        for each in self._knowing:
            caller = each.known(credential)
            if caller is not None:
                return caller
        return None

    async def _ask(self, head: Head, credential: Credential | None) -> Caller:
        """The caller, by who may have to wait for it."""
        if credential is not None and not any(each.was_good(credential) for each in self._knowing):
            self._attempts.check(head.address, _beginning(credential), self._clock.monotonic())
        for each in self._asked:
            caller = await each(head)
            if caller is not None:
                return caller
        if credential is None:
            raise AuthenticationFailed(
                "You did not send an API key. Send it as 'Authorization: Bearer KEY', x-api-key or x-goog-api-key.",
                code=_MISSING,
            )
        raise AuthenticationFailed("Incorrect API key.")

    def _failed(self, head: Head, credential: Credential | None, error: SmgError) -> None:
        """Count a failure, and log it: once in a while for one address and one reason, and no part of the credential."""
        now, address = self._clock.monotonic(), head.address
        self._attempts.failed(address, _beginning(credential) if credential is not None else "", now)
        again = self._repeats.note((network_of(address), error.message), now)
        if again is not None:
            repeats = f", {again} more like it since the last time" if again else ""
            log.warning(
                "refused a credential from %s: %s%s", address[:_LONGEST_QUOTE] or "a peer", error.message, repeats
            )


def _beginning(credential: Credential) -> str:
    """By what failures with a credential are counted together: keys by how they begin. Tokens all begin alike, with the name of
    their algorithm, so that each is counted for itself."""
    return credential.digest.hex() if looks_like_token(credential.text) else credential.text


_MISSING = "missing_api_key"
