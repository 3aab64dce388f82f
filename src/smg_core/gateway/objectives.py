"""Makes the objectives' performers from the settings, and changes them in a running gateway (edge).

A gateway without it loads nothing of it. Above: the assembly. Below: objectives, and who asks them.
"""

from smg_core.serving.services import Services

__all__ = ["adopt_objectives"]

_READS = ("regular", "prefill")
"""The roles of workers that read prompts."""


def adopt_objectives(services: Services) -> None:
    """Go by what the settings say of objectives. What was learned of workers stays."""
    wish, selecting, queueing = (
        services.live.config.routing.objectives,
        services.running.performers.selecting,
        services.live.queueing,
    )
    if wish == "off":
        selecting.objectives = None
        if queueing is not None:
            queueing.due = None
        return
    from smg_core.objectives.objectives import Objectives

    if selecting.objectives is None:
        selecting.objectives = Objectives(services.observer, lambda: services.admission.retry_after)
    objectives = selecting.objectives
    objectives.on_missed = wish
    if queueing is not None:
        queueing.due = lambda headers, model, prompt: objectives.due(
            headers,
            model,
            [each for each in services.registry.of(model) if each.state == "ready" and each.role in _READS],
            prompt,
            services.clock.monotonic(),
        )
