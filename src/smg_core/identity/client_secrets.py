"""Client secrets: short-lived credentials that let a browser open sessions in somebody's name (edge).

A secret is a seal of whose it is, what it is for, and until when; nothing is kept of it, and it cannot be taken back. It may do
one thing alone, with one model: what its maker may not do, it may not either. Above: identity.identity asks; the Realtime API
makes and reads them. Below: the sealer.
"""

import asyncio
from collections.abc import Callable, Sequence

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from smg_core.auth.base import Head
from smg_core.errors import AuthenticationFailed, PermissionDenied, SealBroken
from smg_core.json_types import JsonObject
from smg_core.request import Caller
from smg_core.sealing.sealer import PREFIX, SealContext, Sealer, load_ciphers

__all__ = ["SECRET_PREFIX", "ClientSecret", "ClientSecrets", "has_client_secret", "open_secret", "seal_secret"]

SECRET_PREFIX = "ek_"  # noqa: S105  (no secret, how they begin)
"""How a client secret begins."""
_CONTEXT = SealContext("realtime.client_secret")
_DECODE_FAILED = (msgspec.DecodeError, UnicodeDecodeError)


class ClientSecret(Struct, frozen=True):
    """What a secret says: the `caller` that it is for, with what that may do; the session's settings that its maker has chosen,
    and its `model`; and when it expires, in seconds since the epoch."""

    caller: Caller
    model: str
    session: JsonObject
    expires_at: int

    @property
    def kind(self) -> str:
        """The type of the sessions that it opens."""
        return str(self.session.get("type"))


def seal_secret(
    sealer: Sealer,
    maker: Caller,
    permission: str,
    model: str,
    session: JsonObject,
    expires_at: int,
    *,
    further_models: Sequence[str] = (),
) -> str:
    """The secret that `maker` gives away: for this permission and this model ("": any of the maker's) alone, and the models
    the `further_models` that hear and speak for it. Raises PermissionDenied where the maker may not use them."""
    grants = maker.grants
    if not grants.may(permission) or (model and not grants.may_use(model)):
        raise PermissionDenied("The key may not use this model.")
    models = (*grants.models, (model, *further_models)) if model else grants.models
    caller = replace(maker, grants=replace(grants, permissions=frozenset({permission}), models=models))
    content = msgspec.json.encode(ClientSecret(caller, model, session, expires_at))
    return SECRET_PREFIX + sealer.seal(content, _CONTEXT).decode().removeprefix(PREFIX.decode())


def open_secret(sealer: Sealer, text: str, now: float) -> ClientSecret:
    """What a secret says at the time `now`. Raises AuthenticationFailed for one that is none, or has expired."""
    try:
        content = sealer.open(PREFIX + text.removeprefix(SECRET_PREFIX).encode(), _CONTEXT)
        secret = msgspec.json.decode(content, type=ClientSecret)
    except (SealBroken, *_DECODE_FAILED):
        raise AuthenticationFailed("Incorrect client secret.") from None
    if secret.expires_at <= now:
        raise AuthenticationFailed(
            "This client secret has expired; have another one made.", code="client_secret_expired"
        )
    return secret


def has_client_secret(head: Head) -> bool:
    """Whether a request comes with a client secret, good or not."""
    try:
        credential = head.credential
    except AuthenticationFailed:  # another scheme, which an identity of the program's own may know
        return False
    return credential is not None and credential.text.startswith(SECRET_PREFIX)


class ClientSecrets:
    """The authenticator of client secrets. `sealer` is asked when it is needed; `now` is the time in seconds since the epoch."""

    def __init__(self, sealer: Callable[[], Sealer], now: Callable[[], float]) -> None:
        self._sealer, self._now = sealer, now
        self._loaded = False

    async def __call__(self, head: Head) -> Caller | None:
        credential = head.credential if has_client_secret(head) else None
        if credential is None:
            return None
        if not self._loaded:
            await asyncio.to_thread(load_ciphers)
            self._loaded = True
        return open_secret(self._sealer(), credential.text, self._now()).caller
