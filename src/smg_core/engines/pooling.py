"""The records of pooled work at an engine: one call, and the vector that comes of each input.

Pure. Above: `base`, whose codecs write and read the calls of a dialect, and the pipeline, which spreads the inputs of a request
over engines. It knows no dialect.
"""

from array import array
from collections.abc import Iterable, Sequence
from math import isfinite
from typing import Literal, Protocol

from msgspec import Struct

from smg_core.errors import EngineGarbled
from smg_core.tokens import TokenIds

__all__ = ["PoolCall", "PoolingEngine", "Vector", "vector_of"]


class Vector(Struct, frozen=True):
    """What pooled work makes of one input: its numbers (an array of type "f"), and the tokens that the engine counted."""

    values: "array[float]"
    tokens: int


class PoolCall(Struct, frozen=True):
    """One call of pooled work: at most as many inputs as `EngineFacts.pool_inputs`. `id` is unique among all requests of the
    engine.

    An engine that takes ids is sent `ids`, cut already. One that speaks HTTP is sent `given`, what the client gave: a text or ids
    for each input. It may have to cut them: `truncate` is how many tokens stay (-1: as many as it takes, None: all),
    `truncate_side` the end that is cut off."""

    id: str
    ids: Sequence[TokenIds] = ()
    given: Sequence[str | Sequence[int]] = ()
    truncate: int | None = None
    truncate_side: Literal["start", "end"] = "end"


class PoolingEngine(Protocol):
    """An engine that does pooled work."""

    async def pool(
        self, call: PoolCall, *, metadata: Sequence[tuple[str, str]] = (), timeout: float | None = None
    ) -> Sequence[Vector]:
        """A vector for each input, in order. `timeout` in seconds. A call that is cancelled is ended at the engine."""
        ...


def vector_of(values: Iterable[float], tokens: int, dimensions: int = 0) -> Vector:
    """The vector that an engine sent, of which it says that it has so many `dimensions` (0: it does not say). Raises
    EngineGarbled for one that is empty, or shorter or longer than that, or has a number that is infinite or none."""
    found = array("f", values)
    if not found or dimensions not in (0, len(found)) or not isfinite(sum(found)):
        raise EngineGarbled(
            "The engine sent a vector that its protocol does not allow.",
            detail=f"{len(found)} numbers, and it says {dimensions}",
        )
    return Vector(found, tokens)
