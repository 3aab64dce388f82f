"""The two HTTP transports that the mcp package has not, or has without bounds: plain JSON-RPC over POST, and legacy SSE (edge).

Above: `connection`. Below: `wire`. Both use a client over `GuardedTransport`, so that what goes wrong comes as a JSON-RPC error.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any
from urllib.parse import urljoin, urlsplit

import anyio
import httpx2
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCRequest, jsonrpc_message_adapter
from pydantic import ValidationError

from smg_mcp.records.errors import McpBadAnswer, McpForbidden, McpRefused, McpUnavailable
from smg_mcp.transport.screening import ProtocolBreach

__all__ = ["plain_streams", "sse_streams"]


@contextlib.asynccontextmanager
async def plain_streams(client: httpx2.AsyncClient, url: str) -> AsyncIterator[tuple[Any, Any]]:
    """Streams over POST alone: each message is a body, each answer a JSON body. The server can send nothing by itself."""
    async with _pair(client, lambda: url) as (_, read_out, write_in, _tasks):
        yield read_out, write_in


@contextlib.asynccontextmanager
async def sse_streams(
    client: httpx2.AsyncClient, url: str, connect_s: float, longest: int
) -> AsyncIterator[tuple[Any, Any]]:
    """Streams of a legacy server: its messages come on one event stream, which says first where to post ours.

    Raises McpUnavailable, McpRefused or McpBadAnswer where the stream cannot be opened."""
    endpoint: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    async with _pair(client, endpoint.result) as (read_in, read_out, write_in, tasks):
        tasks.append(asyncio.ensure_future(_listen(client, url, endpoint, read_in, longest)))
        async with asyncio.timeout(connect_s):
            await endpoint
        yield read_out, write_in


@contextlib.asynccontextmanager
async def _pair(
    client: httpx2.AsyncClient, url: Callable[[], str]
) -> AsyncIterator[tuple[Any, Any, Any, list["asyncio.Future[None]"]]]:
    read_in, read_out = anyio.create_memory_object_stream[Any](0)
    write_in, write_out = anyio.create_memory_object_stream[Any](0)
    tasks: list[asyncio.Future[None]] = [asyncio.ensure_future(_post_all(client, url, write_out, read_in))]
    try:
        yield read_in, read_out, write_in, tasks
    finally:
        for stream in (read_in, read_out, write_in, write_out):
            stream.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _post_all(client: httpx2.AsyncClient, url: Callable[[], str], out_of: Any, into: Any) -> None:
    """Post what the package writes, requests side by side."""
    posts: set[asyncio.Task[None]] = set()
    try:
        async for item in out_of:
            post = asyncio.ensure_future(_post(client, url(), item, into))
            posts.add(post)
            post.add_done_callback(posts.discard)
            if not isinstance(item.message, JSONRPCRequest):
                await post
    except anyio.ClosedResourceError:
        pass
    finally:
        for post in list(posts):
            post.cancel()
        await asyncio.gather(*posts, return_exceptions=True)


async def _post(client: httpx2.AsyncClient, url: str, item: SessionMessage, into: Any) -> None:
    message = item.message
    headers = {"accept": "application/json", **(getattr(item.metadata, "headers", None) or {})}
    body = message.model_dump(by_alias=True, mode="json", exclude_unset=True)
    response = await client.post(url, json=body, headers=headers)
    if not isinstance(message, JSONRPCRequest) or (response.status_code == 202 or not response.content):
        return
    try:
        answer: Any = SessionMessage(jsonrpc_message_adapter.validate_json(response.content, by_name=False))
    except ValidationError:
        if response.status_code < 300 and not response.headers.get("content-type", "").startswith("application/json"):
            return  # a legacy server says "Accepted"; its answer comes on the stream of events
        answer = ProtocolBreach("the server answered with something else than a JSON-RPC message")
    with contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
        await into.send(answer)


async def _listen(
    client: httpx2.AsyncClient, url: str, endpoint: "asyncio.Future[str]", into: Any, longest: int
) -> None:
    try:
        async with client.stream("GET", url, headers={"accept": "text/event-stream"}) as response:
            fault = _unusable(response)
            if fault is not None:
                endpoint.set_exception(fault)
                return
            async for event in httpx2.EventSource(response, max_event_size=longest):
                if event.event == "endpoint":
                    _set_endpoint(endpoint, url, event.data)
                elif event.event == "message" and event.data:
                    await into.send(_event_message(event.data))
    except (httpx2.TransportError, httpx2.SSEError, httpx2.StreamError):
        pass  # the end of the stream is the end of the session
    except (anyio.BrokenResourceError, anyio.ClosedResourceError):
        return
    finally:
        into.close()
        if not endpoint.done():
            endpoint.set_exception(McpUnavailable("the server's stream ended before it said where to post"))


def _unusable(response: httpx2.Response) -> Exception | None:
    status = response.status_code
    if status in (401, 403):
        return McpRefused(f"the server answered {status}", status, response.headers.get("www-authenticate"))
    if status == 502 and response.headers.get("content-type") == "application/json":
        return McpUnavailable("the server cannot be reached")
    if status != 200 or not response.headers.get("content-type", "").startswith("text/event-stream"):
        return McpBadAnswer(f"the server answered {status} instead of a stream of events")
    return None


def _event_message(data: str) -> Any:
    try:
        return SessionMessage(jsonrpc_message_adapter.validate_json(data, by_name=False))
    except ValidationError:
        return ProtocolBreach("the server sent an event that is no JSON-RPC message")


def _set_endpoint(endpoint: "asyncio.Future[str]", url: str, address: str) -> None:
    led = urljoin(url, address)
    here, there = urlsplit(url), urlsplit(led)
    if endpoint.done():
        return
    if (here.scheme, here.netloc) != (there.scheme, there.netloc):
        endpoint.set_exception(McpForbidden("the server wants its messages to be posted to another server"))
    else:
        endpoint.set_result(led)
