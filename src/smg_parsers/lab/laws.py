"""The laws that every parser of model output must keep, as checks that return the breaches found.

Decides: what it means that results do not depend on how the text was cut, that pieces come in order, that no character is
lost, and that the work grows no faster than the text. Work is counted (interpreter instructions, and characters read by
string methods), not timed, so that a verdict is the same on every machine.
Above: `lab`, the pytest plugin. Below: `base`, `family`.
Does not know: any particular family.
"""

from __future__ import annotations

import itertools
import random
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass
from types import FrameType
from typing import Final, Protocol, SupportsIndex, TypeAlias

from smg_parsers.families.family import Family
from smg_parsers.pieces.base import CallArguments, CallEnd, CallStart, Piece, Reasoning, Text, merge

SLACK: Final = 500
"""Extra work allowed for a stretch of text, because a unit may be cut at its end."""
TOLERANCE: Final = 1.15
"""How much more work a stretch of text may cost than the stretch before it: a quadratic parser needs 1.67 times as much."""


class Feeds(Protocol):
    """The parser under test: `Parser`, or anything with the same two methods."""

    def feed(self, text: str) -> Sequence[Piece]:
        """See `Parser.feed`."""
        ...

    def finish(self) -> Sequence[Piece]:
        """See `Parser.finish`."""
        ...


Make: TypeAlias = Callable[[], Feeds]


class _Trace(Protocol):
    """A function for `sys.settrace`; it returns the one for the frame."""

    def __call__(self, frame: FrameType, event: str, arg: object, /) -> _Trace: ...


@dataclass(frozen=True, slots=True)
class Breach:
    """One breach: which law, on which text, and what happened."""

    law: str
    text: str
    detail: str

    def __str__(self) -> str:
        quoted = self.text if len(self.text) <= 200 else f"{self.text[:200]}… ({len(self.text)} characters)"
        return f"{self.law}: {self.detail}\n  on {quoted!r}"


def read(make: Make, chunks: Sequence[str]) -> list[Piece]:
    """The pieces that a new parser returns for the chunks, joined by `merge`."""
    parser = make()
    pieces: list[Piece] = []
    for chunk in chunks:
        pieces.extend(parser.feed(chunk))
    pieces.extend(parser.finish())
    return merge(pieces)


def cuts(text: str, random_cuts: int = 20, seed: int = 0) -> Iterator[list[str]]:
    """The text cut into characters, cut in two at every place, and cut at random places (the same for the same seed)."""
    yield list(text)
    for at in range(1, len(text)):
        yield [text[:at], text[at:]]
    source = random.Random(seed)
    for _ in range(random_cuts if len(text) > 2 else 0):
        places = sorted(source.sample(range(1, len(text)), min(len(text) - 1, source.randint(2, 9))))
        yield [text[a:b] for a, b in zip([0, *places], [*places, len(text)], strict=True)]


def split_invariance(make: Make, text: str, random_cuts: int = 20, seed: int = 0) -> list[Breach]:
    """The same pieces for every way of cutting the text; the first difference is reported."""
    whole = _unnamed(read(make, [text]))
    for chunks in cuts(text, random_cuts, seed):
        got = _unnamed(read(make, chunks))
        if got != whole:
            return [Breach("split invariance", text, f"cut as {chunks!r}: {got} instead of {whole}")]
    return []


def _unnamed(pieces: Sequence[Piece]) -> list[Piece]:
    """The pieces without call ids, which are random."""
    return [CallStart(piece.index, "", piece.name) if isinstance(piece, CallStart) else piece for piece in pieces]


def order(make: Make, text: str) -> list[Breach]:
    """Calls are numbered from 0, one at a time: start, arguments, at most one end, and the end only once complete."""
    count, inside = 0, False
    for piece in read(make, [text]):
        if isinstance(piece, CallStart):
            good = piece.index == count
            count, inside = count + 1, True
        elif isinstance(piece, CallArguments | CallEnd):
            good = inside and piece.index == count - 1
            inside = inside and isinstance(piece, CallArguments)
        else:
            good, inside = True, False
        if not good:
            return [Breach("order", text, f"out of place: {piece}")]
    return []


def conservation(make: Make, text: str, family: Family) -> list[Breach]:
    """Input that does not come out as text or reasoning must be a marker of the family, or begin with one that opens calls.

    Every word of a call that breaks off must come out, in its arguments or after it. The output's text is aligned with the
    input by dynamic programming, so this check is for texts of a few hundred characters.
    """
    pieces = read(make, [text])
    spoken = "".join(piece.text for piece in pieces if isinstance(piece, Text | Reasoning))
    headers = any(spec.headers for spec in family.calls)
    spans = headers or any(isinstance(piece, CallStart) for piece in pieces) or _holds_empty_section(text, family)
    if not _aligned(text, spoken, family, spans):
        return [Breach("conservation", text, f"{spoken!r} is not the text less its markers and calls: {pieces}")]
    lost = _lost_words(make, text, family)
    return [Breach("conservation", text, f"a call that broke off lost {sorted(lost)}: {pieces}")] if lost else []


def _holds_empty_section(text: str, family: Family) -> bool:
    """Whether an opening marker of calls is closed at once: both are dropped, though there is no call."""
    behind = [text[at + len(opener) :] for opener in family.tables.calls for at in _places(text, opener)]
    return any(each.lstrip().startswith(family.tables.closers) for each in behind)


def _places(text: str, part: str) -> Iterator[int]:
    at = text.find(part)
    while at >= 0:
        yield at
        at = text.find(part, at + 1)


_ESCAPE: Final = re.compile(r"\\(?:x..|u....|U.{8}|.)", re.DOTALL)
_WORD: Final = re.compile(r"\b[a-z_]\w+")
_WORD_CHARACTERS: Final = re.compile(r"\w+")
_PART: Final = re.compile(r"\w+$")
_LITERALS: Final = frozenset(("true", "false", "null", "none", "string", "json", "amp", "quot", "cdata"))
_KEYS: Final = frozenset(
    ("name", "tool_name", "function", "arguments", "parameters", "args", "id", "tool_call_id", "type")
)


def _words(text: str) -> set[str]:
    return set(_WORD.findall(_ESCAPE.sub(" ", text).lower()))


def _lost_words(make: Make, text: str, family: Family) -> set[str]:
    """The words of broken-off calls that came out nowhere, without the words of the family's own tags, and without the
    markers that are dropped behind such a call as they are in any text."""
    parser = make()
    timed = [(at, piece) for at, char in enumerate(text) for piece in parser.feed(char)]
    timed += [(len(text), piece) for piece in parser.finish()]
    own = _LITERALS | _KEYS | _words(" ".join(_strings(family.calls)))
    written = text
    for marker in sorted(family.tables.roles, key=len, reverse=True):
        written = written.replace(marker, " " * len(marker))
    lost: set[str] = set()
    for place, (begun, start) in enumerate(timed):
        if not isinstance(start, CallStart):
            continue
        behind = timed[place + 1 :]
        arguments = list(itertools.takewhile(lambda each: isinstance(each[1], CallArguments | CallEnd), behind))
        rest = behind[len(arguments) :]
        if not rest or any(isinstance(piece, CallEnd) for _, piece in arguments):
            continue
        # A word may be cut where arguments end and text begins: it is then whole in the text alone, or only in both joined.
        kept = _words("".join(map(_text_of, (piece for _, piece in behind))))
        kept |= _words("".join(map(_text_of, (piece for _, piece in rest))))
        # A backslash that escapes nothing takes a letter with it here, and in the arguments the backslash that mends it.
        kept |= {word[1:] for word in kept}
        broken = written[_word_start(text, begun + 1) : rest[0][0] + 1]
        if isinstance(rest[0][1], CallStart):
            broken = _before_header(broken, family)
        lost |= _words(_PART.sub("", broken)) - kept - own
    return lost


def _word_start(text: str, at: int) -> int:
    """Where the word begins that goes on at `at`: a call may begin at a word's first letter, and the word come out as text."""
    while 0 < at < len(text) and _WORD_CHARACTERS.fullmatch(text, at - 1, at + 1):
        at -= 1
    return at


def _before_header(text: str, family: Family) -> str:
    """A broken-off call without the header of the next one, where calls have headers: its words are no words of this call."""
    at = max((text.rfind(each) for spec in family.calls if spec.headers for each in _strings(spec)), default=-1)
    return text if at < 0 else text[:at]


def _text_of(piece: Piece) -> str:
    if isinstance(piece, CallStart):
        return f" {piece.name} {piece.id} "
    return (
        piece.delta if isinstance(piece, CallArguments) else piece.text if isinstance(piece, Text | Reasoning) else ""
    )


def _strings(value: object) -> Iterator[str]:
    """All strings in a spec, however deep."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, tuple):
        for item in value:
            yield from _strings(item)
    elif is_dataclass(value) and not isinstance(value, type):
        for each in fields(value):
            yield from _strings(getattr(value, each.name))


def breakage(text: str, count: int, seed: int = 0) -> Iterator[str]:
    """`count` broken versions of the text, as models break it: parts missing, repeated, cut off, or with junk between."""
    source = random.Random(seed)
    for number in range(count if text else 0):
        at = source.randrange(len(text))
        size = source.choice((1, 1, 2, 4, 8, 16))
        yield (
            text[:at] + text[at + size :],
            text[:at] + text[at : at + size] + text[at:],
            f"{text[:at]} oops{number} {text[at:]}",
            text[:at] + source.choice("<>\"'{}[]()/\\\n ") + text[at + 1 :],
            text[:at],
            f"{text[:at]}\n{text[size:]}",
        )[number % 6]


def _aligned(text: str, spoken: str, family: Family, spans: bool) -> bool:
    markers = (*family.tables.roles, *(family.tables.closers if spans else ()))
    openers = tuple(family.tables.calls)
    # The places in `spoken` that may have been reached, for every place in `text`.
    reached: list[set[int]] = [set() for _ in range(len(text) + 1)]
    reached[0].add(0)
    anywhere: set[int] = set()  # reached inside a call, which may end anywhere
    for at in range(len(text)):
        here = reached[at] | anywhere
        opens = spans and (text.startswith(openers, at) or (family.headed and at == 0) or text[at].isspace())
        if opens:
            anywhere |= reached[at]
        for phrase in here:
            if phrase < len(spoken) and spoken[phrase] == text[at]:
                reached[at + 1].add(phrase + 1)
        for marker in markers:
            if text.startswith(marker, at):
                reached[at + len(marker)] |= here
    return len(spoken) in reached[len(text)] | anywhere


class Counted(str):
    """A string that notes how many characters its methods may have looked at."""

    __slots__ = ()
    looked = 0

    @classmethod
    def _note(cls, count: int) -> None:
        Counted.looked += max(count, 0)

    def find(self, sub: str, start: SupportsIndex | None = 0, end: SupportsIndex | None = None, /) -> int:
        """See `str.find`."""
        begin = int(start or 0)
        limit = len(self) if end is None else min(int(end), len(self))
        at = super().find(sub, begin, limit)
        self._note((limit if at < 0 else at + len(sub)) - begin)
        return at

    def __getitem__(self, key: SupportsIndex | slice) -> str:
        """See `str`."""
        part = super().__getitem__(key)
        self._note(len(part))
        return Counted(part) if isinstance(key, slice) else part

    def __radd__(self, other: str) -> str:
        """See `str`."""
        self._note(len(self) + len(other))
        return Counted(str(other) + str(self))

    def __add__(self, other: str) -> str:
        """See `str`."""
        self._note(len(self) + len(other))
        return Counted(str(self) + str(other))

    def __contains__(self, sub: object) -> bool:
        """See `str`."""
        self._note(len(self))
        return super().__contains__(sub)  # type: ignore[operator]

    def __hash__(self) -> int:
        """See `str`."""
        return super().__hash__()

    def __eq__(self, other: object) -> bool:
        """See `str`."""
        return super().__eq__(other)


def work(make: Make, chunks: Sequence[str]) -> int:
    """Interpreter instructions spent on the chunks, plus the characters that string methods may have looked at."""
    executed = 0

    def trace(frame: FrameType, event: str, arg: object) -> _Trace:
        nonlocal executed
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        if event == "opcode":
            executed += 1
        return trace

    parser = make()
    counted = [Counted(chunk) for chunk in chunks]
    Counted.looked = 0
    before = sys.gettrace()
    sys.settrace(trace)
    try:
        for chunk in counted:
            parser.feed(chunk)
        parser.finish()
    finally:
        sys.settrace(before)
    return executed + Counted.looked


def linearity(make: Make, unit: str, length: int = 260, prefix: str = "") -> list[Breach]:
    """Every further stretch of text costs no more work than the one before it, char by char and (longer) whole.

    `unit` is repeated to twice and three times the length. What is held back is bounded, and costs its full bound only
    in texts longer than that: `length` has to be more than the longest header, and the first stretch is left out.
    """
    breaches = []
    for name, split, size in (("char by char", list[str], length), ("whole", _whole, 3 * length)):
        first, second, third = (work(make, split(_repeated(prefix, unit, count * size))) for count in (1, 2, 3))
        if third - second > TOLERANCE * (second - first) + SLACK:
            detail = f"{name}: {second - first} instructions for {size} characters, then {third - second}"
            breaches.append(Breach("linearity", _repeated(prefix, unit, size), detail))
    return breaches


def _whole(text: str) -> list[str]:
    return [text]


def _repeated(prefix: str, unit: str, length: int) -> str:
    return prefix + (unit * (length // len(unit) + 1))[:length]


def nasty(family: Family, example: str = "") -> Iterator[tuple[str, str]]:
    """Pairs of a prefix and a unit to repeat, for `linearity`, that make careless parsers slow."""
    for marker in sorted({*family.tables.roles, *family.tables.calls}):
        yield "", marker
        yield "", marker[:-1] or marker
        yield marker, " "
        yield marker, marker[0]
    if example:
        yield "", example + "\n"
        for at in (len(example) // 2, len(example) * 3 // 4):
            yield example[:at], '\\"'
            yield example[:at], example[at:][:3]
    for unit in ("<", '{"', "[", "\n", "a", "\\", "```", "]<]"):
        yield "", unit
