"""Bringing media here (edge): the package's one way out to the network and the file system, and its threads.

An edge: it waits, resolves names and opens sockets. Above: applications. Below: `egress` judges every address, `guarded` asks
one, `processes.budget` says whose turn it is, `preparing.prepare` processes what arrives. Redirects begin again from the
judgement. Sizes, times and numbers are bounded, and items are processed in threads so that the event loop goes on.
"""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from typing import TypeVar

import httpx

from smg_egress.resolving import Resolver, resolve_host
from smg_egress.rules import FetchTarget
from smg_multimodal.decoding.costs import Cost, cost_of_measuring
from smg_multimodal.fetching.egress import EgressRules, base64_bytes, data_url, is_bare_base64, site_of
from smg_multimodal.fetching.guarded import GuardedConnection, answer_body, guarded_answer
from smg_multimodal.preparing.content import digest_of
from smg_multimodal.preparing.prepare import Detail, Media, Prepared, Preparer
from smg_multimodal.processes.budget import ByteCount, Claim
from smg_multimodal.processes.decoders import Decoders
from smg_multimodal.processes.places import Places
from smg_multimodal.prompts.expand import ReadyItem
from smg_multimodal.records.errors import MediaBusy, MediaForbidden, MediaTooLarge, MediaUnavailable
from smg_multimodal.records.types import Modality
from smg_multimodal.records.walks import LongWalk

__all__ = ["FetchLimits", "Fetcher", "MediaLoader", "Source", "together"]

Result = TypeVar("Result")

_DECODED_HERE = 256 * 1024
"""Data URLs up to this length are decoded on the event loop, a fraction of a millisecond, where they are base64 in one line."""

_DECODED_AT_ONCE = 4 * 1024
"""Data URLs up to this length are decoded there whatever they are."""

_WALKED_HERE = 64 * 1024
"""Files up to this length have their headers read on the event loop, as far as `_STEPS_HERE` goes."""

_STEPS_HERE = 64
"""Pieces of a file that are gone through on the event loop, in a fraction of a millisecond. What cameras, browsers and cutters
write has fewer; a file of tiny pieces is gone through in a thread."""

_HEADERS = {"accept": "image/*,video/*,audio/*;q=0.9,*/*;q=0.1"}


@dataclass(frozen=True, slots=True)
class FetchLimits:
    """Bytes of one item, seconds to connect and to have it all, fetches at once, and bytes of all items of a request.

    `total_seconds` includes waiting for a place. `lookups` is how many names are resolved at once: a slow name holds its place
    until the system gives up on it. `process_seconds` is how long a request waits for one item to be decoded and processed once
    that has begun; the thread that does it is not stopped, so pixel budgets bound what it costs.
    """

    max_bytes: int = 32 * 1024 * 1024
    connect_seconds: float = 3.0
    total_seconds: float = 10.0
    concurrent: int = 32
    max_request_bytes: int = 128 * 1024 * 1024
    process_seconds: float = 20.0
    lookups: int = 16


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
    long data URLs decoded in `pool`, without one in the event loop's own.

    Of the places to fetch and to resolve, one site (a host and its neighbours) has at most half, one tenant three quarters.
    """

    def __init__(
        self,
        rules: EgressRules | None = None,
        limits: FetchLimits | None = None,
        *,
        resolver: Resolver = resolve_host,
        tls: ssl.SSLContext | None = None,
        pool: Executor | None = None,
    ) -> None:
        self._pool = pool
        self._rules = rules or EgressRules()
        self.limits = limits or FetchLimits()
        self._resolver = resolver
        tls = tls or ssl.create_default_context()
        self._connection = GuardedConnection(tls, self.limits.connect_seconds, self.limits.total_seconds)
        self._slots = _shared_places(self.limits.concurrent)
        self._lookups = _shared_places(self.limits.lookups)

    async def __aenter__(self) -> "Fetcher":
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Nothing is kept between fetches, so there is nothing to close; those under way belong to who waits for them."""

    def count(self) -> ByteCount:
        """For the files of one request together."""
        return ByteCount(self.limits.max_request_bytes)

    async def fetch(self, url: str, *, tenant: str = "", count: ByteCount | None = None) -> bytes:
        """The bytes at `url`, which may be bare base64 too. Raises `MediaForbidden`, `MediaUnavailable`, `MediaTooLarge`,
        `MediaBusy` or `BadMedia`.

        `tenant` is who asks, for a fair share of the places. `count` is that of the request, if it has other items.
        """
        count = self.count() if count is None else count
        scheme = url[:8].partition(":")[0].lower()
        if scheme == "data":
            return await self._inline(url, data_url, count)
        if scheme == "file":
            return await self._read_file(url, count)
        if is_bare_base64(url):
            return await self._inline(url, base64_bytes, count)
        target = self._rules.target(url)
        journey = _Journey(tenant, count)
        try:
            async with asyncio.timeout(self.limits.total_seconds), self._slots.held(tenant, site_of(target.host)):
                return await self._follow(target, journey)
        except TimeoutError as error:
            if not journey.begun:
                raise MediaBusy("too many media are being fetched") from error
            raise MediaUnavailable(f"{target.host} took more than {self.limits.total_seconds:g} s") from error

    async def _inline(self, url: str, decode: Callable[[str, int], bytes], count: ByteCount) -> bytes:
        most = self.limits.max_bytes
        if len(url) < _DECODED_AT_ONCE or (len(url) < _DECODED_HERE and not any(mark in url for mark in "%\r\n")):
            data = decode(url, most)
        else:
            data = await asyncio.get_running_loop().run_in_executor(self._pool, decode, url, most)
        count.add(len(data))
        return data

    async def _read_file(self, url: str, count: ByteCount) -> bytes:
        path = self._rules.file(url)
        data = await asyncio.get_running_loop().run_in_executor(self._pool, self._file_bytes, path, count.left)
        count.add(len(data))
        return data

    def _file_bytes(self, path: Path, left: int) -> bytes:
        real = self._rules.holds(path.resolve(), (self._rules.files or path).resolve())
        if not real.is_file():
            raise MediaForbidden("this file may not be read")
        most = self.limits.max_bytes
        with real.open("rb") as file:  # it may grow while it is read
            data = file.read(min(most, left) + 1)
        if len(data) > most:
            raise MediaTooLarge(f"the media has more than {most} bytes")
        return data

    async def _follow(self, target: FetchTarget, journey: "_Journey") -> bytes:
        for _ in range(self._rules.max_redirects + 1):
            async with self._answer(target, journey) as answer:
                location = answer.headers.get("location")
                if answer.is_redirect and location is not None:
                    target = self._rules.redirected(target, location)
                    continue
                if answer.status_code != 200:
                    raise MediaUnavailable(f"{target.host} answered {answer.status_code}")
                return await answer_body(answer, self.limits.max_bytes, "the media", journey.count.add)
        raise MediaUnavailable(f"more than {self._rules.max_redirects} redirects")

    async def _addresses(self, target: FetchTarget, journey: "_Journey") -> Sequence[str]:
        """What the name resolves to. A lookup that outlives its fetch keeps its place until it has ended."""
        try:
            ip_address(target.host)
        except ValueError:
            claim = await self._lookups.take(journey.tenant, site_of(target.host))
            looking = asyncio.ensure_future(self._resolver(target.host, target.port))
            looking.add_done_callback(lambda done: self._looked_up(claim, done))
            journey.begun = True
            return await asyncio.shield(looking)
        journey.begun = True
        return [target.host]

    def _looked_up(self, claim: Claim, looking: "asyncio.Future[Sequence[str]]") -> None:
        self._lookups.release(claim)
        if not looking.cancelled():
            looking.exception()  # seen here, in case the fetch that asked has gone

    @contextlib.asynccontextmanager
    async def _answer(self, target: FetchTarget, journey: "_Journey") -> AsyncIterator[httpx.Response]:
        addresses = await self._addresses(target, journey)
        async with guarded_answer(self._rules, target, addresses, self._connection, _HEADERS) as answer:
            yield answer


@dataclass(slots=True)
class _Journey:
    """One fetch through its redirects: who asks, what the request's files count, and whether it did more than wait."""

    tenant: str
    count: ByteCount
    begun: bool = False


def _shared_places(total: int) -> Places:
    return Places(total, (max(1, total * 3 // 4), max(1, total // 2)))


async def together(work: Sequence[Coroutine[object, object, Result]]) -> list[Result]:
    """All results in order; on the first fault the rest is cancelled and the fault raised as it is."""
    tasks = [asyncio.ensure_future(each) for each in work]
    try:
        return list(await asyncio.gather(*tasks))
    finally:
        for task in tasks:
            task.cancel()


@dataclass(eq=False, slots=True)
class _Making:
    """An item on its way: who makes it, whether its turn has come, and how many requests wait for it."""

    task: "asyncio.Future[ReadyItem]"
    begun: "asyncio.Future[None]"
    waiting: int = 0


class MediaLoader:
    """Fetches, recognises and processes the items of a request, several at once, each distinct item once.

    One loader serves one model's `preparer`. Items are processed where `decoders` say, which several loaders share and whoever
    made them closes; or in `pool`, which may be shared too; without either, in `threads` of its own.
    """

    def __init__(
        self,
        preparer: Preparer,
        fetcher: Fetcher,
        *,
        pool: Executor | None = None,
        threads: int = 4,
        decoders: Decoders | None = None,
    ) -> None:
        self._preparer = preparer
        self._fetcher = fetcher
        self._decoders = decoders
        self._owns_pool = pool is None and decoders is None
        shared = decoders.pool if decoders is not None else pool
        self._pool = shared if shared is not None else ThreadPoolExecutor(threads, "media")
        self._running: dict[bytes, _Making] = {}

    def close(self) -> None:
        """Let running items finish and take no more; a pool that was handed in is left as it is."""
        if self._owns_pool:
            self._pool.shutdown(wait=False, cancel_futures=True)

    async def _media(self, source: Source, tenant: str, count: ByteCount) -> Media:
        if source.data is not None:
            data = source.data
            count.add(len(data))
        else:
            data = await self._fetcher.fetch(source.url or "", tenant=tenant, count=count)
        return Media(data, source.modality, source.detail, source.several, tenant)

    async def load(self, sources: Sequence[Source], *, tenant: str = "") -> tuple[list[Media], list[ReadyItem]]:
        """The bytes and the finished items of `sources`, in their order; the first fault is raised."""
        self._preparer.check_count(len(sources))
        count = self._fetcher.count()
        media = self._preparer.grouped(await together([self._media(source, tenant, count) for source in sources]))
        costs = await together([self.cost(each, tenant=tenant) for each in media])
        made = [self.item(each, cost, tenant=tenant) for each, cost in zip(media, costs, strict=True)]
        return media, await together(made)

    async def cost(self, media: Media, *, tenant: str) -> Cost:
        """`Preparer.cost`; for long files, whose markers take a while to walk, off the event loop. Where a foreign library opens
        the file, when it is the item's turn for a process. What is remembered costs what it is. Raises MediaBusy where its turn
        does not come in time."""
        loop = asyncio.get_running_loop()
        isolated = self._preparer.measured_isolated(media)
        key = await self._key(media) if isolated else self._preparer.known_key(media)
        if key is not None and (found := self._preparer.remembered(key)) is not None:
            return Cost(found.features.tokens, found.features.nbytes, 0)
        if isolated:
            async with self._place(cost_of_measuring(len(media.data)), tenant) as pool:
                return await loop.run_in_executor(pool, self._preparer.cost, media)
        if len(media.data) <= _WALKED_HERE:
            with contextlib.suppress(LongWalk):
                return self._preparer.cost(media, _STEPS_HERE)
        return await loop.run_in_executor(self._pool, self._preparer.cost, media)

    async def _key(self, media: Media) -> bytes:
        key = self._preparer.known_key(media)
        if key is None:
            candidate = self._preparer.candidate(media)
            digest = await asyncio.get_running_loop().run_in_executor(self._pool, digest_of, media.data, candidate)
            key = self._preparer.noted_key(media, digest)
        return key

    async def item(self, media: Media, cost: Cost, *, tenant: str) -> ReadyItem:
        """The item of `media`, remembered, being made for somebody else, or made now when it is its turn."""
        key = await self._key(media)
        found = self._preparer.remembered(key)
        if found is not None:
            return found
        making = self._running.get(key) or self._begun(key, media, cost, tenant)
        making.waiting += 1
        try:
            await asyncio.shield(making.begun)
            return await self._finished(making)
        finally:
            making.waiting -= 1
            if not making.waiting and not making.begun.done():
                if self._running.get(key) is making:  # whoever comes while it ends begins anew
                    del self._running[key]
                making.task.cancel()  # nobody wants it any more, and it has only waited

    async def _finished(self, making: _Making) -> ReadyItem:
        seconds = self._fetcher.limits.process_seconds
        try:
            async with asyncio.timeout(seconds):
                return await asyncio.shield(making.task)
        except TimeoutError as error:
            raise MediaTooLarge(f"the media took more than {seconds:g} s to process") from error

    def _begun(self, key: bytes, media: Media, cost: Cost, tenant: str) -> _Making:
        begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        task = asyncio.ensure_future(self._made(key, media, cost, tenant, begun))
        making = self._running[key] = _Making(task, begun)
        task.add_done_callback(partial(self._ended, key, making))
        return making

    def _ended(self, key: bytes, making: _Making, task: "asyncio.Future[ReadyItem]") -> None:
        if self._running.get(key) is making:
            del self._running[key]
        if not making.begun.done():
            making.begun.set_result(None)
        if not task.cancelled():
            task.exception()  # seen here, in case every request that waited for it has gone

    async def _made(
        self, key: bytes, media: Media, cost: Cost, tenant: str, begun: "asyncio.Future[None]"
    ) -> ReadyItem:
        async with self._place(cost, tenant) as pool:
            begun.set_result(None)
            loop = asyncio.get_running_loop()
            features = await loop.run_in_executor(pool, self._preparer.features, media, cost.facts)
            if self._preparer.shares:
                features = await loop.run_in_executor(pool, self._preparer.share, key, features)
        return self._preparer.remember(key, features)

    @contextlib.asynccontextmanager
    async def _place(self, cost: Cost, tenant: str) -> AsyncIterator[Executor]:
        if self._decoders is None:
            yield self._pool
            return
        async with self._decoders.place(cost, tenant) as pool:
            yield pool

    async def prepare(self, ids: Sequence[int], sources: Sequence[Source]) -> Prepared:
        """`Preparer.prepare` for sources that have to be fetched."""
        media, items = await self.load(sources)
        return self._preparer.placed(ids, media, items)
