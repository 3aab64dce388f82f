"""Finds control tokens that are spelled out in ordinary text.

`ControlScan` says at which offsets a string must be cut so that no control token can be matched in it. Pure, and cheap for
text that holds none: one substring search per distinct first character. Above: chat_template and protection (users' text
before rendering), huggingface and tiktoken (encoding as ordinary text). Below: the standard library. It does not know what
the tokens mean.
"""

import re
from collections.abc import Iterable, Iterator
from itertools import pairwise

__all__ = ["ControlScan"]

_SAMPLE = 16
_RARE = 32
"""A character is rare if its first `_SAMPLE` occurrences stand further apart than `_RARE` characters."""


class ControlScan:
    """The control tokens of one vocabulary, arranged for search.

    A cut goes behind the first character of every occurrence, also where occurrences overlap. Tokens of one character
    cannot be cut and are left out. Text that holds none of `starts`, the tokens' first characters, needs no cut. The time is
    linear in the text for each of `starts` (usually "<" and "["): one lookup where it occurs, and one more for each length
    of the tokens that begin like the text there.
    """

    __slots__ = ("_heads", "_lengths", "_longest", "_prefixes", "_shortest", "starts", "tokens")

    def __init__(self, tokens: Iterable[str]) -> None:
        self.tokens = frozenset(token for token in tokens if len(token) > 1)
        self.starts = tuple(sorted({token[0] for token in self.tokens}))
        lengths = {len(token) for token in self.tokens}
        self._shortest, self._longest = min(lengths, default=0), max(lengths, default=0)
        self._lengths: dict[str, tuple[int, ...]] = {}
        for token in sorted(self.tokens, key=len):
            head = token[: self._shortest]
            self._lengths[head] = tuple(dict.fromkeys((*self._lengths.get(head, ()), len(token))))
        self._heads = {start: _heads(start, self.tokens) for start in self.starts}
        self._prefixes = frozenset(token[:end] for token in self.tokens for end in range(1, len(token)))

    def suspects(self, text: str) -> bool:
        """False if the text needs no cut; True if `cuts` must look."""
        for start in self.starts:  # noqa: SIM110 - a generator would cost more than the search
            if start in text:
                return True
        return False

    def cuts(self, text: str) -> list[int]:
        """The offsets of the cuts, ascending, each strictly inside an occurrence. If the text ends with the beginning of a
        control token, which later text could complete, `len(text)` is the last."""
        found: list[int] = []
        for start in self.starts:
            found += (at + 1 for at in self.begins(text, start))
        found.sort()
        if self._open_ended(text):
            found.append(len(text))
        return found

    def needs_cut(self, text: str) -> bool:
        """Whether `cuts` finds any."""
        return self.suspects(text) and bool(self.cuts(text))

    def spells(self, text: str) -> bool:
        """Whether any control token occurs in the text."""
        return any(True for start in self.starts for _ in self.begins(text, start))

    def begins(self, text: str, start: str) -> Iterator[int]:
        """The offsets of all tokens that begin with the character `start`, ascending.

        In markup, where `start` is everywhere, a regular expression looks for it: that rejects a character faster, while the
        search for a character finds a rare one faster."""
        token_at, seen = self.token_at, 0
        at = text.find(start)
        while at >= 0:
            if token_at(text, at):
                yield at
            seen += 1
            if seen == _SAMPLE and at < _SAMPLE * _RARE:
                for head in self._heads[start].finditer(text, at + 1):
                    if token_at(text, head.start()):
                        yield head.start()
                return
            at = text.find(start, at + 1)

    def token_at(self, text: str, at: int) -> bool:
        """Whether a token begins at the offset."""
        for length in self._lengths.get(text[at : at + self._shortest], ()):  # noqa: SIM110 - a generator costs more
            if text[at : at + length] in self.tokens:
                return True
        return False

    def reaches_across(self, text: str, at: int) -> bool:
        """Whether a token begins before the offset and ends behind it."""
        return any(
            text[begin : begin + length] in self.tokens
            for begin in range(max(0, at - self._longest + 1), at)
            for length in self._lengths.get(text[begin : begin + self._shortest], ())
            if begin + length > at
        )

    def _open_ended(self, text: str) -> bool:
        """Whether the text ends with the beginning of a control token."""
        tail = text[-(self._longest - 1) :] if self._longest > 1 else ""
        prefixes = self._prefixes
        return any(
            tail[at:] in prefixes for start in self.starts for at in range(len(tail)) if tail.startswith(start, at)
        )

    def pieces(self, text: str) -> list[str]:
        """The text cut into pieces that hold no control token; joined they are the text."""
        if not self.suspects(text):
            return [text]
        edges = [0, *(cut for cut in self.cuts(text) if cut < len(text)), len(text)]
        return [text[left:right] for left, right in pairwise(edges)]


def _heads(start: str, tokens: Iterable[str]) -> re.Pattern[str]:
    """Matches `start` where the next two characters are those of some token, which in ordinary text is nearly nowhere."""
    thirds: dict[str, set[str]] = {}
    for token in tokens:
        if token[0] == start:
            thirds.setdefault(token[1], set()).add(token[2:3])
    rests = [re.escape(second) + ("" if "" in after else _any_of(after)) for second, after in sorted(thirds.items())]
    return re.compile(f"{re.escape(start)}(?={'|'.join(rests)})")


def _any_of(characters: Iterable[str]) -> str:
    return f"[{''.join(map(re.escape, sorted(characters)))}]"
