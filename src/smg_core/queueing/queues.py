"""The role of the queues before the models, for those who serve requests. Protocols; pure. Above: `serving.live`. Below:
`lease`."""

from collections.abc import Awaitable, Callable, Mapping
from math import inf
from typing import Protocol

from smg_core.lease import RequestLease
from smg_core.pipeline.answer.trace import Trace
from smg_core.queueing.settings import QueueConfig
from smg_core.request import GenerationRequest, PoolRequest
from smg_core.workers.settings import WorkersConfig

__all__ = ["NO_HEADERS", "HeaderRows", "ModelQueues"]

HeaderRows = list[tuple[bytes, bytes]]
NO_HEADERS: Mapping[str, str] = {}


class ModelQueues(Protocol):
    """The queues of a gateway. `due` says until when a request has to go to be in time for its objectives, where it has some."""

    due: Callable[[Mapping[str, str], str, int], float] | None

    def adopt(
        self, settings: QueueConfig, workers: WorkersConfig, weights: Mapping[str, float], retry_after: float
    ) -> None:
        """Go by these settings from the next request on."""

    def let_all_go(self) -> None:
        """Nothing waits any more: the queues are switched off, or the gateway stops."""

    def begin_generation(
        self,
        request: GenerationRequest,
        prompts: int,
        lease: RequestLease,
        trace: Trace,
        *,
        headers: Mapping[str, str] = NO_HEADERS,
        always: HeaderRows | None = None,
        deadline: float = inf,
        started: Callable[[], bool] | None = None,
    ) -> Awaitable[None] | None:
        """A request comes to its model. None where it is its turn at once; else what is to be awaited until it is. Its client is
        told its place and its wait in the headers `always`; `deadline` is in monotonic seconds, and `started` says whether its
        client has a part of the answer. Raises, or what is awaited raises, Overloaded, RateLimited and DeadlineExceeded for one
        that is refused."""

    def begin_pooled(
        self,
        request: PoolRequest,
        lease: RequestLease,
        trace: Trace,
        headers: Mapping[str, str],
        always: HeaderRows,
        *,
        unattended: bool = False,
    ) -> Awaitable[None] | None:
        """The same for a request for vectors or scores. `unattended`: nobody waits for it."""
