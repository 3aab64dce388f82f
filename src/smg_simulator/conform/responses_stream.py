"""The order of a Responses stream, by `apis.responses.wire.grammar`, and its needed fields.

Pure. Above: answers.
"""

from typing import Any

from smg_core.apis.responses.wire.grammar import END, TERMINAL, ResponsesGrammar
from smg_core.sse import ServerSentEvent
from smg_simulator.conform.contents import READERS, AnswerContents
from smg_simulator.conform.named_events import read_named
from smg_simulator.conform.shapes import shape_faults

__all__ = ["ResponsesStreamGrammar"]


class ResponsesStreamGrammar:
    """Follows one stream. `response` is the object of the terminal event."""

    def __init__(self) -> None:
        self._grammar = ResponsesGrammar()
        self._first = True
        self.response: dict[str, Any] = {}

    def take(self, event: ServerSentEvent) -> list[str]:
        """Take the next event; what is wrong with it, a sentence each."""
        if event.data == "[DONE]" and self._grammar.state == END:
            return []
        fields, found = read_named(event, "type")
        if fields is None:
            return found
        kind = fields.get("type")
        if self._first and fields.get("sequence_number") != 0:
            found.append(f"the first event has the sequence_number {fields.get('sequence_number')}")
        self._first = False
        fault = self._grammar.take(fields)
        if fault is not None:
            found.append(fault)
        if kind in TERMINAL:
            self.response = fields.get("response") or {}
            if kind == "response.failed":
                found.append("the response failed")
        elif "response" in fields:
            found += shape_faults("response", fields["response"])
        return found

    def end(self) -> list[str]:
        """The stream has ended; what is missing."""
        return [] if self._grammar.state == END else [f"the stream ended when {self._grammar.state}"]

    def contents(self, faults: list[str]) -> AnswerContents:
        """The contents of the response, by the object of its terminal event; what is wrong with that is added to `faults`."""
        shape, read = READERS["responses"]
        faults += shape_faults(shape, self.response)
        return AnswerContents(cut=True) if faults else read(self.response, faults)
