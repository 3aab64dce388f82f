"""The server that a command asks by a URL: which text is one, and what its refusal means to a person.

Pure. Above: setup, and the commands of smg_simulator. Below: settings.
"""

from http import HTTPStatus
from urllib.parse import urlsplit

from smg_core.settings import ConfigError

__all__ = ["server_url_of", "status_refusal"]

_LONGEST_QUOTE = 60


def server_url_of(place: str, what: str) -> str:
    """The URL of a server without a slash at its end; with /v1, as clients are told it, it is the same. Raises ConfigError, which
    begins with `what`, for what is no URL of HTTP."""
    try:
        parts = urlsplit(place)
        whole = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        whole = False
    if not whole or parts.query or parts.fragment:
        raise ConfigError(f"{what}: {place[:_LONGEST_QUOTE]}: expected http://HOST:PORT")
    return place.rstrip("/").removesuffix("/v1").rstrip("/")


def status_refusal(status: int, path: str, key: str) -> str:
    """What a server says by a status, for the end of a sentence; `key` is the variable that a key is read from."""
    try:
        words = f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        words = str(status)
    wants = f"; give its API key in {key}" if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN) else ""
    return f"it answers {words} to {path}{wants}"
