"""Every bound at its least, one by one and all together: requests are answered or refused, and nothing is the gateway's fault."""

import asyncio
import logging
from collections.abc import Iterator
from typing import Any

import attrs
import pytest
from tests.gateway.conftest import House, over_http, settled
from tests.gateway.test_fuzz import Traces
from tests.gateway.test_stream_faults import APIS, Api
from tests.shared import PATIENCE

from smg_core import Config

pytestmark = pytest.mark.anyio

SECTIONS = ("limits", "history", "responses", "structured", "timeouts")
TOGETHER = ("limits", "history", "responses")
"""Sections whose bounds leave something to do when all are at their least."""


def least(section: str) -> dict[str, Any]:
    """The least value of each number of a section."""
    usual = getattr(Config(), section)
    found = {}
    for field in attrs.fields(type(usual)):
        bound, value = field.metadata.get("at_least"), getattr(usual, field.name)
        if bound is not None and isinstance(value, int | float):
            found[field.name] = type(value)(bound)
    return found


def one_by_one() -> Iterator[tuple[str, dict[str, Any]]]:
    for section in SECTIONS:
        for name, value in least(section).items():
            yield section, {name: value}


async def told(house: House, api: Api) -> str:
    """What becomes of a request: how its stream ends, or the status of its refusal."""
    async with (
        asyncio.timeout(PATIENCE),
        api.open(house, api.body | {"store": False} if api.name == "socket" else api.body) as answer,
    ):
        events = [event async for event in answer.events]
    if answer.status != 200:
        assert "error" in events[0]
        return str(answer.status)
    ends = [api.terminal(event) for event in events]
    assert [each for each in ends if each is not None] == ends[-1:], events
    return str(ends[-1])


async def check(section: str, changes: dict[str, Any]) -> None:
    config = Config()
    config = attrs.evolve(config, **{section: attrs.evolve(getattr(config, section), **changes)})
    traces = Traces()
    logging.getLogger().addHandler(traces)
    try:
        async with over_http(config=config) as house:
            ends = {api.name: await told(house, api) for api in APIS}
            alive = await house.http.get("/health")
            await settled(house)
    finally:
        logging.getLogger().removeHandler(traces)

    assert traces.found == []
    assert {name: end for name, end in ends.items() if end in ("500", "502")} == {}
    assert alive.status_code == 200


@pytest.mark.parametrize("section", TOGETHER)
async def test_with_all_bounds_of_a_section_at_their_least_requests_are_answered_or_refused(section: str) -> None:
    await check(section, least(section))


@pytest.mark.slow
@pytest.mark.parametrize(("section", "changes"), [*one_by_one()], ids=str)
async def test_with_a_bound_at_its_least_requests_are_answered_or_refused(
    section: str, changes: dict[str, Any]
) -> None:
    await check(section, changes)
