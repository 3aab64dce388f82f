"""Finds control tokens that are spelled out in ordinary text.

`ControlScan` says at which offsets a string must be cut so that no control token can be matched in it. Pure, and cheap for
text that holds none: one substring search per distinct first character. Above: chat_template and protection (users' text
before rendering), huggingface and tiktoken (encoding as ordinary text). Below: the standard library. It does not know what
the tokens mean.
"""

from collections.abc import Iterable
from itertools import pairwise

__all__ = ["ControlScan"]


class ControlScan:
    """The control tokens of one vocabulary, arranged for search.

    A cut goes behind the first character of every occurrence, also where occurrences overlap. Tokens of one character
    cannot be cut and are left out. Text that holds none of `starts`, the tokens' first characters, needs no cut. The time is
    linear in the text for each of `starts` (usually "<" and "["): one lookup where it occurs, and one more for each length
    of the tokens that begin like the text there.
    """

    __slots__ = ("_lengths", "_longest", "_prefixes", "_shortest", "starts", "tokens")

    def __init__(self, tokens: Iterable[str]) -> None:
        self.tokens = frozenset(token for token in tokens if len(token) > 1)
        self.starts = tuple(sorted({token[0] for token in self.tokens}))
        lengths = {len(token) for token in self.tokens}
        self._shortest, self._longest = min(lengths, default=0), max(lengths, default=0)
        self._lengths: dict[str, tuple[int, ...]] = {}
        for token in sorted(self.tokens, key=len):
            head = token[: self._shortest]
            self._lengths[head] = tuple(dict.fromkeys((*self._lengths.get(head, ()), len(token))))
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
            found += self._of_start(text, start)
        found.sort()
        if self._open_ended(text):
            found.append(len(text))
        return found

    def spells(self, text: str) -> bool:
        """Whether any control token occurs in the text."""
        return any(self._of_start(text, start) for start in self.starts)

    def _of_start(self, text: str, start: str) -> list[int]:
        """The cuts for the tokens that begin with the character `start`."""
        found: list[int] = []
        tokens, lengths_of, shortest = self.tokens, self._lengths, self._shortest
        at = text.find(start)
        while at >= 0:
            lengths = lengths_of.get(text[at : at + shortest])
            if lengths is not None and any(text[at : at + length] in tokens for length in lengths):
                found.append(at + 1)
            at = text.find(start, at + 1)
        return found

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
