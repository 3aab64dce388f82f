"""The joining of two texts for a model that looks at both at once (a cross-encoder).

Decides, from the post-processor in a tokenizer.json, which tokens stand before, between and behind the ids of the two texts,
and to which of the two each id belongs. Pure. Above: loader, which reads it with the tokenizer, and pipeline.pooled.pair_inputs.
"""

from collections.abc import Iterator, Mapping, Sequence

import msgspec
from msgspec import Struct

from smg_core.tokens import TokenIds

__all__ = ["PAIR_OF_TEXTS", "PairFrame", "pair_frame"]


class PairFrame(Struct, frozen=True):
    """The tokens `before` the first text, `between` the two and `after` the second. `types` are those of the three, and of the
    two texts: before, first, between, second, after. Where all are 0 the model was not trained to tell the two apart by
    types."""

    before: tuple[int, ...] = ()
    between: tuple[int, ...] = ()
    after: tuple[int, ...] = ()
    before_types: tuple[int, ...] = ()
    between_types: tuple[int, ...] = ()
    after_types: tuple[int, ...] = ()
    first_type: int = 0
    second_type: int = 0

    @property
    def size(self) -> int:
        """How many tokens it adds."""
        return len(self.before) + len(self.between) + len(self.after)

    def joined(self, first: TokenIds, second: TokenIds) -> tuple[TokenIds, Sequence[int]]:
        """The ids of a pair, and the type of each; no types where all are 0."""
        ids = TokenIds(self.before) + first + TokenIds(self.between) + second + TokenIds(self.after)
        types = (
            *self.before_types,
            *(self.first_type,) * len(first),
            *self.between_types,
            *(self.second_type,) * len(second),
            *self.after_types,
        )
        return ids, types if any(types) else ()


PAIR_OF_TEXTS = PairFrame()
"""One text right behind the other, which is what a tokenizer without a rule for pairs does."""


class _Piece(Struct):
    id: str
    type_id: int = 0


class _File(Struct):
    post_processor: object = None


def pair_frame(text: str) -> PairFrame:
    """The frame of a tokenizer.json. Raises msgspec.DecodeError for what is none, ValueError for a rule that makes no pair."""
    for step in _steps(msgspec.json.decode(text, type=_File).post_processor):
        kind = step.get("type")
        if kind == "TemplateProcessing":
            return _of_template(step)
        if kind in ("BertProcessing", "RobertaProcessing"):
            return _of_two_tokens(step, twice=kind == "RobertaProcessing")
    return PAIR_OF_TEXTS


def _steps(node: object) -> Iterator[Mapping[str, object]]:
    if not isinstance(node, dict):
        return
    if node.get("type") == "Sequence":
        for each in node.get("processors") or ():
            yield from _steps(each)
    else:
        yield node


def _of_two_tokens(step: Mapping[str, object], *, twice: bool) -> PairFrame:
    """The two older rules, which are named for their models: one token before, one between and behind. RoBERTa puts two
    between, and has no types."""
    first, last = _id_of(step.get("cls")), _id_of(step.get("sep"))
    if twice:
        return PairFrame((first,), (last, last), (last,), (0,), (0, 0), (0,))
    return PairFrame((first,), (last,), (last,), (0,), (0,), (1,), 0, 1)


def _id_of(named: object) -> int:
    if isinstance(named, list) and len(named) == 2 and isinstance(named[1], int):
        return named[1]
    raise ValueError("the post-processor's tokens are no pairs of a name and an id")


def _of_template(step: Mapping[str, object]) -> PairFrame:
    """The rule that writes the pair out, piece by piece."""
    known = step.get("special_tokens")
    parts: list[tuple[list[int], list[int]]] = [([], []), ([], []), ([], [])]
    place, types = 0, {"A": 0, "B": 0}
    pair = step.get("pair")
    for piece in pair if isinstance(pair, list) else ():
        kind, name, type_id = _piece(piece)
        if kind == "Sequence":
            if name != "AB"[place : place + 1]:
                raise ValueError("the post-processor's pair is not the first text and then the second")
            types[name] = type_id
            place += 1
        else:
            ids = _ids_of(known, name)
            parts[place][0].extend(ids)
            parts[place][1].extend([type_id] * len(ids))
    if place != 2:
        raise ValueError("the post-processor's pair has not two texts")
    before, between, after = [(tuple(ids), tuple(kinds)) for ids, kinds in parts]
    return PairFrame(before[0], between[0], after[0], before[1], between[1], after[1], types["A"], types["B"])


def _ids_of(known: object, name: str) -> list[int]:
    row = known.get(name) if isinstance(known, dict) else None
    found = row.get("ids") if isinstance(row, dict) else None
    if not isinstance(found, list) or not all(isinstance(each, int) for each in found):
        raise ValueError(f"the post-processor names a token {name!r} without ids")
    return found


def _piece(piece: object) -> tuple[str, str, int]:
    """Whether a piece is a text ("Sequence") or a token, its name, and its type."""
    try:
        return next((kind, body.id, body.type_id) for kind, body in msgspec.convert(piece, dict[str, _Piece]).items())
    except (msgspec.ValidationError, StopIteration):
        raise ValueError("a piece of the post-processor's pair is neither a text nor a token") from None
