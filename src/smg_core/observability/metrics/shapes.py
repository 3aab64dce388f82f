"""What of a moment the labels of its metrics depend on, for the moments that every request has.

Two moments of one shape have the same labels in every metric, so these are found once a shape and not at each recording. A test
holds the tables to that. There are few shapes, whoever sends requests. Other moments are rare, and have no shape. Pure. Above:
`recording`. Below: `metric`, hooks.
"""

from collections.abc import Callable, Hashable, Mapping
from operator import attrgetter
from typing import Any

from smg_core.hooks import (
    AttemptEnded,
    EncodeDone,
    ExchangeEnded,
    Moment,
    RequestFinished,
    RequestStarted,
    WorkerPicked,
)
from smg_core.observability.metrics.metric import method_label

__all__ = ["SHAPES"]


def _picked(picked: WorkerPicked) -> tuple[str, ...]:
    basis = picked.cached[1] if picked.cached else ""
    return picked.model, picked.policy, picked.role, picked.transport, basis


def _ended(ended: ExchangeEnded) -> tuple[str, str, int, str]:
    return method_label(ended.method), ended.route, ended.status, ended.outcome


def _alike(moment: Any) -> Hashable:
    return ()


SHAPES: Mapping[type[Moment], Callable[[Any], Hashable]] = {
    RequestStarted: attrgetter("api", "stream"),
    EncodeDone: _alike,
    WorkerPicked: _picked,
    AttemptEnded: attrgetter("worker", "model", "role", "outcome", "transport"),
    RequestFinished: attrgetter("served", "api", "transport", "outcome", "status", "stream", "attempts"),
    ExchangeEnded: _ended,
}
