"""The echo of a prompt is the same however its logprobs are cut, and no more of it comes at once than was brought."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

import smg_simulator
from smg_core.engines.base import EngineLogprob, EngineOutput
from smg_core.engines.token_ids.slices import slices
from smg_core.events import Event, Finished, TextDelta, TokenLogprob
from smg_core.pipeline.output.echo import Echo
from smg_core.pipeline.output.plan import OutputPlan
from smg_core.pipeline.output.processor import OutputProcessor
from smg_core.tokenizer.base import Tokenizer
from smg_core.tokenizer.loader import load_tokenizer
from smg_core.tokens import TokenIds


@cache
def tokenizer() -> Tokenizer:
    return load_tokenizer(Path(smg_simulator.__file__).parent / "model").tokenizer


def processor(text: str, choices: int, *, scored: bool, alone: bool = False) -> OutputProcessor:
    ids = TokenIds(tokenizer().encode(text).tolist())
    echo = Echo(text, ids, scored=scored, alone=alone)
    return OutputProcessor(OutputPlan(tokenizer(), len(ids), choices=choices, echo=echo, logprobs=scored))


def rows(ids: Sequence[int]) -> list[EngineLogprob | None]:
    return [None, *(EngineLogprob(each, -1.0, ((each, -1.0), (7, -2.0))) for each in ids[1:])]


def echoed(events: Sequence[Event], index: int) -> tuple[str, list[TokenLogprob]]:
    deltas = [each for each in events if isinstance(each, TextDelta) and each.index == index and each.echo]
    return "".join([each.text for each in deltas]), [row for each in deltas for row in each.logprobs]


@given(st.text(min_size=1, max_size=40), st.integers(1, 2), st.integers(1, 60), st.integers(0, 5), st.booleans())
def test_a_cut_echo_is_the_echo(text: str, choices: int, most: int, missing: int, alone: bool) -> None:
    ids = tokenizer().encode(text).tolist()
    said = tokenizer().encode("and so on").tolist()
    brought = [
        EngineOutput(
            index,
            said,
            "stop",
            logprobs=[EngineLogprob(each, -3.0) for each in said],
            prompt_logprobs=rows(ids)[: max(1, len(ids) - missing)],
        )
        for index in range(choices)
    ]
    reader = processor(text, choices, scored=True, alone=alone)
    events: list[Event] = []
    for group in slices(brought, most):
        new = reader.feed(group)
        assert sum(len(each.logprobs) for each in new if isinstance(each, TextDelta)) <= max(most, 1)
        events += new

    assert reader.done
    for index in range(choices):
        repeated, logprobs = echoed(events, index)
        assert repeated == text
        assert [each.id for each in logprobs] == ids[: max(1, len(ids) - missing)]
        deltas = [each for each in events if isinstance(each, TextDelta) and each.index == index]
        assert [each.echo for each in deltas] == sorted([each.echo for each in deltas], reverse=True)
        assert "".join([each.text for each in deltas if not each.echo]) == ("" if alone else "and so on")
        assert sum(isinstance(each, Finished) and each.index == index for each in events) == 1


@given(st.text(max_size=20), st.booleans())
def test_an_echo_whose_logprobs_never_come_is_told_with_the_end(text: str, scored: bool) -> None:
    said = tokenizer().encode("yes").tolist()
    reader = processor(text, 1, scored=scored)
    events = [*reader.feed([EngineOutput(0, said)]), *reader.feed([EngineOutput(0, (), "stop")])]

    assert "".join([each.text for each in events if isinstance(each, TextDelta)]) == text + "yes"
    assert echoed(events, 0) == (text, [])
