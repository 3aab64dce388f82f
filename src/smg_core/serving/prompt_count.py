"""Counts the tokens of a prompt that is made as for an answer, without asking an engine (edge)."""

import attrs
from msgspec.structs import replace

from smg_core.errors import InvalidRequest, PromptTooLong, UnsupportedParameter
from smg_core.pipeline.flow.summaries import Shorten
from smg_core.pipeline.prompt.prompted import Prompted
from smg_core.pipeline.prompt.served import ServedModel
from smg_core.request import Caller, GenerationRequest
from smg_core.serving.fallback_model import prompted_as_answered
from smg_core.serving.services import Services
from smg_core.tokenizer.base import Tokenizer

__all__ = ["PromptCount", "named", "only_model", "prompt_count", "tokenizer_of"]


async def _prompted(services: Services, request: GenerationRequest) -> Prompted:
    prompted = await prompted_as_answered(services, request)
    tokenizer_of(prompted.model)
    return prompted


@attrs.frozen
class PromptCount:
    """The tokens of a prompt, and those that edits of its context have taken from it."""

    tokens: int
    cleared: int = 0


async def prompt_count(services: Services, request: GenerationRequest, shorten: Shorten | None = None) -> PromptCount:
    """How many tokens the prompt of a request has, also where they are too many for the model. With `shorten` such a prompt is
    shortened as for an answer, as far as it can be."""
    while True:
        try:
            prompted = await _prompted(services, request)
        except PromptTooLong as error:
            shorter = None if shorten is None else shorten(request.messages, error)
            if shorter is not None:
                request = replace(request, messages=shorter)
                continue
            if error.at_least:
                raise
            return PromptCount(error.prompt_tokens)
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
