"""The places from which files of requests may be fetched, and the trusted certificates (edge).

Above: models.media_service and models.document_service, which fetch. Below: smg_multimodal's rules.
"""

import ssl
from pathlib import Path

from smg_core.errors import InternalError
from smg_core.http.settings import MediaConfig
from smg_multimodal.fetching.egress import EgressRules

__all__ = ["fetching_rules", "trusted"]


def fetching_rules(config: MediaConfig) -> EgressRules:
    """The addresses that may be fetched."""
    return EgressRules(
        schemes=frozenset({"https", "http"} if config.allow_http else {"https"}),
        hosts=frozenset(config.allow_hosts) or None,
        ports=frozenset({80, 443, config.port or 443}),
        private=frozenset(config.allow_private),
        files=Path(config.allow_files).expanduser() if config.allow_files else None,
    )


def trusted(ca: str | None) -> ssl.SSLContext:
    """What servers are checked against: the certificates in the file `ca`, or the system's. Takes milliseconds."""
    try:
        return ssl.create_default_context(cafile=ca)
    except (OSError, ssl.SSLError) as error:
        raise InternalError("The certificates for fetching media cannot be read.", detail=f"{ca}: {error}") from error
