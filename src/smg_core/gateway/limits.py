"""Makes the limits of a gateway from its settings, and changes them while it runs (edge: reads the table of prices).

A gateway without rules has none, and loads nothing of them. Above: the assembly. Below: limits, `serving.limiting`.
"""

from typing import TYPE_CHECKING

from smg_core.serving.services import Services
from smg_core.settings import ConfigError

if TYPE_CHECKING:
    from smg_core.serving.limiting import Counters, Limiting

__all__ = ["adopt_limits"]


def adopt_limits(services: Services, counters: "Counters | None" = None) -> None:
    """Go by the rules that the settings have now. `counters` hold what is counted; without them, this process does. Raises
    ConfigError for rules and prices that are none."""
    services.live.limiting = _limiting(services, counters) if services.live.config.limits.rules else None


def _limiting(services: Services, counters: "Counters | None") -> "Limiting":
    from smg_core.limits.memory import MemoryCounters
    from smg_core.limits.prices import PricesRefused
    from smg_core.limits.prices_file import prices_from
    from smg_core.limits.rules import RuleRefused, read_rules
    from smg_core.serving.limiting import Limiting

    settings, limiting = services.live.config.limits, services.live.limiting
    try:
        rules = read_rules(settings.rules)
    except RuleRefused as error:
        raise ConfigError(f"limits.rules: {error}") from None
    if limiting is None:
        limiting = Limiting(
            counters or MemoryCounters(settings.counters, settings.zone),
            services.clock,
            services.call_later,
            services.lookup.served_name,
            lambda: services.admission.retry_after,
        )
    prices = limiting.prices
    if not prices.exact and any(rule.unit == "money" for rule in rules):
        try:
            prices = prices_from(settings.prices)
        except PricesRefused as error:
            raise ConfigError(f"limits.prices: {error}") from None
    limiting.adopt(settings, rules, prices)
    return limiting
