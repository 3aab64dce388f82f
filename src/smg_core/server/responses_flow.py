"""The flow of a Responses request: a turn, within the context where the client wants that.

With `truncation` "auto" a prompt that is too long loses its oldest turns, as many as the numbers say and more if that was not
enough; instructions stay, and so does what answers a call together with the call. Without a turn to lose, and with
"disabled", the client gets the error. Decides only. Above: the API's row in `apis`. Below: `pipeline.flow`.
"""

from itertools import pairwise

from msgspec.structs import replace

from smg_core.errors import PromptTooLong
from smg_core.pipeline.flow import Terms, generate
from smg_core.pipeline.steps import Finish, Flow, ask
from smg_core.pipeline.turn import Turn
from smg_core.protocols.responses import ResponsesRequest
from smg_core.request import GenerationRequest, Message, Text, TextFormat, ToolCall, ToolChoice

__all__ = ["respond_to", "shortened", "summarizing"]

_SUMMARIZE = (
    "Write a summary of this conversation from which another model can go on with the work: what the user wants, what was "
    "decided and done, what was found out, which files, names and values matter, and what is left to do. Write nothing else."
)


def respond_to(request: ResponsesRequest, terms: Terms) -> Flow[None]:
    """The response to `request`, whose history is loaded."""
    generation = summarizing(request.generation) if request.compacts else request.generation
    turn = yield from _within_context(generation, terms)
    yield from ask(Finish(turn))


def summarizing(request: GenerationRequest) -> GenerationRequest:
    """The request that has the model summarize the conversation instead of going on with it: without tools, as plain text."""
    return replace(
        request,
        messages=(*request.messages, Message("user", (Text(_SUMMARIZE),), content_is_text=True)),
        tools=(),
        tool_choice=ToolChoice(),
        response_format=TextFormat(),
    )


def _within_context(asked: GenerationRequest, terms: Terms) -> Flow[Turn]:
    """A turn; of a prompt that is too long, without its oldest turns where the client allows that."""
    request = replace(asked, truncation=None, generate=True)  # done here, so that no engine need know them
    if not asked.generate:
        request = replace(request, sampling=replace(asked.sampling, max_tokens=1, min_tokens=None))
    while True:
        try:
            return (yield from generate(request, terms))
        except PromptTooLong as error:
            allowed = asked.truncation == "auto" and not terms.answer.committed
            shorter = shortened(request.messages, error) if allowed else None
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
