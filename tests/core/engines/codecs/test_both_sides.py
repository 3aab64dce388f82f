"""Every dialect from both sides: what our codec writes the embedded engine's understands, and the other way round. The two share
no code but the messages."""

from contextlib import suppress
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import asdict, replace
from tests.engine_kinds import DIALECTS

from smg_core.engines.base import Codec, EngineLogprob, EngineOutput, EngineRequest
from smg_core.engines.constraint import Constraint
from smg_core.errors import EngineGarbled, UnsupportedParameter
from smg_core.request import Sampling
from smg_core.tokens import TokenIds
from smg_simulator.codecs.all_codecs import server_codecs
from smg_simulator.codecs.base import ServerCodec
from smg_simulator.codecs.choice_messages import ChoiceMessages
from smg_simulator.engine.engine import Choice
from smg_simulator.engine.shared_memory import read_shared

CODECS: dict[str, Codec] = {name: row.codec() for name, row in DIALECTS.items()}
SERVED: dict[str, ServerCodec] = {each.service: each for each in server_codecs(rust=False, shared=read_shared)}
DEFAULTS = {"temperature": 1.0, "top_p": 1.0, "top_k": -1, "repetition_penalty": 1.0}
"""What "not asked for" is in a dialect without presence."""
every = pytest.mark.parametrize("name", DIALECTS)
ids_of_a_text = st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=40)


def other_side(codec: Codec) -> ServerCodec:
    return SERVED[codec.generate_path.split("/")[1]]


def no_text(text: str) -> list[int]:
    raise AssertionError("a prompt of ids is not tokenized")


class Scored:
    """Stands where the embedded engine's core does: its logprobs can be foretold."""

    def logprobs(self, choice: Choice, start: int, end: int, most: int) -> list[EngineLogprob]:
        return [EngineLogprob(token, -0.5, ((token, -0.5),)[:most]) for token in choice.ids[start:end]]


def messages(codec: Codec, request: EngineRequest, choice: Choice, step: int) -> list[bytes]:
    made = ChoiceMessages(Scored(), other_side(codec), request, choice, 0, cached=3)  # type: ignore[arg-type]
    written: list[bytes] = []
    while not made.done:
        written += made.step(step)
    return written


def joined(outputs: list[EngineOutput]) -> tuple[list[int], list[int], object]:
    ids = [token for each in outputs for token in each.ids]
    return ids, [row.token_id for each in outputs for row in each.logprobs], outputs[-1].finish


@pytest.mark.full
@pytest.mark.sampled(keep=4)
@every
@given(
    ids=ids_of_a_text,
    cuts=st.lists(st.integers(0, 60), max_size=6),
    step=st.integers(1, 5),
    stream=st.booleans(),
    logprobs=st.sampled_from([None, 1]),
    finish=st.sampled_from(["stop", "length"]),
    id=st.text(max_size=150),
)
def test_an_answer_is_read_as_it_was_meant_however_its_messages_arrive(
    name: str, ids: list[int], cuts: list[int], step: int, stream: bool, logprobs: int | None, finish: Any, id: str
) -> None:
    codec = CODECS[name]
    request = EngineRequest(id, TokenIds([5, 6, 7]), Sampling(max_tokens=99, logprobs=logprobs), stream=stream)
    sent = messages(codec, request, Choice(ids, finish), step)
    edges = [0, *sorted({cut % (len(sent) + 1) for cut in cuts}), len(sent)]
    decoder = codec.decoder(request)
    outputs = [each for a, b in pairwise(edges) if b > a for each in decoder.feed(sent[a:b])]

    assert joined(outputs) == (ids, [] if logprobs is None else ids, finish)
    assert max(each.prompt_tokens for each in outputs) == 3
    assert max(each.cached_tokens for each in outputs) in (3, 0 if name == "mlx" else 3)


@every
@pytest.mark.parametrize("finish", ["stop", "length"])
def test_a_stop_token_matched_where_it_was_asked_for_and_is_among_the_ids(name: str, finish: Any) -> None:
    codec = CODECS[name]
    asked = EngineRequest("r", TokenIds([5]), Sampling(max_tokens=9, stop_token_ids=(8,)))
    matched = 8 if finish == "stop" else None
    outputs = codec.decoder(asked).feed(messages(codec, asked, Choice([7, 8], finish, matched), 1))

    assert joined(outputs) == ([7, 8], [], finish)
    assert outputs[-1].matched == matched


@every
@given(
    ids=ids_of_a_text,
    sampling=st.fixed_dictionaries(
        {"max_tokens": st.integers(1, 2**20)},
        optional={
            "temperature": st.sampled_from([0.0, 0.5, 2.0]),
            "top_p": st.sampled_from([0.25, 1.0]),
            "top_k": st.integers(1, 1000),
            "min_p": st.just(0.25),
            "frequency_penalty": st.sampled_from([-0.5, 0.5]),
            "presence_penalty": st.sampled_from([-0.5, 0.5]),
            "repetition_penalty": st.just(1.5),
            "stop_token_ids": st.tuples(st.integers(0, 2**32 - 1)),
            "ignore_eos": st.just(True),
            "logprobs": st.integers(1, 20),
            "min_tokens": st.integers(1, 99),
            "seed": st.integers(0, 2**31 - 1),
            "logit_bias": st.just({5: -1.0}),
            "stop": st.tuples(st.text(min_size=1, max_size=9)),
        },
    ),
    stream=st.booleans(),
    constraint=st.sampled_from([None, Constraint("regex", "a+"), Constraint("json_schema", "{}")]),
)
def test_a_request_is_understood_as_it_was_meant(
    name: str, ids: list[int], sampling: dict[str, Any], stream: bool, constraint: Constraint | None
) -> None:
    codec = CODECS[name]
    request = EngineRequest("r-1", TokenIds(ids), Sampling(**sampling), stream=stream, constraint=constraint)
    with suppress(UnsupportedParameter):
        got = other_side(codec).request(codec.generate(request), no_text)

        assert (got.id, list(got.input_ids), got.stream, got.constraint) == ("r-1", ids, stream, constraint)
        wanted = asdict(request.sampling)
        told = {key: value for key, value in asdict(got.sampling).items() if value != DEFAULTS.get(key, value)}
        assert {key: asdict(got.sampling)[key] for key in sampling} == {key: wanted[key] for key in sampling}
        assert all(wanted[key] == value for key, value in told.items())


@every
@given(noise=st.binary(max_size=60), scored=st.booleans())
def test_noise_is_read_or_refused_and_nothing_else(name: str, noise: bytes, scored: bool) -> None:
    asked = EngineRequest("r", TokenIds([5]), Sampling(max_tokens=9, logprobs=1 if scored else None))
    with suppress(EngineGarbled):
        CODECS[name].decoder(asked).feed([noise])


@every
@given(data=st.data())
def test_half_a_message_is_read_or_refused_and_nothing_else(name: str, data: st.DataObject) -> None:
    codec = CODECS[name]
    asked = EngineRequest("r", TokenIds([5]), Sampling(max_tokens=9))
    sent = messages(codec, asked, Choice([300, 70_000, 5], "stop"), 1)
    which = data.draw(st.integers(0, len(sent) - 1))
    sent[which] = sent[which][: data.draw(st.integers(0, len(sent[which]) - 1))]
    with suppress(EngineGarbled):
        codec.decoder(asked).feed(sent)


@every
def test_nothing_more_may_come_after_the_end_and_no_choice_that_was_not_asked_for(name: str) -> None:
    codec = CODECS[name]
    asked = EngineRequest("r", TokenIds([5]), Sampling(max_tokens=9))
    sent = messages(codec, asked, Choice([7, 8], "stop"), 1)
    decoder = codec.decoder(asked)
    decoder.feed(sent)
    with pytest.raises(EngineGarbled):
        decoder.feed(sent[:1])

    made = ChoiceMessages(Scored(), other_side(codec), asked, Choice([7], "stop"), 4, cached=0)  # type: ignore[arg-type]
    if codec.facts.fans_out and name == "mlx":
        return  # its messages have no number
    with pytest.raises(EngineGarbled):
        codec.decoder(asked).feed(made.step(1))


@every
def test_the_seed_of_each_choice_is_told_where_there_is_one(name: str) -> None:
    codec = CODECS[name]
    asked = EngineRequest("r", TokenIds([5]), Sampling(max_tokens=9, seed=7))
    if not codec.facts.seed:
        with pytest.raises(UnsupportedParameter):
            codec.generate(asked)
        return
    other = replace(asked, sampling=replace(asked.sampling, seed=8))
    assert codec.generate(asked) != codec.generate(other)
