"""The flow of a transcription: one turn, before which a model may have to be asked which language it hears.

Whisper's prompt names the language. Where the client has not told it, the model is asked for that token first, with nothing of
its answer shown. Pure. Above: routes. Below: pipeline.flow.
"""

import re

from msgspec.structs import replace

from smg_core.apis.transcriptions.wire import TranscriptionRequest
from smg_core.errors import EngineFailed, LanguageNotTold
from smg_core.pipeline.flow.flow import Terms, generate, respond
from smg_core.pipeline.flow.steps import Flow

__all__ = ["write_down"]

_TOKEN = re.compile(r"<\|([a-z]{2,3})\|>\Z")


def write_down(decoded: TranscriptionRequest, terms: Terms) -> Flow[object]:
    """The words in a recording. A model that has to know the language is asked for it first, where the client has not told it."""
    request = decoded.generation
    asked = request.transcription or decoded.asked
    try:
        return (yield from respond(request, terms))
    except LanguageNotTold:
        listening = replace(request, transcription=replace(asked, detects=True))
    heard = yield from generate(listening, terms, ends=False, keep=True, shown=False)
    found = _TOKEN.match(heard.output.text.strip())
    if found is None:
        raise EngineFailed("The engine named no language that is spoken in the recording.")
    return (yield from respond(replace(request, transcription=replace(asked, language=found[1])), terms))
