"""Counts the tokens of a prompt that is made as for an answer (edge).

No engine is asked, but for providers, which have their tokenizers to themselves and count for others.
"""

import attrs
from msgspec.structs import replace

from smg_core.engines.counting import CountsTokens
from smg_core.errors import InvalidRequest, PromptTooLong, SmgError, UnsupportedParameter
from smg_core.pipeline.flow.summaries import Shorten
from smg_core.pipeline.prompt.prompted import Prompted
from smg_core.pipeline.prompt.served import ServedModel
from smg_core.request import Caller, GenerationRequest
from smg_core.serving.fallback_model import prompted_as_answered
from smg_core.serving.services import Services
from smg_core.tokenizer.base import Tokenizer

__all__ = ["PromptCount", "named", "only_model", "prompt_count", "prompted_here", "tokenizer_of"]


@attrs.frozen
class PromptCount:
    """The tokens of a prompt, and those that edits of its context have taken from it."""

    tokens: int
    cleared: int = 0


async def _provider_count(services: Services, prompted: Prompted) -> PromptCount:
    """The count of a provider that serves the model. Raises what the last one that was asked said, and UnsupportedParameter where
    none of the model's engines counts."""
    failure: SmgError | None = None
    placement = services.live.placement
    workers = services.registry.of(prompted.model.name)
    if placement is not None:  # a prompt that is counted is shown to the worker as one that is answered
        ready = tuple([each for each in workers if each.state == "ready"])
        workers = placement.taking(prompted, ready, "regular", services.registry)
    for worker in workers:
        engine = worker.engine
        if worker.state != "ready" or not isinstance(engine, CountsTokens):
            continue
        try:
            tokens = await engine.count(prompted.request)
        except SmgError as error:
            if not error.another_worker_may_do:
                raise
            failure = error
            continue
        if tokens is not None:
            return PromptCount(tokens)
    if failure is not None:
        raise failure
    tokenizer_of(prompted.model)
    return PromptCount(len(prompted.ids))


async def prompted_here(services: Services, request: GenerationRequest) -> Prompted:
    """The request with its prompt, of a model whose tokenizer is here. Raises UnsupportedParameter for others."""
    prompted = await prompted_as_answered(services, request)
    tokenizer_of(prompted.model)
    return prompted


async def prompt_count(services: Services, request: GenerationRequest, shorten: Shorten | None = None) -> PromptCount:
    """How many tokens the prompt of a request has, also where they are too many for the model. With `shorten` such a prompt is
    shortened as for an answer, as far as it can be."""
    while True:
        try:
            prompted = await prompted_as_answered(services, request)
        except PromptTooLong as error:
            shorter = None if shorten is None else shorten(request.messages, error)
            if shorter is not None:
                request = replace(request, messages=shorter)
                continue
            if error.at_least:
                raise
            return PromptCount(error.prompt_tokens)
        if prompted.model.tokenizer is None:
            return await _provider_count(services, prompted)
        return PromptCount(len(prompted.ids), sum(edit.tokens for edit in prompted.edits))


def tokenizer_of(model: ServedModel) -> Tokenizer:
    """The model's tokenizer. Raises UnsupportedParameter where its engines encode prompts themselves."""
    if model.tokenizer is None:
        raise UnsupportedParameter(
            f"The engines of the model '{model.name}' encode prompts themselves, and do not say how. Where the gateway has the "
            "folder of the model's tokenizer (tokenizer.path, --tokenizer), it encodes and counts prompts itself.",
            param="model",
        )
    return model.tokenizer


def named(request: GenerationRequest, services: Services) -> GenerationRequest:
    """The request with the name of its model."""
    return request if request.model else replace(request, model=only_model(services, "", request.caller))


def only_model(services: Services, name: str, caller: Caller) -> str:
    """`name`, or the model that is meant where a body names none: the only one that this caller may use."""
    if name:
        return name
    served = {services.models[each].primary or services.models[each].name for each in services.lookup.names(caller)}
    if len(served) != 1:
        raise InvalidRequest("Missing required parameter: 'model'.", param="model", code="missing_required_parameter")
    return served.pop()
