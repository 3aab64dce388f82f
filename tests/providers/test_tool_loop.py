"""Tools that run in the gateway, before a provider that signs its reasoning: each turn has the signature of the one before."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.gateway.test_chat_tool_loop import chat_config
from tests.gateway.test_tool_loop import NOTES
from tests.gateway.tool_server import tool_server
from tests.providers.answers import FORMATS, SIGNATURE
from tests.providers.fake import Heard, Said
from tests.providers.houses import House, before

pytestmark = pytest.mark.anyio

ASKED: dict[str, tuple[str, dict[str, Any]]] = {
    "Chat Completions": ("/v1/chat/completions", {"messages": [{"role": "user", "content": "Go!"}]}),
    "Responses": ("/v1/responses", {"input": "Go!", "store": False}),
}


@pytest.fixture(scope="module", params=FORMATS)
async def house(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[House]:
    async with tool_server() as tools:
        config = chat_config(tmp_path_factory.mktemp("mcp"), tools)
        async with before(FORMATS[request.param], config) as found:
            yield found


def offered(heard: Heard) -> str:
    """The name by which the provider was offered the server's tool `add`."""
    said = heard.body.decode()
    at = said.index('add"')
    return said[said.rindex('"', 0, at) + 1 : at + 3]


@pytest.mark.sampled(keep=2)
@pytest.mark.parametrize("api", ASKED)
@pytest.mark.parametrize("case", ["thinking_tool", "hidden_tool"])
async def test_a_turn_goes_back_with_its_signature(house: House, api: str, case: str) -> None:
    form = house.form

    def says(heard: Heard) -> Said:
        if len(house.provider.asked) > 1:
            return Said(form.streams["text"])
        called = form.streams[case].replace(b"get_weather", offered(heard).encode())
        return Said(called)

    house.provider.script = says
    house.provider.heard.clear()
    path, body = ASKED[api]

    answer = await house.http.post(path, json={**body, "model": "m", "tools": [NOTES]})

    assert answer.status_code == 200, answer.text
    assert "Hello" in answer.text
    first, second = house.provider.asked
    assert SIGNATURE not in first.body.decode()
    assert SIGNATURE in second.body.decode()
    assert "reasoning" not in answer.headers.get("x-smg-lossy", "")


@pytest.mark.sampled(keep=2)
@pytest.mark.parametrize("api", ASKED)
async def test_a_demanded_tool_is_demanded_of_the_first_turn_alone(house: House, api: str) -> None:
    form = house.form

    def says(heard: Heard) -> Said:
        if len(house.provider.asked) > 1:
            return Said(form.streams["text"])
        return Said(form.streams["tool"].replace(b"get_weather", offered(heard).encode()))

    house.provider.script = says
    house.provider.heard.clear()
    path, body = ASKED[api]

    answer = await house.http.post(path, json={**body, "model": "m", "tools": [NOTES], "tool_choice": "required"})

    assert answer.status_code == 200, answer.text
    first, second = (each.body.decode() for each in house.provider.asked)
    demands = ('"any"', '"ANY"', '"required"')
    assert any(f":{each}" in first for each in demands), first
    assert not any(f":{each}" in second.replace('"required":', "") for each in demands), second
