"""Cuts a text that is still being written into pieces that are spoken one after the other.

A piece ends with a sentence, or where it grows long, between two words; the first one may be shorter, so that the sound begins
early. Pure. Above: the speaker. Below: nothing.
"""

import re

__all__ = ["Sentences"]

_ENDS = re.compile(r"[.!?…。！？\n][\"'”’)\]]*(?=\s|$)|[。！？]")
_LEAST, _MOST = 20, 400  # characters of a piece


class Sentences:
    """The pieces of one text."""

    def __init__(self) -> None:
        self._rest = ""
        self._begun = False

    def more(self, text: str) -> list[str]:
        """The pieces that are complete now that `text` has come."""
        self._rest += text
        found = []
        while (end := self._end()) is not None:
            piece, self._rest = self._rest[:end], self._rest[end:]
            self._begun = self._begun or bool(piece.strip())
            if piece.strip():
                found.append(piece)
        return found

    def last(self) -> list[str]:
        """What is left at the end of the text."""
        rest, self._rest = self._rest, ""
        return [rest] if rest.strip() else []

    def _end(self) -> int | None:
        """Where the first piece of the rest ends; None where that is not known yet."""
        for match in _ENDS.finditer(self._rest):
            at = match.end()
            if at == len(self._rest):
                break  # what follows may belong to it, as in 3.14
            if at >= _LEAST or not self._begun:
                return at
        if len(self._rest) <= _MOST:
            return None
        return self._rest.rfind(" ", 1, _MOST) + 1 or _MOST
