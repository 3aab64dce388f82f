"""The order of an Interactions stream's events, a table for each wire revision, and its follower.

The table says for every event in which states it may come and which state follows; both revisions have the same states. Every
test of the encoder checks by this one table, and stored streams are read by it. Source: Google's API reference and what its SDK
reads. Pure; knows no encoder.
"""

from collections.abc import Mapping

import msgspec

from smg_core.json_types import Json, JsonObject

__all__ = ["END", "EVENTS", "NEXT_EVENT", "START", "STEP", "InteractionGrammar"]

START, OPEN, STEP, END = "nothing has come", "no step is open", "a step is open", "ended"

EVENTS: Mapping[str, Mapping[str, str]] = {
    "steps": {
        "created": "interaction.created",
        "status": "interaction.status_update",
        "start": "step.start",
        "delta": "step.delta",
        "stop": "step.stop",
        "completed": "interaction.completed",
        "error": "error",
    },
    "legacy": {
        "created": "interaction.start",
        "status": "interaction.status_update",
        "start": "content.start",
        "delta": "content.delta",
        "stop": "content.stop",
        "completed": "interaction.complete",
        "error": "error",
    },
}
"""The names of the events by revision."""
NEXT_EVENT: Mapping[str, Mapping[str, str]] = {
    "created": {START: OPEN},
    "status": {OPEN: OPEN},
    "start": {OPEN: STEP},
    "delta": {STEP: STEP},
    "stop": {STEP: OPEN},
    "completed": {OPEN: END},
    "error": {START: END, OPEN: END, STEP: END},
}
"""Event to what state it leads to, by the state it may come in."""
_KINDS = {name: kind for names in EVENTS.values() for kind, name in names.items()}
_DELTAS: Mapping[str, frozenset[str]] = {
    "model_output": frozenset({"text"}),
    "text": frozenset({"text"}),
    "thought": frozenset({"thought_summary", "thought_signature"}),
    "function_call": frozenset({"arguments_delta", "function_call"}),
    "mcp_server_tool_call": frozenset({"mcp_server_tool_call"}),
    "mcp_server_tool_result": frozenset({"mcp_server_tool_result"}),
}
"""The deltas that a step of each type may have."""
_TERMINAL = frozenset({"completed", "requires_action", "incomplete", "failed", "cancelled"})


class InteractionGrammar:
    """Follows one stream. `steps` are those that are done, put together from their deltas; `revision` is the stream's. With
    `own_ids` the ids of events are the interaction's id and a number, as this server writes them."""

    def __init__(self, *, own_ids: bool = True) -> None:
        self._own_ids = own_ids
        self.state = START
        self.revision = "steps"
        self.steps: list[JsonObject] = []
        self.status = ""
        self.interaction_id: Json = None
        self._number = -1
        self._shell: JsonObject = {}
        self._texts: list[str] = []
        self._signature: str | None = None
        self._arguments: JsonObject = {}

    def take(self, event: JsonObject) -> str | None:
        """Take the next event; returns what is wrong with it, None if nothing is."""
        name = str(event.get("event_type"))
        kind = _KINDS.get(name)
        if kind is None:
            return f"{name} is no event that is known"
        if kind == "created":
            self.revision = "steps" if name == EVENTS["steps"]["created"] else "legacy"
        if EVENTS[self.revision][kind] != name:
            return f"{name} is of another revision than the event that opened the stream"
        following = NEXT_EVENT[kind].get(self.state)
        if following is None:
            return f"{name} came when {self.state}"
        fault = (self._id(event) if self._own_ids else None) or self._contents(event, kind)
        self.state = following
        return fault

    def _id(self, event: JsonObject) -> str | None:
        id, _, number = str(event.get("event_id")).rpartition(".")
        if not number.isdecimal():
            return f"the event_id {event.get('event_id')} has no number"
        before, self._number = self._number, int(number)
        if before >= 0 and self._number != before + 1:
            return f"the event {self._number} came behind {before}"
        if self.interaction_id is not None and id != self.interaction_id:
            return f"the event_id {event.get('event_id')} is of another interaction"
        self.interaction_id = id
        return None

    def _contents(self, event: JsonObject, kind: str) -> str | None:
        if kind in ("created", "completed"):
            interaction = event.get("interaction")
            if not isinstance(interaction, dict):
                return f"an event that {kind} names has no interaction"
            if self.interaction_id is None:
                self.interaction_id = interaction.get("id")
            if interaction.get("id") != self.interaction_id:
                return "the interaction has another id than before"
            self.status = str(interaction.get("status"))
            if kind == "completed" and self.status not in _TERMINAL:
                return f"the interaction is completed with the status {self.status}"
            return None
        if kind == "status":
            return None if event.get("interaction_id") == self.interaction_id else "a status is of another interaction"
        if kind == "error":
            return None if isinstance(event.get("error"), dict) else "an error says nothing"
        if event.get("index") != len(self.steps):
            return f"a step has the index {event.get('index')} and not {len(self.steps)}"
        if kind == "start":
            return self._started(event.get("step" if self.revision == "steps" else "content"))
        return self._delta(event.get("delta")) if kind == "delta" else self._stopped()

    def _started(self, shell: Json) -> str | None:
        if not isinstance(shell, dict) or str(shell.get("type")) not in _DELTAS:
            return "a step has no type that is known"
        self._shell, self._texts, self._signature, self._arguments = shell, [], None, {}
        return None

    def _delta(self, delta: Json) -> str | None:
        kind = self._shell.get("type")
        if not isinstance(delta, dict) or str(delta.get("type")) not in _DELTAS.get(str(kind), ()):
            return f"a {kind} has a delta that is none of its own"
        match delta["type"]:
            case "text":
                self._texts.append(str(delta.get("text")))
            case "thought_summary":
                content = delta.get("content")
                self._texts.append(str(content.get("text")) if isinstance(content, dict) else "")
            case "thought_signature":
                if self._signature is not None:
                    return "a thought has two signatures"
                self._signature = str(delta.get("signature"))
            case "mcp_server_tool_call" | "mcp_server_tool_result":
                self._shell = {**self._shell, **delta}
            case "arguments_delta":
                self._texts.append(str(delta.get("arguments")))
            case _:
                arguments = delta.get("arguments")
                self._arguments = arguments if isinstance(arguments, dict) else {}
                self._shell = {**self._shell, "id": delta.get("id"), "name": delta.get("name")}
        return None

    def _stopped(self) -> str | None:
        fault = None
        step: JsonObject = {"type": "model_output"}
        text = "".join(self._texts)
        match self._shell.get("type"):
            case "thought":
                step = {"type": "thought"}
                if self._texts:
                    step["summary"] = [{"type": "text", "text": text}]
                if self._signature is not None:
                    step["signature"] = self._signature
            case "function_call":
                arguments = self._arguments
                if self.revision == "steps":
                    try:
                        arguments = msgspec.json.decode(text)
                    except msgspec.DecodeError:
                        fault = "the arguments of a call are no JSON"
                step = {**self._shell, "arguments": arguments}
            case "mcp_server_tool_call" | "mcp_server_tool_result":
                step = self._shell
            case _:
                step["content"] = [{"type": "text", "text": text}]
        self.steps.append(step)
        return fault
