"""Plugins in a gateway that serves: they see every byte, cannot be bypassed, and are replaced while streams run."""

import asyncio
import json
import re
import shutil
from pathlib import Path
from typing import Any, ClassVar

import httpx
import pytest
import yaml
from tests.gateway.conftest import CHAT, body, eventually, in_process, over_http, settled
from tests.gateway.test_control import BASE, from_file

from smg_core import Gateway
from smg_core.channel.base import Notice
from smg_core.config.config import Config
from smg_core.events import Event
from smg_core.history.store.base import KEYS_OWNER
from smg_core.middleware.base import (
    CONTINUE,
    About,
    AnswerPiece,
    ChangeHead,
    ChangeText,
    Continue,
    End,
    EventVerdict,
    Failure,
    HeadVerdict,
    HookName,
    Middleware,
    PieceMode,
    PieceVerdict,
    Reject,
    RequestBody,
    RequestHead,
    RequestVerdict,
    ResponseHead,
    StorageCall,
    StorageVerdict,
    TextVerdict,
)
from smg_core.middleware.entries import Entry
from smg_core.middleware.settings import MiddlewareConfig
from smg_core.plugins.code import PluginCode
from smg_core.request import GenerationRequest
from smg_core.settings import ConfigError
from smg_simulator.engine.clockwork import Timing
from smg_simulator.engine.engine import SimulatorConfig

pytestmark = pytest.mark.anyio

GUESTS = Path(__file__).parent.parent / "guests"
PACED = SimulatorConfig(reply_tokens=40, timing=Timing(decode_rate=200))


class Recorder:
    """A plugin in Python that keeps what it sees and does what its configuration says."""

    made: ClassVar[list["Recorder"]] = []

    def __init__(self, config: dict[str, Any]) -> None:
        self.name, self.config = "recorder", config
        self.hooks: frozenset[HookName] = frozenset(
            {"request_head", "request_body", "response_head", "piece", "end", "error"}
        )
        self.pieces: PieceMode = "wire"
        self.pieced: list[str] = []
        self.seen: list[Any] = []
        self.abouts: list[About] = []
        self.closed = 0
        Recorder.made.append(self)

    def begin(self, about: About) -> "Recorder":
        self.abouts.append(about)
        return self

    async def on_request_head(self, head: RequestHead) -> HeadVerdict:
        self.seen.append(head)
        if "tenant" in self.config:
            return ChangeHead(tenant=self.config["tenant"])
        return Reject(403, "Not you.") if self.config.get("refuse") == "head" else CONTINUE

    async def on_request_body(self, body: RequestBody) -> TextVerdict:
        self.seen.append(body)
        if "replace" in self.config:
            return ChangeText(body.text.replace(*self.config["replace"]))
        return Reject(429, "Too much.") if self.config.get("refuse") == "body" else CONTINUE

    async def on_request(self, request: GenerationRequest) -> RequestVerdict:
        raise AssertionError("not one of its hooks")

    def on_event(self, event: Event) -> EventVerdict:
        raise AssertionError("not one of its hooks")

    async def on_store(self, call: StorageCall) -> StorageVerdict:
        raise AssertionError("not one of its hooks")

    async def on_stored(self, call: StorageCall) -> None:
        raise AssertionError("not one of its hooks")

    async def on_response_head(self, head: ResponseHead) -> HeadVerdict:
        self.seen.append(head)
        return ChangeHead(set=(("x-plugin", "yes"),))

    async def on_response(self, head: ResponseHead, body: str) -> tuple[HeadVerdict, TextVerdict]:
        raise AssertionError("not one of its hooks")

    def on_piece(self, piece: AnswerPiece) -> PieceVerdict:
        self.pieced.append(piece.text)
        if self.config.get("fail_at") == len(self.pieced):
            raise RuntimeError("a secret of the plugin")
        return CONTINUE

    async def on_end(self, end: End) -> str:
        self.seen.append(end)
        return ": cost\n\n"

    async def on_error(self, failure: Failure) -> Continue | Reject:
        self.seen.append(failure)
        return Reject(503, "Say it otherwise.") if self.config.get("refuse") == "error" else CONTINUE

    def close(self) -> None:
        self.closed += 1


def listed(tmp_path: Path, *entries: dict[str, Any], **settings: Any) -> Config:
    """A configuration whose plugins are these."""
    file = tmp_path / "plugins.yaml"
    file.write_text(yaml.safe_dump(list(entries)))
    return Config(middleware=MiddlewareConfig(file=str(file), **settings))


def recorder(**said: Any) -> dict[str, Any]:
    return {"source": "tests.gateway.test_plugins:Recorder", "name": "recorder", **said}


def component(path: Path, does: str = "nothing", **said: Any) -> dict[str, Any]:
    return {"source": str(path), "config": {"do": does}, "deadline_ms": 20_000, **said}


async def streamed(http: httpx.AsyncClient) -> bytes:
    answer = await http.post(CHAT, json=body("Hi", stream=True))
    assert answer.status_code == 200, answer.text
    return answer.content


@pytest.mark.full
async def test_a_plugin_sees_every_byte_of_a_stream_and_may_add_a_trailer(tmp_path: Path) -> None:
    async with over_http(PACED, config=listed(tmp_path, recorder())) as house:
        said = await streamed(house.http)
    plugin = Recorder.made[-1]

    assert said == "".join(plugin.pieced).encode() + b": cost\n\n"
    assert said.count(b"data: ") > 30
    assert plugin.closed >= 1


async def test_a_plugin_sees_the_body_and_its_changes_are_decoded_anew(tmp_path: Path) -> None:
    config = listed(tmp_path, recorder(config={"replace": ['"max_tokens"', '"no_such_parameter"']}))
    async with over_http(config=config) as house:
        answer = await house.http.post(CHAT, json=body("Hi", max_tokens=5))

    assert answer.status_code == 400
    assert "no_such_parameter" in answer.text
    assert any(isinstance(each, Failure) for each in Recorder.made[-1].seen)


@pytest.mark.full
@pytest.mark.parametrize(("where", "status"), [("head", 403), ("body", 429)])
async def test_a_refusal_is_told_in_the_envelope_of_the_api(tmp_path: Path, where: str, status: int) -> None:
    async with over_http(config=listed(tmp_path, recorder(config={"refuse": where}))) as house:
        chat = await house.http.post(CHAT, json=body("Hi"))
        messages = await house.http.post("/v1/messages", json={**body("Hi"), "max_tokens": 5})

    assert chat.status_code == messages.status_code == status
    assert "message" in chat.json()["error"]
    assert messages.json()["type"] == "error"


async def test_an_error_may_be_told_in_other_words(tmp_path: Path) -> None:
    async with over_http(config=listed(tmp_path, recorder(config={"refuse": "error"}))) as house:
        answer = await house.http.post(CHAT, json={"model": 7})

    assert answer.status_code == 503
    assert answer.json()["error"]["message"] == "Say it otherwise."


async def test_a_plugin_that_fails_within_a_stream_ends_it_and_nothing_unseen_leaves(tmp_path: Path) -> None:
    async with over_http(PACED, config=listed(tmp_path, recorder(config={"fail_at": 3}))) as house:
        said = await streamed(house.http)
        await settled(house)
    plugin = Recorder.made[-1]

    assert said.startswith("".join(plugin.pieced[:2]).encode())
    rest = said.removeprefix("".join(plugin.pieced[:2]).encode()).decode()
    assert rest.startswith("event: error\ndata: ")
    assert "A plugin of this gateway failed." in rest
    assert "secret" not in rest
    assert "[DONE]" not in rest


@pytest.mark.full
async def test_an_open_plugin_that_fails_within_a_stream_is_left_out(tmp_path: Path) -> None:
    entry = recorder(config={"fail_at": 3}, on_failure="open")
    async with over_http(PACED, config=listed(tmp_path, entry)) as house:
        said = await streamed(house.http)

    assert said.endswith(b"data: [DONE]\n\n")


@pytest.mark.full
async def test_a_plugin_may_say_whose_a_request_is_only_with_the_grant(tmp_path: Path) -> None:
    early = {"when": "before_identity", "config": {"tenant": "t9"}}
    async with over_http(config=listed(tmp_path, recorder(**early, grants=["tenant"]))) as house:
        granted = await house.http.post(CHAT, json=body("Hi"))
        assert granted.status_code == 200, granted.text
    async with over_http(config=listed(tmp_path, recorder(**early))) as house:
        refused = await house.http.post(CHAT, json=body("Hi"))

    assert refused.status_code == 500


async def test_no_plugin_makes_a_caller_of_the_tenant_that_has_the_keys(tmp_path: Path) -> None:
    early = {"when": "before_identity", "config": {"tenant": KEYS_OWNER}, "grants": ["tenant"]}
    async with over_http(config=listed(tmp_path, recorder(**early))) as house:
        refused = await house.http.get("/v1/models")

    assert refused.status_code == 403


@pytest.mark.full
async def test_probes_and_the_admin_door_meet_no_plugin(tmp_path: Path) -> None:
    async with over_http(config=listed(tmp_path, recorder(config={"refuse": "head"}))) as house:
        assert (await house.http.get("/health")).status_code == 200
        assert (await house.http.get("/v1/models")).status_code == 403


@pytest.mark.full
async def test_a_component_changes_the_head_the_stream_and_whole_answers(tmp_path: Path) -> None:
    async with over_http(PACED, config=listed(tmp_path, component(GUESTS / "attacks.wasm"))) as house:
        said = await streamed(house.http)
        whole = await house.http.post(CHAT, json=body("Hi"))

    assert said.endswith(b"data: [DONE]\n\n")
    assert not re.search(rb"[0-9]", said)
    assert whole.status_code == 200
    assert not re.search(r"[0-9]", whole.text)


@pytest.mark.full
async def test_a_component_sees_every_byte_of_streams_and_whole_answers(tmp_path: Path) -> None:
    entry = component(GUESTS / "attacks.wasm", "count bytes")
    async with over_http(PACED, config=listed(tmp_path, entry)) as house:
        said = await streamed(house.http)
        plugins = house.gateway.services.plugins
        await eventually(lambda: plugins.states["attacks"].counters.get("bytes") == len(said))
        whole = await house.http.post(CHAT, json=body("Hi"))
        await eventually(lambda: plugins.states["attacks"].counters["bytes"] == len(said) + len(whole.content))

    assert said.endswith(b"data: [DONE]\n\n")


@pytest.mark.full
async def test_a_component_that_spins_in_a_stream_ends_that_stream(tmp_path: Path) -> None:
    entry = component(GUESTS / "attacks.wasm", "spin in a piece", deadline_ms=100)
    async with over_http(PACED, config=listed(tmp_path, entry)) as house:
        said = await streamed(house.http)
        await settled(house)

    assert b"A plugin of this gateway failed." in said


async def test_a_plugin_that_cannot_be_used_stops_the_start(tmp_path: Path) -> None:
    file = tmp_path / "broken.wasm"
    file.write_bytes((GUESTS / "attacks.wasm").read_bytes()[:2000])
    gateway = Gateway.simulated(config=listed(tmp_path, component(file)))
    with pytest.raises(ConfigError, match=r"plugin broken: .* cannot be compiled"):
        await gateway.start()


@pytest.mark.full
async def test_a_broken_component_keeps_the_one_before_and_says_why(tmp_path: Path) -> None:
    file = tmp_path / "mine.wasm"
    shutil.copy(GUESTS / "attacks.wasm", file)
    config = listed(tmp_path, component(file), follow=False)
    async with over_http(PACED, config=config) as house:
        plugins = house.gateway.services.plugins
        before = plugins.states["mine"].link
        file.write_bytes(b"\0asm broken")
        await plugins.look()
        assert plugins.states["mine"].link is before
        assert "cannot be compiled" in plugins.states["mine"].problem
        assert (await house.http.post(CHAT, json=body("Hi"))).status_code == 200
        shutil.copy(GUESTS / "attacks.wasm", tmp_path / "new.wasm")
        (tmp_path / "new.wasm").replace(file)
        await plugins.look()
        assert plugins.states["mine"].problem == ""
        assert plugins.states["mine"].link is not before


async def open_streams(http: httpx.AsyncClient, count: int) -> list[asyncio.Task[bytes]]:
    return [asyncio.create_task(streamed(http)) for _ in range(count)]


@pytest.mark.full
async def test_two_versions_are_swapped_under_streams_and_no_stream_is_hurt(tmp_path: Path) -> None:
    """Each stream keeps the version that it began with: digits are masked in all of it."""
    file = tmp_path / "mine.wasm"
    shutil.copy(GUESTS / "attacks.wasm", file)
    config = listed(tmp_path, component(file), follow=False)
    engine = SimulatorConfig(reply_tokens=8, timing=Timing(decode_rate=16))
    patient = {"timeout": None, "trust_env": False}  # a stream may wait long for one of 100 connections
    async with (
        over_http(engine, config=config) as house,
        httpx.AsyncClient(base_url=house.url, **patient) as http,  # type: ignore[arg-type]
    ):
        plugins = house.gateway.services.plugins
        streams = await open_streams(http, 100)
        olds = []
        for turn in range(4):
            olds.append(plugins.states["mine"].link.middleware)
            (tmp_path / "plugins.yaml").write_text(
                yaml.safe_dump([component(file, "nothing" if turn % 2 else "counters", share="all")])
            )
            plugins._file_print = None
            await plugins.look()
            streams += await open_streams(http, 25)
        said = await asyncio.gather(*streams)
        await settled(house)

    assert len(said) == 200
    assert all(each.endswith(b"data: [DONE]\n\n") and not re.search(rb"[0-9]", each) for each in said)
    assert len(set(map(id, olds))) == 4
    assert [each.busy for each in olds] == [0, 0, 0, 0]  # type: ignore[attr-defined]


async def test_a_plugin_is_put_and_removed_while_the_gateway_runs() -> None:
    from smg_core.middleware.entries import parse_entries

    (entry,) = parse_entries([component(GUESTS / "attacks.wasm", "refuse", name="guard")], "test")
    async with over_http() as house:
        assert (await house.http.post(CHAT, json=body("Hi"))).status_code == 200
        await house.gateway.services.plugins.put(entry)
        assert (await house.http.post(CHAT, json=body("Hi"))).status_code == 403
        assert await house.gateway.services.plugins.remove("guard")
        assert (await house.http.post(CHAT, json=body("Hi"))).status_code == 200
        assert not await house.gateway.services.plugins.remove("guard")


@pytest.mark.full
async def test_plugins_are_put_told_of_and_removed_at_the_admin_door(tmp_path: Path) -> None:
    entry = component(GUESTS / "attacks.wasm", "refuse")
    async with from_file(tmp_path, BASE) as here:
        put = await here.door.put("/admin/plugins/guard", json={"entry": entry})
        refused = await here.http.post(CHAT, json=body("Hi"))
        broken = await here.door.put("/admin/plugins/guard", json={"entry": {**entry, "config": {}}})
        python = await here.door.put("/admin/plugins/code", json={"entry": {"source": "os:system"}})
        still = await here.http.post(CHAT, json=body("Hi"))
        told = (await here.door.get("/admin/plugins")).json()["plugins"]
        gone = await here.door.delete("/admin/plugins/guard")
        passed = await here.http.post(CHAT, json=body("Hi"))
        none = await here.door.delete("/admin/plugins/guard")

    assert (put.status_code, refused.status_code) == (200, 403), put.text
    assert broken.status_code == python.status_code == 400
    assert "do is missing" in broken.text
    assert "named in the settings alone" in python.text
    assert (still.status_code, gone.status_code, passed.status_code, none.status_code) == (403, 200, 200, 404)
    assert [(each["name"], each["problem"]) for each in told] == [("guard", "")]
    assert told[0]["counts"]["rejected"] == 2
    assert len(told[0]["sha256"]) == 64


def told(name: str, **said: Any) -> Notice:
    """What another process tells of a plugin that was put there."""
    entry = {**recorder(), "name": name, **said}
    return Notice("plugins", name, json.dumps({"name": name, "entry": json.dumps(entry)}).encode(), 1)


@pytest.mark.full
async def test_a_request_that_comes_while_a_plugin_is_loaded_does_not_go_by_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process has answered that the plugin is there."""
    loading = asyncio.Event()
    load = PluginCode.load

    async def slow(code: PluginCode, entry: Entry) -> Middleware:
        await loading.wait()
        return await load(code, entry)

    monkeypatch.setattr(PluginCode, "load", slow)
    async with over_http(PACED) as house:
        house.gateway.services.plugins._receive(told("late", on_failure="closed"))
        asked = asyncio.create_task(house.http.post(CHAT, json=body("Hi")))
        waiting = asyncio.create_task(house.gateway.services.plugins.changed())
        await asyncio.wait([asked], timeout=0.1)
        begun = asked.done()
        loading.set()
        answer = await asked
        await waiting

    assert not begun
    assert answer.status_code == 200
    assert Recorder.made[-1].seen, "the plugin was shown the request"


@pytest.mark.full
@pytest.mark.parametrize(("on_failure", "status"), [("closed", 500), ("open", 200)])
async def test_a_plugin_that_only_another_process_could_load_refuses_here_if_it_is_closed(
    on_failure: str, status: int
) -> None:
    async with in_process(PACED) as house:
        house.gateway.services.plugins._receive(told("broken", source="nowhere_at_all:Plugin", on_failure=on_failure))
        answer = await house.http.post(CHAT, json=body("Hi"))
        removed = await house.gateway.services.plugins.remove("broken") if on_failure == "closed" else False
        after = await house.http.post(CHAT, json=body("Hi"))

    assert answer.status_code == status, answer.text
    assert removed == (on_failure == "closed")
    assert after.status_code == 200
