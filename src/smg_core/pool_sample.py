"""The load of a worker, and of a pool of one model and role, at one moment.

Records; pure. Above: hooks, `workers.pools`.
"""

from msgspec import Struct

__all__ = ["PoolSampled", "WorkerSampled"]


class PoolSampled(Struct, frozen=True):
    """The workers of one model and role together, over all processes: how many there are, and are ready; the requests in flight
    to them; those that wait in their engines and that these work on, by their last reports; the tokens of prompts that were sent
    and that no output has followed yet; the mean share of their KV caches in use. `ended_a_second` is how many calls ended
    lately, and `wait_s` how long a request that comes now waits to be begun, by that; None where it is not known."""

    model: str
    role: str
    workers: int
    ready: int
    in_flight: int
    waiting: int
    running: int
    waiting_tokens: int
    kv_usage: float
    ended_a_second: float | None
    wait_s: float | None


class WorkerSampled(Struct, frozen=True):
    """A worker as one process sees it: its state, the requests in flight to it of all processes, and how many its engine says
    wait there."""

    name: str
    state: str
    in_flight: int
    waiting: int
