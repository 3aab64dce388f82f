"""Encode workers make the embeddings of media, another engine reads the prompt, a third writes the answer: with real messages,
over real sockets."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import attrs
import httpx
import pytest
from tests.gateway.conftest import CHAT, House, eventually
from tests.gateway.fleet import Member, fleet
from tests.gateway.test_prefill_decode import OWN_ROLES, Part, calls, content, engine, idle, settings, told
from tests.gateway.vision_models import image_part, picture, qwen2_vl, text_part

from smg_core import Config
from smg_core.fleet.connect import specs_of
from smg_core.hooks import Retrying
from smg_core.workers.settings import WorkersConfig
from smg_simulator.answers.faults import Fault
from smg_simulator.engine.engine import SimulatorConfig

pytestmark = pytest.mark.anyio
ROLES = {**OWN_ROLES, "encode": "encoder"}
WIDE = picture(280, 140)
TALL = picture(140, 280)
SHAPES = text_part("Which shapes do you see?")


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(qwen2_vl(tmp_path_factory.mktemp("qwen") / "model"))


def member(name: str, role: str | None, folder: str, dialect: str = "tokenspeed") -> Member:
    own: Any = ROLES[role]
    return Part(name, dialect, SimulatorConfig(model_folder=folder, kv_connector="MooncakeConnector", kv_role=own))


@asynccontextmanager
async def three(
    folder: str,
    encode: Sequence[str] = ("e",),
    prefill: Sequence[str] = ("p",),
    decode: Sequence[str] = ("d",),
    config: Config | None = None,
) -> AsyncIterator[House]:
    """A gateway before a pool of each role. The engines say their roles themselves."""
    pools = (("encode", encode), ("prefill", prefill), ("decode", decode))
    members = [member(name, role, folder) for role, names in pools for name in names]
    async with fleet(*members, config=config or settings()) as house:
        yield house


async def ask(house: House, *parts: dict[str, Any], **fields: Any) -> httpx.Response:
    messages = [{"role": "user", "content": [SHAPES, *parts]}]
    body = {"model": "sim", "messages": messages, "max_tokens": 30, **fields}
    return await house.http.post(CHAT, json=body, headers={"x-smg-explain": "1"})


async def all_idle(house: House) -> None:
    await idle(house)
    await eventually(lambda: not any(each.counters["stalled"] for each in house.engines))


@pytest.mark.full
@pytest.mark.parametrize("stream", [False, True])
async def test_pictures_are_encoded_by_one_engine_for_the_engine_that_reads_the_prompt(
    folder: str, stream: bool
) -> None:
    async with fleet(member("alone", None, folder), config=settings()) as alone:
        expected = (await ask(alone, image_part(WIDE), image_part(TALL))).json()["usage"]["prompt_tokens"]
    async with three(folder) as house:
        answer = (
            await ask(house, image_part(WIDE), image_part(TALL), stream=stream, stream_options={"include_usage": True})
            if stream
            else await ask(house, image_part(WIDE), image_part(TALL))
        )
        await all_idle(house)
        encode, prefill = engine(house, "e"), engine(house, "p")
        read = prefill.requests[0]

        assert answer.status_code == 200, answer.text
        assert f'"prompt_tokens":{expected}' in answer.text
        assert encode.counters["encoded"] == encode.exchange.counters["offered"] == 2
        assert encode.counters["finished"] == 0
        assert [each.item for each in read.encoded] == [0, 1]
        assert len({each.place.room for each in read.encoded} | {read.bootstrap.room}) == 3
        assert all("pixel_values" not in each.tensors for each in read.multimodal)
        assert [each.tensors["image_grid_thw"].values for each in read.multimodal] == [(1, 10, 20), (1, 20, 10)]
        assert sorted(calls(house)) == [
            ("d", "decode", "ok"),
            ("e", "encode", "ok"),
            ("e", "encode", "ok"),
            ("p", "prefill", "ok"),
        ]
        assert [told(answer)[name] for name in ("worker", "prefill_worker", "encode_workers", "tries")] == [
            *("d", "p"),
            ["e"],
            1,
        ]


async def test_a_prompt_of_text_asks_no_encode_worker(folder: str) -> None:
    async with three(folder) as house:
        answer = await ask(house)
        await all_idle(house)

        assert answer.status_code == 200
        assert "encode_workers" not in told(answer)
        assert engine(house, "e").counters["requests"] == 0
        assert engine(house, "p").requests[0].encoded == ()


async def test_the_pictures_of_one_request_are_spread_over_the_encode_workers(folder: str) -> None:
    async with three(folder, encode=("e0", "e1")) as house:
        answer = await ask(house, image_part(WIDE), image_part(TALL))
        await all_idle(house)

        assert answer.status_code == 200
        assert [engine(house, name).counters["encoded"] for name in ("e0", "e1")] == [1, 1]
        assert sorted(told(answer)["encode_workers"]) == ["e0", "e1"]


async def test_several_choices_have_an_embedding_each(folder: str) -> None:
    async with three(folder) as house:
        answer = await ask(house, image_part(WIDE), n=2, temperature=1)
        await all_idle(house)
        rooms = [each.place.room for request in engine(house, "p").requests for each in request.encoded]

        assert (answer.status_code, len(content(answer))) == (200, 2)
        assert (len(rooms), len(set(rooms)), engine(house, "e").counters["encoded"]) == (2, 2, 2)


# ------------------------------------------------------------------------------------------------------------- failures


@pytest.mark.full
@pytest.mark.sampled(keep=3)
@pytest.mark.parametrize("kind", ["refuse", "cut", "silence", "stall", "restart", "error", "garbage"])
async def test_an_encode_worker_that_fails_is_left_and_another_one_asked(folder: str, kind: Any) -> None:
    async with three(
        folder, encode=("e0", "e1"), config=settings(encode_s=5.0 if kind == "stall" else 3600.0)
    ) as house:
        engine(house, "e0").inject(Fault(kind))
        answer = await ask(house, image_part(WIDE))
        await all_idle(house)
        retried = [m.worker for m in house.observer.moments if isinstance(m, Retrying)]

        if kind == "error":  # an engine's own failure is not tried elsewhere
            assert (answer.status_code, retried) == (500, [])
        else:
            assert (answer.status_code, retried) == (200, ["e0"])
            assert told(answer)["encode_workers"] == ["e1"]
            assert told(answer)["prefill_worker"] == "p"  # which was not to blame
        failed = [outcome for worker, role, outcome in calls(house) if role == "encode" and worker == "e0"]
        assert len(failed) == 1
        assert failed != ["ok"]


async def test_a_request_whose_encode_worker_fails_its_health_checks_is_moved_to_another_one(folder: str) -> None:
    async with three(folder, encode=("e0", "e1")) as house:
        engine(house, "e0").inject(Fault("stall"))
        asked = asyncio.create_task(ask(house, image_part(WIDE)))
        await eventually(lambda: engine(house, "e0").counters["stalled"] and engine(house, "p").requests)
        worker = house.gateway.registry.get("e0")
        assert worker is not None
        house.gateway.services.running.monitor.signal(worker, "failing", "a late health check")
        answer = await asked
        await all_idle(house)

        assert answer.status_code == 200
        assert told(answer)["encode_workers"] == ["e1"]


async def test_when_encoding_fails_the_other_engines_are_told_to_stop(folder: str) -> None:
    async with three(folder) as house:
        engine(house, "e").inject(Fault("silence"))
        answer = await ask(house, image_part(WIDE))
        await all_idle(house)

        assert answer.status_code == 503
        assert engine(house, "p").exchange.counters["fetched"] == 0
        assert {outcome for _, role, outcome in calls(house) if role != "encode"} <= {"abandoned"}


@pytest.mark.parametrize("which", ["e", "p"])
async def test_a_lost_encode_or_prefill_engine_ends_the_call_of_the_other(folder: str, which: str) -> None:
    async with three(folder) as house:
        engine(house, "e").inject(Fault("stall"))
        asked = asyncio.create_task(ask(house, image_part(WIDE)))
        await eventually(lambda: engine(house, "e").counters["stalled"] and engine(house, "p").requests)
        await engine(house, which).stop()
        answer = await asked
        await all_idle(house)

        assert answer.status_code in (502, 503)
        assert "e" in {worker for worker, _, _ in calls(house)}


@pytest.mark.full
async def test_a_client_that_leaves_ends_every_engines_work(folder: str) -> None:
    async with three(folder) as house:
        engine(house, "e").inject(Fault("stall"))
        asked = asyncio.create_task(ask(house, image_part(WIDE)))
        await eventually(lambda: engine(house, "e").counters["stalled"] and engine(house, "p").requests)
        asked.cancel()
        await all_idle(house)

        assert engine(house, "e").counters["cancelled"] == 1
        assert {outcome for _, _, outcome in calls(house)} == {"abandoned"}


async def test_an_embedding_of_another_picture_is_not_read(folder: str) -> None:
    async with three(folder) as house:
        engine(house, "e").exchange.spoiled = True
        answer = await ask(house, image_part(WIDE))
        await all_idle(house)

        assert answer.status_code == 500
        assert "another medium" not in answer.text
        assert engine(house, "p").counters["refused"] == 1


@pytest.mark.full
@pytest.mark.parametrize("without", ["fail", "prefill_alone"])
async def test_no_encode_worker_is_what_the_setting_says(folder: str, without: str) -> None:
    async with three(folder, config=settings(without_encode=without)) as house:
        house.gateway.drain_worker("e")
        answer = await ask(house, image_part(WIDE))
        words = await ask(house)
        await all_idle(house)

        assert words.status_code == 200
        if without == "fail":
            assert (answer.status_code, "No encode worker" in answer.text) == (503, True)
        else:
            assert answer.status_code == 200
            assert "pixel_values" in engine(house, "p").requests[0].multimodal[0].tensors


# -------------------------------------------------------------------------------------------------------------- joining


async def test_an_encode_worker_serves_no_model_by_itself(folder: str) -> None:
    async with fleet(member("e", "encode", folder), config=settings()) as house:
        (worker,) = house.gateway.registry
        answer = await ask(house)
        listed = (await house.http.get("/v1/models")).json()["data"]

        assert (worker.role, worker.state, worker.models) == ("encode", "ready", ("sim",))
        assert ("KV role", "encode") in worker.evidence
        assert (answer.status_code, listed) == (404, [])


@pytest.mark.sampled(keep=2)
@pytest.mark.parametrize("dialect", ["vllm", "sglang", "trtllm", "mlx", "neutral"])
async def test_an_engine_that_cannot_encode_for_others_does_not_join_in_that_role(folder: str, dialect: str) -> None:
    async with three(folder) as house:
        spec = attrs.evolve(next(iter(house.gateway.registry)).spec, name="odd", dialect=dialect, role="encode")
        worker = house.gateway.add_worker(spec)
        await eventually(lambda: worker.reason)

        assert "cannot encode media for others" in worker.reason


def test_the_setting_names_encode_workers() -> None:
    (spec,) = specs_of(WorkersConfig(encode_urls=("grpc://gpu-0:50051",)))

    assert json.loads(json.dumps(spec.role)) == "encode"
