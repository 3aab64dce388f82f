"""One exchange over ASGI messages: bodies within their bound, and the news that the client has left."""

import asyncio
import gc
import gzip
import itertools
import tracemalloc
import weakref
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg_core.errors import ClientGone, InvalidRequest, PayloadTooLarge, UnsupportedMedia
from smg_core.http.exchange import Exchange
from smg_core.http.queries import MOST_FIELDS
from smg_core.http.scope import DISCONNECT, Disconnect

pytestmark = pytest.mark.anyio


def exchange(
    messages: Sequence[dict[str, Any]] = (), headers: Sequence[tuple[bytes, bytes]] = (), **scope: Any
) -> tuple[Exchange, list[Any]]:
    """An exchange that receives `messages` and then nothing, and the list of what it sends."""
    waiting, sent = list(messages), []

    async def receive() -> dict[str, Any]:
        if not waiting:
            await asyncio.Event().wait()
        return waiting.pop(0)

    async def send(message: Any) -> None:
        sent.append(message)

    made = Exchange({"method": "POST", "path": "/", "headers": list(headers), **scope}, receive, send)
    return made, sent


def pieces(*bodies: bytes) -> list[dict[str, Any]]:
    last = len(bodies) - 1
    return [{"type": "http.request", "body": body, "more_body": at < last} for at, body in enumerate(bodies)]


@pytest.mark.parametrize("bodies", [(b"",), (b"abc",), (b"a", b"b", b"c"), (b"abc", b"")])
async def test_a_body_is_put_together(bodies: tuple[bytes, ...]) -> None:
    made, _ = exchange(pieces(*bodies))

    assert await made.body(3) == b"".join(bodies)


async def test_a_long_body_is_never_copied_whole() -> None:
    """A copy of 64 MiB would stop the event loop for as long as it takes, and hold the memory of two bodies."""
    size, count = 64 * 1024, 256

    async def receive() -> dict[str, Any]:
        nonlocal count
        count -= 1
        return {"type": "http.request", "body": bytes(size), "more_body": count > 0}

    made = Exchange({"method": "POST", "path": "/", "headers": []}, receive, _unsent)
    tracemalloc.start()
    try:
        body = await made.body(1 << 30)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(body) == 256 * size
    assert peak < 1.4 * len(body)


async def _unsent(message: Any) -> None:
    raise AssertionError(message)


@pytest.mark.parametrize("bodies", [(b"abcd",), (b"abc", b"d", b"never read"), (b"", b"abcd")])
async def test_a_body_over_its_bound_is_refused_as_soon_as_it_is(bodies: tuple[bytes, ...]) -> None:
    made, _ = exchange(pieces(*bodies))

    with pytest.raises(PayloadTooLarge, match="3 bytes"):
        await made.body(3)


async def test_a_body_that_is_blank_for_long_is_refused_and_not_read_further() -> None:
    left = iter(pieces(*[b" \n\t\r" * 4096] * 1000))
    count = 0

    async def receive() -> dict[str, Any]:
        nonlocal count
        count += 1
        return next(left)

    made = Exchange({"method": "POST", "path": "/", "headers": []}, receive, _unsent)
    with pytest.raises(InvalidRequest, match="more than 65,536 blanks"):
        await made.body(1 << 30)
    assert count == 5


async def test_some_blanks_before_a_body_and_any_number_behind_its_first_character_are_taken() -> None:
    blanks = b" " * (1 << 16)
    made, _ = exchange(pieces(blanks, b"", b"{", blanks, blanks, b"}"))

    assert await made.body(1 << 30) == blanks + b"{" + blanks * 2 + b"}"


async def test_a_body_that_is_announced_too_long_is_refused_unread() -> None:
    made, _ = exchange([], [(b"content-length", b"4")])

    with pytest.raises(PayloadTooLarge):
        await made.body(3)


async def test_a_client_that_leaves_before_its_body_is_complete_is_gone() -> None:
    made, _ = exchange([*pieces(b"a", b"b")[:1], {"type": "http.disconnect"}])

    with pytest.raises(ClientGone):
        await made.body(10)


async def watched(made: Exchange) -> None:
    made.watch()
    await asyncio.Event().wait()


async def test_a_server_that_calls_ends_the_task_at_once() -> None:
    scope: dict[str, Any] = {DISCONNECT: Disconnect()}
    made, _ = exchange(**scope)
    task = asyncio.create_task(watched(made))
    await asyncio.sleep(0)
    made.scope[DISCONNECT].happened()
    await asyncio.wait([task])

    assert task.cancelled()
    assert made.gone


async def test_a_client_that_has_left_before_it_is_watched_ends_the_task_too() -> None:
    scope: dict[str, Any] = {DISCONNECT: Disconnect()}
    scope[DISCONNECT].happened()
    made, _ = exchange(**scope)
    task = asyncio.create_task(watched(made))
    await asyncio.wait([task])

    assert task.cancelled()
    assert made.gone


async def test_any_other_server_tells_by_a_message() -> None:
    made, _ = exchange([{"type": "http.disconnect"}])
    task = asyncio.create_task(watched(made))
    await asyncio.wait([task])

    assert task.cancelled()
    assert made.gone


async def test_who_leaves_after_the_exchange_is_over_leaves_in_peace() -> None:
    scope: dict[str, Any] = {DISCONNECT: Disconnect()}
    made, _ = exchange(**scope)
    made.watch()
    made.unwatch()
    made.scope[DISCONNECT].happened()
    await asyncio.sleep(0)

    assert not made.gone


class Values(dict[str, str]):
    """Something that an exchange holds and that a test can see go."""


async def test_an_exchange_that_is_over_leaves_nothing_to_the_garbage_collector() -> None:
    scope: dict[str, Any] = {DISCONNECT: Disconnect()}
    made, _ = exchange(**scope)
    made.path_values = Values()
    held = weakref.ref(made.path_values)
    made.watch()
    made.unwatch()
    gc.disable()
    try:
        del made
        assert held() is None
    finally:
        gc.enable()


async def test_a_client_that_waits_to_be_asked_for_a_body_nobody_wants_loses_its_connection() -> None:
    made, sent = exchange([], [(b"expect", b"100-continue")])
    await made.respond(404, b"{}", [])
    asked, kept = exchange(pieces(b"x"), [(b"expect", b"100-continue")])
    await asked.body(10)
    await asked.respond(200, b"{}", [])

    assert (b"connection", b"close") in sent[0]["headers"]
    assert (b"connection", b"close") not in kept[0]["headers"]


@pytest.mark.parametrize(
    ("scope", "path", "raw_path"),
    [
        ({"path": "/a/b"}, "/a/b", b""),
        ({"path": "/a/b", "raw_path": b"/a/b"}, "/a/b", b""),
        ({"path": "/a/b/c", "raw_path": b"/a/b%2Fc"}, "/a/b/c", b"/a/b%2Fc"),
        ({"path": "/in/a/b", "raw_path": b"/in/a%2fb", "root_path": "/in"}, "/a/b", b"/a%2fb"),
        ({"path": "/a/b", "raw_path": b"/in/a%2fb", "root_path": "/in"}, "/a/b", b"/a%2fb"),
        ({"path": "/ü x/a/b", "raw_path": b"/%C3%BC%20x/a%2fb", "root_path": "/ü x"}, "/a/b", b"/a%2fb"),
        ({"path": "/else/a", "raw_path": b"/where%2Fa"}, "/else/a", b""),
    ],
)
async def test_a_path_is_known_decoded_and_as_it_was_sent_without_where_the_app_is_mounted(
    scope: dict[str, Any], path: str, raw_path: bytes
) -> None:
    made, _ = exchange(**scope)

    assert (made.path, made.raw_path) == (path, raw_path)


async def test_a_query_has_its_values_by_name_in_order() -> None:
    made, _ = exchange(query_string=b"include[]=a&include%5B%5D=b&key=&alt=sse&x=%20+1")
    none, _ = exchange()

    assert made.query == {"include[]": ("a", "b"), "key": ("",), "alt": ("sse",), "x": ("  1",)}
    assert none.query == {}


async def test_head_is_answered_with_the_length_and_no_body() -> None:
    made, sent = exchange(method="HEAD")
    await made.respond(200, b"12345", [])

    assert (b"content-length", b"5") in sent[0]["headers"]
    assert sent[1] == {"type": "http.response.body", "body": b"", "more_body": False}


GZIP = [(b"content-encoding", b"gzip")]


@given(st.binary(max_size=300_000) | st.integers(0, 300_000).map(bytes), st.lists(st.integers(0, 400), max_size=5))
async def test_a_gzipped_body_is_read_however_it_arrives(text: bytes, cuts: list[int]) -> None:
    packed = gzip.compress(text)
    at = sorted({0, *(cut for cut in cuts if cut < len(packed)), len(packed)})
    made, _ = exchange(pieces(*(packed[a:b] for a, b in itertools.pairwise(at))), GZIP)

    assert await made.body(400_000) == text


@pytest.mark.parametrize("size", [400_001, 40_000_000])
async def test_a_gzipped_body_is_refused_once_it_is_over_the_bound_inflated(size: int) -> None:
    made, _ = exchange(pieces(gzip.compress(bytes(size))), GZIP)

    with pytest.raises(PayloadTooLarge):
        await made.body(400_000)


@pytest.mark.parametrize(
    "packed",
    [b"", b"{}", gzip.compress(b"{}")[:-1], gzip.compress(b"{}") + b"x", gzip.compress(b"{}") * 2],
    ids=["nothing", "no gzip", "cut off", "more behind it", "two of them"],
)
async def test_what_is_not_one_whole_gzip_is_refused(packed: bytes) -> None:
    made, _ = exchange(pieces(packed), GZIP)

    with pytest.raises(InvalidRequest, match="gzip"):
        await made.body(1000)


@pytest.mark.parametrize("coding", [b"br", b"zstd", b"deflate", b"gzip, gzip", b"x"])
async def test_another_content_coding_is_refused_unread_and_gzip_named(coding: bytes) -> None:
    made, _ = exchange([], [(b"content-encoding", coding)])

    with pytest.raises(UnsupportedMedia):
        await made.body(1000)
    assert (b"accept-encoding", b"gzip") in made.always


@pytest.mark.parametrize("size", [0, 1, 1 << 18, (1 << 18) + 1, 3 << 18])
async def test_a_large_answer_is_written_in_pieces(size: int) -> None:
    made, sent = exchange()
    body = bytes(range(256)) * (size // 256) + bytes(size % 256)

    await made.respond(200, body, [])

    head, *rest = sent
    assert (b"content-length", str(size).encode()) in head["headers"]
    assert b"".join(message["body"] for message in rest) == body
    assert all(len(message["body"]) <= 1 << 18 for message in rest)
    assert [message["more_body"] for message in rest] == [True] * (len(rest) - 1) + [False]


async def test_a_query_of_one_name_many_times_is_read_as_far_as_fields_are_taken() -> None:
    made, _ = exchange(query_string=b"&".join([b"a=%d" % number for number in range(150_000)]))

    assert made.query == {"a": tuple(map(str, range(MOST_FIELDS)))}
