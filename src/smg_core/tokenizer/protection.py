"""Keeps control tokens that a request spells out from becoming control tokens.

Walks over everything in a request that a template will read, and puts a mark inside each spelled-out control token. Text
without one costs a substring search and is not copied. Pure. Above: chat_template, which cuts the rendered text at the
mark. Below: control, which finds the tokens. It knows no template.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

import attrs

from smg_core.errors import TemplateFailed
from smg_core.tokenizer.base import SpecialTokens
from smg_core.tokenizer.control import ControlScan

__all__ = ["Protection", "split_at"]

_MARKS = tuple(chr(code) for code in range(0xFDD0, 0xFDF0))
"""Unicode noncharacters: never assigned, meant for private use inside a program."""
_ESCAPES = {mark: f"\\u{ord(mark):04x}" for mark in _MARKS}
"""How a template writes a mark when it prints a list, or writes JSON in ASCII."""

_NOT_SEARCHED = frozenset({"messages", "add_generation_prompt", "strftime_now"})
"""Variables that hold no text of the request, and `messages`, which are searched role by role."""


@attrs.frozen
class Protection:
    """Which control tokens are looked for where: `user` in user and tool turns, `assistant` in assistant turns, `everywhere`
    in all other turns and in all other variables."""

    everywhere: ControlScan
    user: ControlScan
    assistant: ControlScan

    @classmethod
    def of(cls, special: SpecialTokens, literals: Iterable[str], reasoning_marks: frozenset[str]) -> "Protection":
        """`literals` are the strings written in the template: a marker (`SpecialTokens.markers`) is protected only if the
        template writes it."""
        written = "\0".join(literals)
        markers = {token for token in special.markers if token in written}
        everywhere = ControlScan(special.control)
        return cls(
            everywhere=everywhere,
            user=ControlScan(special.control | markers) if markers else everywhere,
            assistant=ControlScan(special.control - reasoning_marks),
        )

    def protect(
        self, messages: Sequence[dict[str, object]], variables: dict[str, object], own: Mapping[str, object]
    ) -> str:
        """Put marks into `messages` and `variables` (which hold the messages too), replacing values that change. Returns
        the mark, "" if none was needed. Variables with the value that they have in `own` (the model's token strings) are
        not searched. Raises TemplateFailed if no mark is free."""
        if self._clean(messages, variables, own):
            return ""
        mark = _free_mark(variables)
        changed = False
        for holder, key, value, scan in list(self._searched(messages, variables, own)):
            marked = _marked(value, scan, mark)
            if marked is not value:
                holder[key] = marked
                changed = True
        return mark if changed else ""

    def _clean(
        self, messages: Sequence[dict[str, object]], variables: Mapping[str, object], own: Mapping[str, object]
    ) -> bool:
        """Whether no control token is spelled out. It runs for every request, so it is written for speed."""
        for message in messages:
            role = message["role"]
            scan = self._scan_for(role)
            starts = scan.starts
            for value in message.values():
                if not isinstance(value, str):
                    if _spells(value, scan):
                        return False
                elif value is not role:
                    for start in starts:
                        if start in value and scan.cuts(value):
                            return False
        everywhere = self.everywhere
        for key, value in variables.items():
            if (
                key not in _NOT_SEARCHED
                and value is not None
                and value is not own.get(key)
                and _spells(value, everywhere)
            ):
                return False
        return True

    def _scan_for(self, role: object) -> ControlScan:
        if role == "assistant":
            return self.assistant
        return self.user if role in ("user", "tool") else self.everywhere

    def _searched(
        self, messages: Sequence[dict[str, object]], variables: dict[str, object], own: Mapping[str, object]
    ) -> Iterator[tuple[dict[str, object], str, object, ControlScan]]:
        """Every value to search: the dict it is in, its key, itself, and the tokens to look for."""
        for message in messages:
            scan = self._scan_for(message["role"])
            for key, value in message.items():
                if key != "role":
                    yield message, key, value, scan
        for key, value in variables.items():
            if key not in _NOT_SEARCHED and value is not own.get(key):
                yield variables, key, value, self.everywhere


def split_at(text: str, mark: str) -> tuple[str, ...]:
    """The pieces of a rendered text: cut at the marks, written plainly or as escapes."""
    whole = text.replace(_ESCAPES[mark], mark)
    return tuple(filter(None, whole.split(mark))) or ("",)


def _spells(value: object, scan: ControlScan) -> bool:
    """Whether any string inside the value has to be cut."""
    if isinstance(value, str):
        return scan.suspects(value) and bool(scan.cuts(value))
    if isinstance(value, Mapping):
        return any(_spells(key, scan) or _spells(item, scan) for key, item in value.items())
    if isinstance(value, list | tuple):
        return any(_spells(item, scan) for item in value)
    return False


def _marked(value: object, scan: ControlScan, mark: str) -> object:
    """The value with marks, or the same object if it needs none."""
    if isinstance(value, str):
        return _marked_text(value, scan, mark)
    if isinstance(value, Mapping):
        items = {_marked(key, scan, mark): _marked(item, scan, mark) for key, item in value.items()}
        same = all(
            old is new
            for pair in zip(value.items(), items.items(), strict=False)
            for old, new in zip(*pair, strict=True)
        )
        return value if same else items
    if isinstance(value, list | tuple):
        listed = [_marked(item, scan, mark) for item in value]
        return value if all(old is new for old, new in zip(value, listed, strict=True)) else listed
    return value


def _marked_text(text: str, scan: ControlScan, mark: str) -> str:
    cuts = scan.cuts(text) if scan.suspects(text) else []
    if not cuts:
        return text
    edges = [0, *cuts, len(text)]
    return mark.join([text[left:right] for left, right in pairwise(edges)])


def _free_mark(variables: Mapping[str, object]) -> str:
    """A noncharacter that no variable holds. Raises TemplateFailed if all are taken."""
    found: set[str] = set()
    _collect(variables, found)
    for mark in _MARKS:
        if mark not in found:
            return mark
    raise TemplateFailed("The messages hold every Unicode noncharacter from U+FDD0 to U+FDEF.", param="messages")


def _collect(value: object, found: set[str]) -> None:
    """Add the marks that the value's strings hold to `found`."""
    if isinstance(value, str):
        if "\\ufd" in value or not value.isascii():
            found.update(mark for mark, escape in _ESCAPES.items() if mark in value or escape in value)
    elif isinstance(value, Mapping):
        for key, item in value.items():
            _collect(key, found)
            _collect(item, found)
    elif isinstance(value, list | tuple):
        for item in value:
            _collect(item, found)
