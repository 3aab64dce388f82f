"""The order of an Interactions stream, by `apis.interactions.grammar`, and its needed fields.

Pure. Above: answers.
"""

from typing import Any

from smg_core.apis.interactions.grammar import END, InteractionGrammar
from smg_core.sse import ServerSentEvent
from smg_simulator.conform.contents import READERS, AnswerContents
from smg_simulator.conform.named_events import read_named
from smg_simulator.conform.shapes import shape_faults

__all__ = ["InteractionStreamGrammar"]


class InteractionStreamGrammar:
    """Follows one stream."""

    def __init__(self) -> None:
        self._grammar = InteractionGrammar(own_ids=False)
        self._interaction: dict[str, Any] = {}

    def take(self, event: ServerSentEvent) -> list[str]:
        """Take the next event; what is wrong with it, a sentence each."""
        if event.data == "[DONE]" and self._grammar.state == END:
            return []
        fields, found = read_named(event, "event_type")
        if fields is None:
            return found
        kind = fields.get("event_type")
        fault = self._grammar.take(fields)
        if fault is not None:
            found.append(fault)
        if kind == "error":
            found.append("the stream ended with an error")
        interaction = fields.get("interaction")
        if isinstance(interaction, dict):
            self._interaction = interaction
        return found

    def end(self) -> list[str]:
        """The stream has ended; what is missing."""
        return [] if self._grammar.state == END else [f"the stream ended when {self._grammar.state}"]

    def contents(self, faults: list[str]) -> AnswerContents:
        """The contents of the interaction: its steps, and the object of the event that completes it. What is wrong with that is
        added to `faults`."""
        shape, read = READERS["interactions"]
        whole = {"created": "", **self._interaction, "steps": self._grammar.steps}
        faults += shape_faults(shape, whole)
        return AnswerContents(cut=True) if faults else read(whole, faults)
