"""Has every part of a gateway that runs go by other settings (edge).

Above: the assembly, for `operation.control`. Below: what makes limits, prices, the mesh, placement and policies of settings.
"""

from smg_core.config.config import Config
from smg_core.gateway.ledger import adopt_ledger
from smg_core.gateway.limits import LimitMemory, adopt_limits
from smg_core.gateway.mesh import adopt_mesh
from smg_core.gateway.objectives import adopt_objectives
from smg_core.gateway.placement import adopt_placement
from smg_core.gateway.response_cache import adopt_caching
from smg_core.models.policies import GivenPolicies, GivenPolicy, makes_other_policies, policies_of
from smg_core.serving.services import Services

__all__ = ["adopt_settings"]


def adopt_settings(
    services: Services,
    config: Config,
    memory: LimitMemory | None,
    given: tuple[GivenPolicy, GivenPolicies],
) -> None:
    """Go by `config` from now on, which differs from the present settings in live ones alone. `memory` as of `adopt_limits`;
    `given` are the program's own policies."""
    running = services.running
    before = services.live.config
    services.live.adopt(config)
    adopt_limits(services, memory)
    adopt_ledger(services)
    adopt_mesh(services)
    services.admission.adopt(config.limits.concurrent_requests, config.limits.retry_after_s)
    services.registry.adopt(config.workers, config.breaker, config.limits.retry_after_s)
    running.monitor.adopt(config.workers)
    adopt_placement(services)
    if makes_other_policies(before.routing, config.routing):
        services.policies.adopt(policies_of(config.routing, given[0], services.rng, given[1]))
        if services.life.started:
            running.cache_losses.policies_changed()
    if services.life.started:  # before that there is no driver
        adopt_objectives(services)
        adopt_caching(services)
