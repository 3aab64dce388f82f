"""The queue before each model.

A record of settings: `config` gathers it, with those of the other rooms. Below: `settings`.
"""

import attrs

from smg_core.settings import MIB, bound, option

__all__ = ["QueueConfig"]


@attrs.frozen
class QueueConfig:
    """The queue before each model, in which requests wait while its workers are full."""

    enabled: bool = option(
        False,
        "Let requests wait before a model whose workers are full, by band and fairly between tenants, instead of passing all of "
        "them on ([docs](queueing.md)).",
    )
    weights: tuple[str, ...] = option(
        (),
        "Shares of tenants, one a line: TENANT=WEIGHT. A tenant with the weight 2 gets twice as much as one without a line, "
        "which has 1, while both have requests waiting.",
    )
    wait_s: float = option(
        30.0,
        "Seconds that a request may wait; one of the bands system and interactive waits a third of that. One that would wait for "
        "longer is refused at once.",
        at_least=0.01,
        at_most=86_400,
    )
    absent_s: float = bound(
        120.0,
        "Seconds that a request may wait while no worker of its model is ready.",
        at_least=0,
        at_most=86_400,
    )
    requests: int = option(2000, "Most requests that wait before one model.", at_least=1, at_most=1_000_000)
    bytes: int = bound(
        256 * MIB, "Most bytes of bodies of requests that wait before one model.", at_least=1024, at_most=1 << 40
    )
    tenant_share: float = bound(
        0.25,
        "Share of queue.requests and of queue.bytes that the requests of one tenant may have.",
        at_least=0.001,
        at_most=1,
    )
    preempt: bool = option(
        False,
        "Stop a request of the band batch that has not sent a byte where one of the bands system and interactive waits; it goes "
        "back into the queue.",
    )
    strain_bytes: int = bound(
        0,
        "Memory of a process, in bytes, at which it takes no request into an engine but one at a time; fewer of the lower bands "
        "from 60 % of it on. 0: not looked at.",
        at_least=0,
        at_most=1 << 50,
    )
