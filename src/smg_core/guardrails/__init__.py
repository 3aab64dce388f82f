"""Guardrails: checks of prompts, answers and arguments.

A check of one's own is a function, which a `Guardrail` names:

    from smg_core.guardrails import GuardFindings, GuardQuestion, Guardrail

Begin with `records`, what a check is asked and answers. `guarding` is what the gateway asks, `asking` asks one guardrail within
its bounds, `prompts` walks requests, `answers` holds back what a model says. Nothing here is loaded while there is none.
"""

from typing import TYPE_CHECKING

from smg_core.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from smg_core.guardrails.records import GuardFindings as GuardFindings
    from smg_core.guardrails.records import GuardQuestion as GuardQuestion
    from smg_core.guardrails.records import Guardrail as Guardrail
    from smg_core.guardrails.records import GuardSpan as GuardSpan

__all__, __getattr__, __dir__ = lazy_exports(
    __name__,
    {"smg_core.guardrails.records": ("GuardFindings", "GuardQuestion", "GuardSpan", "Guardrail")},
)
