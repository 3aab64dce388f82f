"""`return_token_ids` on Chat and Completions: the ids of the prompt and of all tokens of the answer, whatever becomes of them."""

import json
from typing import Any

import httpx
import pytest
from tests.gateway.conftest import House, body, in_process, over_http
from tests.gateway.fleet import CALM

from smg_core import Config, Gateway
from smg_core.sse import SseReader
from smg_core.workers.settings import WorkersConfig
from smg_simulator.answers.faults import Fault
from smg_simulator.answers.replies import Reply
from smg_simulator.engine.engine import SimulatorConfig

pytestmark = pytest.mark.anyio

TOOL = {"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object"}}}
CALL = Reply("<think>Which city?</think>Let me look. ", tool_calls=(("get_weather", {"city": "Paris"}),))
REPLIES = {
    "text": (Reply("one two three"), {}),
    "a call": (CALL, {"tools": [TOOL]}),
    "a stop string": (Reply("one two three four"), {"stop": ["thr"]}),
    "logprobs": (Reply("one two"), {"logprobs": True, "top_logprobs": 1}),
    "a limit": (Reply("one two three four five"), {"max_tokens": 3}),
    "nothing": (Reply(""), {}),
}
cases = pytest.mark.parametrize("case", REPLIES)


async def asked(
    house: House, path: str, asked: dict[str, Any], *, stream: bool
) -> tuple[list[int], dict[int, list[int]]]:
    """The ids of the prompt, and of each choice."""
    answer = await house.http.post(path, json={**asked, "return_token_ids": True, "stream": stream})
    assert answer.status_code == 200, answer.text
    if stream:
        datas = [event.data for event in SseReader().feed(answer.content)]
        bodies = [json.loads(each) for each in datas[:-1]]
    else:
        bodies = [answer.json()]
    prompts = [each["prompt_token_ids"] for each in bodies if "prompt_token_ids" in each]
    ids: dict[int, list[int]] = {}
    for each in bodies:
        for choice in each["choices"]:
            ids.setdefault(choice["index"], []).extend(choice.get("token_ids") or ())
            prompts += [choice["prompt_token_ids"]] if "prompt_token_ids" in choice else []
    assert len({tuple(each) for each in prompts}) == 1
    assert len(prompts) == (1 if "chat" in path else len(ids))
    return prompts[0], ids


@pytest.mark.sampled(keep=3)
@cases
@pytest.mark.parametrize("dialect", ["vllm", "mlx"])
async def test_the_ids_of_a_chat_are_those_that_the_engine_made_streamed_and_whole(case: str, dialect: Any) -> None:
    reply, fields = REPLIES[case]
    told = []
    async with in_process(config=Config(workers=WorkersConfig(dialect=dialect))) as house:
        for stream in (False, True):
            house.engine.say(reply)
            prompt, ids = await asked(house, "/v1/chat/completions", body("Hello", **fields), stream=stream)
            assert prompt == list(house.engine.requests[-1].input_ids)
            told.append(ids[0])
        (vocabulary,) = [house.engine.engine.vocabulary]
    assert told[0] == told[1]
    text = vocabulary.decode(told[0])
    if case == "a stop string":
        assert "thr" in text
        assert "four" not in text
    elif case == "a call":
        assert "Which city?" in text
        assert "Paris" in text
        assert told[0][-1] in vocabulary.eos_ids
    elif case == "a limit":
        assert len(told[0]) == 3
    else:
        assert told[0][-1] in vocabulary.eos_ids


@pytest.mark.full
@pytest.mark.sampled(keep=5)
@pytest.mark.parametrize(
    "fields", [{}, {"stop": ["never", "answer END"]}, {"logprobs": True}], ids=["text", "stops", "logprobs"]
)
@pytest.mark.parametrize("lost", [False, True], ids=["kept", "lost"])
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
async def test_the_ids_of_a_chat_whose_reasoning_was_closed_are_those_that_the_model_saw(
    stream: bool, lost: bool, fields: dict[str, Any]
) -> None:
    async with in_process(engines=2, config=CALM) as house:
        house.engine.say(Reply("never said", "one two three four five six seven eight nine ten"))
        (house.engines[1] if lost else house.engine).say(Reply("The answer END is here."))
        house.engine.inject(*[None, Fault("refuse")] if lost else [])
        sent = body("Hello", thinking_budget=4, **fields)
        prompt, ids = await asked(house, "/v1/chat/completions", sent, stream=stream)
        first = house.engine.requests[0]
        last = house.engines[lost].requests[-1]
        vocabulary = house.engine.engine.vocabulary

    known = [*prompt, *ids[0]]
    assert prompt == list(first.input_ids)
    assert known[: len(last.input_ids)] == list(last.input_ids)
    assert vocabulary.decode(ids[0]).count("</think>") == 1
    assert len(known) > len(last.input_ids)


@pytest.mark.parametrize("stream", [False, True])
async def test_each_choice_of_a_completion_has_its_ids(stream: bool) -> None:
    asked_for = {"model": "sim", "prompt": [[5, 6, 7]], "n": 2, "max_tokens": 4, "temperature": 1.0, "ignore_eos": True}
    async with in_process(SimulatorConfig(chained=1000)) as house:
        prompt, ids = await asked(house, "/v1/completions", asked_for, stream=stream)
        assert prompt == [5, 6, 7]
        assert [len(each) for each in ids.values()] == [4, 4]


@pytest.mark.parametrize("api", ["chat", "completions"])
@pytest.mark.parametrize("stream", [False, True])
async def test_nothing_is_told_where_it_is_not_asked_for(api: str, stream: bool) -> None:
    async with in_process(SimulatorConfig()) as house:
        fields = {"messages": [{"role": "user", "content": "Hi"}]} if api == "chat" else {"prompt": "Hi"}
        path = "/v1/chat/completions" if api == "chat" else "/v1/completions"
        for more in ({}, {"return_token_ids": False}, {"return_token_ids": None}):
            answer = await house.http.post(
                path, json={"model": "sim", "stream": stream, "max_tokens": 5, **fields, **more}
            )
            assert answer.status_code == 200
            assert "token_ids" not in answer.text


async def test_an_engine_that_speaks_chat_has_no_ids_to_tell() -> None:
    async with over_http(SimulatorConfig()) as far, Gateway([far.url], config=Config()) as gateway:
        await gateway.ready()
        async with gateway.http_client(httpx, base_url="http://gateway") as http:
            answer = await http.post("/v1/chat/completions", json=body("Hello", return_token_ids=True))
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "return_token_ids"


@pytest.mark.parametrize("stream", [False, True])
async def test_turns_of_a_rollout_are_made_of_the_ids_that_were_told(stream: bool) -> None:
    """The first turn is made of messages; the next ones of its ids, and of the ids of what comes next: nothing that the engine
    made is tokenized anew."""
    async with in_process(SimulatorConfig(chained=1000)) as house:
        first = body("Hello", max_tokens=9, ignore_eos=True)
        prompt, ids = await asked(house, "/v1/chat/completions", first, stream=stream)
        known = [*prompt, *ids[0]]
        for number in range(3):
            known += [7 + number, 260, 261]
            turn = {"model": "sim", "prompt": known, "max_tokens": 9, "ignore_eos": True}
            prompt, ids = await asked(house, "/v1/completions", turn, stream=stream)
            assert prompt == known == list(house.engine.requests[-1].input_ids)
            assert len(ids[0]) == 9
            known = [*known, *ids[0]]
