"""Which engine gets a request, and how often others are tried.

A record of settings: `config` gathers it, with those of the other rooms. Below: `settings`.
"""

import attrs

from smg_core.settings import option

__all__ = ["RoutingConfig"]


@attrs.frozen
class RoutingConfig:
    """Which engine gets a request."""

    policy: str = option(
        "round_robin", "Routing policy: a built-in name, or one that an installed package adds.", flag="--policy"
    )
    retries: int = option(
        3, "Other engines to try, before the first byte, when one is lost or full.", at_least=0, at_most=100
    )
    retry_s: float = option(
        0.05,
        "Seconds before the second retry, doubled for each further one; each waits half to all of it. The first waits none.",
        at_least=0,
        at_most=600,
    )
    retry_most_s: float = option(1.0, "Most seconds before a retry.", at_least=0, at_most=600)
