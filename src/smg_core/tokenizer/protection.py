"""Keeps control tokens that a request spells out from becoming control tokens.

Walks over everything in a request that a template will read, and puts a mark inside each spelled-out control token; where the
template takes text apart, stand-ins take the place of the characters that begin control tokens. Text without these
characters costs a substring search and is not copied. Pure. Above: chat_template, which renders and then has the text cut
(`Marks.pieces`). Below: control, which finds the tokens, and stand_ins. It knows no template.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import accumulate, pairwise

import attrs

from smg_core.errors import TemplateFailed
from smg_core.tokenizer.base import SpecialTokens
from smg_core.tokenizer.control import ControlScan
from smg_core.tokenizer.stand_ins import StandIns
from smg_core.tokenizer.text_changes import TextChanges

__all__ = ["Marks", "Protection"]

_MARKS = tuple(chr(code) for code in range(0xFDD0, 0xFDF0))
"""Unicode noncharacters: never assigned, meant for private use inside a program."""
_ESCAPES = {mark: f"\\u{ord(mark):04x}" for mark in _MARKS}
"""How a template writes a mark when it prints a list, or writes JSON in ASCII."""
_ANY_MARK = re.compile("[\ufdd0-\ufdef]|\\\\ufd[de][0-9a-f]")

_NOT_SEARCHED = frozenset({"messages", "add_generation_prompt", "strftime_now"})
"""Variables that hold no text of the request, and `messages`, which are searched role by role."""
_WORDS = {
    "tool_choice": frozenset({"auto", "none", "required"}),
    "reasoning_effort": frozenset({"none", "minimal", "low", "medium", "high", "xhigh", "max"}),
}
"""Values that are no client's text, by variable: templates compare them."""


@attrs.frozen(slots=False)
class Protection:
    """Which control tokens are looked for where: `user` in user and tool turns, `assistant` in assistant turns, `everywhere`
    in all other turns and in all other variables."""

    everywhere: StandIns
    user: StandIns
    assistant: StandIns

    @classmethod
    def of(
        cls,
        special: SpecialTokens,
        literals: Iterable[str],
        changes: TextChanges,
        reasoning_marks: frozenset[str],
    ) -> "Protection":
        """`literals` are the strings written in the template: a marker (`SpecialTokens.markers`) is protected only if the
        template writes it."""
        literals = tuple(literals)
        written = "\0".join(literals)
        markers = {token for token in special.markers if token in written}
        everywhere = StandIns(ControlScan(special.control), changes, written=literals)
        return cls(
            everywhere=everywhere,
            user=StandIns(ControlScan(special.control | markers), changes, written=literals) if markers else everywhere,
            assistant=StandIns(ControlScan(special.control - reasoning_marks), changes, reasoning_marks, literals),
        )

    def protect(
        self, messages: Sequence[dict[str, object]], variables: dict[str, object], own: Mapping[str, object]
    ) -> "Marks | None":
        """Put marks into `messages` and `variables` (which hold the messages too), replacing values that change. Returns
        the marks, None if none was needed. Variables with the value that they have in `own` (the model's token strings)
        are not searched. Raises TemplateFailed if too few marks are free."""
        if self._clean(messages, variables, own):
            return None
        marks = self._free_marks(variables)
        changed = False
        for holder, key, value, kind in list(self._searched(messages, variables, own)):
            framed = holder is not variables or _is_frame(key, value)
            marked = (_marked_in_frame if framed else _marked)(value, kind, marks)
            if marked is not value:
                holder[key] = marked
                changed = True
        return marks if changed else None

    def _clean(
        self, messages: Sequence[dict[str, object]], variables: Mapping[str, object], own: Mapping[str, object]
    ) -> bool:
        """Whether no text has to change. It runs for every request, so it is written for speed."""
        for message in messages:
            role = message["role"]
            kind = self._kind_of(role)
            starts, may_complete = kind.scan.starts, kind.completions.ends
            for value in message.values():
                if not isinstance(value, str):
                    if any(_changes(each, kind) for each in _in_frame(value)):
                        return False
                elif value is not role:
                    if may_complete and kind.completions.begin(value):
                        return False
                    for start in starts:
                        if start in value and kind.changes(value):
                            return False
        everywhere = self.everywhere
        for key, value in variables.items():
            if key in _NOT_SEARCHED or value is own.get(key) or not _is_searched(key, value, own):
                continue
            if any(_changes(each, everywhere) for each in (_in_frame(value) if _is_frame(key, value) else (value,))):
                return False
        return True

    @cached_property
    def _kinds(self) -> tuple[StandIns, ...]:
        return tuple({id(kind): kind for kind in (self.everywhere, self.user, self.assistant)}.values())

    @cached_property
    def _usual_marks(self) -> "Marks":
        return Marks.of(self._kinds, _MARKS)

    def _free_marks(self, variables: Mapping[str, object]) -> "Marks":
        """Marks that no variable holds. Raises TemplateFailed if too few are left."""
        usual = self._usual_marks
        if not _holds(variables, usual.characters):
            return usual
        found: set[str] = set()
        _collect(variables, found)
        free = [mark for mark in _MARKS if mark not in found]
        if len(free) < len(usual.characters):
            raise TemplateFailed(
                "The messages hold too many of the Unicode noncharacters from U+FDD0 to U+FDEF.", param="messages"
            )
        return Marks.of(self._kinds, free)

    def _kind_of(self, role: object) -> StandIns:
        if role == "assistant":
            return self.assistant
        return self.user if role in ("user", "tool") else self.everywhere

    def _searched(
        self, messages: Sequence[dict[str, object]], variables: dict[str, object], own: Mapping[str, object]
    ) -> Iterator[tuple[dict[str, object], str, object, StandIns]]:
        """Every value to search: the dict it is in, its key, itself, and how texts of its kind are protected."""
        for message in messages:
            kind = self._kind_of(message["role"])
            for key, value in message.items():
                if key != "role":
                    yield message, key, value, kind
        for key, value in variables.items():
            if _is_searched(key, value, own):
                yield variables, key, value, self.everywhere


@attrs.frozen
class Marks:
    """The noncharacters that mark one request's texts: `cut` stands inside control tokens that are spelled out, `gap` before
    texts that could complete one, and each of `stand_ins` is (character, the kind of text it stands in, the character it
    stands for)."""

    cut: str
    gap: str
    stand_ins: tuple[tuple[str, StandIns, str], ...]
    _scans: tuple[ControlScan, ...] = attrs.field(repr=False)
    _by_kind: dict[int, dict[str, str]] = attrs.field(repr=False)
    _widest: dict[str, ControlScan] = attrs.field(repr=False)
    """For each start character, the scan that finds the most tokens."""

    @property
    def characters(self) -> tuple[str, ...]:
        return (self.cut, self.gap, *(character for character, _, _ in self.stand_ins))

    @classmethod
    def of(cls, kinds: Sequence[StandIns], free: Sequence[str]) -> "Marks":
        """`free` holds enough characters for a cut, a gap, and each start character of each kind."""
        cut, gap, *characters = free
        seats = [(kind, start) for kind in kinds for start in kind.starts]
        by_kind: dict[int, dict[str, str]] = {}
        widest: dict[str, ControlScan] = {}
        for (kind, start), character in zip(seats, characters, strict=False):
            by_kind.setdefault(id(kind), {})[start] = character
            widest[start] = max(kind.scan, widest.get(start, kind.scan), key=lambda scan: len(scan.tokens))
        placed = tuple((character, kind, start) for (kind, start), character in zip(seats, characters, strict=False))
        return cls(cut, gap, placed, tuple(kind.scan for kind in kinds), by_kind, widest)

    def put_into(self, text: str, kind: StandIns) -> str:
        """The text with marks, or the same object if it needs none."""
        if not kind.changes(text):
            return text
        lead = ""
        if kind.completions.begin(text):
            body = text.lstrip()
            lead, text = text[: len(text) - len(body)] + self.gap, body
        cuts = kind.spelled.cuts(text)
        if cuts:
            text = self.cut.join([text[left:right] for left, right in pairwise((0, *cuts, len(text)))])
        return lead + (kind.put_into(text, self._by_kind[id(kind)]) if kind.starts else text)

    def pieces(self, rendered: str) -> tuple[str, ...]:
        """The pieces of a rendered text: cut at the marks, written plainly or as escapes, and behind each stand-in at which a
        control token begins."""
        if "\\ufd" in rendered:
            for mark in self.characters:
                rendered = rendered.replace(_ESCAPES[mark], mark)
        parts = rendered.split(self.cut) if self.cut in rendered else [rendered]
        found = [piece for part in parts for piece in self._written(part)]
        return tuple(found) or ("",)

    def _written(self, part: str) -> list[str]:
        """The part as it was written, cut behind each stand-in at which a control token begins, and at each gap that one
        reaches across."""
        gaps = []
        if self.gap in part:
            *before, last = part.split(self.gap)
            gaps = list(accumulate(map(len, before)))
            part = "".join((*before, last))
        scans = {character: kind.scan for character, kind, _ in self.stand_ins if character in part}
        plain = part
        for character, _, start in self.stand_ins:
            if character in scans:
                plain = plain.replace(character, start)
        cuts = {
            at + 1
            for start, scan in self._widest.items()
            for at in (scan.begins(plain, start) if scans else ())
            if part[at] in scans and scans[part[at]].token_at(plain, at)
        }
        cuts.update(at for at in gaps if any(scan.reaches_across(plain, at) for scan in self._scans))
        return [plain[left:right] for left, right in pairwise((0, *sorted(cuts), len(plain))) if left < right]


def _is_searched(key: str, value: object, own: Mapping[str, object]) -> bool:
    """Whether a variable may hold text of the request."""
    if key in _NOT_SEARCHED or value is own.get(key):
        return False
    return not (isinstance(value, str) and value in _WORDS.get(key, ()))


def _is_frame(key: str, value: object) -> bool:
    """Whether the value of a variable has the words of the wire in it: the tools, and the choice of one by its name."""
    if key != "tool_choice":
        return key == "tools"
    match value:
        case {"type": "function", "function": {"name": str(), **inner}, **outer}:
            return not inner and not outer
    return False


def _in_frame(value: object) -> Iterator[object]:
    """What clients wrote of a value that the shaper made: neither the names of its fields nor the types of parts, calls and
    tools, by which templates find the rest."""
    if isinstance(value, list):
        for each in value:
            yield from _in_frame(each)
    elif isinstance(value, Mapping):
        for key, item in value.items():
            if key == "function":
                yield from _in_frame(item)
            elif key != "type":
                yield item
    elif value is not None:
        yield value


def _changes(value: object, kind: StandIns) -> bool:
    """Whether any string inside the value has to change."""
    if isinstance(value, str):
        return kind.changes(value)
    if isinstance(value, Mapping):
        return any(_changes(key, kind) or _changes(item, kind) for key, item in value.items())
    if isinstance(value, list | tuple):
        return any(_changes(item, kind) for item in value)
    return False


def _marked_in_frame(value: object, kind: StandIns, marks: Marks) -> object:
    """`_marked` for a value that the shaper made: what clients wrote of it gets marks (see `_in_frame`)."""
    if isinstance(value, Mapping):
        items = {key: _marked_field(key, item, kind, marks) for key, item in value.items()}
        return value if all(items[key] is item for key, item in value.items()) else items
    if isinstance(value, list):
        listed = [_marked_in_frame(item, kind, marks) for item in value]
        return value if all(old is new for old, new in zip(value, listed, strict=True)) else listed
    return _marked(value, kind, marks)


def _marked_field(key: str, value: object, kind: StandIns, marks: Marks) -> object:
    if key == "type":
        return value
    return (_marked_in_frame if key == "function" else _marked)(value, kind, marks)


class _MarkedText(str):
    """A text with marks, which is sorted as the text without."""

    __slots__ = ("_plain",)
    _plain: str

    def __new__(cls, marked: str, plain: str) -> "_MarkedText":
        made = super().__new__(cls, marked)
        made._plain = plain
        return made

    def lower(self) -> str:
        return _MarkedText(super().lower(), self._plain.lower())

    def __lt__(self, other: str) -> bool:
        return self._plain < (other._plain if isinstance(other, _MarkedText) else other)

    def __gt__(self, other: str) -> bool:
        return self._plain > (other._plain if isinstance(other, _MarkedText) else other)


class _Object(dict[object, object]):
    """An object whose names got marks. A template finds a name that it knows under the name without."""

    __slots__ = ("_marked",)

    def __init__(self, items: Mapping[object, object], marked: Mapping[object, object]) -> None:
        super().__init__(items)
        self._marked = marked

    def __missing__(self, name: object) -> object:
        return super().__getitem__(self._marked[name])

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) or name in self._marked

    def get(self, name: object, default: object = None) -> object:
        return super().get(self._marked.get(name, name), default)

    def copy(self) -> "_Object":
        return _Object(self, self._marked)


def _marked(value: object, kind: StandIns, marks: Marks) -> object:
    """The value with marks, or the same object if it needs none."""
    if isinstance(value, str):
        written = marks.put_into(value, kind)
        return value if written is value else _MarkedText(written, value)
    if isinstance(value, Mapping):
        items = {_marked(key, kind, marks): _marked(item, kind, marks) for key, item in value.items()}
        same = all(
            old is new
            for pair in zip(value.items(), items.items(), strict=False)
            for old, new in zip(*pair, strict=True)
        )
        plain = {old: new for old, new in zip(value, items, strict=False) if old is not new}
        return value if same else _Object(items, plain) if plain else items
    if isinstance(value, list | tuple):
        listed = [_marked(item, kind, marks) for item in value]
        return value if all(old is new for old, new in zip(value, listed, strict=True)) else listed
    return value


def _holds(value: object, marks: tuple[str, ...]) -> bool:
    """Whether any string inside the value holds one of the marks, plainly or as an escape."""
    if isinstance(value, str):
        if value.isascii():
            return "\\ufd" in value
        return "\\ufd" in value or any(mark in value for mark in marks)
    if isinstance(value, Mapping):
        return any(_holds(key, marks) or _holds(item, marks) for key, item in value.items())
    if isinstance(value, list | tuple):
        return any(_holds(item, marks) for item in value)
    return False


def _collect(value: object, found: set[str]) -> None:
    """Add the marks that the value's strings hold, plainly or as escapes, to `found`."""
    if isinstance(value, str):
        if "\\ufd" in value or not value.isascii():
            found.update(mark if len(mark) == 1 else chr(int(mark[-4:], 16)) for mark in _ANY_MARK.findall(value))
    elif isinstance(value, Mapping):
        for key, item in value.items():
            _collect(key, found)
            _collect(item, found)
    elif isinstance(value, list | tuple):
        for item in value:
            _collect(item, found)
