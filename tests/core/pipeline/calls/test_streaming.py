"""One call of a real engine: every outcome told with its worker, and everything given back however it ends."""

import asyncio
import threading
from collections.abc import Sequence
from typing import Any

import attrs
import pytest
from msgspec.structs import replace
from tests.core.pipeline.output.test_processor import ids_of, tokenizer
from tests.core.pipeline.prompt.test_prepare import model
from tests.core.pipeline.road import REQUEST, Road, eventually, road

from smg_core.engines.base import EngineFacts
from smg_core.errors import ClientGone, EngineFailed, EngineGarbled, InvalidRequest, SmgError, WorkerBusy, WorkerGone
from smg_core.events import Event, Finished, TextDelta, TextEnd, Usage
from smg_core.hooks import AttemptEnded, FirstToken, Retrying
from smg_core.pipeline.answer.turn import Turn
from smg_core.pipeline.flow.steps import Chosen, Finish, Flow, Prepare, Select, Stream, ask
from smg_core.pipeline.prompt.media import MediaItem, PlacedMedia
from smg_core.pipeline.prompt.prompted import Prompted
from smg_core.request import GenerationRequest, Message, Part, Sampling, Text, ToolResult
from smg_core.tokenizer.base import EncodeReport
from smg_core.tokens import TokenIds
from smg_simulator.answers.faults import Fault
from smg_simulator.testing import ScriptedEngine, tool_call

pytestmark = pytest.mark.anyio


def ended(here: Road) -> list[tuple[str, int, str]]:
    return [(each.worker, each.attempt, each.outcome) for each in here.observer.of(AttemptEnded)]


def outcomes(here: Road) -> list[tuple[str, str | None]]:
    return [(worker, None if error is None else type(error).__name__) for worker, error in here.outcomes]


def ids(here: Road) -> list[str]:
    return [request.id for engine in here.engines for request in engine.requests]


# --------------------------------------------------------------------------------------------------- how a call may end


async def test_a_call_that_ends_well_is_told_and_its_place_given_back() -> None:
    async with road() as here:
        await here.drive(here.respond())
        (moment,) = here.observer.of(AttemptEnded)

        assert outcomes(here) == [("w0", None)]
        assert (moment.worker, moment.attempt, moment.outcome) == ("w0", 1, "ok")
        assert moment.completion_tokens > 0
        assert moment.finish == ("stop",)
        assert moment.first_seconds is not None
        assert moment.first_seconds <= moment.seconds
        assert here.worker.in_flight == 0
        assert len(here.observer.of(FirstToken)) == 1


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        (Fault("cut"), WorkerGone),
        (Fault("refuse"), WorkerGone),
        (Fault("refuse", status="RESOURCE_EXHAUSTED"), WorkerBusy),
        (Fault("error"), EngineFailed),
        (Fault("silence"), EngineGarbled),
        (Fault("garbage"), EngineGarbled),
    ],
)
async def test_what_goes_wrong_before_the_first_byte_is_told_and_nothing_is_sent(fault: Fault, kind: Any) -> None:
    async with road(fault) as here:
        with pytest.raises(kind):
            await here.drive(here.respond())
        (moment,) = here.observer.of(AttemptEnded)

        assert outcomes(here) == [("w0", kind.__name__)]
        assert (moment.outcome, moment.first_seconds, moment.finish) == (kind.__name__, None, ())
        assert here.client.got == []
        assert here.worker.in_flight == 0


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        (Fault("cut", after=1), WorkerGone),
        (Fault("error", after=1), EngineFailed),
        (Fault("silence", after=1), EngineGarbled),
    ],
)
@pytest.mark.parametrize("whole", [True, False])
async def test_what_goes_wrong_in_mid_stream_is_told_at_once(fault: Fault, kind: Any, whole: bool) -> None:
    async with road(fault, engines=[ScriptedEngine(["one ", "two"], faults=[fault])]) as here:
        if whole:
            here.whole()
        with pytest.raises(kind):
            await here.drive(here.respond())
        (moment,) = here.observer.of(AttemptEnded)

        assert outcomes(here) == [("w0", kind.__name__)]
        assert moment.outcome == kind.__name__
        assert moment.completion_tokens >= 1
        assert moment.first_seconds is not None
        assert here.worker.in_flight == 0


async def test_a_worker_that_dies_in_mid_stream_is_known_before_the_flow_goes_on() -> None:
    async with road(engines=[ScriptedEngine(["one ", "two"], faults=[Fault("cut", after=1)])]) as here:
        known: list[Any] = []

        def flow() -> Flow[None]:
            turn = yield from one_turn()
            known.extend(outcomes(here))
            assert isinstance(turn.error, WorkerGone)

        def one_turn() -> Flow[Turn]:
            prompted = yield from ask(Prepare(REQUEST))
            placement = yield from ask(Select(prompted))
            return (yield from ask(Stream(prompted, placement.last)))

        await here.drive(flow())
        assert known == [("w0", "WorkerGone")]


async def test_a_request_that_cannot_be_put_for_the_engine_is_told_and_nothing_is_sent() -> None:
    class Refusing:
        """An engine whose codec refuses to put the request."""

        async def generate(self, *arguments: Any, **options: Any) -> Any:
            raise InvalidRequest("not for this engine", param="sampling.top_k")

    async with road() as here:
        here.worker.engine = Refusing()  # type: ignore[assignment]
        with pytest.raises(InvalidRequest) as caught:
            await here.drive(here.respond())

        assert caught.value.param == "sampling.top_k"
        assert outcomes(here) == [("w0", "InvalidRequest")]
        assert ended(here) == [("w0", 1, "InvalidRequest")]
        assert here.worker.in_flight == 0
        assert here.engine.counters["requests"] == 0


async def test_what_an_engine_cannot_do_is_refused_before_it_is_asked() -> None:
    async with road() as here:
        here.worker.facts = attrs.evolve(here.worker.facts, n=False)

        def forced() -> Flow[None]:
            prompted = yield from ask(Prepare(replace(REQUEST, sampling=Sampling(n=2))))
            yield from ask(Stream(prompted, Chosen(here.worker)))

        with pytest.raises(SmgError) as caught:
            await here.drive(forced())
        assert caught.value.param == "sampling.n"
        assert (here.worker.in_flight, here.outcomes) == (0, [])


@pytest.mark.parametrize("whole", [True, False])
async def test_a_call_that_the_client_gave_up_is_no_fault_of_the_worker_which_is_told_to_stop(whole: bool) -> None:
    async with road(engines=[ScriptedEngine(["one ", "two"], faults=[Fault("stall", after=1)])]) as here:
        if whole:
            here.whole()
        driving = asyncio.create_task(here.drive(here.respond()))
        await eventually(lambda: bool(here.observer.of(FirstToken)))
        assert here.worker.in_flight == 1
        here.interruption = ClientGone("left")
        driving.cancel()
        with pytest.raises(ClientGone):
            await driving

        assert outcomes(here) == [("w0", None)]
        assert ended(here) == [("w0", 1, "abandoned")]
        assert here.worker.in_flight == 0
        await eventually(lambda: "r" in here.engine.aborted and not here.engine.active)


# ----------------------------------------------------------------------------------------------- attempts, turns and ids


async def test_a_lost_worker_is_replaced_and_both_calls_are_told_with_their_worker() -> None:
    engines = [ScriptedEngine("lost", faults=[Fault("cut")]), ScriptedEngine("kept")]
    async with road(engines=engines) as here:
        await here.drive(here.respond())

        assert here.client.text == "<kept>"
        assert outcomes(here) == [("w0", "WorkerGone"), ("w1", None)]
        assert ended(here) == [("w0", 1, "WorkerGone"), ("w1", 2, "ok")]
        assert [each.worker for each in here.observer.of(Retrying)] == ["w0"]
        assert here.trace.workers == ("w0", "w1")
        assert [request.id for request in engines[1].requests] == ["r-2"]


def two_turns(here: Road, *, ends: bool = True) -> Flow[None]:
    yield from here.generate(ends=False)
    turn = yield from here.generate(ends=ends)
    yield from ask(Finish(turn))


async def test_every_call_of_a_response_has_an_id_of_its_own_over_attempts_and_turns() -> None:
    engines = [ScriptedEngine("a", faults=[Fault("cut"), None]), ScriptedEngine("b")]
    async with road(engines=engines) as here:
        await here.drive(two_turns(here))

        assert here.client.text == "<ba>"
        assert sorted(ids(here)) == ["r", "r-2", "r-3"]
        assert ended(here) == [("w0", 1, "WorkerGone"), ("w1", 2, "ok"), ("w0", 1, "ok")]
        assert len(here.observer.of(FirstToken)) == 1
        assert [worker.in_flight for worker in here.workers] == [0, 0]


@pytest.mark.parametrize("ends", [True, False])
async def test_a_response_of_two_turns_ends_once_whether_the_last_turns_ends_are_held_or_not(ends: bool) -> None:
    async with road() as here:
        await here.drive(two_turns(here, ends=ends))

        assert here.client.text == "<one two threeone two three>"
        assert here.client.ended == 1
        assert here.answer.usage is not None
        assert here.answer.usage.rounds == 2


async def test_what_a_turn_said_is_kept_where_the_flow_asked_for_it() -> None:
    async with road(engines=[ScriptedEngine(tool_call("f", {"a": 1}, text="Well."))]) as here:

        def flow() -> Flow[tuple[Turn, Turn]]:
            kept = yield from here.generate(keep=True, ends=False)
            return kept, (yield from here.generate())

        kept, silent = await here.drive(flow())

        assert kept.held
        assert not silent.held
        assert kept.output.text.startswith("Well.")
        assert (kept.usage.prompt_tokens, kept.usage.rounds) == (silent.usage.prompt_tokens, 1)
        assert [each.reason for each in kept.finishes] == ["stop"]
        assert silent.outputs is None
        assert silent.reader is None


# --------------------------------------------------------------------------------------------------------- taking over

TOKENS = [tokenizer().decode([each]) for each in ids_of("one two three four")]
"""What is said, a token a piece."""


def taking_over(request: GenerationRequest, *workers: Chosen, keep: bool = True) -> Flow[Turn]:
    """One turn, gone on with on the next worker whenever one is lost."""
    prompted = yield from ask(Prepare(request))
    turn: Turn | None = None
    for attempt, chosen in enumerate(workers, 1):
        turn = yield from ask(Stream(prompted, chosen, attempt, keep=keep, continues=turn))
        if turn.error is None:
            break
    assert turn is not None
    if turn.error is not None:
        raise turn.error
    yield from ask(Finish(turn))
    return turn


def dies_after(count: int) -> list[ScriptedEngine]:
    """One engine that is lost after `count` tokens, and one that says the others."""
    return [ScriptedEngine(TOKENS, faults=[Fault("cut", after=count)]), ScriptedEngine(TOKENS[count:])]


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("count", [1, 2, 3])
async def test_a_turn_is_gone_on_with_on_another_worker_as_if_one_had_said_it(count: int, whole: bool) -> None:
    async with road(engines=dies_after(count)) as here:
        if whole:
            here.whole()
        asked = replace(REQUEST, sampling=Sampling(max_tokens=40, min_tokens=3))
        turn = await here.drive(taking_over(asked, *map(Chosen, here.workers)))
        (first,), (second,) = here.engines[0].requests, here.engines[1].requests
        done = len(second.input_ids) - len(first.input_ids)
        rest = second.input_ids[len(first.input_ids) :]

        assert here.client.text.strip("<>") == "".join(TOKENS)
        assert turn.output.text == "".join(TOKENS)
        assert turn.usage.prompt_tokens == len(first.input_ids)
        assert turn.usage.rounds == 1
        assert here.answer.usage == turn.usage
        assert done == count
        assert tokenizer().decode(rest) == "".join(TOKENS[:count])
        assert second.input_ids[: len(first.input_ids)] == first.input_ids
        assert (second.sampling.max_tokens, second.sampling.min_tokens or 0) == (40 - done, 3 - done)
        assert (first.id, second.id) == ("r", "r-2")
        assert outcomes(here) == [("w0", "WorkerGone"), ("w1", None)]
        assert [worker.in_flight for worker in here.workers] == [0, 0]


async def test_a_turn_that_was_not_kept_cannot_be_gone_on_with() -> None:
    async with road(engines=dies_after(1)) as here:
        with pytest.raises(WorkerGone):
            await here.drive(taking_over(REQUEST, *map(Chosen, here.workers), keep=False))

        assert [len(engine.requests) for engine in here.engines] == [1, 0]
        assert outcomes(here) == [("w0", "WorkerGone")]


async def test_each_choice_of_a_turn_is_gone_on_with_in_a_call_of_its_own() -> None:
    async with road(engines=dies_after(2)) as here:
        asked = replace(REQUEST, sampling=Sampling(n=2, max_tokens=40))
        turn = await here.drive(taking_over(asked, *map(Chosen, here.workers)))
        ((first,), rest) = (here.engines[0].requests, here.engines[1].requests)

        assert sorted(each.id for each in rest) == ["r-2", "r-2-1"]
        assert {each.sampling.n for each in rest} == {1}
        received = [list(each.input_ids[len(first.input_ids) :]) for each in rest]
        assert [tokenizer().decode(ids) for ids in received] == [TOKENS[0]] * 2
        assert len(turn.finishes) == 2
        assert turn.usage.prompt_tokens == len(first.input_ids)


async def test_an_engine_that_speaks_chat_cannot_go_on_with_ids() -> None:
    async with road(engines=dies_after(1)) as here:
        here.workers[1].facts = EngineFacts("chat", takes_ids=False, transport="http")
        with pytest.raises(WorkerGone):
            await here.drive(taking_over(REQUEST, *map(Chosen, here.workers)))

        assert outcomes(here) == [("w0", "WorkerGone")]


# -------------------------------------------------------------------------------------------- what the engine is sent


async def test_a_rank_is_the_engines_to_know() -> None:
    async with road() as here:

        def flow() -> Flow[None]:
            prompted = yield from ask(Prepare(REQUEST))
            chosen = Chosen(here.worker, rank=0)
            turn = yield from ask(Stream(prompted, chosen))
            yield from ask(Finish(turn))

        await here.drive(flow())
        (request,) = here.engine.requests

        assert request.data_parallel_rank == 0
        assert here.trace.prompted is not None
        assert request.input_ids == here.trace.prompted.ids


@attrs.define
class Shared:
    """Tensors in shared memory, and how often they were released."""

    inputs: Any = None
    released: int = 0

    def release(self) -> None:
        self.released += 1


@attrs.define
class Pictures:
    """A media service that packs and shares nothing, and counts."""

    kinds: frozenset[str] = frozenset({"image"})
    packed: list[EngineFacts] = attrs.field(factory=list)
    shared: list[Shared] = attrs.field(factory=list)

    async def load(self, items: Sequence[MediaItem], *, normalizes: bool) -> Any:
        raise AssertionError("nothing is loaded here")

    async def place(self, ids: TokenIds, loaded: Any) -> PlacedMedia:
        raise AssertionError("nothing is placed here")

    async def pack(self, features: Any, facts: EngineFacts) -> Any:
        self.packed.append(facts)
        return features

    async def share(self, inputs: Any, facts: EngineFacts) -> Shared:
        self.shared.append(Shared(inputs))
        return self.shared[-1]

    def refuse_strays(self, ids: TokenIds) -> None: ...


def with_pictures(service: Pictures) -> Prompted:
    placed = PlacedMedia(TokenIds([5, 6]), None, [5, 6])
    served = model(media=service)
    return Prompted(REQUEST, served, "", EncodeReport(placed.ids, 0), placed.ids, media=placed)


@pytest.mark.parametrize("faults", [[None], [Fault("cut")], [Fault("error", after=1)]])
async def test_what_was_lent_to_an_engine_is_taken_back_once_however_its_call_ends(faults: list[Fault | None]) -> None:
    service = Pictures()
    async with road(*faults) as here:

        def flow() -> Flow[Turn]:
            return (yield from ask(Stream(with_pictures(service), Chosen(here.worker))))

        turn = await here.drive(flow())

        assert (turn.error is None) == (faults == [None])
        assert [loan.released for loan in service.shared] == [1]


async def test_what_was_lent_is_taken_back_from_a_call_that_is_given_up() -> None:
    service = Pictures()
    async with road(Fault("stall")) as here:

        def flow() -> Flow[Turn]:
            return (yield from ask(Stream(with_pictures(service), Chosen(here.worker))))

        driving = asyncio.create_task(here.drive(flow()))
        await eventually(lambda: bool(here.engine.active))
        driving.cancel()
        await asyncio.wait([driving])

        assert [loan.released for loan in service.shared] == [1]
        assert here.worker.in_flight == 0


async def test_media_are_packed_once_for_each_kind_of_engine() -> None:
    service = Pictures()
    async with road(Fault("cut")) as here:
        prompted = with_pictures(service)

        def flow() -> Flow[Turn]:
            for attempt in (1, 2):
                turn = yield from ask(Stream(prompted, Chosen(here.worker), attempt))
            return turn

        turn = await here.drive(flow())

        assert turn.error is None
        assert len(service.packed) == 1
        assert [loan.released for loan in service.shared] == [1, 1]


# ------------------------------------------------------------------------------------------------- engines that speak chat


@attrs.define
class Chatting:
    """An engine that speaks chat, and says what it was given."""

    events: list[Event]
    asked: list[GenerationRequest] = attrs.field(factory=list)
    aborted: list[str] = attrs.field(factory=list)

    async def chat(self, request: GenerationRequest, sink: Any, **options: Any) -> "Chatting":
        self.asked.append(request)
        sink.push(self.events)
        sink.closed(None)
        return self

    async def abort(self, request_id: str) -> None:
        self.aborted.append(request_id)

    def cancel(self) -> None: ...
    def leave(self) -> None: ...
    def pause(self) -> None: ...
    def resume(self) -> None: ...


async def test_an_engine_that_speaks_chat_is_asked_at_its_own_door() -> None:
    said: list[Event] = [TextDelta(0, "theirs"), TextEnd(0), Finished(0, "stop"), Usage(9, 5)]
    async with road() as here:
        engine = Chatting(said)
        here.worker.engine = engine  # type: ignore[assignment]
        here.worker.facts = EngineFacts("chat", takes_ids=False, transport="http")
        await here.drive(two_turns(here))

        assert here.client.text == "<theirstheirs>"
        assert [request.id for request in engine.asked] == ["r", "r-2"]
        assert here.answer.usage == Usage(18, 10, rounds=2)
        assert outcomes(here) == [("w0", None), ("w0", None)]
        assert engine.aborted == []


@pytest.mark.parametrize("workers", [1, 2, 3])
async def test_every_retry_that_is_told_is_a_call_of_an_engine(workers: int) -> None:
    engines = [ScriptedEngine("one two", faults=[Fault("cut")]) for _ in range(workers)]
    async with road(engines=engines) as here:
        with pytest.raises(WorkerGone):
            await here.drive(here.respond())

        calls = len(here.observer.of(AttemptEnded))
        assert 1 <= calls <= workers
        assert len(here.observer.of(Retrying)) == calls - 1


LONG = "long " * 4000


@pytest.mark.parametrize(
    ("messages", "size", "away"),
    [
        ([Text("short")], 100, False),
        ([Text("short")], 20_000, True),  # a long body: a tool's schema, say
        ([Text(LONG)], 100, True),  # added by the flow
        ([ToolResult("c", (Text(LONG),))], 100, True),
        ([Text("a")] * 1000, 100, True),
    ],
)
async def test_a_long_request_is_written_for_its_engine_off_the_event_loop(
    messages: list[Part], size: int, away: bool
) -> None:
    threads: list[bool] = []

    @attrs.define
    class Writing(Chatting):
        async def chat(self, request: GenerationRequest, sink: Any, **options: Any) -> Chatting:
            elsewhere = options["elsewhere"]
            if elsewhere is not None:
                threads.append(await elsewhere(threading.current_thread) is not threading.main_thread())
            return await super().chat(request, sink, **options)

    said: list[Event] = [TextDelta(0, "theirs"), TextEnd(0), Finished(0, "stop"), Usage(9, 5)]
    async with road() as here:
        here.worker.engine = Writing(said)  # type: ignore[assignment]
        here.worker.facts = EngineFacts("chat", takes_ids=False, transport="http")
        await here.drive(here.respond(replace(REQUEST, messages=(Message("user", tuple(messages)),), size=size)))

    assert threads == ([True] if away else [])


async def test_an_engine_that_looks_for_no_stop_strings_is_told_when_one_was_found() -> None:
    async with road(engines=[ScriptedEngine(["so ", "END ", "and ", "on"], faults=[Fault("stall", after=4)])]) as here:
        here.worker.facts = attrs.evolve(here.worker.facts, stop_strings=False)
        await here.drive(here.respond(replace(REQUEST, sampling=Sampling(stop=("END",)))))

        assert here.client.text == "<so >"
        assert ended(here) == [("w0", 1, "ok")]
        await eventually(lambda: "r" in here.engine.aborted)
