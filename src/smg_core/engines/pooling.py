"""The records of pooled work at an engine: one call, and the numbers that come of each input.

Pure. Above: `base`, whose codecs write and read the calls of a dialect, and the pipeline, which spreads the inputs of a request
over engines. It knows no dialect.
"""

from array import array
from collections.abc import Iterable, Mapping, Sequence
from math import exp, isfinite
from typing import Literal, Protocol

from msgspec import Struct

from smg_core.errors import EngineGarbled
from smg_core.request import PoolInput, PoolKind
from smg_core.tokens import TokenIds

__all__ = ["PoolCall", "PoolingEngine", "Vector", "activated", "class_names", "pools_of", "sigmoid", "vector_of"]


class Vector(Struct, frozen=True):
    """What pooled work makes of one input: its numbers (an array of type "f"), the tokens that the engine counted, and the name
    of the likeliest class, where the engine says it."""

    values: "array[float]"
    tokens: int
    label: str = ""


class PoolCall(Struct, frozen=True):
    """One call of pooled work: at most as many inputs as `EngineFacts.pool_inputs`. `id` is unique among all requests of the
    engine.

    An engine that takes ids is sent `ids`, cut already; a pair of texts is the ids of both, and `types` says for each id to
    which of the two it belongs (0, 1), where the model was trained with that. One that speaks HTTP is sent `given`, what the
    client gave: a text or ids for each input, or `pairs` of them. It may have to cut them: `truncate` is how many tokens stay
    (-1: as many as it takes, None: all), `truncate_side` the end that is cut off. `activation` as in `PoolRequest`."""

    id: str
    ids: Sequence[TokenIds] = ()
    given: Sequence[PoolInput] = ()
    truncate: int | None = None
    truncate_side: Literal["start", "end"] = "end"
    kind: PoolKind = "embed"
    types: Sequence[Sequence[int]] = ()
    pairs: Sequence[tuple[PoolInput, PoolInput]] = ()
    activation: bool | None = None


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


def pools_of(architectures: Iterable[str], classes: int) -> frozenset[PoolKind]:
    """The pooled work that a model which writes no text can do, by the names of its classes in transformers and by how many
    classes it tells apart. With one class it is a cross-encoder: the number says how well a pair of texts fits."""
    if not any("SequenceClassification" in each for each in architectures):
        return frozenset({"embed"})
    return frozenset({"score", "classify"}) if classes == 1 else frozenset({"classify"})


def class_names(names: Mapping[str, object]) -> tuple[str, ...]:
    """The names of classes in the order of their numbers, from the `id2label` of a model's config.json; () where a number has
    none."""
    found = [names.get(str(at)) for at in range(len(names))]
    return tuple([each for each in found if isinstance(each, str)]) if all(isinstance(e, str) for e in found) else ()


def sigmoid(value: float) -> float:
    """A number as a share, 0 to 1."""
    if value >= 0:
        return 1 / (1 + exp(-value))
    small = exp(value)
    return small / (1 + small)


def activated(vector: Vector) -> Vector:
    """The shares for the raw numbers of a classifier: by softmax, or by sigmoid where there is one number alone."""
    raw = vector.values
    if len(raw) == 1:
        return Vector(array("f", [sigmoid(raw[0])]), vector.tokens, vector.label)
    most = max(raw)
    parts = [exp(each - most) for each in raw]
    whole = sum(parts)
    return Vector(array("f", [each / whole for each in parts]), vector.tokens, vector.label)
