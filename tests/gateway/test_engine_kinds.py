"""A kind of engines is added by one row: a toy with a URL scheme of its own, which says one text, is watched and asked as any."""

import asyncio

import httpx
import openai
import pytest
from tests.gateway.conftest import eventually
from tests.gateway.fleet import ALERT, joined

from smg_core import Gateway
from smg_core.engines.base import EngineFacts, ModelInfo
from smg_core.engines.kinds.kind import EngineKind, EnginePlace
from smg_core.engines.kinds.table import ENGINE_KINDS
from smg_core.events import Done, Finished, Started, TextDelta, TextEnd, Usage
from smg_core.hooks import RequestFinished
from smg_core.testing import MemoryObserver
from smg_core.workers.worker import WorkerSpec

pytestmark = pytest.mark.anyio
EVENTS = [Started(3, 0, "toy"), TextDelta(0, "Toys "), TextDelta(0, "talk."), TextEnd(0), Finished(0, "stop")]


class Toy:
    """An engine that is no other process: it is the call of its answer, too."""

    well = True

    def __init__(self, place: EnginePlace) -> None:
        self.model = place.url.removeprefix("toy://")

    async def describe(self):
        facts = EngineFacts(
            "toy", takes_ids=False, transport="toy", prompt_logprobs=False, loads=False, kv_events=False
        )
        return ModelInfo(self.model), facts

    async def health(self, timeout=None):
        return self.well

    async def chat(self, request, sink, **given):
        for event in (*EVENTS, Usage(3, 2), Done()):
            asyncio.get_running_loop().call_soon(sink.push, [event])
        asyncio.get_running_loop().call_soon(sink.closed, None)
        return self

    async def nothing(self, *given):
        """There is no such thing here."""

    def over(self) -> None:
        """Nothing can be held back, and all has been said."""

    loads = tokenizer = upkeep = adapters = abort = close = nothing
    cancel = pause = resume = leave = over


def check(place: EnginePlace) -> None:
    if place.url == "toy://":
        raise ValueError("toy:// names no model")


async def test_a_row_adds_a_kind_of_engines_which_is_served_and_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ENGINE_KINDS, "toy", EngineKind("toy", ("toy",), open=Toy, check=check))
    observer, said = MemoryObserver(), [{"role": "user", "content": "Hello"}]
    async with Gateway([WorkerSpec("toy://bear", name="w")], config=ALERT, observer=observer) as gateway:
        await joined(gateway, "w")
        async with gateway.http_client(httpx, base_url="http://gateway/v1") as http:
            client = openai.AsyncOpenAI(base_url="http://gateway/v1", api_key="k", http_client=http, max_retries=0)
            whole = await client.chat.completions.create(model="bear", messages=said)
            stream = await client.chat.completions.create(model="bear", messages=said, stream=True)
            pieces = [chunk.choices[0].delta.content or "" async for chunk in stream if chunk.choices]
            monkeypatch.setattr(Toy, "well", False)
            await eventually(lambda: gateway.registry.get("w").state != "ready")
            monkeypatch.setattr(Toy, "well", True)
            await joined(gateway, "w")
        with pytest.raises(ValueError, match="toy:// names no model"):
            await gateway.add_worker("toy://")
    assert (whole.choices[0].message.content, whole.usage.total_tokens) == ("Toys talk.", 5)
    assert "".join(pieces) == "Toys talk."
    assert [(each.transport, each.outcome) for each in observer.of(RequestFinished)] == [("toy", "ok")] * 2
