"""What holds for engines of every dialect: they are found out, and what they do wrong ends one request and no more."""

import asyncio
import json
import shutil
from pathlib import Path
from typing import Any

import attrs
import pytest
from tests.engine_kinds import DIALECTS, HTTP_DIALECTS
from tests.gateway.conftest import eventually, settled
from tests.gateway.fleet import ALERT, CALM, Member, Prefer, fleet
from tests.gateway.test_failures import taken_apart
from tests.shared import PATIENCE

from smg_core import Gateway
from smg_core.engines.settings import EnginesConfig
from smg_core.http.settings import ModelConfig
from smg_core.routing.settings import RoutingConfig
from smg_core.workers.settings import WorkersConfig
from smg_core.workers.worker import WorkerSpec
from smg_simulator.answers.faults import Fault, FaultKind
from smg_simulator.answers.replies import Reply, Rule
from smg_simulator.engine.clockwork import Timing
from smg_simulator.engine.engine import SimulatorConfig
from smg_simulator.engine.model_folder import MODEL_FOLDER
from smg_simulator.server.grpc_server import SimulatedEngine
from smg_simulator.server.http_server import engine_http_server

pytestmark = pytest.mark.anyio
every = pytest.mark.parametrize("dialect", DIALECTS)
WORDS = "one two three four five six seven eight nine ten. "
SAYS = SimulatorConfig(rules=(Rule((), Reply(WORDS)),))
LARGE = 128 * 1024
"""Bytes of a message that a piece of the tokenizer is within, and 1500 scored tokens are not."""
ONE_TRY = attrs.evolve(CALM, routing=RoutingConfig(retries=0))


def speaking(*dialects: str, **more: Any) -> SimulatorConfig:
    return attrs.evolve(SAYS, dialects=dialects, **more)


@every
async def test_the_dialect_of_an_engine_is_found_and_the_record_says_how(dialect: str) -> None:
    async with fleet(Member("a", "auto", speaking(dialect, block_size=32))) as house:
        (worker,) = house.gateway.registry
        answer = await house.chat()
        record = dict(worker.evidence)

    asked_before = list(DIALECTS)[: list(DIALECTS).index(dialect)]
    assert record["dialect"] == f"{dialect} (it answered; asked before: {', '.join(asked_before) or 'none'})"
    assert (record["engine's model"], record["context length"]) == ("sim", "32768")
    assert record.get("block size") == (None if dialect in ("mlx", "trtllm") else "32")
    assert (answer.status_code, answer.json()["choices"][0]["message"]["content"]) == (200, WORDS)
    assert f"{dialect} (it answered" in worker._repr_html_()


async def test_a_dialect_that_was_set_is_told_as_set() -> None:
    async with fleet(Member("a", "sglang", speaking("sglang"))) as house:
        (worker,) = house.gateway.registry

    assert dict(worker.evidence)["dialect"] == "sglang (as it was set)"
    assert dict(worker.evidence)["version"] == "simulator"


@every
async def test_an_engine_of_another_dialect_does_not_join_and_the_record_says_why(dialect: str) -> None:
    other = next(each for each in reversed(DIALECTS) if each != dialect)
    async with fleet(config=ALERT) as house, SimulatedEngine(speaking(other)) as engine:
        house.gateway.add_worker(WorkerSpec(engine.target, name="a", dialect=dialect))
        (worker,) = house.gateway.registry
        await eventually(lambda: worker.reason)
        told = (worker.state, worker.reason, worker.evidence, engine.counters["requests"])

    assert told == ("joining", "The engine does not offer this operation. (UNIMPLEMENTED: Method not found!)", (), 0)


@pytest.mark.full
@pytest.mark.sampled(keep=3)
@every
@pytest.mark.parametrize("streaming", [False, True])
async def test_a_message_that_is_too_large_ends_its_request_alone(dialect: str, streaming: bool) -> None:
    config = attrs.evolve(ONE_TRY, engines=EnginesConfig(message_bytes=LARGE))
    engine = attrs.evolve(SAYS, rules=(), timing=Timing(tokens_per_step=1500))
    async with fleet(Member("a", dialect, engine), config=config) as house:
        scored = {"logprobs": True, "top_logprobs": 20}
        large = await house.chat(stream=streaming, max_tokens=1500, ignore_eos=True, **scored)
        await settled(house)
        after = await house.chat(max_tokens=5, ignore_eos=True)
        states = [each.state for each in house.gateway.registry]

    if streaming and large.status_code == 200:
        assert len(taken_apart(large).errors) == 1
    else:
        assert large.status_code == 502
    assert (after.status_code, states) == (200, ["ready"])


@pytest.mark.full
@pytest.mark.sampled(keep=4)
@every
async def test_an_engine_that_restarts_under_load_ends_each_stream_once_and_is_used_again(dialect: str) -> None:
    config = attrs.evolve(ONE_TRY, workers=WorkersConfig(health_interval_s=0.1))
    async with fleet(Member("a", dialect, SAYS), config=config) as house:
        house.engine.inject(Fault("restart", after=3))
        broken = taken_apart(await house.chat(stream=True))
        await settled(house)
        async with asyncio.timeout(PATIENCE):  # a probe that met the restart may yet take the worker away for a moment
            while (after := await house.chat()).status_code != 200:
                assert after.status_code == 503

    assert len(broken.errors) == 1


@pytest.mark.full
@pytest.mark.sampled(keep=6)
@every
@pytest.mark.parametrize("kind", ["garbage", "silence", "cut"])
async def test_half_an_answer_ends_its_request_with_one_error(dialect: str, kind: FaultKind) -> None:
    async with fleet(Member("a", dialect, SAYS), config=ONE_TRY) as house:
        house.engine.inject(Fault(kind, after=2), Fault(kind))
        streamed = taken_apart(await house.chat(stream=True))
        whole = await house.chat()
        await settled(house)
        after = await house.chat()

    assert len(streamed.errors) == 1
    assert whole.status_code in (502, 503)
    assert (after.status_code, after.json()["choices"][0]["message"]["content"]) == (200, WORDS)


@pytest.mark.full
@pytest.mark.sampled(keep=3)
@every
async def test_a_worker_whose_tokenizer_is_not_that_of_its_peers_is_kept_out(dialect: str, tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(MODEL_FOLDER, other)
    vocabulary = json.loads((other / "tokenizer.json").read_text())
    vocabulary["model"]["vocab"] = {
        text: {5: 6, 6: 5}.get(number, number) for text, number in vocabulary["model"]["vocab"].items()
    }
    (other / "tokenizer.json").write_text(json.dumps(vocabulary))
    same = tmp_path / "same"  # the same files, packed at another time
    shutil.copytree(MODEL_FOLDER, same)
    (same / "README.md").write_text("a file that makes no tokens")
    async with (
        fleet(Member("a", dialect, SAYS), config=ALERT) as house,
        SimulatedEngine(attrs.evolve(SAYS, model_folder=str(other))) as strange,
        SimulatedEngine(attrs.evolve(SAYS, model_folder=str(same))) as alike,
    ):
        house.gateway.add_worker(WorkerSpec(strange.target, name="strange", dialect=dialect))
        house.gateway.add_worker(WorkerSpec(alike.target, name="alike", dialect=dialect))
        workers = {each.name: each for each in house.gateway.registry}
        await eventually(lambda: workers["strange"].reason and workers["alike"].state == "ready")
        answers = [await house.chat() for _ in range(3)]
        state, reason = workers["strange"].state, workers["strange"].reason

    assert (state, "another tokenizer" in reason) == ("joining", True)
    assert [answer.status_code for answer in answers] == [200] * 3
    assert strange.counters["requests"] == 0


@pytest.mark.full
@pytest.mark.sampled(keep=5)
@pytest.mark.parametrize("fellow", [*DIALECTS, *HTTP_DIALECTS])
@pytest.mark.parametrize("named", [False, True], ids=["one model", "models that settings give one name"])
async def test_a_worker_that_comes_back_is_taken_with_the_tokenizer_with_which_it_joined(
    fellow: str, named: bool, tmp_path: Path
) -> None:
    same = tmp_path / "same"
    shutil.copytree(MODEL_FOLDER, same)
    (same / "README.md").write_text("a file that makes no tokens")
    config = attrs.evolve(ALERT, model=ModelConfig(name="both")) if named else ALERT
    spec: dict[str, Any] = {"model": "both"} if named else {}
    alike = SimulatedEngine(attrs.evolve(SAYS, model_folder=str(same), model="its name" if named else "sim"))
    async with SimulatedEngine(SAYS, http_server=engine_http_server("127.0.0.1:0")) as first, alike:
        target = first.http_target if fellow in HTTP_DIALECTS else first.target
        workers = [WorkerSpec(target, dialect=fellow, **spec), WorkerSpec(alike.target, name="alike", **spec)]
        async with Gateway(workers[:1], config=config) as gateway:
            await gateway.ready()
            gateway.add_worker(workers[1])
            worker = gateway.registry.get("alike")
            assert worker is not None
            await eventually(lambda: worker.state == "ready")
            await alike.stop()
            await eventually(lambda: worker.state == "unreachable")
            await alike.start()
            await eventually(lambda: worker.state == "ready")


@pytest.mark.sampled(keep=2)
@every
async def test_two_engines_with_different_models_cannot_share_a_name_that_a_setting_gave(dialect: str) -> None:
    config = attrs.evolve(ALERT, model=ModelConfig(name="both"))
    async with (
        fleet(Member("a", dialect, SAYS), config=config) as house,
        SimulatedEngine(attrs.evolve(SAYS, model="other")) as second,
    ):
        house.gateway.add_worker(WorkerSpec(second.target, name="b", dialect=dialect))
        worker = house.gateway.registry.get("b")
        assert worker is not None
        await eventually(lambda: worker.reason)
        state, reason = worker.state, worker.reason
        answer = await house.chat(model="both")

    assert (state, "another model under a name" in reason) == ("joining", True)
    assert (answer.status_code, second.counters["requests"]) == (200, 0)


@pytest.mark.sampled(keep=3)
@every
async def test_a_second_engine_with_another_model_under_the_name_is_kept_out(dialect: str) -> None:
    config = ALERT
    async with (
        fleet(Member("a", dialect, SAYS), config=config, policy=Prefer("b")) as house,
        SimulatedEngine(attrs.evolve(SAYS, model="other")) as second,
    ):
        house.gateway.add_worker(WorkerSpec(second.target, name="b", dialect=dialect))
        worker = house.gateway.registry.get("b")
        await eventually(lambda: worker is not None and (worker.reason or worker.models))
        models = {each.name: each.models for each in house.gateway.registry}
        answer = await house.chat()

    assert models["a"] == ("sim",)
    assert "sim" not in models["b"]
    assert answer.status_code == 200
