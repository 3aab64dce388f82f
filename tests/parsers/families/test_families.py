"""Every family reads its own format, however it is cut."""

from __future__ import annotations

import pytest
from tests.parsers.examples import ARGUMENTS, EXAMPLES, WEATHER, WITHOUT_CALLS
from tests.parsers.splits import cuts, fixed_ids, outline, run

from smg_parsers import FAMILIES, Parser

pytestmark = pytest.mark.sampled(keep=24)
MESSAGES = ("muse_glimmer", "muse_spark", "beam", "hyperclovax_think_14b")
"""Families whose calls are messages with headers, of which nothing stands between."""


def test_every_row_of_the_table_has_an_example() -> None:
    assert set(FAMILIES) == {*EXAMPLES, *WITHOUT_CALLS}


@pytest.mark.parametrize("family", EXAMPLES)
def test_reasoning_text_and_a_call_come_in_order_however_they_are_cut(family: str) -> None:
    (opens, closes), call = EXAMPLES[family]
    text = f"{opens}{'Let me see. ' if opens else ''}{closes}"
    # Formats without an opening marker of their own recognise calls only where an answer begins.
    spoken = "" if family in ("harmony", "inkling") else "One moment.\n"
    text += spoken + call
    expected = ([{"reasoning": "Let me see. "}] if opens else []) + ([{"text": spoken}] if spoken else [])
    for chunks in cuts(text, random_cuts=30):
        parser = Parser.for_family(family, tools=[WEATHER], in_reasoning=False, call_id=fixed_ids())
        got = outline(run(parser, chunks))
        identity = got[-1]["call"].pop("id")
        assert identity
        assert got == [*expected, {"call": {"name": "get_weather", "arguments": ARGUMENTS}}], chunks


@pytest.mark.parametrize("family", EXAMPLES)
def test_a_second_call_is_counted_on_and_the_text_behind_it_kept(family: str) -> None:
    _, call = EXAMPLES[family]
    between = {"harmony": "<|start|>assistant", "inkling": "", **dict.fromkeys(MESSAGES, "")}.get(family, "\n")
    text = call + between + call
    tail = "" if family in ("llama3", "harmony", "inkling") else " Done."
    for chunks in ([text + tail], list(text + tail)):
        parser = Parser.for_family(family, tools=[WEATHER], in_reasoning=False, call_id=fixed_ids())
        got = outline(run(parser, chunks))
        assert [entry["call"]["arguments"] for entry in got if "call" in entry] == [ARGUMENTS, ARGUMENTS], got
        assert [entry for entry in got if "call" not in entry] == ([{"text": tail}] if tail else [])
