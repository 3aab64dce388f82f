"""A worker that has as much as it takes is no candidate; where all have, the request is refused for now."""

from math import inf
from typing import Any

import attrs
import pytest

from smg_core.errors import Overloaded
from smg_core.workers.room import room, with_room
from smg_core.workers.settings import WorkersConfig
from smg_core.workers.worker import WorkerSpec

UNBOUNDED = WorkerSpec("grpc://a:1")


@attrs.frozen
class Loaded:
    in_flight: int = 0
    prefill_tokens: int = 0
    spec: WorkerSpec = UNBOUNDED


IDLE, BUSY, READING = Loaded(), Loaded(in_flight=4), Loaded(in_flight=1, prefill_tokens=1000)


def test_without_bounds_every_worker_has_room() -> None:
    assert with_room((IDLE, BUSY, READING), WorkersConfig(), 1.0) == (IDLE, BUSY, READING)


def test_a_worker_with_as_many_requests_as_it_takes_gets_no_further_one() -> None:
    assert with_room((IDLE, BUSY, READING), WorkersConfig(most_in_flight=4), 1.0) == (IDLE, READING)


def test_a_worker_with_as_many_waiting_prompt_tokens_as_it_takes_gets_no_further_one() -> None:
    assert with_room((IDLE, BUSY, READING), WorkersConfig(most_waiting_tokens=1000), 1.0) == (IDLE, BUSY)


def test_where_all_are_full_the_refusal_says_when_to_come_again() -> None:
    with pytest.raises(Overloaded) as refused:
        with_room((BUSY, READING), WorkersConfig(most_in_flight=4, most_waiting_tokens=1000), 2.5)

    assert (refused.value.status, refused.value.retry_after) == (503, 2.5)


@pytest.mark.parametrize(
    ("workers", "bounds", "together"),
    [
        ((), {}, (0, 0)),
        ((), {"most_in_flight": 4}, (0, 0)),
        ((IDLE, BUSY), {}, (inf, inf)),
        ((IDLE, BUSY, READING), {"most_in_flight": 4}, (7, inf)),
        ((IDLE, BUSY, READING), {"most_in_flight": 2}, (3, inf)),
        ((IDLE, READING), {"most_waiting_tokens": 600}, (inf, 600)),
    ],
)
def test_the_room_of_several_workers_is_what_each_has_left(workers: Any, bounds: Any, together: Any) -> None:
    assert room(workers, WorkersConfig(**bounds)) == together


def test_a_workers_own_bounds_come_before_those_of_the_settings() -> None:
    own = Loaded(in_flight=4, spec=WorkerSpec("grpc://a:1", most_in_flight=5))
    full = Loaded(in_flight=4, spec=WorkerSpec("grpc://a:1", most_in_flight=2))
    reading = Loaded(prefill_tokens=50, spec=WorkerSpec("grpc://a:1", most_waiting_tokens=50))

    assert with_room((own, full, reading), WorkersConfig(most_in_flight=4), 1.0) == (own,)
    assert with_room((own, BUSY), WorkersConfig(), 1.0) == (own, BUSY)
    assert room((own, full, reading), WorkersConfig()) == (inf, inf)
    assert room((own, full), WorkersConfig(most_in_flight=9)) == (1, inf)
