"""Answers that their engine ended before they were whole, for APIs that have no word for that: there they are errors.

Other APIs say so themselves ("abort", "incomplete", "OTHER"). Pure. Above: the encoders of Messages and of transcriptions. Below:
events, errors.
"""

from smg_core.errors import EngineFailed
from smg_core.events import Finished, FinishReason

__all__ = ["broken_off"]

_BROKEN_OFF: frozenset[FinishReason] = frozenset({"abort", "error"})


def broken_off(event: Finished | None) -> EngineFailed | None:
    """The error that takes the place of the answer's end; None for an answer that has not ended, or is whole."""
    if event is None or event.reason not in _BROKEN_OFF:
        return None
    return EngineFailed("The engine ended this answer before it was whole.")
