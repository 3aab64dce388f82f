"""The legs of a request: every order of what can happen to them, up to eight events, keeps the laws of one call."""

from collections.abc import Iterator, Sequence
from typing import get_args

import attrs
import pytest

from smg_core.engines.base import EngineOutput
from smg_core.errors import EngineStalled, SmgError, WorkerGone
from smg_core.pipeline.pairs.legs import TRANSITIONS, Action, Leg, LegEvent, Legs, LegState

LENGTH = 8
FAILED: dict[Leg, SmgError] = {leg: WorkerGone(leg) for leg in get_args(Leg)}
FIRST: dict[str, LegState] = {"in turn": "prefill", "together": "both", "three": "encode"}
"""The ways in which the engines are asked, and the state that each begins in."""
OTHERS: dict[str, frozenset[LegState]] = {
    "in turn": frozenset({"encode", "early", "both", "held"}),
    "together": frozenset({"encode", "early", "prefill"}),
    "three": frozenset({"prefill"}),
}
"""The states that each way never comes to."""


@attrs.define
class Call:
    """An engine's call, as the legs hold it."""

    world: "World"
    leg: Leg
    cancelled: bool = False
    paused: bool = False

    def cancel(self) -> None:
        assert not self.cancelled
        self.cancelled = True
        self.world.open.discard(self.leg)

    def leave(self) -> None:
        assert not self.cancelled
        self.world.open.discard(self.leg)

    def pause(self) -> None:
        self.paused = True

    def resume(self) -> None:
        self.paused = False


@attrs.define
class World:
    """Engines, a timer and a client around one `Legs`. `open`: the legs that an engine works on. `shown`: the tokens that reached
    the client, `ends` how its call ended."""

    way: str
    legs: Legs = attrs.field(init=False)
    open: set[Leg] = attrs.field(factory=set)
    asked: set[Leg] = attrs.field(factory=set)
    done: set[Leg] = attrs.field(factory=set)
    calls: dict[Leg, Call] = attrs.field(factory=dict)
    timer: str = ""
    shown: list[int] = attrs.field(factory=list)
    said: int = 0
    ends: list[SmgError | None] = attrs.field(factory=list)
    told: list[tuple[Leg, SmgError | None]] = attrs.field(factory=list)
    gone: bool = False

    def __attrs_post_init__(self) -> None:
        self.legs = Legs(self, self, together=self.way != "in turn", encodes=self.way == "three")
        if self.way == "three":
            self.open.add("encode")
        self._ask("prefill")
        if self.way != "in turn":
            self._ask("decode")

    def _ask(self, leg: Leg) -> None:
        assert leg not in self.asked, "no engine is asked twice"
        self.asked.add(leg)
        self.open.add(leg)
        self.calls[leg] = Call(self, leg)
        assert self.legs.attach(leg, self.calls[leg])

    # the legs' `Doing`

    def not_handed_over(self, answered: EngineOutput) -> SmgError | None:
        return None

    def ask_decode(self, answered: EngineOutput) -> None:
        assert answered.kv_transfer == "here"
        self._ask("decode")

    def drop(self, leg: Leg) -> None:
        if leg == "encode":
            self.open.discard("encode")
        call = self.legs.detach(leg)
        if call is not None:
            call.cancel()

    def set_timer(self, kind: str) -> None:
        assert not self.timer, "one timer at a time"
        self.timer = kind

    def stop_timer(self) -> None:
        self.timer = ""

    def handed_over(self) -> None:
        assert ("prefill", None) in self.told

    def ended(self, leg: Leg, error: SmgError | None) -> None:
        self.told.append((leg, error))

    # the client's sink

    def push(self, outputs: Sequence[EngineOutput]) -> None:
        assert not self.ends, "nothing comes after the end"
        assert not self.gone, "nothing comes to a client that has left"
        self.shown += [token for each in outputs for token in each.ids]
        assert all(each.cached_tokens == 7 for each in outputs if "prefill" in self.done)

    def closed(self, error: SmgError | None) -> None:
        self.ends.append(error)

    # what may happen

    def possible(self) -> Iterator[LegEvent]:
        if "encode" in self.open:
            yield from ("encode_done", "encode_failed")
        if "prefill" in self.open:
            yield from ("prefill_done", "prefill_failed")
        if "decode" in self.open:  # also while it is paused: what is on its way still comes
            yield from ("decode_output", "decode_failed", "decode_done")
        if self.timer:
            yield "overdue"
        if not self.gone and not self.ends:
            yield "given_up"

    def happen(self, event: LegEvent) -> None:
        match event:
            case "encode_done":
                self.open.discard("encode")
                self.legs.encoded()
            case "encode_failed":
                self.open.discard("encode")
                self.legs.encode_failed(FAILED["encode"])
            case "prefill_done":
                self.open.discard("prefill")
                self.done.add("prefill")
                self.legs.prefill.push([EngineOutput(ids=[0], finish="length", cached_tokens=7, kv_transfer="here")])
                self.legs.prefill.closed(None)
            case "decode_output":
                self.said += 1
                self.legs.decode.push([EngineOutput(ids=[self.said])])
            case "prefill_failed" | "decode_failed":
                leg: Leg = "prefill" if event == "prefill_failed" else "decode"
                self.open.discard(leg)
                sink = self.legs.prefill if leg == "prefill" else self.legs.decode
                sink.closed(FAILED[leg])
            case "decode_done":
                self.open.discard("decode")
                self.legs.decode.closed(None)
            case "overdue":
                self.timer = ""
                self.legs.overdue()
            case "given_up":
                self.gone = True
                self.legs.cancel()
        self.check()

    def check(self) -> None:
        """The laws that hold after every event."""
        assert len(self.ends) <= 1, "there is one end"
        assert self.shown == list(range(1, len(self.shown) + 1)), "tokens are in order, and none is lost between two"
        if self.ends or self.gone:
            assert not self.open, "when it is over, no engine works on it"
            assert not self.timer, "and no timer runs"
        else:
            assert self.open - {"encode"} or self.timer, "what is not over goes on by itself"
        if self.ends == [None]:
            assert len(self.shown) == self.said, "a complete answer has every token"
        if self.shown and "prefill" in self.open:
            raise AssertionError("nothing is shown while the prefill engine may still fail")
        if self.ends and self.ends[0] is not None and not isinstance(self.ends[0], EngineStalled):
            assert self.legs.failed is not None
            assert self.ends[0] is FAILED[self.legs.failed]


def walk(way: str, events: tuple[LegEvent, ...] = ()) -> Iterator[tuple[LegEvent, ...]]:
    """Every sequence of events that can happen, replayed from the start."""
    world = World(way)
    for event in events:
        world.happen(event)
    following = list(world.possible())
    if len(events) == LENGTH or not following:
        yield events
        return
    for event in following:
        yield from walk(way, (*events, event))


@pytest.mark.parametrize("way", FIRST)
def test_whenever_decode_answers_alone_the_legs_can_be_left_and_nothing_of_them_goes_on(way: str) -> None:
    left = 0
    for events in walk(way):
        world = World(way)
        for event in events:
            world.happen(event)
            if world.legs.state == "decode":
                break
        else:
            continue
        world.legs.leave()
        world.check()
        left += 1
        assert (world.legs.state, world.ends) == ("over", [None])
    assert left


@pytest.mark.full
@pytest.mark.parametrize("way", FIRST)
def test_every_order_of_events_keeps_the_laws(way: str) -> None:
    seen: set[tuple[LegState, LegEvent]] = set()
    count = 0
    for events in walk(way):
        count += 1
        world = World(way)
        for event in events:
            seen.add((world.legs.state, event))
            world.happen(event)
    ours = {pair for pair in TRANSITIONS if pair[0] not in OTHERS[way]}

    assert count > 20
    assert any(state == FIRST[way] for state, _ in seen)
    assert ours <= seen, "every row of the table is met"
    assert not {state for state, _ in seen} & OTHERS[way]


def test_the_table_has_states_events_and_actions_that_are_known_and_every_action_is_used() -> None:
    used = {action for _, actions in TRANSITIONS.values() for action in actions}

    assert used == set(get_args(Action))
    assert {state for state, _ in TRANSITIONS} | {after for after, _ in TRANSITIONS.values()} == set(get_args(LegState))
    assert {event for _, event in TRANSITIONS} == set(get_args(LegEvent))
    assert not [pair for pair in TRANSITIONS if pair[0] == "over"]


@pytest.mark.parametrize("state", [each for each in get_args(LegState) if each != "over"])
def test_a_client_that_leaves_ends_it_in_every_state(state: LegState) -> None:
    assert TRANSITIONS[state, "given_up"][0] == "over"


WORKING: dict[LegState, frozenset[Leg]] = {
    "encode": frozenset({"encode", "prefill", "decode"}),
    "early": frozenset({"encode", "prefill", "decode"}),
    "prefill": frozenset({"prefill"}),
    "both": frozenset({"prefill", "decode"}),
    "held": frozenset({"prefill", "decode"}),
    "transfer": frozenset({"encode", "decode"}),
    "decode": frozenset({"encode", "decode"}),
}
"""The legs that may be at work in each state."""


@pytest.mark.parametrize("state", get_args(LegState))
def test_a_leg_is_needed_until_the_next_one_has_what_it_made(state: LegState) -> None:
    legs = World("three").legs
    legs.state = state
    reading = state in ("encode", "early", "prefill", "both", "held")

    assert legs.needs("encode") is reading
    assert legs.needs("prefill") is (reading or state == "transfer")
    assert legs.needs("decode")


def test_whichever_leg_fails_the_others_are_dropped_in_the_same_step() -> None:
    for (state, event), (after, actions) in TRANSITIONS.items():
        leg, _, what = event.partition("_")
        if what == "failed":
            dropped = {action.removeprefix("drop_") for action in actions if action.startswith("drop_")}
            assert after == "over"
            assert WORKING[state] - {leg} <= dropped, (state, event)


@pytest.mark.parametrize("held", [False, True])
def test_an_encode_worker_that_fails_ends_the_request_in_its_own_name(held: bool) -> None:
    world = World("three")
    if held:
        world.happen("decode_output")
    world.happen("encode_failed")

    assert (world.ends, world.legs.failed, world.shown) == ([FAILED["encode"]], "encode", [])


def test_what_becomes_of_the_encode_leg_after_the_prefill_changes_nothing_for_the_client() -> None:
    for late in ("encode_failed", "encode_done"):
        world = World("three")
        for event in ("prefill_done", "decode_output", late, "decode_output", "decode_done"):
            world.happen(event)

        assert (world.shown, world.ends, world.legs.failed) == ([1, 2], [None], None)


@pytest.mark.parametrize(
    ("events", "leg"),
    [
        ((), "encode"),
        (("encode_done",), "prefill"),  # decode cannot speak before it
        (("encode_done", "decode_output"), "prefill"),
        (("encode_done", "prefill_done"), "decode"),
    ],
)
def test_the_leg_that_keeps_the_others_waiting_is_to_blame_when_it_is_given_up(
    events: tuple[LegEvent, ...], leg: Leg
) -> None:
    world = World("three")
    for event in events:
        world.happen(event)
    world.happen("given_up")

    assert world.legs.failed == leg


def test_a_decode_engine_that_was_asked_too_early_is_held_back_and_then_let_go() -> None:
    world = World("together")
    world.happen("decode_output")
    assert (world.shown, world.calls["decode"].paused) == ([], True)
    world.happen("prefill_done")
    assert (world.shown, world.calls["decode"].paused) == ([1], False)


def test_prompt_logprobs_of_the_prefill_engine_come_with_the_first_token() -> None:
    pushed: list[EngineOutput] = []

    @attrs.define
    class Keeping(World):
        def push(self, outputs: Sequence[EngineOutput]) -> None:
            pushed.extend(outputs)

    legs = Keeping("together").legs
    legs.prefill.push([EngineOutput(ids=[0], finish="length", prompt_logprobs=(None,))])
    for token in (1, 2):
        legs.decode.push([EngineOutput(ids=[token])])

    assert [each.prompt_logprobs for each in pushed] == [(None,), ()]


def test_what_the_owner_pauses_stays_paused_when_the_prefill_is_done() -> None:
    world = World("together")
    world.happen("decode_output")
    world.legs.pause()
    world.happen("prefill_done")
    assert world.calls["decode"].paused
    world.legs.resume()
    assert not world.calls["decode"].paused
