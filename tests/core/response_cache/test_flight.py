"""Requests that follow one generation are each told all of it, at their own pace, whatever the others do."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from smg_core.errors import EngineGarbled, InvalidRequest, SmgError
from smg_core.events import Event, Finished, Started, TextDelta, TextEnd, Usage
from smg_core.pipeline.answer.attempt import Attempt
from smg_core.response_cache.flight import Flight, Follower, NotShared, _FlightReader
from smg_core.response_cache.packing import CachedAnswer

pytestmark = pytest.mark.anyio

EVENTS: list[Event] = [*(TextDelta(0, f"{number} ") for number in range(100)), TextEnd(0), Finished(0, "stop")]


class Taken:
    """Takes the events of one request."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.over = False

    def take(self, events: Sequence[Event], over: bool) -> None:
        self.events += events
        self.over = self.over or over


def follow(flight: Flight, *, live: bool = True, leads: bool = False) -> tuple[Taken, Attempt[Any], Follower]:
    taken = Taken()
    attempt: Attempt[Any] = Attempt(_FlightReader(flight, 0, free=not leads), taken)
    follower = Follower(flight, attempt, live=live, leads=leads)
    flight.join(follower)
    attempt.reads_from(follower)
    follower.tell()
    return taken, attempt, follower


async def told() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def test_all_are_told_all_of_it_those_that_come_late_and_those_that_wait_for_the_end_too() -> None:
    flight = Flight()
    first, _, _ = follow(flight)
    whole, _, _ = follow(flight, live=False)
    flight.add(EVENTS[:40])
    await told()
    late, attempt, _ = follow(flight)
    flight.add(EVENTS[40:])
    await told()
    assert not whole.events
    assert flight.seen
    flight.end()
    await told()
    for each in (first, whole, late):
        assert each.events == EVENTS
        assert each.over
    assert attempt.state == "complete"


async def test_one_that_reads_nothing_holds_up_nobody_and_reads_the_rest_later() -> None:
    flight = Flight()
    slow, attempt, follower = follow(flight)
    quick, _, _ = follow(flight)
    attempt.pause()
    flight.add(EVENTS)
    flight.end()
    await told()
    assert quick.events == EVENTS
    assert not slow.events
    attempt.resume()
    await told()
    assert slow.events == EVENTS
    assert not follower.paused


async def test_who_leaves_changes_nothing_until_the_last_one_does() -> None:
    left: list[Flight] = []
    flight = Flight(on_left=left.append)
    _, one, _ = follow(flight)
    _, two, _ = follow(flight)
    one.release()
    assert not left
    two.release()
    assert left == [flight]


OURS, THEIRS = EngineGarbled("The engine is lost."), InvalidRequest("No.", param="messages")


@pytest.mark.parametrize(("failure", "told_of"), [(OURS, NotShared), (THEIRS, InvalidRequest)])
async def test_a_failure_is_the_leader_s_and_others_try_alone_unless_they_are_to_blame(
    failure: SmgError, told_of: type[SmgError]
) -> None:
    flight = Flight()
    _, leader, _ = follow(flight, leads=True)
    _, other, _ = follow(flight)
    flight.end(failure)
    assert leader.error is failure
    assert isinstance(other.error, told_of)


async def test_who_has_seen_a_part_is_told_the_failure_itself() -> None:
    flight = Flight()
    taken, attempt, _ = follow(flight)
    flight.add(EVENTS[:3])
    flight.end(OURS)
    assert taken.events == EVENTS[:3]
    assert attempt.error is OURS


async def test_a_kept_answer_is_told_like_any_other_with_all_of_its_prompt_cached() -> None:
    flight = Flight.of(CachedAnswer(Started(7, 2, "m"), tuple(EVENTS), Usage(7, 9, 2), {}, 1.0))
    taken, attempt, _ = follow(flight)
    await told()
    assert taken.events == EVENTS
    assert attempt.usage() == Usage(7, 9, 7)
    assert (attempt.reader.prompt_tokens, attempt.reader.cached_tokens) == (7, 7)
