"""Has engines load adapters on demand, by the settings, and wake for a request (edge).

A gateway without such adapters loads nothing of that. Above: the assembly. Below: `fleet.adapter_loading`, `fleet.sleeping`.
"""

from contextlib import AsyncExitStack

from smg_core.fleet.sleeping import Sleeping
from smg_core.serving.services import Services

__all__ = ["load_adapters_on_demand", "wake_on_demand"]


def load_adapters_on_demand(services: Services, stack: AsyncExitStack) -> None:
    """Have requests for adapters wait for a worker that holds them, until `stack` is closed."""
    settings, running = services.live.config.workers, services.running
    if not settings.adapters:
        return
    from smg_core.fleet.adapter_loading import AdapterLoading

    loading = AdapterLoading(
        settings, services.registry, running.adapter_changes, services.clock, services.ids, services.models
    )
    running.performers.selecting.adapters = loading
    stack.push_async_callback(loading.close)


def wake_on_demand(services: Services, stack: AsyncExitStack) -> None:
    """Have requests wait for a worker that is woken for them, where none is awake, until `stack` is closed."""
    running, config = services.running, services.live.config
    running.sleeping = Sleeping(
        config.workers, services.registry, services.channel, running.cache_losses.emptied, config.channel.publish_s
    )
    running.sleeping.listen()
    running.performers.selecting.sleeping = running.performers.pooling.sleeping = running.sleeping
    stack.push_async_callback(running.sleeping.close)
