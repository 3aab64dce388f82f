"""What the gateway's own code raises while it reads an engine's output ends that answer, in the words of its API, and nothing
else: no breaker, no probe, no retry, no other answer. Every stage, every API and every way to an engine is walked."""

import asyncio
import itertools
import json
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import httpx
import pytest
from tests.engine_kinds import DIALECTS, HTTP_DIALECTS
from tests.gateway.conftest import House, in_process, over_http, settled
from tests.gateway.fleet import CALM, Member, Prefer, fleet, joined
from tests.gateway.test_failures import taken_apart
from tests.gateway.test_http_engines import house_of
from tests.gateway.test_plugins import listed
from tests.gateway.test_prefill_decode import WAYS, pools
from tests.gateway.test_said import APIS
from tests.peers import listening

from smg_core import Config, Gateway
from smg_core.config import BreakerConfig, ObservabilityConfig
from smg_core.engines.openai.events import ChatDecoder
from smg_core.errors import EngineGarbled, EngineStalled, WorkerBusy, WorkerGone
from smg_core.hooks import AttemptEnded, BreakerChanged, RequestFinished, Retrying, WorkerStateChanged
from smg_core.pipeline.output.chat_reader import ChatReader
from smg_core.pipeline.output.processor import OutputProcessor
from smg_core.serving import inference
from smg_core.testing import MemoryObserver
from smg_core.tokenizer.stream import StopMatcher
from smg_core.workers.worker import WorkerSpec
from smg_parsers import Parser
from smg_simulator.answers.replies import Reply, Rule
from smg_simulator.engine.engine import SimulatorConfig

pytestmark = pytest.mark.anyio

WORDS = "one two three four five six seven eight nine ten"
SECRET = "a secret of the answer"
SAYS = SimulatorConfig(rules=(Rule((), Reply(WORDS)),))
CONFIG = attrs.evolve(
    CALM,
    workers=attrs.evolve(CALM.workers, migrations=3),
    breaker=BreakerConfig(failures=1, share=0.01),
    observability=ObservabilityConfig(repeat_s=0.0),
)
TOLD = "The gateway failed on this request."


class Planted(Exception):
    """What no code of the gateway's raises on purpose."""


@attrs.define
class Fault:
    """Raises at call number `at` of a method, and at every later call of the same object."""

    at: int
    kind: type[BaseException] = Planted
    calls: int = 0
    broken: list[object] = attrs.field(factory=list)

    def plant(self, patch: pytest.MonkeyPatch, owner: type, name: str) -> None:
        real = getattr(owner, name)

        def planted(of: object, *given: Any, **named: Any) -> Any:
            self.calls += 1
            if self.calls == self.at or any(of is each for each in self.broken):
                self.broken.append(of)
                raise self.kind(SECRET)
            return real(of, *given, **named)

        patch.setattr(owner, name, planted)


Plant = Callable[[pytest.MonkeyPatch, House, Fault, bool], None]
"""Has `fault` raised in one stage of the answers of `house`, streamed or whole."""


def in_class(owner: type, name: str) -> Plant:
    return lambda patch, house, fault, stream: fault.plant(patch, owner, name)


def in_codec(patch: pytest.MonkeyPatch, house: House, fault: Fault, stream: bool) -> None:
    """In the decoder that the dialect's codec makes for a call, whatever its class."""
    (kind,) = {type(worker.engine.codec) for worker in house.gateway.registry}  # type: ignore[union-attr]
    real = kind.decoder

    class Decoder:
        def __init__(self, codec: Any, request: Any) -> None:
            self.decoder = real(codec, request)

        def feed(self, messages: Any) -> Any:
            return self.decoder.feed(messages)

    fault.plant(patch, Decoder, "feed")
    patch.setattr(kind, "decoder", lambda codec, request: Decoder(codec, request))


def in_detokeniser(patch: pytest.MonkeyPatch, house: House, fault: Fault, stream: bool) -> None:
    tokenizer = house.gateway.models["sim"].tokenizer
    assert tokenizer is not None
    fault.plant(patch, type(tokenizer.decoder()), "feed")


def in_encoder(patch: pytest.MonkeyPatch, house: House, fault: Fault, stream: bool) -> None:
    """In the encoder of whichever API is asked; those of another gateway in this process are left alone."""
    real = inference.answer_to

    def answer_to(*given: Any) -> Any:
        answer: Any = real(*given)
        if house.gateway.services not in given:
            return answer
        for part in getattr(answer, "parts", None) or [answer]:
            make, kind = part._make_encoder, type(part.encoder)
            broken = type("Broken", (kind,), {"__slots__": ()})
            fault.plant(patch, broken, "encode" if stream else "add")

            def made(make: Any = make, broken: type = broken) -> Any:
                encoder = make()
                encoder.__class__ = broken
                return encoder

            part._make_encoder, part._encoder.__class__ = made, broken
        return answer

    patch.setattr(inference, "answer_to", answer_to)


STAGES: dict[str, Plant] = {
    "decoder": in_codec,
    "reader": in_class(OutputProcessor, "feed"),
    "detokeniser": in_detokeniser,
    "stop strings": in_class(StopMatcher, "feed"),
    "parser": in_class(Parser, "plain"),
    "end of the parser": in_class(Parser, "finish"),
    "encoder": in_encoder,
}
CHAT_STAGES: dict[str, Plant] = {
    "decoder": in_class(ChatDecoder, "feed"),
    "reader": in_class(ChatReader, "feed"),
    "encoder": in_encoder,
}
OBJECT_STAGES = {**CHAT_STAGES, "decoder": in_class(ChatDecoder, "whole")}
PARSED = ("parser", "end of the parser")
ONCE = ("end of the parser", "decoder", "reader")
"""What may be called only once for an answer that comes whole."""
WITHOUT_PARSER = ("completions", "generate")
MORE: dict[str, dict[str, Any]] = {
    "chat": {"tools": [{"type": "function", "function": {"name": "f"}}], "stop": "never"},
    "completions": {"stop": "never"},
    "responses": {"tools": [{"type": "function", "name": "f"}], "stop": "never"},
    "messages": {"tools": [{"name": "f", "input_schema": {"type": "object"}}], "stop_sequences": ["never"]},
    "gemini": {
        "tools": [{"functionDeclarations": [{"name": "f"}]}],
        "generationConfig": {"stopSequences": ["never"]},
    },
    "generate": {"sampling_params": {"max_new_tokens": 99, "stop": "never"}},
    "interactions": {"tools": [{"type": "function", "name": "f"}], "generation_config": {"stop_sequences": ["never"]}},
}
"""What has a parser and a stop matcher read the answer."""


def configured(transport: str) -> Config:
    return attrs.evolve(CONFIG, workers=attrs.evolve(CONFIG.workers, transport=transport))


def over_grpc(transport: str, dialect: str) -> AbstractAsyncContextManager[House]:
    members = Member("a", dialect, SAYS), Member("b", dialect, SAYS)
    return fleet(*members, config=configured(transport), policy=Prefer("a"))


@asynccontextmanager
async def before_servers(*urls: str, name: str) -> AsyncIterator[House]:
    observer = MemoryObserver()
    specs = [WorkerSpec(url, name=f"{name}{place}") for place, url in enumerate(urls)]
    async with Gateway(specs, config=CONFIG, observer=observer) as gateway:
        for each in specs:
            await joined(gateway, each.name)
        async with gateway.http_client(httpx, base_url="http://gateway") as http:
            yield House(gateway, http, observer)


@asynccontextmanager
async def before_gateways() -> AsyncIterator[House]:
    """Workers of Chat Completions that answer with a stream of events: two names of another gateway."""
    async with over_http(SAYS) as far, before_servers(far.url, far.url, name="far") as house:
        yield house


async def answer_with_an_object(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
    await reader.readexactly(sum(int(each.split(":")[1]) for each in head.split("\r\n") if "content-length:" in each))
    said: dict[str, Any] = {"data": [{"id": "sim", "object": "model", "max_model_len": 4096}]}
    if head.startswith("post"):
        message = {"role": "assistant", "content": WORDS}
        said = {"id": "x", "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}
    sent = json.dumps(said).encode()
    fields = b"content-type: application/json\r\nconnection: close\r\ncontent-length: %d" % len(sent)
    writer.write(b"HTTP/1.1 200 OK\r\n%b\r\n\r\n%b" % (fields, sent))
    await writer.drain()
    writer.close()


@asynccontextmanager
async def before_objects() -> AsyncIterator[House]:
    """Workers of Chat Completions that answer with one object, whatever they are asked for."""
    async with listening(answer_with_an_object) as port:
        urls = f"http://127.0.0.1:{port}", f"http://localhost:{port}"
        async with before_servers(*urls, name="object") as house:
            yield house


Door = Callable[[], AbstractAsyncContextManager[House]]


def _over(transport: str, dialect: str) -> Door:
    return lambda: over_grpc(transport, dialect)


def _http(dialect: str) -> Door:
    return lambda: house_of(dialect, SAYS, SAYS, config=CONFIG)


DOORS: dict[str, tuple[Door, dict[str, Plant]]] = {
    **{
        f"{dialect} over {transport}": (_over(transport, dialect), STAGES)
        for transport in ("h2", "grpcio")
        for dialect in DIALECTS
    },
    **{dialect: (_http(dialect), STAGES) for dialect in HTTP_DIALECTS},
    "chat, a stream": (before_gateways, CHAT_STAGES),
    "chat, an object": (before_objects, OBJECT_STAGES),
}


async def one_fault(
    house: House,
    caplog: pytest.LogCaptureFixture,
    plant: Plant,
    at: int,
    *,
    api: str,
    stream: bool,
    family: str,
    kind: type[BaseException] = Planted,
) -> None:
    """Plant one fault, ask until it was raised, and look at all that must follow of it, and at all that must not."""
    path, asked, streamed, *_ = APIS[api]
    asked = {**asked, **MORE[api]}
    if stream:
        path, asked = streamed, asked if api == "gemini" else {**asked, "stream": True}
    house.observer.moments.clear()
    caplog.clear()
    fault, counted, answers = Fault(at, kind), [], 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            house.gateway.services.running.monitor, "outcome", lambda worker, error, *_: counted.append(error)
        )
        plant(patch, house, fault, stream)
        while not fault.broken and answers < at:
            answer = await house.http.post(path, json=asked)
            answers += 1
        assert fault.broken, f"the fault was not met in {answers} answers"
    await settled(house)

    moments = house.observer.moments
    assert answer.status_code == 500 or (stream and answer.status_code == 200), answer.text
    assert TOLD in answer.text
    assert SECRET not in answer.text
    assert [each for each in counted if each is not None] == []
    assert len(house.observer.of(AttemptEnded)) == len(house.observer.of(RequestFinished)) == answers
    assert house.observer.of(RequestFinished)[-1].outcome == "ReadingFailed"
    assert not [each for each in moments if isinstance(each, BreakerChanged | Retrying | WorkerStateChanged)]
    (logged,) = [each for each in caplog.records if each.levelno >= logging.WARNING]
    line = logged.getMessage()
    assert f"family {family}: {kind.__name__} at " in line
    assert not any(each in line for each in (SECRET, "one two", "Hi"))


def family_of(house: House, api: str) -> str:
    parser = house.gateway.models["sim"].parser
    if parser is None or api in WITHOUT_PARSER:
        return "none"
    return "none" if all(not each.facts.takes_ids for each in house.gateway.registry) else parser.name


@pytest.mark.full
@pytest.mark.sampled(keep=2)
@pytest.mark.parametrize("door", DOORS)
async def test_a_fault_in_any_stage_is_not_the_engines_whatever_the_way_to_it(
    door: str, caplog: pytest.LogCaptureFixture
) -> None:
    opened, stages = DOORS[door]
    async with opened() as house:
        for (stage, plant), stream in itertools.product(stages.items(), (False, True)):
            for at in (1,) if stage in ONCE else (1, 2):
                await one_fault(house, caplog, plant, at, api="chat", stream=stream, family=family_of(house, "chat"))
        again = await house.chat("Hi")

    assert again.json()["choices"][0]["message"]["content"] == WORDS


IN_DISGUISE = (WorkerGone, EngineGarbled, EngineStalled, WorkerBusy, asyncio.CancelledError)
"""What is raised for an engine's sake elsewhere, or the client's: from code that reads text it is neither's."""
READS_TEXT = ("detokeniser", "stop strings", *PARSED)


@pytest.mark.full
@pytest.mark.sampled(keep=2)
@pytest.mark.parametrize("kind", IN_DISGUISE)
@pytest.mark.parametrize("door", ["vllm over h2", "vllm over grpcio", *HTTP_DIALECTS])
async def test_a_fault_that_looks_like_the_engines_or_the_clients_is_neither(
    door: str, kind: type[BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    opened, stages = DOORS[door]
    async with opened() as house:
        for stage, stream in itertools.product(READS_TEXT, (False, True)):
            family = family_of(house, "chat")
            await one_fault(house, caplog, stages[stage], 1, api="chat", stream=stream, family=family, kind=kind)
        again = await house.chat("Hi")

    assert again.json()["choices"][0]["message"]["content"] == WORDS


ASKED = [("vllm over h2", api) for api in APIS]
ASKED += [
    ("chat, a stream", api) for api in APIS if api not in WITHOUT_PARSER
]  # a prompt as it stands is no conversation


@pytest.mark.sampled(keep=2)
@pytest.mark.parametrize(("door", "api"), ASKED)
async def test_a_fault_in_any_stage_is_told_in_the_words_of_every_api(
    door: str, api: str, caplog: pytest.LogCaptureFixture
) -> None:
    opened, stages = DOORS[door]
    async with opened() as house:
        for (stage, plant), stream in itertools.product(stages.items(), (False, True)):
            if stage not in PARSED or api not in WITHOUT_PARSER:
                await one_fault(house, caplog, plant, 1, api=api, stream=stream, family=family_of(house, api))


async def text_of(house: House, **fields: Any) -> str:
    return taken_apart(await house.chat("Hi", stream=True, **fields)).text


@pytest.mark.sampled(keep=3)
@pytest.mark.parametrize("door", ["vllm over h2", "vllm over grpcio", *HTTP_DIALECTS])
async def test_answers_over_the_same_connection_go_on(door: str, monkeypatch: pytest.MonkeyPatch) -> None:
    opened, _ = DOORS[door]
    async with opened() as house:
        Fault(2).plant(monkeypatch, StopMatcher, "feed")
        others = [asyncio.create_task(text_of(house)) for _ in range(8)]
        broken = await house.chat("Hi", stream=True, stop="never")
        texts = await asyncio.gather(*others)

    assert TOLD in broken.text
    assert texts == [WORDS] * 8


@pytest.mark.sampled(keep=2)
@pytest.mark.parametrize("way", WAYS)
async def test_a_fault_is_not_that_of_either_engine_where_two_share_a_request(
    way: tuple[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    async with pools(way, ("p", "q"), ("d", "e"), config=CONFIG) as house:
        stages = [(in_codec, 1), (in_codec, 2), *((STAGES[each], 1) for each in ("reader", *PARSED, "encoder"))]
        for (plant, at), stream in itertools.product(stages, (False, True)):
            caplog.clear()
            house.observer.moments.clear()
            told: list[Any] = []
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(
                    house.gateway.services.running.monitor,
                    "outcome",
                    lambda worker, error, *_, told=told: told.append(error),
                )
                patch.setattr(
                    house.gateway.services.running.monitor, "handover", lambda *given, told=told: told.append(given[2])
                )
                plant(patch, house, Fault(at), stream)
                answer = await house.chat("Hi", stream=stream, **MORE["chat"])
            await settled(house)

            assert answer.status_code == 500 or (stream and TOLD in answer.text), answer.text
            assert [each for each in told if each is not None] == []
            assert not [each for each in house.observer.moments if isinstance(each, BreakerChanged | Retrying)]
            (line,) = [each.getMessage() for each in caplog.records if each.levelno >= logging.WARNING]
            assert f"family {family_of(house, 'chat')}: Planted at " in line


POOLED: dict[str, dict[str, Any]] = {
    "/v1/embeddings": {"model": "sim", "input": ["Hi", "there"]},
    "/v2/embed": {"model": "sim", "texts": ["Hi"], "input_type": "search_query", "embedding_types": ["float"]},
    "/v1/rerank": {"model": "sim", "query": "Hi", "documents": ["one", "two"]},
    "/v1/score": {"model": "sim", "text_1": "Hi", "text_2": ["one", "two"]},
    "/v1beta/models/sim:embedContent": {"content": {"parts": [{"text": "Hi"}]}},
}


@pytest.mark.sampled(keep=2)
@pytest.mark.parametrize("path", POOLED)
@pytest.mark.parametrize("transport", ["h2", "grpcio"])
async def test_a_fault_in_pooled_work_is_not_the_engines(
    path: str, transport: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    config, model = configured(transport), SimulatorConfig(generation_model=False, embedding_size=8)
    async with fleet(Member("a", engine=model), Member("b", engine=model), config=config, policy=Prefer("a")) as house:
        (kind,) = {type(each.engine.codec) for each in house.gateway.registry}  # type: ignore[union-attr]
        real = kind.embed
        counted: list[Any] = []
        monkeypatch.setattr(
            house.gateway.services.running.monitor, "outcome", lambda worker, error, *_: counted.append(error)
        )

        def embed(*given: Any) -> Any:
            def parse(answer: bytes) -> Any:
                raise Planted(SECRET)

            return attrs.evolve(real(*given), parse=parse)

        monkeypatch.setattr(kind, "embed", embed)
        answer = await house.http.post(path, json=POOLED[path])
        monkeypatch.setattr(kind, "embed", real)
        again = await house.http.post(path, json=POOLED[path])
        moments = house.observer.moments

    assert (answer.status_code, again.status_code) == (500, 200), answer.text
    assert TOLD in answer.text
    assert [each for each in counted if each is not None] == []
    assert not [each for each in moments if isinstance(each, BreakerChanged | Retrying)]
    logged = [each.getMessage() for each in caplog.records if each.levelno >= logging.WARNING]
    assert logged
    assert all("Planted at " in each and SECRET not in each for each in logged)


@pytest.mark.parametrize("stream", [False, True])
async def test_a_plugin_that_fails_is_not_the_engines_either(stream: bool, tmp_path: Path) -> None:
    entry = {"source": "tests.gateway.test_plugin_failures:RaisingOfText", "config": {"do": "event raise"}}
    config = attrs.evolve(listed(tmp_path, entry), workers=CONFIG.workers, breaker=CONFIG.breaker)
    async with in_process(SAYS, config=config) as house:
        counted: list[Any] = []
        house.gateway.services.running.monitor.outcome = lambda worker, error, *_: counted.append(error)  # type: ignore[method-assign]
        answer = await house.chat("Hi", stream=stream)
        await settled(house)

    assert "A plugin of this gateway failed." in answer.text
    assert [each for each in counted if each is not None] == []
    assert len(house.observer.of(AttemptEnded)) == 1
