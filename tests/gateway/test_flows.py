"""An API with a flow of its own: it asks for a step that only its flow knows, and the gateway has that performed."""

import asyncio
import json

import attrs
import httpx
import pytest
from tests.gateway.conftest import CHAT, JSON, body

from smg_core import Gateway
from smg_core.apis.chat.api import CHAT as CHAT_API
from smg_core.apis.chat.decode import ChatRequest
from smg_core.http.exchange import Exchange
from smg_core.http.scope import Receive, Scope, Send
from smg_core.pipeline.flow.driver import Run
from smg_core.pipeline.flow.flow import Terms, respond
from smg_core.pipeline.flow.steps import Flow, Step, ask
from smg_core.serving.inference import Inference

pytestmark = pytest.mark.anyio


class Note(Step[int], frozen=True):
    """Something to be noted; the answer is how many notes there are."""

    what: str


def noted_first(decoded: ChatRequest, terms: Terms) -> Flow[None]:
    count = yield from ask(Note(decoded.generation.model))
    assert count == 1
    yield from respond(decoded.generation, terms)


@pytest.mark.parametrize("told_when_it_runs", [False, True])
async def test_a_step_of_an_apis_own_flow_is_performed_by_what_the_runtime_was_given(told_when_it_runs: bool) -> None:
    notes: list[str] = []

    async def note(step: Note, run: Run) -> int:
        await asyncio.sleep(0)
        notes.append(step.what)
        return len(notes)

    gateway = Gateway.simulated()
    if not told_when_it_runs:
        gateway.perform({Note: note})
    async with gateway:
        if told_when_it_runs:
            gateway.perform({Note: note})
        inference = Inference(gateway.services, attrs.evolve(CHAT_API, flow=noted_first))

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            await inference(Exchange(scope, receive, send))

        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://g", headers=JSON) as client:
            answer = await client.post(CHAT, content=json.dumps(body()))
    assert answer.status_code == 200, answer.text
    assert notes == ["sim"]
