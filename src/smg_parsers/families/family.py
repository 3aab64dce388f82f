"""A family: one row of the table, and the marker sets that the parser looks up while it reads.

Decides: the fields of a family and the marker sets that follow from them.
Above: `table`, `parser`. Below: `markers`, `reasoning`, `citations`, the grammars' specs.
Does not know: any particular family.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from smg_parsers.families.markers import MarkerSet
from smg_parsers.families.reasoning import NONE, Thinking
from smg_parsers.grammars.citations import CitationMarks
from smg_parsers.pieces.base import CallSpec, InvalidFamily
from smg_parsers.pieces.checked import Checked, of_kind
from smg_parsers.pieces.code_fences import BACKTICKS, FENCES

OPEN, CLOSE, DROP = range(3)
_OF_PROSE: Final = re.compile(r"```|[\[{]\Z|\w+:\Z")
"""A marker that an answer may hold without a call: a fence, a bracket, a word with a colon."""
Numbering: TypeAlias = Literal["random", "mistral", "kimi", "kimi_k3"]


class Tables:
    """What the parser looks up while it reads, computed once per family.

    `sets` holds one marker set per situation: text before anything was written (where a stray end of reasoning is
    dropped), text, reasoning that has just begun, reasoning, text right behind a call, text behind a call that has not
    been closed, and the same if no text came before that call. `quiet` are the same sets without calls, for requests
    without tools. `roles` says what a marker does to reasoning, `calls` which spec it opens; `closers` are the markers that
    close calls. `unwrapped` are the tags of calls that may stand in prose, and whether they count at a line's beginning only.
    `doubtful` are these and all other markers that do not say alone that a call begins: brackets, words, fences, citations;
    `openers` are the others. `cites` says whether the answer may hold citations. `fenceable` are those of `calls` behind which
    a code fence may stand around the calls. `value_ends` are the tags that close a value of tagged calls: one behind calls that
    are closed says that a value quoted them.
    """

    __slots__ = (
        "calls",
        "cites",
        "closers",
        "doubtful",
        "fenceable",
        "openers",
        "quiet",
        "roles",
        "sets",
        "unwrapped",
        "value_ends",
    )

    def __init__(self, family: Family) -> None:
        thinking = family.thinking
        self.roles: dict[str, int] = dict.fromkeys(thinking.opens, OPEN)
        self.roles.update(dict.fromkeys(thinking.closes, CLOSE))
        self.roles.update(dict.fromkeys((*thinking.breaks, *family.drops), DROP))
        self.cites = any(isinstance(spec, CitationMarks) for spec in family.calls)
        self.calls: dict[str, CallSpec] = {marker: spec for spec in family.calls for marker in spec.opens}
        # A fence closes calls too, but behind them it more often opens a block of code.
        closers = [marker for spec in family.calls for marker in getattr(spec, "closers", ()) if marker != BACKTICKS]
        self.closers = tuple(dict.fromkeys(closers))
        self.unwrapped: dict[str, bool] = {
            marker: bool(getattr(spec, "closes", ()))
            for spec in family.calls
            for marker in getattr(spec, "unwrapped", ())
        }
        tagged = [part for spec in family.calls for part in (spec, getattr(spec, "body", None))]
        ends = [end for part in tagged for end in getattr(part, "value_ends", ())]
        self.value_ends: tuple[str, ...] = tuple(dict.fromkeys(ends))
        self.doubtful = frozenset(
            marker
            for marker, spec in self.calls.items()
            if marker in self.unwrapped
            or getattr(spec, "strict", False)
            or getattr(spec, "bare", False)
            or isinstance(spec, CitationMarks)
            or _OF_PROSE.match(marker)
        )
        self.openers = tuple(marker for marker in self.calls if marker not in self.doubtful)
        self.fenceable = frozenset(
            marker
            for marker, spec in self.calls.items()
            if not (marker in self.doubtful or spec.headers or BACKTICKS in getattr(spec, "closers", ()))
            and marker != getattr(getattr(spec, "call", None), "begin", "")  # there the tool's name has to follow
        )
        early = [marker for spec in family.calls for marker in spec.opens]
        late = [marker for spec in family.calls if not spec.at_start for marker in spec.opens]
        dropped = (*thinking.breaks, *family.drops)
        self.sets = _sets(thinking, dropped, early, late, self.closers, fenced=bool(self.unwrapped))
        headers = [marker for marker in early if self.calls[marker].headers]
        self.quiet = _sets(thinking, dropped, headers, headers, ())


def _sets(
    thinking: Thinking,
    dropped: Sequence[str],
    early: Sequence[str],
    late: Sequence[str],
    closers: Sequence[str],
    *,
    fenced: bool = False,
) -> tuple[MarkerSet, ...]:
    fences = FENCES if fenced or (thinking.opens and not thinking.interleaved) else ()
    thought = fences if fenced else ()
    text = MarkerSet((*thinking.opens, *fences, *dropped, *late))
    return (
        MarkerSet((*thinking.opens, *fences, *thinking.closes, *dropped, *early)),
        text,
        MarkerSet((*thinking.opens, *thought, *thinking.closes, *dropped, *late)),
        MarkerSet((*thought, *thinking.closes, *dropped, *late)),
        text,
        MarkerSet((*thinking.opens, *fences, *thinking.closes, *dropped, *late, *closers)),
        MarkerSet((*thinking.opens, *fences, *thinking.closes, *dropped, *early, *closers)),
    )


@dataclass(frozen=True, slots=True)
class Family(Checked):
    """One output format.

    `patterns` are words and version numbers of model names, where `*` stands for any text (`model_ids` says how they are
    compared); of the patterns that fit, the one with the closest version wins, then the longest. `templates` are texts that
    identify the family in a chat template. `drops` are markers to leave out of the text. `ids` says how call ids are made
    if the model writes none: `random`, `mistral` (nine letters and digits), `kimi` (`functions.name:index`) or `kimi_k3`
    (`name:index`). `special`: some markers are special tokens, which the detokenizer must keep. `suffixed`: the tags of a
    checkpoint may have a suffix. `headed`: the output begins inside a message header that the prompt has opened. `source`
    says where the format was read.
    """

    name: str
    patterns: tuple[str, ...] = ()
    thinking: Thinking = NONE
    calls: tuple[CallSpec, ...] = ()
    drops: tuple[str, ...] = ()
    ids: Numbering = "random"
    special: bool = False
    suffixed: bool = False
    headed: bool = False
    templates: tuple[str, ...] = ()
    source: str = "chat template"
    tables: Tables = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        Checked.__post_init__(self)
        if not self.name.strip():
            raise InvalidFamily("Family.name is empty")
        for at, spec in enumerate(self.calls):
            for name in ("opens", "closers", "ends", "unwrapped"):
                of_kind(f"Family.calls[{at}].{name}", tuple[str, ...], getattr(spec, name, ()))
        object.__setattr__(self, "tables", Tables(self))

    @property
    def cites(self) -> bool:
        """Whether the answer may hold citations."""
        return self.tables.cites

    @property
    def needs_special_tokens(self) -> bool:
        """Whether the detokenizer must leave special tokens in the text."""
        return self.special

    @property
    def markers(self) -> tuple[str, ...]:
        """Every marker that is recognised outside a call."""
        return tuple(sorted({*self.tables.roles, *self.tables.calls}))
