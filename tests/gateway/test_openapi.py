"""`/openapi.json`: valid, whole and true: each route is in it, its examples are answered well, real answers are of its types."""

import json
from collections.abc import AsyncIterator
from html.parser import HTMLParser
from typing import Any

import msgspec
import pytest
from jsonschema import Draft202012Validator
from openapi_spec_validator import OpenAPIV31SpecValidator
from tests.gateway.conftest import House, in_process

from smg_core import Gateway
from smg_core.apis.chat.types import ChatBody
from smg_core.app.app import App
from smg_core.config.config import Config
from smg_core.http.routes import WEBSOCKET
from smg_core.http.settings import ServerConfig
from smg_core.ledger.settings import LedgerConfig
from smg_core.pipeline.settings import McpConfig
from smg_core.workers.settings import WorkersConfig
from smg_simulator.engine.engine import SimulatorConfig

pytestmark = pytest.mark.anyio

ALL = Config(
    server=ServerConfig(parse_routes=True),
    ledger=LedgerConfig(enabled=True, url="memory:"),
    mcp=McpConfig(serve="sessions"),
)


@pytest.fixture(scope="module")
async def house() -> AsyncIterator[House]:
    async with in_process(config=ALL) as house:
        yield house


@pytest.fixture(scope="module")
async def document(house: House) -> dict[str, Any]:
    answer = await house.http.get("/openapi.json")
    assert answer.status_code == 200
    found: dict[str, Any] = answer.json()
    return found


def operations(document: dict[str, Any]) -> dict[str, tuple[str, str, dict[str, Any]]]:
    """Method, path and description of each operation, by its id."""
    found = {}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            found[operation["operationId"]] = (method.upper(), path, operation)
    return found


def fits(document: dict[str, Any], schema: dict[str, Any], value: Any) -> None:
    Draft202012Validator({**schema, "components": document["components"]}).validate(value)


@pytest.mark.full
async def test_the_document_is_openapi(document: dict[str, Any]) -> None:
    assert list(OpenAPIV31SpecValidator(document).iter_errors()) == []


def resolved(document: dict[str, Any], schema: Any) -> list[dict[str, Any]]:
    """A schema, or those that it may be one of."""
    if "$ref" in schema:
        return resolved(document, document["components"]["schemas"][schema["$ref"].rsplit("/", 1)[1]])
    choices = [each for name in ("anyOf", "oneOf", "allOf") for each in schema.get(name, ())]
    return [found for each in choices for found in resolved(document, each)] or [schema]


async def test_no_api_takes_a_model_with_a_name_of_any_length(house: House, document: dict[str, Any]) -> None:
    """A name goes into errors, logs and tables: where a body names a model, its length has a bound, and it is kept."""
    asked = set()
    for method, path, operation in operations(document).values():
        kinds = operation.get("requestBody", {}).get("content", {})
        for kind, content in kinds.items():
            for body in resolved(document, content["schema"]):
                named = body.get("properties", {}).get("model")
                if named is None:
                    continue
                texts = [each for each in resolved(document, named) if each.get("type") == "string"]
                assert all(each.get("maxLength", 1 << 30) <= 512 for each in texts), (path, named)
                asked.add(path)
                if kind == "application/json" and "{" not in path:
                    example = next(iter(content["examples"].values()))["value"] if "examples" in content else {}
                    answer = await house.http.request(method, path, json={**example, "model": "m" * 513})
                    assert answer.status_code == 400, (path, answer.text)
                    assert len(answer.text) < 1000, path
                    assert "m" * 100 not in answer.text, path

    assert {"/v1/chat/completions", "/v1/messages", "/v1/responses", "/v1/embeddings", "/rerank", "/generate"} <= asked


def test_every_route_is_described() -> None:
    for server in (ALL.server, ServerConfig(docs=False)):
        routes = App(Gateway(config=Config(server=server))).routes
        endpoints = [route for route in routes if route.method != WEBSOCKET]  # OpenAPI has no word for those
        assert [route.pattern for route in endpoints if route.target.about is None] == []
        names = [route.target.about.name for route in endpoints]
        assert len(set(names)) == len(names)


async def test_every_field_that_the_decoder_takes_is_in_the_document_and_no_other(document: dict[str, Any]) -> None:
    fields = {field.encode_name for field in msgspec.structs.fields(ChatBody)}

    assert set(document["components"]["schemas"]["ChatBody"]["properties"]) == fields


@pytest.mark.full
async def test_its_examples_fit_and_are_answered_by_what_it_says(house: House, document: dict[str, Any]) -> None:
    ran = 0
    async with in_process(SimulatorConfig(generation_model=False)) as embeds:
        ran += await ran_examples(document, embeds, {"embeddings"})
    classifier = SimulatorConfig(generation_model=False, pooled="classify")
    async with in_process(classifier, config=Config(workers=WorkersConfig(dialect="neutral"))) as classifies:
        ran += await ran_examples(document, classifies, {"classify"})
    others = {each["tags"][0] for _, _, each in operations(document).values()} - {"embeddings", "classify"}
    ran += await ran_examples(document, house, others)
    assert ran >= 12


PLACES = {"model": "sim", "publisher": "google", "project": "p", "location": "l"}
"""What stands for the names in the paths of examples."""


async def ran_examples(document: dict[str, Any], house: House, tags: set[str]) -> int:
    """Ask what the examples of these tags ask, and say how many they are."""
    ran = 0
    for method, path, operation in operations(document).values():
        if operation["tags"][0] not in tags:
            continue
        content = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
        for example in content.get("examples", {}).values():
            asked = json.loads(json.dumps(example["value"]).replace("MODEL", "sim"))
            fits(document, content["schema"], asked)
            answer = await house.http.request(method, path.format_map(PLACES), json=asked)
            assert answer.status_code == 200, (path, answer.text)
            answered_as_described(document, operation, answer)
            ran += 1
    return ran


def answered_as_described(document: dict[str, Any], operation: dict[str, Any], answer: Any) -> None:
    kind = answer.headers["content-type"].partition(";")[0]
    described = operation["responses"][str(answer.status_code)]["content"]
    schema = next(each for name, each in described.items() if name.partition(";")[0] == kind)["schema"]
    if kind == "text/event-stream":
        lines = answer.text.splitlines()
        events = [line.removeprefix("data: ") for line in lines if line.startswith("data: {")]
        assert events
        for event in events:
            fits(document, schema, json.loads(event))
    else:
        fits(document, schema, answer.json())


@pytest.mark.full
async def test_get_routes_answer_as_described(house: House, document: dict[str, Any]) -> None:
    for method, path, operation in operations(document).values():
        if (
            method == "GET" and "{id}" not in path and path not in ("/mcp", "/v1/containers")
        ):  # a stream of a session, which test_mcp_server.py has, and what is off
            answer = await house.http.get(path.format_map(PLACES))
            assert answer.status_code == 200, path
            if answer.headers["content-type"] == "application/json":
                answered_as_described(document, operation, answer)


@pytest.mark.parametrize("body", [{}, {"model": "sim", "messages": []}, {"model": "nobody", "messages": []}])
async def test_refusals_are_of_the_type_that_is_described(
    house: House, document: dict[str, Any], body: dict[str, Any]
) -> None:
    answer = await house.http.post("/v1/chat/completions", json=body)
    (_, _, operation) = operations(document)["createChatCompletion"]

    assert 400 <= answer.status_code < 500
    fits(document, operation["responses"]["default"]["content"]["application/json"]["schema"], answer.json())


async def test_the_page_needs_nothing_from_elsewhere_and_names_every_operation_and_type(
    house: House, document: dict[str, Any]
) -> None:
    answer = await house.http.get("/docs")
    links: list[str] = []

    class Links(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            assert tag not in {"script", "link", "img", "iframe"}
            links.extend(value or "" for name, value in attrs if name in {"href", "src"})

    Links().feed(answer.text)

    assert answer.headers["content-security-policy"].startswith("default-src 'none'")
    assert all(not link.startswith(("http:", "https:", "//")) for link in links)
    assert {link[1:] for link in links if link.startswith("#")} <= set(document["components"]["schemas"])
    assert all(path in answer.text for path in document["paths"])


async def test_a_setting_switches_both_off() -> None:
    async with in_process(config=Config(server=ServerConfig(docs=False))) as house:
        assert [(await house.http.get(path)).status_code for path in ("/docs", "/openapi.json")] == [404, 404]
