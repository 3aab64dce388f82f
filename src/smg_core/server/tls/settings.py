"""TLS of the public listener.

A record of settings: `config` gathers it, with those of the other rooms. Below: `settings`.
"""

from typing import Literal

import attrs

from smg_core.settings import bound, option

__all__ = ["TlsConfig"]


@attrs.frozen
class TlsConfig:
    """TLS of the public listener; without a certificate it speaks plain HTTP."""

    cert: str | None = option(
        None, "File of the certificate (PEM) that clients are shown, followed by those that lead to its root."
    )
    key: str | None = option(None, "File of the private key (PEM) of tls.cert, not encrypted.")
    client_ca: str | None = option(
        None,
        "File of the authorities (PEM) that clients' certificates are checked against; without it none is asked for.",
    )
    client_crl: str | None = option(
        None,
        "File of revocation lists (PEM), one for each authority of a client's chain; where one is missing or over, none gets in.",
    )
    client: Literal["optional", "required"] = option(
        "optional", "Whether a client must show a certificate, or may send a key in place of it."
    )
    client_names: tuple[str, ...] = option(
        (),
        "Whose requests come by a certificate, as KIND:NAME tenant=T principal=P role=R model=M; KIND is uri, dns or email, and "
        "NAME may end with *; may be repeated.",
    )
    minimum: Literal["1.2", "1.3"] = option("1.2", "Oldest version of TLS that is spoken.")
    reload_s: float = bound(
        10.0,
        "Seconds between two looks at the files of certificates, keys and revocation lists; changed ones count for new "
        "connections.",
        at_least=0.1,
        at_most=86400,
    )
    handshake_s: float = bound(
        10.0,
        "Seconds that a connection may take for its TLS handshake, with the PROXY header before it.",
        at_least=0.1,
        at_most=600,
    )
    handshakes: int = bound(
        512,
        "Handshakes of a process that may be unfinished at once; for a further one the oldest is ended.",
        at_least=1,
        at_most=100_000,
    )
