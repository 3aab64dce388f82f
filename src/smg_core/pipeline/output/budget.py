"""Reasoning within a budget: at so many tokens it is closed for the model, and the turn goes on.

The reader of a turn with a budget counts the tokens of the reasoning that is open. Where they reach the budget, the engine's
call ends there; the family's end marker is put behind the ids so far, for the reader and for the next call of the engine, which
has all but the marker in its cache. Reasoning that ends by itself is left alone, and costs nothing more. Pure. Above:
pipeline.fit.fit says which budget there is, pipeline.calls.streaming makes the reader, pipeline.flow.flow asks for the second
call. Below: pipeline.output.processor.
"""

from collections.abc import Sequence

from msgspec import Struct

from smg_core.engines.base import EngineOutput
from smg_core.engines.constraint import Constraint
from smg_core.errors import SmgError, UnsupportedParameter
from smg_core.events import Event
from smg_core.origin import KEEPS_BUDGET, TELLS_BUDGET
from smg_core.pipeline.output.joining import one_by_one
from smg_core.pipeline.output.plan import OutputPlan
from smg_core.pipeline.output.processor import OutputProcessor
from smg_core.pipeline.prompt.effort import tokens_of_effort
from smg_core.pipeline.prompt.prepare import offered
from smg_core.pipeline.prompt.reasoning_state import pairs_of
from smg_core.pipeline.prompt.served import ServedModel
from smg_core.request import GenerationRequest, has_trait
from smg_core.tokenizer.base import Tokenizer
from smg_parsers import Family
from smg_parsers.families.reasoning import left_at

__all__ = ["Budget", "BudgetedProcessor", "budget_of"]


class Budget(Struct, frozen=True):
    """At most `tokens` of reasoning; `marker` is the text that closes it, `ids` are the marker's. What follows is held to
    `constraint`."""

    tokens: int
    marker: str
    ids: tuple[int, ...]
    constraint: Constraint | None = None


def budget_of(
    request: GenerationRequest,
    model: ServedModel,
    tokenizer: Tokenizer,
    prompt: str = "",
    constraint: Constraint | None = None,
    *,
    thinks: bool = True,
) -> Budget | None:
    """The budget that the answer to `request` has to keep, its own or that of its effort, with the marker that closes what its
    `prompt` has opened; None where it has none, and where the model's family has no marker for the end of reasoning. Raises
    UnsupportedParameter in the second case where the deployment wants that, and for an answer of several choices that may reason
    (`thinks`): an engine makes them in one call, which cannot end for one of them alone. Nothing is refused for an effort."""
    tokens = request.reasoning.budget_tokens
    if tokens is None:
        unwanted = request.reasoning.effort == "none"  # then nothing is expected, and what comes all the same is closed
        return _stood_for(request, model, tokenizer, prompt, constraint) if thinks or unwanted else None
    if not has_trait(request, KEEPS_BUDGET):
        return None
    tells = has_trait(request, TELLS_BUDGET)
    if tells and _template_states(request, model):
        return None
    closes = model.parser.thinking.closes if model.parser is not None else ()
    if closes and request.sampling.n > 1:
        if not thinks:
            return None
        raise UnsupportedParameter(
            "A budget for reasoning is kept where one choice is asked for: ask for one, or set no budget.",
            param="reasoning.budget_tokens",
        )
    if closes and model.parser is not None:
        return _kept(tokens, model.parser, tokenizer, prompt, constraint)
    if model.refuses_budget and not tells:
        raise UnsupportedParameter(
            "The reasoning of this model cannot be closed by the gateway, so it takes no budget.",
            param="reasoning.budget_tokens",
        )
    return None


def _stood_for(
    request: GenerationRequest, model: ServedModel, tokenizer: Tokenizer, prompt: str, constraint: Constraint | None
) -> Budget | None:
    """The budget that the effort of a request stands for, where one can be kept: nothing is refused for it."""
    if model.parser is None or not model.parser.thinking.closes or request.sampling.n > 1:
        return None
    tokens = tokens_of_effort(request, model)
    return None if tokens is None else _kept(tokens, model.parser, tokenizer, prompt, constraint)


def _kept(tokens: int, family: Family, tokenizer: Tokenizer, prompt: str, constraint: Constraint | None) -> Budget:
    pairs, (opened, _) = pairs_of(family), left_at(prompt, family.thinking)
    marker = dict(pairs).get(opened or "", pairs[0][1] if pairs else family.thinking.closes[0])
    return Budget(tokens, marker, tuple(tokenizer.encode(marker)), constraint)


def _template_states(request: GenerationRequest, model: ServedModel) -> bool:
    """Whether the template that wrote the request's prompt told the model its budget."""
    return model.template is not None and model.template.tells_budget(tools=bool(offered(request)))


class BudgetedProcessor(OutputProcessor):
    """Reads a turn of one choice within a budget. `cut_short` says that the budget is used up while the model still reasons: the
    turn is to go on with another call (`resume`). `closed`: the gateway has closed the reasoning."""

    __slots__ = ("_budget", "_early", "closed")

    def __init__(self, plan: OutputPlan, first_call: int, budget: Budget) -> None:
        super().__init__(plan, first_call, keep_ids=True)
        self._budget = budget
        self.closed = False
        self._early: list[Event] = []  # the events of closing the reasoning, before those of the next call

    def feed(self, outputs: Sequence[EngineOutput]) -> list[Event]:
        """The events that follow from `outputs`, up to the token that uses up the budget."""
        events, self._early = self._early, []
        try:
            for output in outputs:
                for part in (output,) if self.closed else one_by_one(output):
                    events += super().feed((part,))
                    if self._used_up(events):
                        self.cut_short = self.done = True
                        return events
        except SmgError:
            self.rest = [*events, *self.rest]
            raise
        return events

    def _used_up(self, events: list[Event]) -> bool:
        """Whether the reasoning is to be closed here. All that came so far is of the reasoning then, what was held back as the
        possible beginning of a stop string too, unless the model itself has closed the reasoning in it."""
        (choice,) = self._choices
        if self.closed or not choice.reasons or choice.reasoning_tokens < self._budget.tokens:
            return False
        choice.end_held(events)
        return choice.reasons

    def resume(self) -> None:
        """Called before the outputs of another engine call; closes the reasoning if the budget is used up."""
        super().resume()
        if not self.cut_short or self._kept is None:
            return
        self.cut_short = self.done = False
        self.closed = True
        self._kept.put(self._budget.ids)
        (choice,) = self._choices
        self._early = choice.end_reasoning(self._budget.marker, self._budget.ids)
