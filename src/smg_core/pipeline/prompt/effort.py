"""A model's level of reasoning: the level that a request's effort becomes on this model, and the tokens that a level stands for.

A model that knows levels is told the nearest one that it has. One with a switch is switched, and one that knows neither reasons
as it always does; both are held to the level's tokens by the gateway (pipeline.output.budget). A model that does not reason takes
every level and does nothing. Pure. Above: preparing, budget. Below: tokenizer, parsers.
"""

from msgspec.structs import replace

from smg_core.pipeline.prompt.prepare import offered
from smg_core.pipeline.prompt.reasoning_state import pairs_of
from smg_core.pipeline.prompt.served import ServedModel
from smg_core.request import EFFORT_TOKENS, GenerationRequest
from smg_core.tokenizer.efforts import Efforts

__all__ = ["tokens_of_effort", "with_effective_effort"]


def with_effective_effort(request: GenerationRequest, model: ServedModel) -> GenerationRequest:
    """The request with the level that its model has for what it asks. One that says nothing of reasoning stays as it is, and so
    does one to a model whose engines read prompts themselves."""
    asked, template = request.reasoning, model.template
    if template is None or request.prompt is not None:
        return request
    efforts = template.efforts(tools=bool(offered(request)))
    level = _level(request, model, efforts)
    return request if level == asked.effort else replace(request, reasoning=replace(asked, effort=level))


def _level(request: GenerationRequest, model: ServedModel, efforts: Efforts) -> str | None:
    asked = request.reasoning
    if asked.effort is not None:
        if asked.enabled is False or not _reasons(model, efforts):
            return "none"
        return efforts.nearest(asked.effort)
    if not efforts.only:
        always = asked.enabled is False and not efforts.switch and _reasons(model, efforts)
        return "none" if always else None  # then what it thinks all the same is closed at once
    if asked.enabled is False:
        return efforts.nearest("none")
    budget = asked.budget_tokens or 0
    if budget <= 0 or (model.parser is not None and model.parser.thinking.closes):
        return None
    fitting = [level for level, tokens in EFFORT_TOKENS.items() if tokens <= budget] or ["minimal"]
    return efforts.nearest(fitting[-1])


def _reasons(model: ServedModel, efforts: Efforts) -> bool:
    family = model.parser
    return efforts.reasons or (family is not None and (family.headed or bool(pairs_of(family))))


def tokens_of_effort(request: GenerationRequest, model: ServedModel) -> int | None:
    """The most tokens of reasoning that the level of a request stands for, at most half of those that the answer may have; None
    where it has no level, where the prompt tells the model its level, and for the highest."""
    asked, template = request.reasoning, model.template
    if asked.effort is None or template is None:
        return None
    efforts = template.efforts(tools=bool(offered(request)))
    if asked.effort in efforts.levels or (asked.effort == "none" and efforts.switch):
        return None
    tokens = 0 if asked.effort == "none" else EFFORT_TOKENS.get(asked.effort)
    most = request.sampling.max_tokens
    return tokens if tokens is None or most is None else min(tokens, most // 2)
