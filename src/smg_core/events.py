"""The second waist: what every engine's output becomes, and what every API's answer is made of.

A response is an ordered stream of events. For each choice (`index`, 0 to n-1) there are deltas and then exactly one
`Finished`; for the whole response exactly one `Usage` and then one of `Done` or `Failed`, which is always last:

    (TextDelta | ReasoningDelta | ToolCallStart | ToolCallDelta | ToolCallEnd | OpaqueBlock)* Finished  per choice
    Usage (Done | Failed)                                                                              per response

A `Failed` may come at any time after the commit point, in place of what is missing; a choice that was cut off then has no
`Finished`. Above: protocols encode these. Below: pipeline.output makes them. They know no API and no engine.

They are msgspec structs, not attrs classes: one is made for every token, at a fifth of the cost.
"""

from typing import Literal

from msgspec import Struct

from smg_core.errors import SmgError

__all__ = [
    "Done",
    "Event",
    "Failed",
    "FinishReason",
    "Finished",
    "OpaqueBlock",
    "ReasoningDelta",
    "TextDelta",
    "TokenLogprob",
    "ToolCallDelta",
    "ToolCallEnd",
    "ToolCallStart",
    "TopLogprob",
    "Usage",
]

FinishReason = Literal["stop", "length", "tool_calls", "content_filter", "abort", "error"]
"""Why a choice ended. "abort": somebody stopped it; "error": the engine gave up on it."""


class TopLogprob(Struct, frozen=True):
    """One alternative at a position. `raw` is the token's bytes, which may be part of a character."""

    token: str
    raw: bytes
    logprob: float


class TokenLogprob(Struct, frozen=True):
    """One sampled token. `logprob` is a natural logarithm; `top` is sorted, most likely first."""

    token: str
    raw: bytes
    logprob: float
    top: tuple[TopLogprob, ...] = ()


class TextDelta(Struct, frozen=True):
    """More visible text. `logprobs` covers the tokens whose text this is, in order."""

    index: int
    text: str
    logprobs: tuple[TokenLogprob, ...] = ()


class ReasoningDelta(Struct, frozen=True):
    """More of the model's reasoning."""

    index: int
    text: str


class ToolCallStart(Struct, frozen=True):
    """A tool call begins. `call` counts calls within the choice from 0."""

    index: int
    call: int
    id: str
    name: str


class ToolCallDelta(Struct, frozen=True):
    """More of a call's arguments; the deltas joined are one JSON text."""

    index: int
    call: int
    arguments: str


class ToolCallEnd(Struct, frozen=True):
    """A call's arguments are complete."""

    index: int
    call: int


class OpaqueBlock(Struct, frozen=True):
    """A block that must reach the client byte for byte: a signature, encrypted reasoning, a provider's own item."""

    index: int
    kind: str
    payload: bytes


class Finished(Struct, frozen=True):
    """A choice is complete. `matched` is the stop string or token id that ended it, if one did."""

    index: int
    reason: FinishReason
    matched: str | int | None = None


class Usage(Struct, frozen=True):
    """Token counts of the whole response. `cached_tokens` is part of `prompt_tokens`, `reasoning_tokens` of the other."""

    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int = 0
    reasoning_tokens: int = 0

    @property
    def total_tokens(self) -> int:
        return self.prompt_tokens + self.completion_tokens


class Done(Struct, frozen=True):
    """The response is complete and whole."""


class Failed(Struct, frozen=True):
    """The response ends here because of `error`; nothing follows."""

    error: SmgError


Event = (
    TextDelta
    | ReasoningDelta
    | ToolCallStart
    | ToolCallDelta
    | ToolCallEnd
    | OpaqueBlock
    | Finished
    | Usage
    | Done
    | Failed
)
