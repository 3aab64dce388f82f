"""The consequences of workers' calls: monitor and policies are told, and requests go on with other workers (edge).

Above: the assembly, which gives these methods to the pipeline and to the monitor. Below: `serving.services`.
"""

from smg_core.errors import SmgError, WorkerError
from smg_core.pipeline.flow.steps import Chosen
from smg_core.routing.base import RequestEnded
from smg_core.serving.services import Services
from smg_core.workers.worker import Worker

__all__ = ["CallOutcomes"]


class CallOutcomes:
    """What a gateway does where a call of a worker has ended, or a worker is lost."""

    def __init__(self, services: Services) -> None:
        self.services = services

    def move(self, worker: Worker) -> None:
        """Have the calls of a worker go on with others, as far as these can take them."""
        running = self.services.running
        running.performers.streaming.move_all(worker)
        running.performers.pooling.move(worker)

    def lost(self, worker: Worker) -> None:
        """Called each time that a worker does not answer a health check: its waiting requests are tried on other workers, as far
        as these can take them."""
        services = self.services
        live, running = services.live, services.running
        running.performers.streaming.move_waiting(worker, live.config.workers.probe_timeout_s)
        running.performers.pooling.move(worker)

    def ended(self, chosen: Chosen, error: SmgError | None, seconds: float, counts: bool) -> None:
        """Called when a call of a worker has ended: tells the monitor, if it says something of the worker, and the policies of
        the worker's models."""
        services = self.services
        running = services.running
        worker = chosen.worker
        rank = chosen.rank if worker.spec.rank is None else None
        first = chosen.probe is None or (counts and chosen.probe.take_outcome())
        if counts and (first or error is not None):
            running.monitor.outcome(worker, error, services.clock.monotonic(), rank)
        elif not counts:
            chosen.give_back()
        if services.policies.observers and worker.state != "gone":  # of one that is gone they have forgotten all
            ended = RequestEnded(worker.name, isinstance(error, WorkerError), seconds)
            services.policies.request_ended(ended, worker.models)

    def handed_over(self, start: Chosen, end: Chosen, error: SmgError | None, began: float) -> None:
        """Called when it is known whether one worker got the cache of another one: tells the monitor."""
        running = self.services.running
        running.monitor.handover((start.worker, start.rank), (end.worker, end.rank), error, began)
