"""The part of an outside text that a log may have.

An engine that fails may repeat the prompt in its error, a store the statement, a server of tools what it was sent. Which words
are whose nobody can tell, so only words are kept that are used in faults (`vocabulary`); what is between them becomes one "…". An
identifier (`max_model_len`, `torch.cuda.OutOfMemoryError`) is kept whole where all its parts are known. Few numbers are kept, of
at most seven digits: one behind a word that says what it measures (`status 503`, `max_model_len=8192`), once for each such word,
and one before its unit (`2.00 GiB`). So ids of tokens and numbers of cards are left out, however they are listed. A prompt of
known words alone is not told from a fault. Pure. Above: errors, the logs. Below: `vocabulary`.
"""

import re
from collections.abc import Iterator

from smg_core.outside_words.vocabulary import MEASURES, MEMORY_UNITS, UNITS, VOCABULARY

__all__ = ["LONGEST", "Outside", "in_log", "known_words"]

LONGEST = 1000  # characters of a text that are looked at
LEFT_OUT = "…"
MOST_DIGITS = 7
MOST_NUMBERS = 8  # in a text

_PIECE = re.compile(
    r"(?P<word>\w+(?:[.']\w+)*)|(?P<between>[ \t\r\n!-/:-@\[-^`{-~]+)|(?P<other>.)", re.DOTALL | re.ASCII
)
_NUMBER = re.compile(r"\d+(?:\.\d+)?", re.ASCII)
_PARTS = re.compile(r"[._]+")
_OF_CAMEL_CASE = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+")
_SPACES = re.compile(r"\s+")
_LONGEST_BETWEEN = 6  # characters of punctuation in a row; more are a drawing, or a message


class Outside:
    """An argument of a log line that came from outside. The line has its known words; a log that is configured to have exceptions
    in their own words (`observability.fault_words`) writes `whole`."""

    __slots__ = ("whole",)

    def __init__(self, whole: object) -> None:
        self.whole = str(whole)

    def __str__(self) -> str:
        return known_words(self.whole)


def in_log(text: str, outside_text: str) -> str:
    """`text`, a sentence of ours, where its part `outside_text` came from outside: of that there are only known words."""
    if not outside_text:
        return text
    before, found, after = text.rpartition(outside_text)
    return f"{before}{known_words(outside_text)}{after}" if found else known_words(text)


def known_words(text: str) -> str:
    """The words of `text` that are used in faults, with a mark for what is left out. Called for each failure that is logged."""
    made: list[str] = []
    for kept in _judged(_pieces(text[:LONGEST])):
        if kept != LEFT_OUT or not made or made[-1] != LEFT_OUT:
            made.append(kept)
    if len(text) > LONGEST and made[-1:] != [LEFT_OUT]:
        made.append(LEFT_OUT)
    return "".join(_joined(made)).strip()


class _Piece:
    """A run of a text: "word", "number", "between" or "unknown"."""

    __slots__ = ("kind", "text")

    def __init__(self, kind: str, text: str) -> None:
        self.kind, self.text = kind, text


def _pieces(text: str) -> Iterator[_Piece]:
    for found in _PIECE.finditer(text):
        run = found[0]
        if found.lastgroup == "word":
            yield _Piece(_kind(run), run)
        elif found.lastgroup == "between":
            yield _Piece("between", _spaced(run))
        else:
            yield _Piece("unknown", run)


def _kind(run: str) -> str:
    """What a run of letters and digits is."""
    if _NUMBER.fullmatch(run):
        return "number" if len(run) - run.count(".") <= MOST_DIGITS else "unknown"
    return "word" if all(_is_known(part) for part in _PARTS.split(run) if part) else "unknown"


def _is_known(part: str) -> bool:
    """Whether it is a word of faults, or is made of such words, as CamelCase is."""
    if part.lower() in VOCABULARY:
        return True
    words = _OF_CAMEL_CASE.findall(part)
    return "".join(words) == part and all(word.lower() in VOCABULARY for word in words)


def _spaced(run: str) -> str:
    """What is between two words: punctuation, with one space where there were some; a space alone where it is too long."""
    spaced = _SPACES.sub(" ", run)
    return spaced if len(spaced) <= _LONGEST_BETWEEN else " "


def _judged(pieces: Iterator[_Piece]) -> Iterator[str]:
    """The text of each piece that is kept, and a mark in place of each that is not."""
    all_pieces = list(pieces)
    kept_numbers = _kept_numbers(all_pieces)
    for at, piece in enumerate(all_pieces):
        if piece.kind == "unknown" or (piece.kind == "number" and at not in kept_numbers):
            yield LEFT_OUT
        else:
            yield piece.text


def _kept_numbers(pieces: list[_Piece]) -> set[int]:
    """The places of the numbers that are kept."""
    kept: set[int] = set()
    used: set[str] = set()
    for at, piece in enumerate(pieces):
        if piece.kind == "number" and len(kept) < MOST_NUMBERS:
            measure, unit = _neighbour(pieces, at, -1), _neighbour(pieces, at, 1)
            if unit in MEMORY_UNITS:
                kept.add(at)
            elif (word := measure if _measures(measure) else unit if unit in UNITS else "") and word not in used:
                used.add(word)
                kept.add(at)
    return kept


def _neighbour(pieces: list[_Piece], at: int, step: int) -> str:
    """The known word next to the piece `at`, before it (-1) or behind it (1); "" where something else is there."""
    near = at + step
    if 0 <= near < len(pieces) and pieces[near].kind == "between":
        near += step
    return pieces[near].text.lower() if 0 <= near < len(pieces) and pieces[near].kind == "word" else ""


def _measures(word: str) -> bool:
    """Whether a number behind the word is what it measures: `length`, `max_model_len`."""
    return any(part in MEASURES for part in _PARTS.split(word))


def _joined(pieces: list[str]) -> Iterator[str]:
    """The pieces, where what is left out with nothing but punctuation between is one mark."""
    at = 0
    while at < len(pieces):
        yield pieces[at]
        if pieces[at] == LEFT_OUT:
            while at + 2 < len(pieces) and pieces[at + 2] == LEFT_OUT and not _has_word(pieces[at + 1]):
                at += 2
        at += 1


def _has_word(piece: str) -> bool:
    return any(each.isalnum() for each in piece)
