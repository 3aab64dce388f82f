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
    """Load of one engine, a row a rank."""

    ranks: tuple[RankLoad, ...]

    @property
    def running(self) -> int:
        return sum(rank.running for rank in self.ranks)

    @property
    def waiting(self) -> int:
        return sum(rank.waiting for rank in self.ranks)

    @property
    def kv_usage(self) -> float:
        """The share of the KV cache in use, 0 to 1: the mean of the ranks."""
        return sum(rank.token_usage for rank in self.ranks) / len(self.ranks) if self.ranks else 0.0

    @property
    def kv_tokens(self) -> int:
        """How many tokens the KV caches of all ranks hold; 0 if the engine did not say."""
        return sum(rank.max_tokens for rank in self.ranks)
