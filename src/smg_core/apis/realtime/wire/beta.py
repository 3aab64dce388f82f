"""The parts of the Realtime API's beta alone, refused in the vendor's words. Pure. Above: events, routes."""

from smg_core.errors import InvalidRequest

__all__ = ["BETA_EVENTS", "BETA_HEADER", "beta_refused"]

BETA_EVENTS = frozenset({"transcription_session.update"})
BETA_HEADER = ("openai-beta", "realtime=v1")
"""What a client of the beta sends with its handshake."""


def beta_refused() -> InvalidRequest:
    """The error for a client of the beta."""
    return InvalidRequest(
        "The Realtime Beta API is no longer supported. Please use /v1/realtime for the GA API.",
        code="beta_api_shape_disabled",
    )
