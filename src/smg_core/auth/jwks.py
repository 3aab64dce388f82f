"""The keys of an issuer of tokens: how its document is read, and when it has to be fetched again.

An algorithm and a type of key belong together (`ALGORITHMS`), so that no token can say what a key is used for. `IssuerKeys`
decides whether keys are still good, by a clock that is an argument. Pure. Above: oidc. Below: joserfc (the extra `auth`).
"""

import base64
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal, Protocol

import attrs
from joserfc.errors import JoseError
from joserfc.jwk import ECKey, OKPKey, RSAKey, import_key
from joserfc.jws import JWSRegistry

from smg_core.auth.json_objects import unambiguous_object
from smg_core.json_types import Json, JsonObject

__all__ = ["ALGORITHMS", "COSTLY", "TAKEN", "IssuerKeys", "KeysUnusable", "VerifyingKey", "read_keys"]

PublicKey = RSAKey | ECKey | OKPKey
Age = Literal["fresh", "stale", "gone"]

ALGORITHMS: Mapping[str, tuple[str, str | None]] = MappingProxyType(
    {
        **dict.fromkeys(("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"), ("RSA", None)),
        "ES256": ("EC", "P-256"),
        "ES384": ("EC", "P-384"),
        "ES512": ("EC", "P-521"),
        "Ed25519": ("OKP", "Ed25519"),
        "Ed448": ("OKP", "Ed448"),
    }
)
"""Each algorithm with the type and curve of its keys. Nothing symmetric: whoever could check such a token could also make it."""

_EDDSA = "EdDSA"
"""The older name of the last two, by which a token does not say the curve; the key does."""
TAKEN = frozenset({*ALGORITHMS, _EDDSA})
"""What tokens may name as their algorithm."""

COSTLY = frozenset({"ES384", "ES512", "Ed448"})
"""Algorithms that take most of a millisecond to verify, where the others take a tenth of one."""

_RSA_BITS = range(2048, 8193)
"""Shorter RSA keys can be broken, and longer ones take milliseconds of the event loop for each token."""

_OF_BROKEN_KEYS = (JoseError, ValueError, TypeError, KeyError, OverflowError)
"""What importing a key may raise whose members are missing or are no numbers of its curve."""


class SignatureCheck(Protocol):
    """An algorithm of joserfc, as far as it is used here."""

    def verify(self, msg: bytes, sig: bytes, key: Any) -> bool: ...


class KeysUnusable(ValueError):
    """The document is no set of keys with which a token could be verified; the text says why."""


@attrs.frozen(eq=False)
class VerifyingKey:
    """A public key. `algorithms` are those that tokens may name with it, `kid` its name in the issuer's document."""

    kid: str | None
    algorithms: Mapping[str, SignatureCheck]
    key: PublicKey
    thumbprint: str

    def verifies(self, algorithm: str, signed: bytes, signature: bytes) -> bool:
        """Whether `signature` is that of `signed` by this key and algorithm."""
        model = self.algorithms.get(algorithm)
        try:
            return model is not None and bool(model.verify(signed, signature, self.key))
        except (JoseError, ValueError, TypeError):  # signatures that are no numbers of the curve
            return False


def read_keys(document: bytes, most: int) -> tuple[VerifyingKey, ...]:
    """The keys of a JWK set that can verify. Others (for encryption, symmetric, private, of unknown types) are left out.

    Raises KeysUnusable where there are more than `most`, two of one name, or none. Takes up to a millisecond for each ten keys:
    in a thread."""
    try:
        keys = unambiguous_object(document).get("keys")
    except ValueError as error:
        raise KeysUnusable(f"its keys are no JSON object: {error}") from None
    if not isinstance(keys, list):
        raise KeysUnusable("its document of keys has no list 'keys'")
    if len(keys) > most:
        raise KeysUnusable(f"it has {len(keys)} keys; at most {most} are taken (oidc.keys)")
    found = [key for each in keys if isinstance(each, dict) and (key := _key(each)) is not None]
    if not found:
        raise KeysUnusable("it has no key with which a token can be verified")
    names = [(key.kid, algorithm) for key in found for algorithm in key.algorithms if key.kid is not None]
    if len(set(names)) != len(names):
        raise KeysUnusable("two of its keys have one name")
    return tuple(found)


def _key(jwk: JsonObject) -> VerifyingKey | None:
    """One key, or None where it is not for verifying. A private key is nobody's to trust: it was published."""
    operations = jwk.get("key_ops")
    if jwk.get("use", "sig") != "sig" or "d" in jwk or not (operations is None or _verifies(operations)):
        return None
    kid = jwk.get("kid")
    kind = jwk.get("kty")
    if not (kid is None or isinstance(kid, str)) or not isinstance(kind, str) or kind not in {"RSA", "EC", "OKP"}:
        return None
    if kind == "RSA" and _bits(jwk.get("n")) not in _RSA_BITS:
        return None
    try:
        key = import_key({name: value for name, value in jwk.items() if isinstance(value, str)})
        if not isinstance(key, RSAKey | ECKey | OKPKey):
            return None
        allowed = _algorithms(key, jwk.get("alg"))
        return VerifyingKey(kid, allowed, key, key.thumbprint()) if allowed else None
    except _OF_BROKEN_KEYS:
        return None


def _bits(number: Json) -> int:
    """The length of a number in base64url, 0 for what is none. A leading zero byte counts as none."""
    if not isinstance(number, str):
        return 0
    try:
        return int.from_bytes(base64.urlsafe_b64decode(number + "=" * (-len(number) % 4)), "big").bit_length()
    except ValueError:
        return 0


def _verifies(operations: Json) -> bool:
    return isinstance(operations, list) and "verify" in operations


def _algorithms(key: PublicKey, named: Json) -> Mapping[str, SignatureCheck]:
    """The algorithms of a key by its type and curve; only that which the key itself names, if it does."""
    wanted = ("RSA", None) if isinstance(key, RSAKey) else (key.key_type, key.curve_name)
    models = {name: JWSRegistry.algorithms[name] for name, kind in ALGORITHMS.items() if kind == wanted}
    if wanted[0] == "OKP" and models:
        models[_EDDSA] = JWSRegistry.algorithms[str(wanted[1])]
    return models if named is None else {name: model for name, model in models.items() if name == named}


@attrs.define(eq=False)
class IssuerKeys:
    """What is known of an issuer's keys. Times are those of a monotonic clock, in seconds.

    Up to `fresh_s` after they came they are used without a further look; up to `keep_s` they are used while new ones are fetched
    in vain; after that nobody is let in by them. Between two fetches are at least `pause_s`.
    """

    fresh_s: float
    keep_s: float
    pause_s: float
    _keys: Sequence[VerifyingKey] = ()
    _learnt: float | None = None
    _tried: float | None = None

    def age(self, now: float) -> Age:
        """Whether the keys are as good as new, should be fetched again, or may not be used (or were never known)."""
        if self._learnt is None or now - self._learnt > self.keep_s:
            return "gone"
        return "fresh" if now - self._learnt <= self.fresh_s else "stale"

    def may_fetch(self, now: float) -> bool:
        """Whether the last fetch began long enough ago."""
        return self._tried is None or now - self._tried >= self.pause_s

    def wait_s(self, now: float) -> float:
        """Seconds until the next fetch may begin."""
        return 0.0 if self._tried is None else max(0.0, self._tried + self.pause_s - now)

    def fetching(self, now: float) -> None:
        """A fetch begins."""
        self._tried = now

    def learn(self, keys: Sequence[VerifyingKey], now: float) -> bool:
        """These are the keys from now on. Returns whether one that was known is not among them: what it verified is void."""
        known, self._keys, self._learnt = self._keys, keys, now
        left = {(key.kid, key.thumbprint) for key in keys}
        return any((key.kid, key.thumbprint) not in left for key in known)

    def find(self, kid: str | None, algorithm: str) -> VerifyingKey | None:
        """The key of a token by the name and the algorithm that it states. Without a name: the only key of that algorithm."""
        fitting = [key for key in self._keys if algorithm in key.algorithms]
        if kid is not None:
            return next((key for key in fitting if key.kid == kid), None)
        return fitting[0] if len(fitting) == 1 else None
