"""TLS contexts of connections to engines (edge): reads the files of certificates. Above: the transports."""

import ssl
import tempfile
from pathlib import Path

from smg_core.engines.connections.target import Tls

__all__ = ["TlsContexts", "tls_context"]


def tls_context(tls: Tls, protocol: str = "h2") -> ssl.SSLContext:
    """A client context that speaks `protocol` (an ALPN name) and trusts what `tls` says. Blocking: reads files."""
    context = ssl.create_default_context() if tls.ca is None else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols([protocol])
    if isinstance(tls.ca, bytes):
        context.load_verify_locations(cadata=tls.ca.decode("ascii", "replace"))
    elif tls.ca is not None:
        context.load_verify_locations(cafile=tls.ca)
    if tls.insecure_skip_verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if tls.cert is not None and tls.key is not None:
        with tempfile.TemporaryDirectory(prefix="smg-tls-") as folder:
            # The ssl module reads a client's key only from files; the folder is private and removed at once.
            cert, key = _as_file(tls.cert, Path(folder) / "cert.pem"), _as_file(tls.key, Path(folder) / "key.pem")
            context.load_cert_chain(cert, key)
    return context


def _as_file(material: bytes | Path, spare: Path) -> Path:
    if isinstance(material, Path):
        return material
    spare.touch(mode=0o600)
    spare.write_bytes(material)
    return spare


class TlsContexts:
    """The contexts of many connections with the same settings: one is used until a file that it was made of has changed, since
    certificates are renewed, and making a context takes milliseconds. For `protocol` (an ALPN name)."""

    def __init__(self, tls: Tls, protocol: str) -> None:
        self._tls, self._protocol = tls, protocol
        self._made: tuple[object, ssl.SSLContext] | None = None

    def current(self) -> ssl.SSLContext:
        """The context to connect with. Blocking: looks at files. Raises OSError for certificates that cannot be read."""
        stamp = tuple(_stamp(each) for each in (self._tls.ca, self._tls.cert, self._tls.key))
        made = self._made
        if made is None or made[0] != stamp:
            made = self._made = (stamp, tls_context(self._tls, self._protocol))
        return made[1]


def _stamp(material: bytes | Path | None) -> tuple[int, int, int] | None:
    """What changes with a file; None for what is no file."""
    if not isinstance(material, Path):
        return None
    seen = material.stat()
    return seen.st_mtime_ns, seen.st_size, seen.st_ino
