"""How workers come and go: joins, rejoins, leaves and drains, and what is served after each."""

import asyncio
import json
import logging
import shutil
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import httpx
import pytest
from tests.gateway.conftest import House, body, eventually, settled
from tests.gateway.fleet import ALERT, Member, Watching, fleet, joined
from tests.shared import PATIENCE
from tokenizers import AddedToken, Tokenizer

from smg_core import Config, Gateway
from smg_core.engines.base import EngineFacts
from smg_core.engines.token_ids.client import EngineClient
from smg_core.errors import WorkerGone
from smg_core.http.settings import MediaConfig, ModelConfig
from smg_core.models import loading
from smg_core.tokenizer.loader import TokenizerBundle, load_tokenizer
from smg_core.workers.settings import WorkersConfig
from smg_core.workers.worker import Worker, WorkerSpec
from smg_simulator.answers.replies import Reply, Rule
from smg_simulator.engine.clockwork import Timing
from smg_simulator.engine.engine import SimulatorConfig
from smg_simulator.engine.model_folder import MODEL_FOLDER
from smg_simulator.server.grpc_server import SimulatedEngine

pytestmark = pytest.mark.anyio

SAYS = SimulatorConfig(rules=(Rule((), Reply("one two three four five six seven")),))


@pytest.fixture(scope="module")
def other_folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The embedded engine's model with further tokens, so that texts are other ids."""
    folder = tmp_path_factory.mktemp("models") / "other"
    shutil.copytree(MODEL_FOLDER, folder)
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.add_tokens([AddedToken("Hello"), AddedToken("there")])
    tokenizer.save(str(folder / "tokenizer.json"))
    return str(folder)


@pytest.fixture(scope="module")
def undecided_folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The embedded engine's model without defaults for sampling."""
    folder = tmp_path_factory.mktemp("models") / "undecided"
    shutil.copytree(MODEL_FOLDER, folder)
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": [2, 0], "pad_token_id": 0}))
    return str(folder)


@pytest.fixture
def fetched(monkeypatch: pytest.MonkeyPatch) -> list[EngineClient]:
    """The clients that were asked for their engine's tokenizer; filled while a test runs."""
    found: list[EngineClient] = []
    fetch = EngineClient.tokenizer

    async def tokenizer(self: EngineClient, **arguments: Any) -> tuple[bytes, str] | None:
        found.append(self)
        return await fetch(self, **arguments)

    monkeypatch.setattr(EngineClient, "tokenizer", tokenizer)
    return found


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[str]]:
    """The folders of unpacked tokenizers that there are now, in the scratch folders of gateways."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return lambda: sorted(path.name for path in tmp_path.glob("smg-run-*/tokenizer-*"))


@asynccontextmanager
async def house_of(*workers: str | WorkerSpec, config: Config = ALERT, **arguments: Any) -> AsyncIterator[House]:
    """A gateway before engines that the test has started, or not."""
    gateway = Gateway(workers, config=config, **arguments)
    await gateway.start()
    try:
        async with gateway.http_client(httpx, base_url="http://gateway") as http:
            yield House(gateway, http, gateway.services.observer)  # type: ignore[arg-type]
    finally:
        await gateway.stop()


async def replaced(house: House, engine: SimulatedEngine, config: SimulatorConfig) -> SimulatedEngine:
    """Stop an engine, and start another one at its address once the gateway has noticed."""
    (worker,) = [each for each in house.gateway.registry if each.spec.url == engine.target]
    await engine.stop()
    await eventually(lambda: worker.state == "unreachable")
    other = SimulatedEngine(config, listen=engine.target.removeprefix("grpc://"))
    await other.start()
    return other


async def models(house: House) -> list[str]:
    return [each["id"] for each in (await house.http.get("/v1/models")).json()["data"]]


def worker(house: House, name: str) -> Worker:
    found = house.gateway.registry.get(name)
    assert found is not None
    return found


# ---------------------------------------------------------------------------------------------------------------- joining


async def test_many_workers_of_one_model_have_one_tokenizer_which_each_engine_is_asked_for_once(
    fetched: list[EngineClient], temporary: Callable[[], list[str]]
) -> None:
    engines = [SimulatedEngine(SAYS) for _ in range(6)]
    try:
        for engine in engines:
            await engine.start()
        async with house_of(*(engine.target for engine in engines)) as house:
            await eventually(lambda: all(each.state == "ready" for each in house.gateway.registry))
            facts = {id(each.facts) for each in house.gateway.registry}
            uniform = house.gateway.registry.uniform("sim")
            unpacked = temporary()
    finally:
        for engine in engines:
            await engine.stop()

    assert len(fetched) == len(set(map(id, fetched))) == 6
    assert len(unpacked) == 1
    assert uniform
    assert len(facts) == 1


@pytest.mark.full
async def test_workers_of_two_models_are_served_beside_each_other(other_folder: str) -> None:
    one, two = Member("a"), Member("b", engine=SimulatorConfig(model="second", model_folder=other_folder))
    async with fleet(one, two) as house:
        served = await models(house)
        await house.chat("Hello there")
        await house.http.post("/v1/chat/completions", json=body("Hello there", model="second"))
        ids = [list(engine.requests[0].input_ids) for engine in house.engines]

    assert served == ["second", "sim"]
    assert ids[0] != ids[1]


async def test_a_worker_that_serves_another_model_under_a_taken_name_is_kept_out_with_one_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    config = attrs.evolve(ALERT, model=ModelConfig(name="chat"))
    async with fleet(Member("a"), config=config) as house, SimulatedEngine(SimulatorConfig(model="second")) as second:
        with caplog.at_level(logging.WARNING, "smg.workers"):
            house.gateway.add_worker(WorkerSpec(second.target, name="b"))
            await eventually(lambda: any("taken" in record.getMessage() for record in caplog.records))
            tries = second.counters["requests"]
            await asyncio.gather(*(house.http.post("/v1/chat/completions", json=body(model="chat")) for _ in range(4)))
        state = worker(house, "b").state

        assert (state, tries, second.counters["requests"]) == ("joining", 0, 0)
        assert len(caplog.records) == 1
        assert [each.root for each in house.gateway.models.values()] == ["sim"]


async def test_two_workers_of_different_models_that_join_at_once_under_one_name_are_not_mixed() -> None:
    config = attrs.evolve(ALERT, model=ModelConfig(name="chat"))
    async with (
        SimulatedEngine(SimulatorConfig(model="first")) as first,
        SimulatedEngine(SimulatorConfig(model="second")) as second,
        house_of(first.target, second.target, config=config) as house,
    ):
        await house.gateway.ready()
        for _ in range(4):
            answer = await house.http.post("/v1/chat/completions", json=body(model="chat"))
            assert answer.status_code == 200
        states = sorted(each.state for each in house.gateway.registry)
        asked = sorted(engine.counters["requests"] for engine in (first, second))

    assert states == ["joining", "ready"]
    assert asked == [0, 4]


async def test_an_alias_of_one_model_is_no_name_of_another(caplog: pytest.LogCaptureFixture) -> None:
    config = attrs.evolve(ALERT, model=ModelConfig(served_names=("default",)))
    async with fleet(Member("a"), config=config) as house, SimulatedEngine(SimulatorConfig(model="second")) as second:
        with caplog.at_level(logging.WARNING, "smg.workers"):
            house.gateway.add_worker(WorkerSpec(second.target, name="b"))
            await eventually(lambda: bool(caplog.records))
        served = await models(house)

    assert served == ["default", "sim"]


async def test_the_operator_may_say_that_two_engines_serve_one_model_and_their_tokenizers_must_agree(
    other_folder: str, caplog: pytest.LogCaptureFixture
) -> None:
    second = Member("b", engine=SimulatorConfig(model="/models/sim"), more={"model": "sim"})
    async with (
        fleet(Member("a"), second, config=ALERT) as house,
        SimulatedEngine(SimulatorConfig(model="/models/other", model_folder=other_folder)) as third,
    ):
        with caplog.at_level(logging.WARNING, "smg.workers"):
            house.gateway.add_worker(WorkerSpec(third.target, name="c", model="sim"))
            await eventually(lambda: bool(caplog.records))
        states = [each.state for each in house.gateway.registry]

    assert states == ["ready", "ready", "joining"]
    assert "another tokenizer" in caplog.records[0].getMessage()


async def test_an_engine_that_does_not_name_its_model_is_not_served_under_its_address(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with SimulatedEngine(SimulatorConfig(model="")) as engine:
        spec = WorkerSpec(engine.target, dialect="neutral")
        with caplog.at_level(logging.WARNING, "smg.workers"):
            async with house_of(spec) as house:
                await eventually(lambda: bool(caplog.records))
                served = await models(house)
        async with house_of(attrs.evolve(spec, model="mine")) as house:
            await house.gateway.ready()
            named = await models(house)

    assert served == []
    assert "which model" in caplog.records[0].getMessage()
    assert named == ["mine"]


@pytest.mark.full
async def test_a_join_that_fails_half_way_leaves_nothing_behind(
    tmp_path: Path, temporary: Callable[[], list[str]], caplog: pytest.LogCaptureFixture
) -> None:
    broken = tmp_path.parent / f"{tmp_path.name}-broken"
    shutil.copytree(MODEL_FOLDER, broken)
    async with SimulatedEngine(SimulatorConfig(model_folder=str(broken))) as engine:
        (broken / "tokenizer.json").write_text("{}")
        with caplog.at_level(logging.WARNING, "smg.workers"):
            async with house_of(engine.target) as house:
                await eventually(lambda: bool(caplog.records))
                onboarded = worker(house, engine.target)
                served, known, left = await models(house), house.gateway.registry.models, temporary()
                shutil.copy(MODEL_FOLDER / "tokenizer.json", broken / "tokenizer.json")
                await house.gateway.ready()
                after, mended = onboarded.models, temporary()
        shutil.rmtree(broken)

    assert (served, known, left) == ([], (), [])
    assert after == ("sim",)
    assert len(mended) == 1
    assert temporary() == []


async def test_what_is_being_loaded_for_one_worker_survives_that_another_leaves(
    other_folder: str, temporary: Callable[[], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, may_go_on = threading.Event(), threading.Event()

    def load(folder: Path, **arguments: Any) -> TokenizerBundle:
        begun.set()
        assert may_go_on.wait(PATIENCE)
        return load_tokenizer(folder, **arguments)

    second = SimulatorConfig(model="second", model_folder=other_folder)
    async with fleet(Member("a"), config=ALERT) as house, SimulatedEngine(second) as engine:
        monkeypatch.setattr(loading, "load_tokenizer", load)
        house.gateway.add_worker(WorkerSpec(engine.target, name="b"))
        await eventually(begun.is_set)
        await house.gateway.remove_worker("a")
        folders = temporary()
        may_go_on.set()
        await joined(house.gateway, "b")
        answer = await house.http.post("/v1/chat/completions", json=body(model="second"))
        served = await models(house)

    assert (answer.status_code, served, len(folders)) == (200, ["second"], 1)


async def test_an_engine_that_never_sends_its_tokenizer_holds_no_other_worker_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fetch, asked = EngineClient.tokenizer, list[EngineClient]()

    async def tokenizer(self: EngineClient, **arguments: Any) -> tuple[bytes, str] | None:
        asked.append(self)
        if len(asked) == 2:  # the first of those that are compared
            await asyncio.Event().wait()
        return await fetch(self, **arguments)

    monkeypatch.setattr(EngineClient, "tokenizer", tokenizer)
    async with AsyncExitStack() as stack:
        engines = [await stack.enter_async_context(SimulatedEngine(SAYS)) for _ in range(4)]
        async with house_of(*(engine.target for engine in engines)) as house:
            await eventually(lambda: [each.state for each in house.gateway.registry].count("ready") == 3)
            states = sorted(each.state for each in house.gateway.registry)

    assert states == ["joining", "ready", "ready", "ready"]


async def test_a_worker_that_leaves_while_its_tokenizer_is_loaded_holds_nobody_up_and_leaves_nothing(
    temporary: Callable[[], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, may_go_on = threading.Event(), threading.Event()

    def load(folder: Path, **arguments: Any) -> TokenizerBundle:
        begun.set()
        assert may_go_on.wait(PATIENCE)
        return load_tokenizer(folder, **arguments)

    monkeypatch.setattr(loading, "load_tokenizer", load)
    try:
        async with SimulatedEngine(SAYS) as engine, house_of(WorkerSpec(engine.target, name="a")) as house:
            await eventually(begun.is_set)
            await house.gateway.remove_worker("a")
            assert not may_go_on.is_set()
            assert (await models(house), temporary()) == ([], [])
    finally:
        may_go_on.set()


@pytest.mark.parametrize("order", ["ab", "ba"])
async def test_the_models_defaults_are_those_of_the_first_worker_that_says_some_whoever_joins_first(
    order: str, undecided_folder: str
) -> None:
    tells = {"a": SimulatorConfig(model_folder=undecided_folder), "b": SimulatorConfig()}
    async with fleet(*(Member(name, engine=tells[name]) for name in order), config=ALERT) as house:
        for _ in range(2):
            await house.chat()
        told = [request.sampling.temperature for engine in house.engines for request in engine.requests]

    assert [round(each or 0, 3) for each in told] == [0.7, 0.7]


async def test_shared_memory_that_the_operator_does_not_want_is_no_fact_of_an_engine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("smg_simulator.server.grpc_server.namespace", lambda: "this host's")
    members = Member("a"), Member("b", "neutral")
    async with fleet(*members, config=Config(media=MediaConfig(shared_memory="auto"))) as house:
        seen = {each.facts.shared_memory for each in house.gateway.registry}
    async with fleet(*members, config=Config(media=MediaConfig(shared_memory="off"))) as house:
        unseen = {each.facts.shared_memory for each in house.gateway.registry}

    assert "this host's" in seen
    assert unseen == {""}


def test_equal_facts_are_one_key() -> None:
    one, two = (EngineFacts("d", constraints=frozenset({"regex"})) for _ in range(2))

    assert {one: 1}[two] == 1
    assert {one: 1}.get(attrs.evolve(one, n=False)) is None


# -------------------------------------------------------------------------------------------------------------- coming back


async def test_an_engine_that_comes_back_with_another_model_is_served_with_its_own_tokenizer(other_folder: str) -> None:
    policy = Watching()
    async with SimulatedEngine(SAYS) as engine, house_of(engine.target, policy=policy) as house:
        await house.gateway.ready()
        await house.chat("Hello there")
        before = list(engine.requests[-1].input_ids)
        other = await replaced(house, engine, attrs.evolve(SAYS, model_folder=other_folder))
        try:
            await house.gateway.ready()
            answer = await house.chat("Hello there")
            after = list(other.requests[-1].input_ids)
            text, left = other.engine.vocabulary.decode(after), list(policy.left)
        finally:
            await other.stop()

    assert answer.json()["choices"][0]["message"]["content"] == "one two three four five six seven"
    assert after != before
    assert "Hello there" in text
    assert left == [engine.target]


async def test_an_engine_that_comes_back_under_another_name_takes_its_model_with_it(other_folder: str) -> None:
    policy = Watching()
    async with SimulatedEngine(SAYS) as engine, house_of(engine.target, policy=policy) as house:
        await house.gateway.ready()
        await house.chat()
        other = await replaced(house, engine, SimulatorConfig(model="second", model_folder=other_folder))
        try:
            await house.gateway.ready()
            served = await models(house)
            gone = await house.chat()
            found = await house.http.post("/v1/chat/completions", json=body(model="second"))
            left = list(policy.left)
        finally:
            await other.stop()

    assert served == ["second"]
    assert (gone.status_code, found.status_code) == (404, 200)
    assert left == [engine.target]


async def test_an_engine_that_comes_back_with_the_same_model_keeps_tokenizer_and_caches(
    temporary: Callable[[], list[str]],
) -> None:
    policy = Watching()
    async with SimulatedEngine(SAYS) as engine, house_of(engine.target, policy=policy) as house:
        await house.gateway.ready()
        await house.chat("Hello there, once more")
        before, folders = house.gateway.models["sim"], temporary()
        other = await replaced(house, engine, SAYS)
        try:
            await house.gateway.ready()
            told = await house.gateway.explain(body("Hello there, once more"))
            left = list(policy.left)
        finally:
            await other.stop()
        assert house.gateway.models["sim"] is before
        assert temporary() == folders

    assert told.cached_characters
    assert left == []


async def test_an_engine_that_comes_back_with_another_tokenizer_than_its_fellows_stays_out(
    other_folder: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with SimulatedEngine(SAYS) as one, SimulatedEngine(SAYS) as two, house_of(one.target, two.target) as house:
        await eventually(lambda: all(each.state == "ready" for each in house.gateway.registry))
        with caplog.at_level(logging.WARNING, "smg.workers"):
            other = await replaced(house, one, attrs.evolve(SAYS, model_folder=other_folder))
            await eventually(lambda: any("another tokenizer" in each.getMessage() for each in caplog.records))
        try:
            answers = [await house.chat("Hello there") for _ in range(4)]
        finally:
            await other.stop()
        states = [each.state for each in house.gateway.registry]

    assert [answer.status_code for answer in answers] == [200] * 4
    assert states == ["unreachable", "ready"]


@pytest.mark.full
@pytest.mark.parametrize("undrained", [False, True])
async def test_an_engine_that_is_away_holds_no_tokenizer_whatever_an_operator_wants_of_its_worker(
    other_folder: str, undrained: bool
) -> None:
    async with SimulatedEngine(SAYS) as one, SimulatedEngine(SAYS) as two, house_of(one.target, two.target) as house:
        await eventually(lambda: all(each.state == "ready" for each in house.gateway.registry))
        first, second = house.gateway.registry
        house.gateway.drain_worker(first.name)
        await one.stop()
        await eventually(lambda: first.failing)
        if undrained:
            house.gateway.services.running.monitor.signal(first, "undrain", "")
        other = await replaced(house, two, attrs.evolve(SAYS, model_folder=other_folder))
        try:
            await eventually(lambda: second.state == "ready")
            answer = await house.chat("Hello there")
        finally:
            await other.stop()

    assert answer.status_code == 200


@pytest.mark.full
async def test_an_engine_that_comes_back_in_another_dialect_is_spoken_to_in_that() -> None:
    async with SimulatedEngine(SAYS) as engine, house_of(engine.target) as house:
        await house.gateway.ready()
        before = worker(house, engine.target).facts.dialect
        await engine.stop()
        await eventually(lambda: worker(house, engine.target).state == "unreachable")
        engine.codecs = tuple(codec for codec in engine.codecs if "vllm" not in codec.service)
        await engine.start()
        await house.gateway.ready()
        answer = await house.chat()
        after = worker(house, engine.target).facts.dialect

    assert (before, after) == ("vllm", "neutral")
    assert answer.status_code == 200


# ----------------------------------------------------------------------------------------------------------------- leaving


async def test_a_model_is_gone_when_its_last_worker_has_left(
    other_folder: str, temporary: Callable[[], list[str]]
) -> None:
    policies: list[Watching] = []

    def make() -> Watching:
        policies.append(Watching())
        return policies[-1]

    second = SimulatorConfig(model="second", model_folder=other_folder)
    members = Member("a"), Member("b", engine=second), Member("c", engine=second)
    async with fleet(*members, config=ALERT, policy=make) as house:
        await house.chat()
        await house.http.post("/v1/chat/completions", json=body(model="second"))
        both = temporary()
        await house.gateway.remove_worker("b")
        still, kept = await models(house), temporary()
        await house.gateway.remove_worker("c")
        left, folders = await models(house), temporary()
        answer = await house.http.post("/v1/chat/completions", json=body(model="second"))
        card = await house.http.get("/v1/models/second")
        plain = await house.chat()
        told = [policy.left.copy() for policy in policies if policy.left]

    assert still == ["second", "sim"]
    assert left == ["sim"]
    assert (answer.status_code, card.status_code, plain.status_code) == (404, 404, 200)
    assert len(both) == len(kept) == 2
    assert len(folders) == 1
    assert told == [["b", "c"]]


async def test_a_model_leaves_with_all_its_names_and_comes_back_with_all() -> None:
    config = attrs.evolve(ALERT, model=ModelConfig(served_names=("default", "best")))
    async with fleet(Member("a"), config=config) as house, SimulatedEngine(SAYS) as engine:
        first = await models(house)
        answers = [await house.http.post("/v1/chat/completions", json=body(model=name)) for name in first]
        await house.gateway.remove_worker("a")
        none = await models(house)
        house.gateway.add_worker(WorkerSpec(engine.target, name="a"))
        await joined(house.gateway, "a")
        again = await models(house)

    assert first == again == ["best", "default", "sim"]
    assert [answer.status_code for answer in answers] == [200] * 3
    assert [answer.json()["model"] for answer in answers] == first
    assert none == []


async def test_policies_of_a_model_that_is_gone_are_forgotten_and_made_anew() -> None:
    policies: list[Watching] = []

    def make() -> Watching:
        policies.append(Watching())
        return policies[-1]

    async with fleet(Member("a"), config=ALERT, policy=make) as house, SimulatedEngine(SAYS) as engine:
        await house.chat()
        await house.gateway.remove_worker("a")
        house.gateway.add_worker(WorkerSpec(engine.target, name="a"))
        await joined(house.gateway, "a")
        await house.chat()

    asked = [policy for policy in policies if policy.shown]
    assert [policy.shown for policy in asked] == [[("a",)], [("a",)]]
    assert [policy.left for policy in asked] == [["a"], ["a"]]


async def test_a_drained_worker_gets_nothing_new_and_finishes_what_it_has() -> None:
    paced = attrs.evolve(SAYS, timing=Timing(decode_rate=100))
    policy = Watching("a")
    async with fleet(Member("a", engine=paced), Member("b", engine=SAYS), policy=policy, config=ALERT) as house:
        running = asyncio.create_task(house.chat(stream=True))
        await eventually(lambda: house.engine.active)
        house.gateway.drain_worker("a")
        others = [await house.chat() for _ in range(3)]
        answer = await running
        await settled(house)
        states = [each.state for each in house.gateway.registry]
        asked = [engine.counters["requests"] for engine in house.engines]
        await house.gateway.remove_worker("a")

    assert answer.text.endswith("data: [DONE]\n\n")
    assert [each.status_code for each in others] == [200] * 3
    assert states == ["draining", "ready"]
    assert asked == [1, 3]


async def test_calls_of_a_worker_that_is_removed_are_lost_and_told_to_nobody_after_it_has_left() -> None:
    policy = Watching("a")
    stuck = attrs.evolve(SAYS, timing=Timing(overhead=3600.0))
    async with fleet(Member("a", engine=stuck), Member("b", engine=SAYS), policy=policy, config=ALERT) as house:
        running = asyncio.create_task(house.chat())
        await eventually(lambda: house.engine.active)
        await house.gateway.remove_worker("a")
        answer = await running
        await settled(house)
        assert policy.left == ["a"]

    assert answer.status_code == 200
    assert [each.worker for each in policy.ended] == ["b"]


async def test_a_worker_may_leave_while_it_is_joining() -> None:
    async with house_of(WorkerSpec("grpc://127.0.0.1:1", name="a")) as house:
        await house.gateway.remove_worker("a")
        with pytest.raises(LookupError, match="no worker 'a'"):
            house.gateway.drain_worker("a")
        house.gateway.add_worker(WorkerSpec("grpc://127.0.0.1:1", name="a"))

        assert worker(house, "a").state == "joining"


async def test_a_gateway_that_stops_closes_its_engines_clients_and_forgets_what_it_served(
    temporary: Callable[[], list[str]],
) -> None:
    async with SimulatedEngine(SAYS) as engine:
        gateway = Gateway([engine.target], config=ALERT)
        async with gateway:
            (only,) = gateway.registry
            client = only.engine
        with pytest.raises(WorkerGone):
            await client.health()

    assert (gateway.models, temporary()) == ({}, [])


async def test_a_gateway_may_be_started_again() -> None:
    async with SimulatedEngine(SAYS) as engine:
        gateway = Gateway([engine.target], config=ALERT)
        for _ in range(2):
            async with gateway, gateway.http_client(httpx, base_url="http://gateway") as http:
                answer = await http.post("/v1/chat/completions", json=body())
                assert answer.status_code == 200


# ------------------------------------------------------------------------------------------------- fleets that are replaced


@pytest.mark.full
@pytest.mark.parametrize(
    ("model", "more"),
    [
        (ModelConfig(name="chat"), {}),
        (ModelConfig(served_names=("chat",)), {}),
        (ModelConfig(), {"model": "chat"}),
    ],
    ids=["the gateway names it", "an alias", "the workers name it"],
)
async def test_a_fleet_that_comes_back_with_another_model_under_the_name_it_had_is_served(
    other_folder: str, model: ModelConfig, more: dict[str, Any]
) -> None:
    """Each of its workers comes back while the others are thought to serve what they served before."""
    config = attrs.evolve(ALERT, model=model)
    async with SimulatedEngine(SAYS) as one, SimulatedEngine(SAYS) as two:
        specs = [WorkerSpec(each.target, name=name, **more) for each, name in ((one, "one"), (two, "two"))]
        async with house_of(*specs, config=config) as house:
            workers = [worker(house, "one"), worker(house, "two")]
            await eventually(lambda: all(each.state == "ready" for each in workers))
            for engine in (one, two):
                await engine.stop()
            await eventually(lambda: all(each.state == "unreachable" for each in workers))
            other = attrs.evolve(SAYS, model="other", model_folder=other_folder)
            async with SimulatedEngine(other, listen=one.target.removeprefix("grpc://")):
                await eventually(lambda: workers[0].state == "ready")
                alone = await models(house)
                async with SimulatedEngine(other, listen=two.target.removeprefix("grpc://")):
                    await eventually(lambda: workers[1].state == "ready")
                    answers = [await house.chat("Hello there", model="chat") for _ in range(2)]
            served = await models(house)

    assert [answer.status_code for answer in answers] == [200, 200]
    assert answers[0].json()["usage"]["prompt_tokens"] == answers[1].json()["usage"]["prompt_tokens"]
    assert alone == served
    assert "sim" not in served


async def test_a_worker_that_comes_back_to_a_name_with_another_model_by_now_stays_out(
    other_folder: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with SimulatedEngine(SAYS) as one, SimulatedEngine(SAYS) as two:
        config = attrs.evolve(ALERT, model=ModelConfig(name="chat"))
        specs = [WorkerSpec(one.target, name="one"), WorkerSpec(two.target, name="two")]
        async with house_of(*specs, config=config) as house:
            workers = [worker(house, "one"), worker(house, "two")]
            await eventually(lambda: all(each.state == "ready" for each in workers))
            for engine in (one, two):
                await engine.stop()
            await eventually(lambda: all(each.state == "unreachable" for each in workers))
            other = attrs.evolve(SAYS, model="other", model_folder=other_folder)
            async with SimulatedEngine(other, listen=one.target.removeprefix("grpc://")):
                await eventually(lambda: workers[0].state == "ready")
                async with SimulatedEngine(SAYS, listen=two.target.removeprefix("grpc://")):
                    await eventually(lambda: "worker two has not joined" in caplog.text)
                    states = [each.state for each in workers]
                    roots = house.gateway.models["chat"].root
                    answer = await house.chat("Hello there", model="chat")

    assert states == ["ready", "unreachable"]
    assert roots == "other"
    assert answer.status_code == 200


async def test_a_model_that_a_worker_turned_away_from_is_what_its_other_workers_say() -> None:
    small, large = SimulatorConfig(context_length=600), SimulatorConfig(context_length=3000)
    async with SimulatedEngine(small) as one, SimulatedEngine(large) as two, house_of(one.target, two.target) as house:
        await eventually(lambda: all(each.state == "ready" for each in house.gateway.registry))
        before = house.gateway.models["sim"].context_length
        other = await replaced(house, two, attrs.evolve(large, model="other"))
        await eventually(lambda: "other" in house.gateway.models)
        after = {name: model.context_length for name, model in house.gateway.models.items()}
        await other.stop()

    assert before == 3000
    assert after == {"sim": 600, "other": 3000}


@pytest.mark.full
async def test_an_engine_that_is_replaced_between_two_probes_is_served_with_its_own_tokenizer(
    other_folder: str,
) -> None:
    """It was never seen to be away: nobody asked meanwhile."""
    config = Config(workers=WorkersConfig(health_interval_s=1.0))
    async with SimulatedEngine(SAYS) as one, house_of(WorkerSpec(one.target, name="one"), config=config) as house:
        await eventually(lambda: worker(house, "one").state == "ready")
        before = house.gateway.models["sim"].tokenizer
        await one.stop()
        other = attrs.evolve(SAYS, model_folder=other_folder)
        async with SimulatedEngine(other, listen=one.target.removeprefix("grpc://")) as two:
            await eventually(lambda: house.gateway.models["sim"].tokenizer is not before, PATIENCE)
            await eventually(lambda: worker(house, "one").state == "ready")
            answer = await house.chat("Hello there")
            (asked,) = two.requests

    assert answer.status_code == 200
    assert answer.json()["usage"]["prompt_tokens"] == len(asked.input_ids)
