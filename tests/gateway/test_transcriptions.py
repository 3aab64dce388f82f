"""Transcriptions and translations by the official SDK: of a model that takes sound, and of servers that have the routes."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import attrs
import httpx
import openai
import pytest
from tests.gateway.conftest import House, in_process, over_http, settled
from tests.gateway.test_ledger import accounts
from tests.gateway.test_limits_held import taken
from tests.gateway.test_vision import sdk, seeing, seen
from tests.gateway.vision_models import qwen2_audio, sound
from tests.peers import listening

from smg_core import Config, Gateway
from smg_core.auth.settings import AuthConfig
from smg_core.hooks import AttemptEnded, RequestFinished
from smg_core.ledger.settings import LedgerConfig
from smg_core.testing import MemoryObserver
from smg_core.wire.settings import LimitsConfig
from smg_core.workers.settings import WorkersConfig
from smg_simulator.engine.engine import SimulatorConfig

pytestmark = pytest.mark.anyio

WAV = ("speech.wav", sound(0.5), "audio/wav")
PATH = "/v1/audio/transcriptions"


@pytest.fixture(scope="session")
def qwen(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(qwen2_audio(tmp_path_factory.mktemp("qwen-speech") / "model"))


async def refused(asked: Awaitable[object]) -> openai.BadRequestError:
    """The error that a request is refused with."""
    with pytest.raises(openai.BadRequestError) as error:
        await asked
    return error.value


def finished(house: House) -> RequestFinished:
    return house.observer.of(RequestFinished)[-1]


def prompt(house: House, at: int = -1) -> str:
    return house.engine.engine.vocabulary.decode(house.engine.requests[at].input_ids)


# ---------------------------------------------------------------------------------------------- a model that takes sound


async def test_a_model_that_takes_sound_is_asked_for_the_words(qwen: str, served: Callable[..., Any]) -> None:
    async with seeing(qwen, served) as house, sdk(house) as client:
        answer = await client.audio.transcriptions.create(model="sim", file=WAV, language="de", prompt="Schafe")
        text = await client.audio.transcriptions.create(model="sim", file=WAV, response_format="text")
        told = finished(house)
    media = seen(house)
    assert media.tensors["input_features"].shape[:2] == (1, 80)
    assert answer.text
    assert str(text).strip()
    words = prompt(house, 0)
    assert "spoken in this recording" in words
    assert "de (ISO 639-1)" in words
    assert "Schafe" in words
    assert answer.usage.type == "tokens"
    assert answer.usage.input_tokens == len(house.engine.requests[0].input_ids)
    assert answer.usage.total_tokens == answer.usage.input_tokens + answer.usage.output_tokens
    details = answer.usage.input_token_details
    assert details.audio_tokens > 0
    assert details.audio_tokens + details.text_tokens == answer.usage.input_tokens
    assert (told.api, told.model, told.outcome) == ("transcriptions", "sim", "ok")


@pytest.mark.full
async def test_a_stream_tells_the_text_piece_by_piece_and_then_whole(qwen: str, served: Callable[..., Any]) -> None:
    async with seeing(qwen, served) as house, sdk(house) as client:
        stream = await client.audio.transcriptions.create(model="sim", file=WAV, stream=True)
        events = [each async for each in stream]
    deltas = [each.delta for each in events if each.type == "transcript.text.delta"]
    (done,) = [each for each in events if each.type == "transcript.text.done"]
    assert events[-1] is done
    assert len(deltas) > 1
    assert done.text == "".join(deltas)
    assert done.usage.input_tokens == len(house.engine.requests[-1].input_ids)


async def test_a_translation_asks_for_english(qwen: str) -> None:
    async with seeing(qwen) as house, sdk(house) as client:
        with pytest.deprecated_call():  # the SDK says so of the vendor's models
            asked = client.audio.translations.create(model="sim", file=WAV, prompt="Sheep", temperature=0.5)
        answer = await asked
        assert finished(house).api == "translations"
    assert answer.text
    assert "into English" in prompt(house)
    assert house.engine.requests[-1].sampling.temperature == pytest.approx(0.5)


@pytest.mark.sampled(keep=3)
@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"response_format": "verbose_json"}, "response_format"),
        ({"response_format": "srt"}, "response_format"),
        ({"response_format": "loud"}, "response_format"),
        ({"response_format": "verbose_json", "timestamp_granularities": ["word"]}, "response_format"),
        ({"timestamp_granularities": ["word"]}, "timestamp_granularities[]"),
        ({"response_format": "verbose_json", "timestamp_granularities": ["year"]}, "timestamp_granularities[]"),
        ({"temperature": 1.5}, "temperature"),
        ({"include": ["logprobs"]}, "include[]"),
        ({"chunking_strategy": "auto"}, "chunking_strategy"),
        ({"extra_body": {"colour": "red"}}, "colour"),
        ({"file": ("a.wav", b"", "audio/wav")}, "file"),
        ({"file": ("a.wav", b"no sound at all", "audio/wav")}, "file"),
        ({"stream": True, "response_format": "vtt"}, "response_format"),
    ],
)
async def test_what_cannot_be_honoured_is_refused_by_its_field(qwen: str, fields: dict[str, Any], param: str) -> None:
    async with seeing(qwen) as house, sdk(house) as client:
        error = await refused(client.audio.transcriptions.create(**{"model": "sim", "file": WAV, **fields}))
        assert not house.engine.requests
    assert error.param == param


async def test_a_model_of_text_takes_no_recording(served: Callable[..., Any]) -> None:
    async with served() as house, sdk(house) as client:
        error = await refused(client.audio.transcriptions.create(model="sim", file=WAV))
    assert error.param == "file"


@pytest.mark.parametrize(
    ("content", "kind", "status"),
    [
        (b"{}", "application/json", 415),
        (b"--x\r\n", "multipart/form-data; boundary=x", 400),
        (
            b'--x\r\ncontent-disposition: form-data; name="model"\r\n\r\nsim\r\n--x--\r\n',
            "multipart/form-data; boundary=x",
            400,
        ),
    ],
)
async def test_what_is_no_form_is_refused(qwen: str, content: bytes, kind: str, status: int) -> None:
    async with seeing(qwen) as house:
        answer = await house.http.post(PATH, content=content, headers={"content-type": kind})
    assert answer.status_code == status
    assert answer.json()["error"]["message"]


async def test_a_form_over_the_limit_is_refused_while_it_is_read(qwen: str) -> None:
    config = Config(
        limits=LimitsConfig(media_body_bytes=20_000, body_bytes=20_000), workers=WorkersConfig(dialect="vllm")
    )
    async with in_process(SimulatorConfig(model_folder=qwen), config=config) as house, sdk(house) as client:
        with pytest.raises(openai.APIStatusError) as error:
            await client.audio.transcriptions.create(model="sim", file=("long.wav", sound(2.0), "audio/wav"))
    assert error.value.status_code == 413


async def test_a_caller_needs_the_permission_audio(qwen: str) -> None:
    chats, hears = "sk-chats-0123456789abcdef", "sk-hears-0123456789abcdef"
    auth = AuthConfig(
        keys=(f"{chats} tenant=acme role=chatty", f"{hears} tenant=acme role=listener"),
        roles=("chatty=chat", "listener=audio"),
    )
    config = Config(auth=auth, workers=WorkersConfig(dialect="vllm"))
    async with in_process(SimulatorConfig(model_folder=qwen), config=config) as house:
        http = house.gateway.http_client(openai)
        client = openai.AsyncOpenAI(http_client=http, base_url="http://gateway/v1", api_key=hears, max_retries=0)
        assert (await client.audio.transcriptions.create(model="sim", file=WAV)).text
        with pytest.raises(openai.PermissionDeniedError):
            await client.with_options(api_key=chats).audio.transcriptions.create(model="sim", file=WAV)


# -------------------------------------------------------------------------------------------------- once, and counted


@pytest.mark.parametrize(
    ("route", "stream"), [("transcriptions", False), ("transcriptions", True), ("translations", False)]
)
async def test_a_recording_that_is_sent_again_with_its_key_is_read_once(qwen: str, route: str, stream: bool) -> None:
    """Though the library draws a new boundary for each form."""
    key, form = {"idempotency-key": "k"}, {"model": "sim", **({"stream": "true"} if stream else {})}
    async with seeing(qwen) as house:
        del house.http.headers["content-type"]

        async def ask(sent: tuple[str, bytes, str] = WAV, **fields: str) -> httpx.Response:
            return await house.http.post(
                f"/v1/audio/{route}", files={"file": sent}, data={**form, **fields}, headers=key
            )

        first, again = await ask(), await ask()
        others = [await ask(temperature="0.5"), await ask((WAV[0], sound(0.6), WAV[2])), await ask(("b.wav", *WAV[1:]))]
        asked = len(house.engine.requests)

    assert first.status_code == 200, first.text
    assert first.request.headers["content-type"] != again.request.headers["content-type"]
    assert (again.content, again.headers["content-type"]) == (first.content, first.headers["content-type"])
    assert again.headers["idempotent-replayed"] == "true"
    assert [each.status_code for each in others] == [422] * 3
    assert asked == 1


async def test_a_recording_that_was_refused_frees_its_key_and_two_at_once_are_one(qwen: str) -> None:
    key = {"idempotency-key": "k"}
    async with seeing(qwen) as house, sdk(house) as client:
        create = client.audio.transcriptions.create
        error = await refused(create(model="sim", file=("a.wav", b"no sound", "audio/wav"), extra_headers=key))
        both = await asyncio.gather(*[create(model="sim", file=WAV, extra_headers=key) for _ in range(2)])
        asked = len(house.engine.requests)

    assert error.param == "file"
    assert both[0].text == both[1].text
    assert asked == 1


@pytest.mark.full
@pytest.mark.parametrize("stream", [False, True])
async def test_limits_and_the_ledger_count_a_recording_and_its_seconds_of_sound_have_tokens(
    qwen: str, stream: bool
) -> None:
    config = Config(
        workers=WorkersConfig(dialect="vllm"),
        limits=LimitsConfig(rules=("1_000_000 tokens/day", "9 requests/day")),
        ledger=LedgerConfig(enabled=True, url="memory:", write_s=3600.0),
    )
    async with in_process(SimulatorConfig(model_folder=qwen), config=config) as house, sdk(house) as client:
        answer: Any = await client.audio.transcriptions.create(model="sim", file=WAV, stream=stream)
        used = [each async for each in answer][-1].usage if stream else answer.usage
        await settled(house)
        (row,) = await accounts(house, "api")
        charged = taken(house, "1_000_000 tokens/day"), taken(house, "9 requests/day")

    assert charged == (used.total_tokens, 1)
    assert (row.api, row.prompt_tokens, row.completion_tokens) == (
        "transcriptions",
        used.input_tokens,
        used.output_tokens,
    )
    assert row.audio_tokens > 0


# ---------------------------------------------------------------------------------------- servers that have the routes


async def test_another_gateway_is_asked_at_its_own_route(qwen: str) -> None:
    far_config = Config(workers=WorkersConfig(dialect="vllm"))
    async with (
        over_http(SimulatorConfig(model_folder=qwen), config=far_config) as far,
        Gateway([far.url], observer=(seen_here := MemoryObserver())) as gateway,
    ):
        await gateway.ready()
        http = gateway.http_client(openai)
        client = openai.AsyncOpenAI(http_client=http, base_url="http://gateway/v1", api_key="-", max_retries=0)
        whole = await client.audio.transcriptions.create(model="sim", file=WAV, language="de")
        stream = await client.audio.transcriptions.create(model="sim", file=WAV, language="de", stream=True)
        events = [each async for each in stream]
        with pytest.deprecated_call():
            asked = client.audio.translations.create(model="sim", file=WAV)
        english = await asked
    assert whole.text == events[-1].text
    assert len(events) > 2
    assert english.text
    assert whole.usage.input_tokens == len(far.engine.requests[0].input_ids)
    assert {each.api for each in far.observer.of(RequestFinished)} == {"transcriptions", "translations"}
    assert {each.transport for each in seen_here.of(AttemptEnded)} == {"http"}


@attrs.define
class Heard:
    """A server that has the route for recordings: what it was asked, and what it answers, by the format that is asked for."""

    answers: dict[str, tuple[str, bytes]]
    status: int = 200
    asked: list[dict[str, Any]] = attrs.field(factory=list)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while head := await reader.readuntil(b"\r\n\r\n"):
            line, *rows = head.decode("latin-1").split("\r\n")[:-2]
            headers = {name.lower(): value.strip() for name, _, value in (each.partition(":") for each in rows)}
            body = await reader.readexactly(int(headers.get("content-length", "0")))
            path = line.split(" ")[1]
            if path.startswith("/v1/audio/"):
                form = form_of(headers["content-type"], body)
                self.asked.append({"path": path, **form})
                key = "stream" if form.get("stream") else form["response_format"]
                kind, told = self.answers[key]
                status = self.status
            elif path == "/v1/models":
                kind, told, status = "application/json", b'{"data": [{"id": "whisper"}]}', 200
            else:
                kind, told, status = "application/json", b"{}", 200 if path == "/health" else 404
            writer.write(
                f"HTTP/1.1 {status} X\r\ncontent-type: {kind}\r\ncontent-length: {len(told)}\r\n\r\n".encode() + told
            )


def form_of(content_type: str, body: bytes) -> dict[str, Any]:
    """The fields of a form, read by the parser of the library that servers use."""
    from python_multipart.multipart import parse_form

    found: dict[str, Any] = {}

    def field(each: Any) -> None:
        found.setdefault(each.field_name.decode(), each.value.decode())

    def file(each: Any) -> None:
        each.file_object.seek(0)
        found["file"] = (each.file_name.decode(), each.file_object.read())

    import io

    parse_form({"Content-Type": content_type.encode()}, io.BytesIO(body), field, file)
    return found


@asynccontextmanager
async def hearing(heard: Heard) -> AsyncIterator[tuple[openai.AsyncOpenAI, MemoryObserver]]:
    """The SDK before a gateway before such a server."""
    observer = MemoryObserver()
    async with (
        listening(heard.serve) as port,
        Gateway([f"http://127.0.0.1:{port}"], observer=observer) as gateway,
    ):
        await gateway.ready()
        http = gateway.http_client(openai)
        yield openai.AsyncOpenAI(http_client=http, base_url="http://gateway/v1", api_key="-", max_retries=0), observer


JSON = "application/json"
VERBOSE = {
    "text": "One sheep",
    "language": "en",
    "duration": 1.5,
    "segments": [],
    "words": [],
    "usage": {"type": "duration", "seconds": 2},
}


async def test_formats_with_times_leave_as_the_server_wrote_them() -> None:
    srt, vtt = b"1\n00:00:00,000 --> 00:00:01,500\nOne sheep\n", b"WEBVTT\n\n00:00.000 --> 00:01.500\nOne sheep\n"
    heard = Heard(
        {
            "verbose_json": (JSON, json.dumps(VERBOSE).encode()),
            "srt": ("text/plain; charset=utf-8", srt),
            "vtt": ("text/vtt", vtt),
            "json": (
                JSON,
                b'{"text": "One sheep", "usage": {"type": "tokens", "input_tokens": 7, "output_tokens": 2}}',
            ),
        }
    )
    async with hearing(heard) as (client, observer):
        create = client.audio.transcriptions.create
        verbose = await create(
            model="whisper",
            file=WAV,
            response_format="verbose_json",
            timestamp_granularities=["word"],
            temperature=0.25,
        )
        assert await create(model="whisper", file=WAV, response_format="srt") == srt.decode()
        assert await create(model="whisper", file=WAV, response_format="vtt") == vtt.decode()
        plain = await create(model="whisper", file=WAV, response_format="text")
        usual = await create(model="whisper", file=WAV, language="en", prompt="Sheep")
        told = observer.of(RequestFinished)[-1]
    assert (verbose.text, verbose.duration, verbose.language) == ("One sheep", 1.5, "en")
    assert plain == "One sheep\n"
    assert (usual.text, usual.usage.input_tokens, usual.usage.output_tokens) == ("One sheep", 7, 2)
    assert usual.usage.input_token_details is None
    assert (told.prompt_tokens, told.completion_tokens, told.model) == (7, 2, "whisper")
    first, last = heard.asked[0], heard.asked[-1]
    assert (first["timestamp_granularities[]"], first["temperature"], first["file"]) == ("word", "0.25", WAV[:2])
    assert (last["language"], last["prompt"], last["model"]) == ("en", "Sheep", "whisper")


OPENAI_STREAM = (
    b'data: {"type": "transcript.text.delta", "delta": "One"}\n\n'
    b'data: {"type": "transcript.text.delta", "delta": " sheep"}\n\n'
    b'data: {"type": "transcript.text.done", "text": "One sheep", '
    b'"usage": {"type": "tokens", "input_tokens": 7, "output_tokens": 2}}\n\n'
)
VLLM_STREAM = (
    b'data: {"object": "transcription.chunk", "choices": [{"delta": {"content": "One"}}]}\n\n'
    b'data: {"object": "transcription.chunk", "choices": [{"delta": {"content": " sheep"}, "finish_reason": "stop"}]}\n\n'
    b'data: {"object": "transcription.chunk", "choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 2}}\n\n'
    b"data: [DONE]\n\n"
)


@pytest.mark.parametrize("stream", [OPENAI_STREAM, OPENAI_STREAM + b"data: [DONE]\n\n", VLLM_STREAM])
async def test_streams_of_both_kinds_are_read(stream: bytes) -> None:
    async with hearing(Heard({"stream": ("text/event-stream", stream)})) as (client, observer):
        events = [
            each async for each in await client.audio.transcriptions.create(model="whisper", file=WAV, stream=True)
        ]
        told = observer.of(RequestFinished)[-1]
    assert [each.delta for each in events[:-1]] == ["One", " sheep"]
    assert (events[-1].text, events[-1].usage.total_tokens) == ("One sheep", 9)
    assert (told.outcome, told.prompt_tokens) == ("ok", 7)


@pytest.mark.parametrize(
    ("kind", "body", "status"),
    [
        (JSON, b'{"error": {"message": "secret words of the server"}}', 500),
        (JSON, b"{}", 200),
        (JSON, b"no json", 200),
        ("text/event-stream", b'data: {"type": "transcript.text.delta", "delta": "One"}\n\n', 200),
    ],
)
async def test_what_goes_wrong_at_the_server_is_an_error_without_its_words(kind: str, body: bytes, status: int) -> None:
    async with hearing(Heard({"json": (kind, body)}, status=status)) as (client, _):
        with pytest.raises(openai.APIStatusError) as error:
            await client.audio.transcriptions.create(model="whisper", file=WAV)
    assert error.value.status_code >= 500
    assert "secret" not in error.value.message
