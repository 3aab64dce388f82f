"""How much work a worker has, as a number of prompt tokens."""

import pytest
from tests.core.routing.candidates import Seen, asking

from smg_core.routing.settings import RoutingConfig
from smg_core.routing.work import Work

SETTINGS = RoutingConfig(answer_tokens=50)


@pytest.mark.parametrize("lengths", [[100], [100] * 50, [40, 40, 100, *[100] * 400]])
def test_requests_that_wait_in_an_engine_count_as_prompts_of_the_mean_length(lengths: list[int]) -> None:
    work = Work(SETTINGS)
    for length in lengths:
        work.note(asking(range(length)))

    assert work.of(Seen("a", queued=3)) == pytest.approx(3 * 100 + 3 * 50, rel=0.01)


def test_the_mean_follows_slowly() -> None:
    work = Work(SETTINGS)
    for length in [100] * 10 + [1100]:
        work.note(asking(range(length)))

    assert work.of(Seen("a", queued=1)) == pytest.approx(120 + 50)
