"""An engine that repeats the prompt in its errors brings no word of it into a log, a metric or a span: over every dialect, with
every status, before the first token and in the middle of an answer. What says why it failed is there."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import attrs
import httpx
import pytest
from tests.engine_kinds import DIALECTS, HTTP_DIALECTS
from tests.gateway.collector import collecting
from tests.gateway.conftest import CHAT, JSON, House, body
from tests.gateway.fleet import Member, fleet
from tests.gateway.test_http_engines import house_of
from tests.gateway.test_metrics import meter_of
from tests.shared import PATIENCE

from smg_core import Config, Gateway
from smg_core.observability.logs import AccessLog, configure
from smg_core.observability.settings import ObservabilityConfig, TracesConfig
from smg_core.routing.settings import RoutingConfig
from smg_core.testing import MemoryObserver
from smg_core.workers.settings import BreakerConfig, WorkersConfig
from smg_simulator.answers.faults import STATUSES, Fault
from smg_simulator.answers.replies import Reply, Rule
from smg_simulator.engine.engine import SimulatorConfig

pytestmark = pytest.mark.anyio

PROMPT = "canaryprompt"
"""A word that no fault is told with; in it a digit would part it from other words."""
SAID = f"CUDA error while it read '{PROMPT} Zwölf {PROMPT}_7' of 8123 tokens, ids [81, 82, 83, 84, 85]"
KEPT = "CUDA error while it read"
NUMBERS = "81, 82"
QUIET = Config(
    workers=WorkersConfig(health_interval_s=3600.0, loads_interval_s=3600.0),
    breaker=BreakerConfig(failures=0),
    routing=RoutingConfig(retries=0),
    observability=ObservabilityConfig(log_level="debug", log_format="json", repeat_s=0),
)
FAULTS = (
    *(Fault("refuse", status=status, message=SAID) for status in sorted(STATUSES)),
    *(Fault("error", after, status=status, message=SAID) for after in (0, 2) for status in ("INTERNAL", "UNAVAILABLE")),
    Fault("garbage", 1),
)
OWN_PEERS = ("httpx", "httpcore", "asyncio")
FULL = attrs.evolve(SimulatorConfig(seed=1), rules=(Rule((), Reply("one two three four five six seven eight")),))


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    levels = {name: logging.getLogger(name).level for name in OWN_PEERS}
    yield
    root.handlers[:] = before
    root.setLevel(level)
    for name, each in levels.items():
        logging.getLogger(name).setLevel(each)


def log_all(*, words: bool = False) -> None:
    """Write the whole log to standard error, but for what the test's own client says."""
    configure("debug", "json", words=words)
    for name in OWN_PEERS:
        logging.getLogger(name).setLevel(logging.WARNING)


async def ask_all(house: House, faults: tuple[Fault, ...]) -> list[int]:
    statuses = []
    for fault in faults:
        for path, fields in (
            (CHAT, body(PROMPT)),
            (CHAT, body(PROMPT, stream=True)),
            ("/v1/responses", {"model": "sim", "input": PROMPT, "store": False}),
        ):
            house.engine.inject(fault)
            statuses.append((await house.http.post(path, json=fields, timeout=PATIENCE)).status_code)
    return statuses


async def metrics_of(observer: MemoryObserver) -> str:
    meter = meter_of()
    for moment in observer.moments:
        for each in (AccessLog(), meter.recorder):
            each.report(moment)
    return (await meter.text("text/plain")).decode()


def searched(log: str, metrics: str, sent: bytes = b"") -> None:
    failures = [json.loads(line) for line in log.splitlines() if '"smg.failures"' in line]
    assert failures
    assert [each for each in failures if KEPT in each["detail"]]
    for name, text in (("log", log), ("metrics", metrics), ("spans", sent.decode("utf-8", "replace"))):
        for word in (PROMPT, "Zwölf", NUMBERS):
            assert word not in text, (name, text[max(0, text.index(word) - 300) :][:500])


@pytest.mark.full
@pytest.mark.sampled(keep=4)
@pytest.mark.parametrize("dialect", [*DIALECTS, *HTTP_DIALECTS])
async def test_no_dialect_lets_an_engine_repeat_a_prompt(dialect: str, capsys: pytest.CaptureFixture[str]) -> None:
    log_all()
    with collecting() as collector:
        config = attrs.evolve(QUIET, traces=TracesConfig(endpoint=collector.url, delay_s=0.02))
        opened = (
            house_of(dialect, FULL, config=config)
            if dialect in HTTP_DIALECTS
            else fleet(Member("a", dialect, FULL), config=config)
        )
        async with opened as house:
            statuses = await ask_all(house, FAULTS)
            metrics = await metrics_of(house.observer)
        sent = b"".join(collector.bytes)

    assert {400, 500, 503, 504} <= set(statuses)
    assert len(collector.spans) > len(FAULTS)
    searched(capsys.readouterr().err, metrics, sent)


async def test_a_gateway_that_is_configured_to_has_the_words_of_engines_in_whole(
    capsys: pytest.CaptureFixture[str],
) -> None:
    log_all(words=True)
    settings = attrs.evolve(QUIET.observability, fault_words=True)
    async with fleet(Member("a", "vllm", FULL), config=attrs.evolve(QUIET, observability=settings)) as house:
        await ask_all(house, (Fault("error", message=SAID),))

    assert PROMPT in capsys.readouterr().err


# ------------------------------------------------------------------------------------------------------------- the chat door

MODELS = b'{"object":"list","data":[{"id":"sim","object":"model","max_model_len":4096}]}'
ERROR = json.dumps({"error": {"message": SAID, "type": PROMPT, "code": PROMPT}}).encode()
BARE = json.dumps({"detail": [{"msg": SAID, "loc": [PROMPT]}]}).encode()
CHUNK = b'data: {"choices":[{"index":0,"delta":{"content":"Hi"}}]}\n\n'
EVENTS = "content-type: text/event-stream"
ECHOES: dict[str, tuple[str, str, bytes]] = {
    **{f"status {each}": (f"{each} {PROMPT}", "content-type: application/json", ERROR) for each in (400, 500, 503)},
    **{f"bare {each}": (f"{each} No", "content-type: application/json", BARE) for each in (401, 404, 422, 429, 502)},
    "text": ("500 No", "content-type: text/plain", SAID.encode()),
    "elsewhere": (f"307 {PROMPT}", f"location: http://127.0.0.1:1/{PROMPT}?{PROMPT}", b""),
    "compressed": ("200 OK", f"content-encoding: {PROMPT}", SAID.encode()),
    "another type": ("200 OK", f"content-type: text/{PROMPT}", SAID.encode()),
    "error as 200": ("200 OK", "content-type: application/json", ERROR),
    "no JSON": ("200 OK", "content-type: application/json", SAID.encode()),
    "of another shape": ("200 OK", EVENTS, f'data: {{"choices": "{PROMPT}", "usage": "{PROMPT}"}}\n\n'.encode()),
    "error at first": ("200 OK", EVENTS, b"data: " + ERROR + b"\n\n"),
    "error in the stream": ("200 OK", EVENTS, CHUNK + b"data: " + ERROR + b"\n\n"),
    "error as text": ("200 OK", EVENTS, CHUNK + f'data: {{"error": "{SAID}"}}\n\n'.encode()),
    "junk in the stream": ("200 OK", EVENTS, CHUNK + f"data: {SAID}\n\n".encode()),
    "an event of its own": ("200 OK", EVENTS, f"event: {PROMPT}\n".encode() + CHUNK + b"data: [DONE]\n\n"),
    "an odd finish": (
        "200 OK",
        EVENTS,
        f'data: {{"choices":[{{"index":0,"delta":{{"content":"x"}},"finish_reason":"{PROMPT}"}}]}}\n\n'.encode(),
    ),
    "no HTTP": (PROMPT, f"{PROMPT} {SAID}", b""),
}


class Echo:
    """A server of models that repeats the prompt in whatever it says."""

    def __init__(self) -> None:
        self.says = ECHOES["text"]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
        length = [int(line.split(":")[1]) for line in head.split("\r\n") if line.startswith("content-length:")]
        await reader.readexactly(sum(length))
        status, header, said = self.says if head.startswith("post") else ("200 OK", "x-models: 1", MODELS)
        begins = "" if status == PROMPT else "HTTP/1.1 "
        writer.write(f"{begins}{status}\r\n{header}\r\nconnection: close\r\n".encode())
        writer.write(f"content-length: {len(said)}\r\n\r\n".encode() + said)
        await writer.drain()
        writer.close()
        await writer.wait_closed()


@asynccontextmanager
async def echoing() -> AsyncIterator[tuple[House, Echo]]:
    echo, observer = Echo(), MemoryObserver()
    server = await asyncio.start_server(echo.serve, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with Gateway([url], config=QUIET, observer=observer) as gateway:
        await gateway.ready()
        async with gateway.http_client(httpx, base_url="http://gateway", headers=JSON) as http:
            yield House(gateway, http, observer), echo
    server.close()


async def test_no_server_of_a_chat_api_can_repeat_a_prompt(capsys: pytest.CaptureFixture[str]) -> None:
    log_all()
    async with echoing() as (house, echo):
        for echo.says in ECHOES.values():
            for fields in (body(PROMPT), body(PROMPT, stream=True)):
                await house.http.post(CHAT, json=fields, timeout=PATIENCE)
        metrics = await metrics_of(house.observer)
    log = capsys.readouterr().err

    assert log.count('"smg.failures"') >= 2 * (len(ECHOES) - 2)
    searched(log, metrics)
