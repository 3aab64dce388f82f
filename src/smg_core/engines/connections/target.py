"""The address of a gRPC engine, read from a worker's URL, and the TLS settings of any engine.

Decides host, port, socket path and TLS material. Pure: resolves no name and opens no file. Above: the transports, the worker
registry, configuration. `http.address` reads the URLs of engines that speak HTTP.

    grpc://host:port            gRPC, plain HTTP/2
    grpcs://host:port           gRPC over TLS
    unix:///run/engine.sock     gRPC over a unix socket
"""

from pathlib import Path
from urllib.parse import SplitResult, urlsplit

import attrs

__all__ = ["GRPC_SCHEMES", "Target", "Tls"]

_GRPC = {"grpc": False, "grpcs": True}
"""Schemes of gRPC over TCP, and whether they mean TLS."""
GRPC_SCHEMES = (*_GRPC, "unix")
"""The schemes of URLs of engines that speak gRPC."""
_HTTP = frozenset({"http", "https", "http+unix"})
_PEM_MARK = "-----BEGIN"


def _material(value: "str | bytes | Path | None") -> "bytes | Path | None":
    """Text in PEM format as bytes, other text as a path; bytes, paths and None as they are."""
    if isinstance(value, str):
        return value.encode() if value.lstrip().startswith(_PEM_MARK) else Path(value)
    return value


def _rendered(value: "bytes | Path | None") -> str:
    return f"<{len(value)} bytes>" if isinstance(value, bytes) else repr(str(value) if value else None)


@attrs.frozen
class Tls:
    """TLS settings of a connection to an engine.

    `ca`: certificates of authorities that are trusted (None: the system's). `cert` and `key`: the client's own, both or
    neither. Each is a path or PEM bytes. `server_name` must be in the engine's certificate instead of the host.
    `insecure_skip_verify` accepts any certificate: the connection is encrypted, but the engine's identity is not checked.
    """

    ca: bytes | Path | None = attrs.field(default=None, converter=_material, repr=_rendered)
    cert: bytes | Path | None = attrs.field(default=None, converter=_material, repr=_rendered)
    key: bytes | Path | None = attrs.field(
        default=None, converter=_material, repr=lambda key: "<hidden>" if key else "None"
    )
    server_name: str | None = None
    insecure_skip_verify: bool = False

    def __attrs_post_init__(self) -> None:
        if (self.cert is None) != (self.key is None):
            raise ValueError("a client certificate needs both `cert` and `key`")


@attrs.frozen
class Target:
    """One engine's address: either `host` and `port`, or the `path` of a unix socket. `tls` None means plain text."""

    host: str = ""
    port: int = 0
    path: str = ""
    tls: Tls | None = None

    @classmethod
    def parse(cls, url: "str | Target", *, tls: Tls | None = None) -> "Target":
        """The gRPC target a URL names; `tls` refines a TLS scheme. Raises ValueError that says what is wrong with the URL."""
        if isinstance(url, Target):
            return url
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError as error:
            raise ValueError(f"{_named(url)}: {error}") from None
        if parts.scheme == "unix":
            return cls(path=_socket_path(url, parts, tls))
        if parts.scheme not in _GRPC or "://" not in url:
            raise ValueError(f"{_named(url)} {_no_grpc(parts.scheme)}")
        _refuse_extras(url, parts)
        secure = _GRPC[parts.scheme]
        if not port:
            raise ValueError(f"worker URL {url!r} names no port, like {parts.scheme}://{parts.hostname}:50051")
        if tls is not None and not secure:
            raise ValueError(f"worker URL {url!r} is plain text, yet TLS settings are given; use grpcs://")
        return cls(host=parts.hostname or "", port=port, tls=(tls or Tls()) if secure else None)

    @property
    def authority(self) -> str:
        """The name the engine is addressed by in HTTP/2's `:authority`."""
        return "localhost" if self.path else self.address

    @property
    def address(self) -> str:
        """`host:port` (IPv6 in brackets), or `unix:/path`; what grpcio and an operator's log take."""
        if self.path:
            return f"unix:{self.path}"
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def __str__(self) -> str:
        if self.path:
            return f"unix://{self.path}"
        return f"{'grpcs' if self.tls else 'grpc'}://{self.address}"


def _named(url: str) -> str:
    """A URL for an error message; one that may hold a password is not shown."""
    return "a worker URL with a user name or password" if "@" in url else f"worker URL {url!r}"


def _no_grpc(scheme: str) -> str:
    """What is wrong with a URL of that scheme."""
    if scheme in _HTTP:
        return "names an HTTP server; an engine that speaks gRPC is named by grpc://, grpcs:// or unix://"
    return f"has no known scheme; use one of {', '.join(f'{each}://' for each in GRPC_SCHEMES)}"


def _socket_path(url: str, parts: SplitResult, tls: Tls | None) -> str:
    if parts.netloc or not parts.path.startswith("/") or parts.path == "/" or parts.query or parts.fragment:
        raise ValueError(f"worker URL {url!r}: a unix socket is written unix:///absolute/path")
    if tls is not None:
        raise ValueError(f"worker URL {url!r}: TLS is not spoken over unix sockets")
    return parts.path


def _refuse_extras(url: str, parts: SplitResult) -> None:
    if parts.username is not None or parts.password is not None:
        raise ValueError("a worker URL must not carry a user name or password")
    if not parts.hostname:
        raise ValueError(f"worker URL {url!r} names no host")
    if parts.path not in ("", "/") or parts.query or parts.fragment:
        raise ValueError(f"worker URL {url!r}: nothing may follow the port")
