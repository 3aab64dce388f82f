"""Tokens by OAuth 2.1, with a real authorization server of the official package's routes on this machine."""

import asyncio
import json
import logging
import stat
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from tests.mcp_servers.test_over_http import colours, serving

from smg_mcp import McpForbidden, McpRefused, McpTools

pytestmark = pytest.mark.anyio


class Authority:
    """An authorization server and, behind its tokens, the MCP server: a token is good until it is revoked."""

    def __init__(self) -> None:
        self.good: set[str] = set()
        self.asked: list[dict[str, str]] = []
        self.port = 0
        self._mcp = colours().streamable_http_app(json_response=True)

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def app(self) -> Starlette:
        routes = [
            Route("/.well-known/oauth-protected-resource/mcp", self.resource),
            Route("/.well-known/oauth-authorization-server", self.metadata),
            Route("/register", self.register, methods=["POST"]),
            Route("/authorization", self.authorize),
            Route("/token", self.token, methods=["POST"]),
            Mount("/", self.guarded),
        ]
        return Starlette(routes=routes, lifespan=self._mcp.router.lifespan_context)

    async def guarded(self, scope: Any, receive: Any, send: Any) -> None:
        token = dict(scope["headers"]).get(b"authorization", b"").decode().removeprefix("Bearer ")
        if token in self.good:
            await self._mcp(scope, receive, send)
            return
        where = f'Bearer resource_metadata="{self.base}/.well-known/oauth-protected-resource/mcp"'
        await Response("no", 401, {"www-authenticate": where})(scope, receive, send)

    async def resource(self, request: Request) -> Response:
        return JSONResponse({"resource": f"{self.base}/mcp", "authorization_servers": [self.base]})

    async def metadata(self, request: Request) -> Response:
        ends = {f"{name}_endpoint": f"{self.base}/{name}" for name in ("authorization", "token")}
        ends["registration_endpoint"] = f"{self.base}/register"
        grants = ["authorization_code", "refresh_token", "client_credentials"]
        methods = ["client_secret_basic", "client_secret_post", "none"]
        kinds = {"response_types_supported": ["code"], "grant_types_supported": grants}
        more = {"code_challenge_methods_supported": ["S256"], "token_endpoint_auth_methods_supported": methods}
        return JSONResponse({"issuer": self.base, **ends, **kinds, **more})

    async def register(self, request: Request) -> Response:
        asked = json.loads(await request.body())
        return JSONResponse({**asked, "client_id": "registered", "token_endpoint_auth_method": "none"}, 201)

    async def authorize(self, request: Request) -> Response:
        query = request.query_params
        return RedirectResponse(f"{query['redirect_uri']}?code=the-code&state={query['state']}")

    async def token(self, request: Request) -> Response:
        asked = {name: values[0] for name, values in parse_qs((await request.body()).decode()).items()}
        self.asked.append(asked)
        if asked["grant_type"] == "refresh_token" and asked["refresh_token"] != "refresh":
            return JSONResponse({"error": "invalid_grant"}, 400)
        token = f"token-{len(self.asked)}"
        self.good.add(token)
        told: dict[str, Any] = {"access_token": token, "token_type": "Bearer", "expires_in": 3600}
        if asked["grant_type"] != "client_credentials":
            told["refresh_token"] = "refresh"
        return JSONResponse(told)


@asynccontextmanager
async def authority() -> Any:
    made = Authority()
    async with serving(made.app()) as made.port:
        yield made


def config(made: Authority, oauth: dict[str, Any]) -> dict[str, Any]:
    return {"servers": [{"name": "colours", "protocol": "streamable", "url": f"{made.base}/mcp", "oauth": oauth}]}


async def consented(url: str) -> tuple[str, str]:
    """A person who follows the page and says yes."""
    async with httpx2.AsyncClient() as client:
        answer = await client.get(url)
    led = parse_qs(urlsplit(answer.headers["location"]).query)
    return led["code"][0], led["state"][0]


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


async def test_a_server_that_nobody_authorized_this_program_for_is_refused(tmp_path: Path) -> None:
    oauth = {"grant": "authorization_code", "store": str(tmp_path / "tokens.json")}
    async with authority() as made, McpTools.from_config(config(made, oauth)) as tools:
        with pytest.raises(McpRefused, match="nobody has authorized") as caught:
            await tools.call("colours.add", {"a": 1, "b": 2})
        assert caught.value.status == 401
        with pytest.raises(McpRefused):
            await asyncio.gather(*(tools.tools() for _ in range(5)))


async def test_a_secret_is_not_sent_to_an_authorization_server_that_the_mcp_server_names_instead() -> None:
    async with authority() as made, authority() as other:
        issuer = other.base
        oauth = {"grant": "client_credentials", "client_id": "me", "client_secret": "s", "issuer": issuer}
        async with McpTools.from_config(config(made, oauth)) as tools:
            with pytest.raises((McpRefused, McpForbidden)):
                await tools.tools()
    assert made.asked == []
    assert other.asked == []
