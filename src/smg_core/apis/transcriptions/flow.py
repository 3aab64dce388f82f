"""The flow of a transcription: which language is spoken, then a turn, or one for each part of it.

Whisper's prompt names the language. Where the client has not told it, the model is asked for that token first, with nothing of
its answer shown. Its encoder reads half a minute, so that a longer recording is sent part by part, and the texts are one. Pure.
Above: routes. Below: pipeline.flow.
"""

import re

from msgspec.structs import replace

from smg_core.apis.transcriptions.wire import TranscriptionRequest
from smg_core.errors import EngineFailed, LanguageUnknown, RecordingInParts
from smg_core.pipeline.flow.flow import Terms, generate, respond
from smg_core.pipeline.flow.steps import Flow
from smg_core.request import GenerationRequest
from smg_core.speech import Transcription

__all__ = ["write_down"]

_TOKEN = re.compile(r"<\|([a-z]{2,3})\|>\Z")


def write_down(decoded: TranscriptionRequest, terms: Terms) -> Flow[object]:
    """The words in a recording. A model that has to know the language is asked for it first, where the client has not told it; of
    a recording that is longer than it reads, it is asked for the words of each part."""
    request, parts = decoded.generation, 1
    asked = request.transcription or decoded.asked
    unknown = False
    while True:
        try:
            if unknown:
                asked, unknown = replace(asked, language=(yield from _language(request, asked, parts, terms))), False
            return (yield from _written(request, asked, parts, terms))
        except RecordingInParts as error:
            if parts > 1:
                raise
            parts = error.parts
        except LanguageUnknown:
            if unknown or asked.language is not None:
                raise
            unknown = True


def _written(request: GenerationRequest, asked: Transcription, parts: int, terms: Terms) -> Flow[object]:
    """The words of all parts."""
    if parts == 1:
        return (yield from respond(replace(request, transcription=asked), terms))
    for part in range(parts - 1):
        yield from generate(replace(request, transcription=replace(asked, part=(part, parts))), terms, ends=False)
    return (yield from respond(replace(request, transcription=replace(asked, part=(parts - 1, parts))), terms))


def _language(request: GenerationRequest, asked: Transcription, parts: int, terms: Terms) -> Flow[str]:
    """The language that is spoken in the recording's first part."""
    part = (0, parts) if parts > 1 else None
    listening = replace(request, transcription=replace(asked, detects=True, part=part))
    heard = yield from generate(listening, terms, ends=False, keep=True, visible=False)
    found = _TOKEN.match(heard.output.text.strip())
    if found is None:
        raise EngineFailed("The engine named no language that is spoken in the recording.")
    return found[1]
