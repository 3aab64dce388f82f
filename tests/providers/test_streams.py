"""Streams of providers: errors within a 200, ends that are missing, clients that leave, counts, and what is never told."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Sequence
from typing import Any

import attrs
import pytest
from tests.providers.answers import FORMATS, KEY, Format
from tests.providers.client_apis import APIS, ClientApi
from tests.providers.fake import Said
from tests.providers.houses import House, before
from tests.shared import PATIENCE

from smg_core.engines.settings import EnginesConfig
from smg_core.engines.vendors.anthropic.format import MessagesFormat
from smg_core.engines.vendors.gemini.format import GeminiFormat
from smg_core.engines.vendors.responses.format import ResponsesFormat
from smg_core.errors import SmgError
from smg_core.events import Event, TextDelta, Usage
from smg_core.hooks import RequestFinished
from smg_core.request import GenerationRequest, Message, Text

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module", params=FORMATS)
async def house(request: pytest.FixtureRequest) -> AsyncIterator[House]:
    async with before(FORMATS[request.param]) as found:
        yield found


@pytest.fixture(params=APIS)
def api(request: pytest.FixtureRequest) -> ClientApi:
    return APIS[request.param]


def begun(house: House) -> bytes:
    """The stream of a text up to and with its first piece."""
    stream = house.form.streams.get("cut") or house.form.streams["text"]
    return stream[: stream.index(b"\n\n", stream.index(b"Hel")) + 2]


@pytest.mark.parametrize("stream", [False, True])
async def test_an_error_in_place_of_an_answer_is_an_error_of_its_class(
    house: House, api: ClientApi, stream: bool
) -> None:
    house.provider.script = lambda _: Said(house.form.error_in_stream)

    answer = await house.ask(api, api.body("text"), stream=stream)

    if stream and api is APIS["Responses"]:  # which tells in its stream how it ended, whatever came before
        assert "response.failed" in answer.text
    else:
        assert answer.status_code in (503, 529), answer.text


async def test_an_error_behind_a_piece_is_told_in_the_stream(house: House, api: ClientApi) -> None:
    house.provider.script = lambda _: Said(begun(house), then=house.form.error_in_stream)
    house.provider.go.clear()
    path, body = api.asked(api.body("text"), stream=True)

    async with house.http.stream("POST", path, json=body) as answer:
        content = b""
        async for piece in answer.aiter_bytes():
            content += piece
            if b"Hel" in content:
                house.provider.go.set()

    assert answer.status_code == 200
    assert api.pieces(content) == "Hel"
    assert b"error" in content


async def test_an_error_as_one_object_with_status_200_is_an_error(house: House) -> None:
    data = house.form.error_in_stream.split(b"data: ")[1].strip()
    for kind in ("application/json", "text/event-stream"):
        house.provider.script = lambda _, kind=kind: Said(data, kind=kind)
        answer = await house.http.post("/v1/chat/completions", json=APIS["Chat Completions"].body("text"))
        assert answer.status_code == 503, answer.text


async def test_what_is_no_event_is_an_error(house: House) -> None:
    for odd in (b"data: {\n\n", b"data: [1]\n\n", b"<html>", b"data: \xff\n\n", b""):
        house.provider.script = lambda _, odd=odd: Said(odd)
        answer = await house.http.post("/v1/chat/completions", json=APIS["Chat Completions"].body("text"))
        assert answer.status_code == 502, (odd, answer.text)


@attrs.define
class Listener:
    """The sink of one call: the events, and the signs of life beside them."""

    events: list[Event] = attrs.field(factory=list)
    beats: int = 0
    over: asyncio.Event = attrs.field(factory=asyncio.Event)

    def push(self, pushed: Sequence[Event], /) -> None:
        self.events += pushed

    def alive(self) -> None:
        self.beats += 1

    def closed(self, error: SmgError | None) -> None:
        self.over.set()


async def test_a_ping_is_a_sign_of_life(house: House) -> None:
    listener = Listener()
    house.provider.script = lambda _: Said(b": ping\n\n", then=house.form.streams["text"])
    house.provider.go.clear()
    engine: Any = next(iter(house.gateway.registry)).engine
    request = GenerationRequest("r", house.form.model, (Message("user", (Text("Hi"),)),))

    await engine.chat(request, listener)
    async with asyncio.timeout(PATIENCE):
        while not listener.beats:
            await asyncio.sleep(0)
        assert listener.events == []
        house.provider.go.set()
        await listener.over.wait()

    assert "".join(each.text for each in listener.events if isinstance(each, TextDelta)) == "Hello"


async def test_a_client_that_leaves_closes_the_connection_to_the_provider(house: House) -> None:
    house.provider.left.clear()
    house.provider.script = lambda _: Said(begun(house), held=True)
    path, body = APIS["Chat Completions"].asked(APIS["Chat Completions"].body("text"), stream=True)

    async with house.http.stream("POST", path, json=body) as answer:
        async for piece in answer.aiter_text():
            if "Hel" in piece:
                break

    async with asyncio.timeout(PATIENCE):
        await house.provider.left.wait()


COUNTED = {
    "anthropic": Usage(12, 9, 3, 0, 2),
    "gemini": Usage(12, 9, 3, 5),
    "openai-responses": Usage(12, 9, 3, 5, 2),
}


async def test_tokens_are_counted_once_and_in_their_kinds(house: House) -> None:
    house.says("text")
    await house.http.post("/v1/chat/completions", json=APIS["Chat Completions"].body("text"))

    (done,) = house.observer.of(RequestFinished)[-1:]

    counted = COUNTED[house.form.kind]
    assert (done.prompt_tokens, done.completion_tokens) == (counted.prompt_tokens, counted.completion_tokens)
    assert (done.cached_tokens, done.reasoning_tokens) == (counted.cached_tokens, counted.reasoning_tokens)
    told = (await house.ask(APIS["Messages"], APIS["Messages"].body("text"))).json()["usage"]
    assert told["cache_creation_input_tokens"] == counted.cache_write_tokens
    assert told["input_tokens"] == counted.prompt_tokens - counted.cached_tokens - counted.cache_write_tokens


async def test_what_the_provider_counted_of_a_broken_answer_is_charged(house: House) -> None:
    stream = house.form.streams["text"]
    if house.form.kind == "openai-responses":
        return  # it counts at the end alone
    house.provider.script = lambda _: Said(stream, cut_at=stream.index(b"\n\n", stream.index(b"Hel")) + 2)

    answer = await house.http.post(
        "/v1/chat/completions", json={**APIS["Chat Completions"].body("text"), "stream": True}
    )

    assert "error" in answer.text
    assert house.observer.of(RequestFinished)[-1].prompt_tokens == 12


async def test_neither_key_nor_prompt_nor_a_providers_words_are_in_the_log(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    secret = "the-canary-of-the-prompt"
    body = {"model": "m", "messages": [{"role": "user", "content": secret}]}
    with caplog.at_level(logging.DEBUG):
        for case in house.form.errors:
            house.says(case)
            answer = await house.http.post("/v1/chat/completions", json=body)
            assert KEY not in answer.text
        house.provider.script = lambda heard: Said(
            json.dumps({"error": {"message": f"{KEY} said {secret}"}}).encode(), 400, "application/json"
        )
        await house.http.post("/v1/chat/completions", json=body)

    assert KEY not in caplog.text
    assert secret not in caplog.text


def feeds(form: Format, case: str, size: int) -> list[Any]:
    """The events of a stream in pieces of this size."""
    made = {"anthropic": MessagesFormat, "gemini": GeminiFormat, "openai-responses": ResponsesFormat}[form.kind]()
    request = GenerationRequest("r", form.model, (Message("user", (Text("Hi"),)),))
    decoder = made.ask(request, form.model, EnginesConfig()).decoder
    assert decoder is not None
    data = form.streams[case]
    events = [each for at in range(0, len(data), size) for each in decoder.feed(data[at : at + size])]
    return [*events, *decoder.end()]


@pytest.mark.parametrize("kind", FORMATS)
def test_any_split_of_the_bytes_gives_the_same_events(kind: str) -> None:
    form = FORMATS[kind]
    for case in form.streams:
        whole = feeds(form, case, 1 << 20)
        assert whole
        for size in (1, 7, 100):
            assert feeds(form, case, size) == whole, (case, size)
