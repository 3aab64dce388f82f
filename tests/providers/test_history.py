"""Histories that the gateway keeps, before a provider that signs its reasoning: the next turn has the signature in its place."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.providers.answers import FORMATS, SIGNATURE
from tests.providers.client_apis import APIS
from tests.providers.houses import House, before

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module", params=FORMATS)
async def house(request: pytest.FixtureRequest) -> AsyncIterator[House]:
    async with before(FORMATS[request.param]) as found:
        yield found


@pytest.mark.parametrize("case", ["thinking_tool", "hidden_tool"])
async def test_a_response_is_gone_on_with_by_its_id(house: House, case: str) -> None:
    house.says(case)
    tools = APIS["Responses"].fields["tool"]["tools"]
    fields: dict[str, Any] = {"model": "m", "tools": tools, "reasoning": {"effort": "medium"}}
    first = (await house.http.post("/v1/responses", json={**fields, "input": "Hi"})).json()
    call = next(each for each in first["output"] if each["type"] == "function_call")
    house.says("text")

    result = {"type": "function_call_output", "call_id": call["call_id"], "output": "sunny"}
    again = await house.http.post(
        "/v1/responses", json={**fields, "previous_response_id": first["id"], "input": [result]}
    )

    assert again.status_code == 200, again.text
    sent = house.provider.asked[0].body.decode()
    assert SIGNATURE in sent
    assert "sunny" in sent
    assert "reasoning" not in again.headers.get("x-smg-lossy", "")


@pytest.mark.parametrize("case", ["thinking_tool", "hidden_tool"])
async def test_an_interaction_is_gone_on_with_by_its_id(house: House, case: str) -> None:
    house.says(case)
    fields = {**APIS["Interactions"].body("thinking_tool"), "store": True}
    first = (await house.http.post("/v1beta/interactions", json=fields)).json()
    call = next(each for each in first["outputs"] if each["type"] == "function_call")
    house.says("text")

    result = {"type": "function_result", "call_id": call["id"], "name": call["name"], "result": "sunny"}
    asked = {**fields, "previous_interaction_id": first["id"], "input": [result]}
    again = await house.http.post("/v1beta/interactions", json=asked)

    assert again.status_code == 200, again.text
    assert SIGNATURE in house.provider.asked[0].body.decode()
