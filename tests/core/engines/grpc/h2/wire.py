"""The server's side of a connection, written by hand: frames as bytes, and a receiver that writes down what it is told."""

import struct
from collections.abc import Callable, Iterator

from hpack import Decoder, Encoder

from smg_core.engines.grpc.h2.connection import Connection
from smg_core.engines.grpc.h2.stream import H2Stream
from smg_core.engines.settings import EnginesConfig
from smg_core.errors import SmgError

__all__ = ["OK_HEAD", "PATH", "Server", "Sink", "frame", "frames", "message", "open_call", "prefixed", "settings"]

PATH = "/test.Engine/Generate"
OK_HEAD = [(":status", "200"), ("content-type", "application/grpc")]
DATA, HEADERS, PRIORITY, RST, SETTINGS, PUSH, PING, GOAWAY, UPDATE, CONTINUATION = range(10)


def frame(kind: int, flags: int = 0, stream: int = 0, payload: bytes = b"") -> bytes:
    return len(payload).to_bytes(3, "big") + bytes((kind, flags)) + stream.to_bytes(4, "big") + payload


def settings(*pairs: tuple[int, int]) -> bytes:
    return frame(SETTINGS, payload=b"".join(struct.pack(">HI", key, value) for key, value in pairs))


def prefixed(content: bytes, *, compressed: int = 0) -> bytes:
    return bytes((compressed,)) + len(content).to_bytes(4, "big") + content


def message(stream: int, content: bytes) -> bytes:
    """One message in one DATA frame."""
    return frame(DATA, 0, stream, prefixed(content))


def frames(data: bytes) -> Iterator[tuple[int, int, int, bytes]]:
    """`(kind, flags, stream, payload)` of whole frames; a client's preface is skipped."""
    data = data.removeprefix(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
    while data:
        length = int.from_bytes(data[:3], "big")
        assert len(data) >= 9 + length, "half a frame was written"
        yield data[3], data[4], int.from_bytes(data[5:9], "big"), data[9 : 9 + length]
        data = data[9 + length :]


class Sink:
    """A receiver. `pushes` keeps the batches apart; `ended` is None until the call is over, then a list of its error."""

    def __init__(self, on_messages: Callable[[list[bytes]], None] = lambda batch: None) -> None:
        self.pushes: list[list[bytes]] = []
        self.ended: list[SmgError | None] = []
        self._on_messages = on_messages

    @property
    def got(self) -> list[bytes]:
        return [content for push in self.pushes for content in push]

    @property
    def error(self) -> SmgError | None:
        assert len(self.ended) == 1, f"closed {len(self.ended)} times"
        return self.ended[0]

    def messages(self, batch: list[bytes]) -> None:
        assert batch
        assert not self.ended
        self.pushes.append(batch)
        self._on_messages(batch)

    def closed(self, error: SmgError | None) -> None:
        assert not self.ended
        self.ended.append(error)


class Server:
    """A connection that has been greeted, and what it takes to answer it."""

    def __init__(self, limits: EnginesConfig | None = None, *pairs: tuple[int, int]) -> None:
        self.written: list[bytes] = []
        self.client = Connection(
            "http", "engine", limits=limits or EnginesConfig(), user_agent="test", wants_write=self._on_write
        )
        self.encoder = Encoder()
        self.decoder = Decoder()
        self.client.receive(settings(*pairs))
        self.first = self.take()

    def _on_write(self) -> None:
        self.written.append(self.client.take())

    def take(self) -> list[tuple[int, int, int, bytes]]:
        """What the client has written since the last time."""
        data, self.written = b"".join(self.written), []
        return list(frames(data + self.client.take()))

    def head(self, stream: int, fields: list[tuple[str, str]] = OK_HEAD, *, end: bool = False) -> bytes:
        return frame(HEADERS, 5 if end else 4, stream, self.encoder.encode(fields))

    def trailers(self, stream: int, status: int = 0, text: str = "") -> bytes:
        return self.head(stream, [("grpc-status", str(status)), ("grpc-message", text)], end=True)

    def say(self, *data: bytes) -> None:
        self.client.receive(b"".join(data))

    def call(self, sink: Sink | None = None, content: bytes = b"", **more: object) -> tuple[H2Stream, Sink]:
        sink = sink or Sink()
        return self.client.request(PATH, content, sink, **more), sink  # type: ignore[arg-type]


def open_call(limits: EnginesConfig | None = None) -> tuple[Server, H2Stream, Sink]:
    """A server, and a call on it whose response has begun."""
    server = Server(limits)
    stream, sink = server.call()
    server.take()
    server.say(server.head(stream.id))
    return server, stream, sink
