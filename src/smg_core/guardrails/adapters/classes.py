"""A classifier that a worker of this gateway serves (edge).

Above: `rows`. Below: who asks the worker, which is handed in.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence

import attrs
from msgspec import Struct

from smg_core.events import Usage
from smg_core.guardrails.records import GuardFindings, GuardQuestion

__all__ = ["ClassesCheck", "ClassesConfig", "Classified", "Classify"]


class ClassesConfig(Struct, forbid_unknown_fields=True):
    """`model` is the name of the served model; `categories` are the classes that count, each with the share from which it
    does."""

    model: str
    categories: Mapping[str, float]


@attrs.frozen
class Classified:
    """The share of each class of one text, and what it took."""

    shares: Sequence[tuple[str, float]]
    usage: Usage


Classify = Callable[[str, GuardQuestion], Awaitable[Classified]]
"""Has a served model classify a text."""


class ClassesCheck:
    """Asks one model."""

    def __init__(self, classify: Classify, config: ClassesConfig) -> None:
        self._classify, self._model = classify, config.model
        self._least = {name.casefold(): least for name, least in config.categories.items()}

    async def __call__(self, question: GuardQuestion) -> GuardFindings:
        found = await self._classify(self._model, question)
        blocked = [name for name, share in found.shares if share >= self._least.get(name.casefold(), float("inf"))]
        return GuardFindings(tuple(blocked), usage=found.usage, model=self._model)
