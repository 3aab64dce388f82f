"""Time and size limits of the stored answers to requests with an Idempotency-Key.

A record of settings: `config` gathers it, with those of the other rooms. Below: `settings`.
"""

import attrs

from smg_core.settings import MIB, bound, option

__all__ = ["IdempotencyConfig"]

DAY = 86400.0  # seconds


@attrs.frozen
class IdempotencyConfig:
    """Answers to requests with an Idempotency-Key, kept for those who send the same request again."""

    kept_s: float = option(
        DAY,
        "Seconds that the answer to a request with an Idempotency-Key is kept in the history; 0 ignores the header.",
        at_least=0,
        at_most=30 * DAY,
    )
    wait_s: float = bound(
        30.0,
        "Seconds that a request waits for the first one with its Idempotency-Key, which is under way; then it gets 409.",
        at_least=0,
        at_most=3600,
    )
    left_s: float = option(
        600.0,
        "Seconds that a request with an Idempotency-Key is still answered after its client has left, so that the next try gets "
        "that answer; 0 ends it at once, and the next try runs it again.",
        at_least=0,
        at_most=3600,
    )
    answer_bytes: int = bound(
        4 * MIB,
        "Largest answer that is kept for its Idempotency-Key, in bytes; who asks again for a larger one gets 409.",
        at_least=1024,
        at_most=1 << 30,
    )
    pending_bytes: int = bound(
        64 * MIB,
        "Memory of a process for answers that are to be kept for their Idempotency-Key and are not over yet, in bytes; over "
        "it they are treated as too large.",
        at_least=1024,
        at_most=1 << 40,
    )
