"""No way into a gateway goes around its plugins: all routes are walked, and the requests within requests are asked: frames of
WebSockets, lines of batches, answers made in the background, uploads and downloads."""

import asyncio
from pathlib import Path
from typing import Any, ClassVar

import attrs
import msgspec
import pytest
from tests.gateway.conftest import CHAT, House, body, eventually, in_process, over_http
from tests.gateway.test_plugins import listed
from tests.gateway.test_said import EXAMPLES, LEFT, NUMBERS, events_of, redaction
from tests.shared import PATIENCE
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from smg_core.app.public_routes import public_table
from smg_core.config.config import Config
from smg_core.http.routes import WEBSOCKET
from smg_core.http.settings import ModelConfig
from smg_core.middleware.base import (
    CONTINUE,
    About,
    AnswerPiece,
    ChangeText,
    End,
    HeadVerdict,
    PieceVerdict,
    Reject,
    RequestBody,
    RequestHead,
    RequestVerdict,
    TextVerdict,
)
from smg_core.middleware.entries import parse_entries
from smg_core.middleware.python import PythonPlugin
from smg_core.request import GenerationRequest
from smg_core.routing.settings import RoutingConfig

pytestmark = pytest.mark.anyio

HERE = "tests.gateway.test_plugin_routes"


class Door(PythonPlugin):
    """Refuses every head, and notes which ones it was shown."""

    shown: ClassVar[list[About]] = []

    async def on_request_head(self, head: RequestHead) -> HeadVerdict:
        Door.shown.append(self.about)
        return Reject(403, "The door is closed.")


class Witness(PythonPlugin):
    """Notes all that it is shown; refuses bodies with the word "forbidden", and changes one word of answers."""

    seen: ClassVar[list[tuple[str, str]]] = []

    def note(self, what: str, text: str) -> None:
        Witness.seen.append((what, text))

    async def on_request_head(self, head: RequestHead) -> HeadVerdict:
        self.note(f"head {head.method} {head.path}", "")
        return CONTINUE

    async def on_request_body(self, body: RequestBody) -> TextVerdict:
        self.note(f"body {self.about.path}", body.text)
        if "forbidden" in body.text and not self.about.path.startswith("/v1/files"):
            return Reject(403, "Not said here.")
        return ChangeText(body.text.replace("a word", "another word")) if "a word" in body.text else CONTINUE

    async def on_request(self, request: GenerationRequest) -> RequestVerdict:
        self.note(f"request {self.about.path}", repr(request.messages))
        return CONTINUE

    def on_piece(self, piece: AnswerPiece) -> PieceVerdict:
        self.note(f"piece {self.about.path}", piece.text)
        return ChangeText(piece.text.replace("Call me", "Ask me")) if "Call me" in piece.text else CONTINUE

    async def on_end(self, end: End) -> str:
        return ": the end\n\n"


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLES / "redaction"))
    Door.shown.clear()
    Witness.seen.clear()


def of(attribute: str, **said: Any) -> dict[str, Any]:
    return {"source": f"{HERE}:{attribute}", **said}


def filled(pattern: str) -> str:
    """A path that fits a pattern."""
    while "{" in pattern:
        before, _, rest = pattern.partition("{")
        pattern = before + "x" + rest.partition("}")[2]
    return pattern


@pytest.mark.full
async def test_every_route_that_is_not_public_meets_the_plugins(tmp_path: Path) -> None:
    config = listed(tmp_path, of("Door"))
    config = attrs.evolve(config, server=attrs.evolve(config.server, parse_routes=True))
    async with over_http(NUMBERS, config=config) as house:
        walked = [
            each for each in public_table(house.gateway.services, house.gateway.apis).routes if not each.target.public
        ]
        assert len(walked) > 40
        for route in walked:
            Door.shown.clear()
            if route.method == WEBSOCKET:
                with pytest.raises(Exception, match="403"):
                    await connect(house.url.replace("http", "ws") + filled(route.pattern), proxy=None, open_timeout=60)
            else:
                answer = await house.http.request(route.method, filled(route.pattern), json={})
                assert answer.status_code == 403, (route, answer.text)
            assert [each.route for each in Door.shown] == [route.pattern], route


async def frames(house: House, **asked: Any) -> list[Any]:
    """What comes for one request in a frame of a WebSocket."""
    async with connect(house.url.replace("http", "ws") + "/v1/responses", proxy=None) as socket:
        return await frames_of(socket, **asked)


def kind_of(frame: dict[str, Any]) -> str:
    """The type of a frame, which a plugin may have written in capital letters."""
    found: str = frame.get("type") or frame.get("TYPE", "")
    return found.lower()


async def frames_of(socket: ClientConnection, **asked: Any) -> list[Any]:
    """The same for one more request of a connection."""
    await socket.send(msgspec.json.encode({"type": "response.create", "model": "sim", **asked}).decode())
    found: list[Any] = []
    async with asyncio.timeout(PATIENCE):
        while not found or kind_of(found[-1]) not in ("response.completed", "response.failed", "error"):
            found.append(msgspec.json.decode(await socket.recv()))
    return found


async def test_each_request_in_a_frame_of_a_websocket_is_shown_as_the_one_by_http(tmp_path: Path) -> None:
    async with over_http(NUMBERS, config=listed(tmp_path, of("Witness"), redaction())) as house:
        found = await frames(house, input="a word")
        refused = await frames(house, input="forbidden")
        await eventually(lambda: not house.gateway.in_flight)
        (asked,) = house.engine.requests
        prompt = house.gateway.models["sim"].tokenizer.decode(list(asked.input_ids))

    assert "another word" in prompt
    said = "".join(each["delta"] for each in found if each.get("type") == "response.output_text.delta")
    assert said == LEFT.replace("Call me", "Ask me")
    assert (refused[-1]["status"], refused[-1]["error"]["message"]) == (403, "Not said here.")
    kinds = [what for what, _ in Witness.seen]
    assert kinds[:4] == [
        "head GET /v1/responses",
        "head POST /v1/responses",
        "body /v1/responses",
        "request /v1/responses",
    ]
    assert "piece /v1/responses" in kinds


async def batched(house: House, *texts: str) -> list[Any]:
    """The results of a batch with a chat for each text."""
    lines = [
        {"custom_id": f"c{number}", "method": "POST", "url": CHAT, "body": body(text)}
        for number, text in enumerate(texts)
    ]
    data = b"\n".join(map(msgspec.json.encode, lines))
    http = house.http
    del http.headers["content-type"]
    sent = await http.post("/v1/files", data={"purpose": "batch"}, files={"file": ("b.jsonl", data)})
    assert sent.status_code == 200, sent.text
    asked = {"input_file_id": sent.json()["id"], "endpoint": CHAT, "completion_window": "24h"}
    made = (await http.post("/v1/batches", json=asked)).json()
    async with asyncio.timeout(PATIENCE):
        while made["status"] not in ("completed", "failed"):
            await asyncio.sleep(0.01)
            made = (await http.get(f"/v1/batches/{made['id']}")).json()
    found: list[Any] = []
    for name in ("output_file_id", "error_file_id"):
        if made.get(name):
            text = (await http.get(f"/v1/files/{made[name]}/content")).text
            found += [msgspec.json.decode(line) for line in text.splitlines()]
    return sorted(found, key=lambda each: str(each["custom_id"]))


async def test_each_request_of_a_batch_is_shown_and_so_are_its_files(tmp_path: Path) -> None:
    entries = (
        of("Witness", routes=[CHAT], name="lines"),
        of("Witness", routes=["/v1/files*"], name="files"),
        redaction(),
    )
    async with in_process(NUMBERS, config=listed(tmp_path, *entries)) as house:
        *found, refused = await batched(house, "a word", "say 5", "forbidden")
        prompts = [house.gateway.models["sim"].tokenizer.decode(list(each.input_ids)) for each in house.engine.requests]

    assert all("word" not in each or "another word" in each for each in prompts)
    texts = {each["response"]["body"]["choices"][0]["message"]["content"] for each in found}
    assert texts == {LEFT.replace("Call me", "Ask me")}
    assert refused["response"]["status_code"] == 403
    assert refused["response"]["body"]["error"]["message"] == "Not said here."
    kinds = {what for what, _ in Witness.seen}
    assert {f"head POST {CHAT}", f"body {CHAT}", f"request {CHAT}", f"piece {CHAT}", "body /v1/files"} <= kinds
    assert any(what.endswith("/content") and "custom_id" in text for what, text in Witness.seen)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("path", "noun"), [("/v1/responses", "response"), ("/v1beta/interactions", "interaction")])
async def test_an_answer_made_in_the_background_is_shown_where_it_is_made(
    tmp_path: Path, path: str, noun: str, stream: bool
) -> None:
    async with in_process(NUMBERS, config=listed(tmp_path, of("Witness"), redaction())) as house:
        asked = {"model": "sim", "input": "a word", "background": True, "store": True}
        made = await house.http.post(path, json={**asked, "stream": stream})
        assert made.status_code in (200, 202), made.text
        object_ = events_of(made.content)[0][noun] if stream else made.json()
        name = object_["id"]
        found = await house.http.get(f"{path}/{name}")
        async with asyncio.timeout(PATIENCE):
            while found.json()["status"] not in ("completed", "failed"):
                await asyncio.sleep(0.01)
                found = await house.http.get(f"{path}/{name}")
        (request,) = house.engine.requests
        prompt = house.gateway.models["sim"].tokenizer.decode(list(request.input_ids))

    assert found.json()["status"] == "completed"
    assert LEFT.replace("Call me", "Ask me") in found.text
    assert "another word" in prompt
    assert [what for what, _ in Witness.seen].count(f"request {path}") == 1


async def test_a_plugin_for_a_model_is_shown_answers_of_requests_that_name_none(tmp_path: Path) -> None:
    config = listed(tmp_path, of("Witness", models=["sim"]))
    async with in_process(NUMBERS, config=config) as house:
        made = (await house.http.post("/v1/responses", json={"model": "sim", "input": "Hi", "store": True})).json()
        kept = await house.http.get(f"/v1/responses/{made['id']}")
        other = await house.http.post("/v1/responses", json={"model": "other", "input": "Hi"})

    assert "Ask me" in made["output"][0]["content"][0]["text"]
    assert "Ask me" in kept.json()["output"][0]["content"][0]["text"]
    assert other.status_code == 404
    assert not any("other" in text for _, text in Witness.seen)


PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256))


@pytest.mark.parametrize(("unseen", "status"), [("refuse", 415), ("pass", 200)])
async def test_an_upload_that_is_no_text_is_refused_unless_its_entry_lets_it_pass(
    tmp_path: Path, unseen: str, status: int
) -> None:
    async with in_process(NUMBERS, config=listed(tmp_path, of("Witness", unseen=unseen))) as house:
        del house.http.headers["content-type"]
        sent = await house.http.post("/v1/files", data={"purpose": "user_data"}, files={"file": ("a.png", PNG)})
        assert sent.status_code == status, sent.text
        if status == 200:
            got = await house.http.get(f"/v1/files/{sent.json()['id']}/content")
            assert (got.status_code, got.content) == (200, PNG)


@pytest.mark.parametrize(("unseen", "status"), [("refuse", 415), ("pass", 200)])
async def test_an_upload_or_a_download_over_the_bound_is_refused_or_passes_whole(
    tmp_path: Path, unseen: str, status: int
) -> None:
    text = b"words " * 5000
    config = listed(tmp_path, of("Witness", unseen=unseen), body_bytes=8192)
    async with in_process(NUMBERS, config=config) as house:
        del house.http.headers["content-type"]
        sent = await house.http.post("/v1/files", data={"purpose": "user_data"}, files={"file": ("a.txt", text)})
        assert sent.status_code == status, sent.text
        if status == 200:
            got = await house.http.get(f"/v1/files/{sent.json()['id']}/content")
            assert (got.status_code, got.content) == (200, text)
    assert not any("words" in text for _, text in Witness.seen)


async def test_a_body_that_is_no_utf_8_is_refused_where_a_plugin_looks_at_bodies(tmp_path: Path) -> None:
    async with in_process(NUMBERS, config=listed(tmp_path, of("Witness"))) as house:
        answer = await house.http.post(CHAT, content=b'{"model": "sim\xff"}')

    assert answer.status_code == 415
    assert answer.json()["error"]["message"].startswith("This gateway has plugins")


# ---------------------------------------------------------------------------------------------------------- names of models


class RefusesRequests(PythonPlugin):
    """Refuses every request for generation."""

    async def on_request(self, request: GenerationRequest) -> RequestVerdict:
        return Reject(403, "Not for this model.")


NAMED = Config(
    model=ModelConfig(aliases=("short=sim",)),
    routing=RoutingConfig(splits=("half=sim:1,other:1",), fallbacks=("primary=sim",)),
)


@pytest.mark.parametrize("name", ["sim", "short", "half", "primary"])
async def test_a_plugin_for_a_model_meets_it_by_every_name_that_leads_to_it(tmp_path: Path, name: str) -> None:
    config = attrs.evolve(NAMED, middleware=listed(tmp_path, of("RefusesRequests", models=["sim"])).middleware)
    async with in_process(NUMBERS, config=config) as house:
        for path, asked in (
            (CHAT, body("Hi", model=name)),
            (f"/v1beta/models/{name}:generateContent", {"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]}),
            ("/v1/responses", {"model": name, "input": "Hi"}),
        ):
            answer = await house.http.post(path, json=asked)
            assert answer.status_code == 403, (path, answer.text)
        if name not in ("sim", "short"):
            return
        background = {"model": name, "input": "Hi", "background": True, "store": True}
        made = (await house.http.post("/v1/responses", json=background)).json()
        async with asyncio.timeout(PATIENCE):
            while made["status"] not in ("completed", "failed"):
                await asyncio.sleep(0.01)
                made = (await house.http.get(f"/v1/responses/{made['id']}")).json()
        assert made["status"] == "failed"
        assert not house.engine.requests


@pytest.mark.parametrize("hooks", ["RefusesRequests", "Door", "Witness"])
async def test_a_request_that_names_no_model_meets_the_plugins_of_the_only_one(tmp_path: Path, hooks: str) -> None:
    async with in_process(NUMBERS, config=listed(tmp_path, of(hooks, models=["sim"]))) as house:
        answer = await house.http.post("/generate", json={"text": "forbidden"})
    assert answer.status_code == 403


async def test_a_plugin_for_another_model_is_not_asked(tmp_path: Path) -> None:
    async with in_process(NUMBERS, config=listed(tmp_path, of("RefusesRequests", models=["other"]))) as house:
        for path, asked in ((CHAT, body("Hi")), ("/generate", {"text": "Hi"})):
            answer = await house.http.post(path, json=asked)
            assert answer.status_code == 200, answer.text


# ------------------------------------------------------------------------------------------------ the id, and open WebSockets


class Named(PythonPlugin):
    """Notes the ids that requests are told by."""

    ids: ClassVar[list[str]] = []

    async def on_request_head(self, head: RequestHead) -> HeadVerdict:
        Named.ids.append(self.about.request_id)
        return CONTINUE


async def test_the_id_that_plugins_are_told_is_the_one_of_the_answer(tmp_path: Path) -> None:
    Named.ids.clear()
    async with in_process(NUMBERS, config=listed(tmp_path, of("Named"))) as house:
        found: list[str] = []
        for path, asked in (
            (CHAT, body("Hi")),
            ("/v1/responses", {"model": "sim", "input": "Hi"}),
            ("/v1/messages", {"model": "sim", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]}),
            ("/tokenize", {"model": "sim", "prompt": "Hi"}),
            ("/v1/embeddings", {"model": "sim", "input": "Hi"}),
            (CHAT, {"model": 7}),
        ):
            answer = await house.http.post(path, json=asked)
            found.append(answer.headers["x-request-id"])
            if path in (CHAT, "/v1/responses") and answer.status_code == 200:
                assert answer.json()["id"] == found[-1]
        found.append((await house.http.get("/v1/models")).headers["x-request-id"])
    assert Named.ids == found
    assert len(set(found)) == len(found)


def put(entry: dict[str, Any]) -> Any:
    (found,) = parse_entries([entry], "test")
    return found


async def test_a_websocket_that_was_open_before_a_plugin_meets_it_with_its_next_request(tmp_path: Path) -> None:
    async with (
        over_http(NUMBERS, config=listed(tmp_path)) as house,
        connect(house.url.replace("http", "ws") + "/v1/responses", proxy=None) as socket,
    ):
        asked = msgspec.json.encode({"type": "response.create", "model": "sim", "input": "forbidden"}).decode()
        ends = []
        for turn in range(2):
            await socket.send(asked)
            found: dict[str, Any] = {}
            while found.get("type") not in ("response.completed", "error"):
                found = msgspec.json.decode(await socket.recv())
            ends.append(found["type"])
            if not turn:
                await house.gateway.services.plugins.put(put(of("Witness")))
    assert ends == ["response.completed", "error"]
    assert found["error"]["message"] == "Not said here."


@pytest.mark.parametrize(
    "entry",
    [
        {"source": "tests.gateway.test_python_plugins:Passing", "kind": "asgi"},
        of("Door", when="before_identity"),
    ],
    ids=["asgi", "before_identity"],
)
async def test_a_websocket_that_has_not_passed_what_stands_at_the_door_now_is_closed(
    tmp_path: Path, entry: dict[str, Any]
) -> None:
    async with (
        over_http(NUMBERS, config=listed(tmp_path)) as house,
        connect(house.url.replace("http", "ws") + "/v1/responses", proxy=None) as socket,
    ):
        await house.gateway.services.plugins.put(put(entry))
        await socket.send(msgspec.json.encode({"type": "response.create", "model": "sim", "input": "Hi"}).decode())
        told = msgspec.json.decode(await socket.recv())
        assert (told["type"], "other plugins" in told["error"]["message"]) == ("error", True)
        with pytest.raises(ConnectionClosed):
            await socket.recv()
        assert not house.engine.requests
