"""Gets what an address of the web has, within the rules on addresses: public ones alone, judged at every redirect (edge).

Each name is resolved once, all its addresses are judged, and the connection goes to the address that was judged. Each request has
a connection of its own and leaves nothing behind: no cookies, no open connection. Proxies and .netrc of the environment are not
read. Above: `tools`. Below: smg_egress, httpx.
"""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import ClassVar
from urllib.robotparser import RobotFileParser

import attrs
import httpx

from smg_egress.resolving import Resolver, resolve_host
from smg_egress.rules import FetchTarget, UrlRules
from smg_mcp.records.settings import FetchSettings, SearchSettings
from smg_mcp.web.reading import takes_type
from smg_mcp.web.services import SearchAsked

__all__ = ["Fetched", "PageFetcher", "PageRefused", "PageTooLarge", "asked_of_service"]

_ROBOTS_BYTES = 512 * 1024
_ACCEPT = "text/html,application/xhtml+xml,text/plain,application/json;q=0.9,*/*;q=0.1"


class PageRefused(ValueError):
    """A page cannot be had; the message is for the model, and `code` says in a word why."""

    code: ClassVar[str] = "unreachable"


class PageForbidden(PageRefused):
    """A page may not be read: by the rules on addresses, the operator's settings, or its host's wish."""

    code = "not_allowed"


class PageOfOtherType(PageRefused):
    """What is at the address is no text."""

    code = "wrong_type"


class PageTooLarge(PageRefused):
    """What is at the address is over its bound."""

    code = "too_large"


@dataclass(frozen=True, slots=True)
class PageRules(UrlRules):
    """`UrlRules` for pages."""

    refusal: ClassVar[type[ValueError]] = PageForbidden

    what: str = "a page"


@attrs.frozen
class Fetched:
    """What an address has: where it was found in the end, its type and its bytes."""

    url: str
    content_type: str
    body: bytes


class PageFetcher:
    """Fetches pages, at most `settings.at_once` at the same time."""

    def __init__(self, settings: FetchSettings, *, resolver: Resolver = resolve_host) -> None:
        self._settings, self._resolver = settings, resolver
        self._rules = PageRules(
            schemes=frozenset(settings.schemes),
            hosts=None if settings.hosts is None else frozenset(settings.hosts),
            ports=frozenset(settings.ports),
            private=frozenset(settings.private),
        )
        self._blocked = frozenset(settings.blocked_hosts)
        self._places = asyncio.Semaphore(settings.at_once)
        self._tls: ssl.SSLContext | None = None

    async def fetch(self, url: str) -> Fetched:
        """What is at this address. Raises PageRefused."""
        try:
            async with asyncio.timeout(self._settings.seconds), self._places:
                return await self._followed(self._rules.target(url))
        except TimeoutError:
            raise PageRefused(f"the page did not come within {self._settings.seconds:g} s") from None

    async def _followed(self, target: FetchTarget) -> Fetched:
        headers = {"user-agent": self._settings.user_agent, "accept": _ACCEPT}
        for _ in range(self._settings.redirects + 1):
            self._check_host(target)
            if self._settings.robots:
                await self._check_robots(target)
            async with self._answer(target, headers) as answer:
                if answer.status_code in (301, 302, 303, 307, 308) and "location" in answer.headers:
                    target = self._rules.redirected(target, answer.headers["location"])
                    continue
                if answer.status_code != 200:
                    raise PageRefused(f"{target.host} answered with the status {answer.status_code}")
                content_type = answer.headers.get("content-type", "text/html")
                if not takes_type(content_type.partition(";")[0].strip().lower()):
                    raise PageOfOtherType(f"what is there is no text: its type is {content_type[:80]}")
                body = await _body(answer, self._settings.bytes, "the page")
                return Fetched(target.url, content_type, body)
        raise PageRefused(f"the address redirects more than {self._settings.redirects} times")

    def _check_host(self, target: FetchTarget) -> None:
        host = target.host
        if any(host == each or (each.startswith(".") and host.endswith(each)) for each in self._blocked):
            raise PageForbidden(f"pages of {host} may not be fetched here")

    async def _check_robots(self, target: FetchTarget) -> None:
        """Whether the host lets programs read the address, by its robots.txt; a host without one does. Raises PageRefused."""
        robots = FetchTarget(target.scheme, target.host, target.port, "/robots.txt")
        async with self._answer(robots, {"user-agent": self._settings.user_agent}) as answer:
            if answer.status_code != 200:
                return
            text = (await _body(answer, _ROBOTS_BYTES, "robots.txt")).decode("utf-8", "replace")
        parser = RobotFileParser()
        parser.parse(text.splitlines())
        if not parser.can_fetch(self._settings.user_agent, target.url):
            raise PageForbidden(f"{target.host} asks programs not to read this page (robots.txt)")

    @contextlib.asynccontextmanager
    async def _answer(self, target: FetchTarget, headers: dict[str, str]) -> AsyncIterator[httpx.Response]:
        """The answer to a GET of the target, its body unread. Raises PageRefused."""
        address = self._rules.address(target.host, await self._resolver(target.host, target.port))
        place = f"[{address}]" if ":" in address else address
        if self._tls is None:
            self._tls = ssl.create_default_context()
        # A transport, not a client: it keeps no cookies, follows nothing, and reads nothing of the environment.
        limits = httpx.Limits(max_connections=1, max_keepalive_connections=0)
        async with httpx.AsyncHTTPTransport(verify=self._tls, trust_env=False, limits=limits) as transport:
            try:
                request = httpx.Request(
                    "GET",
                    f"{target.scheme}://{place}:{target.port}{target.path}",
                    headers={**headers, "accept-encoding": "identity", "host": target.authority},
                    extensions={"sni_hostname": target.host},
                )
                answer = await transport.handle_async_request(request)
            except (httpx.HTTPError, httpx.InvalidURL, ssl.SSLError, OSError) as error:
                raise PageRefused(f"{target.host} could not be reached") from error
            try:
                yield answer
            finally:
                await answer.aclose()


async def _body(answer: httpx.Response, most: int, what: str) -> bytes:
    """The body as it was sent: one that is compressed, which was not asked for, would grow past its bound unseen. Raises
    PageRefused."""
    if answer.headers.get("content-encoding", "identity") != "identity":
        raise PageRefused(f"{what} comes in a coding that was not asked for")
    body = bytearray()
    try:
        async for piece in answer.aiter_raw():
            body += piece
            if len(body) > most:
                raise PageTooLarge(f"{what} has more than {most} bytes")
    except (httpx.HTTPError, ssl.SSLError, OSError) as error:
        raise PageRefused(f"{what} could not be read to its end") from error
    return bytes(body)


async def asked_of_service(
    asked: SearchAsked, settings: SearchSettings, make: Callable[[], httpx.AsyncBaseTransport]
) -> bytes:
    """The answer of the operator's search service. Raises PageRefused, which says nothing of its key."""
    headers = {**asked.headers, "accept-encoding": "identity"}
    try:
        async with (
            asyncio.timeout(settings.seconds),
            httpx.AsyncClient(transport=make(), trust_env=False, follow_redirects=False) as client,
            client.stream(asked.method, asked.url, headers=headers, content=asked.body or None) as answer,
        ):
            if answer.status_code != 200:
                raise PageRefused(f"the search service answered with the status {answer.status_code}")
            return await _body(answer, settings.bytes, "the search service's answer")
    except TimeoutError:
        raise PageRefused(f"the search service did not answer within {settings.seconds:g} s") from None
    except (httpx.HTTPError, httpx.InvalidURL, ssl.SSLError, OSError) as error:
        raise PageRefused("the search service cannot be reached") from error
