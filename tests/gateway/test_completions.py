"""Completions, end to end over real gRPC, with the official SDK as the client."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import openai
import pytest
from tests.gateway.conftest import House, in_process, over_http, settled
from tests.gateway.fleet import Member, fleet

import smg_simulator
from smg_core import Gateway
from smg_core.config.config import Config
from smg_core.hooks import RequestFinished
from smg_core.wire.settings import LimitsConfig
from smg_simulator.answers.replies import Reply, Rule
from smg_simulator.engine.engine import SimulatorConfig

pytestmark = pytest.mark.anyio

COMPLETIONS = "/v1/completions"
COUNT = "one two three four five six"


def sdk(house: House) -> openai.AsyncOpenAI:
    if house.url:
        return openai.AsyncOpenAI(base_url=f"{house.url}/v1", api_key="-", max_retries=0)
    http = house.gateway.http_client(openai)
    return openai.AsyncOpenAI(http_client=http, base_url="http://gateway/v1", api_key="-", max_retries=0)


def saying(*texts: str) -> SimulatorConfig:
    return SimulatorConfig(replies=tuple(Reply(text) for text in texts), seed=1)


def knowing(**rules: str) -> SimulatorConfig:
    """An engine whose answer depends on a word of the prompt."""
    return SimulatorConfig(rules=tuple(Rule((word,), Reply(text)) for word, text in rules.items()), seed=1)


async def streamed(client: openai.AsyncOpenAI, **asked: Any) -> tuple[dict[int, str], dict[int, str], Any]:
    """The texts and finish reasons by choice, and the usage."""
    texts: dict[int, str] = {}
    reasons: dict[int, str] = {}
    usage = None
    stream = await client.completions.create(model="sim", stream=True, stream_options={"include_usage": True}, **asked)
    async for chunk in stream:
        usage = chunk.usage or usage
        for choice in chunk.choices:
            assert choice.index not in reasons
            texts[choice.index] = texts.get(choice.index, "") + choice.text
            if choice.finish_reason is not None:
                reasons[choice.index] = choice.finish_reason
    return texts, reasons, usage


async def test_a_text_is_gone_on_with_and_no_template_is_put_around_it(served: Callable[..., Any]) -> None:
    async with served(saying(COUNT, COUNT)) as house, sdk(house) as client:
        answer = await client.completions.create(model="sim", prompt="Count:", max_tokens=50)
        texts, reasons, usage = await streamed(client, prompt="Count:", max_tokens=50)
        prompt = house.gateway.models["sim"].tokenizer.encode("Count:")

    assert answer.id.startswith("cmpl-")
    assert answer.object == "text_completion"
    assert [choice.text for choice in answer.choices] == [COUNT] == list(texts.values())
    assert answer.choices[0].finish_reason == "stop" == reasons[0]
    assert answer.usage.prompt_tokens == len(prompt)
    assert usage == answer.usage


async def test_without_max_tokens_there_are_sixteen() -> None:
    async with in_process(saying("word " * 40)) as house, sdk(house) as client:
        answer = await client.completions.create(model="sim", prompt="Go")

    assert (answer.choices[0].finish_reason, answer.usage.completion_tokens) == ("length", 16)


@pytest.mark.sampled(keep=2)
@pytest.mark.parametrize("stream", [False, True])
async def test_each_of_several_prompts_has_its_choices_numbered_in_order(
    stream: bool, served: Callable[..., Any]
) -> None:
    engine = knowing(alpha="A.", beta="B.", gamma="C.")
    asked: dict[str, Any] = {"prompt": ["alpha", "beta", "gamma"], "n": 2, "temperature": 0, "max_tokens": 9}
    async with served(engine) as house, sdk(house) as client:
        if stream:
            texts, reasons, usage = await streamed(client, **asked)
        else:
            answer = await client.completions.create(model="sim", **asked)
            texts = {choice.index: choice.text for choice in answer.choices}
            reasons = {choice.index: choice.finish_reason for choice in answer.choices}
            usage = answer.usage
            assert list(texts) == [0, 1, 2, 3, 4, 5]
        finished = [moment for moment in house.observer.moments if isinstance(moment, RequestFinished)]
        await settled(house)

    assert texts == {0: "A.", 1: "A.", 2: "B.", 3: "B.", 4: "C.", 5: "C."}
    assert set(reasons.values()) == {"stop"}
    assert [(each.outcome, each.attempts, each.completion_tokens) for each in finished] == [
        ("ok", 3, usage.completion_tokens)
    ]


async def test_token_ids_are_one_prompt_and_lists_of_them_are_several() -> None:
    async with in_process(knowing(alpha="A.", beta="B.")) as house, sdk(house) as client:
        tokenizer = house.gateway.models["sim"].tokenizer
        alpha, beta = list(tokenizer.encode("alpha")), list(tokenizer.encode("beta"))
        one = await client.completions.create(model="sim", prompt=alpha)
        two = await client.completions.create(model="sim", prompt=[alpha, beta])

    assert [choice.text for choice in one.choices] == ["A."]
    assert [choice.text for choice in two.choices] == ["A.", "B."]
    assert two.usage.prompt_tokens == len(alpha) + len(beta)


@pytest.mark.full
@pytest.mark.sampled(keep=2)
@pytest.mark.parametrize("dialect", ["vllm", "neutral"])
@pytest.mark.parametrize("stream", [False, True])
async def test_an_echo_scores_the_prompt_too_on_every_dialect(dialect: str, stream: bool) -> None:
    prompt = "Grüße 🙂 aus"
    async with fleet(Member("a", dialect, saying("Zürich."))) as house, sdk(house) as client:
        asked: dict[str, Any] = {"model": "sim", "prompt": prompt, "echo": True, "logprobs": 2, "n": 2}
        found: dict[int, tuple[str, list[Any], list[Any], list[Any], list[Any]]] = {}
        pieces: list[Any] = (
            [
                choice
                async for chunk in await client.completions.create(stream=True, **asked)
                for choice in chunk.choices
            ]
            if stream
            else list((await client.completions.create(**asked)).choices)
        )
        for piece in pieces:
            text, *lists = found.get(piece.index, ("", [], [], [], []))
            if piece.logprobs is not None:
                given = piece.logprobs
                new = [given.tokens, given.token_logprobs, given.top_logprobs, given.text_offset]
                lists = [[*old, *more] for old, more in zip(lists, new, strict=True)]
            found[piece.index] = (text + piece.text, *lists)  # type: ignore[assignment]
        count = len(house.gateway.models["sim"].tokenizer.encode(prompt))

    assert set(found) == {0, 1}
    for text, tokens, logprobs, tops, offsets in found.values():
        assert text.startswith(prompt)
        assert len(tokens) == len(logprobs) == len(tops) == len(offsets) > count
        assert (logprobs[0], tops[0], offsets[0]) == (None, None, 0)
        assert all(value <= 0 for value in logprobs[1:])
        assert all(2 <= len(top) <= 3 for top in tops[1:])
        assert offsets == sorted(offsets)
        for token, offset in zip(tokens, offsets, strict=True):
            assert token.startswith("bytes:") or text[offset:].startswith(token)


async def test_an_echo_without_any_token_scores_the_prompt_alone() -> None:
    async with in_process(saying("Not to be seen.")) as house, sdk(house) as client:
        answer = await client.completions.create(model="sim", prompt="one two", max_tokens=0, echo=True, logprobs=0)
        texts, reasons, usage = await streamed(client, prompt="one two", max_tokens=0, echo=True)
        await settled(house)

    assert answer.choices[0].text == "one two" == texts[0]
    assert "".join(answer.choices[0].logprobs.tokens) == "one two"
    assert (answer.choices[0].finish_reason, reasons[0]) == ("length", "length")
    assert (answer.usage.completion_tokens, usage.completion_tokens) == (0, 0)


async def test_the_likeliest_of_several_are_kept() -> None:
    asked: dict[str, Any] = {"model": "sim", "prompt": "Go", "temperature": 1.0, "seed": 7, "max_tokens": 8}
    async with in_process() as house, sdk(house) as client:
        all_of_them = await client.completions.create(n=4, logprobs=0, **asked)
        best = await client.completions.create(n=2, best_of=4, **asked)

    def mean(choice: Any) -> float:
        return float(sum(choice.logprobs.token_logprobs) / len(choice.logprobs.token_logprobs))

    wanted = sorted(all_of_them.choices, key=mean, reverse=True)[:2]
    assert [choice.text for choice in best.choices] == [choice.text for choice in wanted]
    assert [choice.index for choice in best.choices] == [0, 1]
    assert best.choices[0].logprobs is None
    assert best.usage.completion_tokens == all_of_them.usage.completion_tokens


async def test_offsets_without_an_echo_go_on_behind_the_prompt() -> None:
    async with in_process(saying("six seven")) as house, sdk(house) as client:
        answer = await client.completions.create(model="sim", prompt="five ", logprobs=1)

    assert answer.choices[0].logprobs.text_offset[0] == len("five ")


async def test_a_prompt_is_cut_at_the_front_where_that_is_asked_for() -> None:
    async with in_process(saying("Yes.", "Yes.")) as house, sdk(house) as client:
        cut = await client.completions.create(
            model="sim", prompt="one two three four", echo=True, max_tokens=0, extra_body={"truncate_prompt_tokens": 2}
        )
        long = await client.completions.create(
            model="sim", prompt="word " * 40_000, max_tokens=3, extra_body={"truncate_prompt_tokens": -1}
        )
        context = house.gateway.models["sim"].context_length

    assert cut.choices[0].text == " three four"
    assert cut.usage.prompt_tokens == 2
    assert long.usage.prompt_tokens == context - 3


def trained_to_fill_in(folder: Path) -> SimulatorConfig:
    """The simulator's own model, with tokens for filling in a text."""
    shutil.copytree(Path(smg_simulator.__file__).parent / "model", folder)
    file = folder / "tokenizer.json"
    tokenizer = json.loads(file.read_text())
    first = 1 + max(*(token["id"] for token in tokenizer["added_tokens"]), *tokenizer["model"]["vocab"].values())
    plain = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    for place, name in enumerate(("<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>")):
        tokenizer["added_tokens"].append({"id": first + place, "content": name, **plain})
    file.write_text(json.dumps(tokenizer))
    asked = "<|fim_prefix|>def f({prefix}):<|fim_suffix|>    return x<|fim_middle|>"
    return SimulatorConfig(model_folder=str(folder), rules=(Rule((asked,), Reply("x")),))


async def test_a_text_is_filled_in_by_the_models_own_tokens_and_the_suffix_is_not_repeated(tmp_path: Path) -> None:
    async with in_process(trained_to_fill_in(tmp_path / "model")) as house, sdk(house) as client:
        answer = await client.completions.create(model="sim", prompt="def f({prefix}):", suffix="    return x")

    assert answer.choices[0].text == "x"


async def test_an_answer_is_held_to_a_format() -> None:
    async with in_process() as house, sdk(house) as client:
        answer = await client.completions.create(
            model="sim", prompt="Say", extra_body={"guided_choice": ["red", "green"]}
        )

    assert answer.choices[0].text in ("red", "green")


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"prompt": ""}, "prompt"),
    ({"prompt": []}, "prompt"),
    ({"prompt": ["a", ""]}, "prompt[1]"),
    ({"prompt": ["a", [1]]}, "prompt"),
    ({"prompt": ["a", 1]}, "prompt"),
    ({"prompt": [10**9]}, "prompt"),
    ({"prompt": [[1], [10**9]]}, "prompt[1]"),
    ({"prompt": [-1]}, "prompt[0]"),
    ({"max_tokens": 0}, "max_tokens"),
    ({"max_tokens": 10**9}, "max_tokens"),
    ({"n": 2, "best_of": 1}, "best_of"),
    ({"n": 1, "best_of": 2, "stream": True}, "best_of"),
    ({"n": 1000}, "n"),
    ({"best_of": 1000}, "best_of"),
    ({"logprobs": 1000}, "logprobs"),
    ({"suffix": "end"}, "suffix"),
    ({"suffix": "end", "echo": True}, "echo"),
    ({"suffix": "end", "prompt": [1, 2]}, "suffix"),
    ({"prompt_logprobs": 1}, "prompt_logprobs"),
    ({"priority": 1}, "priority"),
    ({"stream_options": {"include_usage": True}}, "stream_options"),
    ({"stop": ["a"] * 100}, "stop"),
    ({"logit_bias": {"1000000000": 1}}, "logit_bias"),
    (
        {"response_format": {"type": "json_schema", "json_schema": {"name": "a b", "schema": {}}}},
        "response_format.json_schema.name",
    ),
    ({"messages": []}, "messages"),
    ({"model": "nobody"}, "model"),
]


@pytest.mark.parametrize(("fields", "param"), REFUSED, ids=[json.dumps(fields)[:60] for fields, _ in REFUSED])
async def test_a_refusal_names_the_field_of_the_body(fields: dict[str, Any], param: str, house: House) -> None:
    answer = await house.http.post(COMPLETIONS, json={"model": "sim", "prompt": "Go", **fields})

    assert answer.status_code in (400, 404)
    error = answer.json()["error"]
    assert error["param"] == param
    if "requests[" in error["message"] or "sampling." in error["message"]:
        pytest.fail(error["message"])


@pytest.fixture(scope="module")
async def house() -> Any:
    async with in_process() as made:
        yield made


async def test_more_choices_than_one_request_may_have_are_refused() -> None:
    config = Config(limits=LimitsConfig(completion_choices=5))
    async with in_process(config=config) as house:
        answer = await house.http.post(COMPLETIONS, json={"model": "sim", "prompt": ["a"] * 3, "n": 2})

    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "prompt")


async def test_prompts_over_what_is_worked_on_at_once_wait_and_are_answered() -> None:
    config = Config(limits=LimitsConfig(prompts_at_once=2))
    async with in_process(config=config) as house, sdk(house) as client:
        answer = await client.completions.create(model="sim", prompt=[f"p{n}" for n in range(9)], max_tokens=2)

    assert [choice.index for choice in answer.choices] == list(range(9))


async def test_the_first_prompt_that_fails_ends_all(served: Callable[..., Any]) -> None:
    async with served() as house:
        context = house.gateway.models["sim"].context_length
        prompts = ["short", [5] * (context + 1)]
        whole = await house.http.post(COMPLETIONS, json={"model": "sim", "prompt": [[5], prompts[1]]})
        await settled(house)

    assert (whole.status_code, whole.json()["error"]["param"]) == (400, "prompt[1]")


async def test_a_server_of_chat_completions_takes_no_prompt() -> None:
    async with over_http() as far, Gateway([far.url]) as gateway, gateway.http_client(openai) as http:
        client = openai.AsyncOpenAI(http_client=http, base_url="http://gateway/v1", api_key="-", max_retries=0)
        with pytest.raises(openai.BadRequestError) as refused:
            await client.completions.create(model="sim", prompt="Go")

    assert refused.value.param == "prompt"
