"""Where gateways that do not see each other's requests send what none of them knows to be anywhere.

The turns of a conversation may come through several gateways. Where engines do not tell of their caches, each gateway knows only
what it sent there itself, so it takes a later turn for a new conversation. Each of them finds the same owner for such a prompt
(`rendezvous`), without asking the others: by its cache key, else by its first block that is not common to most workers. That
block comes behind what all conversations begin with, and is the same one in every turn. Pure. Above: cache_aware. Below: base,
rendezvous.
"""

from collections.abc import Sequence

from smg_core.routing.base import Candidate, RoutingContext
from smg_core.routing.rendezvous import Rendezvous, part_of
from smg_core.routing.settings import RoutingConfig

__all__ = ["Agreed"]

_FEW = 0.05
_SMOOTH = 0.02
_OFTEN = 2.0


class Agreed:
    """Finds the owners of prompts, and keeps how much of them was known before: prompts that share nothing need no owner."""

    def __init__(self, settings: RoutingConfig) -> None:
        self._rendezvous = Rendezvous(settings.remembered_workers)
        self._block = settings.block_tokens
        self._characters = settings.block_characters
        self._factor = settings.agreed_factor
        self._shared = 0.0  # the mean share of a prompt that some cache was expected to have

    def note(self, cached: int, tokens: int) -> None:
        """Called for each request: `cached` of the `tokens` of its prompt were expected in some worker's cache."""
        self._shared += (min(1.0, cached / max(1, tokens)) - self._shared) * _SMOOTH

    def owner(
        self, candidates: Sequence[Candidate], gains: Sequence[int], context: RoutingContext, others: float
    ) -> tuple[int, float] | None:
        """The number of the candidate that all gateways find for the prompt, and how many tokens that is worth; None where there
        is nothing to agree on. `gains` are the tokens that places are known to have, `others` is the share of requests that
        other gateways send."""
        if others * self._factor < _FEW or len(candidates) < 2:
            return None
        likely = 1.0 if context.cache_key else min(1.0, self._shared * _OFTEN)
        if likely < _FEW:
            return None
        key = self._key(context, sorted(gains)[len(gains) // 2])
        if not key:
            return None
        shares = self._rendezvous.shares(candidates, key)
        owner = max(range(len(shares)), key=shares.__getitem__)
        return owner, likely * others * self._factor * context.tokens

    def _key(self, context: RoutingContext, common: int) -> bytes:
        """What the prompt is known by to all gateways: its cache key, or the block behind its first `common` tokens; empty
        where it has none."""
        if context.cache_key:
            return b"key " + context.cache_key.encode("utf-8", "surrogatepass")
        block = common // self._block
        if context.tokens < (block + 1) * self._block:
            return b""
        return part_of(context, block, self._block, self._characters)
