"""The gateway before MLX, which lacks what other engines have: what it does in its place, and what it refuses."""

import json
from typing import Any

import attrs
import pytest
from tests.gateway.conftest import eventually
from tests.gateway.fleet import CALM, Member, Prefer, fleet

from smg_core.pipeline.settings import StructuredConfig
from smg_simulator.answers.replies import Reply, Rule
from smg_simulator.engine.clockwork import Timing
from smg_simulator.engine.engine import SimulatorConfig

pytestmark = pytest.mark.anyio

LONG = "one two three four five six seven eight nine ten. " * 20
SAYS = SimulatorConfig(rules=(Rule((), Reply(LONG)),))
SLOW = attrs.evolve(SAYS, timing=Timing(decode_rate=50))
SCHEMA = {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}
FORMATS: list[dict[str, Any]] = [
    {"type": "json_object"},
    {"type": "json_schema", "json_schema": {"name": "point", "schema": SCHEMA}},
]


def says(text: str) -> SimulatorConfig:
    return SimulatorConfig(rules=(Rule((), Reply(text)),))


@pytest.mark.parametrize("stream", [False, True])
async def test_a_stop_string_is_looked_for_here_and_the_engine_is_told_to_end(stream: bool) -> None:
    async with fleet(Member("a", "mlx", SLOW)) as house:
        answer = await house.chat(stop=["four"], stream=stream)
        await eventually(lambda: house.engine.active == 0)
        asked = house.engine.requests[0]

    assert answer.status_code == 200
    if stream:
        chunks = [json.loads(line[6:]) for line in answer.text.splitlines() if line.startswith("data: {")]
        text = "".join(each["choices"][0]["delta"].get("content") or "" for each in chunks if each["choices"])
    else:
        text = answer.json()["choices"][0]["message"]["content"]
        assert answer.json()["usage"]["completion_tokens"] < 10
    assert text == "one two three "
    assert (asked.sampling.stop, asked.stream) == ((), True)
    assert len(house.engine.aborted) >= 1


async def test_each_choice_is_a_call_of_its_own_with_a_seed_of_its_own() -> None:
    async with fleet(Member("a", "mlx")) as house:
        answer = await house.chat(n=3, temperature=1, seed=5, max_tokens=20)
        asked = list(house.engine.requests)

    assert [choice["index"] for choice in answer.json()["choices"]] == [0, 1, 2]
    assert len({choice["message"]["content"] for choice in answer.json()["choices"]}) == 3
    assert [each.sampling.n for each in asked] == [1, 1, 1]
    assert len({each.sampling.seed for each in asked}) == len({each.id for each in asked}) == 3


async def test_choices_at_temperature_0_are_one_call() -> None:
    async with fleet(Member("a", "mlx", SAYS)) as house:
        answer = await house.chat(n=3, temperature=0)
        calls = len(house.engine.requests)

    assert len(answer.json()["choices"]) == 3
    assert calls == 1


@pytest.mark.parametrize("wanted", FORMATS, ids=lambda wanted: wanted["type"])
async def test_json_is_refused_by_name_where_nobody_would_see_to_it(wanted: dict[str, Any]) -> None:
    async with fleet(Member("a", "mlx", says('{"x": 1}'))) as house:
        answer = await house.chat(response_format=wanted)

    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "response_format")


@pytest.mark.parametrize("wanted", FORMATS, ids=lambda wanted: wanted["type"])
@pytest.mark.parametrize(
    ("rule", "text", "status", "content"),
    [
        ("error", '{"x": 1}', 200, '{"x": 1}'),
        ("error", "no JSON at all", 422, None),
        ("repair", '```json\n{"x": 1}\n```', 200, '{"x": 1}'),
    ],
)
async def test_json_is_asked_for_and_checked_where_the_operator_says_so(
    wanted: dict[str, Any], rule: Any, text: str, status: int, content: str | None
) -> None:
    config = attrs.evolve(CALM, structured=StructuredConfig(on_violation=rule))
    async with fleet(Member("a", "mlx", says(text)), config=config) as house:
        answer = await house.chat(response_format=wanted)

    assert answer.status_code == status
    if content is not None:
        assert json.loads(answer.json()["choices"][0]["message"]["content"]) == json.loads(content)


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"min_tokens": 3}, "min_tokens"),
        ({"structured_outputs": {"regex": "a+"}}, "response_format"),
        ({"structured_outputs": {"grammar": 'root ::= "a"'}}, "response_format"),
        ({"seed": -1}, "seed"),
    ],
)
async def test_what_it_lacks_is_refused_by_name(fields: dict[str, Any], param: str) -> None:
    async with fleet(Member("a", "mlx", SAYS)) as house:
        answer = await house.chat(**fields)
        asked = len(house.engine.requests)

    assert (answer.status_code, asked) == (400, 0)
    assert answer.json()["error"]["param"] == param


@pytest.mark.full
async def test_in_a_mixed_fleet_such_a_request_goes_where_it_can_be_served() -> None:
    policy = Prefer("mlx")
    async with fleet(Member("mlx", "mlx", SAYS), Member("vllm", "vllm"), policy=policy) as house:
        plain = await house.chat()
        held = await house.chat(response_format=FORMATS[1])
        least = await house.chat(min_tokens=3)

    assert [each.status_code for each in (plain, held, least)] == [200, 200, 200]
    assert policy.shown == [("mlx", "vllm"), ("vllm",), ("vllm",)]
