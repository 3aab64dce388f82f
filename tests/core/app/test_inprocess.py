"""The in-process client over small apps: streaming as it is written, faults that reach the caller, and leaving."""

import asyncio
from typing import Any

import anyio.to_thread
import httpx
import httpx2
import pytest

from smg_core.app.app_call import BUFFERED
from smg_core.app.inprocess import async_client, sync_client
from smg_core.http.scope import DISCONNECT

pytestmark = pytest.mark.anyio

URL = "http://gateway/path?x=1"


async def echo(scope: Any, receive: Any, send: Any) -> None:
    body = (await receive())["body"]
    said = f"{scope['method']} {scope['path']} {scope['query_string'].decode()} {body.decode()}".encode()
    await send({"type": "http.response.start", "status": 201, "headers": [(b"x-a", b"1"), (b"x-a", b"2")]})
    await send({"type": "http.response.body", "body": said})


@pytest.mark.parametrize("module", [httpx, httpx2])
async def test_a_request_reaches_the_app_and_its_answer_the_caller(module: Any) -> None:
    async with async_client(echo, module) as http:
        answer = await http.post(URL, content=b"hello")

    assert isinstance(http, module.AsyncClient)
    assert (answer.status_code, answer.text) == (201, "POST /path x=1 hello")
    assert answer.headers.get_list("x-a") == ["1", "2"]


async def test_a_synchronous_client_calls_from_another_thread() -> None:
    http = sync_client(echo, asyncio.get_running_loop(), httpx)
    answer = await anyio.to_thread.run_sync(lambda: http.post(URL, content=b"hello"))

    assert answer.text == "POST /path x=1 hello"


async def test_pieces_arrive_as_they_are_written() -> None:
    more = asyncio.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"one", "more_body": True})
        await more.wait()
        await send({"type": "http.response.body", "body": b"two"})

    async with async_client(app, httpx) as http, http.stream("GET", URL) as answer:
        pieces = answer.aiter_bytes()
        assert await anext(pieces) == b"one"
        more.set()
        assert [piece async for piece in pieces] == [b"two"]


@pytest.mark.parametrize("started", [False, True])
async def test_what_the_app_raises_reaches_the_caller_and_is_no_end_of_the_answer(started: bool) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        if started:
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"one", "more_body": True})
            await asyncio.sleep(0)
        raise KeyError("broken")

    async with async_client(app, httpx) as http:
        with pytest.raises(KeyError, match="broken"):
            await http.get(URL)


async def test_the_app_waits_for_a_reader_that_is_slow() -> None:
    written = 0

    async def app(scope: Any, receive: Any, send: Any) -> None:
        nonlocal written
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for _ in range(3 * BUFFERED):
            await send({"type": "http.response.body", "body": b"x", "more_body": True})
            written += 1
        await send({"type": "http.response.body", "body": b"."})

    async with async_client(app, httpx) as http, http.stream("GET", URL) as answer:
        for _ in range(10 * BUFFERED):
            await asyncio.sleep(0)
        ahead = written
        said = await answer.aread()

    assert ahead == BUFFERED
    assert said == b"x" * 3 * BUFFERED + b"."


@pytest.mark.parametrize("begun", [False, True])
async def test_an_app_is_told_that_its_caller_has_left(begun: bool) -> None:
    left, waiting = asyncio.Event(), asyncio.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        scope[DISCONNECT].tell(left.set)
        if begun:
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"one", "more_body": True})
        waiting.set()
        await left.wait()

    async with async_client(app, httpx) as http:
        asked = asyncio.create_task(http.get(URL))
        await waiting.wait()
        asked.cancel()
        await asyncio.wait([asked])

    assert left.is_set()


async def test_an_app_that_listens_hears_it_too() -> None:
    heard: list[str] = []
    waiting = asyncio.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        heard.append((await receive())["type"])
        waiting.set()
        heard.append((await receive())["type"])

    async with async_client(app, httpx) as http:
        asked = asyncio.create_task(http.get(URL))
        await waiting.wait()
        asked.cancel()
        await asyncio.wait([asked])

    assert heard == ["http.request", "http.disconnect"]


async def endless(scope: Any, receive: Any, send: Any) -> None:
    """An app that streams until its caller leaves."""
    left = asyncio.Event()
    scope[DISCONNECT].tell(left.set)
    await send({"type": "http.response.start", "status": 200, "headers": []})
    while not left.is_set():
        await send({"type": "http.response.body", "body": b"more", "more_body": True})
        await asyncio.sleep(0)


def begun(http: Any) -> Any:
    """A streamed answer of which one piece was read."""
    answer = http.send(http.build_request("GET", URL), stream=True)
    next(answer.iter_raw())
    return answer


async def test_a_stream_that_is_closed_on_the_gateways_own_thread_does_not_wait_for_itself() -> None:
    http = sync_client(endless, asyncio.get_running_loop(), httpx)
    answer = await anyio.to_thread.run_sync(begun, http)
    before = asyncio.all_tasks()

    answer.close()

    while any("endless" in repr(task) for task in before & asyncio.all_tasks()):
        await asyncio.sleep(0)


def test_a_client_whose_loop_has_ended_closes_and_says_so() -> None:
    async def ask() -> tuple[Any, Any]:
        http = sync_client(endless, asyncio.get_running_loop(), httpx)
        return http, await anyio.to_thread.run_sync(begun, http)

    http, answer = asyncio.run(ask())
    answer.close()

    late = http.get(URL)
    assert late.status_code == 400
    assert "does not run any more" in late.text
