"""The model that answers for a name in routes without an engine (edge).

A name may be an alias, be split between models, and have models that stand in for it (`routing.model_choice`). Routes that count,
encode and decode tokens, or parse a text, go by the model that a request for an answer would get now: the first one of the chain
that can take the prompt and has a worker that is ready; where there is none, the first that can take it. Above:
apis.tokenize.routes, apis.parse.routes. Below: the pipeline's preparing, the registry.
"""

from smg_core.errors import ModelNotFound, NoWorker, SmgError
from smg_core.hooks import SilentObserver
from smg_core.pipeline.answer.trace import Trace
from smg_core.pipeline.flow.flow import reason_to_go_on
from smg_core.pipeline.prompt.prompted import Prompted
from smg_core.pipeline.prompt.served import ServedModel
from smg_core.request import GenerationRequest
from smg_core.serving.services import Services

__all__ = ["answering_model", "prompted_as_answered"]


async def prompted_as_answered(services: Services, request: GenerationRequest) -> Prompted:
    """The prompt of a request, for the model that would answer it. Raises what is wrong with it, as the first model sees it."""
    trace = Trace(services.clock.monotonic(), SilentObserver())
    first: SmgError | None = None
    unready: Prompted | None = None
    for model in services.live.choice.chain(request):
        try:
            prompted = await services.running.performers.preparing.prepare(request, trace, model)
        except SmgError as error:
            first = first or error
            if not reason_to_go_on(services.live.choice, request, model, error):
                break
            continue
        if _answers_now(services, prompted.model):
            return prompted
        unready = unready or prompted
    if unready is None:
        raise first or ModelNotFound(request.model)
    return unready


def answering_model(services: Services, request: GenerationRequest) -> ServedModel | None:
    """The model that would answer a request of which nothing but its name, caller and headers is known; None where there is none
    that the caller may use."""
    tenant, may_use = request.caller.tenant, request.caller.grants.may_use
    unready = None
    for name in services.live.choice.chain(request):
        found = name if name in services.models else services.live.config.model.served_as(name, tenant)
        model = services.models.get(found)
        if not may_use(request.model, found):
            break
        if model is not None and _answers_now(services, model):
            return model
        unready = unready or model
    return unready


def _answers_now(services: Services, model: ServedModel) -> bool:
    """Whether a worker for it is ready, or no other model is asked where none is."""
    waits = not services.live.choice.goes_on(NoWorker(""))
    return waits or bool(services.registry.kinds(model.name))
