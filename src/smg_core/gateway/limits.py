"""Makes limits and queues of a gateway from its settings, and changes them while it runs (edge: reads the table of prices).

A gateway without rules has none, and loads nothing of them. Above: the assembly. Below: limits, `serving.limiting`.
"""

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from smg_core.gateway.mesh import mesh_counters
from smg_core.gateway.queueing import adopt_queueing
from smg_core.machine.shared_block import SharedBlock
from smg_core.serving.services import Services
from smg_core.settings import ConfigError

if TYPE_CHECKING:
    from smg_core.limits.store import StoreCounters
    from smg_core.serving.limiting import Counters, Limiting

__all__ = ["adopt_limits", "counters_block", "forget_process", "shared_counters"]

_NUMBER, _OF_A_COUNTER = 8, 8  # bytes of a number, and numbers of a counter beside one for each process


def adopt_limits(services: Services, counters: "Callable[[], Counters] | None" = None) -> None:
    """Go by the rules that the settings have now, and by what they say of queues. `counters` makes what holds the counts; without
    it, this process does. Raises ConfigError for rules and prices that are none."""
    services.live.limiting = _limiting(services, counters) if services.live.config.limits.rules else None
    adopt_queueing(services)


def _limiting(services: Services, counters: "Callable[[], Counters] | None") -> "Limiting":
    from smg_core.limits.memory import MemoryCounters
    from smg_core.limits.prices import PricesRefused
    from smg_core.limits.prices_file import prices_from
    from smg_core.limits.rules import RuleRefused, read_rules
    from smg_core.limits.teams import read_teams
    from smg_core.serving.limiting import Limiting

    settings, limiting = services.live.config.limits, services.live.limiting
    try:
        rules = read_rules(settings.rules)
    except RuleRefused as error:
        raise ConfigError(f"limits.rules: {error}") from None
    try:
        teams = read_teams(settings.teams)
    except RuleRefused as error:
        raise ConfigError(f"limits.teams: {error}") from None
    if limiting is None:
        stored = None if settings.store is None else _stored(services, settings.store)
        held: Counters = (
            stored
            or mesh_counters(services)
            or (MemoryCounters(settings.counters, settings.zone) if counters is None else counters())
        )
        limiting = Limiting(
            held,
            services.clock,
            services.call_later,
            services.lookup.served_name,
            lambda: services.admission.retry_after,
        )
        limiting.stored = stored
    prices = limiting.prices
    if not prices.exact and any(rule.unit == "money" for rule in rules):
        try:
            prices = prices_from(settings.prices)
        except PricesRefused as error:
            raise ConfigError(f"limits.prices: {error}") from None
    limiting.adopt(settings, rules, prices, teams)
    return limiting


def _stored(services: Services, url: str) -> "StoreCounters":
    """The counters in the store at `url`, which are kept up while the gateway runs. Raises ConfigError where the library for it
    is missing."""
    try:
        from smg_core.limits.store import StoreCounters, StoreTerms
    except ModuleNotFoundError as error:
        raise ConfigError(f"limits.store needs the extra smg-sdk[redis]: {error.name} is missing") from None

    settings = services.live.config.limits
    terms = StoreTerms(settings.on_loss, settings.store_timeout_s, settings.reservation_s, settings.zone)
    try:
        return services.side_tasks.one_of(
            StoreCounters, lambda: StoreCounters(url, services.clock, terms, observer=services.observer)
        )
    except ValueError as error:
        raise ConfigError(f"limits.store: {error}") from None


def shared_counters(block: SharedBlock, number: int, processes: int, zone: str) -> "Counters":
    """The counters of several processes, in a block that they share; this is the one of that number."""
    from smg_core.limits.shared import SharedCounters

    return SharedCounters(block.cells(), block.lock, number, processes, zone)


def counters_block(counters: int, processes: int) -> SharedBlock | None:
    """The block in which so many processes count; None where a system has no lock for it. Nothing of it exists before a rule is
    counted there."""
    if sys.platform == "win32":
        return None
    return SharedBlock.made(_NUMBER * counters * (_OF_A_COUNTER + processes))


def forget_process(block: SharedBlock, number: int, processes: int) -> None:
    """A process is gone: what its requests had reserved is free again."""
    cells = block.cells()
    if cells[0]:
        from smg_core.limits.shared import forget

        forget(cells, block.lock, number, processes)
