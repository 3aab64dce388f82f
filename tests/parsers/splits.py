"""Feed a transcript cut in every way that matters, and bring what comes out into the form the tests compare."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from typing import Any

from smg_parsers import CallArguments, CallEnd, CallStart, Citation, Parser, Piece, Reasoning, Text, merge


def cuts(text: str, seed: int = 0, random_cuts: int = 100) -> Iterator[list[str]]:
    """Whole, char by char, every two-way split, and random splits."""
    yield [text]
    yield list(text)
    for at in range(1, len(text)):
        yield [text[:at], text[at:]]
    source = random.Random(seed)
    for _ in range(random_cuts):
        points = (
            sorted(source.sample(range(1, len(text)), min(source.randint(1, 8), len(text) - 1)))
            if len(text) > 1
            else []
        )
        yield [text[a:b] for a, b in zip([0, *points], [*points, len(text)], strict=True)]


def run(parser: Parser, chunks: Sequence[str], *, cut_off: bool = False) -> list[Piece]:
    pieces: list[Piece] = []
    for chunk in chunks:
        pieces.extend(parser.feed(chunk))
    pieces.extend(parser.finish(cut_off=cut_off))
    return merge(pieces)


def fixed_ids() -> Any:
    counter = iter(range(10**9))
    return lambda: f"call_{next(counter)}"


def outline(pieces: Sequence[Piece]) -> list[dict[str, Any]]:
    """Pieces in the corpus's form: adjacent texts joined, a call as one entry."""
    entries: list[dict[str, Any]] = []
    calls: dict[int, dict[str, Any]] = {}
    for piece in merge(pieces):
        if isinstance(piece, Text):
            entries.append({"text": piece.text})
        elif isinstance(piece, Reasoning):
            entries.append({"reasoning": piece.text})
        elif isinstance(piece, Citation):
            entries.append({"citation": [piece.start, piece.end, *piece.sources]})
        elif isinstance(piece, CallStart):
            assert piece.index == len(calls)
            calls[piece.index] = {"name": piece.name, "id": piece.id, "raw": "", "complete": False}
            entries.append({"call": calls[piece.index]})
        elif isinstance(piece, CallArguments):
            assert not calls[piece.index]["complete"]
            calls[piece.index]["raw"] += piece.delta
        elif isinstance(piece, CallEnd):
            calls[piece.index]["complete"] = True
            if piece.repaired:
                calls[piece.index]["repaired"] = True
    for call in calls.values():
        raw = call.pop("raw")
        if call["complete"]:
            call["arguments"] = json.loads(raw)
            del call["complete"]
        else:
            call["arguments_text"] = raw
    return entries
