"""What a caller's token costs: one that was verified before, and one that is new, by algorithm.

    python bench/tokens.py [--rounds 9]

CPU time of this process, the least of several rounds, since a busy machine only adds to it. The issuer's keys are handed over
without a network. `cached` is the look-up that a request makes whose token was verified before, the hash of the token included;
`new` is all of a token's verification: form, head, signature, claims. Fails over the bounds of 3 and 200 microseconds; the
algorithms that are verified in a thread have none for `new`.
"""

import argparse
import asyncio
import json
import time
from collections.abc import Callable
from typing import NamedTuple

from joserfc import jwt
from joserfc.jwk import ECKey, Key, OKPKey, RSAKey

from smg_core.apis import PERMISSIONS
from smg_core.auth.credentials import Credential
from smg_core.auth.issuer import IssuerDocuments
from smg_core.auth.jwks import ALGORITHMS, COSTLY
from smg_core.auth.oidc import OidcAuthenticator
from smg_core.auth.roles import Roles
from smg_core.auth.settings import OidcConfig
from smg_core.clock import SystemClock

ISSUER, AUDIENCE = "https://login.example.com", "https://models.example.com"
MOST_CACHED, MOST_NEW = 3.0, 200.0  # microseconds
LOOKUPS, TOKENS = 5000, 100


class Documents(IssuerDocuments):
    """The keys of an issuer, without fetching them."""

    def __init__(self, settings: OidcConfig, key: Key) -> None:
        super().__init__(settings)
        self._document = json.dumps({"keys": [key.as_dict(private=False)]}).encode()

    async def keys(self) -> bytes:
        return self._document


class Head(NamedTuple):
    """The head of a request that has a credential and nothing else."""

    credential: Credential
    method: str = "POST"
    path: str = "/"
    headers: dict[str, str] = {}  # noqa: RUF012  (never changed)
    query: dict[str, tuple[str, ...]] = {}  # noqa: RUF012
    address: str = ""
    certificate: None = None


def made_key(algorithm: str) -> Key:
    kind, curve = ALGORITHMS[algorithm]
    if kind == "RSA":
        return RSAKey.generate_key(2048)
    if kind == "EC":
        return ECKey.generate_key(curve or "")
    return OKPKey.generate_key(curve or "")  # type: ignore[arg-type]


def least(work: Callable[[], None], times: int, rounds: int) -> float:
    """Microseconds of CPU of one of `times` in the best round."""
    best = float("inf")
    for _ in range(rounds):
        began = time.process_time()
        work()
        best = min(best, (time.process_time() - began) / times)
    return best * 1e6


async def measured(algorithm: str, rounds: int) -> tuple[float, float]:
    """Microseconds of a token that was verified before, and of a new one."""
    key = made_key(algorithm)
    settings = OidcConfig(issuer=ISSUER, audiences=(AUDIENCE,), tenant_claim="org", tokens=1)
    documents = Documents(settings, key)
    asked = OidcAuthenticator(settings, Roles((), PERMISSIONS), clock=SystemClock(), longest=16384, documents=documents)
    await asked.start()
    claims = {"iss": ISSUER, "aud": AUDIENCE, "org": "acme", "exp": int(time.time()) + 3600}
    texts = [
        jwt.encode({"alg": algorithm}, {**claims, "sub": f"user-{number}"}, key, algorithms=[algorithm])
        for number in range(TOKENS)
    ]
    new = float("inf")
    for _ in range(rounds):
        began = time.process_time()
        for text in texts:
            assert await asked(Head(Credential(text))) is not None  # one is remembered, so each is new
        new = min(new, (time.process_time() - began) / TOKENS * 1e6)

    def look_up() -> None:
        for _ in range(LOOKUPS):
            asked.known(Credential(texts[-1]))

    cached = least(look_up, LOOKUPS, rounds)
    await asked.stop()
    return cached, new


def main() -> None:
    """Measure every algorithm, print a table, and exit with 1 over a bound."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9, help="the least of so many rounds counts")
    rounds = parser.parse_args().rounds
    over = False
    print("| algorithm | cached, us | new, us |\n|---|---|---|")
    for algorithm in ALGORITHMS:
        cached, new = asyncio.run(measured(algorithm, rounds))
        threaded = algorithm in COSTLY
        print(f"| {algorithm} | {cached:.1f} | {new:.0f}{' (in a thread)' if threaded else ''} |")
        over |= cached > MOST_CACHED or (new > MOST_NEW and not threaded)
    raise SystemExit(1 if over else 0)


if __name__ == "__main__":
    main()
