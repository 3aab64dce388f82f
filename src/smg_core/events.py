"""The second waist: the events that every engine's output becomes and that every API's answer is encoded from.

A response is an ordered stream of events:

    response  = Started (block | Finished)* Usage end
    end       = Done | Failed | Cancelled
    block     = text | refusal | reasoning | call | hosted | OpaqueBlock
    text      = TextDelta (TextDelta | Annotation)* TextEnd
    refusal   = RefusalDelta RefusalDelta* TextEnd
    reasoning = ReasoningDelta ReasoningDelta* ReasoningEnd
    call      = ToolCallStart ToolCallDelta* ToolCallEnd
    hosted    = HostedStart HostedProgress* HostedEnd

- `Started` comes first, and once. Only a response that failed or was cancelled before any engine took it has none.
- Every event between `Started` and `Usage` belongs to one choice (`index`, from 0). Choices interleave freely; the blocks of
  one choice never do: a block is closed before anything else of its choice comes. When a model writes several calls at the
  same time, the maker of the events holds the later ones back.
- `call` numbers the calls of a choice from 0, without gaps, in the order in which they start. Where several turns make one
  response, the numbers run on.
- A block that is cut off is closed all the same (a call with `valid` False), then the choice has its `Finished` with `cut`.
  After its `Finished` a choice has nothing more.
- `SampledIds` may stand before any event of its choice, within a block too.
- `Usage` comes once, as the second last event; the end comes once, as the last.
- Before `Done` every choice has its `Finished`, and there is at least one. `Failed` and `Cancelled` may come at any
  time: blocks may then be open and choices without `Finished`. `Usage` comes before them too.

tests/core/event_grammar.py checks a stream for all of this. Above: protocols encode the events; an API skips those that it
cannot express. Made by: pipeline.output.processor, pipeline.answer.answer, and engines.openai. They know no API and no engine.

They are msgspec structs, not attrs classes: one is made for every token, at a fifth of the cost.
"""

from collections.abc import Sequence
from operator import add
from typing import Literal

from msgspec import Struct
from msgspec.structs import astuple

from smg_core.errors import SealFault, SmgError

__all__ = [
    "NOTHING_EFFECTIVE",
    "NO_USAGE",
    "Annotation",
    "Cancelled",
    "Done",
    "DroppedReasoning",
    "EditedContext",
    "Effective",
    "Event",
    "Failed",
    "FinishReason",
    "Finished",
    "HostedEnd",
    "HostedProgress",
    "HostedStart",
    "OpaqueBlock",
    "ReasoningDelta",
    "ReasoningEnd",
    "RefusalDelta",
    "SampledIds",
    "Started",
    "TextDelta",
    "TextEnd",
    "TokenLogprob",
    "ToolCallDelta",
    "ToolCallEnd",
    "ToolCallStart",
    "TopLogprob",
    "Usage",
    "Verbatim",
]

FinishReason = Literal[
    "stop",
    "length",
    "tool_calls",
    "content_filter",
    "abort",
    "error",
    "context",
    "refusal",
    "pause",
    "malformed_call",
]
"""Why a choice ended. "length": at the client's bound on tokens; "context": the model's context is full; "refusal": the model
declined; "pause": a hosted tool's loop stops here and can be continued; "malformed_call": a call's arguments are not JSON;
"abort": it was aborted; "error": the engine gave up on it."""


class DroppedReasoning(Struct, frozen=True):
    """Sealed reasoning of the request that is not in the prompt: its path in `GenerationRequest`, why, and the item's id."""

    param: str
    reason: SealFault
    id: str | None = None


class EditedContext(Struct, frozen=True):
    """An edit of the context that was made before the prompt: how many turns lost their reasoning, or tool uses their results,
    and how many tokens the prompt lost (0 where they are not counted here)."""

    kind: Literal["reasoning", "tool_uses"]
    changed: int
    tokens: int


class Effective(Struct, frozen=True):
    """What is in effect for an answer, be it asked for or the model's own: its level of effort, temperature and top_p; None where
    that is not known."""

    effort: str | None = None
    temperature: float | None = None
    top_p: float | None = None


NOTHING_EFFECTIVE = Effective()


class Started(Struct, frozen=True):
    """An engine has taken the request. `cached_tokens` is the part of the prompt that it does not have to compute, None
    while that is not known; `model` is the name of the model that answers. `dropped` is what was left out of the prompt,
    `edits` what was made shorter, in the order of the edits that were asked for. `prompt_ids` are the ids of the prompt,
    where the request asks for token ids. `effective` is what is in effect of the request's settings. `strict`
    are the functions whose calls are held to their schemas, None where that is not known."""

    prompt_tokens: int
    cached_tokens: int | None
    model: str
    dropped: tuple[DroppedReasoning, ...] = ()
    edits: tuple[EditedContext, ...] = ()
    prompt_ids: tuple[int, ...] = ()
    effective: Effective = NOTHING_EFFECTIVE
    strict: frozenset[str] | None = None


class TopLogprob(Struct, frozen=True):
    """One alternative at a position. `raw` is the token's bytes, which may be part of a character; `id` is None where the engine
    answers in texts."""

    token: str
    raw: bytes
    logprob: float
    id: int | None = None


class TokenLogprob(Struct, frozen=True):
    """One sampled token. `logprob` is a natural logarithm, None for the first token of a prompt that is echoed, which nothing
    predicts; `top` is sorted, most likely first. `id` as on `TopLogprob`."""

    token: str
    raw: bytes
    logprob: float | None
    top: tuple[TopLogprob, ...] = ()
    id: int | None = None


class TextDelta(Struct, frozen=True):
    """More visible text. `logprobs` has the tokens of this text, in order; so has `ids`, where the request asks for token ids
    (`Sampling.token_ids`). Those of a choice joined are then all tokens behind its prompt: those that the engine made for it,
    also the last ones, which may have no text, and the marker with which the gateway closed its reasoning. `echo`: this is a
    part of the prompt, which Completions' `echo` puts before the text."""

    index: int
    text: str
    logprobs: tuple[TokenLogprob, ...] = ()
    ids: tuple[int, ...] = ()
    echo: bool = False


class SampledIds(Struct, frozen=True):
    """The ids of tokens behind the prompt of a choice, before the events that they become: where the request asks for token ids
    and the output is parsed, so that a token may be part of a call or a marker. Joined they are as those of `TextDelta`."""

    index: int
    ids: tuple[int, ...]


class TextEnd(Struct, frozen=True):
    """The open text, or refusal, is complete."""

    index: int


class RefusalDelta(Struct, frozen=True):
    """More of the text with which the model declines."""

    index: int
    text: str


class Annotation(Struct, frozen=True):
    """The source of a part of the open text. `start` and `end` are positions in that text, in characters; `kind` is the kind of
    source ("url", "file", ...), `source` its address or file id, `title` its name, `quote` the quoted words; `order` its place
    among the sources of the response."""

    index: int
    kind: str
    start: int
    end: int
    source: str
    title: str = ""
    quote: str = ""
    order: int = 0


class ReasoningDelta(Struct, frozen=True):
    """More of the model's reasoning."""

    index: int
    text: str


class ReasoningEnd(Struct, frozen=True):
    """The open reasoning is complete. `seal` is its sealed form, which the client may send back in a later request. `carried`:
    the seal holds what an outside provider wants back in the next turn."""

    index: int
    seal: bytes | None = None
    carried: bool = False


class Verbatim(Struct, frozen=True):
    """A piece of the answer in the words of an outside provider, for a client of the same API.

    The events that say the same follow it. `name` is that of the stream's event, "" for none. Between `pieces` of its data stand
    the seals of the reasoning that ends next, in their order: one fewer than there are pieces. `again`: they are those of the
    whole answer, from its first on. `counts`: it says how many tokens there were, and nothing else."""

    index: int
    name: str
    pieces: tuple[bytes, ...]
    again: bool = False
    counts: bool = False


class ToolCallStart(Struct, frozen=True):
    """A tool call begins. `call` counts calls within the choice from 0. `namespace`, `custom` and `kind` are those of
    `request.ToolCall`."""

    index: int
    call: int
    id: str
    name: str
    namespace: str | None = None
    custom: bool = False
    kind: str = "function"


class ToolCallDelta(Struct, frozen=True):
    """More of a call's arguments; the deltas joined are one JSON text, or a custom tool's free text."""

    index: int
    call: int
    arguments: str


class ToolCallEnd(Struct, frozen=True):
    """The call is complete. `valid` False: the arguments are not valid JSON, or were cut off. `repaired`: they are valid, but the
    model left out or misspelt a marker or wrote only nearly JSON, so what it meant was inferred; software that runs calls without
    asking anyone may refuse such a call."""

    index: int
    call: int
    valid: bool = True
    repaired: bool = False


class HostedStart(Struct, frozen=True):
    """The server begins to run a tool. `kind` is the tool's wire type ("web_search", "mcp", ...), `payload` the call as far as
    it is known, as JSON text."""

    index: int
    id: str
    kind: str
    payload: bytes = b""


class HostedProgress(Struct, frozen=True):
    """How far the open hosted call is. `phase` is the API's word for it ("searching", "arguments", ...)."""

    index: int
    phase: str
    payload: bytes = b""


class HostedEnd(Struct, frozen=True):
    """The open hosted call is over. `payload` is its result as JSON text, or the error if it `failed`."""

    index: int
    payload: bytes = b""
    failed: bool = False


class OpaqueBlock(Struct, frozen=True):
    """A block that must reach the client byte for byte: a signature, encrypted reasoning, a provider's own item."""

    index: int
    kind: str
    payload: bytes


class Finished(Struct, frozen=True):
    """A choice is complete. `matched` is the stop string or token id that ended it, if one did; `cut`: its last block is
    incomplete. `violation` says how its text breaks the format that was asked for, None if it does not; with `mended`, the text
    was repaired and is valid now."""

    index: int
    reason: FinishReason
    matched: str | int | None = None
    cut: bool = False
    violation: str | None = None
    mended: bool = False

    def stopped_by(self, stops: Sequence[str]) -> bool:
        """Whether one of these stop strings has ended the choice: then its calls, if it has any, are not why it ended."""
        return self.reason == "stop" and isinstance(self.matched, str) and self.matched in stops


class Usage(Struct, frozen=True):
    """Token counts of the whole response.

    Parts of `prompt_tokens`: `cached_tokens`, which the engine had in its cache; `cache_write_tokens`, which it put there;
    `hosted_prompt_tokens`, the prompts of the turns after results of hosted tools, and of these `hosted_cached_tokens` were in
    the cache; of the other prompts `image_tokens`, `audio_tokens` and `video_tokens`, which stand for media, and
    `unsplit_prompt_tokens`, the prompts with media of which it is not known what they are made of. Part of `completion_tokens`:
    `reasoning_tokens`. `rounds` is how many turns the response took. The usage of several turns is their sum, from `NO_USAGE` on.
    """

    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int = 0
    reasoning_tokens: int = 0
    cache_write_tokens: int = 0
    hosted_prompt_tokens: int = 0
    image_tokens: int = 0
    audio_tokens: int = 0
    video_tokens: int = 0
    rounds: int = 1
    hosted_cached_tokens: int = 0
    unsplit_prompt_tokens: int = 0

    @property
    def total_tokens(self) -> int:
        return self.prompt_tokens + self.completion_tokens

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(*map(add, astuple(self), astuple(other)))


NO_USAGE = Usage(0, 0, rounds=0)
"""The usage of a response without any turn."""


class Done(Struct, frozen=True):
    """The response is complete and whole."""


class Failed(Struct, frozen=True):
    """The response ends here because of `error`; nothing follows."""

    error: SmgError


class Cancelled(Struct, frozen=True):
    """The response ends here because it was cancelled; nothing follows. `reason` says by whom, for the log."""

    reason: str


Event = (
    Started
    | SampledIds
    | TextDelta
    | TextEnd
    | RefusalDelta
    | Annotation
    | ReasoningDelta
    | ReasoningEnd
    | Verbatim
    | ToolCallStart
    | ToolCallDelta
    | ToolCallEnd
    | HostedStart
    | HostedProgress
    | HostedEnd
    | OpaqueBlock
    | Finished
    | Usage
    | Done
    | Failed
    | Cancelled
)
