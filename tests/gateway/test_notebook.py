"""What a notebook shows and does: a gateway in one line, cards, and a synchronous client used where it would wait for itself."""

import asyncio

import httpx
import httpx2
import openai
import pytest
from tests.gateway.conftest import body

from smg_core import Gateway
from smg_core.cards import MOST_ROWS, card

pytestmark = pytest.mark.anyio


async def test_awaiting_a_gateway_starts_it() -> None:
    gateway = await Gateway.simulated()
    try:
        assert gateway.ready_now
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


async def test_a_simulated_gateway_without_engines_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one engine"):
        Gateway.simulated(engines=0)
