"""Makes the placement of a gateway from its settings, and changes it while the gateway runs (edge).

A gateway without such rules has none, and loads nothing of them. Above: the assembly. Below: placement, and who asks it.
"""

from smg_core.serving.services import Services
from smg_core.settings import ConfigError

__all__ = ["adopt_placement"]


def adopt_placement(services: Services) -> None:
    """Go by the rules that the settings have now. Raises ConfigError for lines that are none."""
    lines, placement = services.live.config.routing.placement, None
    if lines:
        from smg_core.placement.placing import Placing
        from smg_core.placement.rules import PlacementRefused, read_placement

        try:
            placement = Placing(read_placement(lines))
        except PlacementRefused as error:
            raise ConfigError(f"routing.placement: {error}") from None
    performers = services.running.performers
    services.live.placement = performers.selecting.placement = performers.pooling.placement = placement
