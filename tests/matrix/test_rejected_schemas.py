"""A schema that does not bind, and that the engine rejects: the request is asked once more without it, on every engine."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from tests.gateway.conftest import over_http
from tests.gateway.test_unbound_schemas import CHAT, RESPONSE, SCHEMAS, bound, chat_tool, flat_tool, unbound
from tests.matrix.conftest import ENGINES, Served

from smg_core import Gateway
from smg_simulator.engine.engine import SimulatorConfig

pytestmark = pytest.mark.anyio

ENDLESS: dict[str, Any] = {"$ref": "#"}
"""A schema that is legal and compiled here, and that no engine follows."""


@asynccontextmanager
async def _fussy_chat_server(simulator: SimulatorConfig) -> AsyncIterator[Served]:
    """A chat server that compiles each schema that it is sent: what it cannot follow is a 400."""

    def fussy(app: Any) -> Any:
        async def answer(scope: Any, receive: Any, send: Any) -> None:
            if scope["type"] != "http" or scope["method"] != "POST":
                await app(scope, receive, send)
                return
            messages: list[Any] = []
            text = b""
            while not messages or messages[-1].get("more_body"):
                messages.append(await receive())
                text += messages[-1].get("body", b"")
            asked = json.loads(text)
            schemas = [each["function"].get("parameters") for each in asked.get("tools", ())]
            schemas.append(asked.get("response_format", {}).get("json_schema", {}).get("schema"))
            if ENDLESS not in schemas:
                waiting = iter(messages)

                async def again() -> Any:
                    return next(waiting, None) or await receive()

                await app(scope, again, send)
                return
            body = b'{"error":{"message":"The schema does not compile.","type":"invalid_request_error"}}'
            headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
            await send({"type": "http.response.start", "status": 400, "headers": headers})
            await send({"type": "http.response.body", "body": body})

        return answer

    async with over_http(simulator, wrap=fussy) as far, Gateway([far.url]) as gateway:
        yield gateway, far.engine


@pytest.mark.parametrize("engine", ENGINES)
async def test_a_request_goes_on_without_what_its_engine_rejects_and_does_not_bind(engine: str) -> None:
    make = _fussy_chat_server if engine == "chat server" else ENGINES[engine]
    async with (
        make(SimulatorConfig(seed=1)) as (gateway, _),
        gateway.http_client(httpx, base_url="http://gateway") as http,
    ):
        # A chat server reads the schema of a call that need not be made, too: it is a part of the prompt there.
        may = " may" if engine == "chat server" else "-"
        plain = unbound({"type": "object"})
        for what, (path, asked) in unbound(ENDLESS).items():
            usual = await http.post(path, json=plain[what][1])
            if may in what or usual.status_code == 400:
                continue  # an engine of which that cannot be asked, whatever the schema
            answer = await http.post(path, json=asked)
            assert answer.status_code == 200, (what, answer.text)
            if path != "/v1beta/models/sim:generateContent":
                streamed = await http.post(path, json={**asked, "stream": True})
                assert streamed.status_code == 200, (what, streamed.text)
                assert '"error":{' not in streamed.text, (what, streamed.text)
        for what, (path, asked, _) in bound(ENDLESS).items():
            answer = await http.post(path, json=asked)
            assert answer.status_code == 400, (what, answer.text)


async def test_a_response_says_that_a_function_is_not_held_to_the_schema_that_its_engine_rejected() -> None:
    async with (
        ENGINES["vLLM"](SimulatorConfig(seed=1)) as (gateway, engine),
        gateway.http_client(httpx, base_url="http://gateway") as http,
    ):
        answer = await http.post("/v1/responses", json={**RESPONSE, **flat_tool(ENDLESS), "tool_choice": "required"})
        assert [each["strict"] for each in answer.json()["tools"]] == [False], answer.text
        assert [each["type"] for each in answer.json()["output"]] == ["function_call"]
        asked = engine.requests
        assert len(asked) == 2, "it is asked once more, and only once"


async def test_a_strict_function_is_held_to_its_schema_beside_a_format_that_is_not() -> None:
    wanted = {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMAS["look-ahead"]}}
    schema = {"type": "object", "properties": {"a": {"type": "string"}}}
    async with (
        ENGINES["vLLM"](SimulatorConfig(seed=1)) as (gateway, engine),
        gateway.http_client(httpx, base_url="http://gateway") as http,
    ):
        asked = {**CHAT, **chat_tool(schema, strict=True), "response_format": wanted}
        answer = await http.post("/v1/chat/completions", json=asked)
        assert answer.status_code == 200, answer.text
        held = engine.requests[-1].constraint
        assert held is not None
        assert '"properties"' in held.value
