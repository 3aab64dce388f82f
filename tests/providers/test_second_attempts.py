"""A request whose credential was refused: sent once more, at most, and not at all where its client has left."""

import asyncio
from collections.abc import Callable, Sequence

import attrs
import pytest
from tests.providers.chat_answers import CHAT_FORMATS
from tests.providers.fake import Heard, Said, providing
from tests.shared import PATIENCE

from smg_core.credentials.renewal.fields import KeySigner
from smg_core.credentials.renewal.granted import Granted
from smg_core.credentials.renewal.renewed import Renewed
from smg_core.engines.vendors.chat.format import ChatFormat
from smg_core.engines.vendors.chat.profiles import CHAT_PROFILES
from smg_core.engines.vendors.engine import ProviderEngine
from smg_core.errors import SmgError
from smg_core.events import Event, Finished
from smg_core.request import GenerationRequest, Message, Text

pytestmark = pytest.mark.anyio

TEXT = Said(CHAT_FORMATS["azure"].streams["text"])
REFUSED = CHAT_FORMATS["azure"].errors["credentials"]
REQUEST = GenerationRequest("r", "m", (Message("user", (Text("Hi"),)),))


class Sink:
    """Keeps what is pushed."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.over: asyncio.Future[SmgError | None] = asyncio.get_running_loop().create_future()

    def push(self, events: Sequence[Event], /) -> None:
        self.events += events

    def closed(self, error: SmgError | None) -> None:
        self.over.set_result(error)


@attrs.define
class Source:
    """Gives key-1, key-2, ...; from the second one on only when it is told to."""

    given: int = 0
    asked: asyncio.Event = attrs.field(factory=asyncio.Event)
    go: asyncio.Event = attrs.field(factory=asyncio.Event)

    async def fetch(self) -> Granted[str]:
        self.given += 1
        if self.given > 1:
            self.asked.set()
            await self.go.wait()
        return Granted(f"key-{self.given}")


def engine(url: str, source: Source) -> ProviderEngine:
    signer = KeySigner(Renewed("counted", source.fetch), "authorization", "Bearer")
    return ProviderEngine(url, ChatFormat(CHAT_PROFILES["xai"]), signer, model="m", connect_timeout=PATIENCE)


def refusing(*keys: str) -> Callable[[Heard], Said]:
    def answer(heard: Heard) -> Said:
        return REFUSED if heard.headers["authorization"][7:] in keys else TEXT

    return answer


async def test_the_reader_hears_of_the_second_answer_alone() -> None:
    source, sink = Source(), Sink()
    source.go.set()
    async with providing(refusing("key-1")) as provider:
        asked = engine(provider.url, source)
        await asked.chat(REQUEST, sink)
        async with asyncio.timeout(PATIENCE):
            assert await sink.over is None
        await asked.close()
    assert sum(isinstance(each, Finished) for each in sink.events) == 1
    assert [each.headers["authorization"][7:] for each in provider.asked] == ["key-1", "key-2"]
    assert provider.asked[0].body == provider.asked[1].body


async def test_a_second_refusal_is_told_and_not_tried_again() -> None:
    source, sink = Source(), Sink()
    source.go.set()
    async with providing(refusing("key-1", "key-2", "key-3")) as provider:
        asked = engine(provider.url, source)
        await asked.chat(REQUEST, sink)
        async with asyncio.timeout(PATIENCE):
            error = await sink.over
        await asked.close()
    assert type(error).__name__ == "ProviderRefused"
    assert len(provider.asked) == 2


async def test_a_client_that_leaves_meanwhile_sends_nothing_more() -> None:
    source, sink = Source(), Sink()
    async with providing(refusing("key-1")) as provider:
        asked = engine(provider.url, source)
        call = await asked.chat(REQUEST, sink)
        async with asyncio.timeout(PATIENCE):
            await source.asked.wait()
        call.cancel()
        source.go.set()
        again = Sink()
        await asked.chat(REQUEST, again)
        async with asyncio.timeout(PATIENCE):
            assert await again.over is None
        await asked.close()
    assert not sink.over.done()
    assert [each.headers["authorization"][7:] for each in provider.asked] == ["key-1", "key-2"]


async def test_an_engine_that_is_closed_meanwhile_ends_the_call() -> None:
    source, sink = Source(), Sink()
    async with providing(refusing("key-1")) as provider:
        asked = engine(provider.url, source)
        await asked.chat(REQUEST, sink)
        async with asyncio.timeout(PATIENCE):
            await source.asked.wait()
            await asked.close()
            assert isinstance(await sink.over, SmgError)
