"""Puts the prompt before each choice's text, for Completions' `echo`.

The prompt's logprobs come from the engine with its first output; some engines send them with the first choice only. Outputs that
come before them are held back. Pure. Above: pipeline.output. Below: the engines' records.
"""

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
    """The echo of one turn of `choices` choices."""

    def __init__(self, echo: Echo, choices: int, tokenizer: Tokenizer) -> None:
        self.echo = echo
        self._tokenizer = tokenizer
        self._logprobs: tuple[TokenLogprob, ...] | None = None if echo.scored else ()
        self._held: list[list[EngineOutput]] = [[] for _ in range(choices)]
        self._begun = [False] * choices

    def take(self, index: int, output: EngineOutput) -> list[EngineOutput]:
        """Take one output of choice `index`; returns the outputs that can be read now: none while the prompt's logprobs are
        missing. If the choice ends without them, the engine sends none, and nothing is held back any more."""
        if self._logprobs is None and output.prompt_logprobs:
            self._logprobs = tuple(
                self._row(token, row) for token, row in zip(self.echo.ids, output.prompt_logprobs, strict=False)
            )
        held = self._held[index]
        held.append(output)
        if self._logprobs is None and output.finish is None:
            return []
        self._held[index] = []
        return held

    def begin(self, index: int) -> tuple[TokenLogprob, ...] | None:
        """Mark choice `index` as begun. Returns the prompt's logprobs the first time, None later."""
        if self._begun[index]:
            return None
        self._begun[index] = True
        return self._logprobs or ()

    def _row(self, token: int, row: EngineLogprob | None) -> TokenLogprob:
        if row is not None:
            return readable(row, self._tokenizer)
        raw = self._tokenizer.token_bytes(token)
        return TokenLogprob(raw.decode("utf-8", "replace"), raw, None, id=token)


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
