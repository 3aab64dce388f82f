"""How often a provider is asked whether it is well, and what of its answers says that it is not."""

from typing import Any

import pytest
from tests.providers.answers import FORMATS
from tests.providers.fake import Said, providing
from tests.providers.houses import before

from smg_core.credentials.renewal.fields import Unsigned
from smg_core.engines.vendors.anthropic.format import MessagesFormat
from smg_core.engines.vendors.engine import ProviderEngine

pytestmark = pytest.mark.anyio


@pytest.mark.full
@pytest.mark.parametrize("kind", FORMATS)
async def test_a_provider_that_is_well_is_not_asked_again_at_once(kind: str) -> None:
    async with before(FORMATS[kind]) as house:
        engine: Any = next(iter(house.gateway.registry)).engine
        house.provider.heard.clear()

        assert [await engine.health() for _ in range(3)] == [True] * 3
        assert len(house.provider.heard) <= 1


@pytest.mark.parametrize(("status", "well"), [(401, False), (404, False), (500, False), (429, True)])
async def test_what_a_provider_answers_says_whether_it_is_well(status: int, well: bool) -> None:
    async with providing(lambda _: Said(b"{}", status, "application/json")) as provider:
        engine = ProviderEngine(provider.url, MessagesFormat(), Unsigned(), model="m")

        assert await engine.health() is well
        assert await engine.health() is well
        assert len(provider.heard) == (1 if well else 2)
        await engine.close()
