"""The order of a Completions stream, and a checker of it: what an SDK that joins the texts of each choice relies on. Pure."""

from collections.abc import Iterator
from typing import Any

from smg_simulator.conform.chunk_stream import ChunkGrammar
from smg_simulator.conform.contents import AnswerContents

__all__ = ["CompletionsGrammar"]


class _Choice:
    """What has come of one choice."""

    def __init__(self) -> None:
        self.text = ""
        self.logprobs = 0
        self.finish: str | None = None


class CompletionsGrammar(ChunkGrammar[_Choice]):
    """Follows one stream of a request with `stream_options.include_usage`."""

    chunk_shape = "completion chunk"
    error_shape = "completions error"

    def _part(self, part: Any) -> Iterator[str]:
        choice = self.choices.setdefault(part["index"], _Choice())
        if choice.finish is not None:
            yield f"more came of choice {part['index']} behind its finish_reason"
        choice.text += part["text"]
        choice.logprobs += len((part.get("logprobs") or {}).get("token_logprobs") or [])
        choice.finish = part["finish_reason"] or choice.finish

    def _unfinished(self) -> Iterator[str]:
        for index, each in self.choices.items():
            if each.finish is None:
                yield f"choice {index} has no finish_reason"
        if sorted(self.choices) != list(range(max(1, len(self.choices)))):
            yield f"the choices are {sorted(self.choices)}"

    def contents(self, faults: list[str]) -> AnswerContents:
        """The contents of the first choice."""
        choice = self.choices[0]
        return AnswerContents(choice.text, (), choice.logprobs, choice.finish == "length")
