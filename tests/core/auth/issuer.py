"""An OpenID Connect issuer of our own: a real HTTP server with real keys, which can rotate them, be slow and answer nonsense."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from functools import cache
from typing import Any

import attrs
from joserfc.jwk import ECKey, Key, OKPKey, RSAKey
from joserfc.jws import JWSRegistry
from joserfc.util import urlsafe_b64encode
from tests.peers import listening

from smg_core.auth.settings import OidcConfig

AUDIENCE = "https://models.example"
NOW = 1_700_000_000.0  # when a FakeClock begins
DESCRIPTION, KEYS = "/.well-known/openid-configuration", "/keys"
Reply = bytes | Callable[[asyncio.StreamWriter], Awaitable[None]]


def key(kind: str, number: int = 0) -> Key:
    """A private key, made once for all tests: "RSA" or a curve's name. Different numbers are different keys."""
    return _key(kind, number)


@cache
def _key(kind: str, number: int) -> Key:
    parameters = {"kid": f"{kind}-{number}"}
    if kind == "RSA":
        return RSAKey.generate_key(2048, parameters)
    return (OKPKey if kind.startswith("Ed") else ECKey).generate_key(kind, parameters)


KINDS = {
    **dict.fromkeys(("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"), "RSA"),
    "ES256": "P-256",
    "ES384": "P-384",
    "ES512": "P-521",
    "Ed25519": "Ed25519",
    "Ed448": "Ed448",
    "EdDSA": "Ed25519",
}
"""Each algorithm that is taken, with the kind of its keys."""


def encoded(value: object) -> bytes:
    """A part of a token: JSON, or bytes as they stand, in base64url."""
    return urlsafe_b64encode(value if isinstance(value, bytes) else json.dumps(value).encode())


def signed(head: object, claims: object, private: Key, algorithm: str) -> str:
    """A token whose signature is by this key and algorithm, whatever its head says."""
    text = encoded(head) + b"." + encoded(claims)
    model = JWSRegistry.algorithms[KINDS.get(algorithm, "") if algorithm == "EdDSA" else algorithm]
    return (text + b"." + urlsafe_b64encode(model.sign(text, private))).decode()


@attrs.define(eq=False)
class Issuer:
    """The issuer. `public` are the keys that it publishes; `replies` replace the answer to a path; `asked` are the paths that
    were asked for; no answer leaves before `gate` is set."""

    url: str = ""
    public: list[Mapping[str, Any]] = attrs.field(factory=list)
    replies: dict[str, Reply] = attrs.field(factory=dict)
    asked: list[str] = attrs.field(factory=list)
    gate: asyncio.Event = attrs.field(factory=asyncio.Event)

    def publish(self, *keys: Key) -> None:
        self.public = [each.as_dict(private=False) for each in keys]

    def claims(self, **changes: Any) -> dict[str, Any]:
        """Claims of a good token; a change to None leaves one out."""
        usual = {"iss": self.url, "aud": AUDIENCE, "sub": "ann", "org": "acme", "iat": NOW, "exp": NOW + 300}
        return {name: value for name, value in {**usual, **changes}.items() if value is not None}

    def token(
        self, algorithm: str = "ES256", number: int = 0, head: Mapping[str, Any] | None = None, **claims: Any
    ) -> str:
        """A good token, but for what `head` and `claims` change."""
        private = key(KINDS[algorithm], number)
        stated = {"alg": algorithm, "typ": "JWT", "kid": private.kid, **(head or {})}
        stated = {name: value for name, value in stated.items() if value is not None}
        return signed(stated, self.claims(**claims), private, algorithm)

    def settings(self, **changes: Any) -> OidcConfig:
        usual = {"issuer": self.url, "audiences": (AUDIENCE,), "tenant_claim": "org", "private_hosts": ("127.0.0.1",)}
        return OidcConfig(**{**usual, **changes})

    def _reply(self, path: str) -> Reply:
        if path in self.replies:
            return self.replies[path]
        if path == DESCRIPTION:
            return reply({"issuer": self.url, "jwks_uri": self.url + KEYS})
        return reply({"keys": self.public}) if path == KEYS else reply({}, "404 Not Found")

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            path = (await reader.readuntil(b"\r\n\r\n")).decode().split(" ")[1]
            self.asked.append(path)
            await self.gate.wait()
            answer = self._reply(path)
            if callable(answer):
                await answer(writer)
            else:
                writer.write(answer)
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError, ssl.SSLError):
            pass
        finally:
            writer.close()


def reply(body: object, status: str = "200 OK", *headers: str) -> bytes:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = [f"HTTP/1.1 {status}", f"content-length: {len(content)}", "connection: close", *headers, "", ""]
    return "\r\n".join(lines).encode() + content


@asynccontextmanager
async def issuing(*keys: Key, tls: ssl.SSLContext | None = None) -> AsyncIterator[Issuer]:
    """A running issuer with these keys; without any, with one for ES256. Its gate is open."""
    made = Issuer()
    made.publish(*(keys or (key("P-256"),)))
    made.gate.set()
    async with listening(made.connected, tls) as port:
        made.url = f"{'https' if tls else 'http'}://127.0.0.1:{port}"
        yield made
