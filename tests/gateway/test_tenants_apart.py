"""No tenant reaches what is another's: every id of every route, every list, and everything sealed, is tried by a stranger.

The table of routes is walked: a route whose path has an id is tried with the ids of another tenant, and a route without one is
tried with the bodies of `BODIES`, or is named in `WITHOUT_IDS`; a new route fails until it is in one of them. What a stranger
gets must be to the letter what an id gets that nobody has.
"""

import asyncio
import base64
import json
import re
from collections.abc import AsyncIterator, Mapping
from typing import Any

import attrs
import httpx
import pytest
from tests.engine_kinds import DIALECTS
from tests.gateway.conftest import CHAT, House, over_http
from tests.gateway.fleet import Member, fleet
from tests.shared import PATIENCE
from websockets.asyncio.client import connect

from smg_core import Config
from smg_core.app.app import App
from smg_core.auth.base import Head
from smg_core.hooks import ExchangeEnded
from smg_core.http.routes import WEBSOCKET
from smg_core.http.settings import BatchesConfig, ResponsesConfig
from smg_core.observability.logs import AccessLog
from smg_core.request import Caller
from smg_core.sealing.settings import SealingConfig
from smg_simulator.answers.replies import Reply, Rule
from smg_simulator.engine.engine import SimulatorConfig

pytestmark = pytest.mark.anyio

SECRET = "The treasure lies under the third lighthouse."
SIMULATOR = SimulatorConfig(
    rules=(
        Rule(("write a summary of this conversation",), Reply(SECRET)),
        Rule((), Reply("Yes.", reasoning=SECRET)),
    )
)
CONFIG = Config(
    batches=BatchesConfig(poll_s=0.02, lease_s=60.0, gather_s=0.005, retry_s=0.02, absence_s=0.1),
    responses=ResponsesConfig(poll_s=0.02, lease_s=60.0, batch_s=0.01),
    sealing=SealingConfig(keys=("a secret of this test, long enough",), on_broken="refuse"),
)
OWNER, STRANGER = "acme", "umbrella"


async def by_name(head: Head) -> Caller | None:
    """The tenant is the credential."""
    return None if head.credential is None else Caller(head.credential.text)


@attrs.define
class Found:
    """An answer, without what differs in any two answers of one request."""

    status: int
    text: str

    @classmethod
    def of(cls, answer: httpx.Response, *ids: str) -> "Found":
        text = re.sub(r'"request_id": ?"[^"]*"', '"request_id":""', answer.text)
        for each in ids:
            text = text.replace(each, "ID")
        return cls(answer.status_code, text)


@attrs.define
class World:
    """A gateway, and what its two tenants have: ids by kind, sealed texts by kind."""

    house: House
    ids: dict[str, dict[str, str]] = attrs.field(factory=dict)
    sealed: dict[str, str] = attrs.field(factory=dict)

    async def ask(self, tenant: str, method: str, path: str, body: object = None, **query: str) -> httpx.Response:
        headers = {"authorization": f"Bearer {tenant}"}
        if path.startswith("/v1/messages"):
            headers["anthropic-version"] = "2023-06-01"
        content = None if body is None else json.dumps(body).encode()
        return await self.house.http.request(method, path, content=content, params=query, headers=headers)

    async def make(self, tenant: str, path: str, **body: object) -> Any:
        answer = await self.ask(tenant, "POST", path, {"model": "sim", **body})
        assert answer.status_code == 200, answer.text
        return answer.json()

    @property
    def routes(self) -> list[tuple[str, str]]:
        app = App(self.house.gateway)
        # containers are off here; tests/gateway/test_containers.py tries whose they are
        return [(route.method, route.pattern) for route in app.routes if not route.pattern.startswith("/v1/containers")]


async def furnished(world: World, tenant: str) -> None:
    """Have a tenant make one object of every kind."""
    ids = world.ids[tenant] = {}
    response = await world.make(tenant, "/v1/responses", input=SECRET)
    ids["response"] = response["id"]
    ids["background"] = (await world.make(tenant, "/v1/responses", input=SECRET, background=True, stream=False))["id"]
    said = {"type": "message", "role": "user", "content": SECRET}
    ids["conversation"] = (await world.make(tenant, "/v1/conversations", items=[said], model=None))["id"]
    items = (await world.ask(tenant, "GET", f"/v1/conversations/{ids['conversation']}/items")).json()
    ids["item"] = items["data"][0]["id"]
    ids["interaction"] = (await world.make(tenant, "/v1/interactions", input=SECRET))["id"]
    line = {"custom_id": "a", "method": "POST", "url": "/v1/chat/completions", "body": asked(SECRET)}
    headers = {"authorization": f"Bearer {tenant}"}
    async with httpx.AsyncClient(base_url=world.house.url, trust_env=False, headers=headers) as http:
        files = {"file": ("in.jsonl", json.dumps(line).encode() + b"\n")}
        ids["file"] = (await http.post("/v1/files", files=files, data={"purpose": "batch"})).json()["id"]
    ids["gemini file"] = ids["file"].removeprefix("file-")
    announced = {"bytes": 3, "filename": "a.txt", "mime_type": "text/plain", "purpose": "user_data"}
    ids["upload"] = (await world.ask(tenant, "POST", "/v1/uploads", announced)).json()["id"]
    batch = {"input_file_id": ids["file"], "endpoint": "/v1/chat/completions", "completion_window": "24h"}
    ids["batch"] = (await world.ask(tenant, "POST", "/v1/batches", batch)).json()["id"]
    requests = [{"custom_id": "a", "params": {**asked(SECRET), "max_tokens": 8}}]
    made = await world.ask(tenant, "POST", "/v1/messages/batches", {"requests": requests})
    ids["message batch"] = made.json()["id"]
    ids["vector store"] = (await world.ask(tenant, "POST", "/v1/vector_stores", {})).json()["id"]
    added = f"/v1/vector_stores/{ids['vector store']}/file_batches"
    ids["file batch"] = (await world.ask(tenant, "POST", added, {"file_ids": [ids["file"]]})).json()["id"]


def asked(text: str) -> dict[str, Any]:
    return {"model": "sim", "messages": [{"role": "user", "content": text}]}


async def settled(world: World, tenant: str) -> None:
    """Wait until nothing of a tenant is under way, so that looking twice finds the same."""
    ids = world.ids[tenant]
    ends = {
        f"/v1/responses/{ids['background']}": ("status", ("completed",)),
        f"/v1/batches/{ids['batch']}": ("status", ("completed",)),
        f"/v1/messages/batches/{ids['message batch']}": ("processing_status", ("ended",)),
        f"/v1/vector_stores/{ids['vector store']}": ("status", ("completed",)),
    }
    for path, (field, values) in ends.items():
        async with asyncio.timeout(PATIENCE):
            while (await world.ask(tenant, "GET", path)).json()[field] not in values:
                await asyncio.sleep(0.02)


@pytest.fixture(scope="module")
async def world() -> AsyncIterator[World]:
    async with over_http(SIMULATOR, config=CONFIG, identity=by_name) as house:
        made = World(house)
        for tenant in (OWNER, STRANGER):
            await furnished(made, tenant)
        for tenant in (OWNER, STRANGER):
            await settled(made, tenant)
        yield made


# ---------------------------------------------------------------------------------------------------------------- paths

COLLECTIONS = {
    "/responses": ("response", "background"),
    "/conversations": ("conversation",),
    "/interactions": ("interaction",),
    "/v1beta/files": ("gemini file",),
    "/v1alpha/files": ("gemini file",),
    "/files": ("file",),
    "/uploads": ("upload",),
    "/messages/batches": ("message batch",),
    "/v1/batches": ("batch",),
    "/vector_stores": ("vector store",),
}
"""By the end of what stands before `{id}`: the kinds of objects that are there."""

SENT: Mapping[str, object] = {
    "/v1/conversations/{id}": {"metadata": {"a": "b"}},
    "/v1/conversations/{id}/items": {"items": [{"type": "message", "role": "user", "content": "Hi"}]},
    "/v1/uploads/{id}/complete": {"part_ids": []},
    "/v1/vector_stores/{id}/search": {"query": SECRET},
    "/v1/vector_stores/{id}/files/{file_id}": {"attributes": {}},
}
"""The bodies of POST that need more than {}."""


def kinds_of(pattern: str) -> tuple[str, ...]:
    before = pattern.partition("/{id}")[0]
    return next(kinds for end, kinds in COLLECTIONS.items() if before.endswith(end))


def nobodys(id: str) -> str:
    """An id of the same form that nobody has."""
    return id[:-4] + ("0000" if id[-4:] != "0000" else "1111")


def has_id(pattern: str) -> bool:
    return "{id}" in pattern


@pytest.mark.full
async def test_an_id_of_another_tenant_is_answered_as_one_that_nobody_has(world: World) -> None:
    theirs, own = world.ids[OWNER], world.ids[STRANGER]
    before = {path: Found.of(await world.ask(OWNER, "GET", path)) for path in pages(world)}
    tried = 0
    for method, pattern in world.routes:
        if not has_id(pattern):
            continue
        for kind in kinds_of(pattern):
            within = {"item_id": theirs["item"], "file_id": theirs["file"], "batch_id": theirs["file batch"]}
            pairs = [{"id": theirs[kind], **within}]
            if any(f"{{{name}}}" in pattern for name in within):
                pairs.append({"id": own[kind], **within})
            for values in pairs:
                given, unknown = (
                    values,
                    {name: value if value == own[kind] else nobodys(value) for name, value in values.items()},
                )
                found = [await tell(world, method, pattern, each) for each in (given, unknown)]
                assert found[0] == found[1], (method, pattern)
                assert found[0].status == 404, (method, pattern, found[0])
                assert SECRET not in found[0].text
                tried += 1
    after = {path: Found.of(await world.ask(OWNER, "GET", path)) for path in pages(world)}

    assert tried > 25
    assert after == before
    assert all(each.status == 200 for each in before.values()), before


async def tell(world: World, method: str, pattern: str, values: Mapping[str, str]) -> Found:
    path = pattern
    for name, value in values.items():
        path = path.replace(f"{{{name}}}", value)
    body = SENT.get(pattern, {}) if method == "POST" else None
    return Found.of(await world.ask(STRANGER, method, path, body), *values.values())


def pages(world: World) -> list[str]:
    """What the owner sees of each of its objects."""
    ids = world.ids[OWNER]
    conversation = f"/v1/conversations/{ids['conversation']}"
    return [
        f"/v1/responses/{ids['response']}",
        f"/v1/responses/{ids['response']}/input_items",
        f"/v1/responses/{ids['background']}",
        conversation,
        f"{conversation}/items",
        f"{conversation}/items/{ids['item']}",
        f"/v1/interactions/{ids['interaction']}",
        f"/v1/files/{ids['file']}",
        f"/v1/files/{ids['file']}/content",
        f"/v1beta/files/{ids['gemini file']}",
        f"/v1beta/files/{ids['gemini file']}:download",
        f"/v1/batches/{ids['batch']}",
        f"/v1/messages/batches/{ids['message batch']}",
        f"/v1/messages/batches/{ids['message batch']}/results",
        f"/v1/vector_stores/{ids['vector store']}",
        f"/v1/vector_stores/{ids['vector store']}/files",
        f"/v1/vector_stores/{ids['vector store']}/files/{ids['file']}/content",
        f"/v1/vector_stores/{ids['vector store']}/file_batches/{ids['file batch']}",
    ]


async def test_the_events_of_a_response_in_the_background_are_followed_by_its_tenant_alone(world: World) -> None:
    id = world.ids[OWNER]["background"]
    for query in ({"stream": "true"}, {"stream": "true", "starting_after": "0"}):
        found = [
            Found.of(await world.ask(STRANGER, "GET", f"/v1/responses/{each}", **query), each)
            for each in (id, nobodys(id))
        ]
        assert found[0] == found[1]
        assert found[0].status in (400, 404)


# ------------------------------------------------------------------------------------------------------ bodies and queries

VERSIONS = ("v1", "v1beta", "v1alpha")
SAY = {"model": "sim", "input": "Hi"}
BODIES: dict[tuple[str, str], list[tuple[str, Mapping[str, Any]]]] = {
    ("POST", "/v1/responses"): [
        ("response", {**SAY, "previous_response_id": "ID"}),
        ("background", {**SAY, "previous_response_id": "ID"}),
        ("conversation", {**SAY, "conversation": "ID"}),
        ("conversation", {**SAY, "conversation": {"id": "ID"}}),
    ],
    ("POST", "/v1/responses/compact"): [("response", {**SAY, "previous_response_id": "ID"})],
    ("POST", "/v1/responses/input_tokens"): [
        ("response", {**SAY, "previous_response_id": "ID"}),
        ("conversation", {**SAY, "conversation": "ID"}),
    ],
    **{
        ("POST", f"/{version}/interactions"): [("interaction", {**SAY, "previous_interaction_id": "ID"})]
        for version in VERSIONS
    },
    ("POST", "/v1/batches"): [
        ("file", {"input_file_id": "ID", "endpoint": "/v1/chat/completions", "completion_window": "24h"})
    ],
    ("POST", "/v1/vector_stores"): [("file", {"file_ids": ["ID"]})],
}
"""The routes whose bodies name what is kept: kind, and the body with its id."""

QUERIES: dict[tuple[str, str], list[tuple[str, Mapping[str, str]]]] = {
    ("GET", "/v1/files"): [("file", {"after": "ID"})],
    ("GET", "/v1/batches"): [("batch", {"after": "ID"})],
    ("GET", "/v1/vector_stores"): [("vector store", {"after": "ID"}), ("vector store", {"before": "ID"})],
    ("GET", "/v1/messages/batches"): [("message batch", {"after_id": "ID"}), ("message batch", {"before_id": "ID"})],
}
"""The lists: each shows the tenant's own, and takes the place behind an object by its id."""

SEALED = {"POST /v1/messages", "POST /v1/messages/count_tokens"}
PUBLISHED = "publishers/{publisher}/models/{model:path}"
MODELS = [f"/{version}/models/{{model:path}}" for version in VERSIONS]
MODELS += [
    f"/{version}/{within}{PUBLISHED}"
    for version in ("v1", "v1beta1")
    for within in ("", "projects/{project}/locations/{location}/")
]
MODELS += [
    f"/{version}/projects/{{project}}/locations/{{location}}/{own}/{{model:path}}"
    for version in ("v1", "v1beta1")
    for own in ("models", "endpoints")
]
MODELS.append("/v1beta1/models/{model:path}")
SEALED |= {
    f"POST {model}:{verb}" for model in MODELS for verb in ("generateContent", "streamGenerateContent", "countTokens")
}
"""The routes whose bodies name nothing that is kept, but may carry what was sealed: `test_sealed...` tries those."""

WITHOUT_IDS = {
    *("POST /tokenize", "POST /v1/tokenize", "POST /detokenize", "POST /v1/detokenize"),
    *("POST /v1/chat/completions", "POST /v1/completions", "POST /generate", "PUT /generate"),
    *(
        f"POST {path}"
        for path in (
            "/v1/embeddings",
            "/v1/embed",
            "/v2/embed",
            "/rerank",
            "/v1/rerank",
            "/v2/rerank",
            "/score",
            "/v1/score",
            "/classify",
            "/v1/classify",
            "/v1/moderations",
            "/v1/audio/transcriptions",
            "/v1/audio/translations",
            "/v1/audio/speech",
            "/v1/images/generations",
            "/v1/images/edits",
        )
    ),
    *(
        f"POST /{version}/models/{{model:path}}:{verb}"
        for version in VERSIONS
        for verb in ("embedContent", "batchEmbedContents")
    ),
    *("POST /parse/function_call", "POST /parse/reasoning"),
    *("POST /v1/conversations", "POST /v1/files", "POST /v1/messages/batches", "POST /v1/uploads"),  # a new object
    # whose files they are that Google's paths show and go on with, tests/gateway/test_files.py tries
    *(f"POST /upload/{version}/files" for version in VERSIONS),
    *("GET /v1beta/files", "GET /v1alpha/files"),
    *("GET /", "GET /v1/models", "GET /v1beta/models", "GET /v1alpha/models", "GET /openapi.json", "GET /docs"),
    *("GET /v1/models/{model:path}", "GET /v1beta/models/{model:path}", "GET /v1alpha/models/{model:path}"),
    *(
        f"GET /{version}/{place}models{one}"
        for version in ("v1", "v1beta1")
        for within in ("", "projects/{project}/locations/{location}/")
        for place in (f"{within}publishers/{{publisher}}/", within)
        for one in ("", "/{model:path}")
    ),
    # a session keeps nothing when it is over; whose a secret is, test_realtime_secrets.py tries, and whose a call is,
    # test_realtime_calls.py
    *(f"{WEBSOCKET} /v1/realtime", f"{WEBSOCKET} /v1/realtime/translations", "POST /v1/realtime/client_secrets"),
    *(
        f"POST /v1/realtime/{kind}"
        for kind in ("sessions", "transcription_sessions", "translations/client_secrets", "calls")
    ),
    *(f"POST /v1/realtime/calls/{{call_id}}/{verb}" for verb in ("hangup", "accept", "reject", "refer")),
    # whose a session is, and whose tools, tests/gateway/test_mcp_server.py tries
    *(f"{method} /mcp" for method in ("POST", "GET", "DELETE")),
    *(f"GET /.well-known/oauth-protected-resource{path}" for path in ("", "/mcp")),
    "GET /v1/usage",  # names nothing; whose accounts it shows is what tests/gateway/test_usage.py tries
    *("GET /health", "GET /readiness", "GET /liveness"),
}
"""The routes that know nothing of what a tenant has."""


async def test_every_route_is_tried_or_knows_nothing_of_tenants(world: World) -> None:
    tried = {f"{method} {pattern}" for method, pattern in (*BODIES, *QUERIES)} | SEALED | {f"{WEBSOCKET} /v1/responses"}
    routes = {f"{method} {pattern}" for method, pattern in world.routes if not has_id(pattern)}

    assert routes - tried - WITHOUT_IDS == set()
    assert tried & WITHOUT_IDS == set()


async def test_a_body_that_names_an_object_of_another_tenant_is_answered_as_if_nobody_had_it(world: World) -> None:
    for (method, path), rows in BODIES.items():
        for kind, body in rows:
            id = world.ids[OWNER][kind]
            tried = id, nobodys(id)
            given, unknown = [
                Found.of(await world.ask(STRANGER, method, path, with_id(body, each)), each) for each in tried
            ]
            assert given == unknown, (path, kind)
            assert given.status in (400, 404), (path, kind, given)
            assert SECRET not in given.text
            own = await world.ask(STRANGER, method, path, with_id(body, world.ids[STRANGER][kind]))
            assert own.status_code == 200, (path, kind, own.text)


def with_id(body: Mapping[str, Any], id: str) -> Any:
    return json.loads(json.dumps(body).replace('"ID"', json.dumps(id)))


async def test_an_item_of_another_tenant_cannot_be_referred_to(world: World) -> None:
    response = await world.make(OWNER, "/v1/responses", input=SECRET)
    item = response["output"][-1]["id"]
    found = [
        Found.of(
            await world.ask(
                STRANGER, "POST", "/v1/responses", {**SAY, "input": [{"type": "item_reference", "id": each}]}
            ),
            each,
        )
        for each in (item, nobodys(item))
    ]

    assert found[0] == found[1]
    assert found[0].status == 400 or found[0].status == 404


async def test_a_list_shows_a_tenants_own_and_no_place_behind_anothers(world: World) -> None:
    for (method, path), rows in QUERIES.items():
        listed = await world.ask(STRANGER, method, path)
        ids = {each["id"] for each in listed.json()["data"]}
        for kind, query in rows:
            theirs = world.ids[OWNER][kind]
            assert theirs not in listed.text
            assert world.ids[STRANGER][kind] in ids
            tried = theirs, nobodys(theirs)
            given, unknown = [
                Found.of(await world.ask(STRANGER, method, path, **dict.fromkeys(query, each)), each) for each in tried
            ]
            assert given == unknown, path


async def test_a_connection_of_one_tenant_goes_on_from_no_response_of_another(world: World) -> None:
    url = world.house.url.replace("http", "ws", 1) + "/v1/responses"
    told = []
    async with connect(url, proxy=None, additional_headers={"authorization": f"Bearer {STRANGER}"}) as socket:
        for each in (world.ids[OWNER]["response"], nobodys(world.ids[OWNER]["response"])):
            await socket.send(json.dumps({"type": "response.create", **SAY, "previous_response_id": each}))
            told.append(json.loads(await socket.recv()))
            told[-1].pop("sequence_number", None)
            told[-1] = json.dumps(told[-1]).replace(each, "ID")

    assert told[0] == told[1]
    assert "previous_response_not_found" in told[0]


# -------------------------------------------------------------------------------------------------------------- sealed


async def seals(world: World) -> dict[str, tuple[str, dict[str, Any]]]:
    """By kind: a route, and a body with something that was sealed for the owner."""
    hello = {"role": "user", "content": "Hello"}
    told = await world.make(OWNER, "/v1/responses", input="Hello", store=False, include=["reasoning.encrypted_content"])
    compacted = await world.make(OWNER, "/v1/responses/compact", input=[hello])
    thinking = {"thinking": {"type": "enabled", "budget_tokens": 1024}, "max_tokens": 2000}
    message = await world.make(OWNER, "/v1/messages", messages=[hello], **thinking)
    contents = [{"role": "user", "parts": [{"text": "Hello"}]}]
    google = "/v1beta/models/sim:generateContent"
    generation = {"generationConfig": {"thinkingConfig": {"includeThoughts": True}}}
    answer = await world.ask(OWNER, "POST", google, {"contents": contents, **generation})
    content = answer.json()["candidates"][0]["content"]
    interaction = await world.make(OWNER, "/v1/interactions", input="Hello", store=False)
    again = {"role": "user", "content": "Why?"}
    responses = {"model": "sim", "store": False}
    turn = [hello, {"role": "assistant", "content": message["content"]}, again]
    why = [*contents, content, {"role": "user", "parts": [{"text": "Why?"}]}]
    return {
        "reasoning of Responses": ("/v1/responses", {**responses, "input": [hello, *told["output"], again]}),
        "compaction": ("/v1/responses", {**responses, "input": [*compacted["output"], again]}),
        "thinking": ("/v1/messages", {"model": "sim", "messages": turn, **thinking}),
        "count of thinking": ("/v1/messages/count_tokens", {"model": "sim", "messages": turn}),
        "thought of Interactions": (
            "/v1/interactions",
            {**responses, "input": [step("Hello"), *interaction["steps"], step("Why?")]},
        ),
        "thought": (google, {"contents": why, **generation}),
    }


def step(text: str) -> dict[str, Any]:
    return {"type": "user_input", "content": [{"type": "text", "text": text}]}


_SEAL = re.compile(r'"(?:encrypted_content|signature|thoughtSignature)": "([^"]+)"')


def of_another_gateway(found: re.Match[str]) -> str:
    """The same seal with the name of another key."""
    seal, inner = found[1], found[1]
    if not seal.startswith("gw1."):  # Google's API has bytes, in base64
        inner = base64.b64decode(seal).decode()
    assert inner.startswith("gw1.")
    other = "gw1." + ("AAAA" if inner[4:8] != "AAAA" else "BBBB") + inner[8:]
    if not seal.startswith("gw1."):
        other = base64.b64encode(other.encode()).decode()
    return found[0].replace(seal, other)


async def test_what_was_sealed_for_one_tenant_opens_for_no_other(world: World) -> None:
    for kind, (path, body) in (await seals(world)).items():
        own = await world.ask(OWNER, "POST", path, body)
        assert own.status_code == 200, (kind, own.text)
        unknown = json.loads(_SEAL.sub(of_another_gateway, json.dumps(body)))
        assert unknown != body, (kind, body)
        given, other = [Found.of(await world.ask(STRANGER, "POST", path, each)) for each in (body, unknown)]
        assert given == other, kind
        assert given.status == 400, (kind, given)
        assert SECRET not in given.text


# ---------------------------------------------------------------------------------------------------------- caches and logs


async def test_a_tenant_finds_nothing_in_an_engines_cache_that_another_has_put_there() -> None:
    prompt = "The keeper of the lighthouse wrote every day. " * 40

    async with fleet(Member("a", "neutral"), identity=by_name) as house:

        async def cached(tenant: str, **more: str) -> int:
            headers = {"authorization": f"Bearer {tenant}"}
            answer = await house.http.post(CHAT, json={**asked(prompt), "max_tokens": 4, **more}, headers=headers)
            assert answer.status_code == 200, answer.text
            return int((answer.json()["usage"].get("prompt_tokens_details") or {}).get("cached_tokens", 0))

        assert await cached(OWNER) == 0
        assert await cached(OWNER) > 0
        assert await cached(STRANGER) == 0
        (first, _, third) = [request.cache_salt for request in house.engine.requests]
        assert None not in (first, third)
        assert await cached(STRANGER, cache_salt=str(first)) == 0  # who learns a salt gains nothing by sending it
        assert await cached(STRANGER, cache_salt=OWNER) == 0
        assert await cached(STRANGER) > 0


@pytest.mark.parametrize("dialect", sorted(DIALECTS.keys() - {"neutral"}))
async def test_an_engine_that_takes_no_salt_is_sent_none_and_serves_every_tenant(dialect: str) -> None:
    async with fleet(Member("a", dialect), identity=by_name) as house:
        for tenant in (OWNER, STRANGER):
            answer = await house.http.post(CHAT, json=asked("Hello"), headers={"authorization": f"Bearer {tenant}"})
            assert answer.status_code == 200

        assert [request.cache_salt for request in house.engine.requests] == [None, None]


async def test_the_access_log_says_whose_a_request_was(caplog: pytest.LogCaptureFixture) -> None:
    async with fleet(Member("a"), identity=by_name) as house:
        await house.http.post(CHAT, json=asked("Hello"), headers={"authorization": f"Bearer {OWNER}"})
        await house.http.post(CHAT, json=asked("Hello"))
        ended = [moment for moment in house.observer.moments if isinstance(moment, ExchangeEnded)]

    assert [(each.status, each.tenant) for each in ended] == [(200, OWNER), (401, "")]
    with caplog.at_level("INFO", "smg.access"):
        for each in ended:
            AccessLog().report(each)
    said = [record.getMessage() for record in caplog.records if record.name == "smg.access"]
    assert f"tenant={OWNER} principal=-" in said[0]
    assert "tenant" not in said[1]
