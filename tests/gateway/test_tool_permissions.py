"""Who may use which tools of MCP servers, and what the operator, the upstream and the bounds say, in every API."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import pytest
import uvicorn
from tests.gateway.conftest import House, eventually, over_http
from tests.gateway.test_tool_loop import ADD, DONE, calls, decided, prompt, says
from tests.gateway.tool_server import ToolServer, tool_server

from smg_core import Config
from smg_core.auth.settings import AuthConfig
from smg_core.history.settings import HistoryConfig
from smg_core.pipeline.settings import McpConfig
from smg_simulator.answers.replies import Reply
from smg_simulator.engine.engine import SimulatorConfig

pytestmark = pytest.mark.anyio

NAMES = ("add", "write", "fail", "look", "wait")
USER = {"role": "user", "content": "Go!"}
KEYS = {name: f"sk-{name}-0123456789abcdef" for name in ("all", "role", "key", "none", "other")}


@attrs.frozen
class Api:
    """How an API is asked for the tools of a server. `body` makes it of the server's name and its URL ("" for the operator's);
    `ended` finds in an answer why it ended, and `bound` is what stands there where a bound ended the loop."""

    path: str
    body: Callable[[str, str], dict[str, Any]]
    ended: Callable[[Any], object]
    bound: object


def _url(name: str, url: str) -> dict[str, str]:
    return {name: url} if url else {}


def _mcp(label: str, url: str) -> dict[str, Any]:
    return {"type": "mcp", "server_label": label, "require_approval": "never", **_url("server_url", url)}


def _connector(label: str, url: str) -> dict[str, Any]:
    servers = [{"type": "url", "name": label, "url": url}] if url else []
    body = {"messages": [USER], "max_tokens": 400, "tools": [{"type": "mcp_toolset", "mcp_server_name": label}]}
    return body | ({"mcp_servers": servers} if servers else {})


def _google(label: str, url: str) -> dict[str, Any]:
    server = {"name": label} | ({"streamableHttpTransport": {"url": url}} if url else {})
    return {"contents": [{"parts": [{"text": "Go!"}]}], "tools": [{"mcpServers": [server]}]}


APIS = {
    "chat": Api(
        "/v1/chat/completions",
        lambda label, url: {"messages": [USER], "tools": [_mcp(label, url)]},
        lambda found: found["choices"][0]["finish_reason"],
        "length",
    ),
    "responses": Api(
        "/v1/responses",
        lambda label, url: {"input": "Go!", "tools": [_mcp(label, url)]},
        lambda found: (found["status"], (found["incomplete_details"] or {}).get("reason")),
        ("incomplete", "max_tool_calls"),
    ),
    "messages": Api("/v1/messages", _connector, lambda found: found["stop_reason"], "pause_turn"),
    "generate_content": Api(
        "/v1/models/sim:generateContent",
        _google,
        lambda found: found["candidates"][0]["finishReason"],
        "TOO_MANY_TOOL_CALLS",
    ),
    "interactions": Api(
        "/v1/interactions",
        lambda label, url: {"input": "Go!", "tools": [{"type": "mcp_server", "name": label, **_url("url", url)}]},
        lambda found: found["status"],
        "incomplete",
    ),
}
every_api = pytest.mark.parametrize("api", APIS)


async def ask(house: House, api: str, label: str = "notes", url: str = "", key: str = "", **fields: Any) -> Any:
    asked = APIS[api]
    body = asked.body(label, url) | fields
    if api != "generate_content":
        body = {"model": "sim", **body}
    headers = {"authorization": f"Bearer {KEYS[key]}"} if key else {}
    return await house.http.post(asked.path, json=body, headers=headers)


def offered(house: House) -> set[str]:
    """The tools that the newest prompt offers."""
    text = prompt(house)
    return {name for name in NAMES if f"__{name}" in text}


@asynccontextmanager
async def gateway(folder: Path, servers: list[Any], policy: Any = None, mcp: Any = None, **sections: Any) -> Any:
    folder.mkdir(exist_ok=True)
    file = folder / "mcp.json"
    egress = {"schemes": ["http", "https"], **sections.pop("egress", {})}
    file.write_text(json.dumps({"servers": servers, "egress": egress, "policy": policy or {}}))
    config = Config(mcp=McpConfig(config=str(file), chat=True, **(mcp or {})), **sections)
    async with over_http(SimulatorConfig(seed=1), config=config) as house:
        yield house


def at(tools: ToolServer, name: str = "notes", **fields: Any) -> dict[str, Any]:
    return {"name": name, "protocol": "streamable", "url": tools.url, **fields}


@pytest.fixture(scope="module")
async def tools() -> AsyncIterator[ToolServer]:
    async with tool_server() as tools:
        yield tools


# ---------------------------------------------------------------------------------------------------------------- grants


@pytest.fixture(scope="module")
async def guarded(tools: ToolServer, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[House]:
    """A gateway with keys, and with a server that the tenant acme alone may know of."""
    auth = AuthConfig(
        keys=(
            f"{KEYS['all']} tenant=acme",
            f"{KEYS['role']} tenant=acme role=reader",
            f"{KEYS['key']} tenant=acme tool=notes.wr* tool=notes.look",
            f"{KEYS['none']} tenant=acme tool=else.*",
            f"{KEYS['other']} tenant=globex",
        ),
        roles=("reader=* tool:notes.add",),
        virtual_keys=True,
    )
    servers = [at(tools), at(tools, "private", tenants=["acme"])]
    async with gateway(tmp_path_factory.mktemp("mcp"), servers, auth=auth) as house:
        yield house


@every_api
@pytest.mark.parametrize(("key", "found"), [("all", set(NAMES)), ("role", {"add"}), ("key", {"write", "look"})])
async def test_only_the_tools_that_a_role_and_a_key_name_are_offered(
    guarded: House, api: str, key: str, found: set[str]
) -> None:
    says(guarded, DONE)
    answer = await ask(guarded, api, key=key)
    assert answer.status_code == 200, answer.text
    assert offered(guarded) == found


@every_api
async def test_a_server_of_which_a_key_may_use_nothing_is_refused(guarded: House, api: str) -> None:
    answer = await ask(guarded, api, key="none")
    assert answer.status_code == 403
    assert "none of the tools" in answer.text


@every_api
async def test_a_server_of_another_tenant_is_unknown(guarded: House, api: str) -> None:
    says(guarded, DONE)
    assert (await ask(guarded, api, "private", key="all")).status_code == 200
    answer = await ask(guarded, api, "private", key="other")
    unknown = await ask(guarded, api, "nobody", key="other")
    assert answer.status_code == unknown.status_code == 400
    told, other = (each.json()["error"]["message"] for each in (answer, unknown))
    assert told.replace("private", "nobody") == other


async def test_a_virtual_key_names_its_tools(guarded: House) -> None:
    keys = guarded.gateway.virtual_keys
    assert keys is not None
    made = await keys.create(tenant="acme", name="ada", tools=["notes.add"])
    says(guarded, DONE)
    body = {"model": "sim"} | APIS["responses"].body("notes", "")
    answer = await guarded.http.post("/v1/responses", json=body, headers={"authorization": f"Bearer {made.text}"})
    assert answer.status_code == 200, answer.text
    assert offered(guarded) == {"add"}


# ---------------------------------------------------------------------------------------------------------- the operator


@pytest.mark.full
@pytest.mark.sampled(keep=2)
@every_api
async def test_every_decision_of_the_policy_is_one_line_of_the_audit(
    api: str, tools: ToolServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "smg.tools")
    policy = {"default": "allow", "tools": {"notes.write": "ask", "notes.fail": "deny"}}
    async with gateway(tmp_path, [at(tools)], policy) as house:
        says(house, calls(("add", {"a": 1, "b": 1}), ("write", {"note": "audit"}), ("fail", {"why": "audit"})), DONE)
        assert (await ask(house, api)).status_code == 200
    asked = "asked" if api in ("chat", "responses") else "denied"
    assert sorted(decided(caplog)) == sorted(["notes.add allowed", f"notes.write {asked}", "notes.fail denied"])


@pytest.mark.full
@pytest.mark.sampled(keep=2)
@every_api
async def test_the_operators_policy_is_never_looser_for_what_the_client_says(
    tools: ToolServer, tmp_path: Path, api: str
) -> None:
    policy = {"default": "allow", "tools": {"notes.write": "ask", "notes.fail": "deny"}}
    async with gateway(tmp_path, [at(tools)], policy) as house:
        says(house, calls(("write", {"note": f"policy-{api}"})), DONE)
        answer = await ask(house, api)
        assert answer.status_code == 200, answer.text
        assert "fail" not in offered(house)
        if api in ("chat", "responses"):
            assert "mcp_approval_request" in answer.text
        else:  # these APIs cannot ask
            assert "needs the user's approval" in prompt(house)
    assert f"write policy-{api}" not in tools.ran


@pytest.mark.full
@pytest.mark.sampled(keep=2)
@every_api
async def test_servers_by_url_are_used_within_the_rules_of_the_file_and_by_the_grants_of_the_key(
    tools: ToolServer, tmp_path: Path, api: str
) -> None:
    port = int(tools.url.split(":")[2].split("/")[0])
    auth = AuthConfig(
        keys=(
            f"{KEYS['all']} tenant=acme",
            f"{KEYS['key']} tenant=acme tool={tools.url}",
            f"{KEYS['none']} tenant=acme tool=notes.*",
        )
    )
    egress = {"ports": [port], "private": ["127.0.0.1"]}
    on = {"request_servers": True}
    async with gateway(tmp_path / "a", [], mcp=on, auth=auth, egress=egress) as house:
        for key in ("all", "key"):
            says(house, ADD, DONE)
            answer = await ask(house, api, "notes", tools.url, key)
            assert answer.status_code == 200, answer.text
            assert "SUM-5" in prompt(house)
        assert (await ask(house, api, "notes", tools.url, "none")).status_code == 403
    async with gateway(tmp_path / "b", [], mcp=on) as house:
        refused = await ask(house, api, "notes", tools.url)
    assert refused.status_code == 400
    assert "127.0.0.1:" not in refused.text.replace(tools.url, "")


# ----------------------------------------------------------------------------------------------------------- the upstream


@asynccontextmanager
async def refusing(status: int) -> AsyncIterator[str]:
    """The URL of a server that answers everything with `status`."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            await send({"type": "http.response.start", "status": status, "headers": []})
            await send({"type": "http.response.body", "body": b"no"})

    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error", lifespan="off", timeout_graceful_shutdown=1))
    running = asyncio.create_task(server.serve())
    await eventually(lambda: server.started or running.done())
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/mcp"
    finally:
        server.should_exit = True
        await running


@pytest.mark.full
async def test_a_servers_refusal_reaches_the_caller_with_its_status(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        urls = {status: await stack.enter_async_context(refusing(status)) for status in (401, 403)}
        servers = [{"name": f"no{status}", "protocol": "streamable", "url": url} for status, url in urls.items()]
        house = await stack.enter_async_context(gateway(tmp_path, servers))
        for api in APIS:
            for status in urls:
                answer = await ask(house, api, f"no{status}")
                assert answer.status_code == status, (api, answer.text)
                assert f"no{status}" in answer.text


# ---------------------------------------------------------------------------------------------------------------- bounds


@pytest.fixture(scope="module")
async def bounded(tools: ToolServer, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[House]:
    async with gateway(tmp_path_factory.mktemp("mcp"), [at(tools)], mcp={"turns": 2}) as house:
        yield house


@pytest.mark.full
@pytest.mark.sampled(keep=4)
@every_api
async def test_a_bound_on_turns_ends_the_answer_with_the_words_of_the_api(bounded: House, api: str) -> None:
    says(bounded, ADD, ADD)
    answer = await ask(bounded, api)
    assert APIS[api].ended(answer.json()) == APIS[api].bound


# ---------------------------------------------------------------------------------------------------------------- others


async def test_the_tokens_of_messages_with_servers_are_counted_without_asking_them(bounded: House) -> None:
    body = {"model": "sim", "messages": [USER]}
    plain = await bounded.http.post("/v1/messages/count_tokens", json=body)
    with_servers = _connector("far", "https://tools.example/mcp")
    del with_servers["max_tokens"]
    counted = await bounded.http.post("/v1/messages/count_tokens", json=body | with_servers)
    assert counted.status_code == 200, counted.text
    assert counted.json() == plain.json()


@pytest.mark.full
async def test_a_clients_function_keeps_its_name_beside_a_tool_that_would_have_the_same(bounded: House) -> None:
    mine = {"type": "function", "name": "notes__add", "parameters": {"type": "object", "properties": {}}}
    says(bounded, Reply(tool_calls=(("notes__add", {}), ("notes__add_", {"a": 6, "b": 1}))))
    body = {"model": "sim", "input": "Go!", "tools": [_mcp("notes", ""), mine]}
    answer = (await bounded.http.post("/v1/responses", json=body)).json()
    found = [(item["type"], item["name"]) for item in answer["output"] if "name" in item]
    assert found == [("function_call", "notes__add"), ("mcp_call", "add")]
    assert answer["output"][-1]["output"] == "SUM-7"


@pytest.mark.full
async def test_of_two_gateways_with_one_history_one_alone_runs_an_approved_call(
    tools: ToolServer, tmp_path: Path
) -> None:
    history = HistoryConfig(url=f"sqlite:///{tmp_path}/history.db")
    asks = _mcp("notes", "") | {"require_approval": "always"}
    async with AsyncExitStack() as stack:
        first = await stack.enter_async_context(gateway(tmp_path, [at(tools)], history=history))
        second = await stack.enter_async_context(gateway(tmp_path, [at(tools)], history=history))
        says(first, calls(("write", {"note": "one-of-two"})))
        body = {"model": "sim", "input": "Go!", "tools": [asks]}
        made = (await first.http.post("/v1/responses", json=body)).json()
        says(first, DONE)
        says(second, DONE)
        given = {"type": "mcp_approval_response", "approval_request_id": made["output"][-1]["id"], "approve": True}
        again = body | {"input": [given], "previous_response_id": made["id"]}
        answers = await asyncio.gather(*(each.http.post("/v1/responses", json=again) for each in (first, second)))
    assert sorted(answer.status_code for answer in answers) == [200, 409]
    assert tools.ran.count("write one-of-two") == 1
