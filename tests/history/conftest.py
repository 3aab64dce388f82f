"""The stores that the conformance suite runs on, each on data of its own."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from tests.history.conformance import Backend, Open

from smg_core.history.memory import MemoryStore
from smg_core.testing import FakeClock

BACKENDS = ["memory"]
MOST_LINKS, MOST_LINK_BYTES = 200, 5_000_000


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture(params=BACKENDS)
def opened(request: pytest.FixtureRequest, clock: FakeClock) -> Open:
    """Opens the store of the test anew; what was written before is still there."""
    memory = MemoryStore(clock, most_bytes=100_000_000, most_links=MOST_LINKS, most_link_bytes=MOST_LINK_BYTES)

    @asynccontextmanager
    async def open_memory() -> AsyncIterator[Backend]:
        yield memory

    return open_memory


@pytest.fixture
async def store(opened: Open) -> AsyncIterator[Backend]:
    async with opened() as backend:
        yield backend
