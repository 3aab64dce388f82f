"""Strings as Python's grammar allows them, in calls of every family that writes Python."""

from __future__ import annotations

import json

import pytest
from tests.parsers.examples import EXAMPLES, WEATHER
from tests.parsers.splits import cuts, fixed_ids, run

from smg_parsers import CallArguments, CallEnd, Parser

PYTHONIC = sorted(name for name, (_, call) in EXAMPLES.items() if "'Paris'" in call)
STRINGS = {
    r"r'\d+\.\d'": r"\d+\.\d",
    "u'Paris'": "Paris",
    "f'{{Paris}}'": "{Paris}",
    '"""say "hi"\nand \'go\'"""': "say \"hi\"\nand 'go'",
    "'''a'''": "a",
    "'Pa' 'ris'": "Paris",
    "('Pa'\n   r'\\ris')": "Pa\\ris",
    "02139": "02139",
}


@pytest.mark.sampled(per=("written",))
@pytest.mark.parametrize("tools", [[WEATHER], None])
@pytest.mark.parametrize("family", PYTHONIC)
@pytest.mark.parametrize("written", STRINGS)
def test_a_string_means_what_python_says_at_every_split(family: str, written: str, tools: list[object] | None) -> None:
    text = EXAMPLES[family][1].replace("'Paris'", written)
    results = []
    for chunks in cuts(text, random_cuts=5):
        parser = Parser.for_family(family, tools=tools, any_tool=True, in_reasoning=False, call_id=fixed_ids())  # type: ignore[arg-type]
        results.append(run(parser, chunks))
    assert all(result == results[0] for result in results)
    arguments = "".join(piece.delta for piece in results[0] if isinstance(piece, CallArguments))
    assert json.loads(arguments) == {"city": STRINGS[written], "days": 2}
    assert results[0][-1] == CallEnd(0)


@pytest.mark.parametrize("family", PYTHONIC)
@pytest.mark.parametrize("written", ["b'Paris'", "f'{town}'"])
def test_what_is_no_literal_ends_no_call(family: str, written: str) -> None:
    text = EXAMPLES[family][1].replace("'Paris'", written)
    for chunks in ([text], list(text)):
        pieces = run(Parser.for_family(family, tools=[WEATHER], in_reasoning=False), chunks)
        assert not any(isinstance(piece, CallEnd) for piece in pieces)
