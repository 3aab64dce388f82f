"""AWS's Signature Version 4 of a request that is sent with its headers.

Decides which bytes are signed and how. Pure: the time is an argument. Above: signer. Sources: AWS's documentation of SigV4, and
the vectors of its test suite.

The path is encoded once more than it is sent, as all services but S3 want it. Headers that a proxy may change are not signed.
"""

import hashlib
import hmac
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from urllib.parse import quote, unquote_plus

import attrs

__all__ = ["AwsKeys", "AwsScope", "amz_date", "sign"]

_ALGORITHM = "AWS4-HMAC-SHA256"
_UNSIGNED = frozenset(
    {
        *("connection", "expect", "transfer-encoding", "user-agent", "x-amzn-trace-id"),
        *("accept", "accept-encoding", "content-length", "keep-alive", "te", "upgrade", "via", "x-forwarded-for"),
    }
)
"""Headers that may be changed on the way, or are written when the request is."""


@attrs.frozen
class AwsKeys:
    """A pair of keys, with the token of a session where they are temporary."""

    key_id: str
    secret: str = attrs.field(repr=False)
    session: str = attrs.field(default="", repr=False)


@attrs.frozen
class AwsScope:
    """What a signature is good for: one service in one region."""

    region: str
    service: str


def amz_date(seconds: float) -> str:
    """Seconds since the Unix epoch as a signature has them: 20261128T120000Z."""
    return _written_second(int(seconds))


@lru_cache(maxsize=8)
def _written_second(second: int) -> str:
    return datetime.fromtimestamp(second, UTC).strftime("%Y%m%dT%H%M%SZ")


def sign(
    keys: AwsKeys, scope: AwsScope, date: str, method: str, url: str, headers: Iterable[tuple[str, str]], body: bytes
) -> tuple[tuple[str, str], ...]:
    """The headers to send beside `headers` (lower-case names): the date, the token of a session, and the signature of all. `url`
    is whole, as it is sent; `date` is that of `amz_date`."""
    authority, path, query = _parts(url)
    signed = [(name, value) for name, value in headers if name not in _UNSIGNED and name != "host"]
    own = [("x-amz-date", date)]
    if keys.session:
        own.append(("x-amz-security-token", keys.session))
    lines, names = _header_lines([("host", authority), *own, *signed])
    request = "\n".join(
        (method, _twice_encoded(path), _sorted_query(query), lines, names, hashlib.sha256(body).hexdigest())
    )
    within, key = _key(keys.secret, date[:8], scope.region, scope.service)
    text = f"{_ALGORITHM}\n{date}\n{within}\n{hashlib.sha256(request.encode()).hexdigest()}"
    signature = hmac.digest(key, text.encode(), "sha256").hex()
    proof = f"{_ALGORITHM} Credential={keys.key_id}/{within}, SignedHeaders={names}, Signature={signature}"
    return (*own, ("authorization", proof))


def _parts(url: str) -> tuple[str, str, str]:
    """Host with port, path and query of a URL that is known to be whole."""
    rest = url.partition("://")[2]
    place, _, query = rest.partition("?")
    authority, slash, path = place.partition("/")
    return authority, f"{slash}{path}" or "/", query


def _header_lines(fields: Sequence[tuple[str, str]]) -> tuple[str, str]:
    """The lines of the headers, and their names: sorted, values of one name joined, white space made one space."""
    by_name: dict[str, str] = {}
    for name, value in fields:
        value = " ".join(value.split()) if "  " in value or "\t" in value or "\n" in value else value.strip()
        by_name[name] = f"{by_name[name]},{value}" if name in by_name else value
    names = sorted(by_name)
    return "".join([f"{name}:{by_name[name]}\n" for name in names]), ";".join(names)


@lru_cache(maxsize=256)
def _twice_encoded(path: str) -> str:
    """The path that was sent, encoded again; what is sent of one worker is few paths."""
    return quote(path, safe="/~-_.")


def _sorted_query(query: str) -> str:
    """The parameters of a query by name and value, encoded the way AWS does it."""
    if not query:
        return ""
    pairs = (each.partition("=") for each in query.split("&") if each)
    return "&".join(sorted(f"{_query_encoded(name)}={_query_encoded(value)}" for name, _, value in pairs))


def _query_encoded(text: str) -> str:
    return quote(unquote_plus(text), safe="~-_.")


@lru_cache(maxsize=64)
def _key(secret: str, day: str, region: str, service: str) -> tuple[str, bytes]:
    """What a key of one day, region and service is good for, as it is written, and the key."""
    key, parts = f"AWS4{secret}".encode(), (day, region, service, "aws4_request")
    for part in parts:
        key = hmac.digest(key, part.encode(), "sha256")
    return "/".join(parts), key
