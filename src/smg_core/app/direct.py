"""Calls a gateway's APIs in this process with dictionaries, without an HTTP client (edge).

Each call is a request as from a socket: whose it is, limits, plugins and metrics are as there, and so are the fields of bodies
and answers. Above: `gateway.gateway`. Below: the app.
"""

from collections.abc import AsyncGenerator, Mapping
from typing import Any

import msgspec

from smg_core.app.app_call import AppCall, request_scope
from smg_core.http.scope import AsgiApp
from smg_core.sse import DONE, SseReader

__all__ = ["DirectCalls", "RequestRefused"]


class RequestRefused(Exception):
    """A request that was refused or has failed. `status` is that of HTTP (that of the answer's head, so 200 where a stream failed
    after it had begun), `error` the API's own envelope."""

    def __init__(self, status: int, error: Any) -> None:
        fields = error.get("error", error) if isinstance(error, dict) else error
        super().__init__(f"{status}: {fields.get('message', fields) if isinstance(fields, dict) else fields}")
        self.status = status
        self.error = error


class DirectCalls:
    """Requests to `app` with `headers`, such as `{"authorization": "Bearer ..."}` where the gateway asks for a key."""

    def __init__(self, app: AsgiApp, headers: Mapping[str, str] | None = None) -> None:
        self._app = app
        self._headers = [(name.lower().encode(), value.encode()) for name, value in (headers or {}).items()]

    async def answer(self, path: str, body: Mapping[str, object] | msgspec.Struct) -> dict[str, Any]:
        """The whole answer to a POST of `body`, a dictionary or a record. Raises RequestRefused."""
        call = self._call(path, body)
        try:
            status, _ = await call.head()
            answer: dict[str, Any] = await _whole(call)
        finally:
            await call.close()
        if status >= 400:
            raise RequestRefused(status, answer)
        return answer

    async def events(
        self, path: str, body: Mapping[str, object] | msgspec.Struct
    ) -> AsyncGenerator[dict[str, Any], None]:
        """The events of a streamed answer, as they come; who stops reading stops the request. Raises RequestRefused, also for an
        error that is told in the stream."""
        call = self._call(path, body)
        try:
            status, _ = await call.head()
            if status >= 400:
                raise RequestRefused(status, await _whole(call))
            reader = SseReader()
            while (piece := await call.read()) is not None:
                for event in reader.feed(piece):
                    if event.data == DONE.decode():
                        continue
                    fields = msgspec.json.decode(event.data)
                    if isinstance(fields, dict) and fields.get("error"):
                        raise RequestRefused(status, fields)
                    yield fields
        finally:
            await call.close()

    def _call(self, path: str, body: Mapping[str, object] | msgspec.Struct) -> AppCall:
        data = msgspec.json.encode(body)
        headers = [
            (b"host", b"localhost"),
            (b"content-type", b"application/json"),
            (b"content-length", str(len(data)).encode()),
            *self._headers,
        ]
        scope = request_scope("POST", path, path.encode(), headers, server=("localhost", 80))
        return AppCall(self._app, scope, data)


async def _whole(call: AppCall) -> Any:
    pieces = []
    while (piece := await call.read()) is not None:
        pieces.append(piece)
    return msgspec.json.decode(b"".join(pieces))
