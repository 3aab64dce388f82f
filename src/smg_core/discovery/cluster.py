"""Asks the API server of a Kubernetes cluster (edge).

Two calls: a page of a list, and a watch. The token's file is read before each, since Kubernetes replaces it within the hour; the
authority's certificate when the client is made. A client of our own, since the packages for Kubernetes take 24 to 102 MB and up
to 1.4 s to load for these two calls. Above: kubernetes. Below: httpx.
"""

import asyncio
import os
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import httpx

from smg_core.discovery.settings import DiscoveryConfig
from smg_core.discovery.watching import GONE, Expired, Garbled, ServerRefused
from smg_core.settings import ConfigError

__all__ = ["Cluster", "namespace_of", "server_url"]

OK = 200
UNAUTHORIZED = 401


def server_url(settings: DiscoveryConfig) -> str:
    """Where the API server is: what the settings say, else what Kubernetes tells every pod. Raises ConfigError."""
    if settings.kubernetes_url is not None:
        return settings.kubernetes_url.rstrip("/")
    host, port = os.environ.get("KUBERNETES_SERVICE_HOST"), os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    if not host:
        raise ConfigError(
            "discovery.kubernetes: this is no pod of a cluster; KUBERNETES_SERVICE_HOST names no API server"
        )
    return f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"


def namespace_of(settings: DiscoveryConfig) -> str:
    """The namespace to look in, "" for all of them: what the settings say, else that of the pod that this is. Raises
    ConfigError."""
    if settings.kubernetes_namespace is not None:
        return "" if settings.kubernetes_namespace == "*" else settings.kubernetes_namespace
    path = Path(settings.kubernetes_namespace_file).expanduser()
    try:
        return path.read_text("utf-8").strip()
    except OSError as error:
        raise ConfigError(f"discovery.kubernetes_namespace: it is not set, and {error}") from None


class Cluster:
    """The API server at `url`, while the block of `opened` runs."""

    def __init__(self, url: str, settings: DiscoveryConfig) -> None:
        self._url = url
        self._settings = settings

    @asynccontextmanager
    async def opened(self) -> AsyncIterator["Calls"]:
        """A client of the server. Raises ServerRefused where the authority's certificate cannot be read."""
        context = await asyncio.to_thread(self._context)
        timeout = httpx.Timeout(self._settings.kubernetes_timeout_s)
        async with httpx.AsyncClient(base_url=self._url, verify=context, timeout=timeout, trust_env=False) as http:
            yield Calls(http, self._settings)

    def _context(self) -> ssl.SSLContext:
        path = self._settings.kubernetes_ca_file
        if path is None or not self._url.startswith("https:"):
            return ssl.create_default_context()
        try:
            return ssl.create_default_context(cafile=str(Path(path).expanduser()))
        except OSError as error:  # ssl.SSLError too
            raise ServerRefused(f"discovery.kubernetes_ca_file: {error}") from None


class Calls:
    """The two calls, over one client."""

    def __init__(self, http: httpx.AsyncClient, settings: DiscoveryConfig) -> None:
        self._http = http
        self._settings = settings

    async def page(self, path: str, query: Mapping[str, str]) -> bytearray:
        """A page of a list. Raises Expired, ServerRefused or Garbled."""
        seconds = self._settings.kubernetes_page_s
        try:
            async with (
                asyncio.timeout(seconds),
                self._answer(path, query, self._settings.kubernetes_timeout_s) as answer,
            ):
                return await self._whole(answer)
        except TimeoutError:
            raise ServerRefused(f"a page did not come in {seconds:g} s; see discovery.kubernetes_page_s") from None

    async def _whole(self, answer: httpx.Response) -> bytearray:
        """The bytes of a page. Raises ServerRefused or Garbled."""
        most, found = self._settings.kubernetes_page_bytes, bytearray()
        try:
            async for piece in answer.aiter_bytes():
                found += piece
                if len(found) > most:
                    raise Garbled(f"a page has more than {most} bytes; see discovery.kubernetes_page_bytes")
        except httpx.HTTPError as error:
            raise ServerRefused(_in_words(error)) from None
        return found

    @asynccontextmanager
    async def watch(self, path: str, query: Mapping[str, str], seconds: float) -> AsyncIterator[AsyncIterator[bytes]]:
        """The pieces of a watch, which the server ends after so many seconds; here it is over a little later, whatever has come
        by then. Raises Expired or ServerRefused."""
        limit = seconds + self._settings.kubernetes_timeout_s  # a connection that is dead without a word ends then
        over = asyncio.get_running_loop().time() + limit
        async with self._answer(path, query, limit) as answer:
            yield self._pieces(answer, over)

    async def _pieces(self, answer: httpx.Response, over: float) -> AsyncIterator[bytes]:
        pieces = aiter(answer.aiter_bytes())
        try:
            while True:
                async with asyncio.timeout_at(over):
                    piece = await anext(pieces)
                yield piece
        except StopAsyncIteration:
            return
        except TimeoutError:
            raise ServerRefused("the watch was not ended by the server when it was to be") from None
        except httpx.HTTPError as error:
            raise ServerRefused(f"the watch was cut: {_in_words(error)}") from None

    @asynccontextmanager
    async def _answer(self, path: str, query: Mapping[str, str], seconds: float) -> AsyncIterator[httpx.Response]:
        """The server's answer, if it is a good one."""
        headers = await self._credentials()
        timeout = httpx.Timeout(self._settings.kubernetes_timeout_s, read=seconds)
        request = self._http.build_request("GET", path, params=dict(query), headers=headers, timeout=timeout)
        try:
            async with asyncio.timeout(seconds):  # all of its head, also one that comes byte by byte
                answer = await self._http.send(request, stream=True)
        except TimeoutError:
            raise ServerRefused(f"no head of an answer in {seconds:g} s") from None
        except httpx.HTTPError as error:
            raise ServerRefused(_in_words(error)) from None
        try:
            if answer.status_code == GONE:
                raise Expired
            if answer.status_code != OK:
                raise ServerRefused(_meaning(answer), _retry_after(answer))
            yield answer
        finally:
            await answer.aclose()

    async def _credentials(self) -> dict[str, str]:
        """The header with the token, read anew. Raises ServerRefused where it cannot be read."""
        path = self._settings.kubernetes_token_file
        if path is None:
            return {}
        try:
            token = await asyncio.to_thread(Path(path).expanduser().read_text, "utf-8")
        except (OSError, ValueError) as error:
            raise ServerRefused(f"discovery.kubernetes_token_file: {error}") from None
        return {"authorization": f"Bearer {token.strip()}"}


def _meaning(answer: httpx.Response) -> str:
    more = {UNAUTHORIZED: ": it does not take the token", 403: ": the service account may not list and watch pods"}
    return f"the API server answered {answer.status_code}{more.get(answer.status_code, '')}"


def _retry_after(answer: httpx.Response) -> float:
    """Seconds of the header Retry-After, which Kubernetes writes as a number; 0 where there is none."""
    text = answer.headers.get("retry-after", "")
    return float(text) if text.isascii() and text.isdecimal() else 0.0


def _in_words(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".rstrip(": ")
