"""Tokens by OAuth 2.1, with a real authorization server of the official package's routes on this machine."""

import asyncio
import base64
import json
import logging
import stat
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx2
import pytest
from mcp.server.mcpserver import MCPServer
from mcp.shared.auth import OAuthToken
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from tests.mcp_servers.peers import eventually
from tests.mcp_servers.test_over_http import colours, serving
from tests.peers import listening

from smg_mcp import McpConfigError, McpForbidden, McpRefused, McpTools
from smg_mcp.command import log_in as log_in_at_terminal
from smg_mcp.config.mapping import settings_of
from smg_mcp.transport.oauth import ServerTokens, TokenFile, tokens_for

pytestmark = pytest.mark.anyio


class Authority:
    """An authorization server and, behind its tokens, the MCP server: a token is good until it is revoked. Where it `rotates`,
    so is a refresh token, until it was used. `strayed` is what was sent to the place of tokens that its metadata do not name."""

    def __init__(self, server: MCPServer | None = None, *, rotates: bool = False) -> None:
        self.rotates = rotates
        self.good: set[str] = set()
        self.refreshing: set[str] = set()
        self.asked: list[dict[str, str]] = []
        self.strayed: list[str] = []
        self.registered = self.refused = 0
        self.port = 0
        self.named: str | None = None
        self.iss: str | None = None
        self.repeats: tuple[int, str] | None = None
        self.methods = ["client_secret_basic", "client_secret_post", "none"]
        self.failing: set[str] = set()
        self.scopes: dict[str, list[str]] = {}
        self.led: list[dict[str, str]] = []
        self.denies = False
        self.steps_up = False
        self.begun, self.let_go = asyncio.Event(), asyncio.Event()
        self.let_go.set()
        self._mcp = (server or colours()).streamable_http_app(json_response=True)

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def grants(self) -> list[str]:
        return [each["grant_type"] for each in self.asked]

    def revoke(self) -> None:
        """No token that was given is good any more."""
        self.good.clear()

    def app(self) -> Starlette:
        routes = [
            Route("/.well-known/oauth-protected-resource/mcp", self.resource),
            Route("/.well-known/oauth-authorization-server", self.metadata),
            Route("/register", self.register, methods=["POST"]),
            Route("/authorization", self.authorize),
            Route("/tokens", self.token, methods=["POST"]),
            Route("/token", self.stray, methods=["POST"]),
            Mount("/", self.guarded),
        ]
        return Starlette(routes=routes, lifespan=self._mcp.router.lifespan_context)

    async def guarded(self, scope: Any, receive: Any, send: Any) -> None:
        token = dict(scope["headers"]).get(b"authorization", b"").decode().removeprefix("Bearer ")
        if token in self.good and not self.steps_up:
            await self._mcp(scope, receive, send)
            return
        if token in self.good:
            self.steps_up = False
            more = 'Bearer error="insufficient_scope", scope="colours:write"'
            await Response("no", 403, {"www-authenticate": more})(scope, receive, send)
            return
        self.refused += 1
        where = f'Bearer resource_metadata="{self.base}/.well-known/oauth-protected-resource/mcp"'
        await Response("no", 401, {"www-authenticate": where})(scope, receive, send)

    async def resource(self, request: Request) -> Response:
        if "resource" in self.failing:
            return Response("no", 404)
        named = self.named or self.base
        return JSONResponse({"resource": f"{self.base}/mcp", "authorization_servers": [named], **self.scopes})

    async def metadata(self, request: Request) -> Response:
        if "metadata" in self.failing:
            return Response("no", 500)
        ends = {"authorization_endpoint": f"{self.base}/authorization", "token_endpoint": f"{self.base}/tokens"}
        ends["registration_endpoint"] = f"{self.base}/register"
        grants = ["authorization_code", "refresh_token", "client_credentials"]
        kinds = {"response_types_supported": ["code"], "grant_types_supported": grants}
        more = {"code_challenge_methods_supported": ["S256"], "token_endpoint_auth_methods_supported": self.methods}
        more["authorization_response_iss_parameter_supported"] = self.iss is not None
        return JSONResponse({"issuer": self.base, **ends, **kinds, **more})

    async def register(self, request: Request) -> Response:
        if "register" in self.failing:
            return Response("not from 10.1.2.3", 500)
        self.registered += 1
        asked = json.loads(await request.body())
        return JSONResponse({**asked, "client_id": "registered", "token_endpoint_auth_method": "none"}, 201)

    async def authorize(self, request: Request) -> Response:
        query = request.query_params
        self.led.append(dict(query))
        named = {} if self.iss is None else {"iss": self.iss}
        answer = {"error": "access_denied"} if self.denies else {"code": "the-code"}
        back = urlencode({**answer, "state": query["state"], **named})
        return RedirectResponse(f"{query['redirect_uri']}?{back}")

    async def stray(self, request: Request) -> Response:
        self.strayed.append((await request.body()).decode())
        return JSONResponse({"error": "invalid_grant"}, 400)

    async def token(self, request: Request) -> Response:
        asked = {name: values[0] for name, values in parse_qs((await request.body()).decode()).items()}
        scheme, _, secret = request.headers.get("authorization", "").partition(" ")
        self.asked.append(asked | ({scheme: base64.b64decode(secret).decode()} if scheme else {}))
        if self.repeats is not None:
            status, kind = self.repeats
            heads = dict(request.headers)
            return JSONResponse(
                {"error": kind, "sent": self.asked[-1], "heads": heads, "refresh_token": "brand-new"}, status
            )
        self.begun.set()
        await self.let_go.wait()
        refreshes = asked["grant_type"] == "refresh_token"
        if refreshes and asked["refresh_token"] not in self.refreshing:
            return JSONResponse({"error": "invalid_grant"}, 400)
        if refreshes and self.rotates:
            self.refreshing.discard(asked["refresh_token"])
        number = len(self.asked)
        self.good.add(f"token-{number}")
        told: dict[str, Any] = {"access_token": f"token-{number}", "token_type": "Bearer", "expires_in": 3600}
        if asked["grant_type"] == "authorization_code" or (refreshes and self.rotates):
            told["refresh_token"] = f"refresh-{number}"
            self.refreshing.add(told["refresh_token"])
        return JSONResponse(told)


@asynccontextmanager
async def authority(server: MCPServer | None = None, *, rotates: bool = False) -> AsyncIterator[Authority]:
    made = Authority(server, rotates=rotates)
    async with serving(made.app()) as made.port:
        yield made


def config(made: Authority, oauth: dict[str, Any]) -> dict[str, Any]:
    return {"servers": [{"name": "colours", "protocol": "streamable", "url": f"{made.base}/mcp", "oauth": oauth}]}


async def led_back(url: str) -> str:
    """Where a person ends up who follows the page and says yes."""
    async with httpx2.AsyncClient() as client:
        return str((await client.get(url)).headers["location"])


async def consented(url: str) -> tuple[str, str, str | None]:
    """What such a person brings back."""
    led = parse_qs(urlsplit(await led_back(url)).query)
    return led["code"][0], led["state"][0], led["iss"][0] if "iss" in led else None


def by_code(store: Path) -> dict[str, Any]:
    return {"grant": "authorization_code", "store": str(store)}


async def log_in(made: Authority, store: Path) -> None:
    """What `mcp login` does, in another process than what uses the file."""
    async with McpTools.from_config(config(made, by_code(store)), authorize=consented) as tools:
        await tools.list("colours")


def tokens_of(made: Authority, store: Path, wall: Callable[[], float]) -> ServerTokens:
    """What a session that nobody is there for has its requests sent by."""
    tokens = tokens_for(settings_of(config(made, by_code(store)), {}).servers[0], None, wall, 0.01)
    assert tokens is not None
    return tokens


def rewritten(store: Path, **changes: Any) -> None:
    """Change the tokens in a file; None takes a value out."""
    kept = json.loads(store.read_text())
    tokens = {name: value for name, value in {**kept["tokens"], **changes}.items() if value is not None}
    store.write_text(json.dumps({**kept, "tokens": tokens}))


async def add(tools: McpTools, **more: Any) -> Any:
    return (await tools.call("colours.add", {"a": 1, "b": 2}, **more)).structured["result"]


async def test_client_credentials_bring_a_token_and_another_when_it_was_revoked() -> None:
    async with authority() as made:
        oauth = {"grant": "client_credentials", "client_id": "me", "client_secret": "s", "issuer": made.base}
        async with McpTools.from_config(config(made, oauth)) as tools:
            assert (await tools.call("colours.add", {"a": 1, "b": 2})).structured == {"result": 3}
            asked = len(made.asked)
            assert (await tools.call("colours.add", {"a": 1, "b": 2})).structured == {"result": 3}
            assert len(made.asked) == asked
            made.good.clear()
            assert (await tools.call("colours.add", {"a": 1, "b": 3})).structured == {"result": 4}
    assert {each["grant_type"] for each in made.asked} == {"client_credentials"}


@pytest.mark.full
async def test_a_caller_s_own_token_is_used_in_place_of_the_operator_s_authorization() -> None:
    async with authority() as made:
        oauth = {"grant": "client_credentials", "client_id": "me", "client_secret": "s", "issuer": made.base}
        made.good.add("of-ada")
        async with McpTools.from_config(config(made, oauth)) as tools:
            own = {"colours": "of-ada"}
            seen = (await tools.call("colours.headers", {}, credentials=own)).structured
            assert seen["authorization"] == "Bearer of-ada"
            made.good.discard("of-ada")
            with pytest.raises(McpRefused):
                await tools.call("colours.headers", {}, credentials=own)
            assert made.asked == []
            assert (await tools.call("colours.headers", {})).structured["authorization"] == "Bearer token-1"


async def test_an_authorization_is_given_once_and_kept_for_other_processes(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    store = tmp_path / "tokens.json"
    oauth = {"grant": "authorization_code", "store": str(store)}
    async with authority() as made:
        async with McpTools.from_config(config(made, oauth), authorize=consented) as tools:
            assert (await tools.call("colours.add", {"a": 1, "b": 2})).structured == {"result": 3}
        assert stat.S_IMODE(store.stat().st_mode) == 0o600
        async with McpTools.from_config(config(made, oauth)) as tools:
            assert (await tools.call("colours.add", {"a": 1, "b": 2})).structured == {"result": 3}
    assert [each["grant_type"] for each in made.asked].count("authorization_code") == 1
    told = "\n".join(record.getMessage() for record in caplog.records if not record.name.startswith("mcp.server"))
    assert "token-" not in told
    assert "the-code" not in told


async def test_a_server_that_nobody_authorized_this_program_for_is_refused(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    oauth = {"grant": "authorization_code", "store": str(tmp_path / "tokens.json")}
    async with authority() as made, McpTools.from_config(config(made, oauth)) as tools:
        with pytest.raises(McpRefused, match=r"^no token for the server could be had$") as caught:
            await tools.call("colours.add", {"a": 1, "b": 2})
        assert caught.value.status == 401
        assert "nobody has authorized" in caplog.text
        with pytest.raises(McpRefused):
            await asyncio.gather(*(tools.tools() for _ in range(5)))


@pytest.mark.full
async def test_a_secret_is_not_sent_to_an_authorization_server_that_the_mcp_server_names_instead() -> None:
    async with authority() as made, authority() as other:
        issuer = other.base
        oauth = {"grant": "client_credentials", "client_id": "me", "client_secret": "s", "issuer": issuer}
        async with McpTools.from_config(config(made, oauth)) as tools:
            with pytest.raises((McpRefused, McpForbidden)):
                await tools.tools()
    assert made.asked == []
    assert other.asked == []


# --------------------------------------------------------------------------------------------------- refresh tokens that are kept


@pytest.mark.full
@pytest.mark.parametrize("expires_at", [1.0, 1e12, None], ids=["expired", "revoked", "of an older version"])
async def test_a_kept_refresh_token_is_used_where_the_token_is_not_good_any_more(
    tmp_path: Path, expires_at: float | None
) -> None:
    store = tmp_path / "tokens.json"
    async with authority() as made:
        await log_in(made, store)
        made.revoke()
        rewritten(store, expires_at=expires_at)
        for _ in range(2):
            async with McpTools.from_config(config(made, by_code(store))) as tools:
                assert await add(tools) == 3
    assert made.grants == ["authorization_code", "refresh_token"]
    assert made.strayed == []
    assert json.loads(store.read_text())["tokens"]["refresh_token"] == "refresh-1"


async def test_the_time_when_a_token_expires_is_kept_with_it(tmp_path: Path) -> None:
    now = 1000.0
    store = tmp_path / "tokens.json"
    await TokenFile(store, lambda: now, 0.01).set_tokens(OAuthToken(access_token="a", expires_in=60))
    assert json.loads(store.read_text())["tokens"]["expires_at"] == 1060
    other = TokenFile(store, lambda: now, 0.01)
    now = 1059.0
    assert await other.get_tokens() == OAuthToken(access_token="a", expires_in=60)
    assert not other.expired
    now = 1060.0
    assert other.expired
    await other.set_tokens(OAuthToken(access_token="b"))
    assert not other.expired


@pytest.mark.full
async def test_a_token_that_expires_in_a_session_is_refreshed_before_the_server_refuses_it(tmp_path: Path) -> None:
    now = 1000.0
    store = tmp_path / "tokens.json"
    async with authority() as made, httpx2.AsyncClient() as client:
        await log_in(made, store)
        tokens = tokens_of(made, store, lambda: now)

        async def asked() -> str:
            request = client.build_request("GET", f"{made.base}/mcp")
            response = await tokens.sent(request, client.send)
            assert response.status_code != 401
            return request.headers["authorization"]

        made.revoke()
        assert [await asked() for _ in range(2)] == ["Bearer token-2"] * 2
        refused, now = made.refused, now + 3600
        assert [await asked() for _ in range(2)] == ["Bearer token-3"] * 2
        assert made.refused == refused
    assert made.grants == ["authorization_code", *["refresh_token"] * 2]


@pytest.mark.full
async def test_a_session_uses_what_a_new_login_has_written_and_tries_no_refused_refresh_token_twice(
    tmp_path: Path,
) -> None:
    store = tmp_path / "tokens.json"
    async with authority() as made:
        await log_in(made, store)
        async with McpTools.from_config(config(made, by_code(store))) as tools:
            assert await add(tools) == 3
            made.revoke()
            made.refreshing.clear()
            for _ in range(3):
                with pytest.raises(McpRefused, match="no token for the server"):
                    await add(tools)
            assert made.grants == ["authorization_code", "refresh_token"]
            await log_in(made, store)
            assert await add(tools) == 3
            assert len(tools.pool) == 1
    assert made.grants.count("authorization_code") == 2


@pytest.mark.full
async def test_all_who_share_a_file_spend_a_refresh_token_once(tmp_path: Path) -> None:
    store = tmp_path / "tokens.json"
    async with authority(rotates=True) as made:
        settings = {**config(made, by_code(store)), "pool": {"backoff": 0.01}}
        await log_in(made, store)
        async with McpTools.from_config(settings) as one, McpTools.from_config(settings) as other:
            everybody = [(tools, tenant) for tools in (one, other) for tenant in ("a", "b", "c")]
            for turn in range(1, 4):
                calls = (add(tools, tenant=tenant) for tools, tenant in everybody for _ in range(2))
                assert set(await asyncio.gather(*calls)) == {3}
                assert made.grants == ["authorization_code", *["refresh_token"] * (turn - 1)]
                made.revoke()


async def test_who_wants_a_file_that_another_has_locked_waits(tmp_path: Path) -> None:
    one, other = (TokenFile(tmp_path / "new" / "tokens.json", time.time, 0.001) for _ in range(2))
    took: list[str] = []

    async def takes() -> None:
        async with other.locked():
            took.append("other")

    async with one.locked():
        waiting = asyncio.ensure_future(takes())
        await one.set_tokens(OAuthToken(access_token="a"))  # who has the lock may write
        took.append("one")
    await waiting
    assert took == ["one", "other"]
    assert await other.get_tokens() == OAuthToken(access_token="a")


@pytest.mark.full
async def test_a_refresh_waits_for_another_process_that_has_the_file_and_uses_its_token(tmp_path: Path) -> None:
    store = tmp_path / "tokens.json"
    async with authority() as made:
        await log_in(made, store)
        made.revoke()
        settings = {**config(made, by_code(store)), "pool": {"backoff": 0.01}}
        other = TokenFile(store, time.time, 0.01)
        async with McpTools.from_config(settings) as tools:
            before = made.refused
            async with other.locked():
                call = asyncio.ensure_future(add(tools))
                await eventually(lambda: made.refused > before)
                assert made.grants == ["authorization_code"]
                made.good.add("of-the-other")
                await other.set_tokens(OAuthToken(access_token="of-the-other", refresh_token="refresh-1"))
            assert await call == 3
    assert made.grants == ["authorization_code"]


@pytest.mark.full
async def test_a_refresh_is_finished_and_kept_although_its_caller_leaves_and_the_session_closes(tmp_path: Path) -> None:
    store = tmp_path / "tokens.json"
    async with authority(rotates=True) as made, httpx2.AsyncClient() as client:
        await log_in(made, store)
        made.revoke()
        made.begun.clear()
        made.let_go.clear()
        tokens = tokens_of(made, store, time.time)
        asking = asyncio.ensure_future(tokens.sent(client.build_request("GET", f"{made.base}/mcp"), client.send))
        await made.begun.wait()
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        closing = asyncio.ensure_future(tokens.aclose())
        await asyncio.sleep(0)
        made.let_go.set()
        await closing
        assert json.loads(store.read_text())["tokens"]["refresh_token"] == "refresh-2"
        async with McpTools.from_config(config(made, by_code(store))) as tools:
            assert await add(tools) == 3
    assert made.grants == ["authorization_code", "refresh_token"]


@pytest.mark.full
async def test_a_refresh_token_is_sent_to_the_authorization_server_that_gave_it_and_nowhere_else(
    tmp_path: Path,
) -> None:
    store = tmp_path / "tokens.json"
    async with authority() as made, authority() as other:
        await log_in(made, store)
        kept = store.read_text()
        made.revoke()
        async with McpTools.from_config(config(made, by_code(store))) as tools:
            made.named = other.base
            with pytest.raises(McpRefused):
                await add(tools)
            made.named = None
            made.failing.add("metadata")
            with pytest.raises(McpRefused):
                await add(tools)
            assert made.grants == ["authorization_code"]
            assert (made.strayed, other.asked, other.strayed) == ([], [], [])
            assert store.read_text() == kept
            made.failing.clear()
            assert await add(tools) == 3


async def test_a_file_of_tokens_that_cannot_be_used_is_named_in_the_log_and_not_to_the_client(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = tmp_path / "tokens.json"
    async with authority() as made, McpTools.from_config(config(made, by_code(store))) as tools:
        for broken in (
            "[]",
            '{"tokens": 1}',
            '{"tokens": {"access_token": "a", "expires_at": "soon"}}',
            '{"client": {}}',
        ):
            store.write_text(broken)
            caplog.clear()
            with pytest.raises(McpRefused, match=r"^no token for the server could be had$"):
                await add(tools)
            assert "tokens.json cannot be used" in caplog.text


# ----------------------------------------------------------------------------- the authorization server, and a client of its own


async def begun(made: Authority, store: Path, capsys: pytest.CaptureFixture[str]) -> "tuple[asyncio.Future[int], str]":
    """`mcp login`, which waits at its terminal, and the page that it shows there."""
    async with listening(lambda reader, writer: asyncio.sleep(0)) as free:
        redirect = f"http://127.0.0.1:{free}/callback"
    file = store.with_name("mcp.json")
    file.write_text(json.dumps(config(made, {**by_code(store), "redirect_uri": redirect})))
    login = asyncio.ensure_future(asyncio.to_thread(log_in_at_terminal, str(file), "colours"))
    shown: list[str] = []

    def page() -> list[str]:
        shown.extend(line for line in capsys.readouterr().out.splitlines() if "state=" in line)
        return shown

    await eventually(lambda: bool(page()) or login.done())
    return login, shown[0]


async def test_a_login_that_the_person_refuses_ends_at_once_and_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with authority() as made, httpx2.AsyncClient() as client:
        made.denies = True
        login, page = await begun(made, tmp_path / "tokens.json", capsys)
        back = await led_back(page)
        for other in ("error=access_denied&state=guessed", "error=access_denied", "code=theirs&state=guessed"):
            await client.get(f"{back.partition('?')[0]}?{other}")
            assert not login.done()
        await client.get(back)
        with pytest.raises(McpRefused, match=r"^colours: the authorization server answered 'access_denied'$"):
            await login
        assert made.asked == []


@pytest.mark.full
@pytest.mark.parametrize("scope", [None, "colours:read"])
async def test_what_the_settings_ask_for_is_asked_for_and_not_all_that_the_server_has(
    tmp_path: Path, scope: str | None
) -> None:
    all_there_is = "colours:read colours:write"
    async with authority() as made:
        made.scopes = {"scopes_supported": all_there_is.split()}
        oauth = by_code(tmp_path / "tokens.json") | ({} if scope is None else {"scope": scope})
        async with McpTools.from_config(config(made, oauth), authorize=consented) as tools:
            assert await add(tools) == 3
            assert [each["scope"] for each in made.led] == [scope or all_there_is]
            made.steps_up = True
            assert await add(tools) == 3
        assert [set(each["scope"].split()) for each in made.led[1:]] == [set(all_there_is.split())]


async def test_client_credentials_ask_for_the_scope_of_the_settings() -> None:
    async with authority() as made:
        made.scopes = {"scopes_supported": ["colours:read", "colours:write"]}
        oauth = {"grant": "client_credentials", "client_id": "me", "client_secret": "s", "scope": "colours:read"}
        async with McpTools.from_config(config(made, {**oauth, "issuer": made.base})) as tools:
            assert await add(tools) == 3
        assert [each["scope"] for each in made.asked] == ["colours:read"]


@pytest.mark.full
async def test_a_login_at_an_authorization_server_that_names_itself_keeps_the_tokens(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = tmp_path / "tokens.json"
    async with authority() as made, httpx2.AsyncClient() as client:
        made.iss = made.base
        login, page = await begun(made, store, capsys)
        assert "close this page" in (await client.get(await led_back(page))).text
        assert await login == 0
        assert "colours: authorized, " in capsys.readouterr().out
        async with McpTools.from_config(config(made, by_code(store))) as tools:
            assert await add(tools) == 3


async def test_a_code_that_another_authorization_server_gave_is_not_used(tmp_path: Path) -> None:
    async with authority() as made:
        made.iss = "https://elsewhere.example"
        settings = config(made, by_code(tmp_path / "tokens.json"))
        async with McpTools.from_config(settings, authorize=consented) as tools:
            with pytest.raises(McpRefused):
                await add(tools)
        assert made.asked == []


async def test_a_program_may_give_code_and_state_alone_where_no_issuer_came(tmp_path: Path) -> None:
    async def pair(url: str) -> tuple[str, str]:
        code, state, _ = await consented(url)
        return code, state

    async with authority() as made:
        settings = config(made, by_code(tmp_path / "tokens.json"))
        async with McpTools.from_config(settings, authorize=pair) as tools:
            assert await add(tools) == 3


@pytest.mark.full
@pytest.mark.parametrize("methods", [["client_secret_post", "client_secret_basic"], ["client_secret_post"]])
async def test_a_client_of_the_settings_is_used_where_none_can_be_registered(
    tmp_path: Path, methods: list[str]
) -> None:
    store = tmp_path / "tokens.json"
    async with authority() as made:
        made.failing.add("register")
        made.methods = methods
        oauth = {**by_code(store), "client_id": "me", "client_secret": "of-mine", "issuer": made.base}
        async with McpTools.from_config(config(made, oauth), authorize=consented) as tools:
            assert await add(tools) == 3
        made.revoke()
        async with McpTools.from_config(config(made, oauth)) as tools:
            assert await add(tools) == 3
    assert made.grants == ["authorization_code", "refresh_token"]
    for each in made.asked:
        assert each["client_id"] == "me"
        assert (each.get("Basic") == "me:of-mine") is ("client_secret_basic" in methods)
        assert (each.get("client_secret") == "of-mine") is ("client_secret_basic" not in methods)


@pytest.mark.full
@pytest.mark.parametrize("client", [{}, {"client_id": "me"}, {"client_id": "me", "client_secret": "of-mine"}])
async def test_nobody_is_led_to_another_authorization_server_than_the_issuer_of_the_settings(
    tmp_path: Path, client: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    store = tmp_path / "tokens.json"
    async with authority() as made, authority() as other:
        oauth = {**by_code(store), **client, "issuer": other.base}
        async with McpTools.from_config(config(made, oauth), authorize=consented) as tools:
            with pytest.raises(McpRefused):
                await add(tools)
            assert "other authorization servers" in caplog.text
            made.failing.add("resource")  # which names none: then it is the server itself
            with pytest.raises(McpRefused):
                await add(tools)
        assert (made.asked, made.strayed, other.asked, other.strayed) == ([], [], [], [])
        assert (made.registered, other.registered) == (0, 0)


async def test_nobody_is_led_anywhere_where_the_issuer_of_the_settings_does_not_say_where(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    led: list[str] = []

    async def shown(url: str) -> tuple[str, str]:
        led.append(url)
        return "the-code", parse_qs(urlsplit(url).query)["state"][0]

    async with authority() as made:
        made.failing.add("metadata")
        client = {"client_id": "me", "client_secret": "of-mine", "issuer": made.base}
        settings = config(made, {**by_code(tmp_path / "tokens.json"), **client})
        async with McpTools.from_config(settings, authorize=shown) as tools:
            with pytest.raises(McpRefused):
                await add(tools)
    assert "did not say where a token is had" in caplog.text
    assert (led, made.asked, made.strayed) == ([], [], [])


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"client_secret": "s", "issuer": "https://login.example"}, "client_secret needs client_id, and issuer"),
        ({"client_secret": "s", "client_id": "me"}, "client_secret needs client_id, and issuer"),
        ({"redirect_uri": "nowhere"}, "client_id, issuer or redirect_uri cannot be used"),
        ({"scope": 'read" x'}, "scope"),
    ],
)
async def test_oauth_settings_that_cannot_be_used_are_named(tmp_path: Path, wrong: dict[str, str], why: str) -> None:
    nowhere = Authority()
    nowhere.port = 1
    settings = config(nowhere, {**by_code(tmp_path / "tokens.json"), **wrong})
    with pytest.raises(McpConfigError, match=rf"^mcp\.servers\.colours\.oauth(: |\.){why}"):
        async with McpTools.from_config(settings) as tools:
            await tools.tools()


# ------------------------------------------------------------------------------------------------------- what others learn of it


async def test_why_there_is_no_token_is_logged_and_not_told_to_the_client(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with authority() as made:
        made.failing.add("register")
        settings = config(made, by_code(tmp_path / "tokens.json"))
        async with McpTools.from_config(settings, authorize=consented) as tools:
            with pytest.raises(McpRefused, match=r"^no token for the server could be had$"):
                await add(tools)
    assert "Registration failed 500" in caplog.text


@pytest.mark.full
@pytest.mark.parametrize(
    ("status", "kind", "said"),
    [
        (400, "invalid_client", "Token exchange failed (400) invalid_client"),
        (200, "none", "Invalid token response"),
        (201, "none", "Invalid token response"),
    ],
)
async def test_what_an_authorization_server_repeats_is_not_logged(
    caplog: pytest.LogCaptureFixture, status: int, kind: str, said: str
) -> None:
    caplog.set_level(logging.DEBUG)
    async with authority() as made:
        made.repeats = (status, kind)
        oauth = {"grant": "client_credentials", "client_id": "me", "client_secret": "s3cret", "issuer": made.base}
        async with McpTools.from_config(config(made, oauth)) as tools:
            with pytest.raises(McpRefused, match=r"^no token for the server could be had$"):
                await add(tools)
    assert f"no token for the MCP server colours: '{said}'" in caplog.text
    for secret in ("s3cret", base64.b64encode(b"me:s3cret").decode(), "brand-new"):
        assert secret not in caplog.text


class Held:
    """A server with a tool that is under way until it is let go, or told to stop."""

    def __init__(self) -> None:
        self.begun, self.let_go, self.stopped = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self.server = colours()
        self.server.add_tool(self.held, name="held")

    async def held(self) -> str:
        """Wait."""
        self.begun.set()
        try:
            await self.let_go.wait()
        except asyncio.CancelledError:
            self.stopped.set()
            raise
        return "done"


@pytest.mark.full
@pytest.mark.parametrize("generation", ["legacy", "modern"])
async def test_calls_of_a_session_with_oauth_run_side_by_side(generation: str) -> None:
    held = Held()
    async with authority(held.server) as made:
        oauth = {"grant": "client_credentials", "client_id": "me", "client_secret": "s", "issuer": made.base}
        settings = config(made, oauth)
        settings["servers"][0]["generation"] = generation
        async with McpTools.from_config(settings) as tools:
            waiting = asyncio.ensure_future(tools.call("colours.held", {}))
            await held.begun.wait()
            assert await add(tools) == 3
            made.good.clear()  # another token is had while the call is under way
            assert await add(tools) == 3
            held.let_go.set()
            assert (await waiting).text == "done"


async def test_a_call_that_hangs_is_told_to_stop_with_oauth_too() -> None:
    held = Held()
    async with authority(held.server) as made:
        oauth = {"grant": "client_credentials", "client_id": "me", "client_secret": "s", "issuer": made.base}
        settings = config(made, oauth)
        settings["servers"][0]["generation"] = "legacy"  # of which to be told is a request by itself
        async with McpTools.from_config(settings) as tools:
            call = asyncio.ensure_future(tools.call("colours.held", {}))
            await held.begun.wait()
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            await held.stopped.wait()
