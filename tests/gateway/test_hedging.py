"""A short request whose answer is late is asked of a second worker too: every API, several choices, two roles, kept answers."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import attrs
import pytest
from tests.gateway.collector import collecting
from tests.gateway.conftest import House, eventually, settled
from tests.gateway.fleet import CALM, Member, Prefer, fleet
from tests.gateway.test_prefill_decode import member

from smg_core import Config
from smg_core.hooks import AttemptEnded, Hedged, RequestFinished
from smg_core.observability.settings import ObservabilityConfig, TracesConfig
from smg_core.routing.settings import RoutingConfig
from smg_simulator.answers.faults import Fault
from smg_simulator.engine.engine import SimulatorConfig

pytestmark = pytest.mark.anyio

HEDGED = attrs.evolve(
    CALM,
    routing=RoutingConfig(hedge_after_s=0.001, hedge_reserve=1000),
    observability=ObservabilityConfig(explain=True),
)
SLOW = SimulatorConfig(fault_rates=((Fault("stall"), 1.0),))
"""An engine that never answers."""
PATHS: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 8},
    "/v1/completions": {"prompt": "Hi", "max_tokens": 8},
    "/v1/responses": {"input": "Hi", "max_output_tokens": 16},
    "/v1/messages": {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 8},
    "/generate": {"text": "Hi", "sampling_params": {"max_new_tokens": 8}},
    "/v1beta/models/sim:generateContent": {
        "contents": [{"role": "user", "parts": [{"text": "Hi"}]}],
        "generationConfig": {"maxOutputTokens": 8},
    },
}


@asynccontextmanager
async def late(config: Config = HEDGED, dialect: str = "vllm") -> AsyncIterator[House]:
    """A worker that never answers and is always asked first, and one that does."""
    members = Member("slow", dialect, SLOW), Member("quick", dialect)
    async with fleet(*members, config=config, policy=Prefer("slow")) as house:
        yield house


def outcomes(house: House) -> list[str]:
    return [each.outcome for each in house.observer.of(Hedged)]


@pytest.mark.sampled(keep=4)
@pytest.mark.parametrize("path", PATHS)
async def test_a_late_answer_of_any_api_comes_from_a_second_worker(path: str) -> None:
    async with late() as house:
        answer = await house.http.post(path, json={"model": "sim", **PATHS[path]})
        slow, quick = house.engines
        await eventually(lambda: len(slow.aborted) == 1)
        await settled(house)
        (ended,) = house.observer.of(RequestFinished)
        calls = {each.worker: each.outcome for each in house.observer.of(AttemptEnded)}

        assert answer.status_code == 200, answer.text
        assert outcomes(house) == ["won"]
        assert calls == {"slow": "outrun", "quick": "ok"}
        assert (ended.worker, ended.outcome, ended.attempts, len(ended.finish)) == ("quick", "ok", 2, 1)
        assert ended.completion_tokens > 0
        assert len(quick.requests) == len(slow.requests) == 1
        assert quick.requests[0].id != slow.requests[0].id


async def test_several_choices_come_all_from_the_same_worker() -> None:
    async with late() as house:
        answer = await house.chat(n=3, max_tokens=4, temperature=1.0)
        await settled(house)
        found = answer.json()

        assert [each["index"] for each in found["choices"]] == [0, 1, 2]
        assert found["usage"]["completion_tokens"] <= 12
        assert outcomes(house) == ["won"]


async def test_the_explanation_names_the_worker_that_answered_and_counts_both_calls() -> None:
    async with late() as house:
        answer = await house.http.post(
            "/v1/chat/completions",
            json={"model": "sim", **PATHS["/v1/chat/completions"]},
            headers={"x-smg-explain": "1"},
        )
        told = answer.headers["x-smg-explain"]

        assert '"worker":"quick"' in told.replace(" ", "")
        assert '"tries":2' in told


async def test_a_stream_and_a_long_answer_are_asked_for_once() -> None:
    members = Member("a"), Member("b")
    async with fleet(*members, config=HEDGED, policy=Prefer("a")) as house:
        house.engine.inject(Fault("stall", seconds=0.05), Fault("stall", seconds=0.05))
        for fields in ({"stream": True, "max_tokens": 8}, {}):
            assert (await house.chat(**fields)).status_code == 200
        await settled(house)

        assert outcomes(house) == []
        assert not house.engines[1].requests


async def test_a_kept_answer_is_kept_once() -> None:
    async with late() as house:
        answer = await house.http.post("/v1/responses", json={"model": "sim", "store": True, **PATHS["/v1/responses"]})
        kept = await house.http.get(f"/v1/responses/{answer.json()['id']}")

        assert outcomes(house) == ["won"]
        assert kept.json()["output"] == answer.json()["output"]


async def test_a_second_pair_is_asked_where_one_worker_reads_and_another_writes() -> None:
    names = (("p0", "prefill"), ("d0", "decode"), ("p1", "prefill"), ("d1", "decode"))
    async with fleet(*[member(name, role) for name, role in names], config=HEDGED, policy=Prefer("p0")) as house:
        engines = dict(zip([name for name, _ in names], house.engines, strict=True))
        engines["p0"].inject(Fault("stall"))
        answer = await house.chat(max_tokens=5)
        await eventually(lambda: bool(engines["p0"].aborted))
        await settled(house)
        ended = {each.worker: each.outcome for each in house.observer.of(AttemptEnded)}

        assert answer.status_code == 200, answer.text
        assert outcomes(house) == ["won"]
        assert (ended["p1"], ended["d1"]) == ("ok", "ok")
        assert ended["p0"] == "outrun"


async def test_there_are_no_more_second_calls_than_the_budget_allows() -> None:
    routing = attrs.evolve(HEDGED.routing, hedge_share=0.1, hedge_reserve=2)
    config = attrs.evolve(HEDGED, routing=routing)
    members = Member("a", engine=SimulatorConfig(fault_rates=((Fault("stall", seconds=0.02), 1.0),))), Member("b")
    async with fleet(*members, config=config, policy=Prefer("a")) as house:
        answers = await asyncio.gather(*[house.chat(str(number), max_tokens=2) for number in range(40)])
        await settled(house)

        assert {answer.status_code for answer in answers} == {200}
        assert len(house.engines[1].requests) <= 2 + 0.1 * 40
        assert "no_budget" in outcomes(house)


async def test_a_hedge_is_an_event_of_the_trace_only_where_another_worker_was_asked() -> None:
    pausing = SimulatorConfig(fault_rates=((Fault("stall", seconds=0.05), 1.0),))
    path = "/v1/chat/completions"
    with collecting() as collector:
        traces = TracesConfig(endpoint=collector.url, delay_s=0.02)
        for reserve, engine, to in ((1000, SLOW, "quick"), (0, pausing, "")):
            routing = attrs.evolve(HEDGED.routing, hedge_reserve=reserve, hedge_share=0.0)
            config = attrs.evolve(HEDGED, routing=routing, traces=traces)
            members = Member("slow", engine=engine), Member("quick")
            async with fleet(*members, config=config, policy=Prefer("slow")) as house:
                answer = await house.http.post(path, json={"model": "sim", **PATHS[path]})
                assert answer.status_code == 200
                assert [each.to for each in house.observer.of(Hedged)] == [to]
        events = [attributes for each in collector.spans for name, attributes in each.events if name == "hedge"]

    assert len(collector.roots()) == 2
    assert [each["smg.to"] for each in events] == ["quick"]
