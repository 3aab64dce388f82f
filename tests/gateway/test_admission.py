"""Every place that begins a request has it admitted, as what it is, and lets go of it once, however it ends."""

import io
import json
from typing import Any, get_args

import attrs
import httpx
import openai
import pytest
from tests.gateway.conftest import House, eventually, over_http
from tests.gateway.test_embeddings import PATH as EMBEDDINGS
from websockets.asyncio.client import connect

from smg_core import Config
from smg_core.http.settings import BatchesConfig, ServerConfig
from smg_core.lease import AdmittedKind, RequestLease
from smg_simulator.engine.engine import SimulatorConfig

pytestmark = pytest.mark.anyio

CONFIG = Config(
    server=ServerConfig(parse_routes=True), batches=BatchesConfig(poll_s=0.02, lease_s=60.0, gather_s=0.005)
)
SIMULATOR = SimulatorConfig(seed=1, reply_tokens=4)


@attrs.define
class Watch:
    """All leases that a gateway has made."""

    leases: list[RequestLease] = attrs.field(factory=list)


def watch(house: House, monkeypatch: pytest.MonkeyPatch) -> Watch:
    """Keep every lease that is made from now on."""
    admission, seen = house.gateway.services.admission, Watch()
    for name in ("admit", "readmit"):
        real = getattr(admission, name)

        def kept(*arguments: Any, real: Any = real) -> RequestLease:
            lease: RequestLease = real(*arguments)
            seen.leases.append(lease)
            return lease

        monkeypatch.setattr(admission, name, kept)
    return seen


async def by_each_way(house: House, client: openai.AsyncOpenAI) -> None:
    """A request of every kind that is admitted, to its end."""
    chat: dict[str, Any] = {"model": "sim", "messages": [{"role": "user", "content": "Hello"}]}
    assert (await house.chat()).status_code == 200
    assert (await house.http.post(EMBEDDINGS, json={"model": "sim", "input": "Hello"})).status_code in (200, 400)
    assert (await house.http.post("/tokenize", json={"model": "sim", "prompt": "Hello"})).status_code == 200
    parsed = await house.http.post("/parse/reasoning", json={"text": "<think>a</think>b", "parser": "qwen3"})
    assert parsed.status_code == 200
    made = await client.responses.create(model="sim", input="Hello", background=True)
    while made.status not in ("completed", "failed", "incomplete"):
        made = await client.responses.retrieve(made.id)
    line = {"custom_id": "a", "method": "POST", "url": "/v1/chat/completions", "body": chat}
    file = await client.files.create(file=("in.jsonl", io.BytesIO(json.dumps(line).encode())), purpose="batch")
    batch = await client.batches.create(input_file_id=file.id, endpoint="/v1/chat/completions", completion_window="24h")
    while batch.status != "completed":
        batch = await client.batches.retrieve(batch.id)
    async with connect(house.url.replace("http", "ws", 1) + "/v1/responses", proxy=None) as socket:
        await socket.send(json.dumps({"type": "response.create", "model": "sim", "input": "Hello"}))
        while json.loads(await socket.recv())["type"] not in ("response.completed", "response.incomplete"):
            pass


@pytest.mark.full
async def test_whatever_begins_a_request_is_admitted_as_what_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    async with over_http(SIMULATOR, config=CONFIG) as house:
        seen = watch(house, monkeypatch)
        async with openai.AsyncOpenAI(api_key="x", base_url=f"{house.url}/v1", max_retries=0) as client:
            await by_each_way(house, client)
        await eventually(lambda: not house.gateway.in_flight)

    assert {each.kind for each in seen.leases} == set(get_args(AdmittedKind))
    assert all(each.weight for each in seen.leases if each.kind in ("generation", "pooled", "tokens", "parse"))


@pytest.mark.full
@pytest.mark.sampled(keep=2)
@pytest.mark.parametrize(
    ("path", "asked"),
    [
        ("/v1/chat/completions", {"model": "none", "messages": [{"role": "user", "content": "Hi"}]}),
        ("/v1/chat/completions", {"model": "sim", "messages": 3}),
        (EMBEDDINGS, {"model": "none", "input": "Hi"}),
        ("/tokenize", {"model": "none", "prompt": "Hi"}),
        ("/parse/reasoning", {"text": 3}),
        ("/v1/batches", {"input_file_id": "none"}),
    ],
)
async def test_a_refused_request_counts_no_longer(path: str, asked: dict[str, Any]) -> None:
    async with over_http(SIMULATOR, config=CONFIG) as house:
        answer = await house.http.post(path, json=asked)

        assert answer.status_code >= 400
        await eventually(lambda: not house.gateway.in_flight)


async def test_a_gateway_that_takes_no_requests_takes_no_text_to_parse() -> None:
    async with over_http(SIMULATOR, config=CONFIG) as house:
        house.gateway.services.admission.held = True
        answer: httpx.Response = await house.http.post(
            "/parse/reasoning", json={"text": "<think>a</think>b", "parser": "qwen3"}
        )

    assert answer.status_code == 503
