"""Makes the queues before the models from the settings, and changes them in a running gateway (edge).

A gateway without them loads nothing of them. Above: the assembly. Below: `waiting`.
"""

from smg_core.serving.services import Services

__all__ = ["adopt_queueing", "end_queueing"]


def adopt_queueing(services: Services) -> None:
    """Go by what the settings say of queues. Raises ConfigError for weights that are none."""
    live = services.live
    if not live.config.queue.enabled:
        end_queueing(services)
        return
    from smg_core.machine.memory import resident_bytes
    from smg_core.pipeline.flow.flow import reason_to_go_on
    from smg_core.queueing.bands import weights_in
    from smg_core.queueing.waiting import Queueing

    config = live.config
    weights = weights_in(config.queue.weights)
    if live.queueing is None:
        live.queueing = Queueing(
            services.clock,
            services.call_later,
            services.registry,
            services.models,
            services.lookup.served_name,
            lambda request: live.choice.chain(request),
            lambda request, model, error: reason_to_go_on(live.choice, request, model, error),
            services.observer,
            resident_bytes,
        )
    live.queueing.adopt(config.queue, config.workers, weights, config.limits.retry_after_s)


def end_queueing(services: Services) -> None:
    """There are no queues any more: what waits goes on."""
    if services.live.queueing is not None:
        services.live.queueing.let_all_go()
        services.live.queueing = None
