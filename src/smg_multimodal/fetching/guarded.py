"""One guarded GET: the only code of these packages that opens a connection to an address that somebody else wrote (edge).

Used by `fetch` for media and by smg_core.auth for the keys of an issuer. A name is resolved once, `egress` judges all its
addresses, and the connection goes to the address that was judged. Each request has a connection of its own and leaves nothing
behind: no cookies, no open connection, no TLS session. Proxies and .netrc of the environment are not read, and redirects are not
followed.
Above: fetch, smg_core.auth. Below: egress, httpx. It needs no numpy.
"""

import contextlib
import ssl
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO

import httpx

from smg_egress.rules import FetchTarget
from smg_multimodal.fetching.egress import EgressRules
from smg_multimodal.records.errors import MediaTooLarge, MediaUnavailable

__all__ = ["GuardedConnection", "answer_body", "guarded_answer"]


@dataclass(frozen=True, slots=True)
class GuardedConnection:
    """How a connection is made: `tls` verifies servers; seconds to connect, and for each wait after that."""

    tls: ssl.SSLContext
    connect_seconds: float
    read_seconds: float


@contextlib.asynccontextmanager
async def guarded_answer(
    rules: EgressRules,
    target: FetchTarget,
    addresses: Sequence[str],
    connection: GuardedConnection,
    headers: Mapping[str, str],
) -> AsyncIterator[httpx.Response]:
    """Ask for `target`, whose host resolved to `addresses`; yields the answer with its body unread, whatever its status.

    Raises MediaForbidden for addresses that may not be reached, and MediaUnavailable where no answer came.
    """
    address = rules.address(target.host, addresses)
    place = f"[{address}]" if ":" in address else address
    timeouts = {
        **dict.fromkeys(("pool", "read", "write"), connection.read_seconds),
        "connect": connection.connect_seconds,
    }
    # A transport, not a client: it keeps no cookies, follows nothing, and reads no proxies or .netrc from the environment.
    transport = httpx.AsyncHTTPTransport(
        verify=connection.tls, trust_env=False, limits=httpx.Limits(max_connections=1, max_keepalive_connections=0)
    )
    async with transport:
        try:
            request = httpx.Request(
                "GET",
                f"{target.scheme}://{place}:{target.port}{target.path}",
                headers={**headers, "accept-encoding": "identity", "host": target.authority},
                extensions={"sni_hostname": target.host, "timeout": timeouts},
            )
            answer = await transport.handle_async_request(request)
        except (httpx.HTTPError, httpx.InvalidURL, ssl.SSLError, OSError) as error:
            raise MediaUnavailable(f"{target.host} could not be reached") from error
        try:
            yield answer
        finally:
            await answer.aclose()


async def answer_body(
    answer: httpx.Response, most: int, what: str, taken: Callable[[int], object] | None = None
) -> bytes:
    """The body of an answer of `guarded_answer`, at most `most` bytes; `taken` is told of each piece's bytes and may raise.

    Raises MediaTooLarge, which calls the body `what`, and MediaUnavailable where the body breaks off.
    """
    stated = answer.headers.get("content-length", "")
    if stated.isdecimal() and (len(stated) > 20 or int(stated) > most):
        raise MediaTooLarge(f"{what} has more than {most} bytes")
    body = BytesIO()
    try:
        # Raw: a compressed body would grow past the budget before it could be counted.
        async for chunk in answer.aiter_raw():
            body.write(chunk)
            if taken is not None:
                taken(len(chunk))
            if body.tell() > most:
                raise MediaTooLarge(f"{what} has more than {most} bytes")
    except (httpx.HTTPError, ssl.SSLError, OSError) as error:
        raise MediaUnavailable(f"{what} could not be read to its end") from error
    return body.getvalue()  # the very bytes that were written to, and no copy
