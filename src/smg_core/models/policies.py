"""Which policy is made for which model and role: of the program's argument, else of the settings.

Pure. Above: gateway.assembly, config.check. Below: routing.
"""

from collections.abc import Callable
from functools import partial
from random import Random

import attrs

from smg_core.routing import Policies, Policy, policy, policy_for
from smg_core.routing.named import checked_policy
from smg_core.routing.settings import RoutingConfig

__all__ = ["makes_other_policies", "policies_of"]

_ELSEWHERE = frozenset(
    {
        *("retries", "retry_s", "retry_most_s", "retry_share", "retry_reserve", "decisions", "decision_bytes"),
        *("hedge_after_s", "hedge_percentile", "hedge_tokens", "hedge_prompt_tokens", "hedge_share", "hedge_reserve"),
        *("hedge_recent", "shadows", "placement", "shadow_at_once", "shadow_s"),
    }
)
"""Settings of routing that no policy reads."""

_EMBEDDING = ("*", "embedding")
"""Of pooled work the tokens matter, and no cache of prefixes does."""


def makes_other_policies(before: RoutingConfig, after: RoutingConfig) -> bool:
    """Whether policies made by `after` are others than those made by `before`."""
    names = (field.name for field in attrs.fields(RoutingConfig) if field.name not in _ELSEWHERE)
    return any(getattr(before, name) != getattr(after, name) for name in names)


def policies_of(
    settings: RoutingConfig, given: str | Policy | Callable[[], Policy] | None = None, rng: Random | None = None
) -> Policies:
    """The policies of one gateway: `given` for every model and role, else what `settings` say. Raises ValueError for a row of
    `settings.policies` that is not of its form; the name of a policy is looked up, and what is `given` looked at, when one is
    first made."""
    chance = rng or Random()

    def named(name: str) -> Callable[[], Policy]:
        return lambda: policy(name, settings, chance)

    if given is None:
        others = {_EMBEDDING: named("least_load")}
        others |= {place: named(name) for place, name in policy_for(settings.policies).items()}
        return Policies(named(settings.policy), others)
    if isinstance(given, str):
        return Policies(named(given))
    called = getattr(given, "__qualname__", None) or f"the given {type(given).__qualname__}"
    if callable(given) and (isinstance(given, type) or not hasattr(given, "pick")):
        return Policies(partial(checked_policy, called, given))
    return Policies(lambda: checked_policy(called, lambda: given))  # what has a `pick` is no factory
