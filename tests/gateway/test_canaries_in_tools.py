"""No secret of a server of tools, or of a proxy to one, is in a log, a metric, a span or an answer: whatever the server does and
whether it is reached. Secrets are what the operator has written into the file of servers, what callers hand on, and what servers
and tools say.

Each server stands for one way in which a call ends: it works, repeats what it was sent, refuses, redirects, breaks the protocol,
breaks off, cannot be reached, or is reached by a proxy that works, refuses or is not there.
"""

import asyncio
import base64
import contextlib
import json
import logging
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.gateway.collector import Collector, collecting
from tests.gateway.conftest import House, over_http
from tests.gateway.test_canaries_in_faults import DONE, OWN_PEERS, around
from tests.gateway.test_metrics import meter_of
from tests.gateway.tool_server import ToolServer, tool_server
from tests.shared import PATIENCE

from smg_core.cli import main
from smg_core.config.config import Config
from smg_core.hooks import ToolCalled
from smg_core.observability.logs import AccessLog, configure
from smg_core.observability.settings import ObservabilityConfig, TracesConfig
from smg_core.pipeline.settings import McpConfig, TimeoutsConfig
from smg_simulator.answers.replies import Reply
from smg_simulator.engine.engine import SimulatorConfig

pytestmark = pytest.mark.anyio

PROMPT, ARGUMENT, OVERRIDE, SAID = (f"canary-{each}-51be" for each in ("prompt", "argument", "override", "said"))
TOKEN, HEADER, QUERY, USER, PASSWORD = (
    f"canary-{each}-51be" for each in ("token", "header", "query", "user", "password")
)
PROXY_USER, PROXY_PASSWORD, HANDED_ON = (
    f"canary-{each}-51be" for each in ("proxy-user", "proxy-password", "handed-on")
)
CLIENT_SECRET, ENVIRONMENT, WORD = (f"canary-{each}-51be" for each in ("client-secret", "environment", "word"))
BASIC = base64.b64encode(f"{PROXY_USER}:{PROXY_PASSWORD}".encode()).decode()
OF_OPERATOR = (TOKEN, HEADER, QUERY, PASSWORD, PROXY_PASSWORD, BASIC, CLIENT_SECRET, ENVIRONMENT, WORD)
"""What no client may see either."""
SECRETS = (*OF_OPERATOR, OVERRIDE, PROMPT, ARGUMENT, SAID, HANDED_ON)
TALKATIVE = """
import os, sys
sys.stderr.write(os.environ["SECRET"] + sys.argv[1] + "\\n")
sys.stderr.flush()
sys.stdin.readline()
"""

NOT_REACHED = (
    "refuses",
    "forbids",
    "hangs_up",
    "unreachable",
    "fails",
    "gabbles",
    "proxy_refuses",
    "proxy_is_gone",
    "proxy_hangs_up",
    "child",
)
"""Servers whose failure the operator's log tells of."""


def answer(status: str, body: str, *headers: str) -> bytes:
    head = [f"HTTP/1.1 {status}", f"content-length: {len(body.encode())}", "connection: close", *headers, "", body]
    return "\r\n".join(head).encode()


JSON = "content-type: application/json"
REPEATING = {
    "repeats": ("200 OK", JSON),
    "refuses": ("401 Unauthorized", JSON, f'www-authenticate: Bearer realm="{SAID}"'),
    "forbids": (f"403 {SAID}", JSON),
    "fails": (f"500 {SAID}", "content-type: text/html"),
    "redirects": ("307 Temporary Redirect", f"location: http://127.0.0.1:1/{SAID}?{SAID}"),
    "gabbles": ("200 OK", JSON),
}


async def _head(reader: asyncio.StreamReader) -> str:
    return (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")


@asynccontextmanager
async def bad_server(name: str) -> AsyncIterator[str]:
    """The address of a server that says back whatever it was sent, in its own way; "hangs_up" says nothing."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            head = await _head(reader)
            if name != "hangs_up":
                status, *headers = REPEATING[name]
                error = {"code": -32000, "message": f"{SAID} {head}", "data": SAID}
                body = json.dumps({"jsonrpc": "2.0", "id": 0, "error": error})
                writer.write(answer(status, body if name != "gabbles" else f"{{{SAID} {head}", *headers))
                await writer.drain()
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"


@asynccontextmanager
async def proxy(target: str | None, seen: list[str]) -> AsyncIterator[str]:
    """The address of a proxy to `target`; without one, it refuses and repeats what it was sent. `seen` gets the heads."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            head = await _head(reader)
            seen.append(head)
            if target is None:
                refusal = answer(f"407 {SAID}", f"{SAID} {head}", f"proxy-authenticate: Basic realm={SAID}")
                writer.write(refusal)
                await writer.drain()
            else:
                there, to = await asyncio.open_connection(*target.split(":"))
                to.write(head.encode("latin-1"))
                await asyncio.gather(piped(reader, to), piped(there, writer))
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def piped(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    writer.close()


def reached(name: str, address: str, **more: Any) -> dict[str, Any]:
    """A server of the file, with a secret in everything that can have one."""
    return {
        "name": name,
        "protocol": "streamable",
        "url": f"http://{address}/mcp?key={QUERY}",
        "token": TOKEN,
        "headers": {"x-key": HEADER},
        "forward_headers": ["x-handed-on"],
        "tools": {"add": {"arg_mapping": {"overrides": {"b": OVERRIDE}}}},
        **more,
    }


def by_proxy(address: str, **more: str) -> dict[str, Any]:
    return {"proxy": {"http": f"http://{address}", "https": f"http://{address}", **more}}


@asynccontextmanager
async def servers(tools: ToolServer, seen: list[str]) -> AsyncIterator[list[dict[str, Any]]]:
    """All servers of the file, while they run."""
    good, login = tools.url.split("/")[2], {"username": PROXY_USER, "password": PROXY_PASSWORD}
    async with contextlib.AsyncExitStack() as stack:
        bad = {name: await stack.enter_async_context(bad_server(name)) for name in (*REPEATING, "hangs_up")}
        works, refuses = [await stack.enter_async_context(proxy(target, seen)) for target in (good, None)]
        inside = f"{PROXY_USER}:{PROXY_PASSWORD}@"
        oauth = {"grant": "client_credentials", "client_id": "me", "client_secret": CLIENT_SECRET}
        yield [
            reached("works", good),
            *[reached(name, address) for name, address in bad.items()],
            reached("unreachable", "127.0.0.1:1"),
            *[reached(f"{protocol}_refuses", bad["refuses"], protocol=protocol) for protocol in ("sse", "http")],
            reached("proxied", good, **by_proxy(works, **login)),
            reached("proxied_inside", good, **by_proxy(inside + works)),
            reached("proxy_refuses", good, **by_proxy(refuses, **login)),
            reached("proxy_refuses_tls", "localhost:1", **by_proxy(refuses, **login))
            | {"url": f"https://localhost:1/mcp?key={QUERY}"},
            reached("proxy_is_gone", good, **by_proxy(f"{inside}127.0.0.1:1")),
            reached("proxy_hangs_up", good, **by_proxy(bad["hangs_up"], **login)),
            reached("no_token", bad["refuses"], token=None, oauth={**oauth, "issuer": f"http://{bad['repeats']}"}),
            {
                "name": "child",
                "protocol": "stdio",
                "command": sys.executable,
                "args": ["-c", TALKATIVE, WORD],
                "envs": {"SECRET": ENVIRONMENT},
            },
        ]


@pytest.fixture
def logging_as_before() -> Iterator[None]:
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    levels = {name: logging.getLogger(name).level for name in OWN_PEERS}
    yield
    root.handlers[:] = before
    root.setLevel(level)
    for name, each in levels.items():
        logging.getLogger(name).setLevel(each)


@asynccontextmanager
async def watched(file: Path, listed: list[dict[str, Any]], collector: Collector) -> AsyncIterator[House]:
    """A gateway with these servers of tools and everything on that says something."""
    pool = {"connect_timeout": 5, "connect_tries": 1}
    file.write_text(json.dumps({"servers": listed, "egress": {"schemes": ["http", "https"]}, "pool": pool}))
    config = Config(
        mcp=McpConfig(config=str(file), chat=True),
        observability=ObservabilityConfig(explain=True, log_level="debug", repeat_s=0),
        traces=TracesConfig(endpoint=collector.url, delay_s=0.02),
        timeouts=TimeoutsConfig(token_s=5.0, first_token_s=5.0),
    )
    configure("debug", "json")
    for name in (*OWN_PEERS, "mcp.server"):
        if name != "mcp":  # the client's log is the gateway's own
            logging.getLogger(name).setLevel(logging.WARNING)
    async with over_http(SimulatorConfig(seed=1), config=config) as house:
        yield house


async def use(house: House, name: str) -> list[str]:
    """Have a model use the tools of one server, in whole answers and streams; what clients see of it."""
    told = []
    server = {"type": "mcp", "server_label": name, "require_approval": "never"}
    made = [("add", {"a": 2}), ("fail", {"why": ARGUMENT}), ("write", {"note": ARGUMENT}), (ARGUMENT, {})]
    said = Reply("", tool_calls=tuple((f"{name}__{tool}", arguments) for tool, arguments in made))
    for stream in (False, True):
        house.engine.say(said, DONE)
        fields = {"model": "sim", "input": PROMPT, "tools": [server], "stream": stream}
        answered = await house.http.post(
            "/v1/responses", json=fields, headers={"x-handed-on": HANDED_ON}, timeout=PATIENCE
        )
        told.append(answered.text + str(answered.headers))
        while house.engine.engine.script.next() is not None:  # a model whose tools cannot be listed is not asked
            pass
    return told


@pytest.mark.full
@pytest.mark.timeout(300)
@pytest.mark.usefixtures("logging_as_before")
async def test_no_secret_of_a_server_of_tools_or_of_a_proxy_is_in_a_sink_or_an_answer(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    meter, seen, answers = meter_of(), list[str](), dict[str, list[str]]()
    with collecting() as collector:
        async with (
            tool_server() as tools,
            servers(tools, seen) as listed,
            watched(tmp_path / "mcp.json", listed, collector) as house,
        ):
            for each in listed:
                answers[each["name"]] = await use(house, each["name"])
            for moment in house.observer.moments:
                for observer in (AccessLog(), meter.recorder):
                    observer.report(moment)
            metrics = (await meter.text("text/plain")).decode()
            ran = house.observer.of(ToolCalled)
        sent = b"".join(collector.bytes).decode("utf-8", "replace")
    log = capfd.readouterr().err

    assert {each.server for each in ran if each.outcome == "ok"} == {"works", "proxied", "proxied_inside"}
    assert sum(BASIC in head for head in seen) > 2  # the proxies were told
    assert {TOKEN, HEADER, HANDED_ON} <= {word for head in tools.headers for word in " ".join(head.values()).split()}
    for word in ("smg.access", "bytes to stderr", "tool proxied.fail", *(f"{each}: " for each in NOT_REACHED)):
        assert word in log, word  # what is searched has been written
    for name, text in (("log", log), ("metrics", metrics), ("spans", sent)):
        assert [(word, around(text, word)) for word in SECRETS if word in text] == [], name
    for name, told in answers.items():
        assert [(word, around(each, word)) for each in told for word in OF_OPERATOR if word in each] == [], name


@pytest.mark.sampled(keep=5)
@pytest.mark.parametrize(
    "changes",
    [
        {"url": f"ftp://{USER}:{PASSWORD}@host/mcp?key={QUERY}"},
        {"url": f"http://{USER}:{PASSWORD}@host:nine/mcp?key={QUERY}"},
        {"headers": {"x": [TOKEN]}},
        {"token": {"x": TOKEN}},
        {"proxy": {"http": f"ftp://{PROXY_USER}:{PROXY_PASSWORD}@host"}},
        {"proxy": {"http": f"http://{PROXY_USER}:{PROXY_PASSWORD}@host:nine"}},
        {"url": f"http://{USER}:{PASSWORD}@host/mcp?key={QUERY}"},
        {"oauth": {"grant": "none", "client_secret": CLIENT_SECRET}},
        {"oauth": {"grant": "client_credentials", "client_secret": CLIENT_SECRET}},
        {"command": WORD, "protocol": "stdio", "args": [WORD]},
    ],
)
def test_a_file_of_servers_that_is_wrong_is_refused_and_its_secrets_are_not_repeated(
    changes: dict[str, Any], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "mcp.json"
    file.write_text(json.dumps({"servers": [reached("one", "127.0.0.1:1", required=True) | changes]}))
    ended = main(["mcp", "ls", "--config", str(file)])
    told = "".join(capfd.readouterr())

    assert ended != 0
    assert "mcp" in told
    assert [word for word in OF_OPERATOR if word in told] == []
