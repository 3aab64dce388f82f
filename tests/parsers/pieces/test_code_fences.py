"""A fence opens and closes as Markdown says, in the parser too, however the text is cut."""

from __future__ import annotations

import pytest
from tests.parsers.splits import cuts, fixed_ids, run

from smg_parsers import CallStart, Parser, Reasoning, Text

CALL = "<function=bash>\n<parameter=command>\nls\n</parameter>\n</function>"
TOOLS = [{"name": "bash", "parameters": {"type": "object", "properties": {"command": {"type": "string"}}}}]

OPEN = {
    "three backticks": "```\n",
    "a language": "```xml\n",
    "tildes": "~~~\n",
    "four backticks, and three in them": "````md\n```\ncode\n```\n",
    "tildes with backticks in them": "~~~\n```\ncode\n```\nmore\n",
    "backticks with tildes in them": "```\n~~~\n",
    "indented": "- a list\n  ```\n  x\n",
    "a line that goes on behind the backticks": "```\nx\n``` y\n",
    "opened again": "```\nx\n```\n\n```\n",
    "too few to close it": "`````\nx\n````\n",
    "backticks in the name of a language between tildes": "~~~ a`b\n",
    "CR LF": "```xml\r\n",
}
NOT_OPEN = {
    "none": "text\n",
    "closed": "```\nx\n```\n",
    "closed by more": "```\nx\n`````\n",
    "closed, with white space behind": "```\nx\n```  \n",
    "closed between CR LF": "```\r\nx\r\n```\r\n",
    "backticks within a line": "use ``` for code\n",
    "code within a line": "```x``` is code\n",
    "code of one line": "```ls```\n",
    "two backticks": "``\n",
    "tildes closed": "~~~\n```\n~~~\n",
    "an odd number of backticks in a sentence": "a ```b``` and ``` alone\n",
}


def begun(text: str, chunks: list[str]) -> bool:
    parser = Parser.for_family("qwen3_coder", tools=TOOLS, in_reasoning=False, call_id=fixed_ids())
    pieces = run(parser, chunks)
    called = any(isinstance(piece, CallStart) for piece in pieces)
    if not called:
        assert pieces == [Text(text)]
    return called


@pytest.mark.parametrize(("before", "called"), [(each, False) for each in OPEN] + [(each, True) for each in NOT_OPEN])
def test_a_call_without_its_wrapper_counts_outside_of_code_only(before: str, called: bool) -> None:
    text = {**OPEN, **NOT_OPEN}[before] + CALL
    assert all(begun(text, chunks) == called for chunks in cuts(text, random_cuts=20))


@pytest.mark.parametrize(("before", "opened"), [(each, False) for each in OPEN] + [(each, True) for each in NOT_OPEN])
def test_a_marker_of_reasoning_counts_outside_of_code_only(before: str, opened: bool) -> None:
    text = "<think>a</think>" + {**OPEN, **NOT_OPEN}[before] + "<think>b"
    for chunks in cuts(text, random_cuts=20):
        pieces = run(Parser.for_family("qwen3", tools=TOOLS, in_reasoning=False), chunks)
        assert (pieces[-1] == Reasoning("b")) == opened, chunks


def test_a_fence_ends_with_the_reasoning_that_it_stands_in() -> None:
    text = f"<think>```\nx</think>\n{CALL}"
    pieces = run(Parser.for_family("qwen35", tools=TOOLS, in_reasoning=False), [text])
    assert any(isinstance(piece, CallStart) for piece in pieces)
