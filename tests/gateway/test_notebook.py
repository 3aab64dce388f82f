"""What a notebook shows and does: a gateway in one line, cards, and a synchronous client used where it would wait for itself."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import attrs
import httpx
import httpx2
import openai
import pytest
from tests.gateway.conftest import body, eventually

from smg_core import Config, Gateway
from smg_core.cards import MOST_ROWS, card
from smg_core.http.settings import ServerConfig
from smg_core.workers.settings import WorkersConfig
from smg_simulator.server.grpc_server import SimulatedEngine

pytestmark = pytest.mark.anyio


async def test_awaiting_a_gateway_starts_it() -> None:
    gateway = await Gateway.simulated()
    try:
        assert gateway.services.registry.any_ready
    finally:
        await gateway.stop()


async def test_a_synchronous_sdk_on_the_gateways_own_thread_raises_what_to_do_instead() -> None:
    async with Gateway.simulated() as gateway:
        client = openai.OpenAI(http_client=gateway.sync_http_client(), base_url="http://gateway/v1", api_key="-")
        asked = {"model": "sim", "messages": [{"role": "user", "content": "Hello"}]}
        with pytest.raises(openai.BadRequestError, match=r"gateway\.http_client"):
            client.chat.completions.create(**asked)
        answer = await asyncio.to_thread(client.chat.completions.create, **asked)

    assert answer.choices[0].message.content


@pytest.mark.parametrize("module", [httpx, httpx2])
@pytest.mark.parametrize(
    ("path", "key"),
    [("/v1/chat/completions", "code"), ("/v1/messages", "type"), ("/v1beta/models/m:generateContent", "status")],
)
async def test_the_misuse_is_told_in_the_envelope_of_the_api(module, path: str, key: str) -> None:
    async with Gateway.simulated() as gateway:
        with gateway.sync_http_client(module, base_url="http://gateway") as http:
            answer = http.post(path, json=body())

    assert answer.status_code == 400
    assert key in answer.json()["error"]
    assert "asyncio.to_thread" in answer.json()["error"]["message"]


async def test_gateway_worker_and_explanation_show_themselves_in_a_line_and_in_a_card() -> None:
    async with Gateway.simulated(engines=2) as gateway:
        explanation = await gateway.explain(body("<script>alert(1)</script>"))
        (worker, _) = gateway.registry
        shown = [gateway, worker, explanation]
        lines, cards = [repr(each) for each in shown], [each._repr_html_() for each in shown]

    assert lines[0].startswith("<Gateway started: sim; ")
    assert lines[1] == "<Worker simulator-0 ready: sim; 0 in flight>"
    assert lines[2].startswith("<Explanation model='sim' worker='simulator-")
    assert all(len(line) < 200 for line in lines)
    assert "simulator-1" in cards[0]
    assert "&lt;script&gt;" in cards[2]
    assert all("<script>" not in each and each.startswith("<table>") and each.endswith("</table>") for each in cards)


def test_a_gateway_that_was_not_started_shows_itself_too() -> None:
    gateway = Gateway(["grpc://a:1"])

    assert repr(gateway) == "<Gateway not started: no model yet; 0 of 0 workers ready, 0 in flight>"
    assert "not started" in gateway._repr_html_()


def test_a_card_is_bounded() -> None:
    shown = card("many", [("x" * 10_000,)] * 10_000)

    assert f"{10_000 - MOST_ROWS} more" in shown
    assert len(shown) < MOST_ROWS * 1000


async def test_what_needs_a_started_gateway_says_how_to_start_it() -> None:
    gateway = Gateway.simulated()
    with pytest.raises(RuntimeError, match="await gateway"):
        gateway.sync_http_client()
    with pytest.raises(RuntimeError, match="await gateway"):
        await gateway.explain(body())


async def test_waiting_for_a_worker_that_does_not_come_says_which_is_missing_and_why() -> None:
    gateway = Gateway(["unix:///nowhere/engine.sock"])
    await gateway.start()
    try:
        with pytest.raises(TimeoutError, match=r"within 0 s: unix:///nowhere/engine\.sock \("):
            await gateway.ready(0)
    finally:
        await gateway.stop()


async def entered(gateway: Gateway) -> None:
    async with gateway:
        raise AssertionError("there is no worker to wait for")


async def awaited(gateway: Gateway) -> None:
    await gateway


WAYS = [entered, awaited]


@pytest.mark.parametrize("way", WAYS)
async def test_the_start_waits_for_a_worker_as_long_as_the_settings_say(
    way: Callable[[Gateway], Awaitable[None]],
) -> None:
    config = Config(server=ServerConfig(wait_for_workers_s=0.01))
    gateway = Gateway(["unix:///nowhere/engine.sock"], config=config)
    with pytest.raises(TimeoutError, match=r"within 0\.01 s: unix:///nowhere/engine\.sock"):
        await way(gateway)
    assert not gateway.started


@pytest.mark.parametrize("way", WAYS)
async def test_the_start_waits_for_a_minute_where_the_settings_say_nothing(
    way: Callable[[Gateway], Awaitable[None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[float | None] = []

    async def ready(self: Gateway, timeout: float | None = 0) -> None:
        asked.append(timeout)
        raise TimeoutError

    monkeypatch.setattr(Gateway, "ready", ready)
    with pytest.raises(TimeoutError):
        await way(Gateway(["grpc://127.0.0.1:9"]))
    assert asked == [60.0]


async def test_a_gateway_that_nothing_brings_workers_says_so_at_once_and_takes_those_that_are_added(
    caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    async with SimulatedEngine() as engine:
        gateway = Gateway()
        start = asyncio.create_task(gateway.__aenter__())
        await eventually(lambda: "no engine to send requests to" in caplog.text)
        gateway.add_worker(engine.target)
        async with await start:
            assert gateway.services.registry.any_ready

    caplog.clear()
    (tmp_path / "workers.yaml").write_text("[]")
    workers = WorkersConfig(file=str(tmp_path / "workers.yaml"))
    for quiet in (Config(workers=workers), Config(workers=WorkersConfig(urls=("grpc://127.0.0.1:9",)))):
        config = attrs.evolve(quiet, server=ServerConfig(wait_for_workers_s=0.01))
        with pytest.raises(TimeoutError):
            await Gateway(config=config)
    assert "no engine" not in caplog.text


@pytest.mark.parametrize("make", [Gateway, Gateway.simulated, partial(Gateway.launch, "vllm")])
def test_an_unknown_argument_is_told_as_one_of_the_gateway(make: Callable[..., Gateway]) -> None:
    with pytest.raises(TypeError, match=r"^Gateway\.__init__\(\) got an unexpected keyword argument 'worker'"):
        make(worker=["grpc://a:1"])


async def test_a_simulated_gateway_without_engines_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one engine"):
        Gateway.simulated(engines=0)
