"""The moments of limits, queues, the cache of answers, and objectives: moments of `hooks`. Records; pure."""

from msgspec import Struct

__all__ = ["AnswerLookedUp", "BudgetLow", "ObjectiveKept", "QueueLeft", "TimePredicted"]


class BudgetLow(Struct, frozen=True):
    """So large a share of a budget (`limits.warn_at`) is spent as was not before in its window. `rule` is its line."""

    rule: str
    tenant: str


class QueueLeft(Struct, frozen=True):
    """A request that waited before `model` in `band` for `seconds` waits no longer, or did not come to wait; so many of the band
    are `waiting` now. `outcome` is "went" (to a worker), "left" (its client did), "stopped" (for a request of a higher band,
    or since the workers were filled by another process), or why it was refused; "" where nobody left and only the number has
    changed."""

    model: str
    band: str
    outcome: str
    seconds: float
    waiting: int


class AnswerLookedUp(Struct, frozen=True):
    """A request for `model` was looked up in the cache of answers: "hit", "shared" (an equal one is being answered), "miss", or
    "unshared" (nothing came of the one that it shared). The answers that this process keeps have so many `bytes`."""

    model: str
    outcome: str
    bytes: int


class TimePredicted(Struct, frozen=True):
    """A request's time was predicted when it was sent to a worker: of the "first" token, or of "each" further one; so many
    `seconds` it was then."""

    model: str
    kind: str
    expected: float
    seconds: float


class ObjectiveKept(Struct, frozen=True):
    """What a request asked of its time to the "first" token, or of "each" further one, was "met" or "missed"."""

    model: str
    kind: str
    outcome: str
