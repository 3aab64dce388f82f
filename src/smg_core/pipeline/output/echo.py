"""Puts the prompt before each choice's text, for Completions' `echo`.

The prompt's logprobs come from the engine before or with a choice's first token. Outputs that come before them are held back.
Pure. Above: pipeline.output.processor. Below: the engines' records.
"""

import codecs
from collections.abc import Sequence

import attrs

from smg_core.engines.base import EngineLogprob, EngineOutput
from smg_core.events import TokenLogprob, TopLogprob
from smg_core.tokenizer.base import Tokenizer

__all__ = ["Echo", "EchoReader", "readable"]


@attrs.frozen
class Echo:
    """The prompt's `text`, to be put before each choice. `scored`: with logprobs of its tokens, which are `ids`. `alone`: it is
    the whole choice, and the engine's output is ignored (max_tokens is 0)."""

    text: str
    ids: Sequence[int]
    scored: bool = False
    alone: bool = False


class EchoReader:
    """The echo of one turn. The prompt's logprobs may come in several outputs, as `engines.token_ids.slices` cuts them; their
    text is cut accordingly. They are made readable once for all `choices`."""

    def __init__(self, echo: Echo, choices: int, tokenizer: Tokenizer) -> None:
        self.echo = echo
        self._tokenizer = tokenizer
        self._rows: list[TokenLogprob] = []
        self._ends: list[int] = []  # how many characters of the text the rows up to each one have
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._choices = [_Echoed() for _ in range(choices)]

    def take(
        self, index: int, output: EngineOutput
    ) -> tuple[list[tuple[str, tuple[TokenLogprob, ...]]], list[EngineOutput]]:
        """Take one output of choice `index`. Returns the next parts of its echo, as texts with their logprobs, and the outputs
        that can be read now: none while the prompt's logprobs are missing. If the choice ends without them, the engine sends
        none, and nothing is held back any more."""
        choice = self._choices[index]
        if choice.whole:
            return [], [output]
        parts: list[tuple[str, tuple[TokenLogprob, ...]]] = []
        rows = choice.new_of(output.prompt_logprobs)
        if rows:
            parts.append(self._scored(choice, rows))
        choice.held.append(output)
        wanted = len(self.echo.ids) if self.echo.scored else 0
        if choice.rows < wanted and output.finish is None and not (choice.rows and output.ids):
            return parts, []
        if rest := self.echo.text[choice.characters :]:
            parts.append((rest, ()))
        choice.whole = True
        held, choice.held = choice.held, []
        return parts, held

    def resume(self) -> None:
        """Called before the outputs of another engine call, which tells the prompt's logprobs from the first one again."""
        for choice in self._choices:
            choice.known = choice.rows

    def whole(self, index: int) -> bool:
        """Whether choice `index` has got all of its echo."""
        return self._choices[index].whole

    def _scored(self, choice: "_Echoed", rows: Sequence[EngineLogprob | None]) -> tuple[str, tuple[TokenLogprob, ...]]:
        """The next rows of a choice, and their text; the last ones have all the text that is left."""
        start, ids = choice.rows, self.echo.ids
        end = min(start + len(rows), len(ids))
        for number in range(len(self._rows), end):
            made = self._row(ids[number], rows[number - start])
            self._rows.append(made)
            self._ends.append((self._ends[-1] if self._ends else 0) + len(self._decoder.decode(made.raw)))
        since = choice.characters
        choice.rows = end
        choice.characters = self._ends[end - 1] if end < len(ids) else len(self.echo.text)
        return self.echo.text[since : choice.characters], tuple(self._rows[start:end])

    def _row(self, token: int, row: EngineLogprob | None) -> TokenLogprob:
        if row is not None:
            return readable(row, self._tokenizer)
        raw = self._tokenizer.token_bytes(token)
        return TokenLogprob(raw.decode("utf-8", "replace"), raw, None, id=token)


class _Echoed:
    """How much of the echo one choice has got: logprobs and characters. `held` are the outputs that wait for the rest, `known`
    the rows that an engine call is about to repeat."""

    __slots__ = ("characters", "held", "known", "rows", "whole")

    def __init__(self) -> None:
        self.rows = self.characters = self.known = 0
        self.whole = False
        self.held: list[EngineOutput] = []

    def new_of(self, rows: Sequence[EngineLogprob | None]) -> Sequence[EngineLogprob | None]:
        """The rows that this choice has not got from an earlier engine call."""
        repeated = min(self.known, len(rows))
        self.known -= repeated
        return rows[repeated:] if repeated else rows


def readable(logprob: EngineLogprob, tokenizer: Tokenizer) -> TokenLogprob:
    """A logprob with its tokens as text."""
    raw = tokenizer.token_bytes(logprob.token_id)
    return TokenLogprob(
        token=raw.decode("utf-8", "replace"),
        raw=raw,
        logprob=logprob.logprob,
        top=tuple(
            TopLogprob(bytes_.decode("utf-8", "replace"), bytes_, value, each)
            for bytes_, value, each in ((tokenizer.token_bytes(each), value, each) for each, value in logprob.top)
        ),
        id=logprob.token_id,
    )
