"""Fetching from real servers on this machine: what is brought, what is refused, and that names are resolved once."""

import asyncio
import base64
import gzip
import io
import socket
import ssl
import threading
import tracemalloc
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import numpy as np
import pytest
import trustme
from PIL import Image
from reference_families import FAMILIES
from tests.peers import listening
from tests.shared import PATIENCE

from smg_egress.resolving import resolve_host
from smg_multimodal.configs.files import ModelFiles
from smg_multimodal.decoding.costs import Cost
from smg_multimodal.fetching.egress import EgressRules
from smg_multimodal.fetching.fetch import Fetcher, FetchLimits, MediaLoader, Source
from smg_multimodal.fetching.guarded import answer_body
from smg_multimodal.preparing.prepare import Detail, Media, Preparer
from smg_multimodal.processes.budget import ByteCount
from smg_multimodal.processes.decoders import Decoders
from smg_multimodal.prompts.expand import ReadyItem
from smg_multimodal.records.errors import (
    BadMedia,
    MediaBusy,
    MediaError,
    MediaForbidden,
    MediaTooLarge,
    MediaUnavailable,
)

pytestmark = pytest.mark.anyio

Answer = Callable[[str, asyncio.StreamWriter], Awaitable[None]]
HOST = "pictures.test"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def png(width: int, height: int, colour: str = "red") -> bytes:
    out = io.BytesIO()
    Image.new("RGB", (width, height), colour).save(out, "PNG")
    return out.getvalue()


def reply(body: bytes, status: str = "200 OK", headers: Sequence[str] = ()) -> bytes:
    lines = [f"HTTP/1.1 {status}", f"content-length: {len(body)}", "connection: close", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


class Site:
    """A server on this machine that records what it was asked."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.heads: list[str] = []
        self.resumed: list[bool] = []
        self.port = 0

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            self.heads.append(head)
            if (tls := writer.get_extra_info("ssl_object")) is not None:
                self.resumed.append(tls.session_reused)
            await self.answer(head.split(" ")[1], writer)
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError, ssl.SSLError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def site(answer: Answer, tls: ssl.SSLContext | None = None) -> AsyncIterator[Site]:
    made = Site(answer)
    async with listening(made.connected, tls) as made.port:
        yield made


def serving(**pages: bytes) -> Answer:
    async def answer(path: str, writer: asyncio.StreamWriter) -> None:
        writer.write(pages.get(path.strip("/"), reply(b"", "404 Not Found")))

    return answer


class Names:
    """A resolver with one answer per question, in order; the last is repeated."""

    def __init__(self, *answers: str) -> None:
        self.answers = list(answers or ["127.0.0.1"])
        self.asked: list[str] = []

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        del port
        self.asked.append(host)
        return [self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]]


def open_rules(port: int, **changes: object) -> EgressRules:
    known: dict[str, object] = {
        "schemes": frozenset({"http", "https"}),
        "ports": frozenset({port}),
        "private": frozenset({HOST}),
    }
    return EgressRules(**{**known, **changes})  # type: ignore[arg-type]


@asynccontextmanager
async def visiting(
    answer: Answer, limits: FetchLimits | None = None, **changes: object
) -> AsyncIterator[Callable[[str], Awaitable[bytes]]]:
    """A function that fetches a page of a server that answers so."""
    async with site(answer) as there, Fetcher(open_rules(there.port, **changes), limits, resolver=Names()) as fetcher:
        yield lambda path: fetcher.fetch(f"http://{HOST}:{there.port}/{path}")


async def test_a_picture_is_brought_from_the_address_that_was_judged() -> None:
    async with site(serving(a=reply(png(3, 2)))) as there:
        names = Names()
        async with Fetcher(open_rules(there.port), resolver=names) as fetcher:
            assert await fetcher.fetch(f"http://{HOST}:{there.port}/a") == png(3, 2)
        assert names.asked == [HOST]
        assert f"host: {HOST}:{there.port}" in there.heads[0].lower()


async def test_tls_is_verified_for_the_name_although_the_connection_goes_to_the_address() -> None:
    authority = trustme.CA()
    server, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context()
    authority.issue_cert(HOST).configure_cert(server)
    authority.configure_trust(client)
    async with site(serving(a=reply(b"picture")), server) as there:
        rules = open_rules(there.port, private=frozenset({HOST, "other.test"}))
        async with Fetcher(rules, resolver=Names(), tls=client) as fetcher:
            assert await fetcher.fetch(f"https://{HOST}:{there.port}/a") == b"picture"
            with pytest.raises(MediaUnavailable):
                await fetcher.fetch(f"https://other.test:{there.port}/a")


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]", "2130706433", "0x7f.1", "localhost", "[::ffff:127.0.0.1]"])
async def test_ways_to_write_this_machine_reach_no_server_on_it(host: str) -> None:
    async with site(serving(a=reply(b"secret"))) as there:
        async with Fetcher(open_rules(there.port)) as fetcher:
            with pytest.raises((MediaForbidden, MediaUnavailable)):
                await fetcher.fetch(f"http://{host}:{there.port}/a")
        assert there.heads == []


async def test_a_name_that_changes_its_answer_after_the_judgement_gains_nothing() -> None:
    """The second answer would be this machine; there is no second question for the same request."""
    async with site(serving(a=reply(b"secret"))) as there:
        names = Names("203.0.113.1", "127.0.0.1")
        rules = open_rules(there.port, private=frozenset())
        async with Fetcher(rules, FetchLimits(connect_seconds=0.2), resolver=names) as fetcher:
            with pytest.raises(MediaError):
                await fetcher.fetch(f"http://rebind.test:{there.port}/a")
        assert names.asked == ["rebind.test"]
        assert there.heads == []


async def test_a_redirect_inward_is_refused_and_not_followed() -> None:
    async with site(serving(secret=reply(b"secret"))) as inner:

        async def outward(path: str, writer: asyncio.StreamWriter) -> None:
            del path
            writer.write(reply(b"", "302 Found", [f"location: http://inner.test:{inner.port}/secret"]))

        async with site(outward) as there:
            rules = open_rules(there.port, ports=frozenset({there.port, inner.port}))
            async with Fetcher(rules, resolver=Names()) as fetcher:
                with pytest.raises(MediaForbidden):
                    await fetcher.fetch(f"http://{HOST}:{there.port}/a")
        assert inner.heads == []


@pytest.mark.parametrize(
    "location",
    [
        "file:///etc/hosts",
        "ftp://pictures.test/",
        "http://u:p@pictures.test/",
        "data:,x",
        "http://[oops",
        "http://a..b/",
    ],
)
async def test_a_redirect_to_anything_but_an_allowed_address_is_refused(location: str) -> None:
    async with visiting(serving(a=reply(b"", "307 Temporary Redirect", [f"location: {location}"]))) as get:
        with pytest.raises((MediaForbidden, MediaUnavailable)):
            await get("a")


async def test_allowed_redirects_are_followed_up_to_the_limit() -> None:
    async with site(
        serving(
            a=reply(b"", "301 Moved", ["location: /b"]),
            b=reply(b"there"),
            loop=reply(b"", "302 Found", ["location: /loop"]),
        )
    ) as there:
        names = Names()
        async with Fetcher(open_rules(there.port, max_redirects=2), resolver=names) as fetcher:
            assert await fetcher.fetch(f"http://{HOST}:{there.port}/a") == b"there"
            with pytest.raises(MediaUnavailable):
                await fetcher.fetch(f"http://{HOST}:{there.port}/loop")
        assert len(names.asked) == 2 + 3


async def test_a_body_longer_than_it_says_or_endless_is_cut_off_at_the_budget() -> None:
    sent = 0

    async def endless(path: str, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        if path == "/stated":
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 99999999\r\n\r\n")
            return
        writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
        for _ in range(4000):
            writer.write(b"1000\r\n" + b"x" * 4096 + b"\r\n")
            await writer.drain()
            sent += 4096

    async with visiting(endless, FetchLimits(max_bytes=50_000)) as get:
        for path in ("stated", "endless"):
            with pytest.raises(MediaTooLarge):
                await get(path)
    assert sent < 4000 * 4096


async def test_a_long_answer_is_never_copied_whole() -> None:
    """A copy of 32 MiB would stop the event loop for as long as it takes."""

    class Pieces(httpx.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            for _ in range(256):
                yield bytes(64 * 1024)

    tracemalloc.start()
    try:
        body = await answer_body(httpx.Response(200, stream=Pieces()), 1 << 30, "the media")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(body) == 256 * 64 * 1024
    assert peak < 1.4 * len(body)


async def test_nothing_of_one_fetch_reaches_the_next_nor_the_next_hop() -> None:
    """Two names behind one address, as behind one content network: what the first sets, the second never sees."""
    jar = [f"set-cookie: session{index}={'tenant-a-secret' * 200}; path=/" for index in range(20)]
    pages = serving(
        a=reply(b"picture", headers=jar),
        b=reply(b"picture"),
        hop=reply(b"", "302 Found", ["location: /b", *jar]),
    )
    authority = trustme.CA()
    server, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context()
    authority.issue_cert("a.test", "b.test").configure_cert(server)
    authority.configure_trust(client)
    async with site(pages, server) as there:
        rules = open_rules(there.port, private=frozenset({"a.test", "b.test"}))
        async with Fetcher(rules, resolver=Names(), tls=client) as fetcher:
            for url in ("a.test:{}/a", "b.test:{}/b", "a.test:{}/b", "a.test:{}/hop"):
                assert await fetcher.fetch("https://" + url.format(there.port)) == b"picture"
    heads = [sorted(head.lower().split("\r\n")[1:]) for head in there.heads]
    assert len(heads) == 5
    assert not [line for head in heads for line in head if line.startswith(("cookie", "referer", "authorization"))]
    assert heads[2] == heads[3] == heads[4]  # the same head, whatever came before
    assert there.resumed == [False] * 5


async def test_the_bytes_of_all_files_of_a_request_are_counted_while_they_are_read() -> None:
    """Four files of 40 kB, 100 kB allowed together: the third is stopped at the first byte too many."""
    count, sent = ByteCount(100_000), 0

    async def slowly(path: str, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        writer.write(b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n")
        for _ in range(400 if path == "/endless" else 10):
            writer.write(b"x" * 4000)
            await writer.drain()
            sent += 4000

    async with site(slowly) as there, Fetcher(open_rules(there.port), resolver=Names()) as fetcher:
        for name in ("a", "b"):
            await fetcher.fetch(f"http://{HOST}:{there.port}/{name}", count=count)
        with pytest.raises(MediaTooLarge, match="100000 bytes together"):
            await fetcher.fetch(f"http://{HOST}:{there.port}/endless", count=count)
        with pytest.raises(MediaTooLarge, match="together"):
            await fetcher.fetch("data:;base64,AAAA", count=count)
    assert count.count < 100_000 + 2 * 65536 + 3


class Gate:
    """A resolver that answers when it is told to, and never for `stuck`."""

    def __init__(self, *stuck: str) -> None:
        self.stuck = stuck
        self.asked: list[str] = []

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        del port
        self.asked.append(host)
        if host.endswith(self.stuck):
            await asyncio.Event().wait()
        return ["127.0.0.1"]


@pytest.mark.full
async def test_names_that_never_resolve_leave_places_for_other_sites_and_tenants() -> None:
    gate = Gate("slow.test")
    limits = FetchLimits(total_seconds=0.3, lookups=8, concurrent=8)
    async with site(serving(a=reply(b"picture"))) as there:
        rules = open_rules(there.port, private=frozenset({HOST, ".slow.test"}))
        async with Fetcher(rules, limits, resolver=gate) as fetcher:
            slow = [f"http://{index}.slow.test:{there.port}/" for index in range(20)]
            stuck = [asyncio.ensure_future(fetcher.fetch(url, tenant="a")) for url in slow]
            await asyncio.sleep(0)
            assert await fetcher.fetch(f"http://{HOST}:{there.port}/a", tenant="a") == b"picture"
            assert await fetcher.fetch(f"http://{HOST}:{there.port}/a", tenant="b") == b"picture"
            outcomes = await asyncio.gather(*stuck, return_exceptions=True)
            # a lookup cannot be stopped: its place is taken until the system gives up, for this site alone
            with pytest.raises(MediaBusy):
                await fetcher.fetch(slow[0])
            assert await fetcher.fetch(f"http://{HOST}:{there.port}/a") == b"picture"
    kinds = [type(each) for each in outcomes]
    assert kinds.count(MediaUnavailable) == 4  # half of the places
    assert kinds.count(MediaBusy) == 16  # who merely waited
    assert len([host for host in gate.asked if host.endswith("slow.test")]) == 4


async def test_a_name_is_resolved_outside_the_event_loops_own_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop's pool has no thread left; names resolve all the same, and one that hangs does not hold the others."""
    go_on = threading.Event()
    real = socket.getaddrinfo

    def blocking(host: str, *rest: object, **named: object) -> object:
        if host == "hangs.test":
            go_on.wait(PATIENCE)
            raise OSError("gave up")
        return real("127.0.0.1", *rest, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(socket, "getaddrinfo", blocking)
    with ThreadPoolExecutor(1) as pool:
        asyncio.get_running_loop().set_default_executor(pool)
        busy = asyncio.get_running_loop().run_in_executor(None, go_on.wait, 10)
        hanging = asyncio.ensure_future(resolve_host("hangs.test", 80))
        assert await resolve_host("localhost", 80) == ["127.0.0.1"]
        go_on.set()
        assert await hanging == []
        await busy


@pytest.mark.full
async def test_waiting_for_a_place_is_inside_the_time_out_and_no_fault_of_the_clients() -> None:
    release = asyncio.Event()

    async def held(path: str, writer: asyncio.StreamWriter) -> None:
        await release.wait()
        writer.write(reply(b"picture"))

    async with site(held) as there:
        limits = FetchLimits(total_seconds=1.0, concurrent=1)
        async with Fetcher(open_rules(there.port), limits, resolver=Names()) as fetcher:
            urls = [f"http://{HOST}:{there.port}/{name}" for name in ("held", "a", "b")]
            first, *others = await asyncio.gather(*map(fetcher.fetch, urls), return_exceptions=True)
            assert type(first) is MediaUnavailable
            assert {type(each) for each in others} <= {MediaBusy, MediaUnavailable}  # none waits for longer than that
            release.set()
            assert await fetcher.fetch(urls[1]) == b"picture"  # every place was given back
    assert MediaBusy("x").status == 503
    assert MediaBusy("x").retry_after > 0


async def test_a_compressed_body_is_not_inflated() -> None:
    squeezed = gzip.compress(b"\0" * 30_000_000)
    async with visiting(
        serving(a=reply(squeezed, headers=["content-encoding: gzip"])), FetchLimits(max_bytes=100_000)
    ) as get:
        assert await get("a") == squeezed


async def test_a_server_that_never_finishes_is_left_after_the_time_budget() -> None:
    async def silent(path: str, writer: asyncio.StreamWriter) -> None:
        del path
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nabc")
        await writer.drain()
        await asyncio.Event().wait()

    async with visiting(silent, FetchLimits(total_seconds=0.1)) as get:
        with pytest.raises(MediaUnavailable):
            await get("a")


async def test_errors_of_the_server_and_broken_answers_are_the_clients_to_know() -> None:
    async with visiting(
        serving(bad=b"nonsense\r\n\r\n", short=b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nabc")
    ) as get:
        for path in ("missing", "bad", "short"):
            with pytest.raises(MediaUnavailable):
                await get(path)


async def test_files_are_read_only_below_the_folder_that_is_allowed(tmp_path: Path) -> None:
    folder = tmp_path / "media"
    folder.mkdir()
    (folder / "a b.png").write_bytes(b"inside")
    (tmp_path / "secret").write_bytes(b"outside")
    (folder / "link").symlink_to(tmp_path / "secret")
    async with Fetcher(EgressRules(files=folder)) as fetcher:
        assert await fetcher.fetch(f"file://{folder}/a%20b.png") == b"inside"
        for url in (
            f"file://{tmp_path}/secret",
            f"file://{folder}/../secret",
            f"file://{folder}/%2e%2e/secret",
            f"file://{folder}/link",
            f"file://elsewhere{folder}/a%20b.png",
            f"file://{folder}",
            f"file://{folder}/a%00",
        ):
            with pytest.raises(MediaForbidden):
                await fetcher.fetch(url)
    async with Fetcher() as fetcher:
        with pytest.raises(MediaForbidden):
            await fetcher.fetch(f"file://{folder}/a%20b.png")


def qwen() -> Preparer:
    family = FAMILIES["qwen2.5-vl"]

    class Words:
        def token_id(self, token: str) -> int | None:
            return {"<|image_pad|>": 7}.get(token)

        def encode(self, text: str) -> Sequence[int]:
            return list(text.encode())

    return Preparer(ModelFiles(family.model, family.preprocessor), Words())


async def test_the_items_of_a_request_are_fetched_and_processed_once_each() -> None:
    preparer = qwen()
    made: list[int] = []
    process = preparer.images.item

    class Counting:
        measure, collate = preparer.images.measure, preparer.images.collate

        def item(self, image: Image.Image) -> object:
            made.append(1)
            return process(image)

    preparer.images = Counting()  # type: ignore[assignment]
    pages = serving(a=reply(png(60, 60)), b=reply(png(60, 60, "blue")))
    async with site(pages) as there, Fetcher(open_rules(there.port), resolver=Names()) as fetcher:
        loader = MediaLoader(preparer, fetcher)
        sources = [Source(f"http://{HOST}:{there.port}/{name}") for name in "aabab"]
        prepared = await loader.prepare([1, 7, 2, 7, 7, 7, 7], sources)
        loader.close()
    assert len(made) == 2
    hashes = [place.content_hash for place in prepared.expanded.placeholders]
    assert hashes[0] == hashes[1] == hashes[3] != hashes[2] == hashes[4]


async def test_large_data_urls_are_read_and_recognised_when_they_come_again() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (700, 700, 3), np.uint8)
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, "PNG")
    assert len(out.getvalue()) > 1024 * 1024
    url = "data:image/png;base64," + base64.b64encode(out.getvalue()).decode()
    async with Fetcher() as fetcher:
        preparer = qwen()
        loader = MediaLoader(preparer, fetcher)
        media, (first,) = await loader.load([Source(url)])
        assert media[0].data == out.getvalue()
        assert preparer.known_key(media[0]) == first.content_hash == preparer.key(media[0])
        _, (again,) = await loader.load([Source(url)])
        assert again.features is first.features
        loader.close()


async def test_the_first_fault_of_a_request_is_raised_as_it_is() -> None:
    async with Fetcher() as fetcher:
        loader = MediaLoader(qwen(), fetcher)
        with pytest.raises(BadMedia):
            await loader.load([Source(data=png(30, 30)), Source(data=b"no picture")])
        with pytest.raises(MediaForbidden):
            await loader.load([Source("http://pictures.example/"), Source(data=png(30, 30))])
        with pytest.raises(MediaTooLarge):
            await loader.load([Source(data=png(2, 2))] * 11)
        loader.close()


@pytest.mark.full
async def test_an_item_that_takes_too_long_fails_its_request_and_no_other() -> None:
    preparer, go_on = qwen(), threading.Event()
    process = preparer.images.item

    class Slow:
        measure, collate = preparer.images.measure, preparer.images.collate

        def item(self, image: Image.Image) -> object:
            if image.width == 31:
                go_on.wait(PATIENCE)
            return process(image)

    preparer.images = Slow()  # type: ignore[assignment]
    async with Fetcher(limits=FetchLimits(process_seconds=0.5)) as fetcher:
        loader = MediaLoader(preparer, fetcher)
        with pytest.raises(MediaTooLarge):
            await loader.load([Source(data=png(31, 31))])
        _, items = await loader.load([Source(data=png(30, 30))])
        assert items[0].features.size == (30, 30)
        go_on.set()
        loader.close()


@pytest.mark.parametrize("turns", range(6))
async def test_who_leaves_while_a_picture_waits_for_its_turn_takes_it_from_nobody_who_comes_then(turns: int) -> None:
    preparer, go_on = qwen(), threading.Event()
    process = preparer.images.item

    class Slow:
        measure, collate = preparer.images.measure, preparer.images.collate

        def item(self, image: Image.Image) -> object:
            go_on.wait(PATIENCE)
            return process(image)

    preparer.images = Slow()  # type: ignore[assignment]
    decoders = Decoders(threads=1)
    async with Fetcher() as fetcher:
        loader = MediaLoader(preparer, fetcher, decoders=decoders)

        def asks(size: int) -> asyncio.Task[ReadyItem]:
            return asyncio.create_task(loader.item(Media(png(size, size)), Cost(1, 1, 1), tenant=""))

        first = asks(31)
        while not loader._running:
            await asyncio.sleep(0)
        leaves = asks(30)
        while len(loader._running) < 2:
            await asyncio.sleep(0)
        leaves.cancel()
        for _ in range(turns):
            await asyncio.sleep(0)
        follows = asks(30)
        await asyncio.gather(leaves, return_exceptions=True)
        go_on.set()
        await first
        assert (await follows).features.size == (30, 30)
        loader.close()
    decoders.close()


async def test_loaders_may_share_a_pool_which_outlives_them() -> None:
    class Watched(ThreadPoolExecutor):
        taken = 0

        def submit(self, *arguments: object, **named: object) -> object:  # type: ignore[override]
            self.taken += 1
            return super().submit(*arguments, **named)  # type: ignore[arg-type]

    with Watched(1) as pool:
        async with Fetcher(pool=pool) as fetcher:
            for colour in ("red", "blue"):
                loader = MediaLoader(qwen(), fetcher, pool=pool)
                await loader.load([Source("data:image/png;base64," + base64.b64encode(png(30, 30, colour)).decode())])
                loader.close()
        assert pool.taken == 2
        assert pool.submit(int).result(10) == 0  # type: ignore[attr-defined]


async def test_the_bytes_of_a_request_have_a_budget_together() -> None:
    async with Fetcher(limits=FetchLimits(max_request_bytes=100)) as fetcher:
        loader = MediaLoader(qwen(), fetcher)
        with pytest.raises(MediaTooLarge):
            await loader.load([Source(data=png(40, 40)), Source(data=png(41, 41), detail=Detail.LOW)])
        loader.close()
