"""Finds the served model that a caller means by a name: aliases, adapters, splits and fallbacks, and what the caller may use.

Pure. Above: handlers, plugins. Below: the models that are served, the settings as they are now.
"""

from typing import NoReturn

from smg_core.pipeline.prompt.served import ServedModel
from smg_core.request import Caller
from smg_core.serving.live import Live
from smg_core.workers.registry import Registry

__all__ = ["ModelLookup"]


class ModelLookup:
    """The models of one gateway by the names that callers give them."""

    def __init__(self, models: dict[str, ServedModel], live: Live, registry: Registry) -> None:
        self._models = models
        self._live = live
        self._registry = registry

    def served(self, name: str, caller: Caller) -> ServedModel | None:
        """The model that this caller asks for as `name`; None where there is none, or it is none of the caller's."""
        models = self._models
        model = self._live.choice.foremost(name, caller.tenant)
        model = model if model in models else self._live.config.model.served_as(model, caller.tenant)
        return models.get(model) if caller.grants.may_use(name, model) else None

    def served_or_refused(self, name: str, caller: Caller) -> ServedModel:
        """The same. Raises ModelNotFound, or NoWorker where it has no worker now; a model that is none of the caller's is not
        found."""
        model = self.served(name, caller)
        if model is None:
            self.refuse(name, caller)
        return model

    def refuse(self, name: str, caller: Caller) -> NoReturn:
        """Raise what a request of this caller for `name` gets where no worker for it is there: ModelNotFound or NoWorker."""
        meant = self._live.stands_for(self._live.choice.foremost(name, caller.tenant), caller.tenant)
        hidden = not caller.grants.may_use(name, meant)
        self._registry.refuse(name if hidden else meant, hidden=hidden)

    def served_name(self, name: str, caller: Caller) -> str:
        """The first name of the model that this caller asks for as `name`; "" where it gets none by that name."""
        model = self.served(name, caller) if name else None
        return "" if model is None else model.primary or model.name

    def names_of(self, name: str, caller: Caller) -> frozenset[str]:
        """All names of the models that a request of this caller for `name` may lead to, `name` too. "" is what a request asks for
        that names none: the only model, where there is but one."""
        models = self._models
        if not name:
            served = {model.primary or model.name for model in map(models.__getitem__, self.names(caller))}
            name = served.pop() if len(served) == 1 else ""
        reached = self._live.choice.reach(name, caller.tenant)
        meant = [models[each] for each in reached if each in models]
        served_alike = {(each.primary or each.name, each.adapter) for each in meant}
        others = [name for name, each in models.items() if (each.primary or each.name, each.adapter) in served_alike]
        return reached.union(others)

    def names(self, caller: Caller) -> list[str]:
        """The names of the models and adapters that this caller may use, sorted. The longer name of an adapter ("model:adapter")
        is there where its own is not the caller's, or another model's."""
        models = self._models
        usable = {name for name in models if caller.grants.may_use(name)}

        def has_shorter(model: ServedModel) -> bool:
            own = model.adapter if model.adapter in usable and model.adapter != model.name else ""
            return bool(own) and models[own].primary == model.primary and models[own].adapter == own

        return sorted(name for name in usable if not has_shorter(models[name]))

    @property
    def body_bytes(self) -> int:
        """The largest body that is taken now, in bytes: more if a served model takes media, or may take some."""
        limits = self._live.limits
        if any(model.media_kinds for model in self._models.values()):
            return limits.media_body_bytes
        return limits.body_bytes
