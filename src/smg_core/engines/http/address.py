"""The address of an engine that speaks HTTP, read from one URL.

Decides what such a URL means, and what the first bytes of another protocol look like. Pure. Above: client, the engines.

    http://host:port           plain HTTP/1.1; the API lies under /v1
    https://host/some/v1       TLS; the API lies under the path that is given, and the server's own calls beside its /v1
    http+unix:///run/sock      plain HTTP/1.1 over a Unix socket
"""

import re
from urllib.parse import urlsplit

import attrs

__all__ = ["HTTP2_PREFACE", "HTTP_SCHEMES", "HttpAddress", "is_http2", "proxy_for"]

HTTP_SCHEMES = ("http", "http+unix", "https")
"""The schemes of URLs of servers over HTTP."""

HTTP2_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
"""How a client of HTTP/2 begins: the preface and an empty SETTINGS frame."""

_WRITABLE = re.compile(r"[!-~]+\Z")
_SETTINGS = 4
_FRAME_HEAD = 9


def is_http2(answer: bytes) -> bool:
    """Whether `answer`, what a server said to `HTTP2_PREFACE`, begins with a SETTINGS frame, as every HTTP/2 server's must."""
    return len(answer) >= _FRAME_HEAD and answer[3] == _SETTINGS and answer[5:9] == bytes(4)


@attrs.frozen
class HttpAddress:
    """One server. `origin` is scheme, host and port as a URL; `api` the path under which an OpenAI API lies; `socket` the path
    of a Unix socket, or ""."""

    origin: str
    api: str = "/v1"
    socket: str = ""
    host: str = ""
    port: int = 0

    @classmethod
    def parse(cls, url: str) -> "HttpAddress":
        """The address that `url` names. Raises ValueError that says what is wrong with it."""
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError as error:
            raise ValueError(f"worker URL {url!r}: {error}") from None
        if parts.username is not None or parts.password is not None:
            raise ValueError("a worker URL must not carry a user name or password")
        if parts.query or parts.fragment:
            raise ValueError(f"worker URL {url!r}: it may have a path, but no query and no fragment")
        if parts.scheme == "http+unix":
            if parts.netloc or parts.path in ("", "/"):
                raise ValueError(f"worker URL {url!r}: a Unix socket is written http+unix:///absolute/path")
            return cls("http://localhost", socket=parts.path)
        if parts.scheme not in ("http", "https"):
            raise ValueError(f"worker URL {url!r} has no known scheme; use one of http://, https://, http+unix://")
        if not parts.hostname:
            raise ValueError(f"worker URL {url!r} names no host")
        if not _WRITABLE.match(f"{parts.netloc}{parts.path}"):
            raise ValueError(f"worker URL {url!r}: only ASCII can be sent; write xn-- names, and %XX in the path")
        origin = f"{parts.scheme}://{parts.netloc}"
        return cls(
            origin,
            parts.path.rstrip("/") or "/v1",
            "",
            parts.hostname,
            port or (443 if parts.scheme == "https" else 80),
        )

    @property
    def root(self) -> str:
        """The path under which the server's own calls lie, such as `/health`: that of its API without `/v1`."""
        return self.api.removesuffix("/v1")

    @property
    def secure(self) -> bool:
        return self.origin.startswith("https:")

    @property
    def authority(self) -> str:
        """The value of the field Host."""
        return self.origin.partition("://")[2]

    @property
    def as_grpc(self) -> str:
        """How the address would be written for an engine that speaks gRPC."""
        if self.socket:
            return f"unix://{self.socket}"
        return f"grpc://[{self.host}]:{self.port}" if ":" in self.host else f"grpc://{self.host}:{self.port}"

    def __str__(self) -> str:
        return f"http+unix://{self.socket}" if self.socket else self.origin


def proxy_for(address: HttpAddress, proxy: str | None, direct: tuple[str, ...]) -> HttpAddress | None:
    """The proxy that a server is reached through: none for plain HTTP, for Unix sockets, and for hosts of `direct`, each a name
    or `.suffix` for all below it. Raises ValueError for what is no proxy's URL."""
    if proxy is None or not address.secure:
        return None
    host = address.host.lower()
    if any(host == each.lower() or (each.startswith(".") and host.endswith(each.lower())) for each in direct):
        return None
    found = HttpAddress.parse(proxy)
    if found.secure or found.socket:
        raise ValueError("the proxy of engines is written http://host:port")
    return found
