"""Workers as policies see them, as plain data, and requests for them."""

from array import array
from collections.abc import Sequence

import attrs

from smg_core.engines.loads import RankLoad
from smg_core.routing import RoutingContext
from smg_core.tokens import TokenIds


@attrs.frozen
class Seen:
    """A candidate."""

    name: str
    in_flight: int = 0
    queued: int = 0
    weight: float = 1.0
    running: int = 0
    prefill_tokens: int = 0
    kv_usage: float = 0.0
    kv_tokens: int = 0
    rank_count: int = 1
    ranks: tuple[RankLoad, ...] = ()
    ranks_out: tuple[int, ...] = ()
    others: int = 0


def fleet(count: int, **fields: object) -> list[Seen]:
    """So many equal workers."""
    return [Seen(f"w{number}", **fields) for number in range(count)]  # type: ignore[arg-type]


def asking(prompt: Sequence[int] = (1, 2), name: str = "r", **fields: object) -> RoutingContext:
    """A request with a prompt of these ids."""
    return RoutingContext(name, "m", TokenIds(array("I", prompt)), **fields)  # type: ignore[arg-type]
