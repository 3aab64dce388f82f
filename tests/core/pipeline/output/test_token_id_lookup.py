"""Ids that an engine named by their text alone: the text that comes of them is what the engine said, whatever is missing."""

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import smg_simulator
from smg_core.engines.base import EngineLogprob, EngineOutput
from smg_core.pipeline.output.token_id_lookup import with_all_ids
from smg_core.tokenizer.loader import load_tokenizer

FOLDER = Path(smg_simulator.__file__).parent / "model"
TOKENIZER = load_tokenizer(FOLDER).tokenizer


def said(output: EngineOutput) -> bytes:
    return b"".join(map(TOKENIZER.token_bytes, output.ids))


@given(st.text(alphabet=st.characters(codec="utf-8", exclude_characters="<|>"), min_size=1, max_size=6), st.data())
def test_the_text_is_what_the_engine_said_whichever_ids_are_missing(text: str, data: st.DataObject) -> None:
    ids = list(TOKENIZER.encode(text, allow_control=False))
    known = data.draw(st.integers(1, len(ids)))
    output = with_all_ids(EngineOutput(0, ids[-known:], text=text), TOKENIZER)

    assert said(output) == text.encode()
    assert list(output.ids)[-known:] == ids[-known:]


def test_the_ids_of_the_tokenizer_are_taken() -> None:
    ids = list(TOKENIZER.encode(" \N{GRINNING FACE}", allow_control=False))
    output = with_all_ids(EngineOutput(0, ids[-1:], text=" \N{GRINNING FACE}"), TOKENIZER)
    assert list(output.ids) == ids


def test_ids_that_no_tokenizer_would_take_are_replaced_by_those_of_the_bytes() -> None:
    """The known id is the last byte of a character, alone; the tokenizer would have taken the character as a whole."""
    whole = list(TOKENIZER.encode("\u00e9", allow_control=False))
    (last,) = [each for each in range(TOKENIZER.vocab_size) if TOKENIZER.token_bytes(each) == b"\xa9"]
    output = with_all_ids(EngineOutput(0, [last], text="\u00e9"), TOKENIZER)
    assert said(output) == b"\xc3\xa9"
    assert list(output.ids)[-1] == last
    assert len(whole) == 1 or list(output.ids) == whole


@pytest.mark.parametrize("text", ["", "b", "something else"])
def test_an_output_whose_text_says_no_more_than_its_ids_is_left_as_it_is(text: str) -> None:
    (token,) = TOKENIZER.encode("a", allow_control=False)
    output = EngineOutput(0, [token], text=text)
    assert with_all_ids(output, TOKENIZER) is output


def test_a_missing_id_has_no_logprob() -> None:
    ids = list(TOKENIZER.encode("\N{GRINNING FACE}", allow_control=False))
    rows = [EngineLogprob(ids[-1], -1.0)]
    output = with_all_ids(EngineOutput(0, ids[-1:], logprobs=rows, text="\N{GRINNING FACE}"), TOKENIZER)
    assert [row.token_id for row in output.logprobs] == ids
    assert [row.logprob for row in output.logprobs] == [-math.inf] * (len(ids) - 1) + [-1.0]
