"""Makes limits and queues of a gateway from its settings, and changes them while it runs (edge: reads the table of prices).

A gateway without rules has none, and loads nothing of them. Above: the assembly. Below: limits, `serving.limiting`.
"""

import sys
from contextlib import nullcontext
from typing import TYPE_CHECKING

import attrs

from smg_core.clock import Clock
from smg_core.config.config import Config
from smg_core.extras import missing
from smg_core.gateway.mesh import mesh_counters, shared_counter_count
from smg_core.gateway.queueing import adopt_queueing
from smg_core.machine.shared_block import SharedBlock
from smg_core.serving.services import Services
from smg_core.settings import ConfigError

if TYPE_CHECKING:
    from smg_core.limits.shared import SharedCounters
    from smg_core.limits.store import StoreCounters
    from smg_core.meshed.shared_counters import SharedSpeaker
    from smg_core.serving.limiting import Counters, Limiting
    from smg_core.workers.rates import WorkerRates

__all__ = ["LimitMemory", "adopt_limits", "counters_block", "forget_process", "meshed_block"]

_NUMBER, _OF_A_COUNTER = 8, 8  # bytes of a number, and numbers of a counter beside one for each process
_OF_A_WORKER = 2  # rates that its entry may have


def adopt_limits(services: Services, memory: "LimitMemory | None" = None) -> None:
    """Go by the rules that the settings have now, and by what they say of queues. `memory` is shared with other processes;
    without it, this one counts alone. Raises ConfigError for rules and prices that are none."""
    services.live.limiting = _limiting(services, memory) if services.live.config.limits.rules else None
    services.registry.make_rates = lambda: _rates(services, memory)
    adopt_queueing(services)


def _rates(services: Services, memory: "LimitMemory | None") -> "WorkerRates":
    """What counts how many requests and tokens a minute the entries of workers allow: this gateway's, of all its processes."""
    from smg_core.limits.counters import Instant
    from smg_core.limits.memory import MemoryCounters
    from smg_core.workers.rates import WorkerRates

    clock, config = services.clock, services.live.config
    counters = memory.of_gateway(config) if memory is not None else None
    held = counters or MemoryCounters(_OF_A_WORKER * config.workers.most, config.limits.zone)
    return WorkerRates(held, lambda: Instant(int(clock.monotonic() * 1_000_000), clock.time()))


def _limiting(services: Services, memory: "LimitMemory | None") -> "Limiting":
    from smg_core.limits.memory import MemoryCounters
    from smg_core.limits.prices import PricesRefused
    from smg_core.limits.prices_file import prices_from
    from smg_core.limits.rules import RuleRefused, read_rules
    from smg_core.limits.teams import read_teams
    from smg_core.serving.limiting import Limiting
    from smg_core.workers.own_prices import OwnPrices

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
            or (memory.counters(services.live.config) if memory is not None else mesh_counters(services))
            or MemoryCounters(settings.counters, settings.zone)
        )
        limiting = Limiting(
            held,
            services.clock,
            services.call_later,
            services.lookup.served_name,
            lambda: services.admission.retry_after,
            OwnPrices(services.registry),
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
        raise ConfigError(missing("limits.store", error)) from None

    settings = services.live.config.limits
    terms = StoreTerms(settings.on_loss, settings.store_timeout_s, settings.reservation_s, settings.zone)
    try:
        return services.side_tasks.one_of(
            StoreCounters, lambda: StoreCounters(url, services.clock, terms, observer=services.observer)
        )
    except ValueError as error:
        raise ConfigError(f"limits.store: {error}") from None


@attrs.frozen(eq=False)
class LimitMemory:
    """The memory in which the processes of a gateway count limits together, of which this one has column `own` of so many
    `processes`, with one more for what other gateways have at once. `meshed` has what these are told of, if there may be any."""

    limits: SharedBlock
    own: int
    processes: int
    meshed: SharedBlock | None = None

    def counters(self, config: Config) -> "Counters":
        """The counters of this process."""
        mesh, zone = config.mesh, config.limits.zone
        if self.meshed is None or mesh.kind == "off":
            return self.of_gateway(config)
        from smg_core.limits.shared import SharedCounters
        from smg_core.meshed.shared_counters import SharedMeshCounters
        from smg_core.meshed.shared_rows import SharedRows

        rows = SharedRows(self.meshed.cells(), self.limits.lock)
        held = SharedCounters(self.limits.cells(), nullcontext(), self.own, self.processes + 1, zone)
        return SharedMeshCounters(held, rows, zone, mesh.guard, mesh.partition)

    def of_gateway(self, config: Config) -> "SharedCounters":
        """The counters of this process, of which other gateways are told nothing."""
        from smg_core.limits.shared import SharedCounters

        return SharedCounters(self.limits.cells(), self.limits.lock, self.own, self.processes + 1, config.limits.zone)

    def speaker(self, config: Config, name: str, clock: Clock) -> "SharedSpeaker | None":
        """What speaks for all processes in the mesh, under that name; None where a store counts."""
        from smg_core.limits.shared import SharedCounters
        from smg_core.meshed.shared_counters import SharedSpeaker
        from smg_core.meshed.shared_rows import SharedRows

        if self.meshed is None or config.limits.store is not None:
            return None
        zone = config.limits.zone
        held = SharedCounters(self.limits.cells(), nullcontext(), self.processes, self.processes + 1, zone)
        rows = SharedRows(self.meshed.cells(), self.limits.lock)
        return SharedSpeaker(held, rows, zone, name, int(clock.time() * 1000), clock.time)


def counters_block(counters: int, processes: int) -> SharedBlock | None:
    """The block in which so many processes count; None where a system has no lock for it. Nothing of it exists before a rule is
    counted there."""
    if sys.platform == "win32":
        return None
    return SharedBlock.made(_NUMBER * counters * (_OF_A_COUNTER + processes + 1))


def meshed_block(config: Config) -> SharedBlock | None:
    """The block for what other gateways are told of, where there may be any."""
    if config.mesh.kind == "off":
        return None
    from smg_core.meshed.shared_rows import rows_bytes

    return SharedBlock.made(rows_bytes(shared_counter_count(config)))


def forget_process(block: SharedBlock, number: int, processes: int) -> None:
    """A process is gone: what its requests had reserved is free again."""
    cells = block.cells()
    if cells[0]:
        from smg_core.limits.shared import forget

        forget(cells, block.lock, number, processes + 1)
