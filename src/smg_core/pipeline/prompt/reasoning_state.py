"""The reasoning that may come before an answer, by the prompt and its settings.

The prompt says most: templates open the reasoning there, or close it where it is switched off. Where the prompt says nothing the
model opens its reasoning itself, if it is one that does. Pure. Above: reading, holding. Below: smg_parsers.
"""

from msgspec import Struct

from smg_core.pipeline.prompt.served import ServedModel
from smg_core.request import GenerationRequest, ReasoningSettings
from smg_parsers import Family
from smg_parsers.constraints.shapes import SHAPES
from smg_parsers.families.reasoning import left_at, marks_of

__all__ = ["NO_THOUGHT", "Thought", "pairs_of", "switched_off", "thought_of"]


class Thought(Struct, frozen=True):
    """`marks`: the pairs of markers between which reasoning may stand; none if there will be none. `open`: the prompt has opened
    it, with the first marker of the only pair. `expected`: the model can be taken to reason; `asked`: the prompt or the request
    asks for it."""

    marks: tuple[tuple[str, str], ...] = ()
    open: bool = False
    expected: bool = False
    asked: bool = False


NO_THOUGHT = Thought()


def thought_of(request: GenerationRequest, model: ServedModel, family: Family, prompt: str) -> Thought:
    """The reasoning that may come before the answer; `prompt` is the rendered prompt, `family` reads the answer."""
    opened, closed = left_at(prompt, family.thinking)
    pairs = pairs_of(family)
    if opened is not None:
        closes = dict(pairs).get(opened, pairs[0][1] if pairs else "")
        return Thought(((opened, closes),), open=True, expected=True, asked=True)
    if not pairs or closed:
        return NO_THOUGHT
    asked, off = request.reasoning, switched_off(request.reasoning)
    if off and not family.headed:  # a channel for reasoning cannot be switched off
        return NO_THOUGHT
    asks = not off and bool(asked.enabled or asked.adaptive or asked.effort is not None or asked.budget_tokens)
    return Thought(pairs, expected=asks or model.thinks or family.headed, asked=asks)


def pairs_of(family: Family) -> tuple[tuple[str, str], ...]:
    """The family's pairs of markers: those of its row, or that with which a constraint describes its reasoning, which has the
    headers of messages too."""
    shape = SHAPES.get(family.name)
    described = () if shape is None or shape.think is None else (shape.think,)
    return described or marks_of(family.thinking) if family.headed else marks_of(family.thinking) or described


def switched_off(reasoning: ReasoningSettings) -> bool:
    """Whether a request wants no reasoning."""
    return reasoning.enabled is False or reasoning.effort == "none" or reasoning.budget_tokens == 0
