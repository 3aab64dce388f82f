"""Takes long numbers (of telephones, cards, accounts) out of what a model says, on every API, streamed and whole.

A number may be cut over any number of pieces: what could be the beginning of one is held back until the text goes on, or ends.
Its digits are those of Unicode's decimal numbers that are listed here, and may be parted by what is in BETWEEN, a line break too.
In the arguments of a tool call, which are JSON, a comma ends a number, since it parts the members of a list; escapes are not
read. List it in the file of plugins as `source: redact_numbers:RedactNumbers`.
"""

import attrs

from smg_core.middleware.base import CONTINUE, About, AnswerPiece, ChangeText, PieceVerdict
from smg_core.middleware.python import PythonPlugin

# The zeros of the digits: ASCII, Arabic-Indic, Persian, Nko, Devanagari, Bengali, Gurmukhi, Gujarati, Oriya, Tamil, Telugu,
# Kannada, Malayalam, Thai, Lao, Tibetan, Myanmar, Khmer, Mongolian, fullwidth, and five kinds of mathematical digits.
ZEROS = "0\u0660\u06f0\u07c0\u0966\u09e6\u0a66\u0ae6\u0b66\u0be6\u0c66\u0ce6\u0d66\u0e50\u0ed0\u0f20\u1040\u17e0\u1810\uff10"
MATHEMATICAL = "\U0001d7ce\U0001d7d8\U0001d7e2\U0001d7ec\U0001d7f6"
DIGITS = frozenset(chr(ord(zero) + digit) for zero in ZEROS + MATHEMATICAL for digit in range(10))
# What may stand between the digits of a number: spaces of all kinds, dashes, and marks.
BETWEEN = frozenset(" .()-/,_\t\n\r\xa0\xad\u2007\u2009\u200a\u202f\u3000\u2010\u2011\u2012\u2013\u2014\u2212")
IN_ARGUMENTS = BETWEEN - {","}
LONGEST = 64  # characters that are held back at most


class Numbers:
    """The numbers of one text, piece by piece. With `instead` "" each digit of a number becomes a nine, as in arguments."""

    def __init__(self, fewest: int, instead: str) -> None:
        self._fewest, self._instead = fewest, instead
        self._between = BETWEEN if instead else IN_ARGUMENTS
        self._held = ""  # may be the beginning of a number; inside of one: what stands behind its digits so far
        self._inside = False  # in a number that was taken out, of which more may come

    def shown(self, text: str, *, last: bool) -> str:
        """What may be said of the text so far."""
        if not last and not self._held and not self._inside and DIGITS.isdisjoint(text):
            return text
        said = "".join([self._after(each) for each in text])
        return said + self._ended() if last else said

    def _after(self, each: str) -> str:
        """What may be said after one more character."""
        if each not in DIGITS and not (each in self._between and (self._held or self._inside)):
            return self._ended() + each
        self._held += each
        if self._inside:
            return self._within(each)
        if sum(one in DIGITS for one in self._held) >= self._fewest:
            number, self._held, self._inside = self._held, "", True
            return self._instead or "".join(["9" if one in DIGITS else one for one in number])
        return self._ended() if len(self._held) > LONGEST else ""

    def _within(self, each: str) -> str:
        """Inside of a number: its digits are not said, and what stands between them only where it ends."""
        if not self._instead:
            self._held = ""
            return "9" if each in DIGITS else each
        if each in DIGITS:
            self._held = ""
        return self._ended() if len(self._held) > LONGEST else ""

    def _ended(self) -> str:
        """What was held back of a number that ends here, or was none."""
        held, self._held = self._held, ""
        self._inside = False
        return held


class RedactNumbers(PythonPlugin):
    """Numbers of at least `digits` digits become `instead`. In the arguments of a tool call, which stay JSON, each digit of one
    becomes a nine."""

    pieces = "text"

    @attrs.frozen
    class Settings:
        digits: int = 7
        instead: str = "[number]"

    def __init__(self, about: About, shared: Settings) -> None:
        super().__init__(about, shared)
        self._texts: dict[int, Numbers] = {}

    def on_piece(self, piece: AnswerPiece) -> PieceVerdict:
        numbers = self._texts.get(piece.choice)
        if numbers is None:  # a text begins; those of one choice come one after the other
            instead = "" if piece.kind == "arguments" else self.shared.instead
            numbers = self._texts[piece.choice] = Numbers(self.shared.digits, instead)
        if piece.last:
            del self._texts[piece.choice]
        text = numbers.shown(piece.text, last=piece.last)
        return CONTINUE if text == piece.text else ChangeText(text)
