"""The policy for each model and role: of the program's argument, else of the settings.

Pure. Above: gateway.assembly, config.check. Below: routing.
"""

from collections.abc import Callable, Mapping
from functools import partial
from random import Random
from typing import TypeAlias

import attrs

from smg_core.routing import Policies, Policy, policy, policy_for
from smg_core.routing.named import checked_policy, policy_place
from smg_core.routing.settings import RoutingConfig

__all__ = ["GivenPolicies", "GivenPolicy", "makes_other_policies", "policies_of"]

GivenPolicy: TypeAlias = str | Policy | Callable[[], Policy] | None
"""What a program gives for a policy: its name, a factory, or one that serves all."""
GivenPolicies: TypeAlias = Mapping[str, str | Policy | Callable[[], Policy]]
"""The same by "MODEL", "MODEL/ROLE" or "*/ROLE"."""

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
    settings: RoutingConfig,
    given: GivenPolicy = None,
    rng: Random | None = None,
    others: GivenPolicies | None = None,
) -> Policies:
    """The policies of one gateway: `given` for every model and role, else what `settings` say; `others` are for their places.
    Raises ValueError for a row of `settings.policies` that is not of its form; the name of a policy is looked up, and what is
    `given` looked at, when one is first made."""
    chance = rng or Random()

    def named(name: str) -> Callable[[], Policy]:
        return lambda: policy(name, settings, chance)

    if given is None:
        places = {_EMBEDDING: named("least_load")}
        places |= {place: named(name) for place, name in policy_for(settings.policies).items()}
        usual = named(settings.policy)
    else:
        places, usual = {}, _maker(given, named)
    places |= {policy_place(place): _maker(each, named) for place, each in (others or {}).items()}
    return Policies(usual, places)


def _maker(
    given: str | Policy | Callable[[], Policy], named: Callable[[str], Callable[[], Policy]]
) -> Callable[[], Policy]:
    """What makes a policy of what a program has given."""
    if isinstance(given, str):
        return named(given)
    called = getattr(given, "__qualname__", None) or f"the given {type(given).__qualname__}"
    if callable(given) and (isinstance(given, type) or not hasattr(given, "pick")):
        return partial(checked_policy, called, given)
    return lambda: checked_policy(called, lambda: given)  # what has a `pick` is no factory
