"""Whether one answer is what its probe wants: status, envelope, fields, and what the fields say of each other.

Pure. Above: asking. Below: the grammars of streams, contents, shapes. A stream is judged by its grammar; its contents are
judged like the contents of a whole answer.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

import attrs
import jsonschema_rs
import msgspec

from smg_core.errors import EngineGarbled
from smg_core.json_types import Json
from smg_core.sse import ServerSentEvent, SseReader
from smg_core.trials import PERSON
from smg_simulator.conform.chat_stream import ChatGrammar
from smg_simulator.conform.completions_stream import CompletionsGrammar
from smg_simulator.conform.contents import READERS, AnswerContents, is_json_object
from smg_simulator.conform.gemini_stream import GeminiGrammar, gemini_line_faults
from smg_simulator.conform.interactions_stream import InteractionStreamGrammar
from smg_simulator.conform.messages_stream import MessagesGrammar
from smg_simulator.conform.probes import Probe
from smg_simulator.conform.responses_stream import ResponsesStreamGrammar
from smg_simulator.conform.shapes import shape_faults

__all__ = ["HttpAnswer", "answer_faults", "is_refusal", "stream_faults"]


@attrs.frozen
class HttpAnswer:
    """One answer of a server: its status, its media type without parameters, and its whole body."""

    status: int
    media_type: str
    body: bytes


class _StreamGrammar(Protocol):
    def take(self, event: ServerSentEvent) -> list[str]: ...

    def end(self) -> list[str]: ...

    def contents(self, faults: list[str]) -> AnswerContents: ...


GRAMMARS: Mapping[str, Callable[[], _StreamGrammar]] = {
    "chat": ChatGrammar,
    "responses": ResponsesStreamGrammar,
    "messages": MessagesGrammar,
    "completions": CompletionsGrammar,
    "generate_content": GeminiGrammar,
    "interactions": InteractionStreamGrammar,
}
"""Each API with what checks a stream of it. One that is not here is looked at for a status and a body alone."""


def is_refusal(answer: HttpAnswer) -> bool:
    """Whether the server answered that the client is at fault."""
    return 400 <= answer.status < 500


def answer_faults(probe: Probe, answer: HttpAnswer) -> list[str]:
    """What is wrong with `answer`, a sentence each; none where it is as it must be. An optional probe may be refused."""
    if probe.wants == "refusal" or (probe.optional and is_refusal(answer)):
        return _refusal_faults(probe, answer)
    if answer.status != 200:
        return [f"the status is {answer.status}"]
    if probe.api not in GRAMMARS:
        return [] if answer.body else ["the body is empty"]
    expected = "text/event-stream" if probe.streamed else "application/json"
    found = [] if answer.media_type == expected else [f"the content-type is {answer.media_type} and not {expected}"]
    if probe.streamed:
        return found + stream_faults(probe, answer.body)
    whole, faults = _decoded(answer.body)
    if probe.wants == "count" or faults:
        return found + (faults or shape_faults("count", whole))
    shape, read = READERS[probe.api]
    faults = shape_faults(shape, whole)
    if not faults and isinstance(whole, dict):
        contents = read(whole, faults)
        faults += _unlike(probe, contents)
    return found + faults


def stream_faults(probe: Probe, body: bytes) -> list[str]:
    """What is wrong with a stream. It is read to its end, but where an event is too large to be one."""
    grammar = GRAMMARS[probe.api]()
    found = gemini_line_faults(body) if probe.api == "generate_content" else []
    try:
        events = SseReader().feed(body)
    except EngineGarbled as error:
        return [f"the stream cannot be read: {error}"]
    for place, event in enumerate(events):
        found += [f"event {place}: {each}" for each in grammar.take(event)]
    found += grammar.end()
    if not found:
        found += _unlike(probe, grammar.contents(found))
    return found


def _decoded(body: bytes) -> tuple[Json, list[str]]:
    try:
        return msgspec.json.decode(body), []
    except msgspec.DecodeError:
        return None, ["the body is no JSON"]


def _refusal_faults(probe: Probe, answer: HttpAnswer) -> list[str]:
    if not is_refusal(answer):
        return [f"the status is {answer.status} and not one of 4xx"]
    if probe.api not in GRAMMARS:
        return []
    whole, faults = _decoded(answer.body)
    return faults or shape_faults(f"{probe.api} error", whole)


def _unlike(probe: Probe, contents: AnswerContents) -> Iterator[str]:
    """What an answer lacks although its probe wants it. An answer that was cut off is not judged."""
    if contents.cut:
        return
    wants: Any = probe.wants
    if wants == "call":
        if not contents.calls:
            yield "no tool is called although one must be"
        for arguments in contents.calls:
            if not is_json_object(arguments):
                yield "the arguments of a call are no JSON object"
    elif not contents.text:
        yield "there is no text"
    if wants == "logprobs" and not contents.logprobs:
        yield "there are no logprobs although they were asked for"
    if wants == "schema":
        person, faults = _decoded(contents.text.encode())
        if faults or not jsonschema_rs.is_valid(PERSON, person):
            yield "the text does not follow the schema"
