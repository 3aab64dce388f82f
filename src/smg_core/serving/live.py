"""The settings that a gateway runs by now, in a box: `adopt` puts others into it, and all who read the box go by them.

Pure. Above: everything that serves requests. Below: the configuration, the choice of models.
"""

from typing import TYPE_CHECKING

from smg_core.config.config import Config
from smg_core.observability.settings import ObservabilityConfig
from smg_core.pipeline.prompt.served import ServedModel
from smg_core.routing.model_choice import ModelChoice
from smg_core.wire.settings import LimitsConfig

if TYPE_CHECKING:
    from smg_core.guardrails.guards import Guards
    from smg_core.placement.placing import Placing
    from smg_core.queueing.queues import ModelQueues
    from smg_core.response_cache.caches import ResponseCaches
    from smg_core.serving.accounting import Accounting
    from smg_core.serving.limiting import Limiting

__all__ = ["Live"]


class Live:
    """The settings of now and what is made of them; `models` are those that are served, which change too. `limiting` are the
    limits of requests, tokens and money, where there are any; `accounting` makes the entries of the ledger,
    where one is kept; `placement` has the rules by which workers are narrowed by their labels, `queueing` are the queues before
    the models, where there are some, `caching` keeps answers for equal requests, where the settings say so, `guarding` are the
    guardrails, where there are some."""

    def __init__(self, config: Config, models: dict[str, ServedModel]) -> None:
        self._models = models
        self.config: Config
        self.limits: LimitsConfig
        self.observability: ObservabilityConfig
        self.choice: ModelChoice
        self.explains: bool
        self.limiting: Limiting | None = None
        self.accounting: Accounting | None = None
        self.placement: Placing | None = None
        self.queueing: ModelQueues | None = None
        self.caching: ResponseCaches | None = None
        self.guarding: Guards | None = None
        self.adopt(config)

    def adopt(self, config: Config) -> None:
        """Go by these settings from now on."""
        self.config, self.limits, self.observability = config, config.limits, config.observability
        self.explains = config.observability.explain
        self.choice = ModelChoice(config.routing, self.stands_for)

    def served_as(self, name: str, tenant: str) -> str:
        """The model that a name stands for."""
        return self.config.model.served_as(name, tenant)

    def stands_for(self, name: str, tenant: str) -> str:
        """The model that a name stands for, if it is no model's own."""
        return name if name in self._models else self.config.model.served_as(name, tenant)
