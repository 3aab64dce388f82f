"""The embedded engine over real gRPC, in every dialect: grpcio is the client."""

import asyncio
import hashlib
import io
import json
import zipfile
from itertools import pairwise
from pathlib import Path

import grpc
import pytest
from tests.engine_kinds import DIALECTS
from tests.shared import PATIENCE
from tests.simulator.peer import Peer, peer

from smg_core.engines.constraint import Constraint
from smg_core.testing import FakeClock
from smg_engine_contract import engine_pb2 as neutral
from smg_engine_contract.engines import common_pb2 as common
from smg_engine_contract.engines import mlx_engine_pb2 as mlx
from smg_engine_contract.engines import sglang_scheduler_pb2 as sglang
from smg_engine_contract.engines import vllm_engine_pb2 as vllm
from smg_simulator.answers.replies import Reply
from smg_simulator.engine.clockwork import Timing
from smg_simulator.engine.engine import SimulatorConfig
from smg_simulator.server.grpc_server import SimulatedEngine

pytestmark = pytest.mark.anyio
CODECS = {name: row.codec() for name, row in DIALECTS.items()}


@pytest.fixture(params=CODECS)
def codec(request):
    return CODECS[request.param]


@pytest.fixture(params=["vllm", "neutral"])
def full(request):
    """A dialect that has every call and every field."""
    return CODECS[request.param]


@pytest.fixture(params=["vllm", "neutral", "sglang"])
def calling(request):
    """A dialect that has every call."""
    return CODECS[request.param]


@pytest.fixture(params=sorted(CODECS))
def seeded(request):
    """A dialect, and a seed where it has a field for one."""
    codec = CODECS[request.param]
    return codec, {"seed": 3} if codec.facts.seed else {}


async def refusal(asking) -> grpc.aio.AioRpcError:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await asking
    return caught.value


async def until(condition) -> None:
    """Let the loop run until `condition` holds; the test's own time limit is the loop's."""
    async with asyncio.timeout(PATIENCE):
        while not condition():
            await asyncio.sleep(0)


# ------------------------------------------------------------------------------------------------------------- answers


async def test_an_answer_streams_and_ends(seeded) -> None:
    codec, seed = seeded
    async with SimulatedEngine() as engine, peer(engine, codec) as client:
        answer = await client.ask(**seed)

        assert client.text(answer.ids).endswith(".<|im_end|>")
        assert len(answer.messages) == len(answer.ids) + 1
        assert answer.last.finish == "stop"
        assert answer.last.prompt_tokens == len(client.request().input_ids)
        assert (engine.counters["requests"], engine.counters["finished"], engine.active) == (1, 1, 0)
        assert engine.counters["tokens"] == len(answer.ids)
        assert engine.requests[0].sampling.seed == seed.get("seed")


async def test_whole_and_streamed_answers_are_the_same(seeded) -> None:
    codec, seed = seeded
    async with SimulatedEngine() as engine, peer(engine, codec) as client:
        streamed = await client.ask(**seed, logprobs=2)
        whole = await client.ask(**seed, logprobs=2, stream=False)

        assert whole.ids == streamed.ids
        assert len(whole.messages) <= 2
        assert [row for each in whole.outputs for row in each.logprobs] == [
            row for each in streamed.outputs for row in each.logprobs
        ]


@pytest.mark.parametrize("sampling", [{}, {"n": 2, "temperature": 1.0, "logprobs": 1}, {"stream": False}])
async def test_the_rust_servicer_is_read_as_the_python_one_is(sampling: dict) -> None:
    answers = []
    for servicer in ("python", "rust"):
        async with (
            SimulatedEngine(SimulatorConfig(vllm_servicer=servicer)) as engine,
            peer(engine, CODECS["vllm"]) as client,
        ):
            answers.append(await client.ask(seed=3, **sampling))

    python, rust = answers
    assert [(each.index, each.ids, each.finish, each.logprobs) for each in python.outputs] == [
        (each.index, each.ids, each.finish, each.logprobs) for each in rust.outputs
    ]
    ends = [vllm.GenerateResponse.FromString(answer.messages[-1]).complete for answer in answers]
    assert (ends[0].completion_tokens == ends[1].completion_tokens) == (sampling == {"stream": False})


async def test_the_rust_servicer_has_its_own_habits() -> None:
    config = SimulatorConfig(vllm_servicer="rust", timing=Timing(decode_rate=10))
    clock = FakeClock()
    async with SimulatedEngine(config, timer=clock) as engine, peer(engine, CODECS["vllm"]) as client:
        text = client.stream((client.codec.generate_path, vllm.GenerateRequest(text="Hello").SerializeToString()))
        with pytest.raises(grpc.aio.AioRpcError):
            await text.read()

        first = client.call(client.request(id="twin", max_tokens=100, ignore_eos=True))
        await until(lambda: clock.next_alarm is not None)
        error = await refusal(client.ask(id="twin"))
        assert error.code() is grpc.StatusCode.ALREADY_EXISTS
        await first.read()
        await client.tell(client.codec.abort("twin"))
        (last,) = await client.rest(first)
        end = vllm.GenerateResponse.FromString(last).complete
        assert (end.finish_reason, len(end.output_ids)) == ("abort", 1)


async def test_both_dialects_say_the_same_on_one_port() -> None:
    async with (
        SimulatedEngine() as engine,
        peer(engine, CODECS["vllm"]) as one,
        peer(engine, CODECS["neutral"]) as other,
    ):
        assert (await one.ask()).ids == (await other.ask()).ids


async def test_several_choices_interleave_and_each_ends(full) -> None:
    async with SimulatedEngine() as engine, peer(engine, full) as client:
        answer = await client.ask(n=3, temperature=1.0, max_tokens=4)

        assert [output.index for output in answer.outputs[:3]] == [0, 1, 2]
        assert sorted(output.index for output in answer.outputs if output.finish) == [0, 1, 2]


async def test_several_tokens_a_message(codec) -> None:
    config = SimulatorConfig(timing=Timing(tokens_per_step=8))
    async with SimulatedEngine(config) as engine, peer(engine, codec) as client:
        answer = await client.ask(ignore_eos=True, max_tokens=20)

        assert [len(output.ids) for output in answer.outputs if output.ids] == [8, 8, 4]


async def test_a_scripted_reply_comes_piece_by_piece(codec) -> None:
    async with SimulatedEngine() as engine, peer(engine, codec) as client:
        engine.say(Reply(pieces=("Hel", "lo, wide world")))
        answer = await client.ask()

        pieces = [client.text(output.ids) for output in answer.outputs if output.ids]
        assert pieces == ["Hel", "lo, wide world", "<|im_end|>"]


async def test_prompt_logprobs_come_with_the_first_message(calling) -> None:
    async with SimulatedEngine() as engine, peer(engine, calling) as client:
        answer = await client.ask([5, 6, 7], prompt_logprobs=1, max_tokens=2)

        rows = answer.outputs[0].prompt_logprobs
        assert rows[0] is None
        assert [row.token_id for row in rows[1:]] == [6, 7]


async def test_a_constraint_is_kept(calling) -> None:
    async with SimulatedEngine() as engine, peer(engine, calling) as client:
        answer = await client.ask(constraint=Constraint("choice", choices=("yes", "no")))

        assert client.text(answer.ids) in {"yes<|im_end|>", "no<|im_end|>"}


async def test_what_matched_is_told(calling) -> None:
    async with SimulatedEngine() as engine, peer(engine, calling) as client:
        engine.say(Reply("one two three"), Reply("one two three"))

        assert (await client.ask(stop=("two",))).last.matched == "two"
        two = engine.engine.vocabulary.encode(" two")[0]
        assert (await client.ask(stop_token_ids=(two,))).last.matched == two


async def test_text_is_taken_where_the_dialect_has_it() -> None:
    async with SimulatedEngine() as engine, peer(engine, CODECS["vllm"]) as client:
        message = vllm.GenerateRequest(request_id="t", text="Hello").SerializeToString()
        call = client.stream((client.codec.generate_path, message))

        assert [each async for each in call]
        assert list(engine.requests[0].input_ids) == list(engine.engine.vocabulary.encode("Hello"))


@pytest.mark.parametrize("prompt", [[], [10**6], [5] * 40_000])
async def test_a_prompt_that_breaks_engines_is_refused(codec, prompt) -> None:
    async with SimulatedEngine() as engine, peer(engine, codec) as client:
        error = await refusal(client.ask(prompt))

        assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert (engine.counters["refused"], engine.active) == (1, 0)


async def test_greedy_choices_are_refused_as_vllm_does() -> None:
    async with SimulatedEngine() as engine, peer(engine, CODECS["vllm"]) as client:
        error = await refusal(client.ask(n=2, temperature=0.0))

        assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert "greedy" in error.details()


async def test_noise_in_place_of_a_request_is_refused(codec) -> None:
    async with SimulatedEngine() as engine, peer(engine, codec) as client:
        call = client.stream((codec.generate_path, b"\xff\xff"))

        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call.read()
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT


# ---------------------------------------------------------------------------------------------------- time and aborts

SLOW = SimulatorConfig(timing=Timing(prefill_rate=100, decode_rate=10, batch=1, queue=1))


async def test_tokens_come_when_they_are_due(codec) -> None:
    clock = FakeClock()
    async with SimulatedEngine(SLOW, timer=clock) as engine, peer(engine, codec) as client:
        request = client.request(range(10, 60), max_tokens=3, ignore_eos=True)
        call = client.call(request)
        await until(lambda: clock.next_alarm is not None)
        first = clock.next_alarm - clock.monotonic()
        assert first == pytest.approx(0.5)

        times = []
        for _ in range(3):
            clock.advance(clock.next_alarm - clock.monotonic())
            assert await call.read() is not grpc.aio.EOF
            times.append(clock.monotonic())
            await until(lambda: clock.next_alarm is not None or engine.active == 0)
        assert [b - a for a, b in pairwise(times)] == pytest.approx([0.1, 0.1])
        assert [codec.decoder(request).feed([each])[0].finish for each in await client.rest(call)] == ["length"]


async def test_an_abort_ends_the_answer_with_an_end(full) -> None:
    clock = FakeClock()
    async with SimulatedEngine(SLOW, timer=clock) as engine, peer(engine, full) as client:
        request = client.request(id="doomed", ignore_eos=True, max_tokens=1000)
        decoder, call = full.decoder(request), client.call(request)
        await until(lambda: clock.next_alarm is not None)
        clock.advance(1)
        outputs = decoder.feed([await call.read()])

        await client.tell(full.abort("doomed"))
        for message in await client.rest(call):
            outputs += decoder.feed([message])

        assert outputs[-1].finish == "abort"
        assert await call.code() is grpc.StatusCode.OK
        assert (list(engine.aborted), engine.counters["aborts"]) == (["doomed"], 1)
        assert engine.clockwork.running == 0


async def test_mlx_ends_an_aborted_answer_without_an_end() -> None:
    clock = FakeClock()
    async with SimulatedEngine(SLOW, timer=clock) as engine, peer(engine, CODECS["mlx"]) as client:
        call = client.call(client.request(id="doomed", ignore_eos=True, max_tokens=1000))
        await until(lambda: clock.next_alarm is not None)
        clock.advance(1)
        await call.read()
        await client.tell(client.codec.abort("doomed"))

        left = [mlx.GenerateResponse.FromString(each) for each in await client.rest(call)]
        assert all(each.HasField("chunk") for each in left)
        assert await call.code() is grpc.StatusCode.OK
        assert list(engine.aborted) == ["doomed"]


async def test_sglang_never_ends_an_aborted_answer_until_its_client_leaves() -> None:
    clock = FakeClock()
    async with SimulatedEngine(SLOW, timer=clock) as engine, peer(engine, CODECS["sglang"]) as client:
        call = client.call(client.request(id="doomed", ignore_eos=True, max_tokens=1000))
        await until(lambda: clock.next_alarm is not None)
        clock.advance(1)
        await call.read()
        await client.tell(client.codec.abort("doomed"))
        await until(lambda: "doomed" in engine.aborted)

        assert engine.active == 1
        call.cancel()
        await until(lambda: engine.active == 0)


async def test_aborting_nobody_is_no_error(codec) -> None:
    async with SimulatedEngine() as engine, peer(engine, codec) as client:
        await client.tell(codec.abort("unknown"))

        assert engine.counters["aborts"] == 0


async def test_a_client_that_hangs_up_is_noticed_and_its_place_is_free(codec) -> None:
    clock = FakeClock()
    async with SimulatedEngine(SLOW, timer=clock) as engine, peer(engine, codec) as client:
        call = client.call(client.request(id="gone"))
        waiting = client.call(client.request(id="next", max_tokens=1))
        await until(lambda: engine.clockwork.waiting == 1)
        call.cancel()
        await until(lambda: engine.active == 1 and clock.next_alarm is not None)
        assert (list(engine.aborted), engine.counters["cancelled"]) == (["gone"], 1)

        clock.advance(5)
        assert [each async for each in waiting]


async def test_a_waiting_request_can_be_aborted(full) -> None:
    async with SimulatedEngine(SLOW, timer=FakeClock()) as engine, peer(engine, full) as client:
        running = client.call(client.request(id="first"))
        await until(lambda: engine.clockwork.running == 1)
        waiting = asyncio.create_task(client.ask(id="second"))
        await until(lambda: engine.clockwork.waiting == 1)

        await client.tell(full.abort("second"))

        assert (await waiting).last.finish == "abort"
        assert engine.clockwork.waiting == 0
        running.cancel()


async def test_a_calling_queue_refuses(calling) -> None:
    async with SimulatedEngine(SLOW, timer=FakeClock()) as engine, peer(engine, calling) as client:
        calls = [client.call(client.request(id=f"r-{number}")) for number in range(2)]
        await until(lambda: engine.active == 2)

        error = await refusal(client.ask(id="r-3"))

        assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        load = await client.tell(calling.loads)
        assert (load.running, load.waiting, load.ranks[0].max_running) == (1, 1, 1)
        for call in calls:
            call.cancel()


@pytest.mark.parametrize(("name", "both_run"), [("vllm", True), ("neutral", False)])
async def test_a_second_request_of_the_same_id(name: str, both_run: bool) -> None:
    async with SimulatedEngine(SLOW, timer=FakeClock()) as engine, peer(engine, CODECS[name]) as client:
        first = client.call(client.request(id="twin"))
        await until(lambda: engine.active == 1)
        second = client.call(client.request(id="twin"))

        if both_run:
            await until(lambda: engine.active == 2)
            second.cancel()
        else:
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await second.read()
            assert caught.value.code() is grpc.StatusCode.ALREADY_EXISTS
        first.cancel()


# ----------------------------------------------------------------------------------------------- the cache and its events


async def test_a_prefix_seen_before_is_reported_as_cached(calling) -> None:
    async with SimulatedEngine(SimulatorConfig(block_size=8)) as engine, peer(engine, calling) as client:
        prompt = list(range(100, 140))
        cached = [(await client.ask(prompt, max_tokens=2)).last.cached_tokens for _ in range(2)]

        assert cached == [0, 32]
        assert engine.load().cache_hit_rate == pytest.approx(0.4)


async def test_a_salt_keeps_prefixes_apart() -> None:
    async with SimulatedEngine() as engine, peer(engine, CODECS["neutral"]) as client:
        prompt = list(range(100, 140))
        cached = [(await client.ask(prompt, cache_salt=salt)).last.cached_tokens for salt in ("a", "b", "a")]

        assert cached == [0, 0, 32]


async def subscribed(client: Peer, message: bytes = b""):
    call = client.stream((f"/{client.service}/SubscribeKvEvents", message))
    await call.initial_metadata()
    return call


async def test_a_vllm_subscriber_hears_what_is_stored_evicted_and_cleared() -> None:
    config = SimulatorConfig(block_size=4, blocks=4)
    async with SimulatedEngine(config) as engine, peer(engine, CODECS["vllm"]) as client:
        call = await subscribed(client)
        await client.ask(range(100, 116), max_tokens=1)
        await client.ask(range(200, 208), max_tokens=1)
        await client.unary(f"/{client.service}/FlushCache", b"")

        batches = [common.KvEventBatch.FromString(await call.read()) for _ in range(3)]

        assert [batch.sequence_number for batch in batches] == [0, 1, 2]
        (stored,) = batches[0].events
        assert [list(block.token_ids) for block in stored.stored.blocks][1] == [104, 105, 106, 107]
        assert not stored.stored.HasField("parent_block_hash")
        held = [block.block_hash for block in stored.stored.blocks]
        removed = [each for event in batches[1].events for each in event.removed.block_hashes]
        assert removed == held[:1:-1]
        assert [event.event_id for batch in batches for event in batch.events] == list(range(1, 6))
        assert batches[2].events[0].WhichOneof("data") == "cleared"
        call.cancel()


async def test_a_vllm_cursor_is_not_replayed() -> None:
    async with SimulatedEngine() as engine, peer(engine, CODECS["vllm"]) as client:
        call = await subscribed(client, common.SubscribeKvEventsRequest(start_sequence_number=1).SerializeToString())

        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call.read()
        assert caught.value.code() is grpc.StatusCode.OUT_OF_RANGE


async def test_a_neutral_subscriber_can_go_on_from_a_cursor() -> None:
    async with SimulatedEngine(SimulatorConfig(block_size=4)) as engine, peer(engine, CODECS["neutral"]) as client:
        for start in (100, 200, 300):
            await client.ask(range(start, start + 8), max_tokens=1)
        call = await subscribed(client, neutral.SubscribeKvEventsRequest(after=1).SerializeToString())

        batches = [neutral.KvEventBatch.FromString(await call.read()) for _ in range(2)]

        assert [batch.sequence for batch in batches] == [2, 3]
        assert list(batches[0].events[0].stored.token_ids) == list(range(200, 208))
        call.cancel()
        ahead = await subscribed(client, neutral.SubscribeKvEventsRequest(after=9).SerializeToString())
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await ahead.read()
        assert caught.value.code() is grpc.StatusCode.OUT_OF_RANGE


async def test_a_neutral_subscriber_hears_what_leaves() -> None:
    config = SimulatorConfig(block_size=4, blocks=4)
    async with SimulatedEngine(config) as engine, peer(engine, CODECS["neutral"]) as client:
        call = await subscribed(client)
        await client.ask(range(100, 116), max_tokens=1)
        await client.ask(range(200, 208), max_tokens=1)

        first, second = [neutral.KvEventBatch.FromString(await call.read()) for _ in range(2)]

        stored = first.events[0].stored
        gone = [digest for event in second.events for digest in event.removed.hashes]
        assert (stored.block_size, len(stored.token_ids), stored.HasField("parent")) == (4, 16, False)
        assert gone == list(stored.hashes)[:1:-1]
        call.cancel()


# ------------------------------------------------------------------------------------------------------ the other calls


async def test_the_engine_tells_about_itself(calling) -> None:
    config = SimulatorConfig(model="mini", block_size=32)
    async with SimulatedEngine(config) as engine, peer(engine, calling) as client:
        info = await client.tell(calling.model)
        server = await client.tell(calling.describes)

        assert (info.model, info.tokenizer_path) == ("mini", engine.model_folder)
        assert (info.context_length, info.vocab_size) == (32768, engine.engine.vocabulary.size)
        assert info.default_sampling["temperature"] == 0.7
        assert (server.block_size, server.ranks) == (32, 1)
        assert await client.tell(calling.health)


async def test_an_engine_can_say_that_it_is_not_well(codec) -> None:
    async with SimulatedEngine() as engine, peer(engine, codec) as client:
        engine.healthy = False

        assert not await client.tell(codec.health)
        assert await client.unary("/grpc.health.v1.Health/Check", b"") == b"\x08\x02"


async def test_the_tokenizer_is_handed_out(codec) -> None:
    async with SimulatedEngine() as engine, peer(engine, codec) as client:
        pieces = [codec.tokenizer.parse(each) async for each in client.stream((codec.tokenizer.path, b""))]
        archive = b"".join(piece for piece, _ in pieces)

        assert pieces[-1][1] == hashlib.sha256(archive).hexdigest()
        with zipfile.ZipFile(io.BytesIO(archive)) as bundle:
            assert {"tokenizer.json", "config.json", "chat_template.jinja"} <= set(bundle.namelist())
            assert bundle.read("tokenizer.json") == (Path(engine.model_folder) / "tokenizer.json").read_bytes()


async def test_a_tokenizer_that_the_client_has_is_not_sent_again() -> None:
    async with SimulatedEngine() as engine, peer(engine, CODECS["neutral"]) as client:
        path = client.codec.tokenizer.path
        first = [neutral.TokenizerChunk.FromString(each) async for each in client.stream((path, b""))]
        known = neutral.GetTokenizerRequest(known_sha256=first[0].sha256).SerializeToString()

        again = [neutral.TokenizerChunk.FromString(each) async for each in client.stream((path, known))]

        assert sum(len(each.data) for each in first) == first[0].total_bytes
        assert [(each.data, each.sha256) for each in again] == [(b"", first[0].sha256)]


async def test_an_embedding_model_embeds(calling) -> None:
    async with SimulatedEngine(SimulatorConfig(generation_model=False)) as engine, peer(engine, calling) as client:
        vector = await client.tell(calling.embed("e", client.request().input_ids))

        assert (len(vector.values), vector.tokens) == (64, 2)
        said = await client.unary(calling.model.path)
        reads = {
            "vllm": lambda: vllm.GetModelInfoResponse.FromString(said).is_generation,
            "neutral": lambda: neutral.GetModelResponse.FromString(said).model.generates,
            "sglang": lambda: sglang.GetModelInfoResponse.FromString(said).is_generation,
        }
        assert not reads[calling.name]()
        error = await refusal(client.ask())
        assert error.code() is grpc.StatusCode.INVALID_ARGUMENT


async def test_a_generating_model_does_not_embed(calling) -> None:
    async with SimulatedEngine() as engine, peer(engine, calling) as client:
        error = await refusal(client.tell(calling.embed("e", client.request().input_ids)))

        assert error.code() is grpc.StatusCode.INVALID_ARGUMENT


async def test_the_standard_health_service_answers() -> None:
    async with SimulatedEngine() as engine, peer(engine, CODECS["vllm"]) as client:
        name = b"\x0a" + bytes([len(client.service)]) + client.service.encode()

        assert await client.unary("/grpc.health.v1.Health/Check", b"") == b"\x08\x01"
        assert await client.unary("/grpc.health.v1.Health/Check", name) == b"\x08\x01"
        error = await refusal(client.unary("/grpc.health.v1.Health/Check", b"\x0a\x01x"))
        assert error.code() is grpc.StatusCode.NOT_FOUND
        watch = client.stream(("/grpc.health.v1.Health/Watch", b"\x0a\x01x"))
        assert await watch.read() == b"\x08\x03"
        watch.cancel()


async def test_what_there_is_not_is_unimplemented() -> None:
    async with SimulatedEngine() as engine, peer(engine, CODECS["vllm"]) as client:
        error = await refusal(client.unary(f"/{client.service}/NoSuchCall", b""))

        assert error.code() is grpc.StatusCode.UNIMPLEMENTED


async def test_what_is_remembered_for_tests_is_bounded() -> None:
    async with SimulatedEngine(SimulatorConfig(keep_requests=2)) as engine, peer(engine, CODECS["vllm"]) as client:
        for number in range(4):
            await client.ask(id=f"r-{number}", max_tokens=1)

        assert [request.id for request in engine.requests] == ["r-2", "r-3"]


async def test_the_model_folder_speaks_for_itself() -> None:
    async with SimulatedEngine() as engine:
        config = json.loads((Path(engine.model_folder) / "config.json").read_text())

        assert config["vocab_size"] == engine.engine.vocabulary.size
