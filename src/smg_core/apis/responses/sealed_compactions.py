"""Compactions as clients have them: sealed, and opened when they come back.

Above: `remembering`. Below: the gateway's sealer, what a compaction says.
"""

from collections.abc import Mapping, Sequence

from smg_core.apis.responses.wire.stored_items import item_type
from smg_core.apis.responses.wire.summaries import SummaryMessage, read_summary
from smg_core.errors import SealBroken
from smg_core.json_types import JsonObject
from smg_core.request import Caller
from smg_core.sealing.sealer import SealContext, Sealer

__all__ = ["opened_compactions", "sealed_compaction"]


def _context(caller: Caller) -> SealContext:
    """What a sealed compaction is good for: its tenant, and any model, since it is text for all of them."""
    return SealContext("compaction", caller.tenant)


def sealed_compaction(sealer: Sealer, summary: bytes, caller: Caller) -> str:
    """The encrypted_content of a compaction that says this."""
    return sealer.seal(summary, _context(caller)).decode()


def opened_compactions(
    sealer: Sealer, items: Sequence[JsonObject], caller: Caller
) -> Mapping[str, tuple[SummaryMessage, ...]]:
    """What the compactions among the items say, by their encrypted_content. Those that do not open are left out."""
    found: dict[str, tuple[SummaryMessage, ...]] = {}
    for item in items:
        token = item.get("encrypted_content")
        if item_type(item) == "compaction" and isinstance(token, str):
            try:
                summary = read_summary(sealer.open(token.encode(), _context(caller)))
            except SealBroken:
                continue
            if summary is not None:
                found[token] = summary
    return found
