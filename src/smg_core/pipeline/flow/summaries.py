"""The common part of flows that compact a conversation: its size, the request for a summary, and whether that was cut off."""

from collections.abc import Callable
from typing import TypeAlias

from msgspec.structs import replace

from smg_core.errors import PromptTooLong, UnsupportedParameter
from smg_core.pipeline.answer.turn import Turn
from smg_core.pipeline.flow.steps import Flow, Prepare, ask
from smg_core.request import GenerationRequest, Message, Text, TextFormat, ToolChoice

__all__ = ["Shorten", "prompt_size", "summarizing", "was_cut"]

Shorten: TypeAlias = Callable[[tuple[Message, ...], PromptTooLong], tuple[Message, ...] | None]
"""The messages without the oldest of them, where the prompt of all is too long as the error says; None where none can go."""

_SUMMARIZE = (
    "Write a summary of this conversation from which another model can go on with the work: what the user wants, what was "
    "decided and done, what was found out, which files, names and values matter, and what is left to do. Write nothing else."
)


def was_cut(turn: Turn) -> bool:
    """Whether the model did not end the turn itself."""
    return any(finish.reason != "stop" for finish in turn.finishes)


def prompt_size(request: GenerationRequest) -> Flow[int]:
    """How many tokens the prompt has. Raises UnsupportedParameter where it cannot be counted."""
    try:
        prompted = yield from ask(Prepare(request))
    except PromptTooLong as error:
        return error.prompt_tokens
    if prompted.model.tokenizer is None:
        raise UnsupportedParameter(
            "The prompts of this model are not counted here, so they cannot be compacted from a number of tokens on.",
            param="compact.over_tokens",
        )
    return prompted.ids.size


def summarizing(request: GenerationRequest, instructions: str = _SUMMARIZE) -> GenerationRequest:
    """The request that has the model summarize the conversation instead of going on with it: without tools, as plain text."""
    return replace(
        request,
        sampling=replace(request.sampling, stop=(), logprobs=None),
        messages=(*request.messages, Message("user", (Text(instructions),), content_is_text=True)),
        tools=(),
        tool_choice=ToolChoice(),
        response_format=TextFormat(),
    )
