"""Logs for the operator of `serve` while workers join: that one is ready, with a request to try, or repeatedly that none is
(edge).

Runs beside the server, as one task in one of the processes. Above: processes.serve. Below: the registry, which it reads.
"""

import logging

from smg_core.apis.status.routes import curl
from smg_core.models.sealing_keys import DRAWN
from smg_core.serving.lifecycle import Lifecycle

__all__ = ["announce"]

log = logging.getLogger("smg.server")


async def announce(gateway: Lifecycle, base: str, pause: float) -> None:
    """Return once a worker is ready. Logs that, with a request to try at `base`, the URL of the server. Until then it logs
    every `pause` seconds (0: never) which workers are missing and why."""
    services = gateway.services
    while True:
        try:
            await gateway.ready(pause or None)
        except TimeoutError:
            log.warning("still no worker after another %g s: %s", pause, services.registry.missing())
        else:
            break
    names = sorted(services.models)
    sealing = services.live.config.sealing
    if not sealing.keys and sealing.keys_file is None:
        log.warning(DRAWN)
    log.info("ready, with %s; try: %s", ", ".join(names), curl(services, base, names[0]))
