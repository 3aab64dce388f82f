"""The route of a server over HTTP for a generation: the body, and who reads the answer.

Decides between Chat Completions and the routes for recordings, for speech and for pictures. Pure. Above: engine, which sends
it. Below: body and events of the first, speech, speaking and imaging for the others.
"""

from typing import Protocol

from msgspec import Struct

from smg_core.engines.openai.body import write_body
from smg_core.engines.openai.events import ChatDecoder
from smg_core.engines.openai.fields import REASONING_FIELDS, ServerWords
from smg_core.engines.openai.imaging import PictureDecoder, write_picture_request
from smg_core.engines.openai.speaking import SoundDecoder, write_speech
from smg_core.engines.openai.speech import SpeechDecoder, write_form
from smg_core.engines.settings import EnginesConfig
from smg_core.errors import SmgError
from smg_core.events import Event
from smg_core.origin import Origin
from smg_core.request import GenerationRequest

__all__ = ["AnswerDecoder", "Asking", "asking"]

_STREAM, _JSON = "text/event-stream", "application/json"


class AnswerDecoder(Protocol):
    """Reads one answer. `done` is True once all is said; `error` is what went wrong, after which nothing more is read.
    `finished`: nothing but the stream's end is due, and perhaps a count of its tokens."""

    done: bool
    error: SmgError | None

    @property
    def finished(self) -> bool: ...

    def feed(self, data: bytes) -> list[Event]:
        """The events that the next bytes of a stream bring."""
        ...

    def end(self) -> list[Event]:
        """The events that the end of a stream brings."""
        ...

    def whole(self, body: bytes) -> list[Event]:
        """The events of an answer that is no stream."""
        ...

    def fail(self, error: SmgError) -> list[Event]:
        """Give up because of `error`, with the events that can still be given."""
        ...


class Asking(Struct, frozen=True):
    """The path below the API's, the body with its content type, what is accepted, and the reader of the answer. `any_kind`:
    what is no stream is read as a whole, whatever its content type. `raw`: the answer is bytes, and no text."""

    path: str
    body: bytes
    content_type: str
    accept: str
    decoder: AnswerDecoder
    any_kind: bool = False
    raw: bool = False


def asking(
    request: GenerationRequest, model: str, limits: EnginesConfig, *, extras: bool, speech: bool, learnt: set[str]
) -> Asking:
    """What a server is asked. `speech`: it has the routes for recordings. `learnt` has the fields in which the server has written
    reasoning so far; the reader of the answer adds to it. Raises `UnsupportedParameter` for what it has no word
    for."""
    if request.speaking is not None:
        sound = write_speech(request, request.speaking, model)
        return Asking("/audio/speech", sound, _JSON, "*/*", SoundDecoder(), raw=True)
    if request.imaging is not None:
        made = write_picture_request(request, request.imaging, model, extras=extras)
        decoder = PictureDecoder(request.imaging, limits)
        return Asking(made.path, made.body, made.content_type, "*/*", decoder, raw=True)
    asked = request.transcription
    if asked is not None and speech:
        form = write_form(request, asked, model)
        return Asking(form.path, form.body, form.content_type, "*/*", SpeechDecoder(asked, limits), any_kind=True)
    words = ServerWords(developer_role(limits, extras=extras), tuple(sorted(learnt, reverse=True)) or REASONING_FIELDS)
    body = write_body(request, model=model, extras=extras, words=words)
    origin = request.origin or Origin("")
    reader = ChatDecoder(request.id, request.sampling.n, limits, learnt, calls=origin.calls)
    return Asking("/chat/completions", body, _JSON, _STREAM, reader)


def developer_role(limits: EnginesConfig, *, extras: bool) -> str:
    """The role of a message of the developer: by the setting, else the one that all servers know but OpenAI's own."""
    if limits.http_developer != "auto":
        return limits.http_developer
    return "system" if extras else "developer"
