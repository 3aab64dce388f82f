"""The laws of a stream of streamGenerateContent, and a checker of it.

Each event is an answer with what is new; there is no table of events. Google's SDK takes lines that begin with `data: ` and fails
on any other: on event lines, comments and [DONE] alike. Pure.
"""

from collections.abc import Iterator
from typing import Any

import msgspec

from smg_core.sse import ServerSentEvent
from smg_simulator.conform.contents import AnswerContents, gemini_usage_faults, generated_contents
from smg_simulator.conform.shapes import shape_faults

__all__ = ["GeminiGrammar", "gemini_line_faults"]


def gemini_line_faults(body: bytes) -> list[str]:
    """The lines of a stream that Google's SDK fails on."""
    wrong = [line for line in body.splitlines() if line and not line.startswith(b"data: ")]
    return [f"a line is none of data: {line[:40].decode('utf-8', 'replace')}" for line in wrong]


class GeminiGrammar:
    """Follows one stream of a request for one candidate."""

    def __init__(self) -> None:
        self._identity: tuple[object, object] | None = None
        self._prompt: int | None = None
        self._usage: dict[str, Any] = {}
        self._finish: str | None = None
        self._contents = AnswerContents()
        self._calls: set[str] = set()

    def take(self, event: ServerSentEvent) -> list[str]:
        """Take the next event; what is wrong with it, a sentence each."""
        try:
            chunk = msgspec.json.decode(event.data)
        except msgspec.DecodeError:
            return ["an event's data is no JSON"]
        if isinstance(chunk, dict) and "error" in chunk:
            return [*shape_faults("generate_content error", chunk), "the stream ended with an error"]
        return shape_faults("generated chunk", chunk) or list(self._chunk(chunk))

    def _chunk(self, chunk: dict[str, Any]) -> Iterator[str]:
        identity = (chunk["responseId"], chunk["modelVersion"])
        if self._identity not in (None, identity):
            yield "a chunk has another responseId or modelVersion than those before it"
        self._identity, self._usage = identity, chunk["usageMetadata"]
        if self._prompt not in (None, self._usage["promptTokenCount"]):
            yield "promptTokenCount is not what it was"
        self._prompt = self._usage["promptTokenCount"]
        if self._finish is not None:
            yield "a chunk came behind the finishReason"
        for candidate in chunk.get("candidates") or []:
            yield from self._candidate(candidate)

    def _candidate(self, candidate: dict[str, Any]) -> Iterator[str]:
        if candidate.get("index") not in (None, 0):
            yield f"a candidate has the index {candidate['index']}, and one was asked for"
        for part in candidate["content"]["parts"]:
            if "functionCall" in part:
                wrong = shape_faults("generated call", part)
                yield from wrong
                if not wrong and part["functionCall"]["id"] in self._calls:
                    yield "two calls have the same id"
                self._calls |= set() if wrong else {part["functionCall"]["id"]}
        self._finish = candidate.get("finishReason") or self._finish
        so_far, new = self._contents, generated_contents(candidate)
        self._contents = AnswerContents(
            so_far.text + new.text, (*so_far.calls, *new.calls), so_far.logprobs + new.logprobs, new.cut
        )

    def end(self) -> list[str]:
        """The stream has ended; what is missing."""
        if self._finish is None:
            return ["the stream ended without a finishReason"]
        return list(gemini_usage_faults(self._usage))

    def contents(self, faults: list[str]) -> AnswerContents:
        """The contents of the candidate."""
        return self._contents
