"""The flow of a Messages request: one turn, behind a summary of what came before where the client wants that.

A prompt over the client's trigger is compacted: the model summarizes the history in a turn that is not shown, the client is told
the summary in a block, and the turn is made on the summary and the user's last message; or the answer ends there, as the client
says. A summary that was cut off replaces nothing. Decides only. Above: the API's row in `apis`. Below: `pipeline.flow.flow`.
"""

from itertools import takewhile

import msgspec
from msgspec.structs import replace

from smg_core.apis.messages.compaction import COMPACTED, Compacted, summary_text
from smg_core.apis.messages.decode import MessagesRequest
from smg_core.errors import EngineFailed
from smg_core.events import OpaqueBlock
from smg_core.pipeline.flow.flow import Terms, generate, respond
from smg_core.pipeline.flow.steps import Finish, Flow, Tell, ask
from smg_core.pipeline.flow.summaries import prompt_size, summarizing, was_cut
from smg_core.pipeline.prompt.tool_places import naming_places_of
from smg_core.pipeline.tools.loop import respond_with_tools, without_hosted_tools
from smg_core.request import GenerationRequest, Message, Text
from smg_core.wire.json_text import without_surrogates

__all__ = ["respond_to_messages"]


def respond_to_messages(request: MessagesRequest, terms: Terms) -> Flow[object]:
    """The response to `request`."""
    generation = request.generation
    if generation.compact is None:
        return respond_with_tools(generation, terms)
    if not generation.generate:
        return respond_with_tools(replace(generation, compact=None), terms)
    return _compacting(request, terms)


def _compacting(request: MessagesRequest, terms: Terms) -> Flow[None]:
    compact, asked = request.generation.compact, replace(request.generation, compact=None)
    over = compact.over_tokens if compact is not None else None
    with naming_places_of(asked):
        short = over is not None and (_is_short(asked) or (yield from prompt_size(without_hosted_tools(asked))) <= over)
    if short:
        yield from respond_with_tools(asked, terms)
        return
    instructions = compact.instructions if compact is not None else None
    turn = yield from generate(_summary_of(asked, instructions), terms, ends=False, keep=True, visible=False)
    if was_cut(turn):
        if over is None:
            raise EngineFailed("The model's summary was cut off.")
        yield from respond(asked, terms)  # on the whole history, which such a summary does not replace
        return
    summary = without_surrogates(turn.output.text.strip())
    if not summary:
        raise EngineFailed("The model wrote no summary.")
    payload = msgspec.json.encode(Compacted(summary, turn.usage))
    yield from ask(Tell((OpaqueBlock(0, COMPACTED, payload),)))
    if request.pauses:
        yield from ask(Finish(turn))
    else:
        yield from respond_with_tools(_on_summary(asked, summary), terms)


def _leading(request: GenerationRequest) -> tuple[Message, ...]:
    """The system prompt."""
    return tuple(takewhile(lambda message: message.role == "system", request.messages))


def _is_short(request: GenerationRequest) -> bool:
    """Whether there is nothing but the system prompt and one turn of the user."""
    return len(request.messages) - len(_leading(request)) < 2


def _summary_of(request: GenerationRequest, instructions: str | None) -> GenerationRequest:
    """The request for a summary; `instructions` take the place of the usual ones."""
    asked = summarizing(request) if instructions is None else summarizing(request, instructions)
    sampling = replace(asked.sampling, max_tokens=None, min_tokens=None)
    return replace(asked, sampling=sampling, add_generation_prompt=True, continue_final_message=False)


def _on_summary(request: GenerationRequest, summary: str) -> GenerationRequest:
    """The request on the summary and the last message of the user."""
    last = [message.parts for message in request.messages if message.role == "user"][-1:]
    summary_message = Message("user", (Text(summary_text(summary)), *(part for parts in last for part in parts)))
    return replace(
        request,
        messages=(*_leading(request), summary_message),
        context_edits=(),
        add_generation_prompt=True,
        continue_final_message=False,
    )
