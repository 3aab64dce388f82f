"""One model served by engines of several dialects: the answer is the same whoever joined first and whoever is chosen."""

import itertools
import json
from typing import Any

import attrs
import pytest
from tests.gateway.conftest import CHAT, House, settled
from tests.gateway.fleet import Member, Prefer, fleet, removed_from
from tests.gateway.test_failures import taken_apart
from tests.gateway.vision_models import image_part, picture, qwen2_vl, text_part

from smg_core.hooks import Retrying
from smg_simulator.answers.faults import Fault
from smg_simulator.answers.replies import Reply, Rule
from smg_simulator.engine.engine import SimulatorConfig

pytestmark = pytest.mark.anyio

ORDERS = list(itertools.permutations(("vllm", "neutral")))
CHOSEN = ["vllm", "neutral"]
in_every_order = pytest.mark.parametrize("order", ORDERS, ids="+".join)
whoever_is_chosen = pytest.mark.parametrize("chosen", CHOSEN)

WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}
SCHEMA = {
    "type": "json_schema",
    "json_schema": {
        "name": "answer",
        "strict": True,
        "schema": {
            "type": "object",
            "properties": {"yes": {"type": "boolean"}, "why": {"type": "string"}},
            "required": ["yes", "why"],
            "additionalProperties": False,
        },
    },
}


@pytest.fixture(scope="module")
def qwen(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(qwen2_vl(tmp_path_factory.mktemp("mixed") / "qwen"))


def mixed(order: tuple[str, ...], chosen: str = "", config: SimulatorConfig | None = None, **more: Any) -> Any:
    """A fleet of one engine for each dialect of `order`, each called like its dialect."""
    members = [Member(name, name, more.pop(name, config or SimulatorConfig())) for name in order]
    return fleet(*members, policy=more.pop("policy", None) or Prefer(chosen), **more)


async def ask(house: House, content: Any = "What do you see?", **fields: Any) -> dict[str, Any]:
    """What was answered, less what is the request's own."""
    body = {"model": "sim", "messages": [{"role": "user", "content": content}], **fields}
    answer = await house.http.post(CHAT, json=body)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    for choice in found["choices"]:
        for call in choice["message"].get("tool_calls") or ():
            call["id"] = ""
    return {
        "choices": found["choices"],
        "counts": [found["usage"][f"{each}_tokens"] for each in ("prompt", "completion")],
    }


async def streamed(house: House, **fields: Any) -> dict[int, str]:
    """The text of each choice of a stream."""
    answer = await house.chat(stream=True, **fields)
    assert answer.status_code == 200, answer.text
    texts: dict[int, str] = {}
    for line in answer.text.splitlines():
        if line.startswith("data: {"):
            for choice in json.loads(line.removeprefix("data: "))["choices"]:
                texts[choice["index"]] = texts.get(choice["index"], "") + (choice["delta"].get("content") or "")
    assert answer.text.endswith("data: [DONE]\n\n")
    return texts


REFERENCE: dict[str, Any] = {}
"""What each question was answered with first; all other fleets and choices must give the same."""


def same(question: str, answer: Any) -> None:
    assert answer == REFERENCE.setdefault(question, answer)


def asked_of(house: House) -> list[int]:
    """How many requests each engine has had, in the order of the workers' names."""
    workers = {worker.name: engine for worker, engine in zip(house.gateway.registry, house.engines, strict=True)}
    return [workers[name].counters["requests"] for name in sorted(workers)]


# --------------------------------------------------------------------------------------------------------- the same answer


@pytest.mark.sampled(keep=3)
@in_every_order
@whoever_is_chosen
async def test_several_choices_at_temperature_zero_are_the_same_text_from_every_engine(
    order: tuple[str, ...], chosen: str
) -> None:
    async with mixed(order, chosen) as house:
        whole = await ask(house, n=3, temperature=0)
        texts = await streamed(house, n=3, temperature=0)

    assert [choice["index"] for choice in whole["choices"]] == [0, 1, 2]
    assert len({choice["message"]["content"] for choice in whole["choices"]}) == 1
    assert len(set(texts.values())) == 1
    assert sorted(texts) == [0, 1, 2]
    same("greedy", (whole["choices"], texts))


@in_every_order
@whoever_is_chosen
async def test_several_sampled_choices_are_the_same_from_every_engine(order: tuple[str, ...], chosen: str) -> None:
    async with mixed(order, chosen) as house:
        answer = await ask(house, n=3, temperature=0.9, seed=7, max_tokens=20)

    assert len(answer["choices"]) == 3
    same("sampled", answer)


@in_every_order
@whoever_is_chosen
async def test_nothing_said_of_sampling_means_the_same_for_every_engine(order: tuple[str, ...], chosen: str) -> None:
    async with mixed(order, chosen) as house:
        await ask(house, seed=3)
        sampled = [request.sampling for engine in house.engines for request in engine.requests]

    (only,) = sampled
    assert (round(only.temperature or 0, 3), round(only.top_p or 0, 3)) == (0.7, 0.9)


@in_every_order
@whoever_is_chosen
async def test_a_stop_string_ends_the_answer_at_the_same_place(order: tuple[str, ...], chosen: str) -> None:
    says = SimulatorConfig(rules=(Rule((), Reply("one two three four five")),))
    async with mixed(order, chosen, says) as house:
        answer = await ask(house, stop=["three"])

    assert answer["choices"][0]["message"]["content"] == "one two "
    same("stop", answer["choices"])


@pytest.mark.sampled(keep=2)
@in_every_order
@whoever_is_chosen
async def test_pictures_reach_every_engine_in_its_own_packing(order: tuple[str, ...], chosen: str, qwen: str) -> None:
    parts = [text_part("Which shapes?"), image_part(picture(280, 140)), image_part(picture(56, 56, "red"))]
    async with mixed(order, chosen, SimulatorConfig(model_folder=qwen)) as house:
        answer = await ask(house, parts)
        (request,) = [request for engine in house.engines for request in engine.requests]

    places = [place for media in request.multimodal for place in media.placeholders]
    assert answer["choices"][0]["message"]["content"]
    same("picture counts", answer["counts"][0])
    same("picture places", sorted(places))
    same("picture ids", list(request.input_ids))


@pytest.mark.sampled(keep=6)
@in_every_order
@whoever_is_chosen
@pytest.mark.parametrize(
    ("question", "fields"),
    [
        ("schema", {"response_format": SCHEMA}),
        ("object", {"response_format": {"type": "json_object"}}),
        ("required", {"tools": [WEATHER], "tool_choice": "required"}),
        ("named", {"tools": [WEATHER], "tool_choice": {"type": "function", "function": {"name": "get_weather"}}}),
    ],
)
async def test_held_output_is_the_same_from_every_engine(
    order: tuple[str, ...], chosen: str, question: str, fields: dict[str, Any]
) -> None:
    async with mixed(order, chosen) as house:
        answer = await ask(house, temperature=0, **fields)

    same(question, answer["choices"])


# ------------------------------------------------------------------------------------------------------- the able one


UNABLE = [
    ({"constraints": ()}, {"response_format": SCHEMA}, "response_format"),
    ({"constraints": ()}, {"tools": [WEATHER], "tool_choice": "required"}, "tool_choice"),
    ({"max_n": 2}, {"n": 3}, "n"),
    ({"max_logprobs": 1}, {"logprobs": True, "top_logprobs": 3}, "top_logprobs"),
]


@pytest.mark.sampled(keep=6)
@in_every_order
@whoever_is_chosen
@pytest.mark.parametrize(("less", "fields", "param"), UNABLE, ids=[each[2] for each in UNABLE])
async def test_what_one_engine_cannot_do_goes_to_the_one_that_can_whichever_the_policy_likes(
    order: tuple[str, ...], chosen: str, less: dict[str, Any], fields: dict[str, Any], param: str
) -> None:
    policy = Prefer(chosen)
    async with mixed(order, policy=policy, neutral=SimulatorConfig(**less)) as house:
        answer = await ask(house, temperature=0.5, seed=1, **fields)
        plain = await ask(house)
        neutral, vllm = asked_of(house)

    assert answer["choices"]
    assert plain["choices"]
    assert policy.shown == [("vllm",), order]
    assert (neutral, vllm) == ((1, 1) if chosen == "neutral" else (0, 2))


@pytest.mark.sampled(keep=2)
@pytest.mark.parametrize(("less", "fields", "param"), UNABLE, ids=[each[2] for each in UNABLE])
async def test_what_no_engine_can_do_is_refused_by_name(
    less: dict[str, Any], fields: dict[str, Any], param: str
) -> None:
    alike = Member("a", "neutral", SimulatorConfig(**less))
    async with fleet(alike, attrs.evolve(alike, name="b")) as house:
        answer = await house.chat(**fields)
        asked = asked_of(house)

    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == param
    assert asked == [0, 0]


@in_every_order
@whoever_is_chosen
async def test_a_cache_salt_goes_to_the_engine_whose_wire_can_carry_it(order: tuple[str, ...], chosen: str) -> None:
    async with mixed(order, chosen) as house:
        await ask(house, cache_salt="tenant")
        (request,) = [request for engine in house.engines for request in engine.requests]
        asked = asked_of(house)

    assert request.cache_salt == "tenant"
    assert asked == [1, 0]


async def test_a_cache_salt_is_refused_by_name_where_no_engine_can_carry_it() -> None:
    async with fleet(Member("a"), Member("b")) as house:
        answer = await house.chat(cache_salt="tenant")

    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "cache_salt"


async def test_while_the_able_engine_cannot_be_reached_the_client_is_told_to_come_back_and_not_that_it_is_wrong() -> (
    None
):
    async with mixed(("vllm", "neutral")) as house:
        with removed_from(house, "neutral"):
            answer = await house.chat(cache_salt="tenant")
            plain = await house.chat()
        after = await house.chat(cache_salt="tenant")

    assert answer.status_code == 503
    assert answer.headers["retry-after"]
    assert (plain.status_code, after.status_code) == (200, 200)


# ------------------------------------------------------------------------------------------------------ lengths of context


@in_every_order
@whoever_is_chosen
async def test_a_prompt_goes_to_an_engine_whose_context_holds_it(order: tuple[str, ...], chosen: str) -> None:
    sizes = {"vllm": SimulatorConfig(context_length=64), "neutral": SimulatorConfig(context_length=512)}
    async with mixed(order, chosen, **sizes) as house:
        card = (await house.http.get("/v1/models/sim")).json()
        long = await house.chat("word " * 200)
        asked = asked_of(house)
        too_long = await house.chat("word " * 600)
        too_much = await house.chat(max_tokens=600)

    assert card["max_model_len"] == 512
    assert long.status_code == 200
    assert asked == [1, 0]
    assert too_long.status_code == too_much.status_code == 400
    assert "512" in too_long.json()["error"]["message"]
    same("too much", too_much.json()["error"])


async def test_the_models_context_is_that_of_the_engines_it_has_now() -> None:
    sizes = {"vllm": SimulatorConfig(context_length=64), "neutral": SimulatorConfig(context_length=512)}
    async with mixed(("vllm", "neutral"), **sizes) as house:
        await house.gateway.remove_worker("neutral")
        card = (await house.http.get("/v1/models/sim")).json()
        long = await house.chat("word " * 200)

    assert card["max_model_len"] == 64
    assert "64" in long.json()["error"]["message"]


# ---------------------------------------------------------------------------------------------------- across the dialects


LOST = [Fault("refuse"), Fault("cut"), Fault("refuse", status="RESOURCE_EXHAUSTED")]


@pytest.mark.sampled(keep=6)
@pytest.mark.parametrize("lost", CHOSEN)
@pytest.mark.parametrize("fault", LOST, ids=lambda fault: f"{fault.kind} {fault.status}")
@pytest.mark.parametrize("fields", [{}, {"n": 2, "temperature": 0}, {"stop": ["e"]}], ids=["plain", "greedy", "stop"])
async def test_a_worker_lost_before_the_first_byte_is_replaced_by_one_of_another_dialect(
    lost: str, fault: Fault, fields: dict[str, Any]
) -> None:
    async with mixed(("vllm", "neutral"), lost) as house:
        engines = dict(zip(("vllm", "neutral"), house.engines, strict=True))
        engines[lost].inject(fault, fault)
        whole = await ask(house, "Hello", **{"temperature": 0, **fields})
        answer = await house.chat(stream=True, **{"temperature": 0, **fields})
        retried = house.observer.of(Retrying)
        await settled(house)

    assert [each.worker for each in retried] == [lost, lost]
    same(f"retried {fields}", whole["choices"])
    assert taken_apart(answer).done


@pytest.mark.parametrize("lost", CHOSEN)
async def test_a_picture_is_packed_anew_for_the_engine_that_takes_over(lost: str, qwen: str) -> None:
    parts = [image_part(picture(280, 140)), text_part("Which shapes?")]
    async with mixed(("vllm", "neutral"), lost, SimulatorConfig(model_folder=qwen)) as house:
        engines = dict(zip(("vllm", "neutral"), house.engines, strict=True))
        engines[lost].inject(Fault("cut"))
        answer = await ask(house, parts)
        (other,) = [engine for name, engine in engines.items() if name != lost]
        (request,) = other.requests
        await settled(house)

    assert "I see 1 image" in answer["choices"][0]["message"]["content"]
    assert [media.modality for media in request.multimodal] == ["image"]


@pytest.mark.full
async def test_a_request_that_only_the_lost_worker_could_take_fails_with_why_it_was_lost() -> None:
    async with mixed(("vllm", "neutral")) as house:
        house.engines[1].inject(Fault("refuse"))
        answer = await house.chat(cache_salt="tenant")
        asked = asked_of(house)

    assert answer.status_code == 503
    assert "salt" not in answer.text
    assert asked == [1, 0]


@pytest.mark.full
async def test_a_held_answer_is_held_by_the_constraint_of_the_engine_that_takes_over() -> None:
    kinds: dict[str, SimulatorConfig] = {"neutral": SimulatorConfig(constraints=("json_schema", "regex", "grammar"))}
    for lost in CHOSEN:
        async with mixed(("vllm", "neutral"), lost, **kinds) as house:
            engines = dict(zip(("vllm", "neutral"), house.engines, strict=True))
            engines[lost].inject(Fault("cut"))
            answer = await ask(house, temperature=0, response_format=SCHEMA)
            same("held and retried", answer["choices"])
            assert {"yes", "why"} == set(json.loads(answer["choices"][0]["message"]["content"]))
