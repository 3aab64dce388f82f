"""One engine reads the prompt, another writes the answer: with real messages, over real sockets, as a client sees it."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import attrs
import httpx
import pytest
from tests.gateway.conftest import CHAT, House, body, eventually
from tests.gateway.fleet import Member, Prefer, fleet

from smg_core import Config
from smg_core.errors import WorkerGone
from smg_core.hooks import AttemptEnded, Retrying, WorkerPicked
from smg_core.observability.settings import ObservabilityConfig
from smg_core.pipeline.settings import DisaggregationConfig, TimeoutsConfig
from smg_core.routing.settings import RoutingConfig
from smg_core.workers.settings import BreakerConfig, WorkersConfig
from smg_core.workers.worker import WorkerSpec
from smg_simulator.answers.faults import Fault
from smg_simulator.engine.clockwork import Timing
from smg_simulator.engine.engine import SimulatorConfig
from smg_simulator.server.grpc_server import SimulatedEngine

pytestmark = pytest.mark.anyio
CONNECTORS = ("NixlConnector", "MooncakeConnector")
WAYS = (("vllm", CONNECTORS[0]), ("vllm", CONNECTORS[1]), ("sglang", CONNECTORS[1]), ("tokenspeed", CONNECTORS[1]))
"""Dialects and connectors, each of which tells the engines something else."""
TEXT = "Tell me a story about the river and the quiet street that runs along it in the morning light."


def settings(**disaggregation: Any) -> Config:
    return Config(
        workers=WorkersConfig(health_interval_s=3600.0),
        routing=RoutingConfig(retry_s=0.001),
        observability=ObservabilityConfig(explain=True),
        disaggregation=DisaggregationConfig(**disaggregation),
    )


class Part(Member):
    """A member whose worker is told where its engine hands its cache over."""

    def spec(self, engine: SimulatedEngine) -> WorkerSpec:
        return attrs.evolve(super().spec(engine), bootstrap_port=engine.exchange.port)


Way = tuple[str, str]
OWN_ROLES = {"prefill": "kv_producer", "decode": "kv_consumer", None: "kv_both"}


def member(name: str, role: str | None, way: Way = WAYS[0], **engine: Any) -> Member:
    """An engine of one dialect and connector. Those of SGLang and TokenSpeed know their part themselves."""
    dialect, connector = way
    own = "kv_both" if dialect == "vllm" else OWN_ROLES[role]
    config = SimulatorConfig(kv_connector=connector, kv_role=engine.pop("kv_role", own), **engine)
    return Part(name, dialect, config, {"role": role})


@asynccontextmanager
async def pools(
    way: Way = WAYS[0],
    prefill: Sequence[str] = ("p",),
    decode: Sequence[str] = ("d",),
    *,
    config: Config | None = None,
    regular: Sequence[str] = (),
    **engine: Any,
) -> AsyncIterator[House]:
    """A gateway before a pool of each role; engines are called by name with `engine(house, name)`."""
    members = [
        *(member(name, "prefill", way, **engine) for name in prefill),
        *(member(name, "decode", way, **engine) for name in decode),
        *(member(name, None, way, **engine) for name in regular),
    ]
    async with fleet(*members, config=config or settings()) as house:
        yield house


def engine(house: House, name: str) -> Any:
    """The engine of the worker of that name."""
    return house.engines[[each.name for each in house.gateway.registry].index(name)]


async def ask(house: House, text: str = TEXT, **fields: Any) -> httpx.Response:
    return await house.http.post(CHAT, json=body(text, **fields), headers={"x-smg-explain": "1"})


def told(answer: httpx.Response) -> dict[str, Any]:
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = json.loads(answer.headers["x-smg-explain"])
    return found


def content(answer: httpx.Response) -> list[str]:
    return [each["message"]["content"] for each in answer.json()["choices"]]


def calls(house: House) -> list[tuple[str, str, str]]:
    """(worker, role, outcome) of every engine call."""
    return [(m.worker, m.role, m.outcome) for m in house.observer.moments if isinstance(m, AttemptEnded)]


async def idle(house: House) -> None:
    """Nothing is left: no place on the load board, no call at an engine, no cache that is waited for."""
    workers = list(house.gateway.registry)
    await eventually(
        lambda: (
            not any(each.in_flight for each in workers)
            and not any(each.active or each.exchange.counters["waiting"] for each in house.engines)
        )
    )


@pytest.fixture(params=WAYS, ids="-".join)
def way(request: pytest.FixtureRequest) -> Way:
    found: Way = request.param
    return found


# ------------------------------------------------------------------------------------------------------------- answers


@pytest.mark.sampled(keep=3)
@pytest.mark.parametrize("stream", [False, True])
async def test_the_answer_is_that_of_one_engine_and_the_prompt_is_read_by_the_other(way: Way, stream: bool) -> None:
    async with fleet(member("alone", None, way)) as alone:
        expected = content(await ask(alone, max_tokens=20))
    async with pools(way) as house:
        if stream:
            answer = await ask(house, max_tokens=20, stream=True, stream_options={"include_usage": True})
            chunks = [json.loads(line[6:]) for line in answer.text.splitlines() if line.startswith("data: {")]
            text = "".join(each["choices"][0]["delta"].get("content") or "" for each in chunks if each["choices"])
            usage = chunks[-1]["usage"]
        else:
            answer = await ask(house, max_tokens=20)
            (text,), usage = content(answer), answer.json()["usage"]
        await idle(house)
        prefill, decode = engine(house, "p"), engine(house, "d")

        assert [text] == expected
        assert usage["completion_tokens"] == 20
        assert usage["prompt_tokens"] == len(prefill.requests[0].input_ids) == len(decode.requests[0].input_ids)
        assert (prefill.requests[0].sampling.max_tokens, decode.requests[0].sampling.max_tokens) == (1, 20)
        assert prefill.exchange.counters["offered"] == decode.exchange.counters["fetched"] == 1
        assert sorted(calls(house)) == [("d", "decode", "ok"), ("p", "prefill", "ok")]
        assert [told(answer)[name] for name in ("worker", "role", "prefill_worker", "tries")] == ["d", "decode", "p", 1]


async def test_cached_tokens_are_those_of_the_engine_that_read_the_prompt(way: Way) -> None:
    async with pools(way) as house:
        first, second = [(await ask(house, max_tokens=5)).json()["usage"] for _ in range(2)]
        cached = engine(house, "p").engine.cache

        assert (first.get("prompt_tokens_details") or {}).get("cached_tokens", 0) == 0
        assert second["prompt_tokens_details"]["cached_tokens"] == cached.found > 0


@pytest.mark.full
@pytest.mark.sampled(keep=3)
async def test_several_choices_have_a_cache_each_and_logprobs(way: Way) -> None:
    async with fleet(member("alone", None, way)) as alone:
        expected = await ask(alone, n=3, logprobs=True, top_logprobs=2, max_tokens=4, temperature=1)
    async with pools(way) as house:
        answer = await ask(house, n=3, logprobs=True, top_logprobs=2, max_tokens=4, temperature=1)
        await idle(house)
        choices = answer.json()["choices"]

        assert [each["index"] for each in choices] == [0, 1, 2]
        assert all(len(each["logprobs"]["content"]) == 4 for each in choices)
        assert all(len(each["logprobs"]["content"][0]["top_logprobs"]) == 2 for each in choices)
        assert len(choices) == len(expected.json()["choices"])
        assert engine(house, "d").exchange.counters["fetched"] == 3
        assert len({each.id for each in engine(house, "d").requests}) == 3


async def test_prompt_logprobs_come_from_the_engine_that_read_the_prompt(way: Way) -> None:
    async with pools(way) as house:
        answer = await house.http.post(
            "/v1/completions", json={"model": "sim", "prompt": TEXT, "echo": True, "logprobs": 1, "max_tokens": 3}
        )
        if way[0] == "tokenspeed":  # its protocol has no field for them
            assert answer.status_code == 400
            return
        found = answer.json()["choices"][0]["logprobs"]
        prompt_tokens = answer.json()["usage"]["prompt_tokens"]

        assert answer.status_code == 200
        assert len(found["tokens"]) == prompt_tokens + 3
        assert all(each is not None for each in found["token_logprobs"][1:])


async def test_stop_strings_tools_and_formats_hold_for_the_engine_that_answers(way: Way) -> None:
    schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    form = {"type": "json_schema", "json_schema": {"name": "c", "schema": schema, "strict": True}}
    async with pools(way) as house:
        answer = await ask(house, response_format=form, stop=["\n\n"])

        assert set(json.loads(content(answer)[0])) == {"city"}
        # where the prefill engine chooses the first token, it has to know the format too
        assert (engine(house, "p").requests[0].constraint is None) == (way[0] == "vllm")
        assert engine(house, "d").requests[0].constraint is not None


# ------------------------------------------------------------------------------------------------------------- failures


@pytest.mark.sampled(per=("kind",))
@pytest.mark.parametrize("kind", ["refuse", "cut", "silence", "garbage", "restart"])
async def test_a_prefill_engine_that_fails_is_left_and_another_one_asked(way: Way, kind: Any) -> None:
    async with pools(way, prefill=("p0", "p1")) as house:
        engine(house, "p0").inject(Fault(kind))
        answer = await ask(house, max_tokens=5)
        await idle(house)
        retried = [m.worker for m in house.observer.moments if isinstance(m, Retrying)]

        assert (answer.status_code, retried) == (200, ["p0"])
        assert told(answer)["prefill_worker"] == "p1"
        assert told(answer)["worker"] == "d"  # which was not to blame


@pytest.mark.parametrize("way", WAYS[:1], ids="-".join)  # the only one in which the engine says where the cache lies
async def test_a_prefill_engine_that_hands_nothing_over_is_to_blame_and_left_alone(
    way: Way, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with pools(way, prefill=("p0", "p1")) as house:
        monkeypatch.setattr(engine(house, "p0").exchange, "_answer", lambda request, told: None)
        for number in range(20):
            answer = await ask(house, f"{number} {TEXT}", max_tokens=5)
            assert (answer.status_code, told(answer)["prefill_worker"]) == (200, "p1")
        await idle(house)

        assert {outcome for worker, _, outcome in calls(house) if worker == "p0"} == {"EngineGarbled"}
        assert house.gateway.registry.breakers.state("p0") == "open"
        assert house.gateway.registry.breakers.state("d") == "closed"


@pytest.mark.full
@pytest.mark.sampled(keep=3)
@pytest.mark.parametrize("after", [0, 3])
async def test_a_decode_engine_that_fails_before_the_first_byte_is_left_and_the_prompt_read_again(
    way: Way, after: int
) -> None:
    async with pools(way, decode=("d0", "d1")) as house:
        engine(house, "d0").inject(Fault("cut", after))
        answer = await ask(house, max_tokens=8)
        await idle(house)

        assert answer.status_code == 200
        assert [told(answer)[name] for name in ("worker", "prefill_worker", "tries")] == ["d1", "p", 2]
        assert len(engine(house, "p").requests) == 2


async def test_a_stream_that_has_begun_ends_with_one_error_when_its_decode_engine_is_lost(way: Way) -> None:
    async with pools(way, timing=Timing(decode_rate=200.0)) as house:
        engine(house, "d").inject(Fault("cut", 3))
        answer = await ask(house, max_tokens=8, stream=True)
        await idle(house)

        assert answer.text.count('"error"') == 1
        assert len(engine(house, "p").requests) == 1


@pytest.mark.full
@pytest.mark.sampled(keep=3)
async def test_a_cache_that_never_comes_is_given_up_and_nothing_is_left_at_either_engine(way: Way) -> None:
    config = settings(transfer_s=0.05, end_s=60.0)
    async with pools(way, prefill=("p0", "p1"), decode=("d0", "d1"), config=config) as house:
        engine(house, "p0").exchange.withheld = True
        answer = await ask(house, max_tokens=5)
        await idle(house)
        stalled = [each for each in calls(house) if each[2] == "EngineStalled"]

        assert stalled[0] == ("d0", "decode", "EngineStalled")
        answered = any(
            each[1:] == ("decode", "ok") for each in calls(house)
        )  # a busy machine may be late with others too
        assert answer.status_code == (200 if answered else 504)


async def test_a_cache_of_another_prompt_is_not_decoded(way: Way) -> None:
    async with pools(way) as house:
        engine(house, "p").exchange.spoiled = True
        answer = await ask(house, max_tokens=5)
        await idle(house)

        assert answer.status_code == 500
        assert "another prompt" not in answer.text  # the engine's own words are for the operator
        assert engine(house, "d").counters["refused"] == 1


@pytest.mark.sampled(keep=4)
@pytest.mark.parametrize("stream", [False, True])
async def test_a_prefill_engine_that_dies_before_its_cache_is_read_is_replaced_by_another_one(
    way: Way, stream: bool
) -> None:
    async with pools(way, prefill=("p0", "p1")) as house:
        dying = engine(house, "p0")
        dying.exchange.withheld = True
        asked = asyncio.create_task(ask(house, max_tokens=5, stream=stream))
        await eventually(lambda: engine(house, "d").exchange.counters["waiting"])
        await dying.stop()
        answer = await asked
        await eventually(lambda: house.gateway.registry.get("p0").state == "unreachable")  # type: ignore[union-attr]
        await idle(house)

        assert answer.status_code == 200  # the decode engine says no more than that it failed
        assert "error" not in answer.text
        assert [each for each in calls(house) if each[1] == "decode"] == [
            ("d", "decode", "EngineFailed"),
            ("d", "decode", "ok"),
        ]
        assert [each for each in calls(house) if each[1] == "prefill"] == [
            ("p0", "prefill", "ok"),
            ("p1", "prefill", "ok"),
        ]
        assert house.gateway.registry.breakers.state("d") == "closed"


@pytest.mark.full
@pytest.mark.sampled(keep=2)
@pytest.mark.parametrize("prefill", [("p0",), ("p0", "p1")], ids=len)
async def test_a_decode_engine_that_always_fails_is_left_alone_and_no_prefill_engine_is_blamed(
    way: Way, prefill: tuple[str, ...]
) -> None:
    async with pools(way, prefill=prefill, decode=("d0", "d1")) as house:
        engine(house, "d0").inject(*[Fault("error")] * 200)
        answers = [await ask(house, f"{number} {TEXT}", max_tokens=3) for number in range(30)]
        await idle(house)
        breakers = house.gateway.registry.breakers

        states = {each.name: each.state for each in house.gateway.registry}
        assert {each.status_code for each in answers} == {200}, (states, calls(house))
        assert {name: breakers.state(name) for name in (*prefill, "d0", "d1")} == {
            **dict.fromkeys((*prefill, "d1"), "closed"),
            "d0": "open",
        }
        assert len([each for each in calls(house) if each[2] == "EngineFailed"]) < 10


@pytest.mark.full
@pytest.mark.sampled(keep=3)
async def test_an_engine_that_fails_by_itself_while_it_waits_for_a_cache_has_a_bounded_number_of_tries(
    way: Way,
) -> None:
    async with pools(way, prefill=("p0", "p1", "p2", "p3", "p4")) as house:
        for name in ("p0", "p1", "p2", "p3", "p4"):
            engine(house, name).exchange.spoiled = True
        answer = await ask(house, max_tokens=5)
        await idle(house)

        assert answer.status_code == 500
        assert [each[2] for each in calls(house) if each[1] == "decode"] == ["EngineFailed"] * 4


@pytest.mark.sampled(keep=2)
async def test_a_client_that_leaves_ends_both_engines_work(way: Way) -> None:
    async with pools(way) as house:
        engine(house, "p").exchange.withheld = True
        asked = asyncio.create_task(ask(house, max_tokens=5))
        await eventually(lambda: engine(house, "d").exchange.counters["waiting"])
        asked.cancel()
        await idle(house)

        assert all(outcome in ("ok", "abandoned") for _, _, outcome in calls(house))


# -------------------------------------------------------------------------------------------------------------- choosing


@pytest.mark.full
@pytest.mark.sampled(keep=3)
async def test_each_pool_is_used_in_turn(way: Way) -> None:
    async with pools(way, prefill=("p0", "p1"), decode=("d0", "d1", "d2")) as house:
        found = [told(await ask(house, max_tokens=2)) for _ in range(6)]

        assert {each["prefill_worker"] for each in found} == {"p0", "p1"}
        assert {each["worker"] for each in found} == {"d0", "d1", "d2"}


@pytest.mark.parametrize("without", ["fail", "decode_alone"])
async def test_no_prefill_worker_is_what_the_setting_says(without: str) -> None:
    async with pools(config=settings(without_prefill=without)) as house:
        house.gateway.drain_worker("p")
        answer = await ask(house, max_tokens=2)

        if without == "fail":
            assert answer.status_code == 503
            assert "No prefill worker" in answer.json()["error"]["message"]
            assert not engine(house, "d").requests
        else:
            assert answer.status_code == 200
            assert (told(answer)["role"], told(answer).get("prefill_worker")) == ("decode", None)
            picked = [m.role for m in house.observer.moments if isinstance(m, WorkerPicked)]
            assert picked == ["decode"]


async def test_no_decode_worker_is_a_503_and_a_whole_worker_takes_what_pairs_cannot() -> None:
    async with pools(regular=("whole",)) as house:
        assert told(await ask(house, max_tokens=2))["prefill_worker"] == "p"
        house.gateway.drain_worker("d")
        assert told(await ask(house, max_tokens=2))["worker"] == "whole"
        house.gateway.drain_worker("whole")
        answer = await ask(house, max_tokens=2)
        assert (answer.status_code, "No decode worker" in answer.text) == (503, True)


async def test_engines_of_different_connectors_are_no_pair() -> None:
    members = [member("p", "prefill", WAYS[0]), member("d", "decode", WAYS[1])]
    async with fleet(*members, config=settings()) as house:
        answer = await ask(house, max_tokens=2)
        assert (answer.status_code, "understand each other" in answer.text) == (503, True)


async def test_a_role_is_learned_from_the_engine_and_a_contradiction_keeps_the_worker_out() -> None:
    members = [member("p", None, kv_role="kv_producer"), member("d", None, kv_role="kv_consumer")]
    async with fleet(*members, config=settings()) as house:
        assert [each.role for each in house.gateway.registry] == ["prefill", "decode"]
        assert told(await ask(house, max_tokens=2))["prefill_worker"] == "p"
        wrong = house.gateway.add_worker(attrs.evolve(members[0].spec(house.engines[0]), name="wrong", role="decode"))
        await eventually(lambda: "has another role" in wrong.reason)


async def test_an_engine_that_cannot_share_its_cache_does_not_join_in_such_a_role() -> None:
    async with fleet(member("whole", None), config=settings()) as house:
        spec = attrs.evolve(next(iter(house.gateway.registry)).spec, name="mlx", dialect="mlx", role="prefill")
        worker = house.gateway.add_worker(spec)
        await eventually(lambda: "cannot share its cache" in worker.reason)


@pytest.mark.full
async def test_a_prefill_engine_that_hangs_is_to_blame_and_the_only_decode_engine_is_asked_again(way: Way) -> None:
    timeouts = TimeoutsConfig(first_token_s=3.0)  # a busy machine answers in that time
    async with pools(way, ("p0", "p1"), config=attrs.evolve(settings(), timeouts=timeouts)) as house:
        engine(house, "p0").inject(*[Fault("stall")] * 8)
        for n in (1, 2):
            answer = await ask(house, max_tokens=2, n=n)
            assert (answer.status_code, told(answer)["prefill_worker"]) == (200, "p1")
        outcomes = calls(house)
        assert ("p0", "prefill", "EngineStalled") in outcomes
        assert not any((worker, role) == ("d", "decode") and how == "EngineStalled" for worker, role, how in outcomes)
        await idle(house)


@pytest.mark.sampled(keep=2)
async def test_of_several_choices_the_one_that_failed_says_which_engine_is_to_blame(way: Way) -> None:
    async with pools(way, ("p0", "p1")) as house:
        engine(house, "p0").inject(None, Fault("cut"))
        # The first choice waits for decode when the second one fails; on a machine so busy that it does not, the next try waits.
        engine(house, "d").inject(Fault("stall", seconds=0.5))
        answer = await ask(house, max_tokens=2, n=2)
        assert (answer.status_code, told(answer)["prefill_worker"]) == (200, "p1")
        await idle(house)


PAIR_AND_WHOLE = (member("p", "prefill", WAYS[2]), member("d", "decode", WAYS[2]), member("whole", None))


async def test_a_whole_worker_takes_what_the_pair_cannot_do_and_what_it_has_no_room_for() -> None:
    async with fleet(*PAIR_AND_WHOLE, config=settings()) as house:
        assert told(await ask(house, max_tokens=2))["worker"] == "d"
        assert told(await ask(house, max_tokens=2, seed=1))["worker"] == "whole"  # SGLang's protocol carries none
        house.gateway.drain_worker("whole")
        refused = await ask(house, max_tokens=2, seed=1)
        assert (refused.status_code, refused.json()["error"]["param"]) == (400, "seed")
    strangers = [member("p", "prefill", WAYS[0]), member("d", "decode", WAYS[1]), member("whole", None)]
    async with fleet(*strangers, config=settings()) as house:
        assert told(await ask(house, max_tokens=2))["worker"] == "whole"


async def test_a_prefill_worker_whose_decode_workers_are_full_is_not_chosen() -> None:
    slow = {"timing": Timing(decode_rate=1)}
    members = [
        member("p0", "prefill", WAYS[2]),
        member("d0", "decode", WAYS[2], **slow),
        member("p1", "prefill"),
        member("d1", "decode"),
    ]
    limits = WorkersConfig(health_interval_s=3600.0, most_in_flight=1)
    async with fleet(*members, config=attrs.evolve(settings(), workers=limits), policy=Prefer("p0")) as house:
        first = asyncio.ensure_future(ask(house, max_tokens=100))
        await eventually(lambda: engine(house, "d0").active and not house.gateway.registry.get("p0").in_flight)
        answer = await ask(house, max_tokens=2)
        assert (answer.status_code, told(answer)["prefill_worker"], told(answer)["worker"]) == (200, "p1", "d1")
        picked = [m.worker for m in house.observer.moments if isinstance(m, WorkerPicked)]
        assert picked == ["p0", "d0", "p1", "d1"]  # nobody is picked in vain
        first.cancel()
        await asyncio.wait([first])


async def test_an_engine_that_is_replaced_between_two_probes_by_one_of_another_role_is_known_in_that_role() -> None:
    def one(role: str) -> SimulatorConfig:
        return SimulatorConfig(dialects=("sglang",), kv_connector="MooncakeConnector", kv_role=role)  # type: ignore[arg-type]

    async with fleet(Part("w", "sglang", one("kv_producer")), config=settings()) as house:
        (worker,) = house.gateway.registry
        assert worker.role == "prefill"
        listen = house.engine.target.removeprefix("grpc://")
        await house.engine.stop()
        async with SimulatedEngine(one("kv_consumer"), listen):
            house.gateway.services.running.monitor.wake(worker)
            await eventually(lambda: (worker.role, worker.state) == ("decode", "ready"))


async def test_a_request_for_several_choices_is_one_probe_of_a_prefill_engine_that_failed() -> None:
    config = attrs.evolve(settings(), breaker=BreakerConfig(failures=2, open_s=0.05, probes=3))
    async with pools(config=config) as house:
        breakers = house.gateway.registry.breakers
        for _ in range(2):
            breakers.ended("p", WorkerGone("gone"), time.monotonic())
        opened = time.monotonic()
        await eventually(lambda: time.monotonic() > opened + 0.1)
        told: list[str] = []
        given_up = breakers.given_up
        breakers.given_up = lambda name, rank=None: (told.append(name), given_up(name, rank))  # type: ignore[method-assign]
        engine(house, "p").inject(*[Fault("stall")] * 3)
        asked = asyncio.create_task(ask(house, n=3))
        await eventually(lambda: engine(house, "p").counters["stalled"] == 3)
        asked.cancel()
        await idle(house)

    assert told.count("p") == 1


# ------------------------------------------------------------------------------------- prompts that decode engines read


def staying(local_tokens: int) -> Config:
    return attrs.evolve(settings(local_tokens=local_tokens), routing=RoutingConfig(retry_s=0.001, policy="cache_aware"))


def roles_of(house: House) -> list[list[str]]:
    """The roles that were picked for each request, in order."""
    found: dict[str, list[str]] = {}
    for each in house.observer.of(WorkerPicked):
        found.setdefault(each.request_id, []).append(each.role)
    return [*found.values()]


@pytest.mark.sampled(keep=2)
@pytest.mark.parametrize("way", [*WAYS, ("neutral", CONNECTORS[0])], ids="-".join)
async def test_a_short_or_cached_prompt_stays_on_a_decode_engine_that_can_read(way: Way) -> None:
    able = way[0] in ("vllm", "neutral")
    async with pools(way, config=staying(48), decode=("d", "e")) as house:
        long = TEXT + " And then it rained, and the people went home along the river. " * 12
        answers = [await ask(house, text) for text in (TEXT, long, long, long + " Go on.")]
        texts = [content(each) for each in answers]

    assert texts[1] == texts[2]
    both = ["prefill", "decode"]
    assert roles_of(house) == [["decode"], both, ["decode"], ["decode"]] if able else [both] * 4
    assert ["prefill_worker" in told(each) for each in answers] == [not able, True, not able, not able]


async def test_prompts_stay_with_no_setting_never_and_beside_a_busy_prefill_engine_longer_ones_too() -> None:
    async with pools(config=staying(0)) as house:
        await ask(house, TEXT)
        assert roles_of(house) == [["prefill", "decode"]]
    async with pools(config=staying(16)) as house:
        await ask(house, TEXT * 2)
        prefill = house.gateway.registry.get("p")
        assert prefill is not None
        prefill.board.add(prefill.row, 4, 1_000_000)
        await ask(house, TEXT[::-1] * 2)
        prefill.board.add(prefill.row, -4, -1_000_000)
        assert roles_of(house) == [["prefill", "decode"], ["decode"]]


async def test_a_prompt_that_stays_asks_not_whether_prefill_engines_have_room_and_a_longer_one_does() -> None:
    config = staying(120)
    config = attrs.evolve(config, workers=attrs.evolve(config.workers, most_in_flight=2))
    async with pools(config=config) as house:
        long = TEXT * 12
        await ask(house, long)
        prefill, decode = (house.gateway.registry.get(name) for name in "pd")
        assert prefill is not None
        assert decode is not None
        prefill.board.add(prefill.row, 2, 0)
        short, cached, other = [await ask(house, text) for text in (TEXT, long + " Go on.", long[::-1])]
        decode.board.add(decode.row, 2, 0)
        full = await ask(house, TEXT)
        decode.board.add(decode.row, -2, 0)
        prefill.board.add(prefill.row, -2, 0)

    assert [each.status_code for each in (short, cached, other, full)] == [200, 200, 503, 503]
    assert roles_of(house) == [["prefill", "decode"], ["decode"], ["decode"]]


async def test_a_decode_engine_that_is_lost_with_a_prompt_that_it_reads_is_replaced() -> None:
    async with pools(decode=("d", "e"), config=staying(10_000)) as house:
        first = told(await ask(house, TEXT * 6))["worker"]
        engine(house, first).inject(Fault("cut"))
        answer = await ask(house, TEXT * 6)
        await idle(house)

        assert told(answer)["worker"] != first
        assert "prefill_worker" not in told(answer)
        assert [m.worker for m in house.observer.moments if isinstance(m, Retrying)] == [first]
