"""The embedded engine when it is told to go wrong, over real gRPC; and the sockets it stands on."""

import asyncio
import os
import signal
import sys
from pathlib import Path

import grpc
import pytest
import trustme
from tests.engine_kinds import DIALECTS
from tests.shared import PATIENCE
from tests.simulator.peer import Answer, peer

from smg_core.errors import EngineFailed, EngineGarbled
from smg_core.testing import FakeClock
from smg_simulator.answers.faults import Fault
from smg_simulator.engine.clockwork import Timing
from smg_simulator.engine.engine import SimulatorConfig
from smg_simulator.engine.prefix_cache import BlocksCleared
from smg_simulator.server.grpc_server import SimulatedEngine

pytestmark = pytest.mark.anyio
CODECS = {name: row.codec() for name, row in DIALECTS.items()}


@pytest.fixture(params=CODECS)
def codec(request):
    return CODECS[request.param]


def with_fault(*faults: Fault | None, **timing) -> SimulatorConfig:
    return SimulatorConfig(faults=faults, timing=Timing(**timing))


async def until(condition) -> None:
    async with asyncio.timeout(PATIENCE):
        while not condition():
            await asyncio.sleep(0)


async def broken(client, **given) -> tuple[Answer, grpc.aio.AioRpcError]:
    """What came before the call broke, and what it broke with."""
    answer = Answer()
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await client.read(client.request(**given), answer)
    return answer, caught.value


# -------------------------------------------------------------------------------------------------------------- faults


async def test_a_refused_request_is_not_taken_and_the_next_one_is(codec) -> None:
    async with SimulatedEngine(with_fault(Fault("refuse"))) as engine, peer(engine, codec) as client:
        answer, error = await broken(client)

        assert (answer.messages, error.code()) == ([], grpc.StatusCode.UNAVAILABLE)
        assert len(engine.requests) == 0
        assert (await client.ask()).last.finish == "stop"
        assert engine.counters["faults"] == 1


async def test_a_refusal_has_the_status_it_is_given(codec) -> None:
    config = with_fault(Fault("refuse", status="RESOURCE_EXHAUSTED", message="full"))
    async with SimulatedEngine(config) as engine, peer(engine, codec) as client:
        _, error = await broken(client)

        assert (error.code(), error.details()) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "full")


@pytest.mark.parametrize("after", [0, 3])
async def test_a_cut_stream_breaks_where_it_is_told(codec, after: int) -> None:
    async with SimulatedEngine(with_fault(Fault("cut", after))) as engine, peer(engine, codec) as client:
        answer, error = await broken(client)

        assert (len(answer.ids), error.code()) == (after, grpc.StatusCode.UNAVAILABLE)
        await until(lambda: engine.active == 0)  # its own handler ends after the connection did


async def test_an_error_before_the_first_token_is_a_status(codec) -> None:
    async with SimulatedEngine(with_fault(Fault("error", message="boom"))) as engine, peer(engine, codec) as client:
        _, error = await broken(client)

        assert (error.code(), error.details()) == (grpc.StatusCode.INTERNAL, "boom")


async def test_a_later_error_is_a_status_or_in_band_as_the_dialect_has_it() -> None:
    async with SimulatedEngine(with_fault(*[Fault("error", after=2)] * 2)) as engine:
        async with peer(engine, CODECS["vllm"]) as client:
            answer, error = await broken(client)
            assert (len(answer.ids), error.code()) == (2, grpc.StatusCode.INTERNAL)
        async with peer(engine, CODECS["neutral"]) as client:
            answer = Answer()
            with pytest.raises(EngineFailed):
                await client.read(client.request(), answer)
            assert len(answer.ids) == 2


async def test_a_silent_stream_ends_without_an_end(codec) -> None:
    async with SimulatedEngine(with_fault(Fault("silence", after=2))) as engine, peer(engine, codec) as client:
        answer = await client.ask()

        assert (len(answer.ids), answer.last.finish) == (2, None)


async def test_garbage_is_no_message(codec) -> None:
    async with SimulatedEngine(with_fault(Fault("garbage", after=2))) as engine, peer(engine, codec) as client:
        with pytest.raises(EngineGarbled):
            await client.ask()


@pytest.mark.sampled(keep=2)
@pytest.mark.parametrize("after", [0, 2])
async def test_a_stalled_stream_goes_on_when_its_time_has_passed(codec, after: int) -> None:
    clock = FakeClock()
    config = with_fault(Fault("stall", after, seconds=30))
    async with SimulatedEngine(config, timer=clock) as engine, peer(engine, codec) as client:
        answer = Answer()
        asking = asyncio.create_task(client.read(client.request(), answer))
        await until(lambda: clock.next_alarm is not None and len(answer.ids) == after)
        assert clock.next_alarm == clock.monotonic() + 30

        clock.advance(30)

        assert (await asking).last.finish == "stop"


async def test_a_stream_stalled_for_ever_ends_with_the_client_or_an_abort(codec) -> None:
    async with SimulatedEngine(with_fault(Fault("stall"), Fault("stall"))) as engine, peer(engine, codec) as client:
        call = client.call(client.request(id="left"))
        await until(lambda: engine.active == 1)
        call.cancel()
        await until(lambda: engine.active == 0)

        asking = asyncio.create_task(client.ask(id="aborted"))
        await until(lambda: engine.active == 1)
        await client.tell(codec.abort("aborted"))

        if codec.name == "sglang":  # an aborted stream never ends
            await until(lambda: "aborted" in engine.aborted)
            asking.cancel()
        else:
            outputs = (await asking).outputs  # MLX ends an aborted stream without an end
            assert [each.finish for each in outputs] == ([] if codec.name in ("mlx", "trtllm") else ["abort"])
        assert list(engine.aborted) == ["left", "aborted"]


async def test_a_dripping_stream_takes_its_time_for_every_token(codec) -> None:
    clock = FakeClock()
    config = with_fault(Fault("drip", after=1, seconds=7))
    async with SimulatedEngine(config, timer=clock) as engine, peer(engine, codec) as client:
        began = clock.monotonic()
        asking = asyncio.create_task(client.ask(max_tokens=4, ignore_eos=True))
        while not asking.done():
            if clock.next_alarm is not None:
                clock.advance(clock.next_alarm - clock.monotonic())
            await asyncio.sleep(0)

        assert len((await asking).ids) == 4
        assert clock.monotonic() - began == 21


@pytest.mark.sampled(keep=3)
async def test_faults_can_be_added_while_it_runs(codec) -> None:
    async with SimulatedEngine() as engine, peer(engine, codec) as client:
        await client.ask()
        engine.inject(None, Fault("cut"))

        await client.ask()
        await broken(client)


# --------------------------------------------------------------------------------------------------- coming and going


async def test_a_restart_drops_every_stream_and_comes_back_empty_on_the_same_port(codec) -> None:
    async with SimulatedEngine(with_fault(None, Fault("restart", after=2))) as engine, peer(engine, codec) as client:
        prompt = list(range(100, 150))
        before, instance = engine.target, engine.instance
        await client.ask(prompt)

        answer, _ = await broken(client, prompt=prompt)
        assert len(answer.ids) == 2
        await until(lambda: engine.serving)

        again = await _patiently(client, prompt)
        assert (engine.target, again.last.cached_tokens) == (before, 0)
        assert engine.instance != instance
        assert engine.counters["restarts"] == 1


@pytest.mark.sampled(keep=4)
async def test_an_engine_that_restarts_may_stay_away_for_a_while(codec) -> None:
    clock = FakeClock()
    async with SimulatedEngine(timer=clock) as engine, peer(engine, codec) as client:
        cursor = engine.feed.last
        restarting = asyncio.create_task(engine.restart(away=30))
        await until(lambda: clock.next_alarm is not None)

        _, error = await broken(client)
        assert (engine.serving, error.code()) == (False, grpc.StatusCode.UNAVAILABLE)

        clock.advance(30)
        await restarting
        assert (await _patiently(client, "Hello")).last.finish == "stop"
        assert next(batch.changes for batch in engine.feed.after(cursor)) == (BlocksCleared(),)


async def _patiently(client, prompt) -> Answer:
    """Ask until the channel has found the engine again."""
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                return await client.ask(prompt)
            except grpc.aio.AioRpcError:
                await client.channel.channel_ready()


async def test_it_listens_on_a_unix_socket(codec, tmp_path: Path) -> None:
    async with SimulatedEngine(listen=f"unix://{tmp_path}/s") as engine, peer(engine, codec) as client:
        assert engine.target == f"unix://{tmp_path}/s"
        assert (await client.ask()).last.finish == "stop"


async def test_a_taken_address_is_an_error_that_names_it() -> None:
    async with SimulatedEngine() as engine:
        address = engine.target.removeprefix("grpc://")
        with pytest.raises(OSError, match=address):
            await SimulatedEngine(listen=address).start()


@pytest.mark.parametrize("mutual", [False, True])
async def test_it_speaks_tls_and_may_ask_for_a_certificate(mutual: bool, tmp_path: Path) -> None:
    ca = trustme.CA()
    server, user = ca.issue_cert("localhost"), ca.issue_cert("user")
    server.private_key_pem.write_to_path(tmp_path / "key")
    server.cert_chain_pems[0].write_to_path(tmp_path / "cert")
    ca.cert_pem.write_to_path(tmp_path / "ca")
    config = SimulatorConfig(
        tls_certificate=str(tmp_path / "cert"),
        tls_key=str(tmp_path / "key"),
        tls_client_ca=str(tmp_path / "ca") if mutual else "",
    )
    shown = grpc.ssl_channel_credentials(
        ca.cert_pem.bytes(), user.private_key_pem.bytes(), user.cert_chain_pems[0].bytes()
    )
    bare = grpc.ssl_channel_credentials(ca.cert_pem.bytes())

    async with SimulatedEngine(config, listen="localhost:0") as engine:
        assert engine.target.startswith("grpcs://localhost:")
        async with peer(engine, CODECS["vllm"], shown) as client:
            assert (await client.ask()).last.finish == "stop"
        async with peer(engine, CODECS["vllm"], bare) as client:
            if mutual:
                _, error = await broken(client)
                assert error.code() is grpc.StatusCode.UNAVAILABLE
            else:
                assert (await client.ask()).last.finish == "stop"


async def test_a_stop_with_grace_lets_answers_finish(codec) -> None:
    clock = FakeClock()
    config = SimulatorConfig(timing=Timing(decode_rate=10))
    engine = SimulatedEngine(config, timer=clock)
    await engine.start()
    async with peer(engine, codec) as client:
        answer = Answer()
        asking = asyncio.create_task(client.read(client.request(max_tokens=3, ignore_eos=True), answer))
        await until(lambda: clock.next_alarm is not None)
        stopping = asyncio.create_task(engine.stop(grace=60))
        while not asking.done():
            clock.advance(0.1)
            await asyncio.sleep(0)

        assert (await asking).last.finish == "length"
        await stopping


@pytest.mark.full
async def test_the_command_serves_until_it_is_told_to_stop() -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "smg_simulator", "--port", "0", "--model", "mini",
        stdout=asyncio.subprocess.PIPE, env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )  # fmt: skip
    async with asyncio.timeout(PATIENCE):
        word, target, folder = (await process.stdout.readline()).decode().split()
        async with grpc.aio.insecure_channel(target.removeprefix("grpc://")) as channel:
            asked = CODECS["vllm"].model
            info = asked.parse(await channel.unary_unary(asked.path)(asked.message))
        process.send_signal(signal.SIGTERM)

        assert (word, info.model, info.tokenizer_path) == ("ready", "mini", folder)
        assert await process.wait() == 0
