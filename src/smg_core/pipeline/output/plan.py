"""The plan by which the output of one turn is read: the record that `pipeline.fit.fit` makes and `pipeline.output.processor`
follows. Pure."""

from collections.abc import Callable, Sequence
from typing import Protocol

from msgspec import Struct

from smg_core.pipeline.output.echo import Echo
from smg_core.pipeline.prompt.conformance import Check, OnViolation
from smg_core.tokenizer.base import Tokenizer
from smg_parsers import Piece, Reasoning, Text

__all__ = ["OutputParser", "OutputPlan"]


class OutputParser(Protocol):
    """What is used here of `smg_parsers.Parser`."""

    @property
    def waiting(self) -> int: ...

    @property
    def call_over(self) -> bool: ...

    def plain(self, text: str, /) -> type[Text | Reasoning] | None: ...

    def feed(self, text: str, /) -> Sequence[Piece]: ...

    def finish(self, *, cut_off: bool = False) -> Sequence[Piece]: ...


class OutputPlan(Struct, frozen=True):
    """How to read one turn. `copies`: how many choices of the answer each choice of the engine is copied to (greedy n > 1 is
    sampled once: every sample would be the same). `hidden_ids` never become text. `check` returns why a complete text violates
    its format, or None; `on_violation` decides what happens then (`conformance`), and `Finished` reports it. `single_call`: only
    the first tool call of a choice is passed on. `free_text`: the names of tools whose calls carry free text, which the model
    writes as the one argument of a function. `seal` makes the seal of a block of reasoning from its text. `echo` is put before
    the text of each choice. `token_ids`: the ids of the tokens are told, by the deltas of the text, or by events
    of their own where there is a parser. `most_tokens`: an engine that sends more of a choice is broken (0: no bound). `family`
    is the name of the family whose parser reads it, "" where none does; `call_ends` are its own markers that close calls.
    `strict` are the functions whose calls the engine holds to their schemas."""

    tokenizer: Tokenizer
    prompt_tokens: int
    choices: int = 1
    copies: int = 1
    stop: tuple[str, ...] = ()
    include_stop: bool = False
    skip_special_tokens: bool = True
    hidden_ids: frozenset[int] = frozenset()
    make_parser: Callable[[], OutputParser] | None = None
    single_call: bool = False
    free_text: frozenset[str] = frozenset()
    logprobs: bool = False
    check: Check | None = None
    on_violation: OnViolation = "report"
    seal: Callable[[str], bytes] | None = None
    echo: Echo | None = None
    token_ids: bool = False
    most_tokens: int = 0
    family: str = ""
    call_ends: tuple[str, ...] = ()
    strict: frozenset[str] = frozenset()
