"""The facts of a moment that its metrics' labels depend on, for the moments of every request.

Two moments of one shape have the same labels in every metric, so these are found once a shape and not at each recording, and
moments of one shape are recorded together. A test holds the tables to that. There are few shapes, whoever sends requests. Other
moments are rare, and have no shape. Pure. Above: `recording`. Below: `metric`, hooks.
"""

from collections.abc import Callable, Hashable, Mapping
from typing import Any

import attrs

from smg_core.hooks import (
    AttemptEnded,
    EncodeDone,
    ExchangeEnded,
    Moment,
    RequestFinished,
    RequestStarted,
    WorkerPicked,
)
from smg_core.observability.metrics.metric import METHODS

__all__ = ["SHAPES", "MomentShape"]


@attrs.frozen
class MomentShape:
    """The `fields` of a moment that labels depend on; of those in `parts`, only what the function there says of the value."""

    fields: tuple[str, ...] = ()
    parts: Mapping[str, Callable[[Any], Hashable]] = attrs.field(factory=dict)

    def __call__(self, moment: Any) -> tuple[Hashable, ...]:
        """The shape of one moment."""
        values = [(field, getattr(moment, field)) for field in self.fields]
        return tuple([self.parts[field](value) if field in self.parts else value for field, value in values])


def _basis(cached: tuple[int, str] | None) -> str:
    return "" if cached is None else cached[1]


_KNOWN_METHOD: Callable[[str], Hashable] = {method: method for method in METHODS}.get
"""The method of a request; None for one that only a stranger names."""

SHAPES: Mapping[type[Moment], MomentShape] = {
    RequestStarted: MomentShape(("api", "stream")),
    EncodeDone: MomentShape(),
    WorkerPicked: MomentShape(("model", "policy", "role", "transport", "cached"), {"cached": _basis}),
    AttemptEnded: MomentShape(("worker", "model", "role", "outcome", "transport")),
    RequestFinished: MomentShape(("served", "api", "transport", "outcome", "status", "stream", "attempts")),
    ExchangeEnded: MomentShape(("method", "route", "status", "outcome"), {"method": _KNOWN_METHOD}),
}
