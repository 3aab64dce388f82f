"""Requests to a server with OpenAI's routes for recordings, and its answers.

Decides how a `GenerationRequest` that asks for a transcription is written as a form, and reads the answer as our events: one
object, a stream of OpenAI's events or of vLLM's chunks, or a text with times, which is passed on as it is. Pure. Above: engine.
Sources: OpenAI's API reference; vLLM's TranscriptionStreamResponse.
"""

import msgspec
from msgspec import Struct

from smg_core.engines.openai.answers import error_from_event
from smg_core.engines.openai.chunks import ErrorWire
from smg_core.engines.openai.forms import FormFile, WrittenForm, write_files_form
from smg_core.engines.settings import EnginesConfig
from smg_core.errors import EngineGarbled, SmgError, UnsupportedParameter
from smg_core.events import Event, Finished, OpaqueBlock, TextDelta, TextEnd, Usage
from smg_core.request import Audio, GenerationRequest
from smg_core.speech import Transcription
from smg_core.sse import DONE, DataReader
from smg_core.tokens import reported_count

__all__ = ["SpeechDecoder", "write_form"]

_DEFAULTS = EnginesConfig()


def write_form(request: GenerationRequest, asked: Transcription, model: str) -> WrittenForm:
    """The form for a request. Raises UnsupportedParameter for a recording that is no bytes."""
    data = next(
        (part.source.data for message in request.messages for part in message.parts if isinstance(part, Audio)), None
    )
    if data is None:
        raise UnsupportedParameter("A recording is sent as bytes.", param="messages[0].parts[0]")
    fields = [("model", model), ("response_format", asked.format if asked.timed else "json")]
    for name, value in (("language", asked.language), ("prompt", asked.prompt)):
        if value is not None:
            fields.append((name, value))
    if request.sampling.temperature:
        fields.append(("temperature", f"{request.sampling.temperature:g}"))
    fields += [("timestamp_granularities[]", each) for each in asked.granularities]
    if request.stream and not asked.timed and not asked.translate:
        fields.append(("stream", "true"))
    kind = "translations" if asked.translate else "transcriptions"
    file = FormFile("file", asked.filename, asked.media_type, data)
    return write_files_form(f"/audio/{kind}", request.id, fields, [file])


class _Tokens(Struct):
    input_tokens: int | None = None
    output_tokens: int | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None


class _Delta(Struct):
    content: str | None = None


class _Choice(Struct):
    delta: _Delta | None = None
    finish_reason: str | None = None


class _Event(Struct):
    type: str = ""
    delta: str | None = None
    text: str | None = None
    choices: list[_Choice] | None = None
    usage: _Tokens | None = None
    error: ErrorWire | str | None = None


_EVENTS = msgspec.json.Decoder(_Event)


class SpeechDecoder:
    """Reads one answer. As `ChatDecoder`: `done` is True once all is said, `error` is what went wrong."""

    def __init__(self, asked: Transcription, limits: EnginesConfig = _DEFAULTS) -> None:
        self.done = False
        self.error: SmgError | None = None
        self._asked = asked
        self._reader = DataReader(max_event_bytes=limits.http_event_bytes)
        self._reported = self._ended = False
        self._usage: Usage | None = None

    def feed(self, data: bytes) -> list[Event]:
        """The events that the next bytes of a stream bring."""
        events: list[Event] = []
        if self.done or self.error is not None:
            return events
        try:
            for each in self._reader.feed(data):
                self._event(each, events)
                if self.done:
                    break
        except SmgError as error:
            events += self.fail(error)
        return events

    @property
    def finished(self) -> bool:
        """Whether the text is complete, so that nothing but the end of the stream is due."""
        return self._ended

    def end(self) -> list[Event]:
        """The events that the end of a stream brings; an error, unless all is said by then."""
        events: list[Event] = []
        if self.done or self.error is not None:
            return events
        try:
            rest = self._reader.rest()
            if rest is not None:
                self._event(rest, events)
            if not self._ended:
                raise EngineGarbled("The engine ended its answer before it was whole.")
            self._finish(events)
        except SmgError as error:
            events += self.fail(error)
        return events

    def whole(self, body: bytes) -> list[Event]:
        """The events of an answer that is no stream."""
        events: list[Event] = []
        try:
            if self._asked.timed:
                self._pass_on(body, events)
            else:
                found = _read(body)
                if found.text is None and found.error is None:
                    raise EngineGarbled("The engine sent no text of the recording.")
                self._take(found, events)
                self._ended = True
            self._finish(events)
        except SmgError as error:
            events += self.fail(error)
        return events

    def fail(self, error: SmgError) -> list[Event]:
        """Give up because of `error`, with the events that can still be given."""
        self.error = error
        return []

    def _pass_on(self, body: bytes, events: list[Event]) -> None:
        """An answer with times leaves as the engine wrote it. What is JSON is looked at for errors and tokens."""
        if self._asked.format == "verbose_json":
            found = _read(body)
            if found.error is not None or found.text is None:
                raise error_from_event(found.error or "the answer has no text")
            self._count(found.usage)
        events.append(OpaqueBlock(0, "transcription", body))

    def _event(self, data: bytes, events: list[Event]) -> None:
        data = data.strip()
        if not data:
            return
        if data == DONE:
            if not self._ended:
                raise EngineGarbled("The engine ended its answer before it was whole.")
            self._finish(events)
            return
        self._take(_read(data), events)

    def _take(self, found: _Event, events: list[Event]) -> None:
        if found.error is not None:
            raise error_from_event(found.error)
        self._count(found.usage)
        text = found.delta or ""
        for choice in found.choices or ():
            text += (choice.delta.content if choice.delta is not None else None) or ""
            self._ended = self._ended or choice.finish_reason is not None
        if found.text is not None and found.type in ("", "transcript.text.done"):
            self._ended = True
            text = found.text if not self._reported else ""
        if text:
            self._reported = True
            events.append(TextDelta(0, text))

    def _count(self, usage: _Tokens | None) -> None:
        if usage is None:
            return
        before = usage.input_tokens if usage.input_tokens is not None else usage.prompt_tokens
        behind = usage.output_tokens if usage.output_tokens is not None else usage.completion_tokens
        if before is not None or behind is not None:
            self._usage = Usage(reported_count(before), reported_count(behind))

    def _finish(self, events: list[Event]) -> None:
        if self._reported:
            events.append(TextEnd(0))
        events.append(Finished(0, "stop"))
        if self._usage is not None:
            events.append(self._usage)
        self.done = True


def _read(data: bytes) -> _Event:
    try:
        return _EVENTS.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise EngineGarbled(
            "The engine sent an answer about a recording that cannot be read.",
            detail=str(error),
            outside_text=str(error),
        ) from None
