"""Keeps control tokens that a template makes out of a client's text from becoming control tokens.

A template that takes text apart may form a control token that nobody spelled out. So before it runs, the characters that
begin control tokens ("<", "[") are replaced, in the client's texts, by stand-ins: noncharacters that occur in no input.
Afterwards every stand-in becomes its character again, and where a control token begins at it the text is cut. The law:
no control token begins with a character that a client wrote, whatever the template did to the text.

Where the template itself writes the beginning of a token before a text, a text that could complete it gets a gap in front: a
noncharacter as well, at which the rendered text is cut if a token would reach across.

Strings that the template itself searches for ("</think>") are left as they are, so that it finds them. `_Leftovers` proves
for each that no control token can begin inside it.

Pure. Above: protection. Below: control, text_changes.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise

from smg_core.tokenizer.control import ControlScan
from smg_core.tokenizer.text_changes import TextChanges

__all__ = ["MOST_STARTS", "StandIns"]

MOST_STARTS = 5
"""First characters that get a stand-in. Tokens that begin with others are protected where they are spelled out."""
_LONGEST_LITERAL = 256
"""Longer strings of a template are no strings to search for."""
_MOST_LEFTOVERS = 64
"""How many leftovers of one string are looked at; a string with more is not safe."""
_MOST_ROUNDS = 4
"""How often what a template removes is removed from a text, to see what may be left."""


class StandIns:
    """Stand-ins for the control tokens of one `ControlScan`. `kept` are strings that texts of this kind may hold unchanged,
    besides those that the template searches for.

    `starts` are the characters that get one: none if the template leaves text together. `spelled` finds the tokens that
    begin otherwise; they are protected only where they are spelled out. `written` are all strings that the template writes:
    behind one that ends with the beginning of a token ("<" in `'<' ~ name ~ '>'`), a text could complete that token.
    """

    __slots__ = ("_inside", "completions", "scan", "spelled", "starts")

    def __init__(
        self, scan: ControlScan, changes: TextChanges, kept: Iterable[str] = (), written: Iterable[str] = ()
    ) -> None:
        self.scan = scan
        self.completions = Completions(scan, changes, written)
        # A letter or white space means too much to templates (trim, upper) to be replaced.
        fit = [start for start in scan.starts if not start.isalnum() and not start.isspace()]
        self.starts = tuple(fit[:MOST_STARTS]) if changes.splits_text else ()
        self.spelled = ControlScan(token for token in scan.tokens if token[0] not in self.starts)
        # A template that cuts anywhere might cut inside what it searches for, and leave the first character alone.
        searched = [
            literal for literal in changes.literals if len(literal) <= _LONGEST_LITERAL and not changes.anywhere
        ]
        leftovers = _Leftovers(scan.tokens, changes)
        self._inside = {start: _inside(start, (*searched, *kept), leftovers) for start in self.starts}

    def changes(self, text: str) -> bool:
        """Whether a text of the client's is not passed to the template as it is."""
        for start in self.starts:
            if start in text:
                return True
        return self.spelled.needs_cut(text) or self.completions.begin(text)

    def put_into(self, text: str, stand_ins: Mapping[str, str]) -> str:
        """The text with stand-ins, given by start character."""
        for start in self.starts:
            if start in text:
                text = _replaced(text, start, stand_ins[start], self._inside[start])
        return text


class Completions:
    """The ends of tokens whose beginnings a template writes just before a text of the client's may follow."""

    __slots__ = ("_removed", "ends", "firsts")

    def __init__(self, scan: ControlScan, changes: TextChanges, written: Iterable[str]) -> None:
        beginnings = {token[:end] for token in scan.tokens for end in range(1, len(token))}
        longest = max(map(len, beginnings), default=0)
        opened = {text[-size:] for text in written for size in range(1, min(longest, len(text)) + 1)} & beginnings
        self.ends = frozenset(
            token[len(beginning) :] for token in scan.tokens for beginning in opened if token.startswith(beginning)
        ) - {""}
        self.firsts = frozenset(end[0] for end in self.ends)
        self._removed = (
            sorted({text for text, _ in changes.removed if text and not text.isspace()}) if self.ends else []
        )

    def begin(self, text: str) -> bool:
        """Whether the text, as it is or as the template may leave it, begins with one of the ends or is the beginning of
        one."""
        if not self.ends:
            return False
        left = text.strip()
        return self._fits(left) or (any(removed in left for removed in self._removed) and self._fits(self._left(left)))

    def _fits(self, text: str) -> bool:
        return text[:1] in self.firsts and any(text.startswith(end) or end.startswith(text) for end in self.ends)

    def _left(self, text: str) -> str:
        """What is left when everything that the template removes goes, again and again."""
        for _ in range(_MOST_ROUNDS):
            before = text
            for removed in self._removed:
                text = text.replace(removed, "")
            if text == before:
                break
        return text.strip()


def _replaced(text: str, start: str, stand_in: str, inside: re.Pattern[str] | None) -> str:
    """The text with `stand_in` for `start`, save where `inside` matches."""
    if inside is None:
        return text.replace(start, stand_in)
    edges = [-1, *(match.start() for match in inside.finditer(text)), len(text)]
    return start.join([text[left + 1 : right].replace(start, stand_in) for left, right in pairwise(edges)])


def _inside(start: str, literals: Iterable[str], leftovers: "_Leftovers") -> re.Pattern[str] | None:
    """Matches `start` where it stands inside one of those literals that are safe; None if there are none."""
    rests = set()
    for literal in literals:
        at = literal.find(start)
        while at >= 0:
            if leftovers.safe(literal[at:]):
                before = f"(?<={re.escape(literal[: at + 1])})" if at else ""
                rests.add(before + re.escape(literal[at + 1 :]))
            at = literal.find(start, at + 1)
    return re.compile(f"{re.escape(start)}(?={'|'.join(sorted(rests))})") if rests else None


class _Leftovers:
    """Decides whether a control token can begin at a string's first character after the template changed the string."""

    def __init__(self, tokens: Iterable[str], changes: TextChanges) -> None:
        self._tokens = frozenset(token.casefold() for token in tokens)
        self._prefixes = frozenset(token[:end] for token in self._tokens for end in range(1, len(token)))
        self._longest = max(map(len, self._tokens), default=0)
        self._removed = frozenset((text.casefold(), written) for text, written in changes.removed if text)

    def safe(self, text: str) -> bool:
        """Walks over everything that can be left of the text. Case is ignored: a template may change it."""
        waiting, seen = [text.casefold()], set[str]()
        while waiting:
            left = waiting.pop()
            if left in seen:
                continue
            seen.add(left)
            if len(seen) > _MOST_LEFTOVERS or self._may_begin(left):
                return False
            waiting += self._after_change(left)
        return True

    def _may_begin(self, text: str) -> bool:
        """Whether the text begins with a control token, or could with more text behind it."""
        return text in self._prefixes or any(text[:end] in self._tokens for end in range(1, self._longest + 1))

    def _after_change(self, text: str) -> Iterator[str]:
        """What can be left of the text, its first character included, when one string is removed. Where no token begins like
        the text before it, a removal changes nothing."""
        at = 1
        while at < len(text) and text[:at] in self._prefixes:
            for removed, written in self._removed:
                if text.startswith(removed, at) and written is not None:
                    yield text[:at] + written.casefold() + text[at + len(removed) :]
                elif text.startswith(removed, at) or removed.startswith(text[at:]):
                    yield text[:at]  # anything may follow
            at += 1
