"""The compaction of a Messages request's history, and its report to the encoder.

A history is compacted where its prompt is over the trigger of an edit (`compact_20260112`), or at once (`compaction`). The
answer then has a block with the summary; sent back, it stands for all that came before it. Pure. Above: messages, its encoders
and its flow. Below: the wire types, request, events.
"""

import msgspec
from msgspec import Struct

from smg_core.apis.messages import types as wire
from smg_core.apis.messages.edits import COMPACT, amount_of
from smg_core.errors import InvalidRequest
from smg_core.events import Usage
from smg_core.request import CompactRequest

__all__ = ["COMPACTED", "Compacted", "read_compacted", "read_compaction", "summary_text"]

COMPACTED = "compacted_messages"
"""Kind of the `OpaqueBlock` by which the flow tells of a summary; its payload is a `Compacted`."""
_OVER_TOKENS = 150_000


class Compacted(Struct, frozen=True):
    """A summary, and the tokens of the turn that wrote it, which the API does not count with the answer's."""

    summary: str
    usage: Usage


_READ = msgspec.json.Decoder(Compacted).decode


def read_compacted(payload: bytes) -> Compacted:
    """What the flow told."""
    return _READ(payload)


def summary_text(summary: str) -> str:
    """How a model is told a summary, in the user's turn."""
    return f"The conversation so far, as a summary:\n\n{summary}"


def read_compaction(body: wire.CountBody, config: wire.CompactionWire | None) -> tuple[CompactRequest | None, bool]:
    """How the history is to be compacted, and whether the answer ends with the summary. Raises InvalidRequest."""
    edits = (body.context_management.edits or []) if body.context_management is not None else []
    asked = [(order, edit) for order, edit in enumerate(edits) if edit.type == COMPACT]
    if config is not None:
        if asked:
            raise InvalidRequest("A request is compacted at once or from a trigger on, not both.", param="compaction")
        return CompactRequest(None, _words(config.instructions)), True
    if not asked:
        return None, False
    if len(asked) > 1:
        raise InvalidRequest("A request is compacted once.", param=f"context_management.edits[{asked[1][0]}]")
    ((order, edit),) = asked
    at = f"context_management.edits[{order}].trigger"
    over = _OVER_TOKENS if edit.trigger is None else amount_of(edit.trigger, at, "input_tokens")
    return CompactRequest(over, _words(edit.instructions)), edit.pause_after_compaction is True


def _words(instructions: str | None) -> str | None:
    """Instructions that say something."""
    return instructions if instructions and instructions.strip() else None
