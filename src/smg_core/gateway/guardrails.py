"""Opens the guardrails of a gateway, from the file of its settings and from its program (edge).

A gateway without them loads nothing of them. Above: the assembly. Below: guardrails, and who asks them.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from smg_core.config.config import parse_file
from smg_core.pipeline.answer.trace import Trace
from smg_core.pipeline.flow.timeouts import Timeouts
from smg_core.pipeline.pooled.gathering import PoolTerms
from smg_core.pipeline.tools.calls import ToolCalling
from smg_core.regular_files import read_regular
from smg_core.request import Caller, PoolRequest
from smg_core.serving.services import Services
from smg_core.settings import MIB, ConfigError

if TYPE_CHECKING:
    from smg_core.guardrails.adapters.classes import Classified
    from smg_core.guardrails.guarding import Guarding
    from smg_core.guardrails.records import GuardFindings, GuardQuestion, Guardrail

__all__ = ["guardrails_opened"]

_GUARDS = "guardrails"
"""What questions of guardrails are called in the accounts."""


@asynccontextmanager
async def guardrails_opened(services: Services, given: "Sequence[Guardrail]") -> AsyncIterator[None]:
    """A context in which guardrails are asked, where there are any: those `given`, then those of the file. Raises ConfigError."""
    settings = services.live.config.guardrails
    if settings.file is None and not given:
        yield
        return
    from smg_core.guardrails.adapters.rows import AdapterWorld, OpenedRail, opened_rails
    from smg_core.guardrails.guarding import Guarding

    async with AsyncExitStack() as stack:
        rails = [OpenedRail(each) for each in given]
        if settings.file is not None:
            world = AdapterWorld(services.live.config.engines, _Classifying(services).of)
            rails += opened_rails(_listed(settings.file), f"guardrails.file: {settings.file}", world)
        names = [each.rail.name for each in rails]
        if len(set(names)) < len(names):
            raise ConfigError(f"guardrails.file: two guardrails are called {max(names, key=names.count)}")
        for each in rails:
            if each.close is not None:
                stack.push_async_callback(each.close)
        guarding = Guarding(
            [each.rail for each in rails],
            settings,
            services.clock,
            services.call_later,
            _Accounts(services).note,
            services.lookup.names_of,
        )
        stack.callback(guarding.close)
        _ask_first(services, guarding)
        try:
            yield
        finally:
            _ask_first(services, None)


def _ask_first(services: Services, guarding: "Guarding | None") -> None:
    """Have these asked wherever something reaches an engine or leaves one."""
    running = services.running
    services.live.guarding = guarding
    running.performers.preparing.guarding = running.performers.pooling.guarding = guarding
    for performer in running.tools.performers.values():
        if isinstance(performer, ToolCalling):
            performer.guarding = guarding


def _listed(name: str) -> object:
    """What the file of this name lists. Raises ConfigError."""
    source = f"guardrails.file: {name}"
    try:
        return parse_file(read_regular(Path(name).expanduser(), MIB).decode(), Path(name).suffix)
    except (OSError, UnicodeDecodeError, RuntimeError) as error:
        raise ConfigError(f"{source} cannot be read: {error}") from None
    except ValueError as error:
        raise ConfigError(f"{source}: {error}") from None


class _Accounts:
    """Takes down in the ledger, where there is one, what a guardrail was asked."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def note(self, caller: Caller, rail: "Guardrail", found: "GuardFindings | None") -> None:
        """One question, with what was found; None where the guardrail failed."""
        accounting = self._services.live.accounting
        if accounting is not None:
            model = rail.name if found is None else found.model or rail.name
            usage = None if found is None else found.usage
            accounting.extra_work(_GUARDS, caller, model, rail.kind, usage, failed=found is None)


class _Classifying:
    """Has served models classify texts for guardrails, and for nobody's account but theirs."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def of(self, model: str, question: "GuardQuestion") -> "Classified":
        """The share of each class of a text. Raises SmgError."""
        from smg_core.guardrails.adapters.classes import Classified

        services = self._services
        caller = Caller(question.tenant, question.principal)
        served = services.lookup.served_or_refused(model, Caller(question.tenant))
        request = PoolRequest(services.ids("guard-"), model, "classify", (question.text,), truncate=-1, caller=caller)
        config = services.live.config
        terms = PoolTerms(
            config.pooling,
            Timeouts(),
            config.routing.retries,
            services.admission.retry_budgets,
            8,
            config.limits.answer_bytes,
            _GUARDS,
            of_guardrail=True,
        )
        trace = Trace(services.clock.monotonic(), services.observer)
        made = await services.running.performers.pooling(request, served, terms, trace)
        vector = made.vectors[0]
        names = made.model.labels or [f"LABEL_{number}" for number in range(len(vector.values))]
        return Classified(list(zip(names, vector.values, strict=False)), made.usage)
