"""Has engines load adapters on demand, where the settings name such (edge).

A gateway without them loads nothing of this. Above: the assembly. Below: `fleet.adapter_loading`.
"""

from contextlib import AsyncExitStack

from smg_core.serving.services import Services

__all__ = ["load_adapters_on_demand"]


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
