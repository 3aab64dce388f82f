"""The table of performers: one row for each kind of step (edge).

`gateway.assembly` builds its driver from `performers`. A flow with steps of its own adds their performers as further rows.
"""

from collections.abc import Mapping
from typing import Any

import attrs

from smg_core.clock import CallLater, Clock
from smg_core.pipeline.calls.executor import FairExecutor
from smg_core.pipeline.calls.hedging import Hedging
from smg_core.pipeline.calls.passing_media import ContentServices, brings_content
from smg_core.pipeline.calls.preparing import Preparing
from smg_core.pipeline.calls.selecting import Selecting
from smg_core.pipeline.calls.streaming import OnOutcome, Streaming
from smg_core.pipeline.flow.driver import Driver, Performer, finish, tell, wait
from smg_core.pipeline.flow.steps import Finish, Hedge, Prepare, Select, Step, Stream, Tell, Together, Wait
from smg_core.pipeline.flow.together import PerformTogether
from smg_core.pipeline.pairs.pairing import OnHandover, Pairs, untold
from smg_core.pipeline.pooled.pooling import Pooling
from smg_core.pipeline.prompt.served import ServedAs, ServedModel, SharedOut, as_named, unshared
from smg_core.pipeline.settings import DisaggregationConfig
from smg_core.routing import Decisions, Policies
from smg_core.workers.registry import Registry

__all__ = ["Performers", "Rows", "performers"]

_NO_CONTENT = ContentServices()
_DISAGGREGATION = DisaggregationConfig()

Rows = Mapping[type[Step[Any]], Performer]
"""Kind of step to performer."""


@attrs.frozen(eq=False)
class Performers:
    """The performers of the steps that every request takes. `preparing` and `selecting` are also used alone, to explain what
    would be done with a request. `pooling` answers requests for pooled work, which take no steps."""

    preparing: Preparing
    selecting: Selecting
    streaming: Streaming
    hedging: Hedging
    pooling: Pooling
    clock: Clock
    call_later: CallLater

    def rows(self) -> dict[type[Step[object]], Performer]:
        """Kind of step to performer."""
        return {
            Prepare: self.preparing,
            Select: self.selecting,
            Stream: self.streaming,
            Hedge: self.hedging,
            Tell: tell,
            Finish: finish,
            Wait: wait,
        }

    def driver(self, further: Rows) -> Driver:
        """A driver with these performers and `further` ones, and with their clock."""
        driver = Driver({**self.rows(), **further}, clock=self.clock, call_later=self.call_later)
        driver.learn({Together: PerformTogether(driver.drive)})
        return driver


def performers(
    *,
    registry: Registry,
    models: Mapping[str, ServedModel],
    policies: Policies,
    clock: Clock,
    executor: FairExecutor,
    on_outcome: OnOutcome,
    call_later: CallLater,
    prefix_tokens: int,
    served_as: ServedAs = as_named,
    shared_out: SharedOut = unshared,
    content: ContentServices = _NO_CONTENT,
    disaggregation: DisaggregationConfig = _DISAGGREGATION,
    decisions: Decisions | None = None,
    on_handover: OnHandover = untold,
) -> Performers:
    """The performers of one gateway. `content` has what reads documents and fetches media; other arguments as of `Preparing`,
    `Selecting` and `Streaming`."""
    pairs = Pairs(
        clock=clock, on_outcome=on_outcome, call_later=call_later, settings=disaggregation, on_handover=on_handover
    )
    preparing = Preparing(
        registry=registry,
        models=models,
        clock=clock,
        executor=executor,
        served_as=served_as,
        shared_out=shared_out,
        content=brings_content(content, executor),
        noted=content.noted,
    )
    selecting = Selecting(
        registry=registry,
        models=models,
        policies=policies,
        clock=clock,
        disaggregation=disaggregation,
        prefix_tokens=prefix_tokens,
        decisions=decisions,
    )
    streaming = Streaming(
        clock=clock,
        on_outcome=on_outcome,
        selecting=selecting,
        call_later=call_later,
        pairs=pairs,
        executor=executor,
        on_handover=on_handover,
    )
    hedging = Hedging(streaming, selecting, clock=clock, call_later=call_later)
    pooling = Pooling(registry=registry, policies=policies, clock=clock, executor=executor, on_outcome=on_outcome)
    return Performers(preparing, selecting, streaming, hedging, pooling, clock, call_later)
