"""The claims of a JSON Web Token, and its verification: its form, its signature's input, its claims, and what was verified.

The order: `read_token` looks at form and head and refuses what no key could make good; a key verifies the signature; only then
`Claims.of` reads the claims. Of the head only `alg` and `kid` are used: addresses of keys (`jku`, `x5u`) and keys themselves
(`jwk`, `x5c`) that a token brings along are not looked at, and a head that demands to be understood (`crit`) is refused. Pure:
the time is an argument. Above: oidc. Below: json_objects. Knows no key and no header of HTTP.
"""

import base64
import binascii
import math
from collections import OrderedDict
from collections.abc import Collection, Mapping
from typing import Generic, Literal, TypeVar

import attrs

from smg_core.auth.json_objects import unambiguous_object
from smg_core.auth.names import is_caller_name
from smg_core.auth.roles import USER
from smg_core.auth.settings import OidcConfig
from smg_core.errors import AuthenticationFailed
from smg_core.json_types import Json, JsonObject
from smg_core.settings import ConfigError

__all__ = [
    "ClaimRules",
    "Claims",
    "UnverifiedToken",
    "VerifiedTokens",
    "claim_path",
    "claim_rules",
    "looks_like_token",
    "read_token",
    "token_refusal",
]

T = TypeVar("T")
Reason = Literal["form", "head", "algorithm", "key", "signature", "issuer", "audience", "time", "claims"]

_SENTENCES: Mapping[Reason, str] = {
    "form": "The token is no JSON Web Token that is taken here.",
    "head": "The head of the token demands or states what is not taken here.",
    "algorithm": "The token is signed by an algorithm that is not taken here.",
    "key": "The token is not signed by a key of the issuer that is trusted here.",
    "signature": "The token is not signed by a key of the issuer that is trusted here.",
    "issuer": "The token was issued by somebody who is not trusted here.",
    "audience": "The token is for somebody else.",
    "time": "The token has expired or is not valid yet.",
    "claims": "The token does not say whose it is, or says it in a form that is not taken here.",
}
_PARTS = 3  # head, claims, signature
_TYPES = frozenset({"jwt", "at+jwt"})
"""Types of tokens that say who calls. Others (of a logout, of an event, of proof of a key) are signed by the same keys."""


def token_refusal(reason: Reason, detail: str = "") -> AuthenticationFailed:
    """The error for a token that is not believed. `detail` is for the log and holds nothing of a token that was not verified."""
    return AuthenticationFailed(_SENTENCES[reason], code="invalid_token", detail=detail or reason)


@attrs.frozen
class UnverifiedToken:
    """A token of which nothing is known to be true. `signed` is what its signature covers; `claims` are still bytes."""

    algorithm: str
    kid: str | None
    signed: bytes
    claims: bytes
    signature: bytes


def looks_like_token(text: str) -> bool:
    """Whether a credential has the form of a token, three parts with dots between, and so is no API key."""
    return text.count(".") == _PARTS - 1 and not text.startswith(".")


def read_token(text: str, algorithms: Collection[str], most: int) -> UnverifiedToken:
    """The parts of a token of at most `most` characters. Raises AuthenticationFailed."""
    if len(text) > most:
        raise token_refusal("form", f"the token has more than {most} characters")
    parts = text.split(".", _PARTS)
    if len(parts) != _PARTS:
        raise token_refusal("form", "not three parts")
    try:
        head, claims, signature = (_decoded(part) for part in parts)
        stated = unambiguous_object(head)
    except ValueError:
        raise token_refusal("form", "the head is no JSON object in base64url") from None
    algorithm = stated.get("alg")
    if not isinstance(algorithm, str) or algorithm not in algorithms:
        raise token_refusal("algorithm")
    _check_head(stated)
    kid = stated.get("kid")
    if not (kid is None or isinstance(kid, str)):
        raise token_refusal("head", "kid is no string")
    return UnverifiedToken(algorithm, kid, text[: text.rindex(".")].encode("ascii"), claims, signature)


def _check_head(stated: JsonObject) -> None:
    if "crit" in stated or "b64" in stated or "zip" in stated or "enc" in stated:
        raise token_refusal("head", "crit, b64, zip or enc")
    kind = stated.get("typ", "JWT")
    if not isinstance(kind, str) or kind.lower().removeprefix("application/") not in _TYPES:
        raise token_refusal("head", "typ")


def _decoded(part: str) -> bytes:
    """Base64url without padding, in the one way in which these bytes are written. Raises ValueError."""
    text = part.encode("ascii")
    try:
        raw = base64.b64decode(text + b"=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except binascii.Error:
        raise ValueError("no base64url") from None
    if base64.urlsafe_b64encode(raw).rstrip(b"=") != text:
        raise ValueError("no base64url as it is written")
    return raw


# ------------------------------------------------------------------------------------------------------------ claims


def claim_path(text: str) -> tuple[str, ...]:
    """How a setting names a claim: a JSON Pointer (RFC 6901) if it begins with a slash, else the name of a claim as it stands."""
    if not text.startswith("/"):
        return (text,)
    return tuple(part.replace("~1", "/").replace("~0", "~") for part in text[1:].split("/"))


@attrs.frozen
class ClaimRules:
    """What a token must say, and where it says whose it is.

    `tenant` is the tenant of all tokens, where `tenant_claim` is None. `roles` maps values of the claim of roles to roles; values
    that it lacks mean nothing. `default_roles` are those of tokens to which no value gives a role.
    """

    issuer: str
    audiences: frozenset[str]
    leeway_s: float
    principal_claim: tuple[str, ...]
    tenant_claim: tuple[str, ...] | None = None
    tenant: str = ""
    roles_claim: tuple[str, ...] | None = None
    roles: Mapping[str, str] = {}
    default_roles: tuple[str, ...] = ()


def claim_rules(settings: OidcConfig) -> ClaimRules:
    """The rules that the settings make. Raises ConfigError, with a sentence for each thing that is missing or contradicts."""
    problems = []
    if not settings.audiences:
        problems.append("oidc.audiences: name at least one; without it a token for any other service would be taken")
    if (settings.tenant is None) == (settings.tenant_claim is None):
        problems.append("oidc.tenant_claim, oidc.tenant: give one of the two, so that each token has a tenant")
    if settings.tenant is not None and not is_caller_name(settings.tenant):
        problems.append("oidc.tenant: no name of a tenant")
    if (settings.roles_claim is None) != (not settings.roles):
        problems.append("oidc.roles_claim and oidc.roles: one is given without the other")
    if settings.keep_s < settings.fresh_s:
        problems.append("oidc.keep_s: keys are kept for at least oidc.fresh_s")
    roles: dict[str, str] = {}
    for entry in settings.roles:
        value, equals, role = entry.rpartition("=")
        if not (value and equals and role) or value in roles:
            problems.append(f"oidc.roles: {entry}: expected VALUE=ROLE, each VALUE once")
        roles[value] = role
    if problems:
        raise ConfigError(*problems)
    return ClaimRules(
        issuer=settings.issuer or "",
        audiences=frozenset(settings.audiences),
        leeway_s=settings.leeway_s,
        principal_claim=claim_path(settings.principal_claim),
        tenant_claim=None if settings.tenant_claim is None else claim_path(settings.tenant_claim),
        tenant=settings.tenant or "",
        roles_claim=None if settings.roles_claim is None else claim_path(settings.roles_claim),
        roles=roles,
        default_roles=settings.default_roles or (() if settings.roles_claim is not None else (USER,)),
    )


@attrs.frozen
class Claims:
    """Whose a verified token is, and until when it is good, in seconds since the epoch and with the leeway."""

    tenant: str
    principal: str
    roles: tuple[str, ...]
    until: float

    @classmethod
    def of(cls, text: bytes, rules: ClaimRules, now: float) -> "Claims":
        """Of the claims of a token whose signature is verified. Raises AuthenticationFailed."""
        try:
            claims = unambiguous_object(text)
        except ValueError as error:
            raise token_refusal("claims", str(error)) from None
        if claims.get("iss") != rules.issuer:
            raise token_refusal("issuer")
        if not rules.audiences & _strings(claims.get("aud")):
            raise token_refusal("audience")
        until = _checked_times(claims, rules.leeway_s, now)
        tenant = rules.tenant if rules.tenant_claim is None else _name(claims, rules.tenant_claim)
        return cls(tenant, _name(claims, rules.principal_claim), _roles(claims, rules), until)


def _checked_times(claims: JsonObject, leeway: float, now: float) -> float:
    """Until when the token is good. `exp` must be there; what is not yet valid, or issued later than now, is refused."""
    until = _seconds(claims, "exp")
    if until is None:
        raise token_refusal("claims", "no exp")
    start = max(_seconds(claims, "nbf") or -math.inf, _seconds(claims, "iat") or -math.inf)
    if now >= until + leeway or now < start - leeway:
        raise token_refusal("time")
    return until + leeway


def _seconds(claims: JsonObject, name: str) -> float | None:
    """A claim that is a point in time, None where it is absent. Numbers of JSON may be larger than any time."""
    value = claims.get(name)
    if value is None and name not in claims:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 1 << 53:
        raise token_refusal("claims", f"{name} is no time")
    return float(value)


def _strings(value: Json) -> frozenset[str]:
    """A claim that is a string or a list of strings; the empty set for anything else."""
    if isinstance(value, str):
        return frozenset({value})
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return frozenset(str(each) for each in value)
    return frozenset()


def _at(claims: JsonObject, path: tuple[str, ...]) -> Json:
    value: Json = claims
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _name(claims: JsonObject, path: tuple[str, ...]) -> str:
    """A claim that names a tenant or a principal: a short, printable, trimmed string, since it is logged, hashed and compared."""
    value = _at(claims, path)
    if not isinstance(value, str) or not is_caller_name(value):
        raise token_refusal("claims", f"no name in the claim {'/'.join(path)}")
    return value


def _roles(claims: JsonObject, rules: ClaimRules) -> tuple[str, ...]:
    """The roles that the claim gives, each once; a string is a list of words, as the scopes of OAuth are."""
    if rules.roles_claim is None:
        return rules.default_roles
    value = _at(claims, rules.roles_claim)
    words = frozenset(value.split(" ")) if isinstance(value, str) else _strings(value)
    given = {role for word, role in rules.roles.items() if word in words}
    return tuple(sorted(given)) or rules.default_roles


# ------------------------------------------------------------------------------------------- what was verified before


class VerifiedTokens(Generic[T]):
    """What was made of tokens that were verified, by the SHA-256 of the whole token, until they expire.

    At most `most` are kept, the least recently used dropped first. `digest` is always of the whole: two tokens may begin alike.
    """

    __slots__ = ("_kept", "_most")

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: OrderedDict[bytes, tuple[float, T]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, digest: bytes, now: float) -> T | None:
        """What was kept for this token, None where it is not known or has expired. `now` is in seconds since the epoch."""
        found = self._kept.get(digest)
        if found is None:
            return None
        if now >= found[0]:
            del self._kept[digest]
            return None
        self._kept.move_to_end(digest)
        return found[1]

    def put(self, digest: bytes, until: float, made: T) -> None:
        """Keep what was made of a verified token until it expires."""
        self._kept[digest] = (until, made)
        self._kept.move_to_end(digest)
        while len(self._kept) > self._most:
            self._kept.popitem(last=False)

    def forget(self) -> None:
        """Drop everything: a key that verified some of it is no longer the issuer's."""
        self._kept.clear()
