"""An identity of one's own: a proxy in front has checked who sends a request, and says so in a header.

    python examples/trusted_proxy.py

`Gateway(identity=...)` takes any coroutine function, or object with `async def __call__`, that makes a `Caller` of the head of a
request: None means "no credential that I know", AuthenticationFailed a wrong one; both are answered 401. Whoever reaches the
gateway past the proxy could write that header too, so the proxy signs it with a secret that only the two know.
"""

import asyncio
import hashlib
import hmac
import logging

import httpx

from smg_core import Gateway
from smg_core.apis import PERMISSIONS
from smg_core.auth.base import Head
from smg_core.auth.roles import Roles
from smg_core.errors import AuthenticationFailed
from smg_core.request import Caller

SECRET = b"drawn when both were set up, and not in the source"
ROLES = Roles((), PERMISSIONS)


def signed(user: str) -> dict[str, str]:
    """What the proxy adds to a request of this user, after it has taken away what the client sent under these names."""
    return {"x-proxy-user": user, "x-proxy-signature": hmac.new(SECRET, user.encode(), hashlib.sha256).hexdigest()}


async def from_proxy(head: Head) -> Caller | None:
    """The caller that the proxy names as TENANT/USER."""
    user = head.headers.get("x-proxy-user")
    if user is None:
        return None
    wanted = hmac.new(SECRET, user.encode("latin-1"), hashlib.sha256).hexdigest()
    if not hmac.compare_digest(wanted.encode(), head.headers.get("x-proxy-signature", "").encode("latin-1")):
        raise AuthenticationFailed("The request did not come through the proxy.")
    tenant, _, name = user.partition("/")
    return Caller(tenant, name, ROLES.grants(["user"]))


async def main() -> None:
    async with (
        Gateway.simulated(identity=from_proxy) as gateway,
        gateway.http_client(httpx, base_url="http://gateway") as client,
    ):
        forged = {"x-proxy-user": "research/ada", "x-proxy-signature": "0" * 64}
        for name, headers in (("ada", signed("research/ada")), ("forged", forged), ("nobody", {})):
            answer = await client.get("/v1/models", headers=headers)
            print(name, answer.status_code)


if __name__ == "__main__":
    logging.getLogger("smg.auth").setLevel(logging.ERROR)  # refused credentials are logged as warnings
    asyncio.run(main())
