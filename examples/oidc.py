"""A gateway that takes the tokens of an OpenID Connect issuer, and an issuer of its own to try that.

    pip install "smg-sdk[server,auth]" && python examples/oidc.py

The issuer here is a few lines that publish one key. For a real one, take its name and your audience: `OidcConfig(issuer=
"https://login.example.com/realms/main", audiences=("https://models.example.com",), tenant_claim="org")`.
"""

import asyncio
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx
from joserfc import jwt
from joserfc.jwk import ECKey

from smg_core import Config, Gateway
from smg_core.config import OidcConfig

AUDIENCE = "https://models.example.com"
KEY = ECKey.generate_key("P-256", {"kid": "first"})


@contextmanager
def issuer() -> Iterator[str]:
    """An issuer on this machine: its description, and its public key. Yields its name."""

    class Documents(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            described = {"issuer": name, "jwks_uri": f"{name}/keys"}
            keys = {"keys": [KEY.as_dict(private=False)]}
            content = json.dumps(keys if self.path == "/keys" else described).encode()
            self.send_response(200)
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:
            """Nothing is logged."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Documents) as server:
        name = f"http://127.0.0.1:{server.server_address[1]}"
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield name
        server.shutdown()


def token(name: str, user: str, tenant: str) -> str:
    """What the issuer gives a user who has logged in."""
    claims = {"iss": name, "aud": AUDIENCE, "sub": user, "org": tenant, "exp": int(time.time()) + 300}
    return jwt.encode({"alg": "ES256", "kid": KEY.kid}, claims, KEY)


async def main() -> None:
    """Ask with a token, with that of another tenant, and with none."""
    with issuer() as name:
        oidc = OidcConfig(issuer=name, audiences=(AUDIENCE,), tenant_claim="org", private_hosts=("127.0.0.1",))
        async with (
            Gateway.simulated(config=Config(oidc=oidc)) as gateway,
            gateway.http_client(httpx, base_url="http://gateway") as http,
        ):
            ada, eve = ({"authorization": f"Bearer {token(name, *who)}"} for who in (("ada", "acme"), ("eve", "other")))
            made = (await http.post("/v1/responses", json={"model": "sim", "input": "Hello"}, headers=ada)).json()
            for who, headers in (("ada", ada), ("eve", eve), ("nobody", {})):
                answer = await http.get(f"/v1/responses/{made['id']}", headers=headers)
                print(who, answer.status_code)


if __name__ == "__main__":
    asyncio.run(main())
