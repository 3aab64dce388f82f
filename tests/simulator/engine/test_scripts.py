"""Pauses and faults of scripted replies, and replies that wait for their prompt, in every dialect."""

import grpc
import pytest
from tests.simulator.peer import peer
from tests.simulator.server.test_grpc_server import CODECS, refusal, until

from smg_core.testing import FakeClock
from smg_simulator.answers.faults import Fault
from smg_simulator.answers.replies import Reply, Rule, Script
from smg_simulator.engine.engine import SimulatorConfig
from smg_simulator.server.grpc_server import SimulatedEngine

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("codec", CODECS.values(), ids=CODECS)
@pytest.mark.parametrize("stream", [True, False])
async def test_a_pause_stands_where_the_script_has_it(codec, stream: bool) -> None:
    clock = FakeClock()
    replies = (Reply("It is sunny.", pauses=((0, 2.0), (6, 0.5))),)
    async with SimulatedEngine(SimulatorConfig(replies=replies), timer=clock) as engine, peer(engine, codec) as client:
        request = client.request(range(10, 20), stream=stream)
        call = client.call(request)
        words, waits = engine.engine.vocabulary, []
        while engine.counters["finished"] == 0:
            await until(lambda: clock.next_alarm is not None or engine.counters["finished"])
            if clock.next_alarm is not None:
                waits.append(clock.next_alarm - clock.monotonic())
                clock.advance(waits[-1])
        decoder = codec.decoder(request)
        ids = [token for message in await client.rest(call) for out in decoder.feed([message]) for token in out.ids]

        assert waits == [2.0, 0.5]
        assert words.decode(ids, skip_special_tokens=True) == "It is sunny."


async def test_a_reply_brings_its_own_fault() -> None:
    replies = (Reply(fault=Fault("refuse")), Reply("It is sunny.", fault=Fault("cut", after=2)), Reply("Fine."))
    async with SimulatedEngine(SimulatorConfig(replies=replies)) as engine, peer(engine, CODECS["vllm"]) as client:
        for _ in range(2):
            assert (await refusal(client.ask())).code() is grpc.StatusCode.UNAVAILABLE

        said = engine.engine.vocabulary.decode((await client.ask()).ids, skip_special_tokens=True)
        assert (said, engine.counters["faults"], engine.counters["finished"]) == ("Fine.", 2, 1)


async def test_a_rule_brings_its_fault_each_time() -> None:
    rules = (Rule((), Reply("It is sunny.", fault=Fault("error"))),)
    async with SimulatedEngine(SimulatorConfig(rules=rules)) as engine, peer(engine, CODECS["vllm"]) as client:
        for _ in range(2):
            assert (await refusal(client.ask())).code() is grpc.StatusCode.INTERNAL


def test_a_reply_waits_for_a_prompt_with_its_words() -> None:
    script = Script([Reply("one"), Reply("two", when=("Sunny", "paris"))])

    assert [script.next(prompt) for prompt in ("", "sunny", "Is it SUNNY in Paris?", "more")] == [
        Reply("one"), None, Reply("two", when=("Sunny", "paris")), None
    ]  # fmt: skip


def test_a_script_that_repeats_begins_anew() -> None:
    script = Script([Reply("one"), Reply("two")], repeat=True)

    assert [reply.text for _ in range(5) if (reply := script.next()) is not None] == ["one", "two", "one", "two", "one"]


@pytest.mark.parametrize(
    ("pauses", "pieces"),
    [(((9, 1.0),), ()), (((2, 1.0), (1, 1.0)), ()), (((0, -1.0),), ()), (((0, 1.0),), ("a",))],
)
def test_pauses_that_cannot_be_are_refused(pauses: tuple, pieces: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="pause"):
        Reply("word", pauses=pauses, pieces=pieces)
