"""Responses in the background over a database's server: what a killed process has left is run again by the next."""

import pytest
from tests.gateway.test_background_processes import check_killed

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


@pytest.mark.parametrize("database", ["postgresql", "valkey"])
async def test_what_a_killed_process_has_left_is_run_again(request: pytest.FixtureRequest, database: str) -> None:
    await check_killed(request.getfixturevalue(database))
