"""The order of a Completions stream, and a checker of it: what an SDK that joins the texts of each choice relies on. Pure."""

from collections.abc import Iterator
from typing import Any

import msgspec

from smg_core.conform.contents import AnswerContents, chat_usage_faults
from smg_core.conform.shapes import shape_faults
from smg_core.sse import ServerSentEvent

__all__ = ["CompletionsGrammar"]


class _Choice:
    """What has come of one choice."""

    def __init__(self) -> None:
        self.text = ""
        self.logprobs = 0
        self.finish: str | None = None


class CompletionsGrammar:
    """Follows one stream of a request with `stream_options.include_usage`."""

    def __init__(self) -> None:
        self.choices: dict[int, _Choice] = {}
        self._identity: tuple[object, object] | None = None
        self._usage = False
        self._done = False

    def take(self, event: ServerSentEvent) -> list[str]:
        """Take the next event; what is wrong with it, a sentence each."""
        if self._done:
            return ["an event came behind [DONE]"]
        if event.data == "[DONE]":
            self._done = True
            return []
        try:
            chunk = msgspec.json.decode(event.data)
        except msgspec.DecodeError:
            return ["an event's data is no JSON"]
        if isinstance(chunk, dict) and "error" in chunk:
            return [*shape_faults("completions error", chunk), "the stream ended with an error"]
        return shape_faults("completion chunk", chunk) or list(self._chunk(chunk))

    def _chunk(self, chunk: dict[str, Any]) -> Iterator[str]:
        identity = (chunk["id"], chunk["model"])
        if self._identity not in (None, identity):
            yield "a chunk has another id or model than those before it"
        self._identity = identity
        if self._usage:
            yield "a chunk came behind the usage"
        usage = chunk.get("usage")
        if not chunk["choices"]:
            if usage is None:
                yield "a chunk has neither choices nor usage"
            else:
                self._usage = True
                yield from chat_usage_faults(usage)
        for part in chunk["choices"]:
            choice = self.choices.setdefault(part["index"], _Choice())
            if choice.finish is not None:
                yield f"more came of choice {part['index']} behind its finish_reason"
            choice.text += part["text"]
            choice.logprobs += len((part.get("logprobs") or {}).get("token_logprobs") or [])
            choice.finish = part["finish_reason"] or choice.finish

    def end(self) -> list[str]:
        """The stream has ended; what is missing."""
        found = [f"choice {index} has no finish_reason" for index, each in self.choices.items() if each.finish is None]
        if sorted(self.choices) != list(range(max(1, len(self.choices)))):
            found.append(f"the choices are {sorted(self.choices)}")
        if not self._usage:
            found.append("the stream ended without the usage that was asked for")
        if not self._done:
            found.append("the stream ended without [DONE]")
        return found

    def contents(self, faults: list[str]) -> AnswerContents:
        """The contents of the first choice."""
        choice = self.choices[0]
        return AnswerContents(choice.text, (), choice.logprobs, choice.finish == "length")
