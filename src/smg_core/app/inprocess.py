"""An HTTP client that calls an ASGI app in the same process (edge).

The official SDKs take an `http_client`; some are built on httpx, some on its successor httpx2, with the same interface. The
transports here are made for whichever module they are asked for, stream the answer as the app writes it, and tell the app
when the client stops listening. No socket; the app runs as a task of its own on the gateway's loop, which a synchronous
client reaches from another thread.
"""

import asyncio
import importlib
import sys
from collections.abc import AsyncIterator, Container, ItemsView, Iterator, Sequence
from types import ModuleType
from typing import Any, Protocol

from smg_core.app.app_call import AppCall, request_scope
from smg_core.errors import InvalidRequest
from smg_core.extras import loaded
from smg_core.http.envelopes import Envelopes
from smg_core.http.scope import AsgiApp, Scope

__all__ = ["async_client", "sync_client"]

OWN_THREAD = (
    "A synchronous client was used on the thread that runs the gateway, which would wait for itself. Here (in a notebook, say) "
    "use an async client: `http_client=gateway.http_client()` and `await`; or call this one by `await asyncio.to_thread(...)`."
)
NO_LOOP = "The event loop on which the gateway was started does not run any more, so nothing can answer this request."


class _Url(Protocol):
    """The URL of a request, in httpx and in httpx2."""

    scheme: str
    host: str
    port: int | None
    path: str
    raw_path: bytes
    query: bytes
    params: Container[str]


class _Headers(Protocol):
    raw: Sequence[tuple[bytes, bytes]]

    def items(self) -> ItemsView[str, str]: ...


class _Request(Protocol):
    """The parts of a request of httpx or httpx2 that the transports read."""

    method: str
    url: _Url
    headers: _Headers


class _SyncRequest(_Request, Protocol):
    def read(self) -> bytes: ...


class _AsyncRequest(_Request, Protocol):
    async def aread(self) -> bytes: ...


def async_client(app: AsgiApp, sdk: ModuleType | None = None, **arguments: object) -> Any:
    """An AsyncClient of httpx or httpx2, whichever `sdk` (or an SDK already imported) is built on, over `app`."""
    module = _http_module(sdk)
    return module.AsyncClient(transport=_async_transport(module, app), **{"timeout": None, **arguments})


def sync_client(
    app: AsgiApp,
    loop: asyncio.AbstractEventLoop,
    sdk: ModuleType | None = None,
    *,
    envelopes: Envelopes | None = None,
    **arguments: object,
) -> Any:
    """The same as a synchronous Client, for threads other than the one that runs `loop`, the loop of `app`. A request that can
    never be answered is refused in its API's envelope, of `envelopes`."""
    module = _http_module(sdk)
    return module.Client(
        transport=_sync_transport(module, app, loop, envelopes or Envelopes()), **{"timeout": None, **arguments}
    )


def _http_module(sdk: ModuleType | None) -> ModuleType:
    if sdk is not None and sdk.__name__ in ("httpx", "httpx2"):
        return sdk
    for candidate in [sdk] if sdk is not None else [sys.modules.get("openai"), sys.modules.get("anthropic")]:
        default = getattr(candidate, "DefaultAsyncHttpxClient", None)
        for base in getattr(default, "__mro__", ()):
            if base.__name__ == "AsyncClient":
                return importlib.import_module(base.__module__.partition(".")[0])
    return loaded("an HTTP client", "httpx2" if "httpx2" in sys.modules else "httpx")


def _async_transport(module: ModuleType, app: AsgiApp) -> object:
    """An async transport of `module` (httpx or httpx2) whose requests `app` answers."""

    class Body(module.AsyncByteStream):  # type: ignore[name-defined, misc]
        def __init__(self, call: AppCall) -> None:
            self._call = call

        async def __aiter__(self) -> AsyncIterator[bytes]:
            while (piece := await self._call.read()) is not None:
                yield piece

        async def aclose(self) -> None:
            await self._call.close()

    class InProcessTransport(module.AsyncBaseTransport):  # type: ignore[name-defined, misc]
        async def handle_async_request(self, request: _AsyncRequest) -> object:
            call = AppCall(app, _scope(request), await request.aread())
            status, headers = await call.head()
            return module.Response(status, headers=headers, stream=Body(call), request=request)

    return InProcessTransport()


def _sync_transport(module: ModuleType, app: AsgiApp, loop: asyncio.AbstractEventLoop, envelopes: Envelopes) -> object:
    """A synchronous transport; each wait is run on `loop`."""

    class Body(module.SyncByteStream):  # type: ignore[name-defined, misc]
        def __init__(self, call: AppCall) -> None:
            self._call = call

        def __iter__(self) -> Iterator[bytes]:
            if _runs_here(loop):
                raise RuntimeError(OWN_THREAD)
            while (piece := asyncio.run_coroutine_threadsafe(self._call.read(), loop).result()) is not None:
                yield piece

        def close(self) -> None:
            # The garbage collector closes a stream that was not read to its end, on any thread and at any time.
            if _runs_here(loop):
                self._call.leave()
            elif loop.is_running():
                asyncio.run_coroutine_threadsafe(self._call.close(), loop).result()

    async def begin(request: _Request, body: bytes) -> tuple[AppCall, int, list[tuple[bytes, bytes]]]:
        call = AppCall(app, _scope(request), body)
        return call, *await call.head()

    class InProcessTransport(module.BaseTransport):  # type: ignore[name-defined, misc]
        def handle_request(self, request: _SyncRequest) -> object:
            if _runs_here(loop):
                return _misused(module, request, envelopes, OWN_THREAD)
            if not loop.is_running():
                return _misused(module, request, envelopes, NO_LOOP)
            call, status, headers = asyncio.run_coroutine_threadsafe(begin(request, request.read()), loop).result()
            return module.Response(status, headers=headers, stream=Body(call), request=request)

    return InProcessTransport()


def _runs_here(loop: asyncio.AbstractEventLoop) -> bool:
    """Whether this thread is inside `loop`, which could not go on while the thread waits for it."""
    try:
        return asyncio.get_running_loop() is loop
    except RuntimeError:
        return False


def _misused(module: ModuleType, request: _Request, envelopes: Envelopes, why: str) -> object:
    """The answer to a synchronous request that would wait for ever: from the gateway's own thread, or after its event loop has
    ended. It is an answer, not an exception, so that an SDK raises it at once with these words instead of trying again."""
    headers = {name.lower(): value for name, value in request.headers.items()}
    envelope = envelopes.of(request.url.path, headers, request.url.params)
    answer = envelope(InvalidRequest(why), "")
    return module.Response(400, headers={"content-type": "application/json"}, content=answer, request=request)


def _scope(request: _Request) -> Scope:
    url = request.url
    return request_scope(
        request.method,
        url.path,
        url.raw_path.partition(b"?")[0],
        [(name.lower(), value) for name, value in request.headers.raw],
        query=url.query,
        scheme=url.scheme,
        server=(url.host, url.port),
    )
