"""The proxy that records: passes requests on to a server as they are, and writes what was asked and answered (edge).

Answers go to the client piece by piece as they come; the line is written behind the last. A client that leaves ends the request
at the server too, and such an exchange is not kept. WebSockets are not passed on. Above: the command. Below: cassette, said.
"""

import asyncio
import contextlib
import logging
import signal
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, MutableMapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, BinaryIO

import httpx
import msgspec
import uvicorn

from smg_simulator.cassettes.answer_summary import AnswerSummary, summary_of_answer
from smg_simulator.cassettes.cassette import (
    CassetteExchange,
    credentials_in,
    kept_body,
    kept_headers,
    kept_path,
    redacted_body,
)

__all__ = ["CassetteRecorder", "RecorderServer"]

MOST_BODY = 64 << 20
"""Bytes of a request, and of an answer that is kept."""
_HOP = frozenset(
    {"connection", "content-length", "host", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade"}
)
_HOP |= {"accept-encoding", "content-encoding", "proxy-authorization"}
_Message = MutableMapping[str, Any]
_Receive = Callable[[], Awaitable[_Message]]
_Send = Callable[[_Message], Awaitable[None]]


class CassetteRecorder:
    """An ASGI app before the server at `url`, which writes to `out`, at most `most` bytes of it. With a `secret` the words of
    prompts are others, and answers are kept without theirs; `tell` is called once where the cassette is full."""

    def __init__(self, url: str, out: Path, *, most: int, secret: bytes | None, tell: Callable[[str], None]) -> None:
        self._url, self._out, self._left, self._secret, self._tell = url.rstrip("/"), out, most, secret, tell
        self._began = time.perf_counter()
        self._writing, self._over = asyncio.Lock(), asyncio.Event()
        self._file: BinaryIO | None = None
        self._client: httpx.AsyncClient | None = None
        self._warned_of_bytes = False
        self.kept = 0

    def end(self) -> None:
        """Give up what is under way; it is not kept."""
        self._over.set()

    @contextlib.asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        """A context in which it records. Raises OSError where the file cannot be written; one that is there stays as it is."""
        file = self._out.open("xb")
        self._out.chmod(0o600)
        timeout = httpx.Timeout(None, connect=30)
        async with httpx.AsyncClient(timeout=timeout, limits=httpx.Limits(max_connections=None)) as client:
            self._file, self._client = file, client
            try:
                yield
            finally:
                self._client = None
                await asyncio.to_thread(file.close)

    async def __call__(self, scope: _Message, receive: _Receive, send: _Send) -> None:
        if scope["type"] != "http" or self._client is None:
            return
        at, body = time.perf_counter() - self._began, await _body(receive)
        if body is None:
            await _plain(send, 413, b"over 64 MiB, which is not recorded")
            return
        headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in scope["headers"]]
        passed = [(name, value) for name, value in headers if name.lower() not in _HOP] + [
            ("accept-encoding", "identity")
        ]
        query = scope.get("query_string", b"").decode("latin-1")
        url = f"{self._url}{scope['path']}" + (f"?{query}" if query else "")
        made = CassetteExchange(at, scope["method"], kept_path(scope["path"], query), "", 0, AnswerSummary())
        made.headers = kept_headers(headers)
        sent = self._client.stream(scope["method"], url, headers=passed, content=body)
        asking = asyncio.create_task(self._passed_on(sent, made, send))
        if await self._ends(asking, receive) and (answered := asking.result()) is not None:
            await self._keep(made, body, credentials_in(headers), *answered)

    async def _ends(self, asking: "asyncio.Task[Any]", receive: _Receive) -> bool:
        """Whether an exchange came to its end before its client left and recording ended; then it is given up."""
        leaving = [asyncio.create_task(_until_left(receive)), asyncio.create_task(self._over.wait())]
        try:
            await asyncio.wait((asking, *leaving), return_when=asyncio.FIRST_COMPLETED)
            return asking.done()
        finally:
            for each in (asking, *leaving):
                each.cancel()
            await asyncio.gather(asking, *leaving, return_exceptions=True)

    async def _passed_on(
        self, sent: AbstractAsyncContextManager[httpx.Response], made: CassetteExchange, send: _Send
    ) -> tuple[str, bytes] | None:
        """Send an answer to the client as it comes; its content type and whole body, None where it is not to be kept."""
        pieces: list[bytes] = []
        try:
            async with sent as answer:
                made.status = answer.status_code
                headers = [(name.lower().encode(), value.encode("latin-1")) for name, value in answer.headers.items()]
                headers = [(name, value) for name, value in headers if name.decode() not in _HOP]
                await send({"type": "http.response.start", "status": answer.status_code, "headers": headers})
                async for piece in answer.aiter_raw():
                    made.times.append(round(time.perf_counter() - self._began - made.at, 6))
                    pieces.append(piece)
                    await send({"type": "http.response.body", "body": piece, "more_body": True})
        except httpx.HTTPError as error:
            if not made.status:
                await _plain(send, 502, f"{self._url} cannot be asked: {error}".encode())
            return None
        made.seconds = round(time.perf_counter() - self._began - made.at, 6)
        await send({"type": "http.response.body", "body": b""})
        if sum(map(len, pieces)) > MOST_BODY:
            return None
        return answer.headers.get("content-type", ""), b"".join(pieces)

    async def _keep(
        self, made: CassetteExchange, body: bytes, credentials: Sequence[str], content_type: str, whole: bytes
    ) -> None:
        line = await asyncio.to_thread(self._line, made, body, credentials, content_type, whole)
        if line is None:
            if not self._warned_of_bytes:
                self._tell("bodies that are no text, as of files, are passed on and not recorded")
            self._warned_of_bytes = True
            return
        async with self._writing:
            if len(line) > self._left:
                if self._left:
                    self._tell("the cassette is full: what comes now is passed on and not recorded")
                self._left = 0
                return
            try:
                await asyncio.to_thread(self._write, line)
            except OSError as error:
                self._tell(f"{self._out}: {error.strerror}: what comes now is passed on and not recorded")
                self._left = 0
                return
            self._left -= len(line)
            self.kept += 1

    def _line(
        self, made: CassetteExchange, body: bytes, credentials: Sequence[str], content_type: str, whole: bytes
    ) -> bytes | None:
        """The line of an exchange, None where the request's body is no text: sent again, it would be another."""
        try:
            text = body.decode()
        except UnicodeDecodeError:
            return None
        summary = summary_of_answer(made.path, made.status, content_type, whole)
        if self._secret is None:
            made.body, made.summary = kept_body(text), summary
        else:
            made.body = redacted_body(body, self._secret)
            made.summary, made.redacted = summary.without_words(), True
        line = msgspec.json.encode(made).decode()
        for each in credentials:  # a server may repeat in an error what it was told
            line = line.replace(msgspec.json.encode(each).decode()[1:-1], "(left out)")
        return f"{line}\n".encode()

    def _write(self, line: bytes) -> None:
        if self._file is not None:
            self._file.write(line)
            self._file.flush()


class RecorderServer(uvicorn.Server):
    """Serves a recorder until SIGINT or SIGTERM. The signal ends it and is passed on to nobody, since how much was recorded is
    still to be told; answers under way are cut, since they may take minutes."""

    def __init__(self, recorder: CassetteRecorder) -> None:
        super().__init__(uvicorn.Config(recorder, lifespan="off", ws="none", log_level="warning"))
        self._recorder = recorder

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        if sys.platform == "win32":  # where a loop takes no signals
            with super().capture_signals():
                yield
            return
        loop, numbers = asyncio.get_running_loop(), (signal.SIGINT, signal.SIGTERM)
        for number in numbers:
            loop.add_signal_handler(number, self._leave)
        try:
            yield
        finally:
            for number in numbers:
                loop.remove_signal_handler(number)

    def _leave(self) -> None:
        logging.getLogger("uvicorn.error").disabled = True  # it would complain of every answer that is cut
        self._recorder.end()
        self.should_exit = True


async def _body(receive: _Receive) -> bytes | None:
    """The whole body of a request, None for one that is too large."""
    pieces, size, more = [], 0, True
    while more:
        message = await receive()
        piece = message.get("body", b"")
        size, more = size + len(piece), message.get("more_body", False)
        pieces.append(piece)
        if size > MOST_BODY:
            return None
    return b"".join(pieces)


async def _until_left(receive: _Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _plain(send: _Send, status: int, text: bytes) -> None:
    await send({"type": "http.response.start", "status": status, "headers": [(b"content-type", b"text/plain")]})
    await send({"type": "http.response.body", "body": text})
