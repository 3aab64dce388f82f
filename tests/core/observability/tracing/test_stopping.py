"""A gateway that stops waits no longer for its collector than `traces.stop_s` says, whatever hangs."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg_core.observability.settings import TracesConfig
from smg_core.testing import FakeClock

exporting = pytest.importorskip("smg_core.observability.tracing.exporting")


class Hanging:
    """A thread that never ends: whoever waits for it waits as long as it says."""

    def __init__(self, clock: FakeClock) -> None:
        self._clock = clock
        self.waits: list[float] = []

    def join(self, seconds: float) -> None:
        self.waits.append(seconds)
        self._clock.advance(seconds)


class Closing:
    """An exporter whose end takes so many seconds."""

    def __init__(self, clock: FakeClock, seconds: float) -> None:
        self._clock, self._seconds = clock, seconds

    def shutdown(self) -> None:
        self._clock.advance(self._seconds)


@given(st.floats(0, 300), st.floats(0, 1))
def test_a_stop_takes_no_longer_than_the_setting_and_the_closing_of_the_channel(most: float, closing: float) -> None:
    clock = FakeClock()
    thread = Hanging(clock)
    sending = exporting.SpanSending(
        TracesConfig(stop_s=most),
        exporting.SpanQueue(1, 1),
        Closing(clock, closing),
        exporting.resource_of(TracesConfig()),
        clock=clock,
        bits=random.getrandbits,
        on_lost=lambda requests, why: None,
        repeats_s=60.0,
        operations={},
    )
    sending._thread = thread
    began = clock.monotonic()
    sending.stop()

    assert clock.monotonic() - began <= max(most, most / 2 + closing) + 1e-6
    assert thread.waits[0] >= most / 2
