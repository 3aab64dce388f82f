"""Slices say what the outputs said, in their order, each within its bound."""

from hypothesis import given
from hypothesis import strategies as st

from smg_core.engines.base import EngineLogprob, EngineOutput
from smg_core.engines.token_ids.slices import fit_one_slice, slices


@st.composite
def outputs(draw: st.DrawFn) -> EngineOutput:
    ids = draw(st.lists(st.integers(0, 99), max_size=40))
    tops = draw(st.none() | st.integers(0, 20))
    rows = [EngineLogprob(each, -1.0, ((each, -1.0),) * tops) for each in ids] if tops is not None else []
    finish = draw(st.sampled_from([None, "stop"]))
    prompt = draw(st.lists(st.integers(0, 99), max_size=40))
    prompted = [None, *(EngineLogprob(each, -2.0, ((each, -2.0),) * (tops or 0)) for each in prompt)] if prompt else []
    said = {"prompt_tokens": 3, "completion_tokens": len(ids), "reasoning_tokens": 2, "kv_transfer": "x"}
    return EngineOutput(draw(st.integers(0, 2)), ids, finish, logprobs=rows, prompt_logprobs=prompted, **said)


@given(st.lists(outputs(), max_size=5), st.integers(1, 64))
def test_slices_are_the_outputs_again(brought: list[EngineOutput], most: int) -> None:
    groups = list(slices(brought, most))
    parts = [part for group in groups for part in group]

    for index in range(3):
        before = [each for each in brought if each.index == index]
        after = [each for each in parts if each.index == index]
        assert [token for each in after for token in each.ids] == [token for each in before for token in each.ids]
        assert [row for each in after for row in each.logprobs] == [row for each in before for row in each.logprobs]
        assert [each.finish for each in after if each.finish] == [each.finish for each in before if each.finish]
        said = [row for each in before for row in each.prompt_logprobs]
        assert [row for each in after for row in each.prompt_logprobs] == said
        assert [each.kv_transfer for each in after if each.kv_transfer] == ["x"] * len(before)
    for group in groups:
        assert sum(map(cost, group)) <= most or sum(len(part.ids) + len(part.prompt_logprobs) for part in group) <= 1


@given(st.lists(outputs(), max_size=5), st.integers(1, 64))
def test_outputs_that_fit_one_slice_are_not_cut(brought: list[EngineOutput], most: int) -> None:
    groups = list(slices(brought, most))

    assert fit_one_slice(brought, most) == (groups in ([], [brought]) and sum(map(cost, brought)) <= most)


def cost(output: EngineOutput) -> int:
    """One of an output that brings no token, else of each token: more with a logprob, and more for each alternative."""
    rows = output.prompt_logprobs
    last = rows[-1] if rows else None
    prompt = len(rows) * (3 + 2 * len(last.top) if last is not None else 1)
    token = 3 + 2 * len(output.logprobs[0].top) if output.logprobs else 1
    return max(1, len(output.ids) * token) + prompt if output.ids or not rows else prompt
