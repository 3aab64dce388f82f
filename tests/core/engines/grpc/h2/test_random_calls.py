"""Random lives of many calls, with the `h2` library as a server that notices every breach of the protocol."""

import random
from collections.abc import Callable
from typing import Any

import attrs
import h2.config
import h2.connection
import h2.events
import h2.settings
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.core.engines.grpc.h2.wire import OK_HEAD, PATH, Sink, prefixed
from tests.tiers import examples

from smg_core.engines.grpc.h2.connection import Connection
from smg_core.engines.grpc.h2.stream import H2Stream
from smg_core.engines.settings import EnginesConfig
from smg_core.errors import EngineRejected, SmgError, WorkerGone

LIMITS = EnginesConfig(stream_window_bytes=30_000, connection_window_bytes=70_000, waiting_calls=1000)

ENDS: dict[str, type[SmgError | None]] = {"ended": type(None), "rejected": EngineRejected, "reset": WorkerGone}


@attrs.define(eq=False)
class Life:
    """One call, what its server has said, and how it ended: "" (not yet), "cancelled" by us, or one of `ENDS`."""

    stream: H2Stream
    sink: Sink
    begun: bool = False
    said: list[bytes] = attrs.field(factory=list)
    unsaid: bytes = b""  # of a message that is partly sent
    paused: bool = False
    fate: str = ""


class World:
    """A client, a server and the bytes between them, carried after every step."""

    def __init__(self) -> None:
        config = h2.config.H2Configuration(client_side=False, header_encoding="utf-8")
        self.server = h2.connection.H2Connection(config)
        self.server.initiate_connection()
        self.client = Connection("http", "engine", limits=LIMITS, user_agent="test")
        self.lives: list[Life] = []
        self.got: dict[int, bytes] = {}
        self.known: set[int] = set()  # streams the server has seen
        self.unread: list[tuple[int, int]] = []
        self.turn()

    def turn(self) -> None:
        while True:
            up, down = self.client.take(), self.server.data_to_send()
            if not up and not down:
                return
            for event in self.server.receive_data(up) if up else ():
                if isinstance(event, h2.events.RequestReceived):
                    self.known.add(event.stream_id)
                elif isinstance(event, h2.events.DataReceived):
                    self.got[event.stream_id] = self.got.get(event.stream_id, b"") + event.data
                    self.unread.append((event.stream_id, event.flow_controlled_length))
            if down:
                self.client.receive(down)
            assert self.client.failure is None, self.client.failure

    def call(self, size: int) -> None:
        sink = Sink()
        stream = self.client.request(PATH, bytes(size), sink)
        self.lives.append(Life(stream, sink))

    def pick(self, which: int) -> Life | None:
        """A call that is not over and that the server knows."""
        open_lives = [life for life in self.lives if not life.fate and life.stream.id in self.known]
        return open_lives[which % len(open_lives)] if open_lives else None

    def cancel(self, which: int) -> None:
        pending = [life for life in self.lives if not life.fate]
        if pending:
            life = pending[which % len(pending)]
            life.fate = "cancelled"
            life.stream.cancel()

    def pause(self, which: int) -> None:
        if life := self.pick(which):
            (life.stream.resume if life.paused else life.stream.pause)()
            life.paused = not life.paused

    def say(self, which: int, size: int) -> None:
        """Send as much of a message (or of the one begun) as the client's windows allow."""
        life = self.pick(which)
        if life is None:
            return
        if not life.begun:
            life.begun = True
            self.server.send_headers(life.stream.id, OK_HEAD)
        if not life.unsaid:
            life.said.append(bytes([len(life.said) % 256]) * size)
            life.unsaid = prefixed(life.said[-1])
        room = self.server.local_flow_control_window(life.stream.id)
        while life.unsaid and room > 0:
            piece = life.unsaid[: min(room, 16_384)]
            self.server.send_data(life.stream.id, piece)
            life.unsaid = life.unsaid[len(piece) :]
            room = self.server.local_flow_control_window(life.stream.id)

    def end(self, which: int, status: int) -> None:
        life = self.pick(which)
        if life is None or life.unsaid:
            return
        head = [("grpc-status", str(status)), ("grpc-message", "said")]
        self.server.send_headers(life.stream.id, head if life.begun else OK_HEAD + head, end_stream=True)
        life.fate = "ended" if status == 0 else "rejected"

    def reset(self, which: int) -> None:
        if life := self.pick(which):
            self.server.reset_stream(life.stream.id, error_code=8)
            life.fate = "reset"

    def read(self, which: int) -> None:
        """Grant window for what was received so far."""
        for stream, size in self.unread:
            self.server.acknowledge_received_data(size, stream)
        self.unread.clear()

    def resize(self, window: int) -> None:
        self.server.update_settings({h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: window})

    def allow(self, streams: int) -> None:
        self.server.update_settings({h2.settings.SettingCodes.MAX_CONCURRENT_STREAMS: streams})

    def check(self) -> None:
        """Every receiver has heard what was said to it, once, in order, and of its end exactly when it ended."""
        for life in self.lives:
            whole = life.said[:-1] if life.unsaid else life.said
            if life.fate in ("cancelled", "reset"):
                assert life.sink.got == whole[: len(life.sink.got)]
            else:
                assert life.sink.got == whole
            ends = [ENDS[life.fate]] if life.fate in ENDS else []
            assert [type(error) for error in life.sink.ended] == ends


step = st.one_of(
    st.tuples(st.just("call"), st.sampled_from([0, 10, 20_000, 100_000])),
    st.tuples(st.sampled_from(["cancel", "pause", "reset", "read"]), st.integers(0, 50)),
    st.tuples(st.just("say"), st.integers(0, 50), st.sampled_from([0, 1, 40, 9_000, 16_379, 50_000])),
    st.tuples(st.just("end"), st.integers(0, 50), st.sampled_from([0, 3])),
    st.tuples(st.just("resize"), st.sampled_from([0, 5, 1000, 65_535, 200_000])),
    st.tuples(st.just("allow"), st.integers(0, 10)),
)


MAKERS: dict[str, tuple[int, Callable[[random.Random], tuple[int, ...]]]] = {
    # step: (how often, its arguments)
    "call": (20, lambda rng: (rng.choice([0, 10, 20_000, 100_000]),)),
    "cancel": (4, lambda rng: (rng.randrange(50),)),
    "pause": (8, lambda rng: (rng.randrange(50),)),
    "reset": (3, lambda rng: (rng.randrange(50),)),
    "read": (15, lambda rng: (0,)),
    "say": (60, lambda rng: (rng.randrange(50), rng.choice([0, 1, 40, 9_000, 16_379, 50_000]))),
    "end": (10, lambda rng: (rng.randrange(50), rng.choice([0, 3]))),
    "resize": (2, lambda rng: (rng.choice([0, 5, 1000, 65_535, 200_000]),)),
    "allow": (2, lambda rng: (rng.randint(1, 10),)),
}


def live(steps: list[tuple[Any, ...]], every: int) -> World:
    world = World()
    for number, (name, *arguments) in enumerate(steps):
        getattr(world, name)(*arguments)
        # Between turns many things may lie in one read. But `h2` takes one acknowledgement for all settings it has sent.
        if number % every == 0 or name in ("cancel", "reset", "resize", "allow"):
            world.turn()
            world.check()
    world.turn()
    world.check()
    return world


@given(st.lists(step, max_size=80), st.integers(1, 5))
@settings(max_examples=examples(100), deadline=None)
def test_any_life_of_any_calls_is_legal_and_loses_nothing(steps: list[tuple[Any, ...]], every: int) -> None:
    live(steps, every)


@given(st.integers(0, 2**32))
@settings(max_examples=examples(60), deadline=None)
def test_long_lives_of_many_calls_are_legal_and_lose_nothing(seed: int) -> None:
    rng = random.Random(seed)
    names = rng.choices(list(MAKERS), [weight for weight, _ in MAKERS.values()], k=300)
    world = live([(name, *MAKERS[name][1](rng)) for name in names], rng.randint(1, 6))
    assert sum(len(life.sink.got) for life in world.lives) > 10
    assert {life.fate for life in world.lives} & set(ENDS)


@given(st.lists(st.integers(0, 60_000), min_size=1, max_size=8), st.sampled_from([1, 100, 65_535]))
@settings(max_examples=examples(50), deadline=None)
def test_every_request_gets_through_any_window(sizes: list[int], window: int) -> None:
    world = World()
    world.resize(window if window > 100 or sum(sizes) < 5_000 else 1_000)
    world.turn()
    for size in sizes:
        world.call(size)
    world.turn()
    while world.unread:
        world.read(0)
        world.turn()
    assert [world.got[life.stream.id] for life in world.lives] == [prefixed(bytes(size)) for size in sizes]
