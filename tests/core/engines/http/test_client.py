"""Connections to an HTTP server: kept, bounded, given up. The server is a socket that says just what it is told."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import pytest
import trustme
from tests.gateway.conftest import eventually
from tests.peers import listening
from tests.shared import PATIENCE

from smg_core.engines.connections.target import Tls
from smg_core.engines.http.client import HttpClient
from smg_core.engines.settings import EnginesConfig
from smg_core.errors import (
    EngineFailed,
    EngineGarbled,
    EngineStalled,
    EngineTimeout,
    InternalError,
    SmgError,
    WorkerBusy,
    WorkerGone,
)

pytestmark = pytest.mark.anyio

Say = Callable[[asyncio.StreamWriter], Awaitable[None]]
OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
OPEN = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
SSE = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n"


@pytest.fixture(params=[False, True], ids=["asyncio", "uvloop"], autouse=True)
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, Any]]:
    return "asyncio", {"use_uvloop": request.param}


@attrs.define
class Peer:
    """Answers the requests of all connections with what `answers` says, the last one again and again. `HANG` says nothing;
    `HANG_UP` closes the connection instead. `requests` are (number of the connection, head, body)."""

    answers: list[Say]
    requests: list[tuple[int, bytes, bytes]] = attrs.field(factory=list)
    connections: int = 0
    gone: int = 0

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        number, self.connections = self.connections, self.connections + 1
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                fields = head.lower().split(b"\r\n")
                length = next((line for line in fields if line.startswith(b"content-length:")), b":0")
                self.requests.append((number, head, await reader.readexactly(int(length.partition(b":")[2]))))
                await (self.answers.pop(0) if len(self.answers) > 1 else self.answers[0])(writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            self.gone += 1
            writer.close()

    @property
    def used(self) -> list[int]:
        """The numbers of the connections that the requests came over."""
        return [number for number, _, _ in self.requests]


def say(*pieces: bytes) -> Say:
    async def write(writer: asyncio.StreamWriter) -> None:
        for piece in pieces:
            writer.write(piece)
            await writer.drain()

    return write


def say_at_once(*pieces: bytes) -> Say:
    """Each piece is a write of its own, and over TLS a record, without a pause between them."""

    async def write(writer: asyncio.StreamWriter) -> None:
        for piece in pieces:
            writer.write(piece)

    return write


async def hang(writer: asyncio.StreamWriter) -> None:
    """Says nothing."""


async def drip(writer: asyncio.StreamWriter) -> None:
    """An answer without an end, of which a little comes all the time."""
    writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
    while not writer.is_closing():
        writer.write(b".")
        await asyncio.sleep(0.002)


def then_closes(*pieces: bytes) -> Say:
    async def write(writer: asyncio.StreamWriter) -> None:
        await say(*pieces)(writer)
        writer.close()
        await writer.wait_closed()

    return write


@asynccontextmanager
async def talking(
    *answers: Say, tls: ssl.SSLContext | None = None, tls_settings: Tls | None = None, **options: Any
) -> AsyncIterator[tuple[Peer, HttpClient]]:
    peer = Peer(list(answers))
    async with listening(peer.take, tls) as port:
        options["limits"] = attrs.evolve(EnginesConfig(), **options.pop("bounds", {}))
        scheme, options["tls"] = "https" if tls else "http", tls_settings
        client = HttpClient(f"{scheme}://{options.pop('host', '127.0.0.1')}:{port}", **options)
        try:
            yield peer, client
        finally:
            await client.close()


class Heard:
    """A receiver that keeps what it hears."""

    def __init__(self) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.pieces: list[bytes] = []
        self.error: SmgError | None = None
        self.over = asyncio.Event()

    def head(self, status: int, headers: dict[str, str]) -> None:
        assert not self.status
        self.status, self.headers = status, headers

    def body(self, piece: bytes) -> None:
        assert self.status
        assert piece
        assert not self.over.is_set()
        self.pieces.append(piece)

    def closed(self, error: SmgError | None) -> None:
        assert not self.over.is_set()
        self.error = error
        self.over.set()


async def ok(client: HttpClient, path: str = "/", **options: Any) -> None:
    answer = await client.ask("GET", path, timeout=PATIENCE, **options)
    assert (answer.status, answer.body) == (200, b"ok")


# ---------------------------------------------------------------------------------------------------------- connections


async def test_a_connection_is_used_again() -> None:
    async with talking(say(OK)) as (peer, client):
        for _ in range(3):
            await ok(client)

        assert peer.used == [0, 0, 0]
        assert client.connections == 1
        assert not client.in_flight


async def test_calls_at_once_have_connections_of_their_own_and_leave_as_many_as_may_be_kept() -> None:
    async with talking(hang, hang, say(OK), bounds={"http_idle_connections": 1}) as (peer, client):
        first, second = [asyncio.ensure_future(ok(client)) for _ in range(2)]
        await eventually(lambda: len(peer.requests) == 2)
        peer.answers = [say(OK)]
        third = asyncio.ensure_future(ok(client))
        await third
        assert {*peer.used} == {0, 1, 2}
        for each in (first, second):
            each.cancel()
        await eventually(lambda: peer.gone == 2)
        await ok(client)
        assert {*peer.used[:2]} == {0, 1}
        assert peer.used[2:] == [2, 2]


async def test_one_that_is_kept_too_long_is_closed() -> None:
    async with talking(say(OK), bounds={"http_keep_alive_s": 0.01}) as (peer, client):
        await ok(client)
        await eventually(lambda: peer.gone == 1)
        await ok(client)
        assert client.connections == 2


async def test_none_is_kept_where_none_may_be() -> None:
    async with talking(say(OK), bounds={"http_keep_alive_s": 0}) as (peer, client):
        await ok(client)
        await eventually(lambda: peer.gone == 1)


async def test_a_call_waits_for_a_connection_and_the_next_one_gets_it() -> None:
    async with talking(hang, say(OK), bounds={"http_connections": 1}) as (peer, client):
        held = Heard()
        call = await client.start("POST", "/", b"a", held)
        waiting = [asyncio.ensure_future(ok(client)) for _ in range(3)]
        await asyncio.sleep(0)
        waiting[0].cancel()
        await eventually(lambda: peer.requests)
        call.cancel()
        await asyncio.gather(*waiting[1:])

        assert peer.used == [0, 1, 1]
        assert not client.in_flight


async def test_a_call_that_gets_no_connection_in_its_time_is_refused_as_busy() -> None:
    async with talking(hang, bounds={"http_connections": 1}) as (_, client):
        call = await client.start("POST", "/", b"", Heard())
        with pytest.raises(WorkerBusy):
            await client.start("POST", "/", b"", Heard(), connect_timeout=0.01)
        with pytest.raises(EngineTimeout):
            await client.start("POST", "/", b"", Heard(), timeout=0.01)
        call.cancel()
        assert not client.in_flight


async def test_questions_have_connections_of_their_own_where_all_are_in_use() -> None:
    bounds = {"http_connections": 1, "question_calls": 2}
    async with talking(hang, say(OK), hang, bounds=bounds) as (peer, client):
        call = await client.start("POST", "/", b"", Heard())
        await eventually(lambda: len(peer.requests) == 1)
        for _ in range(3):
            peer.answers = [say(OK)]
            assert (await client.ask("GET", "/health", timeout=PATIENCE, question=True)).body == b"ok"
            await eventually(lambda: peer.connections - peer.gone == 1)  # those are not kept
        peer.answers = [hang]
        hung = [asyncio.ensure_future(client.ask("GET", "/", timeout=PATIENCE, question=True)) for _ in range(2)]
        await eventually(lambda: peer.connections - peer.gone == 3)
        with pytest.raises(EngineTimeout):
            await client.ask("GET", "/health", timeout=0.01, question=True)
        for each in hung:
            each.cancel()
        await asyncio.gather(*hung, return_exceptions=True)
        peer.answers = [say(OK)]
        assert (await client.ask("GET", "/health", timeout=PATIENCE, question=True)).body == b"ok"
        call.cancel()


@pytest.mark.full
@pytest.mark.parametrize("others", [True, False])
async def test_a_question_for_which_nothing_became_free_tells_whether_others_were_answered(others: bool) -> None:
    bounds = {"http_connections": 1, "question_calls": 0, "waiting_calls": 0}
    async with talking(drip if others else hang, bounds=bounds) as (peer, client):
        call = await client.start("POST", "/", b"", Heard())
        await eventually(lambda: len(peer.requests) == 1)
        asking = asyncio.ensure_future(client.ask("GET", "/health", timeout=2.0, question=True))
        with pytest.raises(WorkerBusy if others else EngineTimeout) as caught:
            await asking
        call.cancel()

    assert getattr(caught.value, "answers_others", False) is others


async def test_questions_that_wait_get_in_their_order_what_was_kept_for_questions() -> None:
    bounds = {"http_connections": 1, "question_calls": 1}
    async with talking(hang, bounds=bounds) as (peer, client):
        call = await client.start("POST", "/", b"", Heard())
        await eventually(lambda: len(peer.requests) == 1)
        holding = asyncio.ensure_future(client.ask("GET", "/held", timeout=PATIENCE, question=True))
        await eventually(lambda: len(peer.requests) == 2)
        other = asyncio.ensure_future(client.start("POST", "/other", b"", Heard()))
        asking = [asyncio.ensure_future(ok(client, path=f"/{number}", question=True)) for number in range(3)]
        await asyncio.sleep(0)
        peer.answers = [say(OK)]
        holding.cancel()
        await asyncio.gather(*asking)

        assert [head.split()[1] for _, head, _ in peer.requests[2:]] == [b"/0", b"/1", b"/2"]
        assert not other.done()
        call.cancel()
        (await other).cancel()


@pytest.mark.parametrize("others", [True, False])
async def test_a_question_for_which_the_queue_has_no_room_tells_whether_others_were_answered(others: bool) -> None:
    bounds = {"http_connections": 1, "question_calls": 0, "waiting_calls": 0}
    async with talking(drip if others else hang, bounds=bounds) as (peer, client):
        call = await client.start("POST", "/", b"", Heard())
        await eventually(lambda: len(peer.requests) == 1)
        waiting = asyncio.ensure_future(client.ask("POST", "/abort", timeout=PATIENCE, question=True))
        await asyncio.sleep(0)
        reads = client.reads
        await eventually(lambda: client.reads > reads or not others)
        with pytest.raises(WorkerBusy) as caught:
            await client.ask("GET", "/health", timeout=PATIENCE, question=True)
        waiting.cancel()
        call.cancel()

    assert caught.value.answers_others is others


@pytest.mark.full
@pytest.mark.sampled(keep=2)
@pytest.mark.parametrize("question", [True, False])
async def test_a_server_that_takes_no_connection_in_time_is_late_whatever_comes_over_others(
    monkeypatch: pytest.MonkeyPatch, question: bool
) -> None:
    async def never(link: object) -> None:
        reads = client.reads
        await eventually(lambda: client.reads > reads)
        await asyncio.get_running_loop().create_future()

    async with talking(drip) as (peer, client):
        call = await client.start("POST", "/", b"", Heard())
        await eventually(lambda: len(peer.requests) == 1)
        monkeypatch.setattr(client, "_open_socket", never)
        with pytest.raises(EngineTimeout):
            await client.ask("GET", "/health", timeout=0.2, question=question)
        client.connect_timeout = 0.1
        with pytest.raises(WorkerGone):
            await client.ask("GET", "/health", timeout=PATIENCE, question=question)
        call.cancel()


async def test_no_more_calls_wait_than_may() -> None:
    async with talking(hang, bounds={"http_connections": 1, "waiting_calls": 0}) as (_, client):
        call = await client.start("POST", "/", b"", Heard())
        with pytest.raises(WorkerBusy, match="no room"):
            await client.start("POST", "/", b"", Heard())
        call.cancel()


async def test_places_are_free_again_whatever_became_of_their_connections() -> None:
    async with talking(then_closes(b"no HTTP at all\r\n\r\n"), bounds={"http_connections": 2}) as (peer, client):
        for _ in range(5):
            with pytest.raises(EngineGarbled):
                await ok(client)
        peer.answers = [then_closes(OK)]
        for _ in range(5):
            await ok(client)
    with pytest.raises(WorkerGone, match="not available"):
        await ok(client)


async def test_a_server_that_nobody_listens_for_is_gone() -> None:
    client = HttpClient("http://127.0.0.1:1", limits=EnginesConfig(http_connections=1))
    for _ in range(3):
        with pytest.raises(WorkerGone) as caught:
            await ok(client)
    await client.close()
    assert "127.0.0.1" not in caught.value.message
    assert "127.0.0.1:1" in str(caught.value.detail)


# ----------------------------------------------------------------------------------------------------- stale connections

REPEATS = {"http_repeat_s": 60.0}  # however busy the machine is


async def test_a_request_whose_kept_connection_is_gone_is_sent_once_more_on_a_new_one() -> None:
    async with talking(say(OK), then_closes(), say(OK), bounds=REPEATS) as (peer, client):
        await ok(client)
        answer = await client.ask("POST", "/", b"body", timeout=PATIENCE)

        assert answer.body == b"ok"
        assert peer.used == [0, 0, 1]
        assert [body for _, _, body in peer.requests[1:]] == [b"body", b"body"]


async def test_a_request_that_is_sent_once_more_has_its_own_time_to_connect_again() -> None:
    said = [say(OK), then_closes(), say(OK)]
    async with talking(*said, bounds=REPEATS, connect_timeout=0.0) as (peer, client):
        for _ in range(2):
            heard = Heard()
            await client.start("POST", "/", b"body", heard, connect_timeout=PATIENCE)
            await heard.over.wait()
            assert (heard.status, heard.error) == (200, None)

        assert peer.used == [0, 0, 1]


async def test_a_question_that_is_sent_once_more_has_the_room_of_questions_again() -> None:
    close = asyncio.Event()

    async def answer(writer: asyncio.StreamWriter) -> None:
        path = peer.requests[-1][1].split()[1]
        if path == b"/health" and not close.is_set():
            await close.wait()
            writer.close()
        elif path != b"/long":
            await say(OK)(writer)

    async with talking(answer, bounds={"http_connections": 1, "question_calls": 1, **REPEATS}) as (peer, client):
        await ok(client)
        asking = asyncio.ensure_future(ok(client, path="/health", question=True))
        await eventually(lambda: len(peer.requests) == 2)
        waiting = asyncio.ensure_future(client.start("POST", "/long", b"", Heard()))
        await asyncio.sleep(0)
        close.set()
        await asking
        (await waiting).cancel()

    assert client.connections == 3


async def test_it_is_sent_only_once_more() -> None:
    async with talking(say(OK), then_closes(), bounds=REPEATS) as (peer, client):
        await ok(client)
        with pytest.raises(WorkerGone):
            await ok(client)
        assert peer.used == [0, 0, 1]


async def test_what_an_engine_may_have_worked_on_is_not_sent_to_it_again() -> None:
    async with talking(say(OK), then_closes(), say(OK), bounds={"http_repeat_s": 0.0}) as (peer, client):
        await ok(client)
        with pytest.raises(WorkerGone):
            await ok(client)
        assert peer.used == [0, 0]


async def test_a_new_connection_that_ends_is_no_reason_to_ask_again() -> None:
    async with talking(then_closes()) as (peer, client):
        with pytest.raises(WorkerGone):
            await ok(client)
        assert peer.used == [0]


async def test_what_must_not_happen_twice_is_not_asked_again() -> None:
    async with talking(say(OK), then_closes()) as (peer, client):
        await ok(client)
        with pytest.raises(WorkerGone):
            await ok(client, repeatable=False)
        assert peer.used == [0, 0]


async def test_an_answer_that_has_begun_is_not_asked_for_again() -> None:
    async with talking(say(OK), then_closes(b"HTTP/1.1 200")) as (peer, client):
        await ok(client)
        with pytest.raises(WorkerGone):
            await ok(client)
        assert peer.used == [0, 0]


async def test_a_server_that_speaks_unasked_loses_its_connection() -> None:
    async with talking(say(OK, OK), say(OK)) as (peer, client):
        await ok(client)
        await eventually(lambda: peer.gone == 1)
        await ok(client)
        assert peer.used == [0, 1]


async def test_a_repeated_request_that_is_cancelled_leaves_nothing() -> None:
    async with talking(say(OK), then_closes(), hang, bounds={"http_connections": 1}) as (peer, client):
        await ok(client)
        heard = Heard()
        call = await client.start("POST", "/", b"", heard)
        await eventually(lambda: len(peer.requests) == 3)
        call.cancel()
        peer.answers = [say(OK)]
        await ok(client)
        assert not client.in_flight
        assert not heard.over.is_set()


# ------------------------------------------------------------------------------------------------------------- answers


async def test_an_answer_is_pushed_as_it_comes() -> None:
    async with talking(say(OPEN, b"3\r\none\r\n", b"3\r\ntwo\r\n", b"0\r\n\r\n")) as (_, client):
        heard = Heard()
        await client.start("POST", "/", b"", heard)
        await heard.over.wait()

        assert (heard.status, b"".join(heard.pieces), heard.error) == (200, b"onetwo", None)


async def test_a_large_body_arrives_as_it_was_and_the_answer_may_come_before_its_end() -> None:
    body = bytes(range(256)) * 20_000
    async with talking(say(OK)) as (peer, client):
        answer = await client.ask("POST", "/", body, timeout=PATIENCE)
        assert answer.body == b"ok"
        assert peer.requests[0][2] == body


async def test_an_error_that_comes_before_the_request_was_read_is_the_answer() -> None:
    refusal = b"HTTP/1.1 413 Too Large\r\ncontent-length: 3\r\n\r\nbig"

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(refusal)
        await reader.read()

    async with listening(refuse) as port:
        client = HttpClient(f"http://127.0.0.1:{port}")
        answer = await client.ask("POST", "/", bytes(30_000_000), timeout=PATIENCE)
        assert (answer.status, answer.body) == (413, b"big")
        await client.close()


async def test_more_of_an_answer_than_is_wanted_is_cut_off_and_its_connection_closed() -> None:
    async with talking(say(b"HTTP/1.1 200 OK\r\ncontent-length: 90\r\n\r\n" + b"a" * 80)) as (peer, client):
        answer = await client.ask("GET", "/", timeout=PATIENCE, most=10)
        assert (answer.body, answer.cut) == (b"a" * 10, True)
        await eventually(lambda: peer.gone == 1)


async def test_a_redirect_is_not_followed_and_named() -> None:
    moved = b"HTTP/1.1 307 Elsewhere\r\nlocation: http://127.0.0.1:1/x\r\ncontent-length: 0\r\n\r\n"
    async with talking(say(moved)) as (peer, client):
        with pytest.raises(EngineFailed) as caught:
            await ok(client)
        assert "http://127.0.0.1:1/x" in str(caught.value.detail)
        assert "127.0.0.1" not in caught.value.message
        assert len(peer.requests) == 1


async def test_only_an_answer_that_is_not_compressed_is_asked_for_and_taken() -> None:
    packed = b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 2\r\n\r\nok"
    async with talking(say(packed)) as (peer, client):
        with pytest.raises(EngineGarbled, match="compressed"):
            await ok(client)
        assert b"\r\naccept-encoding: identity\r\n" in peer.requests[0][1]


async def test_cookies_are_not_kept() -> None:
    async with talking(say(OK.replace(b"\r\n\r\n", b"\r\nset-cookie: a=b\r\n\r\n"))) as (peer, client):
        await ok(client)
        await ok(client)
        assert b"a=b" not in peer.requests[1][1]


async def test_a_body_without_a_length_ends_with_its_connection() -> None:
    async with talking(then_closes(SSE, b"data: 1\n\n")) as (_, client):
        answer = await client.ask("GET", "/", timeout=PATIENCE)
        assert answer.body == b"data: 1\n\n"


async def test_an_answer_that_is_cut_short_is_lost() -> None:
    async with talking(then_closes(OPEN, b"3\r\none\r\n")) as (_, client):
        heard = Heard()
        await client.start("POST", "/", b"", heard)
        await heard.over.wait()
        assert type(heard.error) is WorkerGone
        assert heard.pieces == [b"one"]


# ------------------------------------------------------------------------------------------------------- times and ends


@pytest.mark.parametrize(
    "said", [b"", b"HTTP/1.1 200 OK\r\nx: ", OPEN, OPEN + b"3\r\non"], ids=["hangs", "head", "body", "chunk"]
)
async def test_a_server_that_hangs_is_late_wherever_it_does(said: bytes) -> None:
    async with talking(say(said)) as (peer, client):
        heard = Heard()
        await client.start("POST", "/", b"", heard, timeout=0.05)
        await heard.over.wait()
        assert type(heard.error) is EngineTimeout
        await eventually(lambda: peer.gone == 1)
        assert not client.in_flight


async def test_a_head_that_drips_is_bounded() -> None:
    async def drip(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n")
        while True:
            writer.write(b"x: y\r\n" * 50)
            await writer.drain()

    async with talking(drip, bounds={"header_block_bytes": 1024}) as (_, client):
        with pytest.raises(EngineGarbled):
            await ok(client)


async def test_a_call_that_is_cancelled_closes_its_connection_and_says_nothing_more() -> None:
    async with talking(say(OPEN, b"3\r\none\r\n")) as (peer, client):
        heard = Heard()
        call = await client.start("POST", "/", b"", heard)
        await eventually(lambda: heard.pieces)
        call.cancel()
        call.cancel()
        await eventually(lambda: peer.gone == 1)
        assert not heard.over.is_set()
        assert not client.in_flight


async def test_a_call_may_be_cancelled_by_what_it_brings() -> None:
    async with talking(say(OK), say(OPEN + b"3\r\none\r\n0\r\n\r\n"), say(OK)) as (_, client):

        class Leaving(Heard):
            def body(self, piece: bytes) -> None:
                super().body(piece)
                call.cancel()

        await ok(client)
        heard = Leaving()
        call = await client.start("POST", "/", b"", heard)
        await eventually(lambda: heard.pieces)
        await ok(client)
        assert not heard.over.is_set()


async def test_the_connection_of_a_call_that_is_left_is_kept_if_its_answer_ends() -> None:
    async with talking(say(OPEN, b"3\r\none\r\n", b"0\r\n\r\n"), say(OK)) as (peer, client):

        class Leaving(Heard):
            def body(self, piece: bytes) -> None:
                super().body(piece)
                call.leave()

        heard = Leaving()
        call = await client.start("POST", "/", b"", heard)
        await eventually(lambda: heard.pieces and not client.in_flight)
        await ok(client)
        assert peer.used == [0, 0]


async def test_the_connection_of_a_call_that_is_left_is_closed_if_its_answer_does_not_end() -> None:
    async with talking(say(OPEN, b"3\r\none\r\n"), bounds={"http_end_s": 0.01}) as (peer, client):
        heard = Heard()
        call = await client.start("POST", "/", b"", heard)
        await eventually(lambda: heard.pieces)
        call.leave()
        await eventually(lambda: peer.gone == 1)
        assert not client.in_flight


async def test_a_call_that_is_paused_holds_the_server_back_and_loses_nothing() -> None:
    total, written = 40_000_000, 0

    async def flood(writer: asyncio.StreamWriter) -> None:
        nonlocal written
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % total)
        while written < total:
            writer.write(b"a" * 100_000)
            written += 100_000
            await writer.drain()

    async with talking(flood) as (_, client):
        heard = Heard()
        call = await client.start("POST", "/", b"", heard)
        await eventually(lambda: heard.pieces)
        call.pause()
        before = -1
        while before != written:
            before = written
            await asyncio.sleep(0.05)
        assert written < total
        call.resume()
        await heard.over.wait()
        assert sum(map(len, heard.pieces)) == total
        assert max(map(len, heard.pieces)) <= 16 * 1024


async def test_a_server_that_does_not_take_the_request_is_given_up() -> None:
    async def deaf(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asyncio.Event().wait()

    async with listening(deaf) as port:
        client = HttpClient(f"http://127.0.0.1:{port}", connect_timeout=0.2)
        heard = Heard()
        await client.start("POST", "/", bytes(50_000_000), heard)
        await heard.over.wait()
        assert type(heard.error) is EngineStalled
        await client.close()


async def test_closing_ends_every_call_and_every_connection() -> None:
    async with talking(say(OK), hang, bounds={"http_connections": 2}) as (peer, client):
        await ok(client)
        heard = [Heard() for _ in range(2)]
        for each in heard:
            await client.start("POST", "/", b"", each)
        waiting = asyncio.ensure_future(ok(client))
        await asyncio.sleep(0)
        await client.close()
        await client.close()
        with pytest.raises(WorkerGone):
            await waiting
        assert [type(each.error) for each in heard] == [WorkerGone, WorkerGone]
        await eventually(lambda: peer.gone == 2)


# ------------------------------------------------------------------------------------------------------ what is not said


async def test_headers_of_the_worker_are_sent_and_appear_in_no_error() -> None:
    secret = "Bearer sk-secret"
    moved = b"HTTP/1.1 302 Found\r\nlocation: /?k=sk-secret\r\ncontent-length: 0\r\n\r\n"
    async with talking(say(moved), headers=[("authorization", secret)]) as (peer, client):
        with pytest.raises(EngineFailed) as caught:
            await client.ask("GET", "/", timeout=PATIENCE, headers=[("x-more", "1")])
        assert f"\r\nauthorization: {secret}\r\nx-more: 1\r\n".encode() in peer.requests[0][1]
        assert "sk-secret" not in f"{caught.value.detail}{caught.value.message}"


async def test_a_header_that_would_break_the_message_is_not_sent() -> None:
    async with talking(say(OK)) as (peer, client):
        with pytest.raises(InternalError):
            await client.ask("GET", "/", timeout=PATIENCE, headers=[("x", "a\r\nb: c")])
        assert not peer.requests
        assert not client.in_flight


# ------------------------------------------------------------------------------------------------------ TLS and sockets


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


def server_tls(authority: trustme.CA, *, ask_for_certificate: bool = False) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("engine.test").configure_cert(context)
    if ask_for_certificate:
        authority.configure_trust(context)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


async def test_a_server_is_believed_by_its_authority_and_name(authority: trustme.CA) -> None:
    tls = Tls(ca=authority.cert_pem.bytes(), server_name="engine.test")
    async with talking(say(OK), tls=server_tls(authority), tls_settings=tls) as (peer, client):
        await ok(client)
        await ok(client)
        assert peer.used == [0, 0]


def whole_head(body: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(body)


async def test_what_is_written_in_many_records_arrives_as_it_was_and_nothing_of_an_earlier_answer(
    authority: trustme.CA,
) -> None:
    earlier, body = b"of another request " * 800, b"all of it"
    events = [b"data: %d of this answer\n\n" % number for number in range(3000)]
    chunks = [b"%x\r\n%s\r\n" % (len(event), event) for event in events]
    answers = (
        say(whole_head(earlier), earlier),
        say_at_once(whole_head(body), body),
        say(whole_head(earlier), earlier),
        say_at_once(OPEN, *chunks, b"0\r\n\r\n"),
    )
    tls = Tls(ca=authority.cert_pem.bytes(), server_name="engine.test")
    async with talking(*answers, tls=server_tls(authority), tls_settings=tls) as (peer, client):
        found = [(await client.ask("GET", "/", timeout=PATIENCE)).body for _ in answers]
        assert found == [earlier, body, earlier, b"".join(events)]
        assert peer.used == [0, 0, 0, 0]


@pytest.mark.parametrize(
    "settings", [None, {"server_name": "other.test"}, {"ca": True}], ids=["system's", "another name", "address"]
)
async def test_a_server_that_is_not_believed_gets_nothing(
    authority: trustme.CA, settings: dict[str, Any] | None
) -> None:
    pem = authority.cert_pem.bytes()
    tls = None if settings is None else Tls(ca=pem, server_name=settings.get("server_name"))
    async with talking(say(OK), tls=server_tls(authority), tls_settings=tls) as (peer, client):
        with pytest.raises(WorkerGone):
            await ok(client)
        assert not peer.requests


async def test_the_gateway_shows_its_certificate_and_a_renewed_one_is_used(
    authority: trustme.CA, tmp_path: Path
) -> None:
    cert, key, ca = tmp_path / "c.pem", tmp_path / "k.pem", tmp_path / "ca.pem"
    stranger = trustme.CA().issue_cert("gateway.test")
    stranger.cert_chain_pems[0].write_to_path(cert)
    stranger.private_key_pem.write_to_path(key)
    authority.cert_pem.write_to_path(ca)
    tls = Tls(ca=ca, cert=cert, key=key, server_name="engine.test")
    async with talking(say(OK), tls=server_tls(authority, ask_for_certificate=True), tls_settings=tls) as (
        peer,
        client,
    ):
        with pytest.raises(WorkerGone):
            await ok(client)
        own = authority.issue_cert("gateway.test")
        own.cert_chain_pems[0].write_to_path(cert)
        own.private_key_pem.write_to_path(key)
        await ok(client)
        assert len(peer.requests) == 1


async def test_certificates_that_are_not_there_are_named(authority: trustme.CA, tmp_path: Path) -> None:
    async with talking(say(OK), tls=server_tls(authority), tls_settings=Tls(ca=tmp_path / "none.pem")) as (_, client):
        with pytest.raises(WorkerGone) as caught:
            await ok(client)
        assert "none.pem" in str(caught.value.detail)


async def test_a_unix_socket(tmp_path: Path) -> None:
    path = f"{tmp_path}/e.sock"
    peer = Peer([say(OK)])
    server = await asyncio.start_unix_server(peer.take, path)
    client = HttpClient(f"http+unix://{path}")
    await ok(client)
    assert b"\r\nhost: localhost\r\n" in peer.requests[0][1]
    await client.close()
    server.close()
