"""The betas of Messages for Bedrock: those that it knows.

It refuses a request with any other one. Pure. Above: invoke, converse_body. Below: nothing.
"""

from collections.abc import Iterable

from smg_core.engines.vendors.losses import Losses

__all__ = ["KNOWN_BETAS", "known_betas"]

KNOWN_BETAS = frozenset(
    {
        *("context-1m-2025-08-07", "context-management-2025-06-27", "computer-use-2024-10-22"),
        *("computer-use-2025-01-24", "computer-use-2025-11-24", "dev-full-thinking-2025-05-14"),
        *("fine-grained-tool-streaming-2025-05-14", "interleaved-thinking-2025-05-14", "output-128k-2025-02-19"),
        *("token-efficient-tools-2025-02-19", "tool-examples-2025-10-29", "tool-search-tool-2025-10-19"),
    }
)
"""Betas of Messages that Bedrock knows."""


def known_betas(betas: Iterable[str], losses: Losses) -> list[str]:
    """Those of `betas` that Bedrock knows, in their order; what is left out is noted in `losses`."""
    asked = list(betas)
    known = [each for each in asked if each in KNOWN_BETAS]
    if len(known) < len(asked):
        losses.note("betas", "those that Bedrock knows")
    return known
