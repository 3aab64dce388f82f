"""The load of an engine: a row for each of its data-parallel ranks. Records only; pure. Above: engines.base."""

import attrs

__all__ = ["Loads", "RankLoad"]


@attrs.frozen
class RankLoad:
    """Load of one data-parallel rank. `token_usage` is the share of the KV cache in use, 0 to 1."""

    rank: int
    running: int
    waiting: int
    used_tokens: int = 0
    max_tokens: int = 0
    token_usage: float = 0.0
    tokens_per_second: float = 0.0
    cache_hit_rate: float = 0.0
    max_running: int = 0


@attrs.frozen
class Loads:
    """Load of one engine, a row a rank. `running`, `waiting` and `kv_tokens` (how many tokens the KV caches hold; 0 if the engine
    did not say) are the sums of the ranks, `kv_usage` the mean of the shares of their KV caches in use, 0 to 1. They are made
    once: every routing decision reads them. `others` is how many of its requests this gateway has not sent."""

    ranks: tuple[RankLoad, ...]
    others: int = 0
    running: int = attrs.field(init=False)
    waiting: int = attrs.field(init=False)
    kv_usage: float = attrs.field(init=False)
    kv_tokens: int = attrs.field(init=False)

    @running.default
    def _all_running(self) -> int:
        return sum(rank.running for rank in self.ranks)

    @waiting.default
    def _all_waiting(self) -> int:
        return sum(rank.waiting for rank in self.ranks)

    @kv_usage.default
    def _mean_usage(self) -> float:
        return sum(rank.token_usage for rank in self.ranks) / len(self.ranks) if self.ranks else 0.0

    @kv_tokens.default
    def _all_tokens(self) -> int:
        return sum(rank.max_tokens for rank in self.ranks)
