"""One request as the queue of a model knows it: a record that changes.

Pure. Above: `fair_order`, `model_queue`. Below: nothing.
"""

from collections.abc import Callable
from math import inf
from typing import Literal

import attrs

__all__ = ["QueueRefusal", "QueuedRequest", "Shedding", "Stage"]

Stage = Literal["unbegun", "begun", "sent"]
"""How far an answer is: nothing came of it, some of it came and none was sent, or its client has a part."""

Shedding = Literal["full", "tenant", "late", "deadline", "displaced", "waited"]
"""Why a request does not wait, or no longer: the queue is full, has as many of its tenant as it takes, its turn would come too
late, or it came to its deadline; another of a higher band has taken its place; it has waited for as long as it may."""


def _sent() -> Stage:
    return "sent"


@attrs.define(eq=False)
class QueuedRequest:
    """A request before a model, and while it is at work there. `cost` is what it is charged of its tenant's share, `tokens` what
    it has of the workers' caches, `requests` how many sequences, `size` the bytes of its body. Of one tenant's requests, those
    with a smaller `priority` are first; the sessions take turns. `deadline`, `due` (to be in time for its objectives) and
    `entered` are monotonic seconds. `stage` says how
    far its answer is, where it may be stopped for others. `place` is the one that it had when it began to wait."""

    tenant: str
    band: int
    cost: float = 1.0
    tokens: int = 1
    requests: int = 1
    size: int = 0
    session: str = ""
    priority: int = 0
    deadline: float = inf
    entered: float = 0.0
    stage: Callable[[], Stage] = _sent
    due: float = inf
    state: Literal["new", "waiting", "running", "over"] = attrs.field(default="new", init=False)
    expires: float = attrs.field(default=inf, init=False)
    place: int = attrs.field(default=0, init=False)
    stopped: bool = attrs.field(default=False, init=False)


@attrs.frozen
class QueueRefusal:
    """Why a request is refused, with the place it had or would have had, from 1 on, and the seconds after which it would have
    been its turn (None: nobody knows)."""

    why: Shedding
    place: int
    wait_s: float | None
