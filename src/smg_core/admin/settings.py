"""The listener of the admin door.

A record of settings: `config` gathers it, with those of the other rooms. Below: `settings`.
"""

import attrs

from smg_core.settings import bound, option

__all__ = ["AdminConfig"]


@attrs.frozen
class AdminConfig:
    """The admin door, a listener of its own; off unless a port or a socket is named (docs/admin.md)."""

    port: int | None = option(
        None, "Port of the admin door; 0 takes a free one. Without it, none is opened.", at_least=0, at_most=65535
    )
    host: str = option(
        "127.0.0.1",
        "Address that admin.port is on. One that other machines reach needs identity (auth) and admin.tls.",
    )
    socket: str | None = option(
        None, "Unix socket of the admin door, in place of a port; only the gateway's own user may open it."
    )
    tls: bool = option(False, "Speak TLS at admin.port, with the certificate of the section tls.")
    allowed_hosts: tuple[str, ...] = option(
        (),
        'Hosts that requests at admin.port may name, a name or .suffix; "*" allows all. Without any: the loopback\'s and '
        "admin.host.",
    )
    body_bytes: int = bound(
        65536, "Largest body of a request at the admin door, in bytes.", at_least=1024, at_most=1 << 24
    )
    engine_calls: int = bound(
        64, "Most engines that are asked at once for requests at the admin door.", at_least=1, at_most=10_000
    )
    most_listed: int = bound(1000, "Most entries that one answer of the admin door lists.", at_least=1, at_most=100_000)

    @property
    def is_open(self) -> bool:
        """Whether there is an admin door."""
        return self.port is not None or self.socket is not None
