"""What clients of the Messages API really sent, replayed as it was: headers, betas, blocks, and texts of the lengths they had.

tests/captures/messages has the requests, recorded from unmodified clients. Where a text was left out, its length stands in its
place, and a text of that length is sent.
"""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from tests.gateway.conftest import House, in_process

from smg_core import Config
from smg_core.http.settings import ModelConfig
from smg_core.sse import SseReader
from smg_simulator.answers.replies import Reply
from smg_simulator.conform.messages_stream import MessagesGrammar
from smg_simulator.engine.engine import SimulatorConfig

pytestmark = pytest.mark.anyio

CAPTURES = Path(__file__).parents[1] / "captures" / "messages"
COUNT = "/v1/messages/count_tokens"
REFUSED = ("mcp_servers",)
"""Fields that are refused by name."""
LEFT_OUT = re.compile(r"<(\d+) chars>")
CONFIG = Config(model=ModelConfig(aliases=("*=sim",)))
SIMULATOR = SimulatorConfig(context_length=200_000, replies=(Reply("Done.", "Let me think."),) * 2)


def filled(value: Any) -> Any:
    """`value` with texts of the lengths that stand in their places."""
    if isinstance(value, dict):
        return {name: filled(each) for name, each in value.items()}
    if isinstance(value, list):
        return [filled(each) for each in value]
    if isinstance(value, str) and (found := LEFT_OUT.fullmatch(value)):
        return ("word " * int(found[1]))[: int(found[1])].rstrip() + "."
    return value


def captured() -> list[Any]:
    found, said = [], {}
    for path in sorted(CAPTURES.glob("*.json"), reverse=True):
        for order, exchange in enumerate(json.loads(path.read_text())["exchanges"]):
            body = exchange["body"]
            said = {name: body[name] for name in ("messages", "system", "tools") if name in body} or said
            sent = {**said, **body} if "messages" not in body else body  # this recording has the rest of the body alone
            found.append(pytest.param(exchange["target"], exchange["headers"], sent, id=f"{path.stem}-{order}"))
    return found


async def asked(house: House, target: str, headers: dict[str, str], body: dict[str, Any]) -> Any:
    return await house.http.post(target, json=filled(body), headers=headers)


def faults_of(stream: bytes) -> list[str]:
    grammar = MessagesGrammar()
    events = SseReader().feed(stream)
    found = [fault for event in events for fault in grammar.take(event)]
    return found if grammar.state == "ended" else [*found, f"the stream stops where {grammar.state}"]


@pytest.mark.sampled(keep=5)
@pytest.mark.parametrize(("target", "headers", "body"), captured())
async def test_what_clients_send_is_answered_and_counted_as_it_is_charged(
    target: str, headers: dict[str, str], body: dict[str, Any]
) -> None:
    path, _, query = target.partition("?")
    async with in_process(SIMULATOR, config=CONFIG) as house:
        answer = await asked(house, target, headers, body)
        if refused := [name for name in REFUSED if name in body]:
            assert answer.status_code == 400
            assert refused[0] in answer.json()["error"]["message"]
            return
        counted = await asked(house, f"{COUNT}?{query}", headers, body)
        prompts = [house.gateway.models["sim"].tokenizer.decode(sent.input_ids) for sent in house.engine.requests]

    assert answer.status_code == counted.status_code == 200, answer.text
    assert not any("x-anthropic-billing-header" in prompt for prompt in prompts)
    count = counted.json()["input_tokens"]
    if path == COUNT:
        assert answer.json()["input_tokens"] == count
        assert not prompts
        return
    if not body.get("stream"):
        message = answer.json()
        assert message["content"]
        usage = message["usage"]
    else:
        assert faults_of(answer.content) == []
        deltas = [json.loads(line[6:]) for line in answer.text.splitlines() if line.startswith("data: ")]
        usage = next(event["usage"] for event in deltas if event["type"] == "message_delta")
    assert count == sum(usage[f"{kind}_tokens"] for kind in ("input", "cache_creation_input", "cache_read_input"))


async def test_both_ways_of_asking_again_have_one_prompt() -> None:
    """What Claude Code sends after a stream that broke off: the same request without the stream."""
    exchanges = json.loads((CAPTURES / "claude-code-nonstream-fallback.json").read_text())["exchanges"]
    said = json.loads((CAPTURES / "claude-code-tool-turn.json").read_text())["exchanges"][-1]["body"]
    async with in_process(SIMULATOR, config=CONFIG) as house:
        for exchange in exchanges:
            answer = await asked(
                house, exchange["target"], exchange["headers"], {**said, "stream": False, **exchange["body"]}
            )
            assert answer.status_code == 200, answer.text
        first, second = house.engine.requests
    assert list(first.input_ids) == list(second.input_ids)
