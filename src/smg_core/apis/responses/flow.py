"""The flow of a Responses request: a turn, within the context where the client wants that, and behind a summary of a long past.

With `truncation` "auto" a prompt that is too long loses its oldest turns, as many as the numbers say and more if that was not
enough; instructions stay, and so does what answers a call together with the call. Without a turn to lose, and with
"disabled", the client gets the error.

With `context_management` a prompt over the client's threshold is compacted first: the model summarizes it in a turn that is not
shown but counted, a compaction item is put into the output, and the turn is made on what the item says: the developer's first
messages, the summary, and the user's last message. Decides only. Above: the API's row in `apis`. Below: `pipeline.flow.flow`.
"""

from collections.abc import Container
from itertools import pairwise, takewhile

from msgspec.structs import replace

from smg_core.apis.responses.wire.decode import ResponsesRequest
from smg_core.apis.responses.wire.summaries import COMPACTION, summary_bytes_of
from smg_core.errors import EngineFailed, PromptTooLong
from smg_core.events import OpaqueBlock
from smg_core.pipeline.answer.turn import Turn
from smg_core.pipeline.flow.flow import Terms, generate, prefilling, respond
from smg_core.pipeline.flow.steps import Finish, Flow, Tell, ask
from smg_core.pipeline.flow.summaries import Shorten, prompt_size, summarizing, was_cut
from smg_core.pipeline.prompt.tool_places import has_other_places, naming_places_of
from smg_core.pipeline.tools.loop import has_hosted_tools, looped, without_hosted_tools
from smg_core.request import GenerationRequest, Message, Text, ToolCall

__all__ = ["prompted_as", "respond_to", "shortened"]


def respond_to(request: ResponsesRequest, terms: Terms, shorten: Shorten | None = None) -> Flow[object]:
    """The response to `request`, whose history is loaded; `shorten` is asked where its prompt is too long and may be shortened,
    None for `shortened`."""
    generation = request.generation
    changes = request.compacts or generation.compact is not None or generation.truncation == "auto"
    if changes or not generation.generate or has_other_places(generation):
        return _respond(request, terms, shorten or shortened)
    return respond(generation if generation.truncation is None else _plain(generation), terms)


def _respond(request: ResponsesRequest, terms: Terms, shorten: Shorten) -> Flow[None]:
    generation = request.generation
    if request.compacts:
        generation = summarizing(generation)
    elif generation.compact is not None and generation.generate:
        generation = yield from _compacted(request, terms, shorten)
    if has_hosted_tools(generation) and generation.generate:
        turn = yield from _with_tools(request, generation, terms, shorten)
    else:
        with naming_places_of(generation):
            turn = yield from _within_context(without_hosted_tools(generation), terms, shorten)
    yield from ask(Finish(turn))


def _with_tools(request: ResponsesRequest, generation: GenerationRequest, terms: Terms, shorten: Shorten) -> Flow[Turn]:
    """The turns of a response with tools that run here."""

    def turn(asked: GenerationRequest, hosted: Container[str]) -> Flow[Turn]:
        return _within_context(asked, terms, shorten, ends=False, keep=True, hosted=hosted)

    approved, refused, known = request.approved, request.refused, request.listed
    return (yield from looped(generation, terms, turn, approved=approved, refused=refused, known=known))


def prompted_as(request: ResponsesRequest) -> GenerationRequest:
    """The first request that is prepared to answer `request`: without the fields that only this flow reads."""
    asked = summarizing(request.generation) if request.compacts else request.generation
    return without_hosted_tools(_plain(asked))


def _plain(request: GenerationRequest) -> GenerationRequest:
    """The request without what is done here, so that no engine need know of it."""
    return replace(request, truncation=None, generate=True, compact=None)


def _compacted(request: ResponsesRequest, terms: Terms, shorten: Shorten) -> Flow[GenerationRequest]:
    """The request on a summary of what came before, where its prompt is over the client's threshold. A summary that was cut
    off replaces nothing: the turn is made on the whole prompt."""
    generation = request.generation
    over = generation.compact.over_tokens if generation.compact is not None else None
    with naming_places_of(generation):
        size = yield from prompt_size(prompted_as(request))
    leading, last = _kept(generation.messages)
    if over is None or size <= over or len(leading) + len(last) == len(generation.messages):
        return generation
    asked = summarizing(generation)
    asked = replace(asked, sampling=replace(asked.sampling, max_tokens=None, min_tokens=None))
    turn = yield from _within_context(asked, terms, shorten, visible=False)
    if was_cut(turn):
        return generation
    summary = turn.output.text
    if not summary.strip():
        raise EngineFailed("The model wrote no summary.")
    messages = (*leading, Message("developer", (Text(summary),), content_is_text=True), *last)
    summary_bytes = summary_bytes_of(
        messages[1:] if request.body.instructions else messages
    )  # instructions are of one request alone
    yield from ask(Tell((OpaqueBlock(0, COMPACTION, summary_bytes),)))
    return replace(generation, messages=messages)


def _kept(messages: tuple[Message, ...]) -> tuple[tuple[Message, ...], tuple[Message, ...]]:
    """What stays of a prompt that is compacted: the messages of the developer that it begins with, and the last of the user."""
    leading = tuple(takewhile(lambda message: message.role in ("system", "developer"), messages))
    users = [message for message in messages if message.role == "user"]
    return leading, tuple(users[-1:])


def _within_context(
    asked: GenerationRequest,
    terms: Terms,
    shorten: Shorten,
    *,
    visible: bool = True,
    ends: bool = True,
    keep: bool = False,
    hosted: Container[str] = frozenset(),
) -> Flow[Turn]:
    """A turn; of a prompt that is too long, without its oldest turns where the client allows that. The rest as for `generate`;
    one that is not `visible` is kept for the flow and ends nothing."""
    request = _plain(asked if asked.generate else prefilling(asked))
    while True:
        try:
            return (
                yield from generate(
                    request, terms, ends=ends and visible, keep=keep or not visible, visible=visible, hosted=hosted
                )
            )
        except PromptTooLong as error:
            allowed = asked.truncation == "auto" and not terms.answer.committed
            shorter = shorten(request.messages, error) if allowed else None
            if shorter is None:
                raise
            request = replace(request, messages=shorter)


def shortened(messages: tuple[Message, ...], error: PromptTooLong) -> tuple[Message, ...] | None:
    """The messages without the oldest turns, so many that about enough of the prompt is gone; None where only the last is left.
    A turn begins with a message of the user and goes to the next."""
    starts = [place for place, message in enumerate(messages) if message.role == "user"]
    if len(starts) < 2:
        return None
    leading = starts[0]
    total = sum(_weight(message) for message in messages[leading:]) or 1
    over = error.prompt_tokens + error.requested - error.context_length
    wanted = total * min(1.0, over / max(error.prompt_tokens, 1))
    gone = 0
    for start, following in pairwise(starts):
        gone += sum(_weight(message) for message in messages[start:following])
        if gone >= wanted:
            return messages[:leading] + messages[following:]
    return messages[:leading] + messages[starts[-1] :]


def _weight(message: Message) -> int:
    """About how much of the prompt a message is."""
    calls = sum(len(part.arguments) for part in message.parts if isinstance(part, ToolCall))
    results = sum(len(str(part)) for part in message.parts if not isinstance(part, ToolCall))
    return 1 + calls + results
