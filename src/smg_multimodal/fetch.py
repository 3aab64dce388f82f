"""Bringing media here: the package's one way out to the network and the file system, and its threads.

An edge: it waits, resolves names and opens sockets. Above: applications. Below: `egress` judges every address, `prepare`
processes what arrives. A name is resolved once, all its addresses are judged, and the connection goes to the address that
was judged; redirects begin again from the judgement. Sizes, times and numbers are bounded, and items are processed in
threads so that the event loop goes on.
"""

import asyncio
import contextlib
import hashlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

import httpx

from smg_multimodal.egress import EgressRules, Target, data_url
from smg_multimodal.errors import MediaForbidden, MediaTooLarge, MediaUnavailable
from smg_multimodal.expand import ReadyItem
from smg_multimodal.prepare import Detail, Media, Prepared, Preparer
from smg_multimodal.types import Modality

__all__ = ["FetchLimits", "Fetcher", "MediaLoader", "Source", "resolve"]

Result = TypeVar("Result")
Resolver = Callable[[str, int], Awaitable[Sequence[str]]]


_DECODED_HERE = 1024 * 1024
"""Data URLs up to this length are decoded on the event loop: a fraction of a millisecond."""


def _sha256(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


async def resolve(host: str, port: int) -> Sequence[str]:
    """The addresses of `host` as the system's resolver gives them."""
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(host, port, type=1)
    except OSError as error:
        raise MediaUnavailable(f"{host} does not resolve") from error
    return [str(entry[4][0]) for entry in found]


@dataclass(frozen=True, slots=True)
class FetchLimits:
    """Bytes of one item, seconds to connect and to have it all, fetches at once, and bytes of all items of a request.

    `process_seconds` is how long a request waits for one item to be decoded and processed; the thread that does it is not
    stopped, so pixel budgets bound what it costs.
    """

    max_bytes: int = 32 * 1024 * 1024
    connect_seconds: float = 3.0
    total_seconds: float = 10.0
    concurrent: int = 32
    max_request_bytes: int = 128 * 1024 * 1024
    process_seconds: float = 20.0


@dataclass(frozen=True, slots=True)
class Source:
    """Where an item is: a data, https or file URL, or the bytes themselves. `several` says that the prompt has other
    pictures, where they are not loaded in one call."""

    url: str | None = None
    data: bytes | None = None
    modality: Modality = Modality.IMAGE
    detail: Detail = Detail.AUTO
    several: bool = False


class Fetcher:
    """Fetches by rules. `tls` verifies servers; `resolver` is asked once per host of a request or redirect. Files are read and
    long data URLs decoded in `pool`, without one in the event loop's own."""

    def __init__(
        self,
        rules: EgressRules | None = None,
        limits: FetchLimits | None = None,
        *,
        resolver: Resolver = resolve,
        tls: ssl.SSLContext | None = None,
        pool: Executor | None = None,
    ) -> None:
        self._pool = pool
        self._rules = rules or EgressRules()
        self.limits = limits or FetchLimits()
        self._resolver = resolver
        timeout = httpx.Timeout(self.limits.total_seconds, connect=self.limits.connect_seconds)
        connections = httpx.Limits(max_connections=self.limits.concurrent, max_keepalive_connections=0)
        # No proxies, cookies or .netrc from the environment: the connection goes where the rules said.
        self._client = httpx.AsyncClient(
            verify=tls or ssl.create_default_context(),
            timeout=timeout,
            limits=connections,
            trust_env=False,
            follow_redirects=False,
            headers={"accept": "image/*,video/*,audio/*;q=0.9,*/*;q=0.1", "accept-encoding": "identity"},
        )
        self._slots = asyncio.Semaphore(self.limits.concurrent)

    async def __aenter__(self) -> "Fetcher":
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close every connection."""
        await self._client.aclose()

    async def fetch(self, url: str) -> bytes:
        """The bytes at `url`. Raises `MediaForbidden`, `MediaUnavailable`, `MediaTooLarge` or `BadMedia`."""
        scheme = url[:8].partition(":")[0].lower()
        if scheme == "data":
            if len(url) < _DECODED_HERE:
                return data_url(url, self.limits.max_bytes)
            return await asyncio.get_running_loop().run_in_executor(self._pool, data_url, url, self.limits.max_bytes)
        if scheme == "file":
            return await self._read_file(url)
        target = self._rules.target(url)
        try:
            async with self._slots, asyncio.timeout(self.limits.total_seconds):
                return await self._follow(target)
        except TimeoutError as error:
            raise MediaUnavailable(f"{target.host} took more than {self.limits.total_seconds:g} s") from error

    async def _read_file(self, url: str) -> bytes:
        return await asyncio.get_running_loop().run_in_executor(self._pool, self._file_bytes, self._rules.file(url))

    def _file_bytes(self, path: Path) -> bytes:
        real = self._rules.holds(path.resolve(), (self._rules.files or path).resolve())
        if not real.is_file():
            raise MediaForbidden("this file may not be read")
        if real.stat().st_size > self.limits.max_bytes:
            raise MediaTooLarge(f"the media has more than {self.limits.max_bytes} bytes")
        return real.read_bytes()

    async def _follow(self, target: Target) -> bytes:
        for _ in range(self._rules.max_redirects + 1):
            async with self._answer(target) as answer:
                location = answer.headers.get("location")
                if answer.is_redirect and location is not None:
                    target = self._rules.redirected(target, location)
                    continue
                if answer.status_code != 200:
                    raise MediaUnavailable(f"{target.host} answered {answer.status_code}")
                return await self._body(answer)
        raise MediaUnavailable(f"more than {self._rules.max_redirects} redirects")

    @contextlib.asynccontextmanager
    async def _answer(self, target: Target) -> AsyncIterator[httpx.Response]:
        addresses = await self._resolver(target.host, target.port)
        address = self._rules.address(target.host, addresses)
        place = f"[{address}]" if ":" in address else address
        request = self._client.build_request(
            "GET",
            f"{target.scheme}://{place}:{target.port}{target.path}",
            headers={"host": target.authority},
            extensions={"sni_hostname": target.host},
        )
        try:
            answer = await self._client.send(request, stream=True)
        except (httpx.HTTPError, httpx.InvalidURL, ssl.SSLError) as error:
            raise MediaUnavailable(f"{target.host} could not be reached") from error
        try:
            yield answer
        finally:
            await answer.aclose()

    async def _body(self, answer: httpx.Response) -> bytes:
        most = self.limits.max_bytes
        stated = answer.headers.get("content-length", "")
        if stated.isdigit() and int(stated) > most:
            raise MediaTooLarge(f"the media has more than {most} bytes")
        body = bytearray()
        try:
            # Raw: a compressed body would grow past the budget before it could be counted.
            async for chunk in answer.aiter_raw():
                body += chunk
                if len(body) > most:
                    raise MediaTooLarge(f"the media has more than {most} bytes")
        except httpx.HTTPError as error:
            raise MediaUnavailable("the media could not be read to its end") from error
        return bytes(body)


async def _together(work: Sequence[Coroutine[object, object, Result]]) -> list[Result]:
    """All results in order; on the first fault the rest is cancelled and the fault raised as it is."""
    tasks = [asyncio.ensure_future(each) for each in work]
    try:
        return list(await asyncio.gather(*tasks))
    finally:
        for task in tasks:
            task.cancel()


class MediaLoader:
    """Fetches, recognises and processes the items of a request, several at once, each distinct item once.

    One loader serves one model's `preparer`. Items are processed in `pool`, which several loaders may share and whoever made
    it closes; without one, in `threads` of its own.
    """

    def __init__(self, preparer: Preparer, fetcher: Fetcher, *, pool: Executor | None = None, threads: int = 4) -> None:
        self._preparer = preparer
        self._fetcher = fetcher
        self._pool = pool if pool is not None else ThreadPoolExecutor(threads, "media")
        self._owns_pool = pool is None
        self._running: dict[bytes, asyncio.Future[ReadyItem]] = {}

    def close(self) -> None:
        """Let running items finish and take no more; a pool that was handed in is left as it is."""
        if self._owns_pool:
            self._pool.shutdown(wait=False, cancel_futures=True)

    async def _media(self, source: Source) -> Media:
        data = source.data if source.data is not None else await self._fetcher.fetch(source.url or "")
        return Media(data, source.modality, source.detail, source.several)

    async def load(self, sources: Sequence[Source]) -> tuple[list[Media], list[ReadyItem]]:
        """The bytes and the finished items of `sources`, in their order; the first fault is raised."""
        self._preparer.check_count(len(sources))
        media = self._preparer.grouped(await _together([self._media(source) for source in sources]))
        total = sum(len(each.data) for each in media)
        if total > self._fetcher.limits.max_request_bytes:
            raise MediaTooLarge(f"the request's media have {total} bytes together")
        return media, await _together([self._item(each) for each in media])

    async def _item(self, media: Media) -> ReadyItem:
        key = self._preparer.known_key(media)
        if key is None:
            loop = asyncio.get_running_loop()
            digest = await loop.run_in_executor(self._pool, _sha256, media.data)
            key = self._preparer.noted_key(media, digest)
        found = self._preparer.remembered(key)
        if found is not None:
            return found
        running = self._running.get(key)
        if running is None:
            running = asyncio.ensure_future(self._made(key, media))
            self._running[key] = running
            running.add_done_callback(partial(self._finished, key))
        seconds = self._fetcher.limits.process_seconds
        try:
            async with asyncio.timeout(seconds):
                return await asyncio.shield(running)
        except TimeoutError as error:
            raise MediaTooLarge(f"the media took more than {seconds:g} s to process") from error

    def _finished(self, key: bytes, future: "asyncio.Future[ReadyItem]") -> None:
        self._running.pop(key, None)
        if not future.cancelled():
            future.exception()  # seen here, in case every request that waited for it has gone

    async def _made(self, key: bytes, media: Media) -> ReadyItem:
        loop = asyncio.get_running_loop()
        features = await loop.run_in_executor(self._pool, self._preparer.features, media)
        return self._preparer.remember(key, features)

    async def prepare(self, ids: Sequence[int], sources: Sequence[Source]) -> Prepared:
        """`Preparer.prepare` for sources that have to be fetched."""
        media, items = await self.load(sources)
        return self._preparer.placed(ids, media, items)
