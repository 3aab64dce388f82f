"""The header that names a request: what the client says in it, and what answers say. Pure. Above: the app and the handlers."""

from collections.abc import Mapping

from smg_core.serving.live import Live

__all__ = ["RequestIds"]


class RequestIds:
    """The name of the header is fixed for as long as a gateway runs; how long a client's own id may be is not."""

    def __init__(self, live: Live) -> None:
        self._live = live
        self._name = live.observability.request_id_header.lower()
        self._bytes = self._name.encode()

    def from_client(self, headers: Mapping[str, str]) -> str:
        """The client's own id of its request, if it is short and plain."""
        named = headers.get(self._name, "")
        short = 0 < len(named) <= self._live.observability.request_id_characters
        plain = short and named.isascii() and named.isprintable() and " " not in named
        return named if plain else ""

    def header(self, name: str) -> tuple[bytes, bytes]:
        """The header of an answer that names its request."""
        return self._bytes, name.encode()
