"""Compresses answers by zstd or gzip, each event of a stream at once. An ASGI middleware: it serves in front of any ASGI app.

zstd needs the package `zstandard`; without it, gzip alone is offered. A stream that carries secrets beside what a stranger may
choose should not be compressed: its length tells of them (BREACH). So this is off unless it is listed.
"""

import asyncio
import zlib
from collections.abc import Awaitable, Callable, Iterable, MutableMapping, Sequence
from typing import Any, Protocol

try:
    import zstandard
except ImportError:
    zstandard = None  # type: ignore[assignment]

Message = MutableMapping[str, Any]
Headers = list[tuple[bytes, bytes]]

TYPES = (b"text/", b"application/json", b"application/x-ndjson")
IN_THREAD = 16384  # bytes from which on compressing takes longer than a turn of the event loop should


class Coder(Protocol):
    """One answer's compression: all that it is given comes out at once, so that no event waits for the next."""

    def coded(self, data: bytes, *, last: bool) -> bytes: ...


class Gzip:
    def __init__(self, level: int) -> None:
        self._deflate = zlib.compressobj(level, zlib.DEFLATED, 16 + zlib.MAX_WBITS)

    def coded(self, data: bytes, *, last: bool) -> bytes:
        return self._deflate.compress(data) + self._deflate.flush(zlib.Z_FINISH if last else zlib.Z_SYNC_FLUSH)


class Zstd:
    def __init__(self, level: int) -> None:
        self._deflate = zstandard.ZstdCompressor(level=level).compressobj()

    def coded(self, data: bytes, *, last: bool) -> bytes:
        end = zstandard.COMPRESSOBJ_FLUSH_FINISH if last else zstandard.COMPRESSOBJ_FLUSH_BLOCK
        return self._deflate.compress(data) + self._deflate.flush(end)


CODERS: dict[str, Callable[[int], Coder]] = {**({"zstd": Zstd} if zstandard is not None else {}), "gzip": Gzip}


class Compress:
    """`codings`: those that are offered, the best first. `level`: of both, 1 to 9. `least`: bytes under which a whole answer is
    sent as it is. Raises ValueError for settings that cannot be used."""

    def __init__(self, app: Any, codings: Sequence[str] = tuple(CODERS), level: int = 3, least: int = 500) -> None:
        unknown = [each for each in codings if each not in CODERS]
        if unknown or not codings:
            raise ValueError(f"codings: expected some of {', '.join(CODERS)}, not {unknown}")
        if not 1 <= level <= 9:
            raise ValueError(f"level: {level} is not in 1 to 9")
        self._app, self._codings, self._level, self._least = app, tuple(codings), level, least

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and scope["method"] != "HEAD":
            accepted = b",".join(value for name, value in scope["headers"] if name.lower() == b"accept-encoding")
            coding = chosen(accepted.decode("latin-1"), self._codings)
            if coding:
                send = Answer(coding, CODERS[coding], self._level, self._least, send)
        await self._app(scope, receive, send)


def chosen(accepted: str, offered: Iterable[str]) -> str:
    """The first of the codings offered that the header Accept-Encoding has, "" for none (RFC 9110, 12.5.3)."""
    weights: dict[str, float] = {}
    for each in accepted.lower().split(","):
        name, _, rest = each.partition(";")
        weight = rest.partition("q=")[2].strip()
        try:
            weights[name.strip()] = float(weight) if weight else 1.0
        except ValueError:
            weights[name.strip()] = 0.0
    either = weights.get("*", 0.0)
    found = [(-weights.get(each, either), at, each) for at, each in enumerate(offered) if weights.get(each, either) > 0]
    return min(found)[2] if found else ""


class Answer:
    """The `send` of one exchange."""

    def __init__(
        self,
        name: str,
        make: Callable[[int], Coder],
        level: int,
        least: int,
        send: Callable[[Message], Awaitable[None]],
    ) -> None:
        self._name, self._make, self._level, self._least, self._send = name, make, level, least, send
        self._head: Message | None = None
        self._coder: Coder | None = None

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            if suits(message):
                self._head = message  # until it is known whether the body is worth it
                return
        elif message["type"] == "http.response.body":
            message = await self._body(message)
        await self._send(message)

    async def _body(self, message: Message) -> Message:
        data, last = message.get("body", b""), not message.get("more_body", False)
        if self._head is not None:
            head, self._head = self._head, None
            if not last or len(data) >= self._least:
                self._coder = self._make(self._level)
                head = {**head, "headers": coded_headers(head["headers"], self._name.encode())}
            await self._send(head)
        coder = self._coder
        if coder is None or not (data or last):
            return message
        if len(data) < IN_THREAD:
            return {**message, "body": coder.coded(data, last=last)}
        return {**message, "body": await asyncio.to_thread(coder.coded, data, last=last)}


def suits(head: Message) -> bool:
    """Whether an answer with this head may be compressed: text that has no coding yet."""
    found = {name.lower(): value for name, value in head["headers"]}
    if head["status"] in (204, 206, 304) or b"content-encoding" in found:
        return False
    return found.get(b"content-type", b"").startswith(TYPES) and b"no-transform" not in found.get(b"cache-control", b"")


def coded_headers(headers: Iterable[tuple[bytes, bytes]], coding: bytes) -> Headers:
    """The headers of an answer that is sent with this coding."""
    kept = [(name, value) for name, value in headers if name.lower() != b"content-length"]
    return [*kept, (b"content-encoding", coding), (b"vary", b"accept-encoding")]
