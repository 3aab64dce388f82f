"""LoRA adapters as models: listed, asked for by name on every API, loaded at the admin door, sent to who holds them."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import attrs
import httpx
import pytest
from tests.engine_kinds import DIALECTS
from tests.gateway.conftest import CHAT, House, body, eventually, over_http
from tests.gateway.test_admin import table
from tests.shared import PATIENCE

from smg_core import Config, Gateway
from smg_core.admin.settings import AdminConfig
from smg_core.app.app import App
from smg_core.app.inprocess import async_client
from smg_core.auth.base import Head
from smg_core.channel.base import Channel
from smg_core.channel.local import LocalChannel
from smg_core.cli import main
from smg_core.errors import Overloaded
from smg_core.grants import Grants
from smg_core.http.settings import ModelConfig
from smg_core.pipeline.settings import DisaggregationConfig
from smg_core.request import Caller
from smg_core.server.admin_listener import admin_listener, close_listener
from smg_core.server.admin_server import administered
from smg_core.testing import MemoryObserver
from smg_core.workers.settings import WorkersConfig
from smg_core.workers.worker import WorkerSpec
from smg_simulator.engine.adapters import LoadedAdapter
from smg_simulator.engine.engine import SimulatorConfig
from smg_simulator.server.grpc_server import SimulatedEngine

pytestmark = pytest.mark.anyio

SAID: list[dict[str, Any]] = [{"role": "user", "content": "Hello"}]
ASKED: list[tuple[str, dict[str, Any]]] = [
    (CHAT, {"messages": SAID, "max_tokens": 12}),
    ("/v1/completions", {"prompt": "Hello", "max_tokens": 12}),
    ("/v1/responses", {"input": "Hello", "max_output_tokens": 16, "store": False}),
    ("/v1/messages", {"messages": SAID, "max_tokens": 12}),
    ("/v1beta/models/{model}:generateContent", {"contents": [{"parts": [{"text": "Hello"}]}]}),
    ("/v1beta/interactions", {"input": "Hello", "store": False}),
]
QUIET = WorkersConfig(health_interval_s=3600.0)
POET, CLERK = ("id-poet", "poet"), ("id-clerk", "clerk")


@attrs.define
class Fleet(House):
    """A gateway before engines with names, and a client of its admin door."""

    named: dict[str, SimulatedEngine] = attrs.field(kw_only=True)
    admin: httpx.AsyncClient = attrs.field(kw_only=True)

    async def models(self) -> list[str]:
        return [each["id"] for each in (await self.http.get("/v1/models")).json()["data"]]

    async def change(self, what: str, **fields: Any) -> dict[str, tuple[int, str]]:
        answer = await self.admin.post(f"/admin/workers/{what}", json=fields)
        assert answer.status_code == 200, answer.text
        return {row["worker"]: (row["status"], row["message"]) for row in answer.json()["workers"]}


@asynccontextmanager
async def fleet(
    *,
    specs: dict[str, dict[str, Any]] | None = None,
    workers: WorkersConfig = QUIET,
    ready: bool = True,
    sections: dict[str, Any] | None = None,
    channel: Channel | None = None,
    more: tuple[WorkerSpec, ...] = (),
    **engines: SimulatorConfig,
) -> AsyncIterator[Fleet]:
    """`engines` by name, of the dialects that their settings name, SGLang if none, and the workers `more`; `specs` says more of
    some workers."""
    config = Config(admin=AdminConfig(port=0), workers=workers, **(sections or {}))
    listener = admin_listener(config)
    assert listener is not None
    async with AsyncExitStack() as stack:
        stack.callback(close_listener, config, listener)
        named, members = {}, [*more]
        for name, wanted in engines.items():
            dialect = (wanted.dialects or ("sglang",))[0]
            engine = SimulatedEngine(attrs.evolve(wanted, dialects=(dialect,)))
            named[name] = await stack.enter_async_context(engine)
            members.append(WorkerSpec(engine.target, name, dialect=dialect, **(specs or {}).get(name, {})))
        observer = MemoryObserver()
        gateway = await stack.enter_async_context(Gateway(members, config=config, observer=observer, channel=channel))
        if ready:
            await eventually(lambda: all(worker.state == "ready" for worker in gateway.registry))
        await stack.enter_async_context(administered(gateway, config, listener, table()))
        base = f"http://127.0.0.1:{listener.getsockname()[1]}"
        admin = await stack.enter_async_context(httpx.AsyncClient(base_url=base, timeout=PATIENCE, trust_env=False))
        http = await stack.enter_async_context(gateway.http_client(httpx, base_url="http://gateway"))
        yield Fleet(gateway, http, observer, own=tuple(named.values()), named=named, admin=admin)


def text_of(answer: httpx.Response) -> str:
    assert answer.status_code == 200, answer.text
    return str(answer.json()["choices"][0]["message"]["content"])


# ---------------------------------------------------------------------------------------------------------- asking for one


@pytest.mark.full
async def test_every_api_takes_an_adapters_name_and_the_engine_is_told_its_own_id_for_it() -> None:
    async with fleet(gpu=SimulatorConfig(adapters=(POET, CLERK))) as house:
        for path, fields in ASKED:
            for name, id in (("sim", None), ("poet", "id-poet"), ("sim:clerk", "id-clerk")):
                given = fields if "{model}" in path else {"model": name, **fields}
                answer = await house.http.post(path.format(model=name), json=given)

                assert answer.status_code == 200, (path, name, answer.text)
                assert house.engine.requests[-1].lora == id, (path, name)
                assert name in answer.text, (path, name)


async def test_the_answers_of_the_model_and_of_its_adapters_differ_and_share_no_cache() -> None:
    long = "The river runs along the quiet street in the morning light and the people walk beside it. " * 3
    async with fleet(gpu=SimulatorConfig(adapters=(POET, CLERK))) as house:
        answers = [await house.chat(long, model=name) for name in ("sim", "poet", "clerk", "poet", "sim:poet")]
        texts = [text_of(answer) for answer in answers]
        cached = [answer.json()["usage"]["prompt_tokens_details"]["cached_tokens"] for answer in answers]

    assert len(set(texts[:3])) == 3
    assert texts[1] == texts[3] == texts[4]
    assert [count > 0 for count in cached] == [False, False, False, True, True]


@pytest.mark.full
@pytest.mark.sampled(keep=2)
@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_dialect_with_a_field_for_adapters_takes_them_and_an_engine_of_another_is_kept_out(
    dialect: str,
) -> None:
    able = dialect in ("sglang", "trtllm")
    engine = SimulatorConfig(dialects=(dialect,), adapters=(("7", "poet"),))
    specs: dict[str, dict[str, Any]] = {"gpu": {"adapters": (("poet", "7"),), "model": "sim"}}
    other = SimulatorConfig(dialects=("vllm",), model="other")
    async with fleet(specs=specs, ready=False, gpu=engine, other=other) as house:
        worker = house.gateway.registry.get("gpu")
        assert worker is not None
        await eventually(lambda: worker.state == "ready" if able else worker.reason)
        answer = await house.chat(model="poet", max_tokens=5)
        reason, state, sent = worker.reason, worker.state, [each.lora for each in house.engine.requests]

    if able:
        assert (answer.status_code, sent) == (200, ["7"]), answer.text
    else:
        assert (state, sent, answer.status_code) == ("joining", [], 503)
        assert "adapters" in reason


async def test_an_adapter_that_nobody_holds_is_no_model() -> None:
    async with fleet(gpu=SimulatorConfig(adapters=(POET,))) as house:
        answers = [await house.chat(model=name) for name in ("nobody", "sim:nobody", "other:poet")]

    assert [answer.status_code for answer in answers] == [404, 404, 404]
    assert all(
        name in answer.text for name, answer in zip(("nobody", "sim:nobody", "other:poet"), answers, strict=True)
    )


async def test_a_request_for_an_adapter_goes_only_to_workers_that_hold_it() -> None:
    bare, holder = SimulatorConfig(), SimulatorConfig(adapters=(POET,))
    async with fleet(bare=bare, holder=holder, other=attrs.evolve(bare, dialects=("vllm",))) as house:
        for _ in range(9):
            assert (await house.chat(model="poet", max_tokens=3)).status_code == 200
        served = {name: len(engine.requests) for name, engine in house.named.items()}
        await house.named["holder"].stop()
        await house.chat(model="poet")
        await eventually(lambda: house.gateway.registry.get("holder").state == "unreachable")  # type: ignore[union-attr]
        lost, model = await house.chat(model="poet"), await house.chat(max_tokens=3)

    assert served == {"bare": 0, "holder": 9, "other": 0}
    assert lost.status_code == 503
    assert "poet" in lost.text
    assert model.status_code == 200


async def test_two_engines_that_share_a_turn_are_each_told_their_own_id_of_the_adapter() -> None:
    pair = {
        "reads": SimulatorConfig(kv_connector="MooncakeConnector", kv_role="kv_producer", adapters=(("r", "poet"),)),
        "writes": SimulatorConfig(kv_connector="MooncakeConnector", kv_role="kv_consumer", adapters=(("w", "poet"),)),
    }
    alone = DisaggregationConfig(without_prefill="fail")
    async with AsyncExitStack() as stack:
        engines = {
            name: await stack.enter_async_context(SimulatedEngine(attrs.evolve(each, dialects=("sglang",))))
            for name, each in pair.items()
        }
        specs = [
            WorkerSpec(
                engines[name].target, name, dialect="sglang", role=role, bootstrap_port=engines[name].exchange.port
            )
            for name, role in (("reads", "prefill"), ("writes", "decode"))
        ]
        config = Config(workers=QUIET, disaggregation=alone)
        gateway = await stack.enter_async_context(Gateway(specs, config=config))
        await eventually(lambda: all(worker.state == "ready" for worker in gateway.registry))
        http = await stack.enter_async_context(gateway.http_client(httpx, base_url="http://gateway"))
        answer = await http.post(CHAT, json=body(model="poet", max_tokens=5))
        told = {name: [each.lora for each in engine.requests] for name, engine in engines.items()}

    assert answer.status_code == 200, answer.text
    assert told == {"reads": ["r"], "writes": ["w"]}


@pytest.mark.full
async def test_the_adapters_that_a_server_of_chat_completions_lists_are_asked_of_it_by_name() -> None:
    async with over_http(SimulatorConfig(dialects=("sglang",), adapters=(POET,))) as far:
        specs = [WorkerSpec(far.url, name="far")]
        async with (
            Gateway(specs, config=Config(workers=QUIET)) as near,
            near.http_client(httpx, base_url="http://gateway") as http,
        ):
            listed = [each["id"] for each in (await http.get("/v1/models")).json()["data"]]
            answers = [await http.post(CHAT, json=body(model=name, max_tokens=5)) for name in ("sim", "poet")]
        told = [each.lora for each in far.engine.requests]

    assert listed == ["poet", "sim"]
    assert [answer.status_code for answer in answers] == [200, 200]
    assert [answer.json()["model"] for answer in answers] == ["sim", "poet"]
    assert told == [None, "id-poet"]


# ------------------------------------------------------------------------------------------------------------- listing them


@pytest.mark.full
async def test_each_list_of_models_has_the_adapters_with_the_model_that_they_belong_to() -> None:
    async with fleet(gpu=SimulatorConfig(adapters=(POET, CLERK))) as house:
        openai = (await house.http.get("/v1/models")).json()["data"]
        one = (await house.http.get("/v1/models/sim:poet")).json()
        anthropic = (await house.http.get("/v1/models", headers={"anthropic-version": "2023-06-01"})).json()["data"]
        gemini = (await house.http.get("/v1beta/models")).json()["models"]

    assert [(each["id"], each.get("parent")) for each in openai] == [("clerk", "sim"), ("poet", "sim"), ("sim", None)]
    assert (one["id"], one["parent"]) == ("sim:poet", "sim")
    assert [each["id"] for each in anthropic] == ["clerk", "poet", "sim"]
    assert [(each["name"], each.get("baseModelId")) for each in gemini] == [
        ("models/clerk", "sim"),
        ("models/poet", "sim"),
        ("models/sim", None),
    ]


async def test_grants_of_models_hold_for_the_names_of_adapters() -> None:
    granted = {"poets": ("poet",), "base": ("sim",), "all": ("sim*",)}

    async def by_key(head: Head) -> Caller:
        return Caller("t", grants=Grants(models=(granted[head.headers["authorization"]],)))

    async with (
        fleet(gpu=SimulatorConfig(adapters=(POET, CLERK))) as house,
        async_client(App(house.gateway, by_key), base_url="http://gateway") as http,
    ):
        listed, statuses = {}, {}
        for key in granted:
            headers = {"authorization": key}
            listed[key] = [each["id"] for each in (await http.get("/v1/models", headers=headers)).json()["data"]]
            for name in ("sim", "poet", "sim:poet", "clerk"):
                answer = await http.post(CHAT, json=body(model=name, max_tokens=3), headers=headers)
                statuses[key, name] = answer.status_code

    assert listed == {"poets": ["poet"], "base": ["sim"], "all": ["sim", "sim:clerk", "sim:poet"]}
    assert {pair for pair, status in statuses.items() if status == 200} == {
        ("poets", "poet"),
        ("base", "sim"),
        ("all", "sim"),
        ("all", "sim:poet"),
    }
    assert {status for status in statuses.values() if status != 200} == {404}


async def test_an_adapter_under_a_name_that_is_taken_is_asked_for_by_its_longer_name() -> None:
    first = SimulatorConfig(adapters=(POET, ("id-sim", "sim")))
    async with fleet(first=first, sections={"model": ModelConfig(served_names=("house",))}) as house:
        listed = await house.models()
        await house.chat(model="sim", max_tokens=3)
        await house.chat(model="sim:sim", max_tokens=3)
        await house.chat(model="house:poet", max_tokens=3)
        told = [each.lora for each in house.engine.requests]

    assert listed == ["house", "house:sim", "poet", "sim", "sim:sim"]
    assert told == [None, "id-sim", "id-poet"]


# ----------------------------------------------------------------------------------------------------- loading and unloading


async def test_an_adapter_that_was_loaded_at_the_admin_door_is_a_model_until_it_is_unloaded() -> None:
    plain = SimulatorConfig()
    async with fleet(one=plain, two=plain, three=attrs.evolve(plain, dialects=("vllm",))) as house:
        loaded = await house.change("load_adapter", name="poet", path="/adapters/poet", workers=["one"], pinned=True)
        listed = await house.models()
        for _ in range(4):
            assert (await house.chat(model="poet", max_tokens=3)).status_code == 200
        served = {name: len(engine.requests) for name, engine in house.named.items()}
        (held,) = house.named["one"].engine.adapters
        everywhere = await house.change("load_adapter", name="poet", path="/adapters/poet")
        gone = await house.change("unload_adapter", name="poet")
        again = await house.change("unload_adapter", name="poet", workers=["one"])
        after, refused = await house.models(), await house.chat(model="poet")

    assert {name: status for name, (status, _) in loaded.items()} == {"one": 200}
    assert listed == ["poet", "sim"]
    assert served == {"one": 4, "two": 0, "three": 0}
    assert (held.name, held.path, held.pinned) == ("poet", "/adapters/poet", True)
    assert {name: status for name, (status, _) in everywhere.items()} == {"one": 409, "two": 200, "three": 501}
    assert "already" in everywhere["one"][1]
    assert {name: status for name, (status, _) in gone.items()} == {"one": 200, "two": 200, "three": 501}
    assert again["one"][0] == 409
    assert after == ["sim"]
    assert refused.status_code == 404


@asynccontextmanager
async def beside(house: Fleet, channel: Channel) -> AsyncIterator[tuple[Gateway, httpx.AsyncClient]]:
    """Another gateway before the same engines, as another process of the same gateway is, and its client."""
    specs = [worker.spec for worker in house.gateway.registry]
    async with Gateway(specs, config=house.gateway.config, channel=channel) as other:
        await eventually(lambda: all(worker.state == "ready" for worker in other.registry))
        async with other.http_client(httpx, base_url="http://gateway") as http:
            yield other, http


@pytest.mark.full
async def test_what_one_process_loads_or_unloads_is_known_to_the_others_when_the_door_answers() -> None:
    channel = LocalChannel()
    async with (
        fleet(one=SimulatorConfig(), two=SimulatorConfig(), channel=channel) as house,
        beside(house, channel) as (other, http),
    ):
        await house.change("load_adapter", name="poet", path="/adapters/poet", workers=["one"])
        held = {worker.name: dict(worker.adapters) for worker in other.registry}
        (known,) = house.named["one"].engine.adapters
        asked = [await http.post(CHAT, json=body(model=name, max_tokens=3)) for name in ("poet", "sim:poet")]
        told = [each.lora for each in house.named["one"].requests]
        await house.change("unload_adapter", name="poet")
        gone = [worker.adapters for worker in other.registry]
        refused = await http.post(CHAT, json=body(model="poet", max_tokens=3))

    assert held == {"one": {"poet": known.id}, "two": {}}
    assert [answer.status_code for answer in asked] == [200, 200]
    assert told == [known.id] * 2
    assert gone == [{}, {}]
    assert refused.status_code == 404


async def test_a_process_that_is_told_of_an_adapter_asks_the_engine_which_it_holds() -> None:
    channel = LocalChannel()
    async with fleet(one=SimulatorConfig(), channel=channel) as house, beside(house, channel) as (other, _):
        house.engine.engine.adapters.load(LoadedAdapter("id-clerk", "clerk", "/adapters/clerk"))
        await house.change("load_adapter", name="poet", path="/adapters/poet")
        await eventually(lambda: "clerk" in other.models)
        both = set(other.models)

    assert both >= {"sim", "poet", "clerk", "sim:poet", "sim:clerk"}


async def test_a_process_takes_no_more_adapters_than_is_set_from_others() -> None:
    channel, few = LocalChannel(), attrs.evolve(QUIET, most_adapters=1)
    one = SimulatorConfig(adapters=(POET,))
    async with fleet(one=one, channel=channel, workers=few) as house, beside(house, channel) as (other, _):
        await house.change("load_adapter", name="clerk", path="/adapters/clerk")
        worker = other.registry.get("one")
        assert worker is not None
        held = dict(worker.adapters)

    assert held == {"poet": "id-poet"}


async def test_an_adapter_that_the_other_processes_cannot_be_told_of_is_served_by_the_one_that_was_asked(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Full(LocalChannel):
        async def publish(self, kind: str, body: bytes, *, key: str = "") -> int:
            raise Overloaded("No more changes can be kept.")

    async with fleet(one=SimulatorConfig(), channel=Full()) as house:
        loaded = await house.change("load_adapter", name="poet", path="/adapters/poet")
        answer = await house.chat(model="poet", max_tokens=3)

    assert loaded["one"][0] == 200
    assert answer.status_code == 200
    assert "other processes were not told of the adapter poet" in caplog.text


async def test_what_an_engine_loads_or_loses_by_itself_is_found_by_the_next_probe() -> None:
    async with fleet(gpu=SimulatorConfig(), workers=WorkersConfig(health_interval_s=0.1)) as house:
        held = house.engine.engine.adapters
        held.load(LoadedAdapter("id-poet", "poet", "/adapters/poet"))
        await eventually(lambda: "poet" in house.gateway.models)
        answer = await house.chat(model="poet", max_tokens=3)
        held.unload("poet", "id-poet")
        await eventually(lambda: "poet" not in house.gateway.models)

    assert answer.status_code == 200


@pytest.mark.full
@pytest.mark.sampled(keep=2)
@pytest.mark.parametrize(
    ("path", "fields", "named"),
    [
        ("load_adapter", {"name": "sim", "path": "/a"}, "sim"),
        ("load_adapter", {"name": "a b", "path": "/a"}, "name"),
        ("load_adapter", {"name": "", "path": "/a"}, "name"),
        ("load_adapter", {"name": "poet"}, "path"),
        ("unload_adapter", {"name": "poet", "id": "x"}, "id"),
    ],
)
async def test_what_is_wrong_with_a_request_about_adapters_is_said_by_name(
    path: str, fields: dict[str, Any], named: str
) -> None:
    async with fleet(gpu=SimulatorConfig()) as house:
        answer = await house.admin.post(f"/admin/workers/{path}", json=fields)
        held = list(house.engine.engine.adapters)

    assert answer.status_code == 400
    assert named in answer.text
    assert not held


async def test_clients_may_ask_for_no_more_adapters_of_an_engine_than_is_set() -> None:
    few = attrs.evolve(QUIET, most_adapters=1)
    async with fleet(gpu=SimulatorConfig(adapters=(POET, CLERK)), workers=few) as house:
        assert await house.models() == ["poet", "sim"]


@pytest.mark.full
async def test_the_command_line_loads_and_unloads_adapters(capsys: pytest.CaptureFixture[str]) -> None:
    async with fleet(one=SimulatorConfig(), two=SimulatorConfig()) as house:
        admin = ("--admin", str(house.admin.base_url))

        async def run(*words: str) -> tuple[int, dict[str, int]]:
            status = await asyncio.to_thread(main, ["workers", *words, *admin])
            return status, {row["worker"]: row["status"] for row in json.loads(capsys.readouterr().out)["workers"]}

        loaded = await run("load-adapter", "poet", "/adapters/poet", "two", "--pinned")
        listed = await house.models()
        (held,) = house.named["two"].engine.adapters
        unloaded = await run("unload-adapter", "poet")

    assert loaded == (0, {"two": 200})
    assert listed == ["poet", "sim"]
    assert (held.name, held.path, held.pinned) == ("poet", "/adapters/poet", True)
    assert unloaded == (1, {"one": 409, "two": 200})
