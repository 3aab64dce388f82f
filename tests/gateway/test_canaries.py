"""What clients send and what is secret is in no log, no metric and no audit log, on whatever route and however the request ends.

Every route of the public listener and of the admin door is walked, so a new one is too: with bodies that its API takes, where a
table has some, and with bodies that none takes; with a good key, a wrong one and none; before engines that fail. Each kind of
secret has a word of its own, which is then searched in everything that the gateway writes.
"""

import contextlib
import json
import logging
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import attrs
import httpx
import pytest
from tests.gateway.conftest import House, over_http
from tests.gateway.test_metrics import a_table, meter_of
from tests.shared import PATIENCE

from smg_core.admin.app import AdminApp
from smg_core.admin.settings import AdminConfig
from smg_core.auth.settings import AuthConfig
from smg_core.config.config import Config
from smg_core.history.settings import HistoryConfig
from smg_core.observability.logs import AccessLog, configure
from smg_core.observability.settings import AuditConfig, MetricsConfig, ObservabilityConfig
from smg_core.pipeline.settings import TimeoutsConfig
from smg_core.server.admin_listener import admin_listener, close_listener
from smg_core.server.admin_server import administered
from smg_simulator.answers.faults import Fault
from smg_simulator.engine.engine import SimulatorConfig

pytestmark = pytest.mark.anyio

PROMPT, ARGUMENT, FILE, HEADER = "canary-prompt-7f3a", "canary-argument-7f3a", "canary-file-7f3a", "canary-header-7f3a"
KEY, WRONG, ENGINE = "canary-key-7f3a-0123", "canary-wrong-key-7f3a", "canary-engine-7f3a"
OF_CLIENTS = (PROMPT, ARGUMENT, FILE, HEADER, KEY, WRONG, ENGINE)
SAID = f"CUDA out of memory, {ENGINE}"
TOOL = {
    "name": "f",
    "description": PROMPT,
    "parameters": {"type": "object", "properties": {ARGUMENT: {"type": "string"}}},
}
CHAT = {
    "model": "sim",
    "max_tokens": 3,
    "user": PROMPT,
    "messages": [{"role": "system", "content": PROMPT}, {"role": "user", "content": f"{PROMPT} {ARGUMENT}"}],
}
GOOD: dict[str, list[dict[str, Any]]] = {
    "/v1/chat/completions": [CHAT, CHAT | {"stream": True}, CHAT | {"tools": [{"type": "function", "function": TOOL}]}],
    "/v1/completions": [{"model": "sim", "prompt": PROMPT, "max_tokens": 3}],
    "/v1/messages": [
        {"model": "sim", "max_tokens": 3, "system": PROMPT, "messages": [{"role": "user", "content": PROMPT}], **more}
        for more in ({}, {"stream": True})
    ],
    "/v1/responses": [
        {
            "model": "sim",
            "input": PROMPT,
            "instructions": PROMPT,
            "max_output_tokens": 3,
            "metadata": {"k": FILE},
            **more,
        }
        for more in ({}, {"stream": True}, {"background": True})
    ],
    "/v1/interactions": [{"model": "sim", "input": PROMPT}],
    "/v1/conversations": [{"metadata": {"k": FILE}, "items": [{"role": "user", "content": PROMPT}]}],
    "/admin/keys": [{"tenant": FILE, "principal": PROMPT}],
}
GEMINI = {"contents": [{"parts": [{"text": PROMPT}]}], "generationConfig": {"maxOutputTokens": 3}}
WRONG_BODIES: tuple[bytes, ...] = (
    f'{{"model": "{PROMPT}", "messages": ["{ARGUMENT}"'.encode(),
    json.dumps({"model": "sim", "messages": PROMPT, "input": {FILE: ARGUMENT}, "prompt": [[PROMPT]]}).encode(),
    json.dumps(
        {"model": "sim", "messages": [{"role": "user", "content": {"x": PROMPT}}], "max_tokens": ARGUMENT}
    ).encode(),
    f"\xff{FILE}".encode("latin-1"),
)
FAULTS = (
    Fault("error", message=SAID),
    Fault("error", 1, message=SAID),
    Fault("cut", 1),
    Fault("garbage", 1),
    Fault("stall"),
    Fault("refuse", status="INVALID_ARGUMENT", message=SAID),
)


@attrs.define
class Sinks:
    """The answers to clients."""

    answers: list[httpx.Response] = attrs.field(factory=list)


@pytest.fixture
def logging_as_before() -> Iterator[None]:
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    yield
    root.handlers[:] = before
    root.setLevel(level)


def bodies_of(pattern: str) -> Iterator[bytes]:
    good = (
        [GEMINI] if "generateContent" in pattern.lower() or "GenerateContent" in pattern else GOOD.get(pattern, [CHAT])
    )
    yield from (json.dumps(each).encode() for each in good)
    yield from WRONG_BODIES


def walked(routes: Any) -> Iterator[tuple[str, str]]:
    """Method and path of each route that is asked by plain requests; what stands for values in the path is one that is there for
    models."""
    for route in routes:
        if route.method != "WEBSOCKET":
            path = route.pattern
            while "{" in path:
                head, _, rest = path.partition("{")
                name, _, tail = rest.partition("}")
                path = f"{head}{'sim' if 'model' in name else 'x'}{tail}"
            yield route.method, path


async def ask(http: httpx.AsyncClient, sinks: Sinks, method: str, path: str, **more: Any) -> None:
    """Ask with a good key, and keep the answer."""
    headers = {"authorization": f"Bearer {KEY}", "x-secret": HEADER, "cookie": HEADER, "x-smg-explain": "1"}
    with contextlib.suppress(httpx.TransportError):  # an answer that breaks off is one way in which requests end
        sinks.answers.append(await http.request(method, path, **{"headers": headers, **more}, timeout=PATIENCE))


async def walk(client: httpx.AsyncClient, routes: Any, sinks: Sinks) -> None:
    """Ask every route with every body, and with a wrong key and none."""
    for method, path in walked(routes):
        contents = list(bodies_of(path)) if method in ("POST", "PUT", "PATCH") else [b""]
        for content in contents:
            await ask(client, sinks, method, path, content=content, params={"token": HEADER})
        for headers in ({"authorization": f"Bearer {WRONG}"}, {}):
            await ask(client, sinks, method, path, content=contents[0], headers=headers)


async def fail(house: House, sinks: Sinks) -> None:
    """Ask engines that fail, in every way and by every API."""
    for path in ("/v1/chat/completions", "/v1/messages", "/v1/responses", "/v1/completions"):
        for fault in FAULTS:
            for body in GOOD[path]:
                if not body.get("background"):
                    house.engine.inject(fault)
                    await ask(house.http, sinks, "POST", path, json=body)
    form = {"purpose": "batch"}
    await ask(house.http, sinks, "POST", "/v1/files", data=form, files={"file": ("a", FILE.encode(), "text/plain")})


@pytest.mark.full
@pytest.mark.timeout(600)  # some hundred requests, and a debug log
@pytest.mark.usefixtures("logging_as_before")
@pytest.mark.parametrize("form", ["text", "json"])
async def test_no_secret_is_in_anything_that_the_gateway_writes(
    form: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    audit = tmp_path / "audit.log"
    config = Config(
        admin=AdminConfig(port=0),
        metrics=MetricsConfig(admin=True),
        audit=AuditConfig(file=str(audit), fsync="never"),
        auth=AuthConfig(keys=(f"{KEY} tenant=ops role=admin role=user",), virtual_keys=True),
        history=HistoryConfig(url="memory:"),
        observability=ObservabilityConfig(explain=True, log_level="debug", log_format=form, repeat_s=0),
        timeouts=TimeoutsConfig(token_s=0.3, first_token_s=0.3),
    )
    sinks, meter, listener = Sinks(), meter_of(config.metrics), admin_listener(config)
    assert listener is not None
    configure("debug", form)
    logging.getLogger("asyncio").setLevel(logging.INFO)
    for name in ("httpx", "httpcore"):  # the test's own client
        logging.getLogger(name).setLevel(logging.WARNING)
    try:
        async with AsyncExitStack() as stack:
            house = await stack.enter_async_context(over_http(SimulatorConfig(seed=1), config=config))
            await stack.enter_async_context(administered(house.gateway, config, listener, a_table(), meter))
            url = f"http://127.0.0.1:{listener.getsockname()[1]}"
            http = await stack.enter_async_context(httpx.AsyncClient(base_url=url, trust_env=False))
            admin = AdminApp(house.gateway, a_table(), meter)
            await walk(house.http, house.gateway.asgi().routes, sinks)
            await fail(house, sinks)
            await walk(http, admin.routes, sinks)
            for moment in house.observer.moments:
                for observer in (AccessLog(), meter.recorder):
                    observer.report(moment)
            metrics = (await meter.text("text/plain")).decode()
    finally:
        close_listener(config, listener)

    log = capsys.readouterr().err
    statuses = {answer.status_code for answer in sinks.answers}
    assert {200, 400, 401, 404} <= statuses
    assert log.count("smg.access") > len(sinks.answers) // 2  # what is searched has been written
    assert "CUDA out of memory" in log  # why engines failed, but for what they may repeat
    assert '"outcome"' in audit.read_text()
    assert 'model="sim"' in metrics
    for name, text in (("log", log), ("audit", audit.read_text()), ("metrics", metrics), ("repr", repr(config))):
        assert [word for word in OF_CLIENTS if word in text] == [], name
    for answer in sinks.answers:
        told = answer.text + str(answer.headers)
        assert [word for word in (KEY, WRONG, HEADER, ENGINE) if word in told] == [], answer.request.url
        assert PROMPT not in str(answer.headers)
