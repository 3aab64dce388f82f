"""The decisions of several processes, asked of any of them."""

import asyncio
import math
from collections.abc import Callable

import pytest
from tests.core.routing.candidates import Seen, asking

from smg_core.channel.local import LocalChannel
from smg_core.channel.settings import ChannelConfig
from smg_core.clock import random_ids
from smg_core.errors import NotFound
from smg_core.operation.decision_lookup import Decided
from smg_core.operation.process_table import ProcessState, ProcessTable
from smg_core.routing import Decisions, Pick

pytestmark = pytest.mark.anyio


class House:
    """Processes that share a channel: so many, of which `silent` more do not answer."""

    def __init__(self, count: int, *, silent: int = 0, message_bytes: int = 256 * 1024) -> None:
        self.channel = LocalChannel(ChannelConfig(message_bytes=message_bytes))
        cells = [0] * ProcessTable.size(count + silent + 1)  # and a row that no process has
        for own in range(count + silent):
            ProcessTable(cells, count + silent + 1, own).write(ProcessState(100 + own, 1, 1, 1, 0, 0, 0))
        self.decisions = [Decisions(10, 1 << 20) for _ in range(count)]
        self.timers: list[Callable[[], None]] = []
        self.decided = [
            Decided(
                each,
                self.channel,
                ProcessTable(cells, count + silent + 1, own),
                ids=random_ids(),
                call_later=self._call_later,
                wait_s=5,
            )
            for own, each in enumerate(self.decisions)
        ]

    def _call_later(self, seconds: float, call: Callable[[], None]) -> asyncio.TimerHandle:
        self.timers.append(call)
        return asyncio.get_running_loop().call_later(3600, call)

    def note(self, process: int, name: str, count: int = 1) -> None:
        workers = [Seen(f"w{number}") for number in range(count)]
        pick = Pick(workers[0], scores=[math.inf] * count, stale=[None] * count, why="least to do")
        self.decisions[process].note(workers, asking(name=name), pick, "mine", 1, 5.0)


async def test_every_process_knows_the_decisions_of_all() -> None:
    house = House(3)
    for process in range(3):
        house.note(process, f"r{process}", 4)

    for one in house.decided:
        for process in range(3):
            assert await one.of(f"r{process}") == house.decisions[process].of(f"r{process}")


async def test_where_no_process_has_any_all_have_said_so() -> None:
    assert await House(3).decided[1].of("nobody's") == []
    assert await House(1).decided[0].of("nobody's") == []


async def test_a_process_that_does_not_answer_is_waited_for_no_longer_than_is_set() -> None:
    house = House(2, silent=1)
    house.note(1, "r")
    assert len(await house.decided[0].of("r")) == 1

    asked = asyncio.create_task(house.decided[0].of("nobody's"))
    while len(house.timers) < 2:
        await asyncio.sleep(0)
    house.timers[1]()
    assert await asked == []


async def test_decisions_that_are_larger_than_a_message_are_said_to_be_so() -> None:
    house = House(2, message_bytes=1024)
    house.note(1, "r", count=200)

    with pytest.raises(NotFound, match=r"channel\.message_bytes"):
        await house.decided[0].of("r")
