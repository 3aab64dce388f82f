"""The answers cached for equal requests, their number and their time.

A record of settings: `config` gathers it, with those of the other rooms. Below: `settings`.
"""

import attrs

from smg_core.settings import MIB, bound, option

__all__ = ["ResponseCacheConfig"]


@attrs.frozen
class ResponseCacheConfig:
    """Answers that are kept for requests of the same tenant that ask exactly the same."""

    kept_s: float = option(
        0.0,
        "Seconds that an answer is kept for equal requests of its tenant ([docs](response-cache.md)); 0: no answer is kept, and "
        "nothing of this is loaded.",
        at_least=0,
        at_most=30 * 86400,
    )
    chance: bool = option(
        False,
        "Keep answers of requests too that sample by chance: with a temperature above 0, or none, and without a seed. Equal "
        "requests then get the same answer, which nobody who asks a model twice expects.",
    )
    bytes: int = option(
        256 * MIB,
        "Memory of a process for answers that are kept, in bytes; the one that was used least recently goes first. Without "
        "meaning where response_cache.store is set.",
        at_least=MIB,
        at_most=1 << 40,
    )
    answer_bytes: int = bound(
        MIB, "Largest answer that is kept, in bytes as it is kept.", at_least=1024, at_most=1 << 30
    )
    store: str | None = option(
        None,
        "Valkey or Redis in which several processes and gateways keep answers together: redis://HOST:PORT/DATABASE, rediss:// or "
        "unix://; null: each process keeps its own in memory. Needs the extra smg-sdk[redis].",
        secret=True,
    )
    store_timeout_s: float = bound(
        0.05,
        "Longest time that a request waits for response_cache.store, in seconds; then an engine answers it.",
        at_least=0.001,
        at_most=60,
    )
    revision: str = option(
        "",
        "Any text: a change of it forgets every answer that is kept, for engines whose weights have changed under the same name.",
    )
