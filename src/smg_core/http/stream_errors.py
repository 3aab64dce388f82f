"""The error that ends a running stream of events, from a plugin's refusal or failure (edge).

Above: `plugged`, `wrapping` and `responses_socket`. Below: the exchange, envelopes.
"""

from smg_core.errors import SmgError
from smg_core.http.envelopes import envelopes_of
from smg_core.http.exchange import Exchange
from smg_core.wire.base import ErrorEncoder

__all__ = ["ERROR_WRITTEN", "error_event"]

ERROR_WRITTEN = "smg.error_written"
"""Key of the scope under which there is what writes such an error, where the envelope of the path does not."""


def error_event(exchange: Exchange, error: SmgError) -> bytes:
    """The last event of a stream, with an error in the words of its API."""
    written: ErrorEncoder | None = exchange.scope.get(ERROR_WRITTEN)
    if written is None:
        written = envelopes_of(exchange.scope).of(exchange.path, exchange.headers, exchange.query)
    return b"event: error\ndata: " + written(error, exchange.request_id) + b"\n\n"
