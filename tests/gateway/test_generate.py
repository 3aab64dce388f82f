"""SGLang's `/generate`, end to end over real gRPC; answers are read as the types that `/openapi.json` shows."""

import json
from collections.abc import AsyncIterator
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.gateway.conftest import House, in_process, settled
from tests.gateway.fleet import Member, fleet

from smg_core.apis.sglang.answer_types import SglangAnswer
from smg_core.apis.sglang.decode import decode_sglang
from smg_core.apis.sglang.encode import SglangStreamEncoder, SglangWholeEncoder
from smg_core.events import Done, Event, Finished, Started, TextDelta, TextEnd, TokenLogprob, TopLogprob, Usage
from smg_core.sse import SseReader
from smg_core.wire.base import Incoming
from smg_simulator.answers.replies import Reply, Rule
from smg_simulator.engine.engine import SimulatorConfig

pytestmark = pytest.mark.anyio

SAID = "Grüße 🙂 one two three"


def saying(*texts: str) -> SimulatorConfig:
    return SimulatorConfig(replies=tuple(Reply(text) for text in texts), seed=1)


def knowing(**rules: str) -> SimulatorConfig:
    """An engine whose answer depends on a word of the prompt."""
    return SimulatorConfig(rules=tuple(Rule((word,), Reply(text)) for word, text in rules.items()), seed=1)


def chunks_of(data: bytes) -> list[SglangAnswer]:
    *events, last = SseReader().feed(data)
    assert last.data == "[DONE]"
    return [msgspec.json.decode(event.data, type=SglangAnswer) for event in events]


async def generated(house: House, **body: Any) -> list[SglangAnswer]:
    """The answers, in order. A stream's chunks each have all that came before."""
    answer = await house.http.post("/generate", json=body)
    assert answer.status_code == 200, answer.text
    if not body.get("stream"):
        return msgspec.json.decode(answer.content, type=list[SglangAnswer] | SglangAnswer, strict=True)  # type: ignore[return-value]
    last: dict[int, SglangAnswer] = {}
    for chunk in chunks_of(answer.content):
        place = 0 if chunk.index is msgspec.UNSET else chunk.index
        before = last.get(place)
        assert before is None or before.meta_info.finish_reason is None
        assert before is None or chunk.text.startswith(before.text)
        assert before is None or chunk.output_ids[: len(before.output_ids)] == before.output_ids
        last[place] = chunk
    return [last[place] for place in sorted(last)]


@pytest.fixture(scope="module")
async def house() -> AsyncIterator[House]:
    async with in_process() as made:
        yield made


async def test_a_text_is_gone_on_with_and_its_token_ids_are_told() -> None:
    async with in_process(saying(SAID, SAID)) as house:
        whole: Any = await generated(house, text="Go on")
        (streamed,) = await generated(house, text="Go on", stream=True)
        tokenizer = house.gateway.models["sim"].tokenizer
        spoken = tokenizer.decode(whole.output_ids, skip_special_tokens=True)
        await settled(house)

    assert whole.text == SAID == streamed.text == spoken
    assert whole.output_ids == streamed.output_ids
    for each in (whole, streamed):
        assert each.meta_info.finish_reason.type == "stop"
        assert each.meta_info.completion_tokens == len(each.output_ids)
        assert each.meta_info.prompt_tokens == len(tokenizer.encode("Go on"))


@pytest.mark.parametrize("stream", [False, True])
async def test_a_list_gives_a_list_in_the_order_of_its_prompts(stream: bool) -> None:
    async with in_process(knowing(alpha="A.", beta="B.")) as house:
        ids = [list(house.gateway.models["sim"].tokenizer.encode(word)) for word in ("beta", "alpha")]
        named = await generated(house, text=["alpha", "beta"], rid=["first", "second"], stream=stream)
        twice = await generated(house, input_ids=ids, sampling_params={"n": 2, "temperature": 0}, stream=stream)
        alone = await generated(house, text=["alpha"], rid="mine", stream=stream)

    assert [(each.text, each.meta_info.id) for each in named] == [("A.", "first"), ("B.", "second")]
    assert [each.text for each in twice] == ["B.", "B.", "A.", "A."]
    assert len({each.meta_info.id for each in twice}) == 4
    assert [(each.text, each.meta_info.id) for each in alone] == [("A.", "mine_0")]


@pytest.mark.parametrize("dialect", ["vllm", "neutral"])
@pytest.mark.parametrize("stream", [False, True])
async def test_logprobs_of_the_prompt_and_of_the_answer_are_rows_of_logprob_id_and_text(
    dialect: str, stream: bool
) -> None:
    asked = {"return_logprob": True, "logprob_start_len": 1, "top_logprobs_num": 2, "return_text_in_logprobs": True}
    async with fleet(Member("a", dialect, saying("Zürich."))) as house:
        found: Any = await generated(house, text="Grüße 🙂 aus", stream=stream, **asked)
        prompt = list(house.gateway.models["sim"].tokenizer.encode("Grüße 🙂 aus"))
    answer = found[0] if stream else found

    meta = answer.meta_info
    assert answer.text == "Zürich."
    assert [token for _, token, _ in meta.input_token_logprobs] == prompt[1:]
    assert [token for _, token, _ in meta.output_token_logprobs] == answer.output_ids
    assert meta.output_token_logprobs_length == len(answer.output_ids) == len(meta.output_top_logprobs)
    assert meta.input_token_logprobs[0][0] is None is meta.input_top_logprobs[0]
    assert all(logprob <= 0 for logprob, _, _ in [*meta.input_token_logprobs[1:], *meta.output_token_logprobs])
    assert all(len(top) == 2 and isinstance(top[0][2], str) for top in meta.output_top_logprobs)


async def test_no_new_tokens_score_the_prompt_alone() -> None:
    async with in_process() as house:
        settings = {"max_new_tokens": 0}
        scored: Any = await generated(
            house, text="One two", sampling_params=settings, return_logprob=True, logprob_start_len=0
        )
        nothing: Any = await generated(house, text="One two", sampling_params=settings)

    assert (scored.text, scored.output_ids, scored.meta_info.completion_tokens) == ("", [], 0)
    assert len(scored.meta_info.input_token_logprobs) == scored.meta_info.prompt_tokens
    assert (nothing.text, nothing.output_ids) == ("", [])
    assert nothing.meta_info.finish_reason.type == "length"


@pytest.mark.parametrize("stream", [False, True])
async def test_a_stop_string_ends_text_and_ids_at_the_same_token(stream: bool) -> None:
    async with in_process(saying(SAID, SAID)) as house:
        found: Any = await generated(house, text="Go", sampling_params={"stop": "two"}, stream=stream)
        answer = found[0] if stream else found
        spoken = house.gateway.models["sim"].tokenizer.decode(answer.output_ids, skip_special_tokens=True)

    assert answer.text == "Grüße 🙂 one "
    assert answer.meta_info.finish_reason.matched == "two"
    assert spoken == "Grüße 🙂 one two"


@pytest.mark.full
async def test_each_prompt_may_have_settings_of_its_own() -> None:
    async with in_process(saying("word " * 40, "word " * 40)) as house:
        found = await generated(
            house,
            text=["a", "b"],
            sampling_params=[{"max_new_tokens": 2}, {"max_new_tokens": 5}],
            return_logprob=[True, False],
        )

    assert [len(each.output_ids) for each in found] == [2, 5]
    assert [each.meta_info.output_token_logprobs is msgspec.UNSET for each in found] == [False, True]


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({}, "text"),
        ({"text": "a", "input_ids": [1]}, "text"),
        ({"text": ""}, "text"),
        ({"text": []}, "text"),
        ({"text": ["a", ""]}, "text[1]"),
        ({"input_ids": [1, [2]]}, "input_ids"),
        ({"input_ids": [-1]}, "input_ids[0]"),
        ({"input_ids": [99999999]}, "input_ids"),
        ({"input_ids": [[1], [99999999]]}, "input_ids[1]"),
        ({"text": "a", "sampling_params": {"max_tokens": 5}}, "sampling_params.max_tokens"),
        (
            {"text": "a", "sampling_params": {"max_new_tokens": 2, "min_new_tokens": 3}},
            "sampling_params.min_new_tokens",
        ),
        ({"text": "a", "sampling_params": {"top_p": 0}}, "sampling_params.top_p"),
        ({"text": "a", "sampling_params": {"stop": ["", "b"]}}, "sampling_params.stop[0]"),
        ({"text": "a", "sampling_params": {"logit_bias": {"99999999": 1}}}, "sampling_params.logit_bias"),
        ({"text": "a", "sampling_params": {"json_schema": "{"}}, "sampling_params.json_schema"),
        ({"text": "a", "sampling_params": {"regex": "a", "ebnf": "b"}}, "sampling_params.ebnf"),
        ({"text": "a", "sampling_params": {"stop_regex": "a"}}, "sampling_params.stop_regex"),
        ({"text": "a", "sampling_params": {"beam_width": 2}}, "sampling_params.beam_width"),
        ({"text": ["a", "b"], "sampling_params": [{}]}, "sampling_params"),
        ({"text": ["a", "b"], "sampling_params": [{"n": 1}, {"n": 2}]}, "sampling_params"),
        ({"text": ["a", "b"], "rid": ["x", "x"]}, "rid"),
        ({"text": "a", "return_logprob": True, "top_logprobs_num": 999}, "top_logprobs_num"),
        ({"text": "a", "image_data": ["data:image/png;base64,AA=="]}, "image_data"),
        ({"text": "a", "lora_path": "x"}, "lora_path"),
        ({"text": "a", "priority": 3}, "priority"),
        ({"text": "a", "return_hidden_states": True}, "return_hidden_states"),
        ({"text": "a", "sampling_params": {"max_new_tokens": 10**8}}, "sampling_params.max_new_tokens"),
    ],
    ids=json.dumps,
)
async def test_what_cannot_be_done_is_refused_by_the_name_of_its_field(
    house: House, body: dict[str, Any], param: str
) -> None:
    answer = await house.http.post("/generate", json=body)

    assert answer.status_code == 400, answer.text
    assert answer.json()["error"]["param"] == param


async def test_a_body_names_its_model_only_where_several_are_served() -> None:
    async with fleet(
        Member("a", "vllm", SimulatorConfig(model="one")), Member("b", "vllm", SimulatorConfig(model="two"))
    ) as house:
        unnamed = await house.http.post("/generate", json={"text": "a"})
        unknown = await house.http.post("/generate", json={"text": "a", "model": "three"})
        named = await house.http.post("/generate", json={"text": "a", "model": "two"})

    assert (unnamed.status_code, unnamed.json()["error"]["param"]) == (400, "model")
    assert unknown.status_code == 404
    assert named.status_code == 200


# ----------------------------------------------------------------------------------------------------------- encoders


TEXTS = st.text(max_size=6)
NUMBERS = st.floats(max_value=0, allow_nan=False)
TOPS = st.lists(st.builds(TopLogprob, TEXTS, st.binary(max_size=3), NUMBERS, st.integers(0, 9)), max_size=2).map(tuple)
TOKENS = st.builds(TokenLogprob, TEXTS, st.binary(max_size=3), NUMBERS, TOPS, st.integers(0, 9))
DELTAS = st.lists(
    st.tuples(TEXTS, st.lists(TOKENS, min_size=1, max_size=2).map(tuple)).map(
        lambda told: TextDelta(0, told[0], told[1], tuple(each.id or 0 for each in told[1]))
    ),
    max_size=6,
)


@pytest.mark.full
@given(deltas=DELTAS, cuts=st.lists(st.integers(0, 8), max_size=3))
def test_a_stream_ends_with_the_whole_answer_however_it_is_cut(deltas: list[TextDelta], cuts: list[int]) -> None:
    body = {"text": "a", "return_logprob": True, "top_logprobs_num": 2, "return_text_in_logprobs": True}
    request = decode_sglang(Incoming(json.dumps(body).encode(), "r"), lambda name: "sim")
    ends: list[Event] = [*([TextEnd(0)] if deltas else []), Finished(0, "length"), Usage(3, len(deltas)), Done()]
    events: list[Event] = [Started(3, 0, "sim"), *deltas, *ends]
    whole, stream = SglangWholeEncoder(request, 0), SglangStreamEncoder(request, 0)

    whole.add(events)
    edges = sorted({0, *cuts, len(events)})
    frames = b"".join(stream.encode(events[start:end]) for start, end in pairwise(edges))

    assert chunks_of(frames)[-1] == msgspec.json.decode(whole.body(), type=SglangAnswer)


async def test_a_put_is_answered_as_a_post() -> None:
    async with in_process(saying("Yes.", "Yes.")) as house:
        put = await house.http.put("/generate", json={"text": "a"})
        posted = await house.http.post("/generate", json={"text": "a"})
        gone = await house.http.put("/v1/completions", json={"prompt": "a"})

    assert put.status_code == 200
    assert put.json()["text"] == posted.json()["text"] == "Yes."
    assert gone.status_code == 405


def test_the_prompts_logprobs_make_no_chunks_of_their_own() -> None:
    body = b'{"text":"a","model":"m","return_logprob":true,"logprob_start_len":1,"stream":true}'
    request = decode_sglang(Incoming(body, "r"), lambda name: name)
    encoder = SglangStreamEncoder(request, 1)
    rows = [TokenLogprob(f"{number}", b"", -float(number) - 1, id=number) for number in range(6)]
    parts = [TextDelta(0, "p", tuple(rows[start : start + 2]), echo=True) for start in (0, 2, 4)]
    brought = [encoder.encode([event]) for event in (Started(6, None, "m"), *parts)]
    (chunk,) = SseReader().feed(encoder.encode([TextDelta(0, "t", (rows[0],), (9,))]))
    meta = json.loads(chunk.data)["meta_info"]

    assert brought == [b""] * 4
    assert [token for _, token, _ in meta["input_token_logprobs"]] == [1, 2, 3, 4, 5]
    assert [row[0] is None for row in meta["input_token_logprobs"]] == [True, False, False, False, False]
