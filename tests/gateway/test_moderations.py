"""/v1/moderations by a provider that has the route."""

import httpx
import pytest
from tests.core.guardrails.adapters.test_adapters import Service
from tests.gateway.conftest import CHAT, body
from tests.peers import listening

from smg_core import Gateway
from smg_core.workers.worker import WorkerSpec

pytestmark = pytest.mark.anyio


async def test_a_provider_moderates_texts_and_pictures_by_its_own_route() -> None:
    result = {"flagged": True, "categories": {"hate": True}, "category_scores": {"hate": 0.9}}
    service = Service(lambda body: {"id": "modr-1", "model": "omni-moderation-latest", "results": [result]})
    given = [
        {"type": "text", "text": "a"},
        {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}},
    ]
    async with listening(service.take) as port:
        spec = WorkerSpec(
            f"http://127.0.0.1:{port}/v1",
            dialect="openai-responses",
            model="omni-moderation-latest",
            headers=(("authorization", "Bearer sk-1"),),
        )
        async with Gateway([spec]) as gateway, gateway.http_client(httpx, base_url="http://gateway") as http:
            answer = await http.post("/v1/moderations", json={"input": given})
            chat = await http.post(CHAT, json=body("Hi", model="omni-moderation-latest"))

    assert answer.status_code == 200, answer.text
    assert answer.json() == {"id": "modr-1", "model": "omni-moderation-latest", "results": [result]}
    assert service.bodies == [{"input": given, "model": "omni-moderation-latest"}]
    assert service.heads[0].startswith("POST /v1/moderations ")
    assert chat.status_code == 400
