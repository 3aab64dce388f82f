"""Servers of Chat Completions by what they say: which of their models is asked for, in which words, and what follows from an
answer that is none."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import attrs
import httpx
import pytest
from tests.gateway.conftest import CHAT, body, eventually
from tests.gateway.fleet import ALERT, CALM, Prefer, joined
from tests.peers import listening
from tests.shared import PATIENCE

from smg_core import Config, Gateway
from smg_core.engines.settings import EnginesConfig
from smg_core.hooks import WorkerStateChanged
from smg_core.http.settings import ModelConfig
from smg_core.testing import MemoryObserver
from smg_core.workers.worker import WorkerSpec

pytestmark = pytest.mark.anyio

ANSWER = b'data: {"choices":[{"index":0,"delta":{"content":"Hi"},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
ENDLESS = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n" + ANSWER.replace(
    b"data: [DONE]", b'data: {"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":1}}'
)
SCORES = ("/score", "/classify")
REFUSAL = "text/html", b"<html>the proxy says so</html>"


@attrs.define
class Lister:
    """A server that lists `models` and answers every request for a chat with `status`, and with `answer` of the type `kind` where
    that is good; `asked` are the bodies of these, `lists` how often it was asked for its models. Where it never `ends` its
    streams, it says no [DONE] and `left` counts those that were closed on it. `routes` are those that it describes, with
    `routes_status` ("": it hangs up instead), and `described` is how often it was asked for that."""

    models: list[str]
    status: str = "200 OK"
    lists: int = 0
    ends: bool = True
    left: int = 0
    routes: tuple[str, ...] = ()
    routes_status: str = "200 OK"
    described: int = 0
    answer: bytes = ANSWER
    kind: str = "text/event-stream"
    asked: list[dict[str, Any]] = attrs.field(factory=list)

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
        length = sum(int(line.split(":")[1]) for line in head.split("\r\n") if line.startswith("content-length:"))
        sent = await reader.readexactly(length)
        if " /v1/models " in head:
            self.lists += 1
            listed = json.dumps({"data": [{"id": each} for each in self.models]}).encode()
            self.say(writer, "200 OK", "application/json", listed)
        elif " /openapi.json " in head and self.routes:
            self.described += 1
            paths = json.dumps({"paths": {each: {} for each in self.routes}}).encode()
            if self.routes_status:
                self.say(writer, self.routes_status, "application/json", paths)
        elif " /v1/chat/completions " in head:
            self.asked.append(json.loads(sent))
            if not self.ends:
                writer.write(ENDLESS)
                await reader.read()
                self.left += 1
                writer.close()
                return
            self.say(writer, self.status, *((self.kind, self.answer) if self.status == "200 OK" else REFUSAL))
        else:
            self.say(writer, "404 Not Found", "text/plain", b"")
        await writer.drain()
        writer.close()

    def say(self, writer: asyncio.StreamWriter, status: str, kind: str, body: bytes) -> None:
        fields = f"content-type: {kind}\r\ncontent-length: {len(body)}\r\nconnection: close"
        writer.write(f"HTTP/1.1 {status}\r\n{fields}\r\n\r\n".encode() + body)


@attrs.frozen
class Before:
    """A gateway before a `Lister`."""

    server: Lister
    gateway: Gateway
    http: httpx.AsyncClient
    observer: MemoryObserver


@asynccontextmanager
async def before(
    *models: str, config: Config = CALM, routes: tuple[str, ...] = (), **spec: Any
) -> AsyncIterator[Before]:
    """A gateway whose worker "w", as `spec` says it, lists `models`."""
    server, observer = Lister(list(models), routes=routes), MemoryObserver()
    async with listening(server.take) as port:
        gateway = Gateway([WorkerSpec(f"http://127.0.0.1:{port}", name="w", **spec)], config=config, observer=observer)
        async with gateway, gateway.http_client(httpx, base_url="http://gateway", timeout=PATIENCE) as http:
            await joined(gateway, "w")
            yield Before(server, gateway, http, observer)


async def test_of_several_models_the_one_that_the_worker_names_is_asked_for() -> None:
    async with before("a", "b", model="b") as house:
        answer = await house.http.post(CHAT, json=body(model="b"))
        other = await house.http.post(CHAT, json=body(model="a"))

    assert (answer.status_code, other.status_code) == (200, 404)
    assert [each["model"] for each in house.server.asked] == ["b"]


@pytest.mark.full
async def test_of_several_models_the_one_that_the_settings_name_is_asked_for() -> None:
    async with before("a", "b", config=attrs.evolve(CALM, model=ModelConfig(name="b"))) as house:
        assert (await house.http.post(CHAT, json=body(model="b"))).status_code == 200

    assert [each["model"] for each in house.server.asked] == ["b"]


async def test_the_only_model_is_asked_for_by_its_own_name_whatever_the_worker_calls_it() -> None:
    async with before("a", model="ours") as house:
        assert (await house.http.post(CHAT, json=body(model="ours"))).status_code == 200

    assert [each["model"] for each in house.server.asked] == ["a"]


@pytest.mark.parametrize("dialect", ["auto", "openai", "openai-strict"])
@pytest.mark.parametrize("name", ["max_tokens", "max_completion_tokens"])
async def test_tokens_are_bounded_in_the_clients_words_and_for_engines_in_the_old_ones(dialect: str, name: str) -> None:
    async with before("a", dialect=dialect) as house:
        asked = {"model": "a", "messages": [{"role": "user", "content": "Hello"}], name: 7}
        assert (await house.http.post(CHAT, json=asked)).status_code == 200

    (sent,) = house.server.asked
    names = {name} if dialect == "openai-strict" else {name, "max_tokens"}
    assert {key: sent[key] for key in sent if key.startswith("max_")} == dict.fromkeys(names, 7)


async def test_a_server_of_openais_words_only_is_sent_no_others() -> None:
    async with before("a", dialect="openai-strict") as house:
        asked = {"model": "a", "max_tokens": 7, "messages": [{"role": "user", "content": "Hello"}]}
        answer = await house.http.post("/v1/messages", json=asked)
        refused = await house.http.post(CHAT, json=body(model="a", top_k=3))

    assert (answer.status_code, refused.status_code) == (200, 400)
    assert refused.json()["error"]["param"] == "top_k"
    (sent,) = house.server.asked
    assert set(sent) == {"model", "messages", "max_completion_tokens", "stream", "stream_options"}


@pytest.mark.parametrize("status", ["502 Bad Gateway", "503 Service Unavailable", "504 Gateway Timeout"])
async def test_an_engine_that_a_proxy_does_not_reach_is_left_for_another_one(status: str) -> None:
    dead, well = Lister(["a"], status), Lister(["a"])
    async with listening(dead.take) as one, listening(well.take) as other:
        specs = [WorkerSpec(f"http://127.0.0.1:{port}", name=name) for name, port in (("dead", one), ("well", other))]
        gateway = Gateway(specs, config=CALM, policy=Prefer("dead"))
        async with gateway, gateway.http_client(httpx, base_url="http://gateway", timeout=PATIENCE) as http:
            for spec in specs:
                await joined(gateway, spec.name)
            answers = [await http.post(CHAT, json=body(model="a", stream=stream)) for stream in (False, True)]
            await gateway.remove_worker("well")
            alone = await http.post(CHAT, json=body(model="a"))

    assert [each.status_code for each in answers] == [200, 200]
    assert len(dead.asked) == 3
    assert alone.status_code == (504 if status.startswith("504") else 503)
    assert "proxy" not in alone.text


WATCHED = attrs.evolve(ALERT, workers=attrs.evolve(ALERT.workers, join_interval_s=0.1, identity_probes=1))


async def test_another_model_at_the_address_of_a_server_is_noticed_and_served_by_its_name() -> None:
    async with before("a", config=WATCHED) as house:
        assert (await house.http.post(CHAT, json=body(model="a"))).status_code == 200
        house.server.models = ["b"]
        await eventually(lambda: house.gateway.registry.of("b"), PATIENCE)
        await joined(house.gateway, "w")
        answers = [await house.http.post(CHAT, json=body(model=name)) for name in ("b", "a")]

    assert [each.status_code for each in answers] == [200, 404]
    assert [each["model"] for each in house.server.asked] == ["a", "b"]


async def test_a_server_that_lists_more_models_is_asked_for_the_one_that_it_had() -> None:
    async with before("b", config=WATCHED) as house:
        house.server.models = ["a", "b"]
        listed = house.server.lists
        await eventually(lambda: house.server.lists > listed + 2, PATIENCE)
        answer = await house.http.post(CHAT, json=body(model="b"))

    assert answer.status_code == 200
    assert [each["model"] for each in house.server.asked] == ["b"]


@pytest.mark.full
@pytest.mark.parametrize("others", [[], ["c"], ["c", "d"]])
async def test_a_server_whose_model_is_gone_for_none_that_is_known_is_left(others: list[str]) -> None:
    async with before("a", "b", model="b", config=WATCHED) as house:
        (worker,) = house.gateway.registry
        house.server.models = others
        await eventually(lambda: worker.state == "unreachable" or worker.info.model == "c", PATIENCE)
        house.server.models = ["a", "b"]
        await eventually(lambda: worker.state == "ready" and worker.info.model == "b", PATIENCE)
        assert (await house.http.post(CHAT, json=body(model="b"))).status_code == 200


@pytest.mark.parametrize("stream", [False, True])
async def test_a_stream_that_a_server_leaves_open_behind_its_answer_keeps_no_connection(stream: bool) -> None:
    bounds = EnginesConfig(http_connections=1, http_end_s=0.01)
    async with before("a", config=attrs.evolve(CALM, engines=bounds)) as house:
        house.server.ends = False
        for count in range(1, 4):
            answer = await house.http.post(CHAT, json=body(model="a", stream=stream))
            assert answer.status_code == 200
            assert "Hi" in answer.text
            await eventually(lambda number=count: house.server.left == number, PATIENCE)


@pytest.mark.full
@pytest.mark.sampled(keep=2)
@pytest.mark.parametrize(
    "status", ["500 Internal Server Error", "503 Service Unavailable", "429 Too Many Requests", ""]
)
async def test_a_server_that_cannot_describe_its_routes_for_a_while_is_the_same_engine(status: str) -> None:
    async with before("a", routes=SCORES, config=WATCHED) as house:
        (worker,) = house.gateway.registry
        assert worker.facts.pools == {"score", "classify"}
        house.server.routes_status = status
        asked = house.server.described
        await eventually(lambda: house.server.described > asked + 2, PATIENCE)
        states = [each.after for each in house.observer.of(WorkerStateChanged)]

    assert worker.facts.pools == {"score", "classify"}
    assert states == ["ready"]


async def test_a_server_that_has_other_routes_than_before_joins_again_with_them() -> None:
    async with before("a", routes=SCORES, config=WATCHED) as house:
        (worker,) = house.gateway.registry
        house.server.routes_status = "404 Not Found"
        await eventually(lambda: worker.state == "ready" and worker.facts.pools == {"embed"}, PATIENCE)
