"""The lab: checks any parser against the laws of `laws`, and shows step by step what it returns.

    from smg_parsers.lab.lab import examine, write_page
    report = examine("mine", lambda: MyParser(), transcripts, family=MY_FAMILY)
    assert report.passed, report
    write_page([report], path)

Decides: which transcripts, cuts and hostile inputs a parser gets, and the verdict.
Above: the command line, the pytest plugin. Below: `laws`, `lab_page`, `parser`.
Does not know: how a parser works inside.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from smg_parsers.families.family import Family
from smg_parsers.lab import laws
from smg_parsers.lab.lab_page import FedChunk, page
from smg_parsers.lab.laws import Breach, Make
from smg_parsers.pieces.base import Piece

LAWS: Final = ("split invariance", "order", "conservation", "linearity")
CONSERVATION_LIMIT: Final = 400
"""Longest transcript that is checked for conservation, in characters: the check takes quadratic time."""
NASTY_LIMIT: Final = 12
"""Most hostile inputs that a parser gets."""


@dataclass(frozen=True, slots=True)
class Report:
    """The result for one parser: the breaches found, the number of checks, and the laws not checked (`skipped`)."""

    name: str
    checks: int
    breaches: tuple[Breach, ...]
    skipped: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether nothing was found."""
        return not self.breaches

    def verdict(self, law: str) -> str:
        """`kept`, `broken` or `not checked`, for one law."""
        if law in self.skipped:
            return "not checked"
        return "broken" if any(breach.law == law for breach in self.breaches) else "kept"

    def __str__(self) -> str:
        lines = [f"{self.name}: {self.checks} checks, {len(self.breaches)} breaches"]
        return "\n".join([*lines, *(f"  {breach}" for breach in self.breaches)])


def examine(
    name: str,
    make: Make,
    transcripts: Iterable[str],
    *,
    family: Family | None = None,
    random_cuts: int = 20,
    seed: int = 0,
    linear: bool = True,
) -> Report:
    """Check the parsers that `make` returns on these transcripts.

    Conservation is checked only with a `family`, whose markers may be missing from the output. `linear` checks linearity by
    counting instructions, which takes about a second for each of up to `NASTY_LIMIT` inputs.
    """
    texts = tuple(transcripts)
    found: list[Breach] = []
    checks = 0
    for text in texts:
        found += laws.split_invariance(make, text, random_cuts, seed)
        found += laws.order(make, text)
        checks += 2
        if family is not None and len(text) <= CONSERVATION_LIMIT:
            found += laws.conservation(make, text, family)
            checks += 1
    skipped = () if family is not None else ("conservation",)
    if linear:
        for prefix, unit in _nasty(family, texts):
            found += laws.linearity(make, unit, prefix=prefix)
            checks += 1
    else:
        skipped = (*skipped, "linearity")
    return Report(name, checks, tuple(found), skipped)


def _nasty(family: Family | None, texts: Sequence[str]) -> list[tuple[str, str]]:
    """Up to `NASTY_LIMIT` hostile inputs (prefix, repeated unit), spread evenly over all of them."""
    longest = max(texts, key=len, default="")
    if family is not None:
        every = list(laws.nasty(family, longest))
    else:
        every = [("", unit) for unit in ("<", "{", "[", " ", "a", longest or "b")]
    stride = max(len(every) // NASTY_LIMIT, 1)
    return every[::stride][:NASTY_LIMIT]


def steps(make: Make, text: str, size: int = 4) -> list[FedChunk]:
    """The pieces that a parser returns for every `size` characters of a transcript, and at its end."""
    parser = make()
    taken: list[FedChunk] = []
    for at in range(0, len(text), size):
        chunk = text[at : at + size]
        taken.append(FedChunk(chunk, tuple(_rendered(piece) for piece in parser.feed(chunk))))
    taken.append(FedChunk("", tuple(_rendered(piece) for piece in parser.finish())))
    return taken


def _rendered(piece: Piece) -> str:
    return repr(piece)


def write_page(reports: Sequence[Report], path: Path, stepped: Sequence[tuple[str, Sequence[FedChunk]]] = ()) -> None:
    """Write one self-contained HTML page: verdicts by parser and law, and the steps through each transcript in `stepped`."""
    rows = [(report.name, [report.verdict(law) for law in LAWS], str(report)) for report in reports]
    path.write_text(page(LAWS, rows, stepped), encoding="utf-8", newline="")
