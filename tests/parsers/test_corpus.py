"""Every transcript of the corpus gives what it says, however it is cut."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from smg_parsers import FAMILIES, Parser

from .splits import cuts, fixed_ids, outline, run

CORPUS = Path(__file__).parent / "corpus"
FILES = sorted(CORPUS.glob("*.json"))
CASES = [
    pytest.param(data["family"], case, id=f"{data['family']}-{case['name']}")
    for data in (json.loads(path.read_text(encoding="utf-8")) for path in FILES)
    for case in data["cases"]
]


@pytest.mark.sampled(per=("family",), keep=2)
@pytest.mark.parametrize(("family", "case"), CASES)
def test_a_transcript_gives_what_it_says_for_every_split(family: str, case: dict[str, Any]) -> None:
    expected = case["expect"]
    first: Any = None
    for chunks in cuts(case["text"]):
        parser = Parser.for_family(
            family,
            tools=case.get("tools"),
            in_reasoning=case.get("in_reasoning"),
            call_id=fixed_ids(),
            unknown_tools=case.get("unknown_tools", "forward"),
            any_tool=case.get("any_tool", False),
        )
        pieces = run(parser, chunks, cut_off=case.get("cut_off", False))
        if first is None:
            first = pieces
            assert _comparable(outline(pieces), expected) == expected
        assert pieces == first, chunks


def _comparable(got: list[dict[str, Any]], expected: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Ids only where the format carries them, and completeness as the corpus writes it."""
    for number, entry in enumerate(got):
        call = entry.get("call")
        if call is None:
            continue
        wanted = expected[number].get("call", {}) if number < len(expected) else {}
        if "id" not in wanted:
            del call["id"]
        if "complete" in wanted and "complete" not in call:
            call["complete"] = True
        if "arguments_text" not in wanted:
            call.pop("arguments_text", None)
    return got


def test_no_situation_is_left_out_of_any_family() -> None:
    told = subprocess.run(
        [sys.executable, str(CORPUS / "build.py"), "--check"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(CORPUS.parent), os.environ.get("PYTHONPATH", "")])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert told.returncode == 0, told.stderr


def test_every_family_has_at_least_twelve_transcripts_with_sources() -> None:
    counts = {}
    for path in FILES:
        data = json.loads(path.read_text(encoding="utf-8"))
        counts[data["family"]] = len(data["cases"])
        assert all(case.get("source") or data.get("source") for case in data["cases"])
    assert set(counts) == set(FAMILIES)
    assert min(counts.values()) >= 12
    assert sum(counts.values()) >= 500
