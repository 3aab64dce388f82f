"""Plugins in Python: ASGI middleware of anybody, and classes derived from ours; what cannot be used stops the start."""

import asyncio
import gzip
from collections.abc import MutableMapping
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any, ClassVar

import attrs
import msgspec
import pytest
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from tests.gateway.conftest import CHAT, House, body, eventually, in_process, over_http, settled
from tests.gateway.test_plugins import listed, recorder, streamed
from tests.shared import PATIENCE
from websockets.asyncio.client import connect

from smg_core.auth.settings import AuthConfig
from smg_core.config.config import Config
from smg_core.hooks import ExchangeEnded, PluginActed
from smg_core.middleware.base import (
    CONTINUE,
    AnswerPiece,
    ChangeHead,
    ChangeText,
    End,
    HeadVerdict,
    PieceVerdict,
    Reject,
    RequestBody,
    RequestHead,
    ResponseHead,
    TextVerdict,
)
from smg_core.middleware.entries import Entry
from smg_core.middleware.python import PythonPlugin, python_middleware
from smg_core.settings import ConfigError
from smg_simulator.engine.clockwork import Timing
from smg_simulator.engine.engine import SimulatorConfig

pytestmark = pytest.mark.anyio

HERE = "tests.gateway.test_python_plugins"
PACED = SimulatorConfig(reply_tokens=40, timing=Timing(decode_rate=200))
ENDLESS = SimulatorConfig(reply_tokens=4000, timing=Timing(decode_rate=100))
KEY = "sk-user-0123456789abcdef"
FAILED = "A plugin of this gateway failed."
APIS = {
    CHAT: {"model": "sim", "messages": [{"role": "user", "content": "Hi"}]},
    "/v1/responses": {"model": "sim", "input": "Hi"},
    "/v1/messages": {"model": "sim", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]},
    "/v1beta/models/sim:generateContent": {"contents": [{"parts": [{"text": "Hi"}]}]},
    "/v1beta/interactions": {"model": "sim", "input": "Hi"},
    "/v1/completions": {"model": "sim", "prompt": "Hi"},
}


def asgi(attribute: str, **said: Any) -> dict[str, Any]:
    return {"source": f"{HERE}:{attribute}", "kind": "asgi", **said}


def plugin(attribute: str, **said: Any) -> dict[str, Any]:
    return {"source": f"{HERE}:{attribute}", **said}


class Watching:
    """ASGI middleware that wraps `send`, and keeps what passes in the order of the middlewares."""

    said: ClassVar[list[tuple[str, bytes]]] = []
    scopes: ClassVar[list[dict[str, Any]]] = []

    def __init__(self, app: Any, mark: str = "w") -> None:
        self.app, self.mark = app, mark

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        Watching.scopes.append(dict(scope))

        async def seen(message: MutableMapping[str, Any]) -> None:
            Watching.said.append((self.mark, message.get("body", b"")))
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message["headers"], (b"x-mark", self.mark.encode())]}
            await send(message)

        await self.app({**scope}, receive, seen)


class Passing:
    """ASGI middleware that passes on what it gets, `send` too."""

    def __init__(self, app: Any) -> None:
        self.app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await self.app(scope, receive, send)


class Odd:
    """ASGI middleware that does what it should not."""

    def __init__(self, app: Any, does: str) -> None:
        self.app, self.does = app, does

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if self.does == "raises":
            raise RuntimeError("a secret of the middleware")
        if self.does == "reads and raises":
            await receive()
            raise RuntimeError("a secret of the middleware")
        if self.does == "is silent":
            return
        if self.does == "makes a scope":
            scope = {name: value for name, value in scope.items() if not name.startswith("smg.")}
        await self.app(scope, receive, send)
        if self.does == "calls twice":
            await self.app(scope, receive, send)
        if self.does == "raises late":
            raise RuntimeError("a secret of the middleware")


class Guard(BaseHTTPMiddleware):
    """Starlette's base class, as many middlewares have it."""

    async def dispatch(self, request: Request, call_next: Any) -> Response:
        if "x-pass" not in request.headers:
            return JSONResponse({"detail": "Not without a pass."}, 401)
        answer: Response = await call_next(request)
        answer.headers["x-guard"] = "passed"
        return answer


class Badge:
    """ASGI middleware that gives a request the key of the gateway."""

    def __init__(self, app: Any) -> None:
        self.app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        headers = [*scope["headers"], (b"authorization", f"Bearer {KEY}".encode())]
        await self.app({**scope, "headers": headers}, receive, send)


@pytest.fixture(autouse=True)
def _nothing_seen() -> None:
    Watching.said.clear()
    Watching.scopes.clear()


def ended(house: House) -> list[ExchangeEnded]:
    return house.observer.of(ExchangeEnded)


# ------------------------------------------------------------------------------------------------------ ASGI middleware


@pytest.mark.full
async def test_asgi_middleware_sees_every_byte_of_a_stream(tmp_path: Path) -> None:
    async with over_http(PACED, config=listed(tmp_path, asgi("Watching"))) as house:
        said = await streamed(house.http)
        await eventually(lambda: len(ended(house)) == 1)

    assert said.endswith(b"data: [DONE]\n\n")
    assert b"".join(piece for _, piece in Watching.said) == said
    assert ended(house)[0].sent == len(said)


@pytest.mark.full
async def test_middleware_that_passes_on_send_keeps_its_fast_way_and_bytes_are_counted(tmp_path: Path) -> None:
    async with over_http(PACED, config=listed(tmp_path, asgi("Passing"))) as house:
        said = await streamed(house.http)
        await eventually(lambda: len(ended(house)) == 1)

    assert said.endswith(b"data: [DONE]\n\n")
    assert (ended(house)[0].sent, ended(house)[0].outcome) == (len(said), "ok")


@pytest.mark.full
async def test_the_order_of_the_list_is_the_order_of_requests_and_plugins_with_hooks_stand_inside(
    tmp_path: Path,
) -> None:
    entries = (
        asgi("Watching", name="outer", config={"mark": "outer"}),
        asgi("Watching", name="inner", config={"mark": "inner"}),
        recorder(),
    )
    async with over_http(PACED, config=listed(tmp_path, *entries)) as house:
        said = await streamed(house.http)
        whole = await house.http.post(CHAT, json=body("Hi"))

    marks = [mark for mark, piece in Watching.said if piece]
    assert marks[:2] == ["inner", "outer"]
    assert b"".join(piece for mark, piece in Watching.said if mark == "outer")[: len(said)] == said
    assert said.endswith(b": cost\n\n")
    assert (whole.headers["x-mark"], whole.headers["x-plugin"]) == ("inner, outer", "yes")


async def test_an_answer_of_the_middleware_has_an_id_and_is_accounted_for(tmp_path: Path) -> None:
    async with over_http(config=listed(tmp_path, asgi("Guard"))) as house:
        refused = await house.http.post(CHAT, json=body("Hi"))
        passed = await house.http.post(CHAT, json=body("Hi", stream=True), headers={"x-pass": "1"})
        await eventually(lambda: len(ended(house)) == 2)

    assert (refused.status_code, refused.json()) == (401, {"detail": "Not without a pass."})
    assert refused.headers["x-request-id"]
    assert (passed.status_code, passed.headers["x-guard"]) == (200, "passed")
    assert passed.content.endswith(b"data: [DONE]\n\n")
    first, second = ended(house)
    assert (first.status, first.outcome, first.sent) == (401, "error", len(refused.content))
    assert (second.status, second.outcome, second.sent) == (200, "ok", len(passed.content))


async def test_starlettes_gzip_compresses_what_the_gateway_answers(tmp_path: Path) -> None:
    entry = {"source": "starlette.middleware.gzip:GZipMiddleware", "kind": "asgi", "config": {"minimum_size": 10}}
    async with (
        over_http(config=listed(tmp_path, entry)) as house,
        house.http.stream("POST", CHAT, json=body("Hi"), headers={"accept-encoding": "gzip"}) as answer,
    ):
        raw = b"".join([piece async for piece in answer.aiter_raw()])

    assert answer.headers["content-encoding"] == "gzip"
    assert msgspec.json.decode(gzip.decompress(raw))["object"] == "chat.completion"


@pytest.mark.sampled(per=("path",))
@pytest.mark.parametrize("path", APIS)
@pytest.mark.parametrize("does", ["raises", "reads and raises", "is silent", "makes a scope"])
async def test_middleware_that_fails_is_an_error_in_the_envelope_of_the_api(
    tmp_path: Path, path: str, does: str
) -> None:
    config = listed(tmp_path, asgi("Watching"), asgi("Odd", name="odd", config={"does": does}))
    async with in_process(config=config) as house:
        answer = await house.http.post(path, json=APIS[path])
        acted = house.observer.of(PluginActed)

    assert (answer.status_code, answer.json()["error"]["message"]) == (500, FAILED)
    assert "secret" not in answer.text
    assert [(each.plugin, each.hook, each.outcome) for each in acted] == [("odd", "asgi", "failed")]
    assert [each.outcome for each in ended(house)] == ["InternalError"]  # as of a plugin of another kind that fails
    assert answer.headers["x-mark"] == "w"  # what stands around it has seen the error, too


@pytest.mark.parametrize("does", ["raises", "is silent"])
async def test_open_middleware_that_fails_is_left_out(tmp_path: Path, does: str) -> None:
    odd = asgi("Odd", config={"does": does}, on_failure="open")
    async with over_http(config=listed(tmp_path, odd, recorder())) as house:
        said = await streamed(house.http)

    assert said.endswith(b": cost\n\n")


async def test_open_middleware_that_has_read_the_body_cannot_be_left_out(tmp_path: Path) -> None:
    odd = asgi("Odd", config={"does": "reads and raises"}, on_failure="open")
    async with over_http(config=listed(tmp_path, odd)) as house:
        answer = await house.http.post(CHAT, json=body("Hi"))

    assert (answer.status_code, answer.json()["error"]["message"]) == (500, FAILED)


@pytest.mark.full
@pytest.mark.parametrize("does", ["calls twice", "raises late"])
async def test_middleware_that_fails_behind_an_answer_spoils_no_other_request(tmp_path: Path, does: str) -> None:
    config = listed(tmp_path, asgi("Odd", config={"does": does}, routes=[CHAT]))
    async with over_http(config=config) as house:
        for _ in range(2):
            answer = await house.http.post(CHAT, json=body("Hi"))
            assert answer.json()["object"] == "chat.completion"
        other = await house.http.post("/v1/completions", json={"model": "sim", "prompt": "Hi"})
        acted = [each.outcome for each in house.observer.of(PluginActed)]

    assert other.status_code == 200
    assert acted == ["failed", "failed"]


@pytest.mark.full
async def test_before_identity_middleware_may_bring_the_credential_and_after_it_knows_the_tenant(
    tmp_path: Path,
) -> None:
    auth = AuthConfig(keys=(f"{KEY} tenant=acme",))
    after = asgi("Watching", tenants=["acme"])
    plain = attrs.evolve(listed(tmp_path, after), auth=auth)
    async with over_http(config=plain) as house:
        stranger = await house.http.post(CHAT, json=body("Hi"))
    assert (stranger.status_code, Watching.scopes) == (401, [])

    badged = attrs.evolve(listed(tmp_path, asgi("Badge", when="before_identity"), after), auth=auth)
    async with over_http(config=badged) as house:
        answer = await house.http.post(CHAT, json=body("Hi"))
        await eventually(lambda: len(ended(house)) == 1)

    assert (answer.status_code, len(Watching.scopes)) == (200, 1)
    assert (ended(house)[0].tenant, ended(house)[0].outcome) == ("acme", "ok")


async def test_middleware_meets_its_routes_alone_and_neither_probes_nor_other_tenants(tmp_path: Path) -> None:
    config = listed(
        tmp_path,
        asgi("Watching", name="one", routes=["/v1/messages"]),
        asgi("Watching", name="two", tenants=["nobody"]),
    )
    async with over_http(config=config) as house:
        chat = await house.http.post(CHAT, json=body("Hi"))
        probe = await house.http.get("/health")

    assert (chat.status_code, probe.status_code, Watching.scopes) == (200, 200, [])


async def test_frames_of_a_websocket_pass_asgi_middleware(tmp_path: Path) -> None:
    async with over_http(config=listed(tmp_path, asgi("Watching"))) as house:
        url = house.url.replace("http", "ws") + "/v1/responses"
        async with connect(url, proxy=None) as socket:
            await socket.send(msgspec.json.encode({"type": "response.create", "model": "sim", "input": "Hi"}).decode())
            kinds = []
            while not kinds or kinds[-1] not in ("response.completed", "error"):
                kinds.append(msgspec.json.decode(await socket.recv())["type"])

    assert (kinds[0], kinds[-1]) == ("response.created", "response.completed")
    assert [scope["type"] for scope in Watching.scopes] == ["websocket"]
    assert "method" not in Watching.scopes[0]


@pytest.mark.full
@pytest.mark.parametrize("does", ["raises", "reads and raises", "is silent"])
async def test_a_websocket_whose_middleware_fails_is_refused(tmp_path: Path, does: str) -> None:
    async with over_http(config=listed(tmp_path, asgi("Odd", config={"does": does}))) as house:
        url = house.url.replace("http", "ws") + "/v1/responses"
        with pytest.raises(Exception, match="500"):
            await connect(url, proxy=None, open_timeout=60)


@pytest.mark.full
@pytest.mark.parametrize("name", ["Watching", "Passing", "Guard"])
async def test_a_client_that_leaves_is_noticed_behind_asgi_middleware(tmp_path: Path, name: str) -> None:
    async with over_http(ENDLESS, config=listed(tmp_path, asgi(name))) as house:
        asked = house.http.stream("POST", CHAT, json=body("Hi", stream=True), headers={"x-pass": "1"})
        async with asked as answer:
            async for _ in answer.aiter_bytes():
                break
        await settled(house)
        await eventually(lambda: len(ended(house)) == 1)
        acted = house.observer.of(PluginActed)

    assert ended(house)[0].outcome == "client_gone"
    assert acted == []


async def test_a_body_that_a_middleware_has_not_read_is_not_taken_for_a_request(tmp_path: Path) -> None:
    async with over_http(config=listed(tmp_path, asgi("Guard"))) as house:
        for _ in range(3):
            refused = await house.http.post(CHAT, content=b"POST /health HTTP/1.1\r\n\r\n" * 9)
            assert refused.status_code == 401
        assert (await house.http.post(CHAT, json=body("Hi"), headers={"x-pass": "1"})).status_code == 200


# ------------------------------------------------------------------------------------------------- classes of our own


class Priced(PythonPlugin):
    """A plugin with settings, that writes three hooks."""

    @attrs.frozen
    class Settings:
        per_million: float
        header: str = "x-cost"

    freed: ClassVar[list[Any]] = []

    @classmethod
    def prepare(cls, settings: Any) -> Any:
        if settings.per_million < 0:
            raise ValueError("per_million is below 0")
        return settings

    @classmethod
    def dispose(cls, shared: Any) -> None:
        cls.freed.append(shared)

    async def on_request_head(self, head: RequestHead) -> HeadVerdict:
        if dict(head.headers).get("x-broke"):
            return Reject(403, "No money left.")
        return CONTINUE

    async def on_response_head(self, head: ResponseHead) -> HeadVerdict:
        return ChangeHead(set=((self.shared.header, str(self.shared.per_million)),))

    async def on_end(self, end: End) -> str:
        return f": {self.about.model or self.about.route} {end.outcome}\n\n"


class Shouting(PythonPlugin):
    """A plugin that changes the body and each piece."""

    async def on_request_body(self, body: RequestBody) -> TextVerdict:
        return ChangeText(body.text.replace("whisper", "shout"))

    def on_piece(self, piece: AnswerPiece) -> PieceVerdict:
        return ChangeText(piece.text.replace("chat.completion.chunk", "CHUNK"))


class Misspelt(PythonPlugin):
    """A plugin whose hook would never be called."""

    async def on_request_headers(self, head: RequestHead) -> HeadVerdict:
        return CONTINUE


class Plain(PythonPlugin):
    """A plugin whose hook is no coroutine."""

    def on_request_head(self, head: RequestHead) -> HeadVerdict:  # type: ignore[override]
        return CONTINUE


class Uncalled:
    """A middleware of which no app is made."""

    def __init__(self, app: Any) -> None:
        self.app = app


class PlainSession:
    """A middleware that is its own session, with a hook that is no coroutine and raises."""

    hooks, pieces, name = frozenset({"request_head"}), "none", "plain"

    def __init__(self, config: dict[str, Any]) -> None:
        self.config = config

    def begin(self, about: Any) -> "PlainSession":
        return self

    def on_request_head(self, head: RequestHead) -> HeadVerdict:
        raise RuntimeError("a secret of the plugin")

    def close(self) -> None:
        pass


@pytest.mark.full
@pytest.mark.parametrize(("on_failure", "status"), [("closed", 500), ("open", 200)])
async def test_a_hook_that_is_no_coroutine_fails_as_any_other_does(
    tmp_path: Path, on_failure: str, status: int
) -> None:
    async with over_http(config=listed(tmp_path, plugin("PlainSession", on_failure=on_failure))) as house:
        answer = await house.http.post(CHAT, json=body("Hi"))
        acted = house.observer.of(PluginActed)

    assert answer.status_code == status
    assert "secret" not in answer.text
    assert [(each.hook, each.outcome) for each in acted] == [("request_head", "failed")]


@pytest.mark.full
async def test_a_class_writes_the_hooks_that_it_wants_and_reads_its_settings(tmp_path: Path) -> None:
    Priced.freed.clear()
    entry = plugin("Priced", config={"per_million": 2.5})
    async with over_http(PACED, config=listed(tmp_path, entry)) as house:
        whole = await house.http.post(CHAT, json=body("Hi"))
        refused = await house.http.post(CHAT, json=body("Hi"), headers={"x-broke": "1"})
        said = await streamed(house.http)
        (state,) = house.gateway.services.plugins.states.values()
        hooks = state.link.middleware.hooks

    assert hooks == {"request_head", "response_head", "end"}
    assert (whole.status_code, whole.headers["x-cost"]) == (200, "2.5")
    assert (refused.status_code, refused.json()["error"]["message"]) == (403, "No money left.")
    assert said.endswith(b": /v1/chat/completions ok\n\n")
    assert [each.per_million for each in Priced.freed] == [2.5]


@pytest.mark.full
async def test_a_class_sees_and_changes_bodies_and_pieces(tmp_path: Path) -> None:
    async with over_http(PACED, config=listed(tmp_path, plugin("Shouting"))) as house:
        said = await streamed(house.http)

    assert b"chat.completion.chunk" not in said
    assert said.count(b"CHUNK") > 30


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        (plugin("Priced"), "per_million"),
        (plugin("Priced", config={"per_million": "two"}), "per_million"),
        (plugin("Priced", config={"per_million": -1}), "below 0"),
        (plugin("Priced", config={"per_million": 1, "colour": 2}), "there is no colour; it takes header, per_million"),
        (plugin("Shouting", config={"loud": True}), "it takes nothing"),
        (plugin("Nobody"), "Nobody"),
        (plugin("Misspelt"), "there is no hook on_request_headers; did you mean on_request_head?"),
        (plugin("Plain"), "write async def on_request_head"),
        (asgi("Uncalled"), "no ASGI app"),
        (plugin("KEY"), "a plugin is a class or a function, not str"),
        (plugin("Passing"), "kind: asgi"),
        (asgi("Passing", config={"colour": 1}), "colour"),
        (asgi("Passing", models=["sim"]), "goes with neither models nor grants"),
        ({"source": "guard.wasm", "kind": "asgi"}, "code in Python"),
        (plugin("Shouting", kind="wsgi"), "expected one of plugin, asgi"),
        ({"source": "nowhere"}, "no package has an entry point 'nowhere' of the group smg.plugins"),
        ({"source": "tests.nowhere:X"}, "ModuleNotFoundError"),
    ],
    ids=lambda found: found if isinstance(found, str) else None,
)
async def test_what_cannot_be_used_stops_the_start_and_says_why(
    tmp_path: Path, entry: dict[str, Any], words: str
) -> None:
    with pytest.raises(ConfigError, match="plugin") as found:
        async with in_process(config=listed(tmp_path, entry)):
            pass

    assert words in str(found.value)


async def test_asgi_middleware_is_listed_before_plugins_with_hooks(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="list it before recorder"):
        async with in_process(config=listed(tmp_path, recorder(), asgi("Passing"))):
            pass


def test_an_installed_plugin_is_found_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    installed = [EntryPoint("priced", f"{HERE}:Priced", "smg.plugins")]
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: installed if group == "smg.plugins" else [])

    made = python_middleware(Entry("priced", "priced", {"per_million": 1}))

    assert made.hooks == {"request_head", "response_head", "end"}
    with pytest.raises(ConfigError, match="there are: priced"):
        python_middleware(Entry("unpriced", "unpriced"))


@pytest.mark.full
async def test_a_plugin_of_the_command_line_is_named_by_its_place(tmp_path: Path) -> None:
    config = Config()
    config = attrs.evolve(config, middleware=attrs.evolve(config.middleware, plugins=(f"{HERE}:Shouting",)))
    async with over_http(PACED, config=config) as house:
        said = await streamed(house.http)

    assert b"CHUNK" in said


class Talkative(PythonPlugin):
    """Raises with all that it was shown in the text, at the hook that is set."""

    class Settings(msgspec.Struct):
        at: str

    async def on_request_head(self, head: RequestHead) -> HeadVerdict:
        return self._fail("head", head)

    async def on_request_body(self, body: RequestBody) -> TextVerdict:
        return self._fail("body", body)

    async def on_response_head(self, head: ResponseHead) -> HeadVerdict:
        return self._fail("answer", head)

    def on_piece(self, piece: AnswerPiece) -> PieceVerdict:
        return self._fail("piece", piece)

    async def on_end(self, end: End) -> str:
        if self.shared.at == "end":
            raise KeyError(CANARY)
        return ""

    def _fail(self, place: str, shown: object) -> Any:
        if self.shared.at == place:
            raise ValueError(f"{shown!r} {CANARY}")
        return CONTINUE


CANARY = "canary-5d1f"


@pytest.mark.sampled(keep=5)
@pytest.mark.parametrize("at", ["head", "body", "answer", "piece", "end"])
@pytest.mark.parametrize("stream", [False, True])
async def test_the_words_of_what_a_class_raises_are_told_to_nobody(
    tmp_path: Path, at: str, stream: bool, caplog: pytest.LogCaptureFixture
) -> None:
    entry = {"source": "tests.gateway.test_python_plugins:Talkative", "config": {"at": at}}
    async with in_process(config=listed(tmp_path, entry)) as house:
        with caplog.at_level("DEBUG", "smg"):
            answer = await house.http.post(CHAT, json=body(CANARY, stream=stream), headers={"x-canary": CANARY})
        acts = [each for each in house.observer.of(PluginActed) if each.outcome == "failed"]

    told = [*(record.getMessage() for record in caplog.records), *map(repr, acts)]
    assert any("at test_python_plugins.py:" in each for each in told)
    assert not any(CANARY in each for each in told)
    assert f"ValueError: {CANARY}" not in answer.text


class Holding(PythonPlugin):
    """Holds a request in the hook that its header names, until it is let go."""

    free: ClassVar[asyncio.Event]
    at_body = False

    async def on_request_head(self, head: RequestHead) -> HeadVerdict:
        if ("x-hold", "head") in head.headers:
            await self.free.wait()
        self.at_body = ("x-hold", "body") in head.headers
        return CONTINUE

    async def on_request_body(self, body: RequestBody) -> TextVerdict:
        if self.at_body:
            await self.free.wait()
        return CONTINUE


@pytest.mark.parametrize("hook", ["head", "body"])
async def test_a_request_that_stands_in_a_plugin_is_in_flight_so_that_a_drain_waits_for_it(
    tmp_path: Path, hook: str
) -> None:
    Holding.free = asyncio.Event()
    async with in_process(config=listed(tmp_path, plugin("Holding", deadline_ms=300_000))) as house:
        asked = asyncio.ensure_future(house.http.post(CHAT, json=body("Hi"), headers={"x-hold": hook}))
        async with asyncio.timeout(PATIENCE):
            while not house.gateway.services.plugins.standing:
                await asyncio.sleep(0)
        assert house.gateway.in_flight == 1
        Holding.free.set()
        assert (await asked).status_code == 200
        assert house.gateway.in_flight == 0
