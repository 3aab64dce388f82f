"""Finds the family of a model, and says why.

Decides: from a model id, a chat template or a name, one row of the table. There is no default: if no row fits, an error says
so. Others add rows through entry points in the group `smg.parsers`, or with `register`.
Above: `families`, `parser`, the command line. Below: `table`, `model_ids`, `response_templates`.
Does not know: how output is parsed, or how ids are spelled.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import entry_points
from typing import Final

from smg_parsers.families import model_ids
from smg_parsers.families.family import Family
from smg_parsers.families.reasoning import left_open
from smg_parsers.families.response_templates import SOURCE, described_family
from smg_parsers.families.table import FAMILIES, hunyuan_tagged
from smg_parsers.pieces.base import InvalidFamily, UnknownModelFamily

ENTRY_POINTS: Final = "smg.parsers"
SHARED_MARKS: Final = frozenset({"<tool_call>", "[TOOL_CALLS]"})
"""Texts of chat templates that several formats share: they decide only if no other text does."""
_SUFFIX_LIMIT: Final = 64


@dataclass(frozen=True, slots=True)
class FamilyChoice:
    """The family found for a model, and the reason, as a sentence."""

    family: Family
    reason: str

    def __str__(self) -> str:
        family = self.family
        lines = [f"{family.name}: {self.reason}", f"  format read in: {family.source}"]
        if family.thinking.opens:
            opened = " (the usual template opens it in the prompt)" if family.thinking.opens_in_prompt else ""
            lines.append(f"  reasoning: {' '.join(family.thinking.opens)} … {' '.join(family.thinking.closes)}{opened}")
        lines.append(f"  calls open with: {'  '.join(family.tables.calls) or 'nothing, there are none'}")
        lines.append(f"  special tokens must be kept: {'yes' if family.needs_special_tokens else 'no'}")
        return "\n".join(lines)


def family(name: str) -> Family:
    """The row with this name. Raises `UnknownModelFamily`."""
    found = FAMILIES.get(name) or _plugins().get(name)
    if found is None:
        raise UnknownModelFamily(f"no parser family is called {name!r}; there are: {', '.join(sorted(names()))}")
    return found


def names() -> tuple[str, ...]:
    """The names of all families, added ones included."""
    return (*FAMILIES, *(name for name in _plugins() if name not in FAMILIES))


def register(row: Family, *, replace: bool = False) -> None:
    """Add a row in this process, or `replace` the row of the same name. Raises `InvalidFamily` if another row has the name."""
    there = FAMILIES.get(row.name)
    if there is not None and there != row and not replace:
        raise InvalidFamily(
            f"a parser family is called {row.name!r} already: take another name, or replace it by replace=True"
        )
    FAMILIES[row.name] = row


def explain(
    model_id: str, chat_template: str | None = None, response_template: Mapping[str, object] | None = None
) -> FamilyChoice:
    """The family that reads this model's output, and the reason.

    The chat template decides if it shows calls that the id's family does not write, or reasoning that the family does not
    have. Otherwise the id decides. If neither identifies a family, the response template makes one: the description of its
    output that a model may carry in its tokenizer_config.json. Raises `UnknownModelFamily` if all three leave it open.
    """
    by_id = _by_id(model_id)
    by_template = _by_template(chat_template) if chat_template else None
    chosen = by_id
    if by_template is not None and chat_template and (by_id is None or not _agrees(by_id, by_template, chat_template)):
        chosen = by_template
    if chosen is None and response_template is not None:
        return _described(model_id, response_template)
    if chosen is None:
        raise UnknownModelFamily(
            f"no parser family fits the model id {model_id!r}"
            + (" or its chat template" if chat_template else "; a chat template might tell")
            + "; name a family, or register one"
        )
    return FamilyChoice(family_for_template(chosen.family, chat_template), chosen.reason)


def is_described(row: Family) -> bool:
    """Whether the row was made of the response template of a model, and is its alone."""
    return row.source == SOURCE


def _described(model_id: str, response_template: Mapping[str, object]) -> FamilyChoice:
    try:
        row = described_family(response_template)
    except InvalidFamily as error:
        raise UnknownModelFamily(
            f"no parser family fits the model id {model_id!r}, and what the model says of its output is not read: {error}"
        ) from error
    return FamilyChoice(row, "no row fits, and the model's own response template describes it")


def reasoning_open(rendered_prompt: str, row: Family | str) -> bool:
    """Whether the prompt has already opened a block of reasoning, so that the output begins inside it."""
    return left_open(rendered_prompt, (family(row) if isinstance(row, str) else row).thinking)


def _rows() -> tuple[Family, ...]:
    return tuple({**_plugins(), **FAMILIES}.values())


def _by_id(model_id: str) -> FamilyChoice | None:
    name = model_ids.name_of(model_id)
    # A distilled model writes like the student, which is named first: Qwen3-8B-DeepSeek-V3.2-Distill is a Qwen.
    distilled = model_ids.is_distilled(name)
    best: tuple[tuple[int, ...], model_ids.PatternMatch, Family] | None = None
    for row in _rows():
        for pattern in row.patterns:
            found = model_ids.find(pattern, name)
            if found is None:
                continue
            rank = (-found.start, *found.rank) if distilled else found.rank
            if best is None or rank > best[0]:
                best = (rank, found, row)
    return None if best is None else FamilyChoice(best[2], _version_note(best[1], name))


def _version_note(found: model_ids.PatternMatch, name: str) -> str:
    if found.version == model_ids.EARLIER_VERSION:
        return f"the model id says {found.text!r}, and the latest version before it that is known is {found.pattern!r}"
    if found.pattern in name:
        return f"the model id contains {found.pattern!r}"
    return f"the model id says {found.text!r}, which is {found.pattern!r}"


def _by_template(chat_template: str) -> FamilyChoice | None:
    """The row identified by a text in the template: texts that no other format shares come first, then the longest."""
    best: tuple[tuple[bool, int], str, Family] | None = None
    for row in _rows():
        for mark in row.templates:
            rank = (mark not in SHARED_MARKS, len(mark))
            if mark in chat_template and (best is None or rank > best[0]):
                best = (rank, mark, row)
    return None if best is None else FamilyChoice(best[2], f"the chat template contains {best[1]!r}")


def _agrees(by_id: FamilyChoice, by_template: FamilyChoice, chat_template: str) -> bool:
    """Whether the id's row can read what the template shows: the row's own markers are there, or calls of the same kind."""
    row, described = by_id.family, by_template.family
    if not row.thinking.opens and any(opening in chat_template for opening in described.thinking.opens):
        return False
    slips = {mark for spec in row.calls for mark in getattr(spec, "misspelt", ())}
    own = {mark for mark in (*row.templates, *row.tables.calls) if len(mark) > 1} - SHARED_MARKS - slips
    return any(mark in chat_template for mark in own) or any(
        type(mine) is type(theirs) and set(mine.opens) & set(theirs.opens)
        for mine in row.calls
        for theirs in described.calls
    )


def family_for_template(row: Family, chat_template: str | None) -> Family:
    """The row as this checkpoint needs it: Hunyuan's tags with the suffix that its template gives them, if it does."""
    if not row.suffixed or not chat_template:
        return row
    begin = chat_template.find("<tool_calls:")
    end = chat_template.find(">", begin, begin + _SUFFIX_LIMIT) if begin >= 0 else -1
    return row if end < 0 else _hunyuan(row.name, chat_template[begin + len("<tool_calls") : end])


@lru_cache(maxsize=64)
def _hunyuan(name: str, suffix: str) -> Family:
    return hunyuan_tagged(name, suffix=suffix)


@lru_cache(maxsize=1)
def _plugins() -> dict[str, Family]:
    """Rows that installed packages offer: an entry point names a `Family` or a function that returns one."""
    rows: dict[str, Family] = {}
    for point in entry_points(group=ENTRY_POINTS):
        loaded = point.load()
        row = loaded if isinstance(loaded, Family) else loaded()
        if not isinstance(row, Family):
            raise UnknownModelFamily(f"the entry point {point.name!r} of group {ENTRY_POINTS!r} gives no Family")
        rows[row.name] = row
    return rows
