"""Our connection against the server of the `h2` library: two readings of the RFC that must agree."""

import h2.config
import h2.connection
import h2.events
import h2.settings
import pytest
from tests.core.engines.grpc.h2.wire import OK_HEAD, PATH, Sink, prefixed

from smg_core.engines.grpc.h2.connection import Connection
from smg_core.engines.settings import EnginesConfig
from smg_core.errors import EngineRejected, WorkerGone


class Pair:
    """A client of ours and a server of theirs, with nothing between."""

    def __init__(self, limits: EnginesConfig | None = None) -> None:
        self.server = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False, header_encoding="utf-8"))
        self.server.initiate_connection()
        self.client = Connection("http", "engine", limits=limits or EnginesConfig(), user_agent="test")
        self.events: list[h2.events.Event] = []
        self.turn()

    def turn(self) -> None:
        """Carry bytes both ways until neither has more to say."""
        while True:
            up, down = self.client.take(), self.server.data_to_send()
            if not up and not down:
                return
            if up:
                self.events += self.server.receive_data(up)
            if down:
                self.client.receive(down)

    def seen(self, kind: type[h2.events.Event]) -> list[h2.events.Event]:
        return [event for event in self.events if isinstance(event, kind)]

    def answer(self, stream: int, *contents: bytes, status: str = "0") -> None:
        self.server.send_headers(stream, OK_HEAD)
        for content in contents:
            self.server.send_data(stream, prefixed(content))
        self.server.send_headers(stream, [("grpc-status", status), ("grpc-message", "t%C3%B6o")], end_stream=True)


def test_a_call_is_understood_and_its_answer_too() -> None:
    pair, sink = Pair(), Sink()
    stream = pair.client.request(PATH, b"hello", sink, timeout=2)
    pair.turn()
    (request,) = pair.seen(h2.events.RequestReceived)
    assert dict(request.headers)[":path"] == PATH
    assert b"".join(event.data for event in pair.seen(h2.events.DataReceived)) == prefixed(b"hello")
    assert pair.seen(h2.events.StreamEnded)
    pair.answer(stream.id, b"one", b"two")
    pair.turn()
    assert (sink.got, sink.error) == ([b"one", b"two"], None)


def test_many_calls_share_its_header_table() -> None:
    pair = Pair()
    for number in range(300):
        sink = Sink()
        stream = pair.client.request(PATH, b"", sink)
        pair.turn()
        pair.answer(stream.id, str(number).encode(), status="3" if number % 3 else "0")
        pair.turn()
        assert sink.got == [str(number).encode()]
        assert isinstance(sink.error, EngineRejected) if number % 3 else sink.error is None


def test_a_large_request_goes_as_its_window_allows() -> None:
    pair, sink = Pair(), Sink()
    content = bytes(range(256)) * 2000
    stream = pair.client.request(PATH, content, sink)
    got, acknowledged = b"", 0
    while not pair.seen(h2.events.StreamEnded):
        pair.turn()
        new = pair.seen(h2.events.DataReceived)[acknowledged:]
        assert new, "the request stands still"
        for event in new:
            acknowledged += 1
            got += event.data
            pair.server.acknowledge_received_data(event.flow_controlled_length, stream.id)
    assert got == prefixed(content)


def test_a_large_answer_goes_as_our_window_allows() -> None:
    pair, sink = Pair(EnginesConfig(stream_window_bytes=30_000, connection_window_bytes=65_535)), Sink()
    stream = pair.client.request(PATH, b"", sink)
    pair.turn()
    pair.server.send_headers(stream.id, OK_HEAD)
    left = prefixed(bytes(500_000))
    while left:
        room = min(pair.server.local_flow_control_window(stream.id), 16_384)
        assert room > 0, "no window was granted"
        pair.server.send_data(stream.id, left[:room], pad_length=None)
        left = left[room:]
        pair.turn()
    assert sink.got == [bytes(500_000)]


def test_a_paused_call_closes_its_window_and_no_other() -> None:
    pair = Pair(EnginesConfig(stream_window_bytes=20_000))
    sinks = [Sink(), Sink()]
    streams = [pair.client.request(PATH, b"", sink) for sink in sinks]
    pair.turn()
    streams[0].pause()
    for stream in streams:
        pair.server.send_headers(stream.id, OK_HEAD)
        for _ in range(2):
            pair.server.send_data(stream.id, prefixed(bytes(9_995)))
    pair.turn()
    assert [pair.server.local_flow_control_window(stream.id) for stream in streams] == [0, 20_000]
    streams[0].resume()
    pair.turn()
    assert pair.server.local_flow_control_window(streams[0].id) == 20_000


def test_padding_is_understood() -> None:
    pair, sink = Pair(), Sink()
    stream = pair.client.request(PATH, b"", sink)
    pair.turn()
    pair.server.send_headers(stream.id, OK_HEAD)
    pair.server.send_data(stream.id, prefixed(b"padded"), pad_length=100)
    pair.turn()
    assert sink.got == [b"padded"]


def test_a_cancelled_call_is_reset_there() -> None:
    pair, sink = Pair(), Sink()
    stream = pair.client.request(PATH, b"", sink)
    pair.turn()
    stream.cancel()
    pair.turn()
    (reset,) = pair.seen(h2.events.StreamReset)
    assert reset.error_code == 8


def test_changed_settings_are_obeyed() -> None:
    pair = Pair()
    settings = h2.settings.SettingCodes
    few = {settings.INITIAL_WINDOW_SIZE: 100, settings.MAX_CONCURRENT_STREAMS: 1, settings.HEADER_TABLE_SIZE: 0}
    pair.server.update_settings(few)
    pair.turn()
    first = pair.client.request(PATH, bytes(300), Sink())
    waiting = pair.client.request(PATH, b"", Sink())
    pair.turn()
    assert (first.id, waiting.id) == (1, 0)
    assert sum(len(event.data) for event in pair.seen(h2.events.DataReceived)) == 100
    assert pair.seen(h2.events.SettingsAcknowledged)
    pair.server.update_settings({settings.INITIAL_WINDOW_SIZE: 1000})
    pair.turn()
    assert sum(len(event.data) for event in pair.seen(h2.events.DataReceived)) == 305


def test_a_reset_and_a_goaway_are_understood() -> None:
    pair, sinks = Pair(), [Sink(), Sink()]
    streams = [pair.client.request(PATH, b"", sink) for sink in sinks]
    pair.turn()
    pair.server.reset_stream(streams[0].id, error_code=8)
    pair.turn()
    assert isinstance(sinks[0].error, WorkerGone)
    pair.server.close_connection(last_stream_id=1)
    pair.turn()
    assert isinstance(sinks[1].error, WorkerGone)
    assert pair.client.over


def test_our_ping_is_answered() -> None:
    pair = Pair(EnginesConfig(ping_interval_s=5, ping_timeout_s=5))
    pair.client.request(PATH, b"", Sink())
    pair.turn()
    pair.client.tick(0)
    pair.client.tick(5)
    pair.turn()
    assert pair.client.tick(10) == 5
    assert pair.client.failure is None


@pytest.mark.parametrize("size", [0, 1, 5, 100, 16_379, 16_380, 20_000])
def test_messages_of_sizes_around_a_frame(size: int) -> None:
    pair, sink = Pair(), Sink()
    stream = pair.client.request(PATH, b"", sink)
    pair.turn()
    pair.server.send_headers(stream.id, OK_HEAD)
    body = prefixed(bytes(size))
    for at in range(0, len(body), 16_384):
        pair.server.send_data(stream.id, body[at : at + 16_384])
    pair.turn()
    assert sink.got == [bytes(size)]
