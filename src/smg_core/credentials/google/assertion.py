"""The signed claim (a JWT by RS256) by which a service account of Google asks for a token.

Decides what is claimed. Pure: the time is an argument. Above: chain. Below: cryptography.
"""

import base64

import msgspec
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from smg_core.credentials.google.documents import ServiceAccount

__all__ = ["ASSERTION_S", "assertion"]

ASSERTION_S = 3600
"""Seconds that a claim is good for; Google takes no longer one."""


def assertion(account: ServiceAccount, scope: str, now: float) -> str:
    """The claim of `account` that it may have a token for `scope`. Raises ValueError, without the key, for a key that is none."""
    try:
        key = load_pem_private_key(account.private_key.encode(), None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise ValueError("the private key of the service account cannot be read") from None
    if not isinstance(key, RSAPrivateKey):
        raise ValueError("the private key of the service account is no RSA key")  # noqa: TRY004
    head = {"alg": "RS256", "typ": "JWT"} | ({"kid": account.private_key_id} if account.private_key_id else {})
    claims = {
        "iss": account.client_email,
        "scope": scope,
        "aud": account.token_uri,
        "iat": int(now),
        "exp": int(now) + ASSERTION_S,
    }
    text = f"{_part(head)}.{_part(claims)}"
    return f"{text}.{_base64(key.sign(text.encode(), PKCS1v15(), SHA256()))}"


def _part(value: object) -> str:
    return _base64(msgspec.json.encode(value))


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
