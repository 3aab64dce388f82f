"""Fences around code in an answer: where one is open, what looks like a marker is code.

Decides: what opens and closes a fence, as Markdown does. A line that begins with three or more backticks or tildes opens one; a
line of at least as many of the same, and nothing else, closes it. What stands behind the opening ones names the language; where
backticks stand in it, the line is code within a sentence and opens nothing.
Above: `family`, `parser`. Below: nothing.
Does not know: calls, reasoning, any model.
"""

from __future__ import annotations

from typing import Final

BACKTICKS: Final = "```"
FENCES: Final = (BACKTICKS, "~~~")
"""What a fence begins with. The parser finds these as markers, and passes on what follows until the line is over."""

_NONE, _OPENING, _OPEN, _CLOSING = range(4)


class CodeFence:
    """The fence that is open, if any. `reading`: the line of a fence is not over yet, so all text has to be given to `read`."""

    __slots__ = ("_char", "_length", "_run", "_runs", "_state", "reading")

    def __init__(self) -> None:
        self.reading = False
        self._state = _NONE
        self._char = ""
        self._length = 0  # of the run that has opened the fence
        self._run = 0  # length of the run that is read
        self._runs = False  # the run may go on

    @property
    def inside(self) -> bool:
        """Whether what comes now is code. Behind a run that closes a fence it is not, if nothing else stands on its line."""
        return self._state in (_OPENING, _OPEN) or (self._state == _CLOSING and self._run < self._length)

    def forget(self) -> None:
        """There is no fence any more: another part of the output begins."""
        self._state, self.reading = _NONE, False

    def mark(self, marker: str, *, begins: bool) -> None:
        """Take one of `FENCES`, unless the line of a fence is read; `begins` says whether a line begins with it."""
        if begins and (self._state == _NONE or marker[0] == self._char):
            self._state = _OPENING if self._state == _NONE else _CLOSING
            self._char, self._run = marker[0], len(marker)
            self.reading = self._runs = True

    def read(self, text: str) -> None:
        """Take what follows on a line of a fence, while `reading`."""
        if self._runs:
            rest = text.lstrip(self._char)
            self._run += len(text) - len(rest)
            self._runs = not rest
            text = rest
        line, over, _ = text.partition("\n")
        if self._state == _OPENING:
            if self._char in line and self._char in BACKTICKS:
                self.forget()
            elif over:
                self._state, self._length, self.reading = _OPEN, self._run, False
        elif line.strip():
            self._state, self.reading = _OPEN, False
        elif over:
            self._state = _NONE if self._run >= self._length else _OPEN
            self.reading = False


def spaced(last: str, space: str) -> str:
    """The end of a text to which white space is added: a character, whether a line break follows it, and the last character."""
    before = last.rstrip()
    behind = last[len(before) :] + space
    return before[-1:] + ("\n" if "\n" in behind else "") + behind[-1:].strip("\n")
