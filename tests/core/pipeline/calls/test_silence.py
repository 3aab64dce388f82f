"""How long an engine may say nothing, played by hand."""

from collections.abc import Callable, Sequence
from typing import Any, cast

import attrs
import pytest

from smg_core.errors import EngineStalled, SmgError
from smg_core.pipeline.answer.attempt import Attempt
from smg_core.pipeline.calls.silence import Watch
from smg_core.pipeline.flow.timeouts import Timeouts


class Clockwork:
    """Time that moves when it is told to, and calls back."""

    def __init__(self) -> None:
        self.now = 0.0
        self.due: list[tuple[float, Callable[[], None]]] = []

    def call_later(self, seconds: float, callback: Callable[[], None]) -> "Clockwork":
        self.due.append((self.now + seconds, callback))
        return self

    def cancel(self) -> None:
        self.due.clear()

    def pass_by(self, seconds: float) -> None:
        end = self.now + seconds
        while self.due and self.due[0][0] <= end:
            self.now, callback = self.due.pop(0)
            callback()
        self.now = end


@attrs.define
class Call:
    """As much of an attempt as is watched."""

    pushes: int = 0
    beats: int = 0
    paused: bool = False
    silent: bool = False
    over: bool = False
    errors: list[SmgError] = attrs.field(factory=list)

    def end(self, error: SmgError) -> None:
        self.over = True
        self.errors.append(error)


def watched(first: float | None, between: float | None) -> tuple[Call, Clockwork, Watch]:
    call, clock = Call(), Clockwork()
    timeouts = Timeouts(first_token=first, token=between)
    return call, clock, Watch(cast("Attempt[Any]", call), timeouts, clock.call_later)


def test_an_engine_that_brings_no_first_token_is_given_up_when_its_time_is_over() -> None:
    call, clock, _ = watched(8.0, 2.0)
    clock.pass_by(7.9)
    assert not call.over
    clock.pass_by(0.1)

    assert [type(error) for error in call.errors] == [EngineStalled]
    assert call.errors[0].another_worker_may_do


def test_an_engine_that_stops_between_two_tokens_is_given_up_within_half_a_bound_more() -> None:
    call, clock, _ = watched(100.0, 2.0)
    for _ in range(30):
        call.pushes += 1
        clock.pass_by(1.9)
    assert not call.over
    clock.pass_by(2.0 + 1.0)

    assert call.over


def test_an_engine_that_is_held_back_is_not_waited_for() -> None:
    call, clock, _ = watched(8.0, 2.0)
    call.pushes, call.paused = 1, True
    clock.pass_by(1000.0)
    assert not call.over
    call.paused = False
    clock.pass_by(3.0)

    assert call.over


@pytest.mark.parametrize("bounds", [(None, None), (None, 2.0), (2.0, None)])
def test_a_bound_that_is_not_set_bounds_nothing(bounds: Sequence[float | None]) -> None:
    call, clock, _ = watched(*bounds)
    call.pushes = 0 if bounds[0] is None else 1
    clock.pass_by(1000.0)

    assert not call.over


def test_nothing_is_looked_at_once_it_is_over_or_stopped() -> None:
    call, clock, watch = watched(8.0, 2.0)
    call.over = True
    clock.pass_by(1.0)
    assert not clock.due

    call, clock, watch = watched(8.0, 2.0)
    watch.stop()
    clock.pass_by(1000.0)
    assert not call.errors


def test_an_engine_that_says_it_is_at_work_is_not_given_up() -> None:
    call, clock, _ = watched(8.0, 2.0)
    for _ in range(9):
        clock.pass_by(1.0)
        call.beats += 1
    assert not call.over
    call.pushes = 1
    for _ in range(9):
        clock.pass_by(1.0)
        call.beats += 1
    assert not call.over
    clock.pass_by(3.0)
    assert call.over


def test_an_engine_that_says_all_at_once_is_waited_for() -> None:
    call, clock, _ = watched(8.0, 2.0)
    call.silent = True
    clock.pass_by(500.0)

    assert not call.over
