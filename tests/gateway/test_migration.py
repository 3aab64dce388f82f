"""Answers go on with other engines: every API, streamed and whole, with each token a function of all tokens before it, so that a
token that is lost, repeated or misplaced changes all that follow."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.gateway.conftest import House, body, eventually, in_process, over_http, settled
from tests.gateway.fleet import Member, Prefer, fleet
from tests.gateway.test_stream_faults import APIS, PATHS, Api

from smg_core import Config
from smg_core.hooks import AttemptEnded, Migrating, RequestFinished
from smg_core.sse import SseReader
from smg_core.workers.settings import WorkersConfig
from smg_simulator.answers.faults import Fault, FaultKind
from smg_simulator.engine.clockwork import Timing
from smg_simulator.engine.engine import SimulatorConfig

pytestmark = pytest.mark.anyio

CHAINED = SimulatorConfig(chained=40, block_size=4096)
"""No block of the prefix cache is ever full, so that no run counts cached tokens."""
THREE = Config(workers=WorkersConfig(health_interval_s=3600.0))
DEATHS = (2, 5, 3)
"""How many tokens three engines give before each is lost."""
LOSSES: dict[FaultKind, str] = {"cut": "WorkerGone", "garbage": "EngineGarbled", "silence": "EngineGarbled"}
"""How an engine is lost, and what that is called: its connection is cut, it sends what is no message, it ends without an end."""
CHANGES = frozenset(
    {"id", "created", "created_at", "createTime", "updated", "completed_at", "item_id", "responseId"}
    | {"sequence_number", "event_id", "previous_response_id", "background", "e2e_latency", "request_id"}
)
"""Fields that differ from run to run."""
REPEATED = ("type", "event_type", "object", "role", "model", "modelVersion")
"""Fields that each event has again."""


def fixed(value: Any) -> Any:
    """What is the same in every run of one request."""
    if isinstance(value, dict):
        return {name: fixed(each) for name, each in value.items() if name not in CHANGES}
    return [fixed(each) for each in value] if isinstance(value, list) else value


def texts(events: Sequence[Any], path: str = "") -> dict[str, str]:
    """All texts of a stream by where they stand, those of its deltas joined."""
    found: dict[str, str] = {}
    for event in events:
        inner = event.items() if isinstance(event, dict) else enumerate(event) if isinstance(event, list) else ()
        for name, each in inner:
            if isinstance(each, str) and name in REPEATED:
                continue
            if isinstance(each, str):
                found[f"{path}/{name}"] = found.get(f"{path}/{name}", "") + each
            else:
                for at, text in texts([each], f"{path}/{name}").items():
                    found[at] = found.get(at, "") + text
    return found


def said(api: Api, events: list[str]) -> dict[str, Any]:
    """What a client was told: the texts of the deltas, and the last events whole, which have usage and end."""
    told = [fixed(json.loads(event)) for event in events if event != "[DONE]"]
    if api.name == "generate":  # each event has all of the text so far
        return {"last": told[-1]}
    spoken = [each for each in told if re.search(r"delta|chunk|candidates|choices", json.dumps(each)[:400])]
    ends = [each for each in told if "usage" in json.dumps(each) or "finish" in json.dumps(each)]
    last = {name: value for name, value in ends[-1].items() if name != "candidates"} if ends else {}
    joined = {name: text for name, text in texts(spoken).items() if re.search(r"content|text|delta|parts", name)}
    return {"texts": joined, "last": last}


async def streamed(house: House, api: Api) -> dict[str, Any]:
    async with api.open(house, api.body) as answer:
        assert answer.status == 200
        events = [event async for event in answer.events]
    assert [api.terminal(event) for event in events][-1] in ("done", "message_stop", "response.completed"), events[-1]
    return said(api, events)


def lose_engines(house: House, after: Sequence[int] = DEATHS, kind: FaultKind = "cut") -> None:
    """Let the next call of each engine be lost, and no other."""
    for engine, tokens in zip(house.engines, after, strict=True):
        engine.faults.replace((Fault(kind, after=tokens),), {}, clear=True)


@pytest.mark.full
@pytest.mark.sampled(per=("api",), keep=2)
@pytest.mark.parametrize("kind", LOSSES)
@pytest.mark.parametrize("api", APIS, ids=str)
async def test_a_stream_of_any_api_survives_the_loss_of_three_engines_word_for_word(api: Api, kind: FaultKind) -> None:
    async with over_http(CHAINED, engines=3, config=THREE) as house:
        undisturbed = await streamed(house, api)
        lose_engines(house, kind=kind)
        survived = await streamed(house, api)
        moved = house.observer.of(Migrating)
        await settled(house)
        asked = [len(engine.requests) for engine in house.engines]

    assert survived == undisturbed
    assert [each.inexact for each in moved] == [()] * 3
    assert {each.error for each in moved} == {LOSSES[kind]}
    assert sum(asked) == 5


@pytest.mark.sampled(keep=3)
@pytest.mark.parametrize("api", [api for api in APIS if api.name in PATHS and "array" not in api.name], ids=str)
async def test_an_answer_of_any_api_that_leaves_whole_is_whole_and_the_same_when_engines_are_lost(api: Api) -> None:
    path = PATHS[api.name].replace("streamGenerateContent?alt=sse", "generateContent")
    asked = {name: value for name, value in api.body.items() if name not in ("stream", "background")}
    async with in_process(CHAINED, engines=3, config=THREE) as house:
        undisturbed = await house.http.post(path, json=asked)
        for engine in house.engines[:2]:
            engine.inject(Fault("cut", after=3))
        survived = await house.http.post(path, json=asked)
        await settled(house)

    assert (undisturbed.status_code, survived.status_code) == (200, 200)
    assert fixed(survived.json()) == fixed(undisturbed.json())


# ---------------------------------------------------------------------------------------------- what a request may ask for


@asynccontextmanager
async def three(
    config: Config = THREE, engine: SimulatorConfig = CHAINED, dialect: str = "vllm"
) -> AsyncIterator[House]:
    members = [Member(name, dialect, engine) for name in ("a", "b", "c")]
    async with fleet(*members, config=config, policy=Prefer("a")) as house:
        yield house


async def chunks(house: House, **fields: Any) -> list[Any]:
    """The chunks of a stream of Chat Completions."""
    reader, found = SseReader(), []
    asked = body("Hi", stream=True, stream_options={"include_usage": True}, **fields)
    async with house.http.stream("POST", "/v1/chat/completions", json=asked) as answer:
        async for piece in answer.aiter_bytes():
            found += [each.data for each in reader.feed(piece)]
    assert found[-1] == "[DONE]" or "error" in found[-1]
    return [fixed(json.loads(each)) for each in found if each != "[DONE]"]


def by_choice(told: list[Any]) -> dict[int, Any]:
    """Text, logprobs and end of each choice, and the usage as choice -1."""
    found: dict[int, Any] = {}
    for chunk in told:
        assert "error" not in chunk, chunk
        if chunk.get("usage"):
            found[-1] = chunk["usage"]
        for each in chunk["choices"]:
            text, scores, end = found.get(each["index"], ("", [], None))
            scored = (each.get("logprobs") or {}).get("content") or []
            found[each["index"]] = (
                text + (each["delta"].get("content") or ""),
                scores + scored,
                each["finish_reason"] or end,
            )
    return found


EXACT: dict[str, dict[str, Any]] = {
    "plain": {},
    "bounded": {"max_tokens": 17},
    "bounded below": {"min_tokens": 60, "max_tokens": 80},
    "three choices": {"n": 3, "max_tokens": 20, "temperature": 1.0},
    "greedy choices": {"n": 2, "max_tokens": 20, "temperature": 0},
    "logprobs": {"logprobs": True, "top_logprobs": 3, "max_tokens": 20},
    "logprobs of choices": {"n": 2, "logprobs": True, "top_logprobs": 2, "max_tokens": 20, "temperature": 1.0},
    "frequency penalty": {"frequency_penalty": 1.5, "max_tokens": 60, "ignore_eos": True},
    "bias": {"logit_bias": {"400": 3.0}, "frequency_penalty": 1.0, "max_tokens": 40, "ignore_eos": True},
    "greedy with a seed": {"seed": 7, "temperature": 0, "max_tokens": 40, "ignore_eos": True},
}


@pytest.mark.sampled(keep=2)
@pytest.mark.parametrize("name", EXACT)
async def test_whatever_a_request_asks_for_it_is_kept_by_the_engines_that_follow(name: str) -> None:
    async with three() as house:
        undisturbed = by_choice(await chunks(house, **EXACT[name]))
        for after in ((3, 4, 4), (7, 1, 9)):
            lose_engines(house, after)
            assert by_choice(await chunks(house, **EXACT[name])) == undisturbed, after
        moved = house.observer.of(Migrating)
        await settled(house)

    assert moved
    assert {each.inexact for each in moved} == {()}


async def test_a_stop_string_that_two_engines_write_ends_the_answer() -> None:
    async with three() as house:
        (whole, _, _) = by_choice(await chunks(house, max_tokens=40, ignore_eos=True))[0]
        words = whole.split(" ")
        stop = " ".join(words[5:9])
        undisturbed = by_choice(await chunks(house, max_tokens=40, ignore_eos=True, stop=[stop]))
        for after in range(1, 12):
            house.engines[0].inject(Fault("cut", after=after))
            assert by_choice(await chunks(house, max_tokens=40, ignore_eos=True, stop=[stop])) == undisturbed, after
        await settled(house)


@pytest.mark.sampled(keep=4)
@pytest.mark.parametrize("dialect", ["vllm", "sglang", "trtllm", "tokenspeed", "mlx", "neutral"])
async def test_an_answer_goes_on_in_every_dialect_and_each_of_its_choices(dialect: str) -> None:
    async with three(dialect=dialect) as house:
        asked = {"n": 2, "max_tokens": 20, "temperature": 0}
        undisturbed = by_choice(await chunks(house, **asked))
        lose_engines(house, (4, 6, 2))
        survived = by_choice(await chunks(house, **asked))
        moved = house.observer.of(Migrating)
        await settled(house)

    assert survived == undisturbed
    assert moved


# --------------------------------------------------------------------------------------------------- what could differ


SCHEMA = {"type": "json_schema", "json_schema": {"name": "s", "schema": {"type": "object"}, "strict": True}}


@pytest.mark.sampled(keep=4)
@pytest.mark.parametrize(
    ("fields", "reason", "setting"),
    [
        ({"seed": 5, "temperature": 1.0}, "seed", "migrate_sampled"),
        ({"presence_penalty": 1.0}, "penalties", "migrate_sampled"),
        ({"response_format": SCHEMA}, "constraint", "migrate_constrained"),
    ],
)
@pytest.mark.parametrize("wanted", ["mark", "end"])
async def test_where_the_rest_could_differ_a_setting_says_whether_it_goes_on(
    fields: dict[str, Any], reason: str, setting: str, wanted: str
) -> None:
    config = Config(workers=WorkersConfig(health_interval_s=3600.0, **{setting: wanted}))
    async with three(config) as house:
        house.engines[0].inject(Fault("cut", after=2))
        told = await chunks(house, **{**fields, "max_tokens": 30})
        whole = await house.chat("Hi", **{**fields, "max_tokens": 30})
        moved = house.observer.of(Migrating)
        await settled(house)

    assert ("error" in told[-1]) == (wanted == "end")
    assert [each.inexact for each in moved] == ([(reason,)] if wanted == "mark" else [])
    assert whole.status_code == 200
    assert "x-smg-migrated" not in whole.headers


async def test_an_answer_does_not_go_on_where_the_setting_forbids_it() -> None:
    config = Config(workers=WorkersConfig(health_interval_s=3600.0, migrations=0))
    async with three(config) as house:
        house.engines[0].inject(Fault("cut", after=2))
        told = await chunks(house)
        await settled(house)

    assert "error" in told[-1]
    assert not house.observer.of(Migrating)


@pytest.mark.full
async def test_the_fourth_loss_ends_an_answer_and_every_call_is_told_with_its_own_tokens() -> None:
    async with three() as house:
        for engine, after in zip(house.engines, (2, 3, 4), strict=True):
            engine.inject(*[Fault("cut", after=after)] * 2)
        told = await chunks(house, max_tokens=40, ignore_eos=True)
        ends = house.observer.of(AttemptEnded)
        (finished,) = house.observer.of(RequestFinished)
        await settled(house)

    assert "error" in told[-1]
    assert [each.completion_tokens for each in ends] == [2, 3, 2, 3]
    assert [each.outcome for each in ends] == ["WorkerGone"] * 4
    assert (finished.outcome, finished.completion_tokens, finished.attempts) == ("WorkerGone", 10, 4)


# ------------------------------------------------------------------------------------------- workers that are left, or hang


PACED = SimulatorConfig(chained=1000, block_size=4096, timing=Timing(decode_rate=100))
LONG: dict[str, Any] = {"max_tokens": 60, "ignore_eos": True}


@pytest.mark.full
@pytest.mark.parametrize("how", ["drained", "removed"])
async def test_a_worker_that_is_left_in_mid_stream_hands_its_answers_to_others(how: str) -> None:
    async with three(engine=PACED) as house:
        undisturbed = by_choice(await chunks(house, **LONG))
        asked = asyncio.create_task(chunks(house, **LONG))
        await eventually(lambda: house.engines[0].counters["tokens"] > 63)
        if how == "drained":
            left = house.gateway.drain_worker("a", move=True)
            await eventually(lambda: not left.in_flight)
        else:
            await house.gateway.remove_worker("a")
        survived = by_choice(await asked)
        (moved,) = house.observer.of(Migrating)
        await settled(house)

    assert survived == undisturbed
    assert (moved.worker, moved.error) == ("a", "WorkerGone")
    assert 0 < moved.tokens < 60


@pytest.mark.full
async def test_a_worker_that_is_drained_finishes_its_answers_itself_unless_they_are_to_be_moved() -> None:
    async with three(engine=PACED) as house:
        asked = asyncio.create_task(chunks(house, **LONG))
        await eventually(lambda: house.engines[0].counters["tokens"] > 3)
        house.gateway.drain_worker("a")
        told = by_choice(await asked)

    assert told[0][2] == "length"
    assert not house.observer.of(Migrating)


async def test_an_answer_of_which_nothing_more_comes_goes_on_elsewhere_once_its_worker_fails_its_probes() -> None:
    config = Config(workers=WorkersConfig(health_interval_s=3600.0, join_interval_s=3600.0, probe_timeout_s=0.05))
    async with three(config) as house:
        undisturbed = by_choice(await chunks(house, **LONG))
        house.engines[0].inject(Fault("stall", after=4))
        asked = asyncio.create_task(chunks(house, **LONG))
        await eventually(lambda: house.engines[0].counters["stalled"])
        worker = house.gateway.registry.get("a")
        assert worker is not None
        house.gateway.services.running.monitor.signal(worker, "failing", "told so")
        survived = by_choice(await asked)
        (moved,) = house.observer.of(Migrating)

    assert survived == undisturbed
    assert (moved.error, moved.tokens) == ("EngineStalled", 4)
