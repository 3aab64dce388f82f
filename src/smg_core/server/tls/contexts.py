"""The TLS context of new connections, made anew when its files change (edge).

`load` is called before a listener opens: what cannot be loaded stops the start. `look` is then called every
`reload_s` seconds, beside the requests. A change makes a new context, which is used for handshakes from then on; connections
that are open keep theirs. If the changed files cannot be loaded, the context stays and the log says why, once for each state of
the files. Files are read in a thread. Above: processes.serve. Below: the settings.
"""

import asyncio
import logging
import ssl
from collections.abc import Callable
from pathlib import Path

from smg_core.server.tls.settings import TlsConfig
from smg_core.settings import ConfigError

__all__ = ["Contexts"]

log = logging.getLogger("smg.server")

CIPHERS = "ECDHE+AESGCM:ECDHE+CHACHA20"
"""The suites of TLS 1.2 that are spoken: with forward secrecy and authenticated encryption. Those of TLS 1.3 all are so."""
VERSIONS = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}

Signature = tuple[tuple[int, int, int] | None, ...]
"""Of each file: when it was changed, its size and its inode; None where there is none."""


class Contexts:
    """The context in use, `current`, for the settings `config` (which name a certificate)."""

    def __init__(self, config: TlsConfig) -> None:
        self._config = config
        self._paths = tuple(path for path in (config.cert, config.key, *self._client_paths) if path)
        self._seen: Signature = ()
        self.current = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)

    @property
    def _client_paths(self) -> tuple[str | None, ...]:
        """The files that clients' certificates are checked against."""
        return self._config.client_ca, self._config.client_crl

    def load(self) -> None:
        """Read the files. Raises ConfigError, which names the setting, if they are no certificate with its key."""
        self._seen = self._signature()
        self.current = self._context()

    @property
    def asks_clients(self) -> bool:
        """Whether clients are asked for certificates."""
        return self._config.client_ca is not None

    async def look(self) -> bool:
        """Look at the files once. Returns whether there is a new context."""
        signature = await asyncio.to_thread(self._signature)
        if signature == self._seen:
            return False
        self._seen = signature
        try:
            self.current = await asyncio.to_thread(self._context)
        except ConfigError as error:
            log.error("the changed certificate is not taken, the one before stays in use: %s", error)  # noqa: TRY400
            return False
        log.info("the certificate has changed: new connections get that in %s", self._config.cert)
        return True

    def _signature(self) -> Signature:
        return tuple(map(_state_of, self._paths))

    def _context(self) -> ssl.SSLContext:
        config = self._config
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = VERSIONS[config.minimum]
        context.set_ciphers(CIPHERS)
        context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION | ssl.OP_CIPHER_SERVER_PREFERENCE
        context.set_alpn_protocols(["http/1.1"])
        _read("tls.cert", lambda: context.load_cert_chain(str(config.cert), config.key, password=_no_password))
        if config.client_ca is not None:
            self._ask_clients(context, config.client_ca)
        return context

    def _ask_clients(self, context: ssl.SSLContext, authorities: str) -> None:
        """Have clients show certificates. No session is resumed: that would skip the check."""
        config = self._config
        context.verify_mode = ssl.CERT_REQUIRED if config.client == "required" else ssl.CERT_OPTIONAL
        context.options |= ssl.OP_NO_TICKET
        context.num_tickets = 0
        _read("tls.client_ca", lambda: context.load_verify_locations(authorities))
        if config.client_crl is not None:
            lists = config.client_crl
            _read("tls.client_crl", lambda: context.load_verify_locations(lists))
            context.verify_flags |= ssl.VERIFY_CRL_CHECK_CHAIN


def _state_of(path: str) -> tuple[int, int, int] | None:
    try:
        found = Path(path).stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def _no_password() -> str:
    """Called for an encrypted key; without it OpenSSL would ask on the terminal and wait."""
    raise ConfigError("tls.key: the key is encrypted; give one that is not, in a file that only the gateway may read")


def _read(setting: str, read: Callable[[], None]) -> None:
    """Call `read`, which loads the files of `setting`. Raises ConfigError."""
    try:
        read()
    except ssl.SSLError as error:
        why = {"KEY_VALUES_MISMATCH": "the key is not that of the certificate"}.get(error.reason or "", error.reason)
        raise ConfigError(f"{setting}: cannot be loaded: {why or 'no certificate (PEM) is in it'}") from None
    except OSError as error:
        raise ConfigError(f"{setting}: cannot be read: {error.strerror or error}") from None
